#include "runtime/kernels/cache_size.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "runtime/kernels/files.h"

namespace thunder {
namespace {

constexpr const char* kCounter = "size";
constexpr uint64_t kPage = 4096;  // what a file system gives to files
constexpr time_t kHour = 3600;
constexpr size_t kFolderDigits = 2, kEntryDigits = 62;
constexpr int kMostLooks = 8;  // one process does not tidy up for others forever

uint64_t size_of(const Descriptor& file) {
  struct stat info;
  return ::fstat(file.get(), &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

uint64_t pages_of(uint64_t bytes) { return (bytes + kPage - 1) / kPage; }

int64_t nanoseconds_of(const timespec& t) { return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec; }

struct CachedFile {
  int64_t used;  // nanoseconds
  uint64_t pages;
  size_t folder;
  std::string name;
};

bool is_hexadecimal(std::string_view name) {
  return name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// The entries of a subfolder.  What processes that were killed while they wrote have left goes at once.
void look_through(const Descriptor& folder, size_t index, std::vector<CachedFile>& out) {
  for (std::string& name : names_in(folder)) {
    if (name.size() < kEntryDigits || !is_hexadecimal(std::string_view(name).substr(0, kEntryDigits))) continue;
    struct stat info;
    if (::fstatat(folder.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) continue;
    if (name.size() == kEntryDigits)
      out.push_back(
          {nanoseconds_of(info.st_mtim), pages_of(static_cast<uint64_t>(info.st_size)), index, std::move(name)});
    else if (name[kEntryDigits] == '.' && info.st_mtime + kHour < ::time(nullptr))
      ::unlinkat(folder.get(), name.c_str(), 0);
  }
}

/// Removes entries until `most` pages are left, if there are more than `limit`, and returns how many are left.
uint64_t evict(const Descriptor& folder, uint64_t limit, uint64_t most) {
  std::vector<Descriptor> folders;
  std::vector<CachedFile> entries;
  for (const std::string& name : names_in(folder)) {
    if (name.size() != kFolderDigits || !is_hexadecimal(name)) continue;
    Opened opened = open_own_folder(folder.get(), name);
    if (!opened.file) continue;
    look_through(opened.file, folders.size(), entries);
    folders.push_back(std::move(opened.file));
  }
  uint64_t pages = 0;
  for (const CachedFile& e : entries) pages += e.pages;
  if (pages <= limit) return pages;
  std::sort(entries.begin(), entries.end(), [](const CachedFile& a, const CachedFile& b) { return a.used < b.used; });
  for (const CachedFile& e : entries) {
    if (pages <= most) break;
    if (::unlinkat(folders[e.folder].get(), e.name.c_str(), 0) == 0 || errno == ENOENT) pages -= e.pages;
  }
  return pages;
}

}  // namespace

void count_added(const Descriptor& folder, uint64_t bytes, uint64_t limit) {
  const Descriptor counter(
      ::openat(folder.get(), kCounter, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  if (!counter) return;
  const uint64_t added = pages_of(bytes), most = limit / kPage;
  if (write_file(counter, {std::string(added, '\0')}) != 0) return;
  uint64_t counted = size_of(counter);
  // A new counter may belong to a folder that has entries already.
  if (counted <= most && counted != added) return;
  if (::flock(counter.get(), LOCK_EX | LOCK_NB) != 0) return;  // another process looks
  for (int look = 0; look < kMostLooks; ++look) {
    const uint64_t left = evict(folder, most, most - most / 4), now = size_of(counter);
    // What others stored meanwhile may not have been seen.
    counted = std::max<uint64_t>(left + (now - std::min(now, counted)), 1);
    // A file system that refuses makes the next store look again.
    if (::ftruncate(counter.get(), static_cast<off_t>(counted)) != 0 || counted <= most) return;
  }
}

void mark_used(const Descriptor& entry) {
  struct stat info;
  if (::fstat(entry.get(), &info) == 0 && info.st_mtime + kHour < ::time(nullptr)) ::futimens(entry.get(), nullptr);
}

uint64_t cache_size_from_environment(uint64_t otherwise, std::string* problem) {
  const char* variable = std::getenv("THUNDER_CACHE_SIZE");
  if (!variable || !*variable) return otherwise;
  const std::string_view text(variable);
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  constexpr std::string_view kUnits = "KMGT";
  const size_t power = unit.empty() ? 0 : kUnits.find(unit[0]) + 1;
  const unsigned shift = 10 * static_cast<unsigned>(power);
  if (error != std::errc() || unit.size() > 1 || (!unit.empty() && !power) || number > (UINT64_MAX >> 1 >> shift)) {
    *problem = cat("THUNDER_CACHE_SIZE is '", text, "', which is no number of bytes such as 500M or 2G");
    return otherwise;
  }
  return number << shift;
}

}  // namespace thunder
