#include "fuser/decoding.h"

#include <doctest.h>

#include "fuser/compiles.h"

namespace thunder::test {
namespace {

using namespace fuser::decoding;

TEST_CASE("decoding: heads whose rows are read 16 bytes at a time by a warp at most") {
  CHECK(supported({64, 4, DType::bf16, DType::boolean}));
  CHECK(supported({256, 1, DType::f16, DType::f16}));
  CHECK(supported({128, 1, DType::f32, DType::f32}));
  CHECK(supported({80, 3, DType::bf16, DType::f32}));
  CHECK(!supported({256, 1, DType::f32, DType::boolean}));
  CHECK(!supported({60, 1, DType::bf16, DType::boolean}));
  CHECK(!supported({64, 1, DType::f64, DType::boolean}));
  CHECK(!supported({64, 1, DType::bf16, DType::f16}));
}

TEST_CASE("decoding: keys are split where heads and batches leave multiprocessors idle") {
  const Problem p{64, 4, DType::bf16, DType::boolean};
  CHECK(launch_of(p, 1, 8, 1024, 132, false).splits == 16);  // of 64 keys each
  CHECK(launch_of(p, 1, 8, 8192, 132, false).splits == 33);
  CHECK(launch_of(p, 1, 1, 1 << 20, 132, false).splits == kMostSplits);
  CHECK(launch_of(p, 8, 8, 4096, 132, false).splits == 5);
  CHECK(launch_of(p, 64, 8, 4096, 132, false).splits == 1);
  CHECK(launch_of(p, 1, 8, 5, 132, false).splits == 1);
  CHECK(partial_numbers(p, launch_of(p, 64, 8, 4096, 132, false), 64, 8) == 0);
  CHECK(partial_numbers(p, launch_of(p, 1, 8, 1024, 132, false), 1, 8) == 8 * 4 * 16 * 66);
  CHECK(join_threads(p) == 64);
  CHECK(join_threads({80, 1, DType::f16, DType::boolean}) == 96);
}

TEST_CASE("decoding: a cluster of blocks shares the keys where they are some hundreds for each") {
  const Problem p{64, 4, DType::bf16, DType::boolean};
  const Launch l = launch_of(p, 1, 8, 1024, 132, true);
  CHECK(l.clustered);
  CHECK(l.splits == kCluster);
  CHECK(partial_numbers(p, l, 1, 8) == 0);
  CHECK(!launch_of(p, 1, 8, 511, 132, true).clustered);    // too few for so many blocks
  CHECK(!launch_of(p, 1, 8, 8192, 132, true).clustered);   // more blocks read more at a time
  CHECK(!launch_of(p, 64, 8, 1024, 132, true).clustered);  // a block for each head is enough
  CHECK(cluster_threads(p) == 256);
  CHECK(cluster_threads({256, 8, DType::bf16, DType::boolean}) == 128);
}

TEST_CASE("decoding: many queries of a head of keys are shared among blocks") {
  CHECK(launch_of({64, 32, DType::bf16, DType::boolean}, 1, 1, 64, 132, false).groups == 4);
  CHECK(launch_of({64, 12, DType::bf16, DType::boolean}, 1, 1, 64, 132, false).groups == 2);
  CHECK(launch_of({64, 13, DType::bf16, DType::boolean}, 1, 1, 64, 132, false).groups == 13);
}

TEST_CASE("decoding: the kernels compile for every type") {
  std::vector<std::string> texts;
  for (DType t : {DType::f32, DType::bf16, DType::f16})
    for (DType mask : {DType::boolean, DType::f32, t})
      for (int64_t size : {64, 80}) texts.push_back(kernels_text({size, mask == t ? 3 : 4, t, mask}));
  check_compiles("decoding", texts);
}

}  // namespace
}  // namespace thunder::test
