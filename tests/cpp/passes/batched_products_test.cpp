#include "passes/batched_products.h"

#include <string>

#include "fuzz/random.h"
#include "passes/pass_ops.h"
#include "passes/passes.h"
#include "reference/evaluator.h"

namespace thunder {
namespace {

using test::code;
using test::count;
using test::pass_builder;

TensorType tensor(Dims shape, DType dtype = DType::bf16, DeviceType device = DeviceType::cuda) {
  TensorType t = test::f32(std::move(shape));
  t.dtype = dtype;
  t.device = Device{device, static_cast<int16_t>(device == DeviceType::cuda ? 0 : -1)};
  return t;
}

Trace batched(const Trace& t, const AlignmentCosts& costs = {}, const ExecutorList& executors = {}) {
  size_t all = t.calls.size();
  const Trace out = batched_products(t, all, executors, costs);
  CHECK(all == out.calls.size());
  CHECK_NOTHROW(verify(out));
  return out;
}

bool has(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }

/// Windows of attention: many small products.
struct Program {
  Builder b = pass_builder();
  int64_t rows = 49;

  Expr computed(const TensorType& t, const char* name) { return b("torch.exp", b.input(t, name)); }
  // [windows, heads, rows, size] within [windows, rows, heads, size].
  Expr heads(const char* name, DType t = DType::bf16) {
    return b("torch.transpose", computed(tensor({4096, rows, 3, 32}, t), name), 1, 2);
  }
  Expr swapped(const Expr& x) { return b("torch.transpose", x, -2, -1); }
  std::string after(const Expr& result) { return code(batched(b.finish("f", result))); }
};

TEST_CASE("batched_products: operands that BLAS cannot read are copied by calls, and padded") {
  Program p;
  const Expr q = p.heads("q"), k = p.heads("k");
  const std::string text = p.after(p.b("torch.exp", p.b("torch.matmul", q, p.swapped(k))));
  INFO(text);
  CHECK(has(text, "prims.restride("));  // q
  CHECK(has(text, "prims.pad("));       // k, whose rows are the result's columns
  CHECK(has(text, "[[0, 0, 0], [0, 0, 0], [0, 7, 0], [0, 0, 0]]"));
  CHECK(count(text, "ltorch.bmm(") == 1);
  CHECK(has(text, "[4096, 3, 49, 49], [1, 1, 1, 1])"));  // a part of the wider result
  CHECK(!has(text, "ltorch.matmul"));
}

TEST_CASE("batched_products: aligned sizes, and those of 32 bits, are only copied") {
  Program aligned, wide;
  aligned.rows = 64;
  for (Program* p : {&aligned, &wide}) {
    const DType t = p == &wide ? DType::f32 : DType::bf16;
    const Expr q = p->heads("q", t), k = p->heads("k", t);
    const std::string text = p->after(p->b("torch.matmul", q, p->swapped(k)));
    INFO(text);
    CHECK(count(text, "prims.restride(") == 2);
    CHECK(!has(text, "prims.pad("));
  }
}

TEST_CASE("batched_products: one copy for all products that read a tensor, as it is or transposed") {
  Program p;
  const Expr q = p.heads("q"), k = p.heads("k");
  const Expr scores = p.b("torch.exp", p.b("torch.matmul", q, p.swapped(k)));
  const Expr back = p.b("torch.matmul", scores, p.swapped(p.swapped(k)));
  const Expr weights = p.b("torch.matmul", p.swapped(scores), q);
  const std::string text = p.after(Expr(p.b, Arg::tuple({back.arg(), weights.arg()})));
  INFO(text);
  CHECK(count(text, "prims.pad(") == 2);  // k, and what a kernel makes of the scores
  CHECK(count(text, "ltorch.bmm(") == 3);
  CHECK(count(text, "prims.restride(") == 3);  // q, and the parts of the padded results
}

TEST_CASE("batched_products: a result that is only read transposed is computed so") {
  for (bool both : {false, true}) {
    Program p;
    const Expr q = p.heads("q"), g = p.computed(tensor({4096, 3, 49, 56}), "g");
    const Expr out = p.b("torch.matmul", p.swapped(q), g);  // [32, 56]
    const Expr turned = p.b("torch.exp", p.swapped(out));
    const Trace t = batched(p.b.finish("f", Arg::tuple({turned.arg(), both ? out.arg() : turned.arg()})));
    INFO(code(t));
    for (const Call* c : t.calls)
      if (c->op->full_name == "torch.bmm")
        CHECK(same(c->output.value().shape(), both ? Dims{12288, 32, 56} : Dims{12288, 56, 32}));
    CHECK(has(code(t), "ltorch.bmm("));
  }
}

TEST_CASE("batched_products: nothing to do") {
  const auto stays = [](Program& p, const Expr& result) {
    const Trace t = p.b.finish("f", result);
    size_t all = t.calls.size();
    return batched_products(t, all, {}).calls == t.calls;
  };
  Program none, readable, broadcast, folded, on_cpu, small, empty;
  CHECK(stays(none, none.b("torch.mul", none.computed(tensor({8, 8}), "x"), 2)));
  CHECK(stays(readable, readable.b("torch.matmul", readable.computed(tensor({8, 3, 64, 32}), "x"),
                                   readable.swapped(readable.computed(tensor({8, 3, 64, 32}), "y")))));
  CHECK(stays(broadcast, broadcast.b("torch.matmul", broadcast.computed(tensor({8, 3, 64, 32}), "x"),
                                     broadcast.computed(tensor({1, 1, 32, 64}), "y"))));
  CHECK(stays(folded, folded.b("torch.matmul", folded.heads("x"), folded.computed(tensor({32, 49}), "y"))));
  const Expr x(on_cpu.b, on_cpu.b.input(tensor({8, 49, 3, 32}, DType::bf16, DeviceType::cpu), "x"));
  const Expr y = on_cpu.b("torch.transpose", x, 1, 2);
  CHECK(stays(on_cpu, on_cpu.b("torch.matmul", y, on_cpu.swapped(y))));
  // Uneven, but read as it is: a kernel's launch is not worth it.
  CHECK(stays(small, small.b("torch.matmul", small.computed(tensor({2, 7, 32}), "x"),
                             small.computed(tensor({2, 32, 7}), "y"))));
  CHECK(stays(empty,
              empty.b("torch.matmul", empty.computed(tensor({2, 7, 0}), "x"), empty.computed(tensor({2, 0, 7}), "y"))));
}

TEST_CASE("batched_products: what is read as it is, is copied to be aligned only where that pays") {
  const auto pads = [](int64_t windows, bool computed) {
    Program p;
    const TensorType t = tensor({windows, 49, 49});
    const Expr a = computed ? p.computed(t, "a") : Expr(p.b, p.b.input(t, "a"));
    return has(p.after(p.b("torch.matmul", a, p.computed(tensor({windows, 49, 32}), "v"))), "prims.pad(");
  };
  CHECK(pads(8192, true));
  CHECK(!pads(16, true));
  const AlignmentCosts defaults;
  REQUIRE(2 * defaults.byte < defaults.batch_byte * 2);
  CHECK(pads(8192, false) == (8192.0 * 49 * (49 + 32 + 32) * 2 * defaults.batch_byte >
                              2 * 8192.0 * 49 * 49 * 2 * defaults.byte + 2 * defaults.launch));
}

std::shared_ptr<Executor> taking(const std::string& symbol) {
  auto e = std::make_shared<Executor>("taking");
  Implementation i;
  i.transform = [](Builder&, const Args& a) { return Arg(a.list()[0]); };
  e->register_implementation(symbol, i);
  return e;
}

TEST_CASE("batched_products: a composite that holds a product is opened, unless an executor takes it") {
  const auto text = [](const ExecutorList& executors) {
    Program p;
    const Expr q = p.heads("q"), k = p.heads("k");
    const Expr sum = p.b("torch.baddbmm", p.computed(tensor({192, 49, 49}), "s"),
                         p.computed(tensor({192, 49, 32}), "x"), p.computed(tensor({192, 32, 49}), "y"));
    const Expr product = p.b("torch.einsum", Arg("bhqd,bhkd->bhqk"), Arg::list({q.arg(), k.arg()}));
    return code(batched(p.b.finish("f", Arg::tuple({product.arg(), sum.arg()})), {}, executors));
  };
  CHECK(!has(text({}), "einsum"));
  CHECK(has(text({}), "ltorch.bmm("));
  CHECK(has(text({taking("torch.einsum")}), "einsum"));
}

TEST_CASE("batched_products: the boundary is where the forward ends, and dead code is gone") {
  Program p;
  const Expr q = p.heads("q"), k = p.heads("k");
  const Expr scores = p.b("torch.matmul", q, p.swapped(k));
  size_t boundary = p.b.calls().size();
  const Trace t = p.b.finish("f", p.b("torch.exp", scores));
  const Trace out = batched_products(t, boundary, {});
  REQUIRE(boundary + 1 == out.calls.size());
  CHECK(out.calls[boundary]->op->full_name == "torch.exp");
  CHECK(code(out) == code(dce(out)));
}

reference::Datum random_tensor(const Dims& shape, fuzz::Random& random) {
  reference::Array a;
  a.dtype = DType::bf16;
  int64_t n = 1;
  for (const Dim& d : shape) {
    a.shape.push_back(d.constant());
    n *= d.constant();
  }
  for (int64_t i = 0; i < n; ++i)
    a.data.push_back(reference::Element::real(static_cast<double>(random.between(-16, 16)) / 16));
  return reference::Datum(std::make_shared<reference::Array>(std::move(a)));
}

/// A tensor of [..., rows, columns] whose dimensions lie in memory in some order.
struct Shuffled {
  Dims stored;
  std::vector<int64_t> order;
};

Shuffled shuffled(const Dims& shape, fuzz::Random& random) {
  Shuffled out;
  std::vector<int64_t> left(shape.size());
  for (size_t i = 0; i < left.size(); ++i) left[i] = static_cast<int64_t>(i);
  out.order.resize(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) {
    const size_t at = static_cast<size_t>(random.below(static_cast<int64_t>(left.size())));
    out.order[static_cast<size_t>(left[at])] = static_cast<int64_t>(i);
    out.stored.push_back(shape[static_cast<size_t>(left[at])]);
    left.erase(left.begin() + static_cast<ptrdiff_t>(at));
  }
  return out;
}

TEST_CASE("batched_products: fuzz: equal results") {
  fuzz::Random random(11);
  int changed = 0;
  for (int i = 0; i < 200; ++i) {
    const int64_t rows = random.between(1, 10), terms = random.between(1, 10), columns = random.between(1, 10);
    const int64_t batch = random.between(1, 3), heads = random.between(1, 3);
    const auto one_or = [&](int64_t n) { return random.chance(0.2) ? int64_t{1} : n; };
    const Shuffled a = shuffled({one_or(batch), heads, rows, terms}, random),
                   b = shuffled({batch, one_or(heads), terms, columns}, random);
    Program p;
    const auto operand = [&](const Shuffled& s, const char* name) {
      Expr x(p.b, p.b.input(tensor(s.stored), name));
      if (random.chance(0.5)) x = p.b("torch.neg", x);
      return p.b("torch.permute", x, Arg(s.order));
    };
    const Expr x = operand(a, "x"), y = operand(b, "y");
    Expr out = p.b("torch.matmul", x, y);
    if (random.chance(0.5)) out = p.b("torch.abs", p.swapped(out));
    else if (random.chance(0.5)) out = p.b("torch.matmul", out, p.swapped(y));
    const Trace t = p.b.finish("f", out),
                after =
                    batched(t, {.operation = 1, .batch_byte = 1, .byte = random.chance(0.5) ? 0.0 : 1e3, .launch = 0});
    changed += after.calls != t.calls;
    INFO(code(after));
    const std::vector<reference::Datum> inputs = {random_tensor(a.stored, random), random_tensor(b.stored, random)};
    CHECK(reference::same_datum(reference::evaluate(t, inputs), reference::evaluate(after, inputs)));
  }
  CHECK(changed > 100);
}

}  // namespace
}  // namespace thunder
