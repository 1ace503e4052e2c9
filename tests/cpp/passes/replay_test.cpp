#include "passes/replay.h"

#include "core/error.h"
#include "passes/pass_ops.h"

namespace thunder {
namespace {

using test::f32;
using test::pass_builder;

// The calls that these make, apart.
template <class F>
std::vector<const Call*> apart(Builder& b, F&& record) {
  b.open_scope();
  record();
  return b.close_scope();
}

TEST_CASE("replay: types are those of the new operands") {
  for (const bool requires_grad : {false, true}) {
    Builder b = pass_builder();
    const Value x = b.input(f32({2}, requires_grad), "x"), own = b.arena()->make_value(f32({2}, true));
    Value result;
    const std::vector<const Call*> calls = apart(b, [&] { result = b("pt.mul", b("pt.exp", own), own).value(); });
    CHECK(result.requires_grad());
    Replay replay(b);
    replay.set(own, x);
    for (const Call* call : calls) replay.put(*call);
    CHECK(replay.now(result).requires_grad() == requires_grad);
    CHECK(replay.now(calls[0]) == b.calls()[0]);
    const std::string code = test::code(b.finish("f", replay.now(result)));
    CHECK(code == "t4 = pt.exp(x)\nt5 = pt.mul(t4, x)\nreturn t5\n");
  }
}

TEST_CASE("replay: what was made under no_grad is made so again, and nothing carries a gradient in such a mode") {
  Builder b = pass_builder();
  const Value x = b.input(f32({2}, true), "x"), own = b.arena()->make_value(f32({2}, true));
  Value stopped, flowing;
  const std::vector<const Call*> calls = apart(b, [&] {
    b.set_grad_enabled(false);
    stopped = b("pt.exp", own).value();
    b.set_grad_enabled(true);
    flowing = b("pt.exp", own).value();
  });
  for (const bool enabled : {true, false}) {
    Replay replay(b);
    replay.set(own, x);
    b.set_grad_enabled(enabled);
    for (const Call* call : calls) replay.put(*call);
    CHECK(b.grad_enabled() == enabled);
    CHECK(!replay.now(stopped).requires_grad());
    CHECK(replay.now(flowing).requires_grad() == enabled);
  }
}

TEST_CASE("replay: values inside of composites have others in their place") {
  Builder b = pass_builder();
  const Value x = b.input(f32({2, 3}), "x"), own = b.arena()->make_value(f32({2, 3}, true));
  const std::vector<const Call*> calls = apart(b, [&] { b("torch.softmax", own, 1); });
  Replay replay(b);
  replay.set(own, x);
  for (const Call* call : calls) replay.put(*call);
  const Call &was = *calls.at(0), &is = *b.calls().at(0);
  REQUIRE(!was.body.empty());
  for (size_t i = 0; i < was.body.size(); ++i) {
    CHECK(replay.now(was.body[i]) == is.body[i]);
    CHECK(replay.now(was.body[i]->output.value()) == is.body[i]->output.value());
  }
  CHECK(replay.now(x) == x);
}

TEST_CASE("replay: refused for sizes that only the run knows") {
  Builder b = pass_builder();
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  const Value x = b.input(f32({2}), "x");
  const std::vector<const Call*> calls = apart(b, [&] { b("prims.nonzero", x); });
  Replay replay(b);
  CHECK_THROWS_AS(replay.put(*calls.at(0)), Error);
}

}  // namespace
}  // namespace thunder
