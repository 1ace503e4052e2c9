// TorchCalls (frontend/torch_calls.h): the recorder of torch calls.
#include "frontend/torch_calls.h"

#include "tracer_parts.h"

namespace thunder::frontend::test::torch_calls_test {

/// Another answer of PyTorch's for the length of a scope.
template <typename T>
class Answer {
 public:
  Answer(T& place, T answer) : place_(place), before_(place) { place = std::move(answer); }
  ~Answer() { place_ = before_; }
  Answer(const Answer&) = delete;

 private:
  T& place_;
  T before_;
};

struct Fixture : UpToConstants {
  StridedViews strided{acquisition, proxies, inputs, tensors, constants};
  Mutation mutation{acquisition, proxies, inputs, tensors, strided};
  TorchCalls recorder{acquisition, proxies, tensors, constants, mutation, draws};
  Names source{
      "def known(*args, **kwargs): return ('called', args, kwargs)\n"
      "def handler(func, args, kwargs): return (func, args, kwargs)\n"
      "class Handles:\n"
      "    @classmethod\n"
      "    def __torch_function__(cls, func, types, args=(), kwargs=None): return None\n"};

  static Ref pack(const std::vector<PyObject*>& objects) {
    Ref out = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(objects.size())));
    for (size_t i = 0; i < objects.size(); ++i)
      PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i), Py_NewRef(objects[i]));
    return out;
  }
  static Ref named(const char* name, PyObject* value) {
    Ref out = Ref::steal(PyDict_New());
    PyDict_SetItemString(out.get(), name, value);
    return out;
  }
  /// A callable that means this from here on.
  PyObject* meaning(TorchFunction f) {
    Language::torch().add(source["known"], std::move(f));
    return source["known"];
  }
  static TorchFunction operation(const char* op) {
    TorchFunction f;
    f.op = op;
    return f;
  }
  Ref handle(PyObject* func, const std::vector<PyObject*>& args, PyObject* kwargs = nullptr) {
    return recorder.handle(func, pack(args).get(), kwargs);
  }
  /// Why a call is refused.
  std::string refusal(PyObject* func, const std::vector<PyObject*>& args) {
    try {
      handle(func, args);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }
  const Call* last() { return b.calls().back(); }
};

TEST_CASE_FIXTURE(Fixture, "TorchCalls: an operator's call is recorded, and its result is a proxy") {
  const Ref x = argument({2, 3});
  const Ref y = handle(meaning(operation("torch.neg")), {x.get()});
  REQUIRE(b.calls().size() == 1);
  CHECK(last()->op->full_name == "torch.neg");
  CHECK(last()->args[0].value() == value(x));
  CHECK(is_proxy(y.get()));
  CHECK(last()->output.value() == value(y));
  CHECK(torch.ran.empty());
}

TEST_CASE_FIXTURE(Fixture, "TorchCalls: handlers name the operator themselves, and may ask for it in place") {
  const Ref x = argument({2}), made = recorder.apply("torch.neg", pack({x.get()}).get(), nullptr);
  CHECK(made.get() != x.get());
  const Value before = value(x);
  CHECK(recorder.apply("torch.neg", pack({x.get()}).get(), nullptr, /*in_place=*/true).get() == x.get());
  CHECK(value(x) != before);
  const Ref by_name = recorder.call_symbol("torch.neg", pack({made.get()}).get(), nullptr);
  CHECK(last()->op->full_name == "torch.neg");
  CHECK(last()->output.value() == value(by_name));
}

TEST_CASE_FIXTURE(Fixture, "TorchCalls: a function that nobody knows is refused by name") {
  const Ref x = argument({2});
  CHECK_THROWS_AS(handle(source["handler"], {x.get()}), Error);
  CHECK(refusal(source["handler"], {x.get()}).starts_with("[handler] this torch function is not supported"));
  CHECK(b.calls().empty());
}

TEST_CASE_FIXTURE(Fixture, "TorchCalls: metadata is asked for as it is, and a handler decides itself") {
  const Ref x = argument({2});
  TorchFunction f;
  SUBCASE("metadata") {
    f.kind = TorchFunction::PassThrough;
    const Ref made = handle(meaning(f), {x.get()});
    CHECK(repr(PyTuple_GET_ITEM(made.get(), 0)) == "'called'");
    CHECK(PyTuple_GET_ITEM(PyTuple_GET_ITEM(made.get(), 1), 0) == x.get());
  }
  SUBCASE("a handler") {
    f.kind = TorchFunction::Handler;
    f.handler = Ref::borrow(source["handler"]);
    const Ref made = handle(meaning(f), {x.get()});
    CHECK(PyTuple_GET_ITEM(made.get(), 0) == source["known"]);
    CHECK(PyTuple_GET_ITEM(PyTuple_GET_ITEM(made.get(), 1), 0) == x.get());
    CHECK(repr(PyTuple_GET_ITEM(made.get(), 2)) == "{}");
  }
  CHECK(b.calls().empty());
}

TEST_CASE_FIXTURE(Fixture, "TorchCalls: forms of an operator") {
  const Ref x = argument({2}), y = argument({2});
  const Value of_x = value(x), of_y = value(y);
  TorchFunction f = operation("torch.sub");
  bool reflected = false;
  SUBCASE("reflected") { reflected = f.reflected = true; }
  SUBCASE("in place") { f.in_place = true; }
  SUBCASE("a method") { f.method = true; }
  const Ref made = handle(meaning(f), {x.get(), y.get()});
  CHECK((made.get() == x.get()) == f.in_place);
  CHECK((value(x) != of_x) == f.in_place);
  CHECK(b.calls()[0]->args[0].value() == (reflected ? of_y : of_x));
  CHECK(b.calls()[0]->args[1].value() == (reflected ? of_x : of_y));
}

TEST_CASE_FIXTURE(Fixture, "TorchCalls: a method of torch.Tensor is one of a tensor") {
  TorchFunction f = operation("torch.neg");
  f.method = true;
  PyObject* const method = meaning(f);
  const std::string why = "[torch.neg] a method of torch.Tensor was called on ";
  const Ref number = integer(1);
  for (PyObject* given : {Py_None, number.get()}) CHECK(refusal(method, {given}).starts_with(why));
  CHECK(refusal(method, {}).starts_with(why + "nothing"));
  CHECK(b.calls().empty());
}

TEST_CASE_FIXTURE(Fixture, "TorchCalls: out= is written to and returned") {
  const Ref x = argument({2}), out = recorder.apply("torch.neg", pack({x.get()}).get(), nullptr);
  const Value before = value(out);
  const Ref kwargs = named("out", out.get());
  CHECK(recorder.apply("torch.exp", pack({x.get()}).get(), kwargs.get()).get() == out.get());
  CHECK(value(out) != before);
  const Ref none = named("out", Py_None);
  CHECK(recorder.apply("torch.exp", pack({x.get()}).get(), none.get()).get() != out.get());
}

TEST_CASE_FIXTURE(Fixture, "TorchCalls: gradients are recorded as PyTorch's mode says") {
  const Ref w = argument({2}, DType::f32, /*requires_grad=*/true);
  CHECK(value(recorder.apply("torch.neg", pack({w.get()}).get(), nullptr)).requires_grad());
  torch.grad_enabled = false;
  CHECK_FALSE(value(recorder.apply("torch.neg", pack({w.get()}).get(), nullptr)).requires_grad());
  const Ref leaf = named("requires_grad", Py_True), size = source.eval("(2,)");
  const Ref made = recorder.apply("torch.zeros", pack({size.get()}).get(), leaf.get());
  CHECK(value(made).requires_grad());
  CHECK(acquisition.is_new_leaf(value(made)));
}

TEST_CASE_FIXTURE(Fixture, "TorchCalls: what the record refuses may be recorded otherwise") {
  const Ref x = argument({2}), y = argument({3});
  source.exec(
      "def unrecorded(func, args, kwargs, error):\n"
      "    asked.append((func, str(error)))\n"
      "    return answer\n"
      "asked = []\n");
  PyObject* const add = meaning(operation("torch.add"));
  CHECK_THROWS_AS(handle(add, {x.get(), y.get()}), Error);
  const Answer<Ref> asked(hooks().unrecorded, Ref::borrow(source["unrecorded"]));
  SUBCASE("it is") {
    source.exec("answer = ('made',)");
    CHECK(repr(handle(add, {x.get(), y.get()})) == "'made'");
  }
  SUBCASE("the exception stands") {
    source.exec("answer = None");
    CHECK_THROWS_AS(handle(add, {x.get(), y.get()}), Error);
  }
  REQUIRE(PyList_GET_SIZE(source["asked"]) == 1);
  CHECK(PyTuple_GET_ITEM(PyList_GET_ITEM(source["asked"], 0), 0) == add);
}

TEST_CASE_FIXTURE(Fixture, "TorchCalls: who sees operators below leaves the function to eager") {
  const Ref x = argument({2});
  PyObject* const neg = meaning(operation("torch.neg"));
  SUBCASE("a dispatch mode") {
    const Answer<std::string (*)()> mode(hooks().watcher, [] { return std::string("a dispatch mode"); });
    CHECK_THROWS_AS(handle(neg, {x.get()}), Error);
    REQUIRE(acquisition.eager);
    CHECK(acquisition.eager->why.starts_with("a dispatch mode in the function"));
  }
  SUBCASE("an object of a class that overrides torch functions") {
    const Ref object = source.eval("[Handles()]");
    CHECK_THROWS_AS(handle(neg, {object.get()}), Error);
    REQUIRE(acquisition.eager);
    CHECK(acquisition.eager->why.find("of class Handles, which overrides torch functions") != std::string::npos);
  }
  CHECK(b.calls().empty());
}

TEST_CASE_FIXTURE(Fixture, "TorchCalls: autocast says what a call is recorded with") {
  const Ref x = argument({2}), y = argument({2});
  source.exec("def autocast(func, args, kwargs): return plan");
  PyObject* const neg = meaning(operation("torch.neg"));
  const Answer<bool (*)()> on(hooks().any_autocast, [] { return true; });
  const Answer<Ref> plans(hooks().autocast, Ref::borrow(source["autocast"]));
  source.exec("plan = ('recorded already',)");
  CHECK(repr(handle(neg, {x.get()})) == "'recorded already'");
  CHECK(b.calls().empty());
  source.exec("plan = None");
  handle(neg, {x.get()});
  CHECK(last()->args[0].value() == value(x));
  const Ref others = pack({y.get()}), none = Ref::steal(PyDict_New()), plan = pack({others.get(), none.get()});
  PyObject* const globals = PyFunction_GetGlobals(source["autocast"]);
  PyDict_SetItemString(globals, "plan", plan.get());
  handle(neg, {x.get()});
  CHECK(last()->args[0].value() == value(y));
  source.exec("plan = None");
}

TEST_CASE_FIXTURE(Fixture, "TorchCalls: interpreted calls come here while no further mode is active") {
  CHECK_FALSE(recorder.takes_calls());
  recorder.take_calls();
  CHECK(recorder.takes_calls());
  {
    const Answer<int64_t (*)()> modes(hooks().function_modes, [] { return int64_t{1}; });
    CHECK_FALSE(recorder.takes_calls());
  }
  CHECK(recorder.takes_calls());
}

TEST_CASE_FIXTURE(Fixture, "TorchCalls: another language comes first while it is switched on") {
  Language& language = Language::named("language of a test");
  language.add(source["handler"], operation("torch.exp"));
  source.exec("def shape_of(t): return ('shape of', t)");
  language.add_attribute("extent", source["shape_of"], /*method=*/false);
  const Ref x = argument({2}), extent = str("extent"), other = str("other");
  CHECK(recorder.meaning(source["handler"]) == nullptr);
  CHECK_FALSE(recorder.speaks());
  recorder.set_language(&language);
  REQUIRE(recorder.meaning(source["handler"]) != nullptr);
  CHECK(recorder.meaning(source["handler"])->op == "torch.exp");
  const Ref found = Ref::steal(recorder.attribute(x.get(), extent.get()));
  CHECK(PyTuple_GET_ITEM(found.get(), 1) == x.get());
  CHECK(recorder.attribute(x.get(), other.get()) == nullptr);
  CHECK(recorder.attribute(Py_None, extent.get()) == nullptr);
  recorder.set_language(nullptr);
  CHECK(recorder.meaning(source["handler"]) == nullptr);
  CHECK(recorder.speaks());
}

}  // namespace thunder::frontend::test::torch_calls_test
