// ObjectNames (frontend/object_names.h): what messages call objects.
#include "frontend/object_names.h"

#include "fake_torch.h"

namespace thunder::frontend::test::object_names_test {

struct Fixture {
  FakeTorch torch;
  ObjectNames names;
  Ref object() { return Ref::steal(PyList_New(0)); }
};

TEST_CASE_FIXTURE(Fixture, "ObjectNames: an object without a name is one of its class") {
  CHECK(names.of(object().get()) == "a list");
  const Names source("d = {}\ng = {'__name__': 'shop'}\n");
  CHECK(names.of(source["d"]) == "a dict");
  CHECK(names.of(source["g"]) == "globals of shop");
}

TEST_CASE_FIXTURE(Fixture, "ObjectNames: a name is the path from a root") {
  const Ref root = object(), layers = object(), layer = object(), table = object();
  names.name_root(root.get(), "module");
  names.name_value(root.get(), str("layers").get(), layers.get(), true);
  names.name_value(layers.get(), integer(0).get(), layer.get(), false);
  names.name_value(layer.get(), str("table").get(), table.get(), false);
  CHECK(names.of(layers.get()) == "module.layers");
  CHECK(names.of(layer.get()) == "module.layers[0]");
  CHECK(names.of(table.get()) == "module.layers[0][table]");
}

TEST_CASE_FIXTURE(Fixture, "ObjectNames: the first path counts") {
  const Ref a = object(), b = object(), value = object();
  names.name_root(a.get(), "a");
  names.name_root(b.get(), "b");
  names.name_root(b.get(), "c");
  names.name_value(a.get(), str("x").get(), value.get(), true);
  names.name_value(b.get(), str("y").get(), value.get(), true);
  CHECK(names.of(b.get()) == "b");
  CHECK(names.of(value.get()) == "a.x");
}

TEST_CASE_FIXTURE(Fixture, "ObjectNames: entries of an object's dict are its attributes") {
  const Ref root = object(), dict = Ref::steal(PyDict_New()), value = object();
  names.name_root(root.get(), "options");
  names.name_instance_dict(root.get(), dict.get());
  names.name_value(dict.get(), str("scales").get(), value.get(), false);
  CHECK(names.of(dict.get()) == "options");
  CHECK(names.of(value.get()) == "options.scales");
}

TEST_CASE_FIXTURE(Fixture, "ObjectNames: a module's child is an attribute to its user") {
  const Ref root = object(), children = object(), layer = object();
  names.name_root(root.get(), "module");
  names.name_value(root.get(), str("_modules").get(), children.get(), true);
  names.name_value(children.get(), str("fc").get(), layer.get(), false);
  CHECK(names.of(layer.get()) == "module.fc");
}

TEST_CASE_FIXTURE(Fixture, "ObjectNames: a global has its own name") {
  const Names source("g = {'__name__': 'shop'}\n");
  const Ref value = object();
  names.name_value(source["g"], str("STATE").get(), value.get(), false);
  CHECK(names.of(value.get()) == "STATE");
  const Ref module = object(), dict = Ref::steal(PyDict_New());
  names.name_root(module.get(), "torch.nn");
  names.name_globals(module.get(), dict.get());
  CHECK(names.of(dict.get()) == "globals of torch.nn");
}

TEST_CASE_FIXTURE(Fixture, "ObjectNames: what a closure holds") {
  const Ref value = object();
  names.name_in_closure(value.get());
  CHECK(names.of(value.get()) == "a closure's list");
}

TEST_CASE_FIXTURE(Fixture, "ObjectNames: plain values and tensors have no names of their own") {
  const Ref root = object(), number = integer(100000), t = tensor({2});
  names.name_root(root.get(), "a");
  names.name_value(root.get(), str("n").get(), number.get(), true);
  names.name_value(root.get(), str("t").get(), t.get(), true);
  names.name_value(root.get(), str("none").get(), nullptr, true);
  names.name_in_closure(number.get());
  CHECK(names.of(number.get()) == "a int");
  CHECK(names.of(t.get()) == "a Tensor");
}

TEST_CASE_FIXTURE(Fixture, "ObjectNames: a long path is cut at its beginning") {
  const Ref root = object(), value = object();
  names.name_root(root.get(), std::string(300, 'x') + "end");
  names.name_value(root.get(), str("a").get(), value.get(), true);
  CHECK(names.of(value.get()) == "..." + std::string(97, 'x') + "end.a");
}

}  // namespace thunder::frontend::test::object_names_test
