#include "ops/common.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/dtype_error.h"

namespace thunder::ops {
namespace {

bool is_zero_dim_tensor(const Arg& a) { return a.is_tensor() && a.value().rank() == 0; }

std::string_view user_name(std::string_view op, std::string_view prim) {
  return op.empty() ? prim.substr(prim.find('.') + 1) : op;
}

}  // namespace

// ---- type promotion -------------------------------------------------------------------------------------------------

PromotionOperand promotion_operand(const Arg& a) {
  if (a.is_tensor())
    return {a.value().dtype(), a.value().rank() == 0 ? PromotionOperand::ZeroDimTensor : PromotionOperand::DimTensor};
  static constexpr DType kTypes[] = {DType::boolean, DType::i64, DType::f64, DType::c128};
  return {kTypes[static_cast<size_t>(a.number_kind())], PromotionOperand::WrappedNumber};
}

DType result_type(const ArgList& operands) {
  std::vector<PromotionOperand> ops;
  for (const Arg& a : operands)
    if (!a.is_none()) ops.push_back(promotion_operand(a));
  return thunder::result_type(ops, default_dtype());
}

DType apply(Promotion p, DType t) {
  if (p == Promotion::IntToFloat && !is_inexact(t)) return default_dtype();
  if (p == Promotion::BoolToInt && is_bool(t)) return DType::i64;
  return t;
}

DType dtype_of_number(const Arg& number) { return result_type({number}); }

Arg convert(Builder& b, const Arg& a, DType t) {
  if (!a.is_tensor() || a.value().dtype() == t) return a;
  return b("prims.convert_element_type", a, t);
}

// ---- shapes ---------------------------------------------------------------------------------------------------------

bool equal(const Dims& a, const Dims& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!a[i].same(b[i]) && a[i] != b[i]) return false;
  return true;
}

Dim count_of(const Dims& shape, const std::vector<int64_t>& dims) {
  Dim n = 1;
  for (int64_t d : dims)
    if (!shape.empty()) n = n * shape[static_cast<size_t>(d)];
  return n;
}

Arg real_number(const Dim& d) { return d.is_constant() ? Arg(static_cast<double>(d.constant())) : Arg(d); }

namespace {

// One size of a broadcast: `a` came first.
Dim broadcast_dim(std::string_view op, const Dim& a, const Dim& b, size_t position) {
  if (a.same(b)) return a;
  if (a.is_constant() && a.constant() == 1) return b;
  if (b.is_constant() && b.constant() == 1) return a;
  if (a == b) return b.is_constant() ? b : a;
  if (a == 1) return b;
  if (b == 1) return a;
  THUNDER_CHECK(false, Runtime, op, "The size of tensor a (", a, ") must match the size of tensor b (", b,
                ") at non-singleton dimension ", position);
}

}  // namespace

Dims broadcast_shapes(std::string_view op, const std::vector<const Dims*>& shapes) {
  Dims out;
  for (const Dims* s : shapes) {
    size_t rank = std::max(out.size(), s->size());
    Dims next(rank);
    for (size_t i = 0; i < rank; ++i) {  // from the last dimension, as PyTorch reports the last mismatch first
      size_t at = rank - 1 - i;
      if (i >= out.size()) next[at] = (*s)[s->size() - 1 - i];
      else if (i >= s->size()) next[at] = out[out.size() - 1 - i];
      else next[at] = broadcast_dim(op, out[out.size() - 1 - i], (*s)[s->size() - 1 - i], at);
    }
    out = std::move(next);
  }
  return out;
}

Dims broadcast_shape_of(std::string_view op, const ArgList& args) {
  std::vector<const Dims*> shapes;
  for (const Arg& a : args)
    if (a.is_tensor()) shapes.push_back(&a.value().shape());
  return broadcast_shapes(op, shapes);
}

Arg expand_to(Builder& b, const Arg& a, const Dims& shape) {
  if (!a.is_tensor()) return a;
  const Dims& from = a.value().shape();
  if (equal(from, shape)) return a;
  THUNDER_CHECK(from.size() <= shape.size(), Runtime, "expand", "the number of sizes provided (", shape.size(),
                ") must be greater or equal to the number of dimensions in the tensor (", from.size(), ")");
  std::vector<int64_t> dims;
  for (size_t i = 0; i < from.size(); ++i) dims.push_back(static_cast<int64_t>(shape.size() - from.size() + i));
  const auto own = shape.end() - static_cast<std::ptrdiff_t>(from.size());
  if (std::any_of(shape.begin(), own, [](const Dim& d) { return d == 1; }))
    return b("prims.broadcast_in_dim", a, shape, dims, kw("operand", true));
  return b("prims.broadcast_in_dim", a, shape, dims);
}

Dim as_dim(const Arg& a) {
  if (!a.is_value()) return a.dim();
  const NumberType& n = a.value().type().number();
  THUNDER_CHECK(n.dim, NotImplemented, "size", "the integer ", a.value().name(),
                ", known only when the program runs, cannot be a size or a dimension");
  return *n.dim;
}

int64_t canonical_dim(std::string_view op, int64_t dim, int64_t rank) {
  int64_t n = std::max<int64_t>(rank, 1);
  THUNDER_CHECK(-n <= dim && dim < n, Index, op, "Dimension out of range (expected to be in range of [", -n, ", ",
                n - 1, "], but got ", dim, ")");
  return dim < 0 ? dim + n : dim;
}

std::vector<int64_t> canonical_dims(std::string_view op, const Arg& dims, int64_t rank, bool all_if_empty) {
  std::vector<int64_t> out;
  ArgList given;
  if (dims.is_sequence()) given = dims.items();
  else if (!dims.is_none()) given = {dims};
  if (given.empty()) {
    for (int64_t i = 0; all_if_empty && i < rank; ++i) out.push_back(i);
    return out;
  }
  for (const Arg& d : given) out.push_back(canonical_dim(op, as_dim(d).constant(), rank));
  std::sort(out.begin(), out.end());
  auto repeated = std::adjacent_find(out.begin(), out.end());
  THUNDER_CHECK(repeated == out.end(), Runtime, op, "dim ", *repeated, " appears multiple times in the list of dims");
  if (rank == 0) out.clear();
  return out;
}

void check_no_grad(const Args& a) {
  THUNDER_CHECK(a.op().schema.index_of("requires_grad") < 0 || !a.has("requires_grad") || !a.flag("requires_grad"),
                NotImplemented, a.op().schema.name,
                "requires_grad=True inside a compiled function is not supported; make the tensor outside");
}

// ---- devices --------------------------------------------------------------------------------------------------------

Device common_device(std::string_view op, const ArgList& operands) {
  const TensorType* first = nullptr;
  for (bool zero_dim_cpu : {false, true}) {
    for (const Arg& a : operands) {
      if (!a.is_tensor()) continue;
      const TensorType& t = a.value().tensor();
      if ((t.shape.empty() && t.device.type == DeviceType::cpu) != zero_dim_cpu) continue;
      if (!first) first = &t;
      THUNDER_CHECK(zero_dim_cpu || t.device == first->device, Runtime, op,
                    "Expected all tensors to be on the same device, but found at least two devices, ", first->device,
                    " and ", t.device, "!");
    }
  }
  return first ? first->device : Device{};
}

// ---- emitting prims -------------------------------------------------------------------------------------------------

Arg where(Builder& b, const Args& a) {
  Arg condition = a.list()[0];
  DType t = condition.value().dtype();
  THUNDER_CHECK_DTYPE(is_bool(t) || t == DType::u8, "where",
                      "expected condition to be a boolean tensor, but got a tensor with dtype ", torch_name(t));
  DType result = result_type({a.list()[1], a.list()[2]});
  ArgList x = {condition, convert(b, a.list()[1], result), convert(b, a.list()[2], result)};
  Device device = common_device("where", x);
  Dims shape = broadcast_shape_of("where", x);
  if (!x[1].is_tensor() && !x[2].is_tensor()) x[1] = full(b, {}, x[1], result, device);
  for (Arg& operand : x)
    if (operand.is_tensor() && operand.value().tensor().device != device)
      operand = b("prims.device_put", operand, device);
  if (t == DType::u8) x[0] = b("prims.ne", x[0], 0);
  for (Arg& operand : x) operand = expand_to(b, operand, shape);
  return b("prims.where", x[0], x[1], x[2]);
}

ArgList broadcast_operands(Builder& b, std::string_view op, const ArgList& operands, DType t) {
  Device device = common_device(op, operands);
  Dims shape = broadcast_shape_of(op, operands);
  ArgList out;
  for (const Arg& a : operands) {
    Arg x = a;
    if (is_zero_dim_tensor(x) && x.value().tensor().device != device) x = b("prims.device_put", x, device);
    out.push_back(expand_to(b, convert(b, x, t), shape));
  }
  if (std::none_of(out.begin(), out.end(), [](const Arg& a) { return a.is_tensor(); }))
    out[0] = full(b, {}, out[0], t, {});
  return out;
}

Arg pointwise(Builder& b, std::string_view prim, const ArgList& operands, Promotion promotion, std::string_view op) {
  DType t = apply(promotion, result_type(operands));
  return b.call_named(prim, broadcast_operands(b, user_name(op, prim), operands, t), {});
}

Arg full(Builder& b, const Dims& shape, const Arg& value, DType t, Device device) {
  return b("prims.full", shape, value, kw("dtype", t), kw("device", device));
}

Expr first_place(const Expr& x, const Expr& extremum, int64_t dim) {
  constexpr int64_t kMostShort = std::numeric_limits<int32_t>::max(), kMost = std::numeric_limits<int64_t>::max();
  Builder& b = x.builder();
  const auto on_device = kw("device", x.tensor().device);
  if (x.rank() == 0) return b("prims.full", Dims{}, 0, kw("dtype", DType::i64), on_device);
  const Dims& shape = x.shape();
  const Dim& n = shape[static_cast<size_t>(dim)];
  const bool is_short = n.is_constant() && n.constant() <= kMostShort;
  std::vector<int64_t> others;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (d != dim) others.push_back(d);
  const auto spread = [&](const Expr& e, std::vector<int64_t> dims) {
    return b("prims.broadcast_in_dim", e, shape, Arg(std::move(dims)));
  };
  Expr found = b("prims.eq", x, spread(extremum, others));
  if (is_floating(x.dtype())) found = b("prims.bitwise_or", found, b("prims.isnan", x));
  const Expr places = b("prims.iota", n, 0, 1, kw("dtype", is_short ? DType::i32 : DType::i64), on_device);
  const Expr candidates = b("prims.where", found, spread(places, {dim}), is_short ? kMostShort : kMost);
  const Expr first = b("prims.amin", candidates, std::vector<int64_t>{dim});
  return is_short ? b("prims.convert_element_type", first, DType::i64) : first;
}

Arg keep_dims(Builder& b, const Arg& reduced, const std::vector<int64_t>& dims) {
  if (dims.empty()) return reduced;
  Dims shape = reduced.value().shape();
  for (int64_t d : dims) shape.insert(shape.begin() + d, Dim(1));
  return b("prims.view", reduced, shape);
}

// ---- metas ----------------------------------------------------------------------------------------------------------

TensorType contiguous_type(DType t, Device device, Dims shape) {
  Dims strides = contiguous_strides(shape);
  return {.dtype = t, .device = device, .shape = std::move(shape), .strides = std::move(strides)};
}

Dims strides_in(const TensorType& t, const Arg& memory_format) {
  if (memory_format.is_none() || memory_format.constant().name == "torch.preserve_format")
    return preserve_format_strides(t);
  const std::string& name = memory_format.constant().name;
  if (name == "torch.contiguous_format") return contiguous_strides(t.shape);
  THUNDER_CHECK(name == "torch.channels_last" || name == "torch.channels_last_3d", Runtime, "memory_format",
                "Unsupported memory format ", name);
  int64_t rank = name == "torch.channels_last" ? 4 : 5;
  THUNDER_CHECK(t.rank() == rank, Runtime, "memory_format", "required rank ", rank, " tensor to use ",
                name.substr(name.find('.') + 1), " format");
  return channels_last_strides(t.shape);
}

// Equal by form, or under the hints (and then recorded); a size known only at run time never makes this an error.
bool surely_equal(const Dim& a, const Dim& b) {
  if (a.same(b)) return true;
  const ShapeEnv* env = ShapeEnv::current();
  for (const Dim* d : {&a, &b})
    for (SymbolId s : d->symbols())
      if (!env || !env->hint(s)) return false;
  return a == b;
}

Dims elementwise_strides(const Dims& shape, const std::vector<const Dims*>& operands) {
  const Dims row_major = contiguous_strides(shape);
  auto counts_as_row_major = [&](const Dims* s) {
    for (const Dim& d : shape)
      if (d.is_constant() && d.constant() == 0) return true;
    for (size_t i = 0; i < shape.size(); ++i)
      if (!(*s)[i].same(row_major[i]) && !surely_equal(shape[i], 1) && !surely_equal((*s)[i], row_major[i]))
        return false;
    return true;
  };
  if (std::all_of(operands.begin(), operands.end(), counts_as_row_major)) return row_major;
  return pointwise_strides(shape, operands);
}

TensorType pointwise_type(const Args& args, const std::vector<std::string_view>& operands,
                          std::optional<DType> result) {
  std::string_view op = args.op().schema.name;
  const TensorType* first = nullptr;
  std::vector<const Dims*> strides;
  for (std::string_view name : operands) {
    const Arg& a = args[name];
    if (!a.is_tensor()) continue;
    const TensorType& t = a.value().tensor();
    if (!first) first = &t;
    THUNDER_CHECK(equal(t.shape, first->shape), Runtime, op, "expected operands of one shape, got ", str(t.shape),
                  ", expected ", str(first->shape));
    THUNDER_CHECK(t.dtype == first->dtype, Type, op, "expected operands of one dtype, got ", t.dtype, ", expected ",
                  first->dtype);
    THUNDER_CHECK(t.device == first->device, Runtime, op, "expected operands on one device, got ", t.device,
                  ", expected ", first->device);
    strides.push_back(&t.strides);
  }
  THUNDER_CHECK(first, Type, op, "at least one operand must be a tensor");
  for (std::string_view name : operands) {
    const Arg& a = args[name];
    THUNDER_CHECK(a.is_tensor() || a.number_kind() <= number_kind(first->dtype), Type, op,
                  "a number of a higher kind than ", first->dtype, " must be converted before");
  }
  return {.dtype = result.value_or(first->dtype),
          .device = first->device,
          .shape = first->shape,
          .strides = elementwise_strides(first->shape, strides)};
}

// ---- gradient rules -------------------------------------------------------------------------------------------------

std::string_view param(const VjpContext& c, size_t i) { return c.call.op->schema.params.at(i).name; }

Expr conj(const Expr& e) {
  if (e.arg().kind() == Arg::Kind::Complex) return e.builder().expr(std::conj(e.arg().complex()));
  if (!e.arg().is_tensor() || !is_complex(e.dtype())) return e;
  return e.builder()("torch.conj", e);
}

Expr sum_to(const Expr& gradient, const Dims& shape) {
  if (equal(gradient.shape(), shape)) return gradient;
  return gradient.builder()("torch.sum_to_size", gradient, shape);
}

Expr variance_slope(const Expr& x, const Dim& count, double correction) {
  if (count.is_constant() || correction != std::trunc(correction))
    return x * (2.0 / (static_cast<double>(count.specialize()) - correction));
  return x.builder()("torch.div", x * 2.0, real_number(count - static_cast<int64_t>(correction)));
}

Expr to_dtype(const Expr& e, DType t) {
  if (e.dtype() == t) return e;
  return e.builder()("torch.to", e, t);
}

void put_reduced(VjpContext& c, size_t i, const Expr& gradient) { put_reduced(c, param(c, i), gradient); }

void put_reduced(VjpContext& c, std::string_view name, const Expr& gradient) {
  const Arg& input = c.args()[name];
  if (!input.is_tensor() || !c.needs(name)) return;
  const TensorType& t = input.value().tensor();
  Expr g = sum_to(gradient, t.shape);
  if (is_complex(g.dtype()) && !is_complex(t.dtype)) g = c.b("torch.real", g);
  c.put(name, to_dtype(g, t.dtype));
}

}  // namespace thunder::ops
