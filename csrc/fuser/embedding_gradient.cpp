#include "fuser/embedding_gradient.h"

#include <algorithm>
#include <bit>

#include "core/error.h"
#include "fuser/kernel.h"

namespace thunder::fuser::embedding {
namespace {

constexpr int64_t kChunk = 16;         // tokens, all of whose loads are in flight at once
constexpr int64_t kCountedBySame = 8;  // threads that find one token's place

// Every token's place among the sorted is the number of those before it.  Equal ones keep their order: of the tokens
// before, equal ones count, of those after they do not, so that but for the tile of the token itself one comparison
// with a bound is enough.
constexpr const char* kPlace = R"(
TH_D int key(ID id) { return id < 0 || id >= ROWS || id == PADDING ? -1 : int(id); }
extern "C" __global__ void __launch_bounds__(256) embedding_place(const ID* __restrict__ ids, int* __restrict__ order, int* __restrict__ end, int tokens) {
  constexpr int TILE = 2048, NONE = 0x7fffffff;
  __shared__ int4 tile[TILE / 4];
  for (int v = blockIdx.x * 256 + threadIdx.x; v < ROWS; v += gridDim.x * 256) end[v] = 0;
  const int i = (blockIdx.x * 256 + threadIdx.x) / PARTS, part = threadIdx.x % PARTS;
  const int mine = i < tokens ? key(ids[i]) : NONE;
  int place = 0;
  for (int base = 0; base < tokens; base += TILE) {
    __syncthreads();
    for (int j = threadIdx.x; j < TILE; j += 256)
      reinterpret_cast<int*>(tile)[j] = base + j < tokens ? key(ids[base + j]) : NONE;
    __syncthreads();
    if (base <= i && i < base + TILE) {
      for (int j = part; j < TILE; j += PARTS) {
        const int other = reinterpret_cast<const int*>(tile)[j];
        place += other < mine || (other == mine && base + j < i);
      }
    } else {
      const int bound = mine + (base < i && i < tokens ? 1 : 0);
#pragma unroll 8
      for (int j = part; j < TILE / 4; j += PARTS) {
        const int4 other = tile[j];
        place += (other.x < bound) + (other.y < bound) + (other.z < bound) + (other.w < bound);
      }
    }
  }
#pragma unroll
  for (int m = PARTS / 2; m > 0; m /= 2) place += __shfl_xor_sync(0xffffffffu, place, m);
  if (part == 0 && i < tokens) order[place] = i;
}
)";

constexpr const char* kSum = R"(
extern "C" __global__ void __launch_bounds__(THREADS) embedding_sum(const T* __restrict__ grad, const ID* __restrict__ ids, const int* __restrict__ order, int* __restrict__ first, int* __restrict__ end, T* __restrict__ out, float* __restrict__ sums, int tokens) {
  __shared__ int token[CHUNK], id[CHUNK + 2];  // and those of the neighbours
  const int base = blockIdx.x * CHUNK;
  for (int n = threadIdx.x; n < CHUNK + 2; n += THREADS) {
    const int p = base + n - 1;
    const int t = p >= 0 && p < tokens ? order[p] : -1;
    id[n] = t >= 0 ? key(ids[t]) : -2;
    if (n > 0 && n <= CHUNK) token[n - 1] = t;
  }
  __syncthreads();
  const int64 q = (int64(blockIdx.y) * THREADS + threadIdx.x) * LANES;
  if (q >= COLS) return;
  Vec<T, LANES> x[CHUNK];
#pragma unroll
  for (int n = 0; n < CHUNK; ++n)
    if (id[n + 1] >= 0) x[n] = th_load_vector<T, LANES>(grad + int64(token[n]) * COLS + q);
  bool inside = id[0] != id[1];  // the row at hand begins in this chunk
  float sum[LANES] = {};
#pragma unroll
  for (int n = 0; n < CHUNK; ++n) {
    const int v = id[n + 1];
    const bool ends = id[n + 2] != v;
    if (v >= 0) {
#pragma unroll
      for (int j = 0; j < LANES; ++j) sum[j] += th_get(x[n].at[j]);
      if (q == 0 && id[n] != v) first[v] = base + n;
      if (q == 0 && ends) end[v] = base + n + 1;
      if (ends && inside) {
        Vec<T, LANES> y;
#pragma unroll
        for (int j = 0; j < LANES; ++j) th_set(y.at[j], sum[j]);
        th_store_vector(out + int64(v) * COLS + q, y);
      } else if (ends || n == CHUNK - 1) {
#pragma unroll
        for (int j = 0; j < LANES; ++j) sums[(2 * int64(blockIdx.x) + inside) * COLS + q + j] = sum[j];
      }
    }
    if (ends) {
      inside = true;
#pragma unroll
      for (int j = 0; j < LANES; ++j) sum[j] = 0;
    }
  }
}
)";

constexpr const char* kRest = R"(
extern "C" __global__ void __launch_bounds__(THREADS) embedding_rest(const int* __restrict__ first, const int* __restrict__ end, const float* __restrict__ sums, T* __restrict__ out) {
  const int v = blockIdx.x, behind = end[v];
  const int64 q = (int64(blockIdx.y) * THREADS + threadIdx.x) * LANES;
  if (q >= COLS) return;
  float sum[LANES] = {};
  if (behind) {
    const int from = first[v] / CHUNK, to = (behind - 1) / CHUNK;
    if (from == to) return;
#pragma unroll 4
    for (int c = from; c <= to; ++c)
#pragma unroll
      for (int j = 0; j < LANES; ++j) sum[j] += sums[(2 * int64(c) + (c == from)) * COLS + q + j];
  }
  Vec<T, LANES> y;
#pragma unroll
  for (int j = 0; j < LANES; ++j) th_set(y.at[j], sum[j]);
  th_store_vector(out + int64(v) * COLS + q, y);
}
)";

}  // namespace

Launch launch_of(const Problem& p, int64_t tokens) {
  Launch l;
  const int64_t widest = 16 / itemsize(p.dtype);
  l.lanes = static_cast<int>(p.cols % widest == 0 ? widest : 1);
  const int64_t vectors = p.cols / l.lanes;
  l.threads = static_cast<int>(
      std::clamp<uint64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(vectors, 1))), 32, 256));
  const auto blocks = [](int64_t n, int64_t each) { return static_cast<unsigned>((n + each - 1) / each); };
  l.tiles = blocks(vectors, l.threads);
  l.chunks = blocks(tokens, kChunk);
  l.place_blocks = blocks(tokens * kCountedBySame, kPlaceThreads);
  return l;
}

std::string kernels_text(const Problem& p) {
  const Launch l = launch_of(p, 1);
  const auto define = [](const char* name, const auto& value) { return cat("#define ", name, " ", value, "\n"); };
  return define("T", storage_name(p.dtype)) + define("ID", fuser::storage_name(p.index)) + define("ROWS", p.rows) +
         define("COLS", p.cols) + define("PADDING", p.padding) + define("LANES", l.lanes) +
         define("THREADS", l.threads) + define("CHUNK", kChunk) + define("PARTS", kCountedBySame) + kPlace + kSum +
         kRest;
}

}  // namespace thunder::fuser::embedding
