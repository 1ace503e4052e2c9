#include "runtime/kernels/peer_memory.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "core/error.h"
#include "runtime/kernels/cuda_api.h"
#include "runtime/kernels/shared_library.h"

namespace thunder::peers {
namespace {

using DevicePointer = unsigned long long;

// CUstreamBatchMemOpParams: of a wait or a write of 32 bits.
struct MemoryOperation {
  int what = 0;
  DevicePointer address = 0;
  uint64_t value = 0;
  unsigned flags = 0;
  DevicePointer alias = 0;
  uint64_t unused = 0;
};
static_assert(sizeof(MemoryOperation) == 48);

// CUmemcpyAttributes.
struct CopyAttributes {
  int order = 1;  // sources are read in the order of the stream
  int source_kind = 0, source = 0, target_kind = 0, target = 0;
  unsigned flags = 0;
};
static_assert(sizeof(CopyAttributes) == 24);

// What no other part of the runtime calls: a driver without them is no error.
struct PeerApi {
  int (*cuStreamCreateWithPriority)(void** stream, unsigned flags, int priority);
  int (*cuStreamWaitEvent)(void* stream, void* event, unsigned flags);
  int (*cuMemcpyAsync)(DevicePointer to, DevicePointer from, size_t bytes, void* stream);
  int (*cuStreamBatchMemOp_v2)(void* stream, unsigned count, MemoryOperation* operations, unsigned flags);
  // Of drivers since CUDA 13.
  int (*cuMemcpyBatchAsync_v2)(DevicePointer* to, DevicePointer* from, size_t* bytes, size_t count,
                               CopyAttributes* attributes, size_t* first_of_attributes, size_t attributes_count,
                               void* stream);
  std::string missing;
};

const PeerApi& api() {
  static const PeerApi found = [] {
    PeerApi a{};
    void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver) {
      a.missing = "any";
      return a;
    }
    Functions functions{driver, ""};
    functions.find("cuStreamCreateWithPriority", a.cuStreamCreateWithPriority);
    functions.find("cuStreamWaitEvent", a.cuStreamWaitEvent);
    functions.find("cuMemcpyAsync", a.cuMemcpyAsync);
    functions.find("cuStreamBatchMemOp_v2", a.cuStreamBatchMemOp_v2);
    a.missing = functions.missing;
    functions.find("cuMemcpyBatchAsync_v2", a.cuMemcpyBatchAsync_v2);
    return a;
  }();
  return found;
}

void check(int status, const char* doing) { check_cuda(status, "distributed", doing); }

void* new_stream() {
  constexpr unsigned kNonBlocking = 1;
  constexpr int kHighest = -5;  // the driver takes the highest that there is
  void* stream = nullptr;
  check(api().cuStreamCreateWithPriority(&stream, kNonBlocking, kHighest), "making a stream");
  return stream;
}

void* new_event() {
  constexpr unsigned kWithoutTime = 2;
  void* event = nullptr;
  check(require_cuda().cuEventCreate(&event, kWithoutTime), "making an event");
  return event;
}

// The streams `waiting` go on once `stream` has come as far as now.
void order(void* stream, const std::vector<void*>& waiting) {
  void* event = new_event();
  check(require_cuda().cuEventRecord(event, stream), "recording an event");
  for (void* w : waiting) check(api().cuStreamWaitEvent(w, event, 0), "waiting for an event");
  require_cuda().cuEventDestroy_v2(event);
}

// Waits and writes of a stream that follow each other are one call.
class StreamCounters {
 public:
  explicit StreamCounters(void* stream) : stream_(stream) {}

  int await(uint64_t address, uint32_t value) { return add(1, address, value); }
  int tell(uint64_t address, uint32_t value) { return add(2, address, value); }
  int flush() {
    if (waiting_.empty()) return 0;
    const int status = api().cuStreamBatchMemOp_v2(stream_, static_cast<unsigned>(waiting_.size()), waiting_.data(), 0);
    waiting_.clear();
    return status;
  }

 private:
  // Flags of 0: a wait is for that value at least.
  int add(int what, uint64_t address, uint32_t value) {
    constexpr size_t kMost = 64;  // the driver takes 256
    waiting_.push_back({.what = what, .address = address, .value = value});
    return waiting_.size() < kMost ? 0 : flush();
  }

  void* stream_;
  std::vector<MemoryOperation> waiting_;
};

// Copies of a stream that follow each other are one call, in which their order is free.
class Copies {
 public:
  explicit Copies(void* stream) : stream_(stream) {}

  void add(uint64_t to, uint64_t from, size_t bytes) {
    to_.push_back(to);
    from_.push_back(from);
    bytes_.push_back(bytes);
  }
  int flush() {
    int status = 0;
    if (to_.size() > 1 && api().cuMemcpyBatchAsync_v2) {
      CopyAttributes attributes;
      size_t first = 0;
      status = api().cuMemcpyBatchAsync_v2(to_.data(), from_.data(), bytes_.data(), to_.size(), &attributes, &first, 1,
                                           stream_);
    } else {
      for (size_t i = 0; i < to_.size() && status == 0; ++i)
        status = api().cuMemcpyAsync(to_[i], from_[i], bytes_[i], stream_);
    }
    to_.clear(), from_.clear(), bytes_.clear();
    return status;
  }

 private:
  void* stream_;
  std::vector<DevicePointer> to_, from_;
  std::vector<size_t> bytes_;
};

constexpr int kMostPeers = 15;

// As the kernel has them.
struct PeerPointers {
  std::array<const void*, kMostPeers> at;
};

}  // namespace

bool available(std::string* why_not) {
  if (!cuda_available(why_not)) return false;
  if (api().missing.empty()) return true;
  *why_not = cat("the CUDA driver has no function ", api().missing);
  return false;
}

// ---- reductions ------------------------------------------------------------------------------------------------------

std::string reduction_text() {
  std::string text = R"(
struct peers_parts { const void* at[15]; };
template <class T> struct peers_wide { typedef float type; };
template <> struct peers_wide<double> { typedef double type; };
template <class T> struct __align__(16) peers_vector { T x[16 / sizeof(T)]; };

// The sum in the order of ranks: `before` parts, the own one, the other parts.
template <class T, class V, int N>
TH_D void peers_sum(V* out, V* also, const V* own, const peers_parts& parts, int others, int before, double factor, int64 i) {
  typedef typename peers_wide<T>::type W;
  W sum[N];
#pragma unroll
  for (int k = 0; k < N; ++k) sum[k] = W(0);
#pragma unroll 2
  for (int p = 0; p <= others; ++p) {
    const V* from = p == before ? own : static_cast<const V*>(parts.at[p < before ? p : p - 1]);
    const V v = from[i];
#pragma unroll
    for (int k = 0; k < N; ++k) sum[k] += W(th_get(reinterpret_cast<const T*>(&v)[k]));
  }
  V v;
#pragma unroll
  for (int k = 0; k < N; ++k) th_set(reinterpret_cast<T*>(&v)[k], sum[k] * W(factor));
  out[i] = v;
  if (also) also[i] = v;
}

template <class T>
TH_D void peers_reduce(T* out, T* also, const T* own, const peers_parts& parts, int others, int before, double factor, int64 n) {
  typedef peers_vector<T> V;
  constexpr int N = 16 / sizeof(T);
  uint64 low = reinterpret_cast<uint64>(out) | reinterpret_cast<uint64>(also) | reinterpret_cast<uint64>(own);
  for (int p = 0; p < others; ++p) low |= reinterpret_cast<uint64>(parts.at[p]);
  const int64 vectors = low % 16 ? 0 : n / N, step = int64(gridDim.x) * blockDim.x;
  const int64 first = int64(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64 i = first; i < vectors; i += step)
    peers_sum<T, V, N>(reinterpret_cast<V*>(out), reinterpret_cast<V*>(also), reinterpret_cast<const V*>(own), parts, others, before, factor, i);
  for (int64 i = vectors * N + first; i < n; i += step) peers_sum<T, T, 1>(out, also, own, parts, others, before, factor, i);
}
)";
  for (const auto& [name, type] : {std::pair{"bf16", "bf16"}, {"f16", "f16"}, {"f32", "float"}, {"f64", "double"}})
    text += cat("extern \"C\" __global__ void __launch_bounds__(256) peers_reduce_", name, "(", type, "* out, ", type,
                "* also, const ", type, "* own, peers_parts parts, int others, int before, double factor, int64 n) {\n",
                "  peers_reduce<", type, ">(out, also, own, parts, others, before, factor, n);\n}\n");
  return text;
}

void PeerMemory::reduce(const Step& s, const CollectiveOperands& o, void* stream) const {
  constexpr unsigned kThreads = 256;
  // Two on each multiprocessor of the largest GPUs: more are no faster, and wait longer beside a matrix product.
  constexpr int64_t kBlocks = 264;
  PeerPointers parts{};
  int others = layout_.world - 1;
  for (int r = 0, k = 0; r < layout_.world; ++r)
    if (r != rank_)
      parts.at[static_cast<size_t>(k++)] =
          reinterpret_cast<void*>(shared(rank_, layout_.inbox(r, s.value, rank_) + s.within));
  auto* out = reinterpret_cast<void*>(address(s.to, o));
  auto* also = s.has_also ? reinterpret_cast<void*>(address(s.also, o)) : nullptr;
  const auto* own = reinterpret_cast<const void*>(address(s.from, o));
  int before = rank_;
  double factor = o.mean ? 1.0 / layout_.world : 1.0;
  auto n = static_cast<int64_t>(s.bytes / o.element);
  void* params[] = {&out, &also, &own, &parts, &others, &before, &factor, &n};
  const int64_t wanted = (n * static_cast<int64_t>(o.element) / 16 + kThreads - 1) / kThreads;
  o.kernel->launch(device_, {static_cast<unsigned>(std::clamp<int64_t>(wanted, 1, kBlocks))}, {kThreads}, 0, stream,
                   params);
}

// ---- the end of a collective -----------------------------------------------------------------------------------------

Done::~Done() {
  const CudaContextScope context(device_);
  require_cuda().cuEventDestroy_v2(event_);
}

bool Done::query() const {
  const CudaContextScope context(device_);
  const RelaxedCaptureScope relaxed;
  return require_cuda().cuEventQuery(event_) == 0;
}

void Done::block(void* stream) const {
  const CudaContextScope context(device_);
  check(api().cuStreamWaitEvent(stream, event_, 0), "waiting for a collective");
}

// ---- issuing ---------------------------------------------------------------------------------------------------------

PeerMemory::PeerMemory(const PeerLayout& layout, int rank, int device, std::vector<uint64_t> bases)
    : layout_(layout), rank_(rank), device_(device), bases_(std::move(bases)), steps_(layout, rank) {
  THUNDER_CHECK(layout.world - 1 <= kMostPeers && bases_.size() == static_cast<size_t>(layout.world), Value,
                "distributed", "at most ", kMostPeers + 1, " processes share memory, got ", layout.world, " with ",
                bases_.size(), " addresses");
  const CudaContextScope context(device);
  for (void*& stream : streams_) stream = new_stream();
}

std::shared_ptr<Done> PeerMemory::issue(void* stream, const CollectiveOperands& o, const std::vector<Step>& steps) {
  const CudaContextScope context(device_);
  std::array<std::vector<const Step*>, kLanes> lanes;
  for (const Step& s : steps) lanes[static_cast<size_t>(s.lane)].push_back(&s);
  std::vector<void*> used;
  for (size_t i = 0; i < kLanes; ++i)
    if (!lanes[i].empty()) used.push_back(streams_[i]);
  if (used.empty()) used.push_back(streams_[0]);
  order(stream, used);
  for (size_t i = 0; i < kLanes; ++i) run_lane(lanes[i], o, streams_[i]);
  void* last = used.back();
  used.pop_back();
  for (void* other : used) order(other, {last});
  void* event = new_event();
  check(require_cuda().cuEventRecord(event, last), "recording an event");
  return std::make_shared<Done>(device_, event);
}

void PeerMemory::run_lane(const std::vector<const Step*>& steps, const CollectiveOperands& o, void* stream) const {
  StreamCounters counters(stream);
  Copies copies(stream);
  for (const Step* s : steps) {
    if (s->kind == Step::Kind::Copy) {
      check(counters.flush(), "waiting for counters");
      copies.add(address(s->to, o), address(s->from, o), s->bytes);
      continue;
    }
    check(copies.flush(), "copying");
    if (s->kind == Step::Kind::Await) {
      check(counters.await(shared(rank_, layout_.counter(s->counter, s->rank)), s->value), "waiting for a counter");
    } else if (s->kind == Step::Kind::Tell) {
      check(counters.tell(shared(s->rank, layout_.counter(s->counter, rank_)), s->value), "setting a counter");
    } else {
      check(counters.flush(), "waiting for counters");
      reduce(*s, o, stream);
    }
  }
  check(copies.flush(), "copying");
  check(counters.flush(), "setting counters");
}

uint64_t PeerMemory::address(const Location& at, const CollectiveOperands& o) const {
  switch (at.in) {
    case Location::In::Source: return reinterpret_cast<uint64_t>(o.sources[at.tensor]) + at.offset;
    case Location::In::Result: return reinterpret_cast<uint64_t>(o.results[at.tensor]) + at.offset;
    case Location::In::Reached: return o.reached[at.tensor][static_cast<size_t>(at.rank)] + at.offset;
    case Location::In::Shared: return shared(at.rank, at.offset);
  }
  return 0;
}

void PeerMemory::release() const {
  // Larger than what any wait asks for, as counters are compared: half of their range ahead of small ones.
  constexpr uint32_t kFarAhead = 1u << 30;
  const CudaContextScope context(device_);
  void* stream = new_stream();
  for (int times = 0; times < 50; ++times) {
    StreamCounters counters(stream);
    for (size_t c = 0; c < kCounters; ++c)
      for (int r = 0; r < layout_.world; ++r)
        if (counters.tell(shared(rank_, layout_.counter(static_cast<PeerCounter>(c), r)), kFarAhead) != 0) return;
    if (counters.flush() != 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

}  // namespace thunder::peers
