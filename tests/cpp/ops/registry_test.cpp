// Every record: it parses, is complete, and names only operators and parameters that exist.
#include <doctest.h>

#include <set>

#include "core/op.h"
#include "ops/families.h"

using namespace thunder;

TEST_CASE("ops: every record has a unique name, a doc and a meta or a body") {
  ops::register_all();
  ops::register_all();  // once is enough
  std::set<std::string> names;
  for (const Op* op : Registry::instance().all()) {
    if (op->level == "test") continue;  // those of other tests
    CAPTURE(op->full_name);
    static const std::set<std::string> kLevels = {"prims", "clang", "torch", "numpy"};
    if (!kLevels.count(op->level)) continue;  // operators of other tests
    CHECK(names.insert(op->full_name).second);
    CHECK_FALSE(op->doc.empty());
    CHECK((op->meta || op->body));
    if (op->is_prim()) CHECK((op->meta != nullptr));
  }
  CHECK(names.size() > 100);
}

TEST_CASE("ops: a family that is listed has records") {
  for (const ops::Family& f : ops::families()) {
    CAPTURE(f.name);
    CHECK_FALSE(f.records().empty());
  }
}
