// Lowering for the CPU: what g++ vectorises, and what lies in a core's cache.
#include <doctest.h>

#include "fuser/emit.h"
#include "fuser/parsed_program.h"

namespace thunder::test {
namespace {

using fuser::Kernel;
using fuser::LowerOptions;
using Program = ParsedProgram;

TEST_CASE("lower: rows of several heads become rows of one, whose conditions change at places that are known") {
  Program p(
      "  # a: \"cpu f32[4, 64]\"\n  # b: \"cpu f32[4, 64]\"\n"
      "  t1 = prims.view(a, [4, 2, 32])  # t1: \"cpu f32[4, 2, 32]\"\n"
      "  t2 = prims.slice(t1, [0, 0, 16], [4, 2, 32], [1, 1, 1])  # t2: \"cpu f32[4, 2, 16] strides=(64, 32, 1)\"\n"
      "  t3 = prims.slice(t1, [0, 0, 0], [4, 2, 16], [1, 1, 1])  # t3: \"cpu f32[4, 2, 16] strides=(64, 32, 1)\"\n"
      "  t4 = prims.neg(t2)  # t4: \"cpu f32[4, 2, 16]\"\n"
      "  t5 = prims.cat([t4, t3], 2)  # t5: \"cpu f32[4, 2, 32]\"\n"
      "  t6 = prims.view(t5, [4, 64])  # t6: \"cpu f32[4, 64]\"\n"
      "  t7 = prims.cat([t6, b], 1)  # t7: \"cpu f32[4, 128]\"\n  return t7\n",
      "a, b");
  const Kernel k = p.lower({.split_rows = LowerOptions::SplitRows::Always}).value();
  CHECK(k.cols == 32);
  CHECK(k.rows == 16);
  CHECK(k.division == fuser::Division::None);
  CHECK(k.condition_changes == std::set<int64_t>{16});
  CHECK(k.phases[0].row.size() == 1);  // whether it is a's or b's
  const std::string text = fuser::emit_host(k, "f");
  CHECK(text.find("q = 0; q < 16;") != std::string::npos);
  CHECK(text.find("q = 16; q < 32;") != std::string::npos);
}

TEST_CASE("lower: elements across lines of memory are walked in squares, at distances that have names") {
  Program transposed(
      "  # a: \"cpu f32[70, 100]\"\n  t1 = prims.transpose(a, [1, 0])  # t1: \"cpu f32[100, 70] strides=(1, 100)\"\n"
      "  t2 = prims.clone(t1, memory_format=torch.contiguous_format)  # t2: \"cpu f32[100, 70]\"\n"
      "  t3 = prims.neg(t2)  # t3: \"cpu f32[100, 70]\"\n  return t3\n",
      "a");
  const LowerOptions host{.split_rows = LowerOptions::SplitRows::Always, .name_distances = true};
  const Kernel k = transposed.lower(host).value();
  CHECK(k.distances == std::set<int64_t>{100});
  const std::string text = fuser::emit_host(k, "f");
  CHECK(text.find("int64 d100 = 100; asm") != std::string::npos);
  CHECK(text.find("in0 + (r + d100 * q)") != std::string::npos);
  CHECK(text.find("r0 += 32") != std::string::npos);
  CHECK(text.find("q = q0; q < q1;") != std::string::npos);
  // Without the option the number itself; a matrix in order has neither.
  CHECK(transposed.lower({.split_rows = LowerOptions::SplitRows::Always})->distances.empty());
  Program in_order("  # a: \"cpu f32[70, 100]\"\n  t1 = prims.neg(a)  # t1: \"cpu f32[70, 100]\"\n  return t1\n", "a");
  const Kernel plain = in_order.lower(host).value();
  CHECK(plain.distances.empty());
  CHECK(fuser::emit_host(plain, "f").find("r0") == std::string::npos);
}

TEST_CASE("lower: truth values are widened once a row that is added up") {
  Program p(
      "  # a: \"cpu f32[8, 100]\"\n  # m: \"cpu b8[8, 100]\"\n  t1 = prims.where(m, a, 0.0)  # t1: \"cpu f32[8, "
      "100]\"\n"
      "  t2 = prims.sum(t1, [1])  # t2: \"cpu f32[8]\"\n  return t2\n",
      "a, m");
  const LowerOptions host{.split_rows = LowerOptions::SplitRows::Always, .row_buffer = 4096, .name_distances = true};
  const Kernel k = p.lower(host).value();
  REQUIRE(k.row_buffers.size() == 1);
  CHECK(k.row_buffers[0].find("int32 row") == 0);
  CHECK(k.phases[0].row.size() == 1);
  CHECK(fuser::emit_host(k, "f").find("[q] != 0") != std::string::npos);
  // Without room for a row, as they are.
  LowerOptions none = host;
  none.row_buffer = 100;
  CHECK(p.lower(none)->row_buffers.empty());
}

}  // namespace
}  // namespace thunder::test
