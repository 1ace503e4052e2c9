// Distributed programs through split and through the whole pipeline: what the backward gathers again, and that programs
// of one plan fit together.
#include <algorithm>
#include <map>

#include "fuzz/checks.h"
#include "passes/distributed_model.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include "reference/spmd.h"

namespace thunder {
namespace {

using distributed::Bucket;
using distributed::Collectives;
using distributed::Synchronization;
using test::code;
using test::executor_for;
using test::f32;
using test::names;
using test::SmallModel;
using Buckets = std::vector<Bucket>;

// ---- split ----------------------------------------------------------------------------------------------------------

// The joint trace of (x * w0) * w1, and which of its futures belong to which parameter.
struct Joint {
  explicit Joint(SmallModel& m) {
    Value x = m.b.input(f32({4}, true), "x");
    Value w0 = m.parameter(f32({4}, true), true), w1 = m.parameter(f32({4}, true), true);
    Trace t = m.b.finish("f", Arg::tuple({m.b("pt.mul", m.b("pt.mul", x, w0), w1)}));
    joint = distributed::distribute(autodiff(t), m.d, singles);
  }
  // The future of the parameter.
  Value gathered(int index) const {
    for (size_t i = 0; i < joint.forward_calls; ++i)
      if (singles.gather_of(*joint.trace.calls[i]) == index) return joint.trace.calls[i]->output.value();
    return {};
  }
  ForwardBackward split(const SplitOptions& options) const {
    ForwardBackward parts = thunder::split(joint, options);
    verify(parts.forward);
    verify(parts.backward);
    return parts;
  }
  Collectives singles;
  JointTrace joint;
};

TEST_CASE("split: gathered parameters are saved, unless the backward gathers them again") {
  SmallModel m;
  Joint j(m);
  for (bool aggressive : {false, true}) {
    SplitOptions options;
    options.aggressive_recompute = aggressive;
    CHECK(names(j.split(options).saved).find("w0, w1") != std::string::npos);
    options.regathered.set(j.gathered(1), 1);
    ForwardBackward parts = j.split(options);
    CAPTURE(code(parts.backward));
    CHECK(names(parts.saved).find("w0") != std::string::npos);
    CHECK(names(parts.saved).find("w1_shard") != std::string::npos);
    CHECK(names(parts.saved).find("w0_shard") == std::string::npos);
    CHECK(code(parts.backward).find("all_gather([w1_shard]") != std::string::npos);
    CHECK(code(parts.backward).find("all_gather([w0_shard]") == std::string::npos);
  }
}

TEST_CASE("split: what another process gathers again is gathered again here, too, read or not") {
  SmallModel m;
  Value x = m.b.input(f32({4}, true), "x"), w = m.parameter(f32({4}, true), true);
  Trace t = m.b.finish("f", Arg::tuple({m.b("pt.exp", x), m.b("pt.view", w)}));
  Collectives singles;
  JointTrace joint = distributed::distribute(autodiff(t), m.d, singles);
  SplitOptions options;
  options.regathered.set(joint.trace.calls[0]->output.value(), 1);
  CHECK(code(split(joint, options).backward).find("all_gather") == std::string::npos);
  options.needed = {joint.trace.calls[1]->output.value()};
  ForwardBackward parts = split(joint, options);
  verify(parts.backward);
  CHECK(code(parts.backward).find("all_gather([w0_shard]") != std::string::npos);
}

TEST_CASE("split: a parameter that the backward compares is gathered again all the same") {
  SmallModel m;
  Value w = m.parameter(f32({4, 2}, true), true), v = m.parameter(f32({4, 2}, true), true);
  Expr largest = m.b("torch.amax", w, Arg::list({0}));
  Trace t = m.b.finish("f", Arg::tuple({m.b("pt.heavy", m.b("torch.add", v, largest))}));
  Collectives singles;
  JointTrace joint = distributed::distribute(autodiff(t), m.d, singles);
  SplitOptions options;
  options.regathered.set(joint.trace.calls[0]->output.value(), 1);
  ForwardBackward parts = split(joint, options);
  verify(parts.backward);
  CHECK(code(parts.backward).find("all_gather([w0_shard]") != std::string::npos);
  CHECK(code(parts.backward).find("all_gather([w1_shard]") == std::string::npos);
  CHECK(code(parts.backward).find("amax") == std::string::npos);
}

// ---- the pipeline ---------------------------------------------------------------------------------------------------

CompileOptions options() {
  CompileOptions o;
  o.executors = fuzz::test_executors(3);
  o.executors.insert(o.executors.begin(), executor_for("ex", {"pt.mul", "pt.exp", "pt.heavy", "pt.view"}));
  o.passes.verify = true;
  return o;
}

// Without the executors' names.
std::string plain(const Trace& t) {
  std::string text = code(t);
  for (const char* prefix : {"fuzzpart_", "fuzzall_", "ex_"})
    for (size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix))
      text.erase(at, std::string(prefix).size());
  std::istringstream in(text);
  text.clear();
  for (std::string line; std::getline(in, line);)
    if (!line.starts_with("del ")) text += line + "\n";
  return text;
}

Trace two_layers(SmallModel& m) {
  Value x = m.b.input(f32({4}), "x"), w0 = m.parameter(f32({4}, true), true), w1 = m.parameter(f32({4}, true), true);
  return m.b.finish("f", Arg::tuple({m.b("pt.mul", m.b("pt.mul", x, w0), w1)}));
}

TEST_CASE("compile: nothing is distributed without a plan") {
  SmallModel m;
  Trace t = two_layers(m);
  Compiled c = compile(t, options(), true);
  CHECK(plain(c.forward).find("all_gather") == std::string::npos);
  CHECK(plain(c.backward).find("reduce_scatter") == std::string::npos);
}

TEST_CASE("compile: what the forward gathered is saved, gradients are scattered") {
  SmallModel m;
  Compiled c = compile(two_layers(m), options(), true, m.d);
  CHECK(plain(c.forward) ==
        "p11 = prims.all_gather([w0_shard], 'g', 2, 'w0')\n"
        "w0 = prims.wait(p11)\n"
        "p14 = prims.all_gather([w1_shard], 'g', 2, 'w1')\n"
        "t3 = mul(x, w0)\n"
        "w1 = prims.wait(p14)\n"
        "t4 = mul(t3, w1)\n"
        "return ({'output': t4, 'flat_args': [x, w0_shard, w1_shard], 'flat_output': (t4,)}, ((x, w1, t3), ()))\n");
  CHECK(plain(c.backward) ==
        "t6 = mul(t5, w1)\n"
        "t7 = mul(t5, t3)\n"
        "p21 = prims.reduce_scatter([t7], 'avg', 'r', 2, 'w1')\n"
        "t9 = mul(t6, x)\n"
        "p19 = prims.reduce_scatter([t9], 'avg', 'r', 2, 'w0')\n"
        "t22 = prims.wait(p21)\n"
        "t16 = prims.full([2], 1.0, dtype=torch.float32, device=torch.device('cpu'))\n"
        "p17 = prims.all_reduce([t16], 'max', 'r', 2, '(which parameters are used)')\n"
        "t20 = prims.wait(p19)\n"
        "return (None, t20, t22)\n");
}

// As if a first program had done so.
void gather_again(SmallModel& m, Buckets buckets) {
  m.d.plan->regather = true;
  m.d.plan->order.regathers = std::move(buckets);
}

TEST_CASE("compile: the backward gathers again, but for what the forward reads last") {
  SmallModel m;
  m.d.plan->regather = true;
  Expr h = m.b.expr(m.b.input(f32({4}), "x"));
  for (int i = 0; i < 4; ++i) h = m.b("pt.mul", h, m.parameter(f32({4}, true), true));
  m.d.plan->parameters[3].bucket = m.d.plan->parameters[2].bucket;
  Compiled c = compile(m.b.finish("f", Arg::tuple({h})), options(), true, m.d);
  CHECK(*m.d.plan->order.gathers == Buckets{{0}, {1}, {2, 3}});
  CHECK(*m.d.plan->order.regathers == Buckets{{1}});
}

TEST_CASE("compile: the backward gathers again") {
  SmallModel m;
  gather_again(m, {{1}});
  Compiled c = compile(two_layers(m), options(), true, m.d);
  CHECK(names(c.saved) == "x, t3, w1_shard");
  CHECK(plain(c.backward) ==
        "p14 = prims.all_gather([w1_shard], 'g', 2, 'w1')\n"
        "w1 = prims.wait(p14)\n"
        "t6 = mul(t5, w1)\n"
        "t7 = mul(t5, t3)\n"
        "p21 = prims.reduce_scatter([t7], 'avg', 'r', 2, 'w1')\n"
        "t9 = mul(t6, x)\n"
        "p19 = prims.reduce_scatter([t9], 'avg', 'r', 2, 'w0')\n"
        "t22 = prims.wait(p21)\n"
        "t16 = prims.full([2], 1.0, dtype=torch.float32, device=torch.device('cpu'))\n"
        "p17 = prims.all_reduce([t16], 'max', 'r', 2, '(which parameters are used)')\n"
        "t20 = prims.wait(p19)\n"
        "return (None, t20, t22)\n");
  CHECK(*m.d.plan->order.gathers == Buckets{{0}, {1}});
}

TEST_CASE("compile: the backward gathers again what is not kept") {
  SmallModel m;
  m.d.plan->regather = true;
  Expr h = m.b.expr(m.b.input(f32({4}), "x"));
  for (int i = 0; i < 4; ++i) h = m.b("pt.mul", h, m.parameter(f32({4}, true), true));
  m.d.plan->parameters[1].kept = true;
  Compiled c = compile(m.b.finish("f", Arg::tuple({h})), options(), true, m.d);
  CHECK(names(c.saved).find("w1,") != std::string::npos);
  CHECK(names(c.saved).find("w2_shard") != std::string::npos);
  CHECK(*m.d.plan->order.gathers == Buckets{{0}, {1}, {2}, {3}});
  CHECK(*m.d.plan->order.regathers == Buckets{{2}});
}

TEST_CASE("compile: parameters that a program does not read are communicated, and keep their places") {
  SmallModel m;
  m.plan(f32({4}, true), true);
  Value x = m.b.input(f32({4}), "x"), w = m.parameter(f32({4}, true), false);
  m.plan(f32({4}), true);
  Trace t = m.b.finish("f", Arg::tuple({m.b("pt.mul", x, w)}));
  Compiled c = compile(t, options(), true, m.d);
  CHECK(c.forward.inputs.size() == 4);
  CHECK(c.reaches.size() == 4);
  CHECK(plain(c.forward) ==
        "p9 = prims.all_gather([t8], 'g', 2, 'w0')\n"
        "t2 = mul(x, w1)\n"
        "p12 = prims.all_gather([t11], 'g', 2, 'w2')\n"
        "return ({'output': t2, 'flat_args': [x, w1, t8, t11], 'flat_output': (t2,)}, ((x,), ()))\n");
  CHECK(plain(c.backward) ==
        "t5 = mul(t3, x)\n"
        "p24 = prims.all_reduce([t5], 'avg', 'r', 2, 'w1')\n"
        "t20 = prims.full([4], 0.0, dtype=torch.float32, device=torch.device('cpu'))\n"
        "p21 = prims.reduce_scatter([t20], 'avg', 'r', 2, 'w0')\n"
        "(t14, t15, t16) = constants0()\n"
        "t17 = prims.cat([t14, t15, t16], 0)\n"
        "p18 = prims.all_reduce([t17], 'max', 'r', 2, '(which parameters are used)')\n"
        "t25 = prims.wait(p24)\n"
        "t22 = prims.wait(p21)\n"
        "t19 = prims.wait(p18)\n"
        "t23 = prims.gradient_if_used(t22, t19, 0)\n"
        "return (None, t25, t23, None)\n");
  Compiled evaluation = compile(t, options(), false, m.d);
  CHECK(plain(evaluation.forward) ==
        "p29 = prims.all_gather([t28], 'g', 2, 'w0')\n"
        "t2 = mul(x, w1)\n"
        "p32 = prims.all_gather([t31], 'g', 2, 'w2')\n"
        "return (t2,)\n");
}

TEST_CASE("compile: gradients are kept, and reduced later") {
  SmallModel m;
  Trace t = two_layers(m);
  m.d.mode = Synchronization::Accumulate;
  Compiled keeps = compile(t, options(), true, m.d);
  CHECK(plain(keeps.backward) ==
        "t6 = mul(t5, w1)\n"
        "t7 = mul(t5, t3)\n"
        "t9 = mul(t6, x)\n"
        "prims.keep_gradient(t9, 'm', 0)\n"
        "prims.keep_gradient(t7, 'm', 1)\n"
        "return (None, None, None)\n");
  CHECK_FALSE(m.d.plan->order.reductions);
  m.d.mode = Synchronization::ReduceKept;
  Compiled reduces = compile(t, options(), true, m.d);
  CHECK(m.d.plan->order.reductions);
  // Each sum is made, and its reduction starts, as soon as the gradient is known; which ones are kept is asked first.
  const std::string text = plain(reduces.backward);
  std::vector<size_t> at;
  for (const char* call : {"prims.used_or_kept(", "t18 = mul(", "'m', 1)", "reduce_scatter(", "t20 = mul(", "'m', 0)"})
    at.push_back(text.find(call));
  CHECK(std::is_sorted(at.begin(), at.end()));
  CHECK(at.back() != std::string::npos);
}

TEST_CASE("compile: a process that runs another program than the others is found out") {
  SmallModel m;
  Value x = m.b.input(f32({4}), "x"), w0 = m.parameter(f32({4}, true), true), w1 = m.parameter(f32({2, 4}, true), true);
  Trace t = m.b.finish("f", Arg::tuple({m.b("torch.mul", m.b("torch.mul", x, w0), w1)}));
  const Trace forward = compile(t, options(), true, m.d).forward;
  std::vector<reference::Datum> inputs;
  for (Value v : forward.inputs) {
    reference::Shape shape;
    for (const Dim& d : v.shape()) shape.push_back(d.constant());
    inputs.emplace_back(reference::make_array(v.dtype(), Device{}, shape));
  }
  reference::Processes group(2);
  CHECK_NOTHROW(group.run({&forward, &forward}, {inputs, inputs}));
  std::vector<size_t> starts;
  for (size_t i = 0; i < forward.calls.size(); ++i)
    if (forward.calls[i]->output.is_value() && forward.calls[i]->output.value().type().is_future()) starts.push_back(i);
  REQUIRE(starts.size() == 2);
  Trace swapped = forward, missing = forward;
  const auto begin = swapped.calls.begin();
  std::rotate(begin + static_cast<ptrdiff_t>(starts[0]), begin + static_cast<ptrdiff_t>(starts[1]),
              begin + static_cast<ptrdiff_t>(starts[1]) + 1);
  verify(swapped);
  CHECK_THROWS_AS(group.run({&forward, &swapped}, {inputs, inputs}), reference::Diverged);
  missing.calls.resize(starts[1]);
  missing.output = {};
  verify(missing);
  CHECK_THROWS_AS(group.run({&missing, &forward}, {inputs, inputs}), reference::Diverged);
}

// The product of the data and parameters, in order.
Trace product(SmallModel& m, const std::vector<size_t>& factors) {
  Builder b(std::make_shared<Arena>());
  Expr h = b.expr(b.input(f32({4}), "x"));
  std::map<size_t, Value> taken;
  m.d.inputs.clear();
  for (size_t i : factors) {
    if (!taken.contains(i)) {
      taken[i] = b.input(m.d.plan->parameters[i].full, m.d.plan->parameters[i].name);
      m.d.inputs.emplace_back(taken[i], i);
    }
    h = b("torch.mul", h, taken[i]);
  }
  return b.finish("f", Arg::tuple({h}));
}

// Backwards of the products, the first of which decides the order, run together on one process each.
void run_together(int64_t bytes_in_flight, const std::vector<std::vector<size_t>>& products) {
  const size_t world = products.size();
  SmallModel m(static_cast<int64_t>(world));
  m.d.plan->regather = true;
  m.d.plan->bytes_in_flight = bytes_in_flight;
  for (int i = 0; i < 4; ++i) m.plan(f32({4}, true), true);
  CompileOptions o = options();
  o.executors = {o.executors.back()};
  std::vector<Compiled> programs;
  for (const std::vector<size_t>& factors : products) programs.push_back(compile(product(m, factors), o, true, m.d));
  std::vector<std::vector<reference::Datum>> inputs(world);
  std::vector<const Trace*> backwards;
  for (size_t r = 0; r < world; ++r) {
    backwards.push_back(&programs[r].backward);
    for (Value v : programs[r].backward.inputs) {
      reference::Shape shape;
      for (const Dim& d : v.shape()) shape.push_back(d.constant());
      inputs[r].emplace_back(reference::make_array(v.dtype(), Device{}, shape));
    }
  }
  CHECK_NOTHROW(reference::Processes(world).run(backwards, inputs));
}

TEST_CASE("compile: a process starts every gather that others may need for a reduction before it waits for one") {
  const std::vector<size_t> plain = {0, 1, 2, 3}, late = {3, 0, 1, 2, 3}, less = {3, 0, 3}, reversed = {3, 2, 1, 0};
  for (int64_t bytes_in_flight : {0, 1, 16, 1 << 20}) {
    CAPTURE(bytes_in_flight);
    // One knows the last parameter's gradient at the end only, one reads less, one has another order.
    run_together(bytes_in_flight, {plain, late});
    run_together(bytes_in_flight, {late, plain});
    run_together(bytes_in_flight, {plain, reversed, less});
    run_together(bytes_in_flight, {reversed, late, plain});
  }
}

TEST_CASE("compile: what a program needs sooner than the plan's order allows is saved by its forward") {
  SmallModel m;
  gather_again(m, {{3}, {2}, {1}});
  for (int i = 0; i < 4; ++i) m.plan(f32({4}, true), true);
  compile(product(m, {0, 1, 2, 3}), options(), true, m.d);
  REQUIRE(*m.d.plan->order.reductions == Buckets{{3}, {2}, {1}, {0}, {4}});
  CHECK(*m.d.plan->order.regathers_before == std::vector<size_t>{2, 3, 3, 3, 3});
  // The gradient of the third parameter waits for the parameters before it, which the plan gathers behind it.
  Compiled c = compile(product(m, {3, 2, 1, 0}), options(), true, m.d);
  CHECK(names(c.saved) == "x, t2, t4, w1, t6, w0, w3_shard, w2_shard, w1_shard");
  const std::string text = plain(c.backward);
  CHECK(text.find("all_gather([w1_shard]") != std::string::npos);
  CHECK(text.find("w1 = ") == std::string::npos);
}

// With it, what is cheap is computed again.
class Recomputing : public Executor {
 public:
  Recomputing() : Executor("recomputing") {}
  bool is_fusion() const override { return true; }
};

TEST_CASE("compile: what would ask for several buckets at once is saved, where that takes less memory") {
  CompileOptions o = options();
  o.executors.insert(o.executors.begin(), std::make_shared<Recomputing>());
  auto saved = [&](int64_t parameter_size) {
    SmallModel m;
    gather_again(m, {{2}, {1}, {0}});
    Expr h = m.b("pt.heavy", m.b.input(f32({4}, true), "x"));
    for (int i = 0; i < 3; ++i) h = m.b("torch.mul", h, m.parameter(f32({parameter_size}, true), true));
    return names(compile(m.b.finish("f", Arg::tuple({m.b("pt.heavy", h)})), o, true, m.d).saved);
  };
  CHECK(saved(1) == "x, t1, w0_shard, w1_shard, w2_shard");
  CHECK(saved(4) == "x, t1, t7, w0_shard, w1_shard, w2_shard");
}

}  // namespace
}  // namespace thunder
