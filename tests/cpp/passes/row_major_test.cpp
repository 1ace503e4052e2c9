#include "passes/row_major.h"

#include <string>

#include "fuzz/random.h"
#include "passes/pass_ops.h"
#include "passes/passes.h"
#include "passes/visit.h"
#include "reference/evaluator.h"

namespace thunder {
namespace {

using test::code;
using test::count;
using test::f32;
using test::pass_builder;

const Dims kRows = {2, 5, 4};

TensorType permuted() {
  TensorType t = f32(kRows);
  t.strides = {20, 1, 5};
  return t;
}

struct Program {
  Builder b = pass_builder();
  Expr x{b, b.input(permuted(), "x")}, places{b, b.input(f32({5, 4}), "places")};
  Expr sum = b("torch.add", x, places);

  Expr norm(const Expr& of) { return b("torch.layer_norm", of, Dims{4}); }
  Trace after(const Expr& result) {
    const Trace before = b.finish("f", result), out = row_major(before);
    CHECK_NOTHROW(verify(out));
    // Results have the strides that they had.
    std::vector<Value> was, is;
    visit_values(before.output, [&](Value v) { was.push_back(v); });
    visit_values(out.output, [&](Value v) { is.push_back(v); });
    REQUIRE(was.size() == is.size());
    for (size_t i = 0; i < was.size(); ++i) CHECK(same(was[i].tensor().strides, is[i].tensor().strides));
    return dce(out);
  }
};

TEST_CASE("row_major: nothing to do") {
  Program p;
  const Trace sum = p.b.finish("f", p.sum);
  CHECK(row_major(sum).calls == sum.calls);  // nobody walks along its rows
  Program q;
  const Trace rows = q.b.finish("f", q.norm(q.b("torch.add", q.places, q.places)));
  CHECK(row_major(rows).calls == rows.calls);
}

TEST_CASE("row_major: a permuted sum, and the sums behind it") {
  Program p;
  const Expr next = p.b("torch.add", p.sum, p.norm(p.sum)), last = p.norm(next);
  const Trace t = p.after(last);
  const std::string text = code(t);
  INFO(text);
  CHECK(count(text, "prims.restride(") == 1);
  CHECK(is_contiguous(t.calls.back()->output.value().tensor()));
}

TEST_CASE("row_major: a result of the program gets its strides back") {
  Program p;
  const Expr next = p.b("torch.add", p.sum, p.norm(p.sum));
  const std::string text = code(p.after(Expr(p.b, Arg::tuple({p.norm(next).arg(), next.arg()}))));
  INFO(text);
  CHECK(count(text, "prims.restride(") == 2);
}

TEST_CASE("row_major: what depends on the layout reads the value as it was") {
  Program p;
  const Expr noise = p.b("torch.rand_like", p.sum), strided = p.b("torch.as_strided", p.sum, Dims{4}, Dims{1}, 0);
  const Trace t = p.after(Expr(p.b, Arg::tuple({p.norm(p.sum).arg(), noise.arg(), strided.arg()})));
  for (const Call* c : t.calls)
    if (c->op->full_name == "torch.rand_like" || c->op->full_name == "torch.as_strided")
      CHECK(same(c->args[0].value().tensor().strides, permuted().strides));
}

TEST_CASE("row_major: a view that only the old layout has") {
  Program p;
  const Expr flat = p.b("torch.view", p.b("torch.transpose", p.sum, 1, 2), Dims{2, -1});
  const Trace t = p.after(Expr(p.b, Arg::tuple({p.norm(p.sum).arg(), p.b("torch.exp", flat).arg()})));
  CHECK(count(code(t), "ltorch.view(") == 1);
}

TEST_CASE("row_major: refused without an operand in rows") {
  Program p;
  const Trace t = p.b.finish("f", p.norm(p.b("torch.mul", p.x, p.x)));
  CHECK(row_major(t).calls == t.calls);
}

TEST_CASE("row_major: fuzz: equal results with equal strides") {
  fuzz::Random random(3);
  const std::vector<std::string> binary = {"torch.add", "torch.mul", "torch.maximum"};
  for (int i = 0; i < 200; ++i) {
    Program p;
    std::vector<Expr> values = {p.sum, p.x};
    for (int n = static_cast<int>(random.between(1, 8)); n > 0; --n) {
      const Expr a = random.pick(values), b = random.pick(values);
      switch (random.below(5)) {
        case 0: values.push_back(p.norm(a)); break;
        case 1: values.push_back(p.b("torch.transpose", p.b("torch.transpose", a, 1, 2), 1, 2)); break;
        case 2: values.push_back(p.b("torch.reshape", p.b("torch.reshape", a, Dims{10, 4}), kRows)); break;
        default: values.push_back(p.b(random.pick(binary), a, b));
      }
    }
    const Trace before = p.b.finish("f", Expr(p.b, Arg::tuple({values.back().arg(), random.pick(values).arg()})));
    const Trace after = row_major(before);
    INFO(code(after));
    CHECK_NOTHROW(verify(after));
    std::vector<reference::Datum> inputs;
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{2, 5, 4}, std::vector<int64_t>{5, 4}}) {
      reference::Array a;
      a.dtype = DType::f32;
      a.shape = shape;
      for (int n = 0; n < (shape.size() == 3 ? 40 : 20); ++n)
        a.data.push_back(reference::Element::real(static_cast<double>(random.between(-8, 8)) / 4));
      inputs.emplace_back(std::make_shared<reference::Array>(std::move(a)));
    }
    CHECK(reference::same_datum(reference::evaluate(before, inputs), reference::evaluate(after, inputs)));
  }
}

TEST_CASE("row_major: a permuted value that a GPU broadcasts over many rows is written by rows, and nothing else") {
  const auto copies = [](DeviceType device, int64_t batch, bool is_permuted) {
    Builder b = pass_builder();
    const auto on_device = [&](TensorType t) {
      t.device = device == DeviceType::cuda ? Device{DeviceType::cuda, 0} : Device{};
      return t;
    };
    const Expr x(b, b.input(on_device(f32({batch, 6, 7, 7})), "x"));
    const Expr table(b, b.input(on_device(is_permuted ? f32({7, 7, 6}) : f32({6, 7, 7})), "table"));
    const Expr bias = is_permuted ? b("torch.permute", table, std::vector<int64_t>{2, 0, 1}) : table;
    const Trace before = b.finish("f", b("torch.add", x, bias)), out = row_major(before);
    CHECK_NOTHROW(verify(out));
    CHECK(same(out.output.value().tensor().strides, before.output.value().tensor().strides));
    return count(code(out), "prims.restride(");
  };
  CHECK(copies(DeviceType::cuda, 64, true) == 1);
  CHECK(copies(DeviceType::cuda, 63, true) == 0);
  CHECK(copies(DeviceType::cuda, 64, false) == 0);
  CHECK(copies(DeviceType::cpu, 64, true) == 0);
}

}  // namespace
}  // namespace thunder
