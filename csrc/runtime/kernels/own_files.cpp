#include "runtime/kernels/own_files.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <deque>
#include <vector>

#include "core/error.h"

namespace thunder {
namespace {

constexpr int kMostLinks = 40;  // Linux follows as many

/// Whether the group has the user's name and no other member, which is how many systems make users.  Access lists show
/// as rights of the group and could name others.
bool is_group_of_user(gid_t group, const std::string& path) {
  if (::lgetxattr(path.c_str(), "system.posix_acl_access", nullptr, 0) >= 0) return false;
  std::vector<char> group_text(1 << 16), user_text(1 << 16);
  struct group group_entry, *g = nullptr;
  struct passwd user_entry, *u = nullptr;
  if (::getgrgid_r(group, &group_entry, group_text.data(), group_text.size(), &g) != 0 || !g) return false;
  if (::getpwuid_r(::geteuid(), &user_entry, user_text.data(), user_text.size(), &u) != 0 || !u) return false;
  if (std::strcmp(g->gr_name, u->pw_name) != 0) return false;
  for (char** member = g->gr_mem; *member; ++member)
    if (std::strcmp(*member, u->pw_name) != 0) return false;
  return true;
}

/// Who may write besides the owner, by the mode alone.
std::string other_writers(const struct stat& info) {
  if (info.st_mode & S_IWOTH) return "everybody";
  return info.st_mode & S_IWGRP ? cat("group ", info.st_gid) : "";
}

/// The same for a folder; a group of the user alone is nobody else.
std::string other_writers(const struct stat& folder, const std::string& path) {
  if (!(folder.st_mode & S_IWOTH) && (folder.st_mode & S_IWGRP) && is_group_of_user(folder.st_gid, path)) return "";
  return other_writers(folder);
}

/// Empty, or why somebody else may have written it.
std::string refusal(const struct stat& info, const std::string& writers) {
  if (info.st_uid != ::geteuid()) return cat("it belongs to user ", info.st_uid);
  return writers.empty() ? "" : cat("it may be written by ", writers);
}

bool is_trusted_above(uid_t owner) {
  struct stat root;
  return owner == 0 || owner == ::geteuid() || (::stat("/", &root) == 0 && owner == root.st_uid);
}

std::deque<std::string> components_of(const std::string& path) {
  std::deque<std::string> out;
  for (size_t from = 0; from < path.size();) {
    const size_t end = std::min(path.find('/', from), path.size());
    if (end > from) out.push_back(path.substr(from, end - from));
    from = end + 1;
  }
  return out;
}

/// Goes along a path, link by link, and looks at every folder and link that decides where it leads.
class PathWalk {
 public:
  explicit PathWalk(const std::string& path) : rest_(components_of(path)) {
    if (!path.empty() && path[0] == '/') return;
    char here[PATH_MAX];
    if (::getcwd(here, sizeof here)) prepend(here);
    else fail(errno);
  }

  /// False, and `error` or `refused`, if there is no such folder or somebody else may replace it.
  bool run() {
    while (good() && !rest_.empty()) {
      check_folder();
      if (good()) step();
    }
    return good();
  }
  /// The one that was reached, without links.
  std::string path() const { return done_.empty() ? "/" : done_; }

  int error = 0;
  std::string refused;

 private:
  bool good() const { return !error && refused.empty(); }
  void fail(int problem) { error = problem; }
  void prepend(const std::string& path) {
    const std::deque<std::string> components = components_of(path);
    rest_.insert(rest_.begin(), components.begin(), components.end());
  }

  /// Who may put something else in the place of what lies in the folder that was reached.
  void check_folder() {
    const std::string folder = path();
    struct stat info;
    if (::lstat(folder.c_str(), &info) != 0) return fail(errno);
    if (!is_trusted_above(info.st_uid)) refused = cat(folder, " belongs to user ", info.st_uid);
    if (!refused.empty() || (info.st_mode & S_ISVTX)) return;
    if (const std::string writers = other_writers(info, folder); !writers.empty())
      refused = cat(folder, " may be written by ", writers);
  }

  void step() {
    const std::string name = std::move(rest_.front());
    rest_.pop_front();
    if (name == ".") return;
    if (name == "..") {
      done_.resize(done_.empty() ? 0 : done_.rfind('/'));
      return;
    }
    const std::string next = done_ + "/" + name;
    struct stat info;
    if (::lstat(next.c_str(), &info) != 0) return fail(errno);
    if (S_ISLNK(info.st_mode)) return follow(next, info);
    if (!S_ISDIR(info.st_mode)) return fail(ENOTDIR);
    done_ = next;
  }

  void follow(const std::string& link, const struct stat& info) {
    if (++links_ > kMostLinks) return fail(ELOOP);
    if (!is_trusted_above(info.st_uid)) {
      refused = cat("the link ", link, " belongs to user ", info.st_uid);
      return;
    }
    char target[PATH_MAX];
    const ssize_t n = ::readlink(link.c_str(), target, sizeof target);
    if (n < 0) return fail(errno);
    const std::string text(target, static_cast<size_t>(n));
    prepend(text);
    if (!text.empty() && text[0] == '/') done_.clear();
  }

  std::string done_;  // without links; empty: "/"
  std::deque<std::string> rest_;
  int links_ = 0;
};

/// Opens, and closes again what somebody else may have written.
template <class Writers>
Opened open_checked(int folder, const std::string& name, int flags, mode_t kind, Writers writers) {
  Opened out;
  out.file = Descriptor(::openat(folder, name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC));
  struct stat info;
  if (!out.file || ::fstat(out.file.get(), &info) != 0) out.error = errno;
  else if ((info.st_mode & S_IFMT) != kind) out.refused = "it is no regular file";
  else out.refused = refusal(info, writers(info));
  if (out.error || !out.refused.empty()) out.file = Descriptor();
  return out;
}

std::string by_mode(const struct stat& info) { return other_writers(info); }

}  // namespace

Descriptor::~Descriptor() { close(); }

int Descriptor::close() {
  const int fd = std::exchange(fd_, -1);
  return fd < 0 || ::close(fd) == 0 ? 0 : errno;
}

Opened open_own_folder(const std::string& path) {
  PathWalk walk(path);
  if (!walk.run()) return {Descriptor(), walk.error, walk.refused};
  const std::string found = walk.path();
  return open_checked(AT_FDCWD, found, O_RDONLY | O_DIRECTORY, S_IFDIR,
                      [&](const struct stat& info) { return other_writers(info, found); });
}

Opened open_own_folder(int parent, const std::string& name) {
  return open_checked(parent, name, O_RDONLY | O_DIRECTORY, S_IFDIR, by_mode);
}

Opened open_own_file(int folder, const std::string& name) {
  // A FIFO would be waited for, a terminal become the process's own.
  return open_checked(folder, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, S_IFREG, by_mode);
}

}  // namespace thunder
