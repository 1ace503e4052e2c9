#include "ops/families.h"

#include <mutex>

namespace thunder::ops {

// Each family's table stands in csrc/ops/<level>/<name>.cpp.
namespace prims {
std::span<const OpDef> control();
std::span<const OpDef> elementwise();
}  // namespace prims
namespace clang {
}  // namespace clang
namespace torch {
}  // namespace torch

namespace {

constexpr Family kFamilies[] = {
    {"prims", "control", prims::control},
    {"prims", "elementwise", prims::elementwise},
};

}  // namespace

std::span<const Family> families() { return kFamilies; }

void register_all() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const Family& f : kFamilies)
      for (const OpDef& def : f.records()) Registry::instance().add(f.level, def);
  });
}

}  // namespace thunder::ops
