// What an index tensor says of rows: recognised behind views, broadcasts over columns and several indices at once.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/builder.h"
#include "passes/visit.h"

namespace thunder {

/// The primitives that make values, those inside of composites among them, and which values a new call may read.
class Producers {
 public:
  void add_input(Value v) { visible_.set(v, 1); }
  void add(const Call& call);
  /// What is made inside of the call counts as visible, or does no longer: as if it were opened.
  void show(const Call& call, bool visible);
  const Call* operator[](Value v) const { return makers_[v]; }
  bool is_visible(Value v) const { return visible_[v] != 0; }
  /// Not made by a call of the program.
  bool is_input(Value v) const { return is_visible(v) && !makers_[v]; }

 private:
  void add_inner(const Call& call);
  ValueMap<const Call*> makers_{nullptr};
  ValueSet visible_;
};

inline bool is_call(const Call* call, std::string_view name) { return call && call->op->full_name == name; }

/// The number of a row for each of `count` entries: index tensors of one shape, the last varying fastest.
struct RowIndex {
  std::vector<Value> parts;
  Dims sizes;                       ///< of the dimension that each part counts along
  Dims shape;                       ///< of each part
  bool wraps = false;               ///< negative numbers count from the end
  std::optional<Dim> skipped = {};  ///< a number whose entries do not count

  Dim count() const;
  Dim rows() const;
  /// Text that is the same for equal indices.
  std::string key() const;
  /// A vector; -1 where the number is `skipped`.
  Expr flat(Builder& b) const;
};

/// A tensor in which only dimension `dim` tells elements apart, as a vector along that dimension; nothing if it is none.
std::optional<RowIndex> index_along(const Producers& producers, Value index, size_t dim, const Dim& size);
/// The index tensors of prims.index and prims.index_put: where they stand, `dim` being the first dimension that they
/// index; nothing if they do not stand side by side, or one is a mask.
std::optional<RowIndex> index_of_list(const Producers& producers, const Arg& indices, const Dims& shape, size_t& dim);

/// rows[index] along `dim`.
struct Gather {
  Value rows;
  RowIndex index;
};
/// Of a value that is nothing but such rows.
std::optional<Gather> gather_of(const Producers& producers, Value v, size_t dim);

}  // namespace thunder
