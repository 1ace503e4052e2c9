// Outputs (frontend/outputs.h): the computation, and the epilogue, which makes the user's tensors of it.
#include "frontend/outputs.h"

#include "frontend/custom_gradient.h"
#include "tracer_parts.h"

namespace thunder::frontend::test::outputs_test {

struct Fixture : UpToConstants {
  Numbers numbers{acquisition, inputs, tensors, questions, constants};
  CustomGradients custom{acquisition, proxies, tensors};
  GradientHooks gradient_hooks{acquisition, tensors, custom};
  Outputs outputs{acquisition, inputs, layouts, tensors, questions, numbers, gradient_hooks};

  Ref wrap(const Expr& result) { return proxies.wrap(result.value(), b.calls().back()); }
  Acquired finish(const std::vector<Ref>& returned) {
    std::vector<PyObject*> objects;
    for (const Ref& r : returned) objects.push_back(r.get());
    return outputs.finish(objects);
  }
  static size_t results(const Trace& t) { return t.output.items().size(); }
  static Lines operators(const Trace& t) {
    Lines out;
    for (const Call* c : t.calls) out.push_back(c->op->full_name);
    return out;
  }
};

TEST_CASE_FIXTURE(Fixture, "Outputs: nothing") {
  const Acquired a = finish({});
  CHECK(a.trivial_epilogue);
  CHECK(results(a.computation) == 0);
  CHECK(a.sources.empty());
}

TEST_CASE_FIXTURE(Fixture, "Outputs: new tensors are the computation's, and inputs that are not used are dropped") {
  const Ref x = argument({2}), unused = argument({2});
  const Ref y = wrap(b("torch.neg", value(x)));
  const Acquired a = finish({y});
  CHECK(a.trivial_epilogue);
  CHECK(a.computation.output.items()[0].value() == value(y));
  REQUIRE(a.sources.size() == 1);
  CHECK(a.sources[0].argument == 0);
  CHECK(a.computation.inputs == std::vector<Value>{value(x)});
}

TEST_CASE_FIXTURE(Fixture, "Outputs: an input is passed on by the epilogue") {
  const Ref x = argument({2});
  const Acquired a = finish({x});
  CHECK_FALSE(a.trivial_epilogue);
  CHECK(results(a.computation) == 0);
  CHECK(results(a.epilogue) == 1);
  CHECK(a.epilogue.calls.empty());
}

TEST_CASE_FIXTURE(Fixture, "Outputs: a view of an input is made by the epilogue") {
  const Ref x = argument({2, 3}), row = wrap(b("torch.select", value(x), Arg(0), Arg(1)));
  const Acquired a = finish({row});
  CHECK(results(a.computation) == 0);
  CHECK_FALSE(a.epilogue.calls.empty());
}

TEST_CASE_FIXTURE(Fixture, "Outputs: tensors that share memory are given once") {
  const Ref x = argument({2, 3}), y = wrap(b("torch.neg", value(x)));
  const Ref row = wrap(b("torch.select", value(y), Arg(0), Arg(1)));
  const Acquired a = finish({y, row});
  CHECK(results(a.computation) == 1);
  CHECK(results(a.epilogue) == 2);
}

TEST_CASE_FIXTURE(Fixture, "Outputs: what was written to an input is written by the epilogue") {
  const Ref x = argument({2});
  acquisition.aliases().write(tensors.id_of(x.get()), b("torch.neg", value(x)).value(), true, "neg_");
  const Acquired a = finish({});
  CHECK_FALSE(a.trivial_epilogue);
  CHECK(results(a.computation) == 1);
  CHECK(operators(a.epilogue) == Lines{"prims.copy_"});
}

TEST_CASE_FIXTURE(Fixture, "Outputs: tensors of their own with the same values get memory of their own") {
  const Ref x = argument({2}), y = wrap(b("torch.neg", value(x)));
  const Ref copy = wrap(b("torch.zeros", Dims{2}));
  acquisition.aliases().write(tensors.id_of(copy.get()), value(y), true, "copy_");
  const Acquired a = finish({y, copy});
  REQUIRE(results(a.computation) == 2);
  CHECK(a.computation.output.items()[0].value() != a.computation.output.items()[1].value());
  CHECK(operators(a.computation).back() == "torch.clone");
}

TEST_CASE_FIXTURE(Fixture, "Outputs: numbers come after tensors among the inputs") {
  const Dim s = inputs.add_size(5);
  const Ref n = acquisition.located([&] { return make_number(Arg(s)); });
  const Ref x = argument({2}), y = wrap(b("torch.neg", value(x)));
  const Acquired a = finish({n, y});
  REQUIRE(a.sources.size() == 2);
  CHECK(a.sources[0].kind == InputSource::Argument);
  CHECK(a.sources[1].kind == InputSource::Number);
  CHECK(a.computation.output.items()[0].value() == inputs.value(0));
}

TEST_CASE_FIXTURE(Fixture, "Outputs: what the program read, and arguments that it met outside") {
  const Ref real = tensor({2}), x = tensors.add_argument(real.get(), 0), y = wrap(b("torch.neg", value(x)));
  questions.read(y.get(), "item");
  tensors.id_of(real.get());
  const Acquired a = finish({y});
  CHECK(a.reads.size() == 1);
  CHECK(a.read_inputs.size() == 1);
  REQUIRE(a.arguments_outside.size() == 1);
  CHECK(a.arguments_outside[0].get() == real.get());
}

TEST_CASE_FIXTURE(Fixture, "Outputs: an input that has to be a leaf says so") {
  const Ref x = argument({2}), y = wrap(b("torch.neg", value(x)));
  inputs.require_leaf(0);
  CHECK(finish({y}).sources.at(0).leaf);
}

TEST_CASE_FIXTURE(Fixture, "Outputs: a tensor that the program made a leaf is not returned") {
  const Ref x = argument({2});
  const Value leaf = acquisition.new_leaf(b("torch.neg", value(x)).value());
  const Ref y = proxies.wrap(leaf, b.calls().back());
  CHECK_THROWS_AS(finish({y}), Error);
}

}  // namespace thunder::frontend::test::outputs_test
