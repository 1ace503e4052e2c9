#include "runtime/kernels/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace thunder {
namespace {

int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

}  // namespace

std::optional<std::string> read_file(const std::string& path, size_t limit) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  struct stat info;
  // One byte more than the file has, so that the end shows without growing.  Files of /proc say 0.
  const size_t size = ::fstat(fd, &info) == 0 && info.st_size > 0 ? static_cast<size_t>(info.st_size) + 1 : 4096;
  std::string out(std::min(limit, size), '\0');
  size_t filled = 0;
  ssize_t n = 1;
  while (n != 0 && filled < limit) {
    if (filled == out.size()) out.resize(std::min(limit, 2 * filled));
    n = ::read(fd, out.data() + filled, out.size() - filled);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    filled += static_cast<size_t>(n);
  }
  ::close(fd);
  if (n < 0) return std::nullopt;
  out.resize(filled);
  return out;
}

int replace_file(const std::string& path, std::initializer_list<std::string_view> parts) {
  std::string temporary = path + ".XXXXXX";
  const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return errno;
  int problem = 0;
  for (std::string_view part : parts)
    if (!problem) problem = write_all(fd, part);
  // Network file systems report a full disk here.
  if (::close(fd) != 0 && !problem) problem = errno;
  if (!problem && std::rename(temporary.c_str(), path.c_str()) != 0) problem = errno;
  if (problem) ::unlink(temporary.c_str());
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
  const char* parent = std::getenv("TMPDIR");
  path_ = std::string(parent && *parent ? parent : "/tmp") + "/thunder-XXXXXX";
  if (!::mkdtemp(path_.data())) problem_ = errno;
}

PrivateFolder::~PrivateFolder() {
  if (problem_) return;
  if (DIR* dir = ::opendir(path_.c_str())) {
    while (const dirent* entry = ::readdir(dir)) ::unlink(file(entry->d_name).c_str());
    ::closedir(dir);
  }
  ::rmdir(path_.c_str());
}

}  // namespace thunder
