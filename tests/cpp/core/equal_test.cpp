// structurally_equal: what the tests of the parser and of passes rely on.
#include <limits>

#include "core/parse.h"
#include "core/test_ops.h"

namespace thunder {
namespace {

using test::f32;
using test::new_builder;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::string difference(const Trace& a, const Trace& b) {
  std::string why, reverse;
  bool equal = structurally_equal(a, b, &why);
  CHECK(structurally_equal(b, a, &reverse) == equal);
  CHECK(equal == why.empty());
  return why;
}

TEST_CASE("structurally_equal: up to ids and names, but not more") {
  auto build = [](int skip_ids, const char* name, double number, bool twice, TensorType type) {
    Builder b = new_builder();
    for (int i = 0; i < skip_ids; ++i) b.arena()->make_value(f32({}));
    Value x = b.input(type, name), y = b.input(type);
    Expr s = twice ? b("test.four_times", x) : b("test.add", x, y);
    return b.finish(name, b("test.add", s, number));
  };
  TensorType type = f32({2, 3}), transposed = type, grad = f32({2, 3}, true);
  transposed.strides = {1, 2};
  Trace t = build(0, "x", 1.0, false, type);
  CHECK(difference(t, build(5, "other", 1.0, false, type)) == "");
  CHECK(difference(t, build(0, "x", 2.0, false, type)) ==
        "different arguments 'b': t3 = test.add(t2, 1.0) and t3 = test.add(t2, 2.0)");
  CHECK(difference(t, build(0, "x", 1.0, true, type)).starts_with("different operators: t2 = test.add(x, t1) and "));
  CHECK(difference(t, build(0, "x", 1.0, false, transposed)).find("strides=[1, 2]") != std::string::npos);
  CHECK(difference(t, build(0, "x", 1.0, false, grad)).find("requires_grad") != std::string::npos);
  CHECK(difference(t, build(0, "x", 1.0, false, f32({2, 4}))).find("types of x, cpu f32[2, 3]") != std::string::npos);
}

TEST_CASE("structurally_equal: the parts of a trace") {
  Builder b = new_builder();
  Value x = b.input(f32({2})), y = b.input(f32({2}));
  Expr s = b("test.add", x, y);
  b("test.twice", s);
  Trace t = b.finish("f", Arg::tuple({x, y}));
  Trace other = t;
  CHECK(difference(t, other) == "");
  other.output = Arg::tuple({y, x});
  CHECK(difference(t, other) != "");
  other.output = Arg::list({x, y});
  CHECK(difference(t, other).starts_with("different outputs"));
  other = t;
  other.inputs = {y, x};
  CHECK(difference(t, other) != "");
  other.inputs = {x};
  CHECK(difference(t, other) == "different numbers of inputs");
  other = t;
  other.signature.kind = Signature::StarArgs;
  CHECK(difference(t, other) == "different signatures");
  other = t;
  other.calls.pop_back();
  CHECK(difference(t, other).find("one has in addition t3 = test.twice(t2)") != std::string::npos);
  other = t;
  Call without_body = *t.calls[1];
  without_body.body.clear();
  other.calls[1] = b.arena()->make_call(without_body);
  CHECK(difference(t, other).find("one has in addition t3 = test.add(t2, t2)") != std::string::npos);
}

TEST_CASE("structurally_equal: one value is not two") {
  Builder b = new_builder();
  Value x = b.input(f32({2})), y = b.input(f32({2}));
  b("test.add", x, x);
  b("test.add", x, y);
  Trace t = b.finish("f", nullptr);
  Trace one = t, two = t;
  one.calls = {t.calls[0]};
  Call second = *t.calls[1];
  second.output = t.calls[0]->output;
  two.calls = {b.arena()->make_call(second)};
  CHECK(difference(one, two) != "");
  b("test.split", x, 2);
  Trace apart = b.finish("f", nullptr), alike = apart;
  Call c = *apart.calls[0];
  c.output = Arg::list({c.output.items()[0], c.output.items()[0]});
  alike.calls = {b.arena()->make_call(c)};
  CHECK(difference(apart, alike) != "");
}

TEST_CASE("structurally_equal: literals") {
  auto with = [](Arg a) {
    Builder b = new_builder();
    b("test.show", std::move(a));
    return b.finish("f", nullptr);
  };
  CHECK(difference(with(0.0), with(-0.0)) != "");
  CHECK(difference(with(kNan), with(kNan)) == "");
  CHECK(difference(with(1), with(1.0)) != "");
  CHECK(difference(with(1), with(true)) != "");
  CHECK(difference(with(Arg::list({})), with(Arg::tuple({}))) != "");
  CHECK(difference(with(Arg::dict({{"a", 1}})), with(Arg::dict({{"a", 2}}))) != "");
  CHECK(difference(with(Arg::slice(1, 2, nullptr)), with(Arg::slice(1, 2, 1))) != "");
  CHECK(difference(with(OpaqueArg{"a", nullptr}), with(OpaqueArg{"b", nullptr})) != "");
}

TEST_CASE("structurally_equal: symbols one to one, expressions under the same renaming") {
  auto with = [](const std::function<std::vector<Dims>(Dim, Dim)>& shapes) {
    ShapeEnv env;
    Builder b = new_builder();
    Dim s = env.make_symbol(std::nullopt), u = env.make_symbol(std::nullopt);
    for (const Dims& shape : shapes(s, u)) b.input(f32(shape));
    return b.finish("f", nullptr);
  };
  using Shapes = std::vector<Dims>;
  Trace t = with([](Dim s, Dim u) { return Shapes{{s, u}, {2 * s + u}}; });
  CHECK(difference(t, with([](Dim s, Dim u) { return Shapes{{s, u}, {2 * s + u}}; })) == "");
  CHECK(difference(t, with([](Dim s, Dim u) { return Shapes{{u, s}, {2 * u + s}}; })) == "");
  CHECK(difference(t, with([](Dim s, Dim u) { return Shapes{{u, s}, {2 * s + u}}; })).starts_with("different sizes"));
  CHECK(difference(t, with([](Dim s, Dim) { return Shapes{{s, s}, {3 * s}}; })) != "");
  CHECK(difference(t, with([](Dim, Dim) { return Shapes{{2, 3}, {7}}; })) != "");
  Trace sum = with([](Dim s, Dim u) { return Shapes{{s + u}}; });
  CHECK(difference(sum, with([](Dim s, Dim u) { return Shapes{{s + u}}; })) == "");
  CHECK(difference(sum, with([](Dim s, Dim u) { return Shapes{{s - u}}; })) != "");
  CHECK(difference(sum, with([](Dim s, Dim) { return Shapes{{s + 1}}; })) != "");
}

}  // namespace
}  // namespace thunder
