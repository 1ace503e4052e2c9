#include "fuser/depthwise.h"

#include <algorithm>

#include "core/error.h"
#include "fuser/kernel.h"

namespace thunder::fuser::depthwise {
namespace {

constexpr int64_t kMostTaps = 49;  // of a filter: its numbers, and sums for as many, are in registers
constexpr int64_t kFewTaps = 25;   // up to here a thread has four channels
constexpr int64_t kMostLanes = 32;
constexpr int64_t kLeastRows = 4;  // of a strip, where there are threads enough
// Threads that a GPU hides waiting with.  Fewer have less work each, although all of them do more together.
constexpr int64_t kEnoughThreads = 25000, kSmallTile = 2;

int64_t taps(const Problem& p) { return p.height * p.width; }
int64_t over(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Whether tiles of `wide` columns leave no more of their last ones empty than tiles of four.
bool fits(const Problem& p, int64_t wide) {
  return p.columns > 0 && over(p.columns, wide) * wide <= over(p.columns, 4) * 4;
}

constexpr const char* kCommon = R"(
constexpr int TAPS = KH * KW, COLUMNS = (TW - 1) * SW + KW;
typedef Vec<T, ITEMS> Item;
TH_D void numbers(const Item& v, float (&x)[ITEMS]) {
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) x[i] = th_get(v.at[i]);
}
// A tile of S rows of an image from column `first` on, zeros outside.
template <int N, int S> struct Rows {
  Item at[S][N];
  __device__ __forceinline__ void read(const T* image, int channels, int row, int height, int first, int width) {
#pragma unroll
    for (int r = 0; r < S; ++r) {
      const bool inside = row + r >= 0 && row + r < height;
      const T* p = image + int64(row + r) * width * channels;
#pragma unroll
      for (int j = 0; j < N; ++j) at[r][j] = th_load_vector<T, ITEMS>(p + int64(j) * channels, inside && first + j >= 0 && first + j < width);
    }
  }
};
struct Strip { int image, from, to, column; };
TH_D Strip strip_of(int index, int tiles, int segments, int segment, int height) {
  const int row = index / tiles, image = row / segments, from = (row - image * segments) * segment;
  return {image, from, min(height, from + segment), (index - row * tiles) * TW};
}
)";

constexpr const char* kWindow = R"(
// The filters of a block's channels.  What a row needs of them is read again for each: registers are for sums.
struct Filters {
  const float (*at)[32][ITEMS];
  unsigned lane;
  __device__ __forceinline__ Filters(const T* w, int channels, int lanes) {
    __shared__ __align__(16) float shared[TAPS][32][ITEMS];
    const int first = blockIdx.y * lanes * ITEMS;
    for (int n = threadIdx.x; n < TAPS * lanes * ITEMS; n += blockDim.x) {
      const int c = n / TAPS, k = n % TAPS;
      shared[k][c / ITEMS][c % ITEMS] = first + c < channels ? th_get(w[int64(first + c) * TAPS + k]) : 0.f;
    }
    __syncthreads();
    at = shared;
    lane = threadIdx.x % lanes;
  }
  __device__ __forceinline__ void forget() { asm volatile("" : "+r"(lane)); }
  __device__ __forceinline__ void row(int kh, float (&out)[KW][ITEMS]) const {
#pragma unroll
    for (int kw = 0; kw < KW; ++kw)
#pragma unroll
      for (int i = 0; i < ITEMS; ++i) out[kw][i] = at[kh * KW + kw][lane][i];
  }
};
TH_D void fill(float (&sum)[TW][ITEMS], const float (&x)[ITEMS]) {
#pragma unroll
  for (int o = 0; o < TW; ++o)
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) sum[o][i] = x[i];
}
TH_D void write_row(T* p, const float (&sum)[TW][ITEMS], int left, int channels) {
#pragma unroll
  for (int o = 0; o < TW; ++o) {
    if (o >= left) break;
    Item v;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) th_set(v.at[i], sum[o][i]);
    th_store_vector(p + int64(o) * channels, v);
  }
}
)";

// In step t, SH rows of the image from t * SH - PH on are added to results t, t - 1, ..., of which the last is then
// complete.
constexpr const char* kForward = R"(
constexpr int RING = (KH + SH - 1) / SH;
extern "C" __global__ void __launch_bounds__(THREADS) depthwise_forward(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, T* __restrict__ y, int channels, int lanes, int height, int width, int out_height, int out_width, int segment, int segments, int strips) {
  const int c = (blockIdx.y * lanes + threadIdx.x % lanes) * ITEMS, slots = blockDim.x / lanes;
  Filters filters(w, channels, lanes);
  if (c >= channels) return;
  float start[ITEMS], zero[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) { start[i] = bias ? th_get(bias[c + i]) : 0.f; zero[i] = 0.f; }
  const int tiles = (out_width + TW - 1) / TW;
  for (int index = blockIdx.x * slots + threadIdx.x / lanes; index < strips; index += gridDim.x * slots) {
    const Strip s = strip_of(index, tiles, segments, segment, out_height);
    const int first = s.column * SW - PW;
    const T* image = x + (int64(s.image) * height * width + first) * channels + c;
    T* out = y + (int64(s.image) * out_height * out_width + s.column) * channels + c;
    float sum[RING][TW][ITEMS];
#pragma unroll
    for (int q = 0; q < RING; ++q) fill(sum[q], zero);
    Rows<COLUMNS, SH> now, next;
    if (AHEAD) next.read(image, channels, s.from * SH - PH, height, first, width);
#pragma unroll 1
    for (int t = s.from; t < s.to + RING - 1; ++t) {
      if (AHEAD) now = next;
      (AHEAD ? next : now).read(image, channels, (t + AHEAD) * SH - PH, height, first, width);
      fill(sum[0], start);
#pragma unroll
      for (int r = 0; r < SH; ++r) {
        const int row = t * SH - PH + r;
        if (row < 0 || row >= height) continue;
        filters.forget();
#pragma unroll
        for (int q = 0; q < RING; ++q) {
          if (q * SH + r >= KH) continue;
          if (SHORT && (t - q < s.from || t - q >= s.to)) continue;
          float f[KW][ITEMS];
          filters.row(q * SH + r, f);
#pragma unroll
          for (int j = 0; j < COLUMNS; ++j) {
            float a[ITEMS];
            numbers(now.at[r][j], a);
#pragma unroll
            for (int kw = 0; kw < KW; ++kw) {
              const int o = j - kw;
              if (o < 0 || o % SW != 0 || o / SW >= TW) continue;
#pragma unroll
              for (int i = 0; i < ITEMS; ++i) sum[q][o / SW][i] += a[i] * f[kw][i];
            }
          }
        }
      }
      const int row = t - (RING - 1);
      if (row >= s.from) write_row(out + int64(row) * out_width * channels, sum[RING - 1], out_width - s.column, channels);
#pragma unroll
      for (int q = RING - 1; q > 0; --q)
#pragma unroll
        for (int o = 0; o < TW; ++o)
#pragma unroll
          for (int i = 0; i < ITEMS; ++i) sum[q][o][i] = sum[q - 1][o][i];
    }
  }
}
)";

// In step t, row t of the result's gradient is added to KH rows from t * SH - PH on, of which the first SH are then
// complete.
constexpr const char* kInput = R"(
TH_D constexpr int below(int a, int b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
constexpr int FIRST = below(PW - (KW - 1), SW), READ = below(TW - 1 + PW, SW) - FIRST + 1;
extern "C" __global__ void __launch_bounds__(THREADS) depthwise_input(const T* __restrict__ dy, const T* __restrict__ w, T* __restrict__ dx, int channels, int lanes, int height, int width, int out_height, int out_width, int segment, int segments, int strips) {
  const int c = (blockIdx.y * lanes + threadIdx.x % lanes) * ITEMS, slots = blockDim.x / lanes;
  Filters filters(w, channels, lanes);
  if (c >= channels) return;
  float zero[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) zero[i] = 0.f;
  const int tiles = (width + TW - 1) / TW;
  for (int index = blockIdx.x * slots + threadIdx.x / lanes; index < strips; index += gridDim.x * slots) {
    const Strip s = strip_of(index, tiles, segments, segment, height);
    const int first = s.column / SW + FIRST;
    const T* image = dy + (int64(s.image) * out_height * out_width + first) * channels + c;
    T* out = dx + (int64(s.image) * height * width + s.column) * channels + c;
    float sum[KH][TW][ITEMS];
#pragma unroll
    for (int k = 0; k < KH; ++k) fill(sum[k], zero);
    const int begin = below(s.from + PH - (KH - 1), SH), end = below(s.to - 1 + PH, SH);
    Rows<READ, 1> now, next;
    if (AHEAD) next.read(image, channels, begin, out_height, first, out_width);
#pragma unroll 1
    for (int t = begin; t <= end; ++t) {
      if (AHEAD) now = next;
      (AHEAD ? next : now).read(image, channels, t + AHEAD, out_height, first, out_width);
      if (t >= 0 && t < out_height) {
        filters.forget();
#pragma unroll
        for (int kh = 0; kh < KH; ++kh) {
          float f[KW][ITEMS];
          filters.row(kh, f);
#pragma unroll
          for (int j = 0; j < READ; ++j) {
            float a[ITEMS];
            numbers(now.at[0][j], a);
#pragma unroll
            for (int kw = 0; kw < KW; ++kw) {
              const int o = (FIRST + j) * SW - PW + kw;
              if (o < 0 || o >= TW) continue;
#pragma unroll
              for (int i = 0; i < ITEMS; ++i) sum[kh][o][i] += a[i] * f[kw][i];
            }
          }
        }
      }
#pragma unroll
      for (int k = 0; k < SH; ++k) {
        const int row = t * SH - PH + k;
        if (row >= s.from && row < s.to) write_row(out + int64(row) * width * channels, sum[k], width - s.column, channels);
      }
#pragma unroll
      for (int k = 0; k < KH; ++k)
#pragma unroll
        for (int o = 0; o < TW; ++o)
#pragma unroll
          for (int i = 0; i < ITEMS; ++i) sum[k][o][i] = k + SH < KH ? sum[(k + SH) % KH][o][i] : 0.f;
    }
  }
}
)";

// In step t, SH rows of the image from t * SH - PH on meet rows t, t - 1, ... of the result's gradient.  Each block
// leaves a sum for each number of a filter; depthwise_join adds them up.
constexpr const char* kWeight = R"(
constexpr int RING = (KH + SH - 1) / SH, RESULTS = TAPS + BIAS;
extern "C" __global__ void __launch_bounds__(THREADS) depthwise_weight(const T* __restrict__ dy, const T* __restrict__ x, float* __restrict__ parts, int channels, int lanes, int height, int width, int out_height, int out_width, int segment, int segments, int strips) {
  __shared__ float shared[RESULTS * ITEMS][32];
  const int lane = threadIdx.x % lanes, slot = threadIdx.x / lanes, slots = blockDim.x / lanes, c = (blockIdx.y * lanes + lane) * ITEMS;
  float sum[RESULTS][ITEMS];
#pragma unroll
  for (int k = 0; k < RESULTS; ++k)
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) sum[k][i] = 0.f;
  const int tiles = (out_width + TW - 1) / TW;
  for (int index = blockIdx.x * slots + slot; index < strips && c < channels; index += gridDim.x * slots) {
    const Strip s = strip_of(index, tiles, segments, segment, out_height);
    const int first = s.column * SW - PW;
    const T* image = x + (int64(s.image) * height * width + first) * channels + c;
    const T* gradient = dy + (int64(s.image) * out_height * out_width + s.column) * channels + c;
    Item y[RING][TW];
#pragma unroll
    for (int q = 0; q < RING; ++q)
#pragma unroll
      for (int o = 0; o < TW; ++o) y[q][o] = Item();
    Rows<COLUMNS, SH> now, next;
    Rows<TW, 1> of_now, of_next;
    if (AHEAD) {
      next.read(image, channels, s.from * SH - PH, height, first, width);
      of_next.read(gradient, channels, s.from, s.to, s.column, out_width);
    }
#pragma unroll 1
    for (int t = s.from; t < s.to + RING - 1; ++t) {
      if (AHEAD) { now = next; of_now = of_next; }
      (AHEAD ? next : now).read(image, channels, (t + AHEAD) * SH - PH, height, first, width);
      (AHEAD ? of_next : of_now).read(gradient, channels, t + AHEAD, s.to, s.column, out_width);
#pragma unroll
      for (int o = 0; o < TW; ++o) {
        y[0][o] = of_now.at[0][o];
        if (BIAS)
#pragma unroll
          for (int i = 0; i < ITEMS; ++i) sum[RESULTS - 1][i] += th_get(y[0][o].at[i]);
      }
#pragma unroll
      for (int r = 0; r < SH; ++r) {
        const int row = t * SH - PH + r;
        if (row < 0 || row >= height) continue;
#pragma unroll
        for (int q = 0; q < RING; ++q) {
          if (q * SH + r >= KH) continue;
#pragma unroll
          for (int o = 0; o < TW; ++o) {
            float b[ITEMS];
            numbers(y[q][o], b);
#pragma unroll
            for (int kw = 0; kw < KW; ++kw)
#pragma unroll
              for (int i = 0; i < ITEMS; ++i) sum[(q * SH + r) * KW + kw][i] += th_get(now.at[r][o * SW + kw].at[i]) * b[i];
          }
        }
      }
#pragma unroll
      for (int q = RING - 1; q > 0; --q)
#pragma unroll
        for (int o = 0; o < TW; ++o) y[q][o] = y[q - 1][o];
    }
  }
#pragma unroll 1
  for (int s = slots - 1; s >= 0; --s) {
    if (slot == s)
#pragma unroll
      for (int k = 0; k < RESULTS * ITEMS; ++k) shared[k][lane] = sum[k / ITEMS][k % ITEMS] + (s == slots - 1 ? 0.f : shared[k][lane]);
    __syncthreads();
  }
  for (int at = threadIdx.x; at < RESULTS * lanes * ITEMS; at += blockDim.x) {
    const int k = at / (lanes * ITEMS), n = at % (lanes * ITEMS), to = blockIdx.y * lanes * ITEMS + n;
    if (to < channels) parts[(int64(blockIdx.x) * RESULTS + k) * channels + to] = shared[k * ITEMS + n % ITEMS][n / ITEMS];
  }
}
extern "C" __global__ void __launch_bounds__(JOIN_THREADS) depthwise_join(const float* __restrict__ parts, T* __restrict__ dw, T* __restrict__ db, int channels, int count) {
  constexpr int ROWS = JOIN_THREADS / 32;
  __shared__ float shared[ROWS][32];
  const int c = blockIdx.x * 32 + threadIdx.x % 32, k = blockIdx.y, part = threadIdx.x / 32;
  float s = 0.f;
  if (c < channels)
    for (int i = part; i < count; i += ROWS) s += parts[(int64(i) * RESULTS + k) * channels + c];
  shared[part][threadIdx.x % 32] = s;
  __syncthreads();
  if (part != 0 || c >= channels) return;
#pragma unroll
  for (int i = 1; i < ROWS; ++i) s += shared[i][threadIdx.x];
  if (k == TAPS) th_set(db[c], s);
  else if (dw) th_set(dw[int64(c) * TAPS + k], s);
}
)";

// Whether strips of the least rows and of the plan's tile leave threads too few.
bool leaves_few_threads(const Plan& plan) {
  const Problem& p = plan.problem;
  if (p.positions == 0 || p.columns == 0) return false;
  const int64_t rows = over(p.positions / p.columns, kLeastRows);
  return rows * over(p.columns, plan.tile) * (p.channels / plan.items) < kEnoughThreads;
}

// Steps in which a thread walks down a segment, times how often all multiprocessors are full of threads.
int64_t steps_of(const Plan& plan, int64_t threads_of_row, int64_t rows, int64_t segment, int64_t threads_at_once) {
  const int64_t stride = plan.kind == Kind::Input ? 1 : plan.problem.stride_y;
  const int64_t steps = segment + over(plan.problem.height, stride) - 1;
  return steps * over(threads_of_row * over(rows, segment), threads_at_once);
}

}  // namespace

bool supported(const Problem& p) {
  const bool type = p.dtype == DType::bf16 || p.dtype == DType::f16 || p.dtype == DType::f32;
  const auto fits_stride = [](int64_t stride, int64_t size) { return stride >= 1 && stride <= 2 && stride <= size; };
  return type && p.channels > 0 && p.height > 0 && p.width > 0 && taps(p) <= kMostTaps && p.width <= 7 &&
         fits_stride(p.stride_y, p.height) && fits_stride(p.stride_x, p.width) && p.padding_y >= 0 &&
         p.padding_y < p.height && p.padding_x >= 0 && p.padding_x < p.width;
}

// What was measured: more columns a thread read less twice, more sums leave fewer threads to hide each other's waiting.
Plan plan_of(const Problem& p, Kind kind, bool bias) {
  THUNDER_ASSERT(supported(p), "no plan for filters of ", p.height, " x ", p.width);
  Plan plan{p, kind, bias};
  for (plan.items = taps(p) > kFewTaps ? 2 : 4; p.channels % plan.items != 0;) plan.items /= 2;
  const bool every = p.stride_y == 1 && p.stride_x == 1, few = taps(p) <= 9, many = taps(p) > kFewTaps;
  if (kind == Kind::Weight) {
    plan.tile = every && (few || many) && fits(p, 7) ? 7 : 4;
    plan.ahead = every && (few || many);
  } else {
    plan.tile = every && !few && fits(p, 7) ? 7 : 4;
    if (leaves_few_threads(plan)) plan.tile = kSmallTile;
    plan.ahead = many || plan.tile == 7;
  }
  const int64_t groups = p.channels / plan.items;
  plan.blocks_y = over(groups, kMostLanes);
  plan.lanes = over(groups, plan.blocks_y);
  return plan;
}

Launch launch_of(const Plan& plan, int64_t batch, int64_t rows, int64_t columns, int64_t multiprocessors) {
  Launch l;
  const int64_t slots = kThreads / plan.lanes, images = batch * over(columns, plan.tile);
  const int64_t threads = std::max<int64_t>(images * plan.lanes * plan.blocks_y, 1);
  const int64_t wanted = multiprocessors * 3 * kThreads;
  const int64_t segments =
      std::clamp<int64_t>((wanted + threads / 2) / threads, 1, std::max<int64_t>(rows / kLeastRows, 1));
  l.segment = std::max<int64_t>(over(rows, segments), 1);
  if (plan.kind != Kind::Weight && threads * over(rows, l.segment) < wanted)
    for (int64_t n = std::min(l.segment - 1, 2 * kLeastRows); n > 0; --n)
      if (steps_of(plan, threads, rows, n, wanted) < steps_of(plan, threads, rows, l.segment, wanted)) l.segment = n;
  l.segments = over(rows, l.segment);
  l.strips = images * l.segments;
  l.blocks_x = std::max<int64_t>(over(l.strips, slots), 1);
  if (plan.kind == Kind::Weight)
    l.blocks_x = std::min(l.blocks_x, std::max<int64_t>(multiprocessors * 4 / plan.blocks_y, 1));
  return l;
}

int64_t results_of(const Plan& plan) { return taps(plan.problem) + (plan.bias ? 1 : 0); }

int64_t partial_numbers(const Plan& plan, const Launch& l) {
  return l.blocks_x * results_of(plan) * plan.problem.channels;
}

std::string text_of(const Plan& plan) {
  const auto define = [](const char* name, const auto& value) { return cat("#define ", name, " ", value, "\n"); };
  const Problem& p = plan.problem;
  std::string text = define("T", storage_name(p.dtype)) + define("ITEMS", plan.items) + define("TW", plan.tile) +
                     define("KH", p.height) + define("KW", p.width) + define("SH", p.stride_y) +
                     define("SW", p.stride_x) + define("PH", p.padding_y) + define("PW", p.padding_x) +
                     define("AHEAD", plan.ahead ? 1 : 0) + define("SHORT", plan.tile == kSmallTile ? 1 : 0) +
                     define("THREADS", kThreads) + kCommon;
  if (plan.kind == Kind::Weight)
    return text + define("BIAS", plan.bias ? 1 : 0) + define("JOIN_THREADS", kJoinThreads) + kWeight;
  return text + kWindow + (plan.kind == Kind::Forward ? kForward : kInput);
}

}  // namespace thunder::fuser::depthwise
