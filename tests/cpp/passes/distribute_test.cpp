// distribute: a program over whole parameters becomes one over what a process holds of them.
#include "passes/distributed_model.h"

namespace thunder {
namespace {

using distributed::Collectives;
using distributed::Synchronization;
using test::code;
using test::f32;
using test::SmallModel;

std::string distributed_code(const SmallModel& m, const Trace& t) {
  Collectives made;
  return code(distributed::distribute(t, m.d, made));
}

// Of the joint trace: what is gathered, and what becomes of the gradients.
std::string joint_code(const SmallModel& m, const Trace& t) {
  Collectives made;
  JointTrace joint = distributed::distribute(autodiff(t), m.d, made);
  for (size_t i = 0; i < joint.forward_calls; ++i) CHECK(joint.trace.calls[i] == joint.forward[i]);
  return test::without(code(joint.trace), "pt.");
}

// The same behind the vector of the parameters that are used.
std::string gradient_code(const SmallModel& m, const Trace& t) {
  const std::string text = joint_code(m, t);
  const size_t used = text.find("'max'");
  REQUIRE(used != std::string::npos);
  return text.substr(text.find('\n', text.find("prims.wait", used)) + 1);
}

TEST_CASE("distribute: a replicated parameter of a program without a backward stays as it is") {
  SmallModel m;
  Value x = m.b.input(f32({2}), "x"), w = m.parameter(f32({2}, true), false);
  Trace t = m.b.finish("f", Arg::tuple({m.b("pt.mul", x, w)}));
  Collectives made;
  Trace out = distributed::distribute(t, m.d, made);
  CHECK(out.calls == t.calls);
  CHECK(out.inputs == t.inputs);
}

TEST_CASE("distribute: a sharded parameter is gathered, in the place of the input that was whole") {
  SmallModel m;
  Value w = m.parameter(f32({4}, true), true), x = m.b.input(f32({4}), "x");
  Trace t = m.b.finish("f", Arg::tuple({m.b("pt.mul", x, w)}));
  Collectives made;
  Trace out = distributed::distribute(t, m.d, made);
  CHECK(code(out) ==
        "p4 = prims.all_gather([w0_shard], 'g', 2, None)\n"
        "w0 = prims.wait(p4)\n"
        "t2 = pt.mul(x, w0)\n"
        "return (t2,)\n");
  CHECK(test::names(out.inputs) == "w0_shard, x");
  CHECK(out.inputs[0].tensor().shape[0].same(2));
  CHECK(made.gather_of(*out.calls[0]) == 0);
  CHECK(made.reduction_of(*out.calls[0]) == -1);
  CHECK(made.gather_of(*out.calls[2]) == -1);
}

TEST_CASE("distribute: rows that stand for nothing are cut off, and a scalar is a row") {
  SmallModel m;
  Value w = m.parameter(f32({3, 2}), true), s = m.parameter(f32({}), true), e = m.parameter(f32({0, 2}), true);
  Trace t = m.b.finish("f", Arg::tuple({m.b("pt.exp", w), m.b("pt.exp", s), m.b("pt.exp", e)}));
  CHECK(distributed_code(m, t) ==
        "p7 = prims.all_gather([w0_shard], 'g', 2, None)\n"
        "t8 = prims.wait(p7)\n"
        "w0 = ltorch.narrow(t8, 0, 0, 3)\n"
        "p11 = prims.all_gather([w1_shard], 'g', 2, None)\n"
        "t12 = prims.wait(p11)\n"
        "t13 = ltorch.narrow(t12, 0, 0, 1)\n"
        "w1 = ltorch.reshape(t13, [])\n"
        "p16 = prims.all_gather([w2_shard], 'g', 2, None)\n"
        "w2 = prims.wait(p16)\n"
        "t3 = pt.exp(w0)\n"
        "t4 = pt.exp(w1)\n"
        "t5 = pt.exp(w2)\n"
        "return (t3, t4, t5)\n");
}

TEST_CASE("distribute: masters of another type are cast before they are gathered") {
  SmallModel m;
  Value w = m.parameter(f32({4}), true);
  m.d.plan->parameters[0].local.dtype = DType::f64;
  CHECK(distributed_code(m, m.b.finish("f", Arg::tuple({m.b("pt.exp", w)}))) ==
        "t3 = prims.convert_element_type(w0_shard, torch.float32)\n"
        "p4 = prims.all_gather([t3], 'g', 2, None)\n"
        "w0 = prims.wait(p4)\n"
        "t1 = pt.exp(w0)\n"
        "return (t1,)\n");
}

TEST_CASE("distribute: parameters that the program does not take are communicated, too") {
  SmallModel m;
  m.plan(f32({2}, true), true);
  Value x = m.parameter(f32({2}, true), true);
  m.plan(f32({2}, true), false);
  Trace t = m.b.finish("f", Arg::tuple({m.b("pt.exp", x)}));
  CHECK(distributed_code(m, t) ==
        "p3 = prims.all_gather([w1_shard], 'g', 2, None)\n"
        "w1 = prims.wait(p3)\n"
        "p8 = prims.all_gather([t7], 'g', 2, None)\n"
        "t5 = prims.wait(p8)\n"
        "t1 = pt.exp(w1)\n"
        "return (t1,)\n");
  CHECK(joint_code(m, t) ==
        "p13 = prims.all_gather([w1_shard], 'g', 2, None)\n"
        "w1 = prims.wait(p13)\n"
        "p18 = prims.all_gather([t17], 'g', 2, None)\n"
        "t15 = prims.wait(p18)\n"
        "t20 = prims.full([1], 0.0, dtype=torch.float32, device=torch.device('cpu'))\n"
        "t21 = prims.full([1], 1.0, dtype=torch.float32, device=torch.device('cpu'))\n"
        "t22 = prims.full([1], 0.0, dtype=torch.float32, device=torch.device('cpu'))\n"
        "t23 = prims.cat([t20, t21, t22], 0)\n"
        "p24 = prims.all_reduce([t23], 'max', 'r', 2, None)\n"
        "t25 = prims.wait(p24)\n"
        "t26 = prims.full([2], 0.0, dtype=torch.float32, device=torch.device('cpu'))\n"
        "p27 = prims.reduce_scatter([t26], 'avg', 'r', 2, None)\n"
        "t28 = prims.wait(p27)\n"
        "t29 = prims.gradient_if_used(t28, t25, 0)\n"
        "p30 = prims.reduce_scatter([t11], 'avg', 'r', 2, None)\n"
        "t31 = prims.wait(p30)\n"
        "t32 = prims.full([2], 0.0, dtype=torch.float32, device=torch.device('cpu'))\n"
        "p33 = prims.all_reduce([t32], 'avg', 'r', 2, None)\n"
        "t34 = prims.wait(p33)\n"
        "t35 = prims.gradient_if_used(t34, t25, 2)\n"
        "return ((t1,), (t31, t29, t35))\n");
}

TEST_CASE("distribute: gradients are averaged: each process gets those of what it holds") {
  SmallModel m;
  Value x = m.b.input(f32({3}, true), "x"), w = m.parameter(f32({3}, true), true);
  Value v = m.parameter(f32({3}, true), false), frozen = m.parameter(f32({3}), false);
  Trace t = m.b.finish("f", Arg::tuple({m.b("pt.mul", m.b("pt.mul", m.b("pt.mul", x, w), v), frozen)}));
  CHECK(gradient_code(m, t) ==
        "t23 = prims.pad(t13, 0.0, [(0, 1, 0)])\n"
        "p24 = prims.reduce_scatter([t23], 'avg', 'r', 2, None)\n"
        "t25 = prims.wait(p24)\n"
        "p26 = prims.all_reduce([t11], 'avg', 'r', 2, None)\n"
        "t27 = prims.wait(p26)\n"
        "return ((t6,), (t12, t25, t27, None))\n");
  m.d.plan->reduce_dtype = DType::f64;
  CHECK(gradient_code(m, t) ==
        "t44 = prims.convert_element_type(t34, torch.float64)\n"
        "t45 = prims.pad(t44, 0.0, [(0, 1, 0)])\n"
        "p46 = prims.reduce_scatter([t45], 'avg', 'r', 2, None)\n"
        "t47 = prims.wait(p46)\n"
        "t48 = prims.convert_element_type(t47, torch.float32)\n"
        "t49 = prims.convert_element_type(t32, torch.float64)\n"
        "p50 = prims.all_reduce([t49], 'avg', 'r', 2, None)\n"
        "t51 = prims.wait(p50)\n"
        "t52 = prims.convert_element_type(t51, torch.float32)\n"
        "return ((t6,), (t33, t48, t52, None))\n");
}

TEST_CASE("distribute: gradients of shards in several copies are reduced over the replicas, too") {
  SmallModel m;
  m.d.plan->replicas = "c";
  m.d.plan->copies = 3;
  Value w = m.parameter(f32({4}, true), true), v = m.parameter(f32({4}, true), false);
  CHECK(gradient_code(m, m.b.finish("f", Arg::tuple({m.b("pt.mul", w, v)}))) ==
        "p12 = prims.reduce_scatter_replicas([t4], 'avg', 'r', 2, 'c', 3, None)\n"
        "t13 = prims.wait(p12)\n"
        "p14 = prims.all_reduce_replicas([t5], 'avg', 'r', 2, 'c', 3, None)\n"
        "t15 = prims.wait(p14)\n"
        "return ((t2,), (t13, t15))\n");
}

TEST_CASE("distribute: a gradient that is not contiguous is copied") {
  SmallModel m;
  TensorType type = f32({2, 2}, true);
  Value w = m.parameter(type, false);
  auto vjp = [](VjpContext& c) { c.put("a", c.b("pt.transpose", c.grad())); };
  Registry::instance().add("pt", {.schema = "turned(Tensor a) -> Tensor", .doc = "", .meta = test::like_a, .vjp = vjp},
                           true);
  CHECK(gradient_code(m, m.b.finish("f", Arg::tuple({m.b("pt.turned", w)}))) ==
        "t7 = prims.clone(t3, memory_format=torch.contiguous_format)\n"
        "p8 = prims.all_reduce([t7], 'avg', 'r', 2, None)\n"
        "t9 = prims.wait(p8)\n"
        "return ((t1,), (t9,))\n");
}

TEST_CASE("distribute: gradients are kept, or reduced with those that were") {
  SmallModel m;
  Value w = m.parameter(f32({2}, true), true), v = m.parameter(f32({2}, true), false);
  m.plan(f32({2}, true), false);
  Trace t = m.b.finish("f", Arg::tuple({m.b("pt.mul", w, v)}));
  m.d.mode = Synchronization::Accumulate;
  CHECK(joint_code(m, t) ==
        "p7 = prims.all_gather_once([w0_shard], 'g', 2, 'm', True, None)\n"
        "w0 = prims.wait(p7)\n"
        "prims.keep_gradient(t4, 'm', 0)\n"
        "prims.keep_gradient(t5, 'm', 1)\n"
        "return ((t2,), (None, None, None))\n");
  m.d.plan->regather = true;
  CHECK(gradient_code(m, t) ==
        "p22 = prims.reduce_scatter([t11], 'avg', 'r', 2, None)\n"
        "t23 = prims.wait(p22)\n"
        "p24 = prims.all_reduce([t12], 'avg', 'r', 2, None)\n"
        "t25 = prims.wait(p24)\n"
        "t26 = prims.full([2], 0.0, dtype=torch.float32, device=torch.device('cpu'))\n"
        "p27 = prims.all_reduce([t26], 'avg', 'r', 2, None)\n"
        "t28 = prims.wait(p27)\n"
        "t29 = prims.gradient_if_used(t28, t21, 2)\n"
        "return ((t2,), (t23, t25, t29))\n");
  m.d.mode = Synchronization::ReduceKept;
  m.d.plan->regather = false;
  CHECK(joint_code(m, t) ==
        "p34 = prims.all_gather_once([w0_shard], 'g', 2, 'm', False, None)\n"
        "w0 = prims.wait(p34)\n"
        "t37 = prims.full([2], 1.0, dtype=torch.float32, device=torch.device('cpu'))\n"
        "t38 = prims.full([1], 0.0, dtype=torch.float32, device=torch.device('cpu'))\n"
        "t39 = prims.cat([t37, t38], 0)\n"
        "t40 = prims.used_or_kept(t39, 'm')\n"
        "p41 = prims.all_reduce([t40], 'max', 'r', 2, None)\n"
        "t42 = prims.wait(p41)\n"
        "t43 = prims.add_kept_gradient(t31, 'm', 0)\n"
        "p44 = prims.reduce_scatter([t43], 'avg', 'r', 2, None)\n"
        "t45 = prims.wait(p44)\n"
        "t46 = prims.add_kept_gradient(t32, 'm', 1)\n"
        "p47 = prims.all_reduce([t46], 'avg', 'r', 2, None)\n"
        "t48 = prims.wait(p47)\n"
        "t49 = prims.full([2], 0.0, dtype=torch.float32, device=torch.device('cpu'))\n"
        "t50 = prims.add_kept_gradient(t49, 'm', 2)\n"
        "p51 = prims.all_reduce([t50], 'avg', 'r', 2, None)\n"
        "t52 = prims.wait(p51)\n"
        "t53 = prims.gradient_if_used(t52, t42, 2)\n"
        "return ((t2,), (t45, t48, t53))\n");
}

TEST_CASE("distribute: gradients are kept in what they are reduced in") {
  SmallModel m;
  Value w = m.parameter(f32({2}, true), true), v = m.parameter(f32({2}, true), true);
  Trace t = m.b.finish("f", Arg::tuple({m.b("pt.mul", w, v)}));
  m.d.plan->reduce_dtype = DType::f64;
  m.d.mode = Synchronization::Accumulate;
  const std::string kept = joint_code(m, t);
  CAPTURE(kept);
  CHECK(kept.find("t12 = prims.convert_element_type(t4, torch.float64)\nprims.keep_gradient(t12, 'm', 0)\n") !=
        std::string::npos);
  m.d.mode = Synchronization::ReduceKept;
  const std::string reduced = joint_code(m, t);
  CAPTURE(reduced);
  const size_t cast = reduced.find("torch.float64)\n"), sum = reduced.find("prims.add_kept_gradient(");
  CHECK(cast < sum);
  CHECK(reduced.find("prims.reduce_scatter(") > sum);
}

TEST_CASE("distribute: what is said to be a parameter and is no input is refused") {
  SmallModel m;
  Value x = m.b.input(f32({2}, true), "x"), w = m.parameter(f32({2}, true), true);
  Trace t = m.b.finish("f", Arg::tuple({m.b("pt.mul", x, w)}));
  m.d.inputs[0].first = m.b.arena()->make_value(f32({2}, true));
  Collectives made;
  const JointTrace joint = autodiff(t);
  CHECK_THROWS_AS(distributed::distribute(joint, m.d, made), Error);
}

}  // namespace
}  // namespace thunder
