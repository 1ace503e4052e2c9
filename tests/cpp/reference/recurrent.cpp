// Recurrent layers cell by cell, and their gradients by the complex step: Im f(x + ih) / h is exact to the last bits
// for a small h.
#include <complex>
#include <map>

#include "core/trace.h"
#include "reference/evaluator.h"

namespace thunder::reference {
namespace {

using Number = std::complex<double>;
using Row = std::vector<Number>;

constexpr double kStep = 1e-100;

Number sigmoid(Number x) { return 1.0 / (1.0 + std::exp(-x)); }
Number relu(Number x) { return x.real() > 0 ? x : Number(0); }

size_t at(int64_t i) { return static_cast<size_t>(i); }

struct Matrix {
  int64_t rows = 0, cols = 0;
  Row data;

  explicit Matrix(const Array& a) : rows(a.shape[0]), cols(a.rank() > 1 ? a.shape[1] : 1) {
    for (const Element& e : a.data) data.emplace_back(e.re);
  }
  Row times(const Row& x) const {
    Row out(at(rows));
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) out[at(r)] += data[at(r * cols + c)] * x[at(c)];
    return out;
  }
};

Row sum(Row a, const Row& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

// The operands of a call, and what the layers make of them.
struct Layers {
  std::string mode;
  int64_t steps, batch, layers, directions;
  std::vector<Row> x;  // by step and sequence
  std::vector<Row> h, c;
  std::vector<Matrix> weights;
  std::vector<Row> out;

  explicit Layers(const Inputs& in)
      : mode(in["mode"].text),
        steps(in.tensor("input").shape[0]),
        batch(in.tensor("input").shape[1]),
        layers(in.integer("num_layers")),
        directions(in.flag("bidirectional") ? 2 : 1),
        x(rows_of(in.tensor("input"))),
        h(rows_of(in.tensor("hx"))) {
    if (in.has("cx")) c = rows_of(in.tensor("cx"));
    for (const Array* w : in.tensors("weights")) weights.emplace_back(*w);
  }

  static std::vector<Row> rows_of(const Array& a) {
    std::vector<Row> out(at(a.shape[0] * a.shape[1]), Row(at(a.shape[2])));
    for (size_t i = 0; i < a.data.size(); ++i) out[i / at(a.shape[2])][i % at(a.shape[2])] = a.data[i].re;
    return out;
  }

  // All numbers that the gradients are of, in the order of the results of the backward.
  std::vector<std::vector<Number*>> operands(bool of_weights) {
    std::vector<std::vector<Number*>> out;
    auto add = [&](std::vector<Row>& rows) {
      out.emplace_back();
      for (Row& row : rows)
        for (Number& n : row) out.back().push_back(&n);
    };
    add(x);
    add(h);
    if (mode == "lstm") add(c);
    for (size_t i = 0; of_weights && i < weights.size(); ++i) {
      out.emplace_back();
      for (Number& n : weights[i].data) out.back().push_back(&n);
    }
    return out;
  }

  void run() {
    const size_t each = weights.size() / at(layers * directions);
    out = x;
    for (int64_t layer = 0; layer < layers; ++layer) {
      std::vector<Row> joined(out.size());
      for (int64_t d = 0; d < directions; ++d) {
        const int64_t cell = layer * directions + d;
        for (int64_t s = 0; s < steps; ++s)
          for (int64_t b = 0; b < batch; ++b) {
            const size_t place = at((d == 0 ? s : steps - 1 - s) * batch + b), state = at(cell * batch + b);
            step(&weights[at(cell) * each], each, out[place], state);
            joined[place].insert(joined[place].end(), h[state].begin(), h[state].end());
          }
      }
      out = std::move(joined);
    }
  }

  void step(const Matrix* w, size_t count, const Row& input, size_t state) {
    Row from_input = w[0].times(input), from_state = w[1].times(h[state]);
    if (count >= 4) {
      from_input = sum(from_input, w[2].data);
      from_state = sum(from_state, w[3].data);
    }
    if (mode == "lstm") return lstm(sum(from_input, from_state), count % 2 ? &w[count - 1] : nullptr, state);
    Row& now = h[state];
    const size_t n = now.size();
    for (size_t i = 0; i < n; ++i) {
      if (mode == "gru") {
        const Number reset = sigmoid(from_input[i] + from_state[i]);
        const Number update = sigmoid(from_input[n + i] + from_state[n + i]);
        const Number made = std::tanh(from_input[2 * n + i] + reset * from_state[2 * n + i]);
        now[i] = (1.0 - update) * made + update * now[i];
      } else {
        const Number sum = from_input[i] + from_state[i];
        now[i] = mode == "rnn_tanh" ? std::tanh(sum) : relu(sum);
      }
    }
  }

  void lstm(const Row& gates, const Matrix* projection, size_t state) {
    const size_t n = c[state].size();
    Row made(n);
    for (size_t i = 0; i < n; ++i) {
      c[state][i] = sigmoid(gates[n + i]) * c[state][i] + sigmoid(gates[i]) * std::tanh(gates[2 * n + i]);
      made[i] = sigmoid(gates[3 * n + i]) * std::tanh(c[state][i]);
    }
    h[state] = projection ? projection->times(made) : made;
  }
};

ArrayPtr stored_rows(const Inputs& in, const std::vector<Row>& rows, Shape shape) {
  const Array& x = in.tensor("input");
  ArrayPtr a = make_array(x.dtype, x.device, std::move(shape));
  size_t k = 0;
  for (const Row& row : rows)
    for (const Number& n : row) a->data[k++] = in.store(x.dtype, Element::real(n.real()));
  return a;
}

Datum recurrent(const Inputs& in) {
  Layers l(in);
  l.run();
  const Array &x = in.tensor("input"), &h = in.tensor("hx");
  std::vector<Datum> results = {stored_rows(in, l.out, {l.steps, l.batch, h.shape[2] * l.directions}),
                                stored_rows(in, l.h, h.shape)};
  results.push_back(in.has("cx") ? Datum(stored_rows(in, l.c, in.tensor("cx").shape)) : Datum());
  // The reserve holds what cuDNN likes.
  const int64_t gates = l.mode == "lstm" ? 4 : l.mode == "gru" ? 3 : 1;
  const int64_t width = in.has("cx") ? in.tensor("cx").shape[2] : h.shape[2];
  const int64_t bytes = in.flag("train") ? l.steps * l.batch * h.shape[0] * width * (gates + 1) * itemsize(x.dtype) : 0;
  results.emplace_back(make_array(DType::u8, x.device, {bytes}));
  return Datum::sequence(std::move(results));
}

double dot_imaginary(const Inputs& in, const char* gradient, const std::vector<Row>& rows) {
  if (!in.has(gradient)) return 0;
  const Array& g = in.tensor(gradient);
  double total = 0;
  size_t k = 0;
  for (const Row& row : rows)
    for (const Number& n : row) total += g.data[k++].re * n.imag();
  return total;
}

Datum recurrent_backward(const Inputs& in) {
  Layers given(in);
  std::vector<const Array*> like = {&in.tensor("input"), &in.tensor("hx")};
  if (in.has("cx")) like.push_back(&in.tensor("cx"));
  const std::vector<const Array*> weights = in.tensors("weights");
  if (in.flag("of_weights")) like.insert(like.end(), weights.begin(), weights.end());
  std::vector<Datum> results;
  for (size_t i = 0; i < like.size(); ++i) {
    ArrayPtr a = make_array(like[i]->dtype, like[i]->device, like[i]->shape);
    for (size_t k = 0; k < a->data.size(); ++k) {
      Layers moved = given;
      *moved.operands(in.flag("of_weights"))[i][k] += Number(0, kStep);
      moved.run();
      const double slope = dot_imaginary(in, "grad_output", moved.out) + dot_imaginary(in, "grad_hy", moved.h) +
                           dot_imaginary(in, "grad_cy", moved.c);
      a->data[k] = in.store(a->dtype, Element::real(slope / kStep));
    }
    results.emplace_back(std::move(a));
  }
  return Datum::sequence(std::move(results));
}

}  // namespace

void add_recurrent(Kernels& k) {
  k["prims.recurrent"] = recurrent;
  k["prims.recurrent_backward"] = recurrent_backward;
}

}  // namespace thunder::reference
