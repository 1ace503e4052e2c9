// Group norm of images whose channels are neighbours in memory, by columns, against the one that goes by rows.
#include <doctest.h>

#include "ops/body_checks.h"
#include "passes/autodiff.h"

namespace thunder::test {
namespace {

struct Sizes {
  std::vector<int64_t> image;
  int64_t groups;
};

const std::vector<Sizes> kSizes = {{{2, 8, 4, 6}, 2}, {{1, 6, 5, 7}, 3}, {{3, 4, 1, 1}, 2},
                                   {{2, 5, 3, 3}, 5}, {{2, 6, 1, 9}, 1}, {{2, 4, 2, 3, 3}, 2}};

reference::ArrayPtr numbers(DType t, const std::vector<int64_t>& sizes, double offset, uint64_t seed) {
  fuzz::Random random(seed);
  auto out = reference::make_array(t, {DeviceType::cuda, 0}, sizes);
  for (auto& e : out->data) e = reference::Element::real(reference::round_real(t, offset + random.uniform(-1, 1)));
  return out;
}

// All results of the operator and of its gradient.
std::vector<reference::ArrayPtr> results(const std::string& name, const Sizes& sizes, DType t, double offset,
                                         bool channels_last, bool affine) {
  Builder b(std::make_shared<Arena>());
  reference::Evaluator evaluator;
  auto input = [&](const std::vector<int64_t>& shape, double about, uint64_t seed) {
    const Value v = b.input(type_of({t, shape, channels_last && shape.size() > 3}));
    evaluator.define(v, numbers(t, shape, about, seed));
    return v;
  };
  const int64_t n = sizes.image[0], c = sizes.image[1];
  int64_t positions = 1;
  for (size_t i = 2; i < sizes.image.size(); ++i) positions *= sizes.image[i];
  const Value x = input(sizes.image, offset, 1), g = input(sizes.image, 0, 2);
  const Arg weight = affine ? Arg(input({c}, 1, 3)) : Arg(), bias = affine ? Arg(input({c}, 0, 4)) : Arg();
  const Expr norm = b("torch." + name, x, weight, bias, n, c, positions, sizes.groups, 1e-5);
  const Expr gradients = b("torch." + name + "_backward", g, x, norm[1], norm[2], weight, n, c, positions, sizes.groups,
                           Arg::list({true, affine, affine}));
  for (const Call* call : b.calls()) evaluator.run(*call, b.arena());
  std::vector<reference::ArrayPtr> out;
  for (const Expr& e : {norm, gradients})
    for (const Arg& a : e.arg().items())
      if (a.is_tensor()) out.push_back(evaluator.get(a.value()).array);
  if (channels_last && positions > 1 && n > 0)
    for (const Expr& e : {norm, gradients}) CHECK(same(e[0].tensor().strides, channels_last_strides(e[0].shape())));
  return out;
}

double difference_of_forms(const Sizes& sizes, DType t, double offset, bool channels_last, bool affine) {
  const auto wanted = results("native_group_norm", sizes, t, offset, false, affine);
  const auto got = results("group_norm_as_laid_out", sizes, t, offset, channels_last, affine);
  REQUIRE(wanted.size() == got.size());
  double most = 0;
  for (size_t k = 0; k < wanted.size(); ++k) {
    REQUIRE(wanted[k]->shape == got[k]->shape);
    for (size_t i = 0; i < wanted[k]->data.size(); ++i) {
      const double w = wanted[k]->data[i].re;
      most = std::max(most, std::abs(w - got[k]->data[i].re) / (1 + std::abs(w)));
    }
  }
  return most;
}

// The gradients of the gradient of the input.
std::vector<reference::ArrayPtr> second_derivatives(const std::string& name, bool channels_last) {
  const std::vector<int64_t> image = {2, 6, 3, 4};
  Builder b(std::make_shared<Arena>());
  auto input = [&](const std::vector<int64_t>& shape) {
    TensorType t = type_of({DType::f64, shape, channels_last && shape.size() > 3});
    t.requires_grad = true;
    return b.input(t);
  };
  const Value x = input(image), weight = input({6}), bias = input({6}), g = input(image);
  const Expr norm = b("torch." + name, x, weight, bias, 2, 6, 12, 2, 1e-5);
  const Expr gradients =
      b("torch." + name + "_backward", g, x, norm[1], norm[2], weight, 2, 6, 12, 2, Arg::list({true, true, true}));
  const JointTrace second = autodiff(b.finish("f", Arg::tuple({gradients[0], gradients[1]})));
  std::vector<reference::Datum> data;
  for (size_t i = 0; i < second.trace.inputs.size(); ++i) {
    std::vector<int64_t> shape;
    for (const Dim& d : second.trace.inputs[i].shape()) shape.push_back(d.constant());
    data.emplace_back(numbers(DType::f64, shape, 0.5, i + 1));
  }
  const reference::Datum all = reference::evaluate(second.trace, data);
  std::vector<reference::ArrayPtr> out;
  for (const reference::Datum& d : all.items.at(1).items)
    if (d.array) out.push_back(d.array);
  return out;
}

}  // namespace

TEST_CASE("group norm: by columns as by rows") {
  ops::register_all();
  for (const Sizes& sizes : kSizes) {
    CAPTURE(sizes.image);
    for (bool channels_last : {false, true})
      for (bool affine : {false, true}) {
        CHECK(difference_of_forms(sizes, DType::f64, 0, channels_last, affine) <= 1e-9);
        CHECK(difference_of_forms(sizes, DType::f32, 0, channels_last, affine) <= 5e-3);  // groups of two elements
      }
  }
}

TEST_CASE("group norm: columns far from zero keep their digits") {
  ops::register_all();
  CHECK(difference_of_forms({{2, 8, 16, 16}, 2}, DType::f32, 1000, true, true) <= 2e-2);
}

TEST_CASE("group norm: gradients of gradients") {
  ops::register_all();
  const auto wanted = second_derivatives("native_group_norm", false);
  CHECK(wanted.size() >= 3);
  for (bool channels_last : {false, true}) {
    const auto got = second_derivatives("group_norm_as_laid_out", channels_last);
    REQUIRE(wanted.size() == got.size());
    for (size_t k = 0; k < wanted.size(); ++k)
      for (size_t i = 0; i < wanted[k]->data.size(); ++i)
        CHECK(std::abs(wanted[k]->data[i].re - got[k]->data[i].re) <= 1e-7 * (1 + std::abs(wanted[k]->data[i].re)));
  }
}

TEST_CASE("group norm: images without elements") {
  ops::register_all();
  const auto out = results("group_norm_as_laid_out", {{0, 4, 3, 3}, 2}, DType::f32, 0, true, true);
  CHECK(out[0]->data.empty());
  CHECK(out[0]->shape == std::vector<int64_t>{0, 4, 3, 3});
}

}  // namespace thunder::test
