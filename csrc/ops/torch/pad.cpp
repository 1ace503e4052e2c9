// torch.nn.functional.pad in its four modes.
#include <algorithm>
#include <span>

#include "core/builder.h"
#include "core/error.h"
#include "ops/common.h"
#include "ops/formula.h"
#include "ops/shape_common.h"

namespace thunder::ops::torch {
namespace {

// Pairs (low, high) per dimension; PyTorch lists them from the last dimension on.
std::vector<std::pair<Dim, Dim>> pairs_of(const Args& a, int64_t rank) {
  Dims given = size_args("pad", a["pad"]);
  THUNDER_CHECK(given.size() % 2 == 0, Runtime, "pad", "Padding length must be divisible by 2, got ", given.size());
  THUNDER_CHECK(static_cast<int64_t>(given.size()) / 2 <= rank, Runtime, "pad",
                "Length of pad should be no more than twice the number of dimensions of the input. Pad length is ",
                given.size(), " while the input has ", rank, " dimensions.");
  std::vector<std::pair<Dim, Dim>> out(static_cast<size_t>(rank));
  for (size_t i = 0; i < given.size() / 2; ++i)
    out[static_cast<size_t>(rank) - 1 - i] = {given[2 * i], given[2 * i + 1]};
  return out;
}

Arg constant_pad(Builder& b, const Expr& x, const std::vector<std::pair<Dim, Dim>>& pairs, const Arg& value) {
  ArgList config;
  bool cuts_only = true;
  Dims start, end, step(pairs.size(), Dim(1));
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto& [low, high] = pairs[i];
    cuts_only &= low <= 0 && high <= 0;
    config.push_back(Dims{low, high, Dim(0)});
    start.push_back(-low);
    end.push_back(x.shape()[i] + high);
    THUNDER_CHECK(x.shape()[i] + min(low, Dim(0)) + min(high, Dim(0)) >= 0, Runtime, "pad", "The input size ",
                  x.shape()[i], ", plus negative padding ", low, " and ", high,
                  " resulted in a negative output size, which is invalid. Check dimension ", i, " of your input.");
  }
  if (cuts_only) return b("prims.clone", slice_dims(x, start, end, step));
  bool channels_last = suggests_channels_last(x.tensor());
  Expr padded = b("prims.pad", x, value.is_none() ? Arg(0) : value, Arg::list(std::move(config)));
  if (!channels_last) return padded;
  return b("prims.clone", padded, kw("memory_format", channels_last_format(x.tensor())));
}

// The tensor with copies of its other end at both ends, one dimension after the other, from the last.
Arg circular_pad(const Expr& input, const std::vector<std::pair<Dim, Dim>>& pairs) {
  Expr x = input;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto& [low, high] = pairs[i];
    const Dim size = x.shape()[i];
    THUNDER_CHECK(low <= size && high <= size, Runtime, "pad", "Padding value causes wrapping around more than once.");
    THUNDER_CHECK(size + low + high >= 0, Runtime, "pad", "Negative padding value is resulting in an empty dimension");
  }
  for (size_t i = pairs.size(); i-- > 0;) {
    const auto& [low, high] = pairs[i];
    int64_t dim = static_cast<int64_t>(i);
    x = slice_dim(x, dim, max(-low, Dim(0)), x.shape()[i] + min(high, Dim(0)));
    const Dim size = x.shape()[i];
    ArgList parts;
    if (low > 0) parts.push_back(slice_dim(x, dim, size - low, size));
    parts.push_back(x);
    if (high > 0) parts.push_back(slice_dim(x, dim, 0, high));
    x = parts.size() == 1 ? input.builder().expr(parts[0])
                          : input.builder()("prims.cat", Arg::list(std::move(parts)), dim);
  }
  bool copied = same(x.tensor().strides, contiguous_strides(x.shape())) && !(x.value() == input.value());
  return copied ? x : input.builder()("prims.clone", x, kw("memory_format", ConstantArg{"torch.contiguous_format"}));
}

Arg pad_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  std::vector<std::pair<Dim, Dim>> pairs = pairs_of(a, x.rank());
  const std::string& mode = a.str("mode");
  if (mode == "constant") return constant_pad(b, x, pairs, a["value"]);
  THUNDER_CHECK(!a.has("value") || a.real("value") == 0, Runtime, "pad", "Padding mode \"", mode,
                "\" doesn't take in value argument, got ", a.real("value"));
  size_t n = a["pad"].items().size() / 2;
  int64_t dims = static_cast<int64_t>(n);
  bool known = mode == "reflect" || mode == "replicate" || mode == "circular";
  THUNDER_CHECK(n >= 1 && n <= 3 && (x.rank() == dims + 1 || x.rank() == dims + 2), NotImplemented, "pad",
                "Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now, got ", x.rank(),
                " dimensions and ", 2 * n, " pads");
  THUNDER_CHECK(known, NotImplemented, "pad", "Unrecognised padding mode ", mode);
  if (mode == "circular") return circular_pad(x, pairs);
  return b(cat("torch.", mode == "reflect" ? "reflection" : "replication", "_pad", n, "d"), x, a["pad"]);
}

// ---- ATen's reflection and replication ------------------------------------------------------------------------------

// On a GPU ATen makes a contiguous result, and a contiguous gradient, whatever the operand's format is.
bool keeps_format(const TensorType& t) { return t.device.type != DeviceType::cuda && suggests_channels_last(t); }

template <bool reflect, int dims>
Types edge_pad_meta(const Args& a) {
  const TensorType& t = a.tensor("input");
  constexpr const char* name = reflect ? "reflection_pad" : "replication_pad";
  Dims pad = a.dims("padding"), shape = t.shape;
  THUNDER_CHECK(pad.size() == 2 * dims, Runtime, name, "padding size is expected to be ", 2 * dims,
                ", but got: ", pad.size());
  THUNDER_CHECK(t.rank() == dims + 1 || t.rank() == dims + 2, Runtime, name, "Expected ", dims + 1, "D or ", dims + 2,
                "D tensor, but got input of shape ", str(t.shape));
  for (size_t i = t.rank() == dims + 1 ? 0 : 1; i < t.shape.size(); ++i)
    THUNDER_CHECK(t.shape[i] != 0, Runtime, name,
                  "Expected a tensor with non-zero size for its padded dimensions, but got input of shape ",
                  str(t.shape));
  for (size_t i = 0; i < dims; ++i) {
    Dim& size = shape[shape.size() - 1 - i];
    const Dim &low = pad[2 * i], &high = pad[2 * i + 1];
    THUNDER_CHECK(!reflect || (low < size && high < size), Runtime, name,
                  "Padding size should be less than the corresponding input dimension, but got: padding (", low, ", ",
                  high, ") at dimension ", shape.size() - 1 - i, " of input ", str(t.shape));
    size += low + high;
    THUNDER_CHECK(size >= 1, Runtime, name, "input (", str(t.shape), ") is too small, calculated output size ", size);
  }
  // ATen takes an unbatched volume for a batch of images here.
  bool has_format = dims >= 2 && (t.rank() == dims + 2 || dims == 3);
  bool channels_last = has_format && keeps_format(t);
  Dims strides = channels_last ? channels_last_strides(shape) : contiguous_strides(shape);
  return {with_shape(t, std::move(shape), std::move(strides))};
}

// ---- as parts of kernels on a GPU -----------------------------------------------------------------------------------

constexpr int64_t kMostRepeated = 8;  // gradients of copies of one element that are written out

struct Ends {
  int64_t low, high, size;  ///< in front of and behind so many elements
};

// Of the last dimensions, in their order; nothing where a size is symbolic, elements are cut off, or copies too many.
template <bool reflect, int dims>
std::vector<Ends> ends_of(const Dims& shape, const Dims& pad) {
  std::vector<Ends> out;
  for (size_t i = dims; i-- > 0;) {
    const Dim &low = pad[2 * i], &high = pad[2 * i + 1], &size = shape[shape.size() - 1 - i];
    if (!low.is_constant() || !high.is_constant() || !size.is_constant()) return {};
    if (low.constant() < 0 || high.constant() < 0) return {};
    if (!reflect && std::max(low.constant(), high.constant()) > kMostRepeated) return {};
    out.push_back({low.constant(), high.constant(), size.constant()});
  }
  return out;
}

Expr flipped(const Expr& x, int64_t dim) { return x.builder()("prims.flip", x, Arg(std::vector<int64_t>{dim})); }

template <bool reflect>
Expr with_ends(const Expr& x, int64_t dim, const Ends& e) {
  const auto part = [&](int64_t from, int64_t to) { return slice_dim(x, dim, Dim(from), Dim(to)); };
  const auto copies = [&](int64_t at, int64_t n) {
    Dims shape = x.shape();
    shape[static_cast<size_t>(dim)] = n;
    return expand(part(at, at + 1), shape);
  };
  ArgList parts;
  if (e.low > 0) parts.push_back(reflect ? flipped(part(1, e.low + 1), dim) : copies(0, e.low));
  parts.push_back(x);
  if (e.high > 0)
    parts.push_back(reflect ? flipped(part(e.size - 1 - e.high, e.size - 1), dim) : copies(e.size - 1, e.high));
  return parts.size() == 1 ? x : x.builder()("prims.cat", Arg::list(std::move(parts)), dim);
}

// Each element's own gradient, and those of its copies.
template <bool reflect>
Formula without_ends(const Formula& g, int64_t dim, const Ends& e) {
  const auto part = [&](int64_t from, int64_t n) { return slice_dim(g.expr(), dim, Dim(from), Dim(from + n)); };
  const auto at = [&](const Expr& x, int64_t from, int64_t n) {
    ArgList config(g.shape().size(), Arg(Dims{Dim(0), Dim(0), Dim(0)}));
    config[static_cast<size_t>(dim)] = Arg(Dims{Dim(from), Dim(e.size - from - n), Dim(0)});
    return Formula(g.b()("prims.pad", x, 0.0, Arg::list(std::move(config))));
  };
  Formula out(part(e.low, e.size));
  if (reflect) {
    if (e.low > 0) out = out + at(flipped(part(0, e.low), dim), 1, e.low);
    if (e.high > 0) out = out + at(flipped(part(e.low + e.size, e.high), dim), e.size - 1 - e.high, e.high);
    return out;
  }
  for (int64_t k = 0; k < e.low; ++k) out = out + at(part(k, 1), 0, 1);
  for (int64_t k = 0; k < e.high; ++k) out = out + at(part(e.low + e.size + k, 1), e.size - 1, 1);
  return out;
}

template <bool reflect, int dims>
Arg edge_pad_body(Builder& b, const Args& a) {
  const TensorType x = a.tensor("input"), out = edge_pad_meta<reflect, dims>(a)[0].tensor();
  const std::vector<Ends> ends = ends_of<reflect, dims>(x.shape, a.dims("padding"));
  if (x.device.type != DeviceType::cuda || !is_floating(x.dtype) || ends.empty()) return {};
  Expr y = b.expr(a["input"]);
  const int64_t first = y.rank() - dims;
  for (size_t d = 0; d < dims; ++d) y = with_ends<reflect>(y, first + static_cast<int64_t>(d), ends[d]);
  return as_result(y, a.value("input"), out.strides).arg();
}

Types edge_pad_backward_meta(const Args& a) {
  const TensorType& t = a.tensor("self");
  return {with_shape(t, t.shape, keeps_format(t) ? channels_last_strides(t.shape) : contiguous_strides(t.shape))};
}

template <bool reflect, int dims>
Arg edge_pad_backward_body(Builder& b, const Args& a) {
  const TensorType x = a.tensor("self"), out = edge_pad_backward_meta(a)[0].tensor();
  const std::vector<Ends> ends = ends_of<reflect, dims>(x.shape, a.dims("padding"));
  if (x.device.type != DeviceType::cuda || !is_floating(x.dtype) || ends.empty()) return {};
  Formula f = compute(b, a["grad_output"]);
  const int64_t first = x.rank() - dims;
  for (size_t d = 0; d < dims; ++d) f = without_ends<reflect>(f, first + static_cast<int64_t>(d), ends[d]);
  return as_result(b.expr(store(f, x.dtype)), a.value("grad_output"), out.strides).arg();
}

void edge_pad_vjp(VjpContext& c) {
  c.put("input", c.b(c.call.op->name + "_backward", c.grad(), c.in("input"), c.in("padding")));
}

void edge_pad_backward_vjp(VjpContext& c) {
  std::string forward = c.call.op->name.substr(0, c.call.op->name.size() - std::string_view("_backward").size());
  c.put("grad_output", c.b(forward, c.grad(), c.in("padding")));
}

#define THUNDER_EDGE_PAD(kind, reflect, n)                                                                          \
  {.schema = #kind "_pad" #n "d(Tensor input, int[] padding) -> Tensor",                                            \
   .doc = "Padding made of the input's own elements.",                                                              \
   .tags = kLinear,                                                                                                 \
   .meta = edge_pad_meta<reflect, n>,                                                                               \
   .body = edge_pad_body<reflect, n>,                                                                               \
   .vjp = edge_pad_vjp,                                                                                             \
   .aten = #kind "_pad" #n "d",                                                                                     \
   .python = "torch.ops.aten." #kind "_pad" #n "d"},                                                                \
  {                                                                                                                 \
    .schema = #kind "_pad" #n "d_backward(Tensor grad_output, Tensor self, int[] padding) -> Tensor",               \
    .doc = "The gradient of " #kind "_pad" #n "d.", .tags = kLinear, .meta = edge_pad_backward_meta,                \
    .body = edge_pad_backward_body<reflect, n>, .vjp = edge_pad_backward_vjp, .aten = #kind "_pad" #n "d_backward", \
    .python = "torch.ops.aten." #kind "_pad" #n "d_backward"                                                        \
  }

constexpr OpDef kRecords[] = {
    {.schema = "pad(Tensor input, int[:] pad, str mode='constant', float? value=None) -> Tensor",
     .doc = "Elements in front of and behind the last dimensions: a constant, or mirrored, repeated or wrapped ones.",
     .tags = kShape,
     .body = pad_body,
     .aten = "pad",
     .python = "torch.nn.functional.pad"},
    THUNDER_EDGE_PAD(reflection, true, 1),
    THUNDER_EDGE_PAD(reflection, true, 2),
    THUNDER_EDGE_PAD(reflection, true, 3),
    THUNDER_EDGE_PAD(replication, false, 1),
    THUNDER_EDGE_PAD(replication, false, 2),
    THUNDER_EDGE_PAD(replication, false, 3),
};

#undef THUNDER_EDGE_PAD

}  // namespace

std::span<const OpDef> pad() { return kRecords; }

}  // namespace thunder::ops::torch
