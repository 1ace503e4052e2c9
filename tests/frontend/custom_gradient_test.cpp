// CustomGradients (frontend/custom_gradient.h): torch.autograd.Function.
#include "frontend/custom_gradient.h"

#include "passes/recorded_gradient.h"
#include "python_function.h"
#include "tracer_parts.h"

namespace thunder::frontend::test::custom_gradient_test {

struct Fixture : UpToTensors {
  CustomGradients custom{acquisition, proxies, tensors};
  Ref x = argument({2, 3}, DType::f32, /*requires_grad=*/true);

  Ref wrap(const Expr& result) { return proxies.wrap(result.value(), b.calls().back()); }
  /// As forward() computes it, under no_grad.
  Ref neg(const Ref& of) {
    b.set_grad_enabled(false);
    return wrap(b("torch.neg", value(of)));
  }
  Ref negated(PyObject* of) { return wrap(b("torch.neg", tensors.value_of(of))); }
  Ref with_gradient(const Ref& output, const Ref& backward) {
    return custom.with_gradient({output.get()}, {x.get()}, backward.get(), "Scale").at(0);
  }
  /// A function that gives its cotangent, or nothing.
  static Ref identity() {
    return function([](const auto& given) -> std::vector<Ref> { return {Ref::borrow(given.at(0))}; });
  }
  static Ref nothing() {
    return function([](const auto&) -> std::vector<Ref> { return {Ref()}; });
  }
  /// What the rule of a function with such a backward puts for x.
  Arg gradient(const Ref& backward, const TensorType& cotangent) {
    RecordedGradient rule;
    rule.placeholders.emplace_back(value(x), acquisition.arena()->make_value(cotangent));
    custom.record_backward(backward.get(), {value(x)}, "Scale", rule);
    return rule.puts.empty() ? Arg() : rule.puts.at(0).second;
  }
};

TEST_CASE_FIXTURE(Fixture, "CustomGradients: a function without outputs") {
  const Ref backward = function([](const auto& given) -> std::vector<Ref> {
    CHECK(given.empty());
    return {Ref()};
  });
  CHECK(custom.with_gradient({}, {x.get()}, backward.get(), "Scale").empty());
}

TEST_CASE_FIXTURE(Fixture, "CustomGradients: the output again, as a function of the input") {
  const Ref y = neg(x), z = with_gradient(y, identity());
  CHECK_FALSE(value(y).requires_grad());
  CHECK(value(z).requires_grad());
  CHECK(value(z) != value(y));
  CHECK(str(value(z).shape()) == "[2, 3]");
  REQUIRE(b.calls().size() == 2);
  const Call* call = b.calls()[1];
  CHECK(call->op->full_name == "augmented.Scale");
  CHECK(call->args[0].items().at(0).value() == value(y));
  CHECK(call->args[1].items().at(0).value() == value(x));
  CHECK(call->args[2].items().empty());
  CHECK(call->output.items().at(0).value() == value(z));
}

TEST_CASE_FIXTURE(Fixture, "CustomGradients: what else the backward reads is an argument of the call") {
  const Ref y = neg(x), kept = neg(y);
  const Ref backward = function([&](const auto& given) -> std::vector<Ref> {
    return {wrap(b("torch.mul", tensors.value_of(given.at(0)), value(kept)))};
  });
  with_gradient(y, backward);
  REQUIRE(b.calls().size() == 3);  // the backward's calls are none of the program's
  const ArgList& saved = b.calls()[2]->args;
  REQUIRE(saved[2].items().size() == 1);
  CHECK(saved[2].items()[0].value() == value(kept));
}

TEST_CASE_FIXTURE(Fixture, "CustomGradients: an output that is seen elsewhere, too, is copied") {
  Ref y;
  SUBCASE("an input") { y = x; }
  SUBCASE("a view") {
    const Ref whole = neg(x);
    y = wrap(b("torch.transpose", value(whole), Arg(0), Arg(1)));
  }
  const Ref z = with_gradient(y, nothing());
  const Value raw = b.calls().back()->args[0].items().at(0).value();
  CHECK(raw != value(y));
  CHECK(b.calls()[b.calls().size() - 2]->op->full_name == "torch.clone");
  CHECK_FALSE(acquisition.aliases().share_memory(tensors.id_of(z.get()), tensors.id_of(y.get())));
}

TEST_CASE_FIXTURE(Fixture, "CustomGradients: a gradient has the dtype and the sizes of its input") {
  CHECK(gradient(nothing(), tensor_type({2, 3}, {3, 1})).is_none());
  const Value same = gradient(identity(), tensor_type({2, 3}, {3, 1})).value();
  CHECK(str(same.shape()) == "[2, 3]");
  const Value fitted = gradient(identity(), tensor_type({4, 2, 3}, {6, 3, 1}, DType::f64)).value();
  CHECK(str(fitted.shape()) == "[2, 3]");
  CHECK(fitted.dtype() == DType::f32);
  CHECK(b.calls().empty());
}

TEST_CASE_FIXTURE(Fixture, "CustomGradients: what is no gradient is refused") {
  const Ref y = neg(x);
  SUBCASE("a number") {
    const Ref backward = function([](const auto&) -> std::vector<Ref> { return {integer(1)}; });
    CHECK_THROWS_WITH(with_gradient(y, backward), "[Scale] backward() must return tensors or None, got int");
  }
  SUBCASE("of other sizes") {
    const Ref other = argument({5});
    const Ref backward = function([&](const auto&) -> std::vector<Ref> { return {other}; });
    CHECK_THROWS_AS(with_gradient(y, backward), Error);
  }
  SUBCASE("an exception") { CHECK_THROWS_WITH(with_gradient(y, raising()), "ValueError: the function raises"); }
  CHECK(acquisition.records_program());
  CHECK(b.calls().size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "CustomGradients: a backward() does not write to what it did not make") {
  const Ref y = neg(x);
  bool own = false;
  SUBCASE("to a tensor of its own") { own = true; }
  SUBCASE("to the forward's") {}
  const Ref backward = function([&](const auto& given) -> std::vector<Ref> {
    const Ref target = own ? negated(given.at(0)) : y;
    acquisition.aliases().write(tensors.id_of(target.get()), b("torch.neg", value(target)).value(), false, "neg_");
    return {Ref::borrow(given.at(0))};
  });
  if (own) CHECK(value(with_gradient(y, backward)).requires_grad());
  else CHECK_THROWS_AS(with_gradient(y, backward), Error);
  CHECK(acquisition.records_program());
}

}  // namespace thunder::frontend::test::custom_gradient_test
