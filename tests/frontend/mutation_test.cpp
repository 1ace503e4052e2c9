// Mutation (frontend/mutation.h): what the program does to a tensor in place.
#include "frontend/mutation.h"

#include "tracer_parts.h"

namespace thunder::frontend::test::mutation_test {

struct Fixture : UpToConstants {
  StridedViews strided{acquisition, proxies, inputs, tensors, constants};
  Mutation mutation{acquisition, proxies, inputs, tensors, strided};
  AliasTracker& aliases = acquisition.aliases();

  Ref wrap(const Expr& result) { return proxies.wrap(result.value(), b.calls().back()); }
  /// A tensor of the program's own.
  Ref made(const Dims& shape, DType dtype = DType::f32) { return wrap(b("torch.zeros", shape, kw("dtype", dtype))); }
  bool written(const Ref& proxy) { return aliases.written(tensors.id_of(proxy.get())); }
};

TEST_CASE_FIXTURE(Fixture, "Mutation: a write gives the tensor and its views other values") {
  const Ref x = made({2, 3});
  const Ref row = wrap(b("torch.select", value(x), Arg(0), Arg(1)));
  const Value before = value(x), part = value(row);
  CHECK_FALSE(written(x));
  mutation.write(x.get(), b("torch.neg", value(x)), "neg_");
  CHECK(value(x) != before);
  CHECK(value(row) != part);
  CHECK(written(x));
}

TEST_CASE_FIXTURE(Fixture, "Mutation: what is written is cast, if it can be") {
  const Ref x = made({2});
  mutation.write(x.get(), b("torch.ones", Dims{2}, kw("dtype", DType::i64)), "add_");
  CHECK(value(x).dtype() == DType::f32);
  const Ref n = made({2}, DType::i64);
  CHECK_THROWS_AS(mutation.write(n.get(), b("torch.ones", Dims{2}), "add_"), Error);
  CHECK_THROWS_AS(mutation.write(x.get(), b("torch.ones", Dims{3}), "add_"), Error);
}

TEST_CASE_FIXTURE(Fixture, "Mutation: a leaf that requires a gradient is not written to while gradients are recorded") {
  const Ref w = argument({2}, DType::f32, /*requires_grad=*/true);
  CHECK_THROWS_AS(mutation.check_writable(w.get(), "add_"), Error);
  torch.grad_enabled = false;
  mutation.check_writable(w.get(), "add_");
  mutation.write(w.get(), b("torch.ones", Dims{2}), "copy_");
  CHECK(written(w));
}

TEST_CASE_FIXTURE(Fixture, "Mutation: a tensor that may not be written to leaves the program to eager") {
  const Ref x = made({2, 2}), other = made({2});
  const Ref row = wrap(b("torch.select", value(x), Arg(0), Arg(1)));
  mutation.forbid_writes(x.get());
  mutation.check_writable(other.get(), "add_");
  CHECK_FALSE(acquisition.eager);
  CHECK_THROWS_AS(mutation.check_writable(row.get(), "add_"), Error);
  REQUIRE(acquisition.eager);
  CHECK(acquisition.eager->warns);
  torch.grad_enabled = false;
  mutation.check_writable(row.get(), "add_");
}

TEST_CASE_FIXTURE(Fixture, "Mutation: inputs that share memory have to be views of one") {
  const Ref real = tensor({2}), second = in_memory_of(real.get());
  const Ref x = tensors.add_argument(real.get(), 0);
  tensors.add_argument(second.get(), 1);
  CHECK_THROWS_AS(mutation.write(x.get(), b("torch.ones", Dims{2}), "add_"), Error);
  CHECK(tensors.shared_memory_written() == hooks().storage_of(real.get()));
}

TEST_CASE_FIXTURE(Fixture, "Mutation: copy_() broadcasts and casts tensors and numbers") {
  const Ref x = made({2, 3});
  mutation.copy_into(x.get(), argument({3}, DType::i64).get(), "copy_");
  CHECK(str(value(x).shape()) == "[2, 3]");
  CHECK(value(x).dtype() == DType::f32);
  const Value before = value(x);
  mutation.copy_into(x.get(), integer(5).get(), "copy_");
  CHECK(value(x) != before);
  CHECK_THROWS_AS(mutation.copy_into(x.get(), argument({4}).get(), "copy_"), Error);
}

TEST_CASE_FIXTURE(Fixture, "Mutation: the in-place form of a view changes the object") {
  const Ref x = made({2, 3});
  const Expr turned = b("torch.transpose", value(x), Arg(0), Arg(1));
  mutation.write_result(x.get(), turned, b.calls().back(), "torch.transpose");
  CHECK(str(value(x).shape()) == "[3, 2]");
  CHECK_FALSE(written(x));
  const Ref input = argument({2, 3});
  const Expr of_input = b("torch.transpose", value(input), Arg(0), Arg(1));
  CHECK_THROWS_AS(mutation.write_result(input.get(), of_input, b.calls().back(), "torch.transpose"), Error);
}

TEST_CASE_FIXTURE(Fixture, "Mutation: out= is written to, and resized if it has memory of its own") {
  const Ref x = argument({2}), out = made({2}), small = made({1}), given = argument({3});
  mutation.write_out(out.get(), b("torch.neg", value(x)), "neg");
  CHECK(written(out));
  mutation.write_out(small.get(), b("torch.neg", value(x)), "neg");
  CHECK(str(value(small).shape()) == "[2]");
  CHECK_THROWS_AS(mutation.write_out(given.get(), b("torch.neg", value(x)), "neg"), Error);
  CHECK_THROWS_AS(mutation.write_out(Py_None, b("torch.neg", value(x)), "neg"), Error);
  const Arg two = Arg::tuple({Arg(value(x)), Arg(value(x))});
  CHECK_THROWS_AS(mutation.write_out(out.get(), two, "max"), Error);
}

TEST_CASE_FIXTURE(Fixture, "Mutation: out= takes no part in gradients") {
  const Ref w = argument({2}, DType::f32, /*requires_grad=*/true), out = made({2});
  CHECK_THROWS_AS(mutation.write_out(out.get(), b("torch.neg", value(w)), "neg"), Error);
  torch.grad_enabled = false;
  mutation.write_out(out.get(), b("torch.neg", value(w)), "neg");
  CHECK(written(out));
}

TEST_CASE_FIXTURE(Fixture, "Mutation: requires_grad_() makes a leaf of what the program made") {
  const Ref x = made({2});
  CHECK(mutation.made_leaf(x.get()) == false);
  mutation.require_grad(x.get());
  CHECK(value(x).requires_grad());
  CHECK(mutation.made_leaf(x.get()) == true);
}

TEST_CASE_FIXTURE(Fixture, "Mutation: a leaf that the program made of a detached tensor is not written to either") {
  const Ref x = made({2}), y = wrap(b("torch.detach", value(x))), z = wrap(b("torch.detach", value(x)));
  mutation.require_grad(y.get());
  CHECK_THROWS_WITH(mutation.check_writable(y.get(), "add_"),
                    "[add_] a leaf Variable that requires grad is being used in an in-place operation.");
  mutation.check_writable(z.get(), "add_");
}

TEST_CASE_FIXTURE(Fixture,
                  "Mutation: requires_grad_() of an argument starts tracing again, of another tensor is refused") {
  const Ref x = argument({2}), captured = tensor({2});
  CHECK_THROWS_AS(mutation.require_grad(x.get()), Error);
  CHECK(tensors.begins_to_require_grad() == size_t{0});
  CHECK_THROWS_AS(mutation.require_grad(captured.get()), Error);
  const Ref w = argument({2}, DType::f32, /*requires_grad=*/true);
  CHECK(mutation.made_leaf(w.get()) == std::nullopt);
}

TEST_CASE_FIXTURE(Fixture, "Mutation: detach_() of a result, of a view and of an argument") {
  const Ref w = argument({2}, DType::f32, /*requires_grad=*/true);
  const Ref y = wrap(b("torch.neg", value(w))), row = wrap(b("torch.select", value(y), Arg(0), Arg(1)));
  CHECK_THROWS_AS(mutation.detach_in_place(row.get()), Error);
  mutation.detach_in_place(y.get());
  CHECK_FALSE(value(y).requires_grad());
  CHECK_THROWS_AS(mutation.detach_in_place(w.get()), Error);
  const Ref plain = argument({2});
  const Value before = value(plain);
  mutation.detach_in_place(plain.get());
  CHECK(value(plain) == before);
}

TEST_CASE_FIXTURE(Fixture, "Mutation: .data takes the values and the memory of a tensor of the program's") {
  const Ref x = argument({2}), y = wrap(b("torch.neg", value(x))), other = made({3});
  mutation.set_data(x.get(), y.get());
  CHECK(aliases.moved(tensors.id_of(x.get())));
  CHECK_THROWS_AS(mutation.set_data(x.get(), other.get()), Error);
  CHECK_THROWS_AS(mutation.set_data(x.get(), argument({2}).get()), Error);  // memory of the caller's
}

TEST_CASE_FIXTURE(Fixture, "Mutation: an object becomes another tensor") {
  const Ref x = made({2}), y = made({3});
  mutation.become(x.get(), y.get(), "set_");
  CHECK(str(value(x).shape()) == "[3]");
  CHECK_THROWS_AS(mutation.become(argument({2}).get(), y.get(), "set_"), Error);
}

}  // namespace thunder::frontend::test::mutation_test
