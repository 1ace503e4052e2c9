#include "executors/cublaslt/cublaslt.h"

#include <ATen/Context.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <cstdint>

#include "core/error.h"
#include "core/warning.h"
#include "executors/aten/by_aten.h"
#include "executors/implementing.h"
#include "runtime/allocate.h"
#include "runtime/convert.h"
#include "runtime/instruction.h"
#include "runtime/kernels/cublaslt_product.h"
#include "runtime/kernels/cuda_driver.h"
#include "runtime/kernels/current_stream.h"
#include "runtime/watchers.h"

namespace thunder {
namespace {

using cublaslt::CublasLtProduct;
using cublaslt::ProductOperands;

constexpr const char* kSymbols[] = {"torch.matmul", "torch.mm",        "torch.linear",
                                    "prims.matmul", "prims.matmul_as", "torch._scaled_mm"};

/// Places among the arguments; 0 for those that the operator does not have.
struct ArgumentPlaces {
  size_t bias = 0, first_scale = 0, second_scale = 0;
};
ArgumentPlaces places_of(const Op& op) {
  const auto at = [&](const char* name) { return static_cast<size_t>(std::max(op.schema.index_of(name), 0)); };
  return {at("bias"), at("scale_b"), at("scale_a")};
}

std::optional<MatrixProduct> float8_product(const Op& op, const ArgList& args) {
  const Args a(op, args);
  for (const char* scale : {"scale_a", "scale_b"})
    if (!a.tensor(scale).numel().same(1)) return std::nullopt;
  const DType out = a.has("out_dtype") ? a.dtype("out_dtype") : a.tensor("input").dtype;
  return thunder::float8_product(a.tensor("input"), a.tensor("mat2"), out, a.flag("use_fast_accum"));
}

std::optional<MatrixProduct> product_of(const Op& op, const ArgList& args) {
  if (!args[0].is_tensor() || !args[1].is_tensor()) return std::nullopt;
  const TensorType &a = args[0].value().tensor(), &b = args[1].value().tensor();
  if (a.device.type != DeviceType::cuda || !(a.device == b.device)) return std::nullopt;
  const bool scaled = op.full_name == "torch._scaled_mm";
  if (!scaled && a.dtype != DType::bf16 && a.dtype != DType::f16) return std::nullopt;
  std::optional<MatrixProduct> p =
      scaled ? float8_product(op, args) : matrix_product(a, b, op.full_name == "torch.linear");
  if (p && op.full_name == "prims.matmul_as") {
    if (Args(op, args).dtype("dtype") != DType::f32) return std::nullopt;
    p->wide = true;
  }
  const size_t at = places_of(op).bias;
  if (!p || at == 0 || args[at].is_none()) return p;
  if (!args[at].is_tensor()) return std::nullopt;
  const TensorType& bias = args[at].value().tensor();
  const bool fits = bias.dtype == p->dtype && bias.dtype != DType::f32 && bias.shape.size() == 1 &&
                    bias.shape[0].is_constant() && bias.shape[0].constant() == p->m && bias.strides[0].is_constant() &&
                    (bias.strides[0].constant() == 1 || p->m == 1);
  if (!fits) return std::nullopt;
  p->bias = true;
  return p;
}

class CublasLtProductCall final : public Instruction {
 public:
  CublasLtProductCall(const Call& call, const Assembler& assembler)
      : product_(CublasLtProduct::get(*cublaslt::api(), *product_of(*call.op->implements, call.args))),
        places_(places_of(*call.op->implements)),
        by_aten_(call, assembler) {
    moves_operands = false;
    for (const Arg& a : call.args) operands.push_back(assembler.natural(a));
    const TensorType& out = call.output.value().tensor();
    for (const Dim& d : out.shape) sizes_.push_back(d.constant());
    for (const Dim& d : out.strides) strides_.push_back(d.constant());
    type_ = to_aten(out.dtype);
  }

  std::string str() const override { return "cublaslt " + by_aten_.str(); }
  bool can_accumulate() const override { return !has(places_.bias); }

  void run(Frame& frame) const override {
    const at::Tensor &a = tensor(frame, 0), &b = tensor(frame, 1);
    if (frame.watched || !is_plain(a) || !is_plain(b) || !is_plain_at(frame, places_.bias) ||
        !is_plain_at(frame, places_.first_scale) || !is_plain_at(frame, places_.second_scale))
      return by_aten_.run(*this, frame);
    const int device = a.device().index();
    const c10::OptionalDeviceGuard guard(a.device());
    ProductOperands o{.first = b.const_data_ptr(),
                      .second = a.const_data_ptr(),
                      .bias = address(frame, places_.bias),
                      .first_scale = address(frame, places_.first_scale),
                      .second_scale = address(frame, places_.second_scale)};
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

  std::string run_product(int device, const ProductOperands& o) const {
    at::Tensor memory;
    const auto workspace = [&](size_t bytes) {
      const auto size = static_cast<int64_t>(bytes);
      if (!memory.defined() || memory.numel() < size) memory = allocate(c10::DeviceType::CUDA, {size}, {1}, at::kByte);
      return memory.mutable_data_ptr();
    };
    return product().run(device, current_cuda_stream(device), o, workspace, measures());
  }

  // As PyTorch's own products it leaves free what torch._C._set_sm_carveout_experimental() says.
  const CublasLtProduct& product() const {
    const int32_t left_free = at::globalContext()._SMCarveout_EXPERIMENTAL().value_or(0);
    MatrixProduct problem = product_->problem();
    if (left_free == problem.left_free) return *product_;
    problem.left_free = left_free;
    return *CublasLtProduct::get(*cublaslt::api(), problem);  // which keeps it
  }

  // The sum is kept in float32 and rounded once.
  bool add_to(const at::Tensor& sum, int device, ProductOperands o) const {
    const bool fits = sum.scalar_type() == type_ && sum.device().index() == device && sum.is_cuda() &&
                      sum.sizes() == c10::IntArrayRef(sizes_) && sum.is_contiguous();
    if (!fits || !product().ready(device, measures())) return false;
    o.out = sum.mutable_data_ptr();
    o.accumulate = true;
    return aligned(o.out) && run_product(device, o).empty();
  }

  static const at::Tensor& tensor(const Frame& frame, const Operand& o) { return frame.registers[o.reg].toTensor(); }
  const at::Tensor& tensor(const Frame& frame, size_t i) const { return tensor(frame, operands[i]); }
  // Of what may be no argument of the operator, or None.
  bool has(size_t place) const { return place > 0 && operands[place].kind == Operand::Kind::Register; }
  bool is_plain_at(const Frame& frame, size_t place) const { return !has(place) || is_plain(tensor(frame, place)); }
  const void* address(const Frame& frame, size_t place) const {
    return has(place) ? tensor(frame, place).const_data_ptr() : nullptr;
  }

  std::shared_ptr<const CublasLtProduct> product_;
  const ArgumentPlaces places_;
  const ByAten by_aten_;
  c10::SmallVector<int64_t, 5> sizes_, strides_;
  at::ScalarType type_ = at::kBFloat16;
};

class CublasLtExecutor final : public Executor {
 public:
  CublasLtExecutor() : Executor("cublaslt") {
    for (const char* symbol : kSymbols)
      register_implementation(symbol, implementing(symbol, name(), [](const Call& call) {
                                return product_of(*call.op, call.args) && cublaslt::api() && cuda_available();
                              }));
  }
  bool yields_vector_products() const override { return true; }
};

std::shared_ptr<Executor> make_cublaslt() {
  register_lowering("cublaslt", [](const Call& call, const Assembler& assembler) -> std::unique_ptr<Instruction> {
    return std::make_unique<CublasLtProductCall>(call, assembler);
  });
  return std::make_shared<CublasLtExecutor>();
}

}  // namespace

ExecutorDefinition cublaslt_executor() { return {.place = ExecutorPlace::Default, .rank = 50, .make = make_cublaslt}; }

}  // namespace thunder
