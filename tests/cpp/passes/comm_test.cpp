// comm_buckets and comm_schedule: which parameters share a collective, in which order, and where it starts and ends.
#include "passes/distributed_model.h"
#include "passes/passes.h"

namespace thunder {
namespace {

using distributed::Bucket;
using distributed::Collectives;
using distributed::Positions;
using test::code;
using test::f32;
using test::SmallModel;
using Buckets = std::vector<Bucket>;
using Order = std::optional<Buckets>;

// A forward's collectives in buckets.
Trace in_buckets(SmallModel& m, const Trace& t, Positions& positions) {
  Collectives singles;
  Trace one_by_one = distributed::distribute(t, m.d, singles);
  Order none;
  return distributed::comm_buckets(one_by_one, *m.d.plan, singles, m.d.plan->order.gathers, none, positions);
}

std::string bucket_code(SmallModel& m, const Trace& t) {
  Positions positions;
  return code(in_buckets(m, t, positions));
}

Trace scheduled(SmallModel& m, const Trace& in_buckets, const Positions& positions) {
  std::set<size_t> too_late;
  Trace out = distributed::comm_schedule(in_buckets, *m.d.plan, positions, m.d.plan->order.regathers_before, too_late);
  CHECK(too_late.empty());
  return out;
}

std::string schedule_code(SmallModel& m, const Trace& t) {
  Positions positions;
  Trace b = in_buckets(m, t, positions);
  return code(scheduled(m, b, positions));
}

// The backward of a program whose parameters are whole in it.
struct Backward {
  Backward(SmallModel& m, const Trace& t) {
    Collectives singles;
    Trace b = split(distributed::distribute(autodiff(t), m.d, singles)).backward;
    Order& reductions = m.d.plan->order.reductions;
    Trace in = distributed::comm_buckets(b, *m.d.plan, singles, m.d.plan->order.regathers, reductions, positions);
    buckets = code(in);
    schedule = code(scheduled(m, in, positions));
  }
  Positions positions;
  std::string buckets, schedule;
};

// Three layers whose parameters are sharded; w1 is read first.
Trace three_layers(SmallModel& m) {
  Value w0 = m.parameter(f32({4}), true), w1 = m.parameter(f32({4}), true), w2 = m.parameter(f32({4}), true);
  Value x = m.b.input(f32({4}), "x");
  return m.b.finish("f", Arg::tuple({m.b("pt.mul", m.b("pt.mul", m.b("pt.mul", x, w1), w0), w2)}));
}

// ---- buckets --------------------------------------------------------------------------------------------------------

TEST_CASE("comm_buckets: a program without sharded parameters stays as it is") {
  SmallModel m;
  Value w = m.parameter(f32({2}), false);
  Trace t = m.b.finish("f", Arg::tuple({m.b("pt.exp", w)}));
  Positions positions;
  CHECK(in_buckets(m, t, positions).calls == t.calls);
  CHECK(m.d.plan->order.gathers->empty());
}

TEST_CASE("comm_buckets: parameters of a bucket share one collective") {
  SmallModel m;
  Trace t = three_layers(m);
  for (auto& p : m.d.plan->parameters) p.bucket = p.name == "w1" ? 1 : 0;
  CHECK(bucket_code(m, t) ==
        "p16 = prims.all_gather([w0_shard, w2_shard], 'g', 2, 'w0 and 1 more')\n"
        "(w0, w2) = prims.wait(p16)\n"
        "p11 = prims.all_gather([w1_shard], 'g', 2, 'w1')\n"
        "w1 = prims.wait(p11)\n"
        "t4 = pt.mul(x, w1)\n"
        "t5 = pt.mul(t4, w0)\n"
        "t6 = pt.mul(t5, w2)\n"
        "return (t6,)\n");
  CHECK(*m.d.plan->order.gathers == Buckets{{1}, {0, 2}});
}

TEST_CASE("comm_buckets: gathers stand in the order in which the program reads, past views") {
  SmallModel m;
  Value w0 = m.parameter(f32({4}), true), w1 = m.parameter(f32({4}), true);
  m.parameter(f32({4}), true);
  Expr v = m.b("pt.view", w0);
  Trace t = m.b.finish("f", Arg::tuple({m.b("pt.mul", m.b("pt.exp", w1), v)}));
  bucket_code(m, t);
  CHECK(*m.d.plan->order.gathers == Buckets{{1}, {0}, {2}});
}

TEST_CASE("comm_buckets: a parameter that nobody reads, once dead code elimination has taken its wait") {
  SmallModel m;
  Value w0 = m.parameter(f32({4}), true);
  m.parameter(f32({4}), true);
  for (auto& p : m.d.plan->parameters) p.bucket = 0;
  Collectives singles;
  const Trace t = dce(distributed::distribute(m.b.finish("f", Arg::tuple({m.b("pt.exp", w0)})), m.d, singles));
  Positions positions;
  Order none;
  const Trace out = distributed::comm_buckets(t, *m.d.plan, singles, m.d.plan->order.gathers, none, positions);
  const std::string text = code(out);
  CHECK(text.find("prims.all_gather([w0_shard, w1_shard], 'g', 2, 'w0 and 1 more')") != std::string::npos);
  CHECK(text.find("(w0, ") != std::string::npos);
}

TEST_CASE("comm_buckets: large buckets are divided where nothing hides them") {
  // Buckets of 4 x 24 MB, read in the order of their parameters' numbers or of the reverse.
  constexpr int64_t kElements = int64_t{6} << 20;
  for (bool backwards : {false, true}) {
    SmallModel m;
    Expr x = m.b.expr(m.b.input(f32({kElements}), "x"));
    std::vector<Value> parameters;
    for (int i = 0; i < 16; ++i) parameters.push_back(m.parameter(f32({kElements}), true));
    for (size_t i = 0; i < 16; ++i) {
      m.d.plan->parameters[i].bucket = i / 4;
      x = m.b("pt.mul", x, parameters[backwards ? 15 - i : i]);
    }
    bucket_code(m, m.b.finish("f", Arg::tuple({x})));
    const Buckets order = *m.d.plan->order.gathers;
    REQUIRE(order.size() == 10);
    for (size_t k = 0; k < 8; ++k) CHECK(order[k] == Bucket{backwards ? 15 - k : k});
    CHECK(order[9] == (backwards ? Bucket{0, 1, 2, 3} : Bucket{12, 13, 14, 15}));
  }
}

TEST_CASE("comm_buckets: the last reductions take few gradients, in the order in which they are known") {
  constexpr int64_t kElements = int64_t{6} << 20;
  SmallModel m;
  Expr x = m.b.expr(m.b.input(f32({kElements}), "x"));
  for (size_t i = 0; i < 16; ++i) {
    x = m.b("pt.mul", x, m.parameter(f32({kElements}, true), true));
    m.d.plan->parameters[i].bucket = i / 4;
  }
  const Backward b(m, m.b.finish("f", Arg::tuple({x})));
  Buckets order = *m.d.plan->order.reductions;
  REQUIRE(order.size() >= 10);
  order.resize(10);  // behind them: what was used
  CHECK(order == Buckets{{12, 13, 14, 15}, {8, 9, 10, 11}, {7}, {6}, {5}, {4}, {3}, {2}, {1}, {0}});
}

TEST_CASE("comm_buckets: a later program follows the first one's order") {
  SmallModel m;
  Trace t = three_layers(m);
  m.d.plan->order.gathers = Buckets{{2}, {0, 1}};
  Positions positions;
  Trace out = in_buckets(m, t, positions);
  int found = 0;
  for (const Call* c : out.calls) {
    if (!c->output.is_value() || !c->output.value().type().is_future()) continue;
    CHECK(positions.gathers[c->output.value()] == (c->output.value().type().future().size() == 2 ? 1 : 0));
    ++found;
  }
  CHECK(found == 2);
}

TEST_CASE("comm_buckets: a program that communicates something else is refused") {
  SmallModel m;
  Trace t = three_layers(m);
  m.d.plan->order.gathers = Buckets{{0}, {1}};
  CHECK_THROWS_WITH_AS(bucket_code(m, t), "[distributed] this program communicates 3 parameters, the first program 2",
                       Error);
  m.plan(f32({4}), false);
  m.take(3);
  m.d.plan->order.gathers = Buckets{{0}, {1}, {3}};
  CHECK_THROWS_WITH_AS(bucket_code(m, t), "[distributed] this program does not communicate w3 as the first program did",
                       Error);
}

TEST_CASE("comm_buckets: reductions stand in the order in which gradients are known, casts left out") {
  SmallModel m;
  m.d.plan->reduce_dtype = DType::f64;
  Value w0 = m.parameter(f32({4}, true), false), w1 = m.parameter(f32({4}, true), true);
  Value x = m.b.input(f32({4}, true), "x");
  Expr h = m.b("pt.mul", m.b("pt.mul", x, w0), w1);
  Backward b(m, m.b.finish("f", Arg::tuple({h})));
  CHECK(*m.d.plan->order.reductions == Buckets{{1}, {0}, {2}});  // the last: which parameters are used
  SmallModel same_bucket;
  w0 = same_bucket.parameter(f32({4}, true), false), w1 = same_bucket.parameter(f32({4}, true), true);
  Value w2 = same_bucket.parameter(f32({4}, true), false);
  for (auto& p : same_bucket.d.plan->parameters) p.bucket = 0;
  Builder& sb = same_bucket.b;
  Backward c(same_bucket, sb.finish("f", Arg::tuple({sb("pt.mul", sb("pt.mul", w0, w1), w2)})));
  CHECK(*same_bucket.d.plan->order.reductions == Buckets{{0, 2}, {1}, {3}});
}

// ---- schedule -------------------------------------------------------------------------------------------------------

TEST_CASE("comm_schedule: a program that does not communicate stays as it is") {
  SmallModel m;
  Value w = m.parameter(f32({2}), false);
  Trace t = m.b.finish("f", Arg::tuple({m.b("pt.exp", w)}));
  Positions positions;
  CHECK(scheduled(m, in_buckets(m, t, positions), positions).calls == t.calls);
}

TEST_CASE("comm_schedule: one bucket is gathered while the one before it is computed with") {
  SmallModel m;
  CHECK(schedule_code(m, three_layers(m)) ==
        "p11 = prims.all_gather([w1_shard], 'g', 2, 'w1')\n"
        "w1 = prims.wait(p11)\n"
        "p8 = prims.all_gather([w0_shard], 'g', 2, 'w0')\n"
        "t4 = pt.mul(x, w1)\n"
        "w0 = prims.wait(p8)\n"
        "p14 = prims.all_gather([w2_shard], 'g', 2, 'w2')\n"
        "t5 = pt.mul(t4, w0)\n"
        "w2 = prims.wait(p14)\n"
        "t6 = pt.mul(t5, w2)\n"
        "return (t6,)\n");
}

TEST_CASE("comm_schedule: as much is gathered ahead as may be") {
  SmallModel m;
  m.d.plan->bytes_in_flight = 32;  // two of them
  Trace t = three_layers(m);
  CHECK(schedule_code(m, t) ==
        "p11 = prims.all_gather([w1_shard], 'g', 2, 'w1')\n"
        "w1 = prims.wait(p11)\n"
        "p8 = prims.all_gather([w0_shard], 'g', 2, 'w0')\n"
        "t4 = pt.mul(x, w1)\n"
        "p14 = prims.all_gather([w2_shard], 'g', 2, 'w2')\n"
        "w0 = prims.wait(p8)\n"
        "t5 = pt.mul(t4, w0)\n"
        "w2 = prims.wait(p14)\n"
        "t6 = pt.mul(t5, w2)\n"
        "return (t6,)\n");
  m.d.plan->bytes_in_flight = 1 << 20;
  CHECK(test::without(schedule_code(m, t), "pt.") ==
        "p20 = prims.all_gather([w1_shard], 'g', 2, 'w1')\n"
        "w1 = prims.wait(p20)\n"
        "p17 = prims.all_gather([w0_shard], 'g', 2, 'w0')\n"
        "p23 = prims.all_gather([w2_shard], 'g', 2, 'w2')\n"
        "w0 = prims.wait(p17)\n"
        "w2 = prims.wait(p23)\n"
        "return (t6,)\n");
}

TEST_CASE("comm_schedule: views and casts stand where they are read, and what nobody reads holds up nothing") {
  SmallModel m;
  Value w0 = m.parameter(f32({3}), true);
  m.parameter(f32({4}), true);
  Value w2 = m.parameter(f32({4}), true), x = m.b.input(f32({3}), "x");
  m.d.plan->parameters[2].local.dtype = DType::f64;
  m.d.plan->order.gathers = Buckets{{0}, {1}, {2}};
  Expr h = m.b("pt.mul", x, w0);
  Trace t = m.b.finish("f", Arg::tuple({h, m.b("pt.exp", w2)}));
  Positions positions;
  Trace b = in_buckets(m, t, positions);
  // What dce leaves of a gather that nobody reads.
  std::erase_if(b.calls, [&](const Call* c) { return c->output.is_value() && c->output.value().given_name() == "w1"; });
  CHECK(code(scheduled(m, b, positions)) ==
        "p7 = prims.all_gather([w0_shard], 'g', 2, 'w0')\n"
        "t8 = prims.wait(p7)\n"
        "p11 = prims.all_gather([w1_shard], 'g', 2, 'w1')\n"
        "w0 = ltorch.narrow(t8, 0, 0, 3)\n"
        "t4 = pt.mul(x, w0)\n"
        "t14 = prims.convert_element_type(w2_shard, torch.float32)\n"
        "p15 = prims.all_gather([t14], 'g', 2, 'w2')\n"
        "w2 = prims.wait(p15)\n"
        "t5 = pt.exp(w2)\n"
        "return (t4, t5)\n");
}

TEST_CASE("comm_schedule: a program that needs a later bucket first starts those before it") {
  SmallModel m;
  Trace t = three_layers(m);
  m.d.plan->order.gathers = Buckets{{0}, {2}, {1}};
  CHECK(test::without(schedule_code(m, t), "pt.") ==
        "p8 = prims.all_gather([w0_shard], 'g', 2, 'w0')\n"
        "p14 = prims.all_gather([w2_shard], 'g', 2, 'w2')\n"
        "p11 = prims.all_gather([w1_shard], 'g', 2, 'w1')\n"
        "w1 = prims.wait(p11)\n"
        "w0 = prims.wait(p8)\n"
        "w2 = prims.wait(p14)\n"
        "return (t6,)\n");
}

TEST_CASE("comm_schedule: parameters, or views of them, that are returned alone") {
  SmallModel m;
  Value w0 = m.parameter(f32({4}), true), w1 = m.parameter(f32({3}), true);
  CHECK(schedule_code(m, m.b.finish("f", Arg::tuple({m.b("pt.view", w0), w1}))) ==
        "p4 = prims.all_gather([w0_shard], 'g', 2, 'w0')\n"
        "w0 = prims.wait(p4)\n"
        "p7 = prims.all_gather([w1_shard], 'g', 2, 'w1')\n"
        "t2 = pt.view(w0)\n"
        "t8 = prims.wait(p7)\n"
        "w1 = ltorch.narrow(t8, 0, 0, 3)\n"
        "return (t2, w1)\n");
}

// Gradients are known from the last parameter to the first; the type on the wire is another.
Trace two_gradients(SmallModel& m, bool sharded = false) {
  m.d.plan->reduce_dtype = DType::f64;
  Value w0 = m.parameter(f32({4}, true), sharded), w1 = m.parameter(f32({3}, true), true);
  Value x = m.b.input(f32({4}, true), "x");
  Expr last = m.b("pt.heavy", w1);
  return m.b.finish("f", Arg::tuple({m.b("pt.heavy", m.b("pt.mul", x, w0)), last}));
}

TEST_CASE("comm_schedule: reductions start as soon as gradients are known, and are waited for at the end") {
  SmallModel m;
  CHECK(Backward(m, two_gradients(m)).schedule ==
        "t8 = pt.mul(t6, t4)\n"
        "t9 = pt.mul(t8, w0)\n"
        "t10 = pt.mul(t8, x)\n"
        "t19 = prims.convert_element_type(t10, torch.float64)\n"
        "p20 = prims.all_reduce([t19], 'avg', 'r', 2, 'w0')\n"
        "t11 = pt.mul(t7, w1)\n"
        "t23 = prims.convert_element_type(t11, torch.float64)\n"
        "t24 = prims.pad(t23, 0.0, [(0, 1, 0)])\n"
        "p25 = prims.reduce_scatter([t24], 'avg', 'r', 2, 'w1')\n"
        "t16 = prims.full([2], 1.0, dtype=torch.float32, device=torch.device('cpu'))\n"
        "p17 = prims.all_reduce([t16], 'max', 'r', 2, '(which parameters are used)')\n"
        "t21 = prims.wait(p20)\n"
        "t26 = prims.wait(p25)\n"
        "t18 = prims.wait(p17)\n"
        "t22 = prims.convert_element_type(t21, torch.float32)\n"
        "t27 = prims.convert_element_type(t26, torch.float32)\n"
        "return (t22, t27, t9)\n");
}

TEST_CASE("comm_schedule: reductions are waited for once more is under way than may be") {
  SmallModel enough;
  enough.d.plan->bytes_in_flight = 32;  // half of both gradients
  const std::string together = Backward(enough, two_gradients(enough, true)).schedule;
  CHECK(together.find("wait(") > together.find("all_reduce"));
  SmallModel m;
  m.d.plan->bytes_in_flight = 31;
  const std::string text = Backward(m, two_gradients(m, true)).schedule;
  CHECK(test::without(text, "pt.") ==
        "t22 = prims.convert_element_type(t10, torch.float64)\n"
        "p23 = prims.reduce_scatter([t22], 'avg', 'r', 2, 'w0')\n"
        "t26 = prims.convert_element_type(t11, torch.float64)\n"
        "t27 = prims.pad(t26, 0.0, [(0, 1, 0)])\n"
        "p28 = prims.reduce_scatter([t27], 'avg', 'r', 2, 'w1')\n"
        "t24 = prims.wait(p23)\n"
        "t19 = prims.full([2], 1.0, dtype=torch.float32, device=torch.device('cpu'))\n"
        "p20 = prims.all_reduce([t19], 'max', 'r', 2, '(which parameters are used)')\n"
        "t29 = prims.wait(p28)\n"
        "t21 = prims.wait(p20)\n"
        "t25 = prims.convert_element_type(t24, torch.float32)\n"
        "t30 = prims.convert_element_type(t29, torch.float32)\n"
        "return (t25, t30, t9)\n");
}

}  // namespace
}  // namespace thunder
