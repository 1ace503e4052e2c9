#include "executors/attention/backend.h"

#include <utility>

namespace thunder::attention {
namespace {

Expr padded(Builder& b, const Arg& x) {
  const TensorType& t = x.value().tensor();
  const Dim more = ops::torch::attention_padding(t);
  if (more == 0) return b.expr(x);
  ArgList config(t.rank(), Dims{0, 0, 0});
  config.back() = Dims{0, more, 0};
  return b("prims.pad", x, 0.0, Arg::list(config));
}

// As densely as the operator's own result lies: views behind it were taken for granted.
Expr without_padding(const Expr& result, const Dim& size) {
  if (result.shape().back().same(size)) return result;
  Dims end = result.shape(), start(end.size(), Dim(0)), step(end.size(), Dim(1));
  end.back() = size;
  Expr part = result.builder()("prims.slice", result, start, end, step);
  return result.builder()("prims.restride", part, preserve_format_strides(part.tensor()));
}

}  // namespace

std::shared_ptr<Executor> make_executor(const std::string& name, const Backend& backend) {
  auto executor = std::make_shared<Executor>(name);
  for (const OpDef& def : backend.records) {
    if (def.body) Registry::instance().add(name, def, true);  // nobody's: claiming opens it
    else executor->register_operator(def, name + "ex_" + std::string(def.schema.substr(0, def.schema.find('('))));
  }
  Implementation attention;
  attention.checker = backend.takes;
  auto by = [call = backend.call](const std::string& prefix) {
    return [call, prefix](Builder& b, const Args& a) {
      const AttentionOperands operands{padded(b, a["query"]), padded(b, a["key"]), padded(b, a["value"])};
      return without_padding(call(b, a, operands, prefix), a.tensor("value").shape.back()).arg();
    };
  };
  attention.transform = by("");
  attention.grad_transform = by("grad_forward_");
  executor->register_implementation(std::string(ops::torch::kWindowedAttention), attention);
  attention.prepare = [mask = backend.mask](Builder& b, const Args& a) {
    ArgList args = a.list();
    if (a.has("attn_mask")) args[static_cast<size_t>(a.op().schema.index_of("attn_mask"))] = mask(b, a).arg();
    return args;
  };
  executor->register_implementation(std::string(ops::torch::kAttention), std::move(attention));
  return executor;
}

Expr first(Builder& b, const Arg& results) { return b.expr(results.is_value() ? results : results.items()[0]); }

Expr without_repeats(Builder& b, const Arg& mask) {
  const TensorType& t = mask.value().tensor();
  Dims end = t.shape, start(end.size(), Dim(0)), step(end.size(), Dim(1));
  for (size_t i = 0; i + 1 < end.size(); ++i)
    if (t.strides[i].same(0) && end[i].is_constant()) end[i] = min(end[i], Dim(1));
  return same(end, t.shape) ? b.expr(mask) : b("prims.slice", mask, start, end, step);
}

std::string drawing(const Args& a) { return a.real("dropout_p") == 0 ? "" : "_with_dropout"; }

TensorType result(const TensorType& like, Dims shape, Dims strides, DType t) {
  return TensorType{.dtype = t, .device = like.device, .shape = std::move(shape), .strides = std::move(strides)};
}

TensorType contiguous_result(const TensorType& like, Dims shape, DType t) {
  Dims strides = contiguous_strides(shape);
  return result(like, std::move(shape), std::move(strides), t);
}

TensorType heads_inside(const TensorType& like, const Dims& shape, DType t) {
  Dims stored = shape;
  std::swap(stored[1], stored[2]);
  Dims strides = contiguous_strides(stored);
  std::swap(strides[1], strides[2]);
  return result(like, shape, std::move(strides), t);
}

TensorType like(const TensorType& t) { return result(t, t.shape, preserve_format_strides(t), t.dtype); }

Types gradients_like_operands(const Args& a) {
  return {like(a.tensor("query")), like(a.tensor("key")), like(a.tensor("value"))};
}

Types first_of(const Types& types) { return {types.front()}; }

void put_gradients(VjpContext& c, const Expr& gradients) {
  c.put("query", gradients[0]);
  c.put("key", gradients[1]);
  c.put("value", gradients[2]);
}

Expr dense_last(const Expr& g) {
  return g.tensor().strides.back() == 1
             ? g
             : g.builder()("torch.clone", g, kw("memory_format", ConstantArg{"torch.contiguous_format"}));
}

}  // namespace thunder::attention
