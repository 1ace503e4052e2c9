// The collectives of a group, as programs start them: every process of the group starts the same ones, in one order.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <memory>
#include <string>
#include <vector>

#include "executors/c10d/peers.h"
#include "runtime/distributed/watch.h"

namespace thunder {

/// A communication that was started, and all that it reads and writes until it is done.
struct Communication final : torch::CustomClassHolder {
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  struct Ticket {
    std::shared_ptr<distributed::Watch> watch;
    uint64_t number;
  };

  std::vector<at::Tensor> inputs, outputs;
  std::vector<Ticket> tickets;
  std::vector<WorkPtr> works;
  int64_t divisor = 1;          ///< of a mean, where the backend has sums alone
  int64_t parts = 1, part = 0;  ///< of the rows, where the backend reduces whole tensors alone

  void add(WorkPtr work, const std::shared_ptr<distributed::Watch>& watch, const std::string& what);
  /// `outputs` are what was asked for, from here on; see Watch::wait().
  void wait();
  ~Communication() override;
};

/// A group.  Each collective takes the communication's inputs, one launch for all of them where the backend can, and
/// names itself `what` in errors.
class Communicator {
 public:
  /// Error (Runtime) if this process has no such group.
  explicit Communicator(const std::string& group);

  int64_t world() const { return group_->getSize(); }
  /// Error (Runtime) if the group has failed.
  c10::intrusive_ptr<Communication> begin(const std::string& what) const;
  void all_gather(Communication& c, const std::string& what) const;
  void reduce_scatter(Communication& c, const std::string& op, const std::string& what) const;
  void all_reduce(Communication& c, const std::string& op, const std::string& what) const;
  /// Reduces the outputs of a reduction within another group once more, in place.
  void reduce_further(Communication& c, const std::string& op, const std::string& what) const;

 private:
  c10::IValue group() const { return c10::IValue(group_); }
  c10::IValue reduction(const std::string& op, const at::Tensor& t) const;
  void reduce_outputs(Communication& c, const std::string& op, const std::string& what) const;
  bool has_all(const at::Tensor& t) const;
  bool together(const Communication& c) const;

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::shared_ptr<distributed::Watch> watch_;
  std::shared_ptr<Peers> peers_;  // null: the backend communicates
};

}  // namespace thunder
