// Primitives that steer the program rather than compute: what the runtime and the printer know by name.
#include "core/op.h"
#include "ops/common.h"

namespace thunder::ops::prims {
namespace {

Types no_results(const Args&) { return {}; }

constexpr OpDef kRecords[] = {
    {.schema = "python_del(any[] values) -> None",
     .doc = "Ends the life of values: printed as `del a, b`; the runtime drops their registers.",
     .tags = kInput | kNoGrad,
     .meta = no_results},
};

}  // namespace

Records control() { return kRecords; }

}  // namespace thunder::ops::prims
