// Futures as a type: printed, parsed, compared, verified.
#include "core/test_ops.h"
#include "core/verify.h"

namespace thunder {
namespace {

using test::check_round_trip;
using test::f32;
using test::new_builder;

Types start_meta(const Args& a) {
  std::vector<TensorType> of;
  for (Value v : a.values("tensors")) of.push_back(v.tensor());
  for (TensorType& t : of) t.requires_grad = false;
  return {Type::future(std::move(of))};
}

Types finish_meta(const Args& a) {
  Types out;
  for (const TensorType& t : a.value("future").type().future()) out.emplace_back(t);
  return out;
}

Builder future_builder() {
  Builder b = new_builder();
  Registry& r = Registry::instance();
  if (!r.find("test.start")) {
    r.add("test", {.schema = "start(Tensor[] tensors) -> any", .doc = "", .meta = start_meta});
    r.add("test", {.schema = "finish(any future) -> any", .doc = "", .meta = finish_meta});
  }
  return b;
}

// Starts with tensors of these types, and the wait.
Trace start_and_finish(const std::vector<TensorType>& types) {
  Builder b = future_builder();
  ArgList tensors;
  for (const TensorType& t : types) tensors.push_back(b.input(t));
  Expr future = b("test.start", Arg::list(std::move(tensors)));
  return b.finish("f", b("test.finish", future));
}

TensorType transposed(Dims shape) {
  TensorType t = f32(std::move(shape));
  t.strides = {1, t.shape[0]};
  return t;
}

// What the verifier says; empty if it is content.
std::string complaint(const Trace& t) {
  try {
    verify(t);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST_CASE("future: the type") {
  TensorType grad = f32({2}, true), wide = f32({2});
  wide.dtype = DType::f64;
  const Type one = Type::future({f32({2})}), two = Type::future({f32({2}), f32({2, 3})});
  CHECK(one.str() == "FUTURE cpu f32[2]");
  CHECK(two.str() == "FUTURE cpu f32[2], cpu f32[2, 3]");
  CHECK(one.is_future());
  CHECK_FALSE(one.is_tensor());
  CHECK(one.same(Type::future({f32({2})})));
  CHECK_FALSE(one.same(two));
  CHECK_FALSE(two.same(one));
  CHECK_FALSE(one.same(Type(f32({2}))));
  CHECK_FALSE(one.same(Type::future({wide})));
  CHECK_FALSE(one.same(Type::future({grad})));
  CHECK(one.same(Type::future({grad}), false));
  CHECK_THROWS_AS(one.tensor(), Error);
  CHECK_THROWS_AS(Type(f32({2})).future(), Error);
}

TEST_CASE("future: printed with what it will give") {
  CHECK(print(start_and_finish({f32({2}), transposed({2, 3})}), {.header = false}) ==
        "def f(t0, t1):\n"
        "  # t0: \"cpu f32[2]\"\n"
        "  # t1: \"cpu f32[2, 3] strides=(1, 2)\"\n"
        "  p2 = test.start([t0, t1])  # p2: \"FUTURE cpu f32[2], cpu f32[2, 3] strides=(1, 2)\"\n"
        "  (t3, t4) = test.finish(p2)\n"
        "    # t3: \"cpu f32[2]\"\n"
        "    # t4: \"cpu f32[2, 3] strides=(1, 2)\"\n"
        "  return (t3, t4)\n");
}

TEST_CASE("future: parsed as it was printed") {
  TensorType other = f32({});
  other.dtype = DType::bf16;
  other.device = {DeviceType::cuda, 1};
  check_round_trip(start_and_finish({f32({2})}));
  check_round_trip(start_and_finish({f32({2}), transposed({2, 3}), other, f32({0, 4})}));
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  Builder b = future_builder();
  Expr n = b("test.nonzero", b.input(f32({2})));
  b("prims.size", n, 0);
  check_round_trip(b.finish("f", b("test.finish", b("test.start", Arg::list({n.arg(), n.arg()})))));
}

TEST_CASE("future: text that is no list of tensors names something opaque") {
  future_builder();
  for (const char* type : {"FUTURE", "FUTURE ", "FUTURE f32[2]", "FUTURE cpu f32[2],", "FUTURE cpu f32[2], int"}) {
    CAPTURE(type);
    try {
      Trace t = parse(std::string("def f(o0):\n  # o0: \"") + type + "\"\n  return None\n");
      CHECK(t.inputs[0].type().kind() == Type::Kind::Opaque);
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::Value);
    }
  }
}

TEST_CASE("future: compared by all its tensors") {
  auto differs = [](const std::vector<TensorType>& a, const std::vector<TensorType>& b) {
    return !structurally_equal(start_and_finish(a), start_and_finish(b));
  };
  CHECK_FALSE(differs({f32({2}), f32({3})}, {f32({2}), f32({3})}));
  CHECK(differs({f32({2}), f32({3})}, {f32({2}), f32({4})}));
  CHECK(differs({f32({2}), f32({3})}, {f32({2})}));
  CHECK(differs({transposed({2, 3})}, {f32({2, 3})}));
  // The futures alone.
  auto input = [](std::vector<TensorType> of) {
    Builder b = future_builder();
    return b.finish("f", b.input(Type::future(std::move(of))));
  };
  CHECK(structurally_equal(input({f32({2})}), input({f32({2})})));
  CHECK_FALSE(structurally_equal(input({f32({2})}), input({f32({2}), f32({2})})));
  CHECK_FALSE(structurally_equal(input({f32({2})}), input({f32({2}, true)})));
}

TEST_CASE("future: verified against what the start gives") {
  Trace t = start_and_finish({f32({2}), f32({3})});
  CHECK(complaint(t) == "");
  auto with_future = [&](std::vector<TensorType> of) {
    Trace out = t;
    Call start = *t.calls[0], finish = *t.calls[1];
    start.output = t.arena->make_value(Type::future(std::move(of)));
    finish.args[0] = start.output;
    out.calls = {t.arena->make_call(start), t.arena->make_call(finish)};
    return complaint(out);
  };
  CHECK(with_future({f32({2}), f32({3})}) == "");
  CHECK(with_future({f32({2}), f32({3}, true)}) == "");
  CHECK(with_future({f32({2}), f32({4})}).find("the meta gives FUTURE cpu f32[2], cpu f32[3]") != std::string::npos);
  CHECK(with_future({f32({2})}).find("the meta gives FUTURE cpu f32[2], cpu f32[3]") != std::string::npos);
  Trace early = t;
  std::swap(early.calls[0], early.calls[1]);
  CHECK(complaint(early).find("the call reads p2 before it is defined") != std::string::npos);
}

}  // namespace
}  // namespace thunder
