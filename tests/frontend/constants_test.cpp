// Constants (frontend/constants.h): tensors whose value is known while the program is acquired.
#include "frontend/constants.h"

#include "core/dtype_error.h"
#include "tracer_parts.h"

namespace thunder::frontend::test::constants_test {

struct Fixture : UpToConstants {
  Value full(const Dims& shape, DType dtype) { return b("torch.full", shape, Arg(3), kw("dtype", dtype)).value(); }
  template <class F>
  auto located(F&& f) {
    return acquisition.located(std::forward<F>(f));
  }
};

TEST_CASE_FIXTURE(Fixture, "Constants: what is made of constants alone is known") {
  const Value c = located([&] { return b("torch.neg", full({2}, DType::i64)).value(); });
  const Ref found = constants.find(c);
  REQUIRE(found);
  CHECK(is_tensor(found.get()));
  CHECK(torch.evaluated == 1);
  const Ref proxy = proxies.wrap(c, b.calls().back());
  CHECK(constants.find(proxy.get()));
}

TEST_CASE_FIXTURE(Fixture, "Constants: what depends on inputs or on chance is not") {
  const Ref x = argument({2});
  const Value y = located([&] { return b("torch.add", value(x), full({2}, DType::f32)).value(); });
  const Value drawn = located([&] { return b("torch.rand", Arg::tuple({Arg(Dim(4))})).value(); });
  CHECK_FALSE(constants.find(y));
  CHECK_FALSE(constants.find(drawn));
  CHECK_FALSE(constants.find(value(x)));
  CHECK_FALSE(constants.find(tensor({2}).get()));  // no proxy
  CHECK(torch.evaluated == 0);
}

TEST_CASE_FIXTURE(Fixture, "Constants: a known 0-d integer becomes its number, within sequences and slices too") {
  torch.integer = 3;
  const Value c = located([&] { return full({}, DType::i64); });
  Arg alone(c), list = Arg::list({Arg(1), Arg(c)}), slice = Arg::slice(Arg(c), Arg(), Arg());
  CHECK(constants.fold(alone, false));
  CHECK(alone.dim().constant() == 3);
  CHECK(constants.fold(list, false));
  CHECK(list.items()[1].dim().constant() == 3);
  CHECK(constants.fold(slice, false));
  CHECK(slice.slice().start.dim().constant() == 3);
  CHECK(slice.slice().stop.is_none());
}

TEST_CASE_FIXTURE(Fixture, "Constants: tensors with dimensions, and floats, stay") {
  const Value row = located([&] { return full({2}, DType::i64); });
  const Value real = located([&] { return full({}, DType::f32); });
  for (Value v : {row, real}) {
    Arg a(v);
    CHECK_FALSE(constants.fold(a, true));
    CHECK(a.is_tensor());
  }
}

TEST_CASE_FIXTURE(Fixture, "Constants: a tensor of the run's is read only where that is asked for") {
  torch.integer = 3;
  const Ref x = argument({}, DType::i64);
  Arg a(value(x));
  CHECK_FALSE(constants.fold(a, false));
  CHECK(torch.ran.empty());
  CHECK(located([&] { return constants.fold(a, true); }));
  CHECK(a.dim().constant() == 3);
  CHECK(torch.ran.size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "Constants: an operator that refuses a tensor gets its number") {
  const Value c = located([&] { return full({}, DType::i64); });
  const Ref x = argument({4, 4});
  torch.integer = 1;
  const ArgList given = {Arg(value(x)), Arg(c)};
  located([&] {
    try {
      b.call_named("torch.unsqueeze", given, {});
      FAIL("no refusal");
    } catch (const Error& refusal) {
      const Arg result = constants.call_with_numbers("torch.unsqueeze", given, {}, refusal);
      CHECK(result.value().shape().size() == 3);
    }
  });
}

TEST_CASE_FIXTURE(Fixture, "Constants: the refusal stands where no number helps") {
  const Ref x = argument({4});
  const ArgList given = {Arg(value(x)), Arg("text")};
  try {
    throw Error(ErrorKind::Type, "the refusal");
  } catch (const Error& refusal) {
    CHECK_THROWS_WITH(constants.call_with_numbers("torch.unsqueeze", given, {}, refusal), "the refusal");
  }
  try {
    throw DTypeError("the dtype");
  } catch (const Error& refusal) {
    CHECK_THROWS_AS(constants.call_with_numbers("torch.unsqueeze", given, {}, refusal), DTypeError);
  }
}

}  // namespace thunder::frontend::test::constants_test
