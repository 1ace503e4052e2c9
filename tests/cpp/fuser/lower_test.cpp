// Lowering of small programs: run as kernels against the evaluator, and what is refused.
#include "fuser/lower.h"

#include <doctest.h>

#include <algorithm>
#include <cctype>

#include "core/error.h"
#include "fuser/emit.h"
#include "fuser/kernel_checks.h"
#include "fuser/parsed_program.h"
#include "fuzz/random.h"
#include "runtime/kernels/host_compiler.h"

namespace thunder::test {
namespace {

using fuser::Kernel;
using fuser::LowerOptions;
using Program = ParsedProgram;

size_t loops_of(const Kernel& k) {
  size_t n = 0;
  for (const fuser::Phase& p : k.phases) n += p.has_loop();
  return n;
}

const std::string kIn = "  # a: \"cpu f32[4, 8]\"\n";

TEST_CASE("lower: a pointwise chain is one loop over all elements, in vectors where the length allows") {
  Program p(kIn +
                "  t1 = prims.mul(a, 2.0)  # t1: \"cpu f32[4, 8]\"\n  t2 = prims.exp(t1)  # t2: \"cpu f32[4, 8]\"\n  "
                "return t2\n",
            "a");
  const Kernel k = p.lower().value();
  CHECK(k.rows == 1);
  CHECK(k.cols == 32);
  CHECK(k.inputs == p.trace.inputs);
  CHECK(k.calls.size() == 2);
  CHECK(loops_of(k) == 1);
  const Kernel wide = p.lower({.lanes = 8}).value();
  REQUIRE(wide.phases[0].chunk.size() >= 1);
  CHECK(wide.phases[0].chunk[0].find("th_load_vector<float, 8>(in0 + (8 * q))") != std::string::npos);
  CHECK(wide.phases[0].stores.size() == 1);
  CHECK(!p.lower({.lanes = 64}));  // not a divisor of the length
}

std::string lanes_of(Program&& p, int lanes) {
  const Kernel k = p.lower({.lanes = lanes}).value();
  std::string text;
  for (const std::string& line : k.phases[0].chunk) text += line + "\n";
  for (const std::string& line : k.phases[0].lane) text += line + "\n";
  return text;
}

TEST_CASE("lower: lanes that read among neighbours load them together") {
  const std::string transposed =
      lanes_of(Program(kIn + "  t1 = prims.slice(a, [0, 0], [4, 8], [1, 2])  # t1: \"cpu f32[4, 4] strides=(8, 2)\"\n"
                             "  t2 = prims.slice(a, [0, 1], [4, 8], [1, 2])  # t2: \"cpu f32[4, 4] strides=(8, 2)\"\n"
                             "  t3 = prims.view(t2, [4, 4, 1])  # t3: \"cpu f32[4, 4, 1] strides=(8, 2, 2)\"\n"
                             "  t4 = prims.view(t1, [4, 4, 1])  # t4: \"cpu f32[4, 4, 1] strides=(8, 2, 2)\"\n"
                             "  t5 = prims.cat([t3, t4], 2)  # t5: \"cpu f32[4, 4, 2]\"\n  return t5\n",
                       "a"),
               4);
  INFO(transposed);
  CHECK(transposed.find("th_load_vector<float, 4>(in0 + (4 * q))") != std::string::npos);
  CHECK(transposed.find("th_load(") == std::string::npos);
  // The last of every other element has no neighbour behind it.
  const std::string odd = "  # a: \"cpu f32[4, 4] strides=(8, 2)\"\n";
  const std::string every_other =
      lanes_of(Program(odd + "  t1 = prims.mul(a, 2.0)  # t1: \"cpu f32[4, 4]\"\n  return t1\n", "a"), 4);
  INFO(every_other);
  CHECK(every_other.find("th_load_vector") == std::string::npos);
}

const char* const kSoftmax =
    "  t1 = prims.amax(a, [1])  # t1: \"cpu f32[4]\"\n"
    "  t2 = prims.broadcast_in_dim(t1, [4, 8], [0])  # t2: \"cpu f32[4, 8] strides=(1, 0)\"\n"
    "  t3 = prims.sub(a, t2)  # t3: \"cpu f32[4, 8]\"\n  t4 = prims.exp(t3)  # t4: \"cpu f32[4, 8]\"\n"
    "  t5 = prims.sum(t4, [1])  # t5: \"cpu f32[4]\"\n"
    "  t6 = prims.broadcast_in_dim(t5, [4, 8], [0])  # t6: \"cpu f32[4, 8] strides=(1, 0)\"\n"
    "  t7 = prims.div(t4, t6)  # t7: \"cpu f32[4, 8]\"\n  return t7\n";

TEST_CASE("lower: softmax is a row pass with two reductions, kept in registers if asked for") {
  Program p(kIn + kSoftmax, "a");
  const Kernel k = p.lower({.lanes = 4, .cached = true}, {0, 4}).value();
  CHECK(k.rows == 4);
  CHECK(k.cols == 8);
  CHECK(loops_of(k) == 3);
  CHECK(k.cached_vectors.size() == 1);
  CHECK(k.cached_loads.size() == 1);
  CHECK(k.outputs.size() == 1);
  CHECK(k.row_stores.empty());
  // Without the reductions among the roots, each element would have to add up its row.
  CHECK(!p.lower({}, {0}));
  CHECK(!p.lower());
}

size_t vector_loads(const Kernel& k) {
  size_t n = k.cached_loads.size();
  for (const fuser::Phase& p : k.phases)
    n += static_cast<size_t>(std::count_if(p.chunk.begin(), p.chunk.end(),
                                           [](const auto& s) { return s.find("th_load_vector") != s.npos; }));
  return n;
}

TEST_CASE("lower: rows that are looked up are asked for once, with the rest of the row") {
  Program p(
      "  # a: \"cpu f32[5, 8]\"\n  # i: \"cpu i64[4]\"\n  t1 = prims.take(a, i, 0)  # t1: \"cpu f32[4, 8]\"\n"
      "  t2 = prims.amax(t1, [1])  # t2: \"cpu f32[4]\"\n"
      "  t3 = prims.broadcast_in_dim(t2, [4, 8], [0])  # t3: \"cpu f32[4, 8] strides=(1, 0)\"\n"
      "  t4 = prims.sub(t1, t3)  # t4: \"cpu f32[4, 8]\"\n  return t4\n",
      "a, i");
  const Kernel k = p.lower({.lanes = 4, .cached = true}, {1}).value();
  CHECK(k.cached_loads.size() == 1);
  CHECK(vector_loads(k) == 1);
}

TEST_CASE("lower: of two loads of which one happens where the other does not, one is made") {
  const std::string head = "  # a: \"cpu f32[4, 16]\"\n";
  Program rotated(head +
                      "  t1 = prims.slice(a, [0, 8], [4, 16], [1, 1])  # t1: \"cpu f32[4, 8] strides=(16, 1)\"\n"
                      "  t2 = prims.slice(a, [0, 0], [4, 8], [1, 1])  # t2: \"cpu f32[4, 8] strides=(16, 1)\"\n"
                      "  t3 = prims.neg(t1)  # t3: \"cpu f32[4, 8]\"\n"
                      "  t4 = prims.cat([t3, t2], 1)  # t4: \"cpu f32[4, 16]\"\n  return t4\n",
                  "a");
  CHECK(vector_loads(rotated.lower({.lanes = 4}).value()) == 1);
  const std::string slices =
      "  t1 = prims.slice(a, [0, 0], [4, 8], [1, 1])  # t1: \"cpu f32[4, 8] strides=(16, 1)\"\n"
      "  t2 = prims.slice(a, [0, 8], [4, 16], [1, 1])  # t2: \"cpu f32[4, 8] strides=(16, 1)\"\n";
  auto padded = [&](const std::string& first, const std::string& second) {
    Program p(head + slices + "  t3 = prims.pad(t1, 0.0, [(0, 0, 0), " + first + "])  # t3: \"cpu f32[4, 16]\"\n" +
                  "  t4 = prims.pad(t2, 0.0, [(0, 0, 0), " + second + "])  # t4: \"cpu f32[4, 16]\"\n" +
                  "  t5 = prims.add(t3, t4)  # t5: \"cpu f32[4, 16]\"\n  return t5\n",
              "a");
    return vector_loads(p.lower({.lanes = 4}).value());
  };
  CHECK(padded("(8, 0, 0)", "(0, 8, 0)") == 1);
  CHECK(padded("(8, 0, 0)", "(8, 0, 0)") == 2);  // both in the same half
  CHECK(padded("(4, 4, 0)", "(0, 8, 0)") == 2);  // the halves overlap
}

TEST_CASE(
    "lower: the maximum of a row and the sum of exponents under it are found in one walk if nothing walks again") {
  const std::string logsumexp =
      std::string(kSoftmax).substr(0, std::string(kSoftmax).find("  t6")) +
      "  t8 = prims.log(t5)  # t8: \"cpu f32[4]\"\n  t9 = prims.add(t8, t1)  # t9: \"cpu f32[4]\"\n  return t9\n";
  Program p(kIn + logsumexp, "a");
  const LowerOptions online{.lanes = 4, .cached = true, .online = true};
  const Kernel k = p.lower(online, {0, 4}).value();
  CHECK(loops_of(k) == 1);
  CHECK(k.cached_vectors.empty());
  REQUIRE(k.phases[0].reductions.size() == 2);
  CHECK(k.phases[0].reductions[1].maximum == k.phases[0].reductions[0].name);
  CHECK(loops_of(p.lower({.lanes = 4, .cached = true}, {0, 4}).value()) == 2);
  Program softmax(kIn + kSoftmax, "a");
  CHECK(loops_of(softmax.lower(online, {0, 4}).value()) == 3);
  // Under the maximum of something else.
  Program other(kIn +
                    "  t0 = prims.neg(a)  # t0: \"cpu f32[4, 8]\"\n  t1 = prims.amax(t0, [1])  # t1: \"cpu f32[4]\"\n" +
                    logsumexp.substr(logsumexp.find("  t2")),
                "a");
  CHECK(loops_of(other.lower(online, {1, 5}).value()) == 2);
}

TEST_CASE("lower: what costs a function stays in registers for the next walk over the row, where it is asked for") {
  Program softmax(kIn + kSoftmax, "a");
  const auto exponents = [](const Kernel& k) {
    size_t n = 0;
    for (const fuser::Phase& p : k.phases)
      for (const std::string& s : p.lane) n += s.find("th_exp") != std::string::npos;
    return n;
  };
  const Kernel kept = softmax.lower({.lanes = 4, .cached = true, .keep_costly = true}, {0, 4}).value();
  CHECK(exponents(kept) == 1);
  CHECK(kept.cached_bytes == 2 * 4 * 4);
  CHECK(exponents(softmax.lower({.lanes = 4, .cached = true}, {0, 4}).value()) == 2);
  CHECK(exponents(softmax.lower({.lanes = 4, .keep_costly = true}, {0, 4}).value()) == 2);
}

std::string in_place(const std::optional<Kernel>& k) {
  REQUIRE(k);
  std::string out;
  for (const fuser::InPlace& p : k->in_place)
    out += k->inputs[p.input].name() + ">" + k->outputs[p.output].name() + " ";
  return out;
}

// What is left of the mean of each row, times a factor for each `length` neighbours of a row of 64.
std::string scaled_rows(int64_t length) {
  const std::string shape = "[4, " + std::to_string(64 / length) + ", " + std::to_string(length) + "]",
                    parts = std::to_string(64 / length);
  return "  # a: \"cpu f32[4, 64]\"\n  # b: \"cpu f32[" + parts + "]\"\n" +
         "  t1 = prims.sum(a, [1])  # t1: \"cpu f32[4]\"\n"
         "  t2 = prims.broadcast_in_dim(t1, [4, 64], [0])  # t2: \"cpu f32[4, 64] strides=(1, 0)\"\n"
         "  t3 = prims.sub(a, t2)  # t3: \"cpu f32[4, 64]\"\n  t4 = prims.view(t3, " +
         shape + ")  # t4: \"cpu f32" + shape + "\"\n  t5 = prims.broadcast_in_dim(b, " + shape +
         ", [1])  # t5: \"cpu f32" + shape + " strides=(0, 1, 0)\"\n  t6 = prims.mul(t4, t5)  # t6: \"cpu f32" + shape +
         "\"\n  return t6\n";
}

TEST_CASE("lower: a row that was added up is walked in parts where an index tells them apart") {
  const LowerOptions host{.split_rows = LowerOptions::SplitRows::Always};
  Program p(scaled_rows(32), "a, b");
  const Kernel k = p.lower(host, {0}).value();
  CHECK(k.division == fuser::Division::None);
  CHECK(k.phases[0].part == 0);
  CHECK(k.phases[1].part == 32);
  CHECK(k.phases[1].chunk.size() == 1);  // the factor
  CHECK(in_place(k) == "a>t6 ");
  CHECK(fuser::emit_host(k, "f").find("p = 0; p < 2;") != std::string::npos);
  // Short parts are loops of a few steps, and a row of one part has no division.
  CHECK(Program(scaled_rows(8), "a, b").lower(host, {0})->phases[1].part == 0);
  CHECK(Program(scaled_rows(64), "a, b").lower(host, {0})->phases[1].part == 0);
  CHECK(p.lower({}, {0})->phases[1].part == 0);  // a GPU divides
}

TEST_CASE("lower: what is costly is computed once a row where there is room to keep it") {
  Program p(kIn + kSoftmax, "a");
  auto count = [](const Kernel& k, const std::string& text) {
    size_t n = 0;
    for (const fuser::Phase& phase : k.phases)
      n += static_cast<size_t>(
          std::count_if(phase.chunk.begin(), phase.chunk.end(), [&](const auto& s) { return s.find(text) != s.npos; }));
    return n;
  };
  const Kernel k = p.lower({.row_buffer = 1 << 10}, {0, 4}).value();
  REQUIRE(k.row_buffers.size() == 1);
  CHECK(k.row_buffers[0].find("[8];") != std::string::npos);
  CHECK(count(k, "th_exp(") == 1);
  CHECK(count(k, "th_load(") == 2);  // a load costs no more than the buffer
  for (int64_t bytes : {0, 31}) {
    const Kernel again = p.lower({.row_buffer = bytes}, {0, 4}).value();
    CHECK(again.row_buffers.empty());
    CHECK(count(again, "th_exp(") == 2);
  }
}

TEST_CASE("lower: what is costly is kept in the memory of the output that is stored last") {
  Program p(kIn + kSoftmax, "a");
  const Kernel k = p.lower({.row_buffer = 31, .in_outputs = true}, {0, 4}).value();
  CHECK(k.row_buffers.empty());
  REQUIRE(k.phases.size() == 3);
  CHECK(k.phases[1].lane.back().find("out0[8 * r + q] = ") == 0);
  CHECK(k.in_place.size() == 1);  // the last phase reads no input
  // An input that is read later keeps its memory.
  const std::string softmax = kIn + std::string(kSoftmax).substr(0, std::string(kSoftmax).find("  return"));
  const Program reread(softmax + "  t8 = prims.mul(t7, a)  # t8: \"cpu f32[4, 8]\"\n  return t8\n", "a");
  const Kernel both = reread.lower({.row_buffer = 31, .in_outputs = true}, {0, 4}).value();
  CHECK(both.phases[1].lane.back().find("out0[8 * r + q] = ") == 0);
  CHECK(both.in_place.empty());
  // An output of another type has no place for it, nor has one that is stored before the last phase has read it.
  Program halves(
      softmax + "  t8 = prims.convert_element_type(t7, torch.bfloat16)  # t8: \"cpu bf16[4, 8]\"\n  return t8\n", "a");
  Program summed(softmax +
                     "  t8 = prims.mul(t4, t7)  # t8: \"cpu f32[4, 8]\"\n"
                     "  t9 = prims.sum(t8, [1])  # t9: \"cpu f32[4]\"\n  return t7, t9\n",
                 "a");
  for (const Program* other : {&halves, &summed}) {
    const Kernel again = other->lower({.in_outputs = true}, {0, 4}).value();
    for (const fuser::Phase& phase : again.phases)
      for (const std::string& statement : phase.lane) CHECK(statement.find("out0[") != 0);
  }
}

TEST_CASE("lower: a quotient by a row's divisor that is rounded to 16 bits is a product") {
  const auto has_product = [](const std::string& dtype, bool eager) {
    const std::string rows = "\"cpu " + dtype + "[4, 32]\"\n", column = "\"cpu " + dtype + "[4]\"\n",
                      wide = "\"cpu " + dtype + "[4, 32] strides=(1, 0)\"\n";
    Program p("  # a: " + rows + "  t1 = prims.amax(a, [1])  # t1: " + column +
                  "  t2 = prims.broadcast_in_dim(t1, [4, 32], [0])  # t2: " + wide + "  t3 = prims.div(a, t2)  # t3: " +
                  rows + "  t4 = prims.div(t2, a)  # t4: " + rows + "  return (t1, t3, t4)\n",
              "a");
    const std::string text = fuser::emit_host(p.lower({.lanes = 1, .eager_rounding = eager}).value(), "f");
    CHECK(text.find("/ ") != std::string::npos);  // by elements
    return text.find("th_divisor_scale") != std::string::npos;
  };
  CHECK(has_product("bf16", false));
  CHECK(has_product("f16", false));
  CHECK_FALSE(has_product("f32", false));
  CHECK_FALSE(has_product("bf16", true));
}

TEST_CASE("lower: dimensions that no index tells apart are one row") {
  Program p(
      "  # a: \"cpu f32[2, 5, 6, 7]\"\n  # b: \"cpu f32[5]\"\n"
      "  t1 = prims.broadcast_in_dim(b, [2, 5, 6, 7], [1])  # t1: \"cpu f32[2, 5, 6, 7] strides=(0, 1, 0, 0)\"\n"
      "  t2 = prims.mul(a, t1)  # t2: \"cpu f32[2, 5, 6, 7]\"\n  return t2\n",
      "a, b");
  const Kernel k = p.lower({.split_rows = LowerOptions::SplitRows::Always}).value();
  CHECK(k.rows == 10);
  CHECK(k.cols == 42);
  CHECK(k.division == fuser::Division::None);
}

TEST_CASE("lower: what does not fit one walk over rows is refused") {
  const std::string sum = "  t1 = prims.sum(a, [1])  # t1: \"cpu f32[4]\"\n";
  SUBCASE("a middle dimension behind which too few elements lie together") {
    Program p("  # a: \"cuda:0 f32[2, 3, 4]\"\n  t1 = prims.sum(a, [1])  # t1: \"cuda:0 f32[2, 4]\"\n  return t1\n",
              "a");
    CHECK(!p.lower());
  }
  SUBCASE("reductions of other rows") {
    Program p(kIn + "  # b: \"cpu f32[2, 16]\"\n" + sum +
                  "  t2 = prims.sum(b, [1])  # t2: \"cpu f32[2]\"\n  return (t1, t2)\n",
              "a, b");
    CHECK(!p.lower());
  }
  SUBCASE("values longer than the walk, or of another length") {
    Program p(kIn + "  # b: \"cpu f32[5]\"\n" + sum + "  t2 = prims.neg(b)  # t2: \"cpu f32[5]\"\n  return (t1, t2)\n",
              "a, b");
    CHECK(!p.lower());
  }
  SUBCASE("another row's sum") {
    Program p(kIn + sum +
                  "  t2 = prims.flip(t1, [0])  # t2: \"cpu f32[4]\"\n  t3 = prims.neg(t2)  # t3: \"cpu f32[4]\"\n  "
                  "return (t1, t3)\n",
              "a");
    CHECK(!p.lower());
  }
  SUBCASE("an element of the group that is being computed elsewhere") {
    Program p(kIn +
                  "  t1 = prims.exp(a)  # t1: \"cpu f32[4, 8]\"\n  t2 = prims.flip(t1, [1])  # t2: \"cpu f32[4, 8]\"\n "
                  " return (t1, t2)\n",
              "a");
    CHECK(!p.lower());
  }
}

TEST_CASE("lower: an output may lie in an input's memory where that is read at the same place, and not later") {
  SUBCASE("pointwise") {
    Program p(kIn + "  # b: \"cpu f32[8]\"\n  # c: \"cpu f64[4, 8]\"\n" +
                  "  t1 = prims.exp(a)  # t1: \"cpu f32[4, 8]\"\n"
                  "  t2 = prims.broadcast_in_dim(b, [4, 8], [1])  # t2: \"cpu f32[4, 8] strides=(0, 1)\"\n"
                  "  t3 = prims.mul(t1, t2)  # t3: \"cpu f32[4, 8]\"\n"
                  "  t4 = prims.convert_element_type(c, torch.float32)  # t4: \"cpu f32[4, 8]\"\n"
                  "  return (t3, t4)\n",
              "a, b, c");
    for (const LowerOptions& o :
         std::vector<LowerOptions>{{}, {.lanes = 4}, {.split_rows = LowerOptions::SplitRows::Always}})
      CHECK(in_place(p.lower(o)) == "a>t3 a>t4 ");
  }
  SUBCASE("at two places") {
    Program p(kIn +
                  "  t1 = prims.flip(a, [1])  # t1: \"cpu f32[4, 8]\"\n  t2 = prims.add(a, t1)  # t2: \"cpu f32[4, "
                  "8]\"\n  return t2\n",
              "a");
    CHECK(in_place(p.lower()) == "");
  }
  SUBCASE("in a row's phases") {
    Program p(kIn + kSoftmax, "a");
    CHECK(in_place(p.lower({}, {0, 4})) == "a>t7 ");
    CHECK(in_place(p.lower({.lanes = 4, .cached = true}, {0, 4})) == "a>t7 ");
  }
  SUBCASE("a later phase reads what an earlier one would overwrite") {
    Program p(kIn +
                  "  t1 = prims.exp(a)  # t1: \"cpu f32[4, 8]\"\n  t2 = prims.sum(a, [1])  # t2: \"cpu f32[4]\"\n"
                  "  t3 = prims.broadcast_in_dim(t2, [4, 8], [0])  # t3: \"cpu f32[4, 8] strides=(1, 0)\"\n"
                  "  t4 = prims.sub(a, t3)  # t4: \"cpu f32[4, 8]\"\n  return (t1, t4)\n",
              "a");
    CHECK(in_place(p.lower({}, {1})) == "a>t4 ");
  }
  SUBCASE("what is stored lane by lane stands between reads") {
    Program p(kIn +
                  "  # b: \"cpu f32[4, 8] strides=(1, 4)\"\n"
                  "  t1 = prims.neg(a)  # t1: \"cpu f32[4, 8]\"\n"
                  "  t2 = prims.exp(a)  # t2: \"cpu f32[4, 8]\"\n"
                  "  t3 = prims.restride(t2, [1, 4])  # t3: \"cpu f32[4, 8] strides=(1, 4)\"\n"
                  "  t4 = prims.neg(b)  # t4: \"cpu f32[4, 8] strides=(1, 4)\"\n  return (t1, t3, t4)\n",
              "a, b");
    CHECK(in_place(p.lower()) == "a>t1 b>t3 b>t4 ");
    CHECK(in_place(p.lower({.lanes = 2})) == "a>t1 b>t4 ");
  }
  SUBCASE("parts of a cat are written by loops of their own") {
    Program p(
        "  # a: \"cpu f32[8]\"\n  # b: \"cpu f32[16]\"\n  t1 = prims.neg(a)  # t1: \"cpu f32[8]\"\n"
        "  t2 = prims.cat([t1, a], 0)  # t2: \"cpu f32[16]\"\n  t3 = prims.add(t2, b)  # t3: \"cpu f32[16]\"\n"
        "  return t3\n",
        "a, b");
    CHECK(in_place(p.lower()) == "b>t3 ");
    CHECK(in_place(p.lower({.section = 4})) == "");
  }
  SUBCASE("what is read again when all rows are done") {
    Program p(kIn +
                  "  # b: \"cpu f32[8]\"\n  t1 = prims.sum(a, [0])  # t1: \"cpu f32[8]\"\n"
                  "  t2 = prims.add(t1, b)  # t2: \"cpu f32[8]\"\n  t3 = prims.exp(a)  # t3: \"cpu f32[4, 8]\"\n"
                  "  return (t2, t3)\n",
              "a, b");
    CHECK(in_place(p.lower({}, {0})) == "a>t3 ");
  }
}

TEST_CASE("lower: more statements than a reader, or a compiler, would take are refused") {
  std::string body = kIn, last = "a";
  for (int i = 0; i < 4100; ++i) {
    const std::string t = "t" + std::to_string(i);
    body += "  " + t + " = prims.sin(" + last + ")  # " + t + ": \"cpu f32[4, 8]\"\n";
    last = t;
  }
  CHECK(!Program(body + "  return " + last + "\n", "a").lower());
}

TEST_CASE("lower: every move gives the elements that the evaluator gives") {
  if (host_compiler_command().empty()) {
    MESSAGE("skipped: no compiler");
    return;
  }
  struct Move {
    const char *name, *inputs, *types, *call, *result;
  };
  const std::vector<Move> moves = {
      {"broadcast", "a", "cpu f32[4, 1]", "prims.broadcast_in_dim(a, [3, 4, 8], [1, 2])",
       "cpu f32[3, 4, 8] strides=(0, 1, 0)"},
      {"transpose", "a", "cpu f32[4, 8]", "prims.transpose(a, [1, 0])", "cpu f32[8, 4] strides=(1, 8)"},
      {"view", "a", "cpu f32[4, 8]", "prims.view(a, [2, 16])", "cpu f32[2, 16]"},
      {"reshape", "a", "cpu f32[4, 8] strides=(1, 4)", "prims.reshape(a, [2, 16])", "cpu f32[2, 16]"},
      {"slice", "a", "cpu f32[4, 9]", "prims.slice(a, [1, 0], [4, 9], [1, 2])", "cpu f32[3, 5] strides=(9, 2)"},
      {"squeeze", "a", "cpu f32[4, 1, 8]", "prims.squeeze(a, [1])", "cpu f32[4, 8]"},
      {"flip", "a", "cpu f32[4, 8]", "prims.flip(a, [0, 1])", "cpu f32[4, 8]"},
      {"cat", "a, b", "cpu f32[4, 8]", "prims.cat([a, b, a], 1)", "cpu f32[4, 24]"},
      {"cat rows", "a, b", "cpu f32[4, 8]", "prims.cat([a, b], 0)", "cpu f32[8, 8]"},
      {"pad", "a", "cpu f32[4, 8]", "prims.pad(a, 1.5, [(1, 0, 0), (-2, 3, 0)])", "cpu f32[5, 9]"},
      {"pad lanes", "a", "cpu f32[4, 8]", "prims.pad(a, 1.5, [(0, 0, 0), (8, 8, 0)])", "cpu f32[4, 24]"},
      {"pad between", "a", "cpu f32[4, 8]", "prims.pad(a, 1.5, [(1, 2, 1), (2, 0, 2)])", "cpu f32[10, 24]"},
      {"pad between, cut", "a", "cpu f32[4, 8]", "prims.pad(a, 1.5, [(-1, 0, 2), (-2, -3, 1)])", "cpu f32[9, 10]"},
      {"pad between rows", "a", "cpu f32[4, 8]", "prims.pad(a, 1.5, [(1, 0, 1), (0, 0, 0)])", "cpu f32[8, 8]"},
      {"pad cuts all", "a", "cpu f32[4, 1]", "prims.pad(a, 1.5, [(1, 0, 0), (2, -1, 0)])", "cpu f32[5, 2]"},
  };
  KernelChecks checks;
  for (const Move& m : moves) {
    std::string body, type = m.types, result = m.result;
    for (char name : std::string(m.inputs))
      if (std::isalpha(static_cast<unsigned char>(name))) body += std::string("  # ") + name + ": \"" + type + "\"\n";
    const std::string dense = result.substr(0, result.find(" strides"));
    // An operand with a layout of its own gives the sum that layout; it is the move that is looked at.
    body += std::string("  t1 = ") + m.call + "  # t1: \"" + result + "\"\n  t2 = prims.clone(t1)  # t2: \"" + dense +
            "\"\n  return t2\n";
    Program p(body, m.inputs);
    CAPTURE(m.name);
    const std::optional<Kernel> k = p.lower();
    REQUIRE(k);
    Fused f;
    f.plain = *k;
    f.calls = p.trace.calls;
    f.inputs = k->inputs;
    f.outputs = k->outputs;
    for (const LowerOptions& o : std::vector<LowerOptions>{
             {.split_rows = LowerOptions::SplitRows::Always}, {.section = 4}, {.lanes = 2}, {.lanes = 4}, {.lanes = 8}})
      if (auto variant = p.lower(o)) f.lowered.push_back(*variant);
    fuzz::Random random(7);
    std::vector<reference::Datum> inputs;
    for (Value v : f.inputs) {
      std::vector<int64_t> shape;
      for (const Dim& d : v.shape()) shape.push_back(d.constant());
      auto a = reference::make_array(v.dtype(), v.tensor().device, shape);
      for (auto& e : a->data) e = reference::Element::real(reference::round_real(v.dtype(), random.uniform(-1, 1)));
      inputs.push_back(reference::Datum(a));
    }
    checks.add(f, expect(f, inputs, p.trace.arena, 1).value(), p.trace.arena, m.name);
  }
  for (const std::string& wrong : checks.run()) FAIL_CHECK(wrong);
}

}  // namespace
}  // namespace thunder::test
