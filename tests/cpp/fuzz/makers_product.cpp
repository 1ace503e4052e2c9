// Arguments of products and convolutions.
#include <algorithm>
#include <limits>

#include "fuzz/makers.h"

namespace thunder::fuzz {
namespace {

using Shape = Draw::Shape;

// ---- products -------------------------------------------------------------------------------------------------------

Made matmul(Draw& d) {
  Value a = with_rank(d, 2, 4);
  Shape s = Draw::shape_of(a);
  std::swap(s[s.size() - 1], s[s.size() - 2]);
  if (d.random.chance(0.6)) s.back() = d.random.between(1, 4);
  return Named{{param(d, 0), a}, {param(d, 1), d.tensor({.dtype = a.dtype(), .shape = s, .values = {}})}};
}

// Tensors of one dtype whose shapes are spelled with letters: {"nm", "mp"}; each letter is a random size.
Named lettered(Draw& d, const std::vector<const char*>& shapes, std::optional<DType> t = {}) {
  std::map<char, int64_t> sizes;
  DType type = t.value_or(d.smooth() || d.random.chance(0.8) ? d.float_type() : DType::i64);
  Named m;
  for (size_t i = 0; i < shapes.size(); ++i) {
    Shape s;
    for (const char* c = shapes[i]; *c; ++c) {
      if (!sizes.count(*c)) sizes[*c] = *c == '1' ? 1 : d.random.between(d.random.chance(0.05) ? 0 : 1, 4);
      s.push_back(sizes[*c]);
    }
    m[param(d, i)] = d.tensor({.dtype = type, .shape = s, .values = {}});
  }
  return m;
}

ArgumentMaker letters(std::vector<std::vector<const char*>> choices) {
  return [=](Draw& d) -> Made { return lettered(d, d.random.pick(choices)); };
}

Made einsum(Draw& d) {
  static const std::vector<std::pair<const char*, std::vector<const char*>>> known = {
      {"ij,jk->ik", {"ij", "jk"}}, {"bij,bjk->bik", {"bij", "bjk"}},      {"ij->ji", {"ij"}},         {"ij->", {"ij"}},
      {"i,j->ij", {"i", "j"}},     {"bhqd,bhkd->bhqk", {"bhqd", "bhkd"}}, {"ij,ij->i", {"ij", "ij"}},
  };
  const auto& [equation, shapes] = d.random.pick(known);
  DType t = d.float_type();
  std::map<char, int64_t> sizes;
  ArgList operands;
  for (const char* shape : shapes) {
    Shape s;
    for (const char* c = shape; *c; ++c) s.push_back(sizes.try_emplace(*c, d.random.between(1, 3)).first->second);
    operands.push_back(d.tensor({.dtype = t, .shape = s, .values = {}}));
  }
  return Named{{"equation", equation}, {"operands", Arg::list(operands)}};
}

Made tensordot(Draw& d) {
  Named m = lettered(d, {"xij", "ijy"}, d.float_type());
  m["dims"] = d.random.chance(0.5) ? Arg(2) : Arg::list({Arg(Shape{1, 2}), Arg(Shape{0, 1})});
  return m;
}

Made bilinear(Draw& d) {
  Named m = lettered(d, {"ni", "nj", "oij", "o"}, d.float_type());
  if (d.random.chance(0.5)) m["bias"] = nullptr;
  return m;
}

Made linear(Draw& d) {
  Value a = with_rank(d, 1, 3, d.float_type());
  int64_t out = d.random.between(1, 4);
  Value w = d.tensor({.dtype = a.dtype(), .shape = Shape{out, Draw::size(a, a.rank() - 1)}, .values = {}});
  Named m = {{param(d, 0), a}, {param(d, 1), w}};
  m["bias"] = d.random.chance(0.5) ? Arg() : Arg(d.tensor({.dtype = a.dtype(), .shape = Shape{out}, .values = {}}));
  return m;
}

struct ConvolutionSetup {
  Named named;
  Shape output;
  DType dtype;
};

ConvolutionSetup convolution_setup(Draw& d, int64_t spatial, bool transposed) {
  int64_t groups = d.random.between(1, 2), per_group = d.random.between(1, 2);
  int64_t in_channels = groups * d.random.between(1, 2), out_channels = groups * per_group;
  Shape x = {d.random.between(1, 2), in_channels}, w, stride, padding, dilation, output_padding;
  w = transposed ? Shape{in_channels, per_group} : Shape{out_channels, in_channels / groups};
  Shape out = {x[0], out_channels};
  for (int64_t i = 0; i < spatial; ++i) {
    int64_t k = d.random.between(1, 3), n = d.random.between(3, 5), s = d.random.between(1, 2),
            p = d.random.between(0, 1), dil = 1;
    if (k == 2) dil = d.random.between(1, 2);
    x.push_back(n);
    w.push_back(k);
    stride.push_back(s);
    padding.push_back(transposed && k == 1 ? 0 : p);
    dilation.push_back(dil);
    output_padding.push_back(transposed && s == 2 ? d.random.between(0, 1) : 0);
    int64_t reach = dil * (k - 1) + 1;
    out.push_back(transposed ? (n - 1) * s - 2 * padding.back() + reach + output_padding.back()
                             : (n + 2 * padding.back() - reach) / s + 1);
  }
  ConvolutionSetup c{{}, out, d.float_type()};
  c.named = {{"input", d.tensor({.dtype = c.dtype, .shape = x, .values = {}})},
             {"weight", d.tensor({.dtype = c.dtype, .shape = w, .values = {}})},
             {"stride", Arg(stride)},
             {"padding", Arg(padding)},
             {"dilation", Arg(dilation)},
             {"transposed", transposed},
             {"output_padding", Arg(output_padding)},
             {"groups", groups}};
  return c;
}

Made convolution(Draw& d) {
  ConvolutionSetup c = convolution_setup(d, d.random.between(1, 2), d.random.chance(0.3));
  c.named["bias"] =
      d.random.chance(0.5) ? Arg() : Arg(d.tensor({.dtype = c.dtype, .shape = Shape{c.output[1]}, .values = {}}));
  return c.named;
}

ArgumentMaker functional_convolution(int64_t spatial, bool transposed) {
  return [=](Draw& d) -> Made {
    ConvolutionSetup c = convolution_setup(d, spatial, transposed);
    c.named["bias"] =
        d.random.chance(0.5) ? Arg() : Arg(d.tensor({.dtype = c.dtype, .shape = Shape{c.output[1]}, .values = {}}));
    return c.named;
  };
}

Made convolution_backward(Draw& d) {
  ConvolutionSetup c = convolution_setup(d, d.random.between(1, 2), d.random.chance(0.3));
  c.named["grad_output"] = d.tensor({.dtype = c.dtype, .shape = c.output, .values = {}});
  bool bias = d.random.chance(0.5);
  c.named["bias_sizes"] = bias ? Arg(Shape{c.output[1]}) : Arg();
  c.named["output_mask"] = Arg::list({true, d.random.chance(0.7), bias});
  return c.named;
}

// Fresh ones: the singular values of what a program made are often equal.
Made matrices(Draw& d) {
  DType t = d.random.chance(0.7) ? DType::f64 : DType::f32;
  static const std::vector<Arg> orders = {"fro", "nuc", 1, -1, 2, -2, std::numeric_limits<double>::infinity()};
  return Named{{"A", d.tensor({.dtype = t, .shape = d.shape(2, 2), .values = {}, .fresh = true})},
               {"ord", d.random.pick(orders)},
               {"full_matrices", !d.smooth() && d.random.chance(0.3)},
               {"driver", nullptr},
               {"dtype", nullptr},
               {"dim", Arg(Shape{0, 1})}};
}

}  // namespace

void add_product_makers(Makers& m) {
  m.insert({{"prims.matmul", matmul},
            {"prims.linear", linear},
            {"torch.linear", linear},
            {"prims.convolution", convolution},
            {"torch.convolution", convolution},
            {"torch.convolution_backward", convolution_backward},
            {"torch.einsum", einsum},
            {"torch.tensordot", tensordot},
            {"torch.bilinear", bilinear}});
  m.insert(
      {{"torch.matmul",
        letters({{"n", "n"}, {"nm", "mp"}, {"n", "np"}, {"nm", "m"}, {"bnm", "bmp"}, {"bnm", "mp"}, {"abnm", "1bmp"}})},
       {"torch.mm", letters({{"nm", "mp"}})},
       {"torch.bmm", letters({{"bnm", "bmp"}})},
       {"torch.mv", letters({{"nm", "m"}})},
       {"torch.linalg_svd", matrices},
       {"torch.linalg_svdvals", matrices},
       {"torch.linalg_matrix_norm", matrices},
       {"torch.linalg_norm", matrices},
       {"torch.inner", letters({{"n", "n"}, {"nk", "mk"}, {"bnk", "k"}})},
       {"torch.trace", letters({{"nm"}})},
       {"torch.dot", letters({{"n", "n"}})},
       {"torch.vdot", letters({{"n", "n"}})},
       {"torch.outer", letters({{"n", "m"}})},
       {"torch.addmm", letters({{"np", "nm", "mp"}, {"p", "nm", "mp"}})},
       {"torch.baddbmm", letters({{"bnp", "bnm", "bmp"}, {"1np", "bnm", "bmp"}})},
       {"torch.addbmm", letters({{"np", "bnm", "bmp"}})},
       {"torch.addmv", letters({{"n", "nm", "m"}})},
       {"torch.addr", letters({{"nm", "n", "m"}})},
       {"torch.kron", letters({{"n", "m"}, {"nm", "pq"}, {"n", "pq"}})}});
  for (int64_t n = 1; n <= 3; ++n) {
    m["torch.conv" + std::to_string(n) + "d"] = functional_convolution(n, false);
    m["torch.conv_transpose" + std::to_string(n) + "d"] = functional_convolution(n, true);
  }
}

}  // namespace thunder::fuzz
