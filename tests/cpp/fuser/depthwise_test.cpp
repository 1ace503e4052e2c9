#include "fuser/depthwise.h"

#include <doctest.h>

#include "fuser/emit.h"
#include "runtime/kernels/nvrtc.h"

namespace thunder::test {
namespace {

using namespace fuser::depthwise;

Problem filter(int64_t size, int64_t stride = 1, int64_t channels = 96, int64_t columns = 56) {
  return {channels, size, size, stride, stride, size / 2, size / 2, columns, DType::bf16};
}

TEST_CASE("depthwise: filters that have kernels") {
  for (int64_t size : {1, 2, 3, 5, 7}) CHECK(supported(filter(size)));
  CHECK(supported(filter(3, 2)));
  CHECK_FALSE(supported(filter(9)));
  CHECK_FALSE(supported(filter(3, 3)));
  CHECK_FALSE(supported(filter(1, 2)));  // rows that no filter reads
  Problem p = filter(3);
  p.padding_x = 3;
  CHECK_FALSE(supported(p));
  p = filter(3);
  p.dtype = DType::f64;
  CHECK_FALSE(supported(p));
  p = filter(1);
  p.height = 49;
  CHECK(supported(p));
  p.height = 50;
  CHECK_FALSE(supported(p));
}

TEST_CASE("depthwise: threads cover all channels, by vectors that divide them") {
  for (int64_t channels : {1, 2, 3, 6, 8, 30, 32, 96, 100, 144, 1152, 1154, 8191})
    for (int64_t size : {3, 5, 7})
      for (Kind kind : {Kind::Forward, Kind::Input, Kind::Weight}) {
        const Plan plan = plan_of(filter(size, 1, channels), kind);
        CHECK(channels % plan.items == 0);
        CHECK(plan.lanes >= 1);
        CHECK(plan.lanes <= 32);
        CHECK(plan.blocks_y * plan.lanes * plan.items >= channels);
        CHECK((plan.blocks_y - 1) * plan.lanes * plan.items < channels);
      }
}

TEST_CASE("depthwise: tiles leave few columns empty") {
  CHECK(plan_of(filter(7, 1, 96, 56), Kind::Forward).tile == 7);
  CHECK(plan_of(filter(7, 1, 96, 7), Kind::Forward).tile == 7);
  CHECK(plan_of(filter(7, 1, 96, 16), Kind::Forward).tile == 4);
  CHECK(plan_of(filter(7, 1, 96, 0), Kind::Forward).tile == 4);  // any number of columns
  CHECK(plan_of(filter(3, 2), Kind::Input).tile % 2 == 0);
}

TEST_CASE("depthwise: strips cover all rows and columns") {
  for (int64_t batch : {1, 3, 128})
    for (int64_t rows : {1, 3, 4, 7, 55, 112})
      for (int64_t columns : {1, 7, 56})
        for (Kind kind : {Kind::Forward, Kind::Input, Kind::Weight}) {
          const Plan plan = plan_of(filter(5, 1, 40, columns), kind);
          const Launch l = launch_of(plan, batch, rows, columns, 132);
          const int64_t tiles = (columns + plan.tile - 1) / plan.tile;
          CHECK(l.segment * l.segments >= rows);
          CHECK(l.segment * (l.segments - 1) < rows);
          CHECK(l.strips == batch * tiles * l.segments);
          CHECK(l.blocks_x >= 1);
          if (kind == Kind::Weight) CHECK(partial_numbers(plan, l) == l.blocks_x * 25 * 40);
          else CHECK(l.blocks_x * (kThreads / plan.lanes) >= l.strips);
        }
  // A large batch gives work to every multiprocessor without cutting images, one image does not.
  const Plan plan = plan_of(filter(7), Kind::Forward);
  CHECK(launch_of(plan, 128, 56, 56, 132).segments == 1);
  CHECK(launch_of(plan, 1, 56, 56, 132).segments > 1);
}

TEST_CASE("depthwise: the kernels compile for every type") {
  std::string why;
  if (!nvrtc_available(&why)) {
    MESSAGE("skipped: " << why);
    return;
  }
  std::vector<CudaSource> sources;
  for (DType t : {DType::f32, DType::bf16, DType::f16})
    for (int64_t size : {1, 2, 3, 7})
      for (int64_t stride : {1, 2})
        for (Kind kind : {Kind::Forward, Kind::Input, Kind::Weight}) {
          Problem p = filter(size, stride, size == 2 ? 5 : 96);
          p.dtype = t;
          if (supported(p))
            sources.push_back({"depthwise", fuser::cuda_prelude() + text_of(plan_of(p, kind, size == 3)), {}});
        }
  for (const CompiledCubin& c : compile_cuda(sources, 9, 0)) CHECK_MESSAGE(c.ok(), c.log);
}

}  // namespace
}  // namespace thunder::test
