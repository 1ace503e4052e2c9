// Recurrent layers as cuDNN computes them: several layers, in both directions, in one call.
#include <string_view>

#include "core/builder.h"
#include "core/error.h"
#include "ops/common.h"

namespace thunder::ops::prims {
namespace {

int64_t gates_of(std::string_view mode) {
  if (mode == "lstm") return 4;
  if (mode == "gru") return 3;
  THUNDER_CHECK(mode == "rnn_tanh" || mode == "rnn_relu", Value, "recurrent",
                "expected the mode 'lstm', 'gru', 'rnn_tanh' or 'rnn_relu', got '", mode, "'");
  return 1;
}

struct RecurrentSizes {
  Dim steps, batch, states;  // states: of all layers and directions
  Dim width;                 // of the cell's state
  Dim out;                   // of what a direction gives: the width, or that of its projection
  int64_t directions;
};

RecurrentSizes sizes_of(const Args& a) {
  const TensorType &x = a.tensor("input"), &h = a.tensor("hx");
  THUNDER_CHECK(x.rank() == 3 && h.rank() == 3, Runtime, "recurrent", "the input is of shape ", str(x.shape),
                " and the state of shape ", str(h.shape), ", expected 3 dimensions of each");
  const bool has_cell = a.has("cx");
  THUNDER_CHECK(has_cell == (a["mode"].str() == "lstm"), Value, "recurrent", "expected a cell's state for the mode ",
                "'lstm' and for no other, got the mode '", a["mode"].str(), "'");
  const Dim& width = has_cell ? a.tensor("cx").shape[2] : h.shape[2];
  return {x.shape[0], x.shape[1], h.shape[0], width, h.shape[2], a.flag("bidirectional") ? 2 : 1};
}

void check_operands(const Args& a) {
  const TensorType& x = a.tensor("input");
  auto check = [&](const TensorType& t) {
    THUNDER_CHECK(t.dtype == x.dtype && t.device == x.device, Runtime, "recurrent", "expected tensors of ", x.dtype,
                  " on ", x.device.str(), ", as the input is, got ", t.dtype, " on ", t.device.str());
  };
  for (const Arg& w : a["weights"].items()) check(w.value().tensor());
  for (const char* name : {"hx", "cx"})
    if (a.has(name)) check(a.tensor(name));
  THUNDER_CHECK(is_floating(x.dtype), NotImplemented, "recurrent", "expected floating numbers, got ", x.dtype);
}

TensorType contiguous(const TensorType& like, Dims shape) {
  return contiguous_type(like.dtype, like.device, std::move(shape));
}

// cuDNN alone knows how large its reserve is.  Here it has about the size of what it holds in all known releases: the
// gates and the state of each cell.
TensorType reserve_type(const Args& a, const RecurrentSizes& s) {
  const Dim cells = s.steps * s.batch * s.states * s.width;
  const TensorType& x = a.tensor("input");
  const Dim bytes = cells * ((gates_of(a["mode"].str()) + 1) * itemsize(x.dtype));
  return contiguous_type(DType::u8, x.device, {a.flag("train") ? bytes : Dim(0)});
}

Types recurrent_meta(const Args& a) {
  check_operands(a);
  const RecurrentSizes s = sizes_of(a);
  const TensorType& x = a.tensor("input");
  Type cell;
  if (a.has("cx")) cell = contiguous(x, a.tensor("cx").shape);
  return {contiguous(x, {s.steps, s.batch, s.out * s.directions}), contiguous(x, a.tensor("hx").shape), cell,
          reserve_type(a, s)};
}

Types recurrent_backward_meta(const Args& a) {
  auto like = [](const TensorType& t) { return contiguous(t, t.shape); };
  Types out = {like(a.tensor("input")), like(a.tensor("hx"))};
  if (a.has("cx")) out.emplace_back(like(a.tensor("cx")));
  if (a.flag("of_weights"))
    for (const Arg& w : a["weights"].items()) out.emplace_back(like(w.value().tensor()));
  return out;
}

void recurrent_vjp(VjpContext& c) {
  const Args a = c.args();
  const bool of_weights = c.needs("weights");
  const Expr made = c.b("prims.recurrent_backward", c.grad(0), c.grad(1), c.grad(2), a["input"], a["weights"], a["hx"],
                        a["cx"], c.out(0), c.out(3), a["mode"], a["num_layers"], a["bidirectional"], of_weights);
  size_t i = 0;
  for (const char* name : {"input", "hx", "cx"})
    if (a.has(name)) c.put(name, made[i++]);
  for (size_t w = 0; of_weights && w < a["weights"].items().size(); ++w) c.put("weights", w, made[i++]);
}

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "recurrent(Tensor input, Tensor[] weights, Tensor hx, Tensor? cx, str mode, int num_layers, "
               "bool bidirectional, bool train) -> (Tensor, Tensor, Tensor, Tensor)",
     .doc = "Recurrent layers of the kind `mode` (lstm, gru, rnn_tanh, rnn_relu) by cuDNN. The input is [steps, batch, "
            "features], the states are [layers * directions, batch, width], and the weights of each layer and "
            "direction are the input's, the state's, their biases and the projection's, as PyTorch has them. Gives the "
            "output of each step, the last states, and, for the gradient, cuDNN's reserve, whose number of bytes is "
            "only known when it runs.",
     .tags = kOwnSize, .meta = recurrent_meta, .vjp = recurrent_vjp},
    {.schema = "recurrent_backward(Tensor? grad_output, Tensor? grad_hy, Tensor? grad_cy, Tensor input, "
               "Tensor[] weights, Tensor hx, Tensor? cx, Tensor output, Tensor reserve, str mode, int num_layers, "
               "bool bidirectional, bool of_weights) -> Tensor[]",
     .doc = "The gradients of `recurrent` in the input, the states, and the weights if these are asked for.",
     .tags = kNoGrad, .meta = recurrent_backward_meta},
};
// clang-format on

}  // namespace

Records recurrent() { return kRecords; }

}  // namespace thunder::ops::prims
