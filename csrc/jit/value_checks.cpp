#include "jit/value_checks.h"

#include <ATen/core/Tensor.h>

#include <cstring>
#include <sstream>

#include "core/error.h"
#include "frontend/outside_state.h"
#include "jit/evaluate.h"
#include "jit/raised.h"
#include "passes/visit.h"
#include "python/gil.h"
#include "python/ref.h"
#include "runtime/generators.h"

namespace thunder {

using frontend::ValueRead;

// ---- ValueStep ------------------------------------------------------------------------------------------------------

ValueStep::ValueStep(std::shared_ptr<Arena> arena, const ValueRead& read) {
  trace_.name = "value";
  trace_.arena = std::move(arena);
  trace_.calls = read.calls;
  draws_ = read.draws;
  generators_ = read.generators;
  ValueSet seen;
  auto take = [&](Value v) {
    if (seen[v]) return;
    seen.set(v, 1);
    trace_.inputs.push_back(v);
  };
  for (const Call* c : read.calls) {
    visit_outer_inputs(*c, take);
    visit_outputs(*c, [&](Value v) { seen.set(v, 1); });
  }
  take(read.value);  // an input as it is
  results_.push_back(read.value);
}

size_t ValueStep::hash(const ValueRead& read) {
  size_t h = read.calls.size();
  for (const Call* c : read.calls) h = h * 1000003 ^ std::hash<const void*>()(c->op);
  return h;
}

namespace {

// Compares the calls of two acquisitions; values correspond by where they first stand.
class SameCalls {
 public:
  explicit SameCalls(std::unordered_map<ValueId, Value>& ours) : ours_(ours) {}

  bool operator()(const std::vector<const Call*>& theirs, const std::vector<const Call*>& ours) {
    if (theirs.size() != ours.size()) return false;
    for (size_t i = 0; i < ours.size(); ++i)
      if (!same(*theirs[i], *ours[i])) return false;
    return true;
  }

  bool value(Value theirs, Value ours) {
    auto [it, fresh] = ours_.try_emplace(theirs.id(), ours);
    if (!fresh) return it->second == ours;
    return theirs_.try_emplace(ours.id(), theirs.id()).second && theirs.type().same(ours.type());
  }

 private:
  bool same(const Call& theirs, const Call& ours) {
    if (theirs.op != ours.op || theirs.args.size() != ours.args.size()) return false;
    for (size_t i = 0; i < ours.args.size(); ++i)
      if (!argument(theirs.args[i], ours.args[i])) return false;
    std::vector<Value> a, b;  // sizes that they and their bodies read, too
    visit_outer_inputs(theirs, [&](Value v) { a.push_back(v); });
    visit_outer_inputs(ours, [&](Value v) { b.push_back(v); });
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < b.size(); ++i)
      if (!value(a[i], b[i])) return false;
    return argument(theirs.output, ours.output);
  }

  bool argument(const Arg& theirs, const Arg& ours) {
    if (theirs.kind() != ours.kind()) return false;
    if (ours.is_value()) return value(theirs.value(), ours.value());
    if (ours.is_sequence()) {
      const ArgList &a = theirs.items(), &b = ours.items();
      if (a.size() != b.size()) return false;
      for (size_t i = 0; i < b.size(); ++i)
        if (!argument(a[i], b[i])) return false;
      return true;
    }
    if (ours.kind() == Arg::Kind::Slice)
      return argument(theirs.slice().start, ours.slice().start) && argument(theirs.slice().stop, ours.slice().stop) &&
             argument(theirs.slice().step, ours.slice().step);
    return theirs.same(ours);
  }

  std::unordered_map<ValueId, Value>& ours_;
  std::unordered_map<ValueId, ValueId> theirs_;
};

}  // namespace

bool ValueStep::is_for(const ValueRead& read, std::unordered_map<ValueId, Value>& ours) const {
  ours.clear();
  SameCalls same(ours);
  return same(read.calls, trace_.calls) && same.value(read.value, results_[0]);
}

size_t ValueStep::keep(Value v) {
  for (size_t i = 0; i < results_.size(); ++i)
    if (results_[i] == v) return i;
  results_.push_back(v);
  program_ = nullptr;
  return results_.size() - 1;
}

std::vector<c10::IValue> ValueStep::run(std::vector<c10::IValue> inputs) {
  if (!program_) {
    trace_.output = Arg::tuple(ArgList(results_.begin(), results_.end()));
    program_ = plain_program(trace_);
  }
  std::shared_ptr<Program> program = program_;  // another thread may add results meanwhile
  WithoutGil released(!program->needs_python());
  BelowAutograd below;
  return program->run(std::move(inputs));
}

void ValueAnswers::keep_drawn(size_t n) {
  for (; drawn.size() > n; drawn.pop_back()) {
    drawn.back()->draw_again();
    drawn.back()->step = nullptr;  // it did not run
  }
}

// ---- ValueChecks ----------------------------------------------------------------------------------------------------

c10::IValue on_host(const c10::IValue& value) {
  if (!value.isTensor()) return value;
  BelowAutograd below;
  return value.toTensor().to(at::kCPU).contiguous().resolve_conj().resolve_neg();
}

namespace {

bool same_value(const c10::IValue& a, const c10::IValue& b) {
  if (a.isTensor() != b.isTensor()) return false;
  if (a.isDouble() && b.isDouble()) {
    const double x = a.toDouble(), y = b.toDouble();
    return std::memcmp(&x, &y, sizeof x) == 0;
  }
  if (!a.isTensor()) return a == b;
  const at::Tensor &x = a.toTensor(), &y = b.toTensor();
  return x.scalar_type() == y.scalar_type() && x.sizes() == y.sizes() &&
         (x.numel() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0);
}

// A step runs once for the same inputs, whichever entry asks.  `drawn`: how many of the steps that drew are the entry's.
const ValueAnswers::Ran& run_once(ValueStep& step, std::vector<c10::IValue> inputs, size_t results,
                                  ValueAnswers& answers, size_t& drawn) {
  auto same = [](const c10::IValue& a, const c10::IValue& b) {
    return a.isTensor() && b.isTensor() ? a.toTensor().is_same(b.toTensor()) : same_value(a, b);
  };
  const bool draws = !step.draws().empty() || !step.generators().empty();
  for (const ValueAnswers::Ran& r : answers.ran)
    if (r.step == &step && (!r.error.empty() || r.results.size() >= results) &&
        std::equal(r.inputs.begin(), r.inputs.end(), inputs.begin(), inputs.end(), same)) {
      if (draws && (drawn >= answers.drawn.size() || answers.drawn[drawn] != &r)) continue;
      drawn += draws;
      return r;
    }
  ValueAnswers::Ran r{&step, inputs, {}, {}, {}};
  if (draws) {
    answers.keep_drawn(drawn++);
    r.draw_again = [of_torch = remember_generators(step.draws()),
                    of_python = frontend::remember_random(step.generators())]() mutable {
      of_torch();
      of_python();
    };
  }
  try {
    r.results = step.run(std::move(inputs));
    r.answer = on_host(r.results[0]);
  } catch (...) {
    Raised raised = current_error();
    if (!raised.is(PyExc_Exception)) {  // Ctrl-C
      if (r.draw_again) r.draw_again();
      raised.raise();
      throw PythonError();
    }
    r.error = cat(reinterpret_cast<PyTypeObject*>(raised.type.get())->tp_name, ": ", raised.text());
  }
  answers.ran.push_back(std::move(r));
  if (draws) answers.drawn.push_back(&answers.ran.back());
  return answers.ran.back();
}

bool guards_hold(const std::vector<DimGuard>& dims, const std::vector<NumberGuard>& numbers,
                 const NumberExpr::Values& now, std::string* why) {
  auto fails = [&](const auto& g) {
    if (why) *why = cat("the guard ", g.str(), g.where.empty() ? "" : ", asked at ", g.where, " failed");
    return false;
  };
  try {
    for (const DimGuard& g : dims)
      if (!g.holds(now.symbol)) return fails(g);
    for (const NumberGuard& g : numbers)
      if (!g.holds(now)) return fails(g);
  } catch (const Error& e) {  // a division by zero
    if (why) *why = cat("the guard ", e.what(), " failed");
    return false;
  }
  return true;
}

}  // namespace

bool ValueChecks::hold(const Inputs& inputs, const NumberExpr::Values& numbers, ValueAnswers& answers,
                       std::string* why) const {
  answers.steps.clear();
  answers.floats.clear();
  answers.integers.clear();
  size_t drawn = 0;
  for (const Check& c : checks) {
    if (!guards_hold(c.dims, c.numbers, numbers, why)) return false;
    std::vector<c10::IValue> given;
    for (const Input& i : c.inputs)
      given.push_back(i.kept ? answers.steps[i.index]->results[i.result] : inputs(i.index));
    const ValueAnswers::Ran& ran = run_once(*c.step, std::move(given), c.results, answers, drawn);
    answers.steps.push_back(&ran);
    if (!ran.error.empty()) {
      if (why) *why = cat("computing ", c.text, " raised ", ran.error);
      return false;
    }
    if (c.exact && !same_value(ran.answer, c.answer)) {
      if (why) *why = cat("the value ", c.text, " failed (now ", describe(ran.answer), ")");
      return false;
    }
    const bool number = !c.is_float || ran.answer.isDouble();
    const bool fits = number && (!c.symbol || (ran.answer.isInt() && ran.answer.toInt() >= c.least));
    if (c.symbol && fits) answers.integers[*c.symbol] = ran.answer.toInt();
    if (!fits) {
      if (why) *why = cat("the value ", c.text, " failed (now ", describe(ran.answer), ")");
      return false;
    }
    if (c.is_float) answers.floats.push_back(ran.answer.toDouble());
  }
  if (!guards_hold(last_dims, last_numbers, numbers, why)) return false;
  answers.keep_drawn(drawn);  // other entries may have asked for more
  return true;
}

std::string describe(const c10::IValue& answer) {
  if (!answer.isTensor()) {
    std::ostringstream out;
    out << answer;
    return out.str();
  }
  const at::Tensor& t = answer.toTensor();
  if (t.numel() != 1) return cat("a tensor of ", t.numel(), " elements");
  std::ostringstream out;
  out << c10::IValue(t.item());
  return out.str();
}

std::vector<std::string> ValueChecks::text() const {
  std::vector<std::string> out;
  auto add = [&](const std::vector<DimGuard>& dims, const std::vector<NumberGuard>& numbers) {
    for (const DimGuard& g : dims) out.push_back(g.where.empty() ? g.str() : cat(g.str(), ", asked at ", g.where));
    for (const NumberGuard& g : numbers)
      out.push_back(g.where.empty() ? g.str() : cat(g.str(), ", asked at ", g.where));
  };
  for (const Check& c : checks) {
    add(c.dims, c.numbers);
    out.push_back(c.text);
  }
  add(last_dims, last_numbers);
  return out;
}

std::shared_ptr<ValueStep> SharedSteps::step_for(const frontend::ValueRead& read, const std::shared_ptr<Arena>& arena,
                                                 std::unordered_map<ValueId, Value>& ours) {
  const size_t hash = ValueStep::hash(read);
  auto [first, last] = steps_.equal_range(hash);
  for (auto it = first; it != last;) {
    std::shared_ptr<ValueStep> step = it->second.lock();
    if (!step) {
      it = steps_.erase(it);
      continue;
    }
    if (step->is_for(read, ours)) return step;
    ++it;
  }
  auto step = std::make_shared<ValueStep>(arena, read);
  step->is_for(read, ours);
  steps_.emplace(hash, step);
  return step;
}

}  // namespace thunder
