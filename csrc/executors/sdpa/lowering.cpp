#include <memory>
#include <mutex>
#include <unordered_map>

#include "executors/aten/lowering.h"
#include "executors/sdpa/sdpa.h"

namespace thunder {

void register_sdpa_lowering() {
  register_lowering("sdpa", [](const Call& call, const Assembler& assembler) {
    static std::mutex mutex;
    static std::unordered_map<const Op*, std::unique_ptr<aten::Lowering>> lowerings;
    std::lock_guard lock(mutex);
    auto& lowering = lowerings[call.op];
    if (!lowering) lowering = std::make_unique<aten::Lowering>(*call.op);
    return lowering->lower(call, assembler);
  });
}

}  // namespace thunder
