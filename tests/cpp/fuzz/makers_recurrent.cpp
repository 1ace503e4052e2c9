// Arguments of recurrent layers.
#include "fuzz/makers.h"

namespace thunder::fuzz {
namespace {

Made layers(Draw& d) {
  static const std::vector<const char*> modes = {"lstm", "gru", "rnn_tanh", "rnn_relu"};
  const std::string mode = d.random.pick(modes);
  const bool lstm = mode == "lstm", both = d.random.chance(0.4), biases = d.random.chance(0.7);
  const int64_t steps = d.random.between(1, 3), batch = d.random.between(1, 2), features = d.random.between(1, 3),
                width = d.random.between(1, 2), out = lstm && d.random.chance(0.3) ? width + 1 : width,
                count = d.random.between(1, 2), directions = both ? 2 : 1, cells = count * directions;
  const int64_t gates = (lstm ? 4 : mode == "gru" ? 3 : 1) * width;
  const Value x = floats(d, {steps, batch, features}), h = floats(d, {cells, batch, out}, x.dtype());
  ArgList weights;
  for (int64_t i = 0; i < cells; ++i) {
    weights.emplace_back(floats(d, {gates, i < directions ? features : directions * out}, x.dtype()));
    weights.emplace_back(floats(d, {gates, out}, x.dtype()));
    for (int k = 0; biases && k < 2; ++k) weights.emplace_back(floats(d, {gates}, x.dtype()));
    if (out != width) weights.emplace_back(floats(d, {out, width}, x.dtype()));
  }
  Named m = {{"input", x},
             {"weights", Arg::list(std::move(weights))},
             {"hx", h},
             {"cx", nullptr},
             {"mode", mode},
             {"num_layers", count},
             {"bidirectional", both},
             {"train", true}};
  if (lstm) m["cx"] = floats(d, {cells, batch, width}, x.dtype());
  if (d.op.schema.name == "recurrent") return m;
  m["of_weights"] = d.random.chance(0.7);
  m["output"] = floats(d, {steps, batch, directions * out}, x.dtype());
  m["reserve"] = d.tensor({.dtype = DType::u8, .shape = Draw::Shape{0}, .values = {}});
  m["grad_output"] = d.random.chance(0.8) ? Arg(m["output"]) : Arg();
  m["grad_hy"] = d.random.chance(0.5) ? Arg(h) : Arg();
  m["grad_cy"] = lstm && d.random.chance(0.5) ? m["cx"] : Arg();
  return m;
}

}  // namespace

void add_recurrent_makers(Makers& m) {
  m["prims.recurrent"] = layers;
  m["prims.recurrent_backward"] = layers;
}

}  // namespace thunder::fuzz
