// torch: pooling over 1, 2 and 3 dimensions.
#include <limits>
#include <optional>

#include "ops/common.h"
#include "ops/formula.h"
#include "ops/shape_common.h"
#include "ops/windows.h"

namespace thunder::ops::torch {
namespace {

// One number for each of the n dimensions; `fallback` where nothing is given.
Dims each(std::string_view op, const Args& a, const char* name, size_t n, const Dims& fallback = {}) {
  Dims d = a.has(name) ? a.dims(name) : Dims{};
  if (d.empty()) d = fallback;
  if (d.size() == 1) d.resize(n, d[0]);
  THUNDER_CHECK(d.size() == n, Runtime, op, name, " must either be a single int, or a tuple of ", n, " ints, got ",
                str(d));
  return d;
}

struct Window {
  Dims kernel, stride, padding, dilation;
  bool ceil;
};

Window window(std::string_view op, const Args& a, size_t n) {
  Window w;
  w.kernel = each(op, a, "kernel_size", n);
  w.stride = each(op, a, "stride", n, w.kernel);
  w.padding = each(op, a, "padding", n);
  bool dilated = a.op().schema.index_of("dilation") >= 0;
  w.dilation = dilated ? each(op, a, "dilation", n) : Dims(n, Dim(1));
  w.ceil = a.flag("ceil_mode");
  for (size_t i = 0; i < n; ++i) {
    THUNDER_CHECK(w.kernel[i] > 0, Runtime, op, "kernel size should be greater than zero, but got ", w.kernel[i]);
    THUNDER_CHECK(w.stride[i] > 0, Runtime, op, "stride should not be zero");
    THUNDER_CHECK(w.padding[i] >= 0, Runtime, op, "pad must be non-negative, but got pad: ", w.padding[i]);
    THUNDER_CHECK(2 * w.padding[i] <= (w.kernel[i] - 1) * w.dilation[i] + 1, Runtime, op,
                  "pad should be at most half of effective kernel size, but got pad=", w.padding[i],
                  ", kernel_size=", w.kernel[i]);
  }
  return w;
}

Dim pooled_size(std::string_view op, const Dim& in, const Window& w, size_t i) {
  Dim room = in + 2 * w.padding[i] - w.dilation[i] * (w.kernel[i] - 1) - 1;
  Dim out = floordiv(w.ceil ? room + w.stride[i] - 1 : room, w.stride[i]) + 1;
  if (w.ceil && (out - 1) * w.stride[i] >= in + w.padding[i]) out = out - 1;  // the last window must begin inside
  THUNDER_CHECK(out >= 1, Runtime, op, "Given input size: ", in, ". Calculated output size: ", out,
                ". Output size is too small");
  return out;
}

TensorType suggested(const TensorType& like, Dims shape, DType t) {
  TensorType out = contiguous_type(t, like.device, std::move(shape));
  if (suggests_channels_last(like)) out.strides = channels_last_strides(out.shape);
  return out;
}

Dims pooled_shape(std::string_view op, const Args& a, size_t n) {
  const TensorType& x = a.tensor("input");
  size_t rank = x.shape.size();
  THUNDER_CHECK(rank == n + 1 || rank == n + 2, Runtime, op, "Expected ", n + 1, "D or ", n + 2,
                "D tensor, but got input of shape ", str(x.shape));
  Window w = window(op, a, n);
  Dims shape = x.shape;
  for (size_t i = 0; i < n; ++i) shape[rank - n + i] = pooled_size(op, shape[rank - n + i], w, i);
  return shape;
}

// ---- as parts of kernels --------------------------------------------------------------------------------------------

constexpr int64_t kMostTaps = 16;  // elements of a window, or windows of an element, that are written out

// A GPU's kernels; on the CPU PyTorch's operators take no longer.
bool is_for_kernels(const TensorType& t) { return t.device.type == DeviceType::cuda && is_floating(t.dtype); }

// Along each dimension; nothing where a size is symbolic.
std::vector<Windows> windows_of(const Dims& in, const Dims& out, const Window& w) {
  const size_t n = w.kernel.size();
  std::vector<Windows> result;
  for (size_t i = 0; i < n; ++i) {
    const Dim &from = in[in.size() - n + i], &to = out[out.size() - n + i];
    for (const Dim* d : {&from, &to, &w.kernel[i], &w.stride[i], &w.padding[i], &w.dilation[i]})
      if (!d->is_constant()) return {};
    if (w.dilation[i].constant() != 1) return {};
    result.push_back(
        {from.constant(), to.constant(), w.kernel[i].constant(), w.stride[i].constant(), w.padding[i].constant()});
  }
  return result;
}

int64_t elements(const std::vector<Windows>& windows) {
  int64_t n = 1;
  for (const Windows& w : windows) n *= w.kernel;
  return n;
}

int64_t readers(const std::vector<Windows>& windows) {
  int64_t n = 1;
  for (const Windows& w : windows) n *= w.readers();
  return n;
}

// Whether the windows' dimensions lie in front of the channels; one sample without a batch has no such layout.
bool has_channels_last(const TensorType& t, const std::vector<Windows>& windows) {
  return t.shape.size() == windows.size() + 2 && suggests_channels_last(t);
}

// fn(tensor, first dimension of the windows), on a tensor in the order of the result's memory.
template <class F>
Expr by_windows(const Expr& x, const std::vector<Windows>& windows, bool channels_last, F&& fn) {
  if (!channels_last) return fn(x, x.rank() - static_cast<int64_t>(windows.size()));
  return in_memory_order(x, true, fn);
}

// ---- maximum --------------------------------------------------------------------------------------------------------

template <int N>
Types max_pool_meta(const Args& a) {
  const TensorType& x = a.tensor("input");
  Dims shape = pooled_shape(N == 2 ? "max_pool2d" : "max_pool3d", a, N);
  return {suggested(x, shape, x.dtype), suggested(x, shape, DType::i64)};
}

// The channels behind the image, as a view.
Expr in_memory_order_of(const Expr& x) {
  std::vector<int64_t> order = {0};
  for (int64_t i = 2; i < x.rank(); ++i) order.push_back(i);
  order.push_back(1);
  return permute(x, order);
}

// For each element its number in the plane (or volume), as max_pool counts.
Formula places_in_plane(const Formula& like, int64_t first, const std::vector<Windows>& windows) {
  std::optional<Formula> total;
  int64_t step = 1;
  for (size_t d = windows.size(); d-- > 0;) {
    const Formula along =
        steps(like.b(), windows[d].in, 0, static_cast<double>(step), DType::i64, like.expr().tensor().device);
    const Formula wide = spread_channels(along, like.shape(), first + static_cast<int64_t>(d));
    total = total ? *total + wide : wide;
    step *= windows[d].in;
  }
  return *total;
}

template <int N>
void max_pool_vjp(VjpContext& c) {
  if (!c.has_grad(0)) return;
  Window w = window("max_pool", c.args(), N);
  const char* backward = N == 2 ? "torch.max_pool2d_with_indices_backward" : "torch.max_pool3d_with_indices_backward";
  c.put("input", c.b(backward, c.grad(0), c.in("input"), w.kernel, w.stride, w.padding, w.dilation, w.ceil, c.out(1)));
}

// An element's gradient is the sum of those of the windows whose maximum it is.
template <int N>
Arg max_pool_backward_body(Builder& b, const Args& a) {
  const TensorType x = a.tensor("self"), g = a.tensor("grad_output");
  if (!is_for_kernels(x)) return {};
  const std::vector<Windows> windows = windows_of(x.shape, g.shape, window("max_pool", a, N));
  if (windows.empty() || readers(windows) > kMostTaps) return {};
  int64_t plane = 1;
  for (const Windows& w : windows) plane *= w.in;
  if (plane > std::numeric_limits<int32_t>::max()) return {};
  const bool last = has_channels_last(x, windows);
  const Expr dx = by_windows(b.expr(a["grad_output"]), windows, last, [&](const Expr& v, int64_t first) {
    Expr indices = b.expr(a["indices"]);
    if (last) indices = in_memory_order_of(indices);
    const Formula grad = compute(b, v.arg()), of(indices);
    const Formula sum = sum_of_readers(first, windows, [&](const WindowGather& gather) {
      const Formula part = gather(grad, 0.0), maximum = gather(of, int64_t{-1});
      return where(maximum.call("prims.eq", places_in_plane(part, first, windows)), part, 0.0);
    });
    return b.expr(store(sum, x.dtype));
  });
  return with_strides(dx, suggested(x, x.shape, x.dtype).strides).arg();
}

// What the gradient's gradient has where the maxima are.
template <int N>
void max_pool_backward_vjp(VjpContext& c) {
  const Dims own = c.in("grad_output").shape(), &x = c.in("self").shape();
  const auto flat = [](const Expr& e, const Dims& of) {
    Dims shape(of.begin(), of.end() - N);
    shape.push_back(product(Dims(of.end() - N, of.end())));
    return torch_reshape(e, shape);
  };
  const Expr taken = c.b("torch.gather", flat(c.grad(), x), -1, flat(c.in("indices"), own));
  c.put("grad_output", torch_reshape(taken, own));
}

Types gradient_of_self(const Args& a) {
  const TensorType& x = a.tensor("self");
  return {suggested(x, x.shape, x.dtype)};
}

Expr pooled_max(Builder& b, const char* op, const Args& a) {
  return b(op, a["input"], a["kernel_size"], a.has("stride") ? a["stride"] : Arg(Dims{}), a["padding"], a["dilation"],
           a["ceil_mode"]);
}

Arg result(const Args& a, const Expr& value, const Expr& indices) {
  bool both = a.op().schema.index_of("return_indices") >= 0 && a.flag("return_indices");
  return both ? Arg::tuple({value.arg(), indices.arg()}) : value.arg();
}

// The form of torch.nn.functional, whose stride may be None.
Arg max_pool2d_pair_body(Builder& b, const Args& a) { return pooled_max(b, "torch.max_pool2d_with_indices", a).arg(); }
Arg max_pool3d_pair_body(Builder& b, const Args& a) { return pooled_max(b, "torch.max_pool3d_with_indices", a).arg(); }

Arg max_pool2d_body(Builder& b, const Args& a) {
  Expr r = pooled_max(b, "torch.max_pool2d_with_indices", a);
  return result(a, r[0], r[1]);
}
Arg max_pool3d_body(Builder& b, const Args& a) {
  Expr r = pooled_max(b, "torch.max_pool3d_with_indices", a);
  return result(a, r[0], r[1]);
}

// A dimension of size 1 in front of the last one makes a 2-d problem of a 1-d one.
Dims behind(const Dims& d, const Dim& first) { return {first, d[0]}; }

Arg max_pool1d_body(Builder& b, const Args& a) {
  Window w = window("max_pool1d", a, 1);
  pooled_shape("max_pool1d", a, 1);
  Expr r = b("torch.max_pool2d_with_indices", b("torch.unsqueeze", a["input"], -2), behind(w.kernel, 1),
             behind(w.stride, 1), behind(w.padding, 0), behind(w.dilation, 1), w.ceil);
  Expr value = b("torch.squeeze", r[0], -2), indices = b("torch.squeeze", r[1], -2);
  return a.op().schema.results == "any" ? result(a, value, indices) : Arg::tuple({value.arg(), indices.arg()});
}

// ---- average --------------------------------------------------------------------------------------------------------

template <int N>
Types avg_pool_meta(const Args& a) {
  const TensorType& x = a.tensor("input");
  std::string_view op = N == 2 ? "avg_pool2d" : "avg_pool3d";
  Dims shape = pooled_shape(op, a, N);
  if (N == 3) {
    Window w = window(op, a, N);
    for (size_t i = 0; i < 3; ++i)
      THUNDER_CHECK(x.shape[x.shape.size() - 3 + i] >= w.kernel[i], Runtime, op, "input image ", str(x.shape),
                    " smaller than kernel size ", str(w.kernel));
  }
  THUNDER_CHECK(!a.has("divisor_override") || a.integer("divisor_override") != 0, Runtime, op,
                "divisor must be not zero");
  return {N == 2 ? suggested(x, shape, x.dtype) : contiguous_type(x.dtype, x.device, shape)};
}

// Sums over windows become means, or the gradients of means what each element of a window gets.
Formula divided(const Formula& x, int64_t first, const std::vector<Windows>& windows, const Args& a) {
  if (a.has("divisor_override")) return x / a.real("divisor_override");
  const bool with_padding = a.flag("count_include_pad");
  if (are_full(windows, with_padding)) return x / static_cast<double>(elements(windows));
  return x / window_sizes(x, first, windows, with_padding);
}

template <int N>
Arg avg_pool_body(Builder& b, const Args& a) {
  const TensorType x = a.tensor("input"), out = avg_pool_meta<N>(a)[0].tensor();
  if (!is_for_kernels(x)) return {};
  const std::vector<Windows> windows = windows_of(x.shape, out.shape, window("avg_pool", a, N));
  if (windows.empty() || elements(windows) > kMostTaps) return {};
  const bool last = N == 2 && has_channels_last(x, windows);
  const Expr y = by_windows(b.expr(a["input"]), windows, last, [&](const Expr& v, int64_t first) {
    const Formula sums = window_sums(compute(b, v.arg()), first, windows);
    return b.expr(store(divided(sums, first, windows, a), x.dtype));
  });
  return with_strides(y, out.strides).arg();
}

// ATen's gradient of an average pool over volumes lies by rows, however the volume lies.
template <int N>
TensorType average_gradient(const TensorType& x) {
  return N == 2 ? suggested(x, x.shape, x.dtype) : contiguous_type(x.dtype, x.device, x.shape);
}

template <int N>
Types avg_pool_backward_meta(const Args& a) {
  return {average_gradient<N>(a.tensor("self"))};
}

template <int N>
Arg avg_pool_backward_body(Builder& b, const Args& a) {
  const TensorType x = a.tensor("self"), g = a.tensor("grad_output");
  if (!is_for_kernels(x)) return {};
  const std::vector<Windows> windows = windows_of(x.shape, g.shape, window("avg_pool", a, N));
  if (windows.empty() || readers(windows) > kMostTaps) return {};
  const Expr dx =
      by_windows(b.expr(a["grad_output"]), windows, has_channels_last(x, windows), [&](const Expr& v, int64_t first) {
        const Formula shares = divided(compute(b, v.arg()), first, windows, a);
        return b.expr(store(window_gradient(shares, first, windows), x.dtype));
      });
  return with_strides(dx, average_gradient<N>(x).strides).arg();
}

template <int N>
void avg_pool_backward_vjp(VjpContext& c) {
  const Args a = c.args();
  c.put("grad_output", c.b(N == 2 ? "torch.avg_pool2d" : "torch.avg_pool3d", c.grad(), a["kernel_size"], a["stride"],
                           a["padding"], a["ceil_mode"], a["count_include_pad"], a["divisor_override"]));
}

template <int N>
void avg_pool_vjp(VjpContext& c) {
  const Args a = c.args();
  Window w = window("avg_pool", a, N);
  c.put("input", c.b(N == 2 ? "torch.avg_pool2d_backward" : "torch.avg_pool3d_backward", c.grad(), c.in("input"),
                     w.kernel, w.stride, w.padding, w.ceil, a["count_include_pad"], a["divisor_override"]));
}

Arg avg_pool1d_body(Builder& b, const Args& a) {
  Window w = window("avg_pool1d", a, 1);
  pooled_shape("avg_pool1d", a, 1);
  Expr y = b("torch.avg_pool2d", b("torch.unsqueeze", a["input"], -2), behind(w.kernel, 1), behind(w.stride, 1),
             behind(w.padding, 0), w.ceil, a["count_include_pad"]);
  return b("torch.squeeze", y, -2).arg();
}

// The output size, None meaning the input's.
Dims adaptive_size(std::string_view op, const Args& a, size_t n) {
  const TensorType& x = a.tensor("input");
  size_t rank = x.shape.size();
  const Arg& given = a["output_size"];
  THUNDER_CHECK(rank > n || !given.is_sequence(), Value, op, "Input dimension should be at least ", n + 1);
  THUNDER_CHECK(rank == n + 1 || rank == n + 2, Runtime, op, "Expected ", n + 1, "D or ", n + 2, "D tensor, but got ",
                str(x.shape));
  THUNDER_CHECK(!given.is_sequence() || given.items().size() == n, Runtime, op, op, ": output_size must be ", n);
  Dims out;
  for (size_t i = 0; i < n; ++i) {
    const Arg& item = given.is_sequence() ? given.items()[i] : given;
    out.push_back(item.is_none() ? x.shape[rank - n + i] : as_dim(item));
    THUNDER_CHECK(out.back() >= 0, Runtime, op,
                  "elements of output_size must be greater than or equal to 0, but received ", str(out));
  }
  return out;
}

Types adaptive_avg_pool2d_meta(const Args& a) {
  const TensorType& x = a.tensor("input");
  Dims shape = x.shape, size = a.dims("output_size");
  shape[shape.size() - 2] = size[0];
  shape[shape.size() - 1] = size[1];
  return {suggested(x, shape, x.dtype)};
}

// Where all windows are as large as each other; nothing else.
std::vector<Windows> even_windows(const Dims& in, const Dims& out) {
  Window w;
  for (size_t i = 0; i < 2; ++i) {
    const Dim &from = in[in.size() - 2 + i], &to = out[out.size() - 2 + i];
    if (!from.is_constant() || !to.is_constant() || to.constant() == 0 || from.constant() % to.constant() != 0)
      return {};
    w.kernel.push_back(from.constant() / to.constant());
  }
  w.stride = w.kernel;
  w.padding = {0, 0};
  w.dilation = {1, 1};
  return windows_of(in, out, w);
}

Arg adaptive_avg_pool2d_whole_body(Builder& b, const Args& a) {
  const TensorType x = a.tensor("input"), out = adaptive_avg_pool2d_meta(a)[0].tensor();
  const std::vector<Windows> windows = even_windows(x.shape, out.shape);
  if (!is_for_kernels(x) || windows.empty() || elements(windows) > kMostTaps) return {};
  const Expr y =
      by_windows(b.expr(a["input"]), windows, has_channels_last(x, windows), [&](const Expr& v, int64_t first) {
        const Formula sums = window_sums(compute(b, v.arg()), first, windows);
        return b.expr(store(sums / static_cast<double>(elements(windows)), x.dtype));
      });
  return with_strides(y, out.strides).arg();
}

Arg adaptive_avg_pool2d_backward_body(Builder& b, const Args& a) {
  const TensorType x = a.tensor("self"), g = a.tensor("grad_output");
  const std::vector<Windows> windows = even_windows(x.shape, g.shape);
  if (!is_for_kernels(x) || windows.empty()) return {};
  const Expr dx =
      by_windows(b.expr(a["grad_output"]), windows, has_channels_last(x, windows), [&](const Expr& v, int64_t first) {
        const Formula shares = compute(b, v.arg()) / static_cast<double>(elements(windows));
        return b.expr(store(window_gradient(shares, first, windows), x.dtype));
      });
  return with_strides(dx, suggested(x, x.shape, x.dtype).strides).arg();
}

void adaptive_avg_pool2d_backward_vjp(VjpContext& c) {
  const Dims& own = c.in("grad_output").shape();
  c.put("grad_output", c.b("torch._adaptive_avg_pool2d", c.grad(), Dims(own.end() - 2, own.end())));
}

void adaptive_avg_pool2d_vjp(VjpContext& c) {
  c.put("input", c.b("torch._adaptive_avg_pool2d_backward", c.grad(), c.in("input")));
}

Arg adaptive_avg_pool2d_body(Builder& b, const Args& a) {
  Dims size = adaptive_size("adaptive_avg_pool2d", a, 2);
  if (size[0] == 1 && size[1] == 1) return b("torch.mean", a["input"], Arg(std::vector<int64_t>{-1, -2}), true).arg();
  return b("torch._adaptive_avg_pool2d", a["input"], size).arg();
}

Arg adaptive_avg_pool1d_body(Builder& b, const Args& a) {
  Dims size = adaptive_size("adaptive_avg_pool1d", a, 1);
  Expr y = b("torch.adaptive_avg_pool2d", b("torch.unsqueeze", a["input"], -2), Arg(behind(size, 1)));
  return b("torch.squeeze", y, -2).arg();
}

#define MAX_POOL \
  "(Tensor input, int[] kernel_size, int[]? stride=None, int[] padding=0, int[] dilation=1, bool ceil_mode=False"
#define AVG_POOL                                                                                       \
  "(Tensor input, int[] kernel_size, int[]? stride=None, int[] padding=0, bool ceil_mode=False, bool " \
  "count_include_pad=True"
#define WITH_INDICES                                                                                                \
  "(Tensor input, int[] kernel_size, int[] stride=[], int[] padding=0, int[] dilation=1, bool ceil_mode=False) -> " \
  "(Tensor, Tensor)"
#define WITH_INDICES_BACKWARD                                                                                          \
  "(Tensor grad_output, Tensor self, int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool ceil_mode, " \
  "Tensor indices) -> Tensor"
#define AVG_BACKWARD                                                                                        \
  "(Tensor grad_output, Tensor self, int[] kernel_size, int[] stride, int[] padding, bool ceil_mode, bool " \
  "count_include_pad, int? divisor_override) -> Tensor"

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "max_pool2d_with_indices" WITH_INDICES, .doc = "Maximum of each 2-d window, and where it is.",
     .meta = max_pool_meta<2>, .vjp = max_pool_vjp<2>, .aten = "max_pool2d_with_indices",
     .python = "torch.ops.aten.max_pool2d_with_indices"},
    {.schema = "max_pool3d_with_indices" WITH_INDICES, .doc = "Maximum of each 3-d window, and where it is.",
     .meta = max_pool_meta<3>, .vjp = max_pool_vjp<3>, .aten = "max_pool3d_with_indices",
     .python = "torch.ops.aten.max_pool3d_with_indices"},
    {.schema = "max_pool2d_with_indices_backward" WITH_INDICES_BACKWARD, .doc = "Gradient of max_pool2d.",
     .meta = gradient_of_self, .body = max_pool_backward_body<2>, .vjp = max_pool_backward_vjp<2>, .aten = "max_pool2d_with_indices_backward",
     .python = "torch.ops.aten.max_pool2d_with_indices_backward"},
    {.schema = "max_pool3d_with_indices_backward" WITH_INDICES_BACKWARD, .doc = "Gradient of max_pool3d.",
     .meta = gradient_of_self, .body = max_pool_backward_body<3>, .vjp = max_pool_backward_vjp<3>, .aten = "max_pool3d_with_indices_backward",
     .python = "torch.ops.aten.max_pool3d_with_indices_backward"},
    {.schema = "max_pool1d_with_indices" MAX_POOL ", bool return_indices=False) -> (Tensor, Tensor)",
     .doc = "Maximum of each window, and where it is.", .body = max_pool1d_body,
     .python = "torch.nn.functional.max_pool1d_with_indices torch.max_pool1d_with_indices"},
    {.schema = "max_pool2d_with_indices.functional" MAX_POOL ", bool return_indices=False) -> (Tensor, Tensor)",
     .doc = "Maximum of each 2-d window, and where it is.", .body = max_pool2d_pair_body,
     .python = "torch.nn.functional.max_pool2d_with_indices"},
    {.schema = "max_pool3d_with_indices.functional" MAX_POOL ", bool return_indices=False) -> (Tensor, Tensor)",
     .doc = "Maximum of each 3-d window, and where it is.", .body = max_pool3d_pair_body,
     .python = "torch.nn.functional.max_pool3d_with_indices"},
    {.schema = "max_pool1d" MAX_POOL ", bool return_indices=False) -> any", .doc = "Maximum of each window.",
     .body = max_pool1d_body, .python = "torch.nn.functional.max_pool1d torch.max_pool1d"},
    {.schema = "max_pool2d" MAX_POOL ", bool return_indices=False) -> any", .doc = "Maximum of each 2-d window.",
     .body = max_pool2d_body, .python = "torch.nn.functional.max_pool2d torch.max_pool2d"},
    {.schema = "max_pool3d" MAX_POOL ", bool return_indices=False) -> any", .doc = "Maximum of each 3-d window.",
     .body = max_pool3d_body, .python = "torch.nn.functional.max_pool3d torch.max_pool3d"},
    {.schema = "avg_pool1d" AVG_POOL ") -> Tensor", .doc = "Mean of each window.", .body = avg_pool1d_body,
     .python = "torch.nn.functional.avg_pool1d torch.avg_pool1d"},
    {.schema = "avg_pool2d" AVG_POOL ", int? divisor_override=None) -> Tensor", .doc = "Mean of each 2-d window.",
     .meta = avg_pool_meta<2>, .body = avg_pool_body<2>, .vjp = avg_pool_vjp<2>, .aten = "avg_pool2d",
     .python = "torch.nn.functional.avg_pool2d torch._C._nn.avg_pool2d"},
    {.schema = "avg_pool3d" AVG_POOL ", int? divisor_override=None) -> Tensor", .doc = "Mean of each 3-d window.",
     .meta = avg_pool_meta<3>, .body = avg_pool_body<3>, .vjp = avg_pool_vjp<3>, .aten = "avg_pool3d",
     .python = "torch.nn.functional.avg_pool3d torch._C._nn.avg_pool3d"},
    {.schema = "avg_pool2d_backward" AVG_BACKWARD, .doc = "Gradient of avg_pool2d.",
     .meta = avg_pool_backward_meta<2>, .body = avg_pool_backward_body<2>, .vjp = avg_pool_backward_vjp<2>,
     .aten = "avg_pool2d_backward", .python = "torch.ops.aten.avg_pool2d_backward"},
    {.schema = "avg_pool3d_backward" AVG_BACKWARD, .doc = "Gradient of avg_pool3d.",
     .meta = avg_pool_backward_meta<3>, .body = avg_pool_backward_body<3>, .vjp = avg_pool_backward_vjp<3>,
     .aten = "avg_pool3d_backward", .python = "torch.ops.aten.avg_pool3d_backward"},
    {.schema = "_adaptive_avg_pool2d(Tensor input, int[] output_size) -> Tensor",
     .doc = "Means of as many windows as output_size says.", .meta = adaptive_avg_pool2d_meta,
     .body = adaptive_avg_pool2d_whole_body,
     .vjp = adaptive_avg_pool2d_vjp, .aten = "_adaptive_avg_pool2d", .python = "torch.ops.aten._adaptive_avg_pool2d"},
    {.schema = "_adaptive_avg_pool2d_backward(Tensor grad_output, Tensor self) -> Tensor",
     .doc = "Gradient of adaptive_avg_pool2d.", .meta = gradient_of_self,
     .body = adaptive_avg_pool2d_backward_body, .vjp = adaptive_avg_pool2d_backward_vjp, .aten = "_adaptive_avg_pool2d_backward",
     .python = "torch.ops.aten._adaptive_avg_pool2d_backward"},
    {.schema = "adaptive_avg_pool1d(Tensor input, any output_size) -> Tensor",
     .doc = "Means of as many windows as output_size says.", .body = adaptive_avg_pool1d_body,
     .python = "torch.nn.functional.adaptive_avg_pool1d torch.adaptive_avg_pool1d"},
    {.schema = "adaptive_avg_pool2d(Tensor input, any output_size) -> Tensor",
     .doc = "Means of as many windows as output_size says.", .body = adaptive_avg_pool2d_body,
     .python = "torch.nn.functional.adaptive_avg_pool2d"},
};
// clang-format on

#undef MAX_POOL
#undef AVG_POOL
#undef WITH_INDICES
#undef WITH_INDICES_BACKWARD
#undef AVG_BACKWARD

}  // namespace

Records pool() { return kRecords; }

}  // namespace thunder::ops::torch
