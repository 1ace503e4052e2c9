#include "bindings/bind.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>

#include "bindings/types.h"
#include "frontend/interpreter/interpreter.h"
#include "frontend/tracer.h"
#include "jit/evaluate.h"
#include "jit/tracing.h"
#include "runtime/convert.h"
#include "runtime/distributed/placements.h"
#include "runtime/generators.h"
#include "runtime/interop.h"
#include "runtime/torch_py.h"
#include "runtime/watchers.h"

namespace thunder::bindings {
namespace {

using frontend::Tracer;

nb::handle run_traced;  // thunder._frontend.run_traced, never released: Python may be gone when statics are destroyed

const at::Tensor& tensor(PyObject* o) { return torch_py::tensor(o); }

bool any_autocast() {
  return at::autocast::is_autocast_enabled(c10::DeviceType::CPU) ||
         at::autocast::is_autocast_enabled(c10::DeviceType::CUDA);
}

Ref borrowed(nb::handle h) { return Ref::borrow(h.ptr()); }

// What DTensors are, and what stands for one in a program; null before PyTorch's are there.
PyTypeObject *dtensor_class = nullptr, *part_class = nullptr;

// One that a plan shards is plain to programs, unless what it shards is a part itself.
bool is_dtensor(PyObject* o) {
  if (!dtensor_class) return false;
  if (Py_TYPE(o) == part_class) return true;
  if (!PyType_IsSubtype(Py_TYPE(o), dtensor_class)) return false;
  const std::shared_ptr<const distributed::Placement> p = distributed::placement_of(o);
  return !p || p->dtensor;
}

// What the front end asks about tensors.
void set_tensor_hooks(frontend::Hooks& h) {
  h.type_of = [](PyObject* o) { return thunder::type_of(tensor(o)); };
  h.is_leaf = [](PyObject* o) {
    const at::Tensor& t = tensor(o);
    return t.is_leaf() || (t.is_view() && t._base().is_leaf());
  };
  h.storage_of = [](PyObject* o) -> const void* {
    return tensor(o).has_storage() ? tensor(o).storage().unsafeGetStorageImpl() : nullptr;
  };
  h.forbid_data = [](PyObject* o) {
    if (tensor(o).has_storage()) tensor(o).storage().unsafeGetStorageImpl()->set_throw_on_mutable_data_ptr();
  };
  h.place_in_storage = [](PyObject* o) {
    const at::Tensor& t = tensor(o);
    int64_t bytes = static_cast<int64_t>(t.storage().nbytes());
    return std::make_pair(t.storage_offset(), bytes / static_cast<int64_t>(t.element_size()));
  };
  h.other_kind_of_tensor = other_kind_of_tensor;
  h.sharded = [](PyObject* o) -> std::optional<frontend::Sharded> {
    const std::shared_ptr<const distributed::Placement> p = distributed::placement_of(o);
    if (!p || !p->planned().sharded) return std::nullopt;
    auto* local = static_cast<PyObject*>(p->local_object.get());
    return frontend::Sharded{p->planned().name, Ref::borrow(local), p->planned().full, p->dtensor};
  };
  h.is_dtensor = is_dtensor;
  h.item = [](PyObject* o) { return thunder::to_python(c10::IValue(tensor(o).item())); };
}

// What the front end asks about PyTorch's state, and has it run.
void set_state_hooks(frontend::Hooks& h) {
  h.function_modes = [] {
    using State = at::impl::PythonTorchFunctionTLS;
    bool enabled = State::get_disabled_state() == at::impl::TorchFunctionDisabledState::ENABLED;
    return enabled ? State::stack_len() : int64_t{-1};
  };
  h.set_python_error = [] { set_python_error(); };
  h.is_distributed = [](PyObject* module) {
    PyObject* plan = PyObject_GetAttrString(module, "_thunder_plan");
    if (!plan) PyErr_Clear();
    Py_XDECREF(plan);
    return plan != nullptr;
  };
  h.watcher = [] { return watched_below_functions() ? watcher() : std::string(); };
  h.grad_enabled = [] { return c10::GradMode::is_enabled() && !c10::InferenceMode::is_enabled(); };
  h.any_autocast = any_autocast;
  h.adopt_settings = adopt_default_dtype;
  h.evaluate = [](const Trace& t) { return thunder::evaluate(t); };
  h.run = [](const Trace& t, const std::vector<frontend::RealInput>& inputs) { return thunder::run_now(t, inputs); };
  h.remember_generators = remember_generators;
  h.run_input = [](const frontend::RealInput& i) {
    return thunder::to_python(program_input(i.object.get(), i.whole_storage));
  };
}

// Dynamo's books on modules that are made are nothing to the program, though the modules are; nor is what the
// profiler's ranges keep, which is another object in every call.  PyTorch's dispatcher keeps pointers to the operators that
// torch.ops caches in its namespaces on first use: their entries outlive an acquisition.
void set_internal_paths(const std::vector<std::string>& paths) {
  frontend::hooks().internal_paths = paths;
  const std::string &own = paths.front(), &torch_path = paths.back();
  frontend::interpreter::set_internal_paths(
      {own, torch_path + "_dynamo/", torch_path + "autograd/profiler.py:record_function.",
       torch_path + "_ops.py:_Ops.__getattr__", torch_path + "_ops.py:_OpNamespace.__getattr__",
       torch_path + "_ops.py:OpOverloadPacket.__getattr__"},
      {torch_path + "_dynamo/mutation_guard.py:install_generation_tagging_init.<locals>.",
       own + "_replacements.py:", own + "_func.py:", own + "module.py:", own + "_inner_modules.py:InnerModule.__call__",
       own + "_inner_modules.py:CompiledMethod.__call__"});
}

Ref run_function(Tracer& t, PyObject* fn, PyObject* args, PyObject* kwargs) {
  nb::object tracer = nb::cast(&t, nb::rv_policy::reference);
  try {
    nb::object result = run_traced(tracer, nb::handle(fn), nb::handle(args), nb::handle(kwargs));
    return Ref::steal(result.release().ptr());
  } catch (nb::python_error& e) {
    if (!e.matches(PyExc_Exception)) throw Interrupted{std::current_exception()};
    throw;
  }
}

// The Python objects that the front end needs; called once by thunder._frontend.
void set_hooks(nb::handle tensor_class, nb::handle proxy_class, const nb::tuple& number_classes, const nb::list& dtypes,
               const nb::list& constants, const std::vector<std::string>& internal_paths, nb::handle runner) {
  frontend::Hooks& h = frontend::hooks();
  nb::object torch = nb::module_::import_("torch");
  h.tensor_class = reinterpret_cast<PyTypeObject*>(tensor_class.ptr());
  h.proxy_class = reinterpret_cast<PyTypeObject*>(proxy_class.ptr());
  h.int_class = borrowed(number_classes[0]);
  h.float_class = borrowed(number_classes[1]);
  h.number_class = borrowed(number_classes[2]);
  set_tensor_hooks(h);
  set_state_hooks(h);
  h.make_wrapper_subclass = borrowed(nb::getattr(tensor_class, "_make_wrapper_subclass"));
  h.swap_tensors = borrowed(torch.attr("_C").attr("_swap_tensor_impl"));
  h.torch_size = borrowed(torch.attr("Size"));
  h.compiler_variables = borrowed(torch.attr("compiler").attr("__dict__"));
  LiteralObjects& literals = literal_objects();
  literals = {.device_class = borrowed(torch.attr("device")), .dtypes = {}, .more_dtypes = {}, .constants = {}};
  for (nb::handle d : dtypes) literals.dtypes.push_back(borrowed(d));
  for (nb::handle c : constants) literals.constants.emplace_back(borrowed(c[0]), nb::cast<std::string>(c[1]));
  set_internal_paths(internal_paths);
  run_traced = runner.inc_ref();
  function_runner() = run_function;
}

void register_function(nb::handle callable, const std::string& kind, const std::string& op, bool in_place,
                       bool reflected, bool method, nb::handle handler, nb::handle result, const std::string& language,
                       bool creates) {
  frontend::TorchFunction f;
  f.kind = kind == "operator"       ? frontend::TorchFunction::Operator
           : kind == "pass through" ? frontend::TorchFunction::PassThrough
                                    : frontend::TorchFunction::Handler;
  f.op = op;
  f.in_place = in_place;
  f.reflected = reflected;
  f.method = method;
  if (!handler.is_none()) f.handler = borrowed(handler);
  if (!result.is_none()) f.result = borrowed(result);
  f.creates = creates;
  frontend::Language::named(language).add(callable.ptr(), std::move(f));
}

// What the program calls.
void bind_torch_functions(nb::module_& m) {
  m.def("register_function", register_function, nb::arg("callable"), nb::arg("kind"), nb::arg("op") = "",
        nb::arg("in_place") = false, nb::arg("reflected") = false, nb::arg("method") = false,
        nb::arg("handler").none() = nb::none(), nb::arg("result").none() = nb::none(), nb::arg("language") = "torch",
        nb::arg("creates") = false);
  m.def("register_attribute",
        [](const std::string& language, const std::string& name, nb::handle function, bool method) {
          frontend::Language::named(language).add_attribute(name, function.ptr(), method);
        });
  m.def("is_registered", [](nb::handle callable) { return frontend::find_torch_function(callable.ptr()) != nullptr; });
  m.def(
      "replace_function",
      [](nb::handle function, nb::handle by) {
        frontend::hooks().replaced[PyFunction_GET_CODE(function.ptr())] = borrowed(by);
      },
      nb::arg("function"), nb::arg("by"), "A function of PyTorch's, and what compiled functions call in its place.");
  m.def("set_unrecorded", [](nb::handle function) { frontend::hooks().unrecorded = borrowed(function); });
}

// The state of PyTorch that programs depend on.
void bind_settings(nb::module_& m) {
  m.def("set_hooks", set_hooks);
  m.def("settings_version", settings_version);
  m.def("set_outside_states", [](nb::handle module) { frontend::hooks().outside_states = borrowed(module); });
  m.def("set_autocast", [](nb::handle function) { frontend::hooks().autocast = borrowed(function); });
  m.def("any_autocast", any_autocast);
}

// Dtypes, numbers and DTensors as the front end knows them.
void bind_literals(nb::module_& m) {
  m.def(
      "add_dtypes",
      [](const nb::list& aliases) {
        for (nb::handle a : aliases)
          literal_objects().more_dtypes.emplace_back(borrowed(a[0]),
                                                     *dtype_from_torch_name(nb::cast<std::string>(a[1])));
      },
      "Objects that mean dtypes: pairs of one and PyTorch's name.");
  m.def("dtype_names", [] {
    std::vector<std::string> out;
    for (int i = 0; i < kNumDTypes; ++i) out.emplace_back(torch_name(static_cast<DType>(i)));
    return out;
  });
  m.def("number_hint", [](nb::handle number) { return object(frontend::number_hint(number.ptr())); });
  m.def(
      "may_be_one", [](nb::handle number) { return frontend::may_be_one(number.ptr()); },
      "Whether a traced number is a size that is 1 in some calls of the program.");
  m.def("holds_dtensor", [](nb::handle o) { return frontend::holds_dtensor(o.ptr()); });
  m.def(
      "set_dtensors",
      [](nb::handle dtensor, nb::handle part, nb::handle function) {
        dtensor_class = reinterpret_cast<PyTypeObject*>(dtensor.inc_ref().ptr());
        part_class = reinterpret_cast<PyTypeObject*>(part.inc_ref().ptr());
        frontend::hooks().of_dtensors = borrowed(function);
      },
      nb::arg("dtensor"), nb::arg("part"), nb::arg("function"),
      "PyTorch's class, the class of what stands for one in programs, and what records a torch call with either.");
}

}  // namespace

void bind_frontend(nb::module_& m) {
  set_current_index(current_device_index);
  bind_torch_functions(m);
  bind_settings(m);
  bind_literals(m);
}

}  // namespace thunder::bindings
