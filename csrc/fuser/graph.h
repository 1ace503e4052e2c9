// What the fuser sees of a program: which calls it can generate code for, who makes and who reads each value.
#pragma once

#include <unordered_map>
#include <vector>

#include "core/trace.h"
#include "fuser/size.h"
#include "passes/visit.h"

namespace thunder::fuser {

enum class Kind : uint8_t {
  Barrier,    ///< not ours
  Pointwise,  ///< one element from one element of each operand
  Move,       ///< one element from one element, by index arithmetic (views, cat, pad, flip, broadcasts)
  Create,     ///< from no operand (full, iota)
  Random,     ///< from a random state and the element's place (uniform_at)
  Reduce,
};

/// Whether some call of the operator is not a Barrier.
bool may_fuse(const Op& op);
/// Of a primitive on one device.
Kind kind_of(const Call& call);
/// A Move that PyTorch does without copying: outside of kernels it stays a view.
bool is_view(const Call& call);
/// Whether it reduces to the largest or the smallest element.
bool is_extremum(const Call& call);
/// Whether it reads elements at places that another tensor gives.
bool gathers(const Call& call);
/// Whether no operator of ATen does the same: it moves or makes elements as none does, or a dimension of its operand is
/// walked along two of its own (unfold).
bool is_no_operators_work(const Call& call);
/// A copy on a GPU that moves whole pieces of memory elsewhere, which PyTorch's kernel does element by element.
bool moves_pieces(const Call& call);

/// The number of elements, and the sizes.
Size numel(Value v);
Sizes sizes(Value v);
/// The number of elements in the call being compiled.
int64_t usual_numel(Value v);

/// The dimension that a call's argument `dim` names, and for each dimension whether `dims` names it.
size_t dim_of(const Call& call, size_t rank);
std::vector<bool> dims_of(const Call& call, size_t rank);

/// Which dimensions a reduction keeps: the first ones (rows of the input become elements) or the last ones (columns
/// do), dimensions of size 1 aside.
enum class Reduced : uint8_t { Neither, Inner, Outer };
struct Reduction {
  Reduced which = Reduced::Neither;
  Size rows = 1, cols = 1;
  /// Not empty: the dimensions are the first or last ones only in this order of them.  That of memory (sums of
  /// [N, C, H, W] over all but C, channels last), or else, on a GPU, those that are reduced before those that are kept
  /// (sums of [B, T, C] over T, or of [N, C, H, W] over H and W, channels last), or the other way round (of [N, C, H, W]
  /// over all but C).  Those that are kept are in order all the same.
  std::vector<size_t> order;
  /// Whether a GPU may walk over the kept dimensions as rows, see rows_apart_of().
  bool may_be_rows = false;
};
Reduction reduction_of(const Call& call);
/// The kept dimensions as rows, although the elements of a row lie apart: a block has rows that lie together, and keeps
/// their elements until it reads them again behind the sum.
Reduction rows_apart_of(const Call& call);
/// Whether the loop reads with gaps, where memory has other elements: sums of [N, C, H, W], channels last, over H and W,
/// or over N.
bool has_gaps(const Call& reduction);
/// The same with another operand.
bool has_gaps(const Call& reduction, const TensorType& operand);
/// Whether the dimensions with more than one element lie in memory in their order.
bool has_logical_order(const TensorType& t);
/// The dimensions from the outermost in memory to the innermost.
std::vector<size_t> memory_order(const TensorType& t);

}  // namespace thunder::fuser
