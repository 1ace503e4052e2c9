// WriteLog (frontend/write_log.h): the places that the program wrote to, and taking the writes back.
#include "frontend/write_log.h"

#include "fake_torch.h"

namespace thunder::frontend::test::write_log_test {

struct Fixture {
  WriteLog log;
  Names names{
      "import collections\n"
      "class A: x = 1\n"
      "class B(A): pass\n"
      "class C(B): x = 3\n"
      "a, d, l = A(), {'a': 1, 'b': 2}, [1, 2, 3]\n"};

  /// The program does d[key] = value; null deletes.
  void write(const char* dict, const char* key, PyObject* value) {
    PyObject* d = names[dict];
    log.add(Effect::Entry, d, str(key).get(), PyDict_GetItemString(d, key));
    if (!value) log.will_delete(d, str(key).get());
    value ? PyObject_SetItem(d, str(key).get(), value) : PyObject_DelItem(d, str(key).get());
  }
  void append(const Ref& value) { PyList_Append(names["l"], value.get()); }
};

TEST_CASE_FIXTURE(Fixture, "WriteLog: an empty log has nothing to take back") {
  CHECK(log.size() == 0);
  CHECK_FALSE(log.written(names["d"], str("a").get()));
  CHECK_FALSE(log.attribute_written(names["a"], str("x").get()));
  CHECK_FALSE(log.class_written(names.type("A"), str("x").get()));
  CHECK_FALSE(log.changed(names["d"]));
  CHECK_FALSE(log.wrote_to(names["a"]));
  CHECK_FALSE(log.has(names["l"], Effect::Contents));
  CHECK(log.as_it_was(names["d"]).get() == names["d"]);
  log.take_back();
  CHECK(log.release().empty());
  CHECK(log.read_written() == 0);
}

TEST_CASE_FIXTURE(Fixture, "WriteLog: an entry is taken back, and the effect has what the program left") {
  write("d", "a", integer(5).get());
  write("d", "a", integer(6).get());
  write("d", "new", integer(7).get());
  CHECK(log.size() == 2);  // the first write counts
  CHECK(log.written(names["d"], str("a").get()));
  CHECK_FALSE(log.written(names["d"], str("b").get()));
  CHECK(log.changed(names["d"]));
  CHECK(log.wrote_to(names["d"]));
  CHECK_FALSE(log.wrote_to(names["l"]));
  log.take_back();
  CHECK(repr(names["d"]) == "{'a': 1, 'b': 2}");
  const std::vector<Effect> effects = log.release();
  REQUIRE(effects.size() == 2);
  CHECK(repr(effects[0].before) == "1");
  CHECK(repr(effects[0].after) == "6");
  CHECK_FALSE(effects[1].before);
  CHECK(repr(effects[1].after) == "7");
  CHECK(log.size() == 0);
  CHECK_FALSE(log.changed(names["d"]));
}

TEST_CASE_FIXTURE(Fixture, "WriteLog: a key is known by what it equals") {
  const Ref dict = names.eval("{1: 'one'}"), same = names.eval("1.0");
  log.add(Effect::Entry, dict.get(), integer(1).get(), nullptr);
  CHECK(log.written(dict.get(), same.get()));
  CHECK_FALSE(log.written(dict.get(), integer(2).get()));
}

TEST_CASE_FIXTURE(Fixture, "WriteLog: how often a written place was asked for is counted") {
  write("d", "a", integer(5).get());
  const size_t before = log.read_written();
  CHECK(log.written(names["d"], str("a").get()));
  CHECK_FALSE(log.written(names["d"], str("b").get()));
  CHECK(log.read_written() == before + 1);
}

TEST_CASE_FIXTURE(Fixture, "WriteLog: a deleted entry comes back to its place") {
  write("d", "a", nullptr);
  CHECK(repr(names["d"]) == "{'b': 2}");
  CHECK(repr(log.as_it_was(names["d"])) == "{'a': 1, 'b': 2}");
  log.take_back();
  CHECK(repr(names["d"]) == "{'a': 1, 'b': 2}");
  const std::vector<Effect> effects = log.release();
  REQUIRE(effects.size() == 1);
  CHECK_FALSE(effects[0].after);
}

TEST_CASE_FIXTURE(Fixture, "WriteLog: an entry that was made again has moved") {
  write("d", "a", nullptr);
  write("d", "a", integer(1).get());
  CHECK(repr(names["d"]) == "{'b': 2, 'a': 1}");
  log.take_back();
  CHECK(repr(names["d"]) == "{'a': 1, 'b': 2}");
  const std::vector<Effect> effects = log.release();
  REQUIRE(effects.size() == 1);
  CHECK(effects[0].moved);
  CHECK(apply_effect(effects[0], names["d"], effects[0].after.get()));
  CHECK(repr(names["d"]) == "{'b': 2, 'a': 1}");
}

TEST_CASE_FIXTURE(Fixture, "WriteLog: new entries are made in the order that the dict has in the end") {
  write("d", "x", integer(1).get());
  write("d", "y", integer(2).get());
  write("d", "x", nullptr);
  write("d", "x", integer(3).get());
  log.sort_new_entries();
  REQUIRE(log.effects().size() == 2);
  CHECK(repr(log.effects()[0].key) == "'y'");
  CHECK(repr(log.effects()[1].key) == "'x'");
}

TEST_CASE_FIXTURE(Fixture, "WriteLog: elements, and what was appended") {
  PyObject* l = names["l"];
  log.add(Effect::Element, l, integer(0).get(), PyList_GET_ITEM(l, 0));
  PyList_SetItem(l, 0, str("x").release());
  log.add_container(Effect::Appended, l, integer(3));
  append(integer(4));
  append(integer(5));
  CHECK(log.written(l, integer(0).get()));
  CHECK_FALSE(log.written(l, integer(2).get()));
  CHECK(log.written(l, integer(3).get()));
  CHECK(log.has(l, Effect::Appended));
  CHECK_FALSE(log.has(l, Effect::Contents));
  CHECK(repr(log.as_it_was(l)) == "[1, 2, 3]");
  CHECK(repr(l) == "['x', 2, 3, 4, 5]");
  log.take_back();
  CHECK(repr(l) == "[1, 2, 3]");
  const std::vector<Effect> effects = log.release();
  REQUIRE(effects.size() == 2);
  CHECK(repr(effects[0].after) == "'x'");
  CHECK(repr(effects[1].after) == "[4, 5]");
}

TEST_CASE_FIXTURE(Fixture, "WriteLog: all contents of a list after an element") {
  PyObject* l = names["l"];
  log.add(Effect::Element, l, integer(0).get(), PyList_GET_ITEM(l, 0));
  PyList_SetItem(l, 0, str("x").release());
  log.add_container(Effect::Contents, l, copy_of(log.as_it_was(l).get()));
  PyList_SetSlice(l, 0, 3, nullptr);
  append(integer(9));
  CHECK(log.written(l, integer(7).get()));
  CHECK(repr(log.as_it_was(l)) == "[1, 2, 3]");
  log.take_back();
  CHECK(repr(l) == "[1, 2, 3]");
  CHECK(repr(log.effects()[1].after) == "[9]");
}

TEST_CASE_FIXTURE(Fixture, "WriteLog: contents of sets and dicts") {
  const Ref set = names.eval("{1}");
  log.add_container(Effect::Contents, set.get(), copy_of(set.get()));
  PySet_Add(set.get(), integer(2).get());
  log.add_container(Effect::Contents, names["d"], copy_of(names["d"]));
  PyDict_Clear(names["d"]);
  CHECK(repr(log.as_it_was(set.get())) == "{1}");
  CHECK(repr(log.as_it_was(names["d"])) == "{'a': 1, 'b': 2}");
  log.take_back();
  CHECK(repr(set) == "{1}");
  CHECK(repr(names["d"]) == "{'a': 1, 'b': 2}");
}

TEST_CASE_FIXTURE(Fixture, "WriteLog: an OrderedDict gets its order back") {
  names.exec("o = collections.OrderedDict(a=1, b=2, c=3)\no.move_to_end('a')\n");
  SUBCASE("of entries") {
    write("o", "c", nullptr);
    write("o", "c", integer(4).get());
    CHECK(repr(log.as_it_was(names["o"])) == "{'b': 2, 'c': 3, 'a': 1}");
  }
  SUBCASE("of all contents") {
    log.add_container(Effect::Contents, names["o"], copy_of(log.as_it_was(names["o"]).get()));
    names.exec("o.clear()\n");
  }
  log.take_back();
  CHECK(repr(names.eval("list(o.items())")) == "[('b', 2), ('c', 3), ('a', 1)]");
}

TEST_CASE_FIXTURE(Fixture, "WriteLog: a closure's variable") {
  const Ref cell = Ref::steal(PyCell_New(integer(1).get()));
  log.add(Effect::Cell, cell.get(), nullptr, PyCell_GET(cell.get()));
  PyCell_Set(cell.get(), nullptr);
  CHECK(log.written(cell.get(), nullptr));
  log.take_back();
  CHECK(repr(PyCell_GET(cell.get())) == "1");
  CHECK_FALSE(log.effects()[0].after);
}

TEST_CASE_FIXTURE(Fixture, "WriteLog: attributes are apart from entries") {
  log.add(Effect::Attribute, names["a"], str("x").get(), nullptr);
  names.exec("a.x = 5\n");
  CHECK(log.attribute_written(names["a"], str("x").get()));
  CHECK_FALSE(log.written(names["a"], str("x").get()));
  CHECK_FALSE(log.changed(names["a"]));
  CHECK(log.wrote_to(names["a"]));
  log.take_back();
  CHECK(repr(names.eval("vars(a)")) == "{}");
  CHECK(repr(log.effects()[0].after) == "5");
}

TEST_CASE_FIXTURE(Fixture, "WriteLog: a write to a class is one to what inherits the name") {
  log.add(Effect::Attribute, names["A"], str("x").get(), integer(1).get());
  CHECK(log.class_written(names.type("A"), str("x").get()));
  CHECK(log.class_written(names.type("B"), str("x").get()));
  CHECK(log.class_written(names.type("C"), str("x").get()));  // which hides it by its own
  CHECK_FALSE(log.class_written(names.type("B"), str("y").get()));
  names.exec("A.x = 2\n");
  log.take_back();
  CHECK(repr(names.eval("B.x")) == "1");
}

TEST_CASE_FIXTURE(Fixture, "WriteLog: a write that raised is forgotten, and the others stay") {
  write("d", "a", integer(5).get());
  const size_t at = log.size();
  log.add(Effect::Attribute, names["a"], str("x").get(), nullptr);
  write("d", "b", integer(6).get());
  log.forget(at);
  CHECK(log.size() == 2);
  CHECK_FALSE(log.attribute_written(names["a"], str("x").get()));
  CHECK(log.written(names["d"], str("a").get()));
  CHECK(log.written(names["d"], str("b").get()));
  log.take_back();
  CHECK(repr(names["d"]) == "{'a': 1, 'b': 2}");
}

}  // namespace thunder::frontend::test::write_log_test
