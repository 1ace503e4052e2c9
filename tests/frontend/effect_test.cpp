// Effect (frontend/effect.h): one write to an object, done or undone.
#include "frontend/effect.h"

#include "fake_torch.h"

namespace thunder::frontend::test::effect_test {

Effect effect(Effect::Kind kind, const Ref& key = {}) { return {.kind = kind, .key = key}; }

TEST_CASE("Effect: an entry is set and deleted") {
  const Names names("d = {'a': 1}\n");
  CHECK(apply_effect(effect(Effect::Entry, str("a")), names["d"], integer(2).get()));
  CHECK(apply_effect(effect(Effect::Entry, str("b")), names["d"], integer(3).get()));
  CHECK(repr(names["d"]) == "{'a': 2, 'b': 3}");
  CHECK(apply_effect(effect(Effect::Entry, str("a")), names["d"], nullptr));
  CHECK(apply_effect(effect(Effect::Entry, str("a")), names["d"], nullptr));  // what is to go is gone
  CHECK(repr(names["d"]) == "{'b': 3}");
}

TEST_CASE("Effect: an entry that moved comes last") {
  const Names names("d = {'a': 1, 'b': 2}\n");
  Effect e = effect(Effect::Entry, str("a"));
  e.moved = true;
  CHECK(apply_effect(e, names["d"], integer(5).get()));
  CHECK(repr(names["d"]) == "{'b': 2, 'a': 5}");
}

TEST_CASE("Effect: an OrderedDict keeps its order beside the dict") {
  const Names names("import collections\nd = collections.OrderedDict(a=1)\n");
  CHECK(apply_effect(effect(Effect::Entry, str("b")), names["d"], integer(2).get()));
  CHECK(repr(names.eval("list(d)")) == "['a', 'b']");
  CHECK(move_to_end(names["d"], str("a").get(), integer(1).get()));
  CHECK(repr(names.eval("list(d.items())")) == "[('b', 2), ('a', 1)]");
}

TEST_CASE("Effect: an element, and what is appended") {
  const Names names("l = [1, 2]\nmore = [3, 4]\n");
  CHECK(apply_effect(effect(Effect::Element, integer(1)), names["l"], str("x").get()));
  CHECK(apply_effect(effect(Effect::Appended), names["l"], names["more"]));
  CHECK(repr(names["l"]) == "[1, 'x', 3, 4]");
  CHECK_FALSE(apply_effect(effect(Effect::Element, integer(7)), names["l"], str("x").get()));
  CHECK(PyErr_ExceptionMatches(PyExc_IndexError) == 1);
  PyErr_Clear();
}

TEST_CASE("Effect: an attribute is set past a class's own __setattr__, and deleted") {
  const Names names("class C:\n    def __setattr__(self, name, value): raise TypeError\nc = C()\n");
  CHECK(apply_effect(effect(Effect::Attribute, str("a")), names["c"], integer(2).get()));
  CHECK(repr(names.eval("c.a")) == "2");
  CHECK(apply_effect(effect(Effect::Attribute, str("a")), names["c"], nullptr));
  CHECK(apply_effect(effect(Effect::Attribute, str("a")), names["c"], nullptr));
  CHECK(repr(names.eval("vars(c)")) == "{}");
  CHECK(apply_effect(effect(Effect::Attribute, str("x")), names["C"], integer(3).get()));
  CHECK(repr(names.eval("C.x")) == "3");
}

TEST_CASE("Effect: a closure's variable") {
  const Ref cell = Ref::steal(PyCell_New(Py_None));
  CHECK(apply_effect(effect(Effect::Cell), cell.get(), integer(2).get()));
  CHECK(repr(PyCell_GET(cell.get())) == "2");
  CHECK(apply_effect(effect(Effect::Cell), cell.get(), nullptr));
  CHECK(PyCell_GET(cell.get()) == nullptr);
}

TEST_CASE("Effect: all contents, by the methods of the base class") {
  const Names names(
      "import collections\n"
      "class Set(set):\n    def update(self, other): raise TypeError\n"
      "class Dict(dict):\n    def __setitem__(self, key, value): raise TypeError\n"
      "l, s, d = [1], Set([1]), Dict(a=1)\n"
      "o, q = collections.OrderedDict(a=1, b=2), collections.deque([1, 2], maxlen=2)\n"
      "given = {'l': [2, 3], 's': {4}, 'd': {'b': 2}, 'o': {'b': 1, 'a': 2}, 'q': [5, 6]}\n");
  for (const char* name : {"l", "s", "d", "o", "q"})
    CHECK(apply_effect(effect(Effect::Contents), names[name], PyDict_GetItemString(names["given"], name)));
  CHECK(repr(names["l"]) == "[2, 3]");
  CHECK(repr(names.eval("list(s)")) == "[4]");
  CHECK(repr(names.eval("dict(d)")) == "{'b': 2}");
  CHECK(repr(names.eval("list(o.items())")) == "[('b', 1), ('a', 2)]");
  CHECK(repr(names["q"]) == "deque([5, 6], maxlen=2)");
}

TEST_CASE("Effect: a copy has the same contents, and is another object") {
  const Names names("import collections\nl, s, d, q = [1], {2}, {'a': 3}, collections.deque([4])\n");
  CHECK(repr(copy_of(names["l"])) == "[1]");
  CHECK(repr(copy_of(names["s"])) == "{2}");
  CHECK(repr(copy_of(names["d"])) == "{'a': 3}");
  CHECK(repr(copy_of(names["q"])) == "[4]");
  CHECK(copy_of(names["l"]).get() != names["l"]);
}

TEST_CASE("Effect: a copy of an OrderedDict has its order") {
  const Names names("import collections\no = collections.OrderedDict(a=1, b=2)\no.move_to_end('a')\n");
  const Ref copy = copy_of(names["o"]);
  CHECK(repr(copy) == "{'b': 2, 'a': 1}");
  CHECK(set_contents(names["o"], copy.get()));
  CHECK(repr(names.eval("list(o)")) == "['b', 'a']");
}

}  // namespace thunder::frontend::test::effect_test
