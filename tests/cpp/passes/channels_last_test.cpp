#include "passes/channels_last.h"

#include <string>

#include "fuzz/random.h"
#include "passes/laid_out.h"
#include "passes/pass_ops.h"
#include "passes/passes.h"
#include "passes/visit.h"
#include "reference/evaluator.h"

namespace thunder {
namespace {

using test::code;
using test::f32;
using test::pass_builder;

TensorType half(Dims shape) {
  TensorType t = f32(std::move(shape), true);
  t.dtype = DType::bf16;
  t.device = {DeviceType::cuda, 0};
  return t;
}

struct Program {
  Builder b = pass_builder();
  Expr x{b, b.input(half({2, 8, 6, 5}), "x")};
  int weights = 0;
  ExecutorList executors;

  Expr weight(Dim out, Dim in, Dim size) {
    return Expr(b, b.input(half({out, in, size, size}), "w" + std::to_string(weights++)));
  }
  Expr convolution(const Expr& image, Dim out, Dim size = 3, Dim groups = 1) {
    const Dim in = groups.same(1) ? image.shape()[1] : Dim(1);
    return b("torch.conv2d", image, weight(out, in, size), nullptr, 1, 1, 1, groups);
  }
  Expr transposed(const Expr& image, Dim out, int stride = 1) {
    return b("torch.conv_transpose2d", image, weight(image.shape()[1], out, 3), nullptr, stride, 1, stride - 1);
  }
  Expr norm(const Expr& image) {
    return b("torch.batch_norm_functional", image, nullptr, nullptr, nullptr, nullptr, true, 0.1, 1e-5)[0];
  }
  Trace after(const Expr& result) {
    const Trace before = b.finish("f", Arg::tuple({result})), out = channels_last(before, executors);
    CHECK_NOTHROW(verify(out));
    // Results have the strides that they had.
    CHECK(same(out.output.items()[0].value().tensor().strides, before.output.items()[0].value().tensor().strides));
    return out;
  }
  void stays(const Expr& result) {
    const Trace before = b.finish("f", Arg::tuple({result}));
    CHECK(channels_last(before, executors).calls == before.calls);
  }
};

size_t count(const Trace& t, std::string_view op) {
  return static_cast<size_t>(
      std::count_if(t.calls.begin(), t.calls.end(), [&](const Call* c) { return c->op->full_name == op; }));
}

size_t restrides(const Trace& t) { return count(t, "prims.restride"); }

// Whether every image that a convolution reads or makes is so.
bool convolutions_are_channels_last(const Trace& t) {
  bool all = true;
  for (const Call* c : t.calls) {
    if (!c->op->full_name.starts_with("torch.conv")) continue;
    for (Value v : {c->args[0].value(), c->args[1].value(), c->output.value()})
      all &= lies_so(v.tensor(), channels_last_strides(v.shape()));
  }
  return all;
}

TEST_CASE("channels_last: images between convolutions, through what stands between them") {
  Program p;
  const Expr first = p.b("torch.relu", p.norm(p.convolution(p.x, 16)));
  const Expr second = p.b("torch.add", p.convolution(p.b("torch.max_pool2d", first, 2), 16), 1.0);
  const Trace t = p.after(p.b("torch.mean", p.convolution(second, 4), Arg::list({2, 3})));
  CHECK(convolutions_are_channels_last(t));
  CHECK(restrides(t) == 4);  // the first image, three weights
}

TEST_CASE("channels_last: the caller gets an image as it was") {
  Program p;
  const Trace t = p.after(p.convolution(p.b("torch.relu", p.convolution(p.x, 8)), 8));
  CHECK(convolutions_are_channels_last(t));
  CHECK(restrides(t) == 4);  // the first image, two weights, the result
}

TEST_CASE("channels_last: group norms, paddings and resampled images lie as what they read") {
  Program p;
  const Expr norm = p.b("torch.silu", p.b("torch.group_norm", p.convolution(p.x, 8), 2));
  const Expr larger = p.b("torch.upsample_nearest2d", norm, Arg::list({12, 10}));
  const Expr padded = p.b("torch.pad", p.convolution(larger, 8), Arg::list({0, 1, 0, 1}));
  const Expr last = p.b("torch.group_norm", p.convolution(padded, 8), 4);
  const Trace t = p.after(p.b("torch.sum", last));
  CHECK(convolutions_are_channels_last(t));
  CHECK(restrides(t) == 4);  // the first image, three weights
  CHECK(count(t, "torch.group_norm") == 0);
}

TEST_CASE("channels_last: instance norms and transposed convolutions lie as what they read") {
  Program p;
  const Expr down = p.b("torch.relu", p.b("torch.instance_norm", p.convolution(p.x, 16)));
  const Expr up = p.b("torch.instance_norm", p.transposed(down, 8, 2));
  const Trace t = p.after(p.b("torch.sum", p.convolution(up, 8)));
  CHECK(convolutions_are_channels_last(t));
  CHECK(restrides(t) == 4);  // the first image, three weights
  CHECK(count(t, "torch.instance_norm") == 0);
}

TEST_CASE("channels_last: volumes") {
  Program p;
  const Expr x(p.b, p.b.input(half({2, 4, 6, 5, 8}), "volume"));
  const auto weight = [&](Dim out, Dim in, const char* name) {
    return Expr(p.b, p.b.input(half({out, in, 3, 3, 3}), name));
  };
  const Expr norm = p.norm(p.b("torch.conv3d", x, weight(8, 4, "v0"), nullptr, 1, 1));
  const Expr down = p.b("torch.relu", p.b("torch.group_norm", p.b("torch.max_pool3d", norm, 2), 2));
  const Expr up = p.b("torch.conv_transpose3d", down, weight(8, 4, "v1"), nullptr, 2, 1, 1);
  const Trace t = p.after(p.b("torch.sum", p.b("torch.instance_norm", up)));
  CHECK(convolutions_are_channels_last(t));
  CHECK(restrides(t) == 3);  // the first volume, two weights
}

TEST_CASE("channels_last: an instance norm by running statistics reads the image as it was") {
  Program p;
  const Expr mean(p.b, p.b.input(half({8}), "m")), variance(p.b, p.b.input(half({8}), "v"));
  Expr y = p.convolution(p.convolution(p.x, 8), 8);
  y = p.convolution(p.b("torch.instance_norm", y, mean, variance, nullptr, nullptr, false), 8);
  const Trace t = p.after(p.b("torch.sum", y));
  CHECK(convolutions_are_channels_last(t));
  CHECK(count(t, "torch.instance_norm") == 1);
}

TEST_CASE("channels_last: a group norm of an image that the caller has laid out") {
  Program p;
  const Expr image(p.b, p.b.input(half({2, 8, 6, 5}), "y"));
  const Expr laid_out = p.b("prims.restride", image, channels_last_strides(image.shape()));
  Expr y = p.convolution(laid_out, 8);
  for (int i = 0; i < 2; ++i) y = p.convolution(p.b("torch.group_norm", y, 2), 8);
  const Trace t = p.after(p.b("torch.sum", y));
  CHECK(convolutions_are_channels_last(t));
  CHECK(count(t, "torch.group_norm") == 0);
  CHECK(restrides(t) == 4);  // the one above, three weights
}

TEST_CASE("channels_last: a weight of one element an image lies both ways") {
  Program p;
  const Trace t = p.after(p.b("torch.sum", p.convolution(p.convolution(p.x, 8, 1), 8, 1)));
  CHECK(restrides(t) == 1);
}

// Takes grouped convolutions of images that lie channels last.
std::shared_ptr<Executor> grouped_executor() {
  auto e = std::make_shared<Executor>("grouped");
  Implementation i;
  i.checker = [](const Call& c) {
    const TensorType& x = c.args[0].value().tensor();
    return same(x.strides, channels_last_strides(x.shape));
  };
  i.op = &e->register_operator({.schema = "convolution_of_groups(Tensor input, Tensor weight, Tensor? bias, "
                                          "int[:] stride, int[:] padding, int[:] dilation, bool transposed, "
                                          "int[:] output_padding, int groups) -> Tensor",
                                .doc = "A convolution of groups."});
  e->register_implementation("torch.convolution", i);
  return e;
}

TEST_CASE("channels_last: a grouped convolution that an executor takes so") {
  for (bool taken : {true, false}) {
    Program p;
    if (taken) p.executors = {grouped_executor()};
    const Expr y = p.b("torch.sum", p.convolution(p.convolution(p.x, 8, 3, 8), 8));
    if (!taken) {
      p.stays(y);
      continue;
    }
    const Trace t = p.after(y);
    CHECK(convolutions_are_channels_last(t));
    CHECK(restrides(t) == 2);  // the image, and a weight that lies only one way
  }
}

TEST_CASE("channels_last: programs that stay") {
  Program grouped;
  grouped.stays(grouped.b("torch.sum", grouped.convolution(grouped.convolution(grouped.x, 8, 3, 8), 8)));

  Program none;
  none.stays(none.b("torch.relu", none.x));

  Program single;
  single.stays(single.convolution(single.x, 8));  // converted here or by cuDNN

  Program flipped;  // flip gives rows whatever it reads
  Expr y = flipped.x;
  for (int i = 0; i < 3; ++i) y = flipped.b("torch.flip", flipped.convolution(y, 8), Arg::list({3}));
  flipped.stays(flipped.b("torch.sum", y));

  Builder b = pass_builder();
  const Expr x(b, b.input(f32({2, 8, 6, 5}), "x")), w(b, b.input(f32({8, 8, 3, 3}), "w"));
  const Trace cpu = b.finish("f", Arg::tuple({b("torch.sum", b("torch.conv2d", b("torch.conv2d", x, w), w))}));
  CHECK(channels_last(cpu, {}).calls == cpu.calls);
}

TEST_CASE("channels_last: random programs give the same") {
  int changed = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    fuzz::Random random(seed);
    Program p;
    std::vector<Expr> images = {p.convolution(p.x, 4)};
    const auto any = [&] { return images[static_cast<size_t>(random.between(0, int64_t(images.size()) - 1))]; };
    for (int i = 0; i < 10; ++i) {
      const Expr image = any(), last = images.back();
      switch (random.between(0, 13)) {
        case 0: images.push_back(p.convolution(image, 4, random.chance(0.5) ? 3 : 1)); break;
        case 1: images.push_back(p.b("torch.relu", image)); break;
        case 2: images.push_back(p.b("torch.add", image, 0.5)); break;
        case 3: images.push_back(p.norm(image)); break;
        case 4: images.push_back(p.b("torch.max_pool2d", image, 1)); break;
        case 5: images.push_back(p.b("torch.avg_pool2d", image, 1)); break;
        case 6: images.push_back(p.b("torch.flip", image, Arg::list({3}))); break;
        case 7: images.push_back(p.b("torch.mul", p.b("torch.mean", image, Arg::list({2, 3}), true), last)); break;
        case 8: images.push_back(p.b("torch.transpose", p.b("torch.transpose", image, 1, 2), 1, 2)); break;
        case 9: images.push_back(p.transposed(image, 4)); break;
        default: images.push_back(p.convolution(image, 4)); break;
      }
      if (!same(images.back().shape(), images[0].shape())) images.pop_back();
    }
    const Trace before = p.b.finish("f", Arg::tuple({images.back(), any()})), after = channels_last(before, {});
    CHECK_NOTHROW(verify(after));
    for (size_t i : {0, 1})
      CHECK(same(before.output.items()[i].value().tensor().strides, after.output.items()[i].value().tensor().strides));
    changed += after.calls != before.calls;
    std::vector<reference::Datum> inputs;
    for (Value v : before.inputs) {
      reference::Array a;
      a.dtype = DType::bf16;
      for (const Dim& d : v.shape()) a.shape.push_back(d.constant());
      for (int64_t n = v.tensor().numel().constant(); n > 0; --n)
        a.data.push_back(reference::Element::real(static_cast<double>(random.between(-8, 8)) / 4));
      inputs.emplace_back(std::make_shared<reference::Array>(std::move(a)));
    }
    CHECK(reference::same_datum(reference::evaluate(before, inputs), reference::evaluate(after, inputs)));
  }
  CHECK(changed > 30);
}

TEST_CASE("gradients_as_inputs: only gradients that are channels last, of tensors that are not") {
  const auto joint = [](bool last) {
    Builder b = pass_builder();
    const Expr w(b, b.input(half({4, 8, 3, 3}), "w")), row(b, b.input(half({4, 8}), "row"));
    const Expr g = last ? b("prims.restride", w, channels_last_strides(w.shape())) : w;
    return b.finish("joint", Arg::tuple({Arg::tuple({}), Arg::tuple({b("torch.relu", g), b("torch.relu", row)})}));
  };
  const Trace same_layout = joint(false);
  CHECK(gradients_as_inputs(same_layout).calls == same_layout.calls);
  const Trace other = joint(true), out = gradients_as_inputs(other);
  CHECK_NOTHROW(verify(out));
  CHECK(out.calls.size() == other.calls.size() + 1);
  CHECK(is_contiguous(out.output.items()[1].items()[0].value().tensor()));
}

}  // namespace
}  // namespace thunder
