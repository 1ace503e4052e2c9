// A cache of byte strings on disk, addressed by the content that they were made from: cubins, host libraries, answers
// of the system's compiler.
//
// Entries are written to a temporary file and renamed, so that a reader sees a whole entry or none and two processes
// that write the same one lose nothing; a checksum makes what is damaged read as missing.  A folder or an entry that
// somebody else may have written is not used, because kernels run with this user's rights.  No function here throws for
// a folder that is full, unwritable, missing or refused: warn() says it once, and the program goes on without the cache.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/kernels/own_files.h"

namespace thunder {

/// What names an entry: SHA-256 of everything that the entry depends on.
struct CacheKey {
  std::string hex;              // 64 digits
  uint64_t material_bytes = 0;  // length of what was hashed, and
  uint64_t material_check = 0;  // an independent hash of it: both stand in the entry and must agree
};

/// Collects what an entry depends on.  Each part is hashed with its length, so ("ab", "c") differs from ("a", "bc").
class CacheKeyBuilder {
 public:
  /// `kind` keeps the entries of different users apart ("cubin", "host").
  explicit CacheKeyBuilder(std::string_view kind) { add(kind); }
  CacheKeyBuilder& add(std::string_view part);
  CacheKeyBuilder& add(int64_t number);
  CacheKey key() const;

 private:
  std::string material_;
};

class DiskCache {
 public:
  /// The process's cache.  Its folder is read from the environment at every call, so that tests can move it:
  /// $THUNDER_CACHE_DIR, else $XDG_CACHE_HOME/thunder, else ~/.cache/thunder.  Without any of them, and with
  /// $THUNDER_CACHE_SIZE 0, nothing is cached.
  static DiskCache open();
  /// A cache in `folder`, which is made by the first store; an empty string is a cache that keeps nothing.  What was not
  /// used for longest goes when there are more than `limit` bytes.
  explicit DiskCache(std::string folder, uint64_t limit = kDefaultLimit);
  static constexpr uint64_t kDefaultLimit = uint64_t{1} << 30;

  /// The bytes stored under `key`; nothing if there are none, damaged ones, or somebody else's.
  std::optional<std::string> load(const CacheKey& key) const;
  /// Keeps `bytes` under `key`, in place of what was there.  False if that failed.
  bool store(const CacheKey& key, std::string_view bytes) const;
  /// Tells the user the first problem that loads and stores had, once in the process.  Not with a lock held, see
  /// warn_once().
  void warn() const;
  /// The file of an entry.
  std::string path(const CacheKey& key) const;

  const std::string& folder() const { return folder_; }
  bool enabled() const { return !folder_.empty(); }

 private:
  struct Folders {
    Opened top, sub;
    int error() const { return top.error ? top.error : sub.error; }
  };
  Folders open_folders(const CacheKey& key) const;
  void note(std::string problem) const;
  void note_refused(const std::string& what, const std::string& why) const;
  void note_unwritable(int error) const;

  struct Problems {
    std::mutex mutex;
    std::string first;
  };

  std::string folder_;
  uint64_t limit_;
  std::unique_ptr<Problems> problems_ = std::make_unique<Problems>();
};

}  // namespace thunder
