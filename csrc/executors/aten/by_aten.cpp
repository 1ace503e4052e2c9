#include "executors/aten/by_aten.h"

#include "core/error.h"
#include "passes/executor.h"

namespace thunder {

ByAten::ByAten(const Call& call, const Assembler& assembler) {
  Call plain = call;
  plain.op = call.op->implements;
  const Implementation* aten = Executors::instance().find("aten")->find(plain);
  THUNDER_ASSERT(aten && aten->op, "no ATen operator for ", plain.op->full_name);
  plain.op = aten->op;
  aten_ = (*find_lowering("aten"))(plain, assembler);
}

void ByAten::run(const Instruction& instead_of, Frame& frame) const {
  std::call_once(prepared_, [&] {
    aten_->outputs = instead_of.outputs;
    aten_->drops = instead_of.drops;
    aten_->where = instead_of.where;
    if (aten_->can_accumulate()) aten_->adds_to = instead_of.adds_to;
  });
  aten_->run(frame);
}

}  // namespace thunder
