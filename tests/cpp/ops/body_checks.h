// Bodies that stand beside a meta, evaluated by the reference's primitives and compared with its kernel of the whole.
#pragma once

#include <doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/builder.h"
#include "core/error.h"
#include "fuzz/random.h"
#include "ops/families.h"
#include "reference/evaluator.h"

namespace thunder::test {

/// Numbers of [-1, 1), or the given ones.
struct Operand {
  DType dtype;
  std::vector<int64_t> sizes;
  bool channels_last = false;
  Device device = {DeviceType::cuda, 0};
  reference::ArrayPtr given = nullptr;
};

inline TensorType type_of(const Operand& o) {
  TensorType out;
  out.dtype = o.dtype;
  out.device = o.device;
  for (int64_t n : o.sizes) out.shape.emplace_back(n);
  out.strides = o.channels_last ? channels_last_strides(out.shape) : contiguous_strides(out.shape);
  return out;
}

inline Call called(Builder& b, const std::string& op, const std::vector<Operand>& operands, ArgList rest,
                   std::vector<Value>& inputs) {
  ArgList args;
  for (const Operand& o : operands) {
    inputs.push_back(b.input(type_of(o)));
    args.emplace_back(inputs.back());
  }
  args.insert(args.end(), rest.begin(), rest.end());
  b.call_named(op, std::move(args), {});
  return *b.calls().back();
}

inline bool has_body(const std::string& op, const std::vector<Operand>& operands, ArgList rest) {
  Builder b(std::make_shared<Arena>());
  std::vector<Value> inputs;
  return !called(b, op, operands, std::move(rest), inputs).body.empty();
}

/// The greatest difference between the two; infinite where there is no body.
inline double difference_of(Builder& b, const Call& whole, const std::vector<Value>& inputs,
                            const std::vector<Operand>& operands) {
  if (whole.body.empty()) return INFINITY;
  fuzz::Random random(3);
  reference::Evaluator direct, by_parts;
  for (size_t i = 0; i < inputs.size(); ++i) {
    reference::ArrayPtr in = operands[i].given;
    if (!in) {
      in = reference::make_array(operands[i].dtype, operands[i].device, operands[i].sizes);
      for (auto& e : in->data)
        e = reference::Element::real(reference::round_real(operands[i].dtype, random.uniform(-1, 1)));
    }
    direct.define(inputs[i], in);
    by_parts.define(inputs[i], in);
  }
  direct.run(whole, b.arena());
  for (const Call* c : whole.body) by_parts.run(*c, b.arena());
  const Value y = whole.output.value();
  const auto &wanted = *direct.get(y).array, &got = *by_parts.get(y).array;
  REQUIRE(wanted.shape == got.shape);
  double most = 0;
  for (size_t i = 0; i < wanted.data.size(); ++i) most = std::max(most, std::abs(wanted.data[i].re - got.data[i].re));
  return most;
}

inline double difference(const std::string& op, const std::vector<Operand>& operands, ArgList rest) {
  Builder b(std::make_shared<Arena>());
  std::vector<Value> inputs;
  const Call whole = called(b, op, operands, std::move(rest), inputs);
  return difference_of(b, whole, inputs, operands);
}

/// Of the gradient of max_pool2d, for the places of its maxima.
inline double max_pool_difference(const Operand& g, const Operand& x, const ArgList& options) {
  Builder b(std::make_shared<Arena>());
  std::vector<Value> inputs;
  const Call forward = called(b, "torch.max_pool2d_with_indices", {x}, options, inputs);
  fuzz::Random random(5);
  auto values = reference::make_array(x.dtype, x.device, x.sizes);
  for (auto& e : values->data) e = reference::Element::real(reference::round_real(x.dtype, random.uniform(-1, 1)));
  reference::Evaluator evaluator;
  evaluator.define(inputs[0], values);
  evaluator.run(forward, b.arena());
  const Operand indices = {DType::i64, g.sizes, g.channels_last, g.device,
                           evaluator.get(forward.output.items()[1].value()).array};
  std::vector<Value> all = {b.input(type_of(g)), b.input(type_of(x)), b.input(type_of(indices))};
  ArgList args = {Arg(all[0]), Arg(all[1])};
  args.insert(args.end(), options.begin(), options.end());
  args.emplace_back(all[2]);
  b.call_named("torch.max_pool2d_with_indices_backward", std::move(args), {});
  const Call whole = *b.calls().back();
  return difference_of(b, whole, all, {g, x, indices});
}

/// Of a result whose elements are sums of a few numbers below 2, and of places in float32.
inline double rounding_of(DType t) {
  return t == DType::bf16 ? 0.1 : t == DType::f16 ? 1e-2 : t == DType::f32 ? 2e-4 : 1e-10;
}

}  // namespace thunder::test
