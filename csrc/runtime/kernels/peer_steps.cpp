#include "runtime/kernels/peer_steps.h"

#include <algorithm>

#include "core/error.h"

namespace thunder::peers {
namespace {

constexpr size_t kAlignment = 256;  // of a chunk: copies and registers of any width

size_t rounded_down(size_t bytes) { return bytes / kAlignment * kAlignment; }

// Of a tensor that is reduced on all processes: a multiple of what a vector register holds.
size_t slice(size_t bytes, int world) {
  constexpr size_t kVector = 16;
  const auto n = static_cast<size_t>(world);
  return ((bytes + n - 1) / n + kVector - 1) / kVector * kVector;
}

}  // namespace

// ---- the shared memory -----------------------------------------------------------------------------------------------

size_t Layout::counter(Counter c, int by) const {
  return (static_cast<size_t>(c) * static_cast<size_t>(world) + static_cast<size_t>(by)) * kCounterStride;
}

size_t Layout::inbox_chunk() const {
  return world < 2 ? 0 : rounded_down(inbox_bytes / (static_cast<size_t>(world - 1) * slots));
}

size_t Layout::outbox_chunk() const { return rounded_down(outbox_bytes / slots); }

size_t Layout::inbox(int from, uint32_t number, int owner) const {
  // The owner has no part of its own inbox.
  const auto part = static_cast<size_t>(from < owner ? from : from - 1);
  const size_t counters = kCounters * static_cast<size_t>(world) * kCounterStride;
  const size_t begin = (counters + kAlignment - 1) / kAlignment * kAlignment;
  return begin + (part * slots + number % slots) * inbox_chunk();
}

size_t Layout::outbox(uint32_t number) const {
  // Past the last sender's part of the inbox.
  return inbox(world, 0, 0) + number % slots * outbox_chunk();
}

size_t Layout::bytes() const { return outbox(0) + slots * outbox_chunk(); }

// ---- the steps -------------------------------------------------------------------------------------------------------

/// What a collective takes at a time: `most` bytes of each process's slice.  `whole`: slices are equal parts of the
/// tensors, else multiples of a vector, of which the last may be shorter.
std::vector<Steps::Chunk> Steps::chunks(const std::vector<size_t>& bytes, size_t most, bool whole) const {
  THUNDER_ASSERT(most, "no slots for a collective of ", layout_.world, " processes");
  std::vector<Chunk> out;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const size_t each = whole ? bytes[i] / static_cast<size_t>(layout_.world) : slice(bytes[i], layout_.world);
    for (size_t offset = 0; offset < each; offset += most) {
      Chunk c{i, offset, {}, {}};
      for (size_t r = 0; r < static_cast<size_t>(layout_.world); ++r) {
        const size_t end = whole ? (r + 1) * each : std::min((r + 1) * each, bytes[i]);
        const size_t begin = std::min(r * each + offset, end);
        c.begin.push_back(begin);
        c.bytes.push_back(std::min(most, end - begin));
      }
      out.push_back(std::move(c));
    }
  }
  return out;
}

void Steps::await_all(std::vector<Step>& out, Counter c, uint32_t value, Lane lane) const {
  for (int r = 0; r < layout_.world; ++r)
    if (r != rank_) out.push_back({.kind = Step::Kind::Await, .lane = lane, .counter = c, .rank = r, .value = value});
}

void Steps::tell_all(std::vector<Step>& out, Counter c, uint32_t value, Lane lane) const {
  for (int r = 0; r < layout_.world; ++r)
    if (r != rank_) out.push_back({.kind = Step::Kind::Tell, .lane = lane, .counter = c, .rank = r, .value = value});
}

void Steps::send(std::vector<Step>& out, const Chunk& c) {
  if (sent_ >= layout_.slots) await_all(out, Counter::Consumed, sent_ - layout_.slots + 1, Lane::Send);
  // Each process begins with another one, so that no process's links are asked for by all at once.
  for (int k = 1; k < layout_.world; ++k) {
    const int to = (rank_ + k) % layout_.world;
    const auto part = static_cast<size_t>(to);
    if (c.bytes[part])
      out.push_back({.kind = Step::Kind::Copy,
                     .from = {Location::In::Source, 0, c.tensor, c.begin[part]},
                     .to = {Location::In::Shared, to, 0, layout_.inbox(rank_, sent_, to)},
                     .bytes = c.bytes[part]});
    out.push_back({.kind = Step::Kind::Tell, .counter = Counter::Sent, .rank = to, .value = sent_ + 1});
  }
}

void Steps::reduce(std::vector<Step>& out, const Chunk& c, bool gathers) {
  await_all(out, Counter::Sent, sent_ + 1, Lane::Reduce);
  if (gathers && staged_ >= layout_.slots) await_all(out, Counter::Taken, staged_ - layout_.slots + 1, Lane::Reduce);
  const auto mine = static_cast<size_t>(rank_);
  if (c.bytes[mine])
    out.push_back({.kind = Step::Kind::Reduce,
                   .lane = Lane::Reduce,
                   .value = sent_,
                   .from = {Location::In::Source, 0, c.tensor, c.begin[mine]},
                   .to = {Location::In::Result, 0, c.tensor, gathers ? c.begin[mine] : c.offset},
                   .also = {Location::In::Shared, rank_, 0, layout_.outbox(staged_)},
                   .has_also = gathers,
                   .bytes = c.bytes[mine]});
  tell_all(out, Counter::Consumed, ++sent_, Lane::Reduce);
  if (gathers) tell_all(out, Counter::Staged, ++staged_, Lane::Reduce);
}

void Steps::take(std::vector<Step>& out, const Chunk& c, uint32_t number) const {
  for (int k = 1; k < layout_.world; ++k) {
    const int from = (rank_ + k) % layout_.world;
    const auto part = static_cast<size_t>(from);
    out.push_back(
        {.kind = Step::Kind::Await, .lane = Lane::Take, .counter = Counter::Staged, .rank = from, .value = number + 1});
    if (c.bytes[part])
      out.push_back({.kind = Step::Kind::Copy,
                     .lane = Lane::Take,
                     .from = {Location::In::Shared, from, 0, layout_.outbox(number)},
                     .to = {Location::In::Result, 0, c.tensor, c.begin[part]},
                     .bytes = c.bytes[part]});
    out.push_back(
        {.kind = Step::Kind::Tell, .lane = Lane::Take, .counter = Counter::Taken, .rank = from, .value = number + 1});
  }
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
                 .lane = Lane::Take,
                 .from = {Location::In::Source, 0, tensor, 0},
                 .to = {Location::In::Result, 0, tensor, static_cast<size_t>(rank_) * bytes},
                 .bytes = bytes});
}

/// On one stream: every one that waits delays the kernels of the others.
void Steps::take_reached(std::vector<Step>& out, const std::vector<size_t>& bytes, const std::vector<bool>& reached) {
  const uint32_t number = ++offered_;
  tell_all(out, Counter::Offered, number, Lane::Take);
  for (size_t i = 0; i < bytes.size(); ++i)
    if (reached[i] && bytes[i]) copy_own(out, i, bytes[i]);
  for (int k = 1; k < layout_.world; ++k) {
    const int from = (rank_ + k) % layout_.world;
    out.push_back(
        {.kind = Step::Kind::Await, .lane = Lane::Take, .counter = Counter::Offered, .rank = from, .value = number});
    for (size_t i = 0; i < bytes.size(); ++i)
      if (reached[i] && bytes[i])
        out.push_back({.kind = Step::Kind::Copy,
                       .lane = Lane::Take,
                       .from = {Location::In::Reached, from, i, 0},
                       .to = {Location::In::Result, 0, i, static_cast<size_t>(from) * bytes[i]},
                       .bytes = bytes[i]});
    out.push_back(
        {.kind = Step::Kind::Tell, .lane = Lane::Take, .counter = Counter::Fetched, .rank = from, .value = number});
  }
  await_all(out, Counter::Fetched, number, Lane::Take);
}

std::vector<Step> Steps::all_gather(const std::vector<size_t>& bytes, const std::vector<bool>& reached) {
  std::vector<Step> out;
  std::vector<size_t> whole(bytes.size());
  bool any = false;
  for (size_t i = 0; i < bytes.size(); ++i) {
    any = any || (reached[i] && bytes[i]);
    if (!reached[i] && bytes[i]) copy_own(out, i, bytes[i]);
    if (!reached[i]) whole[i] = bytes[i] * static_cast<size_t>(layout_.world);
  }
  if (any) take_reached(out, bytes, reached);
  if (std::all_of(reached.begin(), reached.end(), [](bool r) { return r; })) return out;
  for (const Chunk& c : chunks(whole, layout_.outbox_chunk(), true)) {
    const uint32_t number = staged_++;
    if (number >= layout_.slots) await_all(out, Counter::Taken, number - layout_.slots + 1, Lane::Send);
    out.push_back({.kind = Step::Kind::Copy,
                   .from = {Location::In::Source, 0, c.tensor, c.offset},
                   .to = {Location::In::Shared, rank_, 0, layout_.outbox(number)},
                   .bytes = c.bytes[static_cast<size_t>(rank_)]});
    tell_all(out, Counter::Staged, number + 1, Lane::Send);
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
