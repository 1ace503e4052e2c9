// The simulator: small programs whose times and memory follow from a table by hand.
#include "passes/distributed/simulate.h"

#include <doctest.h>

#include "core/error.h"
#include "core/parse.h"
#include "ops/families.h"

namespace thunder {
namespace {

using distributed::CostTable;
using distributed::Simulation;
using doctest::Approx;

// A kernel takes 10 us; a collective of n MB takes n ms at 2 processes: half of it crosses.
constexpr const char* kTable =
    "call prims.exp 10us\ncall prims.mul 2ms\nfabric f * alpha=0us bandwidth=0.5GB/s\nnode 8 f\n";

Trace program(const std::string& lines) {
  ops::register_all();
  return parse("def f(x, w, v):\n  # x: \"cpu f32[250000]\"\n  # w: \"cpu f32[250000]\"\n  # v: \"cpu f32[250000]\"\n" +
               lines);
}

Simulation simulated(const std::string& lines, const std::string& more = "") {
  return simulate(program(lines), nullptr, CostTable::parse(kTable + more));
}

// Value `name` of 1 MB, or 2 MB behind a gather.
std::string exp(const std::string& name, const std::string& of) {
  return "  " + name + " = prims.exp(" + of + ")  # " + name + ": \"cpu f32[250000]\"\n";
}
std::string slow(const std::string& name, const std::string& of) {
  return "  " + name + " = prims.mul(" + of + ", " + of + ")  # " + name + ": \"cpu f32[250000]\"\n";
}
std::string gather(const std::string& name, const std::string& of, const std::string& group = "g") {
  return "  " + name + " = prims.all_gather([" + of + "], '" + group + "', 2, 'the " + of + "')  # " + name +
         ": \"FUTURE cpu f32[500000]\"\n";
}
std::string reduce(const std::string& name, const std::string& of) {
  return "  " + name + " = prims.all_reduce([" + of + "], 'sum', 'r', 2)  # " + name + ": \"FUTURE cpu f32[250000]\"\n";
}
std::string wait(const std::string& name, const std::string& of, int elements = 500000) {
  return "  " + name + " = prims.wait(" + of + ")  # " + name + ": \"cpu f32[" + std::to_string(elements) + "]\"\n";
}

TEST_CASE("simulate: without communication the kernels run one after another") {
  const Simulation s = simulated(exp("a", "x") + slow("b", "a") + "  return b\n");
  CHECK(s.step == Approx(2.01e-3));
  CHECK(s.compute == Approx(s.step));
  CHECK(s.exposed == 0);
  CHECK(s.slowed == 0);
  CHECK(s.waits.empty());
  CHECK(s.communicators.empty());
}

TEST_CASE("simulate: a collective is hidden behind kernels that take longer") {
  const Simulation s =
      simulated(gather("p", "w") + slow("a", "x") + wait("b", "p") + exp("c", "a") + "  return (b, c)\n");
  // 2 MB take 2 ms.
  CHECK(s.step == Approx(2.01e-3));
  REQUIRE(s.waits.size() == 1);
  CHECK(s.waits[0].name == "the w");
  CHECK(s.waits[0].future == "p");
  CHECK(s.waits[0].bytes == 2'000'000);
  CHECK(s.waits[0].seconds == Approx(2e-3));
  CHECK(s.waits[0].exposed == 0);
  CHECK(s.communicators.at("g") == Approx(2e-3));
}

TEST_CASE("simulate: what kernels do not hide is waited for") {
  const Simulation none = simulated(gather("p", "w") + wait("b", "p") + exp("c", "x") + "  return (b, c)\n");
  CHECK(none.step == Approx(2.01e-3));
  CHECK(none.exposed == Approx(2e-3));
  CHECK(none.waits[0].exposed == Approx(2e-3));
  const Simulation some = simulated(gather("p", "w") + exp("c", "x") + wait("b", "p") + "  return (b, c)\n");
  CHECK(some.step == Approx(2e-3));
  CHECK(some.exposed == Approx(1.99e-3));
}

TEST_CASE("simulate: a communicator does one thing after another, two of them work side by side") {
  const std::string waits = wait("a", "p") + wait("b", "q") + "  return (a, b)\n";
  const Simulation one = simulated(gather("p", "w") + gather("q", "v") + waits);
  CHECK(one.step == Approx(4e-3));
  CHECK(one.communicators.at("g") == Approx(4e-3));
  CHECK(one.waits[1].exposed == Approx(2e-3));
  const Simulation two = simulated(gather("p", "w") + gather("q", "v", "h") + waits);
  CHECK(two.step == Approx(2e-3));
  CHECK(two.communicators.at("g") == Approx(2e-3));
  CHECK(two.communicators.at("h") == Approx(2e-3));
  CHECK(two.waits[1].exposed == 0);
}

TEST_CASE("simulate: a collective begins behind the kernels before it") {
  const Simulation s = simulated(slow("a", "x") + gather("p", "a") + wait("b", "p") + "  return b\n");
  CHECK(s.step == Approx(4e-3));
}

TEST_CASE("simulate: the step ends when all is communicated") {
  const Simulation s = simulated(gather("p", "w") + exp("a", "x") + "  return a\n");
  CHECK(s.step == Approx(2e-3));
  CHECK(s.exposed == Approx(1.99e-3));
  REQUIRE(s.waits.size() == 1);
  CHECK_FALSE(s.waits[0].waited);
}

TEST_CASE("simulate: kernels are slower while something is communicated") {
  const std::string lines = gather("p", "w") + slow("a", "x") + wait("b", "p") + "  return (a, b)\n";
  // Of 2 ms of work a half is done in the 2 ms of the gather.
  const Simulation s = simulated(lines, "contention 0.5");
  CHECK(s.step == Approx(3e-3));
  CHECK(s.slowed == Approx(1e-3));
  CHECK(s.compute == Approx(2e-3));
  const Simulation all =
      simulated(gather("p", "w") + exp("a", "x") + wait("b", "p") + "  return (a, b)\n", "contention 0.5");
  CHECK(all.slowed == Approx(10e-6));
  CHECK(all.exposed == Approx(1.98e-3));
  CHECK(all.step == Approx(2e-3));
}

TEST_CASE("simulate: a step that communicates waits for the slowest device") {
  const std::string lines = gather("p", "w") + slow("a", "x") + wait("b", "p") + "  return (a, b)\n";
  const Simulation s = simulated(lines, "spread 0.1");
  CHECK(s.spread == Approx(0.1 * s.compute));
  CHECK(s.step == Approx(s.compute + s.exposed + s.spread));
  CHECK(s.report().find(", for the slowest device 0.20 ms\n") != std::string::npos);
  CHECK(simulated(slow("a", "x") + "  return a\n", "spread 0.1").spread == 0);
}

TEST_CASE("simulate: memory lives from its call to its del") {
  // 3 MB of inputs; a, b side by side; then c takes the place of a.
  const Simulation s =
      simulated(exp("a", "x") + exp("b", "a") + "  del a\n" + exp("c", "b") + "  del b\n" + "  return c\n");
  CHECK(s.inputs == 3'000'000);
  CHECK(s.peak == 5'000'000);
  CHECK(s.memory.back().bytes == 4'000'000);
  CHECK(s.peak_at == "forward: b = prims.exp(a)");
}

TEST_CASE("simulate: inputs belong to the caller, and views to what they are of") {
  CHECK(simulated(exp("a", "x") + "  del x\n  return a\n").memory.back().bytes == 4'000'000);
  const std::string view = "  b = prims.view(a, [500, 500])  # b: \"cpu f32[500, 500]\"\n";
  const Simulation s = simulated(exp("a", "x") + view + "  del a\n" + exp("c", "x") + "  del b\n  return c\n");
  CHECK(s.peak == 5'000'000);
  CHECK(s.memory.back().bytes == 4'000'000);
}

TEST_CASE("simulate: a collective keeps what it reads, and its results, until the wait") {
  const Simulation s = simulated(exp("a", "x") + gather("p", "a") + "  del a\n" + exp("b", "x") + wait("c", "p") +
                                 "  del p\n  return (b, c)\n");
  // Beside the inputs: a, what is gathered, b; behind the wait without a.
  CHECK(s.peak == 3'000'000 + 1'000'000 + 2'000'000 + 1'000'000);
  CHECK(s.memory.back().bytes == 3'000'000 + 2'000'000 + 1'000'000);
}

TEST_CASE("simulate: over replicas the second stage begins behind the first, on a communicator of its own") {
  const Simulation s = simulated(
      "  p = prims.all_reduce_replicas([x], 'sum', 'r', 2, 'c', 4)  # p: \"FUTURE cpu f32[250000]\"\n"
      "  q = prims.reduce_scatter_replicas([w], 'sum', 'r', 2, 'c', 4)  # q: \"FUTURE cpu f32[125000]\"\n" +
      wait("a", "p", 250000) + wait("b", "q", 125000) + "  return (a, b)\n");
  // 1 MB: 2 ms among two and 3 ms among four; of the other, 1 ms and half of 3 ms.
  CHECK(s.communicators.at("r") == Approx(3e-3));
  CHECK(s.communicators.at("c") == Approx(4.5e-3));
  CHECK(s.waits.at(0).seconds == Approx(5e-3));
  CHECK(s.step == Approx(2e-3 + 3e-3 + 1.5e-3));
}

TEST_CASE("simulate: an all_reduce works in place where nobody else has the tensor") {
  const std::string rest = wait("b", "p", 250000) + "  del p\n";
  const Simulation own = simulated(exp("a", "x") + reduce("p", "a") + "  del a\n" + rest + "  return b\n");
  CHECK(own.peak == 4'000'000);
  const Simulation other = simulated(exp("a", "x") + reduce("p", "a") + rest + "  return (a, b)\n");
  CHECK(other.peak == 5'000'000);
  CHECK(simulated(reduce("p", "x") + "  del x\n" + rest + "  return b\n").peak == 4'000'000);
}

TEST_CASE("simulate: a backward follows the forward, and frees what was saved") {
  ops::register_all();
  const Trace forward = program(exp("a", "x") + exp("b", "a") + "  return ((b,), ((a,), ()))\n");
  const Trace backward = parse(
      "def g(a, u):\n  # a: \"cpu f32[250000]\"\n  # u: \"cpu f32[250000]\"\n"
      "  c = prims.mul(u, a)  # c: \"cpu f32[250000]\"\n  del u, a\n" +
      reduce("p", "c") + "  del c\n" + wait("d", "p", 250000) + "  del p\n  return d\n");
  const Simulation s = simulate(forward, &backward, CostTable::parse(kTable));
  CHECK(s.forward == Approx(20e-6));
  CHECK(s.step == Approx(20e-6 + 2e-3 + 2e-3));
  REQUIRE(s.waits.size() == 1);
  CHECK(s.waits[0].backward);
  // Inputs, b that is returned, a that is saved; then the cotangent and the product; in the end the gradient alone.
  CHECK(s.peak == 3'000'000 + 2'000'000 + 2'000'000);
  CHECK(s.memory.back().bytes == 3'000'000 + 1'000'000 + 1'000'000);
  CHECK(s.peak_at == "backward: c = prims.mul(u, a)");
}

TEST_CASE("simulate: a forward that saves its own inputs and outputs") {
  const Trace forward = program(exp("a", "x") + "  return ((a,), ((a, x), ()))\n");
  const Trace backward = parse(
      "def g(a, x, u):\n  # a: \"cpu f32[250000]\"\n  # x: \"cpu f32[250000]\"\n  # u: \"cpu f32[250000]\"\n"
      "  c = prims.mul(u, a)  # c: \"cpu f32[250000]\"\n  del u, a, x\n  return c\n");
  const Simulation s = simulate(forward, &backward, CostTable::parse(kTable));
  CHECK(s.memory.back().bytes == 3'000'000 + 1'000'000 + 1'000'000);
}

TEST_CASE("simulate: the report names each wait, and the notes") {
  const Simulation s =
      simulated(gather("p", "w") + wait("b", "p") + exp("c", "x") + "  return (b, c)\n", "note as measured in a test");
  CHECK(s.report() ==
        "step 2.01 ms (forward 2.01 ms): kernels 0.0100 ms, slowed by communication 0.0000 ms, waiting 2.00 ms\n"
        "communicator g: 2.00 ms\n"
        "memory: inputs 3.000 MB, peak 6.000 MB at forward: c = prims.exp(x)\n"
        "forward\n"
        "  wait p: all_gather of the w: 2.000 MB, 2.00 ms, 2.00 ms exposed\n"
        "note: as measured in a test\n");
}

TEST_CASE("simulate: what cannot be simulated is an error") {
  const std::string unknown = "  a = prims.sin(x)  # a: \"cpu f32[250000]\"\n  return a\n";
  CHECK_THROWS_WITH_AS(simulated(unknown), "[simulate] the cost table has no line 'memory ...'", Error);
  // A future of another kind of communication.
  Registry& r = Registry::instance();
  if (!r.find("simulated.shift")) {
    auto meta = [](const Args& a) -> Types { return {Type::future({a.tensor("a")})}; };
    r.add("simulated", {.schema = "shift(Tensor a, str group, int world) -> any", .doc = "", .meta = meta});
  }
  const std::string other =
      "  p = simulated.shift(x, 'g', 2)  # p: \"FUTURE cpu f32[250000]\"\n" + wait("a", "p", 250000) + "  return a\n";
  CHECK_THROWS_WITH_AS(simulated(other), "[simulate] it is not known what simulated.shift costs", Error);
  const Trace forward = program(exp("a", "x") + "  return a\n");
  CHECK_THROWS_WITH_AS(simulate(forward, &forward, CostTable::parse(kTable)),
                       "[simulate] a forward with a backward returns its outputs and what it saved, got a", Error);
}

}  // namespace
}  // namespace thunder
