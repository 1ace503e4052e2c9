// Gradients (frontend/gradients.h): torch.autograd.grad inside of a program.
#include "frontend/gradients.h"

#include "python_function.h"
#include "tracer_parts.h"

namespace thunder::frontend::test::gradients_test {

struct Fixture : UpToTensors {
  CustomGradients custom{acquisition, proxies, tensors};
  GradientHooks gradient_hooks{acquisition, tensors, custom};
  Gradients gradients{acquisition, proxies, inputs, tensors, gradient_hooks};
  Ref w = argument({2, 3}, DType::f32, /*requires_grad=*/true);
  Ref v = argument({2, 3}, DType::f32, /*requires_grad=*/true);

  Ref wrap(const Expr& result) { return proxies.wrap(result.value(), b.calls().back()); }
  Ref mul(const Ref& x, const Ref& y) { return wrap(b("torch.mul", value(x), value(y))); }
  Ref sum(const Ref& of) { return wrap(b("torch.sum", value(of))); }
  std::vector<Ref> of(const Ref& output, const std::vector<Ref>& of, const Gradients::Options& options = {},
                      const Ref& cotangent = {}) {
    return gradients.of({output.get()}, borrowed({cotangent}), borrowed(of), options);
  }
  /// Why the gradient is left to eager.
  std::string refusal(const Ref& output, const std::vector<Ref>& inputs, const Gradients::Options& options = {}) {
    CHECK_THROWS_AS(of(output, inputs, options), Error);
    REQUIRE(acquisition.eager);
    CHECK(acquisition.eager->warns);
    return acquisition.eager->why;
  }
};

TEST_CASE_FIXTURE(Fixture, "Gradients: of no tensors there are none") {
  CHECK(gradients.of({}, {}, {}, {}).empty());
  CHECK(b.calls().empty());
}

TEST_CASE_FIXTURE(Fixture, "Gradients: further calls of the program give a gradient like its input") {
  const Ref s = sum(mul(w, v));
  const size_t before = b.calls().size();
  const std::vector<Ref> g = of(s, {w});
  REQUIRE(g.size() == 1);
  CHECK(b.calls().size() > before);
  CHECK(str(value(g[0]).shape()) == "[2, 3]");
  CHECK(value(g[0]).dtype() == DType::f32);
  CHECK_FALSE(value(g[0]).requires_grad());
  CHECK(b.grad_enabled());
}

TEST_CASE_FIXTURE(Fixture, "Gradients: with create_graph they carry gradients themselves") {
  const Ref s = sum(mul(w, w));
  const std::vector<Ref> g = of(s, {w}, {.create_graph = true, .retain_graph = true});
  CHECK(value(g[0]).requires_grad());
  const std::vector<Ref> second = of(sum(g[0]), {w});
  CHECK(str(value(second[0]).shape()) == "[2, 3]");
}

TEST_CASE_FIXTURE(Fixture, "Gradients: where none flows there is None") {
  const std::vector<Ref> g = of(sum(mul(w, w)), {w, v});
  REQUIRE(g.size() == 2);
  CHECK(is_proxy(g[0].get()));
  CHECK(g[1].get() == Py_None);
}

TEST_CASE_FIXTURE(Fixture, "Gradients: a cotangent is what the gradient begins with, in memory of another tensor") {
  const Ref y = wrap(b("torch.add", value(w), value(v))), cotangent = argument({2, 3});
  const std::vector<Ref> g = of(y, {w, v}, {}, cotangent);
  REQUIRE(g.size() == 2);
  CHECK(value(g[0]) != value(cotangent));
  CHECK(value(g[0]) != value(g[1]));
  const MemoryOf memory(b.calls());
  CHECK(memory(value(g[0])) != memory(value(cotangent)));
  CHECK(memory(value(g[0])) != memory(value(g[1])));
}

TEST_CASE_FIXTURE(Fixture, "Gradients: eager decides what requires no gradient") {
  const Ref plain = argument({2, 3}), s = sum(mul(w, plain));
  CHECK(refusal(sum(plain), {w}).starts_with("torch.autograd.grad of what requires no gradient"));
  CHECK(refusal(s, {plain}).starts_with("torch.autograd.grad with respect to what requires no gradient"));
}

TEST_CASE_FIXTURE(Fixture, "Gradients: with respect to these tensors eager computes them") {
  const Ref x = mul(w, v), s = sum(x);
  CHECK(refusal(s, {proxies.add_alias(tensors.id_of(x.get()))}).find("a view of a whole tensor") != std::string::npos);
  const Ref same = function([](const auto& given) -> std::vector<Ref> { return {Ref::borrow(given.at(0))}; });
  gradient_hooks.put(x.get(), same.get(), "hook", false);
  CHECK(refusal(s, {x}).find("a tensor that has hooks") != std::string::npos);
  acquisition.open_scope();
  CHECK(refusal(s, {w}).starts_with("torch.autograd.grad in a function that is recorded apart"));
  acquisition.close_scope();
}

TEST_CASE_FIXTURE(Fixture, "Gradients: a graph is freed unless it is retained") {
  const Ref x = mul(w, v);
  const Call* made = b.calls().back();
  const Ref s = sum(x);
  of(s, {w}, {.retain_graph = true});
  CHECK_FALSE(gradient_hooks.is_freed(made));
  of(s, {w});
  CHECK(gradient_hooks.is_freed(made));
  CHECK(refusal(s, {w}).find("through what the first one freed") != std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "Gradients: inputs by which a gradient comes are leaves where another one is asked for") {
  const Ref s = sum(mul(w, v));
  const Ref inner = mul(w, w);
  bool another = false;
  SUBCASE("of one that the program computed none is meant") { of(sum(mul(inner, v)), {inner}); }
  SUBCASE("of an input all others are meant") {
    of(s, {w});
    another = true;
  }
  CHECK_FALSE(inputs[0].must_be_leaf);
  CHECK(inputs[1].must_be_leaf == another);
}

TEST_CASE_FIXTURE(Fixture, "Gradients: batches of cotangents give batches of gradients") {
  const Ref y = mul(w, v), cotangents = argument({5, 2, 3});
  const std::vector<Ref> g = of(y, {w}, {.batched = true}, cotangents);
  REQUIRE(g.size() == 1);
  CHECK(str(value(g[0]).shape()) == "[5, 2, 3]");
  CHECK(acquisition.records_program());
}

}  // namespace thunder::frontend::test::gradients_test
