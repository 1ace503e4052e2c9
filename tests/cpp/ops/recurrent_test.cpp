// Types of cuDNN's recurrent layers, what they refuse, and their gradient rule.
#include <algorithm>

#include "passes/autodiff.h"
#include "passes/pass_ops.h"

namespace thunder {
namespace {

using test::f32;
using test::pass_builder;

struct Layers {
  const char* mode = "lstm";
  int64_t layers = 1, directions = 1, gates = 4, width = 5, out = 5;
};

TensorType on_a_gpu(Dims shape, bool requires_grad = true) {
  TensorType t = f32(std::move(shape));
  t.device = Device{DeviceType::cuda, 0};
  t.requires_grad = requires_grad;
  return t;
}

// Of 7 steps, 2 sequences, 3 features.
Expr recurrent(Builder& b, const Layers& l, bool weights_require_grad = true) {
  auto input = [&](Dims shape, const char* name, bool grad) {
    return Arg(b.input(on_a_gpu(std::move(shape), grad), name));
  };
  ArgList weights;
  for (int64_t i = 0; i < l.layers * l.directions; ++i) {
    const int64_t inputs = i < l.directions ? 3 : l.directions * l.out, rows = l.gates * l.width;
    weights.push_back(input({rows, inputs}, "w", weights_require_grad));
    weights.push_back(input({rows, l.out}, "u", weights_require_grad));
    if (l.out != l.width) weights.push_back(input({l.out, l.width}, "p", weights_require_grad));
  }
  const int64_t cells = l.layers * l.directions;
  const Arg cx = l.gates == 4 ? input({cells, 2, l.width}, "c", false) : Arg();
  return b("prims.recurrent", input({7, 2, 3}, "x", true), Arg::list(std::move(weights)),
           input({cells, 2, l.out}, "h", false), cx, l.mode, l.layers, l.directions == 2, true);
}

TEST_CASE("recurrent: types of results") {
  Builder b = pass_builder();
  const Expr lstm = recurrent(b, {.layers = 2, .directions = 2, .out = 4});
  CHECK(same(lstm[0].shape(), Dims{7, 2, 8}));
  CHECK(same(lstm[1].shape(), Dims{4, 2, 4}));
  CHECK(same(lstm[2].shape(), Dims{4, 2, 5}));
  CHECK(lstm[3].tensor().dtype == DType::u8);
  const Expr gru = recurrent(b, {.mode = "gru", .gates = 3});
  CHECK(same(gru[0].shape(), Dims{7, 2, 5}));
  CHECK(gru[2].is_none());
}

TEST_CASE("recurrent: a cell's state for LSTM alone, and operands of one kind") {
  Builder b = pass_builder();
  CHECK_THROWS_AS(recurrent(b, {.mode = "gru", .gates = 4}), Error);
  CHECK_THROWS_AS(recurrent(b, {.mode = "lstm", .gates = 3}), Error);
  CHECK_THROWS_AS(recurrent(b, {.mode = "none", .gates = 3}), Error);
  const Arg x = b.input(on_a_gpu({7, 2, 3}), "x"), h = b.input(f32({1, 2, 5}), "h"), w = b.input(f32({5, 3}), "w");
  CHECK_THROWS_AS(b("prims.recurrent", x, Arg::list({w}), h, nullptr, "rnn_tanh", 1, false, true), Error);
  TensorType half = on_a_gpu({1, 2, 5});
  half.dtype = DType::f16;
  const Arg u = b.input(on_a_gpu({5, 3}), "u"), wide = b.input(on_a_gpu({1, 2, 5}), "g"), narrow = b.input(half, "n");
  CHECK_NOTHROW(b("prims.recurrent", x, Arg::list({u}), wide, nullptr, "rnn_tanh", 1, false, true));
  CHECK_THROWS_AS(b("prims.recurrent", x, Arg::list({u}), narrow, nullptr, "rnn_tanh", 1, false, true), Error);
}

TEST_CASE("recurrent: gradients of what needs them") {
  for (const bool of_weights : {true, false}) {
    Builder b = pass_builder();
    const Expr made = recurrent(b, {.mode = "gru", .layers = 2, .gates = 3}, of_weights);
    const Trace joint = autodiff(b.finish("f", Arg::tuple({made[0]}))).trace;
    const auto backward = std::find_if(joint.calls.begin(), joint.calls.end(),
                                       [](const Call* c) { return c->op->full_name == "prims.recurrent_backward"; });
    REQUIRE(backward != joint.calls.end());
    CHECK((*backward)->output.items().size() == (of_weights ? 6 : 2));
    CHECK((*backward)->arguments()["grad_hy"].is_none());
  }
}

}  // namespace
}  // namespace thunder
