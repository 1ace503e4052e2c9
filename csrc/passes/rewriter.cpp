#include "passes/rewriter.h"

#include <numeric>

#include "core/error.h"
#include "ops/shape_common.h"

namespace thunder {
namespace {

// requires_grad does not change how a call is made below autograd, and a replaced value's type is the newer one.
bool same_layout(const Type& a, const Type& b) {
  if (!a.is_tensor() || !b.is_tensor()) return a.same(b, false);
  return a.same(b, false) && same(a.tensor().strides, b.tensor().strides);
}

// A copy with the strides of the type.  Of a dimension with stride 0 it has one element, which is expanded again.
Expr in_layout_of(const TensorType& type, Expr x) {
  std::vector<int64_t> all(type.shape.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  bool expanded = false;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!type.strides[i].same(0) || type.shape[i].same(1)) continue;
    x = ops::slice_dim(x, static_cast<int64_t>(i), 0, 1);
    expanded = true;
  }
  x = x.builder()("prims.restride", x, type.strides);
  return expanded ? x.builder()("prims.broadcast_in_dim", x, type.shape, all) : x;
}

}  // namespace

void Rewriter::replace(Value from, const Arg& to) {
  if (to.is_value() && to.value() == from) return;
  map_.replace(from, to);
  replaced_.set(from, to.is_value() && same_layout(from.type(), to.value().type()) ? 1 : 2);
}

void Rewriter::replace_outputs(const Call& call, const Arg& results, const std::string& who) {
  std::vector<Value> from = outputs_of(call);
  ArgList to;
  if (results.is_sequence()) {
    to = results.items();
  } else if (!from.empty()) {
    to = {results};
  }
  THUNDER_CHECK(from.size() == to.size(), Value, call.op->name, who, " gives ", to.size(),
                " results, the operator has ", from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    bool tensor = from[i].type().is_tensor();
    bool fits = tensor ? to[i].is_tensor() && to[i].value().type().same(from[i].type(), false)
                       : to[i].is_literal_number() || to[i].is_value();
    THUNDER_CHECK(fits, Value, call.op->name, who, " gives for result ", i, " ",
                  to[i].is_value() ? to[i].value().type().str() : "something else", ", the operator ",
                  from[i].type().str());
    replace(from[i], to[i]);
  }
}

std::vector<const Call*> Rewriter::current(const Call* call) {
  if (map_.empty()) return {call};
  char worst = 0;
  visit_all_inputs(*call, [&](Value v) { worst = std::max(worst, replaced_[v]); });
  if (worst == 0) return {call};
  const Call* renamed = substitute(*trace_.arena, call, map_);
  // An executor's operator was made for these types, and one that steers the program has none.
  if (worst == 1 || !call->op->executor.empty() || call->op->has(kInput)) return {renamed};
  if (tags_within(*call, kDataDependent)) return with_layouts_of(*call);
  Arg output;
  std::vector<const Call*> made = collect(*call, [&] { output = builder.call(*call->op, renamed->args); });
  replace_outputs(*call, output, "the same call on another layout");
  return made;
}

// Made again, the call would find lengths of other names than those that the calls behind it read.
std::vector<const Call*> Rewriter::with_layouts_of(const Call& call) {
  Substitution map;
  std::vector<const Call*> made = collect(call, [&] {
    visit_all_inputs(call, [&](Value v) {
      Arg now = map_(v);
      if (replaced_[v] == 2 && now.is_value() && now.value().type().is_tensor() && v.type().is_tensor())
        now = in_layout_of(v.tensor(), builder.expr(now)).arg();
      if (replaced_[v] != 0) map.replace(v, now);
    });
  });
  made.push_back(substitute(*trace_.arena, &call, map));
  return made;
}

Trace Rewriter::finish() {
  Trace out = builder.finish(trace_.name, map_(trace_.output));
  out.inputs = trace_.inputs;
  out.signature = trace_.signature;
  return out;
}

}  // namespace thunder
