#include "passes/float8.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "core/dim_algebra.h"
#include "core/error.h"
#include "ops/prims/float8.h"
#include "passes/rewriter.h"
#include "passes/visit.h"

namespace thunder {
namespace {

constexpr int64_t kUnit = 16;  // elements, that sizes of a float8 product are multiples of

/// input @ weight^T + bias, or with the weight as it is if it is `by_columns`.
struct LinearCall {
  Value input, weight;
  Arg bias;
  bool by_columns = false;
};

bool is_one(const Arg& a) { return a.is_literal_number() && a.real() == 1; }

std::optional<LinearCall> linear_of(const Call& call) {
  const Args a = call.arguments();
  const bool linear = call.op->full_name == "torch.linear", addmm = call.op->full_name == "torch.addmm";
  if (!linear && !addmm) return std::nullopt;
  if (linear) return LinearCall{a.value("input"), a.value("weight"), a["bias"], false};
  if (!is_one(a["beta"]) || !is_one(a["alpha"]) || a.value("input").rank() != 1) return std::nullopt;
  return LinearCall{a.value("mat1"), a.value("mat2"), a["input"], true};
}

// Casts, and what is the tensor itself.
bool keeps_elements(const Call& call) {
  if (call.body.empty()) return call.op->full_name == "prims.convert_element_type" || call.op->has(kIdentity);
  return std::all_of(call.body.begin(), call.body.end(), [](const Call* c) { return keeps_elements(*c); });
}

class LinearLayers {
 public:
  LinearLayers(const Trace& trace, const Float8Options& options) {
    for (const Call* call : trace.calls) {
      visit_outputs(*call, [&](Value v) { makers_.set(v, call); });
      if (linear_of(*call)) last_ = call;
    }
    if (!options.keeps_last) last_ = nullptr;
    for (size_t i = 0; i < options.layers.size(); ++i) layer_.set(options.layers[i].weight, static_cast<int>(i));
  }

  /// The layer whose weight is an operand of the call; -1 if there is none.
  int operator[](const Call& call) const {
    const std::optional<LinearCall> l = linear_of(call);
    return l ? layer_[parameter(l->weight)] : -1;
  }

  /// Why the call of a layer cannot, or should not, be in float8; empty if it can.
  std::string refusal(const Call& call) const {
    const LinearCall l = *linear_of(call);
    const TensorType &x = l.input.tensor(), &w = l.weight.tensor();
    if (&call == last_) return "it is the last linear layer";
    if (x.dtype != w.dtype || (x.dtype != DType::bf16 && x.dtype != DType::f16 && x.dtype != DType::f32))
      return cat("it computes in ", x.dtype);
    if (w.rank() != 2 || x.rank() == 0) return "its weight is no matrix";
    for (const Dim& d : w.shape)
      if (!d.is_constant() || d.constant() == 0 || d.constant() % kUnit != 0)
        return cat("its weight is ", str(w.shape), ", and sizes must be multiples of ", kUnit);
    for (const Dim& d : x.shape)
      if (known_in_run_alone(d) || d.same(0)) return cat("its input is ", str(x.shape));
    if (l.bias.is_value() && !same(l.bias.value().shape(), {w.shape[l.by_columns ? 1 : 0]}))
      return cat("its bias is ", str(l.bias.value().shape()));
    return {};
  }

 private:
  Value parameter(Value v) const {
    for (const Call* call = makers_[v]; call && keeps_elements(*call) && call->args[0].is_tensor(); call = makers_[v])
      v = call->args[0].value();
    return v;
  }

  ValueMap<const Call*> makers_{nullptr};
  ValueMap<int> layer_{-1};
  const Call* last_ = nullptr;
};

class Float8Rewrite {
 public:
  Float8Rewrite(const Trace& trace, const Float8Options& options)
      : trace_(trace), options_(options), layers_(trace, options), rewriter_(trace) {}

  Trace run() {
    for (const Call* call : trace_.calls) {
      const int layer = layers_[*call];
      const bool changes = layer >= 0 && layers_.refusal(*call).empty();
      for (const Call* c : rewriter_.current(call)) {
        if (changes && linear_of(*c)) replace(*c, options_.layers[static_cast<size_t>(layer)]);
        else rewriter_.builder.append(c);
      }
    }
    return rewriter_.finish();
  }

 private:
  /// A tensor in float8, by rows and by columns.
  struct Cast {
    Arg scale, rows, columns, amax;
    bool recorded = false;
  };
  using enum float8_history::Kind;

  void replace(const Call& call, const Float8Layer& layer) {
    Builder& b = rewriter_.builder;
    Arg result;
    const std::vector<const Call*> made = rewriter_.collect(call, [&] {
      const bool differentiates = call.output.value().requires_grad();
      b.set_grad_enabled(differentiates);
      const LinearCall l = *linear_of(call);
      const Value weight = l.by_columns ? transposed(l.weight) : l.weight;
      const int64_t first = layer.number * kKinds;
      Cast &x = cast(l.input, first + kInput), &w = cast(weight, first + kWeight);
      std::vector<std::pair<std::string, Arg>> named;
      if (options_.delayed) named.emplace_back("grad_scale", recorded_scale(first + kGradient));
      if (options_.history && differentiates) {
        ArgList maxima;
        std::vector<int64_t> places;
        record(x, l.input, first + kInput, maxima, places);
        record(w, weight, first + kWeight, maxima, places);
        places.push_back(first + kGradient);
        named.insert(
            named.end(),
            {{"history", options_.history}, {"maxima", Arg::list(std::move(maxima))}, {"places", Arg(places)}});
      }
      result = b.call_named("torch.float8_linear",
                            {l.input, weight, l.bias, x.rows, x.columns, w.rows, w.columns, x.scale, w.scale},
                            std::move(named));
      b.set_grad_enabled(true);
    });
    rewriter_.replace_outputs(call, result, "float8");
    for (const Call* c : made) b.append(c);
  }

  // What several layers read is recorded for the first of them.
  void record(Cast& c, Value v, int64_t place, ArgList& maxima, std::vector<int64_t>& places) {
    if (c.recorded) return;
    c.recorded = true;
    if (c.amax.is_none()) c.amax = rewriter_.builder("torch.float8_amax", v, kw("by_rows", false));
    maxima.push_back(c.amax);
    places.push_back(place);
  }

  Arg recorded_scale(int64_t place) {
    if (scales_.is_none()) scales_ = rewriter_.builder("prims.float8_scales", options_.history);
    return rewriter_.builder("torch.select", scales_, 0, place);
  }

  Value transposed(Value v) {
    Value& known = transposed_[v.id()];
    if (!known) known = rewriter_.builder("torch.t", v).value();
    return known;
  }

  Cast& cast(Value v, int64_t place) {
    auto [it, is_new] = casts_.try_emplace(v.id());
    Cast& out = it->second;
    if (!is_new) return out;
    Builder& b = rewriter_.builder;
    if (!options_.delayed) out.amax = b("torch.float8_amax", v);
    out.scale = options_.delayed ? recorded_scale(place) : b("torch.float8_scale", out.amax, DType::f8e4m3fn).arg();
    out.rows = b("torch.float8_cast", v, out.scale, DType::f8e4m3fn);
    out.columns = b("torch.float8_transposed", out.rows);
    return out;
  }

  const Trace& trace_;
  const Float8Options& options_;
  LinearLayers layers_;
  Rewriter rewriter_;
  Arg scales_;  // of all places
  std::unordered_map<ValueId, Cast> casts_;
  std::unordered_map<ValueId, Value> transposed_;
};

}  // namespace

std::vector<std::string> float8_refusals(const Trace& trace, const Float8Options& options) {
  const LinearLayers layers(trace, options);
  std::vector<std::string> out(options.layers.size(), "no torch.linear of the program has its weight");
  std::vector<bool> any(out.size());
  for (const Call* call : trace.calls) {
    const int layer = layers[*call];
    if (layer < 0) continue;
    const auto i = static_cast<size_t>(layer);
    const std::string why = layers.refusal(*call);
    if (why.empty()) any[i] = true, out[i].clear();
    else if (!any[i]) out[i] = why;
  }
  return out;
}

Trace float8(const Trace& trace, const Float8Options& options) {
  if (options.layers.empty()) return trace;
  return Float8Rewrite(trace, options).run();
}

Trace float8_records(const Trace& trace) {
  const Op* op = Registry::instance().find("prims.float8_record");
  Trace out = trace.derived();
  Arg history;
  std::map<int64_t, Arg> maxima;
  Builder b(trace.arena);
  b.set_grad_enabled(false);
  for (const Call* call : trace.calls) {
    if (call->op != op) {
      out.calls.push_back(call);
      continue;
    }
    const Args a = call->arguments();
    history = a["history"];
    const std::vector<int64_t> places = a.integers("places");
    for (size_t i = 0; i < places.size(); ++i) {
      Arg& known = maxima[places[i]];
      const Arg& one = a["maxima"].items()[i];
      known = known.is_none() || known.same(one) ? one : b("prims.maximum", known, one).arg();
    }
  }
  if (maxima.empty()) return trace;
  ArgList all;
  std::vector<int64_t> places;
  for (auto& [place, m] : maxima) {
    places.push_back(place);
    all.push_back(m);
  }
  b("prims.float8_record", history, Arg::list(std::move(all)), Arg(places));
  out.calls.insert(out.calls.end(), b.calls().begin(), b.calls().end());
  return out;
}

}  // namespace thunder
