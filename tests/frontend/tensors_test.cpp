// Tensors (frontend/tensors.h): which tensor of the program an object is; tensors from outside become inputs.
#include "frontend/tensors.h"

#include "tracer_parts.h"

namespace thunder::frontend::test::tensors_test {

struct Fixture : UpToTensors {
  Tensors with_shared(const Ref& memory_of, std::unordered_set<size_t> begin = {}) {
    return Tensors(acquisition, proxies, inputs, {hooks().storage_of(memory_of.get())}, std::move(begin));
  }
  void write(const Ref& proxy) {
    const TensorId t = tensors.id_of(proxy.get());
    acquisition.aliases().write(t, b("torch.neg", value(proxy)).value(), false, "neg_");
  }
};

TEST_CASE_FIXTURE(Fixture, "Tensors: an argument becomes an input, and is known by its proxy and by itself") {
  const Ref real = tensor({2, 3}, DType::i64);
  const Ref proxy = tensors.add_argument(real.get(), 4);
  CHECK(is_proxy(proxy.get()));
  REQUIRE(inputs.size() == 1);
  CHECK(inputs[0].source.kind == InputSource::Argument);
  CHECK(inputs[0].source.argument == 4);
  CHECK(inputs[0].real.get() == real.get());
  CHECK(tensors.id_of(proxy.get()) == tensors.id_of(real.get()));
  CHECK(tensors.type_of(proxy.get()).dtype == DType::i64);
  CHECK(tensors.is_plain_input(tensors.id_of(proxy.get())));
  CHECK(tensors.input_itself(tensors.id_of(proxy.get())) == tensors.id_of(proxy.get()));
}

TEST_CASE_FIXTURE(Fixture, "Tensors: the same tensor twice is one argument") {
  const Ref real = tensor({2}), proxy = tensors.add_argument(real.get(), 0);
  CHECK(tensors.add_argument(real.get(), 1).get() == proxy.get());
  CHECK(inputs.size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "Tensors: an argument may have symbolic sizes") {
  const Dim s = inputs.add_size(5);
  const TensorType type = tensor_type({s}, {1});
  const Ref proxy = tensors.add_argument(tensor({5}).get(), 0, &type);
  CHECK(value(proxy).shape()[0].same(s));
}

TEST_CASE_FIXTURE(Fixture, "Tensors: a tensor that the program meets is captured") {
  const Ref real = tensor({2});
  const TensorId t = tensors.id_of(real.get());
  CHECK(inputs.source_of(t).kind == InputSource::Captured);
  CHECK(inputs.source_of(t).tensor.get() == real.get());
  tensors.add_captured(real.get());
  CHECK(tensors.id_of(real.get()) == t);
  CHECK(inputs.size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "Tensors: a tensor of another kind leaves the program to eager") {
  torch.other_kind = "of another class";
  const Ref real = tensor({2});
  SUBCASE("one that the program uses") {
    CHECK_THROWS_AS(tensors.id_of(real.get()), Error);
    REQUIRE(acquisition.eager);
    CHECK(acquisition.eager->why == "the function uses a tensor of another class");
    CHECK(acquisition.eager->tensor.get() == real.get());
  }
  SUBCASE("one that it can reach, if the acquisition fails") {
    tensors.add_captured(real.get());
    CHECK_FALSE(acquisition.eager);
    CHECK(acquisition.eager_if_it_fails);
  }
  CHECK(inputs.size() == 0);
}

TEST_CASE_FIXTURE(Fixture, "Tensors: a proxy of another acquisition is refused") {
  const Ref proxy = new_proxy(tensor_type({2}, {1}));
  CHECK_THROWS_AS(tensors.id_of(proxy.get()), Error);
  CHECK_FALSE(tensors.is_same(proxy.get(), tensor({2}).get()));
}

TEST_CASE_FIXTURE(Fixture, "Tensors: arguments that the program also met outside") {
  const Ref real = tensor({2}), other = tensor({2}), proxy = tensors.add_argument(real.get(), 0);
  CHECK(tensors.arguments_outside().empty());
  tensors.id_of(real.get());
  REQUIRE(tensors.arguments_outside().size() == 1);
  CHECK(tensors.arguments_outside()[0].get() == real.get());
  CHECK(tensors.is_same(proxy.get(), real.get()));
  CHECK_FALSE(tensors.is_same(proxy.get(), other.get()));  // the answer may be another one in another call
  CHECK(tensors.arguments_outside().size() == 3);
}

TEST_CASE_FIXTURE(Fixture, "Tensors: a value of the program is no input") {
  const Ref x = argument({2});
  const Ref y = tensors.add_value(b("torch.relu", value(x)).value());
  CHECK(tensors.add_value(value(y)).get() == y.get());
  CHECK(tensors.input_itself(tensors.id_of(y.get())) != tensors.id_of(x.get()));
  CHECK_FALSE(tensors.wrote_to_values());
  write(y);
  CHECK(tensors.wrote_to_values());
}

TEST_CASE_FIXTURE(Fixture, "Tensors: an object is an argument of a call") {
  const Ref x = argument({2}), tuple = Ref::steal(PyTuple_Pack(2, x.get(), Py_None));
  const Arg a = tensors.convert(tuple.get());
  REQUIRE(a.is_sequence());
  CHECK(a.items()[0].value() == value(x));
  CHECK(a.items()[1].is_none());
}

TEST_CASE_FIXTURE(Fixture, "Tensors: inputs that share memory cannot be written to") {
  const Ref real = tensor({2}), second = in_memory_of(real.get());
  const Ref x = tensors.add_argument(real.get(), 0), y = tensors.add_argument(second.get(), 1), z = argument({2});
  CHECK(tensors.shares_memory(tensors.id_of(x.get())));
  CHECK(tensors.shares_memory(tensors.id_of(y.get())));
  CHECK_FALSE(tensors.shares_memory(tensors.id_of(z.get())));
  tensors.check_unshared(tensors.id_of(z.get()), "add_");
  CHECK(tensors.shared_memory_written() == nullptr);
  CHECK_THROWS_AS(tensors.check_unshared(tensors.id_of(x.get()), "add_"), Error);
  CHECK(tensors.shared_memory_written() == hooks().storage_of(real.get()));
}

TEST_CASE_FIXTURE(Fixture, "Tensors: a tensor in the memory of an input that was written to comes too late") {
  const Ref real = tensor({2}), second = in_memory_of(real.get());
  write(tensors.add_argument(real.get(), 0));
  CHECK_THROWS_AS(tensors.id_of(second.get()), Error);
  CHECK(tensors.shared_memory_written() == hooks().storage_of(real.get()));
}

TEST_CASE_FIXTURE(Fixture, "Tensors: memory that is known to be shared is one input, of which tensors are views") {
  const Ref real = tensor({2}), second = in_memory_of(real.get());
  Tensors shared = with_shared(real);
  const Ref x = shared.add_argument(real.get(), 0), y = shared.add_argument(second.get(), 1);
  const TensorId a = shared.id_of(x.get()), c = shared.id_of(y.get());
  REQUIRE(inputs.size() == 1);
  CHECK(inputs[0].source.whole_storage);
  CHECK(shared.is_in_shared_memory(a));
  CHECK(shared.is_outside(a));
  CHECK_FALSE(shared.is_plain_input(a));
  CHECK(acquisition.aliases().share_memory(a, c));
  CHECK(shared.input_itself(a) == a);  // returned, it is an input of the epilogue
  CHECK(inputs.size() == 2);
  CHECK(shared.input_itself(a) == a);
  CHECK(inputs.size() == 2);
}

TEST_CASE_FIXTURE(Fixture, "Tensors: shared memory of a tensor that requires a gradient is refused") {
  const Ref real = tensor({2}, DType::f32, /*requires_grad=*/true);
  Tensors shared = with_shared(real);
  CHECK_THROWS_AS(shared.add_argument(real.get(), 0), Error);
}

TEST_CASE_FIXTURE(Fixture, "Tensors: an argument begins to require a gradient when tracing starts again") {
  const Ref x = argument({2});
  CHECK_FALSE(tensors.is_beginner(tensors.id_of(x.get())));
  CHECK_FALSE(tensors.begins_to_require_grad());
  CHECK_THROWS_AS(tensors.begin_to_require_grad(tensors.id_of(x.get())), Error);
  CHECK(tensors.begins_to_require_grad() == size_t{0});
  Tensors again(acquisition, proxies, inputs, {}, {5});
  const Ref y = again.add_argument(tensor({2}).get(), 5);
  CHECK(again.is_beginner(again.id_of(y.get())));
  CHECK_FALSE(again.value_of(y.get()).requires_grad());  // until the program says so
  CHECK(inputs.source_of(again.id_of(y.get())).becomes_leaf);
}

TEST_CASE_FIXTURE(Fixture, "Tensors: what a function computes for a sample is used nowhere else") {
  const Ref x = argument({2}), y = tensors.add_value(b("torch.relu", value(x)).value());
  tensors.note_sample(value(y));
  CHECK_THROWS_AS(tensors.id_of(y.get()), Error);
  CHECK(acquisition.eager);
}

TEST_CASE("Tensors: of a borrowed builder") {
  FakeTorch torch;
  Acquisition owner;
  bool metadata_only = false;
  SUBCASE("of a rule") {}
  SUBCASE("of a meta function") { metadata_only = true; }
  Acquisition acquisition(owner.builder(), metadata_only);
  Layouts layouts(acquisition);
  Proxies proxies(acquisition, layouts);
  Inputs inputs(acquisition);
  Tensors tensors(acquisition, proxies, inputs, {}, {});
  CHECK_THROWS_AS(tensors.id_of(tensor({2}).get()), Error);  // no tensor comes from outside
  const TensorType type = tensor_type({2}, {1});
  if (metadata_only) {
    CHECK(is_proxy(tensors.new_tensor(type).get()));
  } else {
    CHECK_THROWS_AS(tensors.new_tensor(type), Error);
  }
}

}  // namespace thunder::frontend::test::tensors_test
