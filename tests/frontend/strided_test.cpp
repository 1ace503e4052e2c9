// StridedViews (frontend/strided.h): as_strided().
#include "frontend/strided.h"

#include "tracer_parts.h"

namespace thunder::frontend::test::strided_test {

struct Fixture : UpToConstants {
  StridedViews strided{acquisition, proxies, inputs, tensors, constants};
  Names names{""};

  Ref wrap(const Expr& result) { return proxies.wrap(result.value(), b.calls().back()); }
  Ref made(const Dims& shape) { return wrap(b("torch.zeros", shape)); }
  Ref memory(const Ref& of, const char* sizes, const char* strides, const char* offset = "None") {
    return strided.memory_from(of.get(), names.eval(sizes).get(), names.eval(strides).get(), names.eval(offset).get());
  }
};

TEST_CASE_FIXTURE(Fixture, "StridedViews: a tensor without gaps is taken as it is") {
  const Ref x = argument({2, 3}), y = made({2, 3});
  CHECK(memory(x, "(3, 2)", "(1, 3)").get() == x.get());
  CHECK(memory(y, "(6,)", "(1,)").get() == y.get());
  strided.check_write(tensors.id_of(x.get()), "add_");
}

TEST_CASE_FIXTURE(Fixture, "StridedViews: of what the program made the memory is a row") {
  const Ref x = made({4, 3});
  const Ref row = wrap(b("torch.select", value(x), Arg(0), Arg(2)));
  CHECK(str(value(memory(row, "(2,)", "(1,)", "0")).shape()) == "[12]");
  CHECK(str(value(memory(row, "(4,)", "(1,)")).shape()) == "[6]");  // from where the view begins
  CHECK(acquisition.aliases().share_memory(tensors.id_of(memory(row, "(4,)", "(1,)").get()), tensors.id_of(x.get())));
}

TEST_CASE_FIXTURE(Fixture, "StridedViews: elements that are not in memory are refused") {
  const Ref x = made({4});
  CHECK_THROWS_AS(memory(x, "(5,)", "(1,)"), Error);
  CHECK_THROWS_AS(memory(x, "(4,)", "(1,)", "1"), Error);
  CHECK_THROWS_AS(memory(x, "(2,)", "(1,)", "-1"), Error);
}

TEST_CASE_FIXTURE(Fixture, "StridedViews: what lies around an input is the input's when something is written") {
  const Ref real = tensor({4}), x = tensors.add_argument(real.get(), 0);
  CHECK(memory(x, "(2,)", "(1,)", "1").get() == Py_None);
  CHECK(tensors.shared_memory_written() == nullptr);
  CHECK_THROWS_AS(strided.check_write(tensors.id_of(x.get()), "add_"), Error);
  CHECK(tensors.shared_memory_written() == hooks().storage_of(real.get()));
}

}  // namespace thunder::frontend::test::strided_test
