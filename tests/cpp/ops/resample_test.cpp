// Resampling and its gradients by gathers, as kernels for a GPU compute them, against sums written out.
#include <doctest.h>

#include <algorithm>

#include "core/builder.h"
#include "core/error.h"
#include "fuzz/random.h"
#include "ops/families.h"
#include "reference/evaluator.h"

namespace thunder::test {
namespace {

const Device kGpu{DeviceType::cuda, 0};

struct Case {
  std::string name;
  std::vector<int64_t> from, to;
  bool align = false;
  double factor = 0;
};

TensorType type_of(DType t, const std::vector<int64_t>& sizes, bool channels_last) {
  TensorType out;
  out.dtype = t;
  out.device = kGpu;
  for (int64_t n : sizes) out.shape.emplace_back(n);
  out.strides = channels_last ? channels_last_strides(out.shape) : contiguous_strides(out.shape);
  return out;
}

ArgList options(const Case& c) {
  ArgList out;
  if (c.name.find("nearest") == std::string::npos) out.push_back(c.align);
  for (size_t i = 0; i < c.to.size(); ++i) out.push_back(c.factor > 0 ? Arg(c.factor) : Arg());
  return out;
}

// The greatest difference between what the call's body and the reference's kernel give; -1 where there is no body.
double difference(const std::string& op, DType t, const std::vector<int64_t>& sizes, ArgList rest, bool channels_last) {
  Builder b(std::make_shared<Arena>());
  const Value x = b.input(type_of(t, sizes, channels_last));
  rest.insert(rest.begin(), Arg(x));
  const Value y = b.call_named(op, std::move(rest), {}).value();
  const Call whole = *b.calls().back();
  if (whole.body.empty()) return -1;
  fuzz::Random random(3);
  auto in = reference::make_array(t, kGpu, sizes);
  for (auto& e : in->data) e = reference::Element::real(reference::round_real(t, random.uniform(-1, 1)));
  reference::Evaluator direct, by_parts;
  direct.define(x, in);
  by_parts.define(x, in);
  direct.run(whole, b.arena());
  for (const Call* c : whole.body) by_parts.run(*c, b.arena());
  const auto &wanted = *direct.get(y).array, &got = *by_parts.get(y).array;
  CHECK(wanted.shape == got.shape);
  double most = 0;
  for (size_t i = 0; i < wanted.data.size(); ++i) most = std::max(most, std::abs(wanted.data[i].re - got.data[i].re));
  return most;
}

void check(const Case& c, DType t, bool channels_last) {
  CAPTURE(c.name);
  CAPTURE(c.from.back());
  CAPTURE(c.to.back());
  CAPTURE(c.align);
  CAPTURE(c.factor);
  // Rounding of the result, whose elements are sums of a few below 2, and of places in float32.
  const double most = t == DType::bf16 ? 0.1 : t == DType::f16 ? 1e-2 : t == DType::f32 ? 2e-4 : 1e-10;
  std::vector<int64_t> x = {2, 3}, y = x;
  x.insert(x.end(), c.from.begin(), c.from.end());
  y.insert(y.end(), c.to.begin(), c.to.end());
  ArgList forward = {Arg(c.to)}, backward = {Arg(c.to), Arg(x)};
  for (const Arg& o : options(c)) {
    forward.push_back(o);
    backward.push_back(o);
  }
  const double d = difference("torch.resampled_" + c.name, t, x, forward, channels_last);
  CHECK(d >= 0);
  CHECK(d <= most);
  const double g = difference("torch.resampled_" + c.name + "_backward", t, y, backward, channels_last);
  CHECK(g >= 0);
  CHECK(g <= most);
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
  const auto body_size = [](Device device, int64_t from, int64_t to, const char* op) {
    Builder b(std::make_shared<Arena>());
    const bool gradient = std::string(op).ends_with("backward");
    TensorType x = type_of(DType::f32, {1, 1, gradient ? to : from}, false);
    x.device = device;
    const Value v = b.input(x);
    if (gradient) b(op, v, Dims{to}, Dims{1, 1, from}, false);
    else b(op, v, Dims{to}, false);
    return b.calls().back()->body.size();
  };
  CHECK(body_size(kGpu, 4, 8, "torch.resampled_linear1d") > 0);
  CHECK(body_size(Device{}, 4, 8, "torch.resampled_linear1d") == 0);
  CHECK(body_size(kGpu, 4, 32, "torch.resampled_linear1d_backward") > 0);
  CHECK(body_size(kGpu, 4, 64, "torch.resampled_linear1d_backward") == 0);
}

}  // namespace thunder::test
