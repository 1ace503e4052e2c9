// Primitives that make a tensor from no tensor, the random ones among them.
//
// The random ones draw from the evaluator's counter, element by element: what matters is that equal programs draw equal
// numbers.
#include <numbers>

#include "reference/evaluator.h"

namespace thunder::reference {
namespace {

ArrayPtr fresh(const Inputs& in, Shape shape) {
  return make_array(in.dtype("dtype"), in.device("device"), std::move(shape));
}

Datum full(const Inputs& in) {
  ArrayPtr out = fresh(in, in.integers("shape"));
  Element value = in.store(out->dtype, in["fill_value"].as(out->dtype));
  for (Element& e : out->data) e = value;
  return out;
}

Datum iota(const Inputs& in) {
  ArrayPtr out = fresh(in, {in.integer("length")});
  const Datum &start = in["start"], &step = in["step"];
  bool exact = start.number_kind <= NumberKind::Int && step.number_kind <= NumberKind::Int;
  for (size_t k = 0; k < out->data.size(); ++k) {
    auto n = static_cast<int64_t>(k);
    Element e;
    if (exact) e = converted(Element::integer(start.integer() + n * step.integer()), DType::i64, out->dtype);
    else e = converted(Element::real(start.real() + static_cast<double>(n) * step.real()), DType::f64, out->dtype);
    out->data[k] = in.store(out->dtype, e);
  }
  return out;
}

Datum arange(const Inputs& in) {
  ArrayPtr out = fresh(in, {in.integer("length")});
  for (size_t k = 0; k < out->data.size(); ++k)
    out->data[k] = in.store(out->dtype, converted(Element::integer(static_cast<int64_t>(k)), DType::i64, out->dtype));
  return out;
}

void collect(const Datum& d, size_t depth, Shape& shape, std::vector<const Datum*>& flat_items) {
  if (!d.is_sequence()) {
    flat_items.push_back(&d);
    return;
  }
  if (shape.size() <= depth) shape.push_back(static_cast<int64_t>(d.items.size()));
  for (const Datum& item : d.items) collect(item, depth + 1, shape, flat_items);
}

Datum tensor_from_sequence(const Inputs& in) {
  Shape shape;
  std::vector<const Datum*> items;
  collect(in["data"], 0, shape, items);
  ArrayPtr out = fresh(in, shape);
  if (items.size() != out->data.size()) throw Undefined("a ragged sequence");
  for (size_t k = 0; k < items.size(); ++k) {
    const Datum& d = *items[k];
    Element e = d.is_tensor() ? converted(d.array->data.at(0), d.array->dtype, out->dtype) : d.as(out->dtype);
    out->data[k] = in.store(out->dtype, e);
  }
  return out;
}

template <bool kLower>
Datum triangle_indices(const Inputs& in) {
  int64_t rows = in.integer("row"), columns = in.integer("col"), offset = in.integer("offset");
  std::vector<int64_t> r, c;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      if (kLower ? j - i <= offset : j - i >= offset) {
        r.push_back(i);
        c.push_back(j);
      }
  DType t = in.has("dtype") ? in.dtype("dtype") : DType::i64;
  ArrayPtr out = make_array(t, in.has("device") ? in.device("device") : Device{}, {2, static_cast<int64_t>(r.size())});
  r.insert(r.end(), c.begin(), c.end());
  for (size_t k = 0; k < r.size(); ++k) out->data[k] = in.store(t, converted(Element::integer(r[k]), DType::i64, t));
  return out;
}

// Reads low/high, mean/std or such under whatever name the schema has, with a default.
double parameter(const Inputs& in, std::string_view name, double otherwise) {
  return in.has(name) && in[name].is_number() ? in.real(name) : otherwise;
}

double normal_number(const Inputs& in) {
  double u = 1 - in.uniform(), v = in.uniform();
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

Datum uniform(const Inputs& in) {
  ArrayPtr out = fresh(in, in.integers("shape"));
  double low = parameter(in, "low", parameter(in, "minval", 0)),
         high = parameter(in, "high", parameter(in, "maxval", 1));
  for (Element& e : out->data) e = in.store(out->dtype, Element::real(low + (high - low) * in.uniform()));
  return out;
}

Datum normal(const Inputs& in) {
  ArrayPtr out = fresh(in, in.integers("shape"));
  double mean = parameter(in, "mean", 0), std = parameter(in, "std", 1);
  for (Element& e : out->data) {
    double re = mean + std * normal_number(in);
    e = in.store(out->dtype, {0, re, is_complex(out->dtype) ? normal_number(in) : 0});
  }
  return out;
}

Datum randint(const Inputs& in) {
  ArrayPtr out = fresh(in, in.integers("shape"));
  auto low = static_cast<int64_t>(parameter(in, "low", 0)), high = static_cast<int64_t>(parameter(in, "high", 2));
  for (Element& e : out->data) {
    int64_t i = low + static_cast<int64_t>(in.uniform() * (static_cast<double>(high) - static_cast<double>(low)));
    e = in.store(out->dtype, converted(Element::integer(i), DType::i64, out->dtype));
  }
  return out;
}

Datum bernoulli(const Inputs& in) {
  const Datum& first = in.at(0);
  if (!first.is_tensor()) {  // a shape and a probability
    ArrayPtr out = fresh(in, in.integers("shape"));
    double p = parameter(in, "p", 0.5);
    for (Element& e : out->data) e = converted(Element::integer(in.uniform() < p), DType::i64, out->dtype);
    return out;
  }
  const Array& p = *first.array;
  bool fixed = in.has("p") && in["p"].is_number();
  ArrayPtr out = make_array(p.dtype, p.device, p.shape);
  for (size_t k = 0; k < out->data.size(); ++k) {
    double threshold = fixed ? in.real("p") : to_double(p.data[k], p.dtype);
    out->data[k] = converted(Element::integer(in.uniform() < threshold), DType::i64, out->dtype);
  }
  return out;
}

Datum randperm(const Inputs& in) {
  ArrayPtr out = fresh(in, {in.at(0).integer()});
  std::vector<int64_t> order(out->data.size());
  for (size_t k = 0; k < order.size(); ++k) order[k] = static_cast<int64_t>(k);
  for (size_t k = order.size(); k > 1; --k)
    std::swap(order[k - 1], order[static_cast<size_t>(in.uniform() * static_cast<double>(k))]);
  for (size_t k = 0; k < order.size(); ++k)
    out->data[k] = in.store(out->dtype, converted(Element::integer(order[k]), DType::i64, out->dtype));
  return out;
}

// One row: indices drawn with the row's weights.
std::vector<int64_t> draw_row(const Inputs& in, std::vector<double> weights, int64_t samples, bool replacement) {
  std::vector<int64_t> out;
  for (int64_t s = 0; s < samples; ++s) {
    double total = 0;
    for (double w : weights) total += w;
    if (!(total > 0)) throw Undefined("multinomial: no weight is left");
    double at = in.uniform() * total;
    size_t i = 0;
    while (i + 1 < weights.size() && (at >= weights[i] || weights[i] == 0)) at -= weights[i++];
    while (weights[i] == 0) i = (i + weights.size() - 1) % weights.size();
    out.push_back(static_cast<int64_t>(i));
    if (!replacement) weights[i] = 0;
  }
  return out;
}

// Which elements are kept.
Datum dropout_mask(const Inputs& in) {
  const Array& a = in.tensor("a");
  ArrayPtr out = make_array(DType::boolean, a.device, a.shape);
  for (Element& e : out->data) e = Element::integer(in.uniform() >= in.real("p"));
  return out;
}

Datum multinomial(const Inputs& in) {
  const Array& a = *in.at(0).array;
  int64_t samples = in.at(1).integer();
  bool replacement = in.at(2).truth();
  Shape shape = a.shape;
  shape.back() = samples;
  ArrayPtr out = make_array(DType::i64, a.device, shape);
  int64_t n = a.shape.back(), rows = a.rank() == 1 ? 1 : a.shape[0];
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<double> weights;
    for (int64_t i = 0; i < n; ++i) weights.push_back(a.data[static_cast<size_t>(r * n + i)].re);
    std::vector<int64_t> row = draw_row(in, weights, samples, replacement);
    for (int64_t s = 0; s < samples; ++s)
      out->data[static_cast<size_t>(r * samples + s)] = Element::integer(row[static_cast<size_t>(s)]);
  }
  return out;
}

}  // namespace

void add_creation(Kernels& k) {
  k["prims.full"] = full;
  k["prims.arange"] = arange;
  k["prims.iota"] = iota;
  // Memory that nobody wrote has no value; zeros stand for it.
  k["prims.empty"] = [](const Inputs& in) -> Datum { return fresh(in, in.integers("shape")); };
  k["prims.empty_strided"] = k["prims.empty"];
  k["torch.tril_indices"] = triangle_indices<true>;
  k["torch.triu_indices"] = triangle_indices<false>;
  k["prims.tensor_from_sequence"] = tensor_from_sequence;
  k["prims.uniform"] = uniform;
  k["prims.normal"] = normal;
  k["prims.randint"] = randint;
  k["prims.bernoulli"] = bernoulli;
  k["prims.bernoulli_like"] = bernoulli;
  k["prims.dropout_mask_like"] = dropout_mask;
  k["prims.randperm"] = randperm;
  k["prims.multinomial"] = multinomial;
}

}  // namespace thunder::reference
