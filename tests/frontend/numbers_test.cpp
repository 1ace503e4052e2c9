// Numbers (frontend/numbers.h): traced numbers.
#include "frontend/numbers.h"

#include "tracer_parts.h"

namespace thunder::frontend::test::numbers_test {

struct Fixture : UpToConstants {
  Numbers numbers{acquisition, inputs, tensors, questions, constants};

  /// A traced int.
  Ref size(int64_t hint) {
    return acquisition.located([&] { return make_number(Arg(inputs.add_size(hint))); });
  }
  /// A traced float.
  Ref real(double hint) {
    return acquisition.located([&] { return numbers.add_float(hint); });
  }
  /// "traced 5" or "5"
  std::string operation(const char* op, const Ref& a, const Ref& b) {
    const Ref result = numbers.operation(op, a.get(), b.get());
    return is_traced_number(result.get()) ? "traced " + repr(number_hint(result.get())) : repr(result);
  }
  Lines guards() {
    Lines out;
    for (const DimGuard& g : acquisition.shapes().guards()) {
      static constexpr const char* kText[] = {"==", "!=", "<", ">="};
      out.emplace_back(kText[g.relation]);
    }
    return out;
  }
};

TEST_CASE_FIXTURE(Fixture, "Numbers: arithmetic of sizes is of sizes") {
  const Ref n = size(7);
  CHECK(operation("add", n, integer(1)) == "traced 8");
  CHECK(operation("sub", integer(10), n) == "traced 3");
  CHECK(operation("mul", n, n) == "traced 49");
  CHECK(operation("floordiv", n, integer(2)) == "traced 3");
  CHECK(operation("mod", n, integer(4)) == "traced 3");
  CHECK(operation("pow", n, integer(2)) == "traced 49");
  CHECK(operation("sub", n, n) == "0");
  CHECK(guards().empty());
  CHECK(inputs.size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "Numbers: a comparison of sizes is answered, and is a guard") {
  const Ref n = size(7);
  CHECK(operation("lt", n, integer(10)) == "True");
  CHECK(operation("eq", n, integer(5)) == "False");
  CHECK(guards() == Lines{"<", "!="});
  CHECK(operation("gt", n, integer(1)) == "True");  // for every size
  CHECK(guards().size() == 2);
  for (const char* op : {"le", "ge", "eq"}) CHECK(operation(op, n, integer(7)) == "True");
  for (const char* op : {"lt", "gt", "ne"}) CHECK(operation(op, n, integer(7)) == "False");
}

TEST_CASE_FIXTURE(Fixture, "Numbers: a quotient of sizes is a float of the call") {
  const Ref n = size(7);
  CHECK(operation("truediv", n, integer(2)) == "traced 3.5");
  const size_t then = inputs.size();
  CHECK(operation("truediv", n, integer(2)) == "traced 3.5");
  CHECK(inputs.size() == then);  // the same input
}

TEST_CASE_FIXTURE(Fixture, "Numbers: floats") {
  const Ref x = real(0.5);
  CHECK(operation("mul", x, integer(3)) == "traced 1.5");
  CHECK(operation("lt", x, integer(1)) == "True");
  CHECK(acquisition.shapes().number_guards().size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "Numbers: what Python has to compute is None") {
  const Ref n = size(7);
  CHECK(operation("add", n, str("text")) == "None");
  CHECK(operation("matmul", n, n) == "None");
  CHECK(operation("truediv", n, integer(0)) == "None");  // Python raises
  CHECK(operation("mod", n, integer(0)) == "None");
  CHECK(operation("pow", n, integer(-1)) == "None");
  CHECK(operation("add", n, Ref::steal(PyComplex_FromDoubles(0, 1))) == "None");
}

TEST_CASE_FIXTURE(Fixture, "Numbers: a length that only the run knows is found where it is compared") {
  const Ref x = argument({4});
  const Dim length = acquisition.located([&] { return b("torch.nonzero", value(x)).value().shape()[0]; });
  const Ref n = acquisition.located([&] { return make_number(Arg(length)); });
  CHECK(repr(number_hint(n.get())) == "None");
  CHECK(operation("add", n, integer(1)) == "traced None");
  CHECK(torch.ran.empty());
  torch.integer = 3;
  CHECK(operation("eq", n, integer(3)) == "True");
  CHECK(torch.ran.size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "Numbers: the value of a tensor is asked for where it is computed with") {
  const Ref x = argument({}, DType::i64);
  const Ref n = acquisition.located([&] { return make_number(b("torch.item", value(x)).value()); });
  torch.integer = 3;
  CHECK(operation("add", n, integer(1)) == "4");
  CHECK(torch.ran.size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "Numbers: functions of one number") {
  const Ref x = real(0.25), n = size(16);
  const Ref root = numbers.function("sqrt", x.get(), 0);
  REQUIRE(is_traced_number(root.get()));
  CHECK(repr(number_hint(root.get())) == "0.5");
  CHECK(repr(number_hint(numbers.function("sqrt", n.get(), 0).get())) == "4.0");
  CHECK(numbers.function("no_such_function", x.get(), 0).get() == Py_None);
  CHECK(numbers.function("sqrt", integer(4).get(), 0).get() == Py_None);
  CHECK(numbers.function("sqrt", real(-1).get(), 0).get() == Py_None);  // Python raises
}

TEST_CASE_FIXTURE(Fixture, "Numbers: the number itself, on which the program then depends") {
  CHECK(repr(numbers.specialize(size(7).get())) == "7");
  CHECK(guards() == Lines{"=="});
  CHECK(repr(numbers.specialize(real(0.5).get())) == "0.5");
  CHECK(acquisition.shapes().number_guards().size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "Numbers: float() and int()") {
  const Ref n = size(7), x = real(0.5), t = argument({}), row = argument({2}), whole = argument({1}, DType::i64);
  auto* to_float = reinterpret_cast<PyObject*>(&PyFloat_Type);
  auto* to_int = reinterpret_cast<PyObject*>(&PyLong_Type);
  CHECK(numbers.convert(to_int, n.get()).get() == n.get());
  CHECK(numbers.convert(to_float, x.get()).get() == x.get());
  CHECK_FALSE(numbers.convert(to_float, n.get()));
  CHECK_FALSE(numbers.convert(to_int, x.get()));
  CHECK_FALSE(numbers.convert(to_int, str("5").get()));
  CHECK(is_traced_number(numbers.convert(to_float, t.get()).get()));
  CHECK(is_traced_number(numbers.convert(to_int, whole.get()).get()));
  CHECK_FALSE(numbers.convert(to_int, t.get()));  // rounds as eager does
  CHECK_FALSE(numbers.convert(to_float, row.get()));
  CHECK(torch.ran.empty());
}

TEST_CASE_FIXTURE(Fixture, "Numbers: len() of a tensor") {
  CHECK(repr(numbers.length(tensor_type({4, 2}, {2, 1}))) == "4");
  CHECK_FALSE(numbers.length({}));
  const Ref n = size(7);
  const TensorType symbolic = tensor_type({number_arg(n.get()).dim()}, {1});
  const Ref length = acquisition.located([&] { return numbers.length(symbolic); });
  CHECK(repr(number_hint(length.get())) == "7");
}

TEST_CASE_FIXTURE(Fixture, "Numbers: a size that is returned is a value") {
  const Dim s = inputs.add_size(7);
  CHECK(numbers.value_of_size(s) == inputs.value(0));
  const Value sum = acquisition.located([&] { return numbers.value_of_size(s + 1); });
  CHECK(inputs.size() == 2);
  CHECK(sum == inputs.value(1));
  const Ref x = argument({4});
  const Dim length = acquisition.located([&] { return b("torch.nonzero", value(x)).value().shape()[0]; });
  const Value found = acquisition.located([&] { return numbers.value_of_size(length); });
  CHECK(found == acquisition.arena()->symbol_value(length.symbols().at(0)));
  CHECK(torch.ran.empty());
}

}  // namespace thunder::frontend::test::numbers_test
