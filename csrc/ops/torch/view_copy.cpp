// torch: views that are copied, in row-major order: permute_copy() and its like.
#include "core/builder.h"
#include "ops/common.h"

namespace thunder::ops::torch {
namespace {

Arg copied(Builder& b, const Arg& view) {
  if (view.is_tensor())
    return b("torch.clone", view, kw("memory_format", ConstantArg{"torch.contiguous_format"})).arg();
  ArgList out;
  for (const Arg& part : view.items()) out.push_back(copied(b, part));
  return Arg::tuple(std::move(out));
}

// The operator of the same name without `_copy`, and a copy of what it gives.
Arg view_copy_body(Builder& b, const Args& a) {
  const std::string& name = a.op().schema.name;
  return copied(b, b.call_named("torch." + name.substr(0, name.size() - 5), a.list(), {}));
}

// On a CPU a kernel of its own, elsewhere narrow() and a copy: the errors differ.
Arg narrow_copy_body(Builder& b, const Args& a) {
  const TensorType& t = a.tensor("input");
  THUNDER_CHECK(a.dim("dim") < t.rank() || t.rank() == 0 || t.device.type != DeviceType::cpu, Runtime, "narrow_copy",
                "Expected dim < ", t.rank(), ", got ", a.dim("dim"));
  return view_copy_body(b, a);
}

Arg alias_copy_body(Builder& b, const Args& a) { return copied(b, a["input"]); }

constexpr OpDef record(std::string_view schema, std::string_view doc, std::string_view python,
                       BodyFn body = view_copy_body) {
  return {.schema = schema, .doc = doc, .tags = kShape | kLinear, .body = body, .python = python};
}

// clang-format off
constexpr OpDef kRecords[] = {
    record("alias_copy(Tensor input) -> Tensor", "A copy in row-major order.", "torch.alias_copy", alias_copy_body),
    record("diagonal_copy(Tensor input, int offset=0, int dim1=0, int dim2=1) -> Tensor", "A copy of a diagonal.",
           "torch.diagonal_copy"),
    record("expand_copy(Tensor input, int[] size) -> Tensor", "A copy of expand().", "torch.expand_copy"),
    record("narrow_copy(Tensor input, int dim, int start, int length) -> Tensor",
           "A copy of `length` slices along a dimension.", "torch.narrow_copy torch.Tensor.narrow_copy", narrow_copy_body),
    record("permute_copy(Tensor input, int[] dims) -> Tensor", "A copy with dimensions in another order.",
           "torch.permute_copy"),
    record("split_with_sizes_copy(Tensor input, int[] split_sizes, int dim=0) -> Tensor[]",
           "Copies of parts along a dimension.", "torch.split_with_sizes_copy"),
    record("squeeze_copy(Tensor input) -> Tensor", "A copy without dimensions of size 1.", "torch.squeeze_copy"),
    record("squeeze_copy.dim(Tensor input, int[] dim) -> Tensor", "A copy without some dimensions of size 1.",
           "torch.squeeze_copy"),
    record("t_copy(Tensor input) -> Tensor", "A copy of a matrix's transpose.", "torch.t_copy"),
    record("transpose_copy(Tensor input, int dim0, int dim1) -> Tensor", "A copy with two dimensions swapped.",
           "torch.transpose_copy"),
    record("unbind_copy(Tensor input, int dim=0) -> Tensor[]", "Copies of the slices along a dimension.",
           "torch.unbind_copy"),
    record("unfold_copy(Tensor input, int dimension, int size, int step) -> Tensor", "A copy of Tensor.unfold().",
           "torch.unfold_copy"),
    record("unsqueeze_copy(Tensor input, int dim) -> Tensor", "A copy with a new dimension of size 1.",
           "torch.unsqueeze_copy"),
    record("view_copy(Tensor input, int[] size) -> Tensor", "A copy of view().", "torch.view_copy"),
    record("view_copy.dtype(Tensor input, dtype dtype) -> Tensor", "A copy of view() of a dtype.", "torch.view_copy"),
};
// clang-format on

}  // namespace

Records view_copy() { return kRecords; }

}  // namespace thunder::ops::torch
