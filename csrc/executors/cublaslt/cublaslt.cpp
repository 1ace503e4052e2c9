#include "executors/cublaslt/cublaslt.h"

#include <ATen/Context.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/SmallVector.h>

#include <cstdint>

#include "core/error.h"
#include "core/warning.h"
#include "runtime/allocate.h"
#include "runtime/convert.h"
#include "runtime/implementing.h"
#include "runtime/instruction.h"
#include "runtime/kernels/cublaslt_product.h"
#include "runtime/kernels/cuda_driver.h"
#include "runtime/kernels/current_stream.h"
#include "runtime/watchers.h"

namespace thunder {
namespace {

using cublaslt::Operands;
using cublaslt::Product;

constexpr const char* kSymbols[] = {"torch.matmul", "torch.mm", "torch.linear", "prims.matmul"};

std::optional<MatrixProduct> product_of(const Op& op, const ArgList& args) {
  if (!args[0].is_tensor() || !args[1].is_tensor()) return std::nullopt;
  const TensorType &a = args[0].value().tensor(), &b = args[1].value().tensor();
  if (a.device.type != DeviceType::cuda || !(a.device == b.device) || (a.dtype != DType::bf16 && a.dtype != DType::f16))
    return std::nullopt;
  std::optional<MatrixProduct> p = matrix_product(a, b, op.full_name == "torch.linear");
  if (!p || args.size() < 3 || args[2].is_none()) return p;
  if (!args[2].is_tensor()) return std::nullopt;
  const TensorType& bias = args[2].value().tensor();
  const bool fits = bias.dtype == a.dtype && bias.shape.size() == 1 && bias.shape[0].is_constant() &&
                    bias.shape[0].constant() == p->m && bias.strides[0].is_constant() &&
                    (bias.strides[0].constant() == 1 || p->m == 1);
  if (!fits) return std::nullopt;
  p->bias = true;
  return p;
}

class ProductCall final : public Instruction {
 public:
  ProductCall(const Call& call, const Assembler& assembler)
      : product_(Product::get(*cublaslt::api(), *product_of(*call.op->implements, call.args))),
        by_aten_(call, assembler) {
    moves_operands = false;
    for (const Arg& a : call.args) operands.push_back(assembler.natural(a));
    const TensorType& out = call.output.value().tensor();
    for (const Dim& d : out.shape) sizes_.push_back(d.constant());
    for (const Dim& d : out.strides) strides_.push_back(d.constant());
    type_ = to_aten(out.dtype);
  }

  std::string str() const override { return "cublaslt " + by_aten_.str(); }
  bool can_accumulate() const override { return !has_bias(); }

  void run(Frame& frame) const override {
    const at::Tensor &a = tensor(frame, 0), &b = tensor(frame, 1);
    if (frame.watched || !is_plain(a) || !is_plain(b) || (has_bias() && !is_plain(tensor(frame, 2))))
      return by_aten_.run(*this, frame);
    const int device = a.device().index();
    const c10::OptionalDeviceGuard guard(a.device());
    Operands o{b.const_data_ptr(), a.const_data_ptr(), has_bias() ? tensor(frame, 2).const_data_ptr() : nullptr,
               nullptr};
    if (!aligned(o.first) || !aligned(o.second) || !aligned(o.bias)) return by_aten_.run(*this, frame);
    if (accumulated(frame, [&](const at::Tensor& sum) { return add_to(sum, device, o); })) return;
    at::Tensor out = allocate(c10::DeviceType::CUDA, sizes_, strides_, type_);
    o.out = out.mutable_data_ptr();
    if (std::string why = run_product(device, o); !why.empty()) {
      warn_once("cublaslt", cat("[cublaslt] a matrix product is left to PyTorch: ", why));
      return by_aten_.run(*this, frame);
    }
    if (!drops.empty()) drop(frame);
    if (outputs[0] >= 0) frame.registers[static_cast<size_t>(outputs[0])] = std::move(out);
  }

 private:
  static bool aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % cublaslt::kAlignment == 0; }
  static bool measures() { return !at::globalContext().deterministicAlgorithms(); }

  std::string run_product(int device, const Operands& o) const {
    at::Tensor memory;
    const auto workspace = [&](size_t bytes) {
      const auto size = static_cast<int64_t>(bytes);
      if (!memory.defined() || memory.numel() < size) memory = allocate(c10::DeviceType::CUDA, {size}, {1}, at::kByte);
      return memory.mutable_data_ptr();
    };
    return product_->run(device, current_cuda_stream(device), o, workspace, measures());
  }

  // The sum is kept in float32 and rounded once.
  bool add_to(const at::Tensor& sum, int device, Operands o) const {
    const bool fits = sum.scalar_type() == type_ && sum.device().index() == device && sum.is_cuda() &&
                      sum.sizes() == c10::IntArrayRef(sizes_) && sum.is_contiguous();
    if (!fits || !product_->ready(device, measures())) return false;
    o.out = sum.mutable_data_ptr();
    o.accumulate = true;
    return aligned(o.out) && run_product(device, o).empty();
  }

  static const at::Tensor& tensor(const Frame& frame, const Operand& o) { return frame.registers[o.reg].toTensor(); }
  const at::Tensor& tensor(const Frame& frame, size_t i) const { return tensor(frame, operands[i]); }
  bool has_bias() const { return operands.size() > 2 && operands[2].kind == Operand::Kind::Register; }

  std::shared_ptr<const Product> product_;
  const ByAten by_aten_;
  c10::SmallVector<int64_t, 5> sizes_, strides_;
  at::ScalarType type_ = at::kBFloat16;
};

class CublasLtExecutor final : public Executor {
 public:
  CublasLtExecutor() : Executor("cublaslt") {
    for (const char* symbol : kSymbols) {
      const Op* op = Registry::instance().find(symbol);
      THUNDER_ASSERT(op, "there is no operator ", symbol);
      Implementation i;
      i.op = &register_implementing_operator(*op, name(), name() + "_" + op->schema.name);
      i.checker = [](const Call& call) {
        return product_of(*call.op, call.args) && cublaslt::api() && cuda_available();
      };
      register_implementation(symbol, std::move(i));
    }
  }
};

}  // namespace

std::shared_ptr<Executor> make_cublaslt_executor() {
  register_lowering("cublaslt", [](const Call& call, const Assembler& assembler) -> std::unique_ptr<Instruction> {
    return std::make_unique<ProductCall>(call, assembler);
  });
  return std::make_shared<CublasLtExecutor>();
}

}  // namespace thunder
