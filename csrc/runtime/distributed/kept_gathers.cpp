#include "runtime/distributed/kept_gathers.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

#include "runtime/distributed/watch.h"

namespace thunder::distributed {
namespace {

using InputPlacements = std::vector<std::shared_ptr<const Placement>>;

// When what is kept holds.
struct StateOfParameters {
  uint64_t versions = 0;  // the sum of the parameters' version counters, none of which falls
  std::optional<c10::Stream> stream;

  bool operator==(const StateOfParameters&) const = default;
};

struct KeptBuckets {
  StateOfParameters state;
  std::map<std::string, c10::IValue> buckets;
};

struct KeptOfPlans {
  std::mutex mutex;
  std::map<std::string, KeptBuckets> plans;  // those whose forwards may keep
};

// Never destroyed: tensors on a GPU may outlive the driver otherwise.
KeptOfPlans& kept_of_plans() {
  static auto* a = new KeptOfPlans;
  return *a;
}

// Nothing where a tensor has no version counter.
std::optional<StateOfParameters> state_of(const InputPlacements& inputs) {
  StateOfParameters out;
  for (const auto& p : inputs) {
    if (!p || !p->plan) continue;
    if (p->local.is_inference()) return std::nullopt;
    out.versions += p->local._version();
    const c10::Device device = p->local.device();
    if (!out.stream && !device.is_cpu()) out.stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  }
  return out;
}

}  // namespace

void check_kept_gathers(const InputPlacements& inputs) {
  const auto first = std::find_if(inputs.begin(), inputs.end(), [](const auto& p) { return p && p->plan; });
  if (first == inputs.end()) return;
  const CommunicationPlan& plan = *(*first)->plan;
  if (plan.regather || plan.mode() == Synchronization::Reduce) return;
  // Where a process alone gathers, the others may wait for it in a reduction: both groups are watched before that.
  Watch::of(plan.reduce_group);
  // A process without data, within join(), gathers in every call.
  const std::optional<StateOfParameters> now = plan.joining ? std::nullopt : state_of(inputs);
  std::map<std::string, c10::IValue> dropped;  // outside of the lock
  std::lock_guard lock(kept_of_plans().mutex);
  if (!now) {
    if (auto it = kept_of_plans().plans.find(plan.id); it != kept_of_plans().plans.end()) {
      dropped.swap(it->second.buckets);
      kept_of_plans().plans.erase(it);
    }
    return;
  }
  KeptBuckets& kept = kept_of_plans().plans[plan.id];
  if (kept.state == *now) return;
  dropped.swap(kept.buckets);
  kept.state = *now;
}

c10::IValue kept_gather(const std::string& plan, const std::string& bucket, bool keep) {
  std::lock_guard lock(kept_of_plans().mutex);
  auto of = kept_of_plans().plans.find(plan);
  if (of == kept_of_plans().plans.end()) return {};
  auto it = of->second.buckets.find(bucket);
  if (it == of->second.buckets.end()) return {};
  if (keep) return it->second;
  c10::IValue out = std::move(it->second);
  of->second.buckets.erase(it);
  return out;
}

void keep_gather(const std::string& plan, const std::string& bucket, c10::IValue communication) {
  std::lock_guard lock(kept_of_plans().mutex);
  if (auto of = kept_of_plans().plans.find(plan); of != kept_of_plans().plans.end())
    of->second.buckets[bucket] = std::move(communication);
}

void forget_kept_gathers(const std::string& plan) {
  std::map<std::string, c10::IValue> dropped;
  std::lock_guard lock(kept_of_plans().mutex);
  auto of = kept_of_plans().plans.find(plan);
  if (of == kept_of_plans().plans.end()) return;
  dropped.swap(of->second.buckets);
  kept_of_plans().plans.erase(of);
}

}  // namespace thunder::distributed
