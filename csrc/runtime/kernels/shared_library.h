// Libraries that are looked for while the program runs.
#pragma once

#include <dlfcn.h>

#include <string>
#include <vector>

namespace thunder {

/// The file of a library that this process has loaded, by its name ("libc10.so"); empty if it has not.
std::string loaded_library(const std::string& name);

/// Loads a library that stands in memory, from a file of its own that nobody can open or change: a handle for dlsym() and
/// dlclose(), or null and `error`.
void* load_library(const std::string& bytes, std::string* error);

/// The functions of a library that is open.
struct Functions {
  void* library;
  std::string missing;  ///< the first that it does not have

  template <class F>
  void find(const char* name, F*& function) {
    function = reinterpret_cast<F*>(::dlsym(library, name));
    if (!function && missing.empty()) missing = name;
  }
};

std::string folder_of(const std::string& path);
/// The files of `folder` whose names begin with `prefix`, sorted.
std::vector<std::string> files_in(const std::string& folder, const std::string& prefix);
bool file_exists(const std::string& path);
/// Changes when the file is another one: name, size and time of its last change.  Empty if there is none.
std::string file_identity(const std::string& path);

}  // namespace thunder
