// The type of compiled functions: a plain CPython type with vectorcall, because a nanobind call would cost as much as
// the call.
#include <Python.h>

#include <cstddef>

#include "bindings/bind.h"
#include "bindings/options.h"
#include "bindings/types.h"
#include "executors/attention/backend.h"
#include "jit/evaluate.h"
#include "jit/function.h"
#include "runtime/backward_calls.h"
#include "runtime/host_memory.h"
#include "runtime/interop.h"
#include "runtime/own_streams.h"
#include "runtime/torch_py.h"
#include "runtime/watchers.h"

namespace thunder::bindings {
namespace {

struct FunctionObject {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  JitFunction* impl;
  PyObject* dict;
  PyObject* weakrefs;
};

JitFunction& impl(PyObject* self) { return *reinterpret_cast<FunctionObject*>(self)->impl; }

PyObject* call(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* names) {
  try {
    return impl(self).call(args, PyVectorcall_NARGS(nargsf), names);
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  auto* f = reinterpret_cast<FunctionObject*>(self);
  Py_VISIT(f->dict);
  return f->impl ? f->impl->traverse(visit, arg) : 0;
}

int clear(PyObject* self) {
  auto* f = reinterpret_cast<FunctionObject*>(self);
  Py_CLEAR(f->dict);
  return 0;
}

void dealloc(PyObject* self) {
  auto* f = reinterpret_cast<FunctionObject*>(self);
  PyObject_GC_UnTrack(self);
  if (f->weakrefs) PyObject_ClearWeakRefs(self);
  Py_CLEAR(f->dict);
  delete f->impl;
  Py_TYPE(self)->tp_free(self);
}

// As a class attribute it binds like a function.
PyObject* descr_get(PyObject* self, PyObject* object, PyObject*) {
  return object && object != Py_None ? PyMethod_New(self, object) : Py_NewRef(self);
}

PyGetSetDef getset[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
                        {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyTypeObject* function_type() {
  static PyTypeObject type = [] {
    PyTypeObject t{};
    t.ob_base = PyVarObject{PyObject_HEAD_INIT(nullptr) 0};
    t.tp_name = "thunder._C.CompiledFunction";
    t.tp_doc = "A function compiled by thunder.jit.";
    t.tp_basicsize = sizeof(FunctionObject);
    t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL;
    t.tp_vectorcall_offset = offsetof(FunctionObject, vectorcall);
    t.tp_call = PyVectorcall_Call;
    t.tp_traverse = traverse;
    t.tp_clear = clear;
    t.tp_dealloc = dealloc;
    t.tp_descr_get = descr_get;
    t.tp_dictoffset = offsetof(FunctionObject, dict);
    t.tp_weaklistoffset = offsetof(FunctionObject, weakrefs);
    t.tp_getset = getset;
    return t;
  }();
  if (!(type.tp_flags & Py_TPFLAGS_READY) && PyType_Ready(&type) < 0) throw nb::python_error();
  return &type;
}

JitFunction& function(nb::handle h) {
  if (Py_TYPE(h.ptr()) != function_type())
    throw Error(ErrorKind::Type, "[jit] a function compiled by thunder.jit was expected");
  return impl(h.ptr());
}

nb::object make_function(nb::handle fn, nb::handle module, nb::handle options) {
  UserFunction function(fn.ptr(), module.ptr(), read_options(options, fn));
  FunctionObject* o = PyObject_GC_New(FunctionObject, function_type());
  if (!o) throw nb::python_error();
  o->vectorcall = call;
  o->dict = nullptr;
  o->weakrefs = nullptr;
  o->impl = nullptr;
  nb::object owner = nb::steal(reinterpret_cast<PyObject*>(o));
  o->impl = new JitFunction(std::move(function));
  PyObject_GC_Track(reinterpret_cast<PyObject*>(o));
  return owner;
}

std::vector<PyTrace> wrap(const TraceHistory& history) {
  std::vector<PyTrace> out;
  for (const Trace& t : history) out.push_back({t});
  return out;
}

// The last traces of a call's forward and backward, compiled for a device that need not be here.
std::pair<PyTrace, std::optional<PyTrace>> compile_for(nb::handle h, int capability, int64_t cudnn_version,
                                                       const nb::tuple& args, const nb::dict& kwargs) {
  // Of the arguments and parameters that lie there none has memory.
  struct Unwatched {
    Unwatched() { set_ignores_watchers(true); }
    ~Unwatched() { set_ignores_watchers(before); }
    const bool before = ignores_watchers();
  } unwatched;
  const attention::OtherGpu gpu(capability, cudnn_version);
  std::vector<PyObject*> given;
  for (nb::handle a : args) given.push_back(a.ptr());
  nb::list names;
  for (auto [name, value] : kwargs) {
    names.append(name);
    given.push_back(value.ptr());
  }
  const nb::tuple keywords(names);
  const Compiled& c = function(h).compile_only(given.data(), nb::len(args), keywords.ptr())->compiled;
  std::optional<PyTrace> backward;
  if (c.has_backward) backward = PyTrace{c.backward};
  return {PyTrace{c.forward}, std::move(backward)};
}

nb::dict stats(nb::handle h) {
  JitFunction& f = function(h);
  const Inspection& last = f.inspection();
  nb::dict d;
  d["cache_hits"] = f.hits();
  d["cache_misses"] = f.misses();
  d["last_miss"] = f.last_miss();
  d["guards"] = last.number_guards;
  d["symbols"] = last.symbols;
  d["not_symbolic"] = last.not_symbolic;
  d["not_cached"] = last.keeping.why().value_or("");
  nb::dict eager;
  for (const auto& [why, calls] : f.eager_calls().counts()) eager[nb::str(why.c_str())] = calls;
  d["eager_calls"] = eager;
  d["accumulated_gradients"] = f.function().accumulated->load();
  if (last.record) {
    d["acquisition_seconds"] = last.record->times.acquisition;
    d["passes_seconds"] = last.record->times.passes;
    d["programs_seconds"] = last.record->times.programs;
  }
  if (f.function().options.float8 && last.record) {
    nb::dict float8, others;
    for (const auto& [name, why] : last.record->float8.others) others[nb::str(name.c_str())] = why;
    float8["layers"] = last.record->float8.layers;
    float8["others"] = others;
    d["float8"] = float8;
  }
  if (const GraphSettings* g = f.function().options.graphs.get()) {
    nb::dict counts;
    counts["captures"] = g->captures;
    counts["replays"] = g->replays;
    counts["ungraphed"] = g->ungraphed;
    counts["bytes"] = g->bytes.load();
    nb::dict why;
    for (const auto& [reason, programs] : g->why) why[nb::str(reason.c_str())] = programs;
    counts["why"] = why;
    d["graphs"] = counts;
  }
  return d;
}

// Compiled functions.
void bind_compiled_functions(nb::module_& m) {
  nb::class_<Float8Recorded>(m, "Float8Recorded", "Whether scales can follow from what backwards have recorded.")
      .def(nb::init<>())
      .def_prop_rw(
          "yes", [](const Float8Recorded& r) { return r.yes->load(); },
          [](Float8Recorded& r, bool yes) { *r.yes = yes; });
  m.attr("CompiledFunction") = nb::borrow(reinterpret_cast<PyObject*>(function_type()));
  m.def("make_function", make_function, nb::arg("fn"), nb::arg("module").none(), nb::arg("options"),
        "The compiled function of `fn`. `module`: the nn.Module that it runs, or None. `options`: the Options of "
        "thunder/_options.py.");
  m.def("compile_for", compile_for, nb::arg("function"), nb::arg("capability"), nb::arg("cudnn_version"),
        nb::arg("args"), nb::arg("kwargs"),
        "The last traces of a call's forward and backward (or None), compiled for a GPU that need not be here; nothing "
        "is run, and tensors may be of subclasses without memory. `capability`: 90 for 9.0.");
  m.def(
      "set_inner_modules",
      [](nb::handle h, nb::handle modules, bool quiet) {
        function(h).eager_calls().set_inner_modules(modules.ptr(), quiet);
      },
      nb::arg("function"), nb::arg("modules"), nb::arg("quiet"));
  m.def(
      "inner_modules",
      [](nb::handle h) {
        PyObject* modules = function(h).eager_calls().inner_modules();
        return nb::borrow<nb::object>(modules ? modules : Py_None);
      },
      "The InnerModules of thunder/_inner_modules.py, or None.");
  m.def("clear_cache", [](nb::handle h) { function(h).clear_cache(); });
  m.def(
      "check_guards",
      [](nb::handle h, nb::args args) {
        std::vector<PyObject*> list;
        for (nb::handle a : args) list.push_back(a.ptr());
        return function(h).check_guards_only(list.data(), list.size(), nullptr);
      },
      "Whether a call with these positional arguments would hit the cache; runs the guards and nothing else.");
}

// What is known of a compilation.
void bind_inspection(nb::module_& m) {
  m.def("last_traces", [](nb::handle h) {
    const auto& record = function(h).inspection().record;
    return record ? wrap(record->compiled.history) : std::vector<PyTrace>{};
  });
  m.def("last_backward_traces", [](nb::handle h) {
    const auto& record = function(h).inspection().record;
    return record ? wrap(record->compiled.backward_history) : std::vector<PyTrace>{};
  });
  m.def("last_epilogue_traces", [](nb::handle h) {
    const auto& record = function(h).inspection().record;
    std::vector<PyTrace> out;
    if (record && !record->trivial_epilogue) out.push_back({record->epilogue});
    return out;
  });
  m.def("last_program", [](nb::handle h) { return function(h).inspection().program_text(); });
  m.def("guards", [](nb::handle h) { return function(h).guards(); });
  m.def("stats", stats);
}

// The backward that runs in this thread.
void bind_backward(nb::module_& m) {
  m.def(
      "backward_uses",
      [](int64_t outputs) {
        const RunningBackward* running = RunningBackward::current();
        return !running || running->uses(static_cast<uint64_t>(outputs));
      },
      nb::arg("outputs"), "Whether one of these outputs, given by bits, has a gradient in the backward that runs.");
  m.def(
      "keep_gradient",
      [](size_t place, nb::handle gradient) {
        if (RunningBackward* running = RunningBackward::current())
          running->keep_gradient(place, torch_py::tensor(gradient.ptr()));
      },
      nb::arg("place"), nb::arg("gradient"), "Adds to the .grad of a result of the call whose backward runs.");
  m.def(
      "backward_notes",
      [] {
        RunningBackward* running = RunningBackward::current();
        THUNDER_ASSERT(running, "no backward runs in this thread");
        std::shared_ptr<void>& notes = running->calls().notes;
        if (!notes) notes = hold_python(nb::dict().ptr());
        return nb::borrow(static_cast<PyObject*>(notes.get()));
      },
      "A dict that belongs to the call of a function whose backward runs.");
}

// Streams and memory, and operators by themselves.
void bind_machine(nb::module_& m) {
  m.def(
      "take_stream",
      [](int8_t gpu) {
        const c10::Stream s = take_stream({c10::DeviceType::CUDA, gpu});
        return nb::make_tuple(s.id(), s.device_index(), static_cast<int>(s.device_type()));
      },
      nb::arg("gpu"),
      "A stream of PyTorch's pool for work of this project: id, device index and device type of a torch.cuda.Stream.");
  m.def(
      "others_took_streams",
      [](int8_t gpu) {
        return others_took_streams({c10::DeviceType::CUDA, gpu});
      },
      nb::arg("gpu"), "Whether somebody else has taken a stream of normal priority on this GPU.");
  m.def(
      "evaluate",
      [](const std::string& name, const nb::tuple& args, const nb::dict& kwargs) {
        return object(evaluate(name, args.ptr(), kwargs.ptr()));
      },
      "Runs one operator on real tensors, without autograd.");
  m.def(
      "empty_cache", [] { host_cache().clear(); }, nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "host_cache_stats",
      [] {
        const BlockCache::Stats s = host_cache().stats();
        nb::dict d;
        d["live"] = s.live;
        d["cached"] = s.cached;
        d["made"] = s.made;
        d["reused"] = s.reused;
        return d;
      },
      "Of memory on the CPU for what programs compute: bytes that tensors hold and that are kept for later ones, and "
      "how "
      "many blocks were new and how many were found among those kept.");
  m.def(
      "set_ignores_watchers", &set_ignores_watchers, nb::arg("on"),
      "Tests compile for devices that are not there, on fake tensors: modes and classes of tensors do not make a call "
      "run eagerly then.");
}

}  // namespace

void bind_function(nb::module_& m) {
  bind_compiled_functions(m);
  bind_inspection(m);
  bind_backward(m);
  bind_machine(m);
}

}  // namespace thunder::bindings
