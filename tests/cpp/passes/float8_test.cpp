#include "passes/float8.h"

#include <algorithm>
#include <string>

#include "passes/autodiff.h"
#include "passes/pass_ops.h"
#include "passes/passes.h"

namespace thunder {
namespace {

using test::code;
using test::count;
using test::f32;
using test::pass_builder;

TensorType bf16(Dims shape, bool grad = false) {
  TensorType t = f32(std::move(shape), grad);
  t.dtype = DType::bf16;
  return t;
}

const Call* find(const Trace& t, const std::string& name) {
  const auto it = std::find_if(t.calls.begin(), t.calls.end(), [&](const Call* c) { return c->op->full_name == name; });
  REQUIRE(it != t.calls.end());
  return *it;
}

struct Program {
  Builder b = pass_builder();
  Value x = b.input(bf16({5, 32}, true), "x"), w = b.input(bf16({48, 32}, true), "w"),
        v = b.input(bf16({64, 48}, true), "v");
  Float8Options options{.layers = {{"w", w, 0}, {"v", v, 1}}};

  Expr linear(const Arg& input, Value weight) { return b("torch.linear", input, weight); }
  Trace after(const Expr& result) {
    const Trace out = float8(b.finish("f", Arg::tuple({result})), options);
    verify(out);
    return out;
  }
  /// Where the maxima of two layers go.
  void record() { options.history = b.input(f32({2, 3, 4}), "h"); }
};

TEST_CASE("float8: without layers, or with others, a program stays as it is") {
  Program p;
  const Trace t = p.b.finish("f", p.linear(p.x, p.w));
  CHECK(float8(t, {}).calls == t.calls);
  CHECK(float8(t, {.layers = {{"v", p.v, 0}}}).calls == t.calls);
  CHECK(float8_refusals(t, {.layers = {{"v", p.v, 0}}}) ==
        std::vector<std::string>{"no torch.linear of the program has its weight"});
}

TEST_CASE("float8: a linear layer becomes casts and a product of its own") {
  Program p;
  CHECK(code(p.after(p.linear(p.x, p.w))) ==
        "t7 = ltorch.float8_amax(x, True)\n"
        "t9 = ltorch.float8_scale(t7, torch.float8_e4m3fn)\n"
        "t16 = ltorch.float8_cast(x, t9, torch.float8_e4m3fn)\n"
        "t19 = ltorch.float8_transposed(t16)\n"
        "t23 = ltorch.float8_amax(w, True)\n"
        "t25 = ltorch.float8_scale(t23, torch.float8_e4m3fn)\n"
        "t32 = ltorch.float8_cast(w, t25, torch.float8_e4m3fn)\n"
        "t34 = ltorch.float8_transposed(t32)\n"
        "t35 = ltorch.float8_linear(x, w, None, t16, t19, t32, t34, t9, t25)\n"
        "return (t35,)\n");
}

TEST_CASE("float8: the transpose has zeros behind its rows, up to a multiple of 16") {
  Program p;
  const Trace t = p.after(p.linear(p.x, p.w));
  for (const Call* c : t.calls)
    if (c->op->full_name == "torch.float8_transposed")
      CHECK(str(c->output.value().shape()) == (c->args[0].value().shape()[0].same(5) ? "[32, 16]" : "[32, 48]"));
}

TEST_CASE("float8: what several layers read is cast once, and a parameter through its cast to another type") {
  Program p;
  const Value master = p.b.input(f32({48, 32}, true), "m");
  p.options.layers = {{"w", p.w, 0}, {"m", master, 1}};
  const Expr sum =
      p.linear(p.x, p.w) + p.b("torch.linear", p.x, p.b("torch.to", master, DType::bf16)) + p.linear(p.x, p.w);
  const Trace t = p.after(sum);
  CHECK(count(t, "torch.linear") == 0);
  CHECK(count(t, "torch.float8_linear") == 3);
  CHECK(count(t, "torch.float8_cast") == 3);
}

TEST_CASE("float8: a product whose second matrix is the weight is a layer with its transpose") {
  Program p;
  const Value bias = p.b.input(bf16({48}, true), "b"), w = p.b.input(bf16({32, 48}, true), "c");
  p.options.layers = {{"c", w, 0}};
  const Trace t = p.after(p.b("torch.addmm", bias, p.x, w));
  CHECK(count(t, "torch.addmm") == 0);
  CHECK(str(find(t, "torch.float8_linear")->arguments().tensor("weight").shape) == "[48, 32]");
  // beta * bias is none of ours.
  Program q;
  const Value c = q.b.input(bf16({32, 48}, true), "c");
  q.options.layers = {{"c", c, 0}};
  CHECK(count(q.after(q.b("torch.addmm", q.b.input(bf16({48}), "b"), q.x, c, kw("beta", 2))), "torch.addmm") == 1);
}

TEST_CASE("float8: what is refused stays in its own type, with the reason") {
  Program p;
  const Value odd = p.b.input(bf16({40, 32}), "odd"), wide = p.b.input(f32({48, 32}), "wide"),
              none = p.b.input(bf16({0, 32}), "none");
  TensorType t = f32({48, 32});
  t.dtype = DType::f64;
  const Value precise = p.b.input(t, "precise");
  t.shape = {5, 32}, t.strides = {32, 1};
  const Value y = p.b.input(t, "y");
  p.options.layers = {{"odd", odd, 0}, {"precise", precise, 1}, {"w", p.w, 2}, {"wide", wide, 3}};
  const Trace program = p.b.finish("f", Arg::tuple({p.linear(p.x, odd), p.linear(y, precise), p.linear(none, p.w)}));
  CHECK(float8_refusals(program, p.options) ==
        std::vector<std::string>{"its weight is [40, 32], and sizes must be multiples of 16",
                                 "it computes in torch.float64", "its input is [0, 32]",
                                 "no torch.linear of the program has its weight"});
  CHECK(code(float8(program, p.options)) == code(program));
}

TEST_CASE("float8: the last layer of a program may stay, whichever module it is") {
  Program p;
  p.options.keeps_last = true;
  const Trace program = p.b.finish("f", Arg::tuple({p.linear(p.linear(p.x, p.w), p.v)}));
  CHECK(float8_refusals(program, p.options) == std::vector<std::string>{"", "it is the last linear layer"});
  const Trace t = float8(program, p.options);
  CHECK(count(t, "torch.float8_linear") == 1);
  CHECK(count(t, "torch.linear") == 1);
}

TEST_CASE("float8: gradients take e5m2 operands, and no fast sums") {
  Program p;
  const JointTrace joint = autodiff(p.after(p.linear(p.x, p.w)));
  verify(joint.trace);
  size_t products = 0;
  for (size_t i = joint.forward_calls; i < joint.trace.calls.size(); ++i) {
    const Call& c = *joint.trace.calls[i];
    if (c.op->full_name != "torch._scaled_mm") continue;
    ++products;
    CHECK(c.arguments().tensor("input").dtype == DType::f8e5m2);
    CHECK(c.arguments().tensor("mat2").dtype == DType::f8e4m3fn);
    CHECK(!c.arguments().flag("use_fast_accum"));
  }
  CHECK(products == 2);
  // A weight that gets no gradient needs no product.
  Program frozen;
  const Value w = frozen.b.input(bf16({48, 32}), "frozen");
  frozen.options.layers = {{"w", w, 0}};
  const JointTrace one = autodiff(frozen.after(frozen.linear(frozen.x, w)));
  CHECK(count(one.trace, "torch._scaled_mm") == 1);
}

TEST_CASE("float8: casts and products carry no gradient by themselves") {
  Program p;
  const Trace t = p.after(p.linear(p.x, p.w));
  for (const Call* c : t.calls) CHECK(c->output.value().requires_grad() == (c->op->full_name == "torch.float8_linear"));
}

TEST_CASE("float8: what is stored in float8 for the backward is saved, not made again") {
  Program p;
  const ForwardBackward parts = split(autodiff(p.after(p.linear(p.x, p.w))), {.aggressive_recompute = true});
  CHECK(count(parts.backward, "torch.float8_cast") == 1);  // of the gradient
  const auto saved =
      std::count_if(parts.saved.begin(), parts.saved.end(), [](Value v) { return is_float8(v.dtype()); });
  CHECK(saved == 2);
}

TEST_CASE("float8: with delayed scaling, scales follow from the history, and maxima go into it") {
  Program p;
  p.record();
  p.options.delayed = true;
  const Trace t = p.after(p.linear(p.linear(p.x, p.w), p.v));
  CHECK(count(t, "prims.float8_scales") == 1);
  CHECK(count(t, "torch.float8_scale") == 0);
  const Args second = t.calls.back()->arguments();
  CHECK(second.integers("places") == std::vector<int64_t>{3, 4, 5});
  CHECK(second["grad_scale"].is_tensor());
  JointTrace joint = autodiff(t);
  CHECK(count(joint.trace, "prims.float8_record") == 2);
  const Trace one = float8_records(joint.trace);
  verify(one);
  CHECK(count(one, "prims.float8_record") == 1);
  REQUIRE(one.calls.back()->op->full_name == "prims.float8_record");
  CHECK(one.calls.back()->arguments().integers("places") == std::vector<int64_t>{0, 1, 2, 3, 4, 5});
  // It is no dead code, and what it keeps is no part of what is computed.
  CHECK(count(dce(one), "prims.float8_record") == 1);
  CHECK(count(cse(one), "prims.float8_record") == 1);
}

TEST_CASE("float8: of a layer that is used twice the larger maximum counts") {
  Program p;
  p.record();
  const Value square = p.b.input(bf16({32, 32}, true), "s");
  p.options.layers = {{"s", square, 0}};
  p.options.delayed = true;
  const Trace one = float8_records(autodiff(p.after(p.linear(p.linear(p.x, square), square))).trace);
  verify(one);
  const Call& record = *find(one, "prims.float8_record");
  CHECK(record.arguments().integers("places") == std::vector<int64_t>{0, 1, 2});
  // Two inputs and two gradients; the weight is one.
  CHECK(count(one, "prims.maximum") == 2);
}

TEST_CASE("float8: before anything is recorded scales are dynamic, and the maxima that they take are kept") {
  Program p;
  p.record();
  const Trace t = p.after(p.linear(p.x, p.w));
  CHECK(count(t, "prims.float8_scales") == 0);
  CHECK(count(t, "torch.float8_amax") == 2);
  CHECK(find(t, "torch.float8_linear")->arguments().values("maxima").size() == 2);
}

TEST_CASE("float8: a program without gradients records nothing") {
  Program p;
  p.record();
  p.options.delayed = true;
  p.b.set_grad_enabled(false);
  const Expr y = p.linear(p.x, p.w);
  const Trace t = p.after(y);
  CHECK(!find(t, "torch.float8_linear")->arguments().has("history"));
  CHECK(count(t, "torch.float8_amax") == 0);
}

}  // namespace
}  // namespace thunder
