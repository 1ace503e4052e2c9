// The steps of peer_steps.h, issued to a GPU: copy engines move the bytes, and streams wait for counters in memory.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/kernels/cuda_driver.h"
#include "runtime/kernels/peer_steps.h"

namespace thunder::peers {

/// Whether the driver has what this needs; if not, `why_not` says what is missing.
bool available(std::string* why_not);

/// When the steps of a collective are done.
class Done {
 public:
  Done(int device, void* event) : device_(device), event_(event) {}
  ~Done();
  Done(const Done&) = delete;
  Done& operator=(const Done&) = delete;
  bool query() const;
  /// What is launched on the stream afterwards waits for it.
  void block(void* stream) const;

 private:
  int device_;
  void* event_;
};

/// Where a collective's tensors lie, and how they are reduced: `kernel` is of reduction_text(), for elements of
/// `element` bytes.
struct CollectiveOperands {
  std::vector<const void*> sources = {};
  /// For each source where this process finds every process's, by rank; empty if it cannot.  No entries: it finds none.
  std::vector<std::vector<uint64_t>> reached = {};
  std::vector<void*> results = {};
  const CudaKernel* kernel = nullptr;
  size_t element = 1;
  bool mean = false;
};

/// CUDA functions that reduce, behind the fuser's prelude: "peers_reduce_bf16", _f16, _f32, _f64.
std::string reduction_text();

/// One process's view of memory that all processes of a group have mapped; and streams of its own.
class PeerMemory {
 public:
  /// `bases`: where each process's memory of layout.bytes() bytes begins, of which the counters are zero; by rank.
  PeerMemory(const PeerLayout& layout, int rank, int device, std::vector<uint64_t> bases);
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  const PeerLayout& layout() const { return layout_; }
  int device() const { return device_; }

  /// Issues a collective behind what `stream` has now.  The tensors are to stay until it is done.  `make` says its
  /// steps; processes call this in the same order.
  template <class Make>
  std::shared_ptr<Done> run(void* stream, const CollectiveOperands& o, Make make) {
    std::lock_guard lock(mutex_);
    return issue(stream, o, make(steps_));
  }

  /// Ends all waits of this process's streams, for what they wait for will not come; what the collectives give is
  /// worthless.  Takes seconds, since other processes may still set counters.
  void release() const;

 private:
  std::shared_ptr<Done> issue(void* stream, const CollectiveOperands& o, const std::vector<Step>& steps);
  void run_lane(const std::vector<const Step*>& steps, const CollectiveOperands& o, void* stream) const;
  void reduce(const Step& s, const CollectiveOperands& o, void* stream) const;
  uint64_t address(const Location& at, const CollectiveOperands& o) const;
  uint64_t shared(int rank, size_t offset) const { return bases_[static_cast<size_t>(rank)] + offset; }

  const PeerLayout layout_;
  const int rank_, device_;
  const std::vector<uint64_t> bases_;
  std::mutex mutex_;
  Steps steps_;
  std::array<void*, kLanes> streams_{};
};

}  // namespace thunder::peers
