// The communication plan: how a model's parameters lie on the processes of a group, and which collectives follow.
//
// A plan is made when a model is wrapped (thunder.distributed.ddp, fsdp) and is the same on every process.  What is
// communicated together, a bucket, follows from the parameters alone.  The order of the buckets is that of the first
// program; later programs (another batch shape, evaluation) keep it, so that a process may compile one by itself while
// the others run theirs.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/type.h"
#include "core/value.h"

namespace thunder::distributed {

struct PlannedParameter {
  std::string name;  ///< "h.0.attn.weight"
  bool sharded = false;
  bool trainable = true;
  TensorType full;   ///< as the program sees it, contiguous
  TensorType local;  ///< the program's input: the rows of this process, padded to the same number on each; or `full`
  size_t bucket = 0;
  bool kept = false;  ///< gathered once, though the plan gathers again: what the forward gathered is kept
};

/// Parameters that one collective takes, by their indices in the plan.  The index behind the last parameter's stands
/// for the vector that tells which of them were used.
using Bucket = std::vector<size_t>;

/// The collectives of every program, in order: those of the group's first process's first program.
struct CommunicationOrder {
  std::optional<std::vector<Bucket>> gathers;     ///< of a forward
  std::optional<std::vector<Bucket>> regathers;   ///< of a backward
  std::optional<std::vector<Bucket>> reductions;  ///< of a backward
  /// For each reduction a number of regathers: a backward needs no later one to start it, and has started all of them
  /// before it waits for it.  So no two backwards wait for each other, whatever their programs.  Ascending.
  std::optional<std::vector<size_t>> regathers_before;

  /// "gathers 0 1;2;\nreductions 2;1 0;\nregathers_before 1 2\n", and back.
  std::string str() const;
  static CommunicationOrder parse(const std::string& text);
  /// Which of them are known: "gathers reductions ".
  std::string known() const;
};

/// What a program does at the end of its backward.
enum class Synchronization : uint8_t {
  Reduce,      ///< gradients are reduced
  Accumulate,  ///< no_sync(): gradients of whole parameters are kept until they are reduced
  ReduceKept,  ///< gradients are reduced together with those that were kept
};

struct CommunicationPlan {
  std::string id;            ///< unique in the process and the same on each
  std::string group;         ///< that gathers, as c10d names it
  std::string reduce_group;  ///< the same processes; gradients are reduced while parameters are gathered
  int64_t world = 1;
  std::string replicas;  ///< hybrid sharding: the group whose processes hold the same rows as this one; else empty
  int64_t copies = 1;    ///< the processes in `replicas`
  /// A backward gathers sharded parameters again (ZeRO3), but for those that are `kept`, instead of keeping what the
  /// forward gathered (ZeRO2).
  bool regather = false;
  std::optional<DType> reduce_dtype;  ///< that gradients are reduced in, if not their own
  /// Most of what is gathered ahead of its use, and of the gradients that are being reduced; 0: one bucket.
  int64_t bytes_in_flight = 0;
  std::vector<PlannedParameter> parameters;
  CommunicationOrder order;
  bool synchronizes = true;  ///< false within no_sync()
  bool keeps = false;        ///< gradients were kept once
  /// Within join(): the rank whose first programs decide about the order, as the group's first may have no data, and its
  /// rank in `replicas`; what the mean over all processes is multiplied by, and how many backwards have run.
  int first = 0, first_copy = 0;
  double scale = 1;
  size_t backwards = 0;
  bool joining = false, told = false;  ///< a call tells processes without data; the next one has

  Synchronization mode() const {
    if (!synchronizes) return Synchronization::Accumulate;
    return keeps ? Synchronization::ReduceKept : Synchronization::Reduce;
  }
  size_t used_index() const { return parameters.size(); }
  std::string name_of(size_t index) const {
    return index < parameters.size() ? parameters[index].name : "(which parameters are used)";
  }
  /// For readers, by the parameters' names.
  std::string text() const;
  std::string bucket_name(const Bucket& bucket) const;  ///< "h.0.attn.weight and 3 more"
};

/// A plan's part in one compilation.
struct Distribution {
  std::shared_ptr<CommunicationPlan> plan;  ///< null: nothing is distributed
  Synchronization mode = Synchronization::Reduce;
  /// The trace's inputs that are parameters of the plan, all of them, with their indices; each is of the type `full`.
  std::vector<std::pair<Value, size_t>> inputs;
  /// Parameters, by their indices, that the backward takes from the forward although the plan gathers them again, since
  /// the program needs them sooner than the plan's order allows.
  std::set<size_t> saved = {};

  explicit operator bool() const { return plan != nullptr; }
};

}  // namespace thunder::distributed
