// Files for the kernel runtime: whole reads, atomic writes, private folders.  Problems are errno values, not
// exceptions.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/kernels/own_files.h"

namespace thunder {

/// The whole file, or its first `limit` bytes; nothing if it cannot be read.
std::optional<std::string> read_file(const std::string& path, size_t limit = SIZE_MAX);
std::optional<std::string> read_file(const Descriptor& file, size_t limit = SIZE_MAX);

/// Writes all of the `parts`, one after the other.  0 or an errno value.
int write_file(const Descriptor& file, std::initializer_list<std::string_view> parts);

/// Puts the `parts` into the file `name` of an open folder: readers see the old file or the new one, never a part.  Only
/// this user may read and write it.  0 or an errno value, and then nothing has changed.  While it is written there is a
/// file `name` with a dot and more behind it.
int replace_file(const Descriptor& folder, const std::string& name, std::initializer_list<std::string_view> parts);

/// What lies in an open folder, at most `most` names.
std::vector<std::string> names_in(const Descriptor& folder, size_t most = SIZE_MAX);

/// Makes `folder` and those above it, open to this user alone.  0 or an errno value.
int make_folders(const std::string& folder);

/// A new folder of this process under $TMPDIR or /tmp, removed with the files in it when the object goes.  The first one
/// of a process removes those that killed processes left.
class PrivateFolder {
 public:
  PrivateFolder();
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  /// 0, or the errno value of what kept it from being made.
  int problem() const { return problem_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  /// What this process or a program that it ran has written there.
  std::optional<std::string> read(const std::string& name) const;
  int write(const std::string& name, std::string_view bytes) const { return replace_file(folder_, name, {bytes}); }

 private:
  std::string path_;
  Descriptor folder_;  // locked, so that others see that the process lives
  int problem_ = 0;
};

}  // namespace thunder
