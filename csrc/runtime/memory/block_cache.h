// Blocks of memory that were given back, kept for who asks for as much again.
//
// How much is kept follows what programs use.  `live` is what callers hold.  Over the last kRuns runs or so
//
//   live + cached  is at most what live rose to, and an eighth, because what is kept does not always fit what is asked for
//   cached         is at most that, less what was live when a run began: what a step takes and gives back
//
// so that a process needs hardly more memory than without a cache, and what callers keep for longer (results,
// gradients) leaves little behind when they let go of it.  A block that nobody asked for in kRuns runs goes back to the
// system.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace thunder {

class BlockCache {
 public:
  static constexpr uint64_t kRuns = 128;

  struct Memory {
    void* data = nullptr;
    std::unique_ptr<void, void (*)(void*)> owner{nullptr, nullptr};  ///< gives it back to the system
  };
  using Make = Memory (*)(size_t bytes);
  struct Stats {
    size_t live = 0, cached = 0;  ///< bytes
    uint64_t made = 0, reused = 0;
  };

  explicit BlockCache(Make make) : make_(make) {}
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  /// At least `bytes`, at most a quarter more.  If the system has none left (`make` throws), what is kept goes back to
  /// it first.
  void* take(size_t bytes);
  void give_back(void* data);
  /// A program starts.
  void begin_run();
  /// Gives all that is kept back to the system.
  void clear();
  Stats stats() const;
  /// For fork(): no other thread is inside until unlock().
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  struct Block {
    Memory memory;
    size_t bytes = 0;
    uint64_t run = 0;  // in which it was given back
  };
  using Blocks = std::list<Block>;
  struct Span {
    size_t most = 0, least = SIZE_MAX;  // live bytes: ever, and when a run began
  };

  size_t allowed() const;  // live and cached bytes
  size_t least() const;
  bool find(size_t bytes, Blocks& out);
  void evict_oldest(Blocks& out);
  /// Until at most `bytes` are cached.
  void shrink(size_t bytes, Blocks& out);
  Block make(size_t bytes);

  const Make make_;
  mutable std::mutex mutex_;
  Blocks cached_blocks_;  // in the order in which they were given back
  // By size; of equal ones first what was given back last, which may still be in the processor's caches.
  std::multimap<size_t, Blocks::iterator> by_size_;
  Blocks live_blocks_;
  std::unordered_map<void*, Blocks::iterator> by_data_;  // the live ones
  std::array<Span, 2> spans_;                            // this one and the one before, of kRuns / 2 runs
  size_t live_ = 0, cached_ = 0;
  uint64_t run_ = 0, made_ = 0, reused_ = 0;
  std::atomic<bool> used_{false};  // until then a run costs nothing
};

}  // namespace thunder
