#include "fuser/scan_kernels.h"

#include <algorithm>
#include <bit>

#include "core/error.h"
#include "fuser/kernel.h"

namespace thunder::fuser::scans {
namespace {

// ---- states: none() joined with any other gives that one ------------------------------------------------------------

// join(first, then): what the elements of `first` give, followed by those of `then`.  result(x, before, through): of
// an element's numbers, of those before it, and of those up to it.
constexpr const char* kSum = R"(
struct scan_state { ACC v; };
template <class F> TH_D scan_state scan_each(scan_state s, F f) { return {f(s.v)}; }
TH_D scan_state scan_none() { return {ACC(0)}; }
TH_D scan_state scan_of(const ACC (&x)[INPUTS]) { return {x[0]}; }
TH_D scan_state scan_join(scan_state first, scan_state then) { return {th_add(first.v, then.v)}; }
TH_D ACC scan_result(const ACC (&)[INPUTS], scan_state, scan_state through) { return through.v; }
)";

constexpr const char* kProduct = R"(
struct scan_state { ACC v; };
template <class F> TH_D scan_state scan_each(scan_state s, F f) { return {f(s.v)}; }
TH_D scan_state scan_none() { return {ACC(1)}; }
TH_D scan_state scan_of(const ACC (&x)[INPUTS]) { return {x[0]}; }
TH_D scan_state scan_join(scan_state first, scan_state then) { return {th_mul(first.v, then.v)}; }
TH_D ACC scan_result(const ACC (&)[INPUTS], scan_state, scan_state through) { return through.v; }
)";

// With p the product of all before an element and q = x (g + q of the next one), the gradient is p (g + q of the next
// one): no division, so that zeros need no way of their own.  A state is the map b + a q.  What is multiplied by
// zero counts as zero, as where eager leaves out what is behind a zero: products of later elements may overflow.
constexpr const char* kProductGradient = R"(
struct scan_state { ACC a, b; };
template <class F> TH_D scan_state scan_each(scan_state s, F f) { return {f(s.a), f(s.b)}; }
TH_D scan_state scan_none() { return {ACC(1), ACC(0)}; }
TH_D scan_state scan_of(const ACC (&x)[INPUTS]) { return {x[1], x[1] * x[0]}; }
TH_D scan_state scan_join(scan_state first, scan_state then) { return {then.a * first.a, first.b == ACC(0) ? then.b : then.b + then.a * first.b}; }
TH_D ACC scan_result(const ACC (&x)[INPUTS], scan_state before, scan_state) { return x[2] == ACC(0) ? ACC(0) : x[2] * (x[0] + before.b); }
)";

// s exp(m), where m is the largest exponent so far.
constexpr const char* kScaled = R"(
struct scan_state { ACC m, s; };
template <class F> TH_D scan_state scan_each(scan_state s, F f) { return {f(s.m), f(s.s)}; }
TH_D scan_state scan_none() { return {ACC(-TH_INF), ACC(0)}; }
TH_D scan_state scan_join(scan_state first, scan_state then) {
  const ACC d = first.m - then.m, e = th_exp_below(-th_abs(d));
  if (first.m == then.m) return {first.m, first.s + then.s};
  return {d > ACC(0) ? first.m : then.m, d > ACC(0) ? first.s + then.s * e : first.s * e + then.s};
}
)";

constexpr const char* kLogSumExp = R"(
TH_D scan_state scan_of(const ACC (&x)[INPUTS]) { return {x[0], ACC(1)}; }
TH_D ACC scan_result(const ACC (&)[INPUTS], scan_state, scan_state through) { return through.m + th_log(through.s); }
)";

// The sum over j >= i of g[j] exp(x[i] - out[j]).  A gradient that is no number counts as zero, as in eager.
constexpr const char* kLogSumExpGradient = R"(
TH_D scan_state scan_of(const ACC (&x)[INPUTS]) { return {-x[2], x[0] == x[0] ? x[0] : ACC(0)}; }
TH_D ACC scan_result(const ACC (&x)[INPUTS], scan_state, scan_state through) { return through.s * th_exp(through.m + x[1]); }
)";

// ---- what all kernels have ------------------------------------------------------------------------------------------

// Shuffles of states among neighbouring threads, `width` of which belong together.
constexpr const char* kShuffles = R"(
TH_D int64 scan_smaller(int64 a, int64 b) { return a < b ? a : b; }
TH_D scan_state scan_from_before(scan_state s, int d, int width) {
  return scan_each(s, [&](ACC x) { return __shfl_up_sync(0xffffffffu, x, d, width); });
}
TH_D scan_state scan_from(scan_state s, int lane, int width) {
  return scan_each(s, [&](ACC x) { return __shfl_sync(0xffffffffu, x, lane, width); });
}
// The states of all threads up to this one.
template <int WIDTH> TH_D scan_state scan_warp(scan_state s, int lane) {
#pragma unroll
  for (int d = 1; d < WIDTH; d *= 2) {
    const scan_state before = scan_from_before(s, d, WIDTH);
    if (lane >= d) s = scan_join(before, s);
  }
  return s;
}
TH_D scan_state scan_team(scan_state s, int lane, int width) {
  for (int d = 1; d < width; d *= 2) {
    const scan_state before = scan_from_before(s, d, width);
    if (lane >= d) s = scan_join(before, s);
  }
  return s;
}
)";

// ---- rows -----------------------------------------------------------------------------------------------------------

// A chunk lies at a multiple of LANES elements in memory, so that the first and the last one of a row may begin before
// it and end behind it.  `from` counts from the row's beginning; there is nothing to read where it is the length.
constexpr const char* kChunks = R"(
struct scan_chunk { Vec<IN, LANES> at[INPUTS]; IN before; };
struct scan_row { int64 base, length, head, chunks; };
TH_D scan_row scan_row_at(int64 row, int64 length) {
  const int64 base = row * length, head = base & (LANES - 1);
  return {base, length, head, (head + length + LANES - 1) / LANES};
}
TH_D int64 scan_chunk_from(const scan_row& r, int64 q, int64 end) {
  return q < scan_smaller(end, r.chunks) ? (REVERSED ? r.chunks - 1 - q : q) * LANES - r.head : r.length;
}
TH_D bool scan_is_whole(const scan_row& r, int64 from) { return from >= 0 && from + LANES <= r.length; }
TH_D bool scan_has(const scan_row& r, int64 place) { return place >= 0 && place < r.length; }
TH_D void scan_load(scan_chunk& c, const IN* __restrict__ const* in, const scan_row& r, int64 from, int aligned) {
  if (aligned && scan_is_whole(r, from)) {
#pragma unroll
    for (int k = 0; k < INPUTS; ++k) c.at[k] = th_load_vector<IN, LANES>(in[k] + r.base + from);
  } else {
#pragma unroll
    for (int k = 0; k < INPUTS; ++k)
#pragma unroll
      for (int j = 0; j < LANES; ++j) c.at[k].at[j] = scan_has(r, from + j) ? in[k][r.base + from + j] : IN();
  }
  c.before = IN();
  if (SHIFTED && from > 0 && from < r.length) c.before = in[INPUTS - 1][r.base + from - 1];
}
TH_D void scan_numbers(ACC (&x)[INPUTS], const scan_chunk& c, int j, int64 place) {
#pragma unroll
  for (int k = 0; k < INPUTS; ++k) x[k] = ACC(th_get(c.at[k].at[j]));
  if (SHIFTED) x[INPUTS - 1] = place == 0 ? ACC(1) : j == 0 ? ACC(th_get(c.before)) : ACC(th_get(c.at[INPUTS - 1].at[j == 0 ? 0 : j - 1]));
}
TH_D scan_state scan_chunk_state(const scan_chunk& c, const scan_row& r, int64 from) {
  scan_state s = scan_none();
#pragma unroll
  for (int i = 0; i < LANES; ++i) {
    const int j = REVERSED ? LANES - 1 - i : i;
    ACC x[INPUTS];
    scan_numbers(x, c, j, from + j);
    if (scan_has(r, from + j)) s = scan_join(s, scan_of(x));
  }
  return s;
}
TH_D void scan_store(OUT* __restrict__ out, const scan_chunk& c, const scan_row& r, int64 from, scan_state s) {
  Vec<OUT, LANES> y;
#pragma unroll
  for (int i = 0; i < LANES; ++i) {
    const int j = REVERSED ? LANES - 1 - i : i;
    ACC x[INPUTS];
    scan_numbers(x, c, j, from + j);
    const scan_state before = s;
    if (scan_has(r, from + j)) s = scan_join(before, scan_of(x));
    th_set(y.at[j], scan_result(x, before, s));
  }
  if (scan_is_whole(r, from)) th_store_vector(out + r.base + from, y);
  else {
#pragma unroll
    for (int j = 0; j < LANES; ++j)
      if (scan_has(r, from + j)) out[r.base + from + j] = y.at[j];
  }
}
)";

// All threads of a warp walk equally far: rows of one length may have one chunk more or less.
constexpr const char* kShortRows = R"(
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) scan_short_rows(const IN* __restrict__ a, const IN* __restrict__ b, const IN* __restrict__ c, OUT* __restrict__ out, int64 rows, int64 length, int team, int aligned) {
  const IN* const in[3] = {a, b, c};
  const int64 thread = int64(blockIdx.x) * blockDim.x + threadIdx.x, row = thread / team;
  const int lane = int(threadIdx.x) & (team - 1);
  const scan_row r = scan_row_at(row < rows ? row : 0, length);
  const int64 end = row < rows ? r.chunks : 0, most = (length + 2 * LANES - 2) / LANES;
  scan_state carry = scan_none();
  for (int64 first = 0; first < most; first += CHUNKS * team) {
    scan_chunk chunk[CHUNKS];
    int64 from[CHUNKS];
#pragma unroll
    for (int v = 0; v < CHUNKS; ++v) {
      from[v] = scan_chunk_from(r, first + v * team + lane, end);
      scan_load(chunk[v], in, r, from[v], aligned);
    }
#pragma unroll
    for (int v = 0; v < CHUNKS; ++v) {
      const scan_state through = scan_team(scan_chunk_state(chunk[v], r, from[v]), lane, team);
      const scan_state before = scan_from_before(through, 1, team), all = scan_from(through, team - 1, team);
      scan_store(out, chunk[v], r, from[v], lane ? scan_join(carry, before) : carry);
      carry = scan_join(carry, all);
    }
  }
}
)";

// The chunks of a tile: chunk v of every thread, then the next one of every thread, so that neighbouring threads read
// neighbouring chunks.  The states of the tile's warps lie alternately in two places of shared memory: one barrier a tile.
// RESIDENT blocks of a multiprocessor have enough loads under way together.
constexpr const char* kRows = R"(
TH_D scan_state scan_parts_before(const scan_state* __restrict__ parts, int count, int lane) {
  scan_state carry = scan_none();
  for (int i = 0; i < count; i += 32) {
    const scan_state s = scan_warp<32>(i + lane < count ? parts[i + lane] : scan_none(), lane);
    carry = scan_join(carry, scan_from(s, 31, 32));
  }
  return carry;
}
template <bool WRITES> TH_D scan_state scan_walk(const IN* __restrict__ const* in, OUT* __restrict__ out, const scan_row& r, int64 begin, int64 end, scan_state carry, int aligned) {
  __shared__ scan_state shared[2][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32, groups = CHUNKS * warps;
  const int64 tile = int64(CHUNKS) * blockDim.x;
  int buffer = 0;
  for (int64 first = begin; first < end; first += tile, buffer ^= 1) {
    scan_chunk chunk[CHUNKS];
    int64 from[CHUNKS];
#pragma unroll
    for (int v = 0; v < CHUNKS; ++v) {
      from[v] = scan_chunk_from(r, first + v * int64(blockDim.x) + threadIdx.x, end);
      scan_load(chunk[v], in, r, from[v], aligned);
    }
    scan_state before[CHUNKS];
#pragma unroll
    for (int v = 0; v < CHUNKS; ++v) {
      const scan_state through = scan_warp<32>(scan_chunk_state(chunk[v], r, from[v]), lane);
      before[v] = scan_from_before(through, 1, 32);
      if (lane == 0) before[v] = scan_none();
      if (lane == 31) shared[buffer][v * warps + warp] = through;
    }
    __syncthreads();
    const scan_state of_warps = scan_warp<32>(lane < groups ? shared[buffer][lane] : scan_none(), lane);
#pragma unroll
    for (int v = 0; v < CHUNKS; ++v) {
      const int group = v * warps + warp;
      const scan_state others = scan_from(of_warps, group ? group - 1 : 0, 32);
      if (WRITES) scan_store(out, chunk[v], r, from[v], scan_join(group ? scan_join(carry, others) : carry, before[v]));
    }
    carry = scan_join(carry, scan_from(of_warps, groups - 1, 32));
  }
  return carry;
}
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) scan_rows(const IN* __restrict__ a, const IN* __restrict__ b, const IN* __restrict__ c, const scan_state* __restrict__ parts, OUT* __restrict__ out, int64 rows, int64 length, int64 part, int aligned) {
  const IN* const in[3] = {a, b, c};
  const scan_row r = scan_row_at(blockIdx.x, length);
  const int64 begin = blockIdx.y * part;
  scan_state carry = scan_none();
  if (parts) carry = scan_parts_before(parts + int64(blockIdx.x) * gridDim.y, blockIdx.y, threadIdx.x % 32);
  scan_walk<true>(in, out, r, begin, scan_smaller(begin + part, r.chunks), carry, aligned);
}
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) scan_row_parts(const IN* __restrict__ a, const IN* __restrict__ b, const IN* __restrict__ c, scan_state* __restrict__ parts, int64 rows, int64 length, int64 part, int aligned) {
  const IN* const in[3] = {a, b, c};
  const scan_row r = scan_row_at(blockIdx.x, length);
  const int64 begin = blockIdx.y * part;
  const scan_state all = scan_walk<false>(in, nullptr, r, begin, scan_smaller(begin + part, r.chunks), scan_none(), aligned);
  if (threadIdx.x == 0) parts[int64(blockIdx.x) * gridDim.y + blockIdx.y] = all;
}
)";

// ---- columns --------------------------------------------------------------------------------------------------------

// A block has COLUMNS columns for each of `team` threads, and ITEMS rows of each tile for each of the threads that share
// a column.  Columns are counted through all outer dimensions, so that few columns fill a block as well.
constexpr const char* kColumns = R"(
struct SCAN_NAME(scan_items) { Vec<IN, COLUMNS> at[INPUTS][ITEMS]; };
// Where the first of a thread's columns is; `has`: there is one.
struct SCAN_NAME(scan_place) { int64 outer, column, length, inner; bool has; };
TH_D SCAN_NAME(scan_place) SCAN_NAME(scan_place_at)(int64 outer, int64 length, int64 inner, int team) {
  const int64 thread = int64(blockIdx.x) * team + (int(threadIdx.x) & (team - 1)), across = inner / COLUMNS, o = thread / across;
  return {o, (thread - o * across) * COLUMNS, length, inner, o < outer};
}
TH_D int64 SCAN_NAME(scan_row_in)(const SCAN_NAME(scan_place)& p, int64 i) { return REVERSED ? p.length - 1 - i : i; }
TH_D void SCAN_NAME(scan_load_items)(SCAN_NAME(scan_items)& c, const IN* __restrict__ const* in, const SCAN_NAME(scan_place)& p, int64 first, int64 end) {
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const int64 row = SCAN_NAME(scan_row_in)(p, first + i);
#pragma unroll
    for (int k = 0; k < INPUTS; ++k) {
      const bool shifted = SHIFTED && k == INPUTS - 1, wanted = p.has && first + i < end && !(shifted && row == 0);
      c.at[k][i] = th_load_vector<IN, COLUMNS>(in[k] + (p.outer * p.length + (shifted ? row - 1 : row)) * p.inner + p.column, wanted);
    }
  }
}
TH_D void SCAN_NAME(scan_item)(ACC (&x)[INPUTS], const SCAN_NAME(scan_items)& c, int i, int j, bool at_0) {
#pragma unroll
  for (int k = 0; k < INPUTS; ++k) x[k] = ACC(th_get(c.at[k][i].at[j]));
  if (SHIFTED && at_0) x[INPUTS - 1] = ACC(1);
}
TH_D void SCAN_NAME(scan_store_items)(OUT* __restrict__ out, const SCAN_NAME(scan_items)& c, const SCAN_NAME(scan_place)& p, int64 first, int64 end, scan_state (&s)[COLUMNS]) {
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    if (!p.has || first + i >= end) continue;
    const int64 row = SCAN_NAME(scan_row_in)(p, first + i);
    Vec<OUT, COLUMNS> y;
#pragma unroll
    for (int j = 0; j < COLUMNS; ++j) {
      ACC x[INPUTS];
      SCAN_NAME(scan_item)(x, c, i, j, row == 0);
      const scan_state before = s[j];
      s[j] = scan_join(before, scan_of(x));
      th_set(y.at[j], scan_result(x, before, s[j]));
    }
    th_store_vector(out + (p.outer * p.length + row) * p.inner + p.column, y);
  }
}
template <bool WRITES> TH_D void SCAN_NAME(scan_walk_columns)(const IN* __restrict__ const* in, OUT* __restrict__ out, const SCAN_NAME(scan_place)& p, int64 begin, int64 end, int team, scan_state (&carry)[COLUMNS]) {
  __shared__ scan_state shared[2][THREADS * COLUMNS];
  const int x = int(threadIdx.x) & (team - 1), y = threadIdx.x / team, sharing = blockDim.x / team, width = team * COLUMNS;
  const int64 tile = int64(sharing) * ITEMS;
  SCAN_NAME(scan_items) items, next;
  SCAN_NAME(scan_load_items)(items, in, p, begin + y * ITEMS, end);
  int buffer = 0;
  for (int64 at = begin; at < end; at += tile, buffer ^= 1) {
    const int64 first = at + y * ITEMS;
    const bool more = at + tile < end;
#pragma unroll
    for (int j = 0; j < COLUMNS; ++j) {
      scan_state s = scan_none();
#pragma unroll
      for (int i = 0; i < ITEMS; ++i) {
        ACC n[INPUTS];
        SCAN_NAME(scan_item)(n, items, i, j, false);
        if (first + i < end) s = scan_join(s, scan_of(n));
      }
      shared[buffer][y * width + x * COLUMNS + j] = s;
    }
    // Loads of the next tile are under way while this one is joined.
    if (AHEAD && more) SCAN_NAME(scan_load_items)(next, in, p, first + tile, end);
    __syncthreads();
    scan_state mine[COLUMNS];
#pragma unroll
    for (int j = 0; j < COLUMNS; ++j) {
      mine[j] = carry[j];
      for (int t = 0; t < sharing; ++t) {
        carry[j] = scan_join(carry[j], shared[buffer][t * width + x * COLUMNS + j]);
        if (t + 1 == y) mine[j] = carry[j];
      }
    }
    if (WRITES) SCAN_NAME(scan_store_items)(out, items, p, first, end, mine);
    if (AHEAD && more) items = next;
    if (!AHEAD && more) SCAN_NAME(scan_load_items)(items, in, p, first + tile, end);
  }
}
extern "C" __global__ void __launch_bounds__(THREADS) SCAN_NAME(scan_columns)(const IN* __restrict__ a, const IN* __restrict__ b, const IN* __restrict__ c, const scan_state* __restrict__ parts, OUT* __restrict__ out, int64 outer, int64 length, int64 inner, int64 part, int team) {
  const IN* const in[3] = {a, b, c};
  const SCAN_NAME(scan_place) p = SCAN_NAME(scan_place_at)(outer, length, inner, team);
  const int64 begin = blockIdx.y * part;
  scan_state carry[COLUMNS];
#pragma unroll
  for (int j = 0; j < COLUMNS; ++j) {
    carry[j] = scan_none();
#pragma unroll 8
    for (int i = 0; parts && p.has && i < int(blockIdx.y); ++i) carry[j] = scan_join(carry[j], parts[(i * outer + p.outer) * inner + p.column + j]);
  }
  SCAN_NAME(scan_walk_columns)<true>(in, out, p, begin, scan_smaller(begin + part, length), team, carry);
}
extern "C" __global__ void __launch_bounds__(THREADS) SCAN_NAME(scan_column_parts)(const IN* __restrict__ a, const IN* __restrict__ b, const IN* __restrict__ c, scan_state* __restrict__ parts, int64 outer, int64 length, int64 inner, int64 part, int team) {
  const IN* const in[3] = {a, b, c};
  const SCAN_NAME(scan_place) p = SCAN_NAME(scan_place_at)(outer, length, inner, team);
  const int64 begin = blockIdx.y * part;
  scan_state all[COLUMNS];
#pragma unroll
  for (int j = 0; j < COLUMNS; ++j) all[j] = scan_none();
  SCAN_NAME(scan_walk_columns)<false>(in, nullptr, p, begin, scan_smaller(begin + part, length), team, all);
  if (!p.has || int(threadIdx.x) >= team) return;
#pragma unroll
  for (int j = 0; j < COLUMNS; ++j) parts[(blockIdx.y * outer + p.outer) * inner + p.column + j] = all[j];
}
)";

std::string define(const char* name, const auto& value) {
  return cat("#undef ", name, "\n#define ", name, " ", value, "\n");
}
std::string define_suffix(const char* suffix) { return cat("#undef SCAN_NAME\n#define SCAN_NAME(x) x", suffix, "\n"); }

std::string number_name(const Problem& p) {
  if (!is_floating(p.out)) return "int64";
  return p.out == DType::f64 ? "double" : "float";
}

bool has_pairs(Kind k) { return k == Kind::ProductGradient || k == Kind::LogSumExp || k == Kind::LogSumExpGradient; }

std::string states_text(Kind k) {
  switch (k) {
    case Kind::Sum:
    case Kind::ReversedSum: return kSum;
    case Kind::Product: return kProduct;
    case Kind::ProductGradient: return kProductGradient;
    case Kind::LogSumExp: return std::string(kScaled) + kLogSumExp;
    case Kind::LogSumExpGradient: return std::string(kScaled) + kLogSumExpGradient;
  }
  THUNDER_ASSERT(false, "no such scan");
}

int64_t over(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t power_of_2(int64_t n) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
}

// Blocks are cut in parts of some tiles where they are too few for the device.  What is cut is read twice, so that it
// must be worth it.
void cut(Launch& l, int64_t whole, int64_t tile, int64_t most, int multiprocessors) {
  constexpr int64_t kBusy = 4, kWanted = 8;  // blocks of a multiprocessor
  const int64_t tiles = over(whole, tile);
  l.part = tiles * tile;
  if (l.blocks >= kBusy * multiprocessors || tiles < 4) return;
  const int64_t wanted = std::min({over(kWanted * multiprocessors, l.blocks), tiles, most});
  l.part = over(tiles, wanted) * tile;
  l.parts = over(whole, l.part);
}

Launch launch_of_rows(const Problem& p, int64_t rows, int64_t length, int multiprocessors) {
  const int64_t lanes = lanes_of(p), chunks = chunks_of(p);
  const int64_t most = length % lanes == 0 ? length / lanes : over(length + lanes - 1, lanes),
                each = over(most, chunks);
  constexpr int64_t kWarp = 32, kWalks = 4;  // tiles that a warp walks over where there are many rows
  const bool many = rows >= 16 * int64_t{multiprocessors};
  Launch l;
  if (each <= kWarp || (many && each <= kWalks * kWarp)) {
    l.way = Launch::Way::ShortRows;
    l.threads = 128;
    l.team = static_cast<int>(std::min(power_of_2(each), kWarp));
    l.blocks = over(rows * l.team, l.threads);
    return l;
  }
  l.threads = static_cast<int>(std::clamp<int64_t>(power_of_2(each), 64, kMostThreads));
  l.blocks = rows;
  cut(l, most, chunks * l.threads, 1024, multiprocessors);
  l.states = l.parts > 1 ? rows * l.parts : 0;
  return l;
}

Launch launch_of_columns(const Problem& p, int64_t outer, int64_t length, int64_t inner, bool vectors,
                         int multiprocessors) {
  Launch l{.way = Launch::Way::Columns};
  l.columns = vectors && inner % columns_of(p) == 0 ? columns_of(p) : 1;
  const int64_t threads = outer * (inner / l.columns);
  // Eight threads read a sector of memory, or a part of one.
  int64_t team = 32;
  while (team > 8 && over(threads, team) < 4 * int64_t{multiprocessors}) team /= 2;
  const int64_t sharing = std::min({power_of_2(over(length, kItems)), int64_t{kMostInColumn}, kMostThreads / team});
  l.team = static_cast<int>(team);
  l.threads = static_cast<int>(team * sharing);
  l.blocks = over(threads, team);
  cut(l, length, sharing * kItems, 128, multiprocessors);  // a thread joins the parts before its own
  l.states = l.parts > 1 ? outer * inner * l.parts : 0;
  return l;
}

}  // namespace

bool supported(const Problem& p) {
  const bool halves = p.in == DType::bf16 || p.in == DType::f16;
  const bool floats = halves || p.in == DType::f32 || p.in == DType::f64;
  if (p.kind != Kind::Sum && p.kind != Kind::ReversedSum && p.kind != Kind::Product) return floats && p.in == p.out;
  if (floats) return p.in == p.out || (halves && p.out == DType::f32);
  const bool integers = p.in == DType::boolean || p.in == DType::u8 || p.in == DType::i8 || p.in == DType::i16 ||
                        p.in == DType::i32 || p.in == DType::i64;
  return integers && (p.out == DType::i64 || (p.in == DType::i32 && p.out == DType::i32));
}

int inputs_of(Kind k) { return k == Kind::ProductGradient || k == Kind::LogSumExpGradient ? 3 : 1; }

int64_t state_bytes(const Problem& p) { return (number_name(p) == "float" ? 4 : 8) * (has_pairs(p.kind) ? 2 : 1); }

int lanes_of(const Problem& p) { return static_cast<int>(16 / std::max(itemsize(p.in), itemsize(p.out))); }

int chunks_of(const Problem& p) { return std::min(16 / lanes_of(p), 4); }

int columns_of(const Problem& p) { return std::max(itemsize(p.in), itemsize(p.out)) == 2 ? 2 : 1; }

Launch launch_of(const Problem& p, int64_t outer, int64_t length, int64_t inner, bool vectors, int multiprocessors) {
  if (inner == 1) return launch_of_rows(p, outer, length, multiprocessors);
  return launch_of_columns(p, outer, length, inner, vectors, multiprocessors);
}

std::string text_of(const Problem& p) {
  const bool reversed = p.kind == Kind::ReversedSum || inputs_of(p.kind) == 3;
  std::string text =
      define("IN", storage_name(p.in)) + define("OUT", storage_name(p.out)) + define("ACC", number_name(p)) +
      define("INPUTS", inputs_of(p.kind)) + define("SHIFTED", p.kind == Kind::ProductGradient ? "true" : "false") +
      define("REVERSED", reversed ? "true" : "false") + define("AHEAD", inputs_of(p.kind) == 1 ? "true" : "false") +
      define("RESIDENT", inputs_of(p.kind) == 1 ? 4 : 2) + define("THREADS", kMostThreads) +
      define("LANES", lanes_of(p)) + define("CHUNKS", chunks_of(p)) + define("ITEMS", kItems);
  text += states_text(p.kind) + kShuffles + kChunks + kShortRows + kRows;
  text += define("COLUMNS", 1) + define_suffix("##_1") + kColumns;
  if (columns_of(p) > 1) text += define("COLUMNS", columns_of(p)) + define_suffix("") + kColumns;
  return text;
}

}  // namespace thunder::fuser::scans
