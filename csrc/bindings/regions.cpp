// Traces as fusion passes in Python see them: values, arguments, regions.
#include "bindings/bind.h"
#include "bindings/types.h"
#include "executors/aten/lowering.h"
#include "frontend/hooks.h"
#include "passes/region.h"
#include "passes/visit.h"
#include "runtime/interop.h"
#include "runtime/program.h"

namespace thunder::bindings {
namespace {

using frontend::Ref;

Ref wrap(Value v, const std::shared_ptr<Arena>& arena) { return Ref::steal(nb::cast(PyValue{v, arena}).release().ptr()); }

nb::object wrap_arg(const Arg& a, const std::shared_ptr<Arena>& arena) {
  return object(frontend::to_python(a, [&](Value v) { return wrap(v, arena); }));
}

nb::list wrap_values(const std::vector<Value>& values, const std::shared_ptr<Arena>& arena) {
  nb::list out;
  for (Value v : values) out.append(object(wrap(v, arena)));
  return out;
}

std::vector<const Call*> calls_of(const std::vector<PyCall>& calls) {
  std::vector<const Call*> out;
  for (const PyCall& c : calls) out.push_back(c.call);
  return out;
}

nb::tuple sizes(const PyValue& v, const Dims& dims) {
  nb::list out;
  for (const Dim& d : dims) out.append(wrap_arg(Arg(d), v.arena));
  return nb::tuple(out);
}

nb::object bytes(const PyValue& v) {
  if (!v.value.type().is_tensor()) return nb::int_(0);
  int64_t n = itemsize(v.value.dtype());
  for (const Dim& d : v.value.shape()) {
    if (!d.is_constant()) return nb::none();
    n *= d.constant();
  }
  return nb::int_(n);
}

bool is_symbolic(const Call& c) {
  bool found = !c.symbols.empty();
  auto look = [&](Value v) {
    if (!v.type().is_tensor()) return;
    for (const Dim& d : v.shape()) found |= !d.is_constant();
  };
  visit_inputs(c, look);
  visit_outputs(c, look);
  return found;
}

PyTrace replace(const PyTrace& t, const std::vector<PyCall>& calls, nb::handle fn, const std::string& executor,
                const std::string& prefix) {
  OpDef def;
  std::string name = cat(prefix, t.trace.arena->unique(prefix));
  std::string schema = name + "() -> any";
  def.schema = schema;
  auto op = std::make_unique<Op>(executor, def);
  op->print_name = name;
  op->executor = executor;
  op->context_owner = hold_python(fn.ptr());
  return {replace_region(t.trace, calls_of(calls), std::move(op))};
}

// The ATen operator that does what the call does, as (name, overload, arguments, keyword arguments); None if there is no such.
nb::object aten_call(const PyCall& c) {
  const Op& op = c.call->op->implements ? *c.call->op->implements : *c.call->op;
  if (op.aten.empty()) return nb::none();
  aten::Lowering lowering(op);
  const aten::Target* target = lowering.problem().empty() ? lowering.target(c.call->args) : nullptr;
  if (!target) return nb::none();
  const c10::FunctionSchema& schema = target->handle.schema();
  nb::list args;
  nb::dict kwargs;
  for (size_t i = 0; i < target->sources.size(); ++i) {
    const aten::Source& s = target->sources[i];
    if (s.param < 0 && !s.literal) {
      if (schema.arguments()[i].kwarg_only()) continue;
      const auto& value = schema.arguments()[i].default_value();
      if (!value) return nb::none();
      args.append(nb::steal(to_python(*value)));
      continue;
    }
    nb::object a = wrap_arg(s.literal ? *s.literal : c.call->args[static_cast<size_t>(s.param)], c.arena);
    if (schema.arguments()[i].kwarg_only()) kwargs[schema.arguments()[i].name().c_str()] = a;
    else args.append(a);
  }
  return nb::make_tuple(schema.name(), schema.overload_name(), args, kwargs);
}

// A call by itself as a Python function of the values that it reads, in the order of its arguments.
nb::object function_of(const PyCall& c) {
  Trace t;
  t.name = c.call->op->print_name;
  t.arena = c.arena;
  for (const Arg& a : c.call->args) t.inputs.push_back(a.value());
  t.calls = {c.call};
  t.output = c.call->output;
  return nb::cpp_function([program = Program::build(t), output = c.call->output](const nb::args& args) {
    std::vector<c10::IValue> inputs, results;
    for (nb::handle a : args) inputs.push_back(from_python(a.ptr()));
    {
      BelowAutograd below;
      results = program->run(std::move(inputs));
    }
    size_t next = 0;
    return object(frontend::to_python(output, [&](Value) { return Ref::steal(to_python(results[next++])); }));
  });
}

void bind_value(nb::module_& m) {
  nb::class_<PyValue>(m, "Value", "A value of a trace.")
      .def_prop_ro("name", [](const PyValue& v) { return v.value.name(); })
      .def_prop_ro("is_tensor", [](const PyValue& v) { return v.value.type().is_tensor(); })
      .def_prop_ro("shape", [](const PyValue& v) { return sizes(v, v.value.shape()); })
      .def_prop_ro("strides", [](const PyValue& v) { return sizes(v, v.value.tensor().strides); })
      .def_prop_ro("dtype", [](const PyValue& v) { return object(frontend::dtype_to_python(v.value.dtype())); })
      .def_prop_ro("device", [](const PyValue& v) { return object(frontend::device_to_python(v.value.tensor().device)); })
      .def_prop_ro("requires_grad", [](const PyValue& v) { return v.value.requires_grad(); })
      .def_prop_ro("nbytes", bytes, "None if a size is known only when the program runs.")
      .def("__eq__", [](const PyValue& a, nb::handle b) {
        PyValue* other = nullptr;
        return nb::try_cast(b, other) && other && a.value == other->value;
      }, nb::arg("other").none())
      .def("__hash__", [](const PyValue& v) { return v.value.id(); })
      .def("__repr__", [](const PyValue& v) { return cat(v.value.name(), ": ", v.value.type().str()); });
}

}  // namespace

void bind_regions(nb::module_& m) {
  bind_value(m);
  m.def("call_arguments", [](const PyCall& c) {
    nb::list out;
    for (const Arg& a : c.call->args) out.append(wrap_arg(a, c.arena));
    return out;
  });
  m.def("call_result", [](const PyCall& c) { return wrap_arg(c.call->output, c.arena); });
  m.def("call_inputs", [](const PyCall& c) { return wrap_values(inputs_of(*c.call), c.arena); });
  m.def("call_outputs", [](const PyCall& c) { return wrap_values(outputs_of(*c.call), c.arena); });
  m.def("call_symbol", [](const PyCall& c) {
    return c.call->op->implements ? c.call->op->implements->full_name : c.call->op->full_name;
  });
  m.def("call_has_effects", [](const PyCall& c) { return effects(*c.call) != 0; });
  m.def("call_is_view", [](const PyCall& c) {
    if (!c.call->body.empty()) return is_pure_view(*c.call);
    return c.call->op->has(kView) || (c.call->op->implements && c.call->op->implements->has(kView));
  });
  m.def("call_is_symbolic", [](const PyCall& c) { return is_symbolic(*c.call); });
  m.def("call_equals", [](const PyCall& a, const PyCall& b) { return a.call == b.call; });
  m.def("call_id", [](const PyCall& c) { return reinterpret_cast<uintptr_t>(c.call); });
  m.def("call_aten", aten_call);
  m.def("call_function", function_of, "What runs the call, as a function of its arguments, which are all values.");
  m.def("trace_inputs", [](const PyTrace& t) { return wrap_values(t.trace.inputs, t.trace.arena); });
  m.def("trace_result", [](const PyTrace& t) { return wrap_arg(t.trace.output, t.trace.arena); });
  m.def("trace_replace", replace, nb::arg("trace"), nb::arg("calls"), nb::arg("fn"), nb::arg("executor"), nb::arg("prefix"));
  m.def("region_values", [](const PyTrace& t, const std::vector<PyCall>& calls) {
    RegionValues values = region_values(t.trace, calls_of(calls));
    return std::make_pair(wrap_values(values.inputs, t.trace.arena), wrap_values(values.outputs, t.trace.arena));
  }, "What the calls read from outside, and what of their results others read.");
}

}  // namespace thunder::bindings
