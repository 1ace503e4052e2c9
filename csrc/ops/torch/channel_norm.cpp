// torch: norms over channels: batch and instance norm.
//
// batch_norm in training writes its running statistics.  The records here return new ones instead; the front end writes
// them back.
#include <cmath>
#include <utility>

#include "ops/common.h"
#include "ops/formula.h"
#include "ops/shape_common.h"
#include "ops/torch/channel_moments.h"

namespace thunder::ops::torch {
namespace {

bool given(const Args& a, const char* name) { return a.op().schema.index_of(name) >= 0 && a.has(name); }

// The dtype of saved statistics: f32 where a parameter's dtype differs from a 16-bit input's, and always on CUDA.
DType statistics_type(const Args& a) {
  const TensorType& x = a.tensor("input");
  if (x.device.type == DeviceType::cuda) return compute_type(x.dtype);
  return statistics_beside(a, {"weight", "bias", "running_mean", "running_var"});
}

// ---- batch norm -----------------------------------------------------------------------------------------------------

// ATen's kernels of the CPU take parameters of the input's dtype, or all in f32 beside an input of 16 bits.
void check_parameter_dtypes(const Args& a) {
  const TensorType& x = a.tensor("input");
  if (x.device.type != DeviceType::cpu) return;
  const bool is_low = x.dtype == DType::f16 || x.dtype == DType::bf16;
  DType expected = x.dtype;
  bool is_first = true;
  for (const char* name : {"weight", "bias", "running_mean", "running_var"}) {
    if (!given(a, name)) continue;
    const DType t = a.tensor(name).dtype;
    if (std::exchange(is_first, false) && is_low && t == DType::f32) expected = t;
    THUNDER_CHECK(t == expected, Runtime, "batch_norm", "expected ", name, " to have dtype ", torch_name(expected),
                  " beside an input of ", torch_name(x.dtype), ", got ", torch_name(t));
  }
}

void check_batch_norm(const Args& a, bool training) {
  const TensorType& x = a.tensor("input");
  THUNDER_CHECK(x.rank() >= 2, Index, "batch_norm", "Dimension out of range (expected to be in range of [-",
                std::max<int64_t>(x.rank(), 1), ", ", std::max<int64_t>(x.rank(), 1) - 1, "], but got 1)");
  check_floating("batch_norm", "batch_norm", a["input"]);
  for (const char* name : {"running_mean", "running_var", "weight", "bias"}) {
    bool running = std::string_view(name).starts_with("running");
    if (!given(a, name)) {
      THUNDER_CHECK(training || !running, Runtime, "batch_norm", name, " must be defined in evaluation mode");
      continue;
    }
    THUNDER_CHECK(a.tensor(name).numel() == x.shape[1], Runtime, "batch_norm", name, " should contain ", x.shape[1],
                  " elements not ", a.tensor(name).numel());
    THUNDER_CHECK(!running || a.tensor(name).rank() == 1, Runtime, "batch_norm", name, " should have 1 dimension not ",
                  a.tensor(name).rank());
  }
  check_parameter_dtypes(a);
}

struct Moments {
  Formula mean, invstd, var;
};

Formula channel(Builder& b, const Args& a, const char* name, DType t) { return as(Formula(b, a[name]), t); }

Dim channel_count(const TensorType& t) { return floordiv(t.numel(), max(t.shape[1], Dim(1))); }

// Whether neighbours in memory are of different channels: channels last, or nothing but channels.
bool channels_innermost(const TensorType& t) {
  if (t.rank() == 2) return true;
  const Dim& own = t.strides[1];
  if (!own.is_constant() || !all_constant(t.shape) || !all_constant(t.strides)) return suggests_channels_last(t);
  for (size_t d = 0; d < t.shape.size(); ++d)
    if (d != 1 && t.shape[d].constant() > 1 && t.strides[d].constant() <= own.constant()) return false;
  return true;
}

// Rows of each channel of each sample.
Dims split_channels(const TensorType& t) {
  return {t.shape[0], t.shape[1], product(Dims(t.shape.begin() + 2, t.shape.end()))};
}

// One element of each channel: the k-th of three that lie apart.
Formula sample_of_channels(Builder& b, const Arg& x, int64_t k) {
  const Dims& shape = x.value().shape();
  Dims start, end, step(shape.size(), Dim(1));
  for (size_t d = 0; d < shape.size(); ++d) {
    const int64_t third = (k + static_cast<int64_t>(d)) % 3;
    start.push_back(d == 1 ? Dim(0) : floordiv(shape[d] * Dim(2 * third + 1), Dim(6)));
    end.push_back(d == 1 ? shape[1] : start[d] + Dim(1));
  }
  Expr part = b("prims.slice", x, start, end, step);
  return compute(b, b("prims.squeeze", part, Arg(other_dims(part.rank(), {1}))));
}

// If two of the three elements are far off, the variance in float32 has an error of about the square of their distance
// from the mean.
Formula middle_of_channels(Builder& b, const Arg& x) {
  return median(sample_of_channels(b, x, 0), sample_of_channels(b, x, 1), sample_of_channels(b, x, 2));
}

// As an instance norm has.
bool has_one_sample(const TensorType& t) { return t.shape[0].is_constant() && t.shape[0].constant() == 1; }

Formula without_samples(Builder& b, const Formula& f) {
  return Formula(b("prims.squeeze", f, Arg(std::vector<int64_t>{0})));
}

// Rows of a channel first, about their own means; then the samples.
std::pair<Formula, Formula> moments_of_rows(Builder& b, const Formula& x) {
  const Dims split = split_channels(x.expr().tensor());
  Formula rows(reshape(b, x, split));
  Formula mean = sum(rows, {2}).call("prims.div", Arg(split[2]));
  Formula centred = rows - spread(mean, split, {2});
  Formula var = sum(centred * centred, {2}).call("prims.div", Arg(split[2]));
  if (has_one_sample(x.expr().tensor())) return {without_samples(b, mean), without_samples(b, var)};
  const Dim half = floordiv(split[0], Dim(2));
  Formula about = without_samples(
      b, Formula(b("prims.slice", mean, Dims{half, Dim(0)}, Dims{half + Dim(1), split[1]}, Dims{Dim(1), Dim(1)})));
  auto [whole, between] = moments_about(mean, about, {0}, split[0]);
  return {whole, sum(var, {0}).call("prims.div", Arg(split[0])) + between};
}

Moments batch_moments(Builder& b, const Args& a, const Formula& x, bool training) {
  auto with_invstd = [&](const Formula& mean, const Formula& var) {
    return Moments{mean, rsqrt(var.call("prims.add", a["eps"])), var};
  };
  if (!training) return with_invstd(channel(b, a, "running_mean", x.dtype()), channel(b, a, "running_var", x.dtype()));
  const TensorType t = x.expr().tensor();
  if (!channels_innermost(t)) {
    auto [mean, var] = moments_of_rows(b, x);
    return with_invstd(mean, var);
  }
  auto [mean, var] = moments_about(x, middle_of_channels(b, a["input"]), other_dims(t.rank(), {1}), channel_count(t));
  return with_invstd(mean, var);
}

// Digits that an offset loses where the mean is large are none that 16 bits had.
bool is_coarse(const Args& a) { return itemsize(a.tensor("input").dtype) == 2; }

Formula applied(Builder& b, const Args& a, const Formula& x, const Moments& m) {
  auto wide = [&](const Formula& f) { return spread_channels(f, x.shape(), 1); };
  Formula scale = given(a, "weight") ? m.invstd * channel(b, a, "weight", x.dtype()) : m.invstd;
  if (is_coarse(a)) {
    Formula offset = -(m.mean * scale);
    if (given(a, "bias")) offset = channel(b, a, "bias", x.dtype()) + offset;
    return x * wide(scale) + wide(offset);
  }
  Formula y = (x - wide(m.mean)) * wide(scale);
  return given(a, "bias") ? y + wide(channel(b, a, "bias", x.dtype())) : y;
}

// In the layout of ATen's result: channels last if the input is, else row-major.
Expr in_suggested_layout(const Expr& y, const TensorType& x) {
  return with_strides(y, suggests_channels_last(x) ? channels_last_strides(x.shape) : contiguous_strides(x.shape));
}

// A statistic that the gradient needs; none flows through it.
Arg saved(const Formula& statistic, DType t) { return statistic.b()("prims.detach", store(statistic, t)); }

Arg native_batch_norm_body(Builder& b, const Args& a) {
  bool training = a.flag("training");
  check_batch_norm(a, training);
  THUNDER_CHECK(!training || !given(a, "running_mean"), NotImplemented, "native_batch_norm",
                "running statistics would be written in place; use torch._native_batch_norm_legit_functional");
  const TensorType t = a.tensor("input");
  Formula x = compute(b, a["input"]);
  Moments m = batch_moments(b, a, x, training);
  Arg y = in_suggested_layout(b.expr(store(applied(b, a, x, m), t.dtype)), t).arg();
  DType stats = statistics_type(a);
  // Without training only the kernels of a GPU give back what they normalised by.
  if (training || t.device.type != DeviceType::cpu)
    return Arg::tuple({y, saved(m.mean, stats), saved(m.invstd, stats)});
  Arg none = full(b, {0}, 0.0, stats, t.device);
  return Arg::tuple({y, none, full(b, {0}, 0.0, stats, t.device)});
}

Arg functional_batch_norm_body(Builder& b, const Args& a) {
  check_batch_norm(a, true);
  const TensorType t = a.tensor("input");
  Formula x = compute(b, a["input"]);
  Moments m = batch_moments(b, a, x, true);
  DType stats = statistics_type(a);
  const Dim count = channel_count(t);
  const Arg momentum = a["momentum"];
  auto moved = [&](const char* name, const Formula& now) {
    Formula old = channel(b, a, name, x.dtype());
    Formula kept = momentum.is_value() ? old - old.call("prims.mul", momentum) : old * (1 - momentum.real());
    return store(kept + now.call("prims.mul", momentum), a.tensor(name).dtype);
  };
  Formula unbiased = m.var.call("prims.mul", Arg(count)).call("prims.div", Arg(count - 1));
  Arg y = in_suggested_layout(b.expr(store(applied(b, a, x, m), t.dtype)), t).arg();
  return Arg::tuple(
      {y, saved(m.mean, stats), saved(m.invstd, stats), moved("running_mean", m.mean), moved("running_var", unbiased)});
}

void batch_norm_vjp(VjpContext& c) {
  if (!c.has_grad(0)) return;
  const Args a = c.args();
  ArgList mask = {c.needs("input"), c.needs("weight"), c.needs("bias")};
  // In training the batch's own statistics count, and the running ones have been written to since.
  bool training = a.flag("training");
  Arg mean = training ? Arg() : a["running_mean"], var = training ? Arg() : a["running_var"];
  Expr r = c.b("torch.native_batch_norm_backward", c.grad(0), c.in("input"), a["weight"], mean, var, c.out(1), c.out(2),
               a["training"], a["eps"], Arg::list(std::move(mask)));
  c.put("input", r[0]);
  if (c.needs("weight")) c.put("weight", r[1]);
  if (c.needs("bias")) c.put("bias", r[2]);
}

// As ATen lays out the gradient of the input.
Dims gradient_strides(const TensorType& x, bool training) {
  if (!suggests_channels_last(x)) return contiguous_strides(x.shape);
  const Dims last = channels_last_strides(x.shape);
  // With gaps in its memory the input takes the kernel of a GPU that gives rows.
  const bool rows = x.device.type == DeviceType::cuda && training && x.strides != last;
  return rows ? contiguous_strides(x.shape) : last;
}

// The sum over all but the channels.
Formula channel_sum(Builder& b, const Formula& f, bool columns) {
  const TensorType t = f.expr().tensor();
  if (columns) return sum(f, other_dims(t.rank(), {1}));
  const Formula of_samples = sum(Formula(reshape(b, f, split_channels(t))), {2});
  // A sum over one sample would take a second kernel, which reads the rows again.
  return has_one_sample(t) ? without_samples(b, of_samples) : sum(of_samples, {0});
}

Arg batch_norm_backward_body(Builder& b, const Args& a) {
  const TensorType t = a.tensor("input");
  const bool training = a.flag("train"), columns = channels_innermost(t);
  const ArgList& mask = a["output_mask"].items();
  Formula x = compute(b, a["input"]), g = compute(b, a["grad_out"]);
  auto wide = [&](const Formula& f) { return spread_channels(f, t.shape, 1); };
  Formula mean = channel(b, a, training ? "save_mean" : "running_mean", x.dtype());
  Formula invstd = training ? channel(b, a, "save_invstd", x.dtype())
                            : rsqrt(channel(b, a, "running_var", x.dtype()).call("prims.add", a["eps"]));
  Formula scale = given(a, "weight") ? invstd * channel(b, a, "weight", x.dtype()) : invstd;
  Formula centred = x - wide(mean);
  Formula of_bias = channel_sum(b, g, columns), of_normal = channel_sum(b, g * centred, columns) * invstd;
  ArgList out(3);
  if (mask[0].boolean()) {
    Formula gx = g;
    if (training) {
      const Dim count = channel_count(t);
      Formula slope = (of_normal * invstd).call("prims.div", Arg(count)), level = of_bias.call("prims.div", Arg(count));
      gx =
          is_coarse(a) ? g - (x * wide(slope) + wide(level - slope * mean)) : (g - wide(level)) - centred * wide(slope);
    }
    out[0] = with_strides(b.expr(store(gx * wide(scale), t.dtype)), gradient_strides(t, training)).arg();
  }
  const DType stored = given(a, "weight") ? a.tensor("weight").dtype : t.dtype;
  if (mask[1].boolean()) out[1] = store(of_normal, stored);
  if (mask[2].boolean()) out[2] = store(of_bias, stored);
  return Arg::tuple(std::move(out));
}

void no_second_derivative(VjpContext& c) {
  THUNDER_CHECK(false, NotImplemented, c.call.op->name,
                "a gradient flows through this operator, but it has no gradient rule");
}

// A vector without elements, which counts as having no channels: the result is a copy.
Arg batch_norm_of_nothing(Builder& b, const Args& a) {
  const bool no_channels = a.tensor("input").rank() == 1;
  for (const char* name : {"running_mean", "running_var"})
    THUNDER_CHECK(!no_channels || !given(a, name) || a.tensor(name).numel() == 0, Runtime, "batch_norm", name,
                  " should contain 0 elements not ", a.tensor(name).numel());
  Expr y = b("prims.clone", a["input"]);
  if (given(a, "weight")) y = y * b("torch.select", a["weight"], 0, 0);
  if (given(a, "bias")) y = y + b("torch.select", a["bias"], 0, 0);
  return Arg::tuple({y.arg(), a["running_mean"], a["running_var"]});
}

// What F.batch_norm takes for eps.  One that only the run knows is taken for such.
bool is_eps_of_batch_norm(const Arg& eps, bool training) {
  if (!eps.is_literal_number()) return true;
  return training ? !(eps.real() <= 0) : !(eps.real() < 0);
}

// (output, new running mean, new running variance); statistics that do not change are returned as they came.
Arg batch_norm_functional_body(Builder& b, const Args& a) {
  const TensorType& x = a.tensor("input");
  bool training = a.flag("training");
  THUNDER_CHECK(is_eps_of_batch_norm(a["eps"], training), Value, "batch_norm", "eps must be ",
                training ? "positive during training" : "non-negative", ", but got ", a["eps"].real());
  if ((x.rank() == 1 || training) && known_empty(x.shape)) return batch_norm_of_nothing(b, a);
  if (training && x.rank() >= 1) {
    ShapeEnv::Exactly scope;
    Dim per_channel = x.shape[0] * product(Dims(x.shape.begin() + std::min<int64_t>(2, x.rank()), x.shape.end()));
    THUNDER_CHECK(!(per_channel == 1), Value, "batch_norm",
                  "Expected more than 1 value per channel when training, got input size torch.Size([", join(x.shape),
                  "])");
  }
  THUNDER_CHECK(!training || given(a, "running_mean") == given(a, "running_var"), Value, "batch_norm",
                "running_mean and running_var must either both be None or neither be None");
  if (training && given(a, "running_mean")) {
    Expr r = b("torch._native_batch_norm_legit_functional", a["input"], a["weight"], a["bias"], a["running_mean"],
               a["running_var"], true, a["momentum"], a["eps"]);
    return Arg::tuple({r[0].arg(), r[3].arg(), r[4].arg()});
  }
  Expr r = b("torch.native_batch_norm", a["input"], a["weight"], a["bias"], a["running_mean"], a["running_var"],
             training, a["momentum"], a["eps"]);
  return Arg::tuple({r[0].arg(), a["running_mean"], a["running_var"]});
}

// Statistics that do not change are returned as they came.
Arg native_batch_norm_functional_body(Builder& b, const Args& a) {
  if (a.flag("training") && given(a, "running_mean"))
    return b("torch._native_batch_norm_legit_functional", a["input"], a["weight"], a["bias"], a["running_mean"],
             a["running_var"], true, a["momentum"], a["eps"]);
  Expr r = b("torch.native_batch_norm", a["input"], a["weight"], a["bias"], a["running_mean"], a["running_var"],
             a["training"], a["momentum"], a["eps"]);
  return Arg::tuple({r[0].arg(), r[1].arg(), r[2].arg(), a["running_mean"], a["running_var"]});
}

// ---- instance norm --------------------------------------------------------------------------------------------------

// A batch norm in which each channel of each sample is a channel of its own.  (output, new running mean, new running
// variance); statistics that do not change are returned as they came.
Arg instance_norm_functional_body(Builder& b, const Args& a) {
  const TensorType t = a.tensor("input");
  bool training = a.flag("use_input_stats");
  THUNDER_CHECK(training || (given(a, "running_mean") && given(a, "running_var")), Runtime, "instance_norm",
                "Expected running_mean and running_var to be defined when use_input_stats is false");
  Dims spatial(t.shape.begin() + std::min<int64_t>(2, t.rank()), t.shape.end());
  const auto has_one_element = [&] {
    ShapeEnv::Exactly scope;
    return product(spatial) == 1;
  };
  THUNDER_CHECK(!training || (t.rank() >= 2 && !has_one_element()), Value, "instance_norm",
                "Expected more than 1 spatial element when training, got input size torch.Size([", join(t.shape), "])");
  THUNDER_CHECK(t.rank() >= 2, Index, "instance_norm", "expected an input with 2 dimensions or more, got ", t.rank());
  Dims merged = {1, t.shape[0] * t.shape[1]};
  merged.insert(merged.end(), spatial.begin(), spatial.end());
  auto repeated = [&](const char* name) {
    return a.has(name) ? b("torch.repeat", a[name], Arg(Dims{t.shape[0]})) : Expr(b, Arg());
  };
  Expr x = torch_reshape(b("torch.contiguous", a["input"]), merged);
  const Expr mean = repeated("running_mean"), var = repeated("running_var");
  const Expr weight = repeated("weight"), bias = repeated("bias");
  // An instance norm takes any eps.
  const bool plain = is_eps_of_batch_norm(a["eps"], training);
  const Expr r =
      plain ? b("torch.batch_norm_functional", x, mean, var, weight, bias, training, a["momentum"], a["eps"])
            : b("torch.native_batch_norm_functional", x, weight, bias, mean, var, training, a["momentum"], a["eps"]);
  auto averaged = [&](const char* name, const Expr& of_samples) {
    if (!training || !given(a, name)) return a[name];
    return b("torch.mean", torch_reshape(of_samples, {t.shape[0], t.shape[1]}), 0).arg();
  };
  return Arg::tuple({torch_reshape(r[0], t.shape).arg(), averaged("running_mean", r[plain ? 1 : 3]),
                     averaged("running_var", r[plain ? 2 : 4])});
}

Arg instance_norm_body(Builder& b, const Args& a) {
  THUNDER_CHECK(!a.flag("use_input_stats") || (!given(a, "running_mean") && !given(a, "running_var")), NotImplemented,
                "instance_norm", "running statistics would be written in place; use torch.instance_norm_functional");
  return b("torch.instance_norm_functional", a["input"], a["running_mean"], a["running_var"], a["weight"], a["bias"],
           a["use_input_stats"], a["momentum"], a["eps"])[0];
}

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "batch_norm_functional(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight=None, "
               "Tensor? bias=None, bool training=False, float momentum=0.1, float eps=1e-05) "
               "-> (Tensor, Tensor, Tensor)",
     .doc = "Batch norm, and the running statistics after it.", .body = batch_norm_functional_body,
     .python = "torch.nn.functional.batch_norm", .writes = "running_mean running_var"},
    {.schema = "native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
               "Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
     .doc = "Batch norm without running statistics, or by them, with what its gradient needs.",
     .body = native_batch_norm_body, .vjp = batch_norm_vjp, .aten = "native_batch_norm",
     .python = "torch.ops.aten.native_batch_norm"},
    {.schema = "native_batch_norm_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
               "Tensor? running_var, bool training, float momentum, float eps) "
               "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
     .doc = "Batch norm, with what its gradient needs and the running statistics after it.",
     .body = native_batch_norm_functional_body, .python = "torch.native_batch_norm",
     .writes = "running_mean running_var"},
    {.schema = "_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, "
               "Tensor running_var, bool training, float momentum, float eps) "
               "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
     .doc = "Batch norm in training, with what its gradient needs and the new running statistics.",
     .body = functional_batch_norm_body, .vjp = batch_norm_vjp, .aten = "_native_batch_norm_legit_functional",
     .python = "torch.ops.aten._native_batch_norm_legit_functional"},
    {.schema = "native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, "
               "Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, "
               "bool[] output_mask) -> (Tensor, Tensor, Tensor)",
     .doc = "Gradients of batch norm; None where output_mask is false.", .body = batch_norm_backward_body,
     .vjp = no_second_derivative,
     .aten = "native_batch_norm_backward", .python = "torch.ops.aten.native_batch_norm_backward"},
    {.schema = "instance_norm_functional(Tensor input, Tensor? running_mean=None, Tensor? running_var=None, "
               "Tensor? weight=None, Tensor? bias=None, bool use_input_stats=True, float momentum=0.1, "
               "float eps=1e-05) -> (Tensor, Tensor, Tensor)",
     .doc = "Normalises each channel of each sample; also the running statistics after it.",
     .body = instance_norm_functional_body, .writes = "running_mean running_var"},
    {.schema = "instance_norm(Tensor input, Tensor? running_mean=None, Tensor? running_var=None, Tensor? weight=None, "
               "Tensor? bias=None, bool use_input_stats=True, float momentum=0.1, float eps=1e-05) -> Tensor",
     .doc = "Normalises each channel of each sample.", .body = instance_norm_body,
     .python = "torch.nn.functional.instance_norm"},
};
// clang-format on

}  // namespace

Records channel_norm() { return kRecords; }

}  // namespace thunder::ops::torch
