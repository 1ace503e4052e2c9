#include "jit/function.h"

#include <c10/core/DefaultDtype.h>

#include <cstdlib>
#include <string_view>

#include "core/dtype.h"
#include "core/error.h"
#include "frontend/interpreter/interpreter.h"
#include "passes/passes.h"
#include "runtime/convert.h"
#include "runtime/interop.h"
#include "runtime/torch_py.h"

namespace thunder {

using frontend::Flattened;
using frontend::Ref;

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Releases the GIL for a scope.
class WithoutGil {
 public:
  explicit WithoutGil(bool active) : state_(active ? PyEval_SaveThread() : nullptr) {}
  ~WithoutGil() {
    if (state_) PyEval_RestoreThread(state_);
  }

 private:
  PyThreadState* state_;
};

thread_local int depth_of_tracing = 0;

// While a user's function is traced: compiled functions that it calls become a part of its program.
class Tracing {
 public:
  Tracing() {
    set_default_dtype(from_aten(c10::get_default_dtype_as_scalartype()));
    ++depth_of_tracing;
  }
  ~Tracing() { --depth_of_tracing; }
};

// THUNDER_INTERPRETER=0: Python runs the user's function, and a snapshot of what is within its reach is guarded.
bool interpreter_enabled() {
  const char* text = std::getenv("THUNDER_INTERPRETER");
  return !text || std::string_view(text) != "0";
}

// The user's result and the values that the program leaves outside.
Ref with_effects(const Ref& result, const std::vector<frontend::Effect>& effects) {
  Ref values = Ref::steal(PyList_New(0));
  for (const frontend::Effect& e : effects)
    if (PyList_Append(values.get(), e.after ? e.after.get() : Py_None) < 0) throw frontend::PythonError();
  return Ref::steal(PyTuple_Pack(2, result.get(), values.get()));
}

}  // namespace

JitFunction::Runner& JitFunction::runner() {
  static auto* r = new Runner();
  return *r;
}

struct JitFunction::Key {
  Flattened flat;
  Fingerprint fingerprint;
  uint64_t hash = 0;

  Key(PyObject* const* args, size_t nargs, PyObject* names) {
    for (size_t i = 0; i < nargs; ++i) frontend::flatten(args[i], flat);
    Py_ssize_t n = names ? PyTuple_GET_SIZE(names) : 0;
    for (Py_ssize_t i = 0; i < n; ++i) {
      flat.key.push_back('K');
      frontend::flatten(PyTuple_GET_ITEM(names, i), flat);
      frontend::flatten(args[nargs + i], flat);
    }
    for (PyObject* t : flat.tensors)
      THUNDER_CHECK(frontend::is_tensor(t), Type, "jit",
                    "a number that another compiled function has yet to compute was passed");
    fingerprint.begin();
    for (PyObject* t : flat.tensors) fingerprint.add(torch_py::tensor(t));
    hash = fingerprint.hash() ^ std::hash<std::string>()(flat.key);
  }
};

struct JitFunction::CacheEntry {
  Fingerprint fingerprint;
  std::string key;
  std::vector<Ref> objects;  // that the key names by identity: their addresses stay theirs
  frontend::WorldGuard world;
  CapturedTensors state;  // as they were when `captured` was last found equal
  frontend::CacheLines lines;
  Fingerprint captured;  // of the arguments and the captured tensors together, if there are any
  struct Source {
    bool captured;
    size_t index;        // among the captured tensors, or the tensor arguments
    bool whole_storage;  // the memory of that tensor, as a 1-d tensor
  };
  std::vector<Source> sources;
  bool by_place = false;  // where the tensors lie in their memory matters
  std::shared_ptr<const Entry> entry;
  std::unique_ptr<frontend::OutputSpec> output;  // the user's result; with effects, a pair of it and a list of values
  std::vector<frontend::Effect> effects;

  Fingerprint fingerprint_all(const Flattened& flat) const {
    Fingerprint f;
    for (PyObject* t : flat.tensors) f.add(torch_py::tensor(t));
    for (PyObject* t : world.tensors()) f.add(torch_py::tensor(t));
    if (!by_place) return f;
    for (const auto* list : {&flat.tensors, &world.tensors()})
      for (PyObject* t : *list) {
        auto [offset, count] = frontend::hooks().place_in_storage(t);
        f.add_number(static_cast<uint64_t>(offset));
        f.add_number(static_cast<uint64_t>(count));
      }
    return f;
  }

  bool shares_memory(const Flattened& flat) const {
    return std::any_of(flat.tensors.begin(), flat.tensors.end(),
                       [&](PyObject* t) { return state.shares_memory(torch_py::tensor(t)); });
  }
  void remember() {
    state = CapturedTensors(world.tensors());
    lines.clear();
    world.add_lines(lines);
    state.add_lines([&](const void* p, size_t bytes) { lines.add(p, bytes); });
    lines.seal();
  }

  bool guards_hold(const Flattened& flat, std::string* why) {
    lines.prefetch();
    if (!world.check(why)) return false;
    if (world.tensors().empty() && !by_place) return true;
    if (!by_place && state.unchanged(world.tensors()) && !shares_memory(flat)) return true;
    if (fingerprint_all(flat) == captured) {
      remember();
      return true;
    }
    if (why) *why = "a parameter, buffer or captured tensor has other metadata";
    return false;
  }
};

JitFunction::JitFunction(PyObject* fn, PyObject* module, CacheMode cache, CompileOptions options,
                         std::shared_ptr<GraphSettings> graphs)
    : fn_(Ref::borrow(fn)),
      module_(Ref::borrow(module)),
      cache_(cache),
      options_(std::move(options)),
      graphs_(std::move(graphs)) {}

std::shared_ptr<JitFunction::CacheEntry> JitFunction::find(const Key& key) {
  if (cache_ == CacheMode::NoCaching) return nullptr;
  if (cache_ == CacheMode::SameInput) return entries_.empty() ? nullptr : entries_.begin()->second;
  last_miss_ = entries_.empty() ? "the first call" : "the arguments or the global state differ";
  auto [first, last] = entries_.equal_range(key.hash);
  for (auto it = first; it != last; ++it) {
    const std::shared_ptr<CacheEntry>& e = it->second;
    if (!(e->fingerprint == key.fingerprint) || e->key != key.flat.key) continue;
    if (e->guards_hold(key.flat, &last_miss_)) return e;
  }
  return nullptr;
}

PyObject* JitFunction::call(PyObject* const* args, size_t nargs, PyObject* names) {
  if (depth_of_tracing > 0) {
    frontend::interpreter::InterpretingAgain scope;
    return PyObject_Vectorcall(fn_.get(), args, nargs, names);
  }
  Key key(args, nargs, names);
  std::shared_ptr<CacheEntry> e = find(key);  // owned: a recursive call or another thread may clear the cache
  if (e) {
    ++hits_;
  } else {
    ++misses_;
    e = compile(key, args, nargs, names);
  }
  return run(*e, key.flat);
}

PyObject* JitFunction::run(CacheEntry& e, const Flattened& flat) {
  std::vector<c10::IValue> inputs;
  inputs.reserve(e.sources.size());
  for (const CacheEntry::Source& s : e.sources) {
    const at::Tensor& t = torch_py::tensor(s.captured ? e.world.tensors()[s.index] : flat.tensors[s.index]);
    if (!s.whole_storage) {
      inputs.emplace_back(t);
      continue;
    }
    auto [offset, count] =
        frontend::hooks().place_in_storage(s.captured ? e.world.tensors()[s.index] : flat.tensors[s.index]);
    inputs.emplace_back(t.as_strided({count}, {1}, 0));
  }
  std::shared_ptr<const Entry> entry = e.entry;
  std::vector<c10::IValue> outputs;
  {
    WithoutGil released(!entry->needs_python());
    outputs = execute(entry, std::move(inputs));
  }
  std::vector<Ref> owned;
  owned.reserve(outputs.size());
  for (const c10::IValue& v : outputs) owned.push_back(Ref::steal(to_python(v)));
  if (e.output->single()) return owned[0].release();
  std::vector<PyObject*> leaves;
  for (const Ref& r : owned) leaves.push_back(r.get());
  Ref built = e.output->build(leaves.data());
  if (e.effects.empty()) return built.release();
  PyObject* values = PyTuple_GET_ITEM(built.get(), 1);
  for (size_t i = 0; i < e.effects.size(); ++i) {
    const frontend::Effect& effect = e.effects[i];
    PyObject* value = effect.after ? PyList_GET_ITEM(values, static_cast<Py_ssize_t>(i)) : nullptr;
    if (!frontend::apply_effect(effect, value)) throw frontend::PythonError();
  }
  return Ref::borrow(PyTuple_GET_ITEM(built.get(), 0)).release();
}

// Runs the function on proxies of its arguments.  If it writes to memory that several inputs share, it is run again
// with that memory as one input.
frontend::Acquired JitFunction::acquire(CacheEntry& e, std::unique_ptr<frontend::Tracer>& tracer, PyObject* const* args,
                                        size_t nargs, PyObject* names) {
  bool interprets = interpreter_enabled();
  if (!interprets) {
    if (module_.get() != Py_None) e.world.watch_module(module_.get());
    else e.world.watch_function(fn_.get());
  }
  std::vector<const void*> shared;
  while (true) {
    tracer = std::make_unique<frontend::Tracer>(shared);
    frontend::Reads reads(*tracer, edges_);
    if (interprets) tracer->set_observer(&reads);
    if (module_.get() != Py_None) reads.name_root(module_.get(), "module");
    size_t next = 0;
    auto proxy = [&](PyObject* t) { return tracer->add_argument(t, next++); };
    Ref call_args = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(nargs)));
    for (size_t i = 0; i < nargs; ++i)
      PyTuple_SET_ITEM(call_args.get(), i, frontend::rebuild(args[i], proxy).release());
    Ref call_kwargs = Ref::steal(PyDict_New());
    for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i) {
      Ref value = frontend::rebuild(args[nargs + i], proxy);
      if (PyDict_SetItem(call_kwargs.get(), PyTuple_GET_ITEM(names, i), value.get()) != 0)
        throw frontend::PythonError();
    }
    reads.made_argument(call_args.get());
    reads.made_argument(call_kwargs.get());
    try {
      Ref result;
      {
        Tracing active;
        result = runner()(*tracer, fn_.get(), call_args.get(), call_kwargs.get());
      }
      e.effects = reads.finish(e.world);
      if (!e.effects.empty()) result = with_effects(result, e.effects);
      std::vector<PyObject*> leaves;
      e.output = std::make_unique<frontend::OutputSpec>(result.get(), leaves);
      return tracer->finish(leaves);
    } catch (...) {
      if (!tracer->shared_memory_written()) throw;
      shared.push_back(tracer->shared_memory_written());
    }
    PyErr_Clear();
  }
}

std::shared_ptr<JitFunction::CacheEntry> JitFunction::compile(const Key& key, PyObject* const* args, size_t nargs,
                                                              PyObject* names) {
  auto start = std::chrono::steady_clock::now();
  adopt_default_dtype();
  auto record = std::make_shared<CompileRecord>();
  auto e = std::make_shared<CacheEntry>();
  std::unique_ptr<frontend::Tracer> tracer;
  frontend::Acquired acquired = acquire(*e, tracer, args, nargs, names);
  record->times.acquisition = seconds_since(start);

  ShapeEnv::Scope scope(tracer->shapes());
  start = std::chrono::steady_clock::now();
  bool with_grad = frontend::hooks().grad_enabled();
  record->compiled = thunder::compile(acquired.computation, options_, with_grad);
  record->trivial_epilogue = acquired.trivial_epilogue;
  if (!acquired.trivial_epilogue) record->epilogue = claim(acquired.epilogue, options_.executors, false);
  record->times.passes = seconds_since(start);

  start = std::chrono::steady_clock::now();
  std::shared_ptr<Entry> entry = make_entry(record->compiled, acquired.trivial_epilogue ? nullptr : &record->epilogue);
  // Sums with fewer roundings than eager's are for those who did not ask for eager's.
  if (!options_.fusion.eager_numerics) entry->accumulated = accumulated_;
  if (graphs_) {
    std::vector<char> by_address;
    for (const frontend::InputSource& s : acquired.sources)
      by_address.push_back(s.kind != frontend::InputSource::Argument);
    use_graphs(*entry, graphs_, record->compiled, std::move(by_address));
  }
  e->entry = std::move(entry);
  record->times.programs = seconds_since(start);

  size_t captured = 0;
  for (const frontend::InputSource& s : acquired.sources) {
    bool argument = s.kind == frontend::InputSource::Argument;
    if (!argument) e->world.add_tensor(s.tensor.get());
    e->sources.push_back({!argument, argument ? s.argument : captured++, s.whole_storage});
    e->by_place = e->by_place || s.whole_storage;
  }
  e->fingerprint = key.fingerprint;
  e->key = key.flat.key;
  for (PyObject* o : key.flat.objects) e->objects.push_back(Ref::borrow(o));
  e->captured = e->fingerprint_all(key.flat);
  e->remember();
  record_ = record;
  last_entry_ = e->entry;
  last_ = e;
  if (cache_ == CacheMode::NoCaching || cache_ == CacheMode::SameInput) entries_.clear();
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
  return last_ ? last_->world.lines() : std::vector<std::string>();
}

void JitFunction::clear_cache() { entries_.clear(); }

bool JitFunction::check_guards_only(PyObject* const* args, size_t nargs, PyObject* names) {
  Key key(args, nargs, names);
  return find(key) != nullptr;
}

int JitFunction::traverse(visitproc visit, void* arg) {
  Py_VISIT(fn_.get());
  Py_VISIT(module_.get());
  return 0;
}

}  // namespace thunder
