#include "executors/c10d/peers.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "core/error.h"
#include "fuser/emit.h"
#include "runtime/cuda_module.h"
#include "runtime/distributed/watch.h"
#include "runtime/kernels/current_stream.h"

namespace thunder {
namespace {

class PeerWork final : public c10d::Work {
 public:
  PeerWork(int device, std::shared_ptr<peers::Done> done) : device_(device), done_(std::move(done)) {}

  bool isCompleted() override { return done_->query(); }
  bool isSuccess() const override { return done_->query(); }
  void synchronize() override { done_->block(current_cuda_stream(device_)); }
  bool wait(std::chrono::milliseconds) override {
    synchronize();
    return true;
  }
  // None: wait() orders streams.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return {}; }

 private:
  const int device_;
  const std::shared_ptr<peers::Done> done_;
};

std::shared_ptr<CudaModule> reductions() {
  static const std::shared_ptr<CudaModule> module =
      CudaModule::of("peers", fuser::cuda_prelude() + peers::reduction_text());
  return module;
}

const char* suffix_of(at::ScalarType t) {
  switch (t) {
    case at::kBFloat16: return "bf16";
    case at::kHalf: return "f16";
    case at::kFloat: return "f32";
    case at::kDouble: return "f64";
    default: return nullptr;
  }
}

const CudaKernel* reduction_for(at::ScalarType t, int device, std::string* why_not) {
  return reductions()->find(cat("peers_reduce_", suffix_of(t)), device, why_not);
}

const CudaKernel* require_reduction(at::ScalarType t, int device) {
  std::string why;
  const CudaKernel* kernel = reduction_for(t, device, &why);
  THUNDER_CHECK(kernel, Runtime, "distributed", "a kernel cannot be compiled: ", why);
  return kernel;
}

struct PeersOfGroup {
  c10::weak_intrusive_ptr<c10d::ProcessGroup> group;
  std::shared_ptr<Peers> peers;
};

std::mutex& known_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

// Never destroyed: streams may still wait when the process ends.
std::vector<PeersOfGroup>& known() {
  static auto* all = new std::vector<PeersOfGroup>;
  return *all;
}

std::vector<size_t> bytes_of(const std::vector<at::Tensor>& tensors) {
  std::vector<size_t> out;
  for (const at::Tensor& t : tensors) out.push_back(t.nbytes());
  return out;
}

}  // namespace

bool Peers::available(int device, std::string* why_not) {
  if (!peers::available(why_not)) return false;
  for (const at::ScalarType t : {at::kBFloat16, at::kHalf, at::kFloat, at::kDouble})
    if (!reduction_for(t, device, why_not)) return false;
  return true;
}

void Peers::connect(const std::string& group, const peers::PeerLayout& layout, int rank, int device, int64_t least,
                    std::vector<uint64_t> bases) {
  auto memory = std::make_shared<peers::PeerMemory>(layout, rank, device, std::move(bases));
  distributed::Watch::of(group)->on_failure([memory] { memory->release(); });
  const std::lock_guard lock(known_mutex());
  std::erase_if(known(), [](const PeersOfGroup& k) { return k.group.expired(); });
  known().push_back({c10::weak_intrusive_ptr<c10d::ProcessGroup>(distributed::group_named(group)),
                     std::make_shared<Peers>(std::move(memory), least)});
}

void Peers::reach(const std::string& group, const at::Tensor& memory, std::vector<uint64_t> bases) {
  const std::shared_ptr<Peers> peers = of(distributed::group_named(group));
  THUNDER_ASSERT(peers && bases.size() == static_cast<size_t>(peers->memory_->layout().world), "no peers of ", group);
  const std::lock_guard lock(peers->mutex_);
  std::erase_if(peers->regions_, [](const Region& r) { return r.memory.expired(); });
  peers->regions_.push_back({c10::weak_intrusive_ptr<c10::StorageImpl>(memory.storage().getWeakStorageImpl()),
                             reinterpret_cast<uint64_t>(memory.const_data_ptr()), memory.nbytes(), std::move(bases)});
}

std::vector<uint64_t> Peers::reached(const at::Tensor& t) const {
  const auto begin = reinterpret_cast<uint64_t>(t.const_data_ptr());
  const std::lock_guard lock(mutex_);
  for (const Region& r : regions_) {
    if (r.memory.expired() || begin < r.begin || begin + t.nbytes() > r.begin + r.bytes) continue;
    std::vector<uint64_t> out = r.bases;
    for (uint64_t& at : out) at += begin - r.begin;
    return out;
  }
  return {};
}

std::shared_ptr<Peers> Peers::of(const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  const std::lock_guard lock(known_mutex());
  for (const PeersOfGroup& k : known())
    if (k.group.lock() == group) return k.peers;
  return nullptr;
}

bool Peers::holds(const std::vector<at::Tensor>& inputs) const {
  const int device = memory_->device();
  return std::all_of(inputs.begin(), inputs.end(),
                     [&](const at::Tensor& t) { return t.is_cuda() && t.device().index() == device; }) &&
         !cuda_is_capturing(device, current_cuda_stream(device));
}

bool Peers::large(const std::vector<at::Tensor>& inputs) const {
  size_t bytes = 0;
  for (const at::Tensor& t : inputs) bytes += t.nbytes();
  return static_cast<int64_t>(bytes) >= least_;
}

bool Peers::takes_reduce_scatter(const std::vector<at::Tensor>& inputs, const std::string& op) const {
  const at::ScalarType type = inputs[0].scalar_type();
  return memory_->layout().inbox_bytes && (op == "sum" || op == "avg") && suffix_of(type) && holds(inputs) &&
         std::all_of(inputs.begin(), inputs.end(), [&](const at::Tensor& t) { return t.scalar_type() == type; });
}

bool Peers::takes_gather(const std::vector<at::Tensor>& inputs) const {
  if (!memory_->layout().outbox_bytes || !holds(inputs)) return false;
  return large(inputs) ||
         std::all_of(inputs.begin(), inputs.end(), [&](const at::Tensor& t) { return !reached(t).empty(); });
}

bool Peers::takes_all_reduce(const std::vector<at::Tensor>& inputs, const std::string& op) const {
  return memory_->layout().outbox_bytes && large(inputs) && takes_reduce_scatter(inputs, op);
}

peers::CollectiveOperands Peers::operands(const std::vector<at::Tensor>& outputs,
                                          const std::vector<at::Tensor>& inputs) const {
  peers::CollectiveOperands o;
  for (const auto* tensors : {&inputs, &outputs})
    for (const at::Tensor& t : *tensors)
      THUNDER_CHECK(t.is_contiguous(), Runtime, "distributed", "a contiguous tensor was expected, got strides ",
                    t.strides(), " for shape ", t.sizes());
  for (const at::Tensor& t : inputs) o.sources.push_back(t.const_data_ptr());
  for (const at::Tensor& t : outputs) o.results.push_back(t.mutable_data_ptr());
  o.element = inputs[0].element_size();
  return o;
}

template <class Make>
Peers::WorkPtr Peers::run(const peers::CollectiveOperands& o, Make make) {
  const int device = memory_->device();
  return c10::make_intrusive<PeerWork>(device, memory_->run(current_cuda_stream(device), o, make));
}

Peers::WorkPtr Peers::all_gather(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs) {
  peers::CollectiveOperands o = operands(outputs, inputs);
  std::vector<bool> reached;
  for (const at::Tensor& t : inputs) {
    o.reached.push_back(this->reached(t));
    reached.push_back(!o.reached.back().empty());
  }
  return run(o, [&](peers::Steps& s) { return s.all_gather(bytes_of(inputs), reached); });
}

Peers::WorkPtr Peers::reduce_scatter(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs,
                                     const std::string& op) {
  peers::CollectiveOperands o = operands(outputs, inputs);
  o.kernel = require_reduction(inputs[0].scalar_type(), memory_->device());
  o.mean = op == "avg";
  return run(o, [&](peers::Steps& s) { return s.reduce_scatter(bytes_of(inputs)); });
}

Peers::WorkPtr Peers::all_reduce(const std::vector<at::Tensor>& tensors, const std::string& op) {
  peers::CollectiveOperands o = operands(tensors, tensors);
  o.kernel = require_reduction(tensors[0].scalar_type(), memory_->device());
  o.mean = op == "avg";
  return run(o, [&](peers::Steps& s) { return s.all_reduce(bytes_of(tensors)); });
}

}  // namespace thunder
