// Primitives that make a tensor from no tensor.
#include "ops/common.h"

namespace thunder::ops::prims {
namespace {

void check_sizes(std::string_view op, const Dims& shape) {
  for (const Dim& d : shape)
    THUNDER_CHECK(!d.is_constant() || d.constant() >= 0, Runtime, op,
                  "Trying to create tensor with negative dimension ", d, ": ", str(shape));
}

TensorType made(const Args& a, Dims shape) {
  check_sizes(a.op().schema.name, shape);
  return contiguous_type(a.dtype("dtype"), a.device("device"), std::move(shape));
}

Types shaped_meta(const Args& a) { return {made(a, a.dims("shape"))}; }

Types full_meta(const Args& a) {
  DType t = a.dtype("dtype");
  THUNDER_CHECK(a["fill_value"].number_kind() != NumberKind::Complex || is_complex(t), Runtime, "full",
                "value cannot be converted to type ", torch_name(t), " without overflow");
  return {made(a, a.dims("shape"))};
}

Types length_meta(const Args& a) { return {made(a, {as_dim(a["length"])})}; }

Types empty_strided_meta(const Args& a) {
  TensorType t = made(a, a.dims("shape"));
  t.strides = a.dims("strides");
  THUNDER_CHECK(t.strides.size() == t.shape.size(), Runtime, "empty_strided",
                "mismatch in length of strides and shape, got ", t.strides.size(), " and ", t.shape.size());
  return {t};
}

bool is_literal(const Arg& a, double x) { return a.is_literal_number() && a.complex() == x; }

Arg iota_body(Builder& b, const Args& a) {
  DType t = a.dtype("dtype"), compute = is_floating(t) ? DType::f64 : DType::i64;
  const Arg &start = a["start"], &step = a["step"];
  if (is_literal(start, 0) && is_literal(step, 1))
    return b("prims.arange", a["length"], kw("dtype", t), kw("device", a["device"]));
  Arg out = b("prims.arange", a["length"], kw("dtype", compute), kw("device", a["device"]));
  if (!is_literal(step, 1)) out = b("prims.mul", out, step);
  if (!is_literal(start, 0)) out = b("prims.add", out, start);
  return convert(b, out, t);
}

// Shape of nested lists; Error (Value) if they are ragged, as PyTorch words it.
void sequence_shape(const Arg& data, size_t depth, Dims& shape) {
  if (!data.is_sequence()) {
    THUNDER_CHECK(depth == shape.size(), Value, "tensor", "expected sequence of length ",
                  shape.empty() ? Dim(0) : shape[depth], " at dim ", depth);
    return;
  }
  const ArgList& items = data.items();
  Dim length = static_cast<int64_t>(items.size());
  THUNDER_CHECK(depth < shape.size(), Type, "tensor", "must be a number, not list");
  THUNDER_CHECK(shape[depth].same(length), Value, "tensor", "expected sequence of length ", shape[depth], " at dim ",
                depth, " (got ", length, ")");
  for (const Arg& item : items) sequence_shape(item, depth + 1, shape);
}

Types tensor_from_sequence_meta(const Args& a) {
  Dims shape;
  for (const Arg* level = &a["data"]; level->is_sequence(); level = &level->items()[0]) {
    shape.push_back(static_cast<int64_t>(level->items().size()));
    if (level->items().empty()) break;
  }
  sequence_shape(a["data"], 0, shape);
  return {made(a, shape)};
}

constexpr uint64_t kTags = kCreation | kNoGrad;

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "full(int[] shape, Number fill_value, *, dtype dtype, device device) -> Tensor",
     .doc = "A tensor of that shape, every element the number.", .tags = kTags | kCheap, .meta = full_meta,
     .aten = "full(shape, fill_value, dtype=dtype, device=device)", .scalar = "fill_value",
     .element = Element::Created},
    {.schema = "empty(int[] shape, *, dtype dtype, device device) -> Tensor",
     .doc = "A tensor of that shape whose elements are not set.", .tags = kTags, .meta = shaped_meta,
     .aten = "empty.memory_format(shape, dtype=dtype, device=device)"},
    {.schema = "empty_strided(int[] shape, int[] strides, *, dtype dtype, device device) -> Tensor",
     .doc = "A tensor of that shape and layout whose elements are not set.", .tags = kTags, .meta = empty_strided_meta,
     .aten = "empty_strided(shape, strides, dtype=dtype, device=device)"},
    {.schema = "arange(int length, *, dtype dtype, device device) -> Tensor", .doc = "0, 1, ..., length - 1.",
     .tags = kTags | kCheap, .meta = length_meta, .aten = "arange(length, dtype=dtype, device=device)",
     .element = Element::Created},
    {.schema = "iota(int length, Number start, Number step, *, dtype dtype, device device) -> Tensor",
     .doc = "start, start + step, ..., start + (length - 1) * step.", .tags = kTags | kCheap, .meta = length_meta,
     .body = iota_body, .element = Element::Created},
    {.schema = "tensor_from_sequence(any data, *, dtype dtype, device device) -> Tensor",
     .doc = "The tensor of the numbers in nested lists of equal lengths, or of one number.",
     .tags = kTags | kWaits, .meta = tensor_from_sequence_meta},
};
// clang-format on

}  // namespace

Records creation() { return kRecords; }

}  // namespace thunder::ops::prims
