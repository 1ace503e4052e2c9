// Where a kernel's loops stand in the values of its group: part of lowering (lower.cpp).
//
// The loop variables, and from them the index in each dimension, and the offset in memory, of the element being
// computed.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "fuser/index.h"
#include "fuser/lower.h"

namespace thunder::fuser {

using Multi = std::vector<Index>;  ///< an index per dimension

class Places {
 public:
  /// Refuses columns that the lanes of a chunk do not divide.
  Places(const Walk& walk, int lanes);
  /// Walks in the order in which `v`, of as many elements as the walk, lies in memory.
  void follow(Value v);
  void follow(const std::vector<size_t>& order, const Sizes& shape);
  bool reordered() const { return !order_.empty(); }
  /// A part of the walk with chunks of its own: `outer` runs of `length` elements, one every `distance` from `base` on.
  void enter_section(int64_t outer, int64_t length, int64_t distance, int64_t base);

  /// The columns of a row are walked in parts of `length`, or without parts where that is 0.
  void enter_parts(int64_t length);
  /// The same place in a row that is walked without parts, if elements lie in the order of the walk.
  Index without_parts(const Index& at);

  Indices& indices() { return indices_; }
  const Index& row() const { return row_; }
  /// Of the loop over columns that runs when all rows are done.
  const Index& finish_column() const { return finish_column_; }
  void enter_finish() { finish_column_ = indices_.variable("c", cols_, LoopScope::Row); }
  /// That loop is the one over the chunks of a thread.
  void enter_last() { finish_column_ = indices_.add(indices_.mul(chunk_, lanes_), lane_); }

  Multi delinearize(const Index& linear, const Sizes& shape);
  Index linearize(const Multi& index, const Sizes& shape);
  Index offset(const TensorType& t, const Multi& index);
  /// Where the element being computed lies in a value of as many elements as the walk.
  Multi here(Value v);
  /// The same for what a kernel stores, which a walk with Walk::roots_by_memory takes as it lies in memory.
  Multi root_here(Value v);
  bool is_root_here(Value v, const Multi& index);
  /// Of the transpose of a matrix of as many rows and columns as the walk.
  Multi transposed_here(Value v) { return in_order({1, 0}, sizes(v)); }

  /// Whether the lanes of a chunk are neighbours, from a multiple of their number on that is known before they are
  /// walked.
  bool is_vector(const Index& at);
  /// Each lane of a chunk reads element `lane` of `width` neighbours: rotated pairs, for example, or every second element.
  /// The neighbours begin at `start`, a multiple of `width` that is known before the lanes are walked.
  struct Neighbours {
    Index start, lane;
    int width;
  };
  std::optional<Neighbours> neighbours(const Index& at);
  /// Whether rows may read other places.
  bool differs_by_row(const Index& at) const {
    return !row_.is_constant() && indices_.depends_on(at, Indices::atom(row_));
  }
  /// Whether neighbouring rows read neighbours.
  bool follows_rows(const Index& at) const {
    return !row_.is_constant() && indices_.steps_with(at, Indices::atom(row_));
  }
  /// Whether there is one lane, and the columns of a row are neighbours.
  bool follows_columns(const Index& at);
  /// Whether each row reads places of its own, and neighbouring columns are neighbours there.
  bool runs_along(const Index& at) { return differs_by_row(at) && (is_vector(at) || follows_columns(at)); }
  /// How far apart neighbouring columns read, where that is a number; with one lane, and without parts.
  std::optional<int64_t> distance(const Index& at) const;
  /// `at` in two: a name for that distance times the column, and the rest.
  std::string text_by_distance(const Index& at, const std::string& distance);
  Index without_lane(const Index& at) { return indices_.add(at, indices_.mul(lane_, -1)); }
  /// The same place, known to be in [0, extent) where it is used; what changes within a row stays visible.
  Index bounded(const Index& e, const Size& extent) {
    return indices_.bounded(e, extent, lanes_ == 1 && divides(cols_, extent) ? cols_ : lanes_);
  }
  /// `e < bound` as text, with the lane left out where it cannot matter; empty where it always or never holds.
  std::string below(const Index& e, const Size& bound, LoopScope& scope, bool& always);

  /// Whether an offset does not fit 32 bits; what is symbolic of them fits where narrow() says so.
  bool wide() const { return wide_; }
  /// What offsets do not exceed.
  const Sizes& most() const { return most_; }
  /// Whether offsets up to `most` fit 32 bits.
  static bool narrow(int64_t most);
  /// Chunks of a row at which a condition that below() has written changes.
  const std::set<int64_t>& condition_changes() const { return condition_changes_; }

 private:
  void note_range(const std::optional<Size>& most);
  Multi in_order(const std::vector<size_t>& order, const Sizes& shape);

  const bool roots_by_memory_;
  const Size cols_;
  const int lanes_;
  Indices indices_;
  Index row_, chunk_, lane_, place_, finish_column_;
  Index whole_chunk_, whole_lane_, whole_place_;  // without parts
  bool in_parts_ = false;
  std::set<int64_t> condition_changes_;
  std::vector<size_t> order_;
  Sizes ordered_shape_, most_;
  bool wide_ = false;
};

}  // namespace thunder::fuser
