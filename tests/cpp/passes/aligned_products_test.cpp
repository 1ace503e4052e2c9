#include "passes/aligned_products.h"

#include <string>

#include "fuzz/random.h"
#include "passes/pass_ops.h"
#include "passes/passes.h"
#include "reference/evaluator.h"

namespace thunder {
namespace {

using test::code;
using test::pass_builder;

TensorType matrix(Dims shape, DType dtype = DType::bf16, DeviceType device = DeviceType::cuda) {
  TensorType t = test::f32(std::move(shape));
  t.dtype = dtype;
  t.device = Device{device, static_cast<int16_t>(device == DeviceType::cuda ? 0 : -1)};
  return t;
}

Trace aligned(const Trace& t, const AlignmentCosts& costs = {}) {
  size_t all = t.calls.size();
  const Trace out = aligned_products(t, all, costs);
  CHECK(all == out.calls.size());
  CHECK_NOTHROW(verify(out));
  return dce(out);
}

/// A product that is large enough to be worth copies, of what a kernel computes.
struct Program {
  Builder b = pass_builder();

  Expr computed(const TensorType& t, const char* name) { return b("torch.exp", b.input(t, name)); }
  std::string after(const Expr& result) { return code(aligned(b.finish("f", result))); }
};

TEST_CASE("aligned_products: nothing to do") {
  Program p;
  const Expr none = p.b("torch.mul", p.computed(matrix({8, 8}), "x"), 2);
  const Trace t = p.b.finish("f", none);
  size_t all = t.calls.size();
  CHECK(aligned_products(t, all).calls == t.calls);
}

TEST_CASE("aligned_products: the result's columns are computed wider, and read as a part") {
  Program p;
  const Expr x = p.computed(matrix({2, 4096, 512}), "x"), w = p.computed(matrix({4001, 512}), "w");
  const std::string text = p.after(p.b("torch.linear", x, w));
  INFO(text);
  CHECK(text.find("prims.pad(t") != std::string::npos);
  CHECK(text.find("[[0, 7, 0], [0, 0, 0]]") != std::string::npos);
  CHECK(text.find("prims.slice(") != std::string::npos);
  CHECK(text.find("prims.restride(") != std::string::npos);
}

TEST_CASE("aligned_products: two products share what is padded, through views") {
  Program p;
  const Expr g = p.computed(matrix({4, 2048, 4001}), "g"), w = p.computed(matrix({4001, 512}), "w");
  const Expr x = p.computed(matrix({8192, 512}), "x");
  const Expr rows = p.b("torch.reshape", g, Dims{8192, 4001});
  const Expr grad_x = p.b("torch.matmul", g, w);
  const Expr grad_w = p.b("torch.matmul", p.b("torch.transpose", rows, 0, 1), x);
  const std::string text = p.after(Expr(p.b, Arg::tuple({grad_x.arg(), grad_w.arg()})));
  INFO(text);
  size_t pads = 0;
  for (size_t at = text.find("prims.pad("); at != std::string::npos; at = text.find("prims.pad(", at + 1)) ++pads;
  CHECK(pads == 2);  // of g and of w
  CHECK(text.find("prims.restride(") == std::string::npos);
}

TEST_CASE("aligned_products: refused") {
  const auto left = [](const TensorType& x, const TensorType& w, const char* op = "torch.linear") {
    Program p;
    const Trace t = p.b.finish("f", p.b(op, p.computed(x, "x"), p.computed(w, "w")));
    size_t all = t.calls.size();
    return aligned_products(t, all).calls == t.calls;
  };
  CHECK(!left(matrix({4096, 512}), matrix({4001, 512})));
  CHECK(left(matrix({4096, 512}), matrix({4008, 512})));                          // aligned
  CHECK(left(matrix({16, 512}), matrix({4001, 512})));                            // small
  CHECK(left(matrix({4096, 512}, DType::f32), matrix({4001, 512}, DType::f32)));  // not of 16 bits
  CHECK(left(matrix({4096, 512}, DType::bf16, DeviceType::cpu), matrix({4001, 512}, DType::bf16, DeviceType::cpu)));
  CHECK(left(matrix({4, 4096, 512}), matrix({4, 512, 4001}), "torch.matmul"));  // a batch of products
  CHECK(left(matrix({0, 512}), matrix({4001, 512})));
}

TEST_CASE("aligned_products: views of one memory in two shapes are two matrices") {
  Program p;
  const Expr w = p.computed(matrix({4097, 4099}), "w"), x = p.computed(matrix({4096, 4097}), "x");
  const Expr y = p.computed(matrix({4096, 4099}), "y");
  const Expr first = p.b("torch.matmul", x, w),
             second = p.b("torch.matmul", y, p.b("torch.reshape", w, Dims{4099, 4097}));
  const std::string text = p.after(Expr(p.b, Arg::tuple({first.arg(), second.arg()})));
  INFO(text);
  CHECK(text.find("[[0, 7, 0], [0, 5, 0]]") != std::string::npos);  // 4097 x 4099
  CHECK(text.find("[[0, 5, 0], [0, 7, 0]]") != std::string::npos);
}

TEST_CASE("aligned_products: refused where a bias is broadcast, and where memory is read as another type") {
  Program p;
  const Expr x = p.computed(matrix({4096, 512}), "x"), w = p.computed(matrix({4001, 512}), "w");
  const Trace one = p.b.finish("f", p.b("torch.linear", x, w, p.b.input(matrix({1}), "b")));
  size_t all = one.calls.size();
  CHECK(aligned_products(one, all).calls == one.calls);
  Program q;
  const Expr bits(q.b, q.b.input(matrix({4001, 512}, DType::i16), "bits"));
  const Trace seen = q.b.finish(
      "f", q.b("torch.linear", q.computed(matrix({4096, 512}), "x"), q.b("torch.view", bits, Arg(DType::bf16))));
  all = seen.calls.size();
  CHECK_NOTHROW(verify(aligned_products(seen, all)));
}

TEST_CASE("aligned_products: an input is copied only where the product gains more") {
  const auto left = [](int64_t rows) {
    Program p;
    const Expr x(p.b, p.b.input(matrix({rows, 513}), "x")), w = p.computed(matrix({513, 1024}), "w");
    const Trace t = p.b.finish("f", p.b("torch.matmul", x, w));
    size_t all = t.calls.size();
    return aligned_products(t, all).calls == t.calls;
  };
  CHECK(left(256));
  CHECK(!left(16384));
}

reference::Datum random_matrix(const Dims& shape, fuzz::Random& random) {
  reference::Array a;
  a.dtype = DType::bf16;
  a.shape = {shape[0].constant(), shape[1].constant()};
  for (int64_t i = 0; i < a.shape[0] * a.shape[1]; ++i)
    a.data.push_back(reference::Element::real(static_cast<double>(random.between(-16, 16)) / 16));
  return reference::Datum(std::make_shared<reference::Array>(std::move(a)));
}

TEST_CASE("aligned_products: fuzz: equal results") {
  fuzz::Random random(7);
  for (int i = 0; i < 100; ++i) {
    const int64_t rows = random.between(1, 20), terms = random.between(1, 20), columns = random.between(1, 20);
    const bool linear = random.chance(0.5), transposed = random.chance(0.5);
    const Dims x_shape = transposed ? Dims{terms, rows} : Dims{rows, terms};
    const Dims w_shape = linear ? Dims{columns, terms} : Dims{terms, columns};
    Program p;
    Expr x(p.b, p.b.input(matrix(x_shape), "x")), w(p.b, p.b.input(matrix(w_shape), "w"));
    if (random.chance(0.5)) x = p.b("torch.neg", x);
    if (transposed) x = p.b("torch.transpose", x, 0, 1);
    Expr out = p.b(linear ? "torch.linear" : "torch.matmul", x, w);
    if (random.chance(0.5)) out = p.b("torch.matmul", p.b("torch.transpose", out, 0, 1), x);
    const Trace t = p.b.finish("f", out), after = aligned(t, {.operation = 1, .byte = 0, .launch = 0});
    INFO(code(after));
    const std::vector<reference::Datum> inputs = {random_matrix(x_shape, random), random_matrix(w_shape, random)};
    CHECK(reference::same_datum(reference::evaluate(t, inputs), reference::evaluate(after, inputs)));
  }
}

}  // namespace
}  // namespace thunder
