// Inputs (frontend/inputs.h): the inputs of the computation, with their sources.
#include "frontend/inputs.h"

#include "fake_torch.h"

namespace thunder::frontend::test::inputs_test {

struct Fixture {
  FakeTorch torch;
  Acquisition acquisition;
  Inputs inputs{acquisition};
  Builder& b = acquisition.builder();
};

TEST_CASE_FIXTURE(Fixture, "Inputs: none in the beginning") {
  CHECK(inputs.size() == 0);
  CHECK_FALSE(inputs.find(0));
  CHECK_THROWS(inputs.source_of(0));
}

TEST_CASE_FIXTURE(Fixture, "Inputs: a tensor, whose value is the builder's last input") {
  const Ref t = tensor({2});
  const Value v = b.input(hooks().type_of(t.get()));
  inputs.add(7, {.kind = InputSource::Captured, .tensor = t}, t);
  CHECK(inputs.find(7) == size_t{0});
  CHECK_FALSE(inputs.find(8));
  CHECK(inputs.value(0) == v);
  CHECK(inputs.source_of(7).tensor.get() == t.get());
  CHECK(inputs[0].real.get() == t.get());
  CHECK_FALSE(inputs[0].is_number());
  CHECK_FALSE(inputs[0].must_be_leaf);
  inputs.require_leaf(0);
  CHECK(inputs[0].must_be_leaf);
}

TEST_CASE_FIXTURE(Fixture, "Inputs: a size is an int of the call, 2 or more") {
  const Dim size = inputs.add_size(6);
  const SymbolId symbol = size.symbols().at(0);
  CHECK(acquisition.shapes().hint(symbol) == 6);
  CHECK(acquisition.shapes().least(symbol) == 2);
  CHECK_FALSE(acquisition.shapes().may_be_one(symbol));
  REQUIRE(inputs.size() == 1);
  CHECK(inputs[0].is_number());
  CHECK(inputs[0].source.kind == InputSource::Number);
  CHECK(inputs[0].source.integer);
  CHECK(inputs.value(0).type().number().dim->same(size));
}

TEST_CASE_FIXTURE(Fixture, "Inputs: a size that is 1 in some calls") {
  const Dim size = inputs.add_size(1, /*may_be_one=*/true);
  CHECK(acquisition.shapes().may_be_one(size.symbols().at(0)));
  CHECK(acquisition.shapes().hint(size.symbols().at(0)) == 1);
}

TEST_CASE_FIXTURE(Fixture, "Inputs: a float of the call") {
  const NumberPtr number = acquisition.shapes().make_number(0.5);
  const Value v = inputs.add_number({NumberKind::Float, std::nullopt, number}, number);
  REQUIRE(inputs.size() == 1);
  CHECK(inputs.value(0) == v);
  CHECK(inputs[0].source.number->same(*number));
  CHECK_FALSE(inputs[0].source.integer);
}

TEST_CASE_FIXTURE(Fixture, "Inputs: a number of the environment is read from its place") {
  const Ref dict = Ref::steal(PyDict_New()), real = Ref::steal(PyFloat_FromDouble(0.5));
  const Value whole = inputs.add_entry({dict, str("step")}, integer(5).get());
  const Value part = inputs.add_entry({dict, str("rate")}, real.get());
  CHECK(whole.type().number().kind == NumberKind::Int);
  CHECK(part.type().number().kind == NumberKind::Float);
  CHECK(inputs[1].source.kind == InputSource::Entry);
  CHECK(inputs[1].source.place.container.get() == dict.get());
  CHECK(inputs[1].real.get() == real.get());
  CHECK(inputs.end() - inputs.begin() == 2);
}

}  // namespace thunder::frontend::test::inputs_test
