// Tools that passes share: substitution, uses, producers, bound symbols.
#include "core/rewrite.h"

#include "core/error.h"
#include "core/test_ops.h"

namespace thunder {
namespace {

using test::f32;
using test::new_builder;

/// Four tensors of one arena.
struct Four {
  std::shared_ptr<Arena> arena = std::make_shared<Arena>();
  Value x = arena->make_value(f32({2})), y = arena->make_value(f32({2}));
  Value z = arena->make_value(f32({2})), w = arena->make_value(f32({2}));
};

// ---- substitution ---------------------------------------------------------------------------------------------------

TEST_CASE("Substitution: what is not replaced stands for itself") {
  Four v;
  const Substitution none;
  CHECK(none.empty());
  CHECK(none(v.x).value() == v.x);
  CHECK(none(Arg::list({v.x, 1})).same(Arg::list({v.x, 1})));
  CHECK(none(ArgList{}).empty());
}

TEST_CASE("Substitution: chains are followed, in whatever order they were made") {
  Four v;
  Substitution map;
  map.replace(v.y, v.z);
  map.replace(v.x, v.y);
  map.replace(v.z, v.w);
  CHECK_FALSE(map.empty());
  CHECK(map(v.x).value() == v.w);
  CHECK(map(v.y).value() == v.w);
  CHECK(map(v.w).value() == v.w);
}

TEST_CASE("Substitution: a value may become a literal or a container, in containers too") {
  Four v;
  Substitution map;
  map.replace(v.x, 2.5);
  map.replace(v.y, Arg::tuple({v.z, nullptr}));
  map.replace(v.z, v.x);
  CHECK(map(v.z).same(2.5));
  CHECK(map(Arg::list({v.x, 3, Arg::dict({{"k", v.z}}), v.w})).same(Arg::list({2.5, 3, Arg::dict({{"k", 2.5}}), v.w})));
  CHECK(map(v.y).kind() == Arg::Kind::Tuple);
  const ArgList args = map(ArgList{v.x, "a"});
  REQUIRE(args.size() == 2);
  CHECK(args[0].same(2.5));
  CHECK(args[1].same("a"));
}

TEST_CASE("Substitution: chains are followed into containers") {
  Four v;
  Substitution map;
  map.replace(v.x, Arg::list({v.y, Arg::tuple({v.y, 1})}));
  map.replace(v.y, v.z);
  CHECK(map(v.x).same(Arg::list({v.z, Arg::tuple({v.z, 1})})));
  map.replace(v.z, Arg::list({v.w}));
  map.replace(v.w, 2);
  CHECK(map(v.y).same(Arg::list({2})));
}

TEST_CASE("Substitution: a value in its own replacement is the value itself") {
  Four v;
  Substitution map;
  map.replace(v.x, v.x);
  CHECK(map(v.x).value() == v.x);
  map.replace(v.y, v.x);
  CHECK(map(v.y).value() == v.x);
  map.replace(v.z, Arg::tuple({v.z, v.y}));
  CHECK(map(v.z).same(Arg::tuple({v.z, v.x})));
}

TEST_CASE("Substitution: a chain that leads back to where it was is an error") {
  Four v;
  Substitution map;
  map.replace(v.x, v.y);
  map.replace(v.y, v.x);
  map.replace(v.z, Arg::list({v.w}));
  map.replace(v.w, Arg::list({v.z}));
  for (Value start : {v.x, v.y, v.z, v.w}) CHECK_THROWS_AS(map(start), Error);
}

TEST_CASE("Substitution: the last replacement of a value counts") {
  Four v;
  Substitution map;
  map.replace(v.x, v.y);
  map.replace(v.x, v.z);
  CHECK(map(v.x).value() == v.z);
}

TEST_CASE("substitute: the same call where nothing changes, another one that reads other values otherwise") {
  Builder b = new_builder();
  const Value x = b.input(f32({2})), y = b.input(f32({2})), z = b.input(f32({2}));
  const SourceLocation* location = b.arena()->make_location({"model.py", 3, "forward"});
  b.set_location(location);
  b("test.add", x, y);
  const Call* call = b.calls()[0];
  Substitution map;
  map.replace(z, x);
  CHECK(substitute(*b.arena(), call, map) == call);
  Substitution to_z;
  to_z.replace(x, z);
  const Call* changed = substitute(*b.arena(), call, to_z);
  REQUIRE(changed != call);
  CHECK(changed->op == call->op);
  CHECK(changed->location == location);
  CHECK(changed->output.same(call->output));
  CHECK(inputs_of(*changed) == std::vector<Value>{z, y});
  CHECK(inputs_of(*call) == std::vector<Value>{x, y});  // nodes are never mutated
}

TEST_CASE("substitute: results and bodies, however deep") {
  Builder b = new_builder();
  const Value x = b.input(f32({2})), z = b.input(f32({2}));
  const Value result = b("test.four_times", x).value();
  const Call* call = b.calls()[0];
  Substitution map;
  map.replace(x, z);
  map.replace(result, x);
  const Call* changed = substitute(*b.arena(), call, map);
  CHECK(inputs_of(*changed) == std::vector<Value>{z});
  CHECK(changed->output.value() == z);  // by way of x
  REQUIRE(changed->body.size() == 2);
  CHECK(inputs_of(*changed->body[0]) == std::vector<Value>{z});
  CHECK(inputs_of(*changed->body[0]->body[0]) == std::vector<Value>{z, z});
  CHECK(changed->body[1]->output.value() == z);
}

TEST_CASE("substitute: numbers that bind symbols") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  Builder b = new_builder();
  const Dim s = env.make_symbol(6, "s");
  const Value x = b.input(f32({2})), n = b.input(NumberType{NumberKind::Int, s});
  b("test.reshape", x, Dims{s});
  const Value m = b.input(NumberType{NumberKind::Int, s});
  Substitution map;
  map.replace(n, m);
  const Call* changed = substitute(*b.arena(), b.calls()[0], map);
  CHECK(b.calls()[0]->symbols == std::vector<Value>{n});
  CHECK(changed->symbols == std::vector<Value>{m});
}

// ---- uses and producers ---------------------------------------------------------------------------------------------

TEST_CASE("Uses: the calls that read a value, each once, and the output as one more") {
  Builder b = new_builder();
  const Value x = b.input(f32({2})), unused = b.input(f32({2}));
  const Expr y = b("test.add", x, x), z = b("test.add", y, x);
  const Trace t = b.finish("f", Arg::tuple({z, Arg::list({x, z})}));
  const Uses uses(t);
  CHECK(uses.of(x) == std::vector<size_t>{0, 1, 2});
  CHECK(uses.of(y.value()) == std::vector<size_t>{1});
  CHECK(uses.of(z.value()) == std::vector<size_t>{2});
  CHECK(uses.last(x) == 2);
  CHECK(uses.last(y.value()) == 1);
  CHECK(uses.used(x));
  CHECK(uses.of(unused).empty());
  CHECK_FALSE(uses.used(unused));
  CHECK(uses.last(unused) == -1);
}

TEST_CASE("Uses: a number that binds a symbol is read by the calls that mention it") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  Builder b = new_builder();
  const Dim s = env.make_symbol(6, "s");
  const Value x = b.input(f32({2})), n = b.input(NumberType{NumberKind::Int, s});
  b("test.reshape", x, Dims{s});
  const Trace t = b.finish("f", nullptr);
  CHECK(Uses(t).of(n) == std::vector<size_t>{0});
}

TEST_CASE("Uses and producers: of a trace without calls") {
  Builder b = new_builder();
  const Value x = b.input(f32({2}));
  const Trace t = b.finish("f", x);
  CHECK(Uses(t).of(x) == std::vector<size_t>{0});
  CHECK(producers(t).empty());
}

TEST_CASE("producers: the call of each result, and none of an input") {
  Builder b = new_builder();
  const Value x = b.input(f32({2}));
  const Expr y = b("test.neg", x), parts = b("test.split", y, 2);
  const Trace t = b.finish("f", nullptr);
  const auto made = producers(t);
  CHECK(made.size() == 3);
  CHECK(made.at(y.value()) == 0);
  CHECK(made.at(parts[0].value()) == 1);
  CHECK(made.at(parts[1].value()) == 1);
  CHECK(made.count(x) == 0);
}

// ---- symbols --------------------------------------------------------------------------------------------------------

TEST_CASE("bound_symbol: of a number whose size is a lone symbol, and of nothing else") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  Arena arena;
  const Dim s = env.make_symbol(6, "s"), t = env.make_symbol(5, "t");
  const auto bound = [&](Type type) { return bound_symbol(arena.make_value(std::move(type))); };
  const auto number = [](std::optional<Dim> dim) { return NumberType{NumberKind::Int, std::move(dim)}; };
  CHECK(bound(number(s)) == s.symbols()[0]);
  for (const std::optional<Dim>& dim :
       std::vector<std::optional<Dim>>{std::nullopt, Dim(6), s + 1, 2 * s, s * s, s * t, floordiv(s, 2)})
    CHECK(bound(number(dim)) == std::nullopt);
  CHECK(bound(f32({s})) == std::nullopt);
  CHECK(bound(Type::opaque("graph")) == std::nullopt);
}

TEST_CASE("bind_symbols: a symbol is read from the first value of the trace that binds it") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  Builder b = new_builder();
  const Dim s = env.make_symbol(6, "s"), t = env.make_symbol(5, "t");
  const Value x = b.input(f32({s, t})), n = b.input(NumberType{NumberKind::Int, s});
  const Value m = b("prims.size", x, 1).value(), again = b("prims.size", x, 1).value();
  const Value other = b("prims.size", x, 0).value();
  const Trace trace = b.finish("f", nullptr);
  CHECK(trace.arena->symbol_value(s.symbols()[0]) == other);
  CHECK(trace.arena->symbol_value(t.symbols()[0]) == again);
  bind_symbols(trace);
  CHECK(trace.arena->symbol_value(s.symbols()[0]) == n);
  CHECK(trace.arena->symbol_value(t.symbols()[0]) == m);
}

}  // namespace
}  // namespace thunder
