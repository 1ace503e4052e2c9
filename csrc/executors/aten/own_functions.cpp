#include "executors/aten/own_functions.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_reshape_copy.h>
#include <ATen/ops/_to_copy.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/cumprod.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/native_dropout.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/permute.h>
#include <ATen/ops/prod.h>
#include <ATen/ops/slice.h>
#include <ATen/ops/squeeze.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/var.h>
#include <ATen/ops/view.h>

#include <algorithm>
#include <unordered_map>

#include "core/error.h"
#include "executors/aten/float8.h"
#include "executors/aten/random.h"
#include "executors/aten/recurrent.h"
#include "executors/aten/segments.h"
#include "runtime/convert.h"

namespace thunder::aten {

bool FunctionArgs::is_none(size_t i) const {
  const Operand& o = operands_[i];
  if (o.kind == Operand::Kind::Constant) return o.constant.isNone();
  return o.kind == Operand::Kind::Register && frame_.registers[o.reg].isNone();
}

bool FunctionArgs::is_tensor(size_t i) const {
  const Operand& o = operands_[i];
  return o.kind == Operand::Kind::Register && frame_.registers[o.reg].isTensor();
}

Ints FunctionArgs::ints(size_t i) const {
  const Operand& o = operands_[i];
  if (o.kind == Operand::Kind::Constant) return Ints(o.ints.begin(), o.ints.end());
  Ints out;
  for (const Operand& item : o.items) out.push_back(item.load(frame_).toScalar().toLong());
  return out;
}

size_t FunctionArgs::length(size_t i) const {
  const Operand& o = operands_[i];
  return o.kind == Operand::Kind::List ? o.items.size() : o.ints.size();
}

c10::IValue FunctionArgs::element(size_t i, size_t j) const {
  const Operand& o = operands_[i];
  return o.kind == Operand::Kind::List ? o.items[j].load(frame_) : c10::IValue(o.ints[j]);
}

namespace {

// ---- views ----------------------------------------------------------------------------------------------------------

c10::IValue slice(const FunctionArgs& a) {
  Ints start = a.ints(1), end = a.ints(2), step = a.is_none(3) ? Ints() : a.ints(3);
  at::Tensor t = a.tensor(0);
  for (size_t d = 0; d < start.size(); ++d) {
    int64_t s = step.empty() ? 1 : step[d];
    if (start[d] == 0 && end[d] == t.size(static_cast<int64_t>(d)) && s == 1) continue;
    t = at::slice(t, static_cast<int64_t>(d), start[d], end[d], s);
  }
  // A view of its own even where nothing is cut off.
  return t.is_same(a.tensor(0)) ? t.as_strided(t.sizes(), t.strides()) : t;
}

c10::IValue broadcast_in_dim(const FunctionArgs& a) {
  const at::Tensor& t = a.tensor(0);
  Ints shape = a.ints(1), dims = a.ints(2);
  Ints strides(shape.size(), 0);
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t n = t.size(static_cast<int64_t>(i));
    int64_t target = shape[static_cast<size_t>(dims[i])];
    THUNDER_CHECK(n == target || n == 1, Runtime, "broadcast_in_dim", "a dimension of size ", n,
                  " does not broadcast to ", target);
  }
  // As in the primitive's meta: a new dimension of size 1 gets the stride that eager's unsqueeze and expand give it.
  size_t next = dims.size();
  for (size_t d = shape.size(); d-- > 0;) {
    if (next > 0 && dims[next - 1] == static_cast<int64_t>(d)) {
      --next;
      strides[d] = t.size(static_cast<int64_t>(next)) == shape[d] ? t.stride(static_cast<int64_t>(next)) : 0;
    } else if (shape[d] == 1 && !a.value(3).toBool()) {
      strides[d] = d + 1 == shape.size() ? 1 : shape[d + 1] * strides[d + 1];
    }
  }
  return t.as_strided(shape, strides);
}

c10::IValue transpose(const FunctionArgs& a) { return a.tensor(0).permute(a.ints(1)); }
c10::IValue view(const FunctionArgs& a) { return a.tensor(0).view(a.ints(1)); }
c10::IValue squeeze(const FunctionArgs& a) { return a.tensor(0).squeeze(a.ints(1)); }
c10::IValue reshape_copy(const FunctionArgs& a) { return at::_reshape_copy(a.tensor(0), a.ints(1)); }

// The value of `data`.
c10::IValue graft(const FunctionArgs& a) { return a.tensor(1); }

// As eager's dropout draws: the order of the draws follows the layout.
c10::IValue bernoulli_like(const FunctionArgs& a) {
  at::Tensor out = at::empty_like(a.tensor(0));
  return out.bernoulli_(a.value(1).toScalar().toDouble());
}

// By the whole operator: the order of the draws follows the dtype and the layout.
c10::IValue dropout_mask_like(const FunctionArgs& a) {
  const double p = a.value(1).toScalar().toDouble();
  return std::get<1>(at::native_dropout(a.tensor(0), p, true));
}

c10::IValue restride(const FunctionArgs& a) {
  const at::Tensor& t = a.tensor(0);
  at::Tensor out = at::empty_strided(t.sizes(), a.ints(1), t.options());
  return out.copy_(t);
}

c10::IValue copy_data(const FunctionArgs& a) {
  at::NoGradGuard no_grad;
  at::Tensor to = a.tensor(0);
  (a.value(2).toBool() ? to : to.variable_data()).copy_(a.tensor(1));
  return to;
}

c10::IValue set_data(const FunctionArgs& a) {
  a.tensor(0).set_data(a.tensor(1));
  return a.tensor(0);
}

// With the tensor's own strides, gaps included, unless elements share a place.
at::Tensor copy_with_gaps(const at::Tensor& t) {
  bool overlaps = false;
  for (int64_t d = 0; d < t.dim(); ++d) overlaps |= t.stride(d) == 0 && t.size(d) > 1;
  return overlaps ? t.clone() : at::empty_strided(t.sizes(), t.strides(), t.options()).copy_(t);
}

// PyTorch's asserts that the tensor is contiguous if it requires grad, which those of the program may.
c10::IValue as_strided_scatter(const FunctionArgs& a) {
  at::Tensor out = copy_with_gaps(a.tensor(0).detach());
  const int64_t offset = a.is_none(4) ? 0 : a.value(4).toInt() - a.tensor(0).storage_offset();
  out.as_strided(a.ints(2), a.ints(3), offset).copy_(a.tensor(1));
  return out;
}

at::Tensor write_slice(const FunctionArgs& a, at::Tensor out) {
  Ints start = a.ints(2), end = a.ints(3), step = a.is_none(4) ? Ints() : a.ints(4);
  at::Tensor part = out;
  for (size_t d = 0; d < start.size(); ++d)
    part = at::slice(part, static_cast<int64_t>(d), start[d], end[d], step.empty() ? 1 : step[d]);
  part.copy_(a.tensor(1));
  return out;
}

c10::IValue slice_scatter(const FunctionArgs& a) { return write_slice(a, copy_with_gaps(a.tensor(0))); }
c10::IValue slice_scatter_in_place(const FunctionArgs& a) { return write_slice(a, a.tensor(0)); }

// Per dimension (low, high, interior).
c10::IValue pad(const FunctionArgs& a) {
  at::Tensor t = a.tensor(0);
  at::Scalar value = a.scalar(1);
  size_t rank = a.length(2);
  Ints low_high(2 * rank, 0);  // ATen wants the last dimension first
  Ints spread(t.sizes().begin(), t.sizes().end()), step(rank, 1);
  bool interior = false;
  for (size_t d = 0; d < rank; ++d) {
    auto config = a.element(2, d).toIntVector();
    low_high[2 * (rank - 1 - d)] = config[0];
    low_high[2 * (rank - 1 - d) + 1] = config[1];
    if (config[2] == 0 || spread[d] == 0) continue;
    interior = true;
    step[d] = config[2] + 1;
    spread[d] = (spread[d] - 1) * step[d] + 1;
  }
  if (interior) {
    at::Tensor wide = at::full(spread, value, t.options());
    at::Tensor places = wide;
    for (size_t d = 0; d < rank; ++d) places = at::slice(places, static_cast<int64_t>(d), 0, spread[d], step[d]);
    places.copy_(t);
    t = wide;
  }
  return at::constant_pad_nd(t, low_high, value).contiguous();
}

// ---- reductions: an empty list of dims reduces nothing, where ATen would reduce everything --------------------------

c10::IValue sum(const FunctionArgs& a) {
  Ints dims = a.ints(1);
  if (dims.empty()) return a.tensor(0).clone();
  return at::sum(a.tensor(0), dims, false, a.tensor(0).scalar_type());
}

c10::IValue amax(const FunctionArgs& a) {
  Ints dims = a.ints(1);
  return dims.empty() ? a.tensor(0).clone() : at::amax(a.tensor(0), dims);
}

c10::IValue amin(const FunctionArgs& a) {
  Ints dims = a.ints(1);
  return dims.empty() ? a.tensor(0).clone() : at::amin(a.tensor(0), dims);
}

Ints descending(Ints dims, int64_t rank) {
  for (int64_t& d : dims) d = d < 0 ? d + rank : d;
  std::sort(dims.begin(), dims.end(), std::greater<>());
  return dims;
}

// maximum() of a number makes a tensor of it, which ATen walks over element by element beside one with gaps.
c10::IValue extremum(const FunctionArgs& a, at::Tensor (*of_two)(const at::Tensor&, const at::Tensor&),
                     at::Tensor (*of_number)(const at::Tensor&, const at::Scalar&)) {
  if (a.is_tensor(0) && a.is_tensor(1)) return of_two(a.tensor(0), a.tensor(1));
  const size_t tensor = a.is_tensor(0) ? 0 : 1;
  const at::Tensor& t = a.tensor(tensor);
  const at::Scalar number = a.scalar(1 - tensor);
  return t.scalar_type() == at::kBool ? of_two(t, wrapped_number(number)) : of_number(t, number);
}

c10::IValue maximum(const FunctionArgs& a) { return extremum(a, at::maximum, at::clamp_min); }
c10::IValue minimum(const FunctionArgs& a) { return extremum(a, at::minimum, at::clamp_max); }

c10::IValue prod(const FunctionArgs& a) {
  at::Tensor t = a.tensor(0);
  Ints dims = a.ints(1);
  if (dims.empty()) return t.clone();
  for (int64_t d : descending(dims, t.dim())) t = at::prod(t, d, false, t.scalar_type());
  return t;
}

c10::IValue any(const FunctionArgs& a) {
  at::Tensor t = a.tensor(0);
  Ints dims = a.ints(1);
  if (dims.empty()) return at::_to_copy(t, at::kBool);
  for (int64_t d : descending(dims, t.dim())) t = t.any(d);
  return t;
}

c10::IValue all(const FunctionArgs& a) {
  at::Tensor t = a.tensor(0);
  Ints dims = a.ints(1);
  if (dims.empty()) return at::_to_copy(t, at::kBool);
  for (int64_t d : descending(dims, t.dim())) t = t.all(d);
  return t;
}

c10::IValue var(const FunctionArgs& a) {
  Ints dims = a.ints(1);
  at::Scalar correction = a.scalar(2);
  if (dims.empty()) return at::var(a.tensor(0).unsqueeze(-1), at::IntArrayRef{-1}, correction);
  return at::var(a.tensor(0), at::IntArrayRef(dims), correction);
}

// In the tensor's own dtype, where ATen would take 64 bits for integers.
c10::IValue cumsum(const FunctionArgs& a) { return at::cumsum(a.tensor(0), a.integer(1), a.tensor(0).scalar_type()); }
c10::IValue cumprod(const FunctionArgs& a) { return at::cumprod(a.tensor(0), a.integer(1), a.tensor(0).scalar_type()); }

// ---- creation, conversion -------------------------------------------------------------------------------------------

at::TensorOptions options(const FunctionArgs& a, size_t dtype, size_t device) {
  return at::TensorOptions().dtype(a.value(dtype).toScalarType()).device(a.value(device).toDevice());
}

c10::IValue iota(const FunctionArgs& a) {
  int64_t n = a.integer(0);
  at::Scalar start = a.scalar(1), step = a.scalar(2);
  if (start.isIntegral(true) && step.isIntegral(true))
    return at::arange(start, start.toLong() + n * step.toLong(), step, options(a, 3, 4));
  // The end half a step further: rounding must not change the number of elements.
  const double steps = n > 0 ? static_cast<double>(n) - 0.5 : 0;
  return at::arange(start, start.toDouble() + steps * step.toDouble(), step, options(a, 3, 4));
}

void collect_numbers(const c10::IValue& v, size_t depth, std::vector<int64_t>& shape, std::vector<at::Scalar>& out) {
  if (!v.isList() && !v.isIntList()) {
    out.push_back(v.isTensor() ? v.toTensor().item() : v.toScalar());
    return;
  }
  auto items = v.toList();
  if (shape.size() <= depth) shape.push_back(static_cast<int64_t>(items.size()));
  THUNDER_CHECK(shape[depth] == static_cast<int64_t>(items.size()), Value, "tensor", "expected sequence of length ",
                shape[depth], " at dim ", depth, " (got ", items.size(), ")");
  for (const c10::IValue& item : items.vec()) collect_numbers(item, depth + 1, shape, out);
}

template <class T, class F>
at::Tensor filled(const std::vector<int64_t>& shape, at::ScalarType type, const std::vector<at::Scalar>& numbers,
                  F&& get) {
  at::Tensor t(at::detail::empty_cpu(shape, type));  // without the dispatcher: a mode would give another kind of tensor
  T* p = t.mutable_data_ptr<T>();
  for (size_t i = 0; i < numbers.size(); ++i) p[i] = static_cast<T>(get(numbers[i]));
  return t;
}

c10::IValue tensor_from_sequence(const FunctionArgs& a) {
  std::vector<int64_t> shape;
  std::vector<at::Scalar> numbers;
  collect_numbers(a.value(0), 0, shape, numbers);
  at::ScalarType type = a.value(1).toScalarType();
  at::Tensor t;
  if (at::isComplexType(type))
    t = filled<c10::complex<double>>(shape, at::kComplexDouble, numbers,
                                     [](const at::Scalar& s) { return s.toComplexDouble(); });
  else if (at::isFloatingType(type))
    t = filled<double>(shape, at::kDouble, numbers, [](const at::Scalar& s) { return s.toDouble(); });
  else t = filled<int64_t>(shape, at::kLong, numbers, [](const at::Scalar& s) { return s.toLong(); });
  return at::_to_copy(t, options(a, 1, 2));
}

// ---- conversions ----------------------------------------------------------------------------------------------------

// In one launch where PyTorch can.
c10::IValue convert_element_types(const FunctionArgs& a) {
  const at::ScalarType type = a.value(1).toScalarType();
  std::vector<at::Tensor> from, to;
  for (size_t i = 0; i < a.length(0); ++i) {
    from.push_back(a.element(0, i).toTensor());
    to.push_back(at::empty_like(from.back(), from.back().options().dtype(type)));
  }
  at::_foreach_copy_(to, from);
  return to;
}

c10::IValue gelu_slope(const FunctionArgs& a) { return at::gelu_backward(at::ones_like(a.tensor(0)), a.tensor(0)); }

c10::IValue matmul_as(const FunctionArgs& a) {
  return at::_to_copy(at::matmul(a.tensor(0), a.tensor(1)), at::TensorOptions(a.value(2).toScalarType()));
}

// ---- numbers --------------------------------------------------------------------------------------------------------

c10::IValue size(const FunctionArgs& a) { return a.tensor(0).size(a.integer(1)); }

c10::IValue item(const FunctionArgs& a) { return a.tensor(0).item(); }

const std::unordered_map<std::string, OwnFunction>& own_functions() {
  static const std::unordered_map<std::string, OwnFunction> table = {
      {"prims.convert_element_types", convert_element_types},
      {"prims.gelu_slope", gelu_slope},
      {"prims.matmul_as", matmul_as},
      {"prims.slice", slice},
      {"prims.broadcast_in_dim", broadcast_in_dim},
      {"prims.transpose", transpose},
      {"prims.view", view},
      {"prims.squeeze", squeeze},
      {"prims.reshape", reshape_copy},
      {"prims.graft", graft},
      {"prims.cover", graft},
      {"prims.restride", restride},
      {"prims.copy_data_", copy_data},
      {"prims.set_data_", set_data},
      {"prims.bernoulli_like", bernoulli_like},
      {"prims.dropout_mask_like", dropout_mask_like},
      {"prims.rng_states", rng_states},
      {"prims.uniform_at", uniform_at},
      {"prims.normal_at", normal_at},
      {"prims.randint_at", randint_at},
      {"prims.group_index", group_index},
      {"prims.segment_sum", segment_sum},
      {"prims.embedding_bag_max", embedding_bag_max},
      {"prims.recurrent", recurrent},
      {"prims.recurrent_backward", recurrent_backward},
      {"prims.float8_scales", float8_scales},
      {"prims.float8_record", float8_record},
      {"prims.slice_scatter", slice_scatter},
      {"prims.slice_scatter_", slice_scatter_in_place},
      {"prims.as_strided_scatter", as_strided_scatter},
      {"prims.pad", pad},
      {"prims.sum", sum},
      {"prims.maximum", maximum},
      {"prims.minimum", minimum},
      {"prims.amax", amax},
      {"prims.amin", amin},
      {"prims.prod", prod},
      {"prims.var", var},
      {"prims.cumsum", cumsum},
      {"prims.cumprod", cumprod},
      {"prims.any", any},
      {"prims.all", all},
      {"prims.iota", iota},
      {"prims.tensor_from_sequence", tensor_from_sequence},
      {"prims.size", size},
      {"prims.item", item},
  };
  return table;
}

class OwnFunctionCall final : public Instruction {
 public:
  OwnFunctionCall(OwnFunction function, std::string name) : function_(function), name_(std::move(name)) {
    moves_operands = false;
  }

  void run(Frame& frame) const override {
    c10::IValue result = function_(FunctionArgs(operands, frame));
    if (!drops.empty()) drop(frame);
    if (result.isTensorList()) return hand_over(frame, result.toTensorVector());
    if (outputs.size() == 1 && outputs[0] >= 0) frame.registers[outputs[0]] = std::move(result);
  }
  std::string str() const override { return name_; }

 private:
  void hand_over(Frame& frame, std::vector<at::Tensor> results) const {
    for (size_t i = 0; i < results.size(); ++i)
      if (outputs[i] >= 0) frame.registers[static_cast<size_t>(outputs[i])] = std::move(results[i]);
  }

  OwnFunction function_;
  std::string name_;
};

class OrZeros final : public Instruction {
 public:
  explicit OrZeros(const TensorType& t) : options_(at::TensorOptions(to_aten(t.dtype)).device(to_aten(t.device))) {
    moves_operands = false;
    for (const Dims* dims : {&t.shape, &t.strides})
      for (const Dim& d : *dims) {
        constant_ = constant_ && d.is_constant();
        (dims == &t.shape ? sizes_ : strides_).push_back(d.is_constant() ? d.constant() : 0);
      }
  }

  void run(Frame& frame) const override {
    at::Tensor t = frame.registers[operands[0].reg].toTensor();
    THUNDER_ASSERT(t.defined() || constant_, "or_zeros() of sizes that are no constants");
    if (!t.defined()) t = at::empty_strided(sizes_, strides_, options_).zero_();
    if (!drops.empty()) drop(frame);
    if (outputs[0] >= 0) frame.registers[outputs[0]] = std::move(t);
  }
  std::string str() const override { return "prims.or_zeros"; }

 private:
  Ints sizes_, strides_;
  bool constant_ = true;
  at::TensorOptions options_;
};

}  // namespace

std::unique_ptr<Instruction> lower_or_zeros(const Op& op, const Call& call, const Assembler& assembler) {
  if (!op.has(kMayLackOperand)) return nullptr;
  auto out = std::make_unique<OrZeros>(call.output.value().tensor());
  out->operands.push_back(assembler.natural(call.args[0]));
  return out;
}

OwnFunction find_own_function(const std::string& op) {
  auto it = own_functions().find(op);
  return it == own_functions().end() ? nullptr : it->second;
}

std::unique_ptr<Instruction> lower_own_function(OwnFunction function, const Op& op, const Call& call,
                                                const Assembler& assembler) {
  auto out = std::make_unique<OwnFunctionCall>(function, op.full_name);
  for (const Arg& a : call.args) out->operands.push_back(assembler.natural(a));
  return out;
}

}  // namespace thunder::aten
