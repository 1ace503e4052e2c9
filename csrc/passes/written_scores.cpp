#include "passes/written_scores.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "ops/common.h"
#include "ops/torch/attention.h"

namespace thunder {
namespace {

constexpr std::string_view kSoftmax = "torch.softmax.int";
constexpr int kDeepest = 64;  // calls that are looked at, one after the other

constexpr std::array<std::string_view, 4> kSameOrder = {"prims.view", "prims.reshape", "prims.squeeze",
                                                        "prims.broadcast_in_dim"};
constexpr std::array<std::string_view, 9> kSameNumbers = {"prims.convert_element_type",
                                                          "prims.clone",
                                                          "prims.slice",
                                                          "prims.broadcast_in_dim",
                                                          "prims.view",
                                                          "prims.reshape",
                                                          "prims.squeeze",
                                                          "prims.transpose",
                                                          "prims.restride"};

template <size_t N>
bool is_any(const Call& call, const std::array<std::string_view, N>& names) {
  return std::find(names.begin(), names.end(), call.op->full_name) != names.end();
}

bool is_conversion(const Call& call) { return call.op->full_name == "prims.convert_element_type"; }

// The most negative finite number.
double lowest(DType t) {
  if (t == DType::f16) return -65504;
  if (t == DType::bf16) return -3.3895313892515355e38;
  return t == DType::f64 ? std::numeric_limits<double>::lowest() : std::numeric_limits<float>::lowest();
}

// Whether the dtype has the number, or one that hides as well.
bool holds(DType t, double n) {
  if (!is_floating(t)) return n == std::floor(n);
  if (t == DType::f32 || t == DType::f64 || n == 0 || std::abs(n) >= -kHidden) return true;
  int exponent;
  return std::abs(std::frexp(n, &exponent)) == 0.5;
}

// The permutation of the dimensions that have more than one element, each by its number among them.
std::vector<int64_t> permuted(const Call& transpose) {
  const Dims& shape = transpose.args[0].value().shape();
  std::vector<int64_t> place(shape.size(), -1), out;
  int64_t n = 0;
  for (size_t i = 0; i < shape.size(); ++i)
    if (!shape[i].same(1)) place[i] = n++;
  for (const int64_t d : transpose.arguments().integers("permutation"))
    if (place[static_cast<size_t>(d)] >= 0) out.push_back(place[static_cast<size_t>(d)]);
  return out;
}

// Elements stand in the same order, read by rows: nothing is repeated, and only dimensions of one element move.
bool keeps_order(const Call& call) {
  if (is_any(call, kSameOrder)) return call.args[0].value().tensor().numel().same(call.output.value().tensor().numel());
  if (call.op->full_name != "prims.transpose") return false;
  const std::vector<int64_t> p = permuted(call);
  return std::is_sorted(p.begin(), p.end());
}

// A transpose that exchanges the last two dimensions of more than one element, which are these.
bool transposes(const Call& call, const Dim& rows, const Dim& columns) {
  if (call.op->full_name != "prims.transpose") return false;
  std::vector<int64_t> p = permuted(call);
  if (p.size() < 2) return false;
  std::swap(p[p.size() - 1], p[p.size() - 2]);
  std::vector<Dim> large;
  for (const Dim& d : call.output.value().shape())
    if (!d.same(1)) large.push_back(d);
  return std::is_sorted(p.begin(), p.end()) && large.back().same(columns) && large[large.size() - 2].same(rows);
}

// One head stands for all: [batch, 1, rows, columns] as [batch, heads, rows, columns].
bool repeats_head(const Call& call) {
  if (call.op->full_name != "prims.broadcast_in_dim") return false;
  const Dims &from = call.args[0].value().shape(), &to = call.output.value().shape();
  return from.size() == 4 && to.size() == 4 && from[0].same(to[0]) && from[1].same(1) && from[2].same(to[2]) &&
         from[3].same(to[3]);
}

bool same_tail(const Dims& a, const Dims& b) {
  return a.size() >= 2 && b.size() >= 2 && a.back().same(b.back()) && a[a.size() - 2].same(b[b.size() - 2]);
}

Dims before_tail(const Dims& shape) { return Dims(shape.begin(), shape.end() - 2); }

}  // namespace

/// What is found between the softmax and the product of query and key.
struct WrittenScores::Scores {
  DType dtype;                          // of the result
  Dims weights;                         // the softmax's shape
  const Call* product = nullptr;        // of query and key
  std::vector<WrittenMask> masks = {};  // from the softmax inwards
  double scale = 1;
  std::vector<Value> factors = {}, divisors = {};
  bool is_floored = false;
  double least = std::numeric_limits<double>::lowest();  // what is lower is infinite at the softmax
};

WrittenScores::WrittenScores(const Trace& trace) {
  for (const Call* c : trace.calls) {
    visit_all_inputs(*c, [&](Value v) { readers_.set(v, readers_[v] + 1); });
    add(*c);
  }
  visit_values(trace.output, [&](Value v) { readers_.set(v, 2); });
}

// Softmax and attention stay whole, and so do all primitives.
void WrittenScores::add(const Call& call) {
  const bool softmax = call.op->full_name == kSoftmax;
  has_softmax_ |= softmax;
  if (!softmax && !ops::torch::is_attention(*call.op))
    for (const Call* inner : call.body) add(*inner);
  if (call.op->full_name == "prims.matmul") products_.push_back(&call);
  if (call.op->is_prim() && !call.args.empty() && call.args[0].is_tensor() && call.output.is_value())
    readers_inside_.set(call.args[0].value(), &call);
  if (call.body.empty() || softmax || ops::torch::is_attention(*call.op))
    visit_outputs(call, [&](Value v) { makers_.set(v, &call); });
}

const Call* WrittenScores::maker(Value v, std::string_view op) const {
  const Call* call = makers_[v];
  return call && call->op->full_name == op ? call : nullptr;
}

// One call of the program reads it, or it stands inside of one.
bool WrittenScores::is_private(Value v) const { return readers_[v] <= 1; }

// What the value is but for its dtype and the split of its dimensions.  Conversions to a dtype with fewer digits than
// the result's are rounding that is meant.  `least`: no lower number gets through.
Value WrittenScores::passed_on(Value v, DType t, double* least) const {
  for (int i = 0; i < kDeepest; ++i) {
    const Call* call = makers_[v];
    if (!call || !is_private(v) || call->args.empty() || !call->args[0].is_tensor()) return v;
    if (!is_conversion(*call) && !keeps_order(*call) && call->op->full_name != "prims.same") return v;
    const Value in = call->args[0].value();
    if (!is_floating(in.dtype()) || in.requires_grad() != v.requires_grad()) return v;
    if (v.dtype() != t && v.dtype() != DType::f32 && v.dtype() != DType::f64) return v;
    *least = std::max(*least, lowest(v.dtype()));
    v = in;
  }
  return v;
}

// In that dtype: the operand, or what it was converted from without loss, before its rows and columns were exchanged
// and its dimensions split or merged.
std::optional<WrittenScores::Operand> WrittenScores::operand(Value v, DType t) const {
  std::optional<Operand> found;
  Dim rows = v.shape()[v.shape().size() - 2], columns = v.shape().back();
  const bool is_matrix = !rows.same(1) && !columns.same(1);
  bool transposed = false;
  for (int i = 0; i < kDeepest; ++i) {
    const bool fits = v.rank() >= 2 && v.rank() <= 4 && same_tail(v.shape(), {rows, columns});
    if (v.dtype() == t && fits) found = Operand{v, transposed};
    else if (v.dtype() != t && v.dtype() != DType::f32 && v.dtype() != DType::f64) break;
    const Call* call = makers_[v];
    if (!call || call->args.empty() || !call->args[0].is_tensor()) break;
    const bool exchanges = is_matrix && transposes(*call, rows, columns);
    if (!is_conversion(*call) && !exchanges && !(is_matrix && keeps_order(*call)) && !repeats_head(*call)) break;
    const Value in = call->args[0].value();
    if (in.requires_grad() != v.requires_grad()) break;
    if (exchanges) {
      transposed = !transposed;
      std::swap(rows, columns);
    }
    v = in;
  }
  return found;
}

// The result with four dimensions, where nothing reads it before it is split into them.
Value WrittenScores::split_result(Value v, const Dims& batch) const {
  const Dims wanted = {batch[0], batch[1], v.shape()[v.shape().size() - 2], v.shape().back()};
  for (Value next = v; is_private(next);) {
    const Call* call = readers_inside_[next];
    if (!call || !keeps_order(*call)) break;
    next = call->output.value();
    if (next.requires_grad() != v.requires_grad()) break;
    if (same(next.shape(), wanted)) return next;
  }
  return v;
}

std::optional<double> WrittenScores::number(const Arg& a) const {
  if (a.is_real_literal()) return a.real();
  if (!a.is_tensor()) return std::nullopt;
  std::vector<DType> dtypes;
  Value v = a.value();
  for (int i = 0; i < kDeepest; ++i) {
    const Call* call = makers_[v];
    if (!call || !call->op->is_prim()) return std::nullopt;
    dtypes.push_back(v.dtype());
    if (call->op->full_name == "prims.full") {
      if (!call->args[1].is_real_literal()) return std::nullopt;
      double n = call->args[1].real();
      if (!std::all_of(dtypes.begin(), dtypes.end(), [n](DType t) { return holds(t, n); })) return std::nullopt;
      for (const DType t : dtypes)
        if (is_floating(t) && n < lowest(t)) n = -HUGE_VAL;
      return n;
    }
    if (!is_any(*call, kSameNumbers)) return std::nullopt;
    v = call->args[0].value();
  }
  return std::nullopt;
}

// Whole numbers, such as a mask of zeros and ones, or what is left of one to them.
bool WrittenScores::is_whole(Value v, int depth) const {
  if (!is_floating(v.dtype())) return !is_complex(v.dtype());
  const Call* call = makers_[v];
  if (!call || depth > kDeepest || !call->op->is_prim()) return false;
  if (is_any(*call, kSameNumbers)) return is_whole(call->args[0].value(), depth + 1);
  if (call->op->full_name != "prims.sub") return false;
  return std::all_of(call->args.begin(), call->args.end(), [&](const Arg& a) {
    const std::optional<double> n = number(a);
    return n ? *n == std::floor(*n) : a.is_tensor() && is_whole(a.value(), depth + 1);
  });
}

bool WrittenScores::hides(Value v, Hides how, int depth) const {
  const auto is_large = [&](double n) {
    if (how == Hides::Infinitely) return n == -HUGE_VAL;
    return std::abs(n) >= -kHidden && (how == Hides::Somehow || std::abs(n) <= -2 * kHidden);
  };
  const auto is_one_of_both = [&](const Arg& a) {
    const std::optional<double> n = number(a);
    return n ? *n == 0 || is_large(*n) : a.is_tensor() && hides(a.value(), how, depth + 1);
  };
  const Call* call = makers_[v];
  if (!call || depth > kDeepest || !call->op->is_prim()) return false;
  if (call->op->full_name == "prims.full") return is_one_of_both(Arg(v));
  if (is_any(*call, kSameNumbers)) return hides(call->args[0].value(), how, depth + 1);
  if (call->op->full_name == "prims.where") return is_one_of_both(call->args[1]) && is_one_of_both(call->args[2]);
  if (call->op->full_name != "prims.mul" || how == Hides::Infinitely) return false;
  for (size_t i : {0u, 1u}) {
    const std::optional<double> n = number(call->args[i]);
    const Arg& other = call->args[1 - i];
    if (n && is_large(*n) && other.is_tensor() && is_whole(other.value())) return true;
  }
  return false;
}

// A tensor of one element that is broadcast.
std::optional<Value> WrittenScores::scalar(Value v) const {
  const Call* call = maker(v, "prims.broadcast_in_dim");
  const Value of = call ? call->args[0].value() : v;
  return of.rank() == 0 && !of.requires_grad() ? std::optional<Value>(of) : std::nullopt;
}

// The tensor before it was broadcast.
WrittenMask WrittenScores::broadcast(Value v) const {
  WrittenMask out;
  out.tensor = v;
  out.shape = out.scores = v.shape();
  if (const Call* call = maker(v, "prims.broadcast_in_dim")) {
    const std::vector<int64_t> dims = call->arguments().integers("broadcast_dims");
    out.tensor = call->args[0].value();
    out.shape.assign(v.shape().size(), Dim(1));
    for (size_t i = 0; i < dims.size(); ++i) out.shape[static_cast<size_t>(dims[i])] = out.tensor.shape()[i];
  }
  return out;
}

bool WrittenScores::product_of(const Call& call, Scores& s) const {
  const Value q = call.args[0].value(), k = call.args[1].value(), out = call.output.value();
  if (out.dtype() != s.dtype && out.dtype() != DType::f32) return false;  // kernels are not as exact, or too exact
  if (!same_tail(out.shape(), s.weights) || out.requires_grad() != (q.requires_grad() || k.requires_grad()))
    return false;
  s.product = &call;
  return true;
}

bool WrittenScores::scaled(const Call& call, Value scores, const Arg& by, bool divides, Scores& s, int depth) const {
  if (scores.requires_grad() != call.output.value().requires_grad()) return false;
  const std::optional<double> n = number(by);
  const std::optional<Value> tensor = n || !by.is_tensor() ? std::nullopt : scalar(by.value());
  if (!(n && std::isfinite(*n) && *n > 0) && !tensor) return false;
  Scores inner = s;
  if (n) inner.scale = divides ? inner.scale / *n : inner.scale * *n;
  else (divides ? inner.divisors : inner.factors).push_back(*tensor);
  if (!scores_of(scores, inner, depth + 1)) return false;
  s = std::move(inner);
  return true;
}

bool WrittenScores::added(Value scores, Value mask, Scores& s, int depth) const {
  if (mask.requires_grad() || !is_floating(mask.dtype()) || !s.factors.empty() || !s.divisors.empty()) return false;
  Scores inner = s;
  inner.masks.push_back(broadcast(mask));
  inner.masks.back().factor = s.scale;
  if (!same_tail(inner.masks.back().scores, s.weights) || !scores_of(scores, inner, depth + 1)) return false;
  s = std::move(inner);
  return true;
}

bool WrittenScores::chosen(const Call& call, Scores& s, int depth) const {
  if (!s.factors.empty() || !s.divisors.empty()) return false;  // of any sign
  for (const size_t kept : {1u, 2u}) {
    const std::optional<double> hidden = number(call.args[3 - kept]);
    if (!call.args[kept].is_tensor() || !hidden || !(*hidden * s.scale <= kHidden)) continue;
    Scores inner = s;
    WrittenMask mask = broadcast(call.args[0].value());
    mask.chooses = true;
    mask.keeps_where_true = kept == 1;
    mask.hidden = *hidden * s.scale;
    if (*hidden < lowest(call.output.value().dtype()) || mask.hidden < s.least) mask.hidden = -HUGE_VAL;
    if (!same_tail(mask.scores, s.weights)) continue;
    inner.masks.push_back(std::move(mask));
    if (!scores_of(call.args[kept].value(), inner, depth + 1)) continue;
    s = std::move(inner);
    return true;
  }
  return false;
}

bool WrittenScores::floored(const Call& call, Scores& s, int depth) const {
  if (!s.factors.empty() || !s.divisors.empty()) return false;
  for (const size_t kept : {0u, 1u}) {
    const std::optional<double> least = number(call.args[1 - kept]);
    if (!least || !(*least * s.scale <= kHidden) || !call.args[kept].is_tensor()) continue;
    s.is_floored = true;
    return scores_of(call.args[kept].value(), s, depth + 1);
  }
  return false;
}

bool WrittenScores::scores_of(Value v, Scores& s, int depth) const {
  if (depth > kDeepest || !is_floating(v.dtype())) return false;
  if (!is_private(v)) return false;
  const bool trained = v.requires_grad();
  v = passed_on(v, s.dtype, &s.least);
  s.least = std::max(s.least, lowest(v.dtype()));
  const Call* call = makers_[v];
  if (!call || !is_private(v) || v.requires_grad() != trained) return false;
  const std::string& op = call->op->full_name;
  if (op == "prims.matmul") return product_of(*call, s);
  if (op == "prims.where") return chosen(*call, s, depth);
  if (op == "prims.maximum") return floored(*call, s, depth);
  if (op != "prims.mul" && op != "prims.div" && op != "prims.add") return false;
  const Arg &a = call->args[0], &b = call->args[1];
  if (op == "prims.div") return a.is_tensor() && scaled(*call, a.value(), b, true, s, depth);
  for (const auto& [scores, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    if (!scores->is_tensor()) continue;
    if (op == "prims.mul" && scaled(*call, scores->value(), *other, false, s, depth)) return true;
    if (op == "prims.add" && other->is_tensor() && added(scores->value(), other->value(), s, depth)) return true;
  }
  return false;
}

namespace {

// [batch, heads] of everything that is written with four dimensions, if they agree.
std::optional<Dims> common_batch(const std::vector<Dims>& shapes) {
  std::optional<Dims> four, three;
  for (const Dims& shape : shapes) {
    if (shape.size() < 2 || shape.size() > 4) return std::nullopt;
    std::optional<Dims>* known = shape.size() == 4 ? &four : shape.size() == 3 ? &three : nullptr;
    if (known && *known && !same(**known, before_tail(shape))) return std::nullopt;
    if (known) *known = before_tail(shape);
  }
  if (four && three && !((*four)[0] * (*four)[1]).same((*three)[0])) return std::nullopt;
  if (four) return four;
  return three ? Dims{(*three)[0], Dim(1)} : Dims{Dim(1), Dim(1)};
}

// Whether it is [batch, heads, ...], however split, or has one head for all.
bool has_batch(Value v, const Dims& batch) {
  const Dims &shape = v.shape(), before = before_tail(shape);
  if (before.size() == 2 && before[0].same(batch[0]) && (before[1].same(batch[1]) || before[1].same(1))) return true;
  return v.tensor().numel().same(batch[0] * batch[1] * shape[shape.size() - 2] * shape.back());
}

}  // namespace

std::optional<WrittenAttention> WrittenScores::match(const Call& product) const {
  const Value p = product.args[0].value(), v = product.args[1].value(), out = product.output.value();
  if (!is_private(p) || out.requires_grad() != (p.requires_grad() || v.requires_grad())) return std::nullopt;
  double least_weight = -1;
  const Value weights = passed_on(p, v.dtype(), &least_weight);
  const Call* softmax = maker(weights, kSoftmax);
  if (!softmax || !is_private(weights) || !softmax->args[0].is_tensor()) return std::nullopt;
  const Value scores = softmax->args[0].value();
  const int64_t rank = scores.rank();
  if (rank < 2 || ops::canonical_dim("softmax", softmax->arguments().integer("dim"), rank) != rank - 1)
    return std::nullopt;
  Scores s{.dtype = v.dtype(), .weights = weights.shape()};
  if (weights.dtype() != s.dtype && weights.dtype() != DType::f32) return std::nullopt;
  if (scores.requires_grad() != weights.requires_grad() || !same_tail(p.shape(), s.weights) || !scores_of(scores, s, 0))
    return std::nullopt;
  return finished(s, p, v, out);
}

std::optional<WrittenAttention> WrittenScores::finished(Scores& s, Value p, Value v, Value out) const {
  const Value rows = s.product->args[0].value(), columns = s.product->args[1].value();
  const auto q = operand(rows, v.dtype()), k = operand(columns, v.dtype()), values = operand(v, v.dtype());
  if (!q || !k) return std::nullopt;
  std::vector<Dims> shapes = {
      rows.shape(), columns.shape(), p.shape(), v.shape(), out.shape(), s.weights, s.product->output.value().shape()};
  for (const WrittenMask& m : s.masks) shapes.push_back(m.scores);
  const std::optional<Dims> batch = common_batch(shapes);
  if (!batch || !has_batch(q->value, *batch) || !has_batch(k->value, *batch) || !has_batch(values->value, *batch))
    return std::nullopt;
  WrittenAttention w{.result = split_result(out, *batch),
                     .query = q->transposed ? rows : q->value,
                     .key = k->value,
                     .key_is_transposed = !k->transposed,
                     .value = values->transposed ? v : values->value,
                     .batch = *batch};
  if (w.query.dtype() != w.key.dtype() || w.query.dtype() != w.value.dtype()) return std::nullopt;
  w.scale = s.scale;
  w.is_floored = s.is_floored;
  w.factors = std::move(s.factors);
  w.divisors = std::move(s.divisors);
  w.masks.assign(s.masks.rbegin(), s.masks.rend());
  return w;
}

}  // namespace thunder
