// SharpCalls (frontend/sharp_calls.h): calls that can be neither checked nor repeated.
#include "frontend/sharp_calls.h"

#include "environment_parts.h"

namespace thunder::frontend::test::sharp_calls_test {

struct Fixture : UpToStates {
  Names source{"import queue, random, sys, time\nq, generator = queue.SimpleQueue(), random.Random(0)\n"};

  SharpCalls calls(SharpEdges edges) { return {acquisition, draws, edges, not_kept, fresh, states}; }
  /// Whether a call of a module's function, or of an object's method, is allowed.
  bool allow(SharpCalls& calls, const char* callable, const char* name) {
    const Ref c = source.eval(callable);
    return calls.allow(c.get(), PyCFunction_GET_SELF(c.get()), name);
  }
};

TEST_CASE_FIXTURE(Fixture, "SharpCalls: a call that is a matter of its arguments") {
  SharpCalls sharp = calls(SharpEdges::Error);
  CHECK(allow(sharp, "abs", "abs"));
  CHECK(allow(sharp, "[].append", "append"));
  CHECK_FALSE(not_kept.why());
}

TEST_CASE_FIXTURE(Fixture, "SharpCalls: a program that asks for the time is not kept") {
  SharpCalls sharp = calls(SharpEdges::Allow);
  CHECK(allow(sharp, "time.time", "time"));
  REQUIRE(not_kept.why());
  CHECK(not_kept.why()->starts_with("the program calls time(), which gives something else in every call"));
}

TEST_CASE_FIXTURE(Fixture, "SharpCalls: an output is allowed, and the program kept") {
  SharpCalls sharp = calls(SharpEdges::Allow);
  CHECK(allow(sharp, "print", "print"));
  CHECK_FALSE(not_kept.why());
}

TEST_CASE_FIXTURE(Fixture, "SharpCalls: sharp edges may be errors or warnings") {
  SUBCASE("errors") {
    SharpCalls sharp = calls(SharpEdges::Error);
    CHECK_FALSE(allow(sharp, "print", "print"));
    CHECK(PyErr_ExceptionMatches(PyExc_RuntimeError) == 1);
    PyErr_Clear();
  }
  SUBCASE("warnings") {
    source.exec("import warnings\nscope = warnings.catch_warnings(record=True)\nlog = scope.__enter__()\n");
    source.exec("warnings.simplefilter('always')\n");
    SharpCalls sharp = calls(SharpEdges::Warn);
    CHECK(allow(sharp, "print", "print"));
    source.exec("scope.__exit__()\n");
    CHECK(repr(source.eval("str(log[0].message).split(chr(10))[0]")) ==
          "'[sharp_edges] print() writes to the outside, and only when the program is compiled'");
  }
}

TEST_CASE_FIXTURE(Fixture, "SharpCalls: an object whose state cannot be seen leaves the program to eager") {
  SharpCalls sharp = calls(SharpEdges::Allow);
  const Ref own = source.eval("queue.SimpleQueue()");
  fresh.add(own.get());
  const Ref put = Ref::steal(PyObject_GetAttrString(own.get(), "put"));
  CHECK(sharp.allow(put.get(), own.get(), "put"));  // the program made it
  CHECK_FALSE(allow(sharp, "q.put", "put"));
  PyErr_Clear();
  CHECK(acquisition.eager);
}

TEST_CASE_FIXTURE(Fixture, "SharpCalls: what cannot be set in a program") {
  const SharpCalls sharp = calls(SharpEdges::Allow);
  CHECK(sharp.allow_setting(source.eval("sys.getrecursionlimit").get()));
  CHECK_FALSE(sharp.allow_setting(source.eval("sys.setrecursionlimit").get()));
  CHECK(PyErr_ExceptionMatches(PyExc_NotImplementedError) == 1);
  PyErr_Clear();
}

TEST_CASE_FIXTURE(Fixture,
                  "SharpCalls: a draw is told of at the end, when it is no part of a call that is made as a whole") {
  SharpCalls sharp = calls(SharpEdges::Error);
  DrawingCalls known;
  draws.calls = &known;
  sharp.tell_draws();
  CHECK(allow(sharp, "generator.random", "random"));
  CHECK_THROWS_AS(sharp.tell_draws(), PythonError);
  PyErr_Clear();
}

}  // namespace thunder::frontend::test::sharp_calls_test
