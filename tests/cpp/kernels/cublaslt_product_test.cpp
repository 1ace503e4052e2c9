// Which algorithm a matrix product takes, against a cuBLASLt of our own making on the fake driver's clock.
#include "runtime/kernels/cublaslt_product.h"

#include <doctest.h>

#include "kernels/fake_driver.h"

using namespace thunder;
using namespace kernel_test;
using cublaslt::CublasLtProduct;
using cublaslt::ProductOperands;

namespace {

// Algorithm i is the number i + 1, takes takes[i] milliseconds and fails with fails[i].  The last one needs a
// workspace; the others use a counter where there is one.
const std::string kFakeLibrary = R"(
extern "C" {
typedef unsigned long long u64;
struct Algorithm { u64 data[8]; };
struct Heuristic { Algorithm algorithm; unsigned long workspace; int status; float waves; int reserved[4]; };
float* clock_ = nullptr;
float takes[4] = {1, 1, 1, 1};
int fails[4] = {0, 0, 0, 0};
int count = 4, runs = 0, last = -1, checks = 0, searches = 0, live = 0;
int transposes[2] = {-1, -1}, epilogue = 0;
const void* bias = nullptr;
const void* scales[2] = {nullptr, nullptr};
int used = -1, fast = -1, bias_type = -1, types[3] = {-1, -1, -1}, layouts = 0;
u64 last_workspace = 0, limit = 0;
const void* arguments[3];
float scale = -1;  // beta
static char things[1];
int cublasLtCreate(void** h) { *h = things; return 0; }
unsigned long cublasLtGetVersion() { return 130100; }
const char* cublasLtGetStatusString(int s) { return s == 15 ? "CUBLAS_STATUS_NOT_SUPPORTED" : "?"; }
int cublasLtMatmulDescCreate(void** d, int, int) { *d = things; ++live; return 0; }
int cublasLtMatmulDescDestroy(void*) { --live; return 0; }
int cublasLtMatmulDescSetAttribute(void*, int which, const void* v, unsigned long) {
  if (which == 3 || which == 4) transposes[which - 3] = *(const int*)v;
  if (which == 7) epilogue = *(const int*)v;
  if (which == 8) bias = *(const void* const*)v;
  if (which == 15) used = *(const int*)v;
  if (which == 17 || which == 18) scales[which - 17] = *(const void* const*)v;
  if (which == 25) fast = *(const signed char*)v;
  if (which == 26) bias_type = *(const int*)v;
  return 0;
}
int cublasLtMatrixLayoutCreate(void** l, int type, u64, u64, long long) {
  types[layouts++ % 3] = type;
  *l = things; ++live;
  return 0;
}
int cublasLtMatrixLayoutDestroy(void*) { --live; return 0; }
int cublasLtMatmulPreferenceCreate(void** p) { *p = things; ++live; return 0; }
int cublasLtMatmulPreferenceDestroy(void*) { --live; return 0; }
int cublasLtMatmulPreferenceSetAttribute(void*, int which, const void* v, unsigned long) {
  if (which == 1) limit = *(const u64*)v;
  return 0;
}
int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int wanted, Heuristic* out, int* found) {
  ++searches;
  *found = 0;
  for (int i = 0; i < count && *found < wanted; ++i) {
    if (i == 3 && limit < 8192) continue;
    Heuristic& h = out[(*found)++];
    h.algorithm.data[0] = i + 1, h.workspace = i == 3 ? 8192 : limit ? 4 : 0, h.status = 0;
  }
  return 0;
}
int cublasLtMatmulAlgoCheck(void*, void*, void*, void*, void*, void*, const Algorithm* a, Heuristic* out) {
  ++checks;
  out->workspace = a->data[0] == 4 ? 8192 : 4, out->status = 0;
  return fails[a->data[0] - 1];
}
int cublasLtMatmul(void*, void*, const void*, const void* a, void*, const void* b, void*, const void* beta, const void* c, void*, void* d, void*,
                   const Algorithm* algorithm, void* workspace, unsigned long bytes, void*) {
  const int i = int(algorithm->data[0]) - 1;
  if (fails[i]) return fails[i];
  if ((bytes > 0) != (workspace != nullptr)) return 7;
  if (c != d) return 7;
  arguments[0] = a, arguments[1] = b, arguments[2] = d, last_workspace = bytes, scale = *(const float*)beta;
  *clock_ += takes[i], last = i, ++runs;
  return 0;
}
})";

const MatrixProduct kProblem{DType::bf16, 64, 32, 16, true, false, 16, 16, false};

struct World {
  FakeDriver driver;
  FakeLibrary library{kFakeLibrary, "libcublasLt.so.13"};
  char first = 0, second = 0, out = 0, bias = 0, memory[8192];

  World() { library.variable<float*>("clock_") = &driver.variable<float>("now"); }
  std::string run(const CublasLtProduct& p, bool measure = true, bool accumulate = false) {
    return p.run(
        0, nullptr, ProductOperands{&first, &second, &bias, &out, accumulate}, [&](size_t) { return memory; }, measure);
  }
  int last() const { return library.variable<int>("last"); }
  void takes(std::array<float, 4> t) { std::copy(t.begin(), t.end(), library.variable<float[4]>("takes")); }
};

// The number of the first condition in `body` that does not hold, 0 if all do; in a child that knows no other driver.
template <class Body>
int in_world(Body body) {
  const OwnCache own;
  return in_child([&] {
    World world;
    const cublaslt::Api* api = world.driver.module && world.library.module ? cublaslt::api() : nullptr;
    return api ? body(world, *api) : 50;
  });
}

}  // namespace

TEST_CASE("cublaslt: the first choice stays unless another is clearly faster") {
  if (!can_fake()) return;
  CHECK(in_world([](World& w, const cublaslt::Api& api) {
          w.takes({1.0f, 0.98f, 1.5f, 2.0f});
          const CublasLtProduct near(api, kProblem);
          if (!w.run(near).empty() || w.last() != 0) return 1;
          if (w.library.variable<int[2]>("transposes")[0] != 1 || w.library.variable<int[2]>("transposes")[1] != 0)
            return 2;
          const auto& arguments = w.library.variable<const void* [3]>("arguments");
          if (arguments[0] != &w.first || arguments[1] != &w.second || arguments[2] != &w.out) return 3;
          w.takes({1.0f, 0.98f, 1.5f, 0.7f});
          MatrixProduct other = kProblem;
          other.m = 128;
          const CublasLtProduct far(api, other);
          if (!w.run(far).empty() || w.last() != 3 || w.library.variable<uint64_t>("last_workspace") != 8192) return 4;
          // Chosen once: what changes later changes nothing.
          const int runs = w.library.variable<int>("runs");
          w.takes({0.1f, 0.1f, 0.1f, 5.0f});
          if (!w.run(far).empty() || w.last() != 3 || w.library.variable<int>("runs") != runs + 1) return 5;
          return 0;
        }) == 0);
}

TEST_CASE("cublaslt: nothing is measured where that is not wanted or not possible") {
  if (!can_fake()) return;
  CHECK(in_world([](World& w, const cublaslt::Api& api) {
          w.takes({1.0f, 0.2f, 0.3f, 0.4f});
          const CublasLtProduct p(api, kProblem);
          if (!w.run(p, false).empty() || w.last() != 0 || w.library.variable<int>("runs") != 1) return 1;
          w.driver.variable<int>("capturing") = 1;
          if (!w.run(p).empty() || w.last() != 0 || w.library.variable<int>("runs") != 2) return 2;
          w.driver.variable<int>("capturing") = 0;
          if (!w.run(p).empty() || w.last() != 1) return 3;
          return w.run(p, false).empty() && w.last() == 0 ? 0 : 4;
        }) == 0);
}

TEST_CASE("cublaslt: the choice is kept on disk, and looked at again before it is trusted") {
  if (!can_fake()) return;
  CHECK(in_world([](World& w, const cublaslt::Api& api) {
          w.takes({1.0f, 0.2f, 0.3f, 0.4f});
          if (!w.run(CublasLtProduct(api, kProblem)).empty() || w.last() != 1) return 1;
          const int searches = w.library.variable<int>("searches");
          if (!w.run(CublasLtProduct(api, kProblem)).empty() || w.last() != 1 ||
              w.library.variable<int>("searches") != searches)
            return 2;
          if (w.library.variable<uint64_t>("last_workspace") != 0) return 3;
          MatrixProduct with_bias = kProblem;
          with_bias.bias = true;
          if (!w.run(CublasLtProduct(api, with_bias)).empty() || w.library.variable<int>("searches") == searches)
            return 4;
          if (w.library.variable<int>("epilogue") != 4 || w.library.variable<const void*>("bias") != &w.bias) return 5;
          // A library that refuses the algorithm by now.
          w.library.variable<int[4]>("fails")[1] = 15;
          if (!w.run(CublasLtProduct(api, kProblem)).empty() || w.last() != 2) return 6;
          return w.library.variable<int>("live") == 0 ? 0 : 7;
        }) == 0);
}

TEST_CASE("cublaslt: algorithms that fail are passed over, and a product without one says so") {
  if (!can_fake()) return;
  CHECK(in_world([](World& w, const cublaslt::Api& api) {
          auto& fails = w.library.variable<int[4]>("fails");
          fails[0] = fails[2] = 15;
          if (!w.run(CublasLtProduct(api, kProblem)).empty() || (w.last() != 1 && w.last() != 3)) return 1;
          fails[1] = fails[3] = 15;
          MatrixProduct other = kProblem;
          other.n = 8;
          const CublasLtProduct none(api, other);
          if (w.run(none) != "CUBLAS_STATUS_NOT_SUPPORTED") return 2;
          w.library.variable<int>("count") = 0;
          other.n = 9;
          return w.run(CublasLtProduct(api, other)) == "cuBLASLt has no algorithm for it" ? 0 : 3;
        }) == 0);
}

TEST_CASE("cublaslt: a product is added to what is there once its algorithm is known") {
  if (!can_fake()) return;
  CHECK(in_world([](World& w, const cublaslt::Api& api) {
          w.takes({1.0f, 0.2f, 0.3f, 0.4f});
          const float& scale = w.library.variable<float>("scale");
          const CublasLtProduct p(api, kProblem);
          if (p.ready(0, true) || p.ready(0, false)) return 1;
          // What is not measured is no reason not to measure.
          if (!w.run(p, false).empty() || scale != 0 || !p.ready(0, false) || p.ready(0, true)) return 2;
          if (!w.run(p).empty() || scale != 0 || !p.ready(0, true)) return 3;
          const int runs = w.library.variable<int>("runs");
          if (!w.run(p, true, true).empty() || scale != 1 || w.last() != 1) return 4;
          if (w.library.variable<int>("runs") != runs + 1) return 5;
          if (!w.run(p).empty() || scale != 0) return 6;
          // In another process.
          return CublasLtProduct(api, kProblem).ready(0, true) ? 0 : 7;
        }) == 0);
}

TEST_CASE("cublaslt: float8 operands have types and scales of their own") {
  if (!can_fake()) return;
  CHECK(in_world([](World& w, const cublaslt::Api& api) {
          MatrixProduct problem = kProblem;
          problem.bias = true;
          problem.float8 = MatrixProduct::Float8{DType::f8e4m3fn, DType::f8e5m2, false};
          const float scales[2] = {1, 2};
          const auto run = [&](const MatrixProduct& p) {
            ProductOperands o{&w.first, &w.second, &w.bias, &w.out};
            o.first_scale = scales, o.second_scale = scales + 1;
            return CublasLtProduct(api, p).run(
                0, nullptr, o, [&](size_t) { return w.memory; }, true);
          };
          if (!run(problem).empty()) return 1;
          const auto& types = w.library.variable<int[3]>("types");
          if (types[0] != 28 || types[1] != 29 || types[2] != 14) return 2;
          const auto& given = w.library.variable<const void* [2]>("scales");
          if (given[0] != scales || given[1] != scales + 1) return 3;
          if (w.library.variable<int>("fast") != 0 || w.library.variable<int>("bias_type") != 14) return 4;
          // Another kind of sum is another product, with measurements of its own.
          const int searches = w.library.variable<int>("searches");
          problem.float8->fast = true;
          if (!run(problem).empty() || w.library.variable<int>("fast") != 1) return 5;
          if (w.library.variable<int>("searches") == searches) return 6;
          return w.library.variable<int>("live") == 0 ? 0 : 7;
        }) == 0);
}

TEST_CASE("cublaslt: a product that leaves multiprocessors free has a choice of its own") {
  if (!can_fake()) return;
  CHECK(in_world([](World& w, const cublaslt::Api& api) {
          const int& used = w.library.variable<int>("used");
          if (!w.run(CublasLtProduct(api, kProblem)).empty() || used != -1) return 1;
          MatrixProduct problem = kProblem;
          problem.left_free = 2;
          const int searches = w.library.variable<int>("searches");
          if (!w.run(CublasLtProduct(api, problem)).empty()) return 2;
          if (used != cuda_device_properties(0).multiprocessors - 2) return 3;
          if (w.library.variable<int>("searches") == searches) return 4;
          // Of more than there are one is left for it.
          problem.left_free = 1 << 20;
          if (!w.run(CublasLtProduct(api, problem)).empty() || used != 1) return 5;
          return w.library.variable<int>("live") == 0 ? 0 : 6;
        }) == 0);
}
