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
// Keys of a block up to which one kernel is faster than two with more blocks.
constexpr int64_t kMostInCluster = 512;
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
constexpr int KEYS = 32 / PARTS, STEP = KEYS * UNROLL;
constexpr float LOG2E = 1.4426950408889634f;
TH_D float th_known(float x) { return x == -TH_INF ? 0.f : x; }
TH_D bool shown(uint8 m, float& bias) { bias = 0.f; return m != 0; }
template <class M> TH_D bool shown(M m, float& bias) { bias = th_get(m); return bias != -TH_INF; }
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
template <int WARPS>
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
    th_set(out[m * out_head + d], all > 0.f ? s / all : 0.f);
  }
  sync_cluster();
}
)";

// Of both kernels.
#define PARAMETERS \
  "const T* __restrict__ q, const T* __restrict__ k, const T* __restrict__ v, " \
  "const MASK* __restrict__ mask, T* __restrict__ out, float* __restrict__ parts, int heads, " \
  "int keys, int splits, float scale, int64 q_batch, int64 q_head, int64 k_batch, int64 k_head, " \
  "int64 k_key, int64 v_batch, int64 v_head, int64 v_key, int64 mask_batch, int64 mask_key, " \
  "int64 out_batch, int64 out_head"
#define PARAMETER_NAMES \
  "q, k, v, mask, out, parts, heads, keys, splits, scale, q_batch, q_head, k_batch, k_head, " \
  "k_key, v_batch, v_head, v_key, mask_batch, mask_key, out_batch, out_head"

// PARTS neighbouring threads of a warp have one key, each LANES of its elements; a warp has as many keys at a time as
// fit.  Each such group of threads keeps the maximum, the sum and the result of the keys that it has seen, for all
// queries of the block; they are joined in the end.
constexpr const char* kPart = R"(
template <int WARPS, bool CLUSTERED>
TH_D void attend()" PARAMETERS R"() {
  __shared__ float best_of[WARPS][QUERIES], total_of[WARPS][QUERIES], sum_of[WARPS][QUERIES][PARTS * LANES];
  __shared__ float here[CLUSTERED ? QUERIES : 1][SIZE + 2];
  const int split = blockIdx.x % splits, unit = blockIdx.x / splits;
  const int group = unit % (heads * GROUPS), batch = unit / (heads * GROUPS);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, mine = lane / PARTS, at = lane % PARTS * LANES;
  const bool inside = at < SIZE;
  q += batch * q_batch + int64(group) * QUERIES * q_head + at;
  k += batch * k_batch + int64(group / GROUPS) * k_head + at;
  v += batch * v_batch + int64(group / GROUPS) * v_head + at;
  mask += batch * mask_batch;
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
    if (lane == 0) { best_of[warp][m] = top; total_of[warp][m] = all; }
#pragma unroll
    for (int j = 0; j < LANES; ++j) {
      float s = sum[m][j] * less;
#pragma unroll
      for (int w = PARTS; w < 32; w *= 2) s += __shfl_xor_sync(ALL, s, w);
      if (mine == 0) sum_of[warp][m][at + j] = s;
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < QUERIES * SIZE; i += WARPS * 32) {
    const int m = i / SIZE, d = i % SIZE;
    float top = -TH_INF, all = 0.f, s = 0.f;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) top = fmaxf(top, best_of[w][m]);
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
      const float less = exp2f((best_of[w][m] - th_known(top)) * LOG2E);
      all += total_of[w][m] * less;
      s += sum_of[w][m][d] * less;
    }
    if constexpr (CLUSTERED) {
      here[m][d] = s;
      if (d == 0) { here[m][SIZE] = top; here[m][SIZE + 1] = all; }
    } else if (splits == 1) {
      th_set(out[batch * out_batch + (int64(group) * QUERIES + m) * out_head + d], all > 0.f ? s / all : 0.f);
    } else {
      float* part = parts + ((int64(unit) * QUERIES + m) * splits + split) * (SIZE + 2);
      part[d] = s;
      if (d == 0) { part[SIZE] = top; part[SIZE + 1] = all; }
    }
  }
  if constexpr (CLUSTERED) join_cluster<WARPS>(here, out + batch * out_batch + int64(group) * QUERIES * out_head, out_head);
}
extern "C" __global__ void __launch_bounds__(THREADS) decoding_part()" PARAMETERS R"() {
  attend<THREADS / 32, false>()" PARAMETER_NAMES R"();
}
#if __CUDA_ARCH__ >= 900
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(CLUSTER_THREADS) decoding_cluster()" PARAMETERS R"() {
  attend<CLUSTER_THREADS / 32, true>()" PARAMETER_NAMES R"();
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
  th_set(out[blockIdx.x / per_batch * out_batch + blockIdx.x % per_batch * out_head + d], all > 0.f ? s / all : 0.f);
}
)";

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
  const int64_t wanted = (2 * multiprocessors + units - 1) / units;
  l.splits = std::clamp<int64_t>(std::min(wanted, (keys + kFewest - 1) / kFewest), 1, kMostSplits);
  l.clustered = clusters && l.splits > 1 && keys >= kCluster * kFewest && keys <= kCluster * kMostInCluster;
  if (l.clustered) l.splits = kCluster;
  return l;
}

int64_t partial_numbers(const Problem& p, const Launch& l, int64_t batch, int64_t heads) {
  return l.splits == 1 || l.clustered ? 0 : batch * heads * p.shared * l.splits * (p.size + 2);
}

int cluster_threads(const Problem& p) { return bytes_of_warp(p) <= kSharedBytes / 8 ? 256 : 128; }

int join_threads(const Problem& p) { return static_cast<int>((p.size + 31) / 32 * 32); }

std::string kernels_text(const Problem& p) {
  THUNDER_ASSERT(supported(p), "no text for heads of ", p.size);
  const auto define = [](const char* name, const auto& value) { return cat("#define ", name, " ", value, "\n"); };
  return define("T", storage_name(p.dtype)) +
         define("MASK", p.mask == DType::boolean ? "uint8" : storage_name(p.mask)) + define("SIZE", p.size) +
         define("LANES", lanes(p)) + define("PARTS", parts(p)) + define("QUERIES", queries(p)) +
         define("GROUPS", p.shared / queries(p)) + define("UNROLL", kUnroll) + define("THREADS", kThreads) +
         define("JOIN_THREADS", join_threads(p)) + define("CLUSTER", kCluster) +
         define("CLUSTER_THREADS", cluster_threads(p)) + kNumbers + kJoinCluster + kPart + kJoin;
}

}  // namespace thunder::fuser::decoding
