// Arguments of operators that are gradients of others.
#include <algorithm>

#include "fuzz/makers.h"

namespace thunder::fuzz {
namespace {

using Shape = Draw::Shape;

// The gradient of the result that `forward` has for an input of some shape.
Made gradient_of(Draw& d, const std::string& forward, const Named& arguments, Value input, const char* gradient_name) {
  std::optional<Shape> s = result_shape(forward, arguments);
  if (!s) return std::nullopt;
  Named m = arguments;
  m[gradient_name] = floats(d, *s, input.dtype());
  m["input_sizes"] = Arg(Draw::shape_of(input));
  m["sizes"] = m["input_sizes"];
  return m;
}

Made slice_backward(Draw& d) {
  Value v = floats(d, d.shape(1, 4));
  int64_t dim = random_dim(d, v), n = Draw::size(v, dim), start = d.random.between(0, n),
          end = d.random.between(start, n), step = d.random.between(1, 2);
  Shape s = Draw::shape_of(v);
  s[static_cast<size_t>(dim)] = (end - start + step - 1) / step;
  return Named{{"grad_output", floats(d, s, v.dtype())},
               {"input_sizes", Arg(Draw::shape_of(v))},
               {"dim", dim},
               {"start", start},
               {"end", end},
               {"step", step}};
}

Made select_backward(Draw& d) {
  Value v = floats(d, d.shape(1, 4));
  int64_t dim = random_dim(d, v), n = Draw::size(v, dim);
  if (n == 0) return std::nullopt;
  return gradient_of(d, "torch.select", {{"input", v}, {"dim", dim}, {"index", d.random.below(n)}}, v, "grad_output");
}

Made diagonal_backward(Draw& d) {
  Value v = floats(d, d.shape(2, 4));
  auto [dim1, dim2] = two_dims(d, v.rank());
  return gradient_of(d, "torch.diagonal",
                     {{"input", v}, {"offset", d.random.between(-1, 1)}, {"dim1", dim1}, {"dim2", dim2}}, v,
                     "grad_output");
}

Made unfold_backward(Draw& d) {
  Value v = floats(d, d.shape(1, 3));
  int64_t dim = random_dim(d, v), n = Draw::size(v, dim);
  if (n == 0) return std::nullopt;
  int64_t size = d.random.between(1, n), step = d.random.between(1, 2);
  Made m =
      gradient_of(d, "torch.unfold", {{"self", v}, {"dimension", dim}, {"size", size}, {"step", step}}, v, "grad_in");
  if (m) (*m)["dim"] = dim;
  return m;
}

Made value_selecting(Draw& d) {
  Value v = floats(d, d.shape(1, 3));
  int64_t dim = random_dim(d, v), n = Draw::size(v, dim);
  if (n == 0) return std::nullopt;
  bool keepdim = d.random.chance(0.5);
  Made m = gradient_of(d, "torch.max.dim", {{"input", v}, {"dim", dim}, {"keepdim", keepdim}}, v, "grad");
  if (m) (*m)["indices"] = d.indices(Draw::shape_of((*m)["grad"].value()), n);
  return m;
}

Made masked_scatter_backward(Draw& d) {
  Value v = floats(d, d.shape());
  return Named{{"grad_output", v}, {"mask", d.mask(Draw::shape_of(v))}, {"sizes", Arg(d.shape())}};
}

}  // namespace

void add_backward_makers(Makers& m) {
  m.insert({{"torch.slice_backward", slice_backward},
            {"torch.select_backward", select_backward},
            {"torch.diagonal_backward", diagonal_backward},
            {"torch.unfold_backward", unfold_backward},
            {"torch.value_selecting_reduction_backward", value_selecting},
            {"torch.masked_scatter_backward", masked_scatter_backward}});
}

}  // namespace thunder::fuzz
