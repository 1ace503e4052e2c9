// From the loop IR to source text: one printer a target over the same statements.
#pragma once

#include <string>

#include "fuser/kernel.h"

namespace thunder::fuser {

enum class Target : uint8_t { Host, Cuda };

/// What all kernels of a translation unit need: storage types, conversions, mathematics by its `th_` names.
const std::string& host_prelude();
const std::string& cuda_prelude();
/// The part of the host's that has exp, log, tanh and the like.
const std::string& host_math_prelude();
/// What stands behind the host's prelude and needs it: sin, pow and the like.
const std::string& host_functions();
/// The translation unit of these kernels, with what they use of the two.
std::string host_source(const std::string& kernels);
/// The part of CUDA's by which a block of threads transposes a tile of a matrix.
const std::string& tile_prelude();
/// The part of both that adds up the sums of runs.
const std::string& total_prelude();
/// The part of both that knows float8.
const std::string& float8_prelude();
/// The part of both that draws random numbers.
const std::string& random_prelude();

/// Functions for the host, extern "C":
///   int NAME(const void* const* in, void* const* out, char* partial, int64 begin, int64 end, const int64* sizes,
///            const double* numbers)
/// walks rows [begin, end), or columns if there is but one row and nothing is reduced.  With column reductions,
/// `partial` holds the sums of this part of the rows, and
///   int NAME_finish(const void* const* in, void* const* out, char* partial, int64 parts, const int64* sizes, const double* numbers)
/// sums the parts, which lie one after the other, and stores the results.  Both return 0, or 1 if a place that was read
/// at run time is outside of its tensor; what is stored then means nothing.  `sizes` are Kernel::sizes,
/// `numbers` Kernel::numbers; a kernel that has neither takes none of the two.
std::string emit_host(const Kernel& kernel, const std::string& name);
/// Whether begin and end of the host function count columns.
bool host_splits_columns(const Kernel& kernel);

/// How the CUDA kernel is launched, whatever the sizes are.
struct CudaShape {
  int threads = 256;  ///< of a block that work on one row
  int rows_per_block = 1;
  bool across = false;                ///< the neighbours of a warp work on different rows, whose elements lie together
  int chunks = 1;                     ///< of a row that a thread works on (K)
  int blocks_per_multiprocessor = 0;  ///< of a persistent kernel
  bool persistent = false;            ///< at most as many blocks as run at once, each walks over several rows
  bool whole = false;                 ///< a block walks over all rows of its columns, and stores what their sums make
  /// Threads of a block along x, of which 32 are a warp, and along y.
  int width() const { return across ? rows_per_block : threads; }
  int height() const { return across ? threads : rows_per_block; }
};
constexpr int kRowThreads = 512;  ///< of a row: two blocks share a multiprocessor, one loads while the other computes
constexpr int64_t kCachedBytes = 160;  ///< of one thread: about 40 registers
CudaShape cuda_shape(const Kernel& kernel);
/// Blocks along rows (without reductions along all chunks) and along columns, for these numbers of rows and columns.
struct CudaBlocks {
  int64_t x = 1, y = 1;
};
CudaBlocks cuda_blocks(const Kernel& kernel, int64_t rows, int64_t cols);
constexpr int kFinishRows = 32;
/// Whether sums of rows and of columns take less time in two kernels: the second one finds in the cache what it reads
/// again, and neither has the registers of both.
bool joins_sums_badly(const Kernel& kernel);
/// Whether a second function adds up what several blocks have of sums of columns, or of extrema.
bool finishes_apart(const Kernel& kernel);
/// extern "C" __global__ functions NAME(inputs..., outputs..., sizes..., numbers..., [partial]) and, if it has one,
/// NAME_finish(inputs..., outputs..., sizes..., numbers..., partial, parts) for blocks of 32 x kFinishRows threads: one for
/// each 32 columns whose sums are found, one for extrema of all.
std::string emit_cuda(const Kernel& kernel, const std::string& name);

/// Bytes of the sums of `cols` columns, or of the extrema, in one part.
int64_t partial_bytes(const Kernel& kernel, Target target, int64_t cols);

}  // namespace thunder::fuser
