#include "runtime/kernels/nvrtc_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>
#include <vector>

#include "core/error.h"
#include "runtime/kernels/shared_library.h"

namespace thunder {
namespace {

constexpr const char* kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"};

std::string nvrtc_in(const std::string& folder) {
  for (const char* name : kNames)
    if (const std::string file = cat(folder, "/", name); file_exists(file)) return file;
  return "";
}

/// The folders where the wheels of PyTorch and of NVIDIA put it.
std::vector<std::string> folders_beside_torch() {
  std::string torch;
  for (const char* library : {"libc10.so", "libtorch_cpu.so", "libtorch.so"})
    if (torch.empty()) torch = loaded_library(library);
  if (torch.empty()) return {};
  const std::string lib = folder_of(torch), packages = lib + "/../..";
  return {packages + "/nvidia/cu13/lib", packages + "/nvidia/cuda_nvrtc/lib", lib};
}

std::string search(std::string* why_not) {
  if (const char* own = std::getenv("THUNDER_NVRTC"); own && *own) {
    if (file_exists(own)) return own;
    *why_not = cat("no NVRTC: THUNDER_NVRTC is ", own, ", which does not exist");
    return "";
  }
  // PyTorch's own choice first: another release beside it would be a second copy in the process.
  for (const char* name : kNames)
    if (std::string file = loaded_library(name); !file.empty()) return file;
  const std::vector<std::string> folders = folders_beside_torch();
  for (const std::string& folder : folders)
    if (std::string file = nvrtc_in(folder); !file.empty()) return file;
  // Where the loader looks can only be learned by loading.
  for (const char* name : kNames)
    if (::dlopen(name, RTLD_NOW | RTLD_LOCAL)) return loaded_library(name);
  for (const char* toolkit : {"/usr/local/cuda/lib64", "/usr/local/cuda/lib"})
    if (std::string file = nvrtc_in(toolkit); !file.empty()) return file;
  *why_not = cat("no NVRTC: looked for ", kNames[0], " and ", kNames[1], " in this process, in ",
                 folders.empty() ? "no folder of PyTorch (it is not loaded)" : join(folders),
                 ", on the loader's path and in /usr/local/cuda");
  return "";
}

/// NVRTC opens its builtins by name only, which fails unless they are in the process already: their folder is on
/// nobody's search path.
void load_builtins(const std::string& folder, int major, int minor) {
  const std::string exact = cat(folder, "/libnvrtc-builtins.so.", major, ".", minor);
  if (file_exists(exact) && ::dlopen(exact.c_str(), RTLD_NOW | RTLD_LOCAL)) return;
  for (const std::string& file : files_in(folder, "libnvrtc-builtins"))
    if (file.find(".alt.") == std::string::npos) ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
}

// Empty, or the name of a function that the library does not have.
std::string resolve_all(void* library, NvrtcApi& api) {
  Functions functions{library, ""};
  functions.find("nvrtcVersion", api.version);
  functions.find("nvrtcCreateProgram", api.create);
  functions.find("nvrtcCompileProgram", api.compile);
  functions.find("nvrtcGetCUBINSize", api.cubin_size);
  functions.find("nvrtcGetCUBIN", api.cubin);
  functions.find("nvrtcGetProgramLogSize", api.log_size);
  functions.find("nvrtcGetProgramLog", api.log);
  functions.find("nvrtcDestroyProgram", api.destroy);
  functions.find("nvrtcGetErrorString", api.error_string);
  return functions.missing;
}

const NvrtcApi* load(const std::string& file, std::string* why_not) {
  void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    *why_not = cat("cannot load NVRTC: ", ::dlerror());
    return nullptr;
  }
  static NvrtcApi api;
  if (const std::string missing = resolve_all(handle, api); !missing.empty()) {
    *why_not = cat("NVRTC has no function ", missing);
    return nullptr;
  }
  int major = 0, minor = 0;
  api.version(&major, &minor);
  load_builtins(folder_of(file), major, minor);
  return &api;
}

std::mutex mutex;

}  // namespace

std::string find_nvrtc(std::string* why_not) {
  // Only what was found is remembered: PyTorch may be imported later.
  static auto* found = new std::string;
  std::lock_guard lock(mutex);
  if (found->empty()) *found = search(why_not);
  return *found;
}

const NvrtcApi* load_nvrtc(std::string* why_not) {
  static const NvrtcApi* loaded = nullptr;
  const std::string file = find_nvrtc(why_not);
  if (file.empty()) return nullptr;
  std::lock_guard lock(mutex);
  if (!loaded) loaded = load(file, why_not);
  return loaded;
}

}  // namespace thunder
