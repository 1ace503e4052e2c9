// Random distributed models on random networks: what holds of every simulation.
#include "passes/distributed/simulate.h"

#include <algorithm>

#include "core/error.h"
#include "core/print.h"
#include "fuzz/checks.h"
#include "fuzz/distributed.h"
#include "fuzz/report.h"
#include "ops/families.h"

namespace thunder::fuzz {
namespace {

using distributed::CostTable;
using distributed::Simulation;

// A random table; with `free`, neither communication nor the slowest device costs anything.
struct Costs {
  explicit Costs(Random& random)
      : alpha(random.below(20)),
        bandwidth(random.between(1, 1000)),
        far_alpha(random.below(100)),
        contention(random.below(90)),
        spread(random.below(20)),
        node(random.between(1, 4)) {}

  CostTable table(bool free = false) const {
    std::string text =
        cat("memory 1GB/s\nlaunch 1us\npeak product f32 1GFLOP/s\npeak product f64 1GFLOP/s\n",
            "peak product bf16 4GFLOP/s\nnode ", node, " near far\ncontention ", static_cast<double>(contention) / 100,
            "\nspread ", free ? 0.0 : static_cast<double>(spread) / 100, "\n");
    const int64_t fast = 1'000'000'000'000;  // bytes of a test in no time that counts
    for (const char* fabric : {"near", "far"})
      text += cat("fabric ", fabric, " * alpha=",
                  free               ? 0
                  : fabric[0] == 'n' ? alpha
                                     : far_alpha,
                  "us bandwidth=", free ? fast : bandwidth, free ? "TB/s" : "MB/s", "\n");
    return CostTable::parse(text);
  }

  int64_t alpha, bandwidth, far_alpha, contention, spread, node;
};

class SimulationChecker {
 public:
  explicit SimulationChecker(uint64_t seed) : random_(seed), model_(random_), costs_(random_) {
    ModelProgram program(model_, random_, false);
    CompileOptions options;
    options.executors = test_executors(seed);
    compiled_ =
        compile(program.trace, options, true, {model_.plan, distributed::Synchronization::Reduce, program.parameters});
  }

  std::vector<std::string> run() {
    const Simulation s = simulated(costs_.table());
    expect(close(s.step, s.compute + s.slowed + s.exposed + s.spread), "the step is not what it consists of");
    expect(s.step >= s.compute && s.slowed >= 0 && s.exposed >= 0, "the step is shorter than its kernels");
    double exposed = 0;
    for (const auto& w : s.waits) exposed += w.exposed;
    expect(close(exposed, s.exposed), "the waits do not add up");
    for (const auto& [group, seconds] : s.communicators)
      expect(s.step >= seconds * (1 - 1e-9), "the step is shorter than what a communicator does");
    for (const auto& m : s.memory) expect(m.bytes >= s.inputs && m.bytes <= s.peak, "memory leaves its bounds");
    expect(std::is_sorted(s.memory.begin(), s.memory.end(),
                          [](const auto& a, const auto& b) { return a.seconds < b.seconds; }),
           "memory goes back in time");
    communicated = !s.waits.empty();
    slowed = s.slowed > 0;

    const Simulation free = simulated(costs_.table(true));
    expect(close(free.step, free.compute) && close(free.compute, s.compute), "communication in no time takes time");
    expect(free.peak == s.peak, "memory depends on time");
    for (int64_t Costs::*which : {&Costs::alpha, &Costs::far_alpha, &Costs::bandwidth}) {
      Costs other = costs_;
      if (which == &Costs::bandwidth) other.bandwidth = std::max<int64_t>(1, other.bandwidth / 2);
      else other.*which += random_.between(1, 50);
      expect(simulated(other.table()).step >= s.step * (1 - 1e-9), "a slower network makes a shorter step");
    }
    return findings_;
  }

  bool communicated = false, slowed = false;

 private:
  static bool close(double a, double b) { return std::abs(a - b) <= 1e-9 * (std::abs(a) + std::abs(b)) + 1e-15; }

  Simulation simulated(const CostTable& t) const {
    return simulate(compiled_.forward, compiled_.has_backward ? &compiled_.backward : nullptr, t);
  }

  void expect(bool holds, const char* what) {
    if (holds) return;
    findings_.push_back(cat(what, "\n", simulated(costs_.table()).report(), print(compiled_.forward),
                            compiled_.has_backward ? print(compiled_.backward) : ""));
  }

  Random random_;
  DistributedModel model_;
  Costs costs_;
  Compiled compiled_;
  std::vector<std::string> findings_;
};

TEST_CASE("fuzz: simulated steps are consistent, and slower networks make them longer") {
  ops::register_all();
  Report all;
  int communicated = 0, slowed = 0;
  const int64_t n = from_environment("THUNDER_FUZZ", 200);
  for (int64_t i = 0; i < n; ++i) {
    SimulationChecker checker(first_seed() + 8000000 + static_cast<uint64_t>(i));
    all.add(checker.run());
    communicated += checker.communicated;
    slowed += checker.slowed;
  }
  CHECK(all.total() == 0);
  // Worlds of one process communicate in no time.
  CHECK(communicated * 2 > n);
  CHECK(slowed * 3 > n);
}

}  // namespace
}  // namespace thunder::fuzz
