// BatchedFunctions (frontend/batched.h): torch.vmap.
#include "frontend/batched.h"

#include "python_function.h"
#include "tracer_parts.h"

namespace thunder::frontend::test::batched_test {

struct Fixture : UpToQuestions {
  FunctionsApart functions{acquisition, proxies, tensors, questions};
  BatchedFunctions batched{acquisition, proxies, tensors, functions};
  Ref x = argument({5, 2, 3});

  Ref wrap(const Expr& result) { return proxies.wrap(result.value(), b.calls().back()); }
  Ref neg(PyObject* of) { return wrap(b("torch.neg", tensors.value_of(of))); }
  std::vector<Ref> call(Body body, const char* randomness = "error") {
    return batched.call(function(std::move(body)).get(), {x.get()}, randomness);
  }
  /// Why a function is left to eager.
  std::string refusal(Body body) {
    CHECK_THROWS_AS(call(std::move(body)), Error);
    CHECK(acquisition.records_program());
    return acquisition.eager ? acquisition.eager->why : "";
  }
  std::string shape(const Ref& of) { return str(value(of).shape()); }
};

TEST_CASE_FIXTURE(Fixture, "BatchedFunctions: a function that gives nothing") {
  CHECK(call([](const auto&) { return std::vector<Ref>(); }).empty());
  CHECK(b.calls().empty());
}

TEST_CASE_FIXTURE(Fixture, "BatchedFunctions: the function sees a sample, the program calls it for the batch") {
  size_t runs = 0;
  const std::vector<Ref> y = call([&](const auto& given) -> std::vector<Ref> {
    ++runs;
    CHECK(str(tensors.type_of(given.at(0)).shape) == "[2, 3]");
    return {neg(given.at(0))};
  });
  CHECK(runs == 1);
  REQUIRE(y.size() == 1);
  CHECK(shape(y[0]) == "[5, 2, 3]");
  REQUIRE_FALSE(b.calls().empty());
  CHECK(b.calls().back()->output.value() == value(y[0]));
}

TEST_CASE_FIXTURE(Fixture, "BatchedFunctions: what depends on no sample is the same for all") {
  const Ref other = neg(argument({4}).get());
  const std::vector<Ref> y = call([&](const auto&) -> std::vector<Ref> { return {neg(other.get())}; });
  CHECK(shape(y.at(0)) == "[5, 4]");
}

TEST_CASE_FIXTURE(Fixture, "BatchedFunctions: a result in the memory of a sample is one in that of the batch") {
  const AliasTracker& aliases = acquisition.aliases();
  std::vector<Ref> y;
  bool view = false;
  SUBCASE("the sample itself") {
    y = call([](const auto& given) -> std::vector<Ref> { return {Ref::borrow(given.at(0))}; });
    CHECK(shape(y.at(0)) == "[5, 2, 3]");
  }
  SUBCASE("a view of it") {
    view = true;
    y = call([&](const auto& given) -> std::vector<Ref> {
      return {wrap(b("torch.select", tensors.value_of(given.at(0)), Arg(0), Arg(1)))};
    });
    CHECK(shape(y.at(0)) == "[5, 3]");
  }
  CHECK(y.at(0).get() != x.get());
  CHECK(aliases.path(tensors.id_of(y.at(0).get())).empty() != view);
  CHECK(aliases.share_memory(tensors.id_of(y.at(0).get()), tensors.id_of(x.get())));
}

TEST_CASE_FIXTURE(Fixture, "BatchedFunctions: gradients flow where the function's own calls recorded them") {
  x = argument({5, 2, 3}, DType::f32, /*requires_grad=*/true);
  torch.grad_enabled = false;
  b.set_grad_enabled(false);
  const std::vector<Ref> y = call([&](const auto& given) -> std::vector<Ref> {
    const Ref without = neg(given.at(0));
    b.set_grad_enabled(true);
    const Ref with = neg(given.at(0));
    b.set_grad_enabled(false);
    return {without, with};
  });
  CHECK_FALSE(value(y.at(0)).requires_grad());
  CHECK(value(y.at(1)).requires_grad());
  CHECK_FALSE(b.grad_enabled());
}

TEST_CASE_FIXTURE(Fixture, "BatchedFunctions: random numbers are drawn as vmap is told") {
  const Body draw = [&](const auto&) -> std::vector<Ref> { return {wrap(b("torch.rand", Arg::tuple({Arg(Dim(4))})))}; };
  CHECK(refusal(draw).starts_with("torch.vmap of "));
  const std::vector<Ref> different = call(draw, "different"), same = call(draw, "same");
  CHECK(shape(different.at(0)) == "[5, 4]");
  CHECK(shape(same.at(0)) == "[5, 4]");
}

TEST_CASE_FIXTURE(Fixture, "BatchedFunctions: these functions are left to eager") {
  CHECK(refusal([&](const auto& given) -> std::vector<Ref> {
          acquisition.aliases().write(tensors.id_of(given.at(0)), value(neg(given.at(0))), true, "neg_");
          return {};
        }).starts_with("torch.vmap of a function that writes to what it is given"));
  Ref kept;
  call([&](const auto& given) -> std::vector<Ref> { return {kept = neg(given.at(0))}; });
  acquisition.eager.reset();
  CHECK_THROWS_AS(tensors.id_of(kept.get()), Error);
  REQUIRE(acquisition.eager);
  CHECK(acquisition.eager->why.find("for a sample is used outside of it") != std::string::npos);
}

}  // namespace thunder::frontend::test::batched_test
