// Kernels and operators that may be given no tensor.
#include <doctest.h>

#include "fuser/fused.h"
#include "fuser/parsed_program.h"
#include "passes/autodiff.h"
#include "passes/pass_ops.h"

namespace thunder::test {
namespace {

const std::string kProgram =
    "  # a: \"cpu f32[4, 8]\"\n  # b: \"cpu f32[4, 8]\"\n"
    "  t1 = prims.or_zeros(a)  # t1: \"cpu f32[4, 8]\"\n"
    "  t2 = prims.add(t1, b)  # t2: \"cpu f32[4, 8]\"\n  return t2\n";

std::string text_of(const fuser::Kernel& k) {
  std::string out;
  for (const fuser::Phase& p : k.phases)
    for (const auto* statements : {&p.row, &p.chunk, &p.lane})
      for (const std::string& s : *statements) out += s + "\n";
  return out;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("or_zeros: a kernel reads what may be missing only where it is there") {
  ParsedProgram p(kProgram, "a, b");
  const std::string single = text_of(p.lower().value());
  CHECK(has(single, "(in0 != nullptr ? th_load(in0 + (q)) : float(0))"));
  CHECK(has(single, "= th_load(in1 + (q));"));
  const std::string vectors = text_of(p.lower({.lanes = 4}).value());
  CHECK(has(vectors, "th_load_vector<float, 4>(in0 + (4 * q), in0 != nullptr);"));
  CHECK(has(vectors, "th_load_vector<float, 4>(in1 + (4 * q));"));
}

TEST_CASE("or_zeros: under a condition both must hold") {
  ParsedProgram p(
      "  # a: \"cpu f32[8, 8]\"\n  t1 = prims.or_zeros(a)  # t1: \"cpu f32[8, 8]\"\n"
      "  t2 = prims.pad(t1, 0.0, [(0, 0, 0), (4, 4, 0)])  # t2: \"cpu f32[8, 16]\"\n  return t2\n",
      "a");
  for (int lanes : {1, 4}) {
    const std::string text = text_of(p.lower({.lanes = lanes}).value());
    CHECK(has(text, lanes == 1 ? "? (in0 != nullptr ? th_load(" : ") && in0 != nullptr);"));
  }
}

TEST_CASE("or_zeros: where zeros are in memory nothing is asked") {
  const std::string text = text_of(ParsedProgram(kProgram, "a, b").lower({.zeros_in_memory = true}).value());
  CHECK(!has(text, "nullptr"));
  CHECK(has(text, "th_load(in0 + (q))"));
}

TEST_CASE("or_zeros: it is a part of a kernel, but stays an operator for operators and for the caller") {
  SUBCASE("a part of a kernel") {
    Builder b = pass_builder();
    Value c = b.input(f32({4}), "c"), x = b.input(f32({4}), "x");
    const Partitioned p = partitioned(b.finish("f", b("pt.heavy", b("prims.add", b("prims.or_zeros", c), x))));
    REQUIRE(p.fusions.size() == 1);
    CHECK(p.fusions[0].calls.size() == 2);
    CHECK(p.trace.calls.size() == 2);
  }
  SUBCASE("an operator reads it") {
    Builder b = pass_builder();
    Value c = b.input(f32({4}), "c"), x = b.input(f32({4}), "x");
    Expr zeros = b("prims.or_zeros", c);
    const Trace t = b.finish("f", Arg::tuple({b("pt.heavy", zeros), b("prims.exp", b("prims.add", zeros, x))}));
    const Partitioned p = partitioned(t);
    REQUIRE(p.fusions.size() == 1);
    CHECK(p.fusions[0].calls.size() == 2);  // add and exp
    CHECK(p.trace.calls[0]->op->full_name == "prims.or_zeros");
  }
  SUBCASE("it is returned") {
    Builder b = pass_builder();
    const Trace t = b.finish("f", b("prims.or_zeros", b.input(f32({4}), "c")));
    CHECK(partitioned(t).trace.calls == t.calls);
  }
}

// The differentiable outputs of a trace, with what optional_cotangents() says of each.
std::string optional(const std::vector<Value>& outputs, Builder& b) {
  ArgList list;
  for (Value v : outputs) list.emplace_back(v);
  const Trace t = b.finish("f", Arg::tuple(std::move(list)));
  std::string out;
  for (char c : optional_cotangents(t, differentiable_outputs(t))) out += c ? '1' : '0';
  return out;
}

TEST_CASE("or_zeros: cotangents of tensors beside a loss may be missing") {
  Builder b = pass_builder();
  TensorType t = f32({4, 2});
  t.requires_grad = true;
  const Value x = b.input(t, "x");
  const Value y = b("prims.exp", x).value(), loss = b("prims.sum", y, std::vector<int64_t>{0, 1}).value();
  SUBCASE("a loss alone") { CHECK(optional({loss}, b) == "0"); }
  SUBCASE("tensors alone") { CHECK(optional({y, b("prims.neg", y).value()}, b) == "00"); }
  SUBCASE("both") { CHECK(optional({y, loss}, b) == "10"); }
  SUBCASE("two losses") { CHECK(optional({loss, y, b("prims.exp", loss).value()}, b) == "010"); }
  SUBCASE("an input is none") { CHECK(optional({x, loss}, b) == "0"); }
}

}  // namespace
}  // namespace thunder::test
