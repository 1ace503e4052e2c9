#include "core/error.h"
#include "passes/passes.h"
#include "passes/rewriter.h"

namespace thunder {
namespace {

// A transform may make calls that the same executor transforms again; one that never ends is stopped here.
constexpr int kMaxDepth = 100;

class Claimer {
 public:
  Claimer(const Trace& trace, const ExecutorList& executors, bool drop_identities)
      : trace_(trace), executors_(executors), drop_identities_(drop_identities), rewriter_(trace) {
    visit_values(trace.output, [&](Value v) { returned_.set(v, 1); });
  }

  Trace run() {
    for (const Call* call : trace_.calls) offer(call, 0);
    return rewriter_.finish();
  }

 private:
  void offer(const Call* call, int depth) {
    for (const Call* c : rewriter_.current(call)) offer_current(c, depth);
  }

  void offer_current(const Call* call, int depth) {
    THUNDER_CHECK(depth < kMaxDepth, Value, call->op->name,
                  "an executor's transform makes calls that it transforms again");
    if (!call->op->executor.empty() || call->op->has(kInput)) return rewriter_.builder.append(call);
    if (drop_identity(*call)) return;
    for (const auto& executor : executors_) {
      const Implementation* implementation = executor->find(*call);
      if (!implementation || !(implementation->op || implementation->transform)) continue;
      if (implementation->op) return take(*call, *implementation->op, *executor);
      return transform(*call, *implementation, *executor, depth);
    }
    if (call->body.empty()) unclaimed(*call);
    for (const Call* inner : call->body) offer(inner, depth + 1);
  }

  void take(const Call& call, const Op& op, const Executor& executor) {
    THUNDER_CHECK(op.schema.params.size() == call.args.size(), Value, call.op->name, "executor '", executor.name(),
                  "' implements it by ", op.schema.str(), ", which does not take the same ", call.args.size(),
                  " arguments");
    rewriter_.builder.append(trace_.arena->make_call(Call{.op = &op,
                                                          .args = call.args,
                                                          .output = call.output,
                                                          .body = call.body,
                                                          .location = call.location,
                                                          .symbols = call.symbols}));
  }

  void transform(const Call& call, const Implementation& implementation, const Executor& executor, int depth) {
    Arg results;
    std::vector<const Call*> made =
        rewriter_.collect(call, [&] { results = implementation.transform(rewriter_.builder, call.arguments()); });
    rewriter_.replace_outputs(call, results, cat("the transform of executor '", executor.name(), "'"));
    for (const Call* c : made) offer(c, depth + 1);
  }

  // What the caller receives stays a tensor object of its own.
  bool drop_identity(const Call& call) {
    if (!drop_identities_) return false;
    Value source = identity_source(call);
    if (!source || returned_[call.output.value()] || !call.output.value().type().same(source.type(), false))
      return false;
    rewriter_.replace(call.output.value(), source);
    return true;
  }

  [[noreturn]] void unclaimed(const Call& call) const {
    std::vector<std::string> names, operands;
    for (const auto& e : executors_) names.push_back(e->name());
    visit_all_inputs(call, [&](Value v) { operands.push_back(v.type().str()); });
    throw Error(ErrorKind::NotImplemented, cat("[", call.op->name, "] no executor can run this operator on (",
                                               join(operands), "); executors: ", join(names), user_line(call)));
  }

  const Trace& trace_;
  const ExecutorList& executors_;
  bool drop_identities_;
  Rewriter rewriter_;
  ValueSet returned_;
};

}  // namespace

Trace claim(const Trace& trace, const ExecutorList& executors, bool drop_identities) {
  return Claimer(trace, executors, drop_identities).run();
}

}  // namespace thunder
