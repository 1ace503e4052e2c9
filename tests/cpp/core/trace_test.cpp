// Arenas, calls and traces.
#include "core/trace.h"

#include "core/test_ops.h"

namespace thunder {
namespace {

using test::f32;

const Op& op(const char* name) {
  test::register_test_ops();
  return Registry::instance().get(name);
}

const Call* make_call(Arena& arena, const char* name, ArgList args, Arg output) {
  return arena.make_call({.op = &op(name), .args = std::move(args), .output = output, .body = {}, .symbols = {}});
}

// ---- the arena ------------------------------------------------------------------------------------------------------

TEST_CASE("Arena: values are numbered as they are made") {
  Arena arena;
  CHECK(arena.next_id() == 0);
  CHECK(arena.make_value(f32({})).id() == 0);
  CHECK(arena.make_value(f32({2}), "x").id() == 1);
  CHECK(arena.next_id() == 2);
}

TEST_CASE("Arena: ids may be left out, and given in any order") {
  Arena arena;
  CHECK(arena.make_value_with_id(7, f32({})).id() == 7);
  CHECK(arena.make_value_with_id(3, f32({})).id() == 3);
  CHECK(arena.next_id() == 8);
  CHECK(arena.make_value(f32({})).id() == 8);
}

TEST_CASE("Arena: nodes stay where they are however many follow") {
  Arena arena;
  const Value first = arena.make_value(f32({2}), "first");
  const Call* call = make_call(arena, "test.neg", {first}, first);
  const SourceLocation* location = arena.make_location({"model.py", 3, "forward"});
  for (int i = 0; i < 2000; ++i) {
    arena.make_value(f32({}));
    arena.make_call({});
    arena.make_location({"model.py", i, "forward"});
  }
  CHECK(first.name() == "first");
  CHECK(call->op == &op("test.neg"));
  CHECK(location->file == "model.py");
  CHECK(location->line == 3);
  CHECK(location->function == "forward");
}

TEST_CASE("Arena: keeps operators of its own, which no registry knows") {
  Arena arena;
  const Op& own =
      arena.own(std::make_unique<Op>("fusion", OpDef{.schema = "trace_test_0(Tensor a) -> Tensor", .doc = ""}));
  CHECK(own.full_name == "fusion.trace_test_0");
  CHECK(Registry::instance().find("fusion.trace_test_0") == nullptr);
}

TEST_CASE("Arena: unique counts for each name, in each arena") {
  Arena arena, other;
  CHECK(arena.unique("fusion") == 0);
  CHECK(arena.unique("fusion") == 1);
  CHECK(arena.unique("graph") == 0);
  CHECK(arena.unique("fusion") == 2);
  CHECK(other.unique("fusion") == 0);
}

// ---- symbols --------------------------------------------------------------------------------------------------------

struct Symbolic {
  ShapeEnv env;
  ShapeEnv::Scope scope{env};
  Arena arena;
  Dim s = env.make_symbol(6, "s"), t = env.make_symbol(5, "t");
  Value x = arena.make_value(f32({2}));
  SymbolId s_id = s.symbols()[0], t_id = t.symbols()[0];

  Value number(std::optional<Dim> dim) { return arena.make_value(NumberType{NumberKind::Int, std::move(dim)}); }
  const Call* reshape(const Dims& shape) { return make_call(arena, "test.reshape", {x, shape}, x); }
};

TEST_CASE("Arena: a number value whose size is a lone symbol binds it") {
  Symbolic d;
  CHECK_FALSE(d.arena.has_symbols());
  CHECK_FALSE(d.arena.symbol_value(d.s_id));
  d.number(std::nullopt);
  d.number(d.s + 1);
  d.number(Dim(6));
  CHECK_FALSE(d.arena.has_symbols());
  const Value n = d.number(d.s);
  CHECK(d.arena.symbol_value(d.s_id) == n);
  CHECK_FALSE(d.arena.symbol_value(d.t_id));
  const Value later = d.number(d.s);
  CHECK(d.arena.symbol_value(d.s_id) == later);
}

TEST_CASE("Arena: a call reads the numbers that bind the symbols in its arguments") {
  Symbolic d;
  const Call* before = d.reshape({d.s, d.t});
  const Value n = d.number(d.s), m = d.number(d.t);
  CHECK(before->symbols.empty());
  CHECK(d.reshape({d.s * d.t, d.s + 1})->symbols == std::vector<Value>{n, m});
  CHECK(d.reshape({d.t})->symbols == std::vector<Value>{m});
  CHECK(d.reshape({2, 3})->symbols.empty());
}

TEST_CASE("Arena: what a symbol is read from is bound for the calls that follow") {
  Symbolic d;
  const Value n = d.number(d.s), other = d.number(d.s);
  d.arena.bind(d.s_id, n);
  const Call* first = d.reshape({d.s});
  d.arena.bind(d.s_id, other);
  const Call* second = d.reshape({d.s});
  CHECK(first->symbols == std::vector<Value>{n});
  CHECK(second->symbols == std::vector<Value>{other});
  CHECK(d.arena.make_call(*first)->symbols == std::vector<Value>{n});
}

// ---- calls and traces -----------------------------------------------------------------------------------------------

TEST_CASE("inputs_of and outputs_of: in order, containers included, numbers that bind symbols last") {
  Symbolic d;
  const Value n = d.number(d.s), y = d.arena.make_value(f32({2}));
  const Call* call = make_call(d.arena, "test.show", {Arg::list({y, d.s, Arg::tuple({d.x})}), d.x, 1, "a"},
                               Arg::tuple({d.x, nullptr, Arg::list({y})}));
  CHECK(inputs_of(*call) == std::vector<Value>{y, d.x, d.x, n});
  CHECK(outputs_of(*call) == std::vector<Value>{d.x, y});
  std::vector<Value> seen;
  visit_own_inputs(*call, [&](Value v) { seen.push_back(v); });
  CHECK(seen == inputs_of(*call));
  const Call* none = make_call(d.arena, "test.show", {1, 1.0, 1, "a"}, nullptr);
  CHECK(inputs_of(*none).empty());
  CHECK(outputs_of(*none).empty());
}

TEST_CASE("Call: its arguments by the names of the schema") {
  Symbolic d;
  const Call* call = make_call(d.arena, "test.max.dim", {d.x, -1}, d.x);
  CHECK(call->arguments().value("a") == d.x);
  CHECK(call->arguments().integer("dim") == -1);
}

TEST_CASE("Trace: what a pass starts from has everything but calls and provenance") {
  Builder b = test::new_builder();
  const Value x = b.input(f32({2}), "x");
  Trace t = b.finish("forward", b("test.neg", x));
  t.signature = {Signature::Backward, 1, 2};
  t.provenance = {"Fusion", 3};
  const Trace derived = t.derived();
  CHECK(derived.name == "forward");
  CHECK(derived.arena == t.arena);
  CHECK(derived.inputs == t.inputs);
  CHECK(derived.output.same(t.output));
  CHECK(derived.signature.kind == Signature::Backward);
  CHECK(derived.signature.saved_tensors == 1);
  CHECK(derived.signature.saved_numbers == 2);
  CHECK(derived.calls.empty());
  CHECK(derived.provenance.pass == "");
  CHECK(derived.provenance.milliseconds == 0);
}

}  // namespace
}  // namespace thunder
