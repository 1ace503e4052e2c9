// Derivatives (frontend/derivatives.h): transforms of torch.func.
#include "frontend/derivatives.h"

#include "python_function.h"
#include "tracer_parts.h"

namespace thunder::frontend::test::derivatives_test {

struct Fixture : UpToQuestions {
  FunctionsApart functions{acquisition, proxies, tensors, questions};
  Derivatives derivatives{acquisition, layouts, proxies, tensors, functions};

  Ref wrap(const Expr& result) { return proxies.wrap(result.value(), b.calls().back()); }
  /// The square of a tensor.
  Ref square() {
    return function([&](const auto& given) -> std::vector<Ref> {
      const Value v = tensors.value_of(given.at(0));
      return {wrap(b("torch.mul", v, v))};
    });
  }
  std::pair<Ref, size_t> pullback(const Ref& fn, const Ref& of, const Derivatives::PullbackOptions& options = {}) {
    return derivatives.pullback(fn.get(), {of.get()}, options);
  }
  std::vector<Ref> pull(size_t number, const std::vector<Ref>& cotangents) {
    return derivatives.pull(number, borrowed(cotangents));
  }
  /// Why a call is left to eager.
  template <typename Function>
  std::string refusal(const Function& call) {
    acquisition.eager.reset();
    CHECK_THROWS_AS(call(), Error);
    return acquisition.eager ? acquisition.eager->why : "";
  }
};

TEST_CASE_FIXTURE(Fixture, "Derivatives: the gradient of a function without results is zero") {
  const Ref x = argument({2, 3});
  const auto [made, number] = pullback(function([](const auto&) { return std::vector<Ref>(); }), x);
  CHECK(PyList_GET_SIZE(made.get()) == 0);
  CHECK(b.calls().empty());
  const std::vector<Ref> g = pull(number, {});
  REQUIRE(g.size() == 1);
  CHECK(b.calls().back()->op->full_name == "torch.zeros_like");
  CHECK(str(value(g[0]).shape()) == "[2, 3]");
}

TEST_CASE_FIXTURE(Fixture, "Derivatives: the function's calls are the program's, its gradient is apart") {
  const Ref x = argument({2, 3});
  const auto [made, number] = pullback(square(), x);
  REQUIRE(PyList_GET_SIZE(made.get()) == 1);
  const Value y = tensors.value_of(PyList_GET_ITEM(made.get(), 0));
  CHECK_FALSE(y.requires_grad());
  REQUIRE(b.calls().size() == 1);
  CHECK(b.calls()[0]->args[0].value() == value(x));
  CHECK(b.calls()[0]->output.value() == y);
  const size_t before = b.calls().size();
  const std::vector<Ref> g = pull(number, {argument({2, 3})}), ones = pull(number, {Ref()});
  CHECK(b.calls().size() > before);
  CHECK(str(value(g.at(0)).shape()) == "[2, 3]");
  CHECK(value(g.at(0)) != value(ones.at(0)));
  CHECK_FALSE(value(g.at(0)).requires_grad());
}

TEST_CASE_FIXTURE(Fixture, "Derivatives: gradients flow where the program's tensors require any") {
  const Ref w = argument({2, 3}, DType::f32, /*requires_grad=*/true);
  bool recording = true;
  SUBCASE("while they are recorded") {}
  SUBCASE("not under no_grad") { torch.grad_enabled = recording = false; }
  const auto [made, number] = pullback(square(), w, {.recording = recording});
  CHECK(tensors.value_of(PyList_GET_ITEM(made.get(), 0)).requires_grad() == recording);
  CHECK(value(pull(number, {Ref()}).at(0)).requires_grad() == recording);
}

TEST_CASE_FIXTURE(Fixture, "Derivatives: what is no dense tensor of real numbers is left to eager") {
  const Ref n = argument({2}, DType::i64);
  CHECK(refusal([&] { pullback(square(), n); }).starts_with("torch.func of what is no dense tensor of real numbers"));
  CHECK(b.calls().empty());
}

TEST_CASE_FIXTURE(Fixture, "Derivatives: cotangents are like the results") {
  const auto [made, number] = pullback(square(), argument({2, 3}));
  const size_t n = number;
  const auto why = "torch.func with a cotangent or tangent of another shape or dtype";
  CHECK(refusal([&] { pull(n, {argument({3, 2})}); }).starts_with(why));
  CHECK(refusal([&] { pull(n, {argument({2, 3}, DType::f64)}); }).starts_with(why));
  const Ref w = argument({2, 3}, DType::f32, /*requires_grad=*/true);
  CHECK(refusal([&] { pull(n, {w}); }).starts_with("a gradient of torch.func for a cotangent that requires one"));
}

TEST_CASE_FIXTURE(Fixture, "Derivatives: a pullback holds in the transform in which it was made") {
  const Ref x = argument({2, 3});
  acquisition.open_scope();
  const size_t number = pullback(square(), x).second;
  pull(number, {Ref()});
  acquisition.close_scope();
  CHECK(refusal([&] {
          pull(number, {Ref()});
        }).starts_with("a torch.func.vjp outside of the transform in which it was made"));
}

TEST_CASE_FIXTURE(Fixture, "Derivatives: a forward-mode derivative ends at no_grad, of which eager knows") {
  const Ref x = argument({2, 3});
  const Ref constant = function([&](const auto& given) -> std::vector<Ref> {
    b.set_grad_enabled(false);
    Ref made = wrap(b("torch.neg", tensors.value_of(given.at(0))));
    b.set_grad_enabled(true);
    return {made};
  });
  CHECK(refusal([&] {
          pullback(constant, x, {.recording = true, .linear = true});
        }).starts_with("a forward-mode derivative through torch.no_grad()"));
  pullback(constant, x);
}

TEST_CASE_FIXTURE(UpToQuestionsOfRule, "Derivatives: a rule has none") {
  FunctionsApart functions(acquisition, proxies, tensors, questions);
  Derivatives derivatives(acquisition, layouts, proxies, tensors, functions);
  CHECK_THROWS_AS(derivatives.pullback(Py_None, {}, {}), Error);
  REQUIRE(acquisition.eager);
  CHECK(acquisition.eager->why == "torch.func in a rule");
}

}  // namespace thunder::frontend::test::derivatives_test
