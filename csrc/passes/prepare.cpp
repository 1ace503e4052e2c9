#include "passes/prepare.h"

#include <algorithm>
#include <string>
#include <unordered_set>

#include "passes/rewriter.h"

namespace thunder {
namespace {

class Preparer {
 public:
  Preparer(const Trace& trace, const ExecutorList& executors) : trace_(trace), executors_(executors), rewriter_(trace) {
    for (const auto& e : executors)
      for (const auto& [symbol, implementations] : e->implementations())
        if (std::any_of(implementations.begin(), implementations.end(), [](const auto& i) { return !!i.prepare; }))
          symbols_.insert(symbol);
  }

  Trace run() {
    const bool any = std::any_of(trace_.calls.begin(), trace_.calls.end(), [&](const Call* c) { return may_be(*c); });
    if (!any) return trace_;
    for (const Call* call : trace_.calls)
      for (const Call* c : rewriter_.current(call)) {
        const Implementation* taken = may_be(*c) ? taking(*c) : nullptr;
        if (taken && taken->prepare) replace(*c, *taken);
        else rewriter_.builder.append(c);
      }
    return rewriter_.finish();
  }

 private:
  bool may_be(const Call& call) const { return symbols_.contains(call.op->full_name); }

  const Implementation* taking(const Call& call) const {
    for (const auto& e : executors_)
      if (const Implementation* found = e->find(call)) return found;
    return nullptr;
  }

  void replace(const Call& call, const Implementation& taken) {
    ArgList args;
    std::vector<const Call*> made =
        rewriter_.collect(call, [&] { args = taken.prepare(rewriter_.builder, call.arguments()); });
    if (made.empty()) return rewriter_.builder.append(&call);
    for (const Call* c : made) rewriter_.builder.append(c);
    Arg result;
    made = rewriter_.collect(call, [&] { result = rewriter_.builder.call(*call.op, std::move(args)); });
    rewriter_.replace_outputs(call, result, "prepare");
    for (const Call* c : made) rewriter_.builder.append(c);
  }

  const Trace& trace_;
  const ExecutorList& executors_;
  Rewriter rewriter_;
  std::unordered_set<std::string> symbols_;
};

}  // namespace

Trace prepare(const Trace& trace, const ExecutorList& executors) { return Preparer(trace, executors).run(); }

}  // namespace thunder
