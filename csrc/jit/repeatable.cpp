#include "jit/repeatable.h"

#include <ATen/Context.h>

#include <algorithm>
#include <functional>

#include "passes/counted_random.h"
#include "passes/visit.h"
#include "runtime/generators.h"

namespace thunder {

namespace {

// What the random call reads and sets of the generators is remembered: those of `objects`, which it is given, and the
// CPU's own.  False where it may change others.
bool find_generators(const Call& call, std::vector<Ref>& objects) {
  bool known = true, given = false;
  std::function<void(const Arg&)> visit = [&](const Arg& a) {
    if (a.is_sequence())
      for (const Arg& item : a.items()) visit(item);
    if (a.kind() != Arg::Kind::Opaque) return;
    auto* object = static_cast<PyObject*>(a.opaque().object.get());
    if (!object || !is_generator(object)) return;
    given = true;
    known = known && is_cpu_generator(object);
    objects.push_back(Ref::borrow(object));
  };
  for (const Arg& a : call.args) visit(a);
  // torch.manual_seed() seeds the generators of all devices.
  if (changes_generator(call) && !given && at::globalContext().hasCUDA()) return false;
  return known &&
         std::all_of(call.body.begin(), call.body.end(), [&](const Call* c) { return find_generators(*c, objects); });
}

// Whether the executor of that name is the user's, whose code may do something else than PyTorch.
bool is_custom(const std::string& executor) {
  return !executor.empty() && !Executors::instance().is_reserved(executor);
}
bool is_custom(const Call& call) {
  return is_custom(call.op->executor) ||
         std::any_of(call.body.begin(), call.body.end(), [](const Call* c) { return is_custom(*c); });
}

}  // namespace

void find_repeatable(CacheEntry& e, const UserFunction& function, const Trace& computation, bool again) {
  uint64_t effects = 0;
  e.repeatable = again && function.transform().empty();
  for (const auto& executor : function.options.compile.executors)
    e.repeatable = e.repeatable && !is_custom(executor->name());
  for (const Call* c : computation.calls) {
    e.repeatable = e.repeatable && !is_custom(*c);
    const uint64_t of_call = tags_within(*c, kRandom | kCollective);
    effects |= of_call;
    if (!(of_call & kRandom)) continue;
    e.repeatable = find_generators(*c, e.generators) && e.repeatable;
    // The state of a GPU's generator cannot be asked for while a graph is recorded.
    visit_outputs(*c, [&](Value v) {
      e.repeatable = e.repeatable && (!v.type().is_tensor() || v.tensor().device.type == DeviceType::cpu);
    });
  }
  e.draws = (effects & kRandom) != 0;
  e.communicates = (effects & kCollective) != 0 || e.plan;
  e.repeatable = e.repeatable && !e.communicates;
}

}  // namespace thunder
