#include "passes/group_heads.h"

#include <optional>
#include <vector>

#include "core/builder.h"
#include "ops/torch/attention.h"
#include "passes/rewriter.h"
#include "passes/visit.h"

namespace thunder {
namespace {

constexpr size_t kHeads = 1;  // the dimension of [batch, heads, rows, size]

/// A tensor whose heads stand for `repeats` heads each.
struct GroupedHeads {
  Value heads;
  Dim repeats;
};

class Grouper {
 public:
  Grouper(const Trace& trace, const ExecutorList& executors) : trace_(trace), executors_(executors), rewriter_(trace) {}

  Trace run() {
    for (const Call* call : trace_.calls) {
      producers_.add(*call);
      if (ops::torch::is_attention(*call->op) && group(*call)) continue;
      for (const Call* c : rewriter_.current(call)) rewriter_.builder.append(c);
    }
    return rewriter_.finish();
  }

 private:
  bool group(const Call& call) {
    const Args a = call.arguments();
    if (a.flag("enable_gqa")) return false;
    std::optional<GroupedHeads> k = expanded(a.value("key")), v = expanded(a.value("value"));
    if (!k || !v || !k->repeats.same(v->repeats)) return false;
    ArgList args = call.args;
    auto set = [&](std::string_view param, Arg value) {
      args[static_cast<size_t>(call.op->schema.index_of(param))] = std::move(value);
    };
    set("key", k->heads);
    set("value", v->heads);
    set("enable_gqa", true);
    Arg result;
    std::vector<const Call*> made = rewriter_.collect(call, [&] { result = rewriter_.builder.call(*call.op, args); });
    if (made.size() != 1 || !takes_as_soon(*made.front(), call)) return false;
    if (result.value().requires_grad() != call.output.value().requires_grad()) return false;
    rewriter_.replace_outputs(call, result, "attention with grouped heads");
    for (const Call* c : rewriter_.current(made.front())) rewriter_.builder.append(c);
    return true;
  }

  // Whether an executor takes `grouped`, and none before it takes `plain`.
  bool takes_as_soon(const Call& grouped, const Call& plain) const {
    for (const auto& e : executors_) {
      if (e->find(grouped)) return true;
      if (e->find(plain)) return false;
    }
    return false;
  }

  // reshape(broadcast(x, [b, h, n, t, d]), [b, h * n, t, d]) with x of shape [b, h, t, d], or of one head
  // broadcast(x, [b, n, t, d]).
  std::optional<GroupedHeads> expanded(Value v) {
    if (v.tensor().rank() != 4) return std::nullopt;
    const Call* reshape = producers_.of(v);
    if (reshape && reshape->op->full_name == "prims.broadcast_in_dim") return of_one_head(v, reshape->args[0].value());
    if (!reshape || !(reshape->op->full_name == "prims.reshape" || reshape->op->full_name == "prims.view"))
      return std::nullopt;
    Value wide = reshape->args[0].value();
    if (wide.tensor().rank() != 5) return std::nullopt;
    const Dims shape = wide.tensor().shape;
    if (!same(v.tensor().shape, {shape[0], shape[1] * shape[2], shape[3], shape[4]})) return std::nullopt;
    Value x = wide;
    while (x && x.tensor().rank() == 5) x = before_broadcast(x);
    if (!x || x.tensor().rank() != 4 || x.requires_grad() != v.requires_grad()) return std::nullopt;
    if (!same(x.tensor().shape, {shape[0], shape[1], shape[3], shape[4]})) return std::nullopt;
    return GroupedHeads{x, shape[2]};
  }

  static std::optional<GroupedHeads> of_one_head(Value v, Value x) {
    const Dims& shape = v.shape();
    if (x.rank() != 4 || x.requires_grad() != v.requires_grad() ||
        !same(x.shape(), {shape[0], Dim(1), shape[2], shape[3]}))
      return std::nullopt;
    return GroupedHeads{x, shape[kHeads]};
  }

  // The operand of a broadcast along the repeats only; none for anything else.
  Value before_broadcast(Value v) {
    const Call* call = producers_.of(v);
    if (!call || call->op->full_name != "prims.broadcast_in_dim") return {};
    Value x = call->args[0].value();
    const std::vector<int64_t> dims = call->arguments().integers("broadcast_dims");
    const Dims &from = x.tensor().shape, &to = v.tensor().shape;
    if (dims == std::vector<int64_t>{0, 1, 3, 4}) return same(from, {to[0], to[1], to[3], to[4]}) ? x : Value();
    if (dims != std::vector<int64_t>{0, 1, 2, 3, 4}) return {};
    for (size_t i = 0; i < 5; ++i)
      if (i != kHeads + 1 && !from[i].same(to[i])) return {};
    return from[kHeads + 1].same(1) ? x : Value();
  }

  const Trace& trace_;
  const ExecutorList& executors_;
  Rewriter rewriter_;
  PrimitiveMakers producers_;
};

}  // namespace

Trace group_heads(const Trace& trace, const ExecutorList& executors) {
  for (const Call* call : trace.calls)
    if (ops::torch::is_attention(*call->op)) return Grouper(trace, executors).run();
  return trace;
}

}  // namespace thunder
