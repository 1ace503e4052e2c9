#include "executors/sdpa/sdpa.h"

#include <string>

#include "core/error.h"
#include "executors/aten/record_lowering.h"
#include "executors/attention/backend.h"
#include "ops/formula.h"

namespace thunder {
namespace {

using namespace attention;
using ops::torch::attention_kernel;
using ops::torch::attention_scale;
using ops::torch::AttentionKernel;

// ---- flash attention on the CPU -------------------------------------------------------------------------------------

Types cpu_flash_types(const Args& a) {
  const TensorType& q = a.tensor("query");
  return {like(q), heads_inside(q, {q.shape[0], q.shape[1], q.shape[2]}, compute_type(q.dtype))};
}

Types cpu_flash_output(const Args& a) { return first_of(cpu_flash_types(a)); }

Types cpu_flash_backward_types(const Args& a) {
  Types out;
  for (const char* name : {"query", "key", "value"})
    out.push_back(heads_inside(a.tensor(name), a.tensor(name).shape, a.tensor(name).dtype));
  return out;
}

void cpu_flash_vjp(VjpContext& c) {
  if (!c.has_grad(0)) return;
  const Args a = c.args();
  put_gradients(c, c.b("sdpa.scaled_dot_product_flash_attention_for_cpu_backward", dense_last(c.grad(0)), a["query"],
                       a["key"], a["value"], c.out(0), c.out(1), a["dropout_p"], a["is_causal"],
                       kw("attn_mask", a["attn_mask"]), kw("scale", a["scale"])));
}

// ---- flash attention on CUDA ----------------------------------------------------------------------------------------

Types cuda_flash_types(const Args& a) {
  const TensorType& q = a.tensor("query");
  Type none;
  return {like(q),
          contiguous_result(q, {q.shape[0], q.shape[1], q.shape[2]}, DType::f32),
          none,
          none,
          none,
          none,
          contiguous_result(q, {2}, DType::u64),
          contiguous_result(q, {}, DType::u64),
          none};
}

Types cuda_flash_output(const Args& a) { return first_of(cuda_flash_types(a)); }

void cuda_flash_vjp(VjpContext& c) {
  if (!c.has_grad(0)) return;
  const Args a = c.args();
  put_gradients(c,
                c.b("sdpa.scaled_dot_product_flash_attention_backward", dense_last(c.grad(0)), a["query"], a["key"],
                    a["value"], c.out(0), c.out(1), nullptr, nullptr, c.in("query").shape()[2], c.in("key").shape()[2],
                    a["dropout_p"], a["is_causal"], c.out(6), c.out(7), kw("scale", a["scale"])));
}

// ---- flash attention of a window: [batch, rows, heads, size] -------------------------------------------------------

Types windowed_flash_types(const Args& a) {
  const TensorType& q = a.tensor("query");
  return {like(q), contiguous_result(q, {q.shape[0], q.shape[2], q.shape[1]}, DType::f32),
          contiguous_result(q, {2}, DType::u64), contiguous_result(q, {}, DType::u64),
          contiguous_result(q, {0}, q.dtype)};
}

Types windowed_flash_output(const Args& a) { return first_of(windowed_flash_types(a)); }

void windowed_flash_vjp(VjpContext& c) {
  if (!c.has_grad(0)) return;
  const Args a = c.args();
  put_gradients(c, c.b("sdpa.windowed_flash_attention_backward", dense_last(c.grad(0)), a["query"], a["key"],
                       a["value"], c.out(0), c.out(1), nullptr, nullptr, c.in("query").shape()[1],
                       c.in("key").shape()[1], a["dropout_p"], false, c.out(2), c.out(3), kw("scale", a["scale"]),
                       kw("window_size_left", a["left"]), kw("window_size_right", a["right"])));
}

// The efficient kernel reads a mask, and writes its gradient, in rows of a multiple of so many elements.
constexpr int64_t kMaskRow = 16;

// ---- memory-efficient attention -------------------------------------------------------------------------------------

Types efficient_types(const Args& a) {
  const TensorType &q = a.tensor("query"), &v = a.tensor("value");
  Dims shape = q.shape;
  shape.back() = v.shape.back();
  Dim padded_rows = ceildiv(q.shape[2], 32) * 32;
  Type seed = ops::contiguous_type(DType::i64, Device{DeviceType::cpu, -1}, {});  // without dropout a placeholder
  return {heads_inside(q, shape, q.dtype), contiguous_result(q, {q.shape[0], q.shape[1], padded_rows}, DType::f32),
          seed, seed};
}

Types efficient_output(const Args& a) { return first_of(efficient_types(a)); }

Types efficient_backward_types(const Args& a) {
  Types out = cpu_flash_backward_types(a);
  out.push_back(Type());
  return out;
}

// The kernel reads the gradient with the heads inside, and copies any other.
Expr heads_inside_gradient(const Expr& g) {
  const TensorType &t = g.tensor(), wanted = heads_inside(t, t.shape, t.dtype);
  for (size_t i = 0; i < t.shape.size(); ++i)
    if (!t.shape[i].same(1) && !t.strides[i].same(wanted.strides[i]))
      return g.builder()("prims.restride", g, wanted.strides);
  return g;
}

void efficient_vjp(VjpContext& c) {
  if (!c.has_grad(0)) return;
  const Args a = c.args();
  put_gradients(c, c.b("sdpa.scaled_dot_product_efficient_attention_backward", heads_inside_gradient(c.grad(0)),
                       a["query"], a["key"], a["value"], a["attn_mask"], c.out(0), c.out(1), c.out(2), c.out(3),
                       a["dropout_p"], a["is_causal"], kw("scale", a["scale"])));
}

// With a mask that requires a gradient: a composite, in whose body the mask is repeated, so that the gradient of what
// several calls read is added up before it is repeated.

Types efficient_backward_types_with_mask(const Args& a) {
  const TensorType &q = a.tensor("query"), &k = a.tensor("key");
  Types out = cpu_flash_backward_types(a);
  const Dim &rows = q.shape[2], &columns = k.shape[2], stored = ceildiv(columns, kMaskRow) * kMaskRow;
  out.push_back(result(q, {q.shape[0], q.shape[1], rows, columns},
                       {q.shape[1] * rows * stored, rows * stored, stored, Dim(1)}, q.dtype));
  return out;
}

Expr expanded(const Expr& mask, const Args& a) {
  const Dims &q = a.tensor("query").shape, &k = a.tensor("key").shape;
  return mask.builder()("torch.expand", mask, Dims{q[0], q[1], q[2], k[2]});
}

Arg trained_mask_body(Builder& b, const Args& a) {
  return b.call_named("sdpa.grad_forward_scaled_dot_product_efficient_attention" + drawing(a),
                      {a["query"], a["key"], a["value"], expanded(b.expr(a["attn_mask"]), a).arg(), a["dropout_p"],
                       a["is_causal"], a["scale"]},
                      {});
}

// In float32 where there is something to add up: autodiff rounds the sum over all calls.
Expr summed_to(const Expr& gradient, const Dims& mask) {
  const size_t more = gradient.shape().size() - mask.size();
  std::vector<int64_t> dims;
  for (size_t i = 0; i < gradient.shape().size(); ++i)
    if (i < more || !(mask[i - more] == gradient.shape()[i])) dims.push_back(static_cast<int64_t>(i));
  if (dims.empty()) return gradient;
  const Expr sum =
      gradient.builder()("torch.sum", gradient, Arg(dims), true, kw("dtype", compute_type(gradient.dtype())));
  return ops::torch_reshape(sum, mask);
}

void trained_mask_vjp(VjpContext& c) {
  if (!c.has_grad(0)) return;
  const Args a = c.args();
  const Expr gradients =
      c.b("sdpa.scaled_dot_product_efficient_attention_backward_with_mask", heads_inside_gradient(c.grad(0)),
          a["query"], a["key"], a["value"], expanded(c.in("attn_mask"), a), c.out(0), c.out(1), c.out(2), c.out(3),
          a["dropout_p"], a["is_causal"], kw("scale", a["scale"]));
  put_gradients(c, gradients);
  c.put("attn_mask", summed_to(gradients[3], c.in("attn_mask").shape()));
}

// ---- records --------------------------------------------------------------------------------------------------------

constexpr uint64_t kTags = kMatmul;

#define ATTENTION_PARAMS                                                                                         \
  "(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, bool is_causal=False, " \
  "float? scale=None)"
#define CPU_FLASH_ATEN                                                                    \
  "_scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout_p, is_causal, " \
  "attn_mask=attn_mask, scale=scale)"
#define FLASH_ATEN "_scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, False, scale=scale)"
#define FLASH_RESULTS " -> (Tensor, Tensor, Tensor, Tensor, int, int, Tensor, Tensor, Tensor)"
#define WINDOWED_PARAMS                                                                                        \
  "(Tensor query, Tensor key, Tensor value, int left, int right, int rows, int columns, float dropout_p=0.0, " \
  "float? scale=None)"
#define WINDOWED_ATEN                                                                                             \
  "_flash_attention_forward(query, key, value, None, None, rows, columns, dropout_p, False, False, scale=scale, " \
  "window_size_left=left, window_size_right=right)"
#define WINDOWED_RESULTS " -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
#define EFFICIENT_ATEN(log_sum_exp)                                                    \
  "_scaled_dot_product_efficient_attention(query, key, value, attn_mask, " log_sum_exp \
  ", dropout_p, "                                                                      \
  "is_causal, scale=scale)"
#define EFFICIENT_RESULTS " -> (Tensor, Tensor, Tensor, Tensor)"

// A kernel and, with a gradient, the same kernel with what the gradient reads; both without dropout and with it,
// because calls that draw numbers are neither merged nor repeated.
#define FOUR_FORWARDS(name, params, results, output, types, rule, aten_output, aten_types, kernel)                     \
  {.schema = name params " -> Tensor",                                                                                 \
   .doc = "Attention by " kernel ".",                                                                                  \
   .tags = kTags,                                                                                                      \
   .meta = output,                                                                                                     \
   .aten = aten_output},                                                                                               \
      {.schema = "grad_forward_" name params results,                                                                  \
       .doc = "The same with the log-sum-exp and the random state.",                                                   \
       .tags = kTags,                                                                                                  \
       .meta = types,                                                                                                  \
       .vjp = rule,                                                                                                    \
       .aten = aten_types},                                                                                            \
      {.schema = name "_with_dropout" params " -> Tensor",                                                             \
       .doc = "Attention by " kernel ", with dropout.",                                                                \
       .tags = kTags | kRandom,                                                                                        \
       .meta = output,                                                                                                 \
       .aten = aten_output},                                                                                           \
  {                                                                                                                    \
    .schema = "grad_forward_" name "_with_dropout" params results,                                                     \
    .doc = "The same with the log-sum-exp and the random state.", .tags = kTags | kRandom, .meta = types, .vjp = rule, \
    .aten = aten_types                                                                                                 \
  }

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "scaled_dot_product_flash_attention_for_cpu" ATTENTION_PARAMS " -> Tensor",
     .doc = "Attention by the CPU's flash kernel.", .tags = kTags, .meta = cpu_flash_output, .aten = CPU_FLASH_ATEN},
    {.schema = "grad_forward_scaled_dot_product_flash_attention_for_cpu" ATTENTION_PARAMS " -> (Tensor, Tensor)",
     .doc = "The same with the log-sum-exp.", .tags = kTags, .meta = cpu_flash_types, .vjp = cpu_flash_vjp,
     .aten = CPU_FLASH_ATEN},
    {.schema = "scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, Tensor key, "
               "Tensor value, Tensor out, Tensor logsumexp, float dropout_p, bool is_causal, *, "
               "Tensor? attn_mask=None, float? scale=None) -> (Tensor, Tensor, Tensor)",
     .doc = "Its gradients.", .tags = kTags, .meta = cpu_flash_backward_types,
     .aten = "_scaled_dot_product_flash_attention_for_cpu_backward"},

    FOUR_FORWARDS("scaled_dot_product_flash_attention", ATTENTION_PARAMS, FLASH_RESULTS, cuda_flash_output,
                  cuda_flash_types, cuda_flash_vjp, FLASH_ATEN, FLASH_ATEN, "CUDA's flash kernel"),
    {.schema = "scaled_dot_product_flash_attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, "
               "Tensor out, Tensor logsumexp, Tensor? cum_seq_q, Tensor? cum_seq_k, int max_q, int max_k, "
               "float dropout_p, bool is_causal, Tensor philox_seed, Tensor philox_offset, *, float? scale=None) "
               "-> (Tensor, Tensor, Tensor)",
     .doc = "Its gradients.", .tags = kTags, .meta = gradients_like_operands,
     .aten = "_scaled_dot_product_flash_attention_backward"},

    FOUR_FORWARDS("windowed_flash_attention", WINDOWED_PARAMS, WINDOWED_RESULTS, windowed_flash_output,
                  windowed_flash_types, windowed_flash_vjp, WINDOWED_ATEN, WINDOWED_ATEN,
                  "CUDA's flash kernel, of [batch, rows, heads, size] and a window of columns for each row"),
    {.schema = "windowed_flash_attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, "
               "Tensor out, Tensor logsumexp, Tensor? cum_seq_q, Tensor? cum_seq_k, int max_q, int max_k, "
               "float dropout_p, bool is_causal, Tensor rng_state, Tensor unused, *, float? scale=None, "
               "int? window_size_left=None, int? window_size_right=None) -> (Tensor, Tensor, Tensor)",
     .doc = "Its gradients.", .tags = kTags, .meta = gradients_like_operands, .aten = "_flash_attention_backward"},

    FOUR_FORWARDS("scaled_dot_product_efficient_attention", ATTENTION_PARAMS, EFFICIENT_RESULTS, efficient_output,
                  efficient_types, efficient_vjp, EFFICIENT_ATEN("False"), EFFICIENT_ATEN("True"),
                  "CUDA's memory-efficient kernel"),
    {.schema = "scaled_dot_product_efficient_attention_backward(Tensor grad_out, Tensor query, Tensor key, "
               "Tensor value, Tensor? attn_mask, Tensor out, Tensor logsumexp, Tensor philox_seed, "
               "Tensor philox_offset, float dropout_p, bool is_causal, *, float? scale=None) "
               "-> (Tensor, Tensor, Tensor, Tensor)",
     .doc = "Its gradients; none for the mask.", .tags = kTags, .meta = efficient_backward_types,
     .aten = "_scaled_dot_product_efficient_attention_backward(grad_out, query, key, value, attn_mask, out, logsumexp, "
             "philox_seed, philox_offset, dropout_p, [True, True, True, False], is_causal, scale=scale)"},
    {.schema = "scaled_dot_product_efficient_attention_backward_with_mask(Tensor grad_out, Tensor query, Tensor key, "
               "Tensor value, Tensor attn_mask, Tensor out, Tensor logsumexp, Tensor philox_seed, "
               "Tensor philox_offset, float dropout_p, bool is_causal, *, float? scale=None) "
               "-> (Tensor, Tensor, Tensor, Tensor)",
     .doc = "Its gradients; that of the mask is one for each score.", .tags = kTags,
     .meta = efficient_backward_types_with_mask,
     .aten = "_scaled_dot_product_efficient_attention_backward(grad_out, query, key, value, attn_mask, out, logsumexp, "
             "philox_seed, philox_offset, dropout_p, [True, True, True, True], is_causal, scale=scale)"},
    {.schema = "efficient_attention_with_trained_mask" ATTENTION_PARAMS EFFICIENT_RESULTS,
     .doc = "Attention by CUDA's memory-efficient kernel, with the log-sum-exp and the random state; the mask has a "
            "gradient.", .tags = kTags, .body = trained_mask_body, .vjp = trained_mask_vjp},
};
// clang-format on

#undef FOUR_FORWARDS
#undef ATTENTION_PARAMS
#undef CPU_FLASH_ATEN
#undef FLASH_ATEN
#undef FLASH_RESULTS
#undef WINDOWED_PARAMS
#undef WINDOWED_ATEN
#undef WINDOWED_RESULTS
#undef EFFICIENT_ATEN
#undef EFFICIENT_RESULTS

// ---- from the torch operator to a kernel ----------------------------------------------------------------------------

const char* kernel_name(AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::FlashCpu: return "scaled_dot_product_flash_attention_for_cpu";
    case AttentionKernel::FlashCuda: return "scaled_dot_product_flash_attention";
    case AttentionKernel::Efficient: return "scaled_dot_product_efficient_attention";
    case AttentionKernel::Math: break;
  }
  THUNDER_ASSERT(false, "no kernel");
}

// Rows are padded in memory, and cut to their size again by a view.
Expr aligned_mask(const Expr& mask, const Dim& columns) {
  Builder& b = mask.builder();
  Expr m = mask;
  if (m.shape().back() != columns) {
    Dims wide = m.shape();
    wide.back() = columns;
    m = b("torch.expand", m, wide);
  }
  const TensorType& t = m.tensor();
  const Dim padded = ceildiv(columns, kMaskRow) * kMaskRow;
  bool aligned = t.strides.back() == 1;
  for (size_t i = 0; i + 1 < t.shape.size(); ++i) {
    // A single row, too, is read beyond its end: only its stride says that there is something.
    const bool reads_next = t.shape[i] != 1 || padded != columns;
    aligned &= !reads_next || (mod(t.strides[i], kMaskRow) == 0 && (t.shape[i] != 1 || t.strides[i] >= padded));
  }
  if (aligned) return m;
  if (padded == columns) return b("prims.restride", m, contiguous_strides(t.shape));
  ArgList config(t.shape.size(), Dims{0, 0, 0});
  config.back() = Dims{0, padded - columns, 0};
  const Dims start(t.shape.size(), Dim(0)), step(t.shape.size(), Dim(1));
  return b("prims.slice", b("prims.pad", m, 0.0, Arg::list(std::move(config))), start, t.shape, step);
}

Expr readable_mask(Builder& b, const Args& a) {
  const DType t = a.tensor("query").dtype;
  if (attention_kernel(a, support_of(a)) != AttentionKernel::Efficient)
    return ops::torch::additive_mask(b, a["attn_mask"], t);
  const Expr additive = ops::torch::additive_mask(b, without_repeats(b, a["attn_mask"]).arg(), t);
  return aligned_mask(ops::to_dtype(additive, t), a.tensor("key").shape[2]);
}

Expr windowed(Builder& b, const Args& a, const AttentionOperands& x, const std::string& prefix) {
  auto swapped = [&](const Expr& t) { return b("prims.transpose", t, Arg(std::vector<int64_t>{0, 2, 1, 3})); };
  return swapped(
      first(b, b.call_named("sdpa." + prefix + "windowed_flash_attention" + drawing(a),
                            {swapped(x.query).arg(), swapped(x.key).arg(), swapped(x.value).arg(), a["left"],
                             a["right"], x.query.shape()[2], x.key.shape()[2], a["dropout_p"], attention_scale(a)},
                            {})));
}

Expr call_kernel(Builder& b, const Args& a, const AttentionOperands& x, const std::string& prefix) {
  if (a.op().full_name == ops::torch::kWindowedAttention) return windowed(b, a, x, prefix);
  const AttentionKernel kernel = attention_kernel(a, support_of(a));
  Arg mask;
  if (a.has("attn_mask")) {
    mask = readable_mask(b, a).arg();
    if (kernel == AttentionKernel::Efficient && !prefix.empty() && mask.value().requires_grad())
      return first(b, b.call_named("sdpa.efficient_attention_with_trained_mask",
                                   {x.query.arg(), x.key.arg(), x.value.arg(), mask, a["dropout_p"], a["is_causal"],
                                    attention_scale(a)},
                                   {}));
    if (kernel == AttentionKernel::Efficient) mask = expanded(b.expr(mask), a).arg();
  }
  return first(b, b.call_named("sdpa." + prefix + kernel_name(kernel) + drawing(a),
                               {x.query.arg(), x.key.arg(), x.value.arg(), mask, a["dropout_p"], a["is_causal"],
                                attention_scale(a)},
                               {}));
}

bool takes(const Call& call) {
  const Args a = call.arguments();
  return attention_kernel(a, support_of(a)) != AttentionKernel::Math;
}

std::shared_ptr<Executor> make_sdpa() {
  std::shared_ptr<Executor> made = make_executor("sdpa", {kRecords, takes, call_kernel, readable_mask});
  aten::lower_by_records("sdpa");
  return made;
}

}  // namespace

ExecutorDefinition sdpa_executor() {
  // Before the fuser: attention as a whole is faster than its parts in fused kernels.
  return {.place = ExecutorPlace::Default, .rank = 80, .make = make_sdpa};
}

}  // namespace thunder
