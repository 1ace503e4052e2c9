// torch: group norm.
#include <utility>

#include "ops/common.h"
#include "ops/formula.h"
#include "ops/shape_common.h"
#include "ops/torch/channel_moments.h"

namespace thunder::ops::torch {
namespace {

// The input as [N, groups, channels of a group, positions], and the dimensions that a group is normalised over.
struct NormGroups {
  Dims split;
  std::vector<int64_t> dims = {2, 3};

  explicit NormGroups(const Args& a)
      : split{a.dim("N"), a.dim("group"), floordiv(a.dim("C"), a.dim("group")), a.dim("HxW")} {}
  Dims statistics() const { return {split[0], split[1]}; }
  Dim count() const { return split[2] * split[3]; }
  /// Weight or bias in the shape of `like`, in which `others` are not dimensions of channels.
  Formula parameter(Builder& b, const Args& a, const char* name, const Formula& like,
                    const std::vector<int64_t>& others) const {
    const Expr w = reshape(b, as(Formula(b, a[name]), like.dtype()), {split[1], split[2]});
    return spread(Formula(w), like.shape(), others);
  }
};

struct GroupMoments {
  Formula mean, rstd;
};

// Of rows: the positions of a group's channels.
GroupMoments moments_of_rows(const Args& a, const NormGroups& g, const Formula& x) {
  auto mean_of = [&](const Formula& f) { return sum(f, g.dims).call("prims.div", Arg(g.count())); };
  Formula mean = mean_of(x), centred = x - spread(mean, g.split, g.dims);
  return {mean, rsqrt(mean_of(centred * centred).call("prims.add", a["eps"]))};
}

// Where neighbours in memory are of different channels: of each channel's column, then of the columns of a group.
GroupMoments moments_of_columns(Builder& b, const Args& a, const NormGroups& g, const Formula& x) {
  const Dim& positions = g.split[3];
  auto sixths = [&](int64_t n) {
    Dims start(4, Dim(0)), end = g.split;
    start[3] = floordiv(positions * Dim(n), Dim(6));
    end[3] = start[3] + Dim(1);
    return Formula(b("prims.squeeze", b("prims.slice", x, start, end, Dims(4, Dim(1))), Arg(std::vector<int64_t>{3})));
  };
  const auto [mean, var] = moments_about(x, median(sixths(1), sixths(3), sixths(5)), {3}, positions);
  auto mean_of = [&](const Formula& f) { return sum(f, {2}).call("prims.div", Arg(g.split[2])); };
  const Formula whole = mean_of(mean), off = mean - spread(whole, mean.shape(), {2});
  return {whole, rsqrt(mean_of(var + off * off).call("prims.add", a["eps"]))};
}

// In the shape of the input, wherever the elements lie.
Expr normalised(Builder& b, const Args& a, const NormGroups& g, const Formula& x, const GroupMoments& m) {
  const TensorType t = a.tensor("input");
  Formula y = (x - spread(m.mean, g.split, g.dims)) * spread(m.rstd, g.split, g.dims);
  if (a.has("weight")) y = y * g.parameter(b, a, "weight", y, {0, 3});
  if (a.has("bias")) y = y + g.parameter(b, a, "bias", y, {0, 3});
  return reshape(b, store(y, t.dtype), t.shape);
}

Arg native_group_norm_body(Builder& b, const Args& a) {
  const TensorType t = a.tensor("input");
  check_floating("group_norm", "GroupNormKernelImpl", a["input"]);
  const NormGroups g(a);
  const Formula x = compute(b, reshape(b, contiguous(b, a["input"]), g.split));
  const GroupMoments m = moments_of_rows(a, g, x);
  Expr out = normalised(b, a, g, x, m);
  if (suggests_channels_last(t)) out = b("prims.clone", out, kw("memory_format", channels_last_format(t)));
  // Dimensions of size 1 may have any stride in a contiguous input; the kernel's result is new memory.
  else out = with_strides(out, contiguous_strides(t.shape));
  // On a GPU ATen stores a group's statistics as the input is stored.
  const DType stats = t.device.type == DeviceType::cuda ? t.dtype : statistics_beside(a, {"weight", "bias"});
  return Arg::tuple({out.arg(), store(m.mean, stats), store(m.rstd, stats)});
}

Arg group_norm_as_laid_out_body(Builder& b, const Args& a) {
  const TensorType t = a.tensor("input");
  check_floating("group_norm", "GroupNormKernelImpl", a["input"]);
  const NormGroups g(a);
  const bool columns = suggests_channels_last(t) && !known_empty(t.shape);
  const Formula x = compute(b, reshape(b, suggested_layout(b, a["input"]), g.split));
  const GroupMoments m = columns ? moments_of_columns(b, a, g, x) : moments_of_rows(a, g, x);
  const Expr out =
      with_strides(normalised(b, a, g, x, m), columns ? channels_last_strides(t.shape) : contiguous_strides(t.shape));
  return Arg::tuple({out.arg(), store(m.mean, x.dtype()), store(m.rstd, x.dtype())});
}

// d mean / dx = 1 / count, and d rstd / dx = -rstd^3 (x - mean) / count.
void group_statistics_vjp(VjpContext& c) {
  Expr x = c.in("input");
  const NormGroups g(c.args());
  auto wide = [&](const Expr& statistic) {
    return to_dtype(torch_reshape(statistic, {g.split[0], g.split[1], 1, 1}), x.dtype());
  };
  Expr rows = torch_reshape(x, g.split), mean = wide(c.out(1)), rstd = wide(c.out(2));
  Expr slope = c.b("torch.zeros_like", rows);
  if (c.has_grad(1)) slope = slope + wide(c.grad(1));
  if (c.has_grad(2)) slope = slope - wide(c.grad(2)) * c.b("torch.pow", rstd, 3) * (rows - mean);
  c.put("input", torch_reshape(c.b("torch.div", slope, Arg(g.count())), x.shape()));
}

// `laid_out` gives what the gradient's operator reads.  Second derivatives flow through the statistics, which it reads too.
template <class F>
void group_norm_vjp(VjpContext& c, const char* backward, F laid_out) {
  if (c.needs("input") && (c.has_grad(1) || c.has_grad(2))) group_statistics_vjp(c);
  if (!c.has_grad(0)) return;
  const Args a = c.args();
  ArgList mask = {c.needs("input"), c.needs("weight"), c.needs("bias")};
  Expr r = c.b(backward, laid_out(c.grad(0)), laid_out(c.in("input")), c.out(1), c.out(2), a["weight"], a["N"], a["C"],
               a["HxW"], a["group"], Arg::list(std::move(mask)));
  c.put("input", r[0]);
  if (c.needs("weight")) c.put("weight", r[1]);
  if (c.needs("bias")) c.put("bias", r[2]);
}

void native_group_norm_vjp(VjpContext& c) {
  group_norm_vjp(c, "torch.native_group_norm_backward", [&](const Expr& v) { return c.b("torch.contiguous", v); });
}

void group_norm_as_laid_out_vjp(VjpContext& c) {
  group_norm_vjp(c, "torch.group_norm_as_laid_out_backward", [](const Expr& v) { return v; });
}

// The means over a group are sums over its channels of sums over positions, which the parameters' gradients need too.
Arg gradients(Builder& b, const Args& a, const Expr& grad, const Expr& input) {
  const TensorType t = a.tensor("input");
  const ArgList& mask = a["output_mask"].items();
  const NormGroups groups(a);
  auto elements = [&](const Expr& of) { return compute(b, reshape(b, of.arg(), groups.split)); };
  Formula g = elements(grad), x = elements(input);
  auto wide = [&](const Formula& f) { return spread(f, groups.split, groups.dims); };
  auto statistic = [&](const char* name) {
    return wide(as(Formula(reshape(b, a[name], groups.statistics())), x.dtype()));
  };
  Formula rstd = statistic("rstd"), normal = (x - statistic("mean")) * rstd;
  Formula of_bias = sum(g, {3}), of_weight = sum(g * normal, {3});
  auto weighted = [&](const Formula& f, const std::vector<int64_t>& others) {
    return a.has("weight") ? f * groups.parameter(b, a, "weight", f, others) : f;
  };
  ArgList out(3);
  if (mask[0].boolean()) {
    auto mean = [&](const Formula& f) {
      return wide(sum(weighted(f, {0}), {2}).call("prims.div", Arg(groups.count())));
    };
    Formula gx = weighted(g, {0, 3}) - mean(of_bias) - normal * mean(of_weight);
    const bool last = suggests_channels_last(input.tensor());
    out[0] = with_strides(reshape(b, store(gx * rstd, t.dtype), t.shape),
                          last ? channels_last_strides(t.shape) : contiguous_strides(t.shape))
                 .arg();
  }
  const DType stored = a.has("weight") ? a.tensor("weight").dtype : t.dtype;
  auto parameter = [&](const Formula& f) { return reshape(b, store(sum(f, {0}), stored), {a.dim("C")}).arg(); };
  if (mask[1].boolean()) out[1] = parameter(of_weight);
  if (mask[2].boolean()) out[2] = parameter(of_bias);
  return Arg::tuple(std::move(out));
}

Arg native_group_norm_backward_body(Builder& b, const Args& a) {
  return gradients(b, a, contiguous(b, a["grad_out"]), contiguous(b, a["input"]));
}

Arg group_norm_as_laid_out_backward_body(Builder& b, const Args& a) {
  return gradients(b, a, b.expr(a["grad_out"]), suggested_layout(b, a["input"]));
}

Arg group_norm_body(Builder& b, const Args& a) {
  const TensorType& x = a.tensor("input");
  THUNDER_CHECK(x.rank() >= 2, Runtime, "group_norm", "Expected at least 2 dimensions for input tensor but received ",
                x.rank());
  const Dim &channels = x.shape[1], &groups = a.dim("num_groups");
  THUNDER_CHECK(groups > 0, Runtime, "group_norm", "Expected num groups to be greater than 0, got ", groups);
  THUNDER_CHECK(mod(channels, groups) == 0, Runtime, "group_norm",
                "Expected number of channels in input to be divisible by num_groups, "
                "but got input of shape ",
                str(x.shape), " and num_groups=", groups);
  for (const char* name : {"weight", "bias"})
    THUNDER_CHECK(!a.has(name) || (a.tensor(name).rank() == 1 && a.tensor(name).shape[0] == channels), Runtime,
                  "group_norm", "Expected ", name,
                  " to be a vector of size equal to the number of channels in input, but got ", name, " of shape ",
                  str(a.tensor(name).shape), " and input of shape ", str(x.shape));
  Dim inner = product(Dims(x.shape.begin() + 2, x.shape.end()));
  auto norm = [&](const char* name, const Expr& of) {
    return b(name, of, a["weight"], a["bias"], x.shape[0], channels, inner, groups, a["eps"])[0];
  };
  // ATen's kernels for channels last are the CPU's: a GPU's result lies by rows whatever the input does.
  if (x.device.type == DeviceType::cuda && suggests_channels_last(x))
    return contiguous(b, norm("torch.group_norm_as_laid_out", b.expr(a["input"])).arg()).arg();
  return norm("torch.native_group_norm", suggested_layout(b, a["input"])).arg();
}

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) "
               "-> Tensor",
     .doc = "Normalises groups of channels of each sample.", .body = group_norm_body, .aten = "group_norm",
     .python = "torch.nn.functional.group_norm torch.group_norm"},
    {.schema = "native_group_norm(Tensor input, Tensor? weight, Tensor? bias, int N, int C, int HxW, int group, "
               "float eps) -> (Tensor, Tensor, Tensor)",
     .doc = "Group norm with what its gradient needs.", .body = native_group_norm_body, .vjp = native_group_norm_vjp,
     .aten = "native_group_norm", .python = "torch.native_group_norm"},
    {.schema = "native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, "
               "int N, int C, int HxW, int group, bool[] output_mask) -> (Tensor, Tensor, Tensor)",
     .doc = "Gradients of group norm; None where output_mask is false.", .body = native_group_norm_backward_body,
     .aten = "native_group_norm_backward", .python = "torch.ops.aten.native_group_norm_backward"},
    {.schema = "group_norm_as_laid_out(Tensor input, Tensor? weight, Tensor? bias, int N, int C, int HxW, int group, "
               "float eps) -> (Tensor, Tensor, Tensor)",
     .doc = "Group norm whose result is channels last if the input is, on every device; statistics unrounded.",
     .body = group_norm_as_laid_out_body, .vjp = group_norm_as_laid_out_vjp},
    {.schema = "group_norm_as_laid_out_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, "
               "Tensor? weight, int N, int C, int HxW, int group, bool[] output_mask) -> (Tensor, Tensor, Tensor)",
     .doc = "Its gradients; that of the input lies as the input.", .body = group_norm_as_laid_out_backward_body},
};
// clang-format on

}  // namespace

Records group_norm() { return kRecords; }

}  // namespace thunder::ops::torch
