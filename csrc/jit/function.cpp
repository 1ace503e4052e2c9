#include "jit/function.h"

#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>

#include <cstdlib>
#include <string_view>

#include "core/dtype.h"
#include "core/error.h"
#include "core/rewrite.h"
#include "frontend/interpreter/interpreter.h"
#include "jit/cache_entry.h"
#include "jit/python_rules.h"
#include "passes/passes.h"
#include "passes/write_in_place.h"
#include "runtime/convert.h"
#include "runtime/gil.h"
#include "runtime/interop.h"

namespace thunder {

using frontend::Flattened;
using frontend::Ref;

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

constexpr size_t kMostEntries = 256;  // programs of a function; what changes in every call would fill the memory
constexpr size_t kMostKnown = 4096;   // rows of numbers that a function remembers an entry for

// While a user's function is traced: compiled functions that it calls become a part of its program.
class Tracing {
 public:
  Tracing() {
    set_default_dtype(from_aten(c10::get_default_dtype_as_scalartype()));
    ++depth();
  }
  ~Tracing() { --depth(); }
  static int& depth() {
    static thread_local int depth = 0;
    return depth;
  }
};

// THUNDER_INTERPRETER=0: Python runs the user's function, and a snapshot of what is within its reach is guarded.
bool interpreter_enabled() {
  const char* text = std::getenv("THUNDER_INTERPRETER");
  return !text || std::string_view(text) != "0";
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

bool JitFunction::is_tracing() { return Tracing::depth() > 0; }

JitFunction::Runner& JitFunction::runner() {
  static auto* r = new Runner();
  return *r;
}

// An entry that was found to take these numbers.
struct JitFunction::Known {
  Numbers numbers;
  std::weak_ptr<CacheEntry> entry;
};

JitFunction::~JitFunction() = default;

JitFunction::JitFunction(PyObject* fn, PyObject* module, CacheMode cache, CompileOptions options,
                         std::shared_ptr<GraphSettings> graphs)
    : fn_(Ref::borrow(fn)),
      module_(Ref::borrow(module)),
      // Who asks for graphs gets a program for each row of sizes: every one is recorded.
      cache_(graphs && !graphs->automatic && cache == CacheMode::VaryingValues ? CacheMode::ConstantValues : cache),
      options_(std::move(options)),
      graphs_(std::move(graphs)) {}

JitFunction::Key JitFunction::key_of(const Arguments& args) const {
  using Apart = Key::Apart;
  return Key(args, cache_ == CacheMode::SymbolicValues ? Apart::Some : Apart::Nothing, uses_, themselves_);
}

std::shared_ptr<JitFunction::CacheEntry> JitFunction::find(const Key& key) {
  if (cache_ == CacheMode::NoCaching) return nullptr;
  if (cache_ == CacheMode::SameInput) return entries_.empty() ? nullptr : entries_.begin()->second;
  if (std::shared_ptr<CacheEntry> e = find_with(key, nullptr)) return e;
  std::string why;  // told of misses alone: saying it takes longer than checking
  if (std::shared_ptr<CacheEntry> e = find_with(key, &why)) return e;
  if (why.empty()) why = entries_.empty() || !last_ ? "the first call" : difference(key.facts(), last_->facts);
  last_miss_ = std::move(why);
  return nullptr;
}

// An entry for the call's very numbers, or one in which those that vary are symbols.
std::shared_ptr<JitFunction::CacheEntry> JitFunction::find_with(const Key& key, std::string* why) {
  if (!why)
    if (std::shared_ptr<CacheEntry> e = find_known(key)) return e;
  if (std::shared_ptr<CacheEntry> e = find_entry(key, why)) return e;
  key.undraw();
  if (!any_varying_) return nullptr;
  const Key& other = whole(key);
  if (!why)
    if (std::shared_ptr<CacheEntry> e = find_known(other)) return e;
  if (std::shared_ptr<CacheEntry> e = find_entry(other, why)) return e;
  key.undraw();
  return nullptr;
}

std::shared_ptr<JitFunction::CacheEntry> JitFunction::find_entry(const Key& key, std::string* why) {
  auto [first, last] = entries_.equal_range(key.hash);
  for (auto it = first; it != last; ++it) {
    const std::shared_ptr<CacheEntry>& e = it->second;
    if (!(e->fingerprint == key.fingerprint) || e->key != key.flat.key) continue;
    if (e->symbols && !e->symbols->hold(key.numbers, why)) continue;
    if (!e->guards_hold(key.flat, why)) {
      if (why) find_counter(e->world);
      continue;
    }
    if (e->asks()) return find_by_values(key, it, why);
    if (!e->numbers_fit(key, why)) continue;
    if (e->symbols) {
      if (known_.size() >= kMostKnown) known_.clear();
      known_.emplace(key.hash ^ key.numbers.hash(), Known{key.numbers, e});
    }
    return e;
  }
  return nullptr;
}

std::shared_ptr<JitFunction::CacheEntry> JitFunction::find_known(const Key& key) {
  if (key.apart == Key::Apart::Nothing) return nullptr;
  auto [first, last] = known_.equal_range(key.hash ^ key.numbers.hash());
  for (auto it = first; it != last; ++it) {
    std::shared_ptr<CacheEntry> e = it->second.entry.lock();
    if (e && it->second.numbers == key.numbers && e->fingerprint == key.fingerprint && e->key == key.flat.key &&
        e->guards_hold(key.flat, nullptr))
      return e;
  }
  return nullptr;
}

// Whether the program reads a number of which it need not know the value.
bool JitFunction::reads_varying(const frontend::Tracer& tracer) {
  const auto& reads = tracer.questions().reads();
  return std::any_of(reads.begin(), reads.end(), [](const frontend::ValueRead& r) { return !r.exact; });
}

// Runs the function on proxies of its arguments.  What the program turns out to ask of a symbol for good is known when
// it runs once more, so that what follows from it is.
frontend::Acquired JitFunction::acquire(CacheEntry& e, const Key& key, std::unique_ptr<frontend::Tracer>& tracer,
                                        const Arguments& args, NumberMode mode) {
  std::vector<const void*> shared;
  std::unordered_set<size_t> begin;
  bool asks = false, seems_compiled = true;
  auto tell = [&] { *mode.read = reads_varying(*tracer); };
  while (true) {
    tracer = std::make_unique<frontend::Tracer>(shared, begin);
    tracer->shapes().asks = asks;
    tracer->seems_compiled = seems_compiled;
    // With "same input" no call asks again.
    tracer->questions().draws_ahead = cache_ != CacheMode::SameInput;
    if (mode.vary)
      tracer->questions().int_varies = [this](const std::string& place, int64_t now) { return varies(place, now); };
    try {
      frontend::Acquired acquired = trace(e, key, *tracer, args, mode);
      ShapeEnv::Scope scope(tracer->shapes());
      tell();
      if (tracer->tensors().shared_memory_written()) shared.push_back(tracer->tensors().shared_memory_written());
      // What cannot be acquired again has the guards alone.
      else if (!e.symbols || !once_.empty() || !e.symbols->learn(tracer->shapes())) return acquired;
    } catch (const OtherKey&) {
      throw;
    } catch (const NeedsEager&) {
      throw;
    } catch (const frontend::Interrupted&) {
      throw;
    } catch (...) {
      if (!tracer->eager.why.empty()) {  // of a result
        PyErr_Clear();
        throw NeedsEager{tracer->eager.why, tracer->eager.tensor, tracer->eager.warns};
      }
      tell();
      if (tracer->tensors().begins_to_require_grad() && once_.empty()) {
        begin.insert(*tracer->tensors().begins_to_require_grad());
      } else if (tracer->tensors().shared_memory_written() && !(e.symbols && !e.symbols->constant())) {
        // Written to memory that several inputs share: again, with that memory as one input.
        shared.push_back(tracer->tensors().shared_memory_written());
      } else if (!tracer->tensors().shared_memory_written() && tracer->shapes().assumed() && !asks && once_.empty()) {
        // It may be no error at all: the length of something that depends on values was taken to differ from 0 and 1.
        asks = true;
      } else if (raised_ && tracer->asked_whether_compiled && seems_compiled && once_.empty()) {
        // A library's way for compilers may be wrong where its way for eager is not.
        seems_compiled = false;
      } else {
        throw;
      }
    }
    PyErr_Clear();
  }
}

// The arguments with proxies, and copies of containers, in their places.
std::pair<Ref, Ref> JitFunction::traced(const CacheEntry& e, const Key& key, const Arguments& args,
                                        frontend::Tracer& tracer, frontend::StandIns& copies) {
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
    if (PyDict_SetItem(call_kwargs.get(), PyTuple_GET_ITEM(args.names, i), value.get()) != 0)
      throw frontend::PythonError();
  }
  return {std::move(call_args), std::move(call_kwargs)};
}

// What the arguments' key is by now, told apart as `key` is.
std::string JitFunction::flat_key(const Arguments& args, const Key& key) const {
  return Key(args, key.apart, uses_, themselves_).flat.key;
}

// The result, or none where the program turns out to be none that can be recorded.
Ref JitFunction::run_traced(frontend::Reads& reads, frontend::Tracer& tracer, const Key& key, const Arguments& args,
                            const std::pair<Ref, Ref>& proxies, const std::function<bool()>& is_last) {
  Ref result;
  const size_t failed = failed_operators();
  try {
    Tracing active;
    result = runner()(tracer, fn_.get(), proxies.first.get(), proxies.second.get());
    once_ = reads.once();
  } catch (const frontend::Interrupted&) {
    throw;
  } catch (...) {
    once_ = reads.once();
    raised_ = !tracer.calls().speaks() && failed_operators() == failed;
    if (tracer.eager.why.empty()) tracer.eager = tracer.eager_if_it_fails;
    // It may have looked for what only the copy of an argument did not have.
    reads.find_arguments_elsewhere();
    if (tracer.eager.why.empty() && (!learn(reads) || flat_key(args, key) == key.flat.key)) {
      if (!raised_ || !is_last()) throw;
      tracer.eager = {refusal(), {}, true};
    }
    PyErr_Clear();
    if (tracer.eager.why.empty()) throw OtherKey();
  }
  return result;
}

// What the program returns and leaves outside, as its outputs.
frontend::Acquired JitFunction::finish(CacheEntry& e, frontend::Reads& reads, frontend::Tracer& tracer, Ref result,
                                       frontend::StandIns& copies) {
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

frontend::Acquired JitFunction::trace(CacheEntry& e, const Key& key, frontend::Tracer& tracer, const Arguments& args,
                                      const NumberMode& mode) {
  const bool interprets = interpreter_enabled();
  THUNDER_CHECK(once_.empty(), NotImplemented, "jit", "the program has to be acquired again, and ", once_);
  raised_ = false;
  e.world = frontend::WorldGuard();
  if (!interprets) {
    if (module_.get() != Py_None) e.world.watch_module(module_.get());
    else e.world.watch_function(fn_.get());
  }
  frontend::Reads reads(tracer, edges_);
  if (interprets) tracer.set_observer(&reads);
  if (tracer.questions().int_varies) reads.take_counters(counters_);
  if (module_.get() != Py_None) reads.name_root(module_.get(), "module");
  ShapeEnv::Scope scope(tracer.shapes());
  if (e.symbols)
    e.symbols->bind([&](int64_t hint, bool may_be_one) { return tracer.inputs().add_size(hint, may_be_one); });
  frontend::StandIns copies(key.flat.containers, uses_);
  auto or_eager = [&](bool of_arguments, auto&& part) {
    try {
      return part();
    } catch (const NeedsEager&) {
      throw;
    } catch (const frontend::Interrupted&) {
      throw;
    } catch (...) {
      if (tracer.calls().speaks() || !is_last_attempt(e, tracer, mode)) throw;
      throw NeedsEager{refusal(), {}, true, of_arguments};
    }
  };
  const std::pair<Ref, Ref> proxies = or_eager(true, [&] { return traced(e, key, args, tracer, copies); });
  if (interprets) reads.begin(fn_.get());
  copies.seal();
  if (interprets) reads.take(copies, key.flat.objects, key.flat.paths);
  reads.made(proxies.second.get());
  Ref result = run_traced(reads, tracer, key, args, proxies, [&] { return is_last_attempt(e, tracer, mode); });
  e.effects = reads.finish(e.world);
  not_kept_ = reads.not_kept();
  find_counters(e.effects);
  // A program for this call only need not be the one for other calls with the same key.
  const bool fits = !once_.empty() && knows_identities(reads);
  if (learn(reads) && !fits && flat_key(args, key) != key.flat.key) throw OtherKey();
  if (!tracer.eager.why.empty()) throw NeedsEager{tracer.eager.why, tracer.eager.tensor, tracer.eager.warns};
  return or_eager(false, [&] { return finish(e, reads, tracer, std::move(result), copies); });
}

namespace {
// Whether the program computes tensors, or makes views, through which gradients flow.
bool has_gradients(const frontend::Acquired& acquired) {
  bool any = false;
  for_each_value(acquired.computation.output, [&](Value v) { any |= v.requires_grad(); });
  const auto made_by = producers(acquired.epilogue);
  for_each_value(acquired.epilogue.output, [&](Value v) {
    const auto at = made_by.find(v);
    const Call* call = at == made_by.end() ? nullptr : acquired.epilogue.calls[at->second];
    any |= v.requires_grad() && call && call->op->has(kView | kIdentity);
  });
  return any;
}
}  // namespace

std::shared_ptr<JitFunction::CacheEntry> JitFunction::compile(Key& key, const Arguments& args) {
  while (true) {
    try {
      return compile_as_asked(key, args);
    } catch (const OtherKey&) {
      key = key_of(args);
      key.check_kinds();
    }
  }
}

std::shared_ptr<JitFunction::CacheEntry> JitFunction::compile_as_asked(const Key& key, const Arguments& args) {
  not_symbolic_.clear();
  if (cache_ == CacheMode::VaryingValues && !distributed_) return compile_varying(key, args);
  if (cache_ != CacheMode::SymbolicValues) return compile_with_reads(key, args, true);
  std::string why;
  try {
    return compile_with_reads(key, args, false);
  } catch (const OtherKey&) {
    throw;
  } catch (const std::exception& e) {
    // What cannot be said of symbols can be of the numbers themselves; if not, the error is about them.
    why = e.what();
    PyErr_Clear();
  }
  std::shared_ptr<CacheEntry> e = compile_with_reads(key, args, true);
  not_symbolic_ = std::move(why);
  return e;
}

// Numbers that the program reads from its tensors become numbers of the call; where that cannot be, they stay what they
// are in this one.
std::shared_ptr<JitFunction::CacheEntry> JitFunction::compile_with_reads(const Key& key, const Arguments& args,
                                                                         bool constant, const Varying* varying) {
  bool read = false;
  try {
    return compile(key, args, {constant, cache_ != CacheMode::SameInput, &read, varying});
  } catch (const OtherKey&) {
    throw;
  } catch (const std::exception&) {
    if (!read || !once_.empty()) throw;
    PyErr_Clear();
  }
  return compile(key, args, {constant, false, &read, varying});
}

// What the epilogue only copies into inputs may be written there at once.
void JitFunction::write_in_place(CompileRecord& record) const {
  Compiled& c = record.compiled;
  const std::optional<PlainEpilogue> plain =
      c.has_backward || distributed_ ? std::nullopt : PlainEpilogue::find(record.epilogue, c);
  if (!plain) return;
  std::vector<std::pair<size_t, size_t>> copied;
  for (const auto& [output, input] : plain->writes)
    if (!plain->gives(output, c.forward.inputs.size())) copied.emplace_back(output, input);
  c.forward = run_pass(
      PassName{"write_in_place", "Writes In Place"}, c.forward,
      [&](const Trace& t) { return thunder::write_in_place(t, copied, options_.executors); }, options_.passes,
      &c.history);
}

std::shared_ptr<JitFunction::CacheEntry> JitFunction::compile(const Key& key, const Arguments& args, NumberMode mode) {
  auto start = std::chrono::steady_clock::now();
  adopt_default_dtype();
  auto record = std::make_shared<CompileRecord>();
  auto e = std::make_shared<CacheEntry>();
  if (key.apart != Key::Apart::Nothing) {
    e->symbols = mode.varying
                     ? std::make_unique<Symbols>(key.numbers, mode.varying->ints, mode.varying->constant_floats)
                     : std::make_unique<Symbols>(key.numbers, mode.constant);
    e->symbols->labels = key.labels();
  }
  std::unique_ptr<frontend::Tracer> tracer;
  frontend::Acquired acquired;
  try {
    acquired = acquire(*e, key, tracer, args, mode);
    check_leaves(key, acquired);
    if (std::string why = part_that_leaves(acquired); !why.empty()) throw NeedsEager{std::move(why), {}, true};
  } catch (const NeedsEager& reason) {
    THUNDER_CHECK(!compiles_only_, NotImplemented, "simulate", "no program stands for the call: ", reason.why);
    check_not_distributed(reason.why);
    e->be_eager(key, reason);
    count_refusal(e, key, reason);
    return keep(std::move(e), key);
  }
  record->times.acquisition = seconds_since(start);
  if (once_.empty()) once_ = e->output->once();
  // With "same input" no call asks again.
  if (cache_ != CacheMode::SameInput) tracer->questions().take_from_reads(acquired);

  ShapeEnv::Scope scope(tracer->shapes());
  start = std::chrono::steady_clock::now();
  // Where the caller has switched gradients off the program may have switched them on for a part.
  const bool grad_enabled = frontend::hooks().grad_enabled(), with_grad = grad_enabled || has_gradients(acquired);
  c10::AutoGradMode mode_of_rules(with_grad);
  DistributedInputs distributed = find_distributed(acquired);
  distributed_ = distributed_ || distributed.distribution;
  if (distributed.distribution) check_parameters(module_.get());
  CompileOptions options = options_;
  if (float8_) {
    const Float8Choice choice = float8_(module_.get());
    options.float8 = find_float8(choice, acquired, static_cast<bool>(distributed.distribution), record->float8);
    if (options.float8.history) e->float8_recorded = choice.recorded;
    e->float8_delayed = options.float8.delayed;
  }
  auto compile_it = [&] {
    return thunder::compile(acquired.computation, options, with_grad, distributed.distribution);
  };
  if (compiles_only_) {
    record->compiled = compile_it();
    record_ = record;
    return nullptr;
  }
  record->compiled = compile_in_agreement(distributed.distribution, compile_it);
  record->trivial_epilogue = acquired.trivial_epilogue;
  if (!acquired.trivial_epilogue) {
    record->epilogue = claim(acquired.epilogue, options_.executors, false);
    write_in_place(*record);
  }
  record->times.passes = seconds_since(start);

  start = std::chrono::steady_clock::now();
  std::shared_ptr<Entry> entry = make_entry(record->compiled, acquired.trivial_epilogue ? nullptr : &record->epilogue);
  // Sums with fewer roundings than eager's are for those who did not ask for eager's.
  if (!options_.fusion.eager_numerics) {
    entry->accumulated = accumulated_;
    if (entry->backward) entry->backward->add_to_sums(accumulated_);
  }
  entry->enables_grad = with_grad && !grad_enabled;
  entry->differentiated = e->float8_recorded;
  entry->retained = acquired.retained;
  place(*entry, std::move(distributed.placements));
  e->plan = distributed.distribution.plan;
  e->synchronization = distributed.distribution.mode;
  // With "no caching" no entry has a second run.
  if (graphs_ && cache_ != CacheMode::NoCaching) {
    std::vector<char> by_address;
    for (const frontend::InputSource& s : acquired.sources)
      by_address.push_back(s.kind == frontend::InputSource::Captured);
    use_graphs(*entry, graphs_, record->compiled, std::move(by_address));
  }
  e->entry = std::move(entry);
  find_repeatable(*e, acquired.computation, *tracer);
  record->times.programs = seconds_since(start);

  add_inputs(*e, key, acquired, tracer->shapes());
  number_guards_ = e->symbols ? e->symbols->text() : std::vector<std::string>();
  symbols_ = e->symbols ? e->symbols->symbol_text() : std::vector<std::string>();
  for (std::string& line : e->checks.text()) number_guards_.push_back(std::move(line));
  e->be_for(key);
  e->captured = e->fingerprint_all(key.flat);
  e->remember();
  record_ = record;
  refusals_ = 0;
  refused_.erase(kind_of(key));
  tracer->questions().keep_drawn();
  last_entry_ = e->entry;
  return keep(std::move(e), key);
}

std::shared_ptr<const CompileRecord> JitFunction::compile_only(PyObject* const* args, size_t nargs, PyObject* names) {
  const Arguments arguments{args, nargs, names};
  Key key = key_of(arguments);
  compiles_only_ = true;
  options_.fusion.compiles = false;
  once_.clear();
  try {
    if (key.fingerprint.watched()) throw NeedsEager{watcher(), {}};
    key.check_kinds();
    compile(key, arguments);
  } catch (const NeedsEager& reason) {
    throw Error(ErrorKind::NotImplemented, cat("[simulate] no program stands for the call: ", reason.why));
  }
  return record_;
}

std::shared_ptr<JitFunction::CacheEntry> JitFunction::keep(std::shared_ptr<CacheEntry> e, const Key& key) {
  last_ = e;
  if (!once_.empty() || !not_kept_.empty()) return e;
  writes_ = writes_ || e->takes_turns();  // before another thread finds it
  if (cache_ == CacheMode::NoCaching || cache_ == CacheMode::SameInput) entries_.clear();
  if (entries_.size() >= kMostEntries) {
    entries_.erase(std::min_element(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
      return a.second->last_use < b.second->last_use;
    }));
    std::erase_if(kinds_, [](const auto& k) { return k.second.expired(); });
  }
  if (cache_ == CacheMode::VaryingValues) {
    const Key& other = key.exact ? key : whole(key);
    e->kind =
        std::make_unique<CacheEntry::Kind>(CacheEntry::Kind{other.fingerprint, other.flat.key, other.numbers, {}});
    kinds_.emplace(other.hash, e);
    any_varying_ = any_varying_ || e->symbols;
  }
  return entries_.emplace(key.hash, std::move(e))->second;
}

std::string JitFunction::program_text() const {
  if (!last_entry_) return {};
  std::string text = last_entry_->forward->str();
  if (last_entry_->backward) text += "\n" + last_entry_->backward->str();
  if (last_entry_->epilogue) text += "\n" + last_entry_->epilogue->str();
  return text;
}

std::vector<std::string> JitFunction::guards() const {
  if (!last_) return {};
  std::vector<std::string> out = last_->world.lines();
  for (std::string& line : last_->checks.text()) out.push_back(std::move(line));
  return out;
}

void JitFunction::clear_cache() {
  entries_.clear();
  known_.clear();
  kinds_.clear();
  any_varying_ = false;
  steps_.clear();
  known_ints_.clear();
  counters_.clear();
  changed_.clear();
  refused_.clear();
}

bool JitFunction::check_guards_only(PyObject* const* args, size_t nargs, PyObject* names) {
  const Key key = key_of({args, nargs, names});
  if (key.fingerprint.watched() || key.other_kind || key.flat.overriding) return false;
  const bool found = find(key) != nullptr;
  key.undraw();
  return found;
}

int JitFunction::traverse(visitproc visit, void* arg) {
  Py_VISIT(fn_.get());
  Py_VISIT(module_.get());
  Py_VISIT(inner_modules_.get());
  return 0;
}

}  // namespace thunder
