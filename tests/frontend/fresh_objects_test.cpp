// FreshObjects (frontend/fresh_objects.h): which objects the program made.
#include "frontend/fresh_objects.h"

#include "fake_torch.h"

namespace thunder::frontend::test::fresh_objects_test {

struct Fixture {
  FakeTorch torch;
  NotKept not_kept;
  FreshObjects fresh{not_kept};
  Names names{"l = [1, 2]\nit = iter(l)\nt = (0, (iter(l),))\nnext_of = iter(l).__next__\n"};
};

TEST_CASE_FIXTURE(Fixture, "FreshObjects: an object is fresh once the program made it") {
  CHECK_FALSE(fresh.has(names["l"]));
  CHECK_FALSE(fresh.made_inside(names["l"]));
  fresh.add(names["l"]);
  CHECK(fresh.has(names["l"]));
  CHECK(fresh.made_inside(names["l"]));
}

TEST_CASE_FIXTURE(Fixture, "FreshObjects: an iterator of C code is the program's unless it was seen outside") {
  CHECK(fresh.made_inside(names["it"]));
  CHECK_FALSE(fresh.has(names["it"]));
  fresh.came_from_outside(names["it"]);
  CHECK_FALSE(fresh.made_inside(names["it"]));
}

TEST_CASE_FIXTURE(Fixture, "FreshObjects: iterators are found in tuples and behind methods") {
  PyObject* inner = PyTuple_GET_ITEM(PyTuple_GET_ITEM(names["t"], 1), 0);
  const Ref bound = names.eval("next_of.__self__");
  fresh.came_from_outside(names["t"]);
  fresh.came_from_outside(names["next_of"]);
  fresh.came_from_outside(nullptr);
  CHECK_FALSE(fresh.made_inside(inner));
  CHECK_FALSE(fresh.made_inside(bound.get()));
}

TEST_CASE_FIXTURE(Fixture, "FreshObjects: a program that advances an iterator from outside is not kept") {
  fresh.will_advance(names["it"]);
  CHECK_FALSE(not_kept.once());
  fresh.came_from_outside(names["it"]);
  fresh.will_advance(names["it"]);
  REQUIRE(not_kept.once());
  CHECK(not_kept.once()->starts_with("the program advances a list_iterator that was made outside of it"));
}

TEST_CASE_FIXTURE(Fixture, "FreshObjects: a fresh iterator does not come from outside") {
  fresh.add(names["it"]);
  fresh.came_from_outside(names["it"]);
  fresh.will_advance(names["it"]);
  CHECK_FALSE(not_kept.once());
}

TEST_CASE_FIXTURE(Fixture, "FreshObjects: what is the same in every call") {
  const Ref t = tensor({2}), with_list = names.eval("(1, (l,))"), with_tensor = Ref::steal(PyTuple_Pack(1, t.get()));
  CHECK(fresh.is_settled(names["l"]));
  CHECK(fresh.is_settled(with_list.get()));
  CHECK_FALSE(fresh.is_settled(t.get()));
  CHECK_FALSE(fresh.is_settled(with_tensor.get()));
  fresh.add(names["l"]);
  CHECK_FALSE(fresh.is_settled(names["l"]));
  CHECK_FALSE(fresh.is_settled(with_list.get()));
}

TEST_CASE_FIXTURE(Fixture, "FreshObjects: a result that nobody else holds was made by the call, and what is in it") {
  const Ref result = names.eval("([1], {'a': [2], 'b': l})");
  PyObject *list = PyTuple_GET_ITEM(result.get(), 0), *dict = PyTuple_GET_ITEM(result.get(), 1);
  fresh.add_result(result.get());
  CHECK_FALSE(fresh.has(result.get()));  // a tuple is nobody's
  CHECK(fresh.has(list));
  CHECK(fresh.has(dict));
  CHECK(fresh.has(PyDict_GetItemString(dict, "a")));
  CHECK_FALSE(fresh.has(names["l"]));
}

TEST_CASE_FIXTURE(Fixture, "FreshObjects: a result that somebody holds was there before") {
  const Ref result = names.eval("[[1]]"), held = result;
  fresh.add_result(result.get());
  CHECK_FALSE(fresh.has(result.get()));
  CHECK_FALSE(fresh.has(PyList_GET_ITEM(result.get(), 0)));
  fresh.add_result(nullptr);
}

TEST_CASE_FIXTURE(Fixture, "FreshObjects: instances and memory are made by a call, numbers and tensors are not") {
  names.exec("class C: pass\n");
  const Ref instance = names.eval("C()"), memory = names.eval("bytearray(3)"), number = names.eval("10.0 ** 3");
  const Ref t = tensor({2});
  for (const Ref* o : {&instance, &memory, &number, &t}) fresh.add_result(o->get());
  CHECK(fresh.has(instance.get()));
  CHECK(fresh.has(memory.get()));
  CHECK_FALSE(fresh.has(number.get()));
  CHECK_FALSE(fresh.has(t.get()));
}

}  // namespace thunder::frontend::test::fresh_objects_test
