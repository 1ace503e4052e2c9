// What a call finds in the cache.
//
// A CacheEntry owns what one compilation made: the guards on the environment, on values and on numbers, the programs, where their
// inputs come from, and the effects on Python objects.
#pragma once

#include "core/error.h"
#include "frontend/hooks.h"
#include "frontend/number_places.h"
#include "jit/call_key.h"
#include "jit/distribution.h"
#include "jit/evaluate.h"
#include "jit/fixed_tensors.h"
#include "runtime/autograd.h"
#include "runtime/torch_py.h"
#include "runtime/watchers.h"

namespace thunder {

// Where an input of an entry's comes from.
struct InputOfEntry {
  frontend::InputSource::Kind kind;
  size_t index;                // among the arguments, captured tensors, numbers, steps (Read) or counters (Entry)
  bool whole_storage = false;  // the memory of that tensor, as a 1-d tensor
  size_t result = 0;           // of the step
  bool leaf = false;           // must be one
  bool becomes_leaf = false;   // the run switches its gradient on
};

/// The guards, programs and effects that stand for calls with one key.
struct CacheEntry {
  CallFacts facts;
  Fingerprint fingerprint;
  std::string key;
  std::vector<Ref> objects;  // that the key names by identity: their addresses stay theirs
  frontend::EnvironmentGuard environment;
  CapturedTensors state;  // as they were when `captured` was last found equal
  frontend::CacheLines lines;
  Fingerprint captured;  // of the arguments and the captured tensors together, if there are any
  using Source = InputOfEntry;
  // A number that the program takes: an int or a float of the call, or computed from them.
  struct Number {
    enum Kind { Int, Float, Computed } kind;
    size_t index = 0;
    NumberPtr expr;
    bool integer = false;
  };
  std::vector<Number> numbers;
  std::vector<frontend::NumberPlace> counters;
  // The key of such calls without their numbers, and those; null where none are told apart.
  struct Kind {
    Fingerprint fingerprint;
    std::string key;
    Numbers numbers;
    std::string not_symbolic;  // why what varied is no symbol, if it is none
  };
  std::unique_ptr<Kind> kind;
  ValueChecks checks;
  std::vector<Source> check_inputs;  // what the checks begin with
  std::unique_ptr<Symbols> symbols;  // null: the program is for constant numbers
  std::vector<Source> sources;
  FixedInputs fixed;
  bool asks_for_leaves = false;  // some source must be a leaf, or becomes one
  bool by_place = false;         // where the tensors lie in their memory matters
  uint64_t last_use = 0;         // in calls of the function
  bool used_again = false;       // in a call that it was not compiled for
  // Why calls run the function itself.
  struct Eager {
    std::string why;
    bool warns = false;       // the user is told
    bool for_tensor = false;  // a tensor is one that no program takes
  };
  std::optional<Eager> eager;  // nothing: calls run the programs
  std::shared_ptr<const Programs> programs;
  std::unique_ptr<frontend::OutputSpec> output;  // the user's result; with effects, a pair of it and their values
  std::vector<frontend::Effect> effects;
  bool draws = false;           // random numbers, on the CPU
  std::vector<Ref> generators;  // that random calls are given
  bool communicates = false;    // with other processes
  // Of distributed parameters: the plan, and what the program does with gradients.
  std::shared_ptr<distributed::CommunicationPlan> plan;
  distributed::Synchronization synchronization = distributed::Synchronization::Reduce;
  // Whether a backward has recorded maxima of float8 tensors by now; null where no scale depends on them.
  std::shared_ptr<std::atomic<bool>> float8_recorded;
  bool float8_delayed = false;  // the value of *float8_recorded for which this program was compiled
  bool repeatable = false;      // the user's function may stand for the program, if that raises

  // Threads that communicate wait for each other within a run.
  bool runs_locked() const { return !effects.empty() && !communicates; }

  // An entry for one call keeps nothing of the environment alive: a weak reference to it may be all that others hold.
  void let_go() {
    environment = frontend::EnvironmentGuard();
    effects.clear();
    output.reset();
    objects.clear();
    counters.clear();
  }

  // The numbers of the call, and those that its checks read.
  NumberExpr::Values values(const CallKey& key) const {
    return {[&key](size_t i) {
              const size_t n = key.numbers.floats.size();
              return i < n ? key.numbers.floats[i] : key.answers->floats.at(i - n);
            },
            [this, &key](SymbolId s) {
              if (key.answers)
                if (auto it = key.answers->integers.find(s); it != key.answers->integers.end()) return Dim(it->second);
              std::optional<size_t> i = symbols ? symbols->index(s) : std::nullopt;
              THUNDER_ASSERT(i, "a guard asks for a symbol that is no size of the call");
              return Dim(key.numbers.ints[*i]);
            }};
  }

  // None for what is no number any more, or is too large.
  static c10::IValue counter(const frontend::NumberPlace& place) {
    PyObject* now = frontend::value_at(place.container.get(), place.key.get());
    if (!frontend::is_plain_number(now)) return {};
    if (PyFloat_Check(now)) return PyFloat_AS_DOUBLE(now);
    int overflow = 0;
    const int64_t n = PyLong_AsLongLongAndOverflow(now, &overflow);
    return overflow ? c10::IValue() : c10::IValue(n);
  }

  int64_t integer(const Number& n, const CallKey& key) const {
    return n.expr->size().substitute(values(key).symbol).constant();
  }

  // Whether the integers that it computes have 64 bits in this call, and the floats are real; Python's have no bounds.
  bool numbers_fit(const CallKey& key, std::string* why) const {
    try {
      for (const Number& n : numbers) {
        if (n.kind != Number::Computed) continue;
        if (n.integer) integer(n, key);
        else n.expr->evaluate(values(key));
      }
    } catch (const Error& e) {
      if (why) *why = e.what();
      return false;
    }
    return true;
  }

  c10::IValue input(const Source& s, const CallKey& key) const {
    using frontend::InputSource;
    if (s.kind == InputSource::Entry) return counter(counters[s.index]);
    if (s.kind == InputSource::Read) return key.answers->steps.at(s.index)->results.at(s.result);
    if (s.kind == InputSource::Number) {
      const Number& n = numbers[s.index];
      if (n.kind == Number::Int) return key.numbers.ints[n.index];
      if (n.kind == Number::Float) return key.numbers.floats[n.index];
      if (n.integer) return integer(n, key);
      return n.expr->evaluate(values(key));
    }
    PyObject* tensor = s.kind == InputSource::Captured ? environment.tensors()[s.index] : key.flat.tensors[s.index];
    return s.whole_storage ? program_input(tensor, true) : c10::IValue(torch_py::tensor(tensor));
  }

  bool asks() const { return !checks.checks.empty(); }
  bool values_hold(const CallKey& key, std::string* why) const {
    if (!key.answers) key.answers = std::make_unique<ValueAnswers>();
    return checks.hold([&](size_t i) { return input(check_inputs[i], key); }, values(key), *key.answers, why);
  }

  // With symbols the sizes of arguments are not in it; what is in the key is.
  Fingerprint fingerprint_all(const frontend::Flattened& flat) const {
    Fingerprint f;
    bool repeated = false;
    for (PyObject* t : flat.tensors)
      if (!symbols || !f.add_kind(torch_py::tensor(t), &repeated)) f.add(torch_py::tensor(t));
    for (PyObject* t : environment.tensors()) f.add(torch_py::tensor(t));
    if (!by_place) return f;
    for (const auto* list : {&flat.tensors, &environment.tensors()})
      for (PyObject* t : *list) {
        auto [offset, count] = frontend::hooks().place_in_storage(t);
        f.add_number(static_cast<uint64_t>(offset));
        f.add_number(static_cast<uint64_t>(count));
      }
    return f;
  }

  bool shares_memory(const frontend::Flattened& flat) const {
    return std::any_of(flat.tensors.begin(), flat.tensors.end(),
                       [&](PyObject* t) { return state.shares_memory(torch_py::tensor(t)); });
  }
  void remember() {
    state = CapturedTensors(environment.tensors());
    lines.clear();
    environment.add_lines(lines);
    state.add_lines([&](const void* p, size_t bytes) { lines.add(p, bytes); });
    lines.seal();
  }

  /// It serves calls with this key.
  void be_for(const CallKey& of) {
    facts = of.facts();
    fingerprint = of.fingerprint;
    key = of.flat.key;
    for (PyObject* o : of.flat.objects) objects.push_back(Ref::borrow(o));
  }
  /// It has no program.
  void be_eager(const CallKey& of, const NeedsEager& reason);

  /// Whether tensors of the call may have forward-mode tangents, within a dual level.  A tensor that autograd does not
  /// know has no tangent.
  bool may_have_tangents(const CallKey& of) const { return of.knows_autograd || !environment.tensors().empty(); }
  bool any_other_kind() const {
    return std::any_of(environment.tensors().begin(), environment.tensors().end(), is_other_kind_of_tensor);
  }

  PyObject* tensor_of(const Source& s, const frontend::Flattened& flat) const {
    return s.kind == frontend::InputSource::Captured ? environment.tensors()[s.index] : flat.tensors[s.index];
  }
  bool leaves_hold(const frontend::Flattened& flat) const {
    return std::all_of(sources.begin(), sources.end(),
                       [&](const Source& s) { return !s.leaf || torch_py::tensor(tensor_of(s, flat)).is_leaf(); });
  }

  bool fixed_hold(const frontend::Flattened& flat, std::string* why) {
    if (fixed.empty()) return true;
    return fixed.hold([&](size_t i) -> const at::Tensor& { return torch_py::tensor(tensor_of(sources[i], flat)); },
                      why);
  }

  bool guards_hold(const frontend::Flattened& flat, std::string* why) {
    lines.prefetch();
    if (plan && plan->mode() != synchronization) {
      if (why) *why = "gradients are synchronised otherwise (no_sync)";
      return false;
    }
    if (float8_recorded && *float8_recorded != float8_delayed) {
      if (why) *why = "scales of float8 tensors follow from what backwards have recorded meanwhile";
      return false;
    }
    if (!environment.check(why)) return false;
    if (programs && !std::all_of(programs->placements.begin(), programs->placements.end(),
                                 [](const auto& p) { return !p || p->plan || p->holds(); })) {
      if (why) *why = "a DTensor that the function captured has other memory";
      return false;
    }
    if (asks_for_leaves && !leaves_hold(flat)) {
      if (why) *why = "a tensor through which torch.autograd.grad goes was computed from others";
      return false;
    }
    // Eager is right whatever the captured tensors are.  A refusal because of a tensor that no program takes holds only
    // while there is such a tensor.
    if (eager) return !eager->for_tensor || any_other_kind();
    if (environment.tensors().empty() && !by_place) return true;
    if (!by_place && state.unchanged(environment.tensors()) && !shares_memory(flat)) return fixed_hold(flat, why);
    if (!any_other_kind() && fingerprint_all(flat) == captured) {
      remember();
      return fixed_hold(flat, why);
    }
    if (why) *why = "a parameter, buffer or captured tensor has other metadata";
    return false;
  }
};

inline const CallKey& CallKey::of(const CacheEntry& e) const { return e.symbols && whole_ ? *whole_ : *this; }

}  // namespace thunder
