// Lowering of small programs: the order in which a kernel walks over memory, and what its rows and columns are.
#include <doctest.h>

#include "core/error.h"
#include "fuser/lower.h"
#include "fuser/parsed_program.h"

namespace thunder::test {
namespace {

using fuser::Kernel;
using fuser::LowerOptions;
using Program = ParsedProgram;

const std::string kIn = "  # a: \"cpu f32[4, 8]\"\n";

}  // namespace

TEST_CASE("lower: sums over the first dimension have a column each, and are finished in the end") {
  Program p(
      kIn + "  t1 = prims.sum(a, [0])  # t1: \"cpu f32[8]\"\n  t2 = prims.neg(t1)  # t2: \"cpu f32[8]\"\n  return t2\n",
      "a");
  const Kernel k = p.lower({}, {0}).value();
  CHECK(k.columns.size() == 1);
  CHECK(k.finish.size() == 2);
  CHECK(k.rows == 4);
}

TEST_CASE("lower: sums over few rows of many columns are finished where they are made, in vectors") {
  const std::string in = kIn + "  # c: \"cpu f32[8]\"\n";
  const std::string sums =
      "  t1 = prims.sum(a, [0])  # t1: \"cpu f32[8]\"\n  t2 = prims.add(t1, c)  # t2: \"cpu f32[8]\"\n";
  Program p(in + sums + "  return t2\n", "a, c");
  const LowerOptions few{.lanes = 4, .few_rows = 4, .many_columns = 8};
  const Kernel k = p.lower(few, {0}).value();
  REQUIRE(k.last);
  CHECK(k.finish.empty());
  CHECK(!k.has_finish());
  CHECK(k.last->chunk.size() == 2);  // the summand, and what is stored
  CHECK(k.last->stores.size() == 1);
  CHECK(!p.lower({.lanes = 4, .few_rows = 3, .many_columns = 8}, {0})->last);
  CHECK(!p.lower({.lanes = 4, .few_rows = 4, .many_columns = 9}, {0})->last);
  // With a sum of each row threads share rows.
  Program both(in + sums + "  t3 = prims.sum(a, [1])  # t3: \"cpu f32[4]\"\n  return (t2, t3)\n", "a, c");
  CHECK(both.lower(few, {0}).value().has_finish());
}

TEST_CASE("lower: dimensions are summed up as they lie in memory where they are not the first or last ones") {
  const std::string last = "f32[2, 5, 3, 4] strides=(60, 1, 20, 5)", in = "  # a: \"cpu " + last + "\"\n";
  Program p(in + "  t1 = prims.neg(a)  # t1: \"cpu " + last +
                "\"\n  t2 = prims.sum(t1, [0, 2, 3])  # t2: \"cpu f32[5]\"\n  return (t1, t2)\n",
            "a");
  const Kernel k = p.lower().value();
  CHECK(k.rows == 24);
  CHECK(k.cols == 5);
  CHECK(k.columns.size() == 1);
  CHECK(k.division == fuser::Division::None);
  SUBCASE("what is reduced comes first where it lies between") {
    const auto on = [](const std::string& device) {
      return Program("  # a: \"" + device + " f32[2, 5, 16]\"\n  t1 = prims.neg(a)  # t1: \"" + device +
                         " f32[2, 5, 16]\"\n  t2 = prims.sum(t1, [1])  # t2: \"" + device +
                         " f32[2, 16]\"\n  return (t1, t2)\n",
                     "a")
          .lower({.lanes = 4});
    };
    CHECK(!on("cpu"));
    const Kernel middle = on("cuda:0").value();
    CHECK(middle.rows == 5);
    CHECK(middle.cols == 32);
    CHECK(middle.columns.size() == 1);
    CHECK(middle.phases[0].stores.size() == 1);  // vectors
  }
  SUBCASE("what is kept makes rows where many lie together and their elements are read again behind the sum") {
    const auto on = [](int64_t kept, int64_t reduced, bool again) {
      const std::string width = std::to_string(kept / 8), shape = cat("[64, ", reduced, ", ", width, ", 8]"),
                        type = "cuda:0 f32" + shape,
                        sums = "  t2 = prims.sum(t1, [1])  # t2: \"cuda:0 f32[64, " + width + ", 8]\"\n",
                        spread = "  t3 = prims.broadcast_in_dim(t2, " + shape + ", [0, 2, 3])  # t3: \"" + type +
                                 cat(" strides=(", kept, ", 0, 8, 1)\"\n"),
                        less = "  t4 = prims.sub(t1, t3)  # t4: \"" + type + "\"\n  return (t2, t4)\n";
      return Program("  # a: \"" + type + "\"\n  t1 = prims.neg(a)  # t1: \"" + type + "\"\n" + sums +
                         (again ? spread + less : "  return (t1, t2)\n"),
                     "a")
          .lower({.lanes = 1});
    };
    const Kernel rows = on(64, 5, true).value();
    CHECK(rows.rows == 4096);
    CHECK(rows.columns.empty());
    CHECK(rows.rows_together == 8);
    CHECK_FALSE(rows.along_rows);
    CHECK(on(64, 1024, true)->rows == 4096);
    CHECK(on(64, 5, false)->rows == 5);
    CHECK(!on(56, 5, true));     // few of them
    CHECK(!on(64, 1025, true));  // too long
  }
  SUBCASE("what is reduced comes first where the last dimensions leave gaps in a row, if it is long") {
    const auto on = [](const std::string& device, int64_t width) {
      const std::string type = cat(device, " f32[2, 16, ", width, ", 8] strides=(", width * 128, ", 1, 128, 16)");
      return Program("  # a: \"" + type + "\"\n  t1 = prims.neg(a)  # t1: \"" + type +
                         "\"\n  t2 = prims.sum(t1, [2, 3])  # t2: \"" + device + " f32[2, 16]\"\n  return (t1, t2)\n",
                     "a")
          .lower({.lanes = 4});
    };
    const Kernel columns = on("cuda:0", 65).value();
    CHECK(columns.rows == 520);
    CHECK(columns.cols == 32);
    CHECK(columns.columns.size() == 1);
    CHECK(columns.phases[0].stores.size() == 1);  // vectors
    CHECK(on("cuda:0", 64)->rows == 32);
    CHECK(on("cpu", 65)->rows == 32);
  }
  SUBCASE(
      "the same where several dimensions that are kept fill a piece of memory together, the groups of a group norm") {
    const auto on = [](int64_t groups, int64_t channels) {
      const int64_t all = groups * channels;
      const std::string type = cat("cuda:0 f32[2, ", groups, ", ", channels, ", 1024] strides=(", 1024 * all, ", ",
                                   channels, ", 1, ", all, ")"),
                        result = cat("cuda:0 f32[2, ", groups, ", ", channels, "]");
      return Program("  # a: \"" + type + "\"\n  t1 = prims.neg(a)  # t1: \"" + type +
                         "\"\n  t2 = prims.sum(t1, [3])  # t2: \"" + result + "\"\n  return t2\n",
                     "a")
          .lower({.lanes = 2})
          .value();
    };
    const Kernel columns = on(8, 2);
    CHECK(columns.rows == 1024);
    CHECK(columns.cols == 32);
    CHECK(columns.columns.size() == 1);
    CHECK(on(4, 2).cols == 1024);  // 32 bytes
  }
  SUBCASE("a matrix that lies transposed has its rows as they lie in memory") {
    const std::string type = "\"cpu f32[20, 16] strides=(1, 20)\"\n";
    Program columns("  # a: " + type + "  t1 = prims.neg(a)  # t1: " + type +
                        "  t2 = prims.sum(t1, [1])  # t2: \"cpu f32[20]\"\n  return (t1, t2)\n",
                    "a");
    CHECK(columns.lower()->columns.size() == 1);
    CHECK(columns.lower()->cols == 20);
    Program rows("  # a: " + type + "  t1 = prims.neg(a)  # t1: " + type +
                     "  t2 = prims.sum(t1, [0])  # t2: \"cpu f32[16]\"\n  return (t1, t2)\n",
                 "a");
    CHECK(rows.lower()->columns.empty());
    CHECK(rows.lower()->rows == 16);
  }
  SUBCASE("not where what is kept changes its order") {
    Program other(
        "  # a: \"cpu f32[2, 5, 3] strides=(1, 6, 2)\"\n"
        "  t1 = prims.sum(a, [1])  # t1: \"cpu f32[2, 3]\"\n  return t1\n",
        "a");
    CHECK(!other.lower());
  }
  SUBCASE("not where rows lie on both sides") {
    Program other("  # a: \"cpu f32[2, 5, 3]\"\n  t1 = prims.sum(a, [0, 2])  # t1: \"cpu f32[5]\"\n  return t1\n", "a");
    CHECK(!other.lower());
  }
}

TEST_CASE(
    "lower: an image that is transposed has its positions as a row, so that neighbouring rows are neighbours in "
    "memory") {
  const auto transposed = [](const std::string& size, int64_t positions) {
    const std::string shape = "cuda:0 f32[2, 64, " + size + "]",
                      strides = cat(" strides=(", 64 * positions, ", 1, ", 64 * (positions == 49 ? 7 : 32), ", 64)");
    return Program("  # a: \"" + shape + strides + "\"\n  t1 = prims.neg(a)  # t1: \"" + shape + strides +
                       "\"\n  t2 = prims.clone(t1, memory_format=torch.contiguous_format)  # t2: \"" + shape +
                       "\"\n  return t2\n",
                   "a")
        .lower({.lanes = positions == 49 ? 1 : 4, .split_rows = fuser::LowerOptions::SplitRows::Long})
        .value();
  };
  const Kernel large = transposed("32, 32", 1024);
  CHECK(large.rows == 128);
  CHECK(large.cols == 1024);
  CHECK(large.rows_together == 8);
  const Kernel small = transposed("7, 7", 49);
  CHECK(small.rows == 128);
  CHECK(small.cols == 49);
  CHECK(small.rows_together == 8);
}

TEST_CASE("lower: what is stored may be permuted on the way to a reduction, if its memory has the reduction's order") {
  auto lowered = [](const std::string& strides) {
    const std::string type = "f32[2, 5, 3, 4] strides=" + strides;
    Program p("  # a: \"cpu " + type + "\"\n  t1 = prims.neg(a)  # t1: \"cpu " + type +
                  "\"\n  t2 = prims.transpose(t1, [0, 2, 3, 1])  # t2: \"cpu f32[2, 3, 4, 5] strides=(" +
                  (strides == "(60, 1, 20, 5)" ? "60, 20, 5, 1" : "60, 4, 1, 12") +
                  ")\"\n  t3 = prims.sum(t2, [3])  # t3: \"cpu f32[2, 3, 4]\"\n  return (t1, t3)\n",
              "a");
    return p.lower();
  };
  const auto k = lowered("(60, 1, 20, 5)");
  REQUIRE(k);
  CHECK(k->rows == 24);
  CHECK(k->outputs.size() == 2);
  CHECK(!lowered("(60, 12, 4, 1)"));
}

}  // namespace thunder::test
