#include "passes/pipeline.h"

#include "core/error.h"
#include "passes/pass_table.h"

namespace thunder {
namespace {

// The passes stand in pass_table.cpp, each with the reason for its place.
class Pipeline {
 public:
  Pipeline(const CompileOptions& options, const distributed::Distribution& distribution) : s_(options, distribution) {}

  Compiled compile(const Trace& acquired, bool with_grad) {
    THUNDER_CHECK(acquired.output.is_sequence(), Value, acquired.name,
                  "compile() takes a trace whose output is a flat tuple");
    Compiled& c = s_.compiled;
    c.history.push_back(acquired);
    Trace t = each(Stage::Program, transformed(acquired), c.history);
    c.differentiable_outputs = with_grad ? differentiable_outputs(t) : std::vector<size_t>{};
    c.has_backward = !c.differentiable_outputs.empty();
    if (c.has_backward) {
      differentiate(t);
    } else {
      c.primal.reset();
      t.name = "computation";
      s_.joint.forward_calls = t.calls.size();
      t = each(Stage::Parts, each(Stage::Joint, t, c.history), c.history);
      s_.repeated = repeated_values({&t}, visible_values(t));
      c.forward = finish(t, c.history, Half::Forward);
    }
    collect();
    return std::move(c);
  }

  /// Parameters that the backward must take from the forward for the program to be of use.
  const std::set<size_t>& too_late() const { return s_.too_late; }

 private:
  Trace run(const PassName& name, const Trace& t, TraceHistory& history, const std::function<Trace(const Trace&)>& pass,
            bool required) {
    return run_pass(name, t, pass, s_.options.passes, &history, required);
  }

  Trace each(Stage stage, Trace t, TraceHistory& history) {
    for (const Pass& p : passes_of(stage)) {
      if (!holds(p.when, t, s_)) continue;
      const auto apply = [&](const PassName& name) {
        t = run(
            name, t, history, [&](const Trace& x) { return p.run(x, s_); }, !p.optional);
      };
      if (!(p.when & kEachFusion)) {
        apply({p.id, p.title});
        continue;
      }
      for (const auto& e : s_.options.executors) {
        if (!e->is_fusion()) continue;
        s_.fusion = e.get();
        apply({e->name(), "Fusion by " + e->name()});
      }
    }
    return t;
  }

  // The user's rewrites see the program as it was acquired, before we take anything out of it.
  Trace transformed(Trace t) {
    for (const auto& [name, transform] : s_.options.transforms) t = run(name, t, s_.compiled.history, transform, true);
    if (!s_.distribution && s_.options.float8.layers.empty()) s_.compiled.primal = t;
    return t;
  }

  void differentiate(const Trace& program) {
    Compiled& c = s_.compiled;
    const Trace joint = each(Stage::Joint, program, c.history);
    // Of what eager runs: the operators, before any is opened.
    const Visible visible = visible_values(joint);
    const Trace forward = each(Stage::Parts, joint, c.history);
    const Pass& split = passes_of(Stage::Parts).back();
    const Trace backward = run(
        {split.id, split.title}, s_.backward, c.backward_history, [](const Trace& x) { return x; }, true);
    s_.repeated = repeated_values({&forward, &backward}, visible);
    c.forward = finish(forward, c.history, Half::Forward);
    c.backward = finish(backward, c.backward_history, Half::Backward);
  }

  // From a program of operators to one that runs.
  Trace finish(const Trace& trace, TraceHistory& history, Half half) {
    s_.half = half;
    s_.positions = {};
    return each(Stage::Each, trace, history);
  }

  // Claiming may have replaced values, so they are read off the final program.
  void collect() {
    Compiled& c = s_.compiled;
    const Trace& f = c.forward;
    const Arg* outputs = &f.output;
    if (c.has_backward) {
      outputs = &f.output.items()[0].entries()[2].second;
      for (const Arg& list : f.output.items()[1].items())
        for (const Arg& a : list.items()) {
          THUNDER_ASSERT(a.is_value(), "a saved value became a literal");
          c.saved.push_back(a.value());
        }
    }
    for (const Arg& a : outputs->items()) c.flat_outputs.push_back(a.is_value() ? a.value() : Value());
  }

  PipelineState s_;
};

}  // namespace

Compiled compile(const Trace& acquired, const CompileOptions& options, bool with_grad,
                 const distributed::Distribution& distribution) {
  distributed::Distribution d = distribution;
  while (true) {
    Pipeline pipeline(options, d);
    Compiled out = pipeline.compile(acquired, with_grad);
    if (pipeline.too_late().empty()) return out;
    // Fusion may have made one kernel of what needs several parameters, so only the whole pipeline knows.
    d.saved.insert(pipeline.too_late().begin(), pipeline.too_late().end());
  }
}

}  // namespace thunder
