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

Outcome<AcquiredProgram> Acquirer::attempt() {
  AcquiredProgram out{way_.entry, *way_.key, make_tracer(), {}};
  Tracer& tracer = *out.tracer;
  Outcome<frontend::Acquired> acquired = caught<frontend::Acquired>([&] { return acquire_once(tracer); });
  auto* program = std::get_if<frontend::Acquired>(&acquired);
  const bool failed = std::holds_alternative<Failed>(acquired);
  if (program || failed) way_.read_varies = reads_varying(tracer);
  if (failed) {
    if (tracer.eager) return *tracer.eager;  // of a result
    if (std::optional<Again> reason = after_trace(tracer)) return std::move(*reason);
  }
  if (!program) return reason_of<AcquiredProgram>(std::move(acquired));
  out.acquired = std::move(*program);
  if (std::optional<NeedsEager> reason = refused_leaves(out.acquired)) return std::move(*reason);
  if (std::string why = part_that_leaves(out.acquired); !why.empty()) return NeedsEager{std::move(why), {}, true};
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - way_.start).count();
  if (!keeping_.once) keeping_.once = out.entry->output->once();
  // With "same input" no call asks again.
  if (may_vary()) tracer.questions().take_from_reads(out.acquired);
  return out;
}

Outcome<frontend::Acquired> Acquirer::acquire_once(Tracer& tracer) {
  Outcome<frontend::Acquired> traced = trace(tracer);
  if (!std::holds_alternative<frontend::Acquired>(traced)) return traced;
  const ShapeEnv::Scope scope(tracer.shapes());
  if (const void* shared = tracer.tensors().shared_memory_written()) return again::SharedMemory{shared};
  // What cannot be acquired again has the guards alone.
  Symbols* symbols = way_.entry->symbols.get();
  if (symbols && !keeping_.once && symbols->learn(tracer.shapes())) return again::KnownSymbols{};
  return traced;
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

Outcome<Ref> Acquirer::run(frontend::Reads& reads, Tracer& tracer, const Proxies& proxies) {
  const size_t failed_before = failed_operators();
  Outcome<Ref> result = caught<Ref>([&]() -> Outcome<Ref> {
    const Tracing active;
    return function_runner()(tracer, function_.fn.get(), proxies.first.get(), proxies.second.get());
  });
  keeping_.once = reads.not_kept().once();
  const auto* failed = std::get_if<Failed>(&result);
  if (!failed) return result;
  raised_ = !tracer.calls().speaks() && failed_operators() == failed_before;
  if (!tracer.eager) tracer.eager = tracer.eager_if_it_fails;
  // It may have looked for what only the copy of an argument did not have.
  reads.find_arguments_elsewhere();
  if (tracer.eager) return Ref();
  if (learned_.learn(reads) && way_.key->text_now() != way_.key->flat.key) return again::OtherKey{};
  std::optional<std::string> why = raised_ && is_last(tracer) ? refusal(*failed) : std::nullopt;
  if (!why) return result;
  tracer.eager = NeedsEager{std::move(*why), {}, true};
  return Ref();
}

// What the program returns and leaves outside, as its outputs.
Outcome<frontend::Acquired> Acquirer::finish(frontend::Reads& reads, Tracer& tracer, Ref result,
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
  if (e.output->holds_dtensor()) return NeedsEager{"a DTensor that the function computes leaves it", {}, true};
  return tracer.outputs().finish(leaves);
}

// The message of a refusal where the function itself can do what was refused.
std::optional<std::string> Acquirer::refusal(const Failed& failed) const {
  const bool compiled_only = function_.compiles_only || !function_.transform().empty() || function_.is_of_distributed();
  if (keeping_.once || compiled_only || !is_not_implemented(failed.error)) return std::nullopt;
  return failed.error.text();
}

// A gradient that the program takes flows on outside where what it is taken through was computed from other tensors.
std::optional<NeedsEager> Acquirer::refused_leaves(const frontend::Acquired& acquired) const {
  using frontend::InputSource;
  for (const InputSource& s : acquired.sources) {
    if (!s.leaf) continue;
    PyObject* tensor = s.kind == InputSource::Argument ? way_.key->flat.tensors[s.argument] : s.tensor.get();
    if (!torch_py::tensor(tensor).is_leaf())
      return NeedsEager{"torch.autograd.grad through a tensor that was computed outside of the function", {}, true};
  }
  return std::nullopt;
}

// A refusal within the part is the last word where the function is acquired in no other way.
template <class T, class Part>
Outcome<T> Acquirer::or_refuse(Tracer& tracer, bool of_arguments, const Part& part) {
  Outcome<T> out = caught<T>(part);
  const auto* failed = std::get_if<Failed>(&out);
  if (!failed || tracer.calls().speaks() || !is_last(tracer)) return out;
  std::optional<std::string> why = refusal(*failed);
  if (why) return NeedsEager{std::move(*why), {}, true, of_arguments};
  return out;
}

Outcome<frontend::Acquired> Acquirer::trace(Tracer& tracer) {
  CacheEntry& e = *way_.entry;
  const CallKey& key = *way_.key;
  const bool interprets = interpreter_enabled();
  THUNDER_CHECK(!keeping_.once, NotImplemented, "jit", "the program has to be acquired again, and ", *keeping_.once);
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
  Outcome<Proxies> made =
      or_refuse<Proxies>(tracer, true, [&]() -> Outcome<Proxies> { return proxies_of(tracer, copies); });
  const auto* proxies = std::get_if<Proxies>(&made);
  if (!proxies) return reason_of<frontend::Acquired>(std::move(made));
  if (interprets) reads.begin(function_.fn.get());
  copies.seal();
  if (interprets) reads.take(copies, key.flat.objects, key.flat.paths);
  reads.made(proxies->second.get());
  Outcome<Ref> result = run(reads, tracer, *proxies);
  if (!std::holds_alternative<Ref>(result)) return reason_of<frontend::Acquired>(std::move(result));
  if (may_vary() && interprets && !keeping_.once && learned_.learn_drawing_calls(reads) &&
      ++draws_apart_ <= kMostDrawsApart)
    return again::DrawsApart{};
  reads.sharp_calls().tell_draws();
  e.effects = reads.finish(e.environment);
  keeping_.not_kept = reads.not_kept().why();
  learned_.find_counters(e.effects);
  // A program for this call only need not be the one for other calls with the same key.
  const bool fits = keeping_.once && learned_.knows(reads);
  if (learned_.learn(reads) && !fits && key.text_now() != key.flat.key) return again::OtherKey{};
  if (tracer.eager) return *tracer.eager;
  return or_refuse<frontend::Acquired>(tracer, false,
                                       [&] { return finish(reads, tracer, std::get<Ref>(std::move(result)), copies); });
}

}  // namespace thunder
