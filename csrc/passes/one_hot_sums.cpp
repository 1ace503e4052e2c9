#include "passes/one_hot_sums.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "core/builder.h"
#include "core/dtype.h"
#include "passes/rewriter.h"
#include "passes/visit.h"

namespace thunder {
namespace {

bool is(const Call* call, std::string_view name) { return call && call->op->full_name == name; }

bool is_zero(const Arg& a) { return a.is_literal_number() && a.real() == 0; }

/// where(place == label && ..., value, 0), in parts that may change along the dimension nowhere but in `place`.
struct OneHot {
  Value label, value;
  std::vector<Value> conditions;
  std::vector<const Call*> after;  // conversions and negations, the last first
};

class OneHotSums {
 public:
  explicit OneHotSums(const Trace& trace) : trace_(trace), rewriter_(trace) {}

  Trace run() {
    for (const Call* call : trace_.calls) {
      visit_outputs(*call, [&](Value v) { producers_.set(v, call); });
      if (is(call, "prims.sum") && replace(*call)) continue;
      for (const Call* c : rewriter_.current(call)) rewriter_.builder.append(c);
    }
    return rewriter_.finish();
  }

 private:
  bool replace(const Call& sum) {
    const std::vector<int64_t> dims = sum.arguments().integers("dims");
    Value row = sum.args[0].value();
    if (dims.size() != 1 || !is_floating(row.dtype()) || sum.output.value().dtype() != row.dtype()) return false;
    dim_ = static_cast<size_t>(dims[0]);
    const std::optional<OneHot> hot = one_hot(row);
    if (!hot) return false;
    Arg result;
    const std::vector<const Call*> made = rewriter_.collect(sum, [&] { result = element(*hot, row.shape()[dim_]); });
    if (!result.is_tensor() || result.value().dtype() != sum.output.value().dtype()) return false;
    rewriter_.replace_outputs(sum, result, "sum of one-hot rows");
    for (const Call* c : made)
      for (const Call* now : rewriter_.current(c)) rewriter_.builder.append(now);
    return true;
  }

  std::optional<OneHot> one_hot(Value v) {
    OneHot hot;
    const Call* call = producers_[v];
    for (; is(call, "prims.convert_element_type") || is(call, "prims.neg"); call = producers_[v]) {
      hot.after.push_back(call);
      v = call->args[0].value();
      if (!is_floating(v.dtype())) return std::nullopt;
    }
    if (!is(call, "prims.where") || !is_zero(call->args[2]) || !call->args[0].is_tensor()) return std::nullopt;
    hot.value = call->args[1].value();
    if (!collect(call->args[0].value(), hot) || !hot.label || !is_constant(hot.value)) return std::nullopt;
    return hot;
  }

  // The conditions that hold together; false if one of them changes along the dimension and is not the comparison.
  bool collect(Value condition, OneHot& hot) {
    const Call* call = producers_[condition];
    if (is(call, "prims.bitwise_and") && call->args[0].is_tensor() && call->args[1].is_tensor())
      return collect(call->args[0].value(), hot) && collect(call->args[1].value(), hot);
    if (is(call, "prims.eq") && !hot.label) {
      for (size_t i : {0, 1})
        if (counts(call->args[i]) && call->args[1 - i].is_tensor() && is_constant(call->args[1 - i])) {
          hot.label = call->args[1 - i].value();
          return true;
        }
    }
    hot.conditions.push_back(condition);
    return is_constant(condition);
  }

  // 0, 1, 2, ... along the dimension.
  bool counts(const Arg& a) {
    const Call* wide = a.is_tensor() ? producers_[a.value()] : nullptr;
    if (!is(wide, "prims.broadcast_in_dim") || !wide->args[0].is_tensor()) return false;
    const Call* iota = producers_[wide->args[0].value()];
    if (!is(iota, "prims.iota") || is_inexact(iota->output.value().dtype())) return false;
    const Args i = iota->arguments();
    return wide->arguments().integers("broadcast_dims") == std::vector<int64_t>{static_cast<int64_t>(dim_)} &&
           iota->output.value().shape()[0].same(wide->output.value().shape()[dim_]) && i.dim("start").same(0) &&
           i.dim("step").same(1);
  }

  bool is_constant(const Arg& a) {
    if (!a.is_tensor()) return a.is_number();
    const Call* call = producers_[a.value()];
    if (!call || !call->op->is_prim()) return false;
    if (is(call, "prims.broadcast_in_dim")) {
      const std::vector<int64_t> dims = call->arguments().integers("broadcast_dims");
      return std::count(dims.begin(), dims.end(), static_cast<int64_t>(dim_)) == 0;
    }
    if (!call->op->has(kPointwise)) return false;
    return std::all_of(call->args.begin(), call->args.end(), [&](const Arg& x) {
      return x.is_tensor() ? same(x.value().shape(), a.value().shape()) && is_constant(x) : !x.is_value();
    });
  }

  // What is constant, without the dimension.
  Arg without_dimension(const Arg& a) {
    if (!a.is_tensor()) return a;
    const Call& call = *producers_[a.value()];
    if (is(&call, "prims.broadcast_in_dim")) {
      Dims shape = a.value().shape();
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(dim_));
      std::vector<int64_t> dims = call.arguments().integers("broadcast_dims");
      for (int64_t& d : dims) d -= d > static_cast<int64_t>(dim_);
      return rewriter_.builder("prims.broadcast_in_dim", call.args[0], shape, Arg(dims)).arg();
    }
    ArgList args;
    for (const Arg& x : call.args) args.push_back(without_dimension(x));
    return rewriter_.builder.call(*call.op, args);
  }

  Arg element(const OneHot& hot, const Dim& extent) {
    Builder& b = rewriter_.builder;
    const Arg label = without_dimension(hot.label);
    Expr inside = b("prims.bitwise_and", b("prims.ge", label, 0), b("prims.lt", label, extent));
    for (Value c : hot.conditions) inside = b("prims.bitwise_and", inside, without_dimension(c));
    Expr result = b("prims.where", inside, without_dimension(hot.value), 0.0);
    for (size_t i = hot.after.size(); i-- > 0;) {
      ArgList args = hot.after[i]->args;
      args[0] = result;
      result = Expr(b, b.call(*hot.after[i]->op, args));
    }
    return result;
  }

  const Trace& trace_;
  Rewriter rewriter_;
  ValueMap<const Call*> producers_;
  size_t dim_ = 0;
};

}  // namespace

Trace one_hot_sums(const Trace& trace) {
  for (const Call* call : trace.calls)
    if (is(call, "prims.iota")) return OneHotSums(trace).run();
  return trace;
}

}  // namespace thunder
