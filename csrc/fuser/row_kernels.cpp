#include "fuser/row_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/error.h"
#include "fuser/kernel.h"

namespace thunder::fuser::rows {
namespace {

// A number as a key.
constexpr const char* kKeys = R"(
TH_D KEY rows_key(ID id, int64 groups, int skips) {
  if (skips && id == ID(-1)) return KEY(groups);
  return KEY(th_place<int64>(int64(id), groups));
}
extern "C" __global__ void __launch_bounds__(THREADS) rows_keys(const ID* __restrict__ ids, KEY* __restrict__ keys, int count, int64 groups, int skips) {
  const int64 i = int64(blockIdx.x) * THREADS + threadIdx.x;
  if (i < count) keys[i] = rows_key(ids[i], groups, skips);
}
)";

// Sorted in two launches, equal numbers in their order.  In a tile every number's place is the number of those before it:
// of the numbers that stand before, equal ones count.
constexpr const char* kTiles = R"(
extern "C" __global__ void __launch_bounds__(THREADS) rows_tiles(const ID* __restrict__ ids, KEY* __restrict__ tile_keys, int* __restrict__ from, int count, int64 groups, int skips) {
  constexpr int NONE = 0x7fffffff;
  __shared__ int4 tile[TILE / 4];
  int* keys = reinterpret_cast<int*>(tile);
  const int base = blockIdx.x * TILE;
  for (int j = threadIdx.x; j < TILE; j += THREADS)
    keys[j] = base + j < count ? int(rows_key(ids[base + j], groups, skips)) : NONE;
  __syncthreads();
  for (int j = threadIdx.x; j < TILE && base + j < count; j += THREADS) {
    const int mine = keys[j];
    int place = 0;
#pragma unroll 8
    for (int i = 0; i < TILE; i += 4) {
      const int4 other = tile[i / 4];
      place += (other.x < mine + (i < j)) + (other.y < mine + (i + 1 < j)) + (other.z < mine + (i + 2 < j)) +
               (other.w < mine + (i + 3 < j));
    }
    tile_keys[base + place] = KEY(mine);
    from[base + place] = base + j;
  }
}
)";

// Its place among all is the sum of those in all tiles, which a search in each finds.
constexpr const char* kPlaces = R"(
TH_D int rows_below(const KEY* tile, int size, int bound) {
  int low = 0;
#pragma unroll
  for (int step = TILE / 2; step > 0; step /= 2)
    if (low + step <= size && int(tile[low + step - 1]) < bound) low += step;
  return low + (low < size && int(tile[low]) < bound);
}
extern "C" __global__ void __launch_bounds__(THREADS) rows_places(const KEY* __restrict__ tile_keys, const int* __restrict__ from, int64* __restrict__ order, KEY* __restrict__ keys, int count) {
  const int i = (blockIdx.x * THREADS + threadIdx.x) / PARTS, part = threadIdx.x % PARTS;
  const int mine = i < count ? int(tile_keys[i]) : 0, own = i / TILE;
  int place = 0;
#pragma unroll 4
  for (int t = part; t * TILE < count; t += PARTS) {
    const int size = count - t * TILE < TILE ? count - t * TILE : TILE;
    place += t == own ? i % TILE : rows_below(tile_keys + t * TILE, size, mine + (t < own));
  }
#pragma unroll
  for (int m = PARTS / 2; m > 0; m /= 2) place += __shfl_xor_sync(0xffffffffu, place, m);
  if (part == 0 && i < count) {
    order[place] = from[i];
    keys[place] = KEY(mine);
  }
}
)";

constexpr const char* kStarts = R"(
extern "C" __global__ void __launch_bounds__(THREADS) rows_starts(const KEY* __restrict__ keys, int64* __restrict__ starts, int count, int64 groups) {
  const int64 r = int64(blockIdx.x) * THREADS + threadIdx.x;
  if (r > groups) return;
  int low = 0, high = count;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (int64(keys[middle]) < r) low = middle + 1;
    else high = middle;
  }
  starts[r] = low;
}
)";

// What the variants of a sum share: the sizes, and a segment's places.
constexpr const char* kSizes = R"(
#define ROWS_SIZES int64 slices, int64 slice_stride, int64 outer, int64 outer_stride, int64 inner, int64 count, int64 segments, int64 length, int64 heavy, int skips
TH_D void rows_divide(int64 i, int64 by, int64& quotient, int64& rest) {
  if ((uint64(i) | uint64(by)) >> 32) quotient = i / by;
  else quotient = uint32(i) / uint32(by);
  rest = i - quotient * by;
}
TH_D int64 rows_within(int64 p, int64 count) { return p < 0 ? 0 : p > count ? count : p; }
TH_D void rows_segment(const int64* starts, int64 r, int64 length, int64 count, int64& from, int64& to) {
  from = rows_within(starts ? starts[r] : r * length, count);
  to = rows_within(starts ? starts[r + 1] : r * length + length, count);
}
// The segment that has place p, or -1.
TH_D int64 rows_segment_of(const int64* starts, int64 segments, int64 length, int64 p) {
  if (!starts) return p / length;
  int64 low = 0, high = segments + 1;
  while (low < high) {
    const int64 middle = low + (high - low) / 2;
    if (starts[middle] <= p) low = middle + 1;
    else high = middle;
  }
  return low > segments ? -1 : low - 1;
}
)";

constexpr const char* kSum = R"(
template <int AHEAD> TH_D void ROWS_NAME(rows_add)(SUM (&sum)[LANES], const T* a, const int64* places, const T* weights, int64 from, int64 to, int64 slices, int64 stride, int skips) {
  for (int64 p = from; p < to; p += AHEAD) {
    int64 place[AHEAD];
    Vec<T, LANES> x[AHEAD];
#pragma unroll
    for (int u = 0; u < AHEAD; ++u) place[u] = p + u < to ? places[p + u] : -1;
#pragma unroll
    for (int u = 0; u < AHEAD; ++u) {
      th_place<int64>(place[u], slices, p + u < to && !(skips && place[u] == -1));
      if (place[u] >= 0) x[u] = th_load_vector<T, LANES>(a + place[u] * stride);
    }
#pragma unroll
    for (int u = 0; u < AHEAD; ++u) {
      if (place[u] < 0) continue;
      const SUM w = weights ? SUM(th_get(weights[p + u])) : SUM(1);
#pragma unroll
      for (int j = 0; j < LANES; ++j) sum[j] = th_add(sum[j], weights ? th_mul(SUM(th_get(x[u].at[j])), w) : SUM(th_get(x[u].at[j])));
    }
  }
}
extern "C" __global__ void __launch_bounds__(THREADS) ROWS_NAME(rows_parts)(const T* __restrict__ a, const int64* __restrict__ places, const int64* __restrict__ starts, const T* __restrict__ weights, SUM* __restrict__ parts, ROWS_SIZES) {
  const int64 blocks = (count + heavy - 1) / heavy;
  int64 block, q;
  rows_divide(int64(blockIdx.x) * THREADS + threadIdx.x, inner / LANES, block, q);
  if (block >= blocks) return;
  const int64 begin = block * heavy, end = begin + heavy < count ? begin + heavy : count;
  const int64 first = rows_segment_of(starts, segments, length, begin), last = rows_segment_of(starts, segments, length, end - 1);
#pragma unroll
  for (int which = 0; which < 2; ++which) {
    const int64 r = which ? last : first;
    if (r < 0 || (which && last == first)) continue;
    int64 from, to;
    rows_segment(starts, r, length, count, from, to);
    if (to - from <= heavy) continue;
    for (int64 o = blockIdx.y; o < outer; o += gridDim.y) {
      SUM sum[LANES] = {};
      ROWS_NAME(rows_add)<8>(sum, a + o * outer_stride + q * LANES, places, weights, from > begin ? from : begin, to < end ? to : end, slices, slice_stride, skips);
      SUM* out = parts + ((o * blocks + block) * 2 + which) * inner + q * LANES;
#pragma unroll
      for (int j = 0; j < LANES; ++j) out[j] = sum[j];
    }
  }
}
// Most segments are short: more of them at once take less time than more slices of one.
extern "C" __global__ void __launch_bounds__(THREADS, 4) ROWS_NAME(rows_sum)(const T* __restrict__ a, const int64* __restrict__ places, const int64* __restrict__ starts, const T* __restrict__ weights, const SUM* __restrict__ parts, T* __restrict__ out, ROWS_SIZES) {
  constexpr int AHEAD = 4;
  const int64 blocks = (count + heavy - 1) / heavy;
  int64 r, q;
  rows_divide(int64(blockIdx.x) * THREADS + threadIdx.x, inner / LANES, r, q);
  if (r >= segments) return;
  int64 from, to;
  rows_segment(starts, r, length, count, from, to);
  for (int64 o = blockIdx.y; o < outer; o += gridDim.y) {
    SUM sum[LANES] = {};
    if (parts && to - from > heavy) {
#pragma unroll 4
      for (int64 c = from / heavy; c <= (to - 1) / heavy; ++c) {
        const SUM* part = parts + ((o * blocks + c) * 2 + (c * heavy < from)) * inner + q * LANES;
#pragma unroll
        for (int j = 0; j < LANES; ++j) sum[j] = th_add(sum[j], part[j]);
      }
    } else {
      ROWS_NAME(rows_add)<AHEAD>(sum, a + o * outer_stride + q * LANES, places, weights, from, to, slices, slice_stride, skips);
    }
    Vec<T, LANES> y;
#pragma unroll
    for (int j = 0; j < LANES; ++j) th_set(y.at[j], sum[j]);
    th_store_vector(out + (o * segments + r) * inner + q * LANES, y);
  }
}
)";

std::string define(const char* name, const auto& value) {
  return cat("#undef ", name, "\n#define ", name, " ", value, "\n");
}
std::string define_suffix(const char* suffix) { return cat("#undef ROWS_NAME\n#define ROWS_NAME(x) x", suffix, "\n"); }

std::string sum_name(DType t) {
  if (!is_floating(t)) return "int64";
  return t == DType::f64 ? "double" : "float";
}

}  // namespace

int64_t heavy_of(int64_t count) {
  const double root = std::sqrt(static_cast<double>(count));
  return std::clamp<int64_t>(static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(root) | 1)) / 2, 32, 512);
}

int64_t sum_bytes(DType t) { return sum_name(t) == "float" ? 4 : 8; }

std::string group_text(DType index, bool short_keys) {
  return define("ID", storage_name(index)) + define("KEY", short_keys ? "int16" : "int32") +
         define("THREADS", kThreads) + define("PARTS", kPlacedBy) + define("TILE", kTile) + kKeys + kTiles + kPlaces +
         kStarts;
}

std::string sum_text(DType t) {
  const std::string types = define("T", storage_name(t)) + define("SUM", sum_name(t)) + define("THREADS", kThreads);
  return types + kSizes + define("LANES", lanes_of(t)) + define_suffix("") + kSum + define("LANES", 1) +
         define_suffix("##_1") + kSum;
}

}  // namespace thunder::fuser::rows
