// Random programs against the reference evaluator.
#include <doctest.h>

#include <iostream>

#include "core/error.h"
#include "fuzz/checks.h"
#include "fuzz/report.h"

namespace thunder::fuzz {
namespace {

void report(Report& report, const std::vector<Finding>& findings) {
  std::map<std::string, int> seen;
  for (const Finding& f : findings)
    if (seen[f.op]++ == 0) report.add(f.op + ": " + f.what);
}

}  // namespace

TEST_CASE("fuzz: random programs give the same after every pass") {
  Coverage coverage;
  std::vector<Finding> findings;
  Generator generator(coverage, findings);
  Passes passes = Passes::real();
  Report all;
  std::map<const Op*, int> symbolic;
  std::vector<std::pair<const Op*, ArgList>> samples;
  std::vector<std::shared_ptr<Arena>> keep;
  generator.on_sample = [&](const Op& op, const ArgList& args) {
    const int seen = symbolic[&op]++;
    if (seen < 8) all.add(check_symbolic(op, args));
    if (seen < 100) all.add(check_view(op, args));
  };
  int64_t n = programs();
  for (int64_t i = 0; i < n; ++i) {
    GeneratorOptions options;
    options.calls = 10;
    Program p = generator.make(first_seed() + static_cast<uint64_t>(i), options);
    all.add(check_passes(p, passes));
  }
  report(all, findings);
  if (std::getenv("THUNDER_FUZZ") || std::getenv("THUNDER_FUZZ_HISTOGRAM")) std::cout << coverage.histogram();
  CHECK(all.total() == 0);
  // 50 times in 10,000 programs; a small slice scatters around that.
  std::vector<std::string> rare = coverage.below(static_cast<int>(n >= 10000 ? n * 50 / 10000 : n * 25 / 10000));
  CHECK_MESSAGE(rare.empty(), "operators that occur too rarely: " << join(rare));
}

TEST_CASE("fuzz: gradients agree with differences, forward and backward with the joint trace") {
  Coverage coverage;
  std::vector<Finding> findings;
  Generator generator(coverage, findings);
  Passes passes = Passes::real();
  GradientStatistics statistics;
  Report all;
  int64_t n = programs() / 3;
  for (int64_t i = 0; i < n; ++i) {
    GeneratorOptions options;
    options.calls = 5;
    options.smooth = true;
    Program p = generator.make(first_seed() + 1000000 + static_cast<uint64_t>(i), options);
    all.add(check_gradients(p, passes, statistics));
  }
  report(all, findings);
  MESSAGE("gradients compared in " << statistics.compared << " programs, too rough in " << statistics.rough
                                   << ", none in " << statistics.without);
  CHECK(all.total() == 0);
  CHECK(statistics.compared > statistics.rough * 2);
}

}  // namespace thunder::fuzz
