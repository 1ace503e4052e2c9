// The cost table: its text, what calls cost, what collectives cost.
#include <doctest.h>

#include "core/error.h"
#include "core/parse.h"
#include "ops/families.h"
#include "passes/distributed/call_cost.h"

namespace thunder {
namespace {

using distributed::Collective;
using distributed::CostTable;
using doctest::Approx;

std::string error_of(const std::string& text) {
  try {
    CostTable::parse(text);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::Value);
    return e.what();
  }
  return "none";
}

TEST_CASE("cost table: mistakes are named with their lines") {
  CHECK(error_of("# nothing\n\n  \nmemory 1TB/s # and more\n") == "none");
  CHECK(
      error_of("memory 1TB/s\n\nspeed 3") ==
      "[cost table] line 3: unknown keyword 'speed'; there are device, peak, memory, launch, call, contention, spread, "
      "fabric, node, note");
  CHECK(error_of("memory") == "[cost table] line 1: 'memory' takes 1 operands, got 0");
  CHECK(error_of("memory 3TB") ==
        "[cost table] line 1: expected a rate such as 2MB/s (units: TB/s, GB/s, MB/s), got '3TB'");
  CHECK(error_of("memory 0GB/s") == "[cost table] line 1: expected a rate above 0, got '0GB/s'");
  CHECK(error_of("launch -2us") ==
        "[cost table] line 1: expected a time such as 2ns (units: s, ms, us, ns), got '-2us'");
  CHECK(error_of("launch inf") == "[cost table] line 1: expected a time such as 2ns (units: s, ms, us, ns), got 'inf'");
  CHECK(error_of("peak sum bf16 1TFLOP/s") ==
        "[cost table] line 1: unknown kind 'sum'; there are product, convolution, attention, attention_backward");
  CHECK(error_of("peak product float 1TFLOP/s") ==
        "[cost table] line 1: unknown dtype 'float'; write it as traces do: bf16, f32");
  CHECK(error_of("contention 1") == "[cost table] line 1: expected a share from 0 to below 1, got '1'");
  CHECK(error_of("contention 20%") == "[cost table] line 1: expected a share from 0 to below 1, got '20%'");
  CHECK(error_of("spread -0.1") == "[cost table] line 1: expected a share from 0 to below 1, got '-0.1'");
  CHECK(error_of("fabric nvlink * alpha=3us latency=2us") ==
        "[cost table] line 1: expected alpha=TIME, bandwidth=RATE, steps=ring or steps=tree, got 'latency=2us'");
  CHECK(error_of("fabric nvlink * alpha=3us steps=ring") ==
        "[cost table] line 1: a fabric takes both alpha=TIME and bandwidth=RATE");
  CHECK(error_of("fabric nvlink gather alpha=3us bandwidth=1GB/s") ==
        "[cost table] line 1: unknown collective 'gather'; there are all_gather, reduce_scatter, all_reduce, *");
  CHECK(error_of("node 0 nvlink") == "[cost table] line 1: expected a whole number above 0, got '0'");
  CHECK(error_of("device h200 new 1") == "[cost table] line 1: expected a compute capability such as 9.0, got 'new'");
  CHECK(error_of("note") == "[cost table] line 1: expected a text behind 'note'");
  CHECK(error_of("call 2us") == "[cost table] line 1: 'call' takes 2 or more operands, got 1");
}

TEST_CASE("cost table: the built-in ones are complete for 16 bits, and say what they rest on") {
  for (const char* device : {"h100", "h200"}) {
    const CostTable t = CostTable::parse(distributed::built_in_cost_table(device));
    CHECK(t.device() == device);
    CHECK(t.capability() == 90);
    CHECK(t.cudnn_version() > 90000);
    CHECK(t.fabric() == "nvlink+infiniband");
    CHECK(t.notes().size() >= 2);
    for (Collective c : {Collective::AllGather, Collective::ReduceScatter, Collective::AllReduce})
      CHECK(t.seconds(c, 1 << 20, 4096) > t.seconds(c, 1 << 20, 8));
  }
  CHECK_THROWS_WITH_AS(distributed::built_in_cost_table("a100"),
                       "[simulate] there is no cost table for 'a100'; there are 'h100', 'h200', and a table of your "
                       "own as text",
                       Error);
}

// ---- calls ----------------------------------------------------------------------------------------------------------

// The costs of a program's calls, in microseconds, with 1 TFLOP/s and 1 GB/s.
std::vector<double> costs(const std::string& lines, const std::string& more = "") {
  ops::register_all();
  const CostTable t = CostTable::parse("memory 1GB/s\npeak product f32 1TFLOP/s\n" + more);
  const Trace trace = parse(
      "def f(x, w, n):\n  # x: \"cpu f32[1000, 64]\"\n  # w: \"cpu f32[32, 64]\"\n"
      "  # n: \"cpu i64[10]\"\n" +
      lines);
  std::vector<double> out;
  for (const Call* c : trace.calls) out.push_back(t.seconds(*c) * 1e6);
  return out;
}

TEST_CASE("call cost: a kernel takes as long as its bytes or its arithmetic, whichever is longer") {
  // 256,000 bytes in and out.
  CHECK(costs("  a = prims.exp(x)  # a: \"cpu f32[1000, 64]\"\n  return a\n")[0] == Approx(512));
  CHECK(costs("  a = prims.exp(x)  # a: \"cpu f32[1000, 64]\"\n  return a\n", "launch 3us")[0] == Approx(515));
  const std::string product = "  a = prims.linear(x, w, None)  # a: \"cpu f32[1000, 32]\"\n  return a\n";
  CHECK(costs(product)[0] == Approx(256 + 128 + 8.192));
  // 2 * 1000 * 32 * 64 = 4.096 MFLOP.
  CHECK(costs(product, "memory 1TB/s")[0] == Approx(4.096));
  CHECK(costs(product, "memory 1TB/s\npeak product f32 2TFLOP/s")[0] == Approx(2.048));
}

TEST_CASE("call cost: views are free, and of a table or through a view only what is needed is read") {
  const std::string view = "  a = prims.transpose(x, [1, 0])  # a: \"cpu f32[64, 1000] strides=(1, 64)\"\n  return a\n";
  CHECK(costs(view)[0] == 0);
  const std::string rows = "  a = prims.take(x, n, 0)  # a: \"cpu f32[10, 64]\"\n  return a\n";
  CHECK(costs(rows)[0] == Approx(2.56 + 2.56 + 0.08));
  const std::string wide =
      "  a = prims.broadcast_in_dim(x, [5, 1000, 64], [1, 2])  # a: \"cpu f32[5, 1000, 64] strides=(0, 64, 1)\"\n"
      "  b = prims.exp(a)  # b: \"cpu f32[5, 1000, 64] strides=(64000, 64, 1)\"\n  return b\n";
  CHECK(costs(wide)[1] == Approx(256 + 5 * 256));
}

TEST_CASE("call cost: measured calls count as they are, the one with types before the one without") {
  const std::string two =
      "  a = prims.exp(x)  # a: \"cpu f32[1000, 64]\"\n  b = prims.exp(w)  # b: \"cpu f32[32, 64]\"\n  return b\n";
  const std::vector<double> one = costs(two, "launch 9us\ncall prims.exp f32[32,64] 7us");
  CHECK(one[0] == Approx(521));
  CHECK(one[1] == Approx(7));
  const std::vector<double> both = costs(two, "call prims.exp f32[32,64] 7us\ncall prims.exp 5us");
  CHECK(both[0] == Approx(5));
  CHECK(both[1] == Approx(7));
}

TEST_CASE("call cost: what the table does not know is an error") {
  CHECK_THROWS_WITH_AS(costs("  a = prims.convert_element_type(x, torch.float64)  # a: \"cpu f64[1000, 64]\"\n"
                             "  b = prims.convert_element_type(w, torch.float64)  # b: \"cpu f64[32, 64]\"\n"
                             "  c = prims.linear(a, b, None)  # c: \"cpu f64[1000, 32]\"\n  return c\n"),
                       "[simulate] the cost table has no line 'peak product f64 ...', and the program multiplies in it",
                       Error);
}

TEST_CASE("call cost: attention and convolution by their shapes") {
  ops::register_all();
  const Trace t = parse(
      "def f(x, w, g):\n  # x: \"cpu f32[2, 3, 10, 10]\"\n  # w: \"cpu f32[8, 3, 3, 3]\"\n  # g: \"cpu f32[2, 8, 8, "
      "8]\"\n"
      "  y = prims.convolution(x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)  # y: \"cpu f32[2, 8, 8, 8]\"\n"
      "  (dx, dw, db) = ltorch.convolution_backward(g, x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, "
      "True, False])\n"
      "  # dx: \"cpu f32[2, 3, 10, 10]\"\n  # dw: \"cpu f32[8, 3, 3, 3]\"\n  # db: \"None\"\n  return (y, dx, dw)\n");
  const double one = 2.0 * (2 * 8 * 8 * 8) * (3 * 3 * 3);
  CHECK(distributed::work_of(*t.calls[0]).flops == Approx(one));
  CHECK(distributed::work_of(*t.calls[1]).flops == Approx(2 * one));
}

// ---- collectives ----------------------------------------------------------------------------------------------------

TEST_CASE("collective cost: rings, trees, and twice for all_reduce") {
  const CostTable ring = CostTable::parse("fabric f * alpha=2us bandwidth=1GB/s\nnode 8 f");
  CHECK(ring.seconds(Collective::AllGather, 4'000'000, 1) == 0);
  CHECK(ring.seconds(Collective::AllGather, 4'000'000, 4) == Approx(3 * 2e-6 + 3e-3));
  CHECK(ring.seconds(Collective::ReduceScatter, 4'000'000, 4) == Approx(3 * 2e-6 + 3e-3));
  CHECK(ring.seconds(Collective::AllReduce, 4'000'000, 4) == Approx(2 * (3 * 2e-6 + 3e-3)));
  const CostTable tree = CostTable::parse(
      "fabric f * alpha=2us bandwidth=1GB/s\nfabric f all_gather alpha=2us bandwidth=1GB/s "
      "steps=tree\nnode 64 f");
  CHECK(tree.seconds(Collective::AllGather, 0, 64) == Approx(6 * 2e-6));
  CHECK(tree.seconds(Collective::ReduceScatter, 0, 64) == Approx(63 * 2e-6));
}

TEST_CASE("collective cost: over several nodes the slower fabric counts, and steps add up") {
  const std::string text =
      "fabric near * alpha=1us bandwidth=100GB/s\nfabric far * alpha=10us bandwidth=5GB/s\nnode 8 near far";
  const CostTable t = CostTable::parse(text);
  // 8 MB each of which a process fetches 1 MB * 3 / 4 from other nodes.
  CHECK(t.seconds(Collective::AllGather, 8'000'000, 32) == Approx(7e-6 + 30e-6 + 1e6 * 0.75 / 5e9));
  const CostTable fast = CostTable::parse(text + "\nfabric far * alpha=10us bandwidth=500GB/s");
  CHECK(fast.seconds(Collective::AllGather, 8'000'000, 32) == Approx(7e-6 + 30e-6 + 8e6 * 7 / 8 / 100e9));
  CHECK(t.seconds(Collective::AllGather, 8'000'000, 8) == Approx(7e-6 + 7e6 / 100e9));
  // One process of each of four nodes, and every fourth of two nodes' processes.
  CHECK(t.seconds(Collective::AllReduce, 1'000'000, 4, 8) == Approx(2 * (30e-6 + 1e6 * 0.75 / 5e9)));
  CHECK(t.seconds(Collective::AllGather, 1'000'000, 4, 4) == Approx(1e-6 + 10e-6 + 0.5e6 * 0.5 / 5e9));
}

TEST_CASE("collective cost: what the table does not know is an error") {
  const CostTable none = CostTable::parse("fabric f * alpha=2us bandwidth=1GB/s");
  CHECK_THROWS_WITH_AS(none.seconds(Collective::AllGather, 8, 2),
                       "[simulate] the cost table has no line 'node ...', and the program communicates", Error);
  const CostTable near = CostTable::parse("fabric f all_gather alpha=2us bandwidth=1GB/s\nnode 4 f");
  CHECK_THROWS_WITH_AS(near.seconds(Collective::AllReduce, 8, 2),
                       "[simulate] the cost table has no line 'fabric f all_reduce ...', and the program communicates "
                       "there",
                       Error);
  CHECK_THROWS_WITH_AS(near.seconds(Collective::AllGather, 8, 16),
                       "[simulate] the cost table's nodes have 4 processes and no fabric between them, and the program "
                       "is for 16",
                       Error);
}

}  // namespace
}  // namespace thunder
