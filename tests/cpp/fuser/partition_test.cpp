#include <algorithm>

#include "fuser/fused.h"
#include "passes/pass_ops.h"

namespace thunder {
namespace {

using test::f32;
using test::Partitioned;
using test::partitioned;
using test::pass_builder;

// The program's lines, verified, and bodies as they are.
std::string code(const Partitioned& p) { return test::code(p.trace); }

TEST_CASE("partition: an empty trace, and one without anything fusible, stay as they are") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}), "x");
  CHECK(code(partitioned(b.finish("f", x))) == "return x\n");
  Builder c = pass_builder();
  Value y = c.input(f32({2}), "y");
  Trace t = c.finish("f", c("pt.heavy", y));
  CHECK(partitioned(t).trace.calls == t.calls);
}

TEST_CASE("partition: a chain becomes one kernel; what nobody reads is not computed") {
  Builder b = pass_builder();
  Value x = b.input(f32({4}), "x"), y = b.input(f32({4}), "y");
  Expr m = b("prims.mul", x, y);
  b("prims.neg", m);
  Trace t = b.finish("f", b("pt.heavy", b("prims.exp", m)));
  Partitioned p = partitioned(t);
  REQUIRE(p.fusions.size() == 1);
  CHECK(p.fusions[0].calls.size() == 2);
  CHECK(p.fusions[0].inputs == t.inputs);
  CHECK(code(p).find("] = fusion0(x, y)") + code(p).find("fusion0(x, y)") != 2 * std::string::npos);
  CHECK(p.trace.calls.size() == 2);
}

TEST_CASE("partition: a single operator is not worth a kernel") {
  Builder b = pass_builder();
  Value x = b.input(f32({4}), "x");
  Trace t = b.finish("f", b("pt.heavy", b("prims.exp", x)));
  Partitioned p = partitioned(t);
  CHECK(p.fusions.empty());
  CHECK(p.trace.calls == t.calls);
  Partitioned single = partitioned(t, {}, {}, true);
  REQUIRE(single.fusions.size() == 1);
  CHECK(single.fusions[0].calls.size() == 1);
  test::code(single.trace);
}

TEST_CASE("partition: no kernel across a barrier that needs the one half and gives the other") {
  Builder b = pass_builder();
  Value x = b.input(f32({4}), "x");
  Expr e = b("prims.exp", b("prims.neg", x));
  Expr h = b("pt.heavy", e);
  Trace t = b.finish("f", b("prims.sin", b("prims.mul", e, h)));
  Partitioned p = partitioned(t);
  REQUIRE(p.fusions.size() == 2);
  REQUIRE(p.trace.calls.size() == 3);
  CHECK(p.trace.calls[1]->op->full_name == "pt.heavy");
  test::code(p.trace);
}

TEST_CASE("partition: no two kernels that need each other, though what is between them came first") {
  Builder b = pass_builder();
  Value x = b.input(f32({4}), "x"), y = b.input(f32({4}), "y");
  Expr q = b("prims.exp", b("prims.neg", y));
  Expr m = b("pt.heavy", q);
  Expr p = b("prims.exp", b("prims.neg", x));
  Expr n = b("pt.heavy", p);
  // The first joins q's kernel, which then needs p; the second would join p's, which would then need q.
  Trace t = b.finish("f", Arg::tuple({p, q, b("prims.mul", n, q), b("prims.mul", m, p)}));
  test::code(partitioned(t).trace);
}

TEST_CASE("partition: calls with effects keep their order, and writes stay between what reads before and after") {
  Builder b = pass_builder();
  Value x = b.input(f32({4}), "x");
  Expr r = b("pt.rand", x);
  Expr e = b("prims.exp", b("prims.neg", x));
  Expr s = b("pt.rand", e);
  Trace t = b.finish("f", Arg::tuple({s, r, b("prims.mul", b("prims.add", s, r), e)}));
  Partitioned p = partitioned(t);
  std::vector<const Call*> random;
  for (const Call* c : p.trace.calls)
    if (c->op->full_name == "pt.rand") random.push_back(c);
  REQUIRE(random.size() == 2);
  CHECK(random[0]->output.value() == r.value());
  CHECK(random[1]->output.value() == s.value());
  test::code(p.trace);
}

TEST_CASE("partition: views at the border stay views of what a kernel stores") {
  Builder b = pass_builder();
  Value x = b.input(f32({4, 8}), "x");
  Expr e = b("prims.exp", b("prims.neg", x));
  Expr transposed = b("prims.transpose", e, Arg::list({1, 0}));
  Trace t = b.finish("f", Arg::tuple({e, b("pt.heavy", transposed)}));
  Partitioned p = partitioned(t);
  REQUIRE(p.fusions.size() == 1);
  CHECK(p.fusions[0].outputs == std::vector<Value>{e.value()});
  REQUIRE(p.trace.calls.size() == 3);
  CHECK(p.trace.calls[1]->op->full_name == "prims.transpose");
}

TEST_CASE("partition: a kernel reads what lies below a view") {
  Builder b = pass_builder();
  Value x = b.input(f32({4, 8}), "x");
  Expr h = b("pt.heavy", x);
  Expr transposed = b("prims.transpose", h, Arg::list({1, 0}));
  Trace t = b.finish("f", b("prims.exp", b("prims.neg", transposed)));
  Partitioned p = partitioned(t);
  REQUIRE(p.fusions.size() == 1);
  CHECK(p.fusions[0].inputs == std::vector<Value>{h.value()});
  CHECK(p.trace.calls.size() == 2);
}

TEST_CASE("partition: a value that two kernels read is stored once, or computed twice where that is cheap") {
  Builder b = pass_builder();
  Value x = b.input(f32({4, 8}), "x"), y = b.input(f32({4, 8}), "y");
  Expr shared = b("prims.mul", b("prims.exp", x), b("prims.sin", y));
  Expr rows = b("prims.sum", shared, Arg::list({1}));
  Expr h = b("pt.heavy", rows);
  Expr wide = b("prims.broadcast_in_dim", h, Arg::list({4, 8}), Arg::list({0}));
  Trace t = b.finish("f", b("prims.neg", b("prims.mul", wide, shared)));
  Partitioned p = partitioned(t);
  REQUIRE(p.fusions.size() == 2);
  int makers = 0;
  for (const test::Fused& f : p.fusions) makers += std::count(f.outputs.begin(), f.outputs.end(), shared.value());
  CHECK(makers == 1);
  test::code(p.trace);
}

TEST_CASE("partition: what is broadcast over many rows is computed once, unless it costs nothing") {
  auto kernels = [](bool costly) {
    Builder b = pass_builder();
    Value x = b.input(f32({128, 8}), "x"), y = b.input(f32({8}), "y");
    Expr vector = b(costly ? "prims.exp" : "prims.neg", y);
    Expr wide = b("prims.broadcast_in_dim", vector, Arg::list({128, 8}), Arg::list({1}));
    Trace t = b.finish("f", b("prims.neg", b("prims.mul", x, wide)));
    Partitioned p = partitioned(t);
    test::code(p.trace);
    return std::pair(p.fusions.size(), p.trace.calls.size());
  };
  CHECK(kernels(false) == std::pair<size_t, size_t>(1, 1));
  CHECK(kernels(true).second == 2);
}

TEST_CASE("partition: what is widened is stored, and not its cast") {
  Builder b = pass_builder();
  TensorType half = f32({4, 8});
  half.dtype = DType::bf16;
  Value x = b.input(half, "x"), y = b.input(half, "y");
  Expr narrow = b("prims.mul", x, y), seen = narrow;
  SUBCASE("as it is") {}
  SUBCASE("through a view") { seen = b("prims.view", b("prims.view", narrow, Arg::list({32})), Arg::list({4, 8})); }
  Expr wide = b("prims.convert_element_type", seen, DType::f32);
  Expr rows = b("prims.sum", wide, Arg::list({1}));
  Expr h = b("pt.heavy", rows);
  Expr spread = b("prims.broadcast_in_dim", h, Arg::list({4, 8}), Arg::list({0}));
  Trace t = b.finish("f", b("prims.neg", b("prims.mul", spread, wide)));
  Partitioned p = partitioned(t);
  int narrow_made = 0, wide_made = 0;
  for (const test::Fused& f : p.fusions) {
    narrow_made += std::count(f.outputs.begin(), f.outputs.end(), narrow.value());
    wide_made += std::count(f.outputs.begin(), f.outputs.end(), wide.value());
  }
  CHECK(narrow_made == 1);
  CHECK(wide_made == 0);
}

TensorType on_gpu(Dims shape, DType dtype = DType::bf16) {
  TensorType t = f32(std::move(shape));
  t.dtype = dtype;
  t.device = Device{DeviceType::cuda, 0};
  return t;
}

TEST_CASE("partition: a copy that moves pieces of memory on a GPU is a kernel") {
  const auto kernels = [](const TensorType& t, const std::vector<int64_t>& order) {
    Builder b = pass_builder();
    const Expr transposed = b("prims.transpose", b.input(t, "x"), Arg(order));
    const Trace trace =
        b.finish("f", b("pt.heavy", b("prims.restride", transposed, contiguous_strides(transposed.shape()))));
    return partitioned(trace).fusions.size();
  };
  CHECK(kernels(on_gpu({4, 6, 8}), {1, 0, 2}) == 1);
  CHECK(kernels(on_gpu({4, 6, 8}), {2, 1, 0}) == 0);   // element by element
  CHECK(kernels(on_gpu({4, 6, 12}), {1, 0, 2}) == 0);  // 24 bytes
  CHECK(kernels(f32({4, 6, 8}), {1, 0, 2}) == 0);      // on the CPU
}

TEST_CASE("partition: what is gathered for many rows on a GPU is gathered once") {
  const auto kernels = [](int64_t rows, bool gpu) {
    Builder b = pass_builder();
    const auto tensor = [&](Dims shape) { return gpu ? on_gpu(std::move(shape)) : f32(std::move(shape)); };
    const Expr padded =
        b("prims.pad", b.input(tensor({3, 5}), "bias"), 0, Arg::list({Arg(Dims{0, 0, 0}), Arg(Dims{0, 3, 0})}));
    const Expr view = b("prims.broadcast_in_dim", padded, Dims{1, 3, 8}, Arg::list({1, 2}));
    const Expr wide = b("prims.broadcast_in_dim", view, Dims{rows, 3, 8}, Arg::list({0, 1, 2}));
    const Expr sum = b("prims.add", b.input(tensor({rows, 3, 8}), "x"), wide);
    Partitioned p = partitioned(b.finish("f", b("prims.neg", sum)));
    return p.fusions.size();
  };
  CHECK(kernels(64, true) == 2);
  CHECK(kernels(63, true) == 1);
  CHECK(kernels(64, false) == 1);
}

TEST_CASE("partition: a number that no element needs is an argument of the kernel, whose body reads it") {
  Builder b = pass_builder();
  Value x = b.input(f32({4, 1}), "x"), f = b.input(NumberType{NumberKind::Float, std::nullopt}, "f");
  const Expr equal = b("prims.eq", x, f);
  const Expr cut = b("prims.pad", equal, true, Arg::list({Arg(Dims{0, 0, 0}), Arg(Dims{2, -1, 0})}));
  Partitioned p = partitioned(b.finish("f", cut));
  REQUIRE(p.fusions.size() == 1);
  CHECK(p.fusions[0].plain.numbers == std::vector<Value>{f});
  CHECK(code(p).find("fusion0(x, f)") != std::string::npos);
}

// Sums of several large results, with so many calls in between, and their own sum.
std::vector<size_t> kernels_of_sums(int between, bool kept) {
  Builder b = pass_builder();
  Expr x{b, b.input(f32({8, 8}), "x")}, total;
  ArgList results;
  for (int i = 0; i < 2; ++i) {
    x = b("pt.heavy", x);
    if (kept) results.push_back(x.arg());
    const Expr sum = b("prims.sum", b("prims.neg", x), Arg::list({0}));
    total = i == 0 ? sum : b("prims.add", total, sum);
    for (int k = 0; k < between; ++k) x = b("pt.heavy", x);
  }
  results.push_back(total.arg());
  results.push_back(x.arg());
  Partitioned p = partitioned(b.finish("f", Arg::tuple(results)));
  test::code(p.trace);
  std::vector<size_t> out;
  for (const test::Fused& f : p.fusions) out.push_back(f.inputs.size());
  std::sort(out.begin(), out.end());
  return out;
}

TEST_CASE("partition: a small sum does not wait for a far reader with what it is made of") {
  CHECK(kernels_of_sums(4, false) == std::vector<size_t>{2});
  CHECK(kernels_of_sums(60, false) == std::vector<size_t>{1, 2});
  CHECK(kernels_of_sums(60, true) == std::vector<size_t>{2});  // it is in memory anyway
}

TensorType channels_last(DeviceType device) {
  TensorType t = f32({2, 32, 24, 24});
  t.device = Device{device, 0};
  t.strides = {18432, 1, 768, 32};
  return t;
}

size_t fused_calls(const Trace& t, const std::string& name) {
  size_t n = 0;
  for (const test::Fused& f : partitioned(t).fusions)
    for (const Call* c : f.calls) n += c->op->full_name == name;
  return n;
}

TEST_CASE("partition: sums that leave gaps in memory are the operator's on the CPU") {
  const auto sums = [](const ArgList& dims, DeviceType device) {
    Builder b = pass_builder();
    Expr x = b("prims.exp", b.input(channels_last(device), "x"));
    return fused_calls(b.finish("f", b("prims.neg", b("prims.sum", x, Arg::list(dims)))), "prims.sum");
  };
  CHECK(sums({2, 3}, DeviceType::cpu) == 0);
  CHECK(sums({0}, DeviceType::cpu) == 0);
  CHECK(sums({2, 3}, DeviceType::cuda) == 1);
  CHECK(sums({0, 2, 3}, DeviceType::cpu) == 1);  // columns of what lies together
  CHECK(sums({0, 1, 2, 3}, DeviceType::cpu) == 1);
}

TEST_CASE("partition: a copy into the order of long rows is the operator's on the CPU, and a copy beside none is not") {
  const auto copies = [](bool reduced, DeviceType device) {
    Builder b = pass_builder();
    Expr x = b("prims.reshape", b("prims.neg", b.input(channels_last(device), "x")), Dims{36864});
    x = b("prims.mul", x, x);
    return fused_calls(b.finish("f", b("prims.exp", reduced ? b("prims.sum", x, Arg::list({0})) : x)), "prims.reshape");
  };
  CHECK(copies(true, DeviceType::cpu) == 0);
  CHECK(copies(false, DeviceType::cpu) == 1);
  CHECK(copies(true, DeviceType::cuda) == 1);
}

TEST_CASE("partition: a softmax along the middle of memory stays whole on the CPU") {
  const auto kernels = [](bool transposed) {
    Builder b = pass_builder();
    Expr x(b, b.input(f32({4, 8, 32}), "x"));
    if (transposed) x = b("torch.transpose", x, 1, 2);
    return partitioned(b.finish("f", b("torch.softmax", x, -1))).fusions.size();
  };
  CHECK(kernels(true) == 0);
  CHECK(kernels(false) == 1);
}

TEST_CASE("partition: a kernel that nobody wants to make leaves its calls") {
  Builder b = pass_builder();
  Value x = b.input(f32({4}), "x");
  Trace t = b.finish("f", b("prims.sin", b("prims.exp", b("prims.neg", x))));
  Partitioned p = partitioned(t, {}, [](const fuser::Fusion&) { return false; });
  CHECK(p.fusions.empty());
  CHECK(p.trace.calls == t.calls);
}

TEST_CASE("partition: composites open where all of their primitives are fusible, else stay whole") {
  Builder b = pass_builder();
  Value x = b.input(f32({4}), "x");
  Expr s = b("torch.softmax", b("torch.exp", x), 0);
  Trace t = b.finish("f", b("pt.scale", s));
  Partitioned p = partitioned(t);
  REQUIRE(p.fusions.size() == 1);
  REQUIRE(p.trace.calls.size() == 2);
  CHECK(p.trace.calls[1]->op->full_name == "pt.scale");
  test::code(p.trace);
}

}  // namespace
}  // namespace thunder
