#include "executors/aten/rows.h"

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/index.h>
#include <ATen/ops/index_add.h>
#include <ATen/ops/index_put.h>
#include <ATen/ops/index_select.h>

#include "executors/aten/own_functions.h"
#include "runtime/watchers.h"

namespace thunder::aten {
namespace {

constexpr int64_t kLeastElements = 16;  // of a row: for shorter ones looking at the numbers first costs too much

// Whether index_select() and index_add() take them: they know no negative numbers, and have other errors.
bool all_inside(const at::Tensor& rows, int64_t count) {
  const int64_t* data = rows.const_data_ptr<int64_t>();
  bool inside = true;
  for (int64_t i = 0, n = rows.numel(); i < n; ++i)
    inside &= static_cast<uint64_t>(data[i]) < static_cast<uint64_t>(count);
  return inside;
}

class AtenRowsCall final : public Instruction {
 public:
  explicit AtenRowsCall(bool adds) : adds_(adds) { moves_operands = false; }
  std::string str() const override { return adds_ ? "aten::index_put" : "aten::index"; }

  void run(Frame& frame) const override {
    const FunctionArgs args(operands, frame);
    const at::Tensor& t = args.tensor(0);
    const at::Tensor rows = args.element(1, 0).toTensor();
    const bool plain = rows.numel() != 0 && !frame.watched && is_plain(t) && is_plain(rows) && t.is_contiguous() &&
                       rows.is_contiguous() && (!adds_ || (is_plain(args.tensor(2)) && args.tensor(2).is_contiguous()));
    at::Tensor out = plain && all_inside(rows, t.size(0)) ? by_rows(args, t, rows) : by_elements(args, t, rows);
    if (!drops.empty()) drop(frame);
    if (outputs[0] >= 0) frame.registers[static_cast<size_t>(outputs[0])] = std::move(out);
  }

 private:
  at::Tensor by_rows(const FunctionArgs& args, const at::Tensor& t, const at::Tensor& rows) const {
    std::vector<int64_t> shape = t.sizes().vec();
    if (adds_) {
      shape[0] = rows.numel();
      return at::index_add(t, 0, rows.view(-1), args.tensor(2).view(shape));
    }
    shape.erase(shape.begin());
    shape.insert(shape.begin(), rows.sizes().begin(), rows.sizes().end());
    return at::index_select(t, 0, rows.view(-1)).view(shape);
  }
  at::Tensor by_elements(const FunctionArgs& args, const at::Tensor& t, const at::Tensor& rows) const {
    c10::List<std::optional<at::Tensor>> indices;
    indices.push_back(rows);
    return adds_ ? at::index_put(t, indices, args.tensor(2), true) : at::index(t, indices);
  }

  const bool adds_;
};

bool has_long_rows(const TensorType& t) {
  Dim elements = 1;
  for (size_t i = 1; i < t.shape.size(); ++i) elements *= t.shape[i];
  return !t.shape.empty() && elements.is_constant() && elements.constant() >= kLeastElements;
}

}  // namespace

std::unique_ptr<Instruction> lower_rows(const Op& op, const Call& call, const Assembler& assembler) {
  const bool adds = op.full_name == "prims.index_put";
  if (!adds && op.full_name != "prims.index") return nullptr;
  const TensorType& t = call.args[0].value().tensor();
  const ArgList& indices = call.args[1].items();
  if (t.device.type != DeviceType::cpu || !is_floating(t.dtype) || indices.size() != 1 || !indices[0].is_tensor())
    return nullptr;
  const TensorType& rows = indices[0].value().tensor();
  if (rows.dtype != DType::i64 || rows.shape.empty() || !has_long_rows(t)) return nullptr;
  if (adds) {
    if (t.dtype != DType::f32 && t.dtype != DType::f64) return nullptr;  // index_add() rounds the others once
    Dims shape = rows.shape;
    shape.insert(shape.end(), t.shape.begin() + 1, t.shape.end());
    const Dims& given = call.args[2].value().tensor().shape;
    if (!call.args[3].boolean() || !same(shape, given)) return nullptr;
  }
  auto out = std::make_unique<AtenRowsCall>(adds);
  for (const Arg& a : call.args) out->operands.push_back(assembler.natural(a));
  return out;
}

}  // namespace thunder::aten
