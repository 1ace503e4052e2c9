// A cache of byte strings on disk, addressed by the content that they were made from: cubins, host libraries, answers
// of the system's compiler.
//
// Entries are written to a temporary file and renamed, so that a reader sees a whole entry or none and two processes
// that write the same one lose nothing; a checksum makes what is damaged read as missing.  No function here throws for
// a folder that is full, unwritable or missing: there is one warning, and the program goes on without the cache.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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
  /// $THUNDER_CACHE_DIR, else $XDG_CACHE_HOME/thunder, else ~/.cache/thunder.  Without any of them nothing is cached.
  static DiskCache open();
  /// A cache in `folder`, which is made by the first store; an empty string is a cache that keeps nothing.
  explicit DiskCache(std::string folder) : folder_(std::move(folder)) {}

  /// The bytes stored under `key`; nothing if there are none, or damaged ones.
  std::optional<std::string> load(const CacheKey& key) const;
  /// Keeps `bytes` under `key`, in place of what was there.  False if that failed, which was warned of.
  bool store(const CacheKey& key, std::string_view bytes) const;
  /// The two halves of store(), for those who hold a lock (see warn_once()): write() returns 0 or an errno value, which
  /// warn() tells the user.
  int write(const CacheKey& key, std::string_view bytes) const;
  void warn(int problem) const;
  /// The file of an entry.  It begins with the bytes as stored (what describes them follows them), so an ELF file in
  /// the cache can be handed to the loader where it lies.
  std::string path(const CacheKey& key) const;

  const std::string& folder() const { return folder_; }
  bool enabled() const { return !folder_.empty(); }

 private:
  std::string folder_;
};

}  // namespace thunder
