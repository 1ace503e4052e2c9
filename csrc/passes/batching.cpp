#include "passes/batching.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "ops/common.h"
#include "ops/shape_common.h"

namespace thunder {
namespace {

// Dimensions behind the batch's.
std::vector<int64_t> behind(std::vector<int64_t> dims, int64_t rank) {
  for (int64_t& d : dims) d += d < 0 ? rank + 1 : 1;
  return dims;
}

std::vector<int64_t> with_batch(std::vector<int64_t> dims, int64_t rank) {
  dims = behind(std::move(dims), rank);
  dims.insert(dims.begin(), 0);
  return dims;
}

Dims in_front(const Dim& first, Dims rest) {
  rest.insert(rest.begin(), first);
  return rest;
}

// Whether an as_strided() is an expand() of one element.
bool expands_element(const Call& call) {
  if (call.op->full_name != "prims.as_strided" || !call.arguments()["storage_offset"].is_none()) return false;
  const Dims& strides = call.output.value().tensor().strides;
  return call.args[0].value().rank() == 0 &&
         std::all_of(strides.begin(), strides.end(), [](const Dim& d) { return d.same(0); });
}

// On a GPU eager draws the mask that all samples share by another kernel than a mask for each.
bool drops_otherwise(const Call& call) {
  return call.op->full_name == "prims.bernoulli_like" && call.args[0].value().tensor().device.type == DeviceType::cuda;
}

// Parameters of records that have something to say of dimensions, by their names.
struct DimParam {
  enum Names : uint8_t { Dim, Dims, AllDims, Sizes, Starts, Steps };
  std::string_view name;
  Names names;
};
constexpr DimParam kDimParams[] = {
    {"dim", DimParam::Dim},
    {"dim1", DimParam::Dim},
    {"dim2", DimParam::Dim},
    {"dimension", DimParam::Dim},
    {"dims", DimParam::Dims},
    {"permutation", DimParam::AllDims},
    {"broadcast_dims", DimParam::AllDims},
    {"shape", DimParam::Sizes},
    {"end_indices", DimParam::Sizes},
    {"start_indices", DimParam::Starts},
    {"strides", DimParam::Steps},
};

bool is_same(const IndexMap::Term& a, const IndexMap::Term& b) { return a.dim == b.dim && a.factor.same(b.factor); }

// Whether the batch's map reads each sample by the sample's map.  A dimension without terms repeats one element: which
// dimensions do so depends on strides, in which a sample and the batch may differ.
bool reads_samples(const IndexMap& batch, const IndexMap& sample) {
  if (batch.row_major || batch.places.size() != sample.places.size() + 1) return false;
  for (size_t i = 0; i < batch.places.size(); ++i) {
    IndexMap::Place wanted = i == 0 ? IndexMap::Place{.terms = {{0}}} : sample.places[i - 1];
    if (i > 0)
      for (IndexMap::Term& t : wanted.terms) ++t.dim;
    const IndexMap::Place& made = batch.places[i];
    if (!made.offset.same(wanted.offset)) return false;
    if (made.terms.empty() || wanted.terms.empty()) continue;
    if (!std::equal(made.terms.begin(), made.terms.end(), wanted.terms.begin(), wanted.terms.end(), is_same))
      return false;
  }
  return true;
}

int64_t dim_behind(const Args& a, int64_t rank) { return behind({a.integer("dim")}, rank)[0]; }

}  // namespace

TensorType sample_of(const TensorType& batch) {
  TensorType t = batch;
  t.shape.erase(t.shape.begin());
  t.strides.erase(t.strides.begin());
  return t;
}

Expr Batching::whole(Value v) {
  if (is_batch(v)) return b_.expr(batches_[v]);
  std::vector<int64_t> dims;
  for (int64_t d = 1; d <= v.rank(); ++d) dims.push_back(d);
  return b_("prims.broadcast_in_dim", v, in_front(size_, v.shape()), Arg(dims));
}

bool Batching::put(const Call& call) {
  if (put_call(call)) return true;
  if (!unknown_) unknown_ = call.op;
  return false;
}

bool Batching::put_call(const Call& call) {
  bool any = false;
  visit_outer_inputs(call, [&](Value v) { any = any || is_batch(v); });
  if (!any) return put_shared(call);
  if (put_by(&Batching::narrow_at, call) || put_by(&Batching::drawn, call)) return true;
  if (effects(call) && (call.op->is_prim() || call.body.empty())) return false;
  if (put_by(&Batching::in_windows, call)) return true;
  if (call.op->is_prim()) return put_by(&Batching::batched, call);
  // A composite that made no call does nothing but hand on its argument, and is none.
  return !call.body.empty() &&
         std::all_of(call.body.begin(), call.body.end(), [&](const Call* inner) { return put(*inner); });
}

// What depends on no sample, but for random numbers.
bool Batching::put_shared(const Call& call) {
  const uint64_t does = effects(call);
  const bool once = call.body.empty() && randomness_ == Randomness::Same && !drops_otherwise(call);
  if (does == 0 || (does == kRandom && once)) {
    b_.append(&call);
    return true;
  }
  if (does != kRandom || randomness_ == Randomness::Refused) return false;
  if (call.body.empty()) return put_by(&Batching::drawn, call);
  return std::all_of(call.body.begin(), call.body.end(), [&](const Call* inner) { return put(*inner); });
}

// As eager draws: one call for the batch, or for a sample.
Arg Batching::drawn(const Call& call) {
  if (!call.op->is_prim() || effects(call) != kRandom || randomness_ == Randomness::Refused) return {};
  const std::string& name = call.op->full_name;
  const Args a = call.arguments();
  const bool own = randomness_ == Randomness::Different;
  if (name == "prims.bernoulli_like") {
    const Value x = a.value("a");
    if (own) {
      const Expr batch = whole(x);
      const TensorType& t = batch.tensor();
      // Numbers are drawn in the order of memory, and eager has not the layouts that a rule may give.
      if (!is_batch(x) || !is_contiguous(x.tensor()) || is_contiguous(t)) return b_(name, batch, a["p"]);
      return b_(name, ops::full(b_, t.shape, 0.0, t.dtype, t.device), a["p"]);
    }
    if (drops_otherwise(call) || !is_batch(x)) return {};
    const Expr batch = b_.expr(now(x));
    if (size_.same(0)) return {};
    std::vector<int64_t> dims(static_cast<size_t>(x.rank()));
    std::iota(dims.begin(), dims.end(), 1);
    const Expr first = ops::squeeze_dims(ops::slice_dim(batch, 0, 0, 1), {0});
    return b_("prims.broadcast_in_dim", b_(name, first, a["p"]), batch.shape(), Arg(dims));
  }
  if (!own || (name != "prims.uniform" && name != "prims.normal" && name != "prims.randint")) return {};
  ArgList args = call.args;
  Arg& shape = args[static_cast<size_t>(call.op->schema.index_of("shape"))];
  shape = in_front(size_, a.dims("shape"));
  return b_.call(*call.op, std::move(args));
}

bool Batching::put_by(RuleOf rule, const Call& call) {
  std::vector<Value> out = values_in(call.output);
  bool recorded = false;
  for (Value v : out) recorded |= v.requires_grad();
  const bool before = b_.grad_enabled();
  b_.set_grad_enabled(before && recorded);
  const Arg result = (this->*rule)(call);
  b_.set_grad_enabled(before);
  const std::vector<Value> made = values_in(result);
  if (made.size() != out.size() || made.empty()) return false;
  for (size_t i = 0; i < out.size(); ++i) {
    if (!out[i].type().is_tensor()) return false;
    const TensorType& t = made[i].tensor();
    if (t.dtype != out[i].dtype() || !ops::equal(t.shape, in_front(size_, out[i].shape()))) return false;
    set(out[i], made[i]);
  }
  return true;
}

// With one weight it is one product, and so it is where all weights meet the same input.
Arg Batching::linear(const Args& a) {
  const Value x = a.value("a"), w = a.value("w");
  const bool has_bias = a.has("bias"), adds_apart = is_batch(w) || (has_bias && is_batch(a.value("bias")));
  if (!adds_apart) return b_("prims.linear", whole(x), w, a["bias"]);
  const Dim &rows = w.shape()[0], &inner = w.shape()[1];
  Dims out = x.shape();
  out.back() = rows;
  Expr y = whole(x);
  if (!is_batch(w)) y = b_("prims.linear", y, w, Arg());
  else if (is_batch(x)) {
    const Dim count = product(Dims(x.shape().begin(), x.shape().end() - 1));
    const Expr transposed = b_("prims.transpose", whole(w), Arg(std::vector<int64_t>{0, 2, 1}));
    y = ops::reshape(b_("prims.matmul", ops::reshape(y, {size_, count, inner}), transposed), in_front(size_, out));
  } else {
    y = b_("prims.linear", x, ops::reshape(whole(w), {size_ * rows, inner}), Arg());
    Dims apart = out;
    apart.insert(apart.end() - 1, size_);
    std::vector<int64_t> order(apart.size());
    std::iota(order.begin(), order.end(), -1);
    order[0] = x.rank() - 1;
    order.back() = x.rank();
    y = b_("prims.transpose", ops::reshape(y, apart), Arg(order));
  }
  if (!has_bias) return y;
  const Value bias = a.value("bias");
  const std::vector<int64_t> last = {x.rank()};
  const Arg dims = is_batch(bias) ? Arg(with_batch({x.rank() - 1}, 0)) : Arg(last);
  const Expr added = is_batch(bias) ? whole(bias) : b_.expr(bias);
  return b_("prims.add", y, b_("prims.broadcast_in_dim", added, in_front(size_, out), dims));
}

// A matrix that all samples share meets the rows of all.
Arg Batching::matmul(const Args& a) {
  const Value x = a.value("a"), y = a.value("b");
  if (is_batch(y) || y.rank() != 2) return b_("prims.matmul", whole(x), whole(y));
  const Dims out = {size_, x.shape()[0], y.shape()[1]};
  return ops::reshape(b_("prims.matmul", in_rows(x), y), out);
}

Arg Batching::batched(const Call& call) {
  const Args a = call.arguments();
  const std::string& name = call.op->full_name;
  if (call.op->has(kPointwise) && !call.op->has(kCreation)) {
    ArgList args;
    for (const Arg& x : call.args) args.push_back(x.is_tensor() ? whole(x.value()).arg() : x);
    return b_.call(*call.op, std::move(args));
  }
  if (name == "prims.cat") {
    ArgList parts;
    for (Value v : a.values("tensors")) parts.push_back(whole(v));
    return b_(name, Arg::list(std::move(parts)), dim_behind(a, call.output.value().rank()));
  }
  if (name == "prims.matmul") return matmul(a);
  if (name == "prims.linear") return linear(a);
  for (RuleOf rule : {&Batching::along_dim, &Batching::indexed, &Batching::moved, &Batching::reduced})
    if (const Arg result = (this->*rule)(call); !result.is_none()) return result;
  return {};
}

// The argument for a call whose tensors have the batch's dimension in front.  None where the argument names a dimension of
// a scalar, which the batch does not have.
Arg Batching::in_batch(const Param& param, const Args& a, int64_t rank) const {
  const auto* known = std::find_if(std::begin(kDimParams), std::end(kDimParams),
                                   [&](const DimParam& p) { return p.name == param.name; });
  if (known == std::end(kDimParams)) return a[param.name];
  switch (known->names) {
    case DimParam::Dim: return rank == 0 ? Arg() : Arg(behind({a.integer(param.name)}, rank)[0]);
    case DimParam::Dims: {
      const std::vector<int64_t> dims = a.integers(param.name);
      return rank == 0 && !dims.empty() ? Arg() : Arg(behind(dims, rank));
    }
    case DimParam::AllDims: return with_batch(a.integers(param.name), rank);
    case DimParam::Sizes: return in_front(size_, a.dims(param.name));
    case DimParam::Starts: return in_front(0, a.dims(param.name));
    case DimParam::Steps: return in_front(1, a.dims(param.name));
  }
  return {};
}

// The arguments of the call for the batch; nothing where one of them has no meaning there.
std::optional<ArgList> Batching::in_batch(const Call& call) {
  const Args a = call.arguments();
  ArgList args;
  for (size_t i = 0; i < call.args.size(); ++i) {
    const Arg& given = call.args[i];
    args.push_back(given.is_tensor() ? whole(given.value()).arg()
                                     : in_batch(call.op->schema.params[i], a, call.args[0].value().rank()));
    if (args.back().is_none() && !given.is_none()) return std::nullopt;
  }
  return args;
}

// Views, and copies with an index map.  A row-major map needs the sizes alone.  With any other map the operator is called
// for the batch, if its map then reads each sample as the sample's map does.  Four views have no map: as_strided() has a
// rule for one element, since its strides are those of one sample's memory, view_as_real() and view_as_complex() keep
// their arguments, and view_dtype() has no rule.
Arg Batching::mapped(const Call& call) {
  const Op& op = *call.op;
  if (!op.index_map || op.full_name == "prims.restride") return {};
  const TensorType& sample = call.output.value().tensor();
  const std::optional<IndexMap> map = op.index_map(call.arguments(), sample);
  if (!map) return {};
  if (map->row_major) return ops::reshape(whole(call.args[0].value()), in_front(size_, sample.shape));
  std::optional<ArgList> args = in_batch(call);
  if (!args) return {};
  const Args batch(op, *args);
  const std::optional<IndexMap> made = op.index_map(batch, op.meta(batch)[0].tensor());
  return made && reads_samples(*made, *map) ? b_.call(op, std::move(*args)) : Arg();
}

Arg Batching::moved(const Call& call) {
  if (call.args.empty() || !call.args[0].is_tensor() || !call.output.is_value()) return {};
  const std::string& name = call.op->full_name;
  for (const char* of_two : {"prims.graft", "prims.cover", "prims.slice_scatter", "prims.diagonal_scatter"}) {
    if (name != of_two) continue;
    std::optional<ArgList> args = in_batch(call);
    return args ? b_.call(*call.op, std::move(*args)) : Arg();
  }
  if (!is_batch(call.args[0].value())) return {};
  if (const Arg result = mapped(call); !result.is_none()) return result;
  const Expr x = b_.expr(now(call.args[0].value()));
  if (name == "prims.restride") return x;
  if (expands_element(call))
    return b_("prims.broadcast_in_dim", x, in_front(size_, call.output.value().shape()), Arg(std::vector<int64_t>{0}));
  for (const char* same :
       {"prims.clone", "prims.same", "prims.new_leaf", "prims.view_as_real", "prims.view_as_complex"})
    if (name == same) return b_(name, x);
  if (name != "prims.pad") return {};
  const Args a = call.arguments();
  ArgList config = a["config"].items();
  config.insert(config.begin(), Arg(Dims(3, Dim(0))));
  return b_(name, x, a["value"], Arg::list(std::move(config)));
}

Arg Batching::reduced(const Call& call) {
  if (call.args.empty() || !call.args[0].is_tensor() || !is_batch(call.args[0].value())) return {};
  const Args a = call.arguments();
  const std::string& name = call.op->full_name;
  const Expr x = b_.expr(now(call.args[0].value()));
  const int64_t rank = x.rank() - 1;
  if (rank == 0) return {};
  if (call.op->combine != Combine::None) return b_(name, x, Arg(behind(a.integers("dims"), rank)));
  if (name == "prims.var") return b_(name, x, Arg(behind(a.integers("dims"), rank)), kw("correction", a["correction"]));
  for (const char* place : {"prims.argmax", "prims.argmin"})
    if (name == place) {
      if (!a["dim"].is_none()) return b_(name, x, dim_behind(a, rank));
      return b_(name, ops::reshape(x, {size_, call.args[0].value().tensor().numel()}), 1);
    }
  return {};
}

}  // namespace thunder
