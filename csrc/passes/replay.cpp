#include "passes/replay.h"

#include "core/error.h"

namespace thunder {
namespace {

bool carries_gradient(const Call& call) {
  bool any = false;
  visit_outputs(call, [&](Value v) { any |= v.requires_grad(); });
  return any;
}

}  // namespace

void Replay::put(const Call& call) {
  THUNDER_CHECK(!tags_within(call, kDataDependent), NotImplemented, call.op->name, "a size that only the run knows");
  THUNDER_CHECK(call.op->level != "augmented", NotImplemented, call.op->name, "it has a gradient of its own");
  visit_all_outputs(call, [&](Value v) { made_.set(v, 1); });
  Builder& b = *b_;
  const bool enabled = b.grad_enabled();
  const SourceLocation* location = b.location();
  const size_t calls = b.calls().size();
  b.set_grad_enabled(enabled && carries_gradient(call));
  b.set_location(call.location);
  const Arg output = b.call(*call.op, values_(call.args));
  b.set_location(location);
  b.set_grad_enabled(enabled);
  match(call.output, output);
  if (b.calls().size() > calls) match(call, *b.calls()[calls]);
}

void Replay::match(const Arg& was, const Arg& is) {
  const std::vector<Value> from = values_in(was), to = values_in(is);
  THUNDER_ASSERT(from.size() == to.size(), "a call gives ", to.size(), " values, and gave ", from.size());
  for (size_t i = 0; i < from.size(); ++i)
    if (!(from[i] == to[i]) && values_(from[i]).value() == from[i]) values_.replace(from[i], to[i]);
}

// Bodies may differ where they look at what requires a gradient.
void Replay::match(const Call& was, const Call& is) {
  calls_.emplace(&was, &is);
  if (was.body.size() != is.body.size()) return;
  for (size_t i = 0; i < was.body.size(); ++i)
    if (was.body[i]->op != is.body[i]->op) return;
  for (size_t i = 0; i < was.body.size(); ++i) {
    match(was.body[i]->output, is.body[i]->output);
    match(*was.body[i], *is.body[i]);
  }
}

Value Replay::now(Value v) const {
  const Value is = values_(v).value();
  THUNDER_CHECK(!(is == v) || !made_[v], NotImplemented, "replay", "a value inside of an operator is made no more");
  return is;
}

const Call* Replay::now(const Call* call) const {
  const auto at = calls_.find(call);
  return at == calls_.end() ? call : at->second;
}

}  // namespace thunder
