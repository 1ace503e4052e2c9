// Sliding blocks of images: im2col (torch.nn.functional.unfold), col2im (fold).
//
// Blocks are windows of a padded image, copied.  Their sum back into an image is done element by element of a small
// kernel, and along one dimension after the other for a large one.  Without dilation a large kernel of k elements and a step of s is ceil(k / s) pieces of s elements: each piece of all
// blocks is a row of the image, moved by a number of steps.
#include <span>

#include "core/builder.h"
#include "core/error.h"
#include "ops/common.h"
#include "ops/formula.h"
#include "ops/shape_common.h"

namespace thunder::ops::torch {
namespace {

/// Along one dimension.
struct Sliding {
  Dim size;  // of the image
  Dim kernel, dilation, padding, stride;
  Dim reach() const { return (kernel - 1) * dilation + 1; }
  Dim blocks() const { return floordiv(size + 2 * padding - reach(), stride) + 1; }
};

struct Both {
  Sliding rows, columns;
};

std::string pair(const Dim& a, const Dim& b) { return cat("(", a, ", ", b, ")"); }

Both sliding_of(const char* op, const Args& a, const Dim& height, const Dim& width) {
  const auto two = [&](std::string_view name) {
    const Dims d = size_args(op, a[name]);
    THUNDER_CHECK(d.size() == 2, Runtime, op, "It is expected ", name, " equals to 2, but got size ", d.size());
    return d;
  };
  const Dims k = two("kernel_size"), d = two("dilation"), p = two("padding"), s = two("stride");
  const auto positive = [&](const Dims& x, const char* name, const char* more = "") {
    THUNDER_CHECK(x[0] > 0 && x[1] > 0, Runtime, op, name, more, " should be greater than zero, but got ", name,
                  "_height: ", x[0], " ", name, "_width: ", x[1]);
  };
  positive(k, "kernel", " size");
  positive(d, "dilation");
  positive(s, "stride");
  THUNDER_CHECK(p[0] >= 0 && p[1] >= 0, Runtime, op, "padding should be non-negative, but got pad_height: ", p[0],
                " pad_width: ", p[1]);
  const Both out{{height, k[0], d[0], p[0], s[0]}, {width, k[1], d[1], p[1], s[1]}};
  const Dim rows = out.rows.blocks(), columns = out.columns.blocks();
  THUNDER_CHECK(rows >= 1 && columns >= 1, Runtime, op, "Given input with spatial size ", pair(height, width),
                ", kernel_size=", pair(k[0], k[1]), ", dilation=", pair(d[0], d[1]), ", padding=", pair(p[0], p[1]),
                ", calculated shape of the array of sliding blocks as ", pair(rows, columns),
                ", but its components must be at least one.");
  return out;
}

// All dimensions as they are but one, padded.
Expr padded(const Expr& x, size_t dim, const Dim& low, const Dim& high, const Dim& interior = 0) {
  if (low.same(0) && high.same(0) && interior.same(0)) return x;
  ArgList config(x.shape().size(), Dims(3, Dim(0)));
  config[dim] = Dims{low, high, interior};
  return x.builder()("prims.pad", x, 0, Arg::list(std::move(config)));
}

// The windows along a dimension: the blocks take its place, their elements stand last.
Expr windows(const Expr& x, int64_t dim, const Sliding& s) {
  const Expr wide = x.builder()("prims.unfold", x, dim, s.reach(), s.stride);
  return s.dilation.same(1) ? wide : slice_dim(wide, wide.rank() - 1, 0, s.reach(), s.dilation);
}

Arg im2col_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  const bool batched = x.rank() == 4;
  const Dims given = x.shape();
  const auto is_empty = [&](size_t from_behind) { return given[given.size() - from_behind] == 0; };
  THUNDER_CHECK((batched || x.rank() == 3) && !is_empty(1) && !is_empty(2) && !is_empty(3), Runtime, "im2col",
                "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for "
                "input, but got: ",
                str(given));
  THUNDER_CHECK(is_inexact(x.dtype()) || x.dtype() == DType::boolean, NotImplemented, "im2col", "\"im2col_out_",
                x.tensor().device.type == DeviceType::cuda ? "cuda" : "cpu", "\" not implemented for '",
                scalar_type_name(x.dtype()), "'");
  if (!batched) x = unsqueeze_dims(x, {0});
  const Dims& s = x.shape();
  const auto [rows, columns] = sliding_of("im2col", a, s[2], s[3]);
  const Dims blocks = {s[0], s[1] * rows.kernel * columns.kernel, rows.blocks() * columns.blocks()};
  Expr y = padded(padded(x, 2, rows.padding, rows.padding), 3, columns.padding, columns.padding);
  y = permute(windows(windows(y, 2, rows), 3, columns), {0, 1, 4, 5, 2, 3});
  y = b("prims.reshape", y, blocks);
  return batched ? y.arg() : squeeze_dims(y, {0}).arg();
}

Expr sum_of(const std::vector<Expr>& terms) {
  Expr out = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) out = out.builder()("prims.add", out, terms[i]);
  return out;
}

// Element i of each block at its place along the dimension.
Expr placed(const Expr& one, size_t dim, const Sliding& s, const Dim& i) {
  const Dim low = i * s.dilation - s.padding, reached = (s.blocks() - 1) * s.stride + 1;
  return padded(one, dim, low, s.size - low - reached, s.stride - 1);
}

// x: [a, b, kernel, blocks] with these last, as [a, b, size]: each block's elements added to their places.
Expr folded(const Expr& x, const Sliding& s) {
  Builder& b = x.builder();
  const Dims shape = x.shape();
  const Dim blocks = shape[3];
  std::vector<Expr> terms;
  if (!s.dilation.same(1) || !s.kernel.is_constant() || !s.stride.is_constant()) {
    for (Dim i = 0; i < s.kernel; i += 1)
      terms.push_back(placed(squeeze_dims(slice_dim(x, 2, i, i + 1), {2}), 2, s, i));
    return sum_of(terms);
  }
  const int64_t pieces = ceildiv(s.kernel, s.stride).constant();
  const Expr whole = padded(x, 2, 0, Dim(pieces) * s.stride - s.kernel);
  for (int64_t i = 0; i < pieces; ++i) {
    const Expr piece = permute(slice_dim(whole, 2, Dim(i) * s.stride, Dim(i + 1) * s.stride), {0, 1, 3, 2});
    terms.push_back(padded(piece, 2, i, pieces - 1 - i));
  }
  const Dim length = (blocks + pieces - 1) * s.stride;
  const Expr joined = reshape(b, sum_of(terms), {shape[0], shape[1], length});
  return padded(joined, 2, -s.padding, s.size + s.padding - length);
}

constexpr int64_t kFewElements = 16;  // of a kernel, from whose elements an image is added up at once

// x: [n, kernel, kernel, blocks, blocks], rows first, as [n, height, width].
Expr folded_at_once(const Expr& x, const Both& s) {
  std::vector<Expr> terms;
  for (Dim i = 0; i < s.rows.kernel; i += 1)
    for (Dim j = 0; j < s.columns.kernel; j += 1) {
      const Expr one = squeeze_dims(slice_dim(slice_dim(x, 1, i, i + 1), 2, j, j + 1), {1, 2});
      terms.push_back(placed(placed(one, 1, s.rows, i), 2, s.columns, j));
    }
  return sum_of(terms);
}

// The same, along the columns and then along the rows.
Expr folded_in_turn(const Expr& x, const Both& s) {
  Builder& b = x.builder();
  const Dims of = x.shape();
  const Expr apart = permute(x, {0, 1, 3, 2, 4});
  const Expr lines = folded(reshape(b, apart, {of[0], s.rows.kernel * of[3], s.columns.kernel, of[4]}), s.columns);
  const Expr by_rows = permute(reshape(b, lines, {of[0], s.rows.kernel, of[3], s.columns.size}), {0, 3, 1, 2});
  return permute(folded(by_rows, s.rows), {0, 2, 1});
}

Arg col2im_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  const bool batched = x.rank() == 3;
  const Dims size = size_args("col2im", a["output_size"]);
  THUNDER_CHECK(size.size() == 2, Runtime, "col2im", "It is expected output_size equals to 2, but got size ",
                size.size());
  THUNDER_CHECK(
      batched || x.rank() == 2, Runtime, "col2im",
      "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for "
      "input, but got: ",
      str(x.shape()));
  if (!batched) x = unsqueeze_dims(x, {0});
  const auto [rows, columns] = sliding_of("col2im", a, size[0], size[1]);
  const Dim kernel = rows.kernel * columns.kernel, blocks = rows.blocks() * columns.blocks();
  THUNDER_CHECK(mod(x.shape()[1], kernel) == 0, Runtime, "col2im",
                "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
                "input.size(1)=",
                x.shape()[1], " and kernel_size=", pair(rows.kernel, columns.kernel), ".");
  THUNDER_CHECK(x.shape()[2] == blocks, Runtime, "col2im", "Given output_size=", pair(size[0], size[1]),
                ", kernel_size=", pair(rows.kernel, columns.kernel),
                ", dilation=", pair(rows.dilation, columns.dilation), ", padding=", pair(rows.padding, columns.padding),
                ", stride=", pair(rows.stride, columns.stride),
                ", expected size of input's dimension 2 to match the calculated "
                "number of sliding blocks ",
                rows.blocks(), " * ", columns.blocks(), " = ", blocks, ", but got input.size(2)=", x.shape()[2], ".");
  const DType t = x.dtype();
  const Dim n = x.shape()[0], channels = floordiv(x.shape()[1], kernel);
  const Expr wide = b.expr(convert(b, x, t == DType::boolean ? DType::f32 : compute_type(t)));
  const Expr apart = reshape(b, wide, {n * channels, rows.kernel, columns.kernel, rows.blocks(), columns.blocks()});
  const bool few = kernel.is_constant() && kernel.constant() <= kFewElements;
  Expr y = few ? folded_at_once(apart, {rows, columns}) : folded_in_turn(apart, {rows, columns});
  y = b.expr(t == DType::boolean ? b("prims.ne", y, 0).arg() : convert(b, y, t));
  const Dims shape = batched ? Dims{n, channels, size[0], size[1]} : Dims{channels, size[0], size[1]};
  y = reshape(b, y, shape);
  return with_strides(y, contiguous_strides(shape)).arg();
}

void im2col_vjp(VjpContext& c) {
  const Dims& s = c.in("input").shape();
  c.put("input", c.b("torch.col2im", c.grad(), Dims(s.end() - 2, s.end()), c.in("kernel_size"), c.in("dilation"),
                     c.in("padding"), c.in("stride")));
}

void col2im_vjp(VjpContext& c) {
  c.put("input", c.b("torch.im2col", c.grad(), c.in("kernel_size"), c.in("dilation"), c.in("padding"), c.in("stride")));
}

const OpDef kRecords[] = {
    {.schema = "im2col(Tensor input, int[] kernel_size, int[] dilation, int[] padding, int[] stride) -> Tensor",
     .doc = "The blocks [n, channels * kernel, blocks] of an image [n, channels, height, width], as columns.",
     .body = im2col_body,
     .vjp = im2col_vjp,
     .aten = "im2col",
     .python = "torch._C._nn.im2col"},
    {.schema = "col2im(Tensor input, int[] output_size, int[] kernel_size, int[] dilation, int[] padding, int[] "
               "stride) -> Tensor",
     .doc = "The image of output_size in which each element is the sum of what blocks have for it.",
     .body = col2im_body,
     .vjp = col2im_vjp,
     .aten = "col2im",
     .python = "torch._C._nn.col2im"},
};

}  // namespace

Records patches() { return kRecords; }

}  // namespace thunder::ops::torch
