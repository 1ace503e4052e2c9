#include "runtime/kernels/disk_cache.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/error.h"
#include "core/warning.h"
#include "runtime/kernels/cache_size.h"
#include "runtime/kernels/content_hash.h"
#include "runtime/kernels/files.h"

namespace thunder {
namespace {

constexpr uint64_t kMagic = 0x3145484341434854ull;  // "THCACHE1" in memory

// What follows the bytes of an entry.
struct Trailer {
  uint64_t bytes;
  uint64_t check;
  uint64_t material_bytes;
  uint64_t material_check;
  uint64_t magic = kMagic;
};

Trailer trailer_of(const CacheKey& key, std::string_view bytes) {
  return {bytes.size(), fast_hash(bytes), key.material_bytes, key.material_check};
}

std::string folder_from_environment() {
  if (const char* own = std::getenv("THUNDER_CACHE_DIR"); own && *own) return own;
  // The XDG specification asks for relative paths to be ignored.
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg == '/') return std::string(xdg) + "/thunder";
  if (const char* home = std::getenv("HOME"); home && *home) return std::string(home) + "/.cache/thunder";
  return "";
}

std::string subfolder_of(const CacheKey& key) { return key.hex.substr(0, 2); }
std::string name_of(const CacheKey& key) { return key.hex.substr(2); }

}  // namespace

CacheKeyBuilder& CacheKeyBuilder::add(std::string_view part) {
  add(static_cast<int64_t>(part.size()));
  material_ += part;
  return *this;
}

CacheKeyBuilder& CacheKeyBuilder::add(int64_t number) {
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  material_.append(bytes, sizeof bytes);
  return *this;
}

CacheKey CacheKeyBuilder::key() const { return {to_hex(sha256(material_)), material_.size(), fast_hash(material_)}; }

DiskCache DiskCache::open() {
  std::string problem;
  const uint64_t limit = cache_size_from_environment(kDefaultLimit, &problem);
  DiskCache cache(limit ? folder_from_environment() : "", limit);
  if (!problem.empty()) cache.note(problem);
  return cache;
}

DiskCache::DiskCache(std::string folder, uint64_t limit) : folder_(std::move(folder)), limit_(limit) {}

std::string DiskCache::path(const CacheKey& key) const {
  return cat(folder_, "/", subfolder_of(key), "/", name_of(key));
}

std::optional<std::string> DiskCache::load(const CacheKey& key) const {
  if (!enabled()) return std::nullopt;
  const Folders folders = open_folders(key);
  if (!folders.sub.file) return std::nullopt;
  const Opened opened = open_own_file(folders.sub.file.get(), name_of(key));
  if (!opened.refused.empty()) note_refused(path(key), opened.refused);
  std::optional<std::string> entry = read_file(opened.file);
  if (!entry || entry->size() < sizeof(Trailer)) return std::nullopt;
  const size_t bytes = entry->size() - sizeof(Trailer);
  Trailer found;
  std::memcpy(&found, entry->data() + bytes, sizeof found);
  if (found.magic != kMagic || found.bytes != bytes) return std::nullopt;
  const Trailer expected = trailer_of(key, std::string_view(*entry).substr(0, bytes));
  if (std::memcmp(&found, &expected, sizeof found) != 0) return std::nullopt;
  entry->resize(bytes);
  mark_used(opened.file);
  return entry;
}

bool DiskCache::store(const CacheKey& key, std::string_view bytes) const {
  if (!enabled()) return false;
  const Trailer trailer = trailer_of(key, bytes);
  const std::string_view end(reinterpret_cast<const char*>(&trailer), sizeof trailer);
  Folders folders = open_folders(key);
  int problem = folders.error();
  if (problem == ENOENT) {
    problem = make_folders(cat(folder_, "/", subfolder_of(key)));
    if (!problem) folders = open_folders(key);
    if (!problem) problem = folders.error();
  }
  if (!problem && folders.sub.file) problem = replace_file(folders.sub.file, name_of(key), {bytes, end});
  if (problem) note_unwritable(problem);
  if (problem || !folders.sub.file) return false;
  count_added(folders.top.file, bytes.size() + sizeof trailer, limit_);
  return true;
}

DiskCache::Folders DiskCache::open_folders(const CacheKey& key) const {
  Folders out{open_own_folder(folder_), {}};
  if (!out.top.refused.empty()) note_refused(folder_, out.top.refused);
  if (!out.top.file) return out;
  out.sub = open_own_folder(out.top.file.get(), subfolder_of(key));
  if (!out.sub.refused.empty()) note_refused(cat(folder_, "/", subfolder_of(key)), out.sub.refused);
  return out;
}

void DiskCache::note(std::string problem) const {
  std::lock_guard lock(problems_->mutex);
  if (problems_->first.empty()) problems_->first = std::move(problem);
}

void DiskCache::note_refused(const std::string& what, const std::string& why) const {
  note(cat(what, " is not used, because somebody else may have written the kernels in it: ", why,
           ". Compiled kernels will not be found by the next process. Make it yours alone (chmod go-w), or let "
           "THUNDER_CACHE_DIR name another folder"));
}

void DiskCache::note_unwritable(int error) const {
  note(cat("cannot write to ", folder_, ": ", std::strerror(error),
           "; compiled kernels will not be found by the next process. THUNDER_CACHE_DIR names another folder"));
}

void DiskCache::warn() const {
  std::string problem;
  {
    std::lock_guard lock(problems_->mutex);
    problem = problems_->first;
  }
  if (!problem.empty()) warn_once("disk cache", cat("[disk cache] ", problem));
}

}  // namespace thunder
