#include "passes/narrow_masks.h"

#include <string>

#include "passes/pass_ops.h"
#include "passes/passes.h"

namespace thunder {
namespace {

using test::code;
using test::f32;
using test::pass_builder;

TensorType boolean(Dims shape) {
  TensorType t = f32(std::move(shape));
  t.dtype = DType::boolean;
  return t;
}

struct Program {
  Builder b = pass_builder();
  Expr q{b, b.input(f32({2, 4, 5, 8}), "q")};
  Expr seen{b, b.input(boolean({1, 1, 5, 5}), "seen")};
  Expr bias{b, b.input(f32({1, 4, 5, 5}, true), "bias")};

  Expr attention(const Expr& mask, double dropout = 0) {
    return b("torch.scaled_dot_product_attention", q, q, q, mask, dropout);
  }
  std::string after(const Expr& result) { return code(dce(narrow_masks(b.finish("f", result)))); }
  void stays(const Expr& result) {
    const Trace t = b.finish("f", result);
    CHECK(code(dce(narrow_masks(t))) == code(dce(t)));
  }
};

// The text up to the mask that attention gets; its names are t<n>.
std::string before_attention(const std::string& text) {
  return text.substr(0, text.find("ltorch.scaled_dot_product_attention"));
}

TEST_CASE("narrow_masks: what is expanded to the batch before it is combined with a bias") {
  Program p;
  const Expr wide = p.b("torch.expand", p.seen, Dims{2, 1, 5, 5});
  const std::string text = p.after(p.attention(p.b("torch.where", wide, p.bias, -1e9)));
  CHECK(text.find("prims.broadcast_in_dim(seen, [1, 4, 5, 5], [0, 1, 2, 3]") != std::string::npos);
  CHECK(text.find("bias, -1000000000.0)") != std::string::npos);
  CHECK(text.find("[2, ") == std::string::npos);
}

TEST_CASE("narrow_masks: rows and heads, through a permutation and a cast") {
  Program p;
  const Expr row = p.b.expr(p.b.input(f32({2, 5}), "row"));  // of each sample
  const Expr wide = p.b("torch.expand", p.b("torch.unsqueeze", p.b("torch.unsqueeze", row, 1), 1), Dims{2, 5, 4, 5});
  const Expr mask = p.b("torch.mul", p.b("torch.permute", wide, Arg::list({0, 2, 1, 3})), 2.0);
  const std::string text = p.after(p.attention(mask));
  CHECK(text.find("prims.mul") != std::string::npos);
  CHECK(text.find("5, 4, 5]") == std::string::npos);
  CHECK(text.find("4, 5, 5]") == std::string::npos);
}

TEST_CASE("narrow_masks: behind another call a view cuts off the repetitions") {
  Program p;
  const Expr made = p.b("torch.cumsum", p.bias, 0);  // no call that is looked through
  const Expr wide = p.b("torch.expand", made, Dims{2, 4, 5, 5});
  const Expr other = p.b.expr(p.b.input(f32({2, 4, 5, 5}), "other"));
  const Expr repeats = p.b("torch.expand", p.b("torch.narrow", other, 0, 0, 1), Dims{2, 4, 5, 5});
  const std::string text = p.after(p.attention(p.b("torch.add", wide, repeats)));
  CHECK(text.find("prims.add") != std::string::npos);
  CHECK(before_attention(text).find("[2, 4, 5, 5]") == std::string::npos);
}

TEST_CASE("narrow_masks: nothing to do") {
  Program broadcast, own, none, last;
  broadcast.stays(broadcast.attention(broadcast.b("torch.expand", broadcast.seen, Dims{2, 4, 5, 5})));
  own.stays(own.attention(own.b("torch.exp", own.bias)));
  none.stays(none.b("torch.scaled_dot_product_attention", none.q, none.q, none.q));
  const Expr column = last.b.expr(last.b.input(f32({1, 1, 5, 1}), "column"));
  last.stays(last.attention(last.b("torch.exp", last.b("torch.expand", column, Dims{1, 1, 5, 5}))));
}

TEST_CASE("narrow_masks: a broadcast with a gradient gives way to its operand") {
  Program p;
  const std::string text = p.after(p.attention(p.b("torch.expand", p.bias, Dims{2, 4, 5, 5})));
  CHECK(text.find("ltorch.scaled_dot_product_attention(q, q, q, bias,") != std::string::npos);
}

TEST_CASE("narrow_masks: what was made without a gradient stays without one") {
  Program p;
  p.b.set_grad_enabled(false);
  const Expr mask = p.b("torch.add", p.b("torch.expand", p.bias, Dims{2, 4, 5, 5}), 1.0);
  p.b.set_grad_enabled(true);
  const Trace t = narrow_masks(p.b.finish("f", p.attention(mask)));
  CHECK(code(dce(t)).find("prims.slice") != std::string::npos);
  CHECK(!t.output.value().requires_grad());
}

TEST_CASE("narrow_masks: random numbers do not repeat themselves") {
  Program p;
  const Expr wide = p.b("torch.expand", p.bias, Dims{2, 4, 5, 5});
  p.stays(p.attention(p.b("torch.dropout", p.b("torch.exp", wide), 0.5, true)));
}

TEST_CASE("narrow_masks: with dropout the mask's layout chooses the kernel that draws") {
  for (double dropout : {0.0, 0.5}) {
    Program p;
    const Expr x = p.b.expr(p.b.input(f32({2, 5, 5, 1}), "x"));
    const Expr heads_last = p.b("torch.exp", p.b("torch.expand", x, Dims{2, 5, 5, 4}));
    const Trace t = p.b.finish("f", p.attention(p.b("torch.permute", heads_last, Arg::list({0, 3, 1, 2})), dropout));
    CHECK((code(dce(narrow_masks(t))) == code(dce(t))) == (dropout > 0));
  }
}

}  // namespace
}  // namespace thunder
