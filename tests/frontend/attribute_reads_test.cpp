// AttributeReads (frontend/attribute_reads.h): attributes of objects, and those that are in no dict and no class.
#include "frontend/attribute_reads.h"

#include "environment_parts.h"

namespace thunder::frontend::test::attribute_reads_test {

struct Fixture : UpToAttributes {
  Names source{
      "import types, sys\n"
      "class C:\n"
      "    y = 2\n"
      "    @property\n"
      "    def p(self): return 1\n"
      "class S: __slots__ = ('a', 'b')\n"
      "c, s, m = C(), S(), types.ModuleType('shop')\n"
      "c.x, s.a, m.v = 1, 5, 6\n"
      "def f(): pass\n"};

  /// The program reads object.name.
  void read(PyObject* object, const char* name) {
    PyObject* value = PyObject_GetAttr(object, str(name).get());
    attributes.read(object, str(name).get(), value);
    Py_XDECREF(value);
  }
  void read(const char* object, const char* name) { read(source[object], name); }
  bool holds_after(const char* statement) {
    EnvironmentGuard environment = guard();
    CHECK(environment.check());
    source.exec(statement);
    return environment.check();
  }
};

TEST_CASE_FIXTURE(Fixture, "AttributeReads: without reads there is no guard") {
  CHECK(guard().lines().empty());
  CHECK_FALSE(attributes.guards(source["s"], str("a").get()));
}

TEST_CASE_FIXTURE(Fixture,
                  "AttributeReads: an attribute of an instance is an entry of its dict, and not in its class") {
  read("c", "x");
  CHECK(guard().lines() == Lines{"a C['x'] == 1", "class C: 'x' absent"});
  SUBCASE("another attribute does not matter") { CHECK(holds_after("c.other = 3; C.other = 4")); }
  SUBCASE("the value") { CHECK_FALSE(holds_after("c.x = 3")); }
  SUBCASE("a property in its way") { CHECK_FALSE(holds_after("C.x = property(lambda self: 1)")); }
  SUBCASE("another class") { CHECK_FALSE(holds_after("c.__class__ = type('D', (C,), {})")); }
  SUBCASE("another dict") { CHECK_FALSE(holds_after("c.__dict__ = dict(x=1)")); }
}

TEST_CASE_FIXTURE(Fixture, "AttributeReads: an attribute of the class is absent in the instance") {
  read("c", "y");
  CHECK(guard().lines() == Lines{"a C['y'] absent", "class C: 'y' == 2"});
  CHECK_FALSE(holds_after("c.y = 2"));
}

TEST_CASE_FIXTURE(Fixture, "AttributeReads: an attribute that is missing, and the exception stays") {
  read("c", "z");
  CHECK(PyErr_ExceptionMatches(PyExc_AttributeError) == 1);
  PyErr_Clear();
  CHECK(guard().lines() == Lines{"a C['z'] absent", "class C: 'z' absent"});
}

TEST_CASE_FIXTURE(Fixture, "AttributeReads: what the program wrote is no read") {
  log.add(Effect::Entry, source.eval("c.__dict__").get(), str("x").get(), integer(1).get());
  read("c", "x");
  CHECK(guard().lines() == Lines{"class C: 'x' absent"});
}

TEST_CASE_FIXTURE(Fixture, "AttributeReads: of what the program made only the class is another's") {
  fresh.add(source["c"]);
  read("c", "x");
  read("c", "y");
  CHECK(guard().lines() == Lines{"class C: 'x' absent", "class C: 'y' == 2"});
  const Ref dict = source.eval("c.__dict__");
  CHECK_FALSE(fresh.has(dict.get()));
  read("c", "__dict__");
  CHECK(fresh.has(dict.get()));
}

TEST_CASE_FIXTURE(Fixture, "AttributeReads: a module's attributes are its globals") {
  read("m", "v");
  CHECK(guard().lines() == Lines{"globals of a module['v'] == 6"});
  CHECK_FALSE(holds_after("m.v = 7"));
}

TEST_CASE_FIXTURE(Fixture, "AttributeReads: of a class") {
  read("C", "y");
  CHECK(guard().lines() == Lines{"class C: 'y' == 2"});
}

TEST_CASE_FIXTURE(Fixture, "AttributeReads: super()") {
  source.exec("class D(C): pass\n");
  read(source.eval("super(D, D())").get(), "y");
  CHECK(guard().lines() == Lines{"class C: 'y' == 2"});
}

TEST_CASE_FIXTURE(Fixture, "AttributeReads: a slot") {
  read("s", "a");
  CHECK(attributes.guards(source["s"], str("a").get()));
  CHECK_FALSE(attributes.guards(source["s"], str("b").get()));
  CHECK(guard().lines() == Lines{"class S: 'a' the same member_descriptor", "a S.a == 5"});
  SUBCASE("another value") { CHECK_FALSE(holds_after("s.a = 6")); }
  SUBCASE("no value") { CHECK_FALSE(holds_after("del s.a")); }
}

TEST_CASE_FIXTURE(Fixture, "AttributeReads: a slot without a value") {
  read("s", "b");
  PyErr_Clear();
  CHECK(attributes.guards(source["s"], str("b").get()));
  CHECK_FALSE(holds_after("s.b = 1"));
}

TEST_CASE_FIXTURE(Fixture, "AttributeReads: a slot that the program wrote is no read") {
  log.add(Effect::Attribute, source["s"], str("a").get(), integer(5).get());
  read("s", "a");
  CHECK_FALSE(attributes.guards(source["s"], str("a").get()));
}

TEST_CASE_FIXTURE(Fixture, "AttributeReads: what C code lets others set") {
  read("f", "__name__");
  CHECK(guard().lines() == Lines{"a function.__name__ == 'f'"});
  CHECK_FALSE(holds_after("f.__name__ = 'g'"));
}

TEST_CASE_FIXTURE(Fixture, "AttributeReads: what a property reads is told by itself") {
  read("c", "p");
  CHECK(guard().lines() == Lines{"class C: 'p' the same property"});
}

TEST_CASE_FIXTURE(Fixture, "AttributeReads: metadata of a tensor is in its type") {
  const Ref t = tensor({2});
  read(t.get(), "shape");
  EnvironmentGuard environment = guard();
  CHECK_FALSE(attributes.guards(t.get(), str("shape").get()));
  REQUIRE(environment.tensors().size() == 1);  // so that its type is compared
  CHECK(environment.tensors()[0] == t.get());
}

TEST_CASE_FIXTURE(Fixture, "AttributeReads: a tensor whose own attributes are read may not be replaced") {
  const Ref t = tensor({2}), another = tensor({2}), d = Ref::steal(PyDict_New());
  PyObject_SetAttrString(t.get(), "tag", integer(1).get());
  PyObject_SetAttrString(another.get(), "tag", integer(1).get());
  PyDict_SetItemString(d.get(), "t", t.get());
  containers.read_entry(d.get(), str("t").get(), t.get());
  SUBCASE("an attribute of the user's") { read(t.get(), "tag"); }
  SUBCASE("whether it is a leaf") { read(t.get(), "is_leaf"); }
  SUBCASE("its gradient") {
    read(t.get(), "grad");
    CHECK(attributes.guards(t.get(), str("grad").get()));
  }
  EnvironmentGuard environment = guard();
  CHECK(environment.check());
  PyDict_SetItemString(d.get(), "t", another.get());
  CHECK_FALSE(environment.check());
}

TEST_CASE_FIXTURE(Fixture, "AttributeReads: an attribute of a proxy is the arguments' matter") {
  const Ref proxy = new_proxy(tensor_type({2}, {1}));
  read(proxy.get(), "shape");
  CHECK(guard().lines().empty());
  CHECK(guard().tensors().empty());
}

TEST_CASE_FIXTURE(Fixture, "AttributeReads: all values can be visited") {
  read("s", "a");
  attributes.add(source["s"], str("other").get(), integer(7).get());
  int64_t sum = 0;
  attributes.each_value([&](PyObject* value) { sum += PyLong_AsLongLong(value); });
  CHECK(sum == 12);
}

}  // namespace thunder::frontend::test::attribute_reads_test
