// Where the elements of a result lie in an operand: the index map of views, and of copies that compute nothing.
//
// An affine map gives the index along each dimension of the operand as a sum over the indices of the result:
//
//   slice(a, start=[2], stride=[3])   a[2 + 3*i]          places = {{.offset = 2, .terms = {{0, 3}}}}
//   transpose(a, (1, 0))              a[j, i]             places = {{.terms = {{1, 1}}}, {.terms = {{0, 1}}}}
//   diagonal(a, offset=1)             a[i, 1 + i]         places = {{.terms = {{0, 1}}}, {1, {{0, 1}}}}
//
// A row-major map (view, reshape) keeps the elements and their order, and changes the sizes alone.
//
// The fuser derives the loads of a kernel from the map, the frontend where a view begins in memory, and torch.vmap the
// view of a batch.
#pragma once

#include <optional>
#include <vector>

#include "core/dim.h"
#include "core/type.h"

namespace thunder {

class Args;

struct IndexMap {
  struct Term {
    size_t dim;  ///< of the result
    Dim factor = 1;
  };
  /// The index along one dimension of the operand: offset + sum of factor * (index of the result along dim).
  struct Place {
    Dim offset = 0;
    std::vector<Term> terms;
  };
  bool row_major = false;
  std::vector<Place> places;  ///< a place for each dimension of the operand; none in a row-major map

  static IndexMap in_row_major_order() { return {.row_major = true, .places = {}}; }
};

/// The map from the result to the argument `a`; nothing where these arguments have no such map.
using IndexMapFn = std::optional<IndexMap> (*)(const Args& args, const TensorType& result);

}  // namespace thunder
