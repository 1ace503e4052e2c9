// Resampling and its gradients by gathers, as kernels for a GPU compute them, against sums written out.
#include <doctest.h>

#include "ops/body_checks.h"

namespace thunder::test {
namespace {

struct Case {
  std::string name;
  std::vector<int64_t> from, to;
  bool align = false;
  double factor = 0;
};

ArgList options(const Case& c) {
  ArgList out;
  if (c.name.find("nearest") == std::string::npos) out.push_back(c.align);
  for (size_t i = 0; i < c.to.size(); ++i) out.push_back(c.factor > 0 ? Arg(c.factor) : Arg());
  return out;
}

void check(const Case& c, DType t, bool channels_last) {
  CAPTURE(c.name);
  CAPTURE(c.from.back());
  CAPTURE(c.to.back());
  CAPTURE(c.align);
  CAPTURE(c.factor);
  const double most = rounding_of(t);
  std::vector<int64_t> x = {2, 3}, y = x;
  x.insert(x.end(), c.from.begin(), c.from.end());
  y.insert(y.end(), c.to.begin(), c.to.end());
  ArgList forward = {Arg(c.to)}, backward = {Arg(c.to), Arg(x)};
  for (const Arg& o : options(c)) {
    forward.push_back(o);
    backward.push_back(o);
  }
  CHECK(difference("torch.resampled_" + c.name, {{t, x, channels_last}}, forward) <= most);
  CHECK(difference("torch.resampled_" + c.name + "_backward", {{t, y, channels_last}}, backward) <= most);
}

const std::vector<std::pair<int64_t, int64_t>> kSizes = {{4, 8},  {7, 7}, {5, 11}, {11, 5},  {1, 4},  {6, 1},
                                                         {9, 27}, {8, 2}, {2, 9},  {13, 12}, {12, 13}};

}  // namespace

TEST_CASE("resampling: gathers give what the sums give, for sizes of any ratio") {
  ops::register_all();
  for (const auto& [from, to] : kSizes)
    for (const char* name : {"nearest", "nearest_exact", "linear"})
      check({cat(name, "1d"), {from}, {to}}, DType::f32, false);
  for (const auto& [from, to] : kSizes)
    for (const char* name : {"nearest2d", "nearest_exact2d", "bilinear2d", "bicubic2d"})
      for (bool channels_last : {false, true})
        for (bool align : {false, true})
          if (!align || std::string(name).find("nearest") == std::string::npos)
            check({name, {5, from}, {7, to}, align}, DType::f32, channels_last);
  for (bool channels_last : {false, true})
    for (const char* name : {"nearest3d", "nearest_exact3d", "trilinear3d"})
      check({name, {3, 4, 5}, {6, 4, 7}}, DType::f32, channels_last);
}

TEST_CASE("resampling: in every floating type, with the user's factors") {
  ops::register_all();
  for (DType t : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (const char* name : {"nearest2d", "nearest_exact2d", "bilinear2d", "bicubic2d"}) {
      check({name, {5, 6}, {12, 15}, false, 2.5}, t, false);
      check({name, {5, 6}, {3, 3}, false, 0.6}, t, false);
      check({name, {6, 5}, {24, 20}, false, 4}, t, false);
    }
}

TEST_CASE("resampling: what takes too many elements, or is on the CPU, stays with PyTorch's operator") {
  ops::register_all();
  const auto opens = [](int64_t to, Device device = {DeviceType::cuda, 0}) {
    return has_body("torch.resampled_linear1d", {{DType::f32, {1, 1, 4}, false, device}}, {Dims{to}, false, Arg()});
  };
  const auto gradient_opens = [](int64_t to) {
    return has_body("torch.resampled_linear1d_backward", {{DType::f32, {1, 1, to}}},
                    {Dims{to}, Dims{1, 1, 4}, false, Arg()});
  };
  CHECK(opens(8));
  CHECK(!opens(8, Device{}));
  CHECK(gradient_opens(32));
  CHECK(!gradient_opens(64));
}

}  // namespace thunder::test
