// The loop IR: what a generated kernel computes, before a target gives it threads.
//
// A kernel walks over `rows` rows of `cols` elements.  A row is walked once a phase; after a phase its reductions are
// known, and later phases use them.  In a phase's loop, `chunk` statements run once for `lanes` neighbouring elements,
// `lane` statements once an element.  Statements are C++ over these names:
//
//   r, q, j        the row, the chunk in the row, the lane in the chunk: element lanes*q + j of row r
//   p, j           in a phase with parts: the part of the row, the column in the part
//   k              number of the chunk among those that a thread has (cached vectors are arrays over k)
//   i              number of the row among those that a thread has, where a matrix is stored by columns
//   in0, out0      pointers to the elements of inputs and outputs; those of inputs stand `offsets` further on
//   n0, n1         sizes that are arguments of a launch
//   f0, f1         numbers that are arguments of a launch, in double precision
//
// Without reductions there is one row, and its phases are sections: parts of the output that are computed in different
// ways, such as those of a cat.  Each has chunks of its own, from 0.
//
// A column reduction sums over rows: it has an accumulator for every column, and `finish` runs once a column when all
// rows are done; or `last`, a phase of the threads that have the accumulators, where each of them walks over all rows.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/trace.h"
#include "fuser/index.h"

namespace thunder::fuser {

struct Accumulator {
  std::string name;
  std::string type;  ///< C++ type of the sum
  Combine combine = Combine::Add;
  std::string maximum;  ///< not empty: a sum of exp(x - maximum), under the accumulator of that name as it grows
};

/// Random numbers of neighbouring columns, which are made together before the lanes of a block of columns run: lane l
/// of the block reads `name[l]`.
struct Ahead {
  std::string name, kind;  ///< kind: of the prelude, "th_uniform<24>"
  std::string state;       ///< seed and offset
  std::string first;       ///< the number's place, where `q` is the first column of the block
};

/// A matrix whose rows are walked, stored by columns: `Vec<type, lanes> name[kTransposedRows]` has a thread's elements,
/// which the threads of a block exchange so that neighbours store neighbours.
struct TransposedStore {
  size_t output;
  std::string name, type;
};
constexpr int kTransposedRows = 4;  ///< neighbouring rows of a thread

struct Phase {
  std::vector<std::string> row;  ///< once a row, before the loop
  std::vector<Ahead> ahead;      ///< with one lane only
  std::vector<std::string> chunk;
  std::vector<std::string> lane;
  std::vector<std::string> stores;          ///< once a chunk, after its lanes
  std::vector<TransposedStore> transposed;  ///< with several lanes only
  int64_t chunks = 0;                       ///< of a section
  /// Not 0: the loop walks parts `p` of so many columns `j`, and `chunk` runs once a part; with one lane only.
  int64_t part = 0;
  bool divides = false;                 ///< an index is divided within a row
  std::vector<Accumulator> reductions;  ///< of the row, `lane` adds to them
  bool has_loop() const { return !lane.empty() || !chunk.empty() || !stores.empty(); }
};

/// An output whose element is written where, and after, the same place of the input is read for the last time, by the
/// same step of the loops: it may lie in the input's memory.
struct InPlace {
  size_t input, output;
};

struct Kernel {
  Size rows = 1, cols = 1;
  int64_t usual_rows = 1, usual_cols = 1;  ///< in the call that was compiled: what suits these is chosen
  int lanes = 1;
  bool cached = false;  ///< vectors that were loaded stay in registers over all phases of a row
  std::vector<Value> inputs, outputs;
  /// Elements by which each input's pointer stands after the tensor's first one: kernels that read other parts of a
  /// tensor in the same way, such as the steps of a loop, have the same text.
  Sizes offsets;
  std::vector<InPlace> in_place;
  std::vector<std::string> cached_vectors;  ///< declarations with [K], once a row
  std::vector<std::string> cached_loads;    ///< of them, once a chunk: after the first phase's `row`, before its loop
  int64_t cached_bytes = 0;                 ///< of one chunk of them
  bool caches_draws = false;                ///< random numbers are among them
  std::vector<std::string> row_buffers;     ///< declarations of arrays that a phase fills for later ones
  std::vector<Phase> phases;
  std::set<int64_t> condition_changes;  ///< chunks of a row at which conditions change, not of sections
  std::vector<std::string> row_stores;  ///< once a row, by one thread, at the end
  bool tiled = false;                   ///< rows and columns are those of a matrix, in tiles on a GPU (Walk::tiled)
  std::vector<Accumulator> extrema;     ///< of all elements, of a tiled kernel; `finish` runs once for them
  std::vector<Accumulator> columns;
  std::vector<std::string> finish;  ///< once a column `c`; a column's sum goes by its accumulator's name
  std::optional<Phase> last;        ///< instead of `finish`; a column's sum is TH_COLUMN(its accumulator's name)
  std::vector<const Call*> calls;   ///< what it computes, in the order of the trace
  bool wide = false;                ///< an offset may not fit 32 bits
  NamedSizes sizes;                 ///< arguments of a launch
  std::vector<Value> numbers;       ///< floats that are arguments of a launch
  Sizes most;                       ///< what offsets do not exceed, as far as it is symbolic
  bool gathers = false;             ///< from places that are read at run time, and may be outside of their tensor
  bool strided = false;             ///< the lanes of a chunk read elements that are no neighbours
  /// Distances in memory between the elements that neighbouring columns read.  The text names them (`d512` is 512,
  /// `back512` is -512), so that g++ does not see constants: g++ vectorises few loads at constant distances, and
  /// nothing that is computed from such loads.
  std::set<int64_t> distances;
  int rows_together = 0;               ///< what is fetched from memory for one row serves so many: 0 unless `strided`
  bool along_rows = false;             ///< neighbours in a row are neighbours in an operand, too
  int64_t common_divisor = 0;          ///< of divisions within a row
  Division division = Division::None;  ///< within a row
  Size numel() const { return rows * cols; }
  /// Whether what several threads have of sums of columns, or of extrema, is added up at the end.
  bool has_finish() const { return (!columns.empty() && !last) || !extrema.empty(); }
  /// Whether a launch takes numbers besides tensors.
  bool has_arguments() const { return !sizes.empty() || !numbers.empty(); }
  /// Whether the host's function begins again if an argument of a periodic function is too large for arithmetic.
  bool may_run_twice() const;
  Size chunks() const { return *quotient(cols, lanes); }  ///< of a row
};

/// Of Kernel::distances.
std::string distance_name(int64_t distance);
/// The storage type's name in generated code: "bf16", "float", "int64".
std::string storage_name(DType t);
/// The type that elements are computed in: float for bf16 and f16; float8 values are converted, and not computed in.
std::string compute_name(DType t);

}  // namespace thunder::fuser
