#include "executors/rows/operands.h"

#include <algorithm>

#include "runtime/watchers.h"

namespace thunder::rows {
namespace {

const at::Tensor& tensor(const Operand& o, const Frame& frame) { return frame.registers[o.reg].toTensor(); }
bool is_none(const Operand& o, const Frame& frame) {
  if (o.kind == Operand::Kind::Constant) return o.constant.isNone();
  return o.kind == Operand::Kind::Register && frame.registers[o.reg].isNone();
}
int64_t integer(const Operand& o, Frame& frame) { return o.load(frame).toScalar().toLong(); }

at::Tensor vector(const Operand& o, const Frame& frame) {
  return is_none(o, frame) ? at::Tensor() : tensor(o, frame).contiguous();
}

// The stride of the dimensions [0, count) as one; nothing if there is none.
std::optional<int64_t> one_stride(const at::Tensor& t, int64_t begin, int64_t end) {
  int64_t stride = 0, next = 0;
  for (int64_t d = end; d-- > begin;) {
    if (t.size(d) == 1) continue;
    if (next != 0 && t.stride(d) != next) return std::nullopt;
    if (next == 0) stride = t.stride(d);
    next = t.stride(d) * t.size(d);
  }
  return stride;
}

}  // namespace

GroupOperands::GroupOperands(const std::vector<Operand>& operands, Frame& frame)
    : index(tensor(operands[0], frame).contiguous()),
      groups(integer(operands[1], frame)),
      skips(operands[2].load(frame).toBool()) {}

SumOperands::SumOperands(const std::vector<Operand>& operands, Frame& frame)
    : a(tensor(operands[0], frame)),
      places(vector(operands[1], frame)),
      starts(vector(operands[2], frame)),
      weights(vector(operands[3], frame)),
      length(integer(operands[5], frame)),
      skips(operands[6].load(frame).toBool()) {
  const int64_t given = integer(operands[4], frame), dim = given < 0 ? given + a.dim() : given;
  for (int64_t d = dim + 1; d < a.dim(); ++d) inner *= a.size(d);
  const std::optional<int64_t> side = one_stride(a, dim + 1, a.dim());
  if (!side || (inner > 1 && *side != 1) || !one_stride(a, 0, dim)) a = a.contiguous();
  outer_stride = one_stride(a, 0, dim).value_or(0);
  for (int64_t d = 0; d < dim; ++d) outer *= a.size(d);
  slices = a.size(dim);
  slice_stride = a.stride(dim);
  segments = starts.defined() ? starts.numel() - 1 : places.numel() / length;
  shape = a.sizes().vec();
  shape[static_cast<size_t>(dim)] = segments;
}

bool all_plain(const std::vector<Operand>& operands, const Frame& frame) {
  return std::all_of(operands.begin(), operands.end(), [&](const Operand& o) {
    if (o.kind != Operand::Kind::Register || !frame.registers[o.reg].isTensor()) return true;
    return is_plain(frame.registers[o.reg].toTensor());
  });
}

}  // namespace thunder::rows
