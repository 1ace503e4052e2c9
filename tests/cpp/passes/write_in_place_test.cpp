#include "passes/write_in_place.h"

#include <string>

#include "core/parse.h"
#include "passes/pass_ops.h"
#include "passes/passes.h"

namespace thunder {
namespace {

using test::code;

constexpr const char* kOps[] = {"prims.index_copy", "prims.index_copy_", "prims.add", "prims.same"};

// Runs what the tests' programs consist of; `in_place`: what writes to its operand, too.
std::shared_ptr<Executor> executor(bool in_place) {
  ops::register_all();
  std::vector<std::string> symbols;
  for (const char* name : kOps)
    if (in_place || !Registry::instance().get(name).has(kWrite)) symbols.emplace_back(name);
  return test::implementing_executor(in_place ? "runs" : "copies", symbols);
}

const std::string kWrite1 = "  t0 = prims.index_copy(k, 0, i, v)  # t0: \"cpu f32[4, 2]\"\n";

// The program after the pass, its output `copied` being copied into k.
std::string written(const std::string& body, size_t copied, bool in_place = true) {
  ops::register_all();
  const Trace t = parse(
      "import torch\nimport thunder.core.prims as prims\n\ndef f(k, i, v):\n  # k: \"cpu f32[4, 2]\"\n"
      "  # i: \"cpu i64[1]\"\n  # v: \"cpu f32[1, 2]\"\n" +
      body);
  const ExecutorList executors = {executor(in_place)};
  const Trace after = write_in_place(delete_last_used(claim(t, executors)), {{copied, 0}}, executors);
  CHECK_NOTHROW(verify(after));
  return code(after);
}

bool in_place(const std::string& text) { return text.find("runs_index_copy_(") != std::string::npos; }

TEST_CASE("write_in_place: a part of an input that is written anew") {
  CHECK(written(kWrite1 + "  t1 = prims.same(t0)  # t1: \"cpu f32[4, 2]\"\n"
                          "  t2 = prims.add(t1, t1)  # t2: \"cpu f32[4, 2]\"\n  return (t2, t1)\n",
                1) ==
        "t0 = runs_index_copy_(k, 0, i, v)\ndel k, i, v\nt1 = runs_same(t0)\ndel t0\nt2 = runs_add(t1, t1)\n"
        "return (t2, t1)\n");
}

TEST_CASE("write_in_place: one write after the other") {
  const std::string text = written(kWrite1 +
                                       "  t1 = prims.index_copy(t0, 0, i, v)  # t1: \"cpu f32[4, 2]\"\n"
                                       "  return (t1,)\n",
                                   0);
  CHECK(text.find("t0 = runs_index_copy_(k, 0, i, v)") != std::string::npos);
  CHECK(text.find("t1 = runs_index_copy_(t0, 0, i, v)") != std::string::npos);
}

TEST_CASE("write_in_place: nobody may read what was there before") {
  const std::string last = "  t1 = prims.index_copy(t0, 0, i, v)  # t1: \"cpu f32[4, 2]\"\n";
  CHECK(in_place(written(kWrite1 + "  return (t0,)\n", 0)));
  CHECK(!in_place(written(kWrite1 + "  t1 = prims.add(k, k)  # t1: \"cpu f32[4, 2]\"\n  return (t1, t0)\n", 1)));
  CHECK(!in_place(written(kWrite1 + "  return (k, t0)\n", 1)));
  CHECK(!in_place(written(kWrite1 + last + "  return (t0, t1)\n", 1)));
  CHECK(
      !in_place(written(kWrite1 + last + "  t2 = prims.add(t0, t1)  # t2: \"cpu f32[4, 2]\"\n  return (t2, t1)\n", 1)));
}

TEST_CASE("write_in_place: what the caller gets is no memory of the input") {
  CHECK(!in_place(written(kWrite1 + "  t1 = prims.same(t0)  # t1: \"cpu f32[4, 2]\"\n  return (t0, t1)\n", 1)));
  CHECK(!in_place(written(kWrite1 + "  return (t0, t0)\n", 1)));
}

TEST_CASE("write_in_place: another layout, another tensor, an executor that cannot") {
  CHECK(!in_place(written(kWrite1 + "  return (t0,)\n", 0, false)));
  CHECK(!in_place(written("  t0 = prims.add(v, v)  # t0: \"cpu f32[1, 2]\"\n  return (t0,)\n", 0)));
}

TEST_CASE("write_in_place: what a trace writes to") {
  ops::register_all();
  const Trace t = parse(
      "import torch\nimport thunder.core.prims as prims\n\ndef f(k, i, v):\n  # k: \"cpu f32[4, 2]\"\n"
      "  # i: \"cpu i64[1]\"\n  # v: \"cpu f32[1, 2]\"\n"
      "  t0 = prims.index_copy_(k, 0, i, v)  # t0: \"cpu f32[4, 2]\"\n  return t0\n");
  CHECK(written_in_place(t) == std::vector<size_t>{0});
  CHECK(written_in_place(parse("import torch\nimport thunder.core.prims as prims\n\ndef f(k):\n"
                               "  # k: \"cpu f32[4, 2]\"\n  return k\n"))
            .empty());
}

}  // namespace
}  // namespace thunder
