// An executor in C++ outside of the tree: a shared library, which `thunder.executors.load()` loads.
//
// The library is written like a folder of csrc/executors, against the installed headers (CMake: Thunder::thunder), and
// names its definition once:
//
//   ExecutorDefinition mine_executor() { return {.place = ExecutorPlace::Default, .rank = 45, .make = make_mine}; }
//   THUNDER_EXECUTOR(mine_executor);
#pragma once

#include <memory>
#include <string>

#include "executors/built_for.h"
#include "executors/definition.h"

#define THUNDER_PLUGIN_TEXT_OF(x) #x
#define THUNDER_PLUGIN_TEXT(x) THUNDER_PLUGIN_TEXT_OF(x)

// What decides whether objects of the C++ library may cross between two libraries.  g++ and clang agree about the rest.
#ifdef __GLIBCXX__
#define THUNDER_CXX_LIBRARY "libstdc++ with _GLIBCXX_USE_CXX11_ABI=" THUNDER_PLUGIN_TEXT(_GLIBCXX_USE_CXX11_ABI)
#else
#define THUNDER_CXX_LIBRARY "another C++ library than libstdc++"
#endif

// The mark stands in the file of the library, so that the text behind it is compared before any code of the library
// runs.
#define THUNDER_PLUGIN_MARK "thunder executor, built for: "

#define THUNDER_EXECUTOR(definition)                                                                               \
  extern "C" __attribute__((visibility("default"), used)) const char thunder_executor_built_for[] =                \
      THUNDER_PLUGIN_MARK THUNDER_BUILT_FOR ", " THUNDER_CXX_LIBRARY;                                              \
  extern "C" __attribute__((visibility("default"))) void thunder_executor(::thunder::ExecutorDefinition* result) { \
    *result = definition();                                                                                        \
  }                                                                                                                \
  static_assert(true)

namespace thunder {

/// Loads the library at `path` and registers its executor.  The same library again gives the same executor.  Error
/// (Import) if it is no such library, was built for another Thunder, PyTorch or C++ library, or has a name of Thunder's
/// own.
std::shared_ptr<Executor> load_executor(const std::string& path);

}  // namespace thunder
