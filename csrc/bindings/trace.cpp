#include "bindings/types.h"
#include "core/parse.h"
#include "core/print.h"
#include "core/rewrite.h"
#include "core/verify.h"
#include "frontend/hooks.h"
#include "passes/executor.h"
#include "passes/reduce.h"
#include "passes/visit.h"

namespace thunder::bindings {
namespace {

nb::dict context(const Trace& t) {
  nb::dict d;
  for (const auto& [name, object] : python_context(t))
    d[name.c_str()] = nb::borrow(static_cast<PyObject*>(object.get()));
  return d;
}

PyTrace parse_text(const std::string& text, const nb::dict& context) {
  std::map<std::string, std::shared_ptr<void>> objects;
  for (auto [name, object] : context) {
    Py_INCREF(object.ptr());
    objects[nb::cast<std::string>(name)] = std::shared_ptr<void>(object.ptr(), [](void* p) {
      nb::gil_scoped_acquire gil;
      Py_DECREF(static_cast<PyObject*>(p));
    });
  }
  return {parse(text, objects)};
}

std::string text_of(const Trace& t, bool header, bool annotations, bool bodies, bool strides) {
  return print(t, PrintOptions{.header = header, .annotations = annotations, .bodies = bodies, .strides = strides});
}

std::vector<std::string> names(const std::vector<Value>& values) {
  std::vector<std::string> out;
  for (Value v : values) out.push_back(v.name());
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

void bind_value(nb::module_& m) {
  nb::class_<PyValue>(m, "Value", "A value of a trace.")
      .def_prop_ro("name", [](const PyValue& v) { return v.value.name(); })
      .def_prop_ro("is_tensor", [](const PyValue& v) { return v.value.type().is_tensor(); })
      .def_prop_ro("shape", [](const PyValue& v) { return sizes(v, v.value.shape()); })
      .def_prop_ro("strides", [](const PyValue& v) { return sizes(v, v.value.tensor().strides); })
      .def_prop_ro("dtype", [](const PyValue& v) { return object(dtype_to_python(v.value.dtype())); })
      .def_prop_ro("device", [](const PyValue& v) { return object(device_to_python(v.value.tensor().device)); })
      .def_prop_ro("requires_grad", [](const PyValue& v) { return v.value.requires_grad(); })
      .def_prop_ro("nbytes", bytes, "None if a size is known only when the program runs.")
      .def(
          "__eq__",
          [](const PyValue& a, nb::handle b) {
            PyValue* other = nullptr;
            return nb::try_cast(b, other) && other && a.value == other->value;
          },
          nb::arg("other").none())
      .def("__hash__", [](const PyValue& v) { return v.value.id(); })
      .def("__repr__", [](const PyValue& v) { return cat(v.value.name(), ": ", v.value.type().str()); });
}

bool is_symbolic(const Call& c) {
  bool found = !c.symbols.empty();
  auto look = [&](Value v) {
    if (!v.type().is_tensor()) return;
    for (const Dim& d : v.shape()) found |= !d.is_constant();
  };
  visit_all_inputs(c, look);
  visit_outputs(c, look);
  return found;
}

nb::list arguments(const PyCall& c) {
  nb::list out;
  for (const Arg& a : c.call->args) out.append(wrap_arg(a, c.arena));
  return out;
}

const std::string& symbol(const PyCall& c) {
  return c.call->op->implements ? c.call->op->implements->full_name : c.call->op->full_name;
}

bool views(const PyCall& c) {
  if (!c.call->body.empty()) return is_pure_view(*c.call);
  return c.call->op->has(kView) || (c.call->op->implements && c.call->op->implements->has(kView));
}

void bind_call(nb::module_& m) {
  nb::class_<PyCall>(m, "Call", "A call of an operator in a trace.")
      .def_prop_ro("name", [](const PyCall& c) { return c.call->op->print_name; })
      .def_prop_ro("op", [](const PyCall& c) { return c.call->op->full_name; })
      .def_prop_ro("executor", [](const PyCall& c) { return c.call->op->executor; })
      .def_prop_ro(
          "may_be_fused", [](const PyCall& c) { return may_be_fused(*c.call); },
          "Whether a fusion executor may take it: nobody has claimed it, or its executor yields to fusion.")
      .def_prop_ro(
          "inputs", [](const PyCall& c) { return names(inputs_of(*c.call)); }, "Names of the values it reads.")
      .def_prop_ro(
          "outputs", [](const PyCall& c) { return names(outputs_of(*c.call)); }, "Names of the values it makes.")
      .def_prop_ro(
          "args",
          [](const PyCall& c) {
            std::vector<std::string> out;
            for (const Arg& a : c.call->args) out.push_back(print(a));
            return out;
          },
          "Its arguments as they print, in schema order.")
      .def_prop_ro("body", [](const PyCall& c) { return wrap_calls(c.call->body, c.arena); })
      .def_prop_ro(
          "location",
          [](const PyCall& c) -> nb::object {
            if (!c.call->location) return nb::none();
            return nb::make_tuple(c.call->location->file, c.call->location->line);
          },
          "(file, line) of the user's program, or None.")
      .def_prop_ro("arguments", arguments, "Its arguments in schema order; values are Value objects.")
      .def_prop_ro(
          "result", [](const PyCall& c) { return wrap_arg(c.call->output, c.arena); },
          "A Value, None, or a container of these.")
      .def_prop_ro("input_values", [](const PyCall& c) { return wrap_values(inputs_of(*c.call), c.arena); })
      .def_prop_ro("output_values", [](const PyCall& c) { return wrap_values(outputs_of(*c.call), c.arena); })
      .def_prop_ro("symbol", symbol, "What it computes, whoever claimed it: \"torch.add\", \"prims.add\".")
      .def_prop_ro(
          "has_effects", [](const PyCall& c) { return effects(*c.call) != 0; },
          "Draws random numbers, writes, communicates, or is waited for.")
      .def_prop_ro("is_view", views, "Whether its results share memory with its arguments, and nothing else is done.")
      .def_prop_ro(
          "is_symbolic", [](const PyCall& c) { return is_symbolic(*c.call); },
          "Whether a size is known only when the program runs.")
      .def(
          "__eq__",
          [](const PyCall& a, nb::handle b) {
            PyCall* other = nullptr;
            return nb::try_cast(b, other) && other && a.call == other->call;
          },
          nb::arg("other").none())
      .def("__hash__", [](const PyCall& c) { return reinterpret_cast<uintptr_t>(c.call); })
      .def("__repr__", [](const PyCall& c) { return print(*c.call); });
}

}  // namespace

void bind_trace(nb::module_& m) {
  bind_value(m);
  bind_call(m);
  nb::class_<PyTrace>(m, "Trace", "A program of the compiler. str() prints it as Python; exec() of that text runs it.")
      .def("__str__", [](const PyTrace& t) { return print(t.trace); })
      .def("__repr__", [](const PyTrace& t) { return print(t.trace); })
      .def(
          "python", [](const PyTrace& t, bool bodies) { return text_of(t.trace, true, true, bodies, false); },
          nb::arg("bodies") = false, "The program without the primitives of its calls and without strides.")
      .def(
          "text",
          [](const PyTrace& t, bool header, bool annotations, bool bodies, bool strides) {
            return text_of(t.trace, header, annotations, bodies, strides);
          },
          nb::arg("header") = true, nb::arg("annotations") = true, nb::arg("bodies") = true, nb::arg("strides") = true)
      .def(
          "opaque_context", [](const PyTrace& t) { return context(t.trace); },
          "The objects that the text names and cannot spell.")
      .def_prop_ro("name", [](const PyTrace& t) { return t.trace.name; })
      .def_prop_ro("inputs", [](const PyTrace& t) { return names(t.trace.inputs); })
      .def_prop_ro("outputs", [](const PyTrace& t) { return names(values_in(t.trace.output)); })
      .def_prop_ro("calls", [](const PyTrace& t) { return wrap_calls(t.trace.calls, t.trace.arena); })
      .def_prop_ro("input_values", [](const PyTrace& t) { return wrap_values(t.trace.inputs, t.trace.arena); })
      .def_prop_ro(
          "result", [](const PyTrace& t) { return wrap_arg(t.trace.output, t.trace.arena); },
          "What the program returns; values are Value objects.")
      .def_prop_ro("pass_name", [](const PyTrace& t) { return t.trace.provenance.pass; })
      .def_prop_ro("milliseconds", [](const PyTrace& t) { return t.trace.provenance.milliseconds; })
      .def(
          "verify", [](const PyTrace& t) { verify(t.trace); }, "RuntimeError with the call that is wrong.");
  m.def(
      "reduce",
      [](const PyTrace& t, const nb::callable& check) {
        return PyTrace{reduce(t.trace, [&](const Trace& candidate) {
          const int holds = PyObject_IsTrue(nb::object(check(PyTrace{candidate})).ptr());
          if (holds < 0) throw nb::python_error();
          return holds != 0;
        })};
      },
      nb::arg("trace"), nb::arg("check"), "The smallest part of a trace for which the check still holds.");
  m.def("parse", parse_text, nb::arg("text"), nb::arg("context") = nb::dict(), "The reverse of str(trace).");
  m.def(
      "difference",
      [](const PyTrace& a, const PyTrace& b) {
        std::string why;
        return structurally_equal(a.trace, b.trace, &why) ? std::string() : why;
      },
      "Empty if the traces are structurally equal, else the first difference.");
}

}  // namespace thunder::bindings
