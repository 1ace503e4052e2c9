#include "executors/plugin.h"

#include <dlfcn.h>

#include <fstream>
#include <iterator>
#include <map>
#include <string_view>

#include "core/error.h"

namespace thunder {
namespace {

// What the library says of itself; empty if it does not.
std::string built_for(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  THUNDER_CHECK(file, Import, "executors", "there is no file ", path);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t found = bytes.find(THUNDER_PLUGIN_MARK);
  if (found == std::string::npos) return {};
  return bytes.c_str() + found + std::string_view(THUNDER_PLUGIN_MARK).size();
}

using Define = void(ExecutorDefinition*);

struct Loaded {
  ExecutorDefinition definition;
  std::shared_ptr<Executor> executor;
};

}  // namespace

std::shared_ptr<Executor> load_executor(const std::string& path) {
  static std::map<void*, Loaded> all_loaded;
  const std::string theirs = built_for(path), ours = THUNDER_BUILT_FOR ", " THUNDER_CXX_LIBRARY;
  THUNDER_CHECK(!theirs.empty(), Import, "executors", path, " has no THUNDER_EXECUTOR");
  THUNDER_CHECK(theirs == ours, Import, "executors", path, " was built for ", theirs, ", and this is ", ours,
                ". Build it again");
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  THUNDER_CHECK(library, Import, "executors", "cannot load ", path, ": ", ::dlerror());
  Loaded& loaded = all_loaded[library];
  if (!loaded.executor) {
    auto* define = reinterpret_cast<Define*>(::dlsym(library, "thunder_executor"));
    THUNDER_CHECK(define, Import, "executors", path, " does not export thunder_executor");
    define(&loaded.definition);
    if (loaded.definition.make) loaded.executor = loaded.definition.make();
    THUNDER_CHECK(loaded.executor, Import, "executors", "the definition in ", path, " makes no executor");
  }
  register_executor(loaded.executor, loaded.definition);
  return loaded.executor;
}

}  // namespace thunder
