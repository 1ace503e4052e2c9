// DTensors (frontend/dtensors.h): this process's parts, and trials.
#include "frontend/dtensors.h"

#include "tracer_parts.h"

namespace thunder::frontend::test::dtensors_test {

/// DTensors are objects of a class of that name.
class FakeDTensors {
 public:
  FakeDTensors() {
    hooks().is_dtensor = [](PyObject* o) { return std::string(Py_TYPE(o)->tp_name) == "DTensor"; };
  }
  ~FakeDTensors() {
    hooks().is_dtensor = [](PyObject*) { return false; };
    hooks().sharded = [](PyObject*) { return std::optional<Sharded>(); };
    hooks().of_dtensors = {};
  }
};

struct Fixture : UpToTensors {
  FakeDTensors fake;
  DTensors dtensors{acquisition, proxies, tensors};
  Names source{
      "class DTensor: pass\n"
      "d = DTensor()\n"
      "def record(func, args, kwargs): return (func, args, kwargs)\n"};

  Ref wrap(const Expr& result) { return proxies.wrap(result.value(), b.calls().back()); }
  Ref neg(const Ref& of) { return wrap(b("torch.neg", value(of))); }
  Ref whole_of(const Ref& part, const char* sizes) { return dtensors.whole_of(part.get(), source.eval(sizes).get()); }
};

TEST_CASE_FIXTURE(Fixture, "DTensors: what holds one") {
  for (const char* yes : {"d", "[d]", "(1, [d])", "{'a': (d,)}"}) CHECK(holds_dtensor(source.eval(yes).get()));
  for (const char* no : {"1", "None", "[]", "(1, [2])", "{}", "DTensor"})
    CHECK_FALSE(holds_dtensor(source.eval(no).get()));
}

TEST_CASE_FIXTURE(Fixture, "DTensors: Python records calls with them, and no others") {
  const Ref with = source.eval("(1, d)"), without = source.eval("(1,)"), named = source.eval("{'other': d}");
  CHECK_FALSE(record_with_dtensors(Py_None, with.get(), nullptr));  // there are none yet
  hooks().of_dtensors = Ref::borrow(source["record"]);
  CHECK_FALSE(record_with_dtensors(Py_None, without.get(), nullptr));
  const Ref made = record_with_dtensors(Py_None, with.get(), nullptr);
  REQUIRE(made);
  CHECK(PyTuple_GET_ITEM(made.get(), 1) == with.get());
  CHECK(repr(PyTuple_GET_ITEM(made.get(), 2)) == "{}");
  const Ref by_name = record_with_dtensors(Py_None, without.get(), named.get());
  REQUIRE(by_name);
  CHECK(PyTuple_GET_ITEM(by_name.get(), 2) == named.get());
}

TEST_CASE_FIXTURE(Fixture,
                  "DTensors: the part is an input in the DTensor's memory, and requires a gradient as it does") {
  const Ref dtensor = tensor({4, 3}, DType::f32, /*requires_grad=*/true), local = tensor({2, 3});
  const Ref part = dtensors.add_part(dtensor.get(), local.get(), source["record"]);
  CHECK(str(value(part).shape()) == "[2, 3]");
  CHECK(value(part).requires_grad());
  REQUIRE(inputs.size() == 1);
  const InputSource& of = inputs[0].source;
  CHECK(of.kind == InputSource::Captured);
  CHECK(of.tensor.get() == local.get());
  CHECK(of.dtensor.get() == dtensor.get());
  CHECK(of.wrap.get() == source["record"]);
  CHECK_FALSE(of.partial);
}

TEST_CASE_FIXTURE(Fixture, "DTensors: of a parameter that a plan gathers the program sees the whole") {
  static PyObject* row = nullptr;
  const Ref dtensor = tensor({4, 3}), local = tensor({2, 3}), kept = tensor({1, 3});
  row = kept.get();
  hooks().sharded = [](PyObject*) {
    return std::optional<Sharded>({"w", Ref::borrow(row), tensor_type({2, 3}, {3, 1}, DType::f32, true), true});
  };
  const Ref part = dtensors.add_part(dtensor.get(), local.get(), source["record"]);
  CHECK(str(value(part).shape()) == "[2, 3]");
  CHECK(value(part).requires_grad());
  CHECK(inputs[0].source.tensor.get() == row);
  CHECK(inputs[0].source.partial);
  CHECK_FALSE(inputs[0].source.dtensor);
}

TEST_CASE_FIXTURE(Fixture, "DTensors: a trial is no part of the program, and tells whether its calls were the same") {
  const Ref x = argument({2, 3});
  neg(x);
  const size_t since = dtensors.calls_made();
  CHECK(since == 1);
  neg(x);
  bool same = false;
  SUBCASE("the same calls") { same = true; }
  SUBCASE("another call") {}
  dtensors.begin_trial();
  const Ref whole = whole_of(x, "(4, 3)");
  if (same) neg(whole);
  else wrap(b("torch.exp", value(whole)));
  CHECK(dtensors.end_trial(since) == same);
  CHECK(dtensors.calls_made() == 2);
  dtensors.begin_trial();
  CHECK_FALSE(dtensors.end_trial(since));  // a call less
}

TEST_CASE_FIXTURE(Fixture, "DTensors: a whole is laid out as its part is") {
  const Ref x = argument({2, 3});
  const TensorType rows = value(whole_of(x, "(4, 3)")).tensor(), columns = value(whole_of(x, "(2, 6)")).tensor();
  CHECK(str(rows.shape) == "[4, 3]");
  CHECK(str(rows.strides) == "[3, 1]");
  CHECK(str(columns.strides) == "[6, 1]");
  CHECK(str(value(whole_of(x, "(2, 3)")).tensor().strides) == "[3, 1]");
  const Ref turned = wrap(b("torch.transpose", value(x), Arg(0), Arg(1)));
  CHECK(str(value(whole_of(turned, "(6, 2)")).tensor().strides) == "[1, 6]");
}

TEST_CASE_FIXTURE(Fixture, "DTensors: numbers of tensors change when they are written to") {
  const Ref x = neg(argument({2})), y = neg(x);
  const std::vector<size_t> before = dtensors.values({x.get(), y.get()});
  CHECK(dtensors.values({x.get(), y.get()}) == before);
  acquisition.aliases().write(tensors.id_of(x.get()), b("torch.neg", value(y)).value(), true, "neg_");
  const std::vector<size_t> after = dtensors.values({x.get(), y.get()});
  CHECK(after[0] != before[0]);
  CHECK(after[1] == before[1]);
  CHECK(dtensors.values({}).empty());
}

TEST_CASE_FIXTURE(Fixture, "DTensors: along which dimension results are sharded") {
  const Ref x = argument({2, 3}), whole = argument({2, 3});
  const Ref y = neg(x), turned = wrap(b("torch.transpose", value(y), Arg(0), Arg(1))), other = neg(whole);
  using Dimensions = std::vector<std::optional<int64_t>>;
  CHECK(dtensors.parts(0, {{x.get(), 0}}, {y.get(), turned.get(), other.get()}) == Dimensions{0, 1, std::nullopt});
  wrap(b("torch.sum", value(y)));
  CHECK_THROWS_AS(dtensors.parts(0, {{x.get(), 0}}, {y.get()}), Error);
}

}  // namespace thunder::frontend::test::dtensors_test
