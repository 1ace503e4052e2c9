// Operators made of several rearrangements, and those whose result is as long as there are different values.
#include <span>

#include "core/builder.h"
#include "core/error.h"
#include "ops/common.h"
#include "ops/shape_common.h"

namespace thunder::ops::torch {
namespace {

// ---- conjugate transposes -------------------------------------------------------------------------------------------

Arg adjoint_body(Builder& b, const Args& a) {
  Expr x = b.expr(a.list()[0]);
  if (x.rank() == 0) return conj(x);
  THUNDER_CHECK(x.rank() >= 2, Runtime, "adjoint",
                "tensor.adjoint() is only supported on matrices or batches of matrices. Got ", x.rank(), "-D tensor.");
  return conj(b("torch.transpose", x, -2, -1));
}

Arg matrix_h_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["self"]);
  THUNDER_CHECK(x.rank() == 0 || x.rank() == 2, Runtime, "H",
                "tensor.H is only supported on matrices (2-D tensors). Got ", x.rank(),
                "-D tensor. For batches of matrices, consider using tensor.mH");
  return x.rank() == 0 ? conj(x) : conj(b("torch.transpose", x, 0, 1));
}

// Conjugation and negation are computed here where they are written, so there is never one left to resolve.
Arg same_body(Builder&, const Args& a) { return a["input"]; }

Arg narrow_at_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  THUNDER_CHECK(x.rank() > 0, Runtime, "narrow", "narrow() cannot be applied to a 0-dim tensor.");
  return b("prims.narrow_at", x, wrapped_dim("narrow", a["dim"], x.rank()), a["start"], a["length"]);
}

// ---- blocks ---------------------------------------------------------------------------------------------------------

// Each matrix padded to the full width, one below the other.
Arg block_diag_body(Builder& b, const Args& a) {
  std::vector<Value> tensors = a.values("tensors");
  if (tensors.empty()) return b("torch.empty", Dims{Dim(1), Dim(0)});
  ArgList operands(tensors.begin(), tensors.end()), rows;
  DType t = result_type(operands);
  Dim width = 0, left = 0;
  for (Arg& x : operands) {
    THUNDER_CHECK(x.value().rank() <= 2, Runtime, "block_diag", "Input tensors must have 2 or fewer dimensions. Got ",
                  x.value().rank());
    Expr m = b.expr(convert(b, x, t));
    x = m.rank() == 2 ? m : reshape(m, {Dim(1), m.tensor().numel()});
    width += x.value().shape()[1];
  }
  for (const Arg& x : operands) {
    const Dim& columns = x.value().shape()[1];
    rows.push_back(b("prims.pad", x, 0, Arg::list({Dims(3, Dim(0)), Dims{left, width - left - columns, Dim(0)}})));
    left += columns;
  }
  return b("prims.cat", Arg::list(std::move(rows)), 0);
}

Arg cartesian_prod_body(Builder& b, const Args& a) {
  std::vector<Value> tensors = a.values("tensors");
  for (Value v : tensors)
    THUNDER_CHECK(v.rank() == 1, Runtime, "cartesian_prod", "Expect a 1D vector, but got shape ", str(v.shape()));
  THUNDER_CHECK(!tensors.empty(), Runtime, "cartesian_prod", "expected at least one tensor");
  if (tensors.size() == 1) return tensors[0];
  ArgList columns;
  for (const Arg& grid : b("torch.meshgrid", a["tensors"], kw("indexing", "ij")).arg().items())
    columns.push_back(b("torch.flatten", grid));
  return b("torch.stack", Arg::list(std::move(columns)), 1);
}

// ---- channels to pixels and back ------------------------------------------------------------------------------------

// A row-major copy; channels-last like its operand where PyTorch has a kernel, which is on the CPU.
Expr rearranged(const Expr& x, const Dims& parts, const std::vector<int64_t>& order, const Dims& shape) {
  Expr out = x.builder()("prims.reshape", permute(reshape(x, parts), order), shape);
  if (x.tensor().device.type != DeviceType::cpu || !suggests_channels_last(x.tensor())) return out;
  return x.builder()("prims.clone", out, kw("memory_format", ConstantArg{"torch.channels_last"}));
}

struct Image {
  Dims batch;
  Dim channels, height, width;
};

Image image_of(const char* op, const TensorType& t) {
  THUNDER_CHECK(t.rank() >= 3, Runtime, op, op, " expects input to have at least 3 dimensions, but got input with ",
                t.rank(), " dimension(s)");
  size_t n = t.shape.size();
  return {Dims(t.shape.begin(), t.shape.end() - 3), t.shape[n - 3], t.shape[n - 2], t.shape[n - 1]};
}

Dims joined(Dims a, const Dims& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<int64_t> behind_batch(const Dims& batch, std::vector<int64_t> order) {
  int64_t n = static_cast<int64_t>(batch.size());
  for (int64_t& d : order) d += n;
  for (int64_t i = n; i-- > 0;) order.insert(order.begin(), i);
  return order;
}

Arg pixel_shuffle_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  Dim r = size_arg("pixel_shuffle", a["upscale_factor"]);
  Image i = image_of("pixel_shuffle", x.tensor());
  THUNDER_CHECK(r > 0, Runtime, "pixel_shuffle", "pixel_shuffle expects a positive upscale_factor, but got ", r);
  THUNDER_CHECK(mod(i.channels, r * r) == 0, Runtime, "pixel_shuffle",
                "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
                "upscale_factor, but input.size(-3)=",
                i.channels, " is not divisible by ", r * r);
  Dim channels = floordiv(i.channels, r * r);
  Dims parts = joined(i.batch, {channels, r, r, i.height, i.width}),
       shape = joined(i.batch, {channels, i.height * r, i.width * r});
  return rearranged(x, parts, behind_batch(i.batch, {0, 3, 1, 4, 2}), shape);
}

Arg pixel_unshuffle_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  Dim r = size_arg("pixel_unshuffle", a["downscale_factor"]);
  Image i = image_of("pixel_unshuffle", x.tensor());
  THUNDER_CHECK(r > 0, Runtime, "pixel_unshuffle", "pixel_unshuffle expects a positive downscale_factor, but got ", r);
  THUNDER_CHECK(mod(i.height, r) == 0 && mod(i.width, r) == 0, Runtime, "pixel_unshuffle",
                "pixel_unshuffle expects height and width to be divisible by downscale_factor, but got ", i.height,
                " and ", i.width, " for ", r);
  Dim height = floordiv(i.height, r), width = floordiv(i.width, r);
  Dims parts = joined(i.batch, {i.channels, height, r, width, r}),
       shape = joined(i.batch, {i.channels * r * r, height, width});
  return rearranged(x, parts, behind_batch(i.batch, {0, 2, 4, 1, 3}), shape);
}

// ---- different values -----------------------------------------------------------------------------------------------

Arg chosen(const Expr& all, bool inverse, bool counts) {
  if (!inverse && !counts) return all[0];
  ArgList out = {all[0]};
  if (inverse) out.push_back(all[1]);
  if (counts) out.push_back(all[2]);
  return Arg::tuple(std::move(out));
}

Arg unique_body(Builder& b, const Args& a) {
  bool inverse = a.flag("return_inverse"), counts = a.flag("return_counts");
  Expr all = a.has("dim") ? b("prims.unique_dim", a["input"], a["dim"], a["sorted"])
                          : b("prims.unique", a["input"], a["sorted"], inverse, counts);
  return chosen(all, inverse, counts);
}

Arg unique_consecutive_body(Builder& b, const Args& a) {
  bool inverse = a.flag("return_inverse"), counts = a.flag("return_counts");
  Expr all = a.has("dim") ? b("prims.unique_dim_consecutive", a["input"], a["dim"])
                          : b("prims.unique_consecutive", a["input"], inverse, counts);
  return chosen(all, inverse, counts);
}

Arg bincount_body(Builder& b, const Args& a) { return b("prims.bincount", a["input"], a["weights"], a["minlength"]); }

constexpr uint64_t kTags = kShape | kLinear;

constexpr OpDef kRecords[] = {
    {.schema = "adjoint(Tensor input) -> Tensor",
     .doc = "The conjugate of the matrix transpose.",
     .tags = kTags,
     .body = adjoint_body,
     .python = "torch.adjoint torch.Tensor.adjoint"},
    {.schema = "mH(Tensor self) -> Tensor",
     .doc = "The conjugate of the matrix transpose (x.mH).",
     .tags = kTags,
     .body = adjoint_body,
     .python = "torch.Tensor.mH"},
    {.schema = "H(Tensor self) -> Tensor",
     .doc = "The conjugate of a matrix's transpose (x.H).",
     .tags = kTags,
     .body = matrix_h_body,
     .python = "torch.Tensor.H"},
    {.schema = "resolve_conj(Tensor input) -> Tensor",
     .doc = "The tensor itself.",
     .tags = kTags | kReturnsInput,
     .body = same_body,
     .python = "torch.resolve_conj torch.Tensor.resolve_conj"},
    {.schema = "resolve_neg(Tensor input) -> Tensor",
     .doc = "The tensor itself.",
     .tags = kTags | kReturnsInput,
     .body = same_body,
     .python = "torch.resolve_neg torch.Tensor.resolve_neg"},
    {.schema = "narrow.tensor(Tensor input, int dim, Tensor start, int length) -> Tensor",
     .doc = "`length` slices along a dimension, from a start that a tensor holds.",
     .tags = kTags,
     .body = narrow_at_body,
     .aten = "narrow.Tensor",
     .python = "torch.narrow torch.Tensor.narrow"},
    {.schema = "block_diag(Tensor[] ...tensors) -> Tensor",
     .doc = "Matrices along the diagonal of zeros.",
     .tags = kTags,
     .body = block_diag_body,
     .python = "torch.block_diag"},
    {.schema = "cartesian_prod(Tensor[] ...tensors) -> Tensor",
     .doc = "All combinations of the vectors' elements, one a row.",
     .tags = kTags | kReturnsInput,
     .body = cartesian_prod_body,
     .python = "torch.cartesian_prod"},
    {.schema = "pixel_shuffle(Tensor input, int upscale_factor) -> Tensor",
     .doc = "Channels become pixels of a larger image.",
     .tags = kTags,
     .body = pixel_shuffle_body,
     .aten = "pixel_shuffle",
     .python = "torch.nn.functional.pixel_shuffle torch.pixel_shuffle"},
    {.schema = "pixel_unshuffle(Tensor input, int downscale_factor) -> Tensor",
     .doc = "Pixels become channels of a smaller image.",
     .tags = kTags,
     .body = pixel_unshuffle_body,
     .aten = "pixel_unshuffle",
     .python = "torch.nn.functional.pixel_unshuffle torch.pixel_unshuffle"},
    {.schema = "unique(Tensor input, bool sorted=True, bool return_inverse=False, bool return_counts=False, int? "
               "dim=None) -> any",
     .doc = "The different values (or slices), with places and counts if asked for.",
     .tags = kNoGrad,
     .body = unique_body,
     .python = "torch.unique torch.Tensor.unique"},
    {.schema =
         "unique_consecutive(Tensor input, bool return_inverse=False, bool return_counts=False, int? dim=None) -> any",
     .doc = "The first of each run of equal values (or slices), with places and counts if asked for.",
     .tags = kNoGrad,
     .body = unique_consecutive_body,
     .python = "torch.unique_consecutive torch.Tensor.unique_consecutive"},
    {.schema = "bincount(Tensor input, Tensor? weights=None, int minlength=0) -> Tensor",
     .doc = "How often each small integer occurs.",
     .tags = kNoGrad,
     .body = bincount_body,
     .python = "torch.bincount torch.Tensor.bincount"},
};

}  // namespace

std::span<const OpDef> rearrange() { return kRecords; }

}  // namespace thunder::ops::torch
