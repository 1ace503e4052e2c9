// Collectives by copies between GPUs that reach each other's memory, beside those of the process group's backend:
// see runtime/kernels/peer_steps.h.  Kernels of NCCL hold multiprocessors while they wait and while they move bytes,
// and a matrix product that fills all multiprocessors takes a second round for what is left; copy engines hold none.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/kernels/peer_memory.h"

namespace thunder {

class Peers {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  /// Whether the driver and a compiler of kernels are here; if not, `why_not` says what is missing.
  static bool available(int device, std::string* why_not);

  /// From here on collectives of this group go this way where takes_...() say so, on every process of it; sums that all
  /// get, and gathers of what is not reached, from `least` bytes on.
  static void connect(const std::string& group, const peers::PeerLayout& layout, int rank, int device, int64_t least,
                      std::vector<uint64_t> bases);
  /// From here on tensors of this process that lie in `memory` are gathered from where they lie; `bases`: where this
  /// process finds each process's memory of the same size, by rank.  Ends with the memory.
  static void reach(const std::string& group, const at::Tensor& memory, std::vector<uint64_t> bases);
  /// Of a group; null where there is none.
  static std::shared_ptr<Peers> of(const c10::intrusive_ptr<c10d::ProcessGroup>& group);

  Peers(std::shared_ptr<peers::PeerMemory> memory, int64_t least) : memory_(std::move(memory)), least_(least) {}

  /// Whether they lie on the device and copies are the faster way, which all processes answer alike: sizes and dtypes are
  /// equal, and so is what is reached.
  bool takes_gather(const std::vector<at::Tensor>& inputs) const;
  bool takes_reduce_scatter(const std::vector<at::Tensor>& inputs, const std::string& op) const;
  bool takes_all_reduce(const std::vector<at::Tensor>& inputs, const std::string& op) const;

  WorkPtr all_gather(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs);
  WorkPtr reduce_scatter(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs,
                         const std::string& op);
  /// Where they lie.
  WorkPtr all_reduce(const std::vector<at::Tensor>& tensors, const std::string& op);

 private:
  struct Region {
    c10::weak_intrusive_ptr<c10::StorageImpl> memory;
    uint64_t begin, bytes;
    std::vector<uint64_t> bases;
  };

  bool holds(const std::vector<at::Tensor>& inputs) const;
  bool large(const std::vector<at::Tensor>& inputs) const;
  std::vector<uint64_t> reached(const at::Tensor& t) const;
  peers::CollectiveOperands operands(const std::vector<at::Tensor>& outputs,
                                     const std::vector<at::Tensor>& inputs) const;
  template <class Make>
  WorkPtr run(const peers::CollectiveOperands& o, Make make);

  const std::shared_ptr<peers::PeerMemory> memory_;
  const int64_t least_;
  mutable std::mutex mutex_;
  std::vector<Region> regions_;
};

}  // namespace thunder
