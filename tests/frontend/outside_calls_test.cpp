// OutsideCalls (frontend/outside_calls.h): calls of what is not interpreted.
#include "frontend/outside_calls.h"

#include "environment_parts.h"

namespace thunder::frontend::test::outside_calls_test {

constexpr const char* kSource = R"(
import collections, heapq, operator, sys
class Record:
    def __init__(self, n): self.n = n
def python(): pass
def neg(x): return x
l, d, s = [1, 2], {'a': 1, 'b': 2}, {1}
record = Record(3)
)";

struct Fixture {
  FakeTorch torch;
  Tracer tracer;
  NotKept not_kept;
  ObjectNames names;
  FreshObjects fresh{not_kept};
  ArgumentUses uses;
  WriteLog log;
  TouchedStates states{tracer, tracer.draws(), not_kept, fresh};
  ClassReads classes{fresh, log};
  ContainerReads containers{tracer.draws(), names, fresh, uses, log, states, classes};
  AttributeReads attributes{names, fresh, uses, log, states, classes, containers};
  EnvironmentWrites writes{tracer, tracer.draws(), fresh, uses, log, states, classes, containers, attributes};
  DeepReads deep{fresh, uses, states, containers, attributes, writes};
  Counters counters{tracer.questions(), fresh, log, classes, containers};
  PlainNumbers numbers{tracer.calls(), [this](PyObject* o) { return fresh.has(o) || log.wrote_to(o); }};
  SharpCalls sharp{tracer, tracer.draws(), SharpEdges::Allow, not_kept, fresh, states};
  CachingCalls caching{fresh};
  DrawingObserver drawing{tracer, tracer.draws(), fresh, log, states};
  OutsideCalls calls{{.tracer = tracer,
                      .fresh = fresh,
                      .uses = uses,
                      .log = log,
                      .states = states,
                      .classes = classes,
                      .containers = containers,
                      .attributes = attributes,
                      .writes = writes,
                      .deep = deep,
                      .counters = counters,
                      .numbers = numbers,
                      .sharp = sharp,
                      .caching = caching,
                      .drawing = drawing}};
  Names source{kSource};

  /// The call, as the interpreter makes it.
  std::optional<PyObject*> call(const char* callable, const std::vector<PyObject*>& arguments) {
    const Ref c = source.eval(callable);
    return calls.call(c.get(), arguments.data(), arguments.size(), nullptr);
  }
  /// What a call gives that was made.
  Ref made(const char* callable, const std::vector<PyObject*>& arguments) {
    const std::optional<PyObject*> result = call(callable, arguments);
    REQUIRE(result);
    return Ref::steal(*result);
  }
  Lines guard() { return guard_of(containers, classes, attributes).lines(); }
  Ref argument(const Dims& shape) { return tracer.tensors().add_argument(tensor(shape).get(), 0); }
};

TEST_CASE_FIXTURE(Fixture, "OutsideCalls: Python's code is left to the interpreter") {
  CHECK(call("python", {}) == std::nullopt);
  CHECK(call("record.__init__", {Py_None}) == std::nullopt);
  CHECK(log.size() == 0);
  CHECK(guard().empty());
}

TEST_CASE_FIXTURE(Fixture, "OutsideCalls: known functions read what their names say") {
  CHECK(repr(made("len", {source["l"]})) == "2");
  CHECK_FALSE(containers.knows_elements(source["l"]));
  CHECK(guard().size() == 1);
  CHECK(repr(made("isinstance", {source["s"], source.eval("set").get()})) == "True");
  CHECK_FALSE(containers.knows_elements(source["s"]));
  CHECK(repr(made("sum", {source["l"]})) == "3");
  CHECK(containers.knows_elements(source["l"]));
}

TEST_CASE_FIXTURE(Fixture, "OutsideCalls: a method that writes to a container is taken back") {
  const Ref three = integer(3);
  const char* changed = "l";
  SUBCASE("append()") {
    made("l.append", {three.get()});
    CHECK(repr(source["l"]) == "[1, 2, 3]");
  }
  SUBCASE("an entry") {
    changed = "d";
    CHECK(repr(made("d.pop", {str("a").get()})) == "1");
    CHECK(repr(source["d"]) == "{'b': 2}");
  }
  SUBCASE("clear()") {
    changed = "s";
    made("s.clear", {});
    CHECK(repr(source["s"]) == "set()");
  }
  CHECK(log.wrote_to(source[changed]));
  log.take_back();
  CHECK(repr(source[changed]) == repr(Names(kSource)[changed]));
}

TEST_CASE_FIXTURE(Fixture, "OutsideCalls: C code that nobody knows may write to the containers that it is given") {
  const Ref zero = integer(0);
  made("heapq.heappush", {source["l"], zero.get()});
  CHECK(PyList_GET_SIZE(source["l"]) == 3);
  CHECK(log.wrote_to(source["l"]));
}

TEST_CASE_FIXTURE(Fixture, "OutsideCalls: C code that writes to nothing leaves the log empty, what is made is fresh") {
  const Ref copy = made("l.copy", {});
  CHECK(repr(copy) == "[1, 2]");
  CHECK(fresh.has(copy.get()));
  CHECK(log.size() == 0);
  fresh.add(source["l"]);
  made("l.append", {Py_None});
  CHECK(log.size() == 0);
}

TEST_CASE_FIXTURE(Fixture, "OutsideCalls: getters read what they are for") {
  CHECK(repr(made("operator.itemgetter('a')", {source["d"]})) == "1");
  const size_t entries = guard().size();
  CHECK(entries > 0);
  CHECK(repr(made("operator.attrgetter('n')", {source["record"]})) == "3");
  CHECK(guard().size() > entries);
}

TEST_CASE_FIXTURE(Fixture, "OutsideCalls: classes") {
  const Ref x = argument({2});
  CHECK(made("type", {x.get()}).get() == reinterpret_cast<PyObject*>(hooks().tensor_class));
  const Ref list = made("list", {source["l"]});
  CHECK(fresh.has(list.get()));
  CHECK(containers.knows_elements(source["l"]));
  const Ref three = integer(3);
  const Ref record = made("Record", {three.get()});
  CHECK(repr(Ref::steal(PyObject_GetAttrString(record.get(), "n"))) == "3");
  CHECK(fresh.has(record.get()));
}

TEST_CASE_FIXTURE(Fixture, "OutsideCalls: an object is the program's own as soon as its constructor runs") {
  // A frame of the constructor begins while the class is being called.
  static Fixture* test = nullptr;
  test = this;
  static PyMethodDef begins = {"begins",
                               [](PyObject*, PyObject* object) -> PyObject* {
                                 PyObject* init = PyObject_GetAttrString(test->source["Watched"], "__init__");
                                 auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(init));
                                 const bool before = test->fresh.has(object);
                                 test->calls.entered(init, code, object);
                                 Py_DECREF(init);
                                 return Py_BuildValue("ii", before, test->fresh.has(object));
                               },
                               METH_O, nullptr};
  source.exec(
      "class Watched:\n"
      "    def __init__(self, begins): self.seen = begins(self)\n");
  const Ref function = Ref::steal(PyCFunction_New(&begins, nullptr));
  const Ref object = made("Watched", {function.get()});
  CHECK(repr(Ref::steal(PyObject_GetAttrString(object.get(), "seen"))) == "(0, 1)");
  const Ref outside = source.eval("Record(1)");
  const Ref init = source.eval("Record.__init__");
  calls.entered(init.get(), reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(init.get())), outside.get());
  CHECK_FALSE(fresh.has(outside.get()));  // no class is being called
}

TEST_CASE_FIXTURE(Fixture, "OutsideCalls: a program that asks for the time is not kept") {
  source.exec("import time");
  CHECK_FALSE(not_kept.why());
  made("time.time", {});
  CHECK(not_kept.why().has_value());
}

TEST_CASE_FIXTURE(Fixture, "OutsideCalls: torch calls on tensors go to the recorder, which is asked to take them") {
  const Ref x = argument({2});
  TorchFunction f;
  f.op = "torch.neg";
  Language::torch().add(source["neg"], f);
  CHECK(call("neg", {x.get()}) == std::nullopt);
  tracer.calls().take_calls();
  CHECK(call("neg", {Py_None}) == std::nullopt);
  const Ref y = made("neg", {x.get()});
  CHECK(is_proxy(y.get()));
  REQUIRE(tracer.builder().calls().size() == 1);
  CHECK(tracer.builder().calls()[0]->op->full_name == "torch.neg");
}

TEST_CASE_FIXTURE(Fixture, "OutsideCalls: what the recorder refuses is a Python exception") {
  const Ref x = argument({2});
  TorchFunction f;
  f.op = "torch.add";
  Language::torch().add(source["neg"], f);
  tracer.calls().take_calls();
  CHECK(call("neg", {x.get(), argument({3}).get()}) == std::optional<PyObject*>(nullptr));
  CHECK(PyErr_ExceptionMatches(PyExc_RuntimeError) == 1);
  PyErr_Clear();
}

TEST_CASE_FIXTURE(Fixture, "OutsideCalls: a setting cannot be changed in a program") {
  const Ref limit = source.eval("sys.getrecursionlimit()");
  CHECK(call("sys.setrecursionlimit", {limit.get()}) == std::optional<PyObject*>(nullptr));
  CHECK(PyErr_ExceptionMatches(PyExc_NotImplementedError) == 1);
  PyErr_Clear();
}

}  // namespace thunder::frontend::test::outside_calls_test
