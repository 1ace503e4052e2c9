// DrawingObserver (frontend/drawing_observer.h): calls that draw random numbers, as the program makes them.
#include "frontend/drawing_observer.h"

#include "environment_parts.h"

namespace thunder::frontend::test::drawing_observer_test {

struct Fixture : UpToStates {
  DrawingObserver observer{acquisition, draws, fresh, log, states};
  Names source{
      "import random\n"
      "generator = random.Random(0)\n"
      "def draw(): return generator.random()\n"};

  void begin() {
    observer.will_call(source["draw"]);
    observer.frame_begins();
    observer.frame_is_of(source["draw"], nullptr);
  }
  void draw() {
    const Ref number = source.eval("0.25");
    observer.called(source["generator"], "random", number.get());
  }
  bool found(const char* callable) {
    DrawingCalls calls;
    calls.add(observer.found());
    return calls.find(source.eval(callable).get(), nullptr) != nullptr;
  }
};

TEST_CASE_FIXTURE(Fixture, "DrawingObserver: without draws nothing is found") {
  begin();
  observer.called(nullptr, "random", nullptr);
  observer.frame_ends(integer(1).get());
  CHECK_FALSE(found("draw"));
  CHECK(observer.call(source["draw"], nullptr, 0, nullptr) == nullptr);
}

TEST_CASE_FIXTURE(Fixture, "DrawingObserver: a function that draws and does nothing else") {
  begin();
  draw();
  observer.frame_ends(source.eval("0.25").get());
  CHECK(found("draw"));
  CHECK_FALSE(found("generator.random"));
}

TEST_CASE_FIXTURE(Fixture, "DrawingObserver: a function that gives, writes or records something else") {
  begin();
  draw();
  Ref gives = source.eval("0.25");
  SUBCASE("gives a list") { gives = source.eval("[]"); }
  SUBCASE("raises") { gives = {}; }
  SUBCASE("writes") { log.add(Effect::Entry, Ref::steal(PyDict_New()).get(), str("a").get(), nullptr); }
  SUBCASE("records") { b("torch.zeros", Dims{2}); }
  observer.frame_ends(gives.get());
  CHECK_FALSE(found("draw"));
  CHECK(found("generator.random"));
}

TEST_CASE_FIXTURE(Fixture, "DrawingObserver: the draws of a generator that the program made are its own") {
  fresh.add(source["generator"]);
  draw();
  CHECK_FALSE(found("generator.random"));
}

TEST_CASE_FIXTURE(Fixture,
                  "DrawingObserver: a known call is made as a whole unless the program touched the generator") {
  DrawingCalls known;
  known.add(DrawingCalls::key_of(source["draw"], nullptr).value(), {Ref::borrow(source["generator"])});
  draws.calls = &known;
  SUBCASE("it is") {
    const Ref number = Ref::steal(observer.call(source["draw"], nullptr, 0, nullptr));
    CHECK(repr(number) == "0.5");
  }
  SUBCASE("it was touched") {
    states.touch(source["generator"]);
    CHECK(observer.call(source["draw"], nullptr, 0, nullptr) == nullptr);
  }
}

}  // namespace thunder::frontend::test::drawing_observer_test
