// DeepReads (frontend/deep_reads.h): all that C code may read of what it is given.
#include "frontend/deep_reads.h"

#include "environment_parts.h"

namespace thunder::frontend::test::deep_reads_test {

struct Fixture : UpToWrites {
  DeepReads deep{fresh, uses, states, containers, attributes, writes};
  Names source{
      "import functools\n"
      "inner = [1]\n"
      "l, d, t = [inner], {'a': inner}, (0, inner)\n"};

  bool knows(const char* name) { return containers.knows_elements(source[name]); }
};

TEST_CASE_FIXTURE(Fixture, "DeepReads: a plain value has nothing in it") {
  for (const char* value : {"1", "'text'", "None", "()"}) deep.read(source.eval(value).get());
  CHECK(guard().lines().empty());
}

TEST_CASE_FIXTURE(Fixture, "DeepReads: all in a list, and in what is in it") {
  deep.read(source["l"]);
  CHECK(knows("l"));
  CHECK(knows("inner"));
}

TEST_CASE_FIXTURE(Fixture, "DeepReads: a tuple, and the values of a dict or of a view of it") {
  SUBCASE("a tuple") { deep.read(source["t"]); }
  SUBCASE("a dict") { deep.read(source["d"]); }
  SUBCASE("a view") { deep.read(source.eval("d.values()").get()); }
  CHECK(knows("inner"));
}

TEST_CASE_FIXTURE(Fixture, "DeepReads: a cycle ends") {
  source.exec("l.append(l); d['d'] = d");
  deep.read(source["l"]);
  deep.read(source["d"]);
  CHECK(knows("inner"));
}

TEST_CASE_FIXTURE(Fixture, "DeepReads: each of the arguments") {
  PyObject* const given[] = {source["t"], source["l"]};
  deep.read_arguments(given, 1);
  CHECK(knows("inner"));
  CHECK_FALSE(knows("l"));
  deep.read_arguments(given, 2);
  CHECK(knows("l"));
}

TEST_CASE_FIXTURE(Fixture, "DeepReads: what the program made has no guard, what is in it has") {
  fresh.add(source["l"]);
  deep.read(source["l"]);
  CHECK_FALSE(knows("l"));
  CHECK(knows("inner"));
}

TEST_CASE_FIXTURE(Fixture, "DeepReads: memory is touched, an iterator advanced") {
  const Ref memory = source.eval("bytearray(3)"), iterator = source.eval("iter([1])");
  deep.read(memory.get());
  CHECK(states.touched(memory.get()));
  CHECK_FALSE(not_kept.once());
  fresh.came_from_outside(iterator.get());
  deep.read(iterator.get());
  CHECK(not_kept.once());
}

TEST_CASE_FIXTURE(Fixture, "DeepReads: a method that is about to be called reads or changes its list") {
  deep.read_callable(source.eval("l.index").get());
  CHECK(knows("l"));
  CHECK(log.size() == 0);
  deep.read_callable(source.eval("inner.append").get());
  CHECK(log.has(source["inner"], Effect::Contents));
}

TEST_CASE_FIXTURE(Fixture, "DeepReads: a partial function is what it calls and what it gives") {
  source.exec("p = functools.partial(print, inner)\n");
  deep.read_callable(source["p"]);
  for (const char* name : {"func", "args", "keywords"}) CHECK(attributes.guards(source["p"], str(name).get()));
  CHECK(knows("inner"));
}

TEST_CASE_FIXTURE(Fixture, "DeepReads: a partial function that the program made is its own") {
  source.exec("p = functools.partial(print, inner)\n");
  fresh.add(source["p"]);
  deep.read_callable(source["p"]);
  CHECK_FALSE(attributes.guards(source["p"], str("func").get()));
}

}  // namespace thunder::frontend::test::deep_reads_test
