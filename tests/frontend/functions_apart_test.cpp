// FunctionsApart (frontend/functions_apart.h): functions of the user's that are recorded apart from the program.
#include "frontend/functions_apart.h"

#include "python_function.h"
#include "tracer_parts.h"

namespace thunder::frontend::test::functions_apart_test {

TensorType same(const TensorType& t) { return t; }

TensorType requiring(const TensorType& given) {
  TensorType t = given;
  t.requires_grad = true;
  return t;
}

struct Fixture : UpToQuestions {
  FunctionsApart functions{acquisition, proxies, tensors, questions};
  Ref x = argument({2, 3});

  Ref wrap(const Expr& result) { return proxies.wrap(result.value(), b.calls().back()); }
  Ref neg(PyObject* of) { return wrap(b("torch.neg", tensors.value_of(of))); }
  void write(PyObject* to) {
    acquisition.aliases().write(tensors.id_of(to), b("torch.neg", tensors.value_of(to)).value(), true, "neg_");
  }
  FunctionApart record(const Ref& fn, TensorType (*own)(const TensorType&) = same) {
    return functions.record(fn.get(), {x.get()}, own, "torch.vmap");
  }
  /// Why a function is left to eager.
  std::string refusal(Body body) {
    const Ref fn = function(std::move(body));
    CHECK_THROWS_AS(record(fn), Error);
    CHECK(acquisition.records_program());
    return acquisition.eager ? acquisition.eager->why : "";
  }
};

TEST_CASE_FIXTURE(Fixture, "FunctionsApart: a function that calls nothing") {
  const FunctionApart f = record(function([](const auto&) { return std::vector<Ref>(); }));
  CHECK(f.given == std::vector<Value>{value(x)});
  CHECK(f.own.size() == 1);
  CHECK(f.results.empty());
  CHECK(f.calls.empty());
  CHECK(b.calls().empty());
  CHECK(acquisition.scope() == 0);
}

TEST_CASE_FIXTURE(Fixture, "FunctionsApart: the calls are not the program's, and read stand-ins for the arguments") {
  const Ref fn = function([&](const auto& given) -> std::vector<Ref> {
    CHECK(given.at(0) != x.get());
    CHECK_FALSE(acquisition.records_program());
    return {neg(given.at(0))};
  });
  const FunctionApart f = record(fn);
  CHECK(b.calls().empty());
  CHECK(acquisition.records_program());
  REQUIRE(f.calls.size() == 1);
  CHECK(f.own[0] != f.given[0]);
  CHECK(f.calls[0]->args[0].value() == f.own[0]);
  CHECK(f.results == std::vector<Value>{f.calls[0]->output.value()});
  CHECK(PyList_GET_SIZE(f.made.get()) == 1);
  CHECK(f.given_ids[0] == tensors.id_of(x.get()));
  CHECK(f.own_ids[0] == tensors.id_of(f.proxies.at(0).get()));
}

TEST_CASE_FIXTURE(Fixture, "FunctionsApart: the transform says what the stand-ins are like") {
  const FunctionApart f =
      record(function([&](const auto& given) -> std::vector<Ref> { return {neg(given.at(0))}; }), requiring);
  CHECK_FALSE(f.given[0].requires_grad());
  CHECK(f.own[0].requires_grad());
  CHECK(f.results[0].requires_grad());
}

TEST_CASE_FIXTURE(Fixture, "FunctionsApart: a function that writes to a tensor that it did not make is left to eager") {
  const Ref other = neg(x.get());
  std::string why;
  SUBCASE("to its argument") {
    why = refusal([&](const auto& given) {
      write(given.at(0));
      return std::vector<Ref>();
    });
  }
  SUBCASE("to one of the program's") {
    why = refusal([&](const auto&) {
      write(other.get());
      return std::vector<Ref>();
    });
  }
  CHECK(why.starts_with("torch.vmap of a function that writes to what it is given"));
}

TEST_CASE_FIXTURE(Fixture, "FunctionsApart: a function may write to what it made") {
  const FunctionApart f = record(function([&](const auto& given) -> std::vector<Ref> {
    Ref made = neg(given.at(0));
    write(made.get());
    return {made};
  }));
  CHECK(f.calls.size() >= 2);
  CHECK(f.results[0] != f.calls[0]->output.value());
  CHECK_FALSE(acquisition.eager);
}

TEST_CASE_FIXTURE(Fixture, "FunctionsApart: a function that reads values is left to eager") {
  const std::string why = refusal([&](const auto&) {
    questions.read(x.get(), "item");
    return std::vector<Ref>();
  });
  CHECK(why.starts_with("torch.vmap of a function that reads values"));
}

TEST_CASE_FIXTURE(Fixture, "FunctionsApart: nothing is left of a function that raises") {
  bool writes = false;
  SUBCASE("and wrote to nothing") {}
  SUBCASE("and wrote to a tensor of the program's") { writes = true; }
  const Ref fn = function([&](const auto& given) -> std::vector<Ref> {
    neg(given.at(0));
    if (writes) write(x.get());
    PyErr_SetString(PyExc_ValueError, "the function raises");
    throw PythonError();
  });
  CHECK_THROWS_WITH(record(fn), "ValueError: the function raises");
  CHECK(acquisition.records_program());
  CHECK(b.calls().empty());
  CHECK(acquisition.eager.has_value() == writes);  // what it wrote to is another tensor in eager
}

TEST_CASE_FIXTURE(Fixture, "CallsApart: calls are apart until close(), or until the scope is left") {
  {
    CallsApart apart(acquisition);
    const size_t outer = acquisition.scope();
    {
      CallsApart inner(acquisition);
      neg(x.get());
      CHECK(acquisition.is_within(outer));
    }
    CHECK(acquisition.scope() == outer);
    neg(x.get());
    CHECK(apart.close().size() == 1);
    CHECK(acquisition.records_program());
  }
  CHECK(acquisition.records_program());
  CHECK(b.calls().empty());
}

}  // namespace thunder::frontend::test::functions_apart_test
