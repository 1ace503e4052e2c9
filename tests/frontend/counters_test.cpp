// Counters (frontend/counters.h): numbers of the environment that change from call to call.
#include "frontend/counters.h"

#include "environment_parts.h"

namespace thunder::frontend::test::counters_test {

struct Fixture : UpToContainers {
  Counters counters{questions, fresh, log, classes, containers};
  Names source{
      "import types\n"
      "class C:\n"
      "    steps = 7\n"
      "    p = property(lambda self: 8)\n"
      "c, m, d, l = C(), types.ModuleType('shop'), {'step': 5, 'rate': 0.25, 'one': 1, 'text': 'x'}, [1, 6]\n"
      "c.step, m.step = 5, 9\n"};
  CounterPlaces places;
  ShapeEnv::Scope scope{acquisition.shapes()};  // traced numbers get their hints from it

  void take(PyObject* container, const char* name) {
    places[{container, name}] = Ref::borrow(container);
    counters.take(places);
  }
  /// What stands for d[key]: its hint; "none" if the number is taken as it is.
  std::string entry(PyObject* container, const Ref& key) { return hint(counters.entry(container, key.get())); }
  std::string attribute(const char* object, const char* name) {
    return hint(counters.attribute(source[object], str(name).get()));
  }
  static std::string hint(PyObject* number) {
    if (!number) return "none";
    const Ref owned = Ref::steal(number);
    CHECK(is_traced_number(number));
    return repr(number_hint(number));
  }
};

TEST_CASE_FIXTURE(Fixture, "Counters: without places every number is what it is") {
  CHECK(entry(source["d"], str("step")) == "none");
  CHECK(attribute("c", "step") == "none");
  counters.take(places);
  CHECK(entry(source["d"], str("step")) == "none");
  CHECK(inputs.size() == 0);
}

TEST_CASE_FIXTURE(Fixture, "Counters: an entry of a dict becomes an input, once") {
  take(source["d"], "step");
  CHECK(entry(source["d"], str("step")) == "5");
  const size_t inputs_then = inputs.size();
  REQUIRE(inputs_then == 2);  // where it is read, and the symbol
  CHECK(inputs[0].source.kind == InputSource::Entry);
  CHECK(inputs[0].source.place.container.get() == source["d"]);
  CHECK(inputs[1].source.kind == InputSource::Number);
  CHECK(entry(source["d"], str("step")) == "5");
  CHECK(inputs.size() == inputs_then);
  CHECK(guard().lines().empty());
  CHECK(entry(source["d"], str("rate")) == "none");
}

TEST_CASE_FIXTURE(Fixture, "Counters: all floats are taken, and ints of 2 and more") {
  for (const char* name : {"rate", "one", "text"}) take(source["d"], name);
  CHECK(entry(source["d"], str("rate")) == "0.25");
  CHECK(entry(source["d"], str("one")) == "none");
  CHECK(entry(source["d"], str("text")) == "none");
  source.exec("d['rate'] = True");
  CHECK(entry(source["d"], str("rate")) == "none");
}

TEST_CASE_FIXTURE(Fixture, "Counters: what the program made or wrote is its own") {
  take(source["d"], "step");
  take(source["l"], "[1]");
  log.add(Effect::Entry, source["d"], str("step").get(), integer(5).get());
  fresh.add(source["l"]);
  CHECK(entry(source["d"], str("step")) == "none");
  CHECK(entry(source["l"], integer(1)) == "none");
}

TEST_CASE_FIXTURE(Fixture, "Counters: elements of lists and variables of closures") {
  const Ref cell = Ref::steal(PyCell_New(integer(4).get()));
  take(source["l"], "[1]");
  take(cell.get(), "");
  CHECK(entry(source["l"], integer(1)) == "6");
  CHECK(entry(source["l"], integer(0)) == "none");
  CHECK(entry(cell.get(), Ref()) == "4");
}

TEST_CASE_FIXTURE(Fixture, "Counters: an attribute of an object, which no class has") {
  take(source.eval("c.__dict__").get(), "step");
  CHECK(attribute("c", "step") == "5");
  EnvironmentGuard environment;
  classes.watch_classes(environment);
  CHECK(environment.lines() == Lines{"class C: 'step' absent"});
}

TEST_CASE_FIXTURE(Fixture, "Counters: an attribute of the class, which the object has not") {
  take(source["C"], "steps");
  CHECK(attribute("c", "steps") == "7");
  CHECK(guard().lines() == Lines{"a dict['steps'] absent"});
  CHECK(attribute("C", "steps") == "7");
}

TEST_CASE_FIXTURE(Fixture, "Counters: a global") {
  take(PyModule_GetDict(source["m"]), "step");
  CHECK(attribute("m", "step") == "9");
}

TEST_CASE_FIXTURE(Fixture, "Counters: a property or a class's own __getattribute__ gives its number itself") {
  source.exec(
      "class Own:\n"
      "    def __getattribute__(self, name): return 3\n"
      "own = Own()\n"
      "own_dict = object.__getattribute__(own, '__dict__')\n"
      "own_dict['step'] = 5\n"
      "c.__dict__['p'] = 5\n");
  take(source["own_dict"], "step");
  take(source.eval("c.__dict__").get(), "p");
  CHECK(attribute("own", "step") == "none");
  CHECK(attribute("c", "p") == "none");
}

}  // namespace thunder::frontend::test::counters_test
