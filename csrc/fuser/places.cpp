#include "fuser/places.h"

#include <algorithm>

#include "fuser/graph.h"

namespace thunder::fuser {

Places::Places(const Walk& walk, int lanes) : roots_by_memory_(walk.roots_by_memory), cols_(walk.cols), lanes_(lanes) {
  note_range(walk.rows * cols_);
  const std::optional<Size> chunks = quotient(cols_, lanes_);
  if (!chunks) throw Refused();
  row_ = indices_.variable("r", walk.rows, LoopScope::Row);
  chunk_ = indices_.variable("q", *chunks, LoopScope::Chunk);
  lane_ = indices_.variable("j", lanes_, LoopScope::Lane);
  Index column = indices_.add(indices_.mul(chunk_, lanes_), lane_);
  place_ = indices_.add(indices_.mul(row_, cols_), column);
  whole_chunk_ = chunk_, whole_lane_ = lane_, whole_place_ = place_;
}

void Places::enter_parts(int64_t length) {
  chunk_ = whole_chunk_, lane_ = whole_lane_, place_ = whole_place_;
  in_parts_ = length != 0;
  if (!in_parts_) return;
  chunk_ = indices_.variable("p", *quotient(cols_, length), LoopScope::Chunk);
  lane_ = indices_.variable("j", length, LoopScope::Lane);
  place_ = indices_.add(indices_.mul(row_, cols_), indices_.add(indices_.mul(chunk_, length), lane_));
}

Index Places::without_parts(const Index& at) {
  return in_parts_ ? indices_.add(indices_.add(at, indices_.mul(place_, -1)), whole_place_) : at;
}

void Places::follow(Value v) { follow(memory_order(v.tensor()), sizes(v)); }

void Places::follow(const std::vector<size_t>& order, const Sizes& shape) {
  if (std::is_sorted(order.begin(), order.end())) return;
  order_ = order;
  ordered_shape_ = shape;
}

void Places::enter_section(int64_t outer, int64_t length, int64_t distance, int64_t base) {
  const int64_t chunks = length / lanes_;
  Index q = chunk_ = indices_.variable("q", outer * chunks, LoopScope::Chunk);
  Index within = indices_.add(indices_.mul(indices_.mod(q, chunks), lanes_), lane_);
  place_ = indices_.add(indices_.add(indices_.mul(indices_.div(q, chunks), distance), within), Index(base));
}

Multi Places::delinearize(const Index& linear, const Sizes& shape) {
  Multi out(shape.size());
  Size stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    Index q = indices_.div(linear, stride);
    out[i] = i == 0 ? q : indices_.mod(q, shape[i]);
    if (shape[i].is(1)) out[i] = 0;
    stride *= shape[i];
  }
  return out;
}

Index Places::linearize(const Multi& index, const Sizes& shape) {
  Index linear;
  Size stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    linear = indices_.add(linear, indices_.mul(index[i], stride));
    stride *= shape[i];
  }
  note_range(indices_.max(linear));
  return linear;
}

Index Places::offset(const TensorType& t, const Multi& index) {
  Index out;
  for (size_t i = 0; i < index.size(); ++i)
    if (!Size(t.shape[i]).is(1)) out = indices_.add(out, indices_.mul(index[i], t.strides[i]));
  note_range(indices_.max(out));
  return out;
}

Multi Places::here(Value v) {
  Sizes shape = sizes(v);
  if (order_.empty()) return delinearize(place_, shape);
  if (shape != ordered_shape_) throw Refused();
  return in_order(order_, shape);
}

Multi Places::in_order(const std::vector<size_t>& order, const Sizes& shape) {
  Sizes permuted;
  for (size_t d : order) permuted.push_back(shape[d]);
  Multi along = delinearize(place_, permuted), out(shape.size());
  for (size_t i = 0; i < order.size(); ++i) out[order[i]] = along[i];
  return out;
}

Multi Places::root_here(Value v) { return roots_by_memory_ ? in_order(memory_order(v.tensor()), sizes(v)) : here(v); }

bool Places::is_root_here(Value v, const Multi& index) {
  Multi now = root_here(v);
  const Sizes shape = sizes(v);
  for (size_t i = 0; i < shape.size(); ++i)
    if (!shape[i].is(1) && !(now[i] == index[i])) return linearize(now, shape) == linearize(index, shape);
  return true;
}

bool Places::is_vector(const Index& at) {
  if (lanes_ == 1) return false;
  const int32_t lane = Indices::atom(lane_);
  return at.factor_of(lane).is(1) && indices_.multiple_of(at, lanes_, lane) &&
         indices_.scope(without_lane(at)) != LoopScope::Lane;
}

std::optional<Places::Neighbours> Places::neighbours(const Index& at) {
  if (lanes_ == 1 || !at.constant().is_number()) return std::nullopt;
  Index lane;
  for (const Index::Term& t : at.terms())
    if (const Index term = indices_.mul(indices_.term(t.atom), t.factor); indices_.scope(term) == LoopScope::Lane)
      lane = indices_.add(lane, term);
  if (lane.is_constant() || !indices_.depends_only_on(lane, Indices::atom(lane_))) return std::nullopt;
  for (int width = 2; width <= 2 * lanes_; width *= 2) {
    const int64_t within = ((at.constant().number() % width) + width) % width;
    const Index place = indices_.add(lane, Index(within)), start = indices_.add(at, indices_.mul(place, -1));
    if (indices_.within(place, width) && indices_.scope(start) != LoopScope::Lane && indices_.multiple_of(start, width))
      return Neighbours{start, place, width};
  }
  return std::nullopt;
}

bool Places::follows_columns(const Index& at) {
  if (lanes_ != 1 || chunk_.is_constant() || !at.factor_of(Indices::atom(chunk_)).is(1)) return false;
  return indices_.scope(indices_.add(at, indices_.mul(chunk_, -1))) == LoopScope::Row;
}

std::optional<int64_t> Places::distance(const Index& at) const {
  if (lanes_ != 1 || in_parts_ || chunk_.is_constant()) return std::nullopt;
  const Size factor = at.factor_of(Indices::atom(chunk_));
  return factor.is_number() ? std::optional(factor.number()) : std::nullopt;
}

std::string Places::text_by_distance(const Index& at, const std::string& distance) {
  const Index rest = indices_.add(at, indices_.mul(chunk_, -at.factor_of(Indices::atom(chunk_))));
  return indices_.text(rest) + " + " + distance + " * " + indices_.text(chunk_);
}

std::string Places::below(const Index& e, const Size& bound, LoopScope& scope, bool& always) {
  const std::optional<Size> least = indices_.min(e), most = indices_.max(e);
  always = most && surely_below(*most, bound);
  if (always || (least && surely_at_least(*least, bound))) return "";
  Index cut = e;
  if (lanes_ > 1 && indices_.scope(e) == LoopScope::Lane) {
    const int32_t lane = Indices::atom(lane_);
    if (e.factor_of(lane).is(1) && indices_.multiple_of(e, lanes_, lane) && divides(lanes_, bound))
      cut = without_lane(e);
  }
  // Of 64*r + q < 256, with q < 64, the row decides.
  const std::optional<Size> rows = quotient(bound, cols_);
  const bool can_be_divided = cols_.is_number() || (least && surely_at_least(*least, 0));
  if (rows && can_be_divided && indices_.scope(cut) != LoopScope::Row)
    if (const Index high = indices_.div(cut, cols_); indices_.scope(high) == LoopScope::Row) {
      scope = LoopScope::Row;
      return indices_.text(high) + " < " + indices_.text(*rows);
    }
  scope = indices_.scope(cut);
  if (const Size change = bound - cut.constant();
      lanes_ == 1 && !in_parts_ && change.is_number() && indices_.add(cut, -cut.constant()) == chunk_)
    condition_changes_.insert(change.number());
  return indices_.text(cut) + " < " + indices_.text(bound);
}

// Loops step beyond their end by less than a grid of threads.
bool Places::narrow(int64_t most) { return most < (int64_t{1} << 31) - (int64_t{1} << 24); }

void Places::note_range(const std::optional<Size>& most) {
  if (!most || most->is_number()) {
    wide_ = wide_ || !most || !narrow(most->number());
    return;
  }
  // Where the greater fits, the less does.
  if (std::any_of(most_.begin(), most_.end(), [&](const Size& n) { return surely_at_least(n, *most); })) return;
  std::erase_if(most_, [&](const Size& n) { return surely_at_least(*most, n); });
  most_.push_back(*most);
}

}  // namespace thunder::fuser
