#include "fuzz/generator.h"

#include <algorithm>
#include <numeric>
#include <sstream>

#include "core/error.h"
#include "core/print.h"
#include "ops/families.h"
#include "passes/visit.h"

namespace thunder::fuzz {

using reference::Datum;
using reference::Element;

namespace {

constexpr int64_t kMostElements = 400;

Datum copied(const Datum& d) { return d.is_tensor() ? Datum(std::make_shared<reference::Array>(*d.array)) : d; }

bool computes(const Op& op) {
  if (!op.executor.empty() || (op.level != "prims" && op.level != "clang" && op.level != "torch")) return false;
  // The reference's tensors are strided.
  if (op.schema.name.starts_with("sparse_")) return false;
  // What processes do together, and what may give nothing: distributed_test.cpp.
  if (op.has(kComm) || op.full_name == "prims.gradient_if_used") return false;
  // The reference has no float8: float8_test.cpp.  What a pass alone makes of an epilogue: write_in_place_test.cpp.
  if (op.full_name.find("float8") != std::string::npos || op.full_name == "torch._scaled_mm") return false;
  for (const char* name : {"prims.slice_scatter_", "prims.index_copy_", "prims.index_put_"})
    if (op.full_name == name) return false;
  return (op.meta || op.body) && !op.has(kCollective | kInput);
}

bool draws(const Op& op) { return computes(op) && !op.has(kWrite); }

bool all_finite(const Datum& d) {
  if (!d.is_tensor()) return true;
  for (const Element& e : d.array->data)
    if (!std::isfinite(e.re) || !std::isfinite(e.im) || std::fabs(e.re) > 1e6 || std::llabs(e.i) > (1ll << 40))
      return false;
  return true;
}

}  // namespace

std::vector<Datum> Program::fresh_inputs() const {
  std::vector<Datum> out;
  for (const Datum& d : inputs) out.push_back(copied(d));
  return out;
}

// ---- Coverage -------------------------------------------------------------------------------------------------------

Coverage::Coverage(const std::function<bool(const Op&)>& keep) {
  ops::register_all();
  // The families' records only: other tests and executors add operators of their own to the registry.
  for (const ops::Family& family : ops::families())
    for (const OpDef& def : family.records()) {
      const Op& op = Registry::instance().get(Op(family.level, def).full_name);
      if (draws(op)) {
        if (!keep || keep(op)) add(op);
      } else if (computes(op)) writes_.push_back(&op);
    }
}

void Coverage::add(const Op& record) {
  const Op* op = &record;
  operators_.push_back(op);
  // Gradients are compared with differences: nothing random, nothing that cuts the graph.
  // (As in PyTorch, the statistics that these norms return have no gradient, nor has what other bits of a tensor mean; and
  // nextafter() has none where its operands are equal, nor a cosine where it limits a length.)
  // clang-format off
  static const std::vector<std::string> cuts = {
      "prims.graft", "torch.detach", "torch.cosine_similarity", "torch.native_layer_norm", "torch.native_batch_norm",
      "torch._native_batch_norm_legit_functional", "torch.native_batch_norm_backward", "torch.batch_norm_functional",
      "torch.instance_norm_functional", "torch.native_batch_norm_functional",
      "torch.view.dtype", "torch.view_copy.dtype", "prims.nextafter", "clang.nextafter", "torch.nextafter"};
  // clang-format on
  bool cut = std::find(cuts.begin(), cuts.end(), op->full_name) != cuts.end();
  if ((op->vjp || op->body) && !cut && !op->has(kNoGrad | kRandom | kHostSync | kDataDependent | kIdentity))
    smooth_.push_back(op);
}

int Coverage::count(const Op* op) const {
  auto it = counts_.find(op);
  return it == counts_.end() ? 0 : it->second.first;
}

int Coverage::attempts(const Op* op) const {
  auto it = counts_.find(op);
  return it == counts_.end() ? 0 : it->second.second;
}

const Op* Coverage::draw(Random& random, bool smooth) const {
  const std::vector<const Op*>& from = smooth ? smooth_ : operators_;
  const Op* best = nullptr;
  // Failed attempts count a little, so that an operator that never fits does not take every draw.
  auto cost = [&](const Op* op) { return count(op) + 0.02 * attempts(op); };
  for (int i = 0; i < 6; ++i) {
    const Op* op = random.pick(from);
    if (!best || cost(op) < cost(best)) best = op;
  }
  return best;
}

const Op* Coverage::draw_write() const {
  return *std::min_element(writes_.begin(), writes_.end(),
                           [&](const Op* a, const Op* b) { return count(a) < count(b); });
}

void Coverage::describe(const std::vector<const Call*>& calls) {
  for (const Call* c : calls) {
    std::vector<Value> tensors;
    for (const Arg& a : c->args)
      for (Value v : values_in(a))
        if (v.type().is_tensor()) tensors.push_back(v);
    bool scalar = false, empty = false, mixed = false, view = is_pure_view(*c);
    for (Value v : tensors) {
      scalar |= v.rank() == 0;
      for (const Dim& d : v.shape()) empty |= d.same(0);
      mixed |= v.dtype() != tensors[0].dtype();
      view |= !same(v.tensor().strides, contiguous_strides(v.shape()));
    }
    cases_["0-d"] += scalar;
    cases_["empty"] += empty;
    cases_["mixed dtypes"] += mixed;
    cases_["view"] += view;
    cases_["several results"] += outputs_of(*c).size() > 1;
  }
}

std::string Coverage::histogram() const {
  std::ostringstream out;
  for (const Op* op : operators_) out << op->full_name << " " << count(op) << " of " << attempts(op) << "\n";
  for (const Op* op : writes_) out << op->full_name << " " << count(op) << " of " << attempts(op) << "\n";
  for (const auto& [name, n] : cases_) out << "calls, " << name << ": " << n << "\n";
  return out.str();
}

std::vector<std::string> Coverage::below(int least) const {
  std::vector<std::string> out;
  for (const std::vector<const Op*>* ops : {&operators_, &writes_})
    for (const Op* op : *ops)
      if (count(op) < least) out.push_back(cat(op->full_name, " (", count(op), " of ", attempts(op), " attempts)"));
  for (const auto& [name, n] : cases_)
    if (n < least) out.push_back(cat("calls, ", name, " (", n, ")"));
  return out;
}

// ---- Draw -----------------------------------------------------------------------------------------------------------

Draw::Shape Draw::shape_of(Value v) {
  Shape out;
  for (const Dim& d : v.shape()) out.push_back(d.constant());
  return out;
}

int64_t Draw::size(Value v, int64_t dim) { return v.shape().at(static_cast<size_t>(dim)).constant(); }

bool Draw::smooth() const { return g_.smooth_; }

const Datum& Draw::datum(Value v) const { return g_.evaluator_->get(v); }

std::optional<Value> Draw::number_value(NumberKind kind) {
  std::vector<Value> candidates;
  for (Value v : g_.pool_)
    if (v.type().is_number() && v.type().number().kind == kind) candidates.push_back(v);
  if (candidates.empty()) return std::nullopt;
  return random.pick(candidates);
}

Draw::Shape Draw::shape(int64_t min_rank, int64_t max_rank) {
  int64_t rank = random.between(min_rank, max_rank);
  if (min_rank == 0 && random.chance(0.1)) rank = 0;
  Shape s;
  for (int64_t d = 0; d < rank; ++d)
    s.push_back(random.chance(0.2) ? 1 : g_.wide_ && random.chance(0.3) ? 8 : random.between(2, 4));
  if (rank > 0 && random.chance(smooth() ? 0.02 : 0.07)) s[static_cast<size_t>(random.below(rank))] = 0;
  return s;
}

DType Draw::float_type() {
  double x = random.uniform(0, 1);
  if (smooth()) return x < 0.7 ? DType::f64 : DType::f32;
  return x < 0.5 ? DType::f32 : x < 0.8 ? DType::f64 : x < 0.92 ? DType::bf16 : DType::f16;
}

DType Draw::any_type() {
  double x = random.uniform(0, 1);
  if (smooth()) return x < 0.97 ? float_type() : DType::c128;
  if (x < 0.6) return float_type();
  static const std::vector<DType> others = {DType::i64, DType::i64,     DType::i32,     DType::i16, DType::i8,
                                            DType::u8,  DType::boolean, DType::boolean, DType::c64, DType::c128};
  return random.pick(others);
}

Draw::Shape Draw::broadcastable(const Shape& s) {
  Shape out(s.begin() + random.below(static_cast<int64_t>(s.size()) + 1), s.end());
  if (random.chance(0.5)) out = s;
  for (int64_t& d : out)
    if (random.chance(0.3)) d = 1;
  if (random.chance(0.1)) out.insert(out.begin(), random.between(1, 3));
  return out;
}

Value Draw::tensor(const Want& want) {
  // prims.log says where the logarithm is defined; torch.log means the same.
  Domain domain = op.domain;
  if (const Op* prim = Registry::instance().find("prims." + op.schema.name)) domain = prim->domain;
  if (want.values) domain = *want.values;
  bool restricted = domain.low > -1e8 || domain.high < 1e8;
  auto fits = [&](Value v) {
    if (!v.type().is_tensor() || (want.dtype && v.dtype() != *want.dtype)) return false;
    if (want.shape && shape_of(v) != *want.shape) return false;
    if (smooth() && !want.dtype && !is_inexact(v.dtype())) return false;
    const std::vector<Element>& data = g_.evaluator_->get(v).array->data;
    auto inside = [&](double x) { return x > domain.low && x < domain.high; };
    if (!is_complex(v.dtype()))
      return !restricted ||
             std::all_of(data.begin(), data.end(), [&](const Element& e) { return inside(to_double(e, v.dtype())); });
    // Real numbers that became complex ones lie on the axes, and so do the cuts of asin, acosh and others, across which
    // there is no derivative.  The domain says where the real axis is free of them.
    return !smooth() || std::all_of(data.begin(), data.end(),
                                    [&](const Element& e) { return e.im == 0 ? inside(e.re) : e.re != 0; });
  };
  if (!want.fresh && !want.constant && random.chance(0.75)) {
    std::vector<Value> candidates;
    for (Value v : g_.pool_)
      if (g_.usable(v) && fits(v)) candidates.push_back(v);
    if (!candidates.empty()) {
      // Rather what was made late: programs get deep.
      size_t n = candidates.size();
      return candidates[n - 1 -
                        static_cast<size_t>(
                            random.below(static_cast<int64_t>(random.chance(0.6) ? std::min<size_t>(n, 4) : n)))];
    }
  }
  double low = std::max(domain.low, -2.0), high = std::min(domain.high, 2.0);
  if (low > high) {
    low = domain.low;
    high = std::min(domain.high, domain.low + 2);
  }
  return g_.new_input(
      want.dtype.value_or(any_type()), want.shape.value_or(shape()), [=, this] { return random.uniform(low, high); },
      want.constant);
}

Value Draw::indices(Shape shape, int64_t below, DType t) {
  return g_.new_input(t, std::move(shape),
                      [=, this] { return static_cast<double>(below > 0 ? random.below(below) : 0); });
}

Value Draw::distinct_indices(int64_t length, int64_t below) {
  Shape left(static_cast<size_t>(below));
  std::iota(left.begin(), left.end(), int64_t{0});
  return g_.new_input(
      DType::i64, {length},
      [&] {
        auto it = left.begin() + random.below(static_cast<int64_t>(left.size()));
        auto position = static_cast<double>(*it);
        left.erase(it);
        return position;
      },
      false, /*dense=*/true);
}

Value Draw::row(const std::vector<int64_t>& numbers) {
  return g_.new_input(
      DType::i64, {static_cast<int64_t>(numbers.size())},
      [&, next = size_t{0}]() mutable { return static_cast<double>(numbers[next++]); }, false, /*dense=*/true);
}

Value Draw::sorted_indices(int64_t length, int64_t below) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < length; ++i) all.push_back(random.below(below));
  std::sort(all.begin(), all.end());
  return row(all);
}

Value Draw::offsets(int64_t length, int64_t below) {
  std::vector<int64_t> all = {0};
  for (int64_t i = 1; i < length; ++i) all.push_back(random.below(below));
  std::sort(all.begin(), all.end());
  return row(all);
}

Value Draw::mask(Shape shape) { return tensor({.dtype = DType::boolean, .shape = std::move(shape), .values = {}}); }

// ---- Generator ------------------------------------------------------------------------------------------------------

bool Generator::usable(Value v) const {
  if (!v.type().is_tensor()) return false;
  for (const Dim& d : v.shape())
    if (!d.is_constant()) return false;
  return evaluator_->get(v).array->numel() <= kMostElements;
}

// Dense, or transposed, or with gaps, or expanded.
Dims Generator::input_strides(const std::vector<int64_t>& shape) {
  Dims dims(shape.begin(), shape.end());
  double x = random_->uniform(0, 1);
  if (x < 0.65 || shape.empty()) return contiguous_strides(dims);
  std::vector<size_t> order(shape.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (x < 0.9)
    for (size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[static_cast<size_t>(random_->below(static_cast<int64_t>(i)))]);
  Dims strides(shape.size());
  Dim next = x > 0.85 ? 2 : 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = next;
    next = next * std::max<int64_t>(1, shape[order[i]]);
  }
  if (x > 0.96) strides[static_cast<size_t>(random_->below(static_cast<int64_t>(shape.size())))] = 0;
  return strides;
}

Value Generator::new_input(DType t, std::vector<int64_t> shape, const std::function<double()>& real, bool constant,
                           bool dense) {
  Dims dims(shape.begin(), shape.end());
  TensorType type{t, Device{}, dims, dense ? contiguous_strides(dims) : input_strides(shape), false};
  type.requires_grad = is_inexact(t) && !constant && (smooth_ || random_->chance(0.3));
  reference::ArrayPtr a = reference::make_array(t, Device{}, shape);
  for (Element& e : a->data) {
    double x = real(), y = is_complex(t) ? real() : 0;
    // A tensor of integers from a narrow interval would be all zeros.
    if (is_bool(t)) e = Element::integer(random_->chance(0.5));
    else if (reference::is_exact(t))
      e = Element::integer(static_cast<int64_t>(x == std::floor(x) ? x : std::floor(2 * x)));
    else e = Element{0, x, y};
    e = reference::stored(t, e, reference::Rounding::Exact);
  }
  Value v = arena_->make_value(type);
  // Expanded memory holds one value many times.
  for (size_t d = 0; d < shape.size(); ++d)
    if (type.strides[d].same(0) && shape[d] > 1) {
      size_t k = 0;
      reference::for_each_index(shape, [&](reference::Shape i) {
        i[d] = 0;
        a->data[k++] = a->data[static_cast<size_t>(reference::flat(shape, i))];
      });
    }
  evaluator_->define(v, Datum(a));
  pending_.push_back(v);
  return v;
}

Program Generator::make(uint64_t seed, const GeneratorOptions& options) {
  random_ = std::make_unique<Random>(seed);
  arena_ = std::make_shared<Arena>();
  reference::EvaluatorOptions eval;
  if (options.smooth) eval.rounding = reference::Rounding::None;
  evaluator_ = std::make_unique<reference::Evaluator>(eval);
  trace_ = Trace();
  trace_.arena = arena_;
  inputs_.clear();
  pool_.clear();
  smooth_ = options.smooth;
  wide_ = options.wide;
  Program p;
  p.seed = seed;
  p.environment = std::make_shared<ShapeEnv>();
  ShapeEnv::Scope scope(*p.environment);
  for (int tries = 0; static_cast<int>(trace_.calls.size()) < options.calls && tries < options.calls * 6; ++tries)
    step(options);
  if (!options.smooth && random_->chance(0.1)) add_write();
  trace_.output = choose_output();
  p.trace = std::move(trace_);
  p.inputs = std::move(inputs_);
  return p;
}

void Generator::step(const GeneratorOptions& options) {
  pending_.clear();
  if (!trace_.calls.empty() && random_->chance(0.1)) {  // the same call again
    const Call* again = random_->pick(trace_.calls);
    if (draws(*again->op)) attempt(*again->op, again->args, {});
    return;
  }
  const Op* op = coverage_.draw(*random_, options.smooth);
  coverage_.tried(op);
  Draw draw(*this, *op, *random_);
  std::optional<ArgList> args = draw_arguments(draw);
  if (args) attempt(*op, *args, pending_);
}

// Calls the operator apart from the trace; if all is well the calls, and the inputs made for them, become part of it.
bool Generator::attempt(const Op& op, const ArgList& args, const std::vector<Value>& new_inputs) {
  Builder b(arena_);
  try {
    b.call(op, args);
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::Internal) findings_.push_back({op.full_name, e.what()});
    return false;
  } catch (const std::exception& e) {
    findings_.push_back({op.full_name, cat("an exception that is no Error: ", e.what())});
    return false;
  }
  std::vector<Value> used;
  for (const Arg& a : args) visit_values(a, [&](Value v) { used.push_back(v); });
  if (!accept(b.calls())) return false;
  for (Value v : new_inputs) {
    if (std::find(used.begin(), used.end(), v) == used.end()) continue;
    trace_.inputs.push_back(v);
    inputs_.push_back(copied(evaluator_->get(v)));
    pool_.push_back(v);
  }
  for (const Call* c : b.calls())
    for (Value v : outputs_of(*c))
      if (std::find(pool_.begin(), pool_.end(), v) == pool_.end() &&
          (all_finite(evaluator_->get(v)) || random_->chance(0.1)))
        pool_.push_back(v);
  coverage_.occurred(&op);
  coverage_.describe(b.calls());
  if (on_sample) on_sample(op, args);
  return true;
}

bool Generator::accept(const std::vector<const Call*>& calls) {
  for (const Call* c : calls) {
    try {
      evaluator_->run(*c, arena_);
    } catch (const reference::Undefined&) {
      return false;
    } catch (const std::exception& e) {
      findings_.push_back({c->op->full_name, e.what()});
      return false;
    }
    for (Value v : outputs_of(*c))
      if (evaluator_->defined(v) && evaluator_->get(v).is_tensor() &&
          evaluator_->get(v).array->numel() > 4 * kMostElements)
        return false;
  }
  for (const Call* c : calls) trace_.calls.push_back(c);
  return true;
}

// Eager refuses to write to a leaf that requires a gradient, and to memory that several elements share.
std::vector<Value> Generator::writable_inputs() const {
  std::vector<Value> out;
  for (Value v : trace_.inputs) {
    bool shared = v.requires_grad();
    for (const Dim& s : v.tensor().strides) shared |= s.same(0);
    if (!shared) out.push_back(v);
  }
  return out;
}

// A write to an input at the end, as the epilogue makes them.
void Generator::add_write() {
  std::vector<Value> targets = writable_inputs();
  if (targets.empty()) return;
  const Op& op = *coverage_.draw_write();
  coverage_.tried(&op);
  pending_.clear();
  Draw draw(*this, op, *random_);
  Value to = random_->pick(targets), from = draw.like(to);
  // copy_ broadcasts and converts, copy_data_ takes what fits only.
  if (op.full_name == "prims.copy_" && random_->chance(0.5))
    from = draw.tensor({.dtype = {}, .shape = draw.broadcastable(Draw::shape_of(to)), .values = {}});
  ArgList arguments = {to, from};
  if (op.schema.params.size() > 2) arguments.emplace_back(random_->chance(0.5));  // whether the write is counted
  if (!(from == to)) attempt(op, arguments, pending_);
}

// Mostly late values; sometimes one twice, or an input.
Arg Generator::choose_output() {
  ArgList out;
  std::vector<Value> made;
  for (const Call* c : trace_.calls)
    for (Value v : outputs_of(*c))
      if (!smooth_ || (v.type().is_tensor() && all_finite(evaluator_->get(v)))) made.push_back(v);
  if (!made.empty()) out.push_back(made.back());
  for (int64_t n = random_->below(3); n > 0 && !made.empty(); --n) out.push_back(random_->pick(made));
  if (random_->chance(0.1) && !out.empty()) out.push_back(out[0]);
  if (random_->chance(0.1) && !trace_.inputs.empty()) out.push_back(random_->pick(trace_.inputs));
  return Arg::tuple(std::move(out));
}

}  // namespace thunder::fuzz
