#include "fuser/host_rows.h"

#include <string>

#include "fuser/fused.h"
#include "fuzz/random.h"
#include "passes/pass_ops.h"
#include "reference/evaluator.h"

namespace thunder {
namespace {

using test::code;
using test::f32;
using test::partitioned;
using test::pass_builder;
using Dimensions = std::vector<int64_t>;

TensorType laid_out(Dims shape, Dims strides) {
  TensorType t = f32(std::move(shape));
  t.strides = std::move(strides);
  return t;
}

// A reduction of x * m, of which m has the shape of some of x's dimensions.
struct Program {
  Builder b = pass_builder();
  const Call* call = nullptr;
  fuser::OperandStrides operands;

  Program(const std::string& op, const TensorType& x, const TensorType& m, const Dimensions& at,
          const Dimensions& dims) {
    const Expr a = b.expr(b.input(x, "x")), mask = b.expr(b.input(m, "m"));
    b(op, b("prims.mul", a, b("prims.broadcast_in_dim", mask, x.shape, at)), dims);
    for (const Call* c : b.calls()) operands.add(*c);
    call = b.calls().back();
  }

  /// The dimensions that the first step reduces, and the second one; empty where it stays.
  std::vector<Dimensions> steps() {
    std::vector<Dimensions> out;
    for (const Call* c : fuser::in_rows(*call, operands, b.arena()))
      if (fuser::kind_of(*c) == fuser::Kind::Reduce) out.push_back(c->arguments().integers("dims"));
    return out;
  }
};
using Steps = std::vector<Dimensions>;

TEST_CASE("host_rows: where an operand is broadcast, rows begin") {
  const TensorType x = f32({16, 32, 64});
  CHECK(Program("prims.sum", x, f32({16, 32}), {0, 1}, {0, 1, 2}).steps() == Steps{{2}, {0, 1}});
  CHECK(Program("prims.amax", x, f32({32, 64}), {1, 2}, {0, 1, 2}).steps() == Steps{{1, 2}, {0}});
  CHECK(Program("prims.sum", x, f32({32}), {1}, {0, 1, 2}).steps() == Steps{{2}, {0, 1}});
  CHECK(Program("prims.sum", x, f32({16, 32}), {0, 1}, {1, 2}).steps() == Steps{{2}, {1}});
  CHECK(Program("prims.any", x, f32({16, 32}), {0, 1}, {0, 1, 2}).steps() == Steps{{2}, {0, 1}});
  // An operand whose dimensions lie in another order.
  CHECK(Program("prims.prod", x, laid_out({32, 64}, {1, 32}), {1, 2}, {0, 1, 2}).steps() == Steps{{2}, {0, 1}});
}

TEST_CASE("host_rows: of all elements, in the order of memory") {
  const TensorType last = laid_out({4, 64, 16, 16}, {16384, 1, 1024, 64});
  CHECK(Program("prims.sum", last, f32({16, 16}), {2, 3}, {0, 1, 2, 3}).steps() == Steps{{1}, {0, 1, 2}});
  CHECK(Program("prims.sum", last, f32({4}), {0}, {0, 1, 2, 3}).steps() == Steps{{2, 3, 1}, {0}});
  CHECK(Program("prims.sum", last, f32({4}), {0}, {1, 2, 3}).steps().empty());
  CHECK(Program("prims.sum", last, f32({16, 16}), {2, 3}, {1, 2, 3}).steps().empty());
}

TEST_CASE("host_rows: what stays") {
  const TensorType x = f32({16, 32, 64});
  CHECK(Program("prims.sum", x, x, {0, 1, 2}, {0, 1, 2}).steps().empty());
  CHECK(Program("prims.sum", x, f32({}), {}, {0, 1, 2}).steps().empty());
  // A row that ends with the dimension has no division.
  CHECK(Program("prims.sum", x, f32({16, 32}), {0, 1}, {2}).steps().empty());
  CHECK(Program("prims.sum", x, f32({32, 64}), {1, 2}, {1, 2}).steps().empty());
  CHECK(Program("prims.sum", x, f32({16, 32}), {0, 1}, {0, 2}).steps().empty());  // not the last ones
  CHECK(Program("prims.sum", f32({256, 32, 4}), f32({256, 32}), {0, 1}, {0, 1, 2}).steps().empty());  // short rows
  CHECK(Program("prims.sum", f32({4, 8, 64}), f32({4, 8}), {0, 1}, {0, 1, 2}).steps().empty());       // few elements
}

TEST_CASE("host_rows: several threads have rows of a large tensor") {
  const TensorType large = f32({64, 16, 256});
  CHECK(Program("prims.sum", large, large, {0, 1, 2}, {0, 1, 2}).steps() == Steps{{1, 2}, {0}});
  // Equal parts, where the dimensions give too few rows or too short ones.
  const TensorType line = f32({1 << 18}), planes = f32({2, 1 << 18});
  CHECK(Program("prims.sum", line, line, {0}, {0}).steps() == Steps{{1}, {0}});
  CHECK(Program("prims.sum", planes, planes, {0, 1}, {0, 1}).steps() == Steps{{1}, {0}});
  const TensorType odd = f32({131101});
  CHECK(Program("prims.sum", odd, odd, {0}, {0}).steps() == Steps{{1}, {0}});  // padded
  // Each row has a thread already.
  CHECK(Program("prims.sum", large, large, {0, 1, 2}, {1, 2}).steps().empty());
}

TEST_CASE("host_rows: symbolic dimensions") {
  Builder b = pass_builder();
  ShapeEnv env;
  ShapeEnv::Scope scope{env};
  const Dim n = env.make_symbol(16, "n", 2);
  const Expr x = b.expr(b.input(f32({n, 32, 64}), "x")), m = b.expr(b.input(f32({n, 32}), "m"));
  const Expr wide = b("prims.broadcast_in_dim", m, x.shape(), Dimensions{0, 1});
  b("prims.sum", b("prims.mul", x, wide), Dimensions{0, 1, 2});
  fuser::OperandStrides operands;
  for (const Call* c : b.calls()) operands.add(*c);
  CHECK(fuser::in_rows(*b.calls().back(), operands, b.arena()).size() == 2);
}

TEST_CASE("host_rows: the same numbers") {
  fuzz::Random random(5);
  int divided = 0;
  for (int trial = 0; trial < 100; ++trial) {
    Dimensions shape, at;
    Dims part;
    for (int d = 0; d < 3; ++d) shape.push_back(std::vector<int64_t>{1, 8, 16, 33, 64}[random.below(5)]);
    for (int64_t d = 0; d < 3; ++d)
      if (random.below(2)) at.push_back(d), part.push_back(shape[static_cast<size_t>(d)]);
    Program p(random.below(2) ? "prims.sum" : "prims.amax", f32({shape[0], shape[1], shape[2]}), f32(part), at,
              random.below(2) ? Dimensions{0, 1, 2} : Dimensions{1, 2});
    Trace t = p.b.finish("f", p.call->output);
    std::vector<reference::Datum> inputs;
    for (Value v : t.inputs) {
      Dimensions sizes;
      for (const Dim& d : v.shape()) sizes.push_back(d.constant());
      auto a = reference::make_array(DType::f32, v.tensor().device, sizes);
      // Small integers, whose sums are exact in any order.
      for (auto& e : a->data) e = reference::Element::real(static_cast<double>(random.below(5)) - 2);
      inputs.emplace_back(a);
    }
    const reference::Datum want = reference::evaluate(t, inputs);
    const std::vector<const Call*> calls = fuser::in_rows(*p.call, p.operands, p.b.arena());
    if (calls.empty()) continue;
    ++divided;
    t.calls.pop_back();
    t.calls.insert(t.calls.end(), calls.begin(), calls.end());
    verify(t);
    std::string why;
    reference::same_datum(want, reference::evaluate(t, inputs), &why);
    CHECK_MESSAGE(why.empty(), why);
  }
  CHECK(divided >= 5);
}

TEST_CASE("partition: a sum on the CPU with a broadcast operand is a kernel of rows and a sum of them") {
  Builder b = pass_builder();
  const Expr x = b.expr(b.input(f32({16, 32, 64}), "x")), m = b.expr(b.input(f32({16, 32}), "m"));
  const Expr wide = b("prims.broadcast_in_dim", m, x.shape(), Dimensions{0, 1});
  const auto p = partitioned(b.finish("f", b("prims.sum", b("prims.mul", x, wide), Dimensions{0, 1, 2})));
  CHECK(p.fusions.size() == 1);
  CHECK(code(p.trace).find("prims.sum(t") != std::string::npos);
}

}  // namespace
}  // namespace thunder
