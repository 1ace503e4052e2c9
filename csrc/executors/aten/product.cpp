#include "executors/aten/product.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/mm.h>

#include <algorithm>

namespace thunder::aten {
namespace {

constexpr const char* kProducts[] = {"torch.matmul", "torch.mm", "prims.matmul"};

bool is_real_matrix(const Arg& a) {
  return a.is_tensor() && a.value().tensor().shape.size() == 2 && is_floating(a.value().tensor().dtype);
}

class AtenProductCall final : public Instruction {
 public:
  AtenProductCall() { moves_operands = false; }
  std::string str() const override { return "aten::mm"; }
  bool can_accumulate() const override { return true; }

  void run(Frame& frame) const override {
    const at::Tensor &a = frame.registers[operands[0].reg].toTensor(), &b = frame.registers[operands[1].reg].toTensor();
    if (accumulated(frame, [&](const at::Tensor& sum) { return add_product(sum, a, b); })) return;
    at::Tensor out = at::mm(a, b);
    if (!drops.empty()) drop(frame);
    if (outputs[0] >= 0) frame.registers[static_cast<size_t>(outputs[0])] = std::move(out);
  }
};

}  // namespace

// BLAS adds to a matrix that lies by row or by column without a copy.  PyTorch's own product of float16 on the CPU takes
// so long that nothing is gained, and for few terms it is slower if it adds.
bool add_product(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b) {
  if (sum.dim() != 2 || a.dim() != 2 || sum.size(0) != a.size(0) || sum.size(1) != b.size(1) ||
      sum.scalar_type() != a.scalar_type() || sum.device() != a.device() || !sum.is_non_overlapping_and_dense())
    return false;
  if (sum.is_cpu() && sum.scalar_type() == at::kHalf) return false;
  sum.addmm_(a, b);
  return true;
}

std::unique_ptr<Instruction> lower_product(const Op& op, const Call& call, const Assembler& assembler) {
  if (std::none_of(std::begin(kProducts), std::end(kProducts), [&](const char* p) { return op.full_name == p; }))
    return nullptr;
  if (!is_real_matrix(call.args[0]) || !is_real_matrix(call.args[1])) return nullptr;
  auto out = std::make_unique<AtenProductCall>();
  for (size_t i = 0; i < 2; ++i) out->operands.push_back(assembler.natural(call.args[i]));
  return out;
}

}  // namespace thunder::aten
