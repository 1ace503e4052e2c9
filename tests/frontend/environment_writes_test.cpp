// EnvironmentWrites (frontend/environment_writes.h): what the program does to objects of the environment.
#include "frontend/environment_writes.h"

#include "environment_parts.h"

namespace thunder::frontend::test::environment_writes_test {

struct Fixture : UpToWrites {
  Names source{
      "import decimal, types\n"
      "class C:\n"
      "    p = property(lambda self: 1, lambda self, value: None)\n"
      "class S: __slots__ = ('a',)\n"
      "class Own:\n"
      "    def __setattr__(self, name, value): pass\n"
      "c, s, own, m = C(), S(), Own(), types.ModuleType('shop')\n"
      "s.a = 1\n"
      "d, l = {'a': 1, 'b': 2}, [1, 2, 3]\n"};

  bool write_attribute(const char* object, const char* name, const Ref& value) {
    return writes.write_attribute(source[object], str(name).get(), value.get());
  }
  const Effect& only_effect() {
    REQUIRE(log.size() == 1);
    return log.effects()[0];
  }
};

TEST_CASE_FIXTURE(Fixture, "EnvironmentWrites: without writes there are no effects") { CHECK(finish().empty()); }

TEST_CASE_FIXTURE(Fixture, "EnvironmentWrites: an entry") {
  CHECK(writes.write_entry(source["d"], str("a").get(), integer(5).get()));
  source.exec("d['a'] = 5");
  CHECK(only_effect().kind == Effect::Entry);
  const std::vector<Effect> effects = finish();
  REQUIRE(effects.size() == 1);
  CHECK(repr(effects[0].before) == "1");
  CHECK(repr(effects[0].after) == "5");
  CHECK(guard().lines().empty());  // whatever was there is written over
}

TEST_CASE_FIXTURE(Fixture, "EnvironmentWrites: what is deleted has to be there in other calls") {
  CHECK(writes.write_entry(source["d"], str("a").get(), nullptr));
  CHECK(guard().lines() == Lines{"a dict['a'] == 1"});
  CHECK(log.size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "EnvironmentWrites: an entry by what cannot be a key raises") {
  CHECK_FALSE(writes.write_entry(source["d"], source["l"], integer(5).get()));
  CHECK(PyErr_ExceptionMatches(PyExc_TypeError) == 1);
  PyErr_Clear();
  CHECK(log.size() == 0);
}

TEST_CASE_FIXTURE(Fixture, "EnvironmentWrites: what the program made is its own") {
  for (const char* name : {"d", "l", "c", "C"}) fresh.add(source[name]);
  CHECK(writes.write_entry(source["d"], str("a").get(), nullptr));
  CHECK(writes.write_item(source["l"], integer(0).get(), integer(5).get()));
  CHECK(write_attribute("c", "x", integer(5)));
  writes.will_change(source["d"]);
  writes.will_append(source["l"]);
  CHECK(log.size() == 0);
}

TEST_CASE_FIXTURE(Fixture, "EnvironmentWrites: an attribute of an instance is an entry of its dict") {
  source.exec("c.x = 1");
  CHECK(write_attribute("c", "x", integer(5)));
  CHECK(only_effect().kind == Effect::Entry);
  CHECK(only_effect().owner.get() == source.eval("c.__dict__").get());
  EnvironmentGuard environment = guard();
  CHECK(environment.lines() == Lines{"class C: 'x' absent"});  // no property takes it
}

TEST_CASE_FIXTURE(Fixture, "EnvironmentWrites: attributes of classes and modules") {
  SUBCASE("of a class") {
    CHECK(write_attribute("C", "x", integer(5)));
    CHECK(only_effect().kind == Effect::Attribute);
    CHECK_FALSE(only_effect().before);
  }
  SUBCASE("of a module") {
    CHECK(write_attribute("m", "x", integer(5)));
    CHECK(only_effect().kind == Effect::Entry);
    CHECK(only_effect().owner.get() == PyModule_GetDict(source["m"]));
  }
  SUBCASE("in a slot") {
    CHECK(write_attribute("s", "a", integer(5)));
    CHECK(only_effect().kind == Effect::Attribute);
    CHECK(repr(only_effect().before) == "1");
  }
}

TEST_CASE_FIXTURE(Fixture, "EnvironmentWrites: a property and a class's own __setattr__ tell what they write") {
  CHECK(write_attribute("c", "p", integer(5)));
  CHECK(write_attribute("own", "x", integer(5)));
  CHECK(log.size() == 0);
  CHECK(writes.write_attribute(source["own"], str("x").get(), integer(5).get(), /*raw=*/true));
  CHECK(log.size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "EnvironmentWrites: an attribute that C code keeps leaves the program to eager") {
  const Ref context = source.eval("decimal.Context()");
  CHECK_FALSE(writes.write_attribute(context.get(), str("prec").get(), integer(5).get()));
  CHECK(PyErr_ExceptionMatches(PyExc_RuntimeError) == 1);
  PyErr_Clear();
  REQUIRE(acquisition.eager);
  CHECK(acquisition.eager->why.starts_with(
      "the function sets an attribute of a decimal.Context, whose state cannot be seen"));
}

TEST_CASE_FIXTURE(Fixture, "EnvironmentWrites: a deleted slot has to be there in other calls") {
  CHECK(writes.write_attribute(source["s"], str("a").get(), nullptr));
  CHECK(attributes.guards(source["s"], str("a").get()));
}

TEST_CASE_FIXTURE(Fixture, "EnvironmentWrites: a tensor that gets an attribute may not be replaced") {
  const Ref t = tensor({2}), another = tensor({2}), d = Ref::steal(PyDict_New());
  PyDict_SetItemString(d.get(), "t", t.get());
  containers.read_entry(d.get(), str("t").get(), t.get());
  PyObject_SetAttrString(t.get(), "tag", Py_None);
  CHECK(writes.write_attribute(t.get(), str("tag").get(), integer(1).get()));
  EnvironmentGuard environment = guard();
  CHECK(environment.check());
  PyDict_SetItemString(d.get(), "t", another.get());
  CHECK_FALSE(environment.check());
}

TEST_CASE_FIXTURE(Fixture, "EnvironmentWrites: an element") {
  CHECK(writes.write_item(source["l"], integer(1).get(), integer(5).get()));
  CHECK(only_effect().kind == Effect::Element);
  CHECK(repr(only_effect().before) == "2");
  CHECK(guard().lines().empty());
}

TEST_CASE_FIXTURE(Fixture, "EnvironmentWrites: an element from the end depends on the length") {
  CHECK(writes.write_item(source["l"], integer(-1).get(), integer(5).get()));
  CHECK(repr(only_effect().key) == "2");
  CHECK(guard().lines() == Lines{"len(a list) == 3"});
}

TEST_CASE_FIXTURE(Fixture, "EnvironmentWrites: an index that is out of range writes nothing") {
  CHECK(writes.write_item(source["l"], integer(3).get(), integer(5).get()));
  CHECK(writes.write_item(source["l"], source.eval("1 << 100").get(), integer(5).get()));
  CHECK(PyErr_Occurred() == nullptr);
  CHECK(log.size() == 0);
}

TEST_CASE_FIXTURE(Fixture, "EnvironmentWrites: a slice changes all, which has to be the same in other calls") {
  const Ref slice = source.eval("slice(0, 1)");
  CHECK(writes.write_item(source["l"], slice.get(), source["l"]));
  CHECK(only_effect().kind == Effect::Contents);
  CHECK(containers.knows_elements(source["l"]));
  writes.will_change(source["l"]);
  CHECK(log.size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "EnvironmentWrites: items of tensors and of frozen sets are no writes") {
  CHECK(writes.write_item(tensor({2}).get(), integer(0).get(), integer(5).get()));
  CHECK(writes.write_item(source.eval("frozenset([1])").get(), integer(0).get(), integer(5).get()));
  CHECK(log.size() == 0);
}

TEST_CASE_FIXTURE(Fixture, "EnvironmentWrites: memory of C code is touched") {
  const Ref memory = source.eval("bytearray(3)");
  CHECK(writes.write_item(memory.get(), integer(0).get(), integer(5).get()));
  CHECK(states.touched(memory.get()));
}

TEST_CASE_FIXTURE(Fixture, "EnvironmentWrites: what is appended needs no guard") {
  writes.will_append(source["l"]);
  source.exec("l.append(4)");
  writes.will_append(source["l"]);
  source.exec("l.append(5)");
  CHECK(only_effect().kind == Effect::Appended);
  CHECK(guard().lines().empty());
  const std::vector<Effect> effects = finish();
  REQUIRE(effects.size() == 1);
  CHECK(repr(effects[0].after) == "[4, 5]");
  CHECK(fresh.has(effects[0].after.get()));
}

TEST_CASE_FIXTURE(Fixture, "EnvironmentWrites: an append to a list that the program read changes all") {
  containers.read_whole(source["l"]);
  writes.will_append(source["l"]);
  CHECK(only_effect().kind == Effect::Contents);
}

TEST_CASE_FIXTURE(Fixture, "EnvironmentWrites: nothing was appended in the end") {
  writes.will_append(source["l"]);
  CHECK(finish().empty());
}

TEST_CASE_FIXTURE(Fixture, "EnvironmentWrites: a closure's variable") {
  const Ref cell = Ref::steal(PyCell_New(integer(1).get())), own = Ref::steal(PyCell_New(nullptr));
  fresh.add(own.get());
  CHECK(writes.write_cell(cell.get(), integer(2).get()));
  CHECK(writes.write_cell(own.get(), integer(2).get()));
  CHECK(only_effect().kind == Effect::Cell);
}

TEST_CASE_FIXTURE(Fixture,
                  "EnvironmentWrites: the value that was there is written unless a guard says that it is there") {
  PyObject* one = PyDict_GetItemString(source["d"], "a");
  SUBCASE("no guard") {
    CHECK(writes.write_entry(source["d"], str("a").get(), one));
    CHECK(finish().size() == 1);
  }
  SUBCASE("a guard") {
    containers.read_entry(source["d"], str("a").get(), one);
    CHECK(writes.write_entry(source["d"], str("a").get(), one));
    CHECK(finish().empty());
  }
}

TEST_CASE_FIXTURE(Fixture, "EnvironmentWrites: an object that turned out to be the program's has no effects") {
  CHECK(writes.write_entry(source["d"], str("a").get(), integer(5).get()));
  source.exec("d['a'] = 5");
  fresh.add(source["d"]);
  CHECK(finish().empty());
}

}  // namespace thunder::frontend::test::environment_writes_test
