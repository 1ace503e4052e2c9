#include "runtime/kernels/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "core/error.h"
#include "runtime/kernels/fork.h"

namespace thunder {
namespace {

constexpr std::string_view kPrefix = "thunder-kernels-";  // of temporary folders
constexpr std::string_view kLetters = "XXXXXX";           // which mkdtemp() replaces

int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

std::string random_letters() {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz012345";
  std::random_device random;
  std::string out;
  for (int i = 0; i < 8; ++i) out += letters[random() % letters.size()];
  return out;
}

/// What this program puts into temporary folders; a folder with something else in it stays.
void remove_files_in(const Descriptor& folder) {
  for (const std::string& name : names_in(folder))
    if (name.starts_with("kernels.") || name == "log") ::unlinkat(folder.get(), name.c_str(), 0);
}

/// A process holds the lock of its folder until it ends, by whatever means.
bool lock(const Descriptor& folder, int how) { return ::flock(folder.get(), LOCK_EX | how) == 0; }

/// Removes the folders under `parent` that this user's killed processes left.
void remove_leftovers(const std::string& parent) {
  constexpr size_t kMostNames = 10000;  // where there are more, looking would take long
  const Descriptor above(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (const std::string& name : names_in(above, kMostNames)) {
    if (name.size() != kPrefix.size() + kLetters.size() || !name.starts_with(kPrefix)) continue;
    const Opened left = open_own_folder(above.get(), name);
    if (!left.file || !lock(left.file, LOCK_NB)) continue;
    remove_files_in(left.file);
    ::unlinkat(above.get(), name.c_str(), AT_REMOVEDIR);
  }
}

/// Whether `path` still is the open folder: another process may have taken it for one that was left.
bool is_still(const std::string& path, const Descriptor& folder) {
  struct stat by_path, by_descriptor;
  return ::lstat(path.c_str(), &by_path) == 0 && ::fstat(folder.get(), &by_descriptor) == 0 &&
         by_path.st_dev == by_descriptor.st_dev && by_path.st_ino == by_descriptor.st_ino;
}

}  // namespace

std::vector<std::string> names_in(const Descriptor& folder, size_t most) {
  std::vector<std::string> names;
  // A descriptor of its own, because reading moves the position, which copies of one share.
  const int fd = folder ? ::openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  DIR* dir = fd < 0 ? nullptr : ::fdopendir(fd);
  if (!dir) {
    if (fd >= 0) ::close(fd);
    return names;
  }
  while (const dirent* entry = names.size() < most ? ::readdir(dir) : nullptr)
    if (const std::string_view name = entry->d_name; name != "." && name != "..") names.emplace_back(name);
  ::closedir(dir);
  return names;
}

std::optional<std::string> read_file(const std::string& path, size_t limit) {
  return read_file(Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), limit);
}

std::optional<std::string> read_file(const Descriptor& file, size_t limit) {
  if (!file) return std::nullopt;
  struct stat info;
  // One byte more than the file has, so that the end shows without growing.  Files of /proc say 0.
  const size_t size =
      ::fstat(file.get(), &info) == 0 && info.st_size > 0 ? static_cast<size_t>(info.st_size) + 1 : 4096;
  std::string out(std::min(limit, size), '\0');
  size_t filled = 0;
  ssize_t n = 1;
  while (n != 0 && filled < limit) {
    if (filled == out.size()) out.resize(std::min(limit, 2 * filled));
    n = ::read(file.get(), out.data() + filled, out.size() - filled);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::nullopt;
    filled += static_cast<size_t>(n);
  }
  out.resize(filled);
  return out;
}

int write_file(const Descriptor& file, std::initializer_list<std::string_view> parts) {
  for (std::string_view part : parts)
    if (const int problem = write_all(file.get(), part)) return problem;
  return 0;
}

int replace_file(const Descriptor& folder, const std::string& name, std::initializer_list<std::string_view> parts) {
  std::string temporary;
  int fd = -1;
  do {
    temporary = name + "." + random_letters();
    fd = ::openat(folder.get(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  } while (fd < 0 && errno == EEXIST);
  if (fd < 0) return errno;
  Descriptor file(fd);
  int problem = write_file(file, parts);
  // Network file systems report a full disk here.
  if (const int late = file.close(); !problem) problem = late;
  if (!problem && ::renameat(folder.get(), temporary.c_str(), folder.get(), name.c_str()) != 0) problem = errno;
  if (problem) ::unlinkat(folder.get(), temporary.c_str(), 0);
  return problem;
}

int make_folders(const std::string& folder) {
  // A folder above the last one may exist and refuse in other ways (a read-only file system, an automount), so only the
  // last one decides; but the first refusal is the reason to tell.
  int reason = 0;
  for (size_t end = 0; end != std::string::npos;) {
    end = folder.find('/', end + 1);
    const bool there = ::mkdir(folder.substr(0, end).c_str(), 0700) == 0 || errno == EEXIST;
    if (!there && !reason) reason = errno;
    if (there && end == std::string::npos) return 0;
  }
  return reason;
}

PrivateFolder::PrivateFolder() {
  // std::filesystem::temp_directory_path() gives the working directory where $TMPDIR is none.
  const char* variable = std::getenv("TMPDIR");
  const std::string parent = variable && *variable ? variable : "/tmp";
  static std::atomic<uint64_t> looked{0};
  if (looked.exchange(fork_generation() + 1) != fork_generation() + 1) remove_leftovers(parent);
  do {
    path_ = cat(parent, "/", kPrefix, kLetters);
    if (!::mkdtemp(path_.data())) {
      problem_ = errno;
      return;
    }
    Opened opened = open_own_folder(AT_FDCWD, path_);
    problem_ = opened.error ? opened.error : opened.file ? 0 : EPERM;
    folder_ = std::move(opened.file);
    // Where a file system has no locks there are none for those who look for leftovers either.
    if (folder_) lock(folder_, 0);
    // Who looks for leftovers may take away what is not locked yet.
  } while (problem_ == ENOENT || (folder_ && !is_still(path_, folder_)));
}

PrivateFolder::~PrivateFolder() {
  if (!folder_) return;
  remove_files_in(folder_);
  ::rmdir(path_.c_str());
}

std::optional<std::string> PrivateFolder::read(const std::string& name) const {
  return read_file(Descriptor(::openat(folder_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC)));
}

}  // namespace thunder
