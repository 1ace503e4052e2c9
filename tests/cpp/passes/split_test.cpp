#include "passes/autodiff.h"
#include "passes/pass_ops.h"
#include "passes/passes.h"

namespace thunder {
namespace {

using test::code;
using test::f32;
using test::pass_builder;

ForwardBackward split_of(const Trace& t, bool aggressive = false) {
  ForwardBackward parts = split(autodiff(t), {.aggressive_recompute = aggressive});
  verify(parts.forward);
  verify(parts.backward);
  return parts;
}

std::string names(const std::vector<Value>& values) {
  std::vector<std::string> out;
  for (Value v : values) out.push_back(v.name());
  return join(out);
}

TEST_CASE("split: nothing to save for a linear program") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}, true), "x");
  ForwardBackward parts = split_of(b.finish("f", Arg::tuple({b("pt.view", x)})));
  CHECK(parts.saved.empty());
  CHECK(code(parts.forward) ==
        "t1 = pt.view(x)\nreturn ({'output': t1, 'flat_args': [x], 'flat_output': (t1,)}, ((), ()))\n");
  CHECK(code(parts.backward) == "t3 = pt.view(t2)\nreturn (t3,)\n");
}

TEST_CASE("split: inputs and outputs are saved as they are, several outputs are returned as a tuple") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}, true), "x"), y = b.input(f32({2}, true), "y");
  Trace t = b.finish("f", Arg::tuple({b("pt.mul", x, y), b("pt.exp", x)}));
  ForwardBackward parts = split_of(t);
  CHECK(names(parts.saved) == "x, y, t3");
  CHECK(parts.saved_tensors == 3);
  CHECK(parts.forward.name == "augmented_forward_fn");
  CHECK(parts.forward.signature.kind == Signature::StarArgs);
  CHECK(parts.forward.calls == t.calls);
  CHECK(code(parts.forward)
            .find("return ({'output': (t2, t3), 'flat_args': [x, y], 'flat_output': (t2, t3)}, ((x, y, t3), ()))") !=
        std::string::npos);
  CHECK(parts.backward.name == "backward_fn");
  CHECK(parts.backward.signature.kind == Signature::Backward);
  CHECK(parts.backward.signature.saved_tensors == 3);
  CHECK(parts.backward.inputs.size() == 5);
}

TEST_CASE(
    "split: without a fusion executor a pointwise value is saved, with one it is computed again where that saves "
    "bytes") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}, true), "x");
  Expr h = b("pt.heavy", x), e = b("pt.exp", b("pt.exp", h));
  Trace t = b.finish("f", Arg::tuple({b("pt.heavy", b("pt.mul", e, x))}));
  CHECK(names(split_of(t).saved) == "x, t2, t3, t4");
  ForwardBackward parts = split_of(t, true);
  // From t1 = heavy(x) all others follow, but from t2 just as well and with less work; heavy itself is never repeated.
  CHECK(names(parts.saved) == "x, t2");
  std::string text = code(parts.backward);
  CAPTURE(text);
  CHECK(text.find("heavy") == std::string::npos);
  CHECK(text.starts_with("t3 = pt.exp(t2)\nt4 = pt.mul(t3, x)\n"));
}

TEST_CASE("split: random calls are never repeated, alone or inside a composite") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}, true), "x");
  Expr d = b("pt.mul", x, b("pt.rand", x));
  Trace t = b.finish("f", Arg::tuple({b("pt.heavy", b("pt.heavy", b("pt.dropout", d)))}));
  for (bool aggressive : {false, true}) {
    ForwardBackward parts = split_of(t, aggressive);
    std::string text = code(parts.backward);
    CAPTURE(text);
    CHECK(text.find("rand") == std::string::npos);
    CHECK(text.find("dropout") == std::string::npos);
  }
}

TEST_CASE("split: a cast is computed again from what costs nothing") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}, true), "x"), w = b.input(f32({2}, true), "w");
  Expr low = b("prims.convert_element_type", w, DType::f64);
  Trace t =
      b.finish("f", Arg::tuple({b("pt.mul", b("prims.convert_element_type", b("pt.heavy", x), DType::f64), low)}));
  ForwardBackward parts = split_of(t);
  // The narrow value of heavy(x) and not its wide copy; and of w nothing but w.
  CHECK(names(parts.saved) == "x, w, t3");
}

TEST_CASE("split: views of an intermediate share its bytes, views of an input are made again") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}, true), "x"), w = b.input(f32({2}, true), "w");
  Expr h = b("pt.view", b("pt.heavy", x)), v = b("pt.view", w);
  Trace t = b.finish("f", Arg::tuple({b("pt.heavy", b("pt.mul", h, v))}));
  ForwardBackward parts = split_of(t);
  CHECK(names(parts.saved) == "x, w, t3, t5");
  CHECK(code(parts.backward).find("t4 = pt.view(w)\n") != std::string::npos);
}

TEST_CASE("split: a view of an output is made again from it, so that a write to the output is noticed") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}, true), "x");
  Expr h = b("pt.heavy", x), v = b("pt.view", h);
  Trace t = b.finish("f", Arg::tuple({h, b("pt.heavy", v)}));
  ForwardBackward parts = split_of(t);
  CHECK(names(parts.saved) == "x, t1");
  CHECK(code(parts.backward).find("t2 = pt.view(t1)\n") != std::string::npos);
}

TEST_CASE("split: a composite whose inside is computed again stays closed in the forward") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}, true), "x");
  Registry& r = Registry::instance();
  auto body = [](Builder& b, const Args& a) -> Arg { return b("pt.exp", b("pt.exp", a["a"])); };
  const Op& op = r.add("pt", {.schema = "exp_exp(Tensor a) -> Tensor", .doc = "", .body = body}, true);
  Trace t = b.finish("f", Arg::tuple({b("pt.heavy", b.expr(b.call(op, {x})))}));
  ForwardBackward saved = split_of(t), again = split_of(t, true);
  CHECK(names(saved.saved) == "t1, t2");
  CHECK(code(saved.forward).starts_with("t1 = pt.exp(x)\nt2 = pt.exp(t1)\nt3 = pt.heavy(t2)\n"));
  CHECK(names(again.saved) == "x");
  CHECK(again.forward.calls == t.calls);
}

TEST_CASE("split: numbers are saved apart, and so are those that bind a size") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  Builder b = pass_builder();
  Value x = b.input(f32({4}, true), "x");
  Expr n = b("test.nonzero", x);
  Expr y = b("torch.expand", b("torch.sum", x), Arg(Dims{n.shape()[0]}));
  ForwardBackward parts = split_of(b.finish("f", Arg::tuple({b("torch.sum", b("torch.mul", y, y))})));
  CHECK(parts.saved.size() > parts.saved_tensors);
  CHECK(parts.backward.signature.saved_numbers == parts.saved.size() - parts.saved_tensors);
  for (size_t i = 0; i < parts.saved.size(); ++i) CHECK(parts.saved[i].type().is_tensor() == (i < parts.saved_tensors));
}

TEST_CASE("split: what is neither tensor nor number is saved as it is, and never made again") {
  Builder b = pass_builder();
  auto graph_meta = [](const Args& a) -> Types { return {test::like_a(a)[0], Type::opaque("graph")}; };
  auto back_meta = [](const Args& a) -> Types { return test::like_a(a); };
  auto vjp = [](VjpContext& c) { c.put("a", c.b("pt.graph_backward", c.grad(), c.out(1))); };
  Registry& r = Registry::instance();
  r.add("pt", {.schema = "graph(Tensor a) -> (Tensor, any)", .doc = "", .tags = kCheap, .meta = graph_meta, .vjp = vjp},
        true);
  r.add("pt", {.schema = "graph_backward(Tensor a, any graph) -> Tensor", .doc = "", .meta = back_meta}, true);
  for (bool aggressive : {false, true}) {
    Builder c = pass_builder();
    Value y = c.input(f32({2}, true), "y");
    ForwardBackward parts = split_of(c.finish("f", Arg::tuple({c("pt.graph", y)[0]})), aggressive);
    CHECK(parts.saved_tensors == 0);
    CHECK(names(parts.saved) == "o2");
  }
}

TEST_CASE("split: a detached value is its source") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}, true), "x"), y = b.input(f32({2}, true), "y");
  Expr d = b("pt.same", b("pt.detach", x)), h = b("pt.heavy", y);
  ForwardBackward parts = split_of(b.finish("f", Arg::tuple({b("pt.mul", b("pt.mul", y, d), b("pt.detach", h))})));
  CHECK(names(parts.saved) == "x, t4");
}

TEST_CASE("split: results of one call are saved together or made again together") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}, true), "x");
  Expr pair = b("pt.exp_pair", b("pt.heavy", x));
  Trace t = b.finish("f", Arg::tuple({b("pt.heavy", b("pt.heavy", b("pt.mul", pair[0], pair[1])))}));
  for (bool aggressive : {false, true}) {
    ForwardBackward parts = split_of(t, aggressive);  // verified: nothing is defined twice
    CHECK((code(parts.backward).find("exp_pair") != std::string::npos) == aggressive);
  }
}

TEST_CASE("split: a view that shares its call with an output") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}, true), "x");
  Expr views = b("pt.view_pair", b("pt.heavy", x));
  Trace t = b.finish("f", Arg::tuple({views[0], b("pt.heavy", views[1]), b("pt.heavy", views[0])}));
  CHECK(names(split_of(t).saved) == "x, t2, t3");
}

TEST_CASE("split: of a call that views several tensors, one view is saved and another derived again") {
  ops::register_all();
  Builder b(std::make_shared<Arena>());
  Value x = b.input(f32({3, 2}, true), "x");
  Expr returned = b("prims.sum", x, Arg::list({0})), inner = b("prims.sum", x, Arg::list({0}));
  Expr views = b("torch.atleast_3d", Arg::list({inner, returned}));
  ForwardBackward parts = split_of(b.finish("f", Arg::tuple({b("torch.atan2", views[0], views[1]), returned})));
  CHECK(code(parts.backward).find("prims.broadcast_in_dim(" + returned.value().name()) != std::string::npos);
}

}  // namespace
}  // namespace thunder
