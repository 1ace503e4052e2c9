#include "core/verify.h"

#include "core/rewrite.h"
#include "core/test_ops.h"

namespace thunder {
namespace {

using test::f32;
using test::new_builder;

// What the verifier says; empty if it is content.
std::string complaint(const Trace& t) {
  try {
    verify(t);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::Internal);
    return e.what();
  }
  return "";
}

std::string complaint_about(const std::string& text) {
  test::register_test_ops();
  return complaint(parse(text));
}

void expect(const std::string& message, const std::string& what) {
  CHECK_MESSAGE(message.starts_with("[verify] trace '"), message);
  CHECK_MESSAGE(message.find(what) != std::string::npos, message);
}

// A copy of the i-th call, changed, in its place.
template <class F>
Trace with_call(Trace t, size_t i, F&& change) {
  Call c = *t.calls.at(i);
  change(c);
  t.calls[i] = t.arena->make_call(std::move(c));
  return t;
}

TEST_CASE("verify: a trace with everything in it is accepted") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  Builder b = new_builder();
  TensorType type = f32({2, 3}, true);
  type.strides = {1, 2};
  Value x = b.input(type), n = b.input(NumberType{NumberKind::Float, {}});
  Expr four = b("test.four_times", b("test.add", x, n));
  Expr pair = b("test.pair", four);
  Expr nz = b("test.nonzero", pair[0]);
  b("test.reshape", nz, Arg::list({nz.shape()[0] * 2}));
  b("test.max", x, 0);
  b("test.item", b("test.sum", x, 0));
  b("test.graph", x);
  b("test.show", Arg::dict({{"a", Arg::list({x})}}));
  test::del(b, {n, four.value()});
  verify(b.finish("f", Arg::tuple({pair, nz, nz.shape()[0] + 1, nullptr})));
}

TEST_CASE("verify: an empty trace is accepted") {
  Builder b = new_builder();
  verify(b.finish("f", nullptr));
}

TEST_CASE("verify: the message names the trace, the pass and the call") {
  Builder b = new_builder();
  Value x = b.input(f32({2}));
  b("test.neg", x);
  Trace t = b.finish("computation", nullptr);
  t.inputs.clear();
  t.provenance.pass = "Fusion";
  CHECK(complaint(t) ==
        "[verify] trace 'computation' after Fusion: the call reads t0 before it is defined, in: t1 = test.neg(t0)");
}

TEST_CASE("verify: a value is defined once and before its use") {
  const std::string head = "def f(x):\n  # x: \"cpu f32[2]\"\n  # t1: \"cpu f32[2]\"\n  # t2: \"cpu f32[2]\"\n";
  CHECK(complaint_about(head + "  t1 = test.neg(x)\n  t2 = test.neg(t1)\n  return t2\n") == "");
  expect(complaint_about(head + "  t2 = test.neg(t1)\n  t1 = test.neg(x)\n  return t2\n"),
         "reads t1 before it is defined, in: t2");
  expect(complaint_about(head + "  t1 = test.neg(x)\n  t1 = test.neg(x)\n  return t1\n"), "t1 is defined twice");
  expect(complaint_about(head + "  x = test.neg(t2)\n  return x\n"), "t2 before");
  expect(complaint_about(head + "  t1 = test.neg(x)\n  x = test.neg(t1)\n  return x\n"), "x is defined twice");
  expect(complaint_about(head + "  test.show([{'a': (t1,)}])\n  return x\n"), "reads t1 before");
  expect(complaint_about(head + "  t1 = test.neg(x)\n  return (x, [t2])\n"), "the return reads t2 before");
  expect(complaint_about(head + "  t1 = test.neg(t1)\n  return t1\n"), "reads t1 before");
  expect(complaint_about("def f(x, x):\n  # x: \"cpu f32[2]\"\n  return x\n"), "x is an input twice");
}

TEST_CASE("verify: nothing is used after its del") {
  const std::string head = "def f(x):\n  # x: \"cpu f32[2]\"\n  t1 = test.neg(x)  # t1: \"cpu f32[2]\"\n";
  CHECK(complaint_about(head + "  del x\n  return t1\n") == "");
  expect(complaint_about(head + "  del x\n  return x\n"), "the return reads x after its del");
  expect(complaint_about(head + "  del x\n  test.show(x)\n  return t1\n"), "reads x after its del");
  expect(complaint_about(head + "  del x\n  del x\n  return t1\n"), "reads x after its del");
  expect(complaint_about(head + "  del x, x\n  return t1\n"), "x is deleted twice");
  expect(complaint_about(head + "  del t1\n  t1 = test.neg(x)\n  return x\n"), "t1 is defined twice");
}

TEST_CASE("verify: arguments fit the schema") {
  Builder b = new_builder();
  Value x = b.input(f32({2}));
  b("test.add", x, 1.0);
  Trace t = b.finish("f", nullptr);
  CHECK(complaint(with_call(t, 0, [](Call& c) { c.args[1] = 2; })) == "");
  expect(complaint(with_call(t, 0, [](Call& c) { c.args[1] = "a"; })),
         "the argument 'b' = 'a' does not fit add(Tensor a, Scalar b)");
  expect(complaint(with_call(t, 0, [](Call& c) { c.args[0] = nullptr; })), "the argument 'a' = None");
  expect(complaint(with_call(t, 0, [](Call& c) { c.args.pop_back(); })), "2 parameters, the call 1 arguments");
}

TEST_CASE("verify: the outputs are what the meta gives") {
  Builder b = new_builder();
  Value x = b.input(f32({2, 3}, true));
  b("test.neg", x);
  b("test.split", x, 2);
  Trace t = b.finish("f", nullptr);
  auto with_type = [&](auto change) {
    return complaint(with_call(t, 0, [&](Call& c) {
      TensorType type = f32({2, 3}, true);
      change(type);
      c.output = t.arena->make_value(type);
    }));
  };
  CHECK(with_type([](TensorType&) {}) == "");
  CHECK(with_type([](TensorType& o) { o.requires_grad = false; }) == "");
  expect(with_type([](TensorType& o) { o.shape = {2, 4}; }), "the meta gives cpu f32[2, 3]");
  expect(with_type([](TensorType& o) { o.strides = {1, 2}; }), "strides=[1, 2], the meta gives");
  expect(with_type([](TensorType& o) { o.dtype = DType::f64; }), "f64");
  expect(with_type([](TensorType& o) { o.device = Device{DeviceType::cuda, 0}; }), "cuda:0");
  expect(with_type([](TensorType& o) { o.shape = o.strides = {}; }), "cpu f32[]");
  expect(complaint(with_call(t, 0, [&](Call& c) { c.output = t.arena->make_value(NumberType{}); })),
         "is int, the meta gives cpu f32");
  expect(complaint(with_call(t, 1, [&](Call& c) { c.args[1] = 3; })), "the meta gives 3 outputs, the call has 2");
  expect(complaint(with_call(t, 0, [&](Call& c) { c.output = nullptr; })), "the meta gives 1 outputs, the call has 0");
}

TEST_CASE("verify: a meta that refuses") {
  Builder b = new_builder();
  Value x = b.input(f32({2, 3}));
  b("test.permute", x, Arg::list({1, 0}));
  Trace t = b.finish("f", nullptr);
  expect(complaint(with_call(t, 0, [](Call& c) { c.args[1] = Arg::list({1, "a"}); })), "does not fit");
  Registry& r = Registry::instance();
  if (!r.find("test.refuse"))
    r.add("test", {.schema = "refuse(Tensor a) -> Tensor", .doc = "", .meta = [](const Args&) -> Types {
                     throw Error(ErrorKind::Value, "[refuse] not like this");
                   }});
  Call c;
  c.op = &r.get("test.refuse");
  c.args = {x};
  c.output = t.arena->make_value(f32({2}));
  t.calls.push_back(t.arena->make_call(c));
  expect(complaint(t), "the meta refuses the arguments: [refuse] not like this, in: t2 = test.refuse(t0)");
}

TEST_CASE("verify: only floating tensors require grad") {
  Builder b = new_builder();
  Value x = b.input(f32({2}));
  b("test.max", x, 0);
  Trace t = b.finish("f", nullptr);
  expect(complaint(with_call(t, 0,
                             [&](Call& c) {
                               TensorType indices = f32({}, true);
                               indices.dtype = DType::i64;
                               c.output = Arg::tuple({t.arena->make_value(f32({})), t.arena->make_value(indices)});
                             })),
         "requires grad, but holds torch.int64");
}

TEST_CASE("verify: bodies") {
  const std::string head = R"-(def f(x, y):
  # x: "cpu f32[2]"
  # y: "cpu f32[2]"
  # t9: "cpu f32[2]"
  t3 = fusion0([x])  # t3: "cpu f32[2]"
)-";
  const std::string tail = "  return t3\n";
  CHECK(complaint_about(head + "    # t2 = test.neg(x)  # t2: \"cpu f32[2]\"\n    # t3 = test.neg(t2)\n" + tail) == "");
  expect(complaint_about(head + "    # t2 = test.neg(x)  # t2: \"cpu f32[2]\"\n" + tail),
         "the body does not compute t3");
  expect(complaint_about(head + "    # t3 = test.neg(y)\n" + tail),
         "reads y, which is neither an argument of local.fusion0");
  expect(complaint_about(head + "    # t3 = test.neg(t9)\n" + tail), "reads t9, which is neither");
  expect(complaint_about(head + "    # t3 = test.neg(x)\n    # t3 = test.neg(x)\n" + tail), "t3 is defined twice");
  expect(complaint_about(head + "    # t3 = test.neg(x)\n    # del t3\n" + tail), "the body deletes t3");
  expect(complaint_about(head + "    # t2 = test.neg(x)  # t2: \"cpu f32[]\"\n    # t3 = test.neg(t2)\n" + tail),
         "t2 is cpu f32[]");
  // What a body defines stays in it.
  expect(complaint_about(head + "    # t2 = test.neg(x)  # t2: \"cpu f32[2]\"\n    # t3 = test.neg(t2)\n  return t2\n"),
         "the return reads t2 before");
  // One level further down the rules are the same.
  expect(complaint_about(head + "    # t3 = fusion1(x)\n      # t3 = test.neg(y)\n" + tail),
         "neither an argument of local.fusion1");
  CHECK(complaint_about(head + "    # t3 = fusion1(x)\n      # t3 = test.neg(x)\n" + tail) == "");
}

TEST_CASE("verify: an output may be an argument") {
  const std::string head = "def f(x):\n  # x: \"cpu f32[2]\"\n";
  CHECK(complaint_about(head + "  (x, t1) = fusion0(x)  # t1: \"cpu f32[2]\"\n    # t1 = test.neg(x)\n  return x\n") ==
        "");
  CHECK(complaint_about(head + "  x = test.neg(x)\n  return x\n") == "");
}

TEST_CASE("verify: a composite has a body") {
  Builder b = new_builder();
  b("test.twice", b.input(f32({2})));
  Trace t = b.finish("f", nullptr);
  CHECK(complaint(t) == "");
  expect(complaint(with_call(t, 0, [](Call& c) { c.body.clear(); })), "composite has no body");
}

TEST_CASE("verify: symbols that a call makes up are as good as others, but one to one with its own") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  Builder b = new_builder();
  Dim s = env.make_symbol(5);
  Value x = b.input(f32({s, 3}));
  b("test.nonzero", x);
  Trace t = b.finish("f", nullptr);
  size_t known = env.guards().size();
  CHECK(complaint(t) == "");
  CHECK(env.guards().size() == known);
  auto with_shape = [&](Dims shape) {
    return complaint(with_call(t, 0, [&](Call& c) {
      TensorType type = f32(std::move(shape));
      type.dtype = DType::i64;
      c.output = t.arena->make_value(type);
    }));
  };
  Dim u = env.make_symbol(std::nullopt);
  t.calls.pop_back();
  CHECK(with_shape({u, 2}) == "");
  expect(with_shape({u, 3}), "the meta gives");
  expect(with_shape({s, 2}), "the meta gives");
  expect(with_shape({u + 1, 2}), "the meta gives");
  expect(with_shape({4, 2}), "the meta gives");
}

TEST_CASE("verify: a length that was asked for after the call is as good as its symbol, with any stride if it is 1") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  Builder b = new_builder();
  Expr nz = b("test.nonzero", b.input(f32({2})));
  const Dim u = nz.shape()[0];
  b("test.neg", nz);
  Trace t = b.finish("f", nullptr);
  auto with_layout = [&](Dims shape, Dims strides) {
    return complaint(with_call(t, t.calls.size() - 1, [&](Call& c) {
      TensorType type = c.output.value().tensor();
      type.shape = std::move(shape);
      type.strides = std::move(strides);
      c.output = t.arena->make_value(type);
    }));
  };
  CHECK(with_layout({u, 1}, {1, 1}) == "");
  expect(with_layout({1, 1}, {1, 1}), "the meta gives");
  env.set_hint(u.symbols()[0], 1);
  CHECK(with_layout({1, 1}, {1, 1}) == "");
  CHECK(with_layout({u, 1}, {7, 1}) == "");
  expect(with_layout({2, 1}, {1, 1}), "the meta gives");
  env.set_hint(u.symbols()[0], 2);
  CHECK(with_layout({2, 1}, {1, 1}) == "");
  expect(with_layout({u, 1}, {7, 1}), "the meta gives");
}

TEST_CASE("verify: a size is read before or after it is bound") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  Builder b = new_builder();
  Expr nz = b("test.nonzero", b.input(f32({2})));
  b("test.reshape", nz, Arg::list({nz.shape()[0]}));
  Trace t = b.finish("f", nz.shape()[0] * 2);
  CHECK(complaint(t) == "");
  Trace swapped = t;
  std::swap(swapped.calls[1], swapped.calls[2]);
  expect(complaint(swapped), "a size in the call reads i2 before it is defined");
  t.calls.erase(t.calls.begin() + 1, t.calls.end());
  expect(complaint(t), "a size in the return reads i2 before it is defined");
}

TEST_CASE("verify: metas compare sizes by their hints") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  Builder b = new_builder();
  Registry& r = Registry::instance();
  if (!r.find("test.fits"))
    r.add("test", {.schema = "fits(Tensor a, Tensor b) -> None", .doc = "", .meta = [](const Args& args) -> Types {
                     THUNDER_CHECK(args.tensor("a").shape == args.tensor("b").shape, Value, "fits", "different shapes");
                     return {};
                   }});
  b("test.fits", b.input(f32({env.make_symbol(5)})), b.input(f32({env.make_symbol(5)})));
  CHECK(complaint(b.finish("f", nullptr)) == "");
}

TEST_CASE("verify: works outside the environment in which the trace was made") {
  Trace t;
  {
    ShapeEnv env;
    ShapeEnv::Scope scope(env);
    Builder b = new_builder();
    Expr nz = b("test.nonzero", b.input(f32({2, 3})));
    t = b.finish("f", b("test.reshape", nz, Arg::list({nz.shape()[0], 2, 1})));
  }
  CHECK(complaint(t) == "");
}

TEST_CASE("verify: the backward signature") {
  Builder b = new_builder();
  b.input(f32({2}));
  b.input(NumberType{});
  Trace t = b.finish("f", nullptr);
  t.signature = {Signature::Backward, 1, 1};
  CHECK(complaint(t) == "");
  t.signature = {Signature::Backward, 0, 2};
  expect(complaint(t), "the saved number t0 is a tensor");
  t.signature = {Signature::Backward, 2, 1};
  expect(complaint(t), "more values than there are inputs");
}

}  // namespace
}  // namespace thunder
