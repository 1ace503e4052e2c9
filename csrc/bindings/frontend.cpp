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

std::vector<PyObject*> pointers(const nb::list& objects) {
  std::vector<PyObject*> out;
  for (nb::handle h : objects) out.push_back(h.ptr());
  return out;
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
  h.function_modes = [] {
    using State = at::impl::PythonTorchFunctionTLS;
    bool enabled = State::get_disabled_state() == at::impl::TorchFunctionDisabledState::ENABLED;
    return enabled ? State::stack_len() : int64_t{-1};
  };
  h.set_python_error = [] { set_python_error(); };
  h.other_kind_of_tensor = other_kind_of_tensor;
  h.is_distributed = [](PyObject* module) {
    PyObject* plan = PyObject_GetAttrString(module, "_thunder_plan");
    if (!plan) PyErr_Clear();
    Py_XDECREF(plan);
    return plan != nullptr;
  };
  h.sharded = [](PyObject* o) -> std::optional<frontend::Sharded> {
    const std::shared_ptr<const distributed::Placement> p = distributed::placement_of(o);
    if (!p || !p->planned().sharded) return std::nullopt;
    auto* local = static_cast<PyObject*>(p->local_object.get());
    return frontend::Sharded{p->planned().name, Ref::borrow(local), p->planned().full, p->dtensor};
  };
  h.is_dtensor = is_dtensor;
  h.watcher = [] { return watched_below_functions() ? watcher() : std::string(); };
  h.grad_enabled = [] { return c10::GradMode::is_enabled() && !c10::InferenceMode::is_enabled(); };
  h.any_autocast = any_autocast;
  h.adopt_settings = adopt_default_dtype;
  h.evaluate = [](const Trace& t) { return thunder::evaluate(t); };
  h.run = [](const Trace& t, const std::vector<frontend::RealInput>& inputs) { return thunder::run_now(t, inputs); };
  h.remember_generators = remember_generators;
  h.item = [](PyObject* o) { return thunder::to_python(c10::IValue(tensor(o).item())); };
  h.run_input = [](const frontend::RealInput& i) {
    return thunder::to_python(program_input(i.object.get(), i.whole_storage));
  };
  h.make_wrapper_subclass = borrowed(nb::getattr(tensor_class, "_make_wrapper_subclass"));
  h.swap_tensors = borrowed(torch.attr("_C").attr("_swap_tensor_impl"));
  h.torch_size = borrowed(torch.attr("Size"));
  LiteralObjects& literals = literal_objects();
  literals = {.device_class = borrowed(torch.attr("device")), .dtypes = {}, .more_dtypes = {}, .constants = {}};
  for (nb::handle d : dtypes) literals.dtypes.push_back(borrowed(d));
  for (nb::handle c : constants) literals.constants.emplace_back(borrowed(c[0]), nb::cast<std::string>(c[1]));
  h.internal_paths = internal_paths;
  const std::string& torch_path = internal_paths.back();
  // Dynamo's books on modules that are made are nothing to the program, though the modules are; nor is what the profiler's ranges keep, which is
  // another object in every call.  PyTorch's dispatcher keeps pointers to the operators that torch.ops caches in its
  // namespaces on first use: their entries outlive an acquisition.
  const std::string& own = internal_paths.front();
  frontend::interpreter::set_internal_paths(
      {own, torch_path + "_dynamo/", torch_path + "autograd/profiler.py:record_function.",
       torch_path + "_ops.py:_Ops.__getattr__", torch_path + "_ops.py:_OpNamespace.__getattr__",
       torch_path + "_ops.py:OpOverloadPacket.__getattr__"},
      {torch_path + "_dynamo/mutation_guard.py:install_generation_tagging_init.<locals>.",
       own + "_replacements.py:", own + "_func.py:", own + "module.py:", own + "_inner_modules.py:InnerModule.__call__",
       own + "_inner_modules.py:CompiledMethod.__call__"});
  run_traced = runner.inc_ref();
  function_runner() = [](Tracer& t, PyObject* fn, PyObject* args, PyObject* kwargs) {
    nb::object tracer = nb::cast(&t, nb::rv_policy::reference);
    try {
      nb::object result = run_traced(tracer, nb::handle(fn), nb::handle(args), nb::handle(kwargs));
      return Ref::steal(result.release().ptr());
    } catch (nb::python_error& e) {
      if (!e.matches(PyExc_Exception)) throw Interrupted{std::current_exception()};
      throw;
    }
  };
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

// Sizes of a traced tensor: ints, and traced numbers where only the run knows.
nb::tuple dims(const Dims& sizes) {
  nb::list out;
  for (const Dim& d : sizes) out.append(object(frontend::to_python(Arg(d), [](Value) -> Ref { return {}; })));
  return nb::tuple(out);
}

}  // namespace

void bind_frontend(nb::module_& m) {
  nb::class_<Tracer>(m, "Tracer", "Records the torch calls of a running function.")
      .def(
          "handle",
          [](Tracer& t, nb::handle func, nb::handle args, nb::handle kwargs) {
            return object(t.calls().handle(func.ptr(), args.ptr(), kwargs.is_none() ? nullptr : kwargs.ptr()));
          },
          nb::arg("func"), nb::arg("args"), nb::arg("kwargs").none())
      .def(
          "apply",
          [](Tracer& t, const std::string& op, const nb::tuple& args, const nb::dict& kwargs, bool in_place) {
            return object(t.calls().apply(op, args.ptr(), kwargs.ptr(), in_place));
          },
          nb::arg("op"), nb::arg("args"), nb::arg("kwargs") = nb::dict(), nb::arg("in_place") = false)
      .def("call_symbol", [](Tracer& t, const std::string& op, const nb::tuple& args,
                             const nb::dict& kwargs) { return object(t.calls().call_symbol(op, args.ptr(), kwargs.ptr())); })
      .def("copy_into", [](Tracer& t, nb::handle target, nb::handle source,
                           const std::string& op) { t.mutation().copy_into(target.ptr(), source.ptr(), op.c_str()); })
      .def("write_out", [](Tracer& t, nb::handle out, nb::handle result,
                           const std::string& op) { t.mutation().write_out(out.ptr(), t.tensors().convert(result.ptr()), op); })
      .def("run", [](Tracer& t, nb::handle fn, nb::handle args,
                     nb::handle kwargs) { return object(t.run(fn.ptr(), args.ptr(), kwargs.ptr())); })
      .def(
          "set_language",
          [](Tracer& t, const std::string& name) {
            std::string before = t.calls().language() ? t.calls().language()->name() : "torch";
            t.calls().set_language(name == "torch" ? nullptr : &frontend::Language::named(name));
            return before;
          },
          "The language of the user's code from here on; returns the one before.")
      .def(
          "leave_to_eager",
          [](Tracer& t, const std::string& why, bool warns) { t.leave_to_eager(why, nullptr, warns); }, nb::arg("why"),
          nb::arg("warns") = false,
          "Ends the acquisition: the function itself has to run, for this reason, of which the user is told if "
          "`warns`.")
      .def("take_calls", [](Tracer& t) { t.calls().take_calls(); })
      .def_prop_ro("interprets", &Tracer::interprets)
      .def_ro("seems_compiled", &Tracer::seems_compiled)
      .def("add_captured", [](Tracer& t, nb::handle tensor) { t.tensors().add_captured(tensor.ptr()); })
      .def("add_part", [](Tracer& t, nb::handle dtensor, nb::handle local,
                          nb::handle wrap) { return object(t.dtensors().add_part(dtensor.ptr(), local.ptr(), wrap.ptr())); })
      .def("values", [](Tracer& t, const nb::list& tensors) { return t.dtensors().values(pointers(tensors)); })
      .def("calls_made", [](Tracer& t) { return t.dtensors().calls_made(); })
      .def("begin_trial", [](Tracer& t) { t.dtensors().begin_trial(); })
      .def("end_trial", [](Tracer& t, size_t since) { return t.dtensors().end_trial(since); })
      .def("whole_of",
           [](Tracer& t, nb::handle part, nb::handle sizes) { return object(t.dtensors().whole_of(part.ptr(), sizes.ptr())); })
      .def("parts",
           [](Tracer& t, size_t since, const std::vector<std::pair<nb::object, int64_t>>& given,
              const nb::list& results) {
             std::vector<std::pair<PyObject*, int64_t>> parts;
             for (const auto& [tensor, dim] : given) parts.emplace_back(tensor.ptr(), dim);
             return t.dtensors().parts(since, parts, pointers(results));
           })
      .def("shape", [](Tracer& t, nb::handle o) { return dims(t.tensors().type_of(o.ptr()).shape); })
      .def("stride", [](Tracer& t, nb::handle o) { return dims(t.tensors().type_of(o.ptr()).strides); })
      .def("keep_strides", [](Tracer& t, nb::handle o) { t.layouts().keep_strides(t.tensors().type_of(o.ptr())); })
      .def("layout", [](Tracer& t, nb::handle o) { return std::string(layout_name(t.tensors().type_of(o.ptr()).layout)); })
      .def("dense_dims", [](Tracer& t, nb::handle o) { return t.tensors().type_of(o.ptr()).dense_dims; })
      .def("is_contiguous",
           [](Tracer& t, nb::handle o, const std::string& format) { return t.located([&] { return frontend::Layouts::has_format(t.tensors().type_of(o.ptr()), format); }); })
      .def("number_operation", [](Tracer& t, const std::string& op, nb::handle a,
                                  nb::handle b) { return object(t.numbers().operation(op, a.ptr(), b.ptr())); })
      .def("number_function", [](Tracer& t, const std::string& name, nb::handle number,
                                 int64_t digits) { return object(t.numbers().function(name, number.ptr(), digits)); })
      .def("specialize", [](Tracer& t, nb::handle number) { return object(t.numbers().specialize(number.ptr())); })
      .def("made", [](Tracer& t, nb::handle container) { t.made(container.ptr()); })
      .def("call_user",
           [](Tracer& t, nb::handle fn, const nb::tuple& args) { return object(frontend::call_user(fn.ptr(), args.ptr())); })
      .def(
          "with_gradient",
          [](Tracer& t, const nb::list& outputs, const nb::list& inputs, nb::handle backward, const std::string& name) {
            nb::list results;
            for (Ref& r : t.custom_gradients().with_gradient(pointers(outputs), pointers(inputs), backward.ptr(), name))
              results.append(object(std::move(r)));
            return results;
          })
      .def("made_inside", [](Tracer& t, nb::handle o) { return t.made_inside(o.ptr()); })
      .def("why_no_hook", [](Tracer& t, nb::handle o) { return t.gradient_hooks().why_none(o.ptr()); })
      .def("put_hook", [](Tracer& t, nb::handle o, nb::handle backward, const std::string& name,
                          bool last) { return t.gradient_hooks().put(o.ptr(), backward.ptr(), name, last); })
      .def("remove_hook", [](Tracer& t, size_t number) { t.gradient_hooks().remove(number); })
      .def("is_plain_input", [](Tracer& t, nb::handle o) { return t.tensors().is_plain_input(t.tensors().id_of(o.ptr())); })
      .def("retain_gradient", [](Tracer& t, nb::handle o) { return t.gradient_hooks().retain(o.ptr()); })
      .def("forbid_writes", [](Tracer& t, nb::handle o) { t.mutation().forbid_writes(o.ptr()); })
      .def("gradients",
           [](Tracer& t, const nb::list& outputs, const nb::list& cotangents, const nb::list& inputs, bool create_graph,
              bool retain_graph, bool batched) {
             nb::list results;
             for (Ref& r : t.gradients().of(pointers(outputs), pointers(cotangents), pointers(inputs), create_graph,
                                       retain_graph, batched))
               results.append(object(std::move(r)));
             return results;
           })
      .def(
          "pullback",
          [](Tracer& t, nb::handle fn, const nb::list& inputs, bool recording, bool linear, bool any_cotangent) {
            auto [results, number] = t.derivatives().pullback(fn.ptr(), pointers(inputs), recording, linear, any_cotangent);
            return nb::make_tuple(object(std::move(results)), number);
          },
          nb::arg("fn"), nb::arg("inputs"), nb::arg("recording"), nb::arg("linear"), nb::arg("any_cotangent"),
          "Records a function of tensors, and its gradient apart: the list that it returns, and a number for pull().")
      .def("pull",
           [](Tracer& t, size_t number, const nb::list& cotangents) {
             nb::list results;
             for (Ref& r : t.derivatives().pull(number, pointers(cotangents))) results.append(object(std::move(r)));
             return results;
           })
      .def("batched",
           [](Tracer& t, nb::handle fn, const nb::list& batches, const std::string& randomness) {
             nb::list results;
             for (Ref& r : t.batched().call(fn.ptr(), pointers(batches), randomness)) results.append(object(std::move(r)));
             return results;
           })
      .def("share_memory", [](Tracer& t, nb::handle a, nb::handle b) { return t.aliases().share_memory(t.tensors().id_of(a.ptr()), t.tensors().id_of(b.ptr())); })
      .def("is_from_outside", [](Tracer& t, nb::handle o) { return t.tensors().is_outside(t.tensors().id_of(o.ptr())); })
      .def("set_data", [](Tracer& t, nb::handle to, nb::handle from) { t.mutation().set_data(to.ptr(), from.ptr()); })
      .def("set_uncounted", [](Tracer& t, nb::handle o) { t.aliases().set_uncounted(t.tensors().id_of(o.ptr())); })
      .def("made_leaf", [](Tracer& t, nb::handle o) { return t.mutation().made_leaf(o.ptr()); })
      .def(
          "has_gradient", [](Tracer& t, nb::handle o) { return t.tensors().type_of(o.ptr()).requires_grad; },
          "Whether gradients flow through it: requires_grad, but for views that were made under no_grad.")
      .def("check_writable",
           [](Tracer& t, nb::handle o, const std::string& op) { t.mutation().check_writable(o.ptr(), op.c_str()); })
      .def("require_grad", [](Tracer& t, nb::handle o) { t.mutation().require_grad(o.ptr()); })
      .def("requires_grad", [](Tracer& t, nb::handle o) { return t.aliases().requires_grad(t.tensors().id_of(o.ptr())); })
      .def(
          "memory_from",
          [](Tracer& t, nb::handle tensor, nb::handle sizes, nb::handle strides,
             nb::handle
                 offset) { return object(t.strided().memory_from(tensor.ptr(), sizes.ptr(), strides.ptr(), offset.ptr())); },
          nb::arg("tensor"), nb::arg("sizes"), nb::arg("strides"), nb::arg("storage_offset").none())
      .def("become", [](Tracer& t, nb::handle tensor, nb::handle other,
                        const std::string& op) { t.mutation().become(tensor.ptr(), other.ptr(), op.c_str()); })
      .def("detach_in_place", [](Tracer& t, nb::handle o) { t.mutation().detach_in_place(o.ptr()); })
      .def("is_conj", [](Tracer& t, nb::handle o) { return t.aliases().is_conj(t.tensors().id_of(o.ptr())); })
      .def("describe", [](Tracer& t, nb::handle o) { return Type(t.tensors().type_of(o.ptr())).str(); })
      .def("constant",
           [](Tracer& t, nb::handle o) {
             Ref value = t.constants().find(o.ptr());
             return value ? object(std::move(value)) : nb::object(nb::none());
           })
      .def("read", [](Tracer& t, nb::handle o, const std::string& what) { return object(t.questions().read(o.ptr(), what)); })
      .def("drawn",
           [](Tracer& t, nb::handle array, bool shares) {
             Ref tensor = t.draws().tensor_of(array.ptr(), shares);
             return tensor ? object(std::move(tensor)) : nb::object(nb::none());
           })
      .def("knows", [](Tracer& t, nb::handle o) { return t.proxies().knows(o.ptr()); })
      .def_prop_ro("location", [](Tracer& t) { return t.location(); });
  set_current_index(current_device_index);
  m.def("set_hooks", set_hooks);
  m.def("settings_version", settings_version);
  m.def("set_unrecorded", [](nb::handle function) { frontend::hooks().unrecorded = borrowed(function); });
  m.def("set_outside_states", [](nb::handle module) { frontend::hooks().outside_states = borrowed(module); });
  m.def("register_function", register_function, nb::arg("callable"), nb::arg("kind"), nb::arg("op") = "",
        nb::arg("in_place") = false, nb::arg("reflected") = false, nb::arg("method") = false,
        nb::arg("handler").none() = nb::none(), nb::arg("result").none() = nb::none(), nb::arg("language") = "torch",
        nb::arg("creates") = false);
  m.def("register_attribute",
        [](const std::string& language, const std::string& name, nb::handle function, bool method) {
          frontend::Language::named(language).add_attribute(name, function.ptr(), method);
        });
  m.def(
      "add_dtypes",
      [](const nb::list& aliases) {
        for (nb::handle a : aliases)
          literal_objects().more_dtypes.emplace_back(borrowed(a[0]),
                                                     *dtype_from_torch_name(nb::cast<std::string>(a[1])));
      },
      "Objects that mean dtypes: pairs of one and PyTorch's name.");
  m.def("is_registered", [](nb::handle callable) { return frontend::find_torch_function(callable.ptr()) != nullptr; });
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
  m.def(
      "replace_function",
      [](nb::handle function, nb::handle by) {
        frontend::hooks().replaced[PyFunction_GET_CODE(function.ptr())] = borrowed(by);
      },
      nb::arg("function"), nb::arg("by"), "A function of PyTorch's, and what compiled functions call in its place.");
  m.def("set_autocast", [](nb::handle function) { frontend::hooks().autocast = borrowed(function); });
  m.def("any_autocast", any_autocast);
  m.def("number_hint", [](nb::handle number) { return object(frontend::number_hint(number.ptr())); });
  m.def(
      "may_be_one", [](nb::handle number) { return frontend::may_be_one(number.ptr()); },
      "Whether a traced number is a size that is 1 in some calls of the program.");
  m.def("dtype_names", [] {
    std::vector<std::string> out;
    for (int i = 0; i < kNumDTypes; ++i) out.emplace_back(torch_name(static_cast<DType>(i)));
    return out;
  });
}

}  // namespace thunder::bindings
