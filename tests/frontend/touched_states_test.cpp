// TouchedStates (frontend/touched_states.h): what C code keeps, as far as the program reads or changes it.
#include "frontend/touched_states.h"

#include "environment_parts.h"

namespace thunder::frontend::test::touched_states_test {

struct Fixture : UpToStates {
  Names source{
      "import contextvars, random, sys, threading, weakref\n"
      "class C: pass\n"
      "b, var, local = bytearray(b'abc'), contextvars.ContextVar('var'), threading.local()\n"
      "set_var = contextvars.ContextVar('set_var')\n"
      "set_var.set(1)\n"
      "generator = random.Random(0)\n"};
  EnvironmentGuard environment;
  std::vector<Effect> effects;

  void finish() {
    states.put_back();
    states.finish(environment, effects);
  }
  /// The program calls object.method(*arguments).
  Ref call_method(const char* object, const char* method, const std::vector<Ref>& arguments = {}) {
    const Ref callable = Ref::steal(PyObject_GetAttrString(source[object], method));
    std::vector<PyObject*> given;
    for (const Ref& a : arguments) given.push_back(a.get());
    states.will_call(callable.get(), source[object], given.data(), given.size());
    Ref result = Ref::steal(PyObject_Vectorcall(callable.get(), given.data(), given.size(), nullptr));
    states.called(callable.get(), source[object], result.get());
    return result;
  }
};

TEST_CASE_FIXTURE(Fixture, "TouchedStates: without states there is no guard") {
  CHECK_FALSE(states.any());
  states.touch(source["C"]);
  states.touch(source.eval("b'constant'").get());
  states.touch(tensor({2}).get());
  CHECK_FALSE(states.any());
  finish();
  CHECK(environment.lines().empty());
  CHECK(effects.empty());
}

TEST_CASE_FIXTURE(Fixture, "TouchedStates: memory that stays is a guard") {
  states.touch(source["b"]);
  states.touch(source["b"]);
  CHECK(states.touched(source["b"]));
  finish();
  CHECK(environment.lines() == Lines{"a bytearray is what it was"});
  CHECK(environment.check());
  CHECK_FALSE(not_kept.why());
  source.exec("b[0] = 120");
  CHECK_FALSE(environment.check());
}

TEST_CASE_FIXTURE(Fixture, "TouchedStates: memory that the program changed is put back, and is an effect") {
  states.touch(source["b"]);
  source.exec("b[0] = 120; b.append(121)");
  finish();
  CHECK(repr(source["b"]) == "bytearray(b'abc')");
  REQUIRE(effects.size() == 1);
  CHECK(apply_effect(effects[0], source["b"], effects[0].after.get()));
  CHECK(repr(source["b"]) == "bytearray(b'xbcy')");
  REQUIRE(not_kept.why());
  CHECK(not_kept.why()->starts_with("the program changes a bytearray, which was made outside of it"));
}

TEST_CASE_FIXTURE(Fixture, "TouchedStates: memory that the program made is its own, and views of it") {
  fresh.add(source["b"]);
  const Ref view = source.eval("memoryview(b)[1:]");
  states.touch(source["b"]);
  states.touch(view.get());
  fresh.add(source["generator"]);
  states.touch(source["generator"]);
  CHECK_FALSE(states.any());
}

TEST_CASE_FIXTURE(Fixture, "TouchedStates: a context variable") {
  CHECK(repr(call_method("set_var", "get")) == "1");
  SUBCASE("that is read") {
    finish();
    CHECK(environment.lines() == Lines{"a ContextVar is what it was"});
    CHECK(effects.empty());
  }
  SUBCASE("that is set") {
    call_method("set_var", "set", {integer(2)});
    finish();
    CHECK(repr(source.eval("set_var.get()")) == "1");
    REQUIRE(effects.size() == 1);
    CHECK(repr(effects[0].after) == "2");
  }
}

TEST_CASE_FIXTURE(Fixture, "TouchedStates: a context variable without a value loses the program's") {
  call_method("var", "set", {integer(2)});
  CHECK(repr(source.eval("var.get()")) == "2");
  finish();
  CHECK(repr(source.eval("var.get('none')")) == "'none'");
}

TEST_CASE_FIXTURE(Fixture, "TouchedStates: what a thread has of its own") {
  CHECK_FALSE(states.touch_attribute(source["C"], str("x").get()));
  CHECK(states.touch_attribute(source["local"], str("x").get()));
  source.exec("local.x = 5");
  finish();
  CHECK(repr(source.eval("hasattr(local, 'x')")) == "False");
  REQUIRE(effects.size() == 1);
  CHECK(repr(effects[0].after) == "5");
}

TEST_CASE_FIXTURE(Fixture, "TouchedStates: an attribute of memory touches it") {
  CHECK(states.touch_attribute(source["b"], str("x").get()));
  CHECK(states.touched(source["b"]));
}

TEST_CASE_FIXTURE(Fixture, "TouchedStates: a generator draws the same numbers again") {
  const Ref first = call_method("generator", "random");
  finish();
  CHECK(effects.size() == 1);
  CHECK(repr(source.eval("generator.random()")) == repr(first));
}

TEST_CASE_FIXTURE(Fixture, "TouchedStates: a setting of PyTorch's") {
  const Ref setter = source.eval("sys.setswitchinterval"), interval = source.eval("sys.getswitchinterval()");
  const Ref current = Ref::steal(PyObject_GetAttrString(hooks().outside_states.get(), "current"));
  PyObject* given = interval.get();
  CHECK_FALSE(states.sets());
  states.will_call(setter.get(), nullptr, &given, 1);
  CHECK(states.sets());
  PyDict_SetItemString(current.get(), "setting", integer(2).get());
  states.called(setter.get(), nullptr, Py_None);
  CHECK(torch.settings == 1);
  finish();
  CHECK(repr(PyDict_GetItemString(current.get(), "setting")) == "1");
  CHECK(effects.size() == 1);
  CHECK(not_kept.why()->starts_with("the program changes what setswitchinterval() sets"));
}

TEST_CASE_FIXTURE(Fixture, "TouchedStates: a program that follows a weak reference is not kept") {
  source.exec("c = C()\nr = weakref.ref(c)\n");
  SUBCASE("that it made: it is") {
    fresh.add(source["r"]);
    states.will_call(source["r"], nullptr, nullptr, 0);
    CHECK_FALSE(not_kept.why());
  }
  SUBCASE("to nothing: it is") {
    source.exec("del c");
    states.will_call(source["r"], nullptr, nullptr, 0);
    CHECK_FALSE(not_kept.why());
  }
  SUBCASE("to an object") {
    states.will_call(source["r"], nullptr, nullptr, 0);
    CHECK(not_kept.why()->starts_with("the program uses a weak reference that was made outside of it"));
  }
  SUBCASE("by a proxy of it") {
    const Ref proxy = source.eval("weakref.proxy(c)");
    states.touch_attribute(proxy.get(), str("x").get());
    CHECK(not_kept.why());
  }
}

TEST_CASE_FIXTURE(Fixture, "TouchedStates: a weak reference to a tensor that lies where it was found is a guard") {
  const Ref t = tensor({2}), another = tensor({2}), d = Ref::steal(PyDict_New());
  const Ref reference = Ref::steal(PyWeakref_NewRef(t.get(), nullptr));
  PyDict_SetItemString(d.get(), "t", t.get());
  states.will_call(reference.get(), nullptr, nullptr, 0);
  SUBCASE("found nowhere") {
    states.watch_weak(environment);
    CHECK(not_kept.why());
  }
  SUBCASE("found in a dict") {
    environment.watch_entries(d.get(), "d", {{str("t"), t, {}}}, -1, false);
    states.watch_weak(environment);
    CHECK_FALSE(not_kept.why());
    CHECK(environment.check());
    PyDict_SetItemString(d.get(), "t", another.get());
    CHECK_FALSE(environment.check());
  }
}

TEST_CASE_FIXTURE(Fixture, "TouchedStates: memory of which the program makes a tensor may not be written to") {
  states.take_arrays(true);
  states.touch(source["b"]);
  states.take_arrays(false);
  CHECK_FALSE(states.any());
  CHECK_FALSE(acquisition.eager);
  states.touch(source["b"]);
  source.exec("b[0] = 120");
  SUBCASE("in the end") { finish(); }
  SUBCASE("before another tensor is made of it") { states.take_memory(source["b"]); }
  REQUIRE(acquisition.eager);
  CHECK(acquisition.eager->why.starts_with("the function writes to a bytearray, of which it makes a tensor"));
}

}  // namespace thunder::frontend::test::touched_states_test
