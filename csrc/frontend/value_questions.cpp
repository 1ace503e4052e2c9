#include "frontend/value_questions.h"

#include <algorithm>

#include "core/error.h"
#include "frontend/hooks.h"
#include "frontend/interpreter/interpreter.h"
#include "frontend/outside_state.h"
#include "frontend/value_draws.h"
#include "passes/counted_random.h"
#include "passes/visit.h"

namespace thunder::frontend {
namespace {

// What a call does that must happen once in a run, in its place; null: it may be run ahead.
const char* bound_to_its_place(const Call& call) {
  if (tags_within(call, kRandom)) return "random numbers that the call draws";
  if (tags_within(call, kCollective)) return "a communication with other processes";
  if (tags_within(call, kWrite | kInput)) return "an operator that reads or writes what is outside of the program";
  return nullptr;
}

constexpr const char* kInstead =
    ". Use tensor operations instead (torch.where for a branch), or compute the number outside";

[[noreturn]] void unknown(const std::string& what, const std::string& why) {
  throw Error(ErrorKind::NotImplemented,
              cat("[", what, "] the value of a tensor is needed while the function is compiled, ", why, kInstead));
}

}  // namespace

RealInput ValueQuestions::real_input(size_t i) const {
  const InputSource& s = inputs_[i].source;
  THUNDER_CHECK(!s.partial, NotImplemented, "distributed",
                "the program asks for the value of a tensor that depends on a sharded parameter, of which this process "
                "holds a part",
                kInstead);
  if (s.kind != InputSource::Number) return {inputs_[i].real, s.whole_storage};
  if (!s.integer) return {Ref::steal(PyFloat_FromDouble(s.number->hinted(shapes_))), false};
  const Dim size = s.number->size().substitute([&](SymbolId id) { return Dim(shapes_.hint(id).value()); });
  return {Ref::steal(PyLong_FromLongLong(size.constant())), false};
}

// What leads to the values from the inputs and from what earlier reads computed.
std::vector<const Call*> ValueQuestions::calls_leading_to(const std::vector<Value>& values,
                                                          const std::vector<const Call*>& all,
                                                          const std::string& what) const {
  ValueSet needed, known;
  for (Value input : b_.inputs()) known.set(input, 1);
  size_t missing = 0;
  auto need = [&](Value in) {
    if (needed[in] || known[in] || values_now_.count(in.id())) return;
    needed.set(in, 1);
    ++missing;
  };
  for (Value v : values) need(v);
  std::vector<const Call*> calls;
  for (size_t i = all.size(); i-- > 0 && missing > 0;) {
    size_t made = 0;
    visit_outputs(*all[i], [&](Value out) { made += needed[out] != 0; });
    if (made == 0) continue;
    const bool draws = draws_ahead && drawn_from(*all[i]);
    if (const char* reason = draws ? nullptr : bound_to_its_place(*all[i]))
      unknown(what, cat("and depends on ", reason, " (", all[i]->op->name, user_line(*all[i]), ")"));
    missing -= made;
    const std::vector<const Call*> run =
        draws ? draw_of_type(acquisition_.arena(), all[i]) : std::vector<const Call*>{all[i]};
    for (const Call* c : run) visit_outputs(*c, [&](Value out) { known.set(out, 1); });
    for (size_t k = run.size(); k-- > 0;) {
      visit_outer_inputs(*run[k], need);
      calls.push_back(run[k]);
    }
  }
  if (missing > 0) unknown(what, "in a function whose inputs have no values then");
  return {calls.rbegin(), calls.rend()};
}

void ValueQuestions::find_calls(ValueRead& r, std::vector<Value> wanted, const std::string& what) const {
  std::vector<const Call*> all = b_.outermost_calls();
  if (acquisition_.aliases().has_hidden()) {
    ValueSet read;
    for (Value v : wanted) read.set(v, 1);
    for (const Call* c : all) visit_all_inputs(*c, [&](Value in) { read.set(in, 1); });
    all = open_where_needed(all, read);
  }
  if (draws_ahead) all = open_draws(all);
  auto is_drawn = [&](Device d) { return std::find(r.draws.begin(), r.draws.end(), d) != r.draws.end(); };
  for (bool more = true; more;) {
    r.calls = calls_leading_to(wanted, all, what);
    more = false;
    for (const Call* c : r.calls)
      if (const std::optional<Device> d = drawn_from(*c); d && !is_drawn(*d)) {
        r.draws.push_back(*d);
        more = true;
      }
    for (const Call* c : all)
      if (!r.draws.empty() && changes_generator(*c))
        unknown(what, cat("and depends on random numbers behind a call that sets or reads a generator's state (",
                          c->op->name, user_line(*c), ")"));
    if (!more) return;
    // A generator's numbers come in the order of the program: with one of them, all up to here.
    for (const Call* c : all) {
      if (!tags_within(*c, kRandom)) continue;
      visit_outputs(*c, [&](Value out) {
        if (out.type().is_tensor() && is_drawn(out.tensor().device)) wanted.push_back(out);
      });
    }
  }
}

ValueQuestions::ValueQuestions(Acquisition& acquisition, Inputs& inputs, Tensors& tensors)
    : acquisition_(acquisition),
      b_(acquisition.builder()),
      shapes_(acquisition.shapes()),
      inputs_(inputs),
      tensors_(tensors) {
  if (acquisition.owns_program()) acquisition.answers = this;
}

// An acquisition that comes to nothing has drawn nothing.
ValueQuestions::~ValueQuestions() {
  for (size_t i = reads_.size(); i-- > 0 && !keeps_drawn_;)
    if (reads_[i].undo) reads_[i].undo();
}

// Keeps all results: later reads begin with them.
void ValueQuestions::run_now(const std::vector<const Call*>& calls) {
  if (calls.empty()) return;
  Trace t;
  t.name = "value";
  t.arena = acquisition_.arena();
  t.calls = calls;
  ValueSet seen;
  ArgList results;
  std::vector<RealInput> inputs;
  std::unordered_map<ValueId, size_t> index;
  for (size_t i = 0; i < b_.inputs().size(); ++i) index[b_.inputs()[i].id()] = i;
  for (const Call* c : calls) {
    visit_outer_inputs(*c, [&](Value in) {
      if (seen[in]) return;
      auto now = values_now_.find(in.id());
      auto input = index.find(in.id());
      seen.set(in, 1);
      t.inputs.push_back(in);
      inputs.push_back(now != values_now_.end() ? RealInput{now->second, false} : real_input(input->second));
    });
    visit_outputs(*c, [&](Value out) {
      if (seen[out]) return;
      seen.set(out, 1);
      results.emplace_back(out);
    });
  }
  t.output = Arg::tuple(results);
  const ShapeEnv::Scope without_answers(shapes_);  // what runs is not to run more
  const interpreter::NotInterpreting scope;
  const std::vector<Ref> values = hooks().run(t, inputs);
  for (size_t i = 0; i < values.size(); ++i) values_now_[results[i].value().id()] = values[i];
}

// Of an input, or of what reads computed.
const Ref& ValueQuestions::value_now(Value v) {
  auto now = values_now_.find(v.id());
  for (size_t i = 0; now == values_now_.end() && i < b_.inputs().size(); ++i)
    if (b_.inputs()[i] == v) now = values_now_.emplace(v.id(), hooks().run_input(real_input(i))).first;
  return now->second;
}

// Runs the calls that lead to the values.
ValueRead ValueQuestions::new_read(const std::vector<Value>& wanted, const std::string& what) {
  ValueRead r;
  find_calls(r, wanted, what);
  if (!r.draws.empty()) r.undo = hooks().remember_generators(r.draws);
  r.dim_guards = shapes_.guards().size();
  r.number_guards = shapes_.number_guards().size();
  run_now(r.calls);
  r.what = what;
  r.where = acquisition_.location();
  r.place = cat(r.where, " #", places_[r.where]++);
  return r;
}

ValueRead& ValueQuestions::read_value(Value v, const std::string& what) {
  for (ValueRead& r : reads_)
    if (r.value == v) return r;
  if (!acquisition_.owns_program())
    unknown(what, "by a rule of an executor or a meta function, and is known only when the program runs");
  ValueRead r = new_read({v}, what);
  r.value = v;
  r.answer = value_now(v);
  reads_.push_back(std::move(r));
  return reads_.back();
}

Ref ValueQuestions::in_this_call(const Arg& a) {
  if (a.kind() == Arg::Kind::Int)
    return to_python(a.dim().substitute([&](SymbolId id) { return Dim(shapes_.hint(id).value()); }), {});
  if (!a.is_sequence()) return to_python(a, [&](Value v) { return value_now(v); });
  const auto n = static_cast<Py_ssize_t>(a.items().size());
  Ref out = Ref::steal(PyList_New(n));
  for (Py_ssize_t i = 0; i < n; ++i)
    PyList_SET_ITEM(out.get(), i, in_this_call(a.items()[static_cast<size_t>(i)]).release());
  return a.kind() == Arg::Kind::Tuple ? Ref::steal(PyList_AsTuple(out.get())) : out;
}

Value ValueQuestions::read_made(const Arg& of, const std::vector<Ref>& generators, const std::string& what,
                                const std::function<std::optional<std::pair<const Call*, Ref>>(const Now&)>& make) {
  return acquisition_.located([&] {
    std::vector<Value> wanted;
    visit_values(of, [&](Value v) { wanted.push_back(v); });
    ValueRead r = new_read(wanted, what);
    r.undo = [of_torch = std::move(r.undo), of_python = remember_random(generators)] {
      if (of_torch) of_torch();
      of_python();
    };
    std::optional<std::pair<const Call*, Ref>> made;
    try {
      made = make([this](const Arg& a) { return in_this_call(a); });
    } catch (...) {
      r.undo();
      throw;
    }
    if (!made) {
      r.undo();
      // No later call finds them in a read.
      for (const Call* c : r.calls) visit_outputs(*c, [&](Value v) { values_now_.erase(v.id()); });
      return Value();
    }
    r.calls.push_back(made->first);
    r.generators = generators;
    r.value = made->first->output.value();
    r.answer = made->second;
    r.exact = false;
    values_now_[r.value.id()] = r.answer;
    reads_.push_back(std::move(r));
    return reads_.back().value;
  });
}

Ref ValueQuestions::number_of(Value tensor) {
  return acquisition_.located([&] {
    const Arg number = resolve(b_("torch.item", tensor).value(), "draw");
    return number.is_value() || (number.kind() == Arg::Kind::Int && !number.dim().is_constant())
               ? make_number(number)
               : to_python(number, {});
  });
}

Ref ValueQuestions::read(PyObject* tensor, const std::string& what) {
  return acquisition_.located([&] {
    ValueRead& r = read_value(tensors_.value_of(tensor), what);
    return r.answer;
  });
}

// Whether an int stands in the program as a symbol: it does when it is known to differ from call to call.  0, 1 and
// negative numbers never do, as among the arguments.
bool ValueQuestions::becomes_symbol(const ValueRead& r, int64_t n) const {
  return n >= 2 && int_varies && int_varies(r.place, n);
}

Arg ValueQuestions::resolve(Value number, const std::string& what) {
  if (auto it = resolved_.find(number.id()); it != resolved_.end()) return it->second;
  ValueRead& r = read_value(number, what);
  Arg a = to_arg(r.answer.get(), {});
  if (a.kind() == Arg::Kind::Int && becomes_symbol(r, a.dim().constant())) a = as_symbol(r);
  else if (a.kind() == Arg::Kind::Float && int_varies) a = as_number(r);
  return resolved_.emplace(number.id(), a).first->second;
}

Ref ValueQuestions::read_counter(PyObject* container, PyObject* key, PyObject* now) {
  const std::pair<PyObject*, std::string> place(container, name_of_key(key).value());
  if (auto it = counters_.find(place); it != counters_.end()) return make_number(it->second);
  const bool integer = PyLong_Check(now);
  ValueRead& r = read_value(inputs_.add_entry({Ref::borrow(container), Ref::borrow(key)}, now), place.second);
  return make_number(counters_.emplace(place, integer ? as_symbol(r) : as_number(r)).first->second);
}

// The int that was read, as a symbol.
Arg ValueQuestions::as_symbol(ValueRead& r) {
  const Dim size = inputs_.add_size(PyLong_AsLongLong(r.answer.get()));
  r.exact = false;
  r.symbol = size.symbols().at(0);
  r.least = 2;
  return Arg(size);
}

// The float that was read, as a number of the call.
Arg ValueQuestions::as_number(ValueRead& r) {
  NumberPtr f = shapes_.make_number(PyFloat_AS_DOUBLE(r.answer.get()));
  r.exact = false;
  r.input = f->index();
  return Arg(inputs_.add_number({NumberKind::Float, std::nullopt, f}, f));
}

// The program has a symbol already, which the call that finds the length binds.
bool ValueQuestions::find(SymbolId s, Need need) {
  Value number = acquisition_.arena()->symbol_value(s);
  if (!number) return false;
  // A length that random numbers decide may be another one in each call.
  const bool draws = std::exchange(draws_ahead, draws_ahead && need == Need::Necessary);
  bool known = true;
  try {
    ValueRead& r = read_value(number, "size");
    known = !r.exact || !r.symbol;
    if (known) {
      r.exact = false;
      r.symbol = s;
      shapes_.set_hint(s, PyLong_AsLongLong(r.answer.get()));
    }
  } catch (const Error&) {
    known = false;
  }
  draws_ahead = draws;
  return known;
}

bool ValueQuestions::find_all(const Dim& size) {
  const ShapeEnv::Scope with_answers(shapes_, this);
  return shapes_.knows(size);
}

// A float that was read has to be the very same in later calls.
bool ValueQuestions::hold_exactly(const NumberExpr& number) {
  for (ValueRead& r : reads_)
    if (r.input && number.op() == NumberExpr::Op::Input && number.index() == *r.input) return r.exact = true;
  return false;
}

// What the reads take from the program's inputs.
void ValueQuestions::add_reads(Acquired& a) const {
  a.reads = reads_;
  ValueSet used;
  for (const ValueRead& r : reads_) {
    used.set(r.value, 1);
    for (const Call* c : r.calls) visit_all_inputs(*c, [&](Value v) { used.set(v, 1); });
  }
  for (size_t i = 0; i < b_.inputs().size(); ++i)
    if (used[b_.inputs()[i]]) a.read_inputs.emplace_back(b_.inputs()[i], inputs_[i].source);
}

namespace {

// Values that can be handed over and have memory of their own.
ValueSet computed_by(const std::vector<ValueRead>& reads) {
  std::vector<const Call*> calls;
  for (const ValueRead& r : reads) calls.insert(calls.end(), r.calls.begin(), r.calls.end());
  const Aliases aliases(calls);
  ValueSet out;
  for (const Call* c : calls)
    visit_outputs(*c, [&](Value v) {
      if (can_be_handed_over(v) && aliases.root(v) == v) out.set(v, 1);
    });
  return out;
}

}  // namespace

void ValueQuestions::take_from_reads(Acquired& a) const {
  const ValueSet computed = computed_by(a.reads);
  ValueSet drawn;
  for (const ValueRead& r : a.reads)
    for (const Call* c : r.calls)
      if (drawn_from(*c)) visit_outputs(*c, [&](Value v) { drawn.set(v, 1); });
  const bool any_drawn = std::any_of(reads_.begin(), reads_.end(), [](const ValueRead& r) { return bool(r.undo); });
  if (any_drawn) a.computation.calls = open_draws(a.computation.calls, &drawn);
  LiveValues live;
  visit_values(a.computation.output, [&](Value v) { live.add(v); });
  std::vector<const Call*> kept;
  std::vector<Value> taken;
  for (size_t i = a.computation.calls.size(); i-- > 0;) {
    const Call* c = a.computation.calls[i];
    bool was_drawn = false;
    visit_outputs(*c, [&](Value v) { was_drawn = was_drawn || drawn[v]; });
    bool needed = live.need_size_from(*c) || (!was_drawn && bound_to_its_place(*c));
    std::vector<Value> given;
    visit_outputs(*c, [&](Value v) {
      if (live[v] && (computed[v] || drawn[v])) given.push_back(v);
      else needed = needed || live[v];
    });
    if (needed) {
      kept.push_back(c);
      visit_all_inputs(*c, [&](Value v) { live.add(v); });
    } else {
      taken.insert(taken.end(), given.begin(), given.end());
    }
  }
  if (taken.empty() && !any_drawn) return;
  a.computation.calls.assign(kept.rbegin(), kept.rend());
  // Tensors come before numbers.
  const auto first = std::find_if(a.sources.begin(), a.sources.end(),
                                  [](const InputSource& s) { return s.kind == InputSource::Number; });
  const auto at = first - a.sources.begin();
  std::vector<InputSource> sources;
  for (Value v : taken) {
    InputSource s;
    s.kind = InputSource::Read;
    s.tensor = values_now_.at(v.id());
    s.value = v;
    sources.push_back(std::move(s));
  }
  a.sources.insert(first, sources.begin(), sources.end());
  a.computation.inputs.insert(a.computation.inputs.begin() + at, taken.begin(), taken.end());
  if (!a.trivial_epilogue) a.epilogue.inputs.insert(a.epilogue.inputs.begin() + at, taken.begin(), taken.end());
}

}  // namespace thunder::frontend
