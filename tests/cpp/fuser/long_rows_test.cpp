#include "fuser/long_rows.h"

#include <string>

#include "fuser/fused.h"
#include "fuzz/random.h"
#include "passes/pass_ops.h"
#include "reference/evaluator.h"

namespace thunder {
namespace {

using test::code;
using test::partitioned;
using test::pass_builder;

TensorType on_gpu(Dims shape, DType dtype = DType::f32) {
  TensorType t = test::f32(std::move(shape));
  t.dtype = dtype;
  t.device = {DeviceType::cuda, 0};
  return t;
}

TensorType laid_out(TensorType t, Dims strides) {
  t.strides = std::move(strides);
  return t;
}

std::vector<std::string> names(const std::vector<const Call*>& calls) {
  std::vector<std::string> out;
  for (const Call* c : calls) out.push_back(c->op->full_name.substr(6));
  return out;
}

using Names = std::vector<std::string>;

// One reduction of x.
struct Program {
  Builder b = pass_builder();
  Value x;
  const Call* call = nullptr;
  Program(const std::string& op, TensorType t, std::vector<int64_t> dims) {
    x = b.input(std::move(t), "x");
    b(op, x, std::move(dims));
    call = b.calls().back();
  }
  Names calls() { return names(fuser::in_two_steps(*call, b.arena())); }

  // Of random numbers, which both programs are given.
  std::string difference() {
    Trace t = b.finish("f", call->output);
    fuzz::Random random(3);
    std::vector<int64_t> shape;
    for (const Dim& d : x.shape()) shape.push_back(d.constant());
    auto a = reference::make_array(x.dtype(), x.tensor().device, shape);
    const bool real = is_floating(x.dtype());
    for (auto& e : a->data)
      e = real ? reference::Element::real(reference::round_real(x.dtype(), random.uniform(0.5, 1.5)))
               : reference::Element::integer(static_cast<int64_t>(random.uniform(0, 2)));
    std::vector<reference::Datum> inputs = {reference::Datum(a)};
    const reference::Datum want = reference::evaluate(t, inputs);
    t.calls = fuser::in_two_steps(*call, b.arena());
    verify(t);
    const reference::Datum got = reference::evaluate(t, inputs);
    std::string why;
    reference::same_datum(want, got, &why);
    return why;
  }
};

TEST_CASE("long_rows: which are") {
  const auto is_long = [](TensorType t, std::vector<int64_t> dims) {
    return fuser::has_long_rows(*Program("prims.sum", std::move(t), std::move(dims)).call);
  };
  CHECK(is_long(on_gpu({512, 512}), {0, 1}));
  CHECK(is_long(on_gpu({4, 512, 512}), {1, 2}));
  CHECK_FALSE(is_long(on_gpu({128, 512, 512}), {1, 2}));
  CHECK_FALSE(is_long(on_gpu({64, 512}), {0, 1}));
  CHECK_FALSE(is_long(on_gpu({512 * 512, 8}), {0}));  // rows are added up by many blocks
  CHECK_FALSE(is_long(test::f32({512, 512}), {0, 1}));
}

TEST_CASE("long_rows: in two steps") {
  CHECK(Program("prims.sum", on_gpu({512, 512}), {0, 1}).calls() == Names{"view", "sum", "sum"});
  CHECK(Program("prims.amin", on_gpu({3, 512, 512}), {1, 2}).calls() == Names{"view", "amin", "amin"});
  // As they lie.
  const TensorType transposed = laid_out(on_gpu({512, 512}), {1, 512});
  CHECK(Program("prims.sum", transposed, {0, 1}).calls() == Names{"transpose", "view", "sum", "sum"});
  // No number of parts divides it.
  CHECK(Program("prims.sum", on_gpu({131101}), {0}).calls() == Names{"view", "pad", "view", "sum", "sum"});
  CHECK(Program("prims.amax", on_gpu({131101}, DType::i32), {0}).calls().empty());
  CHECK(Program("prims.any", on_gpu({131101}), {0}).calls().empty());
}

TEST_CASE("long_rows: what the reduction gives") {
  // Sums of integers, whose order does not matter.
  CHECK(Program("prims.sum", on_gpu({131101}, DType::i64), {0}).difference().empty());
  CHECK(Program("prims.sum", on_gpu({3, 1, 131101}, DType::i64), {1, 2}).difference().empty());
  CHECK(Program("prims.sum", laid_out(on_gpu({2, 3, 400, 120}, DType::i64), {144000, 1, 360, 3}), {0, 1, 2, 3})
            .difference()
            .empty());
  CHECK(Program("prims.sum", laid_out(on_gpu({2, 400, 500}, DType::i64), {1, 1000, 2}), {1, 2}).difference().empty());
  CHECK(Program("prims.prod", on_gpu({131101}, DType::i64), {0}).difference().empty());
  CHECK(Program("prims.any", on_gpu({131101}, DType::boolean), {0}).difference().empty());
  CHECK(Program("prims.all", on_gpu({131101}, DType::boolean), {0}).difference().empty());
  CHECK(Program("prims.amax", on_gpu({131101}, DType::f64), {0}).difference().empty());
  CHECK(Program("prims.amin", on_gpu({131101}, DType::f64), {0}).difference().empty());
}

TEST_CASE("partition: a sum of what is computed takes two kernels, one of what is there none") {
  Builder b = pass_builder();
  Value x = b.input(on_gpu({512, 512}), "x");
  const std::vector<int64_t> all = {0, 1};
  const auto computed = partitioned(b.finish("f", b("prims.sqrt", b("prims.sum", b("prims.mul", x, x), all))));
  CHECK(computed.fusions.size() == 2);
  CHECK(code(computed.trace).find("prims.sum") == std::string::npos);
  Builder c = pass_builder();
  x = c.input(on_gpu({512, 512}), "x");
  const auto there = partitioned(c.finish("f", c("prims.sqrt", c("prims.neg", c("prims.sum", x, all)))));
  CHECK(code(there.trace).find("prims.sum(x, [0, 1])") != std::string::npos);
  CHECK(there.fusions.size() == 1);
}

}  // namespace
}  // namespace thunder
