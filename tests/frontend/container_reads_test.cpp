// ContainerReads (frontend/container_reads.h): what the program read of dicts, lists, sets, deques and cells.
#include "frontend/container_reads.h"

#include "environment_parts.h"

namespace thunder::frontend::test::container_reads_test {

struct Fixture : UpToContainers {
  Names source{
      "import collections\n"
      "d, l, s = {'a': 1, 'b': 2}, [1, 2, 3], {1, 2}\n"
      "q, o = collections.deque([1, 2]), collections.OrderedDict(a=1, b=2)\n"};

  void read_entry(const char* key) {
    containers.read_entry(source["d"], str(key).get(), PyDict_GetItemString(source["d"], key));
  }
  /// Whether what was read holds after a statement.
  bool holds_after(const char* statement) {
    EnvironmentGuard environment = guard();
    CHECK(environment.check());
    source.exec(statement);
    return environment.check();
  }
};

TEST_CASE_FIXTURE(Fixture, "ContainerReads: without reads there is no guard") {
  CHECK(guard().lines().empty());
  CHECK_FALSE(containers.knows_elements(source["l"]));
}

TEST_CASE_FIXTURE(Fixture, "ContainerReads: an entry") {
  read_entry("a");
  read_entry("a");
  CHECK(guard().lines() == Lines{"a dict['a'] == 1"});
  CHECK(holds_after("d['b'] = 7"));
  CHECK_FALSE(holds_after("d['a'] = 7"));
}

TEST_CASE_FIXTURE(Fixture, "ContainerReads: an entry that was not there") {
  read_entry("c");
  CHECK(guard().lines() == Lines{"a dict['c'] absent"});
  CHECK_FALSE(holds_after("d['c'] = 7"));
}

TEST_CASE_FIXTURE(Fixture, "ContainerReads: an entry of what is no dict is nothing") {
  containers.read_entry(source["l"], integer(0).get(), integer(1).get());
  CHECK(guard().lines().empty());
}

TEST_CASE_FIXTURE(Fixture, "ContainerReads: what the program made or wrote is no read") {
  log.add(Effect::Entry, source["d"], str("a").get(), integer(1).get());
  read_entry("a");
  CHECK(guard().lines().empty());
  fresh.add(source["d"]);
  fresh.add(source["l"]);
  read_entry("b");
  containers.read_length(source["d"]);
  containers.read_whole(source["l"]);
  containers.read_item(source["l"], integer(0).get());
  CHECK(guard().lines().empty());
}

TEST_CASE_FIXTURE(Fixture, "ContainerReads: a dict that the program read before it was known as its own has no guard") {
  read_entry("a");
  fresh.add(source["d"]);
  CHECK(guard().lines().empty());
}

TEST_CASE_FIXTURE(Fixture, "ContainerReads: a tensor may be replaced by another one") {
  const Ref t = tensor({2}), another = tensor({2});
  PyDict_SetItemString(source["d"], "t", t.get());
  read_entry("t");
  EnvironmentGuard environment = guard();
  CHECK(environment.lines() == Lines{"a dict['t'] a tensor"});
  PyDict_SetItemString(source["d"], "t", another.get());
  CHECK(environment.check());
  source.exec("d['t'] = 1");
  CHECK_FALSE(environment.check());
}

TEST_CASE_FIXTURE(Fixture, "ContainerReads: how many entries or elements there are") {
  containers.read_length(source["d"]);
  containers.read_length(source["l"]);
  CHECK(guard().lines() == Lines{"len(a dict) == 2", "len(a list) == 3"});
  CHECK(holds_after("l[0] = 7; d['a'] = 8"));
  SUBCASE("of a dict") { CHECK_FALSE(holds_after("d['c'] = 3")); }
  SUBCASE("of a list") { CHECK_FALSE(holds_after("l.append(4)")); }
}

TEST_CASE_FIXTURE(Fixture, "ContainerReads: the length of what the program changed is that of all that was there") {
  log.add_container(Effect::Contents, source["l"], copy_of(source["l"]));
  source.exec("l.append(4)");
  containers.read_length(source["l"]);
  CHECK(containers.knows_elements(source["l"]));
  log.take_back();
  CHECK(guard().lines() == Lines{"len(a list) == 3", "a list[0] == 1", "a list[1] == 2", "a list[2] == 3"});
}

TEST_CASE_FIXTURE(Fixture, "ContainerReads: truth reads the class of an object") {
  source.exec("class C: pass\nc = C()\n");
  containers.read_length(source["c"]);
  EnvironmentGuard environment;
  classes.watch_classes(environment);
  CHECK(environment.lines() == Lines{"class C: '__bool__' absent", "class C: '__len__' absent"});
}

TEST_CASE_FIXTURE(Fixture, "ContainerReads: an element") {
  containers.read_item(source["l"], integer(1).get());
  CHECK(guard().lines() == Lines{"a list[1] == 2"});
  CHECK(holds_after("l[0] = 7; l.append(4)"));
  CHECK_FALSE(holds_after("l[1] = 7"));
}

TEST_CASE_FIXTURE(Fixture, "ContainerReads: an element from the end depends on the length") {
  containers.read_item(source["l"], integer(-1).get());
  CHECK(guard().lines() == Lines{"len(a list) == 3", "a list[2] == 3"});
}

TEST_CASE_FIXTURE(Fixture, "ContainerReads: an index that is out of range depends on the length") {
  containers.read_item(source["l"], integer(3).get());
  const Ref large = source.eval("1 << 100");
  containers.read_item(source["l"], large.get());
  CHECK(guard().lines() == Lines{"len(a list) == 3"});
}

TEST_CASE_FIXTURE(Fixture, "ContainerReads: an item of a dict is an entry, a slice reads all") {
  containers.read_item(source["d"], str("a").get());
  CHECK(guard().lines() == Lines{"a dict['a'] == 1"});
  containers.read_item(source["l"], source.eval("slice(0, 1)").get());
  CHECK(containers.knows_elements(source["l"]));
}

TEST_CASE_FIXTURE(Fixture, "ContainerReads: whether something is in a container") {
  containers.read_membership(source["d"], str("c").get());
  CHECK(guard().lines() == Lines{"a dict['c'] absent"});
  containers.read_membership(source.eval("d.keys()").get(), str("a").get());
  CHECK(guard().lines() == Lines{"a dict['c'] absent", "a dict['a'] == 1"});
  SUBCASE("of a list all elements count") {
    containers.read_membership(source["l"], integer(1).get());
    CHECK(containers.knows_elements(source["l"]));
  }
  SUBCASE("of a dict's values all entries count") {
    containers.read_membership(source.eval("d.values()").get(), integer(1).get());
    CHECK_FALSE(holds_after("d['b'] = 3"));
  }
}

TEST_CASE_FIXTURE(Fixture, "ContainerReads: all elements") {
  for (const char* name : {"l", "s", "q"}) {
    CHECK_FALSE(containers.knows_elements(source[name]));
    containers.read_whole(source[name]);
    CHECK(containers.knows_elements(source[name]));
  }
  CHECK_FALSE(guard().lines().empty());
  SUBCASE("of a list") { CHECK_FALSE(holds_after("l[1] = 7")); }
  SUBCASE("of a set") { CHECK_FALSE(holds_after("s.remove(1); s.add(7)")); }
  SUBCASE("of a deque") { CHECK_FALSE(holds_after("q.rotate()")); }
  SUBCASE("the same elements again") { CHECK(holds_after("l[:] = [1, 2, 3]; s.clear(); s.update([2, 1])")); }
}

TEST_CASE_FIXTURE(Fixture, "ContainerReads: all entries, in their order") {
  containers.read_whole(source["d"]);
  CHECK(guard().lines() == Lines{"len(a dict) == 2", "a dict['a'] == 1", "a dict['b'] == 2"});
  CHECK_FALSE(holds_after("d['a'] = d.pop('a')"));
}

TEST_CASE_FIXTURE(Fixture, "ContainerReads: the order of an OrderedDict is its own") {
  SUBCASE("as it is") {}
  SUBCASE("after a move") { source.exec("o.move_to_end('a')"); }
  SUBCASE("after a write of the program's") {
    source.exec("o.move_to_end('a')");
    log.add(Effect::Entry, source["o"], str("a").get(), integer(1).get());
    source.exec("o['a'] = 5");
  }
  containers.read_whole(source["o"]);
  log.take_back();
  CHECK(holds_after("o['a'] = 1"));
  CHECK_FALSE(holds_after("o.move_to_end(next(iter(o)))"));
}

TEST_CASE_FIXTURE(Fixture, "ContainerReads: all entries of a dict in which the program deleted one") {
  log.add(Effect::Entry, source["d"], str("a").get(), integer(1).get());
  log.will_delete(source["d"], str("a").get());
  source.exec("del d['a']");
  containers.read_whole(source["d"]);
  log.take_back();
  CHECK(holds_after("d['a'] = 1"));
}

TEST_CASE_FIXTURE(Fixture, "ContainerReads: a closure's variable") {
  const Ref cell = Ref::steal(PyCell_New(integer(5).get()));
  containers.read_cell(cell.get(), PyCell_GET(cell.get()));
  EnvironmentGuard environment = guard();
  CHECK(environment.lines() == Lines{"closure of the function == 5"});
  PyCell_Set(cell.get(), integer(6).get());
  CHECK_FALSE(environment.check());
}

TEST_CASE_FIXTURE(Fixture, "ContainerReads: a variable that the program wrote or made is no read") {
  const Ref written = Ref::steal(PyCell_New(integer(5).get())), made = Ref::steal(PyCell_New(nullptr));
  log.add(Effect::Cell, written.get(), nullptr, PyCell_GET(written.get()));
  fresh.add(made.get());
  containers.read_cell(written.get(), PyCell_GET(written.get()));
  containers.read_cell(made.get(), nullptr);
  CHECK(guard().lines().empty());
}

TEST_CASE_FIXTURE(Fixture, "ContainerReads: which writes a guard says what was there before") {
  read_entry("a");
  containers.read_item(source["l"], integer(1).get());
  auto effect = [&](Effect::Kind kind, const char* owner, Ref key) {
    return Effect{.kind = kind, .owner = Ref::borrow(source[owner]), .key = std::move(key)};
  };
  CHECK(containers.guards(effect(Effect::Entry, "d", str("a"))));
  CHECK_FALSE(containers.guards(effect(Effect::Entry, "d", str("b"))));
  CHECK(containers.guards(effect(Effect::Element, "l", integer(1))));
  CHECK_FALSE(containers.guards(effect(Effect::Element, "l", integer(0))));
  CHECK_FALSE(containers.guards(effect(Effect::Element, "q", integer(0))));
}

TEST_CASE_FIXTURE(Fixture, "ContainerReads: values get names, and iterators among them came from outside") {
  source.exec("d['more'] = [iter([1])]");
  names.name_root(source["d"], "options");
  read_entry("more");
  const Ref more = source.eval("d['more']"), iterator = source.eval("d['more'][0]");
  CHECK(names.of(more.get()) == "options[more]");
  CHECK(fresh.made_inside(iterator.get()));
  containers.read_whole(more.get());
  CHECK_FALSE(fresh.made_inside(iterator.get()));
  containers.read_whole(iterator.get());
  CHECK(not_kept.once());
}

TEST_CASE_FIXTURE(Fixture, "ContainerReads: memory of C code is touched") {
  const Ref memory = source.eval("bytearray(3)");
  containers.read_item(memory.get(), integer(0).get());
  CHECK(states.touched(memory.get()));
  CHECK(guard().lines().empty());
}

TEST_CASE_FIXTURE(Fixture, "ContainerReads: all values can be visited") {
  read_entry("a");
  containers.read_item(source["l"], integer(2).get());
  containers.read_whole(source["q"]);
  int64_t sum = 0;
  containers.each_value([&](PyObject* value) { sum += PyLong_AsLongLong(value); });
  CHECK(sum == 1 + 3 + 1 + 2);
}

}  // namespace thunder::frontend::test::container_reads_test
