#include "executors/cudnn/cudnn.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "executors/aten/record_lowering.h"
#include "executors/attention/backend.h"
#include "executors/cudnn/any_length.h"
#include "executors/cudnn/kernels_ahead.h"

namespace thunder {
namespace {

using namespace attention;

// The output has the query's order of dimensions in memory; with its shape too, it is laid out like the query.
TensorType output_type(const Args& a) {
  const TensorType &q = a.tensor("query"), &v = a.tensor("value");
  if (q.shape[3] == v.shape[3]) return like(q);
  Dims shape = q.shape;
  shape[3] = v.shape[3];
  std::vector<size_t> order(4);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t j) { return q.strides[i] > q.strides[j]; });
  Dims strides(4, Dim(1));
  Dim next = 1;
  for (size_t i = 4; i-- > 0;) {
    strides[order[i]] = next;
    next *= shape[order[i]];
  }
  return result(q, std::move(shape), std::move(strides), q.dtype);
}

Types types(const Args& a) {
  const TensorType& q = a.tensor("query");
  Type none, seed = contiguous_result(q, {}, DType::i64);  // without dropout a placeholder
  return {output_type(a),
          contiguous_result(q, {q.shape[0], q.shape[1], q.shape[2], 1}, DType::f32),
          none,
          none,
          none,
          none,
          seed,
          seed,
          none};
}

Types output(const Args& a) { return {output_type(a)}; }

// The kernel takes the gradient to be laid out like the output, whatever its strides say.
Expr laid_out_like(const Expr& g, const Expr& out) {
  return same(g.tensor().strides, out.tensor().strides) ? g : g.builder()("prims.restride", g, out.tensor().strides);
}

// PyTorch keeps the backward's plans by the layouts of query, key, value and bias and by the options, byte for byte,
// but not by the gradient's layout.  A plan that an eager call has made for another layout would read ours wrongly, and
// the other way round.  Probabilities that no eager call has keep our plans, which all read the output's layout, apart
// from everybody else's: minus zero, which is no dropout either, and the float32 below the caller's.
double dropout_of_forward(const Args& a) {
  const auto p = static_cast<float>(a.real("dropout_p"));
  return p == 0 || p == 1 ? p : std::nextafter(p, 0.0F);  // all that 1 drops stays dropped
}

double dropout_of_backward(double of_forward) { return of_forward == 0 ? -0.0 : of_forward; }

// An empty bias would be taken for one: without a bias it is undefined.
void vjp(VjpContext& c) {
  if (!c.has_grad(0)) return;
  const Args a = c.args();
  put_gradients(c, c.b("cudnn.scaled_dot_product_attention_backward", laid_out_like(c.grad(0), c.out(0)), a["query"],
                       a["key"], a["value"], c.out(0), c.out(1), c.out(6), c.out(7), a["attn_bias"], nullptr, nullptr,
                       c.in("query").shape()[2], c.in("key").shape()[2], dropout_of_backward(a.real("dropout_p")),
                       a["is_causal"], kw("scale", a["scale"])));
}

#define ATTENTION_PARAMS                                                                                         \
  "(Tensor query, Tensor key, Tensor value, Tensor? attn_bias=None, float dropout_p=0.0, bool is_causal=False, " \
  "float? scale=None)"
#define ATTENTION_RESULTS " -> (Tensor, Tensor, Tensor, Tensor, int, int, Tensor, Tensor, Tensor)"
#define ATTENTION_ATEN(log_sum_exp)                                                \
  "_scaled_dot_product_cudnn_attention(query, key, value, attn_bias, " log_sum_exp \
  ", dropout_p, is_causal, "                                                       \
  "False, scale=scale)"

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "scaled_dot_product_attention" ATTENTION_PARAMS " -> Tensor",
     .doc = "Attention by cuDNN.", .tags = kMatmul, .meta = output, .aten = ATTENTION_ATEN("False")},
    {.schema = "grad_forward_scaled_dot_product_attention" ATTENTION_PARAMS ATTENTION_RESULTS,
     .doc = "The same with the log-sum-exp and the random state.", .tags = kMatmul, .meta = types, .vjp = vjp,
     .aten = ATTENTION_ATEN("True")},
    {.schema = "scaled_dot_product_attention_with_dropout" ATTENTION_PARAMS " -> Tensor",
     .doc = "Attention by cuDNN, with dropout.", .tags = kMatmul | kRandom, .meta = output,
     .aten = ATTENTION_ATEN("False")},
    {.schema = "grad_forward_scaled_dot_product_attention_with_dropout" ATTENTION_PARAMS ATTENTION_RESULTS,
     .doc = "The same with the log-sum-exp and the random state.", .tags = kMatmul | kRandom, .meta = types,
     .vjp = vjp, .aten = ATTENTION_ATEN("True")},
    {.schema = "scaled_dot_product_attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, "
               "Tensor out, Tensor logsumexp, Tensor philox_seed, Tensor philox_offset, Tensor? attn_bias, "
               "Tensor? cum_seq_q, Tensor? cum_seq_k, int max_q, int max_k, float dropout_p, bool is_causal, *, "
               "float? scale=None) -> (Tensor, Tensor, Tensor)",
     .doc = "Its gradients.", .tags = kMatmul, .meta = gradients_like_operands,
     .aten = "_scaled_dot_product_cudnn_attention_backward"},
};
// clang-format on

#undef ATTENTION_PARAMS
#undef ATTENTION_RESULTS
#undef ATTENTION_ATEN

// cuDNN reads a bias as numbers of the query's type, whatever they are.
Expr bias(Builder& b, const Args& a) {
  const DType t = a.tensor("query").dtype;
  return ops::to_dtype(ops::torch::additive_mask(b, without_repeats(b, a["attn_mask"]).arg(), t), t);
}

Expr call_kernel(Builder& b, const Args& a, const AttentionOperands& x, const std::string& prefix) {
  const Arg mask = a.has("attn_mask") ? bias(b, a).arg() : Arg();
  return first(b, b.call_named("cudnn." + prefix + "scaled_dot_product_attention" + drawing(a),
                               {x.query.arg(), x.key.arg(), x.value.arg(), mask, dropout_of_forward(a), a["is_causal"],
                                ops::torch::attention_scale(a)},
                               {}));
}

bool takes(const Call& call) {
  const Args a = call.arguments();
  return a.tensor("query").device.type == DeviceType::cuda && ops::torch::fits_cudnn_attention(a, support_of(a));
}

// Lengths that are known when the program runs may be 1, which cuDNN does not take.
void lower_any_length() {
  register_lowering("cudnn", [by_records = *find_lowering("cudnn")](const Call& call, const Assembler& assembler) {
    cudnn::compile_ahead(call, by_records);
    return cudnn::with_any_length(call, assembler, by_records(call, assembler));
  });
}

std::shared_ptr<Executor> make_cudnn() {
  std::shared_ptr<Executor> made = make_executor("cudnn", {kRecords, takes, call_kernel, bias});
  aten::lower_by_records("cudnn");
  lower_any_length();
  return made;
}

}  // namespace

ExecutorDefinition cudnn_executor() {
  // Before `sdpa`, as PyTorch prefers it.
  return {.place = ExecutorPlace::Default, .rank = 70, .make = make_cudnn};
}

}  // namespace thunder
