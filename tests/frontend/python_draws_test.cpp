// PythonDraws (frontend/python_draws.h): calls that draw random numbers by Python's generators.
#include "frontend/python_draws.h"

#include "tracer_parts.h"

namespace thunder::frontend::test::python_draws_test {

constexpr const char* kSource =
    "import random\n"
    "class C:\n"
    "    def f(self): return generator.random()\n"
    "generator, c = random.Random(0), C()\n"
    "def draw(): return generator.random()\n"
    "def with_first(o): return generator.random()\n"
    "def many(*args): return generator.random()\n"
    "def suspended(): yield generator.random()\n";

struct Fixture : UpToDraws {
  Names names{kSource};
  DrawingCalls known;

  void take(PyObject* callable) {
    known.add(DrawingCalls::key_of(callable, nullptr).value(), {Ref::borrow(names["generator"])});
    draws.calls = &known;
  }
  Ref call(PyObject* callable, bool settled = true, bool touched = false) {
    return draws.call(
        callable, nullptr, 0, nullptr, [=](PyObject*) { return settled; }, [=](PyObject*) { return touched; });
  }
};

// ---- which calls draw ------------------------------------------------------------------------------------------------

TEST_CASE("DrawingCalls: a function is known with the object that is its first argument") {
  FakeTorch torch;
  const Names names(kSource);
  DrawingCalls calls;
  const Ref bound = names.eval("c.f"), other = names.eval("C()");
  CHECK(calls.find(bound.get(), nullptr) == nullptr);
  CHECK(calls.add(DrawingCalls::key_of(bound.get(), nullptr).value(), {}));
  CHECK_FALSE(calls.add(DrawingCalls::key_of(bound.get(), nullptr).value(), {}));
  CHECK(calls.find(bound.get(), nullptr) != nullptr);
  CHECK(calls.find(names.eval("C.f").get(), names["c"]) != nullptr);
  CHECK(calls.find(names.eval("C.f").get(), other.get()) == nullptr);
  calls.find(bound.get(), nullptr)->refused = true;
  CHECK(calls.find(bound.get(), nullptr) == nullptr);
}

TEST_CASE("DrawingCalls: a plain first argument does not count") {
  FakeTorch torch;
  const Names names(kSource);
  DrawingCalls calls;
  calls.add(DrawingCalls::key_of(names["with_first"], integer(1).get()).value(), {});
  CHECK(calls.find(names["with_first"], integer(2).get()) != nullptr);
  CHECK(calls.find(names["with_first"], names["c"]) == nullptr);
}

TEST_CASE("DrawingCalls: a method of a generator, and nothing else of C code") {
  FakeTorch torch;
  const Names names(kSource);
  CHECK(DrawingCalls::key_of(names.eval("generator.random").get(), nullptr)->method == "random");
  CHECK_FALSE(DrawingCalls::key_of(names.eval("[].append").get(), nullptr));
  CHECK_FALSE(DrawingCalls::key_of(names["generator"], nullptr));
}

TEST_CASE("DrawingCalls: those of another acquisition are added") {
  FakeTorch torch;
  const Names names(kSource);
  DrawingCalls calls, others;
  others.add(DrawingCalls::key_of(names["draw"], nullptr).value(), {Ref::borrow(names["generator"])});
  CHECK(calls.add(others));
  CHECK_FALSE(calls.add(others));
  CHECK(calls.find(names["draw"], nullptr)->generators.size() == 1);
}

struct Frames {
  FakeTorch torch;
  Names names{kSource};
  DrawingFrames frames;
  DrawingFrames::Done done{0, 0, 0};

  void begin(const char* function) {
    frames.will_call(names[function]);
    frames.begins(done);
    frames.is_of(names[function], nullptr);
  }
  void draw() {
    frames.drew(names["generator"], DrawingFrames::Generator::Outside, "random", DrawingFrames::Result::Input);
  }
  /// The innermost frame gives a number.
  void end() { frames.ends(done, DrawingFrames::Result::Input); }
  /// It gives what no program takes.
  void end_otherwise() { frames.ends(done, DrawingFrames::Result::Other); }
  bool found(const char* callable) {
    DrawingCalls calls;
    calls.add(frames.found());
    return calls.find(names.eval(callable).get(), nullptr) != nullptr;
  }
};

TEST_CASE_FIXTURE(Frames, "DrawingFrames: the outermost call that draws and does nothing else") {
  begin("with_first");
  begin("draw");
  draw();
  SUBCASE("of a function") {
    end();
    end_otherwise();
    CHECK(found("draw"));
    CHECK_FALSE(found("with_first"));
    CHECK_FALSE(found("generator.random"));  // within it
  }
  SUBCASE("of the function around it") {
    end();
    end();
    CHECK(found("with_first"));
    CHECK_FALSE(found("draw"));
  }
}

TEST_CASE_FIXTURE(Frames, "DrawingFrames: a function that does more is no such call, the generator's method is") {
  begin("draw");
  draw();
  SUBCASE("it writes") { done.writes = 1; }
  SUBCASE("it reads what the program wrote") { done.read_written = 1; }
  SUBCASE("it records calls") { done.recorded = 1; }
  end();
  CHECK_FALSE(found("draw"));
  CHECK(found("generator.random"));
}

TEST_CASE_FIXTURE(Frames, "DrawingFrames: functions that cannot be called as a whole") {
  SUBCASE("one that the program made") {
    frames.will_call(names["draw"]);
    frames.begins(done);
    frames.is_of(nullptr, nullptr);
  }
  SUBCASE("one of all arguments") { begin("many"); }
  SUBCASE("a generator function") { begin("suspended"); }
  SUBCASE("one that C code calls") {
    frames.begins(done);
    frames.is_of(names["draw"], nullptr);
  }
  draw();
  end();
  for (const char* name : {"draw", "many", "suspended"}) CHECK_FALSE(found(name));
  CHECK(found("generator.random"));
}

TEST_CASE_FIXTURE(Frames, "DrawingFrames: a function without draws is nothing") {
  begin("draw");
  end();
  CHECK_FALSE(found("draw"));
}

TEST_CASE("PythonDraws: what a call may give") {
  FakeTorch torch;
  const auto foreign = [](PyObject*) { return false; };
  CHECK(is_drawable(integer(5).get(), foreign));
  CHECK(is_drawable(Py_True, foreign));
  CHECK_FALSE(is_drawable(str("text").get(), foreign));
  CHECK_FALSE(is_drawable(Ref::steal(PyList_New(0)).get(), foreign));
}

// ---- making them -----------------------------------------------------------------------------------------------------

TEST_CASE_FIXTURE(Fixture, "PythonDraws: a call that is not known is left alone") {
  CHECK_FALSE(call(names["draw"]));
  draws.calls = &known;
  CHECK_FALSE(call(names["draw"]));
  CHECK(questions.reads().empty());
}

TEST_CASE_FIXTURE(Fixture, "PythonDraws: a known call is made, and its number is one of the program") {
  take(names["draw"]);
  const Ref number = call(names["draw"]);
  CHECK(repr(number) == "0.5");  // what the fake run makes of the tensor
  REQUIRE(questions.reads().size() == 2);
  CHECK(questions.reads()[0].generators.size() == 1);
  CHECK_FALSE(questions.reads()[0].exact);
  CHECK(questions.reads()[0].calls.size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "PythonDraws: a generator that the program made or touched is its own") {
  take(names["draw"]);
  CHECK_FALSE(call(names["draw"], /*settled=*/false));
  CHECK_FALSE(call(names["draw"], /*settled=*/true, /*touched=*/true));
}

TEST_CASE_FIXTURE(Fixture, "PythonDraws: a call that raises is made by the program itself, and drew nothing") {
  names.exec("def broken():\n    generator.random()\n    raise ValueError\n");
  take(names["broken"]);
  const Ref before = names.eval("generator.getstate()");
  CHECK_FALSE(call(names["broken"]));
  CHECK(questions.reads().empty());
  CHECK(PyObject_RichCompareBool(before.get(), names.eval("generator.getstate()").get(), Py_EQ) == 1);
  CHECK(known.find(names["broken"], nullptr) == nullptr);  // it is not tried again
}

TEST_CASE_FIXTURE(Fixture, "PythonDraws: an array that no call gave is nothing to it") {
  const Ref array = names.eval("[1]");
  CHECK_FALSE(draws.tensor_of(array.get(), PythonDraws::Memory::One));
  draws.open(array.get());
  draws.open_all(Ref::steal(PyTuple_Pack(1, array.get())).get());
  CHECK_FALSE(draws.opened());
  const Ref arguments = Ref::steal(PyTuple_Pack(1, array.get()));
  CHECK(draws.arguments_of(names["draw"], arguments.get(), nullptr).get() == arguments.get());
}

}  // namespace thunder::frontend::test::python_draws_test
