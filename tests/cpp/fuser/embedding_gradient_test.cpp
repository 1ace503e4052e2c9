#include "fuser/embedding_gradient.h"

#include <doctest.h>

#include "fuser/emit.h"
#include "runtime/kernels/nvrtc.h"

namespace thunder::test {
namespace {

using namespace fuser::embedding;

TEST_CASE("embedding gradient: vectors where the columns allow, threads and blocks for all columns and tokens") {
  const Launch wide = launch_of({32000, 2048, -1, DType::bf16, DType::i64}, 8192);
  CHECK(wide.lanes == 8);
  CHECK(wide.threads == 256);
  CHECK(wide.tiles == 1);
  CHECK(wide.chunks == 512);
  CHECK(launch_of({5, 4096, -1, DType::f32, DType::i64}, 17).tiles == 4);
  CHECK(launch_of({5, 4096, -1, DType::f32, DType::i64}, 17).chunks == 2);
  const Launch odd = launch_of({5, 7, -1, DType::f16, DType::i32}, 1);
  CHECK(odd.lanes == 1);
  CHECK(odd.threads == 32);
}

TEST_CASE("embedding gradient: the kernels compile for every type") {
  std::string why;
  if (!nvrtc_available(&why)) {
    MESSAGE("skipped: " << why);
    return;
  }
  std::vector<CudaSource> sources;
  for (DType t : {DType::f32, DType::bf16, DType::f16})
    for (int64_t cols : {64, 7})
      sources.push_back(
          {"embedding", fuser::cuda_prelude() + kernels_text({50, cols, 3, t, cols == 7 ? DType::i32 : DType::i64})});
  for (const CompiledCubin& c : compile_cuda(sources, 9, 0)) CHECK_MESSAGE(c.ok(), c.log);
}

}  // namespace
}  // namespace thunder::test
