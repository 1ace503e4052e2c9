#include "runtime/kernels/peer_steps.h"

#include <algorithm>

#include "core/error.h"

namespace thunder::peers {
namespace {

constexpr size_t kAlignment = 256;  // of a chunk: copies and registers of any width

// Of a slot: what is left of one at least where a tensor's slice is divided to fill it.
constexpr size_t kLeastPart = 8;

size_t rounded_down(size_t bytes) { return bytes / kAlignment * kAlignment; }
size_t rounded_up(size_t bytes) { return rounded_down(bytes + kAlignment - 1); }

// Of a tensor that is reduced on all processes (not `whole`): a multiple of what a vector register holds.
size_t slice(size_t bytes, int world, bool whole) {
  constexpr size_t kVector = 16;
  const auto n = static_cast<size_t>(world);
  return whole ? bytes / n : ((bytes + n - 1) / n + kVector - 1) / kVector * kVector;
}

}  // namespace

// ---- the shared memory -----------------------------------------------------------------------------------------------

size_t PeerLayout::counter(PeerCounter c, int by) const {
  return (static_cast<size_t>(c) * static_cast<size_t>(world) + static_cast<size_t>(by)) * kCounterStride;
}

size_t PeerLayout::inbox_chunk() const {
  return world < 2 ? 0 : rounded_down(inbox_bytes / (static_cast<size_t>(world - 1) * slots));
}

size_t PeerLayout::outbox_chunk() const { return rounded_down(outbox_bytes / slots); }

size_t PeerLayout::inbox(int from, uint32_t number, int owner) const {
  // The owner has no part of its own inbox.
  const auto part = static_cast<size_t>(from < owner ? from : from - 1);
  const size_t counters = kCounters * static_cast<size_t>(world) * kCounterStride;
  return rounded_up(counters) + (part * slots + number % slots) * inbox_chunk();
}

size_t PeerLayout::outbox(uint32_t number) const {
  // Past the last sender's part of the inbox.
  return inbox(world, 0, 0) + number % slots * outbox_chunk();
}

size_t PeerLayout::bytes() const { return outbox(0) + slots * outbox_chunk(); }

// ---- the steps -------------------------------------------------------------------------------------------------------

/// Of each process's slice of a tensor of `bytes` at most `most` from `offset` on.  `whole`: slices are equal parts of
/// the tensor, else multiples of a vector, of which the last may be shorter.
Steps::Piece Steps::piece(size_t tensor, size_t offset, size_t most, size_t bytes, bool whole) const {
  const size_t each = slice(bytes, layout_.world, whole);
  Piece p{tensor, offset, 0, {}, {}};
  for (size_t r = 0; r < static_cast<size_t>(layout_.world); ++r) {
    const size_t end = whole ? (r + 1) * each : std::min((r + 1) * each, bytes);
    p.begin.push_back(std::min(r * each + offset, end));
    p.bytes.push_back(std::min(most, end - p.begin.back()));
  }
  return p;
}

/// What a collective takes at a time: `most` bytes of each process's slices.
std::vector<Steps::Chunk> Steps::chunks(const std::vector<size_t>& bytes, size_t most, bool whole) const {
  THUNDER_ASSERT(most, "no slots for a collective of ", layout_.world, " processes");
  std::vector<Chunk> out;
  size_t used = most;  // of the last chunk
  for (size_t i = 0; i < bytes.size(); ++i) {
    const size_t each = slice(bytes[i], layout_.world, whole);
    for (size_t offset = 0; offset < each;) {
      // A piece that fits is not divided, and none is divided into crumbs.
      if (used >= most || (each - offset > most - used && most - used < most / kLeastPart)) {
        out.emplace_back();
        used = 0;
      }
      const size_t taken = std::min(most - used, each - offset);
      out.back().push_back(piece(i, offset, taken, bytes[i], whole));
      out.back().back().within = used;
      offset += taken;
      used += rounded_up(taken);
    }
  }
  return out;
}

void Steps::await_all(std::vector<Step>& out, PeerCounter c, uint32_t value, Lane lane) const {
  for (int r = 0; r < layout_.world; ++r)
    if (r != rank_) out.push_back({.kind = Step::Kind::Await, .lane = lane, .counter = c, .rank = r, .value = value});
}

void Steps::tell_all(std::vector<Step>& out, PeerCounter c, uint32_t value, Lane lane) const {
  for (int r = 0; r < layout_.world; ++r)
    if (r != rank_) out.push_back({.kind = Step::Kind::Tell, .lane = lane, .counter = c, .rank = r, .value = value});
}

void Steps::send(std::vector<Step>& out, const Chunk& c) {
  if (sent_ >= layout_.slots) await_all(out, PeerCounter::Consumed, sent_ - layout_.slots + 1, Lane::Send);
  // Each process begins with another one, so that no process's links are asked for by all at once.
  for (int k = 1; k < layout_.world; ++k) {
    const int to = (rank_ + k) % layout_.world;
    const auto part = static_cast<size_t>(to);
    for (const Piece& p : c)
      if (p.bytes[part])
        out.push_back({.kind = Step::Kind::Copy,
                       .from = {Location::In::Source, 0, p.tensor, p.begin[part]},
                       .to = {Location::In::Shared, to, 0, layout_.inbox(rank_, sent_, to) + p.within},
                       .bytes = p.bytes[part]});
  }
  tell_all(out, PeerCounter::Sent, sent_ + 1, Lane::Send);
}

void Steps::reduce(std::vector<Step>& out, const Chunk& c, bool gathers) {
  await_all(out, PeerCounter::Sent, sent_ + 1, Lane::Reduce);
  if (gathers && staged_ >= layout_.slots)
    await_all(out, PeerCounter::Taken, staged_ - layout_.slots + 1, Lane::Reduce);
  const auto mine = static_cast<size_t>(rank_);
  for (const Piece& p : c)
    if (p.bytes[mine])
      out.push_back({.kind = Step::Kind::Reduce,
                     .lane = Lane::Reduce,
                     .value = sent_,
                     .from = {Location::In::Source, 0, p.tensor, p.begin[mine]},
                     .to = {Location::In::Result, 0, p.tensor, gathers ? p.begin[mine] : p.offset},
                     .also = {Location::In::Shared, rank_, 0, layout_.outbox(staged_) + p.within},
                     .has_also = gathers,
                     .within = p.within,
                     .bytes = p.bytes[mine]});
  tell_all(out, PeerCounter::Consumed, ++sent_, Lane::Reduce);
  if (gathers) tell_all(out, PeerCounter::Staged, ++staged_, Lane::Reduce);
}

void Steps::take(std::vector<Step>& out, const Chunk& c, uint32_t number) const {
  await_all(out, PeerCounter::Staged, number + 1, Lane::Take);
  for (int k = 1; k < layout_.world; ++k) {
    const int from = (rank_ + k) % layout_.world;
    const auto part = static_cast<size_t>(from);
    for (const Piece& p : c)
      if (p.bytes[part])
        out.push_back({.kind = Step::Kind::Copy,
                       .lane = Lane::Take,
                       .from = {Location::In::Shared, from, 0, layout_.outbox(number) + p.within},
                       .to = {Location::In::Result, 0, p.tensor, p.begin[part]},
                       .bytes = p.bytes[part]});
  }
  tell_all(out, PeerCounter::Taken, number + 1, Lane::Take);
}

std::vector<Step> Steps::reduce_scatter(const std::vector<size_t>& bytes) {
  std::vector<Step> out;
  for (const Chunk& c : chunks(bytes, layout_.inbox_chunk(), true)) {
    send(out, c);
    reduce(out, c, false);
  }
  return out;
}

/// This process's part of what it gathers itself.
void Steps::copy_own(std::vector<Step>& out, size_t tensor, size_t bytes) const {
  out.push_back({.kind = Step::Kind::Copy,
                 .lane = Lane::Own,
                 .from = {Location::In::Source, 0, tensor, 0},
                 .to = {Location::In::Result, 0, tensor, static_cast<size_t>(rank_) * bytes},
                 .bytes = bytes});
}

/// Waits are on one stream: every one that waits delays the kernels of the others.
void Steps::take_reached(std::vector<Step>& out, const std::vector<size_t>& bytes, const std::vector<bool>& reached) {
  const uint32_t number = ++offered_;
  tell_all(out, PeerCounter::Offered, number, Lane::Take);
  await_all(out, PeerCounter::Offered, number, Lane::Take);
  for (int k = 1; k < layout_.world; ++k) {
    const int from = (rank_ + k) % layout_.world;
    for (size_t i = 0; i < bytes.size(); ++i)
      if (reached[i] && bytes[i])
        out.push_back({.kind = Step::Kind::Copy,
                       .lane = Lane::Take,
                       .from = {Location::In::Reached, from, i, 0},
                       .to = {Location::In::Result, 0, i, static_cast<size_t>(from) * bytes[i]},
                       .bytes = bytes[i]});
  }
  tell_all(out, PeerCounter::Fetched, number, Lane::Take);
  await_all(out, PeerCounter::Fetched, number, Lane::Take);
}

std::vector<Step> Steps::all_gather(const std::vector<size_t>& bytes, const std::vector<bool>& reached) {
  std::vector<Step> out;
  std::vector<size_t> whole(bytes.size());
  bool any = false;
  for (size_t i = 0; i < bytes.size(); ++i) {
    any = any || (reached[i] && bytes[i]);
    if (bytes[i]) copy_own(out, i, bytes[i]);
    if (!reached[i]) whole[i] = bytes[i] * static_cast<size_t>(layout_.world);
  }
  if (any) take_reached(out, bytes, reached);
  if (std::all_of(reached.begin(), reached.end(), [](bool r) { return r; })) return out;
  for (const Chunk& c : chunks(whole, layout_.outbox_chunk(), true)) {
    const uint32_t number = staged_++;
    if (number >= layout_.slots) await_all(out, PeerCounter::Taken, number - layout_.slots + 1, Lane::Send);
    for (const Piece& p : c)
      out.push_back({.kind = Step::Kind::Copy,
                     .from = {Location::In::Source, 0, p.tensor, p.offset},
                     .to = {Location::In::Shared, rank_, 0, layout_.outbox(number) + p.within},
                     .bytes = p.bytes[static_cast<size_t>(rank_)]});
    tell_all(out, PeerCounter::Staged, number + 1, Lane::Send);
    take(out, c, number);
  }
  return out;
}

std::vector<Step> Steps::all_reduce(const std::vector<size_t>& bytes) {
  std::vector<Step> out;
  for (const Chunk& c : chunks(bytes, std::min(layout_.inbox_chunk(), layout_.outbox_chunk()), false)) {
    send(out, c);
    reduce(out, c, true);
    take(out, c, staged_ - 1);
  }
  return out;
}

}  // namespace thunder::peers
