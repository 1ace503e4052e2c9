#include "passes/pass_ops.h"
#include "passes/passes.h"

namespace thunder {
namespace {

using test::code;
using test::executor_for;
using test::f32;
using test::pass_builder;

TEST_CASE("claim: an empty trace needs no executor") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}), "x");
  CHECK(code(claim(b.finish("f", x), {})) == "return x\n");
}

TEST_CASE("claim: the first executor in the list takes the call at the highest level it knows") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}), "x");
  Trace t = b.finish("f", b("pt.scale", b("pt.exp", x)));
  auto low = executor_for("low", {"pt.exp", "pt.mul", "pt.heavy"});
  auto high = executor_for("high", {"pt.exp"});
  CHECK(code(claim(t, {high, low})) == "t1 = high_exp(x)\nt2 = low_heavy(t1)\nt3 = low_mul(t1, t2)\nreturn t3\n");
  CHECK(code(claim(t, {low, high})) == "t1 = low_exp(x)\nt2 = low_heavy(t1)\nt3 = low_mul(t1, t2)\nreturn t3\n");
}

TEST_CASE("claim: a composite taken whole keeps its body and its place") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}), "x");
  SourceLocation line{"user.py", 12, "f"};
  b.set_location(&line);
  Trace t = b.finish("f", b("pt.scale", x));
  auto e = std::make_shared<Executor>("whole");
  const Op& op =
      e->register_operator({.schema = "scale(Tensor a) -> Tensor", .doc = "", .meta = test::like_a}, "whole_scale");
  e->register_implementation("pt.scale", {.checker = {}, .op = &op, .transform = {}, .grad_transform = {}});
  Trace claimed = claim(t, {e});
  CHECK(code(claimed) == "t2 = whole_scale(x)\nreturn t2\n");
  CHECK(claimed.calls[0]->body == t.calls[0]->body);
  CHECK(claimed.calls[0]->location == &line);
  CHECK(claim(claimed, {}).calls == claimed.calls);
}

TEST_CASE("claim: a checker that says no passes the call on; the latest registration is asked first") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}), "x"), y = b.input(f32({3}), "y");
  Trace t = b.finish("f", Arg::tuple({b("pt.exp", x), b("pt.exp", y)}));
  auto low = executor_for("low", {"pt.exp"});
  auto picky = executor_for("picky", {"pt.exp"});
  Implementation first = picky->implementations().at("pt.exp")[0];
  first.checker = [](const Call& c) { return c.arguments().tensor("a").shape[0].constant() == 2; };
  auto only = std::make_shared<Executor>("only");
  only->register_implementation("pt.exp", first);
  CHECK(code(claim(t, {only, low})) == "t2 = picky_exp(x)\nt3 = low_exp(y)\nreturn (t2, t3)\n");
  picky->register_implementation("pt.exp", {.checker = [](const Call&) { return true; },
                                            .op = low->implementations().at("pt.exp")[0].op,
                                            .transform = {},
                                            .grad_transform = {}});
  CHECK(code(claim(t, {picky})) == "t2 = low_exp(x)\nt3 = low_exp(y)\nreturn (t2, t3)\n");
}

TEST_CASE("claim: a transform's calls are offered in turn, and its results stand for the call's") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}), "x");
  Trace t = b.finish("f", b("pt.mul", b("pt.exp", x), x));
  auto low = executor_for("low", {"pt.heavy", "pt.mul"});
  auto e = std::make_shared<Executor>("rewriter");
  auto transform = [](Builder& b, const Args& a) -> Arg { return b("pt.scale", a["a"]); };
  e->register_implementation("pt.exp", {.checker = {}, .op = nullptr, .transform = transform, .grad_transform = {}});
  CHECK(code(claim(t, {e, low})) == "t3 = low_heavy(x)\nt4 = low_mul(x, t3)\nt2 = low_mul(t4, x)\nreturn t2\n");
}

TEST_CASE("claim: a transform that changes a layout changes those that follow") {
  Builder b = pass_builder();
  Value x = b.input(f32({2, 3}), "x");
  Trace t = b.finish("f", b("pt.view", b("pt.view", b("pt.exp", x))));
  auto low = executor_for("low", {"pt.view", "pt.transpose"});
  auto e = std::make_shared<Executor>("rewriter");
  auto transform = [](Builder& b, const Args& a) -> Arg { return b("pt.transpose", a["a"]); };
  e->register_implementation("pt.exp", {.checker = {}, .op = nullptr, .transform = transform, .grad_transform = {}});
  Trace claimed = claim(t, {e, low});
  CHECK(code(claimed) == "t4 = low_transpose(x)\nt5 = low_view(t4)\nt6 = low_view(t5)\nreturn t6\n");
  CHECK(same(claimed.output.value().tensor().strides, {1, 2}));
}

TEST_CASE("claim: identities need no work, unless the caller gets them or they run above autograd") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}), "x");
  Expr inner = b("pt.same", b("pt.detach", x)), outer = b("pt.detach", x);
  Trace t = b.finish("f", Arg::tuple({b("pt.exp", inner), outer}));
  auto low = executor_for("low", {"pt.detach", "pt.exp"});
  CHECK(code(claim(t, {low})) == "t3 = low_detach(x)\nt4 = low_exp(x)\nreturn (t4, t3)\n");
  CHECK(code(claim(t, {low}, false)) ==
        "t1 = low_detach(x)\nt2 = low_detach(t1)\nt3 = low_detach(x)\nt4 = low_exp(t2)\nreturn (t4, t3)\n");
}

TEST_CASE("claim: an operator that no one runs is named, with its operands, the executors and the user's line") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}), "x");
  SourceLocation line{"user.py", 12, "f"};
  b.set_location(&line);
  Trace t = b.finish("f", b("pt.scale", x));
  auto low = executor_for("low", {"pt.mul"});
  CHECK_THROWS_WITH_AS(claim(t, {low}),
                       "[pt.heavy] no executor can run this operator on (cpu f32[2]); executors: low (user.py:12)",
                       Error);
}

TEST_CASE("claim: a transform that never ends, or gives something else, is refused") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}), "x");
  Trace t = b.finish("f", b("pt.exp", x));
  auto with = [](auto transform) {
    auto e = std::make_shared<Executor>("bad");
    e->register_implementation("pt.exp", {.checker = {}, .op = nullptr, .transform = transform, .grad_transform = {}});
    return ExecutorList{e};
  };
  auto endless = with([](Builder& b, const Args& a) -> Arg { return b("pt.exp", a["a"]); });
  CHECK_THROWS_WITH_AS(claim(t, endless), doctest::Contains("transforms again"), Error);
  auto two = with([](Builder& b, const Args& a) -> Arg { return b("pt.views", a["a"]); });
  CHECK_THROWS_WITH_AS(claim(t, two), doctest::Contains("2 results"), Error);
  auto half = with([](Builder& b, const Args& a) -> Arg { return b("pt.half", a["a"]); });
  CHECK_THROWS_WITH_AS(claim(t, half), doctest::Contains("bf16"), Error);
}

TEST_CASE("executors: lists keep the user's priority, and the always ones last") {
  Executors e;
  auto a = std::make_shared<Executor>("a"), c = std::make_shared<Executor>("c"),
       last = std::make_shared<Executor>("last");
  e.add(a);
  e.add_default(a);
  e.add_default(c);
  e.add_always(last);
  CHECK(e.defaults() == ExecutorList{c, a, last});
  CHECK(e.always() == ExecutorList{last});
  CHECK(e.find("c") == c);
  CHECK(e.find("none") == nullptr);
  e.remove_default("c");
  CHECK(e.defaults() == ExecutorList{a, last});
  CHECK(e.all() == ExecutorList{a, c, last});
  auto again = std::make_shared<Executor>("a");
  e.add(again);
  CHECK(e.find("a") == again);
  CHECK(e.defaults() == ExecutorList{again, last});
  e.remove("last");
  CHECK(e.always().empty());
}

}  // namespace
}  // namespace thunder
