// The CUDA text of scans: what is joined of all elements up to each one along a dimension.  A row is walked over with
// what it has given so far, which no region of the loop IR does.
//
// A scan joins *states* (a sum; a maximum and a sum of exponentials; a linear map).  A thread joins some elements,
// threads of a warp by shuffles, warps by shared memory, and a block walks over a row tile by tile.  Everything is
// joined in the elements' order and in a tree that depends on sizes alone: results are the same each time.  Long rows
// that are too few to keep the device busy are cut in parts, whose states a kernel before puts down.
#pragma once

#include <cstdint>
#include <string>

#include "core/dtype.h"

namespace thunder::fuser::scans {

enum class Kind : uint8_t {
  Sum,
  ReversedSum,  ///< from the last element to the first one
  Product,
  ProductGradient,  ///< of (gradient, input, output); the output is what the gradient's element is multiplied by
  LogSumExp,
  LogSumExpGradient,  ///< of (gradient, input, output)
};

struct Problem {
  Kind kind = Kind::Sum;
  DType in = DType::f32, out = DType::f32;
  bool operator==(const Problem&) const = default;
};

/// Whether there are kernels: elements are converted to the result's type before they are joined, so that only wider
/// types are possible, and rounded once behind it.
bool supported(const Problem& p);
/// Tensors that are scanned together.
int inputs_of(Kind k);
/// Bytes of a state: float32 for halves, int64 for integers.
int64_t state_bytes(const Problem& p);

/// Elements of a row that a thread has side by side: 16 bytes of the wider type.
int lanes_of(const Problem& p);
/// Chunks of so many elements that a thread has of each tile.
int chunks_of(const Problem& p);
/// Neighbouring columns of a thread where all can be read like that: 4 bytes.
int columns_of(const Problem& p);
inline constexpr int kItems = 8;          ///< rows that a thread has of each tile of columns
inline constexpr int kMostThreads = 256;  ///< of a block
inline constexpr int kMostInColumn = 16;  ///< threads of a block that share a column

/// How [outer, length, inner] is scanned along `length`.
struct Launch {
  enum class Way : uint8_t {
    ShortRows,  ///< some threads of a warp for each row
    Rows,       ///< blocks for each row
    Columns,    ///< neighbouring threads have neighbouring columns
  };
  Way way = Way::Rows;
  int64_t blocks = 0;  ///< along x; of each part
  int threads = 0;     ///< of a block
  int team = 0;        ///< threads of a short row; columns' threads side by side
  int columns = 1;     ///< neighbouring columns of a thread
  int64_t parts = 1;   ///< blocks along y
  int64_t part = 0;    ///< chunks, or rows of columns, of a part
  int64_t states = 0;  ///< of all parts; 0 for one part
};
/// `vectors`: columns' memory is aligned for columns_of().  No dimension is 0.
Launch launch_of(const Problem& p, int64_t outer, int64_t length, int64_t inner, bool vectors, int multiprocessors);

/// extern "C" kernels for row-major tensors:
///   scan_short_rows(a, b, c, out, rows, length, team, aligned)
///   scan_rows(a, b, c, parts, out, rows, length, part, aligned)
///   scan_row_parts(a, b, c, parts, rows, length, part, aligned)
///   scan_columns(a, b, c, parts, out, outer, length, inner, part, team), scan_columns_1 for one column a thread
///   scan_column_parts(a, b, c, parts, outer, length, inner, part, team), scan_column_parts_1
/// `parts` null: one part.  `aligned`: inputs begin at multiples of 16 bytes, as `out` does.  Sizes are int64, `team`
/// and `aligned` int.
std::string text_of(const Problem& p);

}  // namespace thunder::fuser::scans
