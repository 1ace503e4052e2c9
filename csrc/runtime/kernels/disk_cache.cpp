#include "runtime/kernels/disk_cache.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/error.h"
#include "core/warning.h"
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

DiskCache DiskCache::open() { return DiskCache(folder_from_environment()); }

std::string DiskCache::path(const CacheKey& key) const {
  return cat(folder_, "/", key.hex.substr(0, 2), "/", key.hex.substr(2));
}

std::optional<std::string> DiskCache::load(const CacheKey& key) const {
  if (!enabled()) return std::nullopt;
  std::optional<std::string> entry = read_file(path(key));
  if (!entry || entry->size() < sizeof(Trailer)) return std::nullopt;
  const size_t bytes = entry->size() - sizeof(Trailer);
  Trailer found;
  std::memcpy(&found, entry->data() + bytes, sizeof found);
  if (found.magic != kMagic || found.bytes != bytes) return std::nullopt;
  const Trailer expected = trailer_of(key, std::string_view(*entry).substr(0, bytes));
  if (std::memcmp(&found, &expected, sizeof found) != 0) return std::nullopt;
  entry->resize(bytes);
  return entry;
}

bool DiskCache::store(const CacheKey& key, std::string_view bytes) const {
  const int problem = write(key, bytes);
  warn(problem);
  return enabled() && !problem;
}

int DiskCache::write(const CacheKey& key, std::string_view bytes) const {
  if (!enabled()) return 0;
  const Trailer trailer = trailer_of(key, bytes);
  const std::string_view end(reinterpret_cast<const char*>(&trailer), sizeof trailer);
  const std::string file = path(key);
  int problem = replace_file(file, {bytes, end});
  if (problem != ENOENT) return problem;
  problem = make_folders(file.substr(0, file.rfind('/')));
  return problem ? problem : replace_file(file, {bytes, end});
}

void DiskCache::warn(int problem) const {
  if (!problem) return;
  warn_once("disk cache", cat("[disk cache] cannot write to ", folder_, ": ", std::strerror(problem),
                              "; compiled kernels will not be found by the next process. THUNDER_CACHE_DIR names "
                              "another folder"));
}

}  // namespace thunder
