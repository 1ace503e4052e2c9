// PlainNumbers (frontend/plain_numbers.h): traced numbers where C code looks at them.
#include "frontend/plain_numbers.h"

#include "frontend/kept_set.h"
#include "frontend/mutation.h"
#include "frontend/numbers.h"
#include "frontend/strided.h"
#include "tracer_parts.h"

namespace thunder::frontend::test::plain_numbers_test {

using interpreter::Operands;

struct Fixture : UpToConstants {
  StridedViews strided{acquisition, proxies, inputs, tensors, constants};
  Mutation mutation{acquisition, proxies, inputs, tensors, strided};
  TorchCalls calls{acquisition, proxies, tensors, constants, mutation, draws};
  KeptSet made;
  PlainNumbers numbers{calls, [this](PyObject* o) { return made.has(o); }};
  Names names{"import array\nlist_of, tuple_of, slot = [], None, None\n"};

  /// A traced int that is 5 in this call.
  Ref number() {
    return acquisition.located([&] { return make_number(Arg(inputs.add_size(5))); });
  }
  static PlainNumbers::Callee function(const Ref& callable) {
    PyObject* self = PyCFunction_Check(callable.get()) ? PyCFunction_GET_SELF(callable.get()) : nullptr;
    const char* name = self ? reinterpret_cast<PyCFunctionObject*>(callable.get())->m_ml->ml_name : "";
    return {callable.get(), self, name};
  }
  /// Whether a call of the expression with a traced number reads its digits.
  bool reads_digits(const char* callable) {
    const Ref n = number(), c = names.eval(callable);
    PyObject* given = n.get();
    return numbers.reads_digits(function(c), &given, 1);
  }
};

TEST_CASE_FIXTURE(Fixture, "PlainNumbers: without traced numbers nothing changes") {
  const Ref five = integer(5);
  PyObject* place = five.get();
  numbers.make_plain(&place);
  CHECK(place == five.get());
  CHECK_FALSE(numbers.attribute(five.get(), str("real").get()));
  CHECK_FALSE(numbers.answer(reinterpret_cast<PyObject*>(&PyType_Type), &place, 1));
  CHECK_FALSE(numbers.function("sqrt", &place, 1));
  CHECK_FALSE(numbers.enter());
}

TEST_CASE_FIXTURE(Fixture, "PlainNumbers: a number becomes Python's own") {
  Ref n = number();
  CHECK(is_traced_number(n.get()));
  numbers.make_plain(n);
  CHECK(repr(n) == "5");
}

TEST_CASE_FIXTURE(Fixture, "PlainNumbers: within tuples, and within what may hold numbers") {
  const Ref n = number(), list = Ref::steal(PyList_New(0)), other = Ref::steal(PyList_New(0));
  PyList_Append(list.get(), n.get());
  PyList_Append(other.get(), n.get());
  made.add(list.get());
  Ref tuple = Ref::steal(PyTuple_Pack(3, n.get(), list.get(), other.get()));
  PyObject* place = tuple.get();
  numbers.make_plain(&place);
  CHECK(repr(PyTuple_GET_ITEM(tuple.get(), 0)) == "5");
  CHECK(repr(list) == "[5]");
  CHECK(is_traced_number(PyList_GET_ITEM(other.get(), 0)));
}

TEST_CASE_FIXTURE(Fixture, "PlainNumbers: a cycle ends") {
  const Ref n = number(), list = Ref::steal(PyList_New(0));
  PyList_Append(list.get(), list.get());
  PyList_Append(list.get(), n.get());
  made.add(list.get());
  Ref o = list;
  numbers.make_plain(o);
  CHECK(repr(PyList_GET_ITEM(list.get(), 1)) == "5");
  PyList_SetSlice(list.get(), 0, 2, nullptr);
}

TEST_CASE_FIXTURE(Fixture, "PlainNumbers: operands of instructions") {
  // Owned references, as on the interpreter's stack.
  auto operands = [&](Operands kind, Ref left, Ref right) {
    PyObject* stack[] = {left.release(), right.release()};
    numbers.operands(kind, stack);
    const Ref first = Ref::steal(stack[0]), second = Ref::steal(stack[1]);
    return std::pair(is_traced_number(first.get()), is_traced_number(second.get()));
  };
  const std::pair kept(true, false), none(false, false);
  CHECK(operands(Operands::Operator, number(), integer(1)) == kept);
  CHECK(operands(Operands::Operator, number(), names.eval("array.array('i', [1])")) == none);
  CHECK(operands(Operands::Subscript, names.eval("[1, 2]"), number()) == none);
  CHECK(operands(Operands::Membership, number(), names.eval("{1: 2}")) == none);
  CHECK(operands(Operands::Membership, number(), names.eval("[1]")) == kept);
  CHECK(operands(Operands::Key, number(), integer(1)) == none);
}

TEST_CASE_FIXTURE(Fixture, "PlainNumbers: questions about the type are answered as of Python's own number") {
  const Ref n = number();
  PyObject* given[] = {n.get(), reinterpret_cast<PyObject*>(&PyLong_Type)};
  auto type = numbers.answer(reinterpret_cast<PyObject*>(&PyType_Type), given, 1);
  REQUIRE(type);
  CHECK(repr(Ref::steal(*type)) == "<class 'int'>");
  auto is_int = numbers.answer(names.eval("isinstance").get(), given, 2);
  REQUIRE(is_int);
  CHECK(repr(Ref::steal(*is_int)) == "True");
  CHECK_FALSE(numbers.answer(names.eval("print").get(), given, 2));
  auto real = numbers.attribute(n.get(), str("real").get());
  REQUIRE(real);
  CHECK(repr(Ref::steal(*real)) == "5");
  auto missing = numbers.attribute(n.get(), str("missing").get());
  REQUIRE(missing);
  CHECK(*missing == nullptr);
  CHECK(PyErr_ExceptionMatches(PyExc_AttributeError) == 1);
  PyErr_Clear();
}

TEST_CASE_FIXTURE(Fixture, "PlainNumbers: which C code reads digits") {
  CHECK(reads_digits("chr"));
  CHECK(reads_digits("hex"));
  CHECK(reads_digits("array.array('i').append"));
  CHECK(reads_digits("set().add"));
  CHECK_FALSE(reads_digits("[].append"));
  CHECK(reads_digits("{}.get"));  // it looks the number up
  CHECK_FALSE(reads_digits("{}.update"));
  CHECK_FALSE(reads_digits("max"));
  CHECK_FALSE(reads_digits("tuple"));
  CHECK_FALSE(reads_digits("lambda n: n"));
}

TEST_CASE_FIXTURE(Fixture, "PlainNumbers: such a call gets Python's own numbers, and what its callbacks give") {
  const Ref n = number();
  PyObject* given = n.get();
  const Ref chr = names.eval("chr");
  {
    const PlainNumbers::Call call(numbers, function(chr), &given, 1);
    CHECK(repr(call.arguments()[0]) == "5");
    CHECK(numbers.enter());
    CHECK_FALSE(numbers.enter());  // a frame within the callback's
    const Ref left = Ref::steal(numbers.leave(Ref(n).release()));
    CHECK(repr(left) == "5");
    CHECK(numbers.leave(nullptr) == nullptr);
  }
  CHECK_FALSE(numbers.enter());
}

TEST_CASE_FIXTURE(Fixture, "PlainNumbers: keys of a dict that a call filled") {
  const Ref n = number(), dict = Ref::steal(PyDict_New());
  PyDict_SetItem(dict.get(), n.get(), str("five").get());
  PlainNumbers::Callee update{nullptr, dict.get(), "update"};
  const Ref none = Ref::borrow(Py_None);
  update.callable = none.get();
  numbers.make_keys_plain(update, nullptr, 0, Py_None);
  CHECK(repr(dict) == "{5: 'five'}");
}

}  // namespace thunder::frontend::test::plain_numbers_test
