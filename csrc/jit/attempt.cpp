// One attempt to acquire a program.
#include <algorithm>

#include "core/error.h"
#include "jit/acquirer.h"
#include "jit/distribution.h"
#include "jit/python_rules.h"
#include "jit/raised.h"
#include "jit/tracing.h"
#include "runtime/torch_py.h"

namespace thunder {

using frontend::Tracer;

namespace {

// Whether the program reads a number of which it need not know the value.
bool reads_varying(const Tracer& tracer) {
  const auto& reads = tracer.questions().reads();
  return std::any_of(reads.begin(), reads.end(), [](const frontend::ValueRead& r) { return !r.exact; });
}

// Why no program can stand for the function, as the program said while it was traced.
NeedsEager said_by(const Tracer& tracer) { return {tracer.eager.why, tracer.eager.tensor, tracer.eager.warns}; }

// The user's result and the values that the program leaves outside.
Ref with_effects(const Ref& result, const std::vector<frontend::Effect>& effects) {
  Ref values = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(effects.size())));
  for (size_t i = 0; i < effects.size(); ++i)
    PyTuple_SET_ITEM(values.get(), static_cast<Py_ssize_t>(i),
                     Py_NewRef(effects[i].after ? effects[i].after.get() : Py_None));
  return Ref::steal(PyTuple_Pack(2, result.get(), values.get()));
}

}  // namespace

// Whether the function, if it raises, is acquired in no other way, so that a refusal is the last word.
bool Acquirer::is_last(Tracer& tracer) const {
  return !after_trace(tracer) && !after_numbers(reads_varying(tracer), "");
}

std::unique_ptr<Tracer> Acquirer::make_tracer() const {
  auto tracer = std::make_unique<Tracer>(way_.shared, way_.begin);
  tracer->shapes().asks = way_.lengths_ask;
  tracer->seems_compiled = way_.seems_compiled;
  // With "same input" no call asks again.
  tracer->questions().draws_ahead = may_vary();
  if (may_vary()) tracer->draws().calls = &learned_.drawing_calls();
  if (way_.numbers.reads_vary)
    tracer->questions().int_varies = [this](const std::string& place, int64_t now) {
      return learned_.varies(place, now);
    };
  return tracer;
}

std::variant<AcquiredProgram, Again, NeedsEager> Acquirer::attempt() {
  AcquiredProgram out{way_.entry, *way_.key, make_tracer(), {}};
  try {
    if (std::optional<Again> reason = acquire_once(out)) return std::move(*reason);
    check_leaves(out.acquired);
    if (std::string why = part_that_leaves(out.acquired); !why.empty()) return NeedsEager{std::move(why), {}, true};
  } catch (const NeedsEager& reason) {
    return reason;
  }
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - way_.start).count();
  if (keeping_.once.empty()) keeping_.once = out.entry->output->once();
  // With "same input" no call asks again.
  if (may_vary()) out.tracer->questions().take_from_reads(out.acquired);
  return out;
}

// Nothing: it was a good one.
std::optional<Again> Acquirer::acquire_once(AcquiredProgram& out) {
  Tracer& tracer = *out.tracer;
  try {
    std::variant<frontend::Acquired, Again> traced = trace(tracer);
    if (auto* reason = std::get_if<Again>(&traced)) return std::move(*reason);
    out.acquired = std::get<frontend::Acquired>(std::move(traced));
    ShapeEnv::Scope scope(tracer.shapes());
    way_.read_varies = reads_varying(tracer);
    if (const void* shared = tracer.tensors().shared_memory_written()) return again::SharedMemory{shared};
    // What cannot be acquired again has the guards alone.
    Symbols* symbols = out.entry->symbols.get();
    if (symbols && keeping_.once.empty() && symbols->learn(tracer.shapes())) return again::KnownSymbols{};
    return std::nullopt;
  } catch (const NeedsEager&) {
    throw;
  } catch (const Interrupted&) {
    throw;
  } catch (...) {
    if (!tracer.eager.why.empty()) {  // of a result
      PyErr_Clear();
      throw said_by(tracer);
    }
    way_.read_varies = reads_varying(tracer);
    std::optional<Again> reason = after_trace(tracer);
    if (!reason) throw;
    PyErr_Clear();
    return reason;
  }
}

// The arguments with proxies, and copies of containers, in their places.
Acquirer::Proxies Acquirer::proxies_of(Tracer& tracer, frontend::ArgumentCopies& copies) const {
  const CacheEntry& e = *way_.entry;
  const CallKey& key = *way_.key;
  const CallArguments& args = key.args;
  size_t next = 0, next_int = 0, next_float = 0;
  std::function<Ref(PyObject*)> proxy = [&](PyObject* t) {
    const size_t i = next++;
    if (!e.symbols || !key.layouts[i]) return tracer.tensors().add_argument(t, i);
    const TensorType type = key.layouts[i]->type(torch_py::tensor(t), e.symbols->dims());
    return tracer.tensors().add_argument(t, i, &type);
  };
  std::function<Ref(PyObject*)> number = [&](PyObject* o) {
    if (PyLong_Check(o)) {
      const Dim& d = e.symbols->dims()[next_int++];
      return d.is_constant() ? Ref::borrow(o) : frontend::make_number(Arg(d));
    }
    PyObject* of = PyFloat_CheckExact(o) ? nullptr : reinterpret_cast<PyObject*>(Py_TYPE(o));
    Ref traced = tracer.numbers().add_float(PyFloat_AS_DOUBLE(o), of);
    return e.symbols->is_constant_float(next_float++) ? Ref::borrow(o) : traced;
  };
  auto given = [&](PyObject* o) { return frontend::rebuild(o, proxy, e.symbols ? &number : nullptr, copies); };
  Ref call_args = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(args.nargs)));
  for (size_t i = 0; i < args.nargs; ++i) PyTuple_SET_ITEM(call_args.get(), i, given(args.args[i]).release());
  Ref call_kwargs = Ref::steal(PyDict_New());
  for (Py_ssize_t i = 0; i < args.num_names(); ++i) {
    Ref value = given(args.args[args.nargs + i]);
    if (PyDict_SetItem(call_kwargs.get(), PyTuple_GET_ITEM(args.names, i), value.get()) != 0) throw PythonError();
  }
  return {std::move(call_args), std::move(call_kwargs)};
}

// The result, or none where the program turns out to be none that can be recorded.
std::variant<Ref, Again> Acquirer::run(frontend::Reads& reads, Tracer& tracer, const Proxies& proxies) {
  const size_t failed = failed_operators();
  try {
    Tracing active;
    Ref result = function_runner()(tracer, function_.fn.get(), proxies.first.get(), proxies.second.get());
    keeping_.once = reads.not_kept().once();
    return result;
  } catch (const Interrupted&) {
    throw;
  } catch (...) {
    keeping_.once = reads.not_kept().once();
    raised_ = !tracer.calls().speaks() && failed_operators() == failed;
    if (tracer.eager.why.empty()) tracer.eager = tracer.eager_if_it_fails;
    // It may have looked for what only the copy of an argument did not have.
    reads.find_arguments_elsewhere();
    if (tracer.eager.why.empty()) {
      if (learned_.learn(reads) && way_.key->text_now() != way_.key->flat.key) {
        PyErr_Clear();
        return again::OtherKey{};
      }
      if (!raised_ || !is_last(tracer)) throw;
      tracer.eager = {refusal(), {}, true};
    }
    PyErr_Clear();
    return Ref();
  }
}

// What the program returns and leaves outside, as its outputs.
frontend::Acquired Acquirer::finish(frontend::Reads& reads, Tracer& tracer, Ref result,
                                    frontend::ArgumentCopies& copies) {
  CacheEntry& e = *way_.entry;
  for (frontend::Effect& effect : copies.effects()) {
    if (effect.kind == frontend::Effect::Contents || effect.kind == frontend::Effect::Appended)
      reads.made(effect.after.get());
    e.effects.push_back(std::move(effect));
  }
  if (!e.effects.empty()) result = with_effects(result, e.effects);
  std::vector<PyObject*> leaves;
  auto origin = [&](PyObject* o) {
    using frontend::Origin;
    return !interpreter_enabled() ? Origin::Unknown : reads.made_inside(o) ? Origin::Inside : Origin::Outside;
  };
  e.output = std::make_unique<frontend::OutputSpec>(result.get(), leaves, origin, copies);
  if (e.output->holds_dtensor()) throw NeedsEager{"a DTensor that the function computes leaves it", {}, true};
  return tracer.outputs().finish(leaves);
}

// The message of the exception in flight, a refusal where the function itself can do what was refused; any other is
// thrown on.
std::string Acquirer::refusal() const {
  if (!keeping_.once.empty() || function_.compiles_only || !function_.transform().empty() ||
      function_.is_of_distributed())
    throw;
  Raised raised = current_error();
  if (is_not_implemented(raised)) return raised.text();
  raised.raise();
  throw PythonError();
}

// A gradient that the program takes flows on outside where what it is taken through was computed from other tensors.
void Acquirer::check_leaves(const frontend::Acquired& acquired) const {
  using frontend::InputSource;
  for (const InputSource& s : acquired.sources) {
    if (!s.leaf) continue;
    PyObject* tensor = s.kind == InputSource::Argument ? way_.key->flat.tensors[s.argument] : s.tensor.get();
    if (!torch_py::tensor(tensor).is_leaf())
      throw NeedsEager{"torch.autograd.grad through a tensor that was computed outside of the function", {}, true};
  }
}

// A refusal within the part is the last word where the function is acquired in no other way.
template <class F>
auto Acquirer::or_refuse(Tracer& tracer, bool of_arguments, F&& part) {
  try {
    return part();
  } catch (const NeedsEager&) {
    throw;
  } catch (const Interrupted&) {
    throw;
  } catch (...) {
    if (tracer.calls().speaks() || !is_last(tracer)) throw;
    throw NeedsEager{refusal(), {}, true, of_arguments};
  }
}

std::variant<frontend::Acquired, Again> Acquirer::trace(Tracer& tracer) {
  CacheEntry& e = *way_.entry;
  const CallKey& key = *way_.key;
  const bool interprets = interpreter_enabled();
  THUNDER_CHECK(keeping_.once.empty(), NotImplemented, "jit", "the program has to be acquired again, and ",
                keeping_.once);
  raised_ = false;
  e.environment = frontend::EnvironmentGuard();
  if (!interprets) {
    if (function_.is_module()) e.environment.watch_module(function_.module.get());
    else e.environment.watch_function(function_.fn.get());
  }
  frontend::Reads reads(tracer, function_.options.sharp_edges);
  if (interprets) tracer.set_observer(&reads);
  if (tracer.questions().int_varies) reads.counters().take(learned_.counters());
  if (function_.is_module()) reads.names().name_root(function_.module.get(), "module");
  ShapeEnv::Scope scope(tracer.shapes());
  if (e.symbols)
    e.symbols->bind([&](int64_t hint, bool may_be_one) { return tracer.inputs().add_size(hint, may_be_one); });
  frontend::ArgumentCopies copies(key.flat.containers, learned_.uses());
  const Proxies proxies = or_refuse(tracer, true, [&] { return proxies_of(tracer, copies); });
  if (interprets) reads.begin(function_.fn.get());
  copies.seal();
  if (interprets) reads.take(copies, key.flat.objects, key.flat.paths);
  reads.made(proxies.second.get());
  std::variant<Ref, Again> result = run(reads, tracer, proxies);
  if (auto* reason = std::get_if<Again>(&result)) return std::move(*reason);
  if (may_vary() && interprets && keeping_.once.empty() && learned_.learn_drawing_calls(reads) &&
      ++draws_apart_ <= kMostDrawsApart)
    return again::DrawsApart{};
  reads.sharp_calls().tell_draws();
  e.effects = reads.finish(e.environment);
  keeping_.not_kept = reads.not_kept().why();
  learned_.find_counters(e.effects);
  // A program for this call only need not be the one for other calls with the same key.
  const bool fits = !keeping_.once.empty() && learned_.knows(reads);
  if (learned_.learn(reads) && !fits && key.text_now() != key.flat.key) return again::OtherKey{};
  if (!tracer.eager.why.empty()) throw said_by(tracer);
  return or_refuse(tracer, false, [&] { return finish(reads, tracer, std::get<Ref>(std::move(result)), copies); });
}

}  // namespace thunder
