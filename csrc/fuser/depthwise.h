// The CUDA text of depthwise convolutions over two dimensions whose images lie channels last: each channel has a filter
// of its own, so that a product of matrices has nothing to do.  A thread has a few neighbouring channels and a tile of
// columns, and walks down the image: a row that it reads is added to all the rows of results that it belongs to, which
// are in registers.  Rows are thus read once a tile, and all arithmetic is in float32.
//
// A window that moves is no region of the loop IR, so the text is written by hand, for one filter and type.  The order
// of sums does not depend on timing.
#pragma once

#include <cstdint>
#include <string>

#include "core/dtype.h"

namespace thunder::fuser::depthwise {

struct Problem {
  int64_t channels = 0;
  int64_t height = 0, width = 0;  ///< of the filter
  int64_t stride_y = 1, stride_x = 1, padding_y = 0, padding_x = 0;
  int64_t columns = 0;  ///< of the convolution's result; 0 where they are not known
  DType dtype = DType::bf16;
  int64_t positions = 0;  ///< of the result in all images; 0 where they are not known
};

/// Whether there are kernels for it.
bool supported(const Problem& p);

enum class Kind : uint8_t { Forward, Input, Weight };

/// How a kernel goes about it.
struct Plan {
  Problem problem;
  Kind kind = Kind::Forward;
  bool bias = false;     ///< Weight: the bias's gradient, too
  int64_t items = 1;     ///< channels of a thread
  int64_t tile = 4;      ///< columns of a thread
  bool ahead = false;    ///< the next row is read before the last one is used
  int64_t lanes = 32;    ///< threads of a block side by side along the channels; others have other strips
  int64_t blocks_y = 1;  ///< blocks along the channels
};
Plan plan_of(const Problem& p, Kind kind, bool bias = false);

inline constexpr int kThreads = 128, kJoinThreads = 256;

/// What is divided among threads: strips of `segment` rows and a tile of columns.
struct Launch {
  int64_t segment = 1, segments = 1, strips = 0;
  int64_t blocks_x = 1;
};
/// `rows` and `columns` are those of what is written; for Weight, of the convolution's result.
Launch launch_of(const Plan& plan, int64_t batch, int64_t rows, int64_t columns, int64_t multiprocessors);
/// Weight: float32 numbers that the blocks leave for depthwise_join.
int64_t partial_numbers(const Plan& plan, const Launch& l);
/// Weight: blocks of depthwise_join along y, for a filter's numbers and the bias.
int64_t results_of(const Plan& plan);

/// extern "C" kernels. In all of them `height` and `width` are those of the convolution's input, `out_*` of its result:
///   depthwise_forward(x, weight, bias or null, y, channels, lanes, height, width, out_height, out_width, segment,
///                     segments, strips)
///   depthwise_input(dy, weight, dx, channels, ...)
///   depthwise_weight(dy, x, parts, channels, ...)          blocks_x * blocks_y blocks of kThreads
///   depthwise_join(parts, dweight, dbias, channels, blocks_x)  ceil(channels / 32) * results_of() of kJoinThreads
std::string text_of(const Plan& plan);

}  // namespace thunder::fuser::depthwise
