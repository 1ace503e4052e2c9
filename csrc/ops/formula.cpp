#include "ops/formula.h"

#include <algorithm>

#include "ops/common.h"
#include "ops/shape_common.h"

namespace thunder::ops {

Formula where(const Formula& condition, const Arg& x, const Arg& y) {
  return Formula(condition.b()("prims.where", condition, x, y));
}

Formula compute(Builder& b, const Arg& a) { return Formula(b, convert(b, a, compute_type(a.value().dtype()))); }

Formula as(const Formula& x, DType t) { return Formula(x.b(), convert(x.b(), x, t)); }

Arg store(const Formula& x, DType t) { return convert(x.b(), x, t); }

Formula sum(const Formula& x, const std::vector<int64_t>& dims) {
  return dims.empty() ? x : x.call("prims.sum", Arg(dims));
}

Formula amax(const Formula& x, const std::vector<int64_t>& dims) {
  return dims.empty() ? x : x.call("prims.amax", Arg(dims));
}

Formula spread(const Formula& reduced, const Dims& shape, const std::vector<int64_t>& dims) {
  if (dims.empty()) return reduced;
  return Formula(
      reduced.b()("prims.broadcast_in_dim", reduced, shape, Arg(other_dims(static_cast<int64_t>(shape.size()), dims))));
}

Formula spread_leading(const Formula& x, const Dims& shape) {
  int64_t rank = static_cast<int64_t>(shape.size()), own = x.expr().rank();
  if (rank == own) return x;
  return Formula(x.b()("prims.broadcast_in_dim", x, shape, Arg(range(rank - own, rank))));
}

Formula spread_channels(const Formula& x, const Dims& shape, int64_t dim) {
  if (shape.size() == 1) return x;
  return Formula(x.b()("prims.broadcast_in_dim", x, shape, Arg(std::vector<int64_t>{dim})));
}

Expr reshape(Builder& b, const Arg& a, const Dims& shape) {
  const TensorType& t = a.value().tensor();
  if (same(t.shape, shape)) return b.expr(a);
  return b(view_strides(t.shape, t.strides, shape) ? "prims.view" : "prims.reshape", a, shape);
}

Expr contiguous(Builder& b, const Arg& a) {
  if (is_contiguous(a.value().tensor())) return b.expr(a);
  return b("prims.clone", a, kw("memory_format", ConstantArg{"torch.contiguous_format"}));
}

Expr with_strides(const Expr& x, const Dims& strides) {
  return same(x.tensor().strides, strides) ? x : x.builder()("prims.restride", x, strides);
}

Expr as_result(const Expr& x, Value operand, const Dims& strides) {
  return with_strides(x.value() == operand ? x.builder()("prims.clone", x) : x, strides);
}

Arg laid_out_as(const ArgList& operands, const Expr& result) {
  std::vector<const Dims*> strides;
  for (const Arg& a : operands)
    if (a.is_tensor()) strides.push_back(&a.value().tensor().strides);
  return with_strides(result, elementwise_strides(result.shape(), strides)).arg();
}

Arg store_like(const Formula& x, DType t, const ArgList& operands) {
  return laid_out_as(operands, x.b().expr(store(x, t)));
}

Expr swap_last(const Expr& x) {
  std::vector<int64_t> order = range(0, x.rank());
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return x.builder()("torch.permute", x, Arg(order));
}

Expr torch_reshape(const Expr& x, const Dims& shape) {
  return same(x.shape(), shape) ? x : x.builder()("torch.reshape", x, shape);
}

std::vector<int64_t> other_dims(int64_t rank, const std::vector<int64_t>& dims) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < rank; ++i)
    if (std::find(dims.begin(), dims.end(), i) == dims.end()) out.push_back(i);
  return out;
}

std::vector<int64_t> range(int64_t begin, int64_t end) {
  std::vector<int64_t> out;
  for (int64_t i = begin; i < end; ++i) out.push_back(i);
  return out;
}

bool known_empty(const Dims& shape) {
  return std::any_of(shape.begin(), shape.end(), [](const Dim& d) { return d.is_constant() && d.constant() == 0; });
}

bool turned_out_empty(const Dims& shape) {
  const ShapeEnv* env = ShapeEnv::current();
  auto is_zero = [&](const Dim& d) {
    const std::vector<SymbolId> symbols = d.symbols();
    return !symbols.empty() &&
           (env->asks || std::all_of(symbols.begin(), symbols.end(), [&](SymbolId s) { return env->hint(s); })) &&
           d == 0;
  };
  return env && std::any_of(shape.begin(), shape.end(), is_zero);
}

bool convolution_is_channels_last(const TensorType& input, const TensorType& weight) {
  if (input.rank() == 5 && input.device.type == DeviceType::cpu && input.dtype != DType::f32)
    return false;  // only oneDNN's has it
  return suggests_channels_last(input) || suggests_channels_last(weight);
}

void check_floating(std::string_view op, std::string_view kernel, const Arg& a) {
  DType t = a.value().dtype();
  THUNDER_CHECK(is_floating(t) && !is_float8(t), NotImplemented, op, "\"", kernel, "\" not implemented for '",
                scalar_type_name(t), "'");
}

int64_t reduction_number(std::string_view op, const Arg& reduction) {
  const std::string& r = reduction.str();
  if (r == "none") return 0;
  if (r == "mean") return 1;
  if (r == "sum") return 2;
  THUNDER_CHECK(false, Value, op, r, " is not a valid value for reduction");
}

}  // namespace thunder::ops
