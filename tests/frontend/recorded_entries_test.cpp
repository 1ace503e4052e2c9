// RecordedEntries (frontend/recorded_entries.h): entries of one dict, with what was found there first.
#include "frontend/recorded_entries.h"

#include "fake_torch.h"

namespace thunder::frontend::test::recorded_entries_test {

TEST_CASE("RecordedEntries: what is found first counts") {
  RecordedEntries entries;
  CHECK(entries.entries().empty());
  CHECK_FALSE(entries.has(str("a").get()));
  CHECK(entries.add(str("a").get(), integer(1).get()));
  CHECK_FALSE(entries.add(str("a").get(), integer(2).get()));
  CHECK(entries.has(str("a").get()));
  const auto found = entries.entries();
  REQUIRE(found.size() == 1);
  CHECK(repr(found[0].key) == "'a'");
  CHECK(repr(found[0].value) == "1");
}

TEST_CASE("RecordedEntries: that there is no entry is recorded, too") {
  RecordedEntries entries;
  CHECK(entries.add(str("a").get(), nullptr));
  CHECK_FALSE(entries.add(str("a").get(), integer(2).get()));
  CHECK(entries.has(str("a").get()));
  const auto found = entries.entries();
  REQUIRE(found.size() == 1);
  CHECK(found[0].value.get() == nullptr);
}

TEST_CASE("RecordedEntries: what cannot be a key is no entry") {
  RecordedEntries entries;
  CHECK_FALSE(entries.add(Ref::steal(PyList_New(0)).get(), integer(1).get()));
  CHECK(PyErr_Occurred() == nullptr);
  CHECK(entries.entries().empty());
}

TEST_CASE("RecordedEntries: entries have the places where they were read, in their order") {
  const Names names("def f(): pass\ndef g(): pass\n");
  RecordedEntries entries;
  for (const char* name : {"c", "a", "b"}) entries.add(str(name).get(), Py_None);
  const interpreter::Place first{Ref::borrow(PyFunction_GET_CODE(names["f"])), 0};
  const interpreter::Place second{Ref::borrow(PyFunction_GET_CODE(names["g"])), 0};
  const auto found = entries.entries({first, second});
  REQUIRE(found.size() == 3);
  CHECK(found[0].place.str() == first.str());
  CHECK(found[1].place.str() == second.str());
  CHECK(found[2].place.str() == second.str());
  CHECK(entries.entries()[0].place.str().empty());
}

TEST_CASE("RecordedEntries: all of them may be replaced") {
  RecordedEntries entries;
  entries.add(str("a").get(), integer(1).get());
  const Names names("d = {'b': 2, 'c': 3}\n");
  entries.assign(Ref::borrow(names["d"]));
  CHECK_FALSE(entries.has(str("a").get()));
  std::string values;
  entries.each_value([&](PyObject* value) { values += repr(value); });
  CHECK(values == "23");
}

}  // namespace thunder::frontend::test::recorded_entries_test
