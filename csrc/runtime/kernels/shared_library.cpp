#include "runtime/kernels/shared_library.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/error.h"
#include "runtime/kernels/files.h"

namespace thunder {
namespace {

/// A path of the open file under which nothing was loaded before: the loader takes a path that it knows for the library
/// that it loaded from there, and numbers of descriptors come again.  The number of the library stands in the path, in
/// binary, as "/" and "/.", which lead nowhere else.
std::string new_path_of(const Descriptor& file) {
  static std::atomic<uint64_t> libraries{0};
  std::string path = "/proc/self/fd";
  for (uint64_t n = ++libraries; n; n >>= 1) path += n & 1 ? "/." : "/";
  return cat(path, "/", file.get());
}

/// Null where there are no files in memory, where those may not be executed, and where there is no /proc.
void* load_from_memory(const std::string& bytes) {
  const Descriptor file(::memfd_create("thunder-kernels", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || write_file(file, {bytes}) != 0) return nullptr;
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) return nullptr;
  return ::dlopen(new_path_of(file).c_str(), RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

void* load_library(const std::string& bytes, std::string* error) {
  if (void* handle = load_from_memory(bytes)) return handle;
  const PrivateFolder folder;
  const std::string file = folder.file("kernels.so");
  int problem = folder.problem();
  if (!problem) problem = folder.write("kernels.so", bytes);
  if (problem) {
    *error = cat("cannot write a temporary file (", file, "): ", std::strerror(problem));
    return nullptr;
  }
  void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) *error = cat("cannot load the compiled kernels: ", ::dlerror());
  return handle;
}

std::string loaded_library(const std::string& name) {
  void* handle = ::dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (!handle) return "";
  link_map* map = nullptr;
  std::string path;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name) path = map->l_name;
  ::dlclose(handle);
  return path;
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::vector<std::string> files_in(const std::string& folder, const std::string& prefix) {
  std::vector<std::string> found;
  if (DIR* dir = ::opendir(folder.c_str())) {
    while (const dirent* entry = ::readdir(dir)) {
      const std::string name = entry->d_name;
      if (name.compare(0, prefix.size(), prefix) == 0) found.push_back(folder + "/" + name);
    }
    ::closedir(dir);
  }
  std::sort(found.begin(), found.end());
  return found;
}

bool file_exists(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0;
}

std::string file_identity(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return "";
  return cat(path.substr(path.rfind('/') + 1), " ", info.st_size, " ", info.st_mtime);
}

}  // namespace thunder
