// Files for the kernel runtime: whole reads, atomic writes, private folders.  Problems are errno values, not
// exceptions.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace thunder {

/// The whole file, or its first `limit` bytes; nothing if it cannot be read.
std::optional<std::string> read_file(const std::string& path, size_t limit = SIZE_MAX);

/// Puts the `parts`, one after the other, where `path` says: readers see the old file or the new one, never a part.
/// 0 or an errno value, and then nothing has changed.
int replace_file(const std::string& path, std::initializer_list<std::string_view> parts);

/// Makes `folder` and those above it, open to this user alone.  0 or an errno value.
int make_folders(const std::string& folder);

/// A new folder of this process under $TMPDIR or /tmp, removed with the files in it when the object goes.
class PrivateFolder {
 public:
  PrivateFolder();
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  /// 0, or the errno value of what kept it from being made.
  int problem() const { return problem_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  int problem_ = 0;
};

}  // namespace thunder
