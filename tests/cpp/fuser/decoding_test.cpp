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
  CHECK(launch_of(p, 4, 8, 8192, 132, false).splits == 17);
  CHECK(launch_of(p, 1, 1, 1 << 20, 132, false).splits == kMostSplits);
  CHECK(launch_of(p, 8, 8, 4096, 132, false).splits == 9);
  CHECK(launch_of(p, 128, 8, 4096, 132, false).splits == 1);
  CHECK(launch_of(p, 1, 8, 5, 132, false).splits == 1);
  CHECK(launch_of(p, 1, 8, 0, 132, false).splits == 1);
  CHECK(partial_numbers(p, launch_of(p, 128, 8, 4096, 132, false), 128, 8) == 0);
  CHECK(partial_numbers(p, launch_of(p, 1, 8, 1024, 132, false), 1, 8) == 8 * 4 * 16 * 66);
  CHECK(join_threads(p) == 64);
  CHECK(join_threads({80, 1, DType::f16, DType::boolean}) == 96);
}

TEST_CASE("decoding: a cluster of blocks shares the keys of few heads") {
  const Problem p{64, 4, DType::bf16, DType::boolean};
  const auto cluster = [&](int64_t batch, int64_t keys) {
    const Launch l = launch_of(p, batch, 8, keys, 132, true);
    CHECK((!l.clustered || partial_numbers(p, l, batch, 8) == 0));
    return l.clustered ? l.splits : 0;
  };
  CHECK(cluster(1, 1024) == 8);
  CHECK(cluster(4, 1024) == 8);
  CHECK(cluster(8, 1024) == 2);
  CHECK(cluster(32, 1024) == 0);  // a block for each head is enough
  CHECK(cluster(1, 64) == 0);     // too few for more than one block
  CHECK(cluster(1, 8192) == 0);   // more blocks read more at a time
  CHECK(cluster_threads(p, 2) == 256);
  CHECK(cluster_threads(p, 8) == 128);
  CHECK(cluster_threads({256, 8, DType::bf16, DType::boolean}, 2) == 128);
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
      for (int64_t size : {64, 80, 256})
        if (const Problem p{size, mask == t ? 3 : 4, t, mask}; supported(p)) texts.push_back(kernels_text(p));
  check_compiles("decoding", texts);
}

}  // namespace
}  // namespace thunder::test
