// Arguments of pooling and padding: windows over the last dimensions.
#include "fuzz/makers.h"

namespace thunder::fuzz {
namespace {

using Shape = Draw::Shape;

// An input of n spatial dimensions, and windows that fit it.
Named windows(Draw& d, size_t n) {
  Shape x = {d.random.between(1, 2), d.random.between(1, 2)}, kernel, stride, padding;
  for (size_t i = 0; i < n; ++i) {
    x.push_back(d.random.between(3, n == 3 ? 4 : 5));
    kernel.push_back(d.random.between(1, 3));
    stride.push_back(d.random.between(1, 2));
    padding.push_back(d.random.between(0, kernel.back() / 2));
  }
  if (d.random.chance(0.2)) x.erase(x.begin());
  Value v = floats(d, x);
  Named m = {{"input", v},
             {"self", v},
             {"kernel_size", Arg(kernel)},
             {"stride", Arg(stride)},
             {"padding", Arg(padding)},
             {"dilation", Arg(Shape(n, 1))},
             {"ceil_mode", d.random.chance(0.3)},
             {"count_include_pad", d.random.chance(0.5)},
             {"divisor_override", d.random.chance(0.8) ? Arg() : Arg(3)}};
  return m;
}

ArgumentMaker pool(size_t n) {
  return [=](Draw& d) -> Made {
    Named m = windows(d, n);
    if (d.random.chance(0.3) && d.op.schema.params.at(2).optional) m["stride"] = nullptr;
    return m;
  };
}

ArgumentMaker pool_backward(size_t n, std::string forward) {
  return [=](Draw& d) -> Made {
    Named m = windows(d, n);
    std::optional<Shape> s = result_shape(forward, m);
    if (!s) return std::nullopt;
    Value x = m["self"].value();
    m["grad_output"] = floats(d, *s, x.dtype());
    int64_t plane = 1;
    for (size_t i = 0; i < n; ++i) plane *= Draw::size(x, x.rank() - 1 - static_cast<int64_t>(i));
    m["indices"] = d.indices(*s, plane);
    return m;
  };
}

Made adaptive(Draw& d) {
  Shape x = {2, 2, d.random.between(2, 5), d.random.between(2, 5)},
        size = {d.random.between(1, 3), d.random.between(1, 3)};
  if (d.random.chance(0.3)) x.erase(x.begin());
  if (d.op.schema.name == "adaptive_avg_pool1d") {
    x.pop_back();
    return Named{{"input", floats(d, x)}, {"output_size", size[0]}};
  }
  return Named{{"input", floats(d, x)}, {"output_size", Arg(size)}};
}

Made adaptive_backward(Draw& d) {
  Value x = floats(d, {2, 2, d.random.between(2, 5), d.random.between(2, 5)});
  return Named{{"self", x},
               {"grad_output", floats(d, {2, 2, d.random.between(1, 3), d.random.between(1, 3)}, x.dtype())}};
}

Made patches(Draw& d) {
  Named m = windows(d, 2);
  m["dilation"] = Arg(Shape{d.random.between(1, 2), 1});
  return m;
}

// Blocks of an image, as torch.im2col gives them.
Made patches_back(Draw& d) {
  Named m = windows(d, 2);
  const std::optional<Shape> s = result_shape("torch.im2col", m);
  if (!s) return std::nullopt;
  const Value x = m["input"].value();
  m["output_size"] = Arg(Shape{Draw::size(x, x.rank() - 2), Draw::size(x, x.rank() - 1)});
  m["input"] = floats(d, *s, x.dtype());
  return m;
}

// Padding smaller than the input, as reflection wants it.
Named edge_padding(Draw& d, size_t n) {
  Shape x = {d.random.between(1, 2), d.random.between(1, 2)}, padding;
  for (size_t i = 0; i < n; ++i) {
    x.push_back(d.random.between(3, 4));
    padding.push_back(d.random.between(-1, 2));
    padding.push_back(d.random.between(0, 2));
  }
  if (d.random.chance(0.3)) x.erase(x.begin());
  Value v = floats(d, x);
  return {{"input", v}, {"self", v}, {"padding", Arg(padding)}, {"pad", Arg(padding)}};
}

ArgumentMaker edge_pad(size_t n, std::string forward, bool backward) {
  return [=](Draw& d) -> Made {
    Named m = edge_padding(d, n);
    if (!backward) return m;
    std::optional<Shape> s = result_shape(forward, m);
    if (!s) return std::nullopt;
    m["grad_output"] = floats(d, *s, m["self"].value().dtype());
    return m;
  };
}

// Factors that the sizes of the result follow from, or none.
Made resampling(Draw& d) {
  const std::string& name = d.op.schema.name;
  const size_t n = name.find("1d") != std::string::npos ? 1 : name.find("3d") != std::string::npos ? 3 : 2;
  static const std::vector<double> kFactors = {0.5, 1, 1.5, 2, 3};
  static const std::vector<std::vector<const char*>> kNames = {
      {}, {"scales"}, {"scales_h", "scales_w"}, {"scales_d", "scales_h", "scales_w"}};
  const bool given = d.random.chance(0.5);
  Shape x = {d.random.between(1, 2), d.random.between(1, 2)}, out;
  Named m;
  ArgList factors;
  for (size_t i = 0; i < n; ++i) {
    x.push_back(d.random.between(2, n == 3 ? 3 : 5));
    const double factor = d.random.pick(kFactors);
    out.push_back(given ? static_cast<int64_t>(static_cast<double>(x.back()) * factor) : d.random.between(1, 6));
    factors.push_back(factor);
    m[kNames[n][i]] = given ? Arg(factor) : Arg();
  }
  const bool either = d.op.schema.index_of("scale_factors") >= 0;
  m["input"] = floats(d, x);
  m["input_size"] = Arg(x);
  m["output_size"] = either && given ? Arg() : Arg(out);
  m["scale_factors"] = given ? Arg::list(std::move(factors)) : Arg();
  m["align_corners"] = d.random.chance(0.5);
  Shape g = {x[0], x[1]};
  g.insert(g.end(), out.begin(), out.end());
  m["grad_output"] = floats(d, g);
  return m;
}

Made pad(Draw& d) {
  Named m = edge_padding(d, static_cast<size_t>(d.random.between(1, 3)));
  static const std::vector<const char*> modes = {"constant", "constant", "reflect", "replicate", "circular"};
  m["mode"] = d.random.pick(modes);
  m["value"] = m["mode"].str() == "constant" && d.random.chance(0.5) ? Arg(0.5) : Arg();
  return m;
}

}  // namespace

void add_window_makers(Makers& m) {
  for (size_t n = 1; n <= 3; ++n) {
    std::string d = std::to_string(n) + "d";
    for (const char* name : {"torch.max_pool", "torch.avg_pool"}) m[name + d] = pool(n);
    m["torch.max_pool" + d + "_with_indices"] = pool(n);
    m["torch.max_pool" + d + "_with_indices.functional"] = pool(n);
    if (n > 1)
      m["torch.max_pool" + d + "_with_indices_backward"] = pool_backward(n, "torch.max_pool" + d + "_with_indices");
    if (n > 1) m["torch.avg_pool" + d + "_backward"] = pool_backward(n, "torch.avg_pool" + d);
    for (const char* kind : {"torch.reflection_pad", "torch.replication_pad"}) {
      m[kind + d] = edge_pad(n, kind + d, false);
      m[kind + d + "_backward"] = edge_pad(n, kind + d, true);
    }
  }
  m.insert({{"torch.im2col", patches}, {"torch.col2im", patches_back}});
  m.insert({{"torch._adaptive_avg_pool2d", adaptive},
            {"torch.adaptive_avg_pool2d", adaptive},
            {"torch.adaptive_avg_pool1d", adaptive},
            {"torch._adaptive_avg_pool2d_backward", adaptive_backward},
            {"torch.pad", pad}});
  for (const Op* op : Registry::instance().all())
    if (op->full_name.starts_with("torch.resampled_") || op->full_name.find("upsample_") != std::string::npos)
      m[op->full_name] = resampling;
}

}  // namespace thunder::fuzz
