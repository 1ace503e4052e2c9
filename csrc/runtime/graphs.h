// When the programs of a compiled function run as graphs: which recording a call may use, and who owns its memory.
//
// A recording's memory is overwritten by its next replay, so at any time it belongs to one user:
//  - Outputs are copied out of a forward's recording right after the replay: they are small beside what a program
//    computes, and a caller may keep as many of them as it likes.
//  - What is saved for the backward stays in the recording.  Autograd's node holds a GraphLease; until that is gone the
//    recording is busy, and another call makes a second one or runs the program as it is.
//  - Gradients are handed out where they lie, since together they are as large as the parameters.  The recording is
//    busy while their memory has another owner (the parameters' .grad).
// Recordings that keep nothing from one replay to the next share memory; each other has a pool of its own.  A recording
// belongs to the stream on which it was made: that orders its replays.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "passes/pipeline.h"
#include "runtime/graph_recording.h"

namespace thunder {

struct Entry;
class EntryGraphs;

/// A forward that was recorded, with the recordings of its backward.
struct ForwardGraph {
  struct Output {
    enum class From : uint8_t {
      Result,  ///< as the program gave it: not a tensor
      Copy,
      Alias,  ///< of a tensor that is read by its address
      Input,  ///< the caller's own tensor
      Output  ///< an output before this one
    };
    From from = From::Result;
    size_t index = 0;
  };
  /// A saved tensor, and the tensor of the caller whose version tells whether it was written to since.
  struct Saved {
    enum class From : uint8_t {
      Kept,    ///< lies in the recording
      Caller,  ///< an input that is read by its address
      Copied   ///< an input that the epilogue writes into: as it was before
    };
    From from = From::Kept;
    at::Tensor tensor;
    int64_t input = -1, output = -1;
  };
  struct Backward {
    std::shared_ptr<GraphRecording> recording;
    std::vector<char> owned;  ///< per gradient: its memory is nobody else's, so it may be handed out
    bool busy = false;
    bool free() const;
  };

  std::shared_ptr<GraphRecording> recording;
  std::vector<Output> outputs;
  std::vector<Saved> saved;
  std::vector<std::shared_ptr<Backward>> backwards;
  std::atomic<bool> busy{false};
  std::atomic<bool> lost{false};  ///< a backward ran on another stream: nothing orders it before the next replay
};

/// The right to what a forward's recording holds.  May be dropped in any thread.
class GraphLease {
 public:
  explicit GraphLease(std::shared_ptr<ForwardGraph> graph) : graph_(std::move(graph)) { graph_->busy = true; }
  ~GraphLease() { graph_->busy = false; }
  GraphLease(const GraphLease&) = delete;
  GraphLease& operator=(const GraphLease&) = delete;
  ForwardGraph& graph() const { return *graph_; }
  /// Fills in the saved tensors that the recording holds.
  void add_kept(std::vector<c10::IValue>& saved) const;

 private:
  std::shared_ptr<ForwardGraph> graph_;
};

class EntryGraphs {
 public:
  /// Warns if a program cannot be recorded.
  EntryGraphs(std::shared_ptr<GraphSettings> settings, const Compiled& compiled, std::vector<char> by_address);

  /// Runs the forward as a graph, below autograd; null if the program is to be run as it is.
  std::shared_ptr<GraphLease> forward(const Entry& entry, const std::vector<c10::IValue>& inputs,
                                      std::vector<c10::IValue>& outputs);
  /// The same for the backward: `saved` as unpacked, cotangents as autograd gives them.
  std::optional<std::vector<c10::IValue>> backward(const Entry& entry, const GraphLease& lease,
                                                   const std::vector<c10::IValue>& saved,
                                                   const std::vector<at::Tensor>& cotangents);
  /// The backward has run as it is: what its first run loads and compiles is there.
  void backward_has_run() { backward_.warm = true; }

 private:
  // A program's state.
  struct Road {
    std::atomic<bool> off{false}, warm{false};
    int strikes = 0;  // recordings in a row that were hardly used
  };
  // Warns if there is a reason.
  void give_up(Road& road, const char* what, const std::string& why);
  void discard(Road& road, const char* what, const GraphRecording& recording);
  std::shared_ptr<ForwardGraph> find_forward(const std::vector<c10::IValue>& inputs, void* stream);
  std::shared_ptr<ForwardGraph> record_forward(const Entry& entry, const std::vector<c10::IValue>& inputs,
                                               void* stream);
  std::string plan_outputs(const Entry& entry, const std::vector<c10::IValue>& inputs, ForwardGraph& graph) const;
  void plan_saved(const Entry& entry, const std::vector<c10::IValue>& inputs, ForwardGraph& graph) const;
  std::vector<c10::IValue> hand_over(const ForwardGraph& graph, const std::vector<c10::IValue>& inputs) const;
  std::shared_ptr<ForwardGraph::Backward> find_backward(ForwardGraph& graph, const std::vector<c10::IValue>& inputs);
  std::shared_ptr<ForwardGraph::Backward> record_backward(const Entry& entry, ForwardGraph& graph,
                                                          const std::vector<c10::IValue>& inputs);

  std::shared_ptr<GraphSettings> settings_;
  std::vector<char> by_address_;
  int index_ = 0;  // of the device
  Road forward_, backward_;
  std::vector<std::shared_ptr<ForwardGraph>> graphs_;
};

}  // namespace thunder
