// Random distributed models.
#include "fuzz/distributed.h"
#include "fuzz/report.h"
#include "ops/families.h"

namespace thunder::fuzz {
namespace {

TEST_CASE("fuzz: distributed programs give what one process alone would, and the mean of all gradients") {
  ops::register_all();
  DistributedStatistics statistics;
  Report all;
  const int64_t n = from_environment("THUNDER_FUZZ", 400);
  for (int64_t i = 0; i < n; ++i)
    all.add(check_distributed(first_seed() + 7000000 + static_cast<uint64_t>(i), statistics));
  MESSAGE("gradients compared in " << statistics.compared << " models, none in " << statistics.without << "; "
                                   << statistics.other_programs << " runs of different programs, "
                                   << statistics.other_orders << " with another order of both groups' starts, "
                                   << statistics.over_limit << " programs gather too much ahead");
  CHECK(all.total() == 0);
  CHECK(statistics.compared > statistics.without * 2);
  // Where an executor opens a composite, a parameter may turn out not to be needed as early as it seemed.
  CHECK(statistics.over_limit * 100 < statistics.compared);
}

}  // namespace
}  // namespace thunder::fuzz
