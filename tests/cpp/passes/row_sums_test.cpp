#include "passes/row_sums.h"

#include <string>
#include <vector>

#include "core/parse.h"
#include "fuzz/random.h"
#include "passes/pass_ops.h"
#include "passes/passes.h"
#include "reference/evaluator.h"

namespace thunder {
namespace {

using test::code;

// x is added to the rows of z at i; j takes rows of y.
Trace program(const std::string& body) {
  ops::register_all();
  return parse(
      "import torch\nimport thunder.core.prims as prims\nimport thunder.torch as ltorch\n\ndef f(x, y, i, j, m):\n"
      "  # x: \"cpu f32[12, 8]\"\n  # y: \"cpu f32[5, 8]\"\n  # i: \"cpu i64[12]\"\n  # j: \"cpu i64[12]\"\n"
      "  # m: \"cpu f32[12]\"\n" +
      body);
}

// With composites, which the parser takes with their bodies only.
template <class F>
Trace built(F&& body) {
  ops::register_all();
  Builder b(std::make_shared<Arena>());
  const auto input = [&](DType t, Dims shape) {
    TensorType type;
    type.dtype = t;
    type.strides = contiguous_strides(shape);
    type.shape = std::move(shape);
    return b.expr(b.input(type));
  };
  const Expr x = input(DType::f32, {12, 8}), y = input(DType::f32, {5, 8}), i = input(DType::i64, {12});
  input(DType::i64, {12});
  input(DType::f32, {12});
  return b.finish("f", body(b, x, y, i));
}

std::shared_ptr<Executor> taking_sums() {
  auto e = std::make_shared<Executor>("sums");
  Implementation i;
  i.op = Registry::instance().find("prims.segment_sum");
  e->register_implementation("prims.segment_sum", std::move(i));
  return e;
}

Trace after(const Trace& t, RowSumOptions options = {}) {
  size_t boundary = t.calls.size();
  Trace out = row_sums(t, {taking_sums()}, boundary, options);
  CHECK(boundary == out.calls.size());
  CHECK_NOTHROW(verify(out));
  return dce(out);
}

size_t count(const Trace& t, const std::string& name) { return test::count(code(t), name); }

template <class F>
reference::Datum array(DType dtype, reference::Shape shape, F&& element) {
  reference::ArrayPtr a = reference::make_array(dtype, Device{}, std::move(shape));
  for (reference::Element& e : a->data) e = element();
  return reference::Datum(a);
}

// Small integers, whose sums are exact in any order.
std::vector<reference::Datum> inputs(fuzz::Random& random) {
  auto number = [&] { return reference::Element::real(static_cast<double>(random.between(-8, 8))); };
  auto row = [&] { return reference::Element::integer(random.below(5)); };
  return {array(DType::f32, {12, 8}, number), array(DType::f32, {5, 8}, number), array(DType::i64, {12}, row),
          array(DType::i64, {12}, row), array(DType::f32, {12}, number)};
}

bool close(const reference::Datum& a, const reference::Datum& b) {
  const std::vector<reference::Datum> xs = reference::leaves(a), ys = reference::leaves(b);
  for (size_t n = 0; n < xs.size(); ++n)
    for (size_t k = 0; k < xs[n].array->data.size(); ++k)
      if (std::abs(xs[n].array->data[k].re - ys[n].array->data[k].re) > 1e-5) return false;
  return xs.size() == ys.size();
}

const std::string kZeros =
    "  z = prims.full([5, 8], 0, dtype=torch.float32, device=torch.device('cpu'))  # z: \"cpu f32[5, 8]\"\n";
const std::string kWide =
    "  w0 = prims.view(i, [12, 1])  # w0: \"cpu i64[12, 1]\"\n"
    "  w = prims.broadcast_in_dim(w0, [12, 8], [0, 1])  # w: \"cpu i64[12, 8] strides=(1, 0)\"\n";
const std::string kReturn = "  return t\n";
std::string made(const std::string& call) { return "  t = " + call + "  # t: \"cpu f32[5, 8]\"\n"; }

TEST_CASE("row_sums: each form, the same numbers") {
  const std::vector<std::string> forms = {
      kZeros + made("prims.index_add(z, 0, i, x)"),
      made("prims.index_add(y, 0, i, x)"),
      kZeros + kWide + made("prims.scatter_add(z, 0, w, x)"),
      kWide + made("prims.scatter_reduce(y, 0, w, x, 'sum', True)"),
      kWide + made("prims.scatter_reduce(y, 0, w, x, 'sum', False)"),
      kWide + made("prims.scatter_reduce(y, 0, w, x, 'mean', True)"),
      kWide + made("prims.scatter_reduce(y, 0, w, x, 'mean', False)"),
      kZeros + "  k = prims.sub(i, 5)  # k: \"cpu i64[12]\"\n" + made("prims.index_put(z, [k], x, True)"),
  };
  std::vector<Trace> programs;
  for (const std::string& form : forms) programs.push_back(program(form + kReturn));
  programs.push_back(built([](Builder& b, const Expr& x, const Expr& y, const Expr& i) {
    return b("torch.index_add", b("torch.zeros_like", y), 0, i, x, kw("alpha", 3));
  }));
  for (int padding : {-1, 3})
    for (bool by_frequency : {false, true})
      programs.push_back(built([&](Builder& b, const Expr& x, const Expr&, const Expr& i) {
        return b("torch.embedding_backward", x, i, 5, padding, by_frequency, false);
      }));
  fuzz::Random random(1);
  for (const Trace& t : programs) {
    const Trace out = after(t);
    INFO(code(out));
    CHECK(count(out, "prims.group_index(") == 1);
    CHECK(count(out, "prims.segment_sum(") == 1);
    for (int n = 0; n < 20; ++n) {
      const std::vector<reference::Datum> in = inputs(random);
      CHECK(close(reference::evaluate(out, in), reference::evaluate(t, in)));
    }
  }
}

TEST_CASE("row_sums: several indices and dimensions that are none") {
  const Trace t = program(
      "  z = prims.full([8, 5, 5, 2], 0, dtype=torch.float32, device=torch.device('cpu'))  # z: \"cpu f32[8, 5, 5, "
      "2]\"\n"
      "  r = prims.view(x, [8, 12, 1])  # r: \"cpu f32[8, 12, 1]\"\n"
      "  s = prims.cat([r, r], 2)  # s: \"cpu f32[8, 12, 2]\"\n"
      "  t = prims.index_put(z, [None, i, j], s, True)  # t: \"cpu f32[8, 5, 5, 2]\"\n  return t\n");
  const Trace out = after(t);
  CHECK(count(out, "prims.segment_sum(") == 1);
  fuzz::Random random(2);
  for (int n = 0; n < 20; ++n) {
    const std::vector<reference::Datum> in = inputs(random);
    CHECK(close(reference::evaluate(out, in), reference::evaluate(t, in)));
  }
}

TEST_CASE("row_sums: an index is grouped once, rows are read where they are, equal entries are counted") {
  const Trace t = program(
      kZeros + kWide +
      "  a = prims.take(y, j, 0)  # a: \"cpu f32[12, 8]\"\n  b = prims.index_add(z, 0, i, a)  # b: \"cpu f32[5, 8]\"\n"
      "  j1 = prims.view(j, [12, 1])  # j1: \"cpu i64[12, 1]\"\n"
      "  j2 = prims.broadcast_in_dim(j1, [12, 8], [0, 1])  # j2: \"cpu i64[12, 8] strides=(1, 0)\"\n"
      "  c = prims.take_along_axis(b, j2, 0)  # c: \"cpu f32[12, 8]\"\n"
      "  d = prims.scatter_add(z, 0, w, c)  # d: \"cpu f32[5, 8]\"\n"
      "  o = prims.full([12], 2.0, dtype=torch.float32, device=torch.device('cpu'))  # o: \"cpu f32[12]\"\n"
      "  e = prims.full([5], 0, dtype=torch.float32, device=torch.device('cpu'))  # e: \"cpu f32[5]\"\n"
      "  n = prims.index_add(e, 0, i, o)  # n: \"cpu f32[5]\"\n"
      "  s = prims.index_add(e, 0, i, m)  # s: \"cpu f32[5]\"\n  return (b, d, n, s)\n");
  const Trace out = after(t);
  INFO(code(out));
  CHECK(count(out, "prims.group_index(") == 1);
  CHECK(count(out, "prims.segment_sum(") == 3);
  CHECK(count(out, "prims.take(j") == 1);
  CHECK(count(out, "prims.take(y") == 0);
  CHECK(count(out, "prims.take_along_axis(") == 0);
  CHECK(count(out, "index_add(") == 0);
  fuzz::Random random(3);
  for (int n = 0; n < 20; ++n) {
    const std::vector<reference::Datum> in = inputs(random);
    CHECK(close(reference::evaluate(out, in), reference::evaluate(t, in)));
  }
}

TEST_CASE("row_sums: the boundary between two parts of a trace stays where it was") {
  const Trace t = program(kZeros +
                          "  a = prims.index_add(z, 0, i, x)  # a: \"cpu f32[5, 8]\"\n"
                          "  b = prims.exp(a)  # b: \"cpu f32[5, 8]\"\n" +
                          made("prims.index_add(b, 0, i, x)") + kReturn);
  size_t boundary = 3;
  const Trace out = row_sums(t, {taking_sums()}, boundary);
  REQUIRE(boundary < out.calls.size());
  CHECK(out.calls[boundary - 1]->op->full_name == "prims.exp");
}

TEST_CASE("row_sums: left alone") {
  auto left = [](const std::string& body, RowSumOptions options = {}) {
    const Trace t = program(body + kReturn), out = after(t, options);
    INFO(code(out));
    CHECK(count(out, "prims.segment_sum(") == 0);
  };
  // Each element has a row of its own.
  left(kZeros +
       "  w = prims.full([12, 8], 1, dtype=torch.int64, device=torch.device('cpu'))  # w: \"cpu i64[12, 8]\"\n" +
       made("prims.scatter_add(z, 0, w, x)"));
  left(kZeros + kWide + made("prims.scatter_reduce(z, 0, w, x, 'amax', True)"));
  left(kZeros + made("prims.index_put(z, [i], x, False)"));
  // One number a row.
  left(
      "  z = prims.full([5], 0, dtype=torch.float32, device=torch.device('cpu'))  # z: \"cpu f32[5]\"\n"
      "  t = prims.index_add(z, 0, i, m)  # t: \"cpu f32[5]\"\n");
  // Many rows, few of which change.
  left(
      "  b = prims.broadcast_in_dim(m, [100, 12], [1])  # b: \"cpu f32[100, 12] strides=(0, 1)\"\n"
      "  s = prims.transpose(x, [1, 0])  # s: \"cpu f32[8, 12] strides=(1, 8)\"\n"
      "  k = prims.slice(i, [0], [8], [1])  # k: \"cpu i64[8]\"\n"
      "  t = prims.index_add(b, 0, k, s)  # t: \"cpu f32[100, 12]\"\n");
  const std::string half =
      "  z = prims.full([5, 8], 0, dtype=torch.bfloat16, device=torch.device('cpu'))  # z: \"cpu bf16[5, 8]\"\n"
      "  h = prims.convert_element_type(x, torch.bfloat16)  # h: \"cpu bf16[12, 8]\"\n"
      "  t = prims.index_add(z, 0, i, h)  # t: \"cpu bf16[5, 8]\"\n";
  left(half, {.eager_numerics = true});
  CHECK(count(after(program(half + kReturn)), "prims.segment_sum(") == 1);
}

TEST_CASE("row_sums: an executor that takes the operator whole keeps it") {
  const Trace t = built([](Builder& b, const Expr& x, const Expr& y, const Expr& i) {
    return b("torch.index_add", b("torch.zeros_like", y), 0, i, x);
  });
  auto whole = std::make_shared<Executor>("whole");
  Implementation i;
  i.op = Registry::instance().find("torch.index_add");
  whole->register_implementation("torch.index_add", std::move(i));
  size_t boundary = t.calls.size();
  CHECK(row_sums(t, {whole, taking_sums()}, boundary).calls == t.calls);
  CHECK(row_sums(t, {}, boundary).calls == t.calls);
  CHECK(row_sums(t, {taking_sums(), whole}, boundary).calls != t.calls);
}

TEST_CASE("row_sums: an index that wraps is the one that does not where the program has both") {
  for (const bool both : {true, false}) {
    Builder b = test::pass_builder();
    TensorType index = test::f32({400});
    index.dtype = DType::i64;
    const Value i = b.input(index, "i");
    const Value x = b.input(test::f32({400, 16}), "x"), z = b.input(test::f32({50, 16}), "z");
    const Expr put = b("prims.index_put", z, Arg::list({Arg(i)}), x, true);
    const Expr added = both ? b("prims.index_add", z, 0, i, x) : put;
    const Trace out = after(b.finish("f", b("prims.add", put, added)));
    INFO(code(out));
    CHECK(count(out, "prims.group_index(") == 1);
    CHECK(count(out, "torch.where(") == (both ? 0 : 1));
  }
}

TEST_CASE("row_sums: on a GPU a narrow index_put of few rows is a sum by rows, too, since PyTorch sorts its index") {
  const auto sums = [](int64_t rows, bool puts) {
    Builder b = test::pass_builder();
    const auto on_gpu = [](TensorType t, DType dtype) {
      t.device = Device{DeviceType::cuda, 0};
      t.dtype = dtype;
      return t;
    };
    const Value i = b.input(on_gpu(test::f32({400}), DType::i64), "i");
    const Value x = b.input(on_gpu(test::f32({400, 6}), DType::f32), "x");
    const Arg z = b("prims.full", Dims{rows, 6}, 0, kw("dtype", DType::f32), kw("device", Device{DeviceType::cuda, 0}));
    const Expr sum = puts ? b("prims.index_put", z, Arg::list({Arg(i)}), x, true) : b("prims.index_add", z, 0, i, x);
    return count(after(b.finish("f", sum)), "prims.segment_sum(");
  };
  CHECK(sums(50, true) == 1);
  CHECK(sums(1601, true) == 0);
  CHECK(sums(50, false) == 0);
}

}  // namespace
}  // namespace thunder
