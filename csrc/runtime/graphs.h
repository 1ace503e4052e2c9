// When the programs of a compiled function run as graphs: what is recorded, which recording a call may use, and who
// owns its memory.
//
// A recording's memory is overwritten by its next replay, so at any time it belongs to one user:
//  - Outputs are copied out of a forward's recording right after the replay: they are small beside what a program
//    computes, and a caller may keep as many of them as it likes.  Where nobody asked for graphs, large ones that the
//    caller drops before the next call are lent (graph_loans.h).
//  - What is saved for the backward stays in the recording.  Autograd's node holds a GraphLease; until that is gone the
//    recording is busy, and another call makes a second one or runs the program as it is.
//  - Gradients are copied out or lent, too.  Where the user asked for graphs all are lent, since together they are as
//    large as the parameters: the recording is then busy while their memory has another owner (the parameters' .grad).
//  - Where gradients are copied out, the backward's recording lies in the forward's memory and overwrites what is saved
//    (GraphRecording::Memory::after).  It serves only a backward after which nobody needs that.
// Recordings that keep nothing from one replay to the next share memory; each other forward has a pool of its own.  A
// recording belongs to the stream on which it was made, which orders its replays, and to one tuple of sizes and numbers.
//
// Where nobody asked for graphs, a forward is recorded for sizes that several runs had, if the device waits for
// the host (graph_timing.h), there is memory enough, and copies would not take the device most of the time that the host
// saves; and its backward with it.  A program of one size is recorded, too, if the device does not wait but has many
// short kernels, and the copies take less than what the device saves between them.  Tensors among the arguments are
// copied into the recording, except those that are large or written to and lay in one place for some calls.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "passes/pipeline.h"
#include "runtime/graph_loans.h"
#include "runtime/graph_recording.h"
#include "runtime/graph_timing.h"

namespace thunder {

struct Programs;
struct GraphSpecialization;

/// A forward that was recorded, with the recordings of its backward.
struct ForwardGraph {
  struct Output {
    enum class From : uint8_t {
      Result,  ///< as the program gave it: not a tensor, or one that only the graph itself reads
      Copy,
      Loan,   ///< in the recording, until the next replay
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
    std::vector<char> lends;  ///< per gradient: its memory is that of no other result
    std::vector<Loan> loans;
    bool overwrites = false;  ///< it lies in the saved tensors' memory, which the next forward overwrites in turn
    bool busy = false;
    bool free() const { return !busy && !any_out(loans); }
  };

  std::shared_ptr<GraphRecording> recording;
  std::weak_ptr<GraphSpecialization> spec;
  std::vector<Output> outputs;
  std::vector<Saved> saved;
  std::vector<std::shared_ptr<Backward>> backwards;
  std::vector<Loan> loans;  ///< of outputs
  bool lends = false;       ///< outputs and gradients, where nobody asked for graphs
  std::atomic<bool> busy{false};
  std::atomic<bool> lost{false};  ///< a backward ran on another stream: nothing orders it before the next replay

  bool by_address(size_t input) const {
    const GraphRecording::Place p = recording->place(input);
    return p == GraphRecording::Place::Address || p == GraphRecording::Place::Learned;
  }
  /// Where outputs and saved tensors lie; outputs of `to_lend` are lent if no other output lies in their memory.  Why
  /// they cannot be given, or empty.
  std::string plan(const Programs& programs, const std::vector<c10::IValue>& inputs, const std::vector<char>& to_lend);
  /// The outputs of a replay, whose elements are yet to be copied from `from` to `to`.
  std::vector<c10::IValue> outputs_for(const std::vector<c10::IValue>& inputs, std::vector<at::Tensor>& to,
                                       std::vector<at::Tensor>& from);
  /// Whether a replay would overwrite what was lent.
  bool loans_out() const;
  /// Fills in the saved tensors that lie in the recording.
  void add_kept(std::vector<c10::IValue>& saved) const;
  /// Gives up what is saved and lies in no input or output: those tensors are in `inputs` then, and nowhere else.  Where
  /// they lie remains in `saved`, as tensors that own no memory.
  void move_saved_to(std::vector<c10::IValue>& inputs);
  bool moved = false;  ///< what is saved

 private:
  std::string plan_outputs(const Programs& programs, const std::vector<char>& to_lend);
  void plan_saved(const Programs& programs, const std::vector<c10::IValue>& inputs);
};

/// The right to what a forward's recording holds.  May be dropped in any thread.
class GraphLease {
 public:
  explicit GraphLease(std::shared_ptr<ForwardGraph> graph) : graph_(std::move(graph)) { graph_->busy = true; }
  ~GraphLease() { graph_->busy = false; }
  GraphLease(const GraphLease&) = delete;
  GraphLease& operator=(const GraphLease&) = delete;
  ForwardGraph& graph() const { return *graph_; }

 private:
  std::shared_ptr<ForwardGraph> graph_;
};

/// What is known of a program's runs for one tuple of sizes and numbers.  Needs the GIL.
struct GraphSpecialization {
  explicit GraphSpecialization(std::vector<c10::IValue> n) : numbers(std::move(n)) {}
  std::vector<c10::IValue> numbers;
  struct Direction {
    RunTimes times;
    int64_t results = 0;         ///< bytes
    std::vector<int64_t> given;  ///< per result that is the caller's: its bytes, 0 for what was given to the program
    Handed handed;
    bool off = false;
  };
  Direction forward, backward;
  std::vector<std::shared_ptr<ForwardGraph>> graphs;
  size_t postponed = 0;
  std::deque<uint64_t> uses;  ///< the last calls with these numbers, by their index
  std::vector<char> missing;  ///< per cotangent of the last backward that was timed: there was no tensor
  std::vector<std::weak_ptr<const GraphRecording>> pinned;  ///< by loans, though they are not used any more
  int64_t pinned_bytes() const;
  bool lends = true;         ///< no loan was out when the recording was to be replayed
  bool crowded_out = false;  ///< the recordings of others leave no memory for one
};

/// A run of a program: as a graph, or as it is and perhaps timed.
struct GraphRun {
  using Storages = std::unordered_set<c10::weak_intrusive_ptr<c10::StorageImpl>>;
  std::shared_ptr<GraphLease> lease;          ///< null: the program is to be run as it is
  std::shared_ptr<GraphSpecialization> spec;  ///< null: nothing is to be learned of it
  std::shared_ptr<RunTimer> timer;
  Storages given;  ///< of the inputs of a timed run
};

class EntryGraphs {
 public:
  /// Says why a program cannot be recorded, if it cannot.  `by_address`, per input of the forward: it is the same tensor
  /// at every call.
  EntryGraphs(std::shared_ptr<GraphSettings> settings, const Programs& programs, const Compiled& compiled,
              std::vector<char> by_address);

  /// Runs the forward as a graph, below autograd, if it can.
  GraphRun forward(const Programs& programs, const std::vector<c10::IValue>& inputs, std::vector<c10::IValue>& outputs);
  /// The same for the backward: `saved` as unpacked, cotangents as autograd gives them.  `last`: nobody needs what is
  /// saved afterwards.
  std::optional<std::vector<c10::IValue>> backward(const Programs& programs, const GraphLease& lease,
                                                   const std::vector<c10::IValue>& saved,
                                                   const std::vector<at::Tensor>& cotangents, bool last);
  /// Before a backward runs as it is; `spec` may be null.
  GraphRun start_backward(const Programs& programs, std::shared_ptr<GraphSpecialization> spec,
                          const std::vector<c10::IValue>& inputs) const;
  /// A program has run as it is: what its first run loads and compiles is there.
  void forward_has_run(const GraphRun& run, const std::vector<c10::IValue>& results, size_t outputs);
  void backward_has_run(const GraphRun& run, const std::vector<c10::IValue>& results);
  /// Whether nobody asked for graphs: then a backward may also add to a leaf's .grad.
  bool copies_gradients() const { return settings_->automatic; }
  /// What stands for a recorder of the GPU's (in tests) records programs of the host's.
  bool on_host() const { return settings_->device != c10::DeviceType::CUDA; }

 private:
  using Values = std::vector<c10::IValue>;
  using Place = GraphRecording::Place;
  // A program's state.
  struct Direction {
    const char* what;
    std::atomic<bool> off{false}, warm{false};
    int unused_recordings = 0;  // recordings in succession that were hardly used
    int64_t live = 0;           // most_live_bytes() of its trace
  };
  // Where a tensor among the arguments lay in the last calls that were no replays.
  struct Argument {
    const void* last = nullptr;
    size_t same = 0;
  };

  void give_up(Direction& direction, const std::string& why);
  void give_up(Direction& direction, GraphSpecialization::Direction& spec, const std::string& why);
  void discard(Direction& direction, const GraphRecording& recording);
  bool wanted(Direction& direction, GraphSpecialization::Direction& spec);
  bool nobody_else_calls(const Direction& direction);
  bool too_large(Direction& direction, GraphSpecialization::Direction& spec, int64_t bytes, int64_t most);
  // Bytes that a replay copies besides arguments.
  struct Copied {
    int64_t outputs = 0, cotangents = 0, gradients = 0;
  };
  static Copied copied(const Programs& programs, const GraphSpecialization& spec, const ForwardGraph& graph);
  bool copies_too_much(Direction& direction, GraphSpecialization& spec, const Values& inputs,
                       const std::vector<Place>& places, const Copied& copied);
  bool holds_too_much_twice(GraphSpecialization& spec, const Copied& copied);
  bool may_lend(const GraphSpecialization& spec);
  static std::vector<char> to_lend(const GraphSpecialization& spec, const ForwardGraph& graph);
  void stop_lending(GraphSpecialization& spec, const ForwardGraph& graph);
  void ask_about_streams(const GraphSpecialization& spec);
  int64_t most_bytes() const;
  std::shared_ptr<GraphSpecialization> specialization_of(const Values& inputs);
  void learn(const Values& inputs);
  std::optional<std::vector<Place>> places_for(const Values& inputs, size_t postponed, std::string* why) const;
  std::shared_ptr<ForwardGraph> find_forward(GraphSpecialization& spec, const Values& inputs, void* stream);
  std::shared_ptr<ForwardGraph> record_forward(const Programs& programs,
                                               const std::shared_ptr<GraphSpecialization>& spec, const Values& inputs,
                                               void* stream);
  GraphSpecialization* least_used(const GraphSpecialization& besides) const;
  bool displaces(const GraphSpecialization& spec, const GraphSpecialization& other) const;
  bool make_room(GraphSpecialization& spec);
  bool make_memory(GraphSpecialization& spec, int64_t bytes);
  GraphRecording::Writes writes_of(const Programs& programs, const std::vector<Place>& places) const;
  std::shared_ptr<ForwardGraph::Backward> find_backward(ForwardGraph& graph, const Values& inputs, bool last);
  std::shared_ptr<ForwardGraph::Backward> record_backward(const Programs& programs, ForwardGraph& graph, Values& inputs,
                                                          bool last);
  Values gradients_of(ForwardGraph::Backward& b) const;

  std::shared_ptr<GraphSettings> settings_;
  std::vector<char> by_address_, written_;  // per input of the forward
  std::vector<char> in_place_;              // the same: the forward itself writes to it
  std::vector<size_t> numbers_;             // inputs that are no tensors
  std::vector<Argument> arguments_;
  bool may_write_ = false;  // what the epilogue writes to is not saved for the backward: a graph may end with it
  bool trains_ = false;     // it has a backward
  bool copies_ = false;     // large arguments, too: they lie elsewhere too often
  bool lends_ = true;       // no other streams read what is lent
  int moves_ = 0;           // recordings that were hardly used, and read arguments where they lay
  int index_ = 0;           // of the device
  Direction forward_{"forward"}, backward_{"backward"};
  std::vector<std::shared_ptr<GraphSpecialization>> specs_;
  uint64_t calls_ = 0;
};

/// Bytes from the first element of a tensor to its last.
int64_t bytes_of(const at::Tensor& t);
/// For messages: "12 MB".
std::string megabytes(int64_t bytes);

}  // namespace thunder
