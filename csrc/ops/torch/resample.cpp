// torch: resampling of signals, images and volumes (torch.nn.functional.interpolate).
#include <array>
#include <cmath>
#include <span>

#include "ops/common.h"
#include "ops/interpolation.h"
#include "ops/shape_common.h"
#include "ops/windows.h"

namespace thunder::ops::torch {
namespace {

constexpr int64_t kMostTaps = 16;          // that are written out for an element
constexpr int64_t kMostGradientTaps = 20;  // the same of a gradient along one dimension

template <size_t n>
constexpr std::array<std::string_view, n> factor_names() {
  if constexpr (n == 1) return {"scales"};
  else if constexpr (n == 2) return {"scales_h", "scales_w"};
  else return {"scales_d", "scales_h", "scales_w"};
}

// ---- sizes ----------------------------------------------------------------------------------------------------------

// floor(size * factor), which a whole factor leaves symbolic.
Dim scaled(const Dim& size, double factor) {
  if (factor == std::floor(factor) && std::abs(factor) < 1e6) return size * Dim(static_cast<int64_t>(factor));
  return Dim(static_cast<int64_t>(static_cast<double>(size.constant()) * factor));
}

std::string sizes_text(const Dims& sizes) {
  static constexpr const char* kNames[] = {"D", "H", "W"};
  std::string out;
  for (size_t i = 0; i < sizes.size(); ++i) out += cat(i ? ", " : "", kNames[3 - sizes.size() + i], ": ", sizes[i]);
  return out;
}

void check_sizes(std::string_view op, const Dims& shape, const Dims& to) {
  const size_t n = to.size();
  const Dims from(shape.end() - static_cast<std::ptrdiff_t>(n), shape.end());
  bool positive = true;
  for (size_t i = 0; i < n; ++i) positive = positive && from[i] > 0 && to[i] > 0;
  THUNDER_CHECK(positive, Runtime, op, "Input and output sizes should be greater than 0, but got input (",
                sizes_text(from), n == 1 ? ") and output (" : ") output (", sizes_text(to), ")");
}

template <size_t n>
void check(std::string_view op, const Dims& shape, const Dims& to) {
  THUNDER_CHECK(to.size() == n, Runtime, op, "It is expected output_size equals to ", n, ", but got size ", to.size());
  THUNDER_CHECK(shape.size() == n + 2, Runtime, op, "It is expected input_size equals to ", n + 2, ", but got size ",
                shape.size());
  check_sizes(op, shape, to);
  THUNDER_CHECK(shape[1] != 0, Runtime, op, "Non-empty ", n + 2, "D data tensor expected but got a tensor with sizes [",
                join(shape), "]");
}

// ---- what a call asks for -------------------------------------------------------------------------------------------

bool aligned(const Args& a) { return a.op().schema.index_of("align_corners") >= 0 && a.flag("align_corners"); }

// One for each dimension; nothing where a size is symbolic.
template <Interpolation how, size_t n>
std::vector<Axis> axes_of(const Args& a, const Dims& shape, const Dims& to) {
  std::vector<Axis> out;
  for (size_t i = 0; i < n; ++i) {
    const Dim& from = shape[i + 2];
    if (!from.is_constant() || !to[i].is_constant()) return {};
    const std::string_view name = factor_names<n>()[i];
    const double factor = a.has(name) ? a.real(name) : 0;
    out.push_back({how, from.constant(), to[i].constant(), aligned(a), factor > 0 ? factor : 0});
  }
  return out;
}

// A GPU's kernels for a result element by element; on the CPU PyTorch's kernels take no longer.
bool is_for_kernels(const TensorType& t, Interpolation how) {
  const bool moves = how == Interpolation::Nearest || how == Interpolation::NearestExact;
  return t.device.type == DeviceType::cuda && (is_floating(t.dtype) || (moves && t.dtype == DType::u8));
}

// ---- the records ----------------------------------------------------------------------------------------------------

template <Interpolation how, size_t n>
Types resample_meta(const Args& a) {
  const TensorType& x = a.tensor("input");
  const Dims to = a.dims("output_size");
  check<n>(a.op().schema.name, x.shape, to);
  Dims shape = {x.shape[0], x.shape[1]};
  shape.insert(shape.end(), to.begin(), to.end());
  const bool last = n > 1 && suggests_channels_last(x);
  Dims strides = last ? channels_last_strides(shape) : contiguous_strides(shape);
  return {with_shape(x, std::move(shape), std::move(strides))};
}

template <Interpolation how, size_t n>
Arg resample_body(Builder& b, const Args& a) {
  const TensorType x = a.tensor("input");
  if (!is_for_kernels(x, how)) return {};
  const std::vector<Axis> axes = axes_of<how, n>(a, x.shape, a.dims("output_size"));
  int64_t product = axes.empty() ? kMostTaps + 1 : 1;
  for (const Axis& axis : axes) product *= gradient_taps(axis) > 0 ? taps(axis) : kMostTaps + 1;
  if (product > kMostTaps) return {};
  const TensorType out = resample_meta<how, n>(a)[0].tensor();
  const bool moves = how == Interpolation::Nearest || how == Interpolation::NearestExact;
  const Expr y =
      in_memory_order(b.expr(a["input"]), n > 1 && suggests_channels_last(x), [&](const Expr& v, int64_t at) {
        Resampler resampler;
        Formula f = moves ? Formula(v) : compute(b, v.arg());
        // As in PyTorch's kernels the innermost dimension is interpolated first.
        for (size_t i = n; i-- > 0;) f = resampler.forward(f, at + static_cast<int64_t>(i), axes[i]);
        return b.expr(store(f, x.dtype));
      });
  return as_result(y, a.value("input"), out.strides).arg();
}

template <Interpolation how, size_t n>
bool gradient_is_channels_last(const TensorType& g) {
  return n > 1 && how != Interpolation::Cubic && (n == 2 || how == Interpolation::Linear) && suggests_channels_last(g);
}

template <Interpolation how, size_t n>
Types resample_backward_meta(const Args& a) {
  const TensorType& g = a.tensor("grad_output");
  Dims shape = a.dims("input_size");
  check<n>(a.op().schema.name, shape, a.dims("output_size"));
  Dims strides = gradient_is_channels_last<how, n>(g) ? channels_last_strides(shape) : contiguous_strides(shape);
  return {with_shape(g, std::move(shape), std::move(strides))};
}

template <Interpolation how, size_t n>
Arg resample_backward_body(Builder& b, const Args& a) {
  const TensorType g = a.tensor("grad_output");
  if (!is_for_kernels(g, how) || !is_floating(g.dtype)) return {};
  const std::vector<Axis> axes = axes_of<how, n>(a, a.dims("input_size"), a.dims("output_size"));
  bool few = !axes.empty();
  for (const Axis& axis : axes) few = few && gradient_taps(axis) > 0 && gradient_taps(axis) <= kMostGradientTaps;
  if (!few) return {};
  const TensorType out = resample_backward_meta<how, n>(a)[0].tensor();
  const Expr dx =
      in_memory_order(b.expr(a["grad_output"]), gradient_is_channels_last<how, n>(g), [&](const Expr& v, int64_t at) {
        Resampler resampler;
        Formula f = compute(b, v.arg());
        // The innermost dimension last: until then neighbours in memory are summed up with neighbours.
        for (size_t i = 0; i < n; ++i) f = resampler.backward(f, at + static_cast<int64_t>(i), axes[i]);
        return b.expr(store(f, g.dtype));
      });
  return as_result(dx, a.value("grad_output"), out.strides).arg();
}

// The arguments behind the sizes, which a gradient and its own gradient share.
ArgList options(const Args& a, size_t n) {
  ArgList out;
  if (a.op().schema.index_of("align_corners") >= 0) out.push_back(a["align_corners"]);
  const ArgList& all = a.list();
  out.insert(out.end(), all.end() - static_cast<std::ptrdiff_t>(n), all.end());
  return out;
}

template <Interpolation how, size_t n>
void resample_vjp(VjpContext& c) {
  ArgList args = {c.grad().arg(), c.args()["output_size"], c.in("input").shape()};
  for (const Arg& o : options(c.args(), n)) args.push_back(o);
  c.put("input", c.b.call_named(c.call.op->full_name + "_backward", std::move(args), {}));
}

template <Interpolation how, size_t n>
void resample_backward_vjp(VjpContext& c) {
  const std::string name = c.call.op->full_name;
  ArgList args = {c.grad().arg(), c.args()["output_size"]};
  for (const Arg& o : options(c.args(), n)) args.push_back(o);
  c.put("grad_output",
        c.b.call_named(name.substr(0, name.size() - std::string_view("_backward").size()), std::move(args), {}));
}

// PyTorch's form, which takes either sizes or factors.
template <Interpolation how, size_t n>
Arg interpolate_body(Builder& b, const Args& a) {
  const std::string& name = a.op().schema.name;
  const TensorType& x = a.tensor("input");
  THUNDER_CHECK(x.rank() == static_cast<int64_t>(n) + 2, Runtime, name, "It is expected input_size equals to ", n + 2,
                ", but got size ", x.rank());
  THUNDER_CHECK(a.has("output_size") != a.has("scale_factors"), Runtime, name,
                "Must specify exactly one of output_size and scale_factors");
  const ArgList& given = a[a.has("output_size") ? "output_size" : "scale_factors"].items();
  THUNDER_CHECK(given.size() == n, Runtime, name, "It is expected output_size equals to ", n, ", but got size ",
                given.size());
  Dims to;
  ArgList factors;
  for (size_t i = 0; i < n; ++i) {
    const bool sizes = a.has("output_size");
    const double factor = sizes ? 0 : given[i].real();
    to.push_back(sizes ? as_dim(given[i]) : scaled(x.shape[i + 2], factor));
    factors.push_back(sizes ? Arg() : Arg(factor));
  }
  ArgList args = {a["input"], to};
  if (a.op().schema.index_of("align_corners") >= 0) args.push_back(a["align_corners"]);
  args.insert(args.end(), factors.begin(), factors.end());
  return b.call_named("torch.resampled_" + name.substr(name.find("upsample_") + 9), std::move(args), {});
}

#define THUNDER_FACTORS1 "float? scales=None"
#define THUNDER_FACTORS2 "float? scales_h=None, float? scales_w=None"
#define THUNDER_FACTORS3 "float? scales_d=None, float? scales_h=None, float? scales_w=None"
#define THUNDER_RESAMPLE(how, what, name, prefix, n, ALIGN)                                                           \
  {.schema = prefix "upsample_" name "(Tensor input, any output_size, " ALIGN "any scale_factors=None) -> Tensor",    \
   .doc = "Resampled to these sizes, or by these factors: " what ".",                                                 \
   .body = interpolate_body<Interpolation::how, n>,                                                                   \
   .python = "torch._C._nn." prefix "upsample_" name},                                                                \
      {.schema = "resampled_" name "(Tensor input, int[] output_size, " ALIGN THUNDER_FACTORS##n ") -> Tensor",       \
       .doc = "Resampled to these sizes: " what ".",                                                                  \
       .meta = resample_meta<Interpolation::how, n>,                                                                  \
       .body = resample_body<Interpolation::how, n>,                                                                  \
       .vjp = resample_vjp<Interpolation::how, n>,                                                                    \
       .aten = prefix "upsample_" name,                                                                               \
       .python = "torch.ops.aten." prefix "upsample_" name},                                                          \
  {                                                                                                                   \
    .schema =                                                                                                         \
        "resampled_" name                                                                                             \
        "_backward(Tensor grad_output, int[] output_size, int[] input_size, " ALIGN THUNDER_FACTORS##n ") -> Tensor", \
    .doc = "The gradient of resampled_" name ".", .meta = resample_backward_meta<Interpolation::how, n>,              \
    .body = resample_backward_body<Interpolation::how, n>, .vjp = resample_backward_vjp<Interpolation::how, n>,       \
    .aten = prefix "upsample_" name "_backward", .python = "torch.ops.aten." prefix "upsample_" name "_backward"      \
  }
#define THUNDER_ALIGN "bool align_corners, "

constexpr OpDef kRecords[] = {
    THUNDER_RESAMPLE(Nearest, "the nearest element, rounded down", "nearest1d", "", 1, ""),
    THUNDER_RESAMPLE(Nearest, "the nearest element, rounded down", "nearest2d", "", 2, ""),
    THUNDER_RESAMPLE(Nearest, "the nearest element, rounded down", "nearest3d", "", 3, ""),
    THUNDER_RESAMPLE(NearestExact, "the nearest element", "nearest_exact1d", "_", 1, ""),
    THUNDER_RESAMPLE(NearestExact, "the nearest element", "nearest_exact2d", "_", 2, ""),
    THUNDER_RESAMPLE(NearestExact, "the nearest element", "nearest_exact3d", "_", 3, ""),
    THUNDER_RESAMPLE(Linear, "linear interpolation", "linear1d", "", 1, THUNDER_ALIGN),
    THUNDER_RESAMPLE(Linear, "linear interpolation", "bilinear2d", "", 2, THUNDER_ALIGN),
    THUNDER_RESAMPLE(Linear, "linear interpolation", "trilinear3d", "", 3, THUNDER_ALIGN),
    THUNDER_RESAMPLE(Cubic, "cubic convolution", "bicubic2d", "", 2, THUNDER_ALIGN),
};

#undef THUNDER_FACTORS1
#undef THUNDER_FACTORS2
#undef THUNDER_FACTORS3
#undef THUNDER_RESAMPLE
#undef THUNDER_ALIGN

}  // namespace

Records resample() { return kRecords; }

}  // namespace thunder::ops::torch
