// Proxies (frontend/proxies.h): the Python objects that stand for the tensors of the program.
#include "frontend/proxies.h"

#include "tracer_parts.h"

namespace thunder::frontend::test::proxies_test {

struct Fixture : UpToProxies {
  TensorId input(const Dims& shape, bool requires_grad = false) {
    return acquisition.aliases().add_input(
        b.input(tensor_type(shape, contiguous_strides(shape), DType::f32, requires_grad)), true);
  }
  Value value(TensorId t) { return acquisition.aliases().value(t); }
  /// The object of a call's result.
  Ref call(const char* op, const Arg& of, Proxies::Unchanged unchanged = Proxies::Unchanged::Returned) {
    const Value v = b(op, of).value();
    return proxies.wrap(v, b.calls().empty() ? nullptr : b.calls().back(), unchanged);
  }
};

TEST_CASE_FIXTURE(Fixture, "Proxies: an object has the metadata of its tensor and is of thunder's class") {
  const Ref proxy = new_proxy(tensor_type({2, 3}, {3, 1}, DType::i64));
  CHECK(is_proxy(proxy.get()));
  const TensorType t = hooks().type_of(proxy.get());
  CHECK(t.dtype == DType::i64);
  CHECK(str(t.shape) == "[2, 3]");
  CHECK(str(t.strides) == "[3, 1]");
  CHECK_FALSE(proxies.knows(proxy.get()));
  CHECK_FALSE(proxies.find(proxy.get()));
}

TEST_CASE_FIXTURE(Fixture, "Proxies: an object of a symbolic size has some size") {
  const Dim s = acquisition.shapes().make_symbol(5);
  const Ref proxy = new_proxy(tensor_type({s}, {1}));
  CHECK(str(hooks().type_of(proxy.get()).shape) == "[2]");
}

TEST_CASE_FIXTURE(Fixture, "Proxies: objects and tensors know each other") {
  const TensorId t = input({2});
  const Ref proxy = proxies.add(t), other = tensor({2});
  CHECK(proxies.find(proxy.get()) == t);
  CHECK(proxies.object(t).get() == proxy.get());
  proxies.set_id(other.get(), t);
  CHECK(proxies.find(other.get()) == t);
  CHECK(proxies.object(t).get() == proxy.get());
  proxies.bind(other.get(), t);
  CHECK(proxies.object(t).get() == other.get());
}

TEST_CASE_FIXTURE(Fixture, "Proxies: an object becomes that of another tensor, whose metadata it takes") {
  const TensorId before = input({2}), t = input({3});
  const Ref proxy = proxies.add(before);
  proxies.rebind(proxy.get(), before, t);
  CHECK(proxies.find(proxy.get()) == t);
  CHECK(str(hooks().type_of(proxy.get()).shape) == "[3]");
  CHECK_THROWS(proxies.object(before));
}

TEST_CASE_FIXTURE(Fixture, "Proxies: a result gets an object, the same value the same one") {
  const TensorId t = input({2, 3});
  const Ref proxy = proxies.add(t);
  const Ref result = call("torch.relu", value(t));
  CHECK(result.get() != proxy.get());
  CHECK(is_proxy(result.get()));
  const TensorId id = proxies.find(result.get()).value();
  CHECK(proxies.wrap(value(id), b.calls().back()).get() == result.get());
}

TEST_CASE_FIXTURE(Fixture, "Proxies: a number gets a traced number") {
  const TensorId t = input({});
  const Ref number = call("torch.item", value(t));
  CHECK(is_traced_number(number.get()));
  CHECK(number_arg(number.get()).is_value());
}

TEST_CASE_FIXTURE(Fixture,
                  "Proxies: an argument that an operator need not change is returned, or seen as another object") {
  const TensorId t = input({2});
  const Ref proxy = proxies.add(t);
  const Ref returned = proxies.wrap(value(t), nullptr, Proxies::Unchanged::Returned, proxy.get());
  CHECK(returned.get() == proxy.get());
  const Ref viewed = proxies.wrap(value(t), nullptr, Proxies::Unchanged::Viewed, proxy.get());
  CHECK(viewed.get() != proxy.get());
  CHECK(acquisition.aliases().share_memory(proxies.find(viewed.get()).value(), t));
  CHECK(Proxies::unchanged_by("torch.relu") == Proxies::Unchanged::Viewed);
  CHECK(Proxies::unchanged_by("torch.contiguous") == Proxies::Unchanged::Returned);
  CHECK(Proxies::unchanged_by("prims.neg") == Proxies::Unchanged::Returned);
}

TEST_CASE_FIXTURE(Fixture, "Proxies: a view of what requires a gradient, without gradients, is recorded") {
  const TensorId t = input({2}, /*requires_grad=*/true);
  proxies.add(t);
  const size_t before = b.calls().size();
  proxies.add_alias(t);
  CHECK(b.calls().size() == before);
  torch.grad_enabled = false;
  b.set_grad_enabled(false);
  proxies.add_alias(t);
  CHECK(b.calls().size() > before);
}

TEST_CASE_FIXTURE(Fixture, "Proxies: the object of a new leaf is one") {
  const Value leaf = acquisition.new_leaf(b("torch.zeros", Dims{2}).value());
  const Ref proxy = proxies.wrap(leaf, b.calls().back());
  CHECK_THROWS_AS(acquisition.aliases().check_leaf(proxies.find(proxy.get()).value(), true, "add_"), Error);
}

}  // namespace thunder::frontend::test::proxies_test
