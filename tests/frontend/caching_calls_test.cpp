// CachingCalls (frontend/caching_calls.h): calls that are made again before each run.
#include "frontend/caching_calls.h"

#include "fake_torch.h"

namespace thunder::frontend::test::caching_calls_test {

struct Fixture {
  FakeTorch torch;
  NotKept not_kept;
  FreshObjects fresh{not_kept};
  CachingCalls calls{fresh};
  Names names{
      "import functools, sys\n"
      "made, table = [], {1: 'one'}\n"
      "@functools.lru_cache\n"
      "def f(key, *, other=None):\n"
      "    made.append(key)\n"
      "    return table.get(key)\n"};

  Ref call(const Ref& argument) {
    PyObject* given = argument.get();
    return Ref::steal(calls.call(names["f"], &given, 1, nullptr));
  }
  EnvironmentGuard guard() {
    EnvironmentGuard out;
    calls.watch(out);
    return out;
  }
};

TEST_CASE_FIXTURE(Fixture, "CachingCalls: what is one") {
  CHECK(CachingCalls::is_caching(names["f"]));
  CHECK_FALSE(CachingCalls::is_caching(names.eval("len").get()));
  CHECK_FALSE(CachingCalls::is_caching(names.eval("f.__wrapped__").get()));
}

TEST_CASE_FIXTURE(Fixture, "CachingCalls: a call is made again by the guard") {
  CHECK(repr(call(integer(1))) == "'one'");
  CHECK(repr(call(integer(1))) == "'one'");
  EnvironmentGuard environment = guard();
  CHECK(environment.check());
  CHECK(repr(names["made"]) == "[1]");
  names.exec("table[1] = 'two'\n");
  CHECK(environment.check());  // the cache keeps the answer
  names.exec("f.cache_clear()\n");
  std::string why;
  CHECK_FALSE(environment.check(&why));
  CHECK(why == "what f() gives changed");
}

TEST_CASE_FIXTURE(Fixture, "CachingCalls: keywords are a part of the call") {
  const Ref one = integer(1), names_of = Ref::steal(PyTuple_Pack(1, str("other").get()));
  PyObject* given[] = {one.get(), Py_None};
  CHECK(repr(Ref::steal(calls.call(names["f"], given, 1, names_of.get()))) == "'one'");
  CHECK(guard().check());
}

TEST_CASE_FIXTURE(Fixture, "CachingCalls: of what the program made nothing is cached") {
  const Ref own = names.eval("(1, object())");
  fresh.add(PyTuple_GET_ITEM(own.get(), 1));
  CHECK(repr(call(own)) == "None");
  CHECK(repr(names.eval("f.cache_info().currsize")) == "0");
  CHECK(repr(names.eval("len(made)")) == "1");
}

TEST_CASE_FIXTURE(Fixture, "CachingCalls: an exception is the program's") {
  const Ref unhashable = names.eval("[]");
  PyObject* given = unhashable.get();
  CHECK(calls.call(names["f"], &given, 1, nullptr) == nullptr);
  CHECK(PyErr_ExceptionMatches(PyExc_TypeError) == 1);
  PyErr_Clear();
}

TEST_CASE_FIXTURE(Fixture, "CachingCalls: what gives a setting") {
  names.exec("state = [True]\ndef setting(): return state[0]\n");
  CHECK(Ref::steal(calls.call_setting(names["setting"])).get() == Py_True);
  EnvironmentGuard environment = guard();
  CHECK(environment.check());
  names.exec("state[0] = False\n");
  CHECK_FALSE(environment.check());
}

}  // namespace thunder::frontend::test::caching_calls_test
