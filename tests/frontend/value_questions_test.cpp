// ValueQuestions (frontend/value_questions.h): what the program asks of its tensors' values.
#include "frontend/value_questions.h"

#include "tracer_parts.h"

namespace thunder::frontend::test::value_questions_test {

struct Fixture : UpToQuestions {
  /// The object of a call's result.
  Ref wrap(const Expr& result) { return proxies.wrap(result.value(), b.calls().back()); }
  Ref relu(const Ref& of) {
    return acquisition.located([&] { return wrap(b("torch.relu", value(of))); });
  }
  Value item(const Ref& of) {
    return acquisition.located([&] { return b("torch.item", value(of)).value(); });
  }
  /// The length of a nonzero().
  Dim length(const Ref& of) {
    return acquisition.located([&] { return b("torch.nonzero", value(of)).value().shape()[0]; });
  }
  /// Ints that are read differ from call to call.
  void vary() {
    questions.int_varies = [](const std::string&, int64_t) { return true; };
  }
};

TEST_CASE_FIXTURE(Fixture, "ValueQuestions: nothing is run before something is asked") {
  relu(argument({4}));
  CHECK(torch.ran.empty());
  CHECK(questions.reads().empty());
  CHECK(acquisition.answers == &questions);
}

TEST_CASE_FIXTURE(Fixture, "ValueQuestions: a value is computed once by the calls that lead to it") {
  const Ref x = argument({4}), y = relu(x), other = relu(argument({2}));
  const Ref answer = questions.read(y.get(), "item");
  CHECK(torch.ran == Lines{"torch.relu"});
  CHECK(torch.run_inputs == std::vector<size_t>{1});
  CHECK(questions.read(y.get(), "item").get() == answer.get());
  CHECK(torch.ran.size() == 1);
  REQUIRE(questions.reads().size() == 1);
  const ValueRead& read = questions.reads()[0];
  CHECK(read.value == value(y));
  CHECK(read.calls.size() == 1);
  CHECK(read.exact);
  CHECK(read.what == "item");
  CHECK(read.where == acquisition.location());
  CHECK(read.place == acquisition.location() + " #0");
}

TEST_CASE_FIXTURE(Fixture, "ValueQuestions: a later read begins with what earlier ones computed") {
  const Ref y = relu(argument({4})), z = relu(y);
  questions.read(y.get(), "item");
  questions.read(z.get(), "item");
  CHECK(torch.ran == Lines{"torch.relu", "torch.relu"});
  CHECK(questions.reads()[1].place == acquisition.location() + " #1");
}

TEST_CASE_FIXTURE(Fixture, "ValueQuestions: the value of an input is that of this call") {
  const Ref real = tensor({}), x = tensors.add_argument(real.get(), 0);
  CHECK(questions.read(x.get(), "item").get() == real.get());
  CHECK(torch.ran.empty());
}

TEST_CASE_FIXTURE(Fixture, "ValueQuestions: a number is the answer's, unless it is known to vary") {
  torch.integer = 7;
  const Value whole = item(argument({}, DType::i64)), part = item(argument({}));
  CHECK(questions.resolve(whole, "item").dim().constant() == 7);
  CHECK(questions.resolve(part, "item").real() == 0.5);
  CHECK(questions.resolve(whole, "item").dim().constant() == 7);
  CHECK(torch.ran.size() == 2);
  CHECK(questions.reads()[0].exact);
}

TEST_CASE_FIXTURE(Fixture, "ValueQuestions: a number that varies is one of the call") {
  vary();
  torch.integer = 7;
  const Arg whole = questions.resolve(item(argument({}, DType::i64)), "item");
  REQUIRE(whole.kind() == Arg::Kind::Int);
  REQUIRE_FALSE(whole.dim().is_constant());
  CHECK(acquisition.shapes().hint(whole.dim().symbols().at(0)) == 7);
  const Arg part = questions.resolve(item(argument({})), "item");
  CHECK(part.is_value());
  for (const ValueRead& r : questions.reads()) CHECK_FALSE(r.exact);
  CHECK(questions.reads()[0].least == 2);
  CHECK(questions.hold_exactly(*part.value().type().number().expr));
  CHECK(questions.reads()[1].exact);
}

TEST_CASE_FIXTURE(Fixture, "ValueQuestions: 0 and 1 are never one of the call") {
  vary();
  torch.integer = 1;
  CHECK(questions.resolve(item(argument({}, DType::i64)), "item").dim().is_constant());
}

TEST_CASE_FIXTURE(Fixture, "ValueQuestions: the length of what depends on values is found") {
  torch.integer = 3;
  const Dim size = length(argument({4}));
  const SymbolId s = size.symbols().at(0);
  CHECK(torch.ran.empty());
  CHECK(questions.find(s, SizeAnswers::Need::Useful));
  CHECK(torch.ran.size() == 1);
  CHECK(acquisition.shapes().hint(s) == 3);
  REQUIRE(questions.reads().size() == 1);
  CHECK_FALSE(questions.reads()[0].exact);
  CHECK(questions.reads()[0].symbol == s);
  CHECK_FALSE(questions.find(s + 1000, SizeAnswers::Need::Useful));
}

TEST_CASE_FIXTURE(Fixture, "ValueQuestions: comparisons of such a length ask only where they may") {
  const Dim size = length(argument({4}));
  CHECK_THROWS_AS(acquisition.located([&] { return size == Dim(3); }), Error);
  CHECK(torch.ran.empty());
  CHECK(acquisition.located_with_answers([&] { return size == Dim(3); }));
  CHECK(torch.ran.size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "ValueQuestions: all lengths of a size") {
  const Dim first = length(argument({4})), second = length(argument({5}));
  CHECK(questions.find_all(Dim(3)));
  CHECK(torch.ran.empty());
  CHECK(questions.find_all(first * second + 1));
  CHECK(torch.ran.size() == 2);
  CHECK(questions.find_all(first));
  CHECK(torch.ran.size() == 2);
}

TEST_CASE_FIXTURE(Fixture, "ValueQuestions: a length that cannot be computed is not found") {
  torch.fails = true;
  const Dim size = length(argument({4}));
  CHECK_FALSE(questions.find_all(size));
  CHECK_FALSE(acquisition.shapes().hint(size.symbols().at(0)));
  CHECK(questions.reads().empty());
}

TEST_CASE_FIXTURE(Fixture, "ValueQuestions: what depends on random numbers is refused") {
  const Ref x = acquisition.located([&] { return wrap(b("torch.rand", Arg::tuple({Arg(Dim(4))}))); });
  CHECK_THROWS_AS(questions.read(x.get(), "item"), Error);
  CHECK(torch.ran.empty());
}

TEST_CASE("ValueQuestions: random numbers that are drawn ahead") {
  FakeTorch torch;
  bool keep = false;
  SUBCASE("of an acquisition that comes to nothing are undrawn") {}
  SUBCASE("stay drawn where that is said") { keep = true; }
  {
    Acquisition acquisition;
    Layouts layouts(acquisition);
    Proxies proxies(acquisition, layouts);
    Inputs inputs(acquisition);
    Tensors tensors(acquisition, proxies, inputs, {}, {});
    ValueQuestions questions(acquisition, inputs, tensors);
    questions.draws_ahead = true;
    Builder& b = acquisition.builder();
    const Value drawn = b("torch.rand", Arg::tuple({Arg(Dim(4))})).value();
    const Ref x = proxies.wrap(drawn, b.calls().back());
    questions.read(x.get(), "item");
    CHECK(torch.ran.size() == 1);
    REQUIRE(questions.reads().size() == 1);
    CHECK(questions.reads()[0].draws == std::vector<Device>{Device()});
    if (keep) questions.keep_drawn();
    CHECK(torch.undone == 0);
  }
  CHECK(torch.undone == (keep ? 0 : 1));
}

TEST_CASE_FIXTURE(Fixture, "ValueQuestions: numbers of the environment are read from their places, each once") {
  const ShapeEnv::Scope scope(acquisition.shapes());  // traced numbers get their hints from it
  const Ref dict = Ref::steal(PyDict_New());
  const Ref rate = Ref::steal(PyFloat_FromDouble(0.25));
  const Ref step = questions.read_counter(dict.get(), str("step").get(), integer(5).get());
  CHECK(repr(number_hint(step.get())) == "5");
  const size_t then = inputs.size();
  CHECK(number_arg(questions.read_counter(dict.get(), str("step").get(), integer(5).get()).get())
            .dim()
            .same(number_arg(step.get()).dim()));
  CHECK(inputs.size() == then);
  const Ref real = questions.read_counter(dict.get(), str("rate").get(), rate.get());
  CHECK(repr(number_hint(real.get())) == "0.25");
  CHECK(torch.ran.empty());
}

TEST_CASE_FIXTURE(Fixture, "ValueQuestions: what the reads take from the program's inputs") {
  const Ref x = argument({4});
  argument({2});
  questions.read(relu(x).get(), "item");
  Acquired acquired;
  questions.add_reads(acquired);
  CHECK(acquired.reads.size() == 1);
  REQUIRE(acquired.read_inputs.size() == 1);
  CHECK(acquired.read_inputs[0].first == value(x));
}

TEST_CASE_FIXTURE(Fixture, "ValueQuestions: what the reads computed is an input of the computation") {
  const Ref y = relu(argument({4})), z = relu(y);
  questions.read(y.get(), "item");
  Acquired acquired;
  acquired.trivial_epilogue = true;
  acquired.computation.arena = acquisition.arena();
  acquired.computation.calls = b.calls();
  acquired.computation.output = Arg::tuple({Arg(value(z))});
  questions.add_reads(acquired);
  questions.take_from_reads(acquired);
  CHECK(acquired.computation.calls.size() == 1);
  REQUIRE(acquired.sources.size() == 1);
  CHECK(acquired.sources[0].kind == InputSource::Read);
  CHECK(acquired.computation.inputs == std::vector<Value>{value(y)});
}

TEST_CASE_FIXTURE(UpToQuestionsOfRule, "ValueQuestions: a rule asks for no values") {
  const Value x = owner.builder().input(tensor_type({}, {}));
  CHECK(acquisition.answers == nullptr);
  const Ref proxy = tensors.add_value(x);
  CHECK_THROWS_AS(questions.read(proxy.get(), "item"), Error);
  CHECK(torch.ran.empty());
}

}  // namespace thunder::frontend::test::value_questions_test
