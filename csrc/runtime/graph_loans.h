// Memory of a recording that the caller has until the next replay, in place of a copy.
//
// A caller who drops the results of one call before the next one needs no copies of them.  Whether it does is seen in
// the runs before the recording (Handed): a result whose memory was there when the next call began is copied.  Large
// outputs and gradients that were gone are lent, as tensors over the recording's memory, if that is no other result's.
//
//   run 1 .. 3    as it is            gradients were gone when the next run began
//   run 4         recorded            gradients are loans
//   run 5         all loans are back: a replay
//   run 6         a loan is out:      no replay; the recording is dropped, and nothing is lent any more
//
// A loan holds the recording, so its memory is good for as long as somebody has it.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/StorageImpl.h>

#include <memory>
#include <utility>
#include <vector>

namespace thunder {

class GraphRecording;

/// Expired where nobody has the memory any more.
class Loan {
 public:
  /// A tensor over the memory of `t`, a result of the recording, with a storage of its own and without history.
  static std::pair<at::Tensor, Loan> lend(const at::Tensor& t, std::shared_ptr<const GraphRecording> recording);
  bool is_out() const { return !memory_.expired(); }

 private:
  std::weak_ptr<const void> memory_;
};

/// Whether a loan of these is out.
bool any_out(const std::vector<Loan>& loans);

/// What the caller did with the results of the runs that were timed (graph_timing.h).  Needs the GIL.
class Handed {
 public:
  /// These results were given to the caller.  `known` has an element for each result: only those are looked at.
  void give(const std::vector<c10::IValue>& results, const std::vector<char>& known);
  /// The next run begins.
  void look();
  /// Whether several runs were looked at, and the caller had dropped this result each time.
  bool drops(size_t result) const;
  bool drops_any() const;

 private:
  struct Result {
    size_t index;
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  };
  struct Known {
    size_t looks = 0;
    bool kept = false;
  };
  std::vector<Result> given_;
  std::vector<Known> known_;
};

}  // namespace thunder
