#include "passes/wide_rows.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ops/combine.h"
#include "ops/formula.h"
#include "passes/padding.h"
#include "passes/rewriter.h"

namespace thunder {
namespace {

constexpr int kDeepest = 200;  // calls that are looked at, one behind the other

const std::string& name_of(const Call& call) { return call.op->full_name; }

bool is_tensor_call(const Call& call) {
  return call.output.is_value() && call.output.value().type().is_tensor() && call.op->is_prim();
}

/// What a reduction over a row starts from: that leaves out an element.
std::optional<Arg> neutral(const Call& call) {
  const DType t = call.arguments().tensor("a").dtype;
  const Combine combine = call.op->combine;
  const bool of_bools = combine == Combine::Or || combine == Combine::And;
  if (combine == Combine::Mul || (of_bools ? !is_bool(t) : !is_floating(t))) return std::nullopt;
  return ops::neutral_element(combine, t);
}

bool is_over_rows(const Call& call) {
  const Value a = call.arguments().value("a");
  return call.arguments().integers("dims") == std::vector<int64_t>{a.rank() - 1};
}

/// Zeros behind the last element of each row, and nowhere else.
bool pads_rows(const Call& call) {
  if (name_of(call) != "prims.pad" || call.output.value().tensor().device.type != DeviceType::cuda) return false;
  const Args a = call.arguments();
  if (!a["value"].is_literal_number() || a["value"].real() != 0 || !is_constant(a.tensor("a"))) return false;
  const ArgList& config = a["config"].items();
  for (size_t i = 0; i < config.size(); ++i)
    for (size_t k = 0; k < 3; ++k) {
      const Dim& n = config[i].items()[k].dim();
      const bool is_end = i + 1 == config.size() && k == 1;
      if (!n.is_constant() || (is_end ? n.constant() <= 0 : n.constant() != 0)) return false;
    }
  return !config.empty();
}

/// The first columns of rows, all of them.
bool takes_part_of_rows(const Call& call) {
  if (name_of(call) != "prims.slice") return false;
  const Args a = call.arguments();
  const TensorType &from = a.tensor("a"), &to = call.output.value().tensor();
  if (from.rank() == 0 || !is_constant(from) || !is_constant(to) || from.shape.back().same(to.shape.back()))
    return false;
  const auto is = [](int64_t n) { return [n](const Dim& d) { return d.same(n); }; };
  const Dims start = a.dims("start_indices"), step = a.dims("strides");
  return std::all_of(start.begin(), start.end(), is(0)) && std::all_of(step.begin(), step.end(), is(1)) &&
         std::equal(from.shape.begin(), from.shape.end() - 1, to.shape.begin(),
                    [](const Dim& x, const Dim& y) { return x.same(y); });
}

bool is_elementwise(const Call& call) {
  if (!call.op->has(kPointwise) || effects(call) != 0) return false;
  bool same_shape = true;
  visit_all_inputs(
      call, [&](Value u) { same_shape &= !u.type().is_tensor() || same(u.shape(), call.output.value().shape()); });
  return same_shape;
}

/// A view that leaves rows as they are.
bool keeps_rows(const Call& call) {
  if (name_of(call) != "prims.view" && name_of(call) != "prims.restride") return false;
  const Dims &from = call.arguments().tensor("a").shape, &to = call.output.value().shape();
  return !from.empty() && !to.empty() && from.back().same(to.back());
}

/// Which dimension of a broadcast's operand the rows of the result run along; -1: none, a row repeats one element.
int64_t rows_of_operand(const Call& broadcast) {
  const Args a = broadcast.arguments();
  const std::vector<int64_t> dims = a.integers("broadcast_dims");
  const int64_t last = broadcast.output.value().rank() - 1;
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] == last && !a.tensor("a").shape[i].same(1)) return static_cast<int64_t>(i);
  return -1;
}

void open_views(const Call& call, std::vector<const Call*>& out) {
  if (call.body.empty() || !is_pure_view(call)) return out.push_back(&call);
  for (const Call* inner : call.body) open_views(*inner, out);
}

class Widener {
 public:
  explicit Widener(const Trace& trace) : rewriter_(trace) {
    for (const Call* c : trace.calls) sources_.add(*c);
    for (const Call* c : trace.calls)
      if (is_tensor_call(*c) && pads_rows(*c)) find_rows(*c);
  }

  bool any() const { return !padded_.empty(); }

  Trace run(const Trace& trace, size_t& boundary) {
    for (size_t i = 0, before = boundary; i < trace.calls.size(); ++i) {
      rewrite(*trace.calls[i]);
      if (i + 1 == before) boundary = rewriter_.builder.calls().size();
    }
    return without_dead_code(rewriter_.finish(), boundary);
  }

 private:
  // ---- what is widened ----------------------------------------------------------------------------------------------

  // The calls behind a padded value that are to be computed in its rows, if there is reason to.
  void find_rows(const Call& pad) {
    const Value x = pad.arguments().value("a");
    wide_ = pad.output.value().shape().back().constant();
    reaches_.clear();
    std::vector<const Call*> calls;
    std::unordered_set<const Call*> seen;
    bool reduces = false;
    if (!comes_from_part(x, 0)) return;
    collect(x, calls, seen, reduces);
    if (!reduces) return;
    for (const Call* c : calls)
      if (const auto known = width_of_.find(c); known != width_of_.end() && known->second != wide_) return;
    for (const Call* c : calls) width_of_[c] = wide_;
    padded_.insert(&pad);
  }

  // Whether a value with these rows is computed of a part of rows of that width.
  bool comes_from_part(Value v, int depth) {
    if (const auto known = reaches_.find(v.id()); known != reaches_.end()) return known->second;
    const Call* maker = sources_.maker(v);
    bool out = false;
    if (maker && depth < kDeepest && is_tensor_call(*maker)) {
      const Args a = maker->arguments();
      if (takes_part_of_rows(*maker)) {
        out = a.tensor("a").shape.back().same(wide_);
      } else if (keeps_rows(*maker)) {
        out = comes_from_part(a.value("a"), depth + 1);
      } else if (name_of(*maker) == "prims.broadcast_in_dim") {
        const int64_t dim = rows_of_operand(*maker);
        out = dim >= 0 && dim + 1 == a.value("a").rank() && comes_from_part(a.value("a"), depth + 1);
      } else if (is_elementwise(*maker)) {
        visit_all_inputs(*maker, [&](Value u) { out |= u.type().is_tensor() && comes_from_part(u, depth + 1); });
      }
    }
    reaches_.emplace(v.id(), out);
    return out;
  }

  void collect(Value v, std::vector<const Call*>& calls, std::unordered_set<const Call*>& seen, bool& reduces) {
    std::vector<Value> open{v};
    while (!open.empty()) {
      const Value next = open.back();
      open.pop_back();
      const Call* maker = sources_.maker(next);
      if (!maker || !is_tensor_call(*maker) || !seen.insert(maker).second) continue;
      const bool in_rows = comes_from_part(next, 0);
      if (in_rows || is_widened_reduction(*maker)) {
        calls.push_back(maker);
        reduces |= !in_rows;
      }
      // Behind what has no rows there may be the reductions that it is made of.
      const bool of_rows = in_rows || is_widened_reduction(*maker) || is_of_one_element(*maker);
      if (of_rows && !takes_part_of_rows(*maker))
        visit_all_inputs(*maker, [&](Value u) {
          if (u.type().is_tensor()) open.push_back(u);
        });
    }
  }

  bool is_widened_reduction(const Call& call) {
    return call.op->has(kReduction) && neutral(call) && is_over_rows(call) &&
           comes_from_part(call.arguments().value("a"), 0);
  }

  // What has an element a row, and what repeats that along rows.
  static bool is_of_one_element(const Call& call) {
    if (name_of(call) == "prims.broadcast_in_dim") return rows_of_operand(call) < 0;
    return is_elementwise(call) || name_of(call) == "prims.view" || name_of(call) == "prims.squeeze";
  }

  // ---- the wide program ---------------------------------------------------------------------------------------------

  void rewrite(const Call& call) {
    const auto width = width_of_.find(&call);
    const bool sums = width == width_of_.end() && adds_up_rows(call);
    if (width == width_of_.end() && !sums && !padded_.contains(&call)) {
      for (const Call* c : rewriter_.current(&call)) rewriter_.builder.append(c);
      return;
    }
    if (width != width_of_.end()) wide_ = width->second;
    else if (!sums) wide_ = call.output.value().shape().back().constant();
    Arg result;
    std::vector<const Call*> made =
        rewriter_.collect(call, [&] { result = sums ? sum_of_rows(call) : instead_of(call); });
    if (result.is_none()) made.push_back(&call);
    else rewriter_.replace_outputs(call, result, "wide_rows");
    for (const Call* m : made)
      for (const Call* c : rewriter_.current(m)) rewriter_.builder.append(c);
  }

  // Of wide rows it is read faster.
  bool adds_up_rows(const Call& call) const {
    if (name_of(call) != "prims.sum" || !rows_.contains(call.arguments().value("a").id())) return false;
    const std::vector<int64_t> dims = call.arguments().integers("dims");
    return !dims.empty() && dims.back() + 1 < call.arguments().value("a").rank();
  }

  Arg sum_of_rows(const Call& call) {
    ArgList args = call.args;
    args[0] = rows_.at(call.arguments().value("a").id());
    return narrowed(Expr(rewriter_.builder, rewriter_.builder.call(*call.op, std::move(args))),
                    call.output.value().tensor());
  }

  // None where the call stays, and what it gives is known in wide rows.
  Arg instead_of(const Call& call) {
    const Args a = call.arguments();
    const Value out = call.output.value();
    if (padded_.contains(&call)) return narrowed(inside(a.value("a"), 0.0), out.tensor());
    if (call.op->has(kReduction)) return reduced(call);
    if (takes_part_of_rows(call)) {
      rows_.emplace(out.id(), a.value("a"));
      return {};
    }
    if (name_of(call) == "prims.restride") {
      rows_.emplace(out.id(), widened(a.value("a")).value());
      ends_.emplace(out.id(), end(a.value("a")));
      return {};
    }
    const Expr wide = wide_call(call);
    rows_.emplace(out.id(), wide.value());
    ends_.emplace(out.id(), end_of(call));
    return narrowed(wide, out.tensor());
  }

  // A maximum leaves -inf at the end of its operand: the sum of exp(x - maximum) needs no more, and one walk gives both.
  Arg reduced(const Call& call) {
    const Value x = call.arguments().value("a");
    const bool sums = name_of(call) == "prims.sum" && end(x) == End::Zero;
    ArgList args = call.args;
    args[0] = sums ? widened(x).arg() : inside(x, *neutral(call)).arg();
    if (name_of(call) == "prims.amax" && is_floating(x.dtype())) {
      rows_.insert_or_assign(x.id(), args[0].value());
      ends_[x.id()] = End::Lowest;
      maxima_.insert_or_assign(x.id(), call.output.value());
    }
    return rewriter_.builder.call(*call.op, std::move(args));
  }

  /// What stands behind the last element of a row.
  enum class End : uint8_t { Anything, Lowest, Zero };

  End end(Value v) const {
    const auto known = ends_.find(v.id());
    return known == ends_.end() ? End::Anything : known->second;
  }

  // Where the maximum is not finite, the sum of the row is no number whatever stands there.
  End end_of(const Call& call) const {
    if (!call.args[0].is_tensor()) return End::Anything;
    const End before = end(call.args[0].value());
    const std::string& name = name_of(call);
    if (name == "prims.exp") return before == End::Lowest ? End::Zero : End::Anything;
    if (name == "prims.view" || (name == "prims.convert_element_type" && is_floating(call.output.value().dtype())))
      return before;
    const bool less = name == "prims.sub" && before == End::Lowest && call.args[1].is_tensor() &&
                      is_maximum(call.args[1].value(), call.args[0].value());
    return less ? End::Lowest : End::Anything;
  }

  // Whether a value is the maximum of each of the other's rows, along it.
  bool is_maximum(Value v, Value of) const {
    const auto known = maxima_.find(of.id());
    const Call* maker = sources_.maker(v);
    while (maker && (name_of(*maker) == "prims.broadcast_in_dim" || name_of(*maker) == "prims.view")) {
      v = maker->args[0].value();
      maker = sources_.maker(v);
    }
    return known != maxima_.end() && v == known->second;
  }

  Expr wide_call(const Call& call) {
    Builder& b = rewriter_.builder;
    const Args a = call.arguments();
    Dims shape = call.output.value().shape();
    shape.back() = wide_;
    if (name_of(call) == "prims.view") return ops::reshape(b, widened(a.value("a")).arg(), shape);
    ArgList args = call.args;
    for (Arg& arg : args)
      if (arg.is_tensor()) arg = widened(arg.value()).arg();
    if (name_of(call) == "prims.broadcast_in_dim") args[1] = Arg(shape);
    return Expr(b, b.call(*call.op, std::move(args)));
  }

  // A value of the narrow rows in wide ones, whatever stands at their end.
  Expr widened(Value v) {
    Builder& b = rewriter_.builder;
    if (const auto known = rows_.find(v.id()); known != rows_.end()) return Expr(b, known->second);
    const Call* maker = sources_.maker(v);
    Dims shape = v.shape();
    shape.back() = wide_;
    if (maker && name_of(*maker) == "prims.broadcast_in_dim") {
      const int64_t dim = rows_of_operand(*maker);
      ArgList args = maker->args;
      args[1] = Arg(shape);
      if (dim >= 0 && dim + 1 == args[0].value().rank()) args[0] = widened(args[0].value()).arg();
      if (dim < 0 || dim + 1 == args[0].value().rank()) return Expr(b, b.call(*maker->op, std::move(args)));
    }
    std::vector<int64_t> sizes;
    for (const Dim& d : shape) sizes.push_back(d.constant());
    return padded_to(b, v, sizes);
  }

  // The value in wide rows, with a number behind the last element of each.
  Expr inside(Value v, const Arg& outside) {
    Builder& b = rewriter_.builder;
    const Expr wide = widened(v);
    const auto [known, is_new] = inside_.try_emplace({wide_, v.shape().back().constant()});
    if (is_new) {
      const Expr place = b("prims.iota", Dim(wide_), 0, 1, kw("dtype", DType::i32), kw("device", wide.tensor().device));
      known->second = b("prims.lt", place, v.shape().back()).value();
    }
    const std::vector<int64_t> last{wide.rank() - 1};
    return b("prims.where", b("prims.broadcast_in_dim", known->second, wide.shape(), Arg(last)), wide, outside);
  }

  Rewriter rewriter_;
  ValueMakers sources_;
  int64_t wide_ = 0;
  std::unordered_map<ValueId, bool> reaches_;
  std::unordered_map<const Call*, int64_t> width_of_;  // calls that are made anew in rows of that width
  std::unordered_set<const Call*> padded_;
  std::unordered_map<ValueId, Value> rows_;  // narrow values in wide rows
  std::unordered_map<ValueId, End> ends_;
  std::unordered_map<ValueId, Value> maxima_;            // of rows
  std::map<std::pair<int64_t, int64_t>, Value> inside_;  // by width, and elements that a row has
};

// Views are looked through one by one.
Trace with_open_views(const Trace& trace, size_t& boundary) {
  Trace out = trace.derived();
  for (size_t i = 0, before = boundary; i < trace.calls.size(); ++i) {
    open_views(*trace.calls[i], out.calls);
    if (i + 1 == before) boundary = out.calls.size();
  }
  return out;
}

}  // namespace

Trace wide_rows(const Trace& trace, size_t& boundary) {
  const bool pads = std::any_of(trace.calls.begin(), trace.calls.end(),
                                [](const Call* c) { return is_tensor_call(*c) && pads_rows(*c); });
  if (!pads) return trace;
  size_t opened = boundary;
  const Trace open = with_open_views(trace, opened);
  Widener widener(open);
  if (!widener.any()) return trace;
  boundary = opened;
  return widener.run(open, boundary);
}

}  // namespace thunder
