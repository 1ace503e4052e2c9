// Collectives among processes whose GPUs reach each other's memory, as copies and counters: no kernel waits for another
// process, and none but the sums' takes multiprocessors from the computation.
//
// Each process has memory that the others write to (its inbox, a part for each of them) and read from (its outbox), both
// in slots that are used round robin, and counters that the others set.  Counters only grow; a slot is used again once
// all who had to read it have said so.  What a process does is a list of steps on four streams, the same list up to ranks
// on each of them.
//
//   reduce_scatter   send: my part of everybody else's slice into their inbox
//                    reduce: my slice = mean of what I have and what came
//   all_gather       send: my part into my outbox;  take: everybody else's from their outbox
//                    or, of tensors that all processes reach where they lie, take them there: no slots, and its owner
//                    may write to it once the collective is done;  own: what this process has of the result
//   all_reduce       the first, whose result goes into the outbox too, and what the second takes
//
// A chunk fills a slot with pieces of several tensors.  The copies between two waits are one call of the driver, and the
// copy engine runs them without a gap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace thunder::peers {

/// Which of a process's counters: how far the process `by` has come with this one.  They lie one a cache line.
enum class PeerCounter {
  Sent,      // chunks in this process's inbox
  Consumed,  // of this process's chunks in its inbox
  Staged,    // chunks in its outbox
  Taken,     // chunks of this process's outbox
  Offered,   // gathers of what is reached where it lies, that it has begun
  Fetched    // of these, whose parts of this process it has
};
inline constexpr size_t kCounters = 6, kCounterStride = 64;

/// The memory of one process that all reach: counters, the inbox, the outbox.
struct PeerLayout {
  int world = 1;
  size_t inbox_bytes = 0, outbox_bytes = 0;  // 0: no collectives that need one
  uint32_t slots = 4;

  size_t counter(PeerCounter c, int by) const;
  /// Bytes of a slot, of one sender's part of the inbox and of the outbox: what a chunk holds at most.
  size_t inbox_chunk() const;
  size_t outbox_chunk() const;
  /// Offsets in the memory.
  size_t inbox(int from, uint32_t number, int owner) const;
  size_t outbox(uint32_t number) const;
  size_t bytes() const;
};

/// Where bytes lie: in this process's tensor, in a source of any process that all reach, or in a process's shared memory.
struct Location {
  enum class In { Source, Result, Reached, Shared } in = In::Source;
  int rank = 0;       // of Reached and Shared
  size_t tensor = 0;  // of the others: which of the collective's
  size_t offset = 0;
};

/// A stream.  Own: copies within this GPU, which another engine runs beside those between GPUs.
enum class Lane { Send, Reduce, Take, Own };
inline constexpr size_t kLanes = 4;

struct Step {
  enum class Kind {
    Await,   // until this process's own counter is `value` at least
    Tell,    // rank's counter, which counts this process, is `value`
    Copy,    // `bytes` from `from` to `to`
    Reduce,  // `to` (and `also`) = the mean or sum of `from` and of this process's inbox, a slot of each other process
             // from its byte `within` on
  };
  Kind kind = Kind::Copy;
  Lane lane = Lane::Send;
  PeerCounter counter = PeerCounter::Sent;
  int rank = 0;
  uint32_t value = 0;  // of a counter; of Reduce: the chunk's number
  Location from = {}, to = {}, also = {};
  bool has_also = false;
  size_t within = 0, bytes = 0;
};

/// The steps of one process.  Collectives of a group follow each other in the same order on every process.
class Steps {
 public:
  Steps(const PeerLayout& layout, int rank) : layout_(layout), rank_(rank) {}

  /// `bytes` are those of each source, world times those of its result.
  std::vector<Step> reduce_scatter(const std::vector<size_t>& bytes);
  /// `bytes` are those of each source; `reached`: which of them all processes reach where they lie, the same ones on
  /// each.
  std::vector<Step> all_gather(const std::vector<size_t>& bytes, const std::vector<bool>& reached);
  /// `bytes` are those of each result, which is its source too.
  std::vector<Step> all_reduce(const std::vector<size_t>& bytes);

 private:
  /// Of each rank's slice of a tensor the bytes from `offset` on; they lie at `within` in a slot.
  struct Piece {
    size_t tensor, offset, within;
    std::vector<size_t> bytes;  // by rank: the last slices may be shorter
    std::vector<size_t> begin;  // by rank: where the piece starts in the whole tensor
  };
  using Chunk = std::vector<Piece>;

  void send(std::vector<Step>& out, const Chunk& c);
  void reduce(std::vector<Step>& out, const Chunk& c, bool gathers);
  void take(std::vector<Step>& out, const Chunk& c, uint32_t number) const;
  void copy_own(std::vector<Step>& out, size_t tensor, size_t bytes) const;
  Piece piece(size_t tensor, size_t offset, size_t most, size_t bytes, bool whole) const;
  void take_reached(std::vector<Step>& out, const std::vector<size_t>& bytes, const std::vector<bool>& reached);
  void await_all(std::vector<Step>& out, PeerCounter c, uint32_t value, Lane lane) const;
  void tell_all(std::vector<Step>& out, PeerCounter c, uint32_t value, Lane lane) const;
  std::vector<Chunk> chunks(const std::vector<size_t>& bytes, size_t most, bool whole) const;

  const PeerLayout layout_;
  const int rank_;
  uint32_t sent_ = 0, staged_ = 0, offered_ = 0;  // until now
};

}  // namespace thunder::peers
