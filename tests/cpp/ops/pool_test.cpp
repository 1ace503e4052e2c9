// Pooling and its gradients by slices and gathers, as kernels for a GPU compute them, against sums written out.
#include <doctest.h>

#include "ops/body_checks.h"

namespace thunder::test {
namespace {

struct Case {
  std::vector<int64_t> in;
  int64_t kernel, stride, padding;
  bool ceil = false;
};

const std::vector<Case> kCases = {{{8, 6}, 2, 2, 0},  {{7, 9}, 2, 2, 0},      {{7, 9}, 2, 2, 0, true},
                                  {{9, 8}, 3, 2, 1},  {{9, 8}, 3, 1, 1},      {{8, 9}, 3, 2, 1, true},
                                  {{9, 11}, 2, 3, 0}, {{5, 7}, 3, 3, 1},      {{4, 4}, 1, 1, 0},
                                  {{3, 1}, 1, 2, 0},  {{9, 9}, 4, 3, 2, true}};

Dims both(int64_t n) { return {Dim(n), Dim(n)}; }

int64_t pooled(int64_t in, const Case& c) {
  const int64_t room = in + 2 * c.padding - c.kernel, out = (c.ceil ? room + c.stride - 1 : room) / c.stride + 1;
  return c.ceil && (out - 1) * c.stride >= in + c.padding ? out - 1 : out;
}

void check(const Case& c, DType t, bool channels_last) {
  CAPTURE(c.kernel);
  CAPTURE(c.stride);
  CAPTURE(c.padding);
  CAPTURE(c.ceil);
  CAPTURE(channels_last);
  const double most = rounding_of(t);
  const std::vector<int64_t> x = {2, 3, c.in[0], c.in[1]}, y = {2, 3, pooled(c.in[0], c), pooled(c.in[1], c)};
  const std::vector<Arg> divisors = {Arg(), Arg(3)};
  for (bool with_padding : {false, true})
    for (const Arg& divisor : divisors) {
      const ArgList options = {both(c.kernel), both(c.stride), both(c.padding), c.ceil, with_padding, divisor};
      CHECK(difference("torch.avg_pool2d", {{t, x, channels_last}}, options) <= most);
      CHECK(difference("torch.avg_pool2d_backward", {{t, y, channels_last}, {t, x, channels_last}}, options) <= most);
    }
  // Indices of any windows: what no window of an element has adds nothing to it.
  const ArgList options = {both(c.kernel), both(c.stride), both(c.padding), both(1), c.ceil};
  CHECK(max_pool_difference({t, y, channels_last}, {t, x, channels_last}, options) <= most);
}

}  // namespace

TEST_CASE("pooling: slices and gathers give what the sums give") {
  ops::register_all();
  for (const Case& c : kCases)
    for (bool channels_last : {false, true}) check(c, DType::f32, channels_last);
  for (DType t : {DType::f64, DType::bf16, DType::f16}) check(kCases[3], t, false);
}

TEST_CASE("pooling: adaptive means of windows that are alike") {
  ops::register_all();
  for (bool channels_last : {false, true}) {
    const Operand x = {DType::f32, {2, 3, 8, 6}, channels_last}, y = {DType::f32, {2, 3, 4, 2}, channels_last};
    CHECK(difference("torch._adaptive_avg_pool2d", {x}, {Dims{4, 2}}) <= 1e-5);
    CHECK(difference("torch._adaptive_avg_pool2d_backward", {y, x}, {}) <= 1e-5);
    CHECK(!has_body("torch._adaptive_avg_pool2d", {x}, {Dims{3, 2}}));
  }
}

TEST_CASE("padding: mirrored and repeated elements, and their gradients") {
  ops::register_all();
  for (bool channels_last : {false, true})
    for (const Dims& pad : {Dims{1, 2, 3, 0}, Dims{3, 3, 3, 3}, Dims{0, 0, 0, 1}})
      for (const char* op : {"torch.reflection_pad2d", "torch.replication_pad2d"}) {
        const Operand x = {DType::f32, {2, 3, 5, 4}, channels_last};
        const Operand g = {DType::f32,
                           {2, 3, 5 + pad[2].constant() + pad[3].constant(), 4 + pad[0].constant() + pad[1].constant()},
                           channels_last};
        CHECK(difference(op, {x}, {pad}) == 0);
        CHECK(difference(std::string(op) + "_backward", {g, x}, {pad}) <= 1e-5);
        CHECK(!has_body(op, {x}, {Dims{-1, 0, 0, 0}}));
      }
}

TEST_CASE("pooling: large windows, dilated ones and the CPU stay with PyTorch's operators") {
  ops::register_all();
  const Operand x = {DType::f32, {1, 1, 20, 20}, false};
  const auto options = [](int64_t kernel) { return ArgList{both(kernel), both(1), both(0), false, true, Arg()}; };
  CHECK(has_body("torch.avg_pool2d", {x}, options(4)));
  CHECK(!has_body("torch.avg_pool2d", {x}, options(5)));
  CHECK(!has_body("torch.avg_pool2d", {{DType::f32, {1, 1, 20, 20}, false, Device{}}}, options(4)));
}

}  // namespace thunder::test
