#include "passes/complex_parts.h"

#include <string>

#include "fuzz/random.h"
#include "passes/pass_ops.h"
#include "reference/evaluator.h"

namespace thunder {
namespace {

using test::code;
using test::count;
using test::pass_builder;

TensorType tensor(Dims shape, DType dtype) {
  TensorType t = test::f32(std::move(shape));
  t.dtype = dtype;
  return t;
}

Trace divided(const Trace& t, const ExecutorList& executors = {}) {
  size_t all = t.calls.size();
  const Trace out = complex_parts(t, all, executors);
  CHECK(all == out.calls.size());
  CHECK_NOTHROW(verify(out));
  CHECK(out.output.value().type().same(t.output.value().type()));
  CHECK(same(out.output.value().tensor().strides, t.output.value().tensor().strides));
  return out;
}

bool has(const Trace& t, const std::string& what) { return code(t).find(what) != std::string::npos; }

/// Pairs times a complex input, as pairs.
Trace rotated(DType type = DType::f32) {
  Builder b = pass_builder();
  const Expr z = b("prims.view_as_complex", b.input(tensor({4, 6, 2}, type), "x"));
  const Expr w = Expr(b, b.input(tensor({6}, complex_type_of(type)), "w"));
  return b.finish("f", b("prims.view_as_real", z * w) * 2.0);
}

TEST_CASE("complex_parts: a product between pairs is one of their parts") {
  const Trace after = divided(rotated());
  INFO(code(after));
  CHECK(!has(after, "view_as_complex"));
  CHECK(count(code(after), "prims.view_as_real(") == 1);  // of the input
  CHECK(count(code(after), "prims.mul(") == 4);
  CHECK(count(code(after), "ltorch.mul(") == 1);
  CHECK(count(code(after), "prims.cat(") == 1);
  CHECK(!has(divided(rotated(DType::f64)), "view_as_complex"));
}

TEST_CASE("complex_parts: the sides of a stack are parts without being put together") {
  Builder b = pass_builder();
  const Expr x(b, b.input(tensor({3}, DType::f32), "x")), y(b, b.input(tensor({3}, DType::f32), "y"));
  const Expr z = b("torch.complex", x, y);
  const Trace after = divided(b.finish("f", b("torch.real", z * z) * 2.0));
  INFO(code(after));
  CHECK(!has(after, "complex"));
  CHECK(!has(after, "stack"));
}

TEST_CASE("complex_parts: what others read as complex numbers is made of the parts once") {
  Builder b = pass_builder();
  const Expr x(b, b.input(tensor({3, 4}, DType::c64), "x")), w(b, b.input(tensor({4, 5}, DType::c64), "w"));
  const Trace after = divided(b.finish("f", b("torch.matmul", b("torch.conj", x * x) - x, w)));
  INFO(code(after));
  CHECK(count(code(after), "prims.view_as_complex(") == 1);
  CHECK(has(after, "ltorch.matmul("));
}

TEST_CASE("complex_parts: nothing to do") {
  Builder real = pass_builder();
  const Expr a(real, real.input(tensor({3}, DType::f32), "a"));
  const Trace none = real.finish("f", a * a);
  CHECK(divided(none).calls == none.calls);

  Builder one = pass_builder();  // a single operator between complex numbers
  const Expr x(one, one.input(tensor({3}, DType::c64), "x"));
  const Trace single = one.finish("f", x * x);
  CHECK(divided(single).calls == single.calls);
}

TEST_CASE("complex_parts: refused are operators without a rule, returned views, and what an executor wants") {
  Builder b = pass_builder();
  const Expr x(b, b.input(tensor({3}, DType::c64), "x"));
  const Trace product = b.finish("f", b("prims.real", b("prims.cumprod", x * 2.0, 0)));
  CHECK(divided(product).calls == product.calls);

  Builder v = pass_builder();
  const Expr y(v, v.input(tensor({3}, DType::c64), "y"));
  const Trace view = v.finish("f", v("prims.real", y * y * y));
  const Trace after = divided(view);
  CHECK(has(after, "prims.real("));
  CHECK(has(after, "prims.view_as_complex("));

  const Trace t = rotated();
  CHECK(divided(t, {test::implementing_executor("products", {"torch.mul"})}).calls == t.calls);
}

reference::Datum numbers(const TensorType& t, fuzz::Random& random) {
  reference::Array a;
  a.dtype = t.dtype;
  const auto number = [&] { return static_cast<double>(random.between(-8, 8)) / 4; };
  for (const Dim& d : t.shape) a.shape.push_back(d.constant());
  for (int64_t i = 0; i < t.numel().constant(); ++i)
    a.data.push_back(is_complex(t.dtype) ? reference::Element::complex({number(), number()})
                                         : reference::Element::real(number()));
  return reference::Datum(std::make_shared<reference::Array>(std::move(a)));
}

Expr grown(Builder& b, const Expr& x, const Expr& y, fuzz::Random& random) {
  switch (random.below(9)) {
    case 0: return x * y;
    case 1: return x + y;
    case 2: return x - y;
    case 3: return b("torch.conj", x);
    case 4: return -x;
    case 5: return b("torch.mul", x, std::complex<double>(0.5, -2));
    case 6: return b("torch.flip", x, Arg::list({0}));
    case 7: return b("torch.where", b("torch.gt", b("torch.real", y), 0.0), x, y);
    default: return b("torch.view_as_complex", b("torch.contiguous", b("torch.view_as_real", x) * 2.0));
  }
}

TEST_CASE("complex_parts: fuzz, the same numbers") {
  fuzz::Random random(1);
  for (int n = 0; n < 200; ++n) {
    const Dims shape = {random.between(1, 4), random.between(1, 5)};
    const DType part = random.below(2) ? DType::f32 : DType::f64;
    const TensorType pairs = tensor({shape[0], shape[1], 2}, part), whole = tensor(shape, complex_type_of(part));
    Builder b = pass_builder();
    std::vector<Expr> values = {b("torch.view_as_complex", b.input(pairs, "x")), Expr(b, b.input(whole, "w"))};
    for (int i = 0; i < 6; ++i)
      values.push_back(grown(b, values[random.below(values.size())], values[random.below(values.size())], random));
    const Expr z = values.back();
    const Trace t =
        b.finish("f", random.below(2) ? b("torch.view_as_real", z) * 1.0 : b("torch.sum", z, Arg::list({0})));
    const Trace after = divided(t);
    const std::vector<reference::Datum> inputs = {numbers(pairs, random), numbers(whole, random)};
    INFO(code(t));
    CHECK(reference::same_datum(reference::evaluate(t, inputs), reference::evaluate(after, inputs)));
  }
}

}  // namespace
}  // namespace thunder
