#include "fuser/decoding.h"

#include <algorithm>
#include <bit>

#include "core/error.h"
#include "fuser/kernel.h"

namespace thunder::fuser::decoding {
namespace {

constexpr int64_t kMostQueries = 8;  // that a block keeps in registers
constexpr int64_t kUnroll = 4;       // keys of a thread, whose loads are in flight at once
constexpr int64_t kFewest = 64;      // keys that are worth a block
// Keys up to which one kernel with clusters is faster than two kernels with more blocks.
constexpr int64_t kMostInClusters = 4096;
constexpr int64_t kSharedBytes = 32 << 10;

int64_t lanes(const Problem& p) { return 16 / itemsize(p.dtype); }
int64_t vectors(const Problem& p) { return p.size / lanes(p); }

// Threads that have a key, each LANES of its elements.
int64_t parts(const Problem& p) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(vectors(p)))); }

// The query heads of a block: the largest divisor that fits into registers.
int64_t queries(const Problem& p) {
  int64_t n = std::min(p.shared, kMostQueries);
  while (p.shared % n != 0) --n;
  return n;
}

// What a warp leaves in shared memory for the others.
int64_t bytes_of_warp(const Problem& p) { return queries(p) * parts(p) * lanes(p) * 4; }

constexpr const char* kNumbers = R"(
constexpr unsigned ALL = 0xffffffffu;
constexpr float LOG2E = 1.4426950408889634f;
TH_D float th_known(float x) { return x == -TH_INF ? 0.f : x; }
TH_D bool shown(uint8 m, float& bias) { bias = 0.f; return m != 0; }
template <class M> TH_D bool shown(M m, float& bias) { bias = th_get(m); return bias != -TH_INF; }
// What the warps of a block leave for each other.
template <int WARPS> struct Left {
  float best[WARPS][QUERIES], total[WARPS][QUERIES], sum[WARPS][QUERIES][PARTS * LANES];
};
)";

// The blocks of a cluster are the splits of one head of keys: each reads what the others have left in their shared
// memory, and writes its part of the result.
constexpr const char* kJoinCluster = R"(
TH_D void sync_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
TH_D float of_block(const float* mine, int rank) {
  float x = 0.f;
#if __CUDA_ARCH__ >= 900
  unsigned at = (unsigned)__cvta_generic_to_shared(mine);
  asm volatile("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(at) : "r"(rank));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x) : "r"(at) : "memory");
#endif
  return x;
}
template <int CLUSTER, int WARPS>
TH_D void join_cluster(const float (*here)[SIZE + 2], T* out, int64 out_head) {
  sync_cluster();
  for (int i = blockIdx.x % CLUSTER * (WARPS * 32) + threadIdx.x; i < QUERIES * SIZE; i += CLUSTER * WARPS * 32) {
    const int m = i / SIZE, d = i % SIZE;
    float best[CLUSTER], total[CLUSTER], sum[CLUSTER], top = -TH_INF, all = 0.f, s = 0.f;
#pragma unroll
    for (int r = 0; r < CLUSTER; ++r) {
      best[r] = of_block(&here[m][SIZE], r);
      total[r] = of_block(&here[m][SIZE + 1], r);
      sum[r] = of_block(&here[m][d], r);
    }
#pragma unroll
    for (int r = 0; r < CLUSTER; ++r) top = fmaxf(top, best[r]);
#pragma unroll
    for (int r = 0; r < CLUSTER; ++r) {
      const float less = exp2f((best[r] - th_known(top)) * LOG2E);
      all += total[r] * less;
      s += sum[r] * less;
    }
    th_set(out[m * out_head + d], all == 0.f ? 0.f : s / all);
  }
  sync_cluster();
}
)";

// PARTS neighbouring threads of a warp have one key, each LANES of its elements; a warp has as many keys at a time as
// fit.  Each such group of threads keeps the maximum, the sum and the result of the keys that it has seen, for all
// queries of the block; they are joined in the end.
constexpr const char* kWalkByRows = R"(
constexpr int KEYS = 32 / PARTS, STEP = KEYS * UNROLL;
template <int WARPS>
TH_D void walk(const T* q, const T* k, const T* v, const MASK* mask, int keys, int splits, int split, float scale, int64 q_head, int64 k_key, int64 v_key, int64 mask_key, Left<WARPS>& left) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, mine = lane / PARTS, at = lane % PARTS * LANES;
  const bool inside = at < SIZE;
  q += at;
  k += at;
  v += at;
  float x[QUERIES][LANES], sum[QUERIES][LANES], best[QUERIES], total[QUERIES];
#pragma unroll
  for (int m = 0; m < QUERIES; ++m) {
    const Vec<T, LANES> y = th_load_vector<T, LANES>(q + m * q_head, inside);
#pragma unroll
    for (int j = 0; j < LANES; ++j) { x[m][j] = inside ? scale * th_get(y.at[j]) : 0.f; sum[m][j] = 0.f; }
    best[m] = -TH_INF;
    total[m] = 0.f;
  }
  // Keys that are seen are often the first few: all blocks have a part of them.
  for (int base = (warp * splits + split) * STEP; base < keys; base += WARPS * splits * STEP) {
    bool seen[UNROLL];
    float bias[UNROLL];
    bool any = false;
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      const int n = base + u * KEYS + mine;
      seen[u] = n < keys && shown(mask[n * mask_key], bias[u]);
      any |= seen[u];
    }
    if (!__any_sync(ALL, any)) continue;
    Vec<T, LANES> key[UNROLL], value[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      const int64 n = base + u * KEYS + mine;
      key[u] = th_load_vector<T, LANES>(k + n * k_key, seen[u] && inside);
      value[u] = th_load_vector<T, LANES>(v + n * v_key, seen[u] && inside);
    }
#pragma unroll
    for (int m = 0; m < QUERIES; ++m) {
      float score[UNROLL], top = best[m];
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        float s = 0.f;
#pragma unroll
        for (int j = 0; j < LANES; ++j) s += x[m][j] * th_get(key[u].at[j]);
#pragma unroll
        for (int w = PARTS / 2; w > 0; w /= 2) s += __shfl_xor_sync(ALL, s, w);
        score[u] = seen[u] ? s + bias[u] : -TH_INF;
        top = fmaxf(top, score[u]);
      }
      const float less = exp2f((best[m] - th_known(top)) * LOG2E);
      best[m] = top;
      total[m] *= less;
#pragma unroll
      for (int j = 0; j < LANES; ++j) sum[m][j] *= less;
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        const float p = seen[u] ? exp2f((score[u] - th_known(top)) * LOG2E) : 0.f;
        total[m] += p;
#pragma unroll
        for (int j = 0; j < LANES; ++j) sum[m][j] += p * th_get(value[u].at[j]);
      }
    }
  }
#pragma unroll
  for (int m = 0; m < QUERIES; ++m) {
    float top = best[m];
#pragma unroll
    for (int w = PARTS; w < 32; w *= 2) top = fmaxf(top, __shfl_xor_sync(ALL, top, w));
    const float less = exp2f((best[m] - th_known(top)) * LOG2E);
    float all = total[m] * less;
#pragma unroll
    for (int w = PARTS; w < 32; w *= 2) all += __shfl_xor_sync(ALL, all, w);
    if (lane == 0) { left.best[warp][m] = top; left.total[warp][m] = all; }
#pragma unroll
    for (int j = 0; j < LANES; ++j) {
      float s = sum[m][j] * less;
#pragma unroll
      for (int w = PARTS; w < 32; w *= 2) s += __shfl_xor_sync(ALL, s, w);
      if (mine == 0) left.sum[warp][m][at + j] = s;
    }
  }
}
)";

// A warp has 16 keys at a time, or 32, as tiles of tensor cores: scores[key][query] = keys times queries, and
// result[element][query] = values transposed times weights.  The order of elements within a product is free, so that a
// thread reads 16 bytes of a key, and of a value, as its parts of several tiles.  Of a tile, thread 4 * g + c has rows g
// and g + 8 and columns 2 * c and 2 * c + 1.
constexpr const char* kWalkByTiles = R"(
constexpr int SLABS = (SIZE + 31) / 32, WIDE = (SIZE + 63) / 64, STEP = 16 * TILES;
struct Four { uint32 at[4]; };
TH_D Four load_four(const T* from, bool inside) {
  Four x = {{0, 0, 0, 0}};
  if (inside) {
    const uint4 y = *reinterpret_cast<const uint4*>(from);
    x.at[0] = y.x; x.at[1] = y.y; x.at[2] = y.z; x.at[3] = y.w;
  }
  return x;
}
TH_D void multiply(float* sum, uint32 a0, uint32 a1, uint32 a2, uint32 a3, uint32 b0, uint32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." PTX_TYPE "." PTX_TYPE ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// The weights of key g for two queries become those of two keys for query g.
TH_D uint32 transposed(float x, float y) {
  uint32 pair, out;
  asm("cvt.rn." PTX_TYPE "x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(y), "f"(x));
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out) : "r"(pair));
  return out;
}
TH_D float over_keys(float x, bool maximum) {
#pragma unroll
  for (int w = 4; w < 32; w *= 2) {
    const float y = __shfl_xor_sync(ALL, x, w);
    x = maximum ? fmaxf(x, y) : x + y;
  }
  return x;
}
template <int WARPS>
TH_D void walk(const T* q, const T* k, const T* v, const MASK* mask, int keys, int splits, int split, float scale, int64 q_head, int64 k_key, int64 v_key, int64 mask_key, Left<WARPS>& left) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, c = lane % 4;
  Four query[SLABS];
#pragma unroll
  for (int s = 0; s < SLABS; ++s)
    query[s] = load_four(q + g * q_head + s * 32 + c * 8, g < QUERIES && s * 32 + c * 8 < SIZE);
  float sum[WIDE][4][4] = {}, best[2] = {-TH_INF, -TH_INF}, total[2] = {0.f, 0.f};
  // Keys that are seen are often the first few: all blocks have a part of them.
  for (int base = (warp * splits + split) * STEP; base < keys; base += WARPS * splits * STEP) {
    uint32 seen[TILES][2], any = 0;
    float bias[TILES][2];
#pragma unroll
    for (int u = 0; u < TILES; ++u)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int n = base + u * 16 + h * 8 + g;
        seen[u][h] = __ballot_sync(ALL, n < keys && shown(mask[n * mask_key], bias[u][h]));
        any |= seen[u][h];
      }
    if (any == 0) continue;
    Four key[TILES][2][SLABS], value[TILES][4][WIDE];
#pragma unroll
    for (int u = 0; u < TILES; ++u) {
#pragma unroll
      for (int h = 0; h < 2; ++h)
#pragma unroll
        for (int s = 0; s < SLABS; ++s)
          key[u][h][s] = load_four(k + (base + u * 16 + h * 8 + g) * k_key + s * 32 + c * 8, (seen[u][h] >> lane & 1) && s * 32 + c * 8 < SIZE);
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int w = 0; w < WIDE; ++w) {
          const int n = 2 * c + i % 2;
          value[u][i][w] = load_four(v + (base + u * 16 + i / 2 * 8 + n) * v_key + w * 64 + g * 8, (seen[u][i / 2] >> 4 * n & 1) && w * 64 + g * 8 < SIZE);
        }
    }
    float score[TILES][4] = {}, top[2] = {best[0], best[1]}, less[2];
#pragma unroll
    for (int u = 0; u < TILES; ++u) {
#pragma unroll
      for (int s = 0; s < SLABS; ++s)
#pragma unroll
        for (int h = 0; h < 4; h += 2)
          multiply(score[u], key[u][0][s].at[h], key[u][1][s].at[h], key[u][0][s].at[h + 1], key[u][1][s].at[h + 1], query[s].at[h], query[s].at[h + 1]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        score[u][i] = seen[u][i / 2] >> lane & 1 ? scale * score[u][i] + bias[u][i / 2] : -TH_INF;
        top[i % 2] = fmaxf(top[i % 2], score[u][i]);
      }
    }
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      top[e] = over_keys(top[e], true);
      less[e] = exp2f((best[e] - th_known(top[e])) * LOG2E);
      best[e] = top[e];
      total[e] *= less[e];
    }
#pragma unroll
    for (int w = 0; w < WIDE; ++w)
#pragma unroll
      for (int t = 0; t < 4; ++t)
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[w][t][i] *= less[i % 2];
#pragma unroll
    for (int u = 0; u < TILES; ++u) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        score[u][i] = exp2f((score[u][i] - th_known(top[i % 2])) * LOG2E);
        total[i % 2] += score[u][i];
      }
      const uint32 low = transposed(score[u][0], score[u][1]), high = transposed(score[u][2], score[u][3]);
#pragma unroll
      for (int w = 0; w < WIDE; ++w)
#pragma unroll
        for (int t = 0; t < 4; ++t) {
          const uint32 x[4] = {value[u][0][w].at[t], value[u][1][w].at[t], value[u][2][w].at[t], value[u][3][w].at[t]};
          multiply(sum[w][t], __byte_perm(x[0], x[1], 0x5410), __byte_perm(x[0], x[1], 0x7632), __byte_perm(x[2], x[3], 0x5410), __byte_perm(x[2], x[3], 0x7632), low, high);
        }
    }
  }
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    const int m = 2 * c + e;
    const float all = over_keys(total[e], false);
    if (m >= QUERIES) continue;
    if (g == 0) { left.best[warp][m] = best[e]; left.total[warp][m] = all; }
#pragma unroll
    for (int w = 0; w < WIDE; ++w)
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        const int d = w * 64 + g * 8 + 2 * t;
        if (d < SIZE) { left.sum[warp][m][d] = sum[w][t][e]; left.sum[warp][m][d + 1] = sum[w][t][2 + e]; }
      }
  }
}
)";

// Of both kernels.
#define PARAMETERS                                                                                \
  "const T* __restrict__ q, const T* __restrict__ k, const T* __restrict__ v, "                   \
  "const MASK* __restrict__ mask, T* __restrict__ out, float* __restrict__ parts, int heads, "    \
  "int keys, int splits, float scale, int64 q_batch, int64 q_head, int64 k_batch, int64 k_head, " \
  "int64 k_key, int64 v_batch, int64 v_head, int64 v_key, int64 mask_batch, int64 mask_key, "     \
  "int64 out_batch, int64 out_head"
#define PARAMETER_NAMES                                                                       \
  "q, k, v, mask, out, parts, heads, keys, splits, scale, q_batch, q_head, k_batch, k_head, " \
  "k_key, v_batch, v_head, v_key, mask_batch, mask_key, out_batch, out_head"

constexpr const char* kPart = R"(
template <int CLUSTER, int WARPS>
TH_D void attend()" PARAMETERS R"() {
  __shared__ Left<WARPS> left;
  __shared__ float here[CLUSTER > 1 ? QUERIES : 1][SIZE + 2];
  const int split = blockIdx.x % splits, unit = blockIdx.x / splits;
  const int group = unit % (heads * GROUPS), batch = unit / (heads * GROUPS);
  q += batch * q_batch + int64(group) * QUERIES * q_head;
  k += batch * k_batch + int64(group / GROUPS) * k_head;
  v += batch * v_batch + int64(group / GROUPS) * v_head;
  walk<WARPS>(q, k, v, mask + batch * mask_batch, keys, splits, split, scale, q_head, k_key, v_key, mask_key, left);
  __syncthreads();
  for (int i = threadIdx.x; i < QUERIES * SIZE; i += WARPS * 32) {
    const int m = i / SIZE, d = i % SIZE;
    float top = -TH_INF, all = 0.f, s = 0.f;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) top = fmaxf(top, left.best[w][m]);
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
      const float less = exp2f((left.best[w][m] - th_known(top)) * LOG2E);
      all += left.total[w][m] * less;
      s += left.sum[w][m][d] * less;
    }
    if constexpr (CLUSTER > 1) {
      here[m][d] = s;
      if (d == 0) { here[m][SIZE] = top; here[m][SIZE + 1] = all; }
    } else if (splits == 1) {
      th_set(out[batch * out_batch + (int64(group) * QUERIES + m) * out_head + d], all == 0.f ? 0.f : s / all);
    } else {
      float* part = parts + ((int64(unit) * QUERIES + m) * splits + split) * (SIZE + 2);
      part[d] = s;
      if (d == 0) { part[SIZE] = top; part[SIZE + 1] = all; }
    }
  }
  if constexpr (CLUSTER > 1) join_cluster<CLUSTER, WARPS>(here, out + batch * out_batch + int64(group) * QUERIES * out_head, out_head);
}
extern "C" __global__ void __launch_bounds__(THREADS) decoding_part()" PARAMETERS R"() {
  attend<1, THREADS / 32>()" PARAMETER_NAMES R"();
}
#if __CUDA_ARCH__ >= 900
extern "C" __global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(THREADS_OF_8) decoding_cluster_8()" PARAMETERS
                              R"() {
  attend<8, THREADS_OF_8 / 32>()" PARAMETER_NAMES R"();
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(THREADS_OF_2) decoding_cluster_2()" PARAMETERS
                              R"() {
  attend<2, THREADS_OF_2 / 32>()" PARAMETER_NAMES R"();
}
#endif
)";

#undef PARAMETERS
#undef PARAMETER_NAMES

constexpr const char* kJoin = R"(
extern "C" __global__ void __launch_bounds__(JOIN_THREADS) decoding_join(const float* __restrict__ parts, T* __restrict__ out, int heads, int splits, int64 out_batch, int64 out_head) {
  const int d = threadIdx.x, per_batch = heads * GROUPS * QUERIES;
  if (d >= SIZE) return;
  const float* part = parts + int64(blockIdx.x) * splits * (SIZE + 2);
  float top = -TH_INF, all = 0.f, s = 0.f;
#pragma unroll 8
  for (int i = 0; i < splits; ++i) top = fmaxf(top, part[i * (SIZE + 2) + SIZE]);
#pragma unroll 8
  for (int i = 0; i < splits; ++i) {
    const float less = exp2f((part[i * (SIZE + 2) + SIZE] - th_known(top)) * LOG2E);
    all += part[i * (SIZE + 2) + SIZE + 1] * less;
    s += part[i * (SIZE + 2) + d] * less;
  }
  th_set(out[blockIdx.x / per_batch * out_batch + blockIdx.x % per_batch * out_head + d], all == 0.f ? 0.f : s / all);
}
)";

// Tensor cores multiply 16-bit numbers from compute capability 8.0.
std::string walk_of(const Problem& p) {
  if (itemsize(p.dtype) != 2) return kWalkByRows;
  return cat("#if __CUDA_ARCH__ >= 800", kWalkByTiles, "#else", kWalkByRows, "#endif\n");
}

}  // namespace

bool supported(const Problem& p) {
  const bool type = p.dtype == DType::bf16 || p.dtype == DType::f16 || p.dtype == DType::f32;
  const bool mask = p.mask == DType::boolean || p.mask == p.dtype || p.mask == DType::f32;
  return type && mask && p.size > 0 && p.shared > 0 && p.size % lanes(p) == 0 && vectors(p) <= 32;
}

Launch launch_of(const Problem& p, int64_t batch, int64_t heads, int64_t keys, int64_t multiprocessors, bool clusters) {
  Launch l;
  l.groups = p.shared / queries(p);
  const int64_t units = std::max<int64_t>(1, batch * heads * l.groups);
  const int64_t most = std::min((keys + kFewest - 1) / kFewest, kMostSplits);
  l.splits = std::clamp<int64_t>((4 * multiprocessors + units - 1) / units, 1, std::max<int64_t>(most, 1));
  for (int64_t n : {8, 2})
    if (clusters && !l.clustered && l.splits > 1 && n * units <= 2 * multiprocessors && keys <= kMostInClusters) {
      l.clustered = true;
      l.splits = n;
    }
  return l;
}

int64_t partial_numbers(const Problem& p, const Launch& l, int64_t batch, int64_t heads) {
  return l.splits == 1 || l.clustered ? 0 : batch * heads * p.shared * l.splits * (p.size + 2);
}

// Few heads need many blocks, which start and join sooner where they are small.
int cluster_threads(const Problem& p, int64_t splits) {
  return splits == 2 && bytes_of_warp(p) <= kSharedBytes / 8 ? 256 : kThreads;
}

int join_threads(const Problem& p) { return static_cast<int>((p.size + 31) / 32 * 32); }

std::string kernels_text(const Problem& p) {
  THUNDER_ASSERT(supported(p), "no text for heads of ", p.size);
  const auto define = [](const char* name, const auto& value) { return cat("#define ", name, " ", value, "\n"); };
  return define("T", storage_name(p.dtype)) +
         define("MASK", p.mask == DType::boolean ? "uint8" : storage_name(p.mask)) + define("SIZE", p.size) +
         define("LANES", lanes(p)) + define("PARTS", parts(p)) + define("QUERIES", queries(p)) +
         define("GROUPS", p.shared / queries(p)) + define("UNROLL", kUnroll) + define("THREADS", kThreads) +
         define("JOIN_THREADS", join_threads(p)) + define("THREADS_OF_8", cluster_threads(p, 8)) +
         define("THREADS_OF_2", cluster_threads(p, 2)) + define("TILES", p.size <= 64 ? 2 : 1) +
         define("PTX_TYPE", p.dtype == DType::bf16 ? "\"bf16\"" : "\"f16\"") + kNumbers + walk_of(p) + kJoinCluster +
         kPart + kJoin;
}

}  // namespace thunder::fuser::decoding
