#include "executors/attention/kernels.h"

#include <utility>

namespace thunder::attention {

std::shared_ptr<Executor> make_executor(const std::string& name, const Kernels& kernels) {
  auto executor = std::make_shared<Executor>(name);
  for (const OpDef& def : kernels.records)
    executor->register_operator(def, name + "ex_" + std::string(def.schema.substr(0, def.schema.find('('))));
  Implementation attention;
  attention.checker = kernels.takes;
  attention.transform = [call = kernels.call](Builder& b, const Args& a) { return call(b, a, ""); };
  attention.grad_transform = [call = kernels.call](Builder& b, const Args& a) {
    return call(b, a, "grad_forward_").items()[0];
  };
  executor->register_implementation("torch.scaled_dot_product_attention", std::move(attention));
  return executor;
}

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
