#include "fuzz/distributed.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "core/error.h"
#include "core/parse.h"
#include "core/print.h"
#include "core/verify.h"
#include "fuzz/checks.h"
#include "passes/pass_table.h"
#include "reference/spmd.h"

namespace thunder::fuzz {

using distributed::Distribution;
using distributed::PlannedParameter;
using distributed::Synchronization;
using reference::Array;
using reference::ArrayPtr;
using reference::Datum;
using reference::Element;
using Data = std::vector<Datum>;

namespace {

// A fusion executor that takes nothing: with it, what is cheap is computed again.
class Recomputing : public Executor {
 public:
  Recomputing() : Executor("recomputing") {}
  bool is_fusion() const override { return true; }
};

// A program in one piece and what becomes of it.
struct Reference {
  explicit Reference(ModelProgram p) : program(std::move(p)), joint(autodiff(cse(dce(program.trace)))) {}
  ModelProgram program;
  JointTrace joint;
};

// What one process is given in one run, and what the whole program makes of it.
struct Run {
  const Reference* reference = nullptr;
  Data inputs;  // parameters are whole
  Data cotangents;
  Data outputs;
  std::vector<Datum> gradients;                  // by parameter of the plan; None where there is none
  std::vector<std::pair<size_t, Datum>> others;  // by input: gradients of what is no parameter
};

Datum cast(const Datum& d, DType t) {
  ArrayPtr out = reference::make_array(t, Device{}, d.array->shape);
  for (size_t k = 0; k < out->data.size(); ++k)
    out->data[k] =
        reference::stored(t, reference::converted(d.array->data[k], d.array->dtype, t), reference::Rounding::Exact);
  return Datum(out);
}

Element rounded(DType t, double x) { return reference::stored(t, Element::real(x), reference::Rounding::Exact); }

// As a ring reduces: each sum is rounded.
double mean_of(const std::vector<double>& parts, DType t) {
  double sum = parts[0];
  for (size_t r = 1; r < parts.size(); ++r) sum = rounded(t, sum + parts[r]).re;
  return rounded(t, sum / static_cast<double>(parts.size())).re;
}

class DistributedChecker {
 public:
  DistributedChecker(uint64_t seed, DistributedStatistics& statistics)
      : seed_(seed), random_(seed), model_(random_), processes_(world(), {}, copies()), statistics_(statistics) {}

  std::vector<std::string> run() {
    try {
      check();
    } catch (const std::exception& e) {
      found(e.what());
    }
    return std::move(findings_);
  }

 private:
  size_t world() const { return group() * copies(); }
  size_t group() const { return static_cast<size_t>(model_.plan->world); }
  size_t copies() const { return static_cast<size_t>(model_.plan->copies); }

  // Of a parameter, what the process holds.
  Datum local(size_t parameter, size_t rank) const {
    return model_.local(parameter, static_cast<int64_t>(rank % group()));
  }

  void found(const std::string& what, const Trace* t = nullptr) {
    std::string text = cat("seed ", seed_, ", distributed: ", what, "\n", model_.plan->text());
    for (const Reference& r : references_) text += thunder::print(r.program.trace, {.header = false});
    findings_.push_back(text + (t ? thunder::print(*t) : ""));
  }

  void check() {
    references_.reserve(2);
    references_.emplace_back(ModelProgram(model_, random_, false));
    references_.emplace_back(ModelProgram(model_, random_, true));
    options_.passes = PassOptions::from_environment();
    options_.passes.verify = true;
    options_.executors = test_executors(seed_);
    if (random_.chance(0.3)) options_.executors.insert(options_.executors.begin(), std::make_shared<Recomputing>());
    if (random_.chance(0.3)) leave_out_passes();
    const bool gradients = std::none_of(references_.begin(), references_.end(),
                                        [](const Reference& r) { return r.joint.differentiable_outputs.empty(); });
    if (random_.chance(0.3)) check_evaluation();
    if (!gradients) {
      ++statistics_.without;
      return check_evaluation();
    }
    const int64_t batches = random_.chance(0.5) ? random_.between(2, 3) : 1;
    for (int64_t m = 0; m < batches && findings_.empty(); ++m)
      check_training(batches == 1       ? Synchronization::Reduce
                     : m + 1 == batches ? Synchronization::ReduceKept
                                        : Synchronization::Accumulate);
    if (findings_.empty() && processes_.kept() > 0) found("gradients are kept and never reduced");
    if (random_.chance(0.3)) check_evaluation();
    ++statistics_.compared;
  }

  // The program is right without any of the optional passes.  Without cse gradients are added up in another order than
  // the reference's.
  void leave_out_passes() {
    for (const Stage stage : kStages)
      for (const Pass& p : passes_of(stage))
        if (p.optional && !std::string_view(p.id).ends_with("cse") && random_.chance(0.3))
          options_.passes.skip.emplace_back(p.id);
    for (const auto& e : options_.executors)
      if (e->is_fusion() && random_.chance(0.3)) options_.passes.skip.push_back(e->name());
  }

  // ---- programs -----------------------------------------------------------------------------------------------------

  // The first program that is compiled decides the order of what it communicates; which one is random.
  const Compiled& compiled(const Reference& r, Synchronization mode, bool with_grad) {
    auto key = std::make_tuple(&r, mode, with_grad);
    auto it = compiled_.find(key);
    if (it != compiled_.end()) return it->second;
    Distribution d{model_.plan, mode, r.program.parameters};
    const distributed::CommunicationOrder before = model_.plan->order;
    Compiled c = compile(r.program.trace, options_, with_grad, d);
    if (c.has_backward != (with_grad && !r.joint.differentiable_outputs.empty())) found("has_backward is wrong");
    check_text(c.forward);
    if (c.has_backward) check_text(c.backward);
    // Programs that come later follow an order that does not suit them.
    for (const auto& [t, order] : {std::pair(&c.forward, &before.gathers), std::pair(&c.backward, &before.regathers)})
      if (!*order && gathered_ahead(*t) > model_.plan->bytes_in_flight) ++statistics_.over_limit;
    return compiled_.emplace(key, std::move(c)).first->second;
  }

  void check_text(const Trace& t) {
    verify(t);
    std::string why;
    if (!structurally_equal(t, parse(thunder::print(t), python_context(t)), &why))
      found("parsed text differs: " + why, &t);
  }

  // The most bytes of gathered parameters that are under way at a time, leaving out times when it is one bucket, and
  // what nobody waits for.
  int64_t gathered_ahead(const Trace& t) const {
    std::set<ValueId> waited;
    std::map<ValueId, int64_t> under_way;
    int64_t most = 0;
    auto name = [](const Call* c) { return (c->op->implements ? c->op->implements : c->op)->full_name; };
    for (const Call* c : t.calls)
      if (name(c) == "prims.wait") waited.insert(c->args[0].value().id());
    for (const Call* c : t.calls) {
      if (name(c) == "prims.wait") under_way.erase(c->args[0].value().id());
      if (!name(c).starts_with("prims.all_gather") || !waited.contains(c->output.value().id())) continue;
      int64_t bytes = 0, all = 0;
      for (const TensorType& x : c->output.value().type().future()) bytes += itemsize(x.dtype) * x.numel().constant();
      if (bytes > 0) under_way[c->output.value().id()] = bytes;
      for (const auto& [id, n] : under_way) all += n;
      if (under_way.size() > 1) most = std::max(most, all);
    }
    return most;
  }

  // What process `rank` passes to the forward.
  Data forward_inputs(const Run& run, size_t rank) const {
    const ModelProgram& p = run.reference->program;
    Data out = run.inputs;
    std::vector<char> taken(model_.values.size());
    for (size_t i = 0; i < out.size(); ++i)
      for (const auto& [v, index] : p.parameters)
        if (v == p.trace.inputs[i]) {
          out[i] = local(index, rank);
          taken[index] = 1;
        }
    for (size_t i = 0; i < taken.size(); ++i)
      if (!taken[i]) out.push_back(local(i, rank));
    return out;
  }

  // ---- what is expected ---------------------------------------------------------------------------------------------

  Run draw(bool with_gradients) {
    Run out;
    out.reference = &references_[random_.chance(0.5) ? 0 : 1];
    const ModelProgram& p = out.reference->program;
    const JointTrace& joint = out.reference->joint;
    out.inputs = p.inputs(model_, random_);
    out.outputs = reference::evaluate(p.trace, out.inputs).items;
    if (!with_gradients) return out;
    for (size_t i : joint.differentiable_outputs)
      out.cotangents.push_back(integers(out.outputs[i].array->dtype, out.outputs[i].array->shape, random_));
    Data all = out.inputs;
    all.insert(all.end(), out.cotangents.begin(), out.cotangents.end());
    Data gradients = reference::evaluate(joint.trace, all).items[1].items;
    out.gradients.resize(model_.values.size());
    std::vector<char> is_parameter(out.inputs.size());
    for (const auto& [v, index] : p.parameters) {
      const auto& inputs = p.trace.inputs;
      const auto at = static_cast<size_t>(std::find(inputs.begin(), inputs.end(), v) - inputs.begin());
      is_parameter[at] = 1;
      out.gradients[index] = gradients[at];
    }
    for (size_t i = 0; i < gradients.size(); ++i)
      if (!is_parameter[i]) out.others.emplace_back(i, gradients[i]);
    return out;
  }

  // The mean over the processes as one process gets it.
  Datum reduced(size_t parameter, std::vector<Datum> by_rank, size_t rank) const {
    const PlannedParameter& p = model_.plan->parameters[parameter];
    const DType wire = model_.plan->reduce_dtype.value_or(p.full.dtype);
    ArrayPtr mean = reference::make_array(wire, Device{}, model_.values[parameter].array->shape);
    for (Datum& d : by_rank)
      d = d.is_none() ? Datum(reference::make_array(wire, Device{}, mean->shape)) : cast(d, wire);
    for (size_t k = 0; k < mean->data.size(); ++k) {
      std::vector<double> of_groups;
      for (size_t first = 0; first < world(); first += group()) {
        std::vector<double> parts;
        for (size_t r = first; r < first + group(); ++r) parts.push_back(by_rank[r].array->data[k].re);
        of_groups.push_back(mean_of(parts, wire));
      }
      mean->data[k] = rounded(wire, copies() == 1 ? of_groups[0] : mean_of(of_groups, wire));
    }
    if (!p.sharded) return cast(Datum(mean), p.local.dtype);
    Datum part = cast(local(parameter, rank), wire);
    for (size_t k = 0; k < part.array->data.size(); ++k) {
      const size_t at = rank % group() * part.array->data.size() + k;
      part.array->data[k] = at < mean->data.size() ? mean->data[at] : Element::real(0);
    }
    return cast(part, p.local.dtype);
  }

  bool keeps() const { return !model_.plan->regather; }

  // ---- runs ---------------------------------------------------------------------------------------------------------

  std::vector<Run> draw_all(bool with_gradients) {
    std::vector<Run> out;
    for (size_t r = 0; r < world(); ++r) out.push_back(draw(with_gradients));
    const bool differ =
        std::any_of(out.begin(), out.end(), [&](const Run& r) { return r.reference != out[0].reference; });
    statistics_.other_programs += differ;
    return out;
  }

  void compare(const std::string& what, const Datum& expected, const Datum& actual, const Trace& t) {
    std::string why;
    if (!same_datum(expected, actual, &why)) found(cat(what, ": ", why), &t);
  }

  Data run_all(const std::vector<const Trace*>& traces, const std::vector<Data>& inputs) {
    try {
      return processes_.run(traces, inputs);
    } catch (const reference::Wrong&) {
      for (const Trace* t : traces) found("what process ran", t);
      throw;
    }
  }

  void check_evaluation() {
    std::vector<Run> runs = draw_all(false);
    std::vector<const Trace*> traces;
    std::vector<Data> inputs;
    for (size_t r = 0; r < world(); ++r) {
      traces.push_back(&compiled(*runs[r].reference, Synchronization::Reduce, false).forward);
      inputs.push_back(forward_inputs(runs[r], r));
    }
    Data results = run_all(traces, inputs);
    for (size_t r = 0; r < world(); ++r)
      compare(cat("evaluation on process ", r), Datum::sequence(runs[r].outputs), results[r], *traces[r]);
  }

  void check_training(Synchronization mode) {
    std::vector<Run> runs = draw_all(true);
    std::vector<const Trace*> forwards, backwards;
    std::vector<Data> inputs;
    for (size_t r = 0; r < world(); ++r) {
      const Compiled& c = compiled(*runs[r].reference, mode, true);
      forwards.push_back(&c.forward);
      backwards.push_back(&c.backward);
      inputs.push_back(forward_inputs(runs[r], r));
    }
    Data results = run_all(forwards, inputs);
    std::vector<Data> backward_inputs;
    for (size_t r = 0; r < world(); ++r) {
      const Data flat = results[r].items[0].items[5].items;  // behind the keys and values of 'output' and 'flat_args'
      compare(cat("outputs of process ", r), Datum::sequence(runs[r].outputs), Datum::sequence(flat), *forwards[r]);
      Data saved = leaves(results[r].items[1]);
      saved.insert(saved.end(), runs[r].cotangents.begin(), runs[r].cotangents.end());
      backward_inputs.push_back(std::move(saved));
    }
    results = run_all(backwards, backward_inputs);
    const auto& starts = processes_.starts();
    statistics_.other_orders +=
        std::any_of(starts.begin(), starts.end(), [&](const auto& s) { return s != starts[0]; });
    accumulate(mode, runs);
    for (size_t r = 0; r < world(); ++r) check_gradients(mode, runs, r, results[r].items, *backwards[r]);
    if (mode != Synchronization::Accumulate) totals_.clear();
  }

  // What a parameter's gradients sum up to on each process, over the runs since they were last reduced.
  void accumulate(Synchronization mode, const std::vector<Run>& runs) {
    totals_.resize(world(), std::vector<Datum>(model_.values.size()));
    for (size_t r = 0; r < world(); ++r)
      for (size_t i = 0; i < model_.values.size(); ++i) {
        Datum g = runs[r].gradients[i];
        Datum& total = totals_[r][i];
        // What was kept is added to zeros: -0.0 does not stay.
        if (g.is_none() && mode == Synchronization::ReduceKept && !total.is_none())
          g = Datum(reference::make_array(total.array->dtype, Device{}, total.array->shape));
        if (g.is_none()) continue;
        if (keeps()) g = cast(g, model_.plan->reduce_dtype.value_or(g.array->dtype));
        if (total.is_none() || !keeps()) {
          total = g;
          continue;
        }
        auto sum = std::make_shared<Array>(*total.array);
        for (size_t k = 0; k < sum->data.size(); ++k)
          sum->data[k] = rounded(sum->dtype, sum->data[k].re + g.array->data[k].re);
        total = Datum(sum);
      }
  }

  void check_gradients(Synchronization mode, const std::vector<Run>& runs, size_t rank, const Data& actual,
                       const Trace& t) {
    const ModelProgram& p = runs[rank].reference->program;
    std::vector<size_t> at(model_.values.size(), actual.size());
    for (const auto& [v, index] : p.parameters)
      at[index] =
          static_cast<size_t>(std::find(p.trace.inputs.begin(), p.trace.inputs.end(), v) - p.trace.inputs.begin());
    size_t unread = p.trace.inputs.size();
    for (size_t& i : at)
      if (i == actual.size()) i = unread++;
    if (unread != actual.size()) return found(cat("the backward gives ", actual.size(), " gradients"), &t);
    for (size_t i = 0; i < at.size(); ++i) {
      const PlannedParameter& parameter = model_.plan->parameters[i];
      Datum expected;
      const bool reduces = !keeps() || mode != Synchronization::Accumulate;
      if (parameter.trainable && reduces) {
        std::vector<Datum> by_rank;
        for (size_t r = 0; r < world(); ++r) by_rank.push_back(keeps() ? totals_[r][i] : runs[r].gradients[i]);
        // What no process has used has no gradient.
        if (!std::all_of(by_rank.begin(), by_rank.end(), [](const Datum& d) { return d.is_none(); }))
          expected = reduced(i, std::move(by_rank), rank);
      }
      compare(cat("the gradient of ", parameter.name, " on process ", rank), expected, actual[at[i]], t);
    }
    for (const auto& [i, g] : runs[rank].others) compare("the gradient of an input", g, actual[i], t);
  }

  uint64_t seed_;
  Random random_;
  DistributedModel model_;
  reference::Processes processes_;
  DistributedStatistics& statistics_;
  CompileOptions options_;
  std::vector<Reference> references_;
  std::map<std::tuple<const Reference*, Synchronization, bool>, Compiled> compiled_;
  std::vector<std::vector<Datum>> totals_;  // by process and parameter
  std::vector<std::string> findings_;
};

}  // namespace

std::vector<std::string> check_distributed(uint64_t seed, DistributedStatistics& statistics) {
  return DistributedChecker(seed, statistics).run();
}

}  // namespace thunder::fuzz
