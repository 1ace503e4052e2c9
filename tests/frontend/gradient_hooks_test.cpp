// GradientHooks (frontend/gradient_hooks.h): hooks of tensors that the program computes.
#include "frontend/gradient_hooks.h"

#include "python_function.h"
#include "tracer_parts.h"

namespace thunder::frontend::test::gradient_hooks_test {

struct Fixture : UpToTensors {
  CustomGradients custom{acquisition, proxies, tensors};
  GradientHooks hooks{acquisition, tensors, custom};
  Ref w = argument({2, 3}, DType::f32, /*requires_grad=*/true);

  Ref wrap(const Expr& result) { return proxies.wrap(result.value(), b.calls().back()); }
  Ref neg(const Ref& of) { return wrap(b("torch.neg", value(of))); }
  Ref row(const Ref& of) { return wrap(b("torch.select", value(of), Arg(0), Arg(1))); }
  /// A hook that gives another gradient.
  size_t put(const Ref& behind, const char* name, bool last = false) {
    const Ref backward = function(
        [&](const auto& given) -> std::vector<Ref> { return {wrap(b("torch.neg", tensors.value_of(given.at(0))))}; });
    return hooks.put(behind.get(), backward.get(), name, last);
  }
  Lines calls() {
    Lines out;
    for (const Call* c : b.calls()) out.push_back(c->op->full_name);
    return out;
  }
  static Value input(const Call* hook) { return hook->args[0].items().at(0).value(); }
  static Value output(const Call* hook) { return hook->output.items().at(0).value(); }
};

TEST_CASE_FIXTURE(Fixture,
                  "GradientHooks: a hook can be behind what the program computes of what requires a gradient") {
  const Ref x = neg(w), part = row(x);
  CHECK(hooks.why_none(x.get()) == "");
  CHECK(hooks.why_none(part.get()) == "");
  CHECK_FALSE(hooks.is_hooked(value(x)));
  CHECK(hooks.retained().empty());
  CHECK(calls().size() == 2);
}

TEST_CASE_FIXTURE(Fixture, "GradientHooks: behind these tensors there is none") {
  const Ref plain = neg(argument({2})), x = neg(w);
  CHECK(hooks.why_none(plain.get()) == "of a tensor that requires no gradient");
  CHECK(hooks.why_none(w.get()).starts_with("of a tensor from outside"));
  CHECK(hooks.why_none(row(w).get()).starts_with("of a view of what comes from outside"));
  CHECK(hooks.why_none(proxies.add_alias(tensors.id_of(x.get())).get()) == "of a view of a whole tensor");
  const Ref leaf = proxies.wrap(acquisition.new_leaf(value(plain)), b.calls().back());
  CHECK(hooks.why_none(leaf.get()) == "of a tensor that the function made a leaf");
  acquisition.open_scope();
  CHECK(hooks.why_none(x.get()) == "in a function that is recorded apart");
  acquisition.close_scope();
}

TEST_CASE_FIXTURE(Fixture, "GradientHooks: a view of what is written to has none") {
  const Ref x = neg(w), part = row(x);
  acquisition.aliases().write(tensors.id_of(x.get()), b("torch.neg", value(x)).value(), true, "neg_");
  CHECK(hooks.why_none(part.get()).starts_with("of a view of what comes from outside, or is written to"));
}

TEST_CASE_FIXTURE(Fixture, "GradientHooks: the hook's call gives the tensor that was there before") {
  const Ref x = neg(w), y = neg(x);
  const Value before = value(x);
  CHECK(put(x, "hook") == 0);
  REQUIRE(calls() == Lines{"torch.neg", "augmented.hook", "torch.neg"});
  CHECK(value(x) == before);
  CHECK(hooks.is_hooked(before));
  CHECK_FALSE(hooks.is_hooked(value(y)));
  const Call* hook = b.calls()[1];
  CHECK(output(hook) == before);
  CHECK(input(hook) != before);
  CHECK(b.calls()[0]->output.value() == input(hook));
  CHECK(b.calls()[2]->args[0].value() == before);
  CHECK(hooks.why_none(x.get()) == "");  // of another one
}

TEST_CASE_FIXTURE(Fixture, "GradientHooks: gradients come by in the order of the hooks, by the last one last") {
  const Ref x = neg(w);
  const Value before = value(x);
  SUBCASE("that of two hooks") {
    put(x, "first");
    put(x, "second");
    REQUIRE(calls() == Lines{"torch.neg", "augmented.second", "augmented.first"});
  }
  SUBCASE("behind those that are still to come") {
    put(x, "kept", /*last=*/true);
    put(x, "first");
    REQUIRE(calls() == Lines{"torch.neg", "augmented.kept", "augmented.first"});
  }
  CHECK(output(b.calls()[2]) == before);
  CHECK(input(b.calls()[2]) == output(b.calls()[1]));
  CHECK(input(b.calls()[1]) == b.calls()[0]->output.value());
}

TEST_CASE_FIXTURE(Fixture, "GradientHooks: a hook is taken away, once") {
  const Ref x = neg(w);
  const Value before = value(x);
  const size_t first = put(x, "first"), second = put(x, "second");
  CHECK(second == first + 1);
  hooks.remove(first);
  CHECK(calls() == Lines{"torch.neg", "augmented.second", "prims.same"});
  CHECK(b.calls()[2]->output.value() == before);
  hooks.remove(first);
  CHECK(calls().size() == 3);
  hooks.remove(second);
  CHECK(calls() == Lines{"torch.neg", "prims.same", "prims.same"});
}

TEST_CASE_FIXTURE(Fixture, "GradientHooks: a hook that raises puts no call") {
  const Ref x = neg(w);
  CHECK_THROWS_WITH(hooks.put(x.get(), raising().get(), "hook", false), "ValueError: the function raises");
  CHECK(calls() == Lines{"torch.neg"});
  CHECK(acquisition.records_program());
}

TEST_CASE_FIXTURE(Fixture, "GradientHooks: a tensor keeps its gradient under one place") {
  const Ref x = neg(w), y = neg(x);
  CHECK(hooks.retain(x.get()) == size_t{0});
  CHECK(hooks.retain(y.get()) == size_t{1});
  CHECK(hooks.retain(x.get()) == std::nullopt);
  REQUIRE(hooks.retained().size() == 2);
  CHECK(hooks.retained()[1].tensor.get() == y.get());
  CHECK(hooks.retained()[1].value == value(y));
}

TEST_CASE_FIXTURE(Fixture, "GradientHooks: behind a graph that is freed there is no hook") {
  const Ref x = neg(w), y = neg(x);
  const Call *first = b.calls()[0], *second = b.calls()[1];
  hooks.free_graph(*first);
  CHECK(hooks.is_freed(first));
  for (const Call* inner : first->body) CHECK(hooks.is_freed(inner));
  CHECK_FALSE(hooks.is_freed(second));
  CHECK(hooks.why_none(x.get()) == "behind a torch.autograd.grad that keeps no graph");
  CHECK(hooks.why_none(y.get()) == "");
}

TEST_CASE_FIXTURE(Fixture, "GradientHooks: the epilogue does not make a view that has a hook") {
  const Ref x = neg(w), part = row(x), other = row(x);
  const std::vector<const Call*> views = acquisition.aliases().path(tensors.id_of(part.get()));
  REQUIRE_FALSE(views.empty());
  hooks.check_views(views);
  put(part, "hook");
  CHECK_THROWS_AS(hooks.check_views(views), Error);
  hooks.check_views(acquisition.aliases().path(tensors.id_of(other.get())));
}

}  // namespace thunder::frontend::test::gradient_hooks_test
