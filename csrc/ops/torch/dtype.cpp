// torch.*: conversions between dtypes, devices and layouts.  A conversion to what the tensor already is returns the
// tensor.
#include "ops/common.h"
#include "ops/elementwise_rules.h"

namespace thunder::ops::torch {
namespace {

constexpr uint64_t kTags = kPointwise | kCheap | kReturnsInput;

bool preserves(const Arg& memory_format) {
  return memory_format.is_none() || memory_format.constant().name == "torch.preserve_format";
}

/// Whether the tensor is laid out in the memory format, sizes of 1 not counted.
bool is_in_format(const TensorType& t, const Arg& memory_format) {
  if (preserves(memory_format)) return true;
  if (memory_format.constant().name == "torch.contiguous_format") return is_contiguous(t);
  Dims wanted = strides_in(t, memory_format);
  for (size_t i = 0; i < t.shape.size(); ++i)
    if (t.shape[i] != 1 && t.strides[i] != wanted[i]) return false;
  return true;
}

// The one implementation of all the forms of `to`.
Arg convert_to(Builder& b, Arg x, DType t, Device device, bool copy, const Arg& memory_format) {
  const TensorType& from = x.value().tensor();
  if (device.type == DeviceType::cuda && device.index < 0 && from.device.type == DeviceType::cuda) device = from.device;
  bool converted = t != from.dtype || device != from.device;
  if (device != from.device) x = b("prims.device_put", x, device);
  x = convert(b, x, t);
  if (!is_in_format(x.value().tensor(), memory_format) || (copy && !converted))
    return b("prims.clone", x, kw("memory_format", memory_format));
  return x;
}

Arg to_body(Builder& b, const Args& a) {
  const TensorType& x = a.tensor("input");
  DType t = a.has("dtype") ? a.dtype("dtype") : x.dtype;
  bool names_device = a.op().schema.index_of("device") >= 0 && a.has("device");
  return convert_to(b, a["input"], t, names_device ? a.device("device") : x.device, a.flag("copy"), a["memory_format"]);
}

Arg to_other_body(Builder& b, const Args& a) {
  const TensorType& other = a.tensor("other");
  return convert_to(b, a["input"], other.dtype, other.device, a.flag("copy"), a["memory_format"]);
}

Arg type_as_body(Builder& b, const Args& a) {
  return b("torch.to", a["input"], kw("device", a.tensor("other").device), kw("dtype", a.tensor("other").dtype));
}

// "torch.FloatTensor", "torch.cuda.HalfTensor" and so on, as Tensor.type takes them.
DType dtype_of_type_name(const std::string& name) {
  static constexpr std::pair<std::string_view, DType> kNames[] = {
      {"Float", DType::f32}, {"Double", DType::f64},  {"Half", DType::f16},  {"BFloat16", DType::bf16},
      {"Byte", DType::u8},   {"Char", DType::i8},     {"Short", DType::i16}, {"Int", DType::i32},
      {"Long", DType::i64},  {"Bool", DType::boolean}};
  size_t dot = name.rfind('.');
  for (const auto& [type, t] : kNames)
    if (dot != std::string::npos && name.substr(dot + 1) == std::string(type) + "Tensor") return t;
  THUNDER_CHECK(false, Value, "type", "invalid type: '", name, "'");
}

Arg type_body(Builder& b, const Args& a) { return b("torch.to", a["input"], a["dtype"], a["non_blocking"]); }

Arg type_name_body(Builder& b, const Args& a) {
  const std::string& name = a.str("dtype");
  Device device = a.tensor("input").device;
  if (name.find(".cuda.") == std::string::npos) device = {};
  else if (device.type != DeviceType::cuda) device = {DeviceType::cuda, -1};
  return b("torch.to", a["input"], kw("device", device), kw("dtype", dtype_of_type_name(name)));
}

template <DType T>
Arg named_dtype(Builder& b, const Args& a) {
  return b("torch.to", a["input"], T, kw("memory_format", a["memory_format"]));
}

Arg cpu_body(Builder& b, const Args& a) {
  return b("torch.to", a["input"], kw("device", Device{}), kw("memory_format", a["memory_format"]));
}

Arg cuda_body(Builder& b, const Args& a) {
  Device device = a.has("device") ? a.device("device") : with_index({DeviceType::cuda, -1});
  return b("torch.to", a["input"], kw("device", device), kw("non_blocking", a["non_blocking"]),
           kw("memory_format", a["memory_format"]));
}

Arg contiguous_body(Builder& b, const Args& a) {
  if (is_in_format(a.tensor("input"), a["memory_format"])) return a["input"];
  return b("prims.clone", a["input"], kw("memory_format", a["memory_format"]));
}

Arg clone_body(Builder& b, const Args& a) {
  return b("prims.clone", a["input"], kw("memory_format", a["memory_format"]));
}

// Back to where the input was, in its dtype.
void to_vjp(VjpContext& c) {
  if (!c.needs("input")) return;
  const TensorType& t = c.in("input").tensor();
  Expr g = c.grad();
  if (g.tensor().device != t.device) g = c.b("torch.to", g, kw("device", t.device));
  put_reduced(c, "input", g);
}

constexpr OpDef named(std::string_view schema, BodyFn body, std::string_view python) {
  return {.schema = schema,
          .doc = "The tensor converted to the dtype of that name; itself if it has it.",
          .tags = kTags,
          .body = body,
          .vjp = to_vjp,
          .python = python};
}

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "to(Tensor input, dtype dtype, bool non_blocking=False, bool copy=False, *, "
               "memory_format? memory_format=None) -> Tensor",
     .doc = "The tensor in another dtype; itself if it has it, unless copy is set or the layout is another.",
     .tags = kTags, .body = to_body, .vjp = to_vjp, .aten = "to.dtype", .python = "torch.Tensor.to"},
    {.schema = "to.device(Tensor input, device? device=None, dtype? dtype=None, bool non_blocking=False, "
               "bool copy=False, *, memory_format? memory_format=None) -> Tensor",
     .doc = "The tensor on another device and in another dtype; itself if it is both already.", .tags = kTags,
     .body = to_body, .vjp = to_vjp,
     .aten = "to.dtype_layout(input, dtype=dtype, device=device, non_blocking=non_blocking, copy=copy, "
             "memory_format=memory_format)",
     .python = "torch.Tensor.to"},
    {.schema = "to.other(Tensor input, Tensor other, bool non_blocking=False, bool copy=False, *, "
               "memory_format? memory_format=None) -> Tensor",
     .doc = "The tensor in another's dtype and on its device.", .tags = kTags, .body = to_other_body, .vjp = to_vjp,
     .aten = "to.other", .python = "torch.Tensor.to"},
    {.schema = "type(Tensor input, dtype dtype, bool non_blocking=False) -> Tensor",
     .doc = "The tensor in another dtype.", .tags = kTags, .body = type_body, .vjp = to_vjp,
     .python = "torch.Tensor.type"},
    {.schema = "type.name(Tensor input, str dtype, bool non_blocking=False) -> Tensor",
     .doc = "The tensor as the type of that name ('torch.FloatTensor', 'torch.cuda.HalfTensor').", .tags = kTags,
     .body = type_name_body, .vjp = to_vjp, .python = "torch.Tensor.type"},
    {.schema = "type_as(Tensor input, Tensor other) -> Tensor",
     .doc = "The tensor in another's dtype and on its device.", .tags = kTags, .body = type_as_body, .vjp = to_vjp,
     .python = "torch.Tensor.type_as"},
    named("float(Tensor input, *, memory_format? memory_format=None) -> Tensor", named_dtype<DType::f32>,
          "torch.Tensor.float"),
    named("double(Tensor input, *, memory_format? memory_format=None) -> Tensor", named_dtype<DType::f64>,
          "torch.Tensor.double"),
    named("half(Tensor input, *, memory_format? memory_format=None) -> Tensor", named_dtype<DType::f16>,
          "torch.Tensor.half"),
    named("bfloat16(Tensor input, *, memory_format? memory_format=None) -> Tensor", named_dtype<DType::bf16>,
          "torch.Tensor.bfloat16"),
    named("cfloat(Tensor input, *, memory_format? memory_format=None) -> Tensor", named_dtype<DType::c64>,
          "torch.Tensor.cfloat"),
    named("cdouble(Tensor input, *, memory_format? memory_format=None) -> Tensor", named_dtype<DType::c128>,
          "torch.Tensor.cdouble"),
    named("bool(Tensor input, *, memory_format? memory_format=None) -> Tensor", named_dtype<DType::boolean>,
          "torch.Tensor.bool"),
    named("byte(Tensor input, *, memory_format? memory_format=None) -> Tensor", named_dtype<DType::u8>,
          "torch.Tensor.byte"),
    named("char(Tensor input, *, memory_format? memory_format=None) -> Tensor", named_dtype<DType::i8>,
          "torch.Tensor.char"),
    named("short(Tensor input, *, memory_format? memory_format=None) -> Tensor", named_dtype<DType::i16>,
          "torch.Tensor.short"),
    named("int(Tensor input, *, memory_format? memory_format=None) -> Tensor", named_dtype<DType::i32>,
          "torch.Tensor.int"),
    named("long(Tensor input, *, memory_format? memory_format=None) -> Tensor", named_dtype<DType::i64>,
          "torch.Tensor.long"),
    {.schema = "cpu(Tensor input, *, memory_format? memory_format=None) -> Tensor",
     .doc = "The tensor in host memory; itself if it is there.", .tags = kTags, .body = cpu_body, .vjp = to_vjp,
     .python = "torch.Tensor.cpu"},
    {.schema = "cuda(Tensor input, device? device=None, bool non_blocking=False, *, memory_format? memory_format=None) "
               "-> Tensor",
     .doc = "The tensor on a CUDA device; itself if it is there.", .tags = kTags, .body = cuda_body, .vjp = to_vjp,
     .python = "torch.Tensor.cuda"},
    {.schema = "contiguous(Tensor input, *, memory_format memory_format=torch.contiguous_format) -> Tensor",
     .doc = "The tensor without gaps in row-major (or the given) order; itself if it is so.", .tags = kTags,
     .body = contiguous_body, .vjp = identity_vjp, .aten = "contiguous", .python = "torch.Tensor.contiguous"},
    {.schema = "clone(Tensor input, *, memory_format? memory_format=None) -> Tensor",
     .doc = "A copy, in the input's layout if that has no gaps, or in the one asked for.", .tags = kTags,
     .body = clone_body, .vjp = identity_vjp, .aten = "clone", .python = "torch.clone torch.Tensor.clone"},
};
// clang-format on

}  // namespace

Records dtype() { return kRecords; }

}  // namespace thunder::ops::torch
