// How the rows and columns of a kernel are dealt to the threads of a GPU.
#include <algorithm>

#include "fuser/emit.h"
#include "fuser/emit_common.h"
#include "fuser/graph.h"

namespace thunder::fuser {
namespace {

constexpr int kTileChunks = 4;             // of a thread without reductions: what a row has once is asked for once
constexpr int kRowChunks = 4;              // of a thread in a row: several loads in flight, and yet many threads
constexpr int kRowSingles = 12;            // the same where a chunk is one element
constexpr int kBestChunks = 2;             // of a thread in a row
constexpr int kBestSingles = 7;            // the same where a chunk is one element
constexpr int64_t kLongSingles = 1 << 14;  // of a row that a whole multiprocessor's threads walk over
constexpr int kOneWalkThreads = 256;       // of a row that is walked over once: more blocks, at different places
constexpr int kManyRows = 256;             // with fewer, a row gets all threads of a block
constexpr int kBlockThreads = 128;         // of a block that has several rows, or a part of a row's columns
constexpr int kPersistentThreads = 1024;   // of a multiprocessor, where each walks over many rows
constexpr int kColumnLanes = 32;           // columns whose sums one thread may keep
constexpr int kMostSums = 48;              // registers of theirs that leave room for the rest
constexpr int kFewRegisters = 48;          // for operands and sums, with which as many threads run at once
constexpr int64_t kJoinBytes = 40 << 10;   // of shared memory, of which a block has 48 kB
constexpr int kBusyThreads = 1 << 16;      // that keep a GPU's memory busy
constexpr int kColumnBlock = 256;          // threads of a block that walks over columns
constexpr int kWholeRows = 32;             // rows side by side of a block that has all rows of its columns
constexpr int kRowsEach = 16;              // of such a thread, if there are blocks enough
constexpr int kMostRowsEach = 64;          // that it may add up without runs
constexpr int kLeastRowsEach = 4;          // that take it less time than a second kernel
constexpr int64_t kWholeBlocks = 132;      // that keep the multiprocessors of a large GPU busy
constexpr int kColumnThreads = 32;         // of the columns of a tile: fewer columns have fewer partial sums
constexpr int kAcross = 32;                // rows of a block whose warps have an element of each
constexpr int kMostAcross = 1024;          // threads of such a block
constexpr int kTransposedThreads = 8;      // of a row, where the rows of a block lie together in an operand
constexpr int kTransposedBlock = 256;      // threads of such a block
constexpr int kMostOfRows = 512;           // threads of a block that has several rows
constexpr int64_t kReadAgain = 36 << 20;   // bytes that lie in the cache of a large GPU still when they are read again
constexpr int64_t kFewColumns = 256;       // whose sums take few registers
constexpr int kTileThreads = 256;          // of a block that transposes a tile
constexpr int kTileCols = 64;              // of that tile

// Registers in which a thread keeps sums of a chunk's columns.
int sums_of_thread(const Kernel& k) {
  int n = 0;
  for (const Accumulator& a : k.columns)
    n += k.lanes * static_cast<int>(accumulator_bytes(a) / 4) * (has_runs(k, a, Target::Cuda) ? 3 : 1);
  return n;
}

// Registers for a thread's chunks of each operand and the sums of their columns.
int registers_of_thread(const Kernel& k, int chunks) {
  int64_t bytes = 0;
  for (const auto* list : {&k.inputs, &k.outputs})
    for (Value v : *list)
      if (usual_numel(v) >= k.usual_cols) bytes += k.lanes * itemsize(v.dtype());
  return chunks * (static_cast<int>(bytes / 4) + sums_of_thread(k));
}

bool walks_once(const Kernel& k) {
  return !k.cached && k.columns.empty() &&
         std::count_if(k.phases.begin(), k.phases.end(), [](const Phase& p) { return p.has_loop(); }) == 1;
}

int64_t rounded_up(int64_t n, int64_t by) { return (n + by - 1) / by; }

// The least power of two from n on, between two powers of two.
int power_of_two(int64_t n, int least, int most) {
  int p = least;
  while (p < n && p < most) p *= 2;
  return p;
}

// Chunks of a row that one of so many threads has.
int each(int64_t chunks, int threads) { return static_cast<int>(rounded_up(chunks, threads)); }

// The part of the threads' steps that have a chunk.
double at_work(int64_t chunks, int threads, int each) {
  return static_cast<double>(chunks) / (static_cast<double>(threads) * each);
}

// Threads that can add up a row: a part of a warp that divides it, or whole warps.
int next_row_threads(int threads) { return threads < 32 ? threads * 2 : threads + (threads < 256 ? 32 : 64); }

bool caches_too_much(const Kernel& k, int each) { return k.cached && k.cached_bytes * each > kCachedBytes; }

// Threads of one warp need no barrier.  Where one thread has a row of single elements, the threads of a warp read lines
// of memory far from each other.
double rate_row(const Kernel& k, int64_t chunks, int threads) {
  const int n = each(chunks, threads);
  const bool single = k.lanes == 1;
  if (n > (single ? kRowSingles : kRowChunks) && !walks_once(k)) return -n;
  const double busy = std::min(1.0, static_cast<double>(k.usual_rows) * threads / kBusyThreads);
  const double one_warp = k.rows_together > 0 ? 0.3 : single ? 0.1 : 0.03;
  const double alone = single && threads == 1 && n > 1 && k.rows_together == 0 ? 0.25 : 0.0;
  return at_work(chunks, threads, n) - 0.02 * std::abs(n - (single ? kBestSingles : kBestChunks)) +
         (threads <= 32 ? one_warp : 0.0) - alone - (caches_too_much(k, n) ? 0.3 : 0.0) - 0.2 * (1 - busy);
}

// Sums of columns take registers for each chunk.
double rate_row_with_columns(const Kernel& k, int64_t chunks, int threads) {
  const int n = each(chunks, threads);
  if (n > 1 && (n * k.lanes > kColumnLanes || n * sums_of_thread(k) > kMostSums)) return -n;
  return at_work(chunks, threads, n) - 0.05 * (n - 1) - (caches_too_much(k, n) ? 0.3 : 0.0) -
         (threads > kRowThreads ? 0.1 : 0.0);
}

// Rows of a block whose neighbouring threads have an element of each, where the elements of a row lie apart in all
// operands and those of neighbouring rows together; 0 where other rows lie otherwise, or are few.
int rows_across(const Kernel& k) {
  if (k.rows_together == 0 || k.along_rows || !k.columns.empty() || !k.extrema.empty()) return 0;
  const int rows = k.usual_rows >= 2 * kWholeBlocks * kAcross ? kAcross : std::min(kAcross, k.rows_together);
  return k.usual_rows >= kWholeBlocks * rows ? rows : 0;
}

// The threads of a row join what they found in shared memory.
void deal_across(const Kernel& k, int64_t chunks, CudaShape& s) {
  s.across = true;
  s.rows_per_block = rows_across(k);
  int64_t sums = 0;
  for (const Phase& p : k.phases) sums += static_cast<int64_t>(p.reductions.size());
  double best = -1e30;
  for (int threads = 1; threads * s.rows_per_block <= kMostAcross; ++threads) {
    const int all = threads * s.rows_per_block;
    if (threads > 1 && sums * all * 8 > kJoinBytes) break;
    const double rate = rate_row(k, chunks, threads) - (all > kMostOfRows ? 0.1 : 0.0);
    if (rate <= best) continue;
    best = rate;
    s.threads = threads;
  }
  s.chunks = each(chunks, s.threads);
}

void deal_rows(const Kernel& k, int64_t chunks, CudaShape& s) {
  const bool columns = !k.columns.empty();
  const bool wide = columns || k.usual_rows < kManyRows || (k.lanes == 1 && chunks > kLongSingles);
  const int one_walk = k.usual_rows * kOneWalkThreads < int64_t{4} * kBusyThreads ? 1024 : kOneWalkThreads;
  const int most = wide ? 1024 : walks_once(k) ? one_walk : kRowThreads;
  double best = -1e30;
  for (int threads = 1; threads <= most; threads = next_row_threads(threads)) {
    const double rate = columns ? rate_row_with_columns(k, chunks, threads) : rate_row(k, chunks, threads);
    if (rate <= best) continue;
    best = rate;
    s.threads = threads;
  }
  s.chunks = each(chunks, s.threads);
  if (s.threads > 32) return;
  s.rows_per_block = std::max(kBlockThreads / s.threads, std::min(k.rows_together, kMostOfRows / s.threads));
}

// Tiles of rows and columns: short runs of both.
void deal_transposed(int64_t chunks, CudaShape& s) {
  s.threads = static_cast<int>(std::min<int64_t>(chunks, kTransposedThreads));
  s.rows_per_block = kTransposedBlock / kTransposedThreads;
}

// Blocks that have all rows of their columns, so that no partial sums are written and read again, where the threads of
// all blocks are many, or their rows few.
bool deal_whole(const Kernel& k, int64_t chunks, CudaShape& s) {
  if (!k.rows.is_number()) return false;  // they may be many more the next time
  int rows = 1, rows_each = 0;
  int64_t blocks = 0;
  for (;; rows *= 2) {
    s.threads = power_of_two(chunks, 1, kColumnBlock / rows);
    blocks = rounded_up(chunks, s.threads);
    rows_each = each(k.usual_rows, rows);
    if ((rows_each <= kRowsEach && blocks >= 2 * kWholeBlocks) || rows == kWholeRows || rows * 2 > k.usual_rows) break;
  }
  s.rows_per_block = rows;
  s.whole = rows_each <= (blocks < kWholeBlocks ? kLeastRowsEach : kMostRowsEach);
  return s.whole;
}

// Columns are tiled over blocks.  Rows follow each other in memory, so any number of threads may have one.
void deal_columns(const Kernel& k, int64_t chunks, CudaShape& s) {
  if (k.rows_together > 0 && !k.last) return deal_transposed(chunks, s);
  if (!k.last && deal_whole(k, chunks, s)) return;
  const int64_t widest = k.last ? kBlockThreads : k.lanes == 1 ? 2 * kColumnThreads : kColumnThreads;
  s.threads = each(chunks, each(chunks, widest));
  s.rows_per_block = 1;
  if (k.last) return;  // a thread walks over all rows
  double best = -1;
  for (int rows = 1; rows * s.threads <= kColumnBlock; ++rows) {
    const int threads = rows * s.threads;
    const double rate =
        static_cast<double>(threads) / static_cast<double>(rounded_up(threads, 32) * 32) + 0.2 * threads / kColumnBlock;
    if (rate <= best) continue;
    best = rate;
    s.rows_per_block = rows;
  }
}

void deal_tiles(const Kernel& k, int64_t chunks, CudaShape& s) {
  if (k.rows_together > 0) return deal_transposed(chunks, s);
  double best = -1;
  for (int threads = 32; threads <= kBlockThreads; threads += 32)
    for (int n = 1; n <= kTileChunks; ++n) {
      const int64_t tile = int64_t{threads} * n;
      const double rate = static_cast<double>(chunks) / static_cast<double>(rounded_up(chunks, tile) * tile) +
                          0.0001 * static_cast<double>(tile) / (kBlockThreads * kTileChunks);
      if (rate <= best) continue;
      best = rate;
      s.threads = threads;
      s.chunks = n;
    }
  s.rows_per_block = kBlockThreads / s.threads;
}

}  // namespace

CudaShape cuda_shape(const Kernel& k) {
  CudaShape s;
  const int64_t chunks = std::max<int64_t>(1, k.usual_cols / k.lanes);
  if (k.tiled) {
    s.threads = kTileCols / k.lanes;
    s.rows_per_block = kTileThreads / s.threads;
    return s;
  }
  if (is_flat(k)) {
    s.threads = power_of_two(chunks, 32, 256);
    return s;
  }
  if (reduces_rows(k) && rows_across(k) > 0) deal_across(k, chunks, s);
  else if (reduces_rows(k)) deal_rows(k, chunks, s);
  else if (walks_columns(k)) deal_columns(k, chunks, s);
  else deal_tiles(k, chunks, s);
  s.persistent = k.has_finish() && !s.whole;
  while (k.has_finish() && s.rows_per_block > 1 && join_bytes(k, s) > kJoinBytes)
    s.rows_per_block = (s.rows_per_block + 1) / 2;
  // Enough loads in flight; more blocks would only mean more partial sums to write and read again, and fewer registers
  // for each thread's.
  const int threads = s.threads * s.rows_per_block;
  const int most = registers_of_thread(k, reduces_rows(k) ? s.chunks : 1) > kFewRegisters ? kPersistentThreads / 2
                                                                                          : kPersistentThreads;
  s.blocks_per_multiprocessor = std::max(1, most / threads);
  return s;
}

bool joins_sums_badly(const Kernel& k) {
  if (!reduces_rows(k) || k.columns.empty() || k.usual_cols < kFewColumns) return false;
  int64_t bytes = 0;
  for (Value v : k.inputs)
    if (usual_numel(v) >= k.usual_rows * k.usual_cols) bytes += usual_numel(v) * itemsize(v.dtype());
  return bytes <= kReadAgain;
}

bool finishes_apart(const Kernel& k) { return k.has_finish() && !cuda_shape(k).whole; }

CudaBlocks cuda_blocks(const Kernel& k, int64_t rows, int64_t cols) {
  const CudaShape s = cuda_shape(k);
  CudaBlocks out;
  if (is_flat(k)) {
    out.x = 0;
    for (const Phase& p : k.phases) out.x += rounded_up(p.chunks ? p.chunks : cols / k.lanes, s.threads);
    return out;
  }
  if (k.tiled)
    return {rounded_up(cols / k.lanes, s.threads), rounded_up(rows, int64_t{kTransposedRows} * s.rows_per_block)};
  out.x = k.last || s.whole ? 1 : rounded_up(rows, s.rows_per_block);
  if (!reduces_rows(k)) out.y = rounded_up(cols / k.lanes, int64_t{s.threads} * s.chunks);
  return out;
}

}  // namespace thunder::fuser
