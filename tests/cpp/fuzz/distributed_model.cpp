#include <algorithm>
#include <functional>

#include "core/builder.h"
#include "core/error.h"
#include "fuzz/distributed.h"

namespace thunder::fuzz {

using distributed::PlannedParameter;
using reference::ArrayPtr;
using reference::Datum;
using reference::Element;

namespace {

TensorType tensor_type(DType t, Dims shape, bool requires_grad) {
  Dims strides = contiguous_strides(shape);
  return {t, Device{}, std::move(shape), std::move(strides), requires_grad};
}

std::vector<int64_t> sizes(const TensorType& t) {
  std::vector<int64_t> out;
  for (const Dim& d : t.shape) out.push_back(d.constant());
  return out;
}

bool has_rows_of(const PlannedParameter& p, int64_t width) {
  return p.full.rank() == 2 && p.full.shape[1].constant() == width;
}
bool is_square(const PlannedParameter& p, int64_t width) {
  return has_rows_of(p, width) && p.full.shape[0].constant() == width;
}

}  // namespace

Datum integers(DType t, const std::vector<int64_t>& shape, Random& random) {
  ArrayPtr a = reference::make_array(t, Device{}, shape);
  for (Element& e : a->data) e = Element::real(static_cast<double>(random.between(-2, 2)));
  return Datum(a);
}

// ---- the model ------------------------------------------------------------------------------------------------------

DistributedModel::DistributedModel(Random& random) : plan(std::make_shared<distributed::CommunicationPlan>()) {
  plan->id = "model";
  plan->group = "gather";
  plan->reduce_group = "reduce";
  plan->world = random.between(1, 4);
  if (plan->world < 4 && random.chance(0.25)) {
    plan->replicas = "copies";
    plan->copies = random.between(2, 3);
  }
  plan->regather = random.chance(0.5);
  if (random.chance(0.3)) plan->reduce_dtype = DType::f32;
  plan->bytes_in_flight = random.chance(0.3) ? 0 : random.chance(0.3) ? int64_t{1} << 40 : random.between(1, 400);
  dtype = random.pick<DType>({DType::f32, DType::f32, DType::f64, DType::bf16});
  width = random.between(1, 5);
  const int64_t way = random.below(5);  // none sharded, some, all
  for (int64_t i = random.between(1, 7); i > 0; --i) add_parameter(random, way > 1 || (way == 1 && random.chance(0.5)));
  const int64_t buckets = random.between(1, 5);
  for (PlannedParameter& p : plan->parameters) {
    p.bucket = static_cast<size_t>(random.below(buckets));
    p.kept = random.chance(0.2);
  }
  for (int64_t i = random.between(2, 7); i > 0; --i) add_step(random);
}

void DistributedModel::add_parameter(Random& random, bool sharded) {
  const std::vector<Dims> shapes = {
      {width, width}, {width, width}, {width}, {width}, {}, {0, width}, {random.between(1, 9), width}};
  PlannedParameter p;
  p.name = cat("w", plan->parameters.size());
  p.sharded = sharded;
  p.trainable = !random.chance(0.15);
  p.full = tensor_type(dtype, random.pick(shapes), p.trainable);
  p.local = p.full;
  if (sharded) {
    Dims shape = p.full.rank() == 0 ? Dims{1} : p.full.shape;
    shape[0] = (shape[0].constant() + plan->world - 1) / plan->world;
    // Masters may be more exact than what is computed with.
    const DType held =
        dtype != DType::f64 && random.chance(0.3) ? (dtype == DType::bf16 ? DType::f32 : DType::f64) : dtype;
    p.local = tensor_type(held, std::move(shape), p.trainable);
  }
  values.push_back(integers(dtype, sizes(p.full), random));
  plan->parameters.push_back(std::move(p));
}

void DistributedModel::add_step(Random& random) {
  ModelStep s{static_cast<ModelStep::Kind>(random.below(ModelStep::ThroughF64 + 1)), {}, 0};
  auto choose = [&](const std::function<bool(const PlannedParameter&)>& fits) {
    std::vector<size_t> some;
    for (size_t i = 0; i < plan->parameters.size(); ++i)
      if (fits(plan->parameters[i])) some.push_back(i);
    if (!some.empty()) s.parameters.push_back(random.pick(some));
    return !some.empty();
  };
  auto square = [&](const PlannedParameter& p) { return is_square(p, width); };
  auto rows = [&](const PlannedParameter& p) { return has_rows_of(p, width); };
  auto some_rows = [&](const PlannedParameter& p) { return rows(p) && p.full.shape[0].constant() > 0; };
  auto row = [&](const PlannedParameter& p) { return p.full.rank() == 1; };
  auto row_or_scalar = [&](const PlannedParameter& p) { return p.full.rank() <= 1; };
  bool fits = true;
  switch (s.kind) {
    case ModelStep::Linear:
      fits = choose(square);
      if (fits && random.chance(0.5)) choose(row);
      break;
    case ModelStep::Tied: fits = choose(square); break;
    case ModelStep::Scale:
    case ModelStep::Shift: fits = choose(row_or_scalar); break;
    case ModelStep::Norm: fits = choose(row) && choose(row); break;
    case ModelStep::Embedding:
    case ModelStep::Largest:
    case ModelStep::FirstRow: fits = choose(some_rows); break;
    case ModelStep::SumOfRows:
    case ModelStep::NoGradient: fits = choose(rows); break;
    case ModelStep::Residual: s.earlier = static_cast<size_t>(random.below(16)); break;
    default: break;
  }
  if (!fits) return;
  if (s.kind == ModelStep::Embedding) {
    const int64_t n = plan->parameters[s.parameters[0]].full.shape[0].constant();
    indices_below = indices_below == 0 ? n : std::min(indices_below, n);
  }
  steps.push_back(std::move(s));
}

Datum DistributedModel::local(size_t parameter, int64_t rank) const {
  const PlannedParameter& p = plan->parameters[parameter];
  const reference::Array& whole = *values[parameter].array;
  if (!p.sharded) return values[parameter];
  ArrayPtr out = reference::make_array(p.local.dtype, Device{}, sizes(p.local));
  const int64_t first = rank * out->numel();
  for (int64_t k = 0; k < out->numel(); ++k)
    out->data[static_cast<size_t>(k)] =
        first + k < whole.numel() ? whole.data[static_cast<size_t>(first + k)] : Element::real(99);
  return Datum(out);
}

// ---- its programs ---------------------------------------------------------------------------------------------------

namespace {

class ProgramMaker {
 public:
  ProgramMaker(const DistributedModel& model, Random& random)
      : model_(model), random_(random), b_(std::make_shared<Arena>()), given_(model.plan->parameters.size()) {}

  // What the program takes, in any order: also parameters that it does not read.
  void make_inputs(const std::vector<ModelStep>& steps, int64_t batch, ModelProgram& out) {
    std::vector<char> taken(given_.size());
    for (const ModelStep& s : steps)
      for (size_t i : s.parameters) taken[i] = 1;
    constexpr size_t kData = 1000, kIndices = 1001;
    std::vector<size_t> order = {kData, kIndices};
    for (size_t i = 0; i < taken.size(); ++i)
      if (taken[i] || random_.chance(0.3)) order.push_back(i);
    for (size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[static_cast<size_t>(random_.below(static_cast<int64_t>(i)))]);
    for (size_t i : order) {
      if (i == kData) {
        h_ = b_.expr(b_.input(tensor_type(model_.dtype, {batch, model_.width}, random_.chance(0.5)), "x"));
      } else if (i == kIndices) {
        indices_ = b_.input(tensor_type(DType::i64, {batch}, false), "n");
      } else {
        given_[i] = b_.input(model_.plan->parameters[i].full, model_.plan->parameters[i].name);
        out.parameters.emplace_back(given_[i], i);
      }
    }
    earlier_ = {h_};
  }

  void take(const ModelStep& s) {
    h_ = apply(s);
    earlier_.push_back(h_);
  }

  Arg outputs() {
    ArgList out = {h_.arg()};
    if (random_.chance(0.4)) out.push_back(random_.pick(earlier_).arg());
    if (random_.chance(0.2)) out.push_back(b_("torch.mul", h_, 2.0).arg());
    if (random_.chance(0.1)) out.push_back(3);
    for (size_t i = 0; i < given_.size(); ++i) {
      if (!given_[i] || !random_.chance(0.05)) continue;
      const PlannedParameter& p = model_.plan->parameters[i];
      if (p.full.rank() == 2) out.push_back(b_("torch.transpose", given_[i], 0, 1).arg());
      else if (!p.sharded) out.push_back(given_[i]);
    }
    return Arg::tuple(std::move(out));
  }

  Trace finish(Arg output) { return b_.finish("acquired", std::move(output)); }

 private:
  Expr apply(const ModelStep& s) {
    auto p = [&](size_t i) { return given_[s.parameters.at(i)]; };
    switch (s.kind) {
      case ModelStep::Linear: return b_("torch.linear", h_, p(0), s.parameters.size() > 1 ? Arg(p(1)) : Arg());
      case ModelStep::Tied: return b_("torch.matmul", h_, p(0));
      case ModelStep::Scale: return b_("torch.mul", h_, p(0));
      case ModelStep::Shift: return b_("torch.add", h_, p(0));
      case ModelStep::Norm: return b_("torch.layer_norm", h_, Arg::list({model_.width}), p(0), p(1));
      case ModelStep::Embedding: return b_("torch.add", h_, b_("torch.embedding", p(0), indices_));
      case ModelStep::Largest: return b_("torch.add", h_, b_("torch.amax", p(0), Arg::list({0})));
      case ModelStep::SumOfRows: return b_("torch.add", h_, b_("torch.sum", p(0), Arg::list({0})));
      case ModelStep::FirstRow: return b_("torch.mul", h_, b_("torch.select", p(0), 0, 0));
      case ModelStep::NoGradient: return b_("torch.add", h_, b_("torch.sum", b_("torch.detach", p(0))));
      case ModelStep::Residual: return b_("torch.add", h_, earlier_[s.earlier % earlier_.size()]);
      case ModelStep::Tanh: return b_("torch.tanh", h_);
      case ModelStep::Relu: return b_("torch.relu", h_);
      case ModelStep::ThroughF64: break;
    }
    return b_("torch.to", b_("torch.tanh", b_("torch.to", h_, DType::f64)), model_.dtype);
  }

  const DistributedModel& model_;
  Random& random_;
  Builder b_;
  std::vector<Value> given_;  // by parameter; empty for those that the program does not take
  Value indices_;
  Expr h_;
  std::vector<Expr> earlier_;
};

}  // namespace

ModelProgram::ModelProgram(const DistributedModel& model, Random& random, bool part) : batch(random.between(1, 3)) {
  std::vector<ModelStep> steps;
  for (const ModelStep& s : model.steps)
    if (!part || random.chance(0.7)) steps.push_back(s);
  ProgramMaker maker(model, random);
  maker.make_inputs(steps, batch, *this);
  for (const ModelStep& s : steps) maker.take(s);
  trace = maker.finish(maker.outputs());
}

std::vector<Datum> ModelProgram::inputs(const DistributedModel& model, Random& random) const {
  std::vector<Datum> out;
  for (Value v : trace.inputs) {
    auto at = std::find_if(parameters.begin(), parameters.end(), [&](const auto& p) { return p.first == v; });
    if (at != parameters.end()) {
      out.push_back(model.values[at->second]);
    } else if (v.dtype() == DType::i64) {
      ArrayPtr a = reference::make_array(DType::i64, Device{}, {batch});
      for (Element& e : a->data) e = Element::integer(random.below(std::max<int64_t>(1, model.indices_below)));
      out.push_back(Datum(a));
    } else {
      out.push_back(integers(v.dtype(), {batch, model.width}, random));
    }
  }
  return out;
}

}  // namespace thunder::fuzz
