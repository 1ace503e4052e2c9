// Files and folders that only this user can have written: what is read from them is loaded into the process.
//
// Everything is opened first and checked by its descriptor, and what lies in a folder is opened by the folder's
// descriptor, so that what was checked is what is read.  Links, devices and FIFOs are refused where a file or a folder is
// expected.
#pragma once

#include <string>
#include <utility>

namespace thunder {

/// An open file or folder; closed when the object goes.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  /// 0 or an errno value.
  int close();

 private:
  int fd_ = -1;
};

/// What an attempt to open gave: a descriptor, or one of the two reasons.
struct Opened {
  Descriptor file;
  int error = 0;        // an errno value
  std::string refused;  // who else may have written it: "it belongs to user 1000"
};

/// The folder `path`.  It must belong to this user and be writable by nobody else.
/// Nobody but this user and root may be able to put another folder in its place: each folder above it, and above each
/// link on the way, belongs to this user, to root or to the owner of "/", and is writable by its owner alone or sticky,
/// as /tmp is.  A group with the user's name and no other member counts as the user.
Opened open_own_folder(const std::string& path);
/// A folder in an open one.  It must belong to this user and be writable by its owner alone.
Opened open_own_folder(int parent, const std::string& name);
/// A regular file in an open folder, for reading, by the same rule.
Opened open_own_file(int folder, const std::string& name);

}  // namespace thunder
