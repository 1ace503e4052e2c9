// What a kernel walks over, as the roots of its group ask for it.
#pragma once

#include <functional>
#include <vector>

#include "fuser/graph.h"

namespace thunder::fuser {

struct Root {
  Value value;
  bool stored = true;  ///< read by others: it is written to memory
};

/// The fusible call that makes a value; null for an input, or for what a barrier makes.
using Producer = std::function<const Call*(Value)>;

/// Whether a value exists in memory although its producer is fusible, because another kernel makes it.
using Materialized = std::function<bool(Value)>;

/// The walk that reductions ask for, or the longest root; false if they do not agree.
struct Walk {
  Size rows = 1, cols = 1;
  bool reduces = false;
  std::vector<size_t> order = {};  ///< of reductions in the order of memory, see Reduction; with the operand's shape
  Sizes shape = {};
  bool roots_by_memory =
      false;  ///< what is stored is walked as it lies in memory, the reductions' operands as they are
  /// Rows and columns are those of a matrix: a root is its transpose, or the extremum of all its elements.  A GPU walks
  /// over it in tiles.
  bool tiled = false;
  bool rows_apart = false;  ///< reductions are those of rows_apart_of()
};
/// A walk over rows_apart_of(), if all reductions allow it and the kernel reads their elements again behind the results.
bool walk_of(const std::vector<Root>& roots, const Producer& producer, const Materialized& materialized, Walk& walk);

/// A walk without reductions, with the innermost dimension as columns, as the first root lies in memory.
Walk along_memory(const std::vector<Root>& roots, Walk walk);

/// The matrix whose transpose, stored by rows, the root is; empty if it is none.  One that lies by columns
/// is none.
Value transposed_source(Value root, const Producer& producer);
/// Whether a call gives the maximum or minimum of all elements of a float32 matrix on a GPU: each tile has one, and the
/// least or largest of these is found behind them.  Sums are none: which terms are added up first would depend on the
/// tiles.
bool is_extremum_of_all(const Call& call);

}  // namespace thunder::fuser
