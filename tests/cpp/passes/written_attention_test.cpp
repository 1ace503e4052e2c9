#include "passes/written_attention.h"

#include <cmath>
#include <string>

#include "fuzz/random.h"
#include "passes/pass_ops.h"
#include "passes/passes.h"
#include "reference/evaluator.h"

namespace thunder {
namespace {

using test::code;
using test::f32;
using test::pass_builder;

bool takes_all(const Args&) { return true; }
bool takes_causal(const Args& a) { return a.flag("is_causal"); }

ExecutorList attention_executor(bool (*takes)(const Args&)) {
  auto e = std::make_shared<Executor>("attention");
  e->register_implementation("torch.scaled_dot_product_attention",
                             {.checker = [takes](const Call& c) { return takes(c.arguments()); },
                              .op = nullptr,
                              .transform = [](Builder&, const Args& a) { return Arg(a["query"]); },
                              .grad_transform = nullptr});
  return {e};
}

TensorType of(Dims shape, DType t = DType::f32) {
  TensorType out = f32(std::move(shape));
  out.dtype = t;
  return out;
}

constexpr int64_t kKeys = 160;

struct Program {
  explicit Program(DType t = DType::f32, int64_t keys = kKeys, int64_t rows = 6)
      : q{b, b.input(of({2, 3, rows, 8}, t), "q")},
        k{b, b.input(of({2, 3, keys, 8}, t), "k")},
        v{b, b.input(of({2, 3, keys, 8}, t), "v")},
        seen{b, b.input(of({2, 1, rows, keys}, DType::boolean), "seen")},
        bias{b, b.input(of({rows, keys}), "bias")} {}

  Builder b = pass_builder();
  Expr q, k, v, seen, bias;

  Expr scores() { return b("torch.mul", b("torch.matmul", q, b("torch.transpose", k, -2, -1)), 0.25); }
  Expr weighted(const Expr& scores) { return b("torch.matmul", b("torch.softmax.int", scores, -1), v); }
  Expr masked(double hidden) { return weighted(b("torch.where", seen, scores(), hidden)); }
  Trace trace(const Expr& result) { return b.finish("f", result.arg()); }

  std::string after(const Expr& result, const MaskReader& reader = {}, bool (*takes)(const Args&) = takes_all) {
    return code(dce(written_attention(trace(result), attention_executor(takes), reader)));
  }
  void stays(const Expr& result, const MaskReader& reader = {}, bool (*takes)(const Args&) = takes_all) {
    const Trace t = trace(result);
    CHECK(code(dce(written_attention(t, attention_executor(takes), reader))) == code(dce(t)));
  }
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("written_attention: products and a softmax are one call") {
  Program plain, masked;
  CHECK(has(plain.after(plain.weighted(plain.scores())),
            "ltorch.scaled_dot_product_attention(q, k, v, None, 0.0, False, scale=0.25)"));
  CHECK(has(masked.after(masked.masked(-HUGE_VAL)),
            "ltorch.scaled_dot_product_attention(q, k, v, seen, 0.0, False, scale=0.25)"));
}

TEST_CASE("written_attention: three dimensions are four") {
  Program p;
  auto flat = [&](const Expr& x) { return p.b("torch.reshape", x, Dims{Dim(6), x.shape()[2], Dim(8)}); };
  const Expr scores = p.b("torch.bmm", flat(p.q), p.b("torch.transpose", flat(p.k), 1, 2));
  const Expr weights = p.b("torch.softmax.int", p.b("torch.reshape", scores, Dims{2, 3, 6, kKeys}), -1);
  const Expr result = p.b("torch.bmm", p.b("torch.reshape", weights, Dims{6, 6, kKeys}), flat(p.v));
  CHECK(
      has(p.after(p.b("torch.reshape", result, Dims{2, 3, 6, 8})), "attention(q, k, v, None, 0.0, False, scale=1.0)"));
}

TEST_CASE("written_attention: rows that see nothing get a query of zeros") {
  Program p;
  const std::string text = p.after(p.masked(-1e9));
  INFO(text);
  CHECK(has(text, "ltorch.any(seen, [-1], True)"));
  CHECK(has(text, "ltorch.logical_or(seen, "));
  CHECK(!has(text, "matmul"));
}

TEST_CASE("written_attention: a known mask in which each row sees something") {
  for (bool see : {true, false}) {
    Program p;
    KnownMask kind = MaskKind::Other;
    kind.rows_see = see;
    const MaskReader reader{[&](const Trace&) { return kind; }, nullptr};
    const Expr i = p.b("torch.unsqueeze", p.b("torch.arange", 6), 1);
    const Expr mask = p.b("torch.where", p.b("torch.ge", i, p.b("torch.arange", kKeys)), 0.0, -1e30);
    const Expr result = p.weighted(p.b("torch.add", p.scores(), mask));
    CHECK(has(p.after(result, reader), "scaled_dot_product_attention") == see);
  }
}

TEST_CASE("written_attention: a mask that nobody may look at is not known") {
  Program p;
  const Expr mask = p.b("torch.full", Dims{6, kKeys}, -1e30);
  p.stays(p.weighted(p.b("torch.add", p.scores(), mask)));
}

TEST_CASE("written_attention: fixed inputs are known") {
  for (bool fixed : {true, false}) {
    Program p;
    int guards = 0;
    const MaskReader reader{[](const Trace&) { return MaskKind::Causal; },
                            [&](const Trace& mask, const KnownMask&) { guards += mask.inputs.size() == 1 ? 1 : 0; },
                            [&](Value v) { return fixed && v == p.bias.value(); }};
    const Expr result = p.weighted(p.b("torch.add", p.scores(), p.bias));
    CHECK(has(p.after(result, reader), "scaled_dot_product_attention") == fixed);
    CHECK(guards == (fixed ? 1 : 0));
  }
}

TEST_CASE("written_attention: refused") {
  Program any_bias, narrow(DType::bf16), no_executor, twice, returned, other_dim, capped, scaled;
  any_bias.stays(any_bias.weighted(any_bias.b("torch.add", any_bias.scores(), any_bias.bias)));
  narrow.stays(narrow.weighted(narrow.b("torch.where", narrow.seen, narrow.scores(), -100.0)));
  no_executor.stays(no_executor.weighted(no_executor.scores()), {}, takes_causal);
  const Expr weights = twice.b("torch.softmax.int", twice.scores(), -1);
  twice.stays(twice.b("torch.add", twice.b("torch.matmul", weights, twice.v), twice.b("torch.sum", weights)));
  const Expr scores = returned.scores();
  returned.stays(returned.b.expr(Arg::tuple({returned.weighted(scores).arg(), scores.arg()})));
  other_dim.stays(other_dim.b("torch.matmul", other_dim.b("torch.softmax.int", other_dim.scores(), 2), other_dim.v));
  capped.stays(capped.weighted(capped.b("torch.tanh", capped.scores())));
  scaled.stays(scaled.weighted(scaled.b("torch.mul", scaled.scores(), scaled.seen)));
}

TEST_CASE("written_attention: nothing to do") {
  Program short_one(DType::f32, 100), none, whole;
  short_one.stays(short_one.weighted(short_one.scores()));
  none.stays(none.scores());
  whole.stays(whole.b("torch.scaled_dot_product_attention", whole.q, whole.k, whole.v, whole.seen));
}

TEST_CASE("written_attention: the gradient that flows is the one that flowed") {
  Program p;
  const Expr k{p.b, p.b.input(
                        [] {
                          TensorType t = of({2, 3, kKeys, 8});
                          t.requires_grad = true;
                          return t;
                        }(),
                        "trained")};
  p.b.set_grad_enabled(false);
  const Expr scores = p.b("torch.matmul", p.q, p.b("torch.transpose", k, -2, -1));
  p.b.set_grad_enabled(true);
  const Trace after = written_attention(p.trace(p.weighted(scores)), attention_executor(takes_all));
  CHECK(has(code(after), "scaled_dot_product_attention(q, t"));  // not of the one that has a gradient
  CHECK(!after.output.value().requires_grad());
}

reference::Datum random_tensor(const TensorType& t, fuzz::Random& random) {
  reference::Array a;
  a.dtype = t.dtype;
  int64_t n = 1;
  for (const Dim& d : t.shape) {
    a.shape.push_back(d.constant());
    n *= d.constant();
  }
  for (int64_t i = 0; i < n; ++i) {
    const double x = static_cast<double>(random.between(-16, 16)) / 16;
    a.data.push_back(reference::Element::real(t.dtype == DType::boolean ? (x > 0.3 ? 1 : 0) : x));
  }
  return reference::Datum(std::make_shared<reference::Array>(std::move(a)));
}

bool near(const reference::Datum& a, const reference::Datum& b) {
  const auto &x = a.array->data, &y = b.array->data;
  for (size_t i = 0; i < x.size(); ++i)
    if (std::abs(x[i].re - y[i].re) > 1e-5) return false;
  return x.size() == y.size();
}

/// A program that writes attention out somehow, and is the same attention.
Expr written_somehow(Program& p, fuzz::Random& random) {
  Expr q = p.q, k = p.b("torch.transpose", p.k, -2, -1), v = p.v;
  if (random.chance(0.3)) q = p.b("torch.mul", q, 0.5);
  const bool flat = random.chance(0.5);
  const Dims rows = {6, q.shape()[2], 8};
  if (flat) {
    q = p.b("torch.reshape", q, rows);
    k = p.b("torch.reshape", k, Dims{6, 8, k.shape()[3]});
    v = p.b("torch.reshape", v, Dims{6, v.shape()[2], 8});
  }
  Expr scores = p.b("torch.matmul", q, k);
  if (random.chance(0.5)) scores = p.b("torch.div", scores, 2.0);
  if (flat) scores = p.b("torch.reshape", scores, Dims{2, 3, rows[1], kKeys});
  const double hidden = random.chance(0.5) ? -1e9 : -1e30;
  if (random.chance(0.5)) scores = p.b("torch.where", p.seen, scores, hidden);
  if (random.chance(0.3)) scores = p.b("torch.masked_fill", scores, p.b("torch.gt", p.bias, 0.9), hidden);
  Expr weights = p.b("torch.softmax.int", scores, -1);
  if (flat) weights = p.b("torch.reshape", weights, Dims{6, rows[1], kKeys});
  return p.b("torch.matmul", weights, v);
}

TEST_CASE("written_attention: fuzz: equal results") {
  fuzz::Random random(5);
  int changed = 0;
  for (int i = 0; i < 25; ++i) {
    Program p(DType::f32, kKeys, random.between(1, 3));
    const Trace t = p.trace(written_somehow(p, random));
    const Trace after = written_attention(t, attention_executor(takes_all));
    CHECK_NOTHROW(verify(after));
    changed += after.calls != t.calls;
    INFO(code(after));
    std::vector<reference::Datum> inputs;
    for (Value v : t.inputs) inputs.push_back(random_tensor(v.tensor(), random));
    CHECK(near(reference::evaluate(t, inputs), reference::evaluate(after, inputs)));
  }
  CHECK(changed > 20);
}

}  // namespace
}  // namespace thunder
