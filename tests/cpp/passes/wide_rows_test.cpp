#include "passes/wide_rows.h"

#include <string>

#include "core/parse.h"
#include "fuzz/random.h"
#include "ops/families.h"
#include "passes/pass_ops.h"
#include "passes/passes.h"
#include "reference/evaluator.h"

namespace thunder {
namespace {

using test::code;
using test::pass_builder;

TensorType tensor(Dims shape, DType dtype = DType::f32, DeviceType device = DeviceType::cuda) {
  TensorType t = test::f32(std::move(shape));
  t.dtype = dtype;
  t.device = Device{device, static_cast<int16_t>(device == DeviceType::cuda ? 0 : -1)};
  return t;
}

bool has(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }

/// Rows of 5 within rows of 8, of primitives.
struct Program {
  Builder b = pass_builder();
  DeviceType device = DeviceType::cuda;
  Expr wide{b, b.input(tensor({2, 3, 8}), "wide")};
  Expr bias{b, b.input(tensor({3, 5}), "bias")};

  Expr part() {
    return b("prims.restride", b("prims.slice", wide, Dims{0, 0, 0}, Dims{2, 3, 5}, Dims{1, 1, 1}), Dims{15, 5, 1});
  }
  Expr spread(const Expr& row) { return b("prims.broadcast_in_dim", row, Dims{2, 3, 5}, Arg::list({0, 1})); }
  Expr reduced(const char* op, const Expr& x) { return b(op, x, Arg::list({2})); }
  Expr padded(const Expr& x) {
    ArgList config(3, Dims{0, 0, 0});
    config.back() = Dims{0, 3, 0};
    return b("prims.pad", x, 0, Arg::list(config));
  }
  Expr biased(const Expr& x) {
    return b("prims.add", x, b("prims.broadcast_in_dim", bias, Dims{2, 3, 5}, Arg::list({1, 2})));
  }
  Expr softmax(const Expr& x) {
    const Expr e = b("prims.exp", b("prims.sub", x, spread(reduced("prims.amax", x))));
    return b("prims.div", e, spread(reduced("prims.sum", e)));
  }
};

Trace widened(const Trace& t) {
  size_t all = t.calls.size();
  const Trace out = wide_rows(t, all);
  CHECK(all == out.calls.size());
  CHECK_NOTHROW(verify(out));
  return out;
}

reference::Datum numbers(const Dims& shape, uint64_t seed) {
  fuzz::Random random(seed);
  reference::Array a;
  a.dtype = DType::f32;
  int64_t n = 1;
  for (const Dim& d : shape) {
    a.shape.push_back(d.constant());
    n *= d.constant();
  }
  for (int64_t i = 0; i < n; ++i)
    a.data.push_back(reference::Element::real(static_cast<double>(random.between(-40, 40)) / 16));
  return reference::Datum(std::make_shared<reference::Array>(std::move(a)));
}

void check_equal(const Trace& t, const Trace& after) {
  const std::vector<reference::Datum> inputs = {numbers({2, 3, 8}, 1), numbers({3, 5}, 2)};
  CHECK(reference::same_datum(reference::evaluate(t, inputs), reference::evaluate(after, inputs)));
}

TEST_CASE("wide_rows: a softmax that is padded again is computed in the rows that it comes in") {
  Program p;
  const Trace t = p.b.finish("f", p.padded(p.softmax(p.biased(p.part()))));
  const Trace after = widened(t);
  const std::string text = code(after);
  INFO(text);
  CHECK(!has(text, "prims.slice("));
  CHECK(has(text, "prims.where("));
  CHECK(has(text, "prims.pad(bias, 0, [[0, 0, 0], [0, 3, 0]])"));  // of the small operand
  CHECK(has(text, "[2, 3, 8]"));
  CHECK(!has(text, "[2, 3, 5]"));
  check_equal(t, after);
}

TEST_CASE("wide_rows: a maximum and the sum of what is left below it leave out the same, once") {
  Program p;
  const Trace t = p.b.finish("f", p.padded(p.softmax(p.part())));
  const std::string text = code(widened(t));
  INFO(text);
  size_t choices = 0;
  for (size_t at = text.find("prims.where("); at != std::string::npos; at = text.find("prims.where(", at + 1))
    ++choices;
  CHECK(choices == 2);  // the maximum's operand, and the padded result
  // Of another number than the row's own maximum the end may be anything.
  Program q;
  const Expr x = q.part(), top = q.reduced("prims.amax", q.biased(q.part())), own = q.reduced("prims.amax", x);
  const Expr e = q.b("prims.exp", q.b("prims.sub", x, q.spread(top)));
  const Expr sum = q.spread(q.b("prims.add", q.reduced("prims.sum", e), own));
  const Trace other = q.b.finish("f", q.padded(q.b("prims.div", e, sum)));
  choices = 0;
  const std::string four = code(widened(other));
  for (size_t at = four.find("prims.where("); at != std::string::npos; at = four.find("prims.where(", at + 1))
    ++choices;
  CHECK(choices == 4);
  check_equal(other, widened(other));
}

TEST_CASE("wide_rows: others read the part that they did") {
  Program p;
  const Expr s = p.softmax(p.part());
  const Trace t =
      p.b.finish("f", Arg::tuple({p.padded(s).arg(), p.b("prims.neg", s).arg(), p.reduced("prims.amax", s).arg()}));
  const Trace after = widened(t);
  CHECK(has(code(after), "prims.slice("));
  for (size_t i = 0; i < 3; ++i) CHECK(after.output.items()[i].value().type().same(t.output.items()[i].value().type()));
  check_equal(t, after);
}

TEST_CASE("wide_rows: a sum of rows is one of wide rows") {
  Program p;
  const Expr s = p.softmax(p.part());
  const Trace t = p.b.finish("f", Arg::tuple({p.padded(s).arg(), p.b("prims.sum", s, Arg::list({0})).arg()}));
  const Trace after = widened(t);
  INFO(code(after));
  CHECK(has(code(after), "[0, 0], [3, 5], [1, 1])"));
  check_equal(t, after);
}

TEST_CASE("wide_rows: what was reduced before is read as it is") {
  Program p;
  const Expr x = p.part(), top = p.reduced("prims.amax", x);
  const Expr y = p.b("prims.neg", p.padded(p.b("prims.sub", p.biased(x), p.spread(top))));
  const Expr z = p.padded(p.softmax(p.b("prims.mul", p.part(), x)));
  const Trace t = p.b.finish("f", Arg::tuple({y.arg(), z.arg(), top.arg()}));
  check_equal(t, widened(t));
}

TEST_CASE("wide_rows: through views that keep rows, and views within composites") {
  Program p;
  const Expr x = p.b("prims.view", p.part(), Dims{6, 5});
  const Expr y = p.b("torch.unsqueeze", p.b("prims.neg", x), 0);
  const Expr z = p.b("prims.view", y, Dims{2, 3, 5});
  const Trace t = p.b.finish("f", p.padded(p.softmax(z)));
  const Trace after = widened(t);
  INFO(code(after));
  CHECK(!has(code(after), "prims.slice("));
  check_equal(t, after);
}

TEST_CASE("wide_rows: rows of nothing but -inf and of large numbers") {
  Program p;
  const Expr hidden = p.b("prims.where", p.b("prims.lt", p.part(), 100.0), Arg(-INFINITY), p.part());
  const Trace t = p.b.finish(
      "f", p.padded(p.b("prims.exp", p.b("prims.sub", hidden, p.spread(p.reduced("prims.amax", p.biased(p.part())))))));
  check_equal(t, widened(t));
}

TEST_CASE("wide_rows: nothing to do") {
  const auto stays = [](Program& p, const Arg& result) {
    const Trace t = p.b.finish("f", result);
    size_t all = t.calls.size();
    return wide_rows(t, all).calls == t.calls;
  };
  Program none, pointwise, own_rows, other_width, both_ends, other_number, on_cpu;
  CHECK(stays(none, none.softmax(none.part()).arg()));
  CHECK(stays(pointwise, pointwise.padded(pointwise.b("prims.exp", pointwise.part())).arg()));  // one kernel as it is
  const Expr x(own_rows.b, own_rows.b.input(tensor({2, 3, 5}), "x"));
  CHECK(stays(own_rows, own_rows.padded(own_rows.softmax(x)).arg()));
  ArgList config(3, Dims{0, 0, 0});
  config.back() = Dims{0, 11, 0};
  CHECK(stays(other_width,
              other_width.b("prims.pad", other_width.softmax(other_width.part()), 0, Arg::list(config)).arg()));
  config.back() = Dims{1, 2, 0};
  CHECK(stays(both_ends, both_ends.b("prims.pad", both_ends.softmax(both_ends.part()), 0, Arg::list(config)).arg()));
  config.back() = Dims{0, 3, 0};
  CHECK(stays(other_number,
              other_number.b("prims.pad", other_number.softmax(other_number.part()), 1.0, Arg::list(config)).arg()));
  const Expr y(on_cpu.b, on_cpu.b.input(tensor({2, 3, 8}, DType::f32, DeviceType::cpu), "y"));
  on_cpu.wide = y;
  CHECK(stays(on_cpu, on_cpu.padded(on_cpu.softmax(on_cpu.part())).arg()));
}

TEST_CASE("wide_rows: the boundary is where the forward ends") {
  Program p;
  const Expr s = p.softmax(p.part());
  size_t boundary = p.b.calls().size();
  const Trace t = p.b.finish("f", p.b("prims.neg", p.padded(s)));
  const Trace after = wide_rows(t, boundary);
  REQUIRE(boundary < after.calls.size());
  CHECK(after.calls.back()->op->full_name == "prims.neg");
  for (size_t i = 0; i < after.calls.size(); ++i) {
    const bool is_backward = after.calls[i]->op->full_name == "prims.neg" ||
                             (after.calls[i]->op->full_name == "prims.where" && i + 2 == after.calls.size());
    if (is_backward) CHECK(i >= boundary);
    if (after.calls[i]->op->full_name == "prims.div") CHECK(i < boundary);
  }
}

}  // namespace
}  // namespace thunder
