#include "bindings/bind.h"
#include "bindings/types.h"
#include "core/parse.h"
#include "core/print.h"
#include "core/rewrite.h"
#include "core/verify.h"
#include "frontend/hooks.h"
#include "passes/passes.h"

namespace thunder::bindings {
namespace {

nb::list wrap_calls(const std::vector<const Call*>& calls, const std::shared_ptr<Arena>& arena) {
  nb::list out;
  for (const Call* c : calls) out.append(PyCall{c, arena});
  return out;
}

nb::dict context(const Trace& t) {
  nb::dict d;
  for (const auto& [name, object] : python_context(t)) d[name.c_str()] = nb::borrow(static_cast<PyObject*>(object.get()));
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

void bind_call(nb::module_& m) {
  nb::class_<PyCall>(m, "Call", "A call of an operator in a trace.")
      .def_prop_ro("name", [](const PyCall& c) { return c.call->op->print_name; })
      .def_prop_ro("op", [](const PyCall& c) { return c.call->op->full_name; })
      .def_prop_ro("executor", [](const PyCall& c) { return c.call->op->executor; })
      .def_prop_ro("inputs", [](const PyCall& c) { return names(inputs_of(*c.call)); }, "Names of the values it reads.")
      .def_prop_ro("outputs", [](const PyCall& c) { return names(outputs_of(*c.call)); }, "Names of the values it makes.")
      .def_prop_ro("args", [](const PyCall& c) {
        std::vector<std::string> out;
        for (const Arg& a : c.call->args) out.push_back(print(a));
        return out;
      }, "Its arguments as they print, in schema order.")
      .def_prop_ro("body", [](const PyCall& c) { return wrap_calls(c.call->body, c.arena); })
      .def_prop_ro("location", [](const PyCall& c) -> nb::object {
        if (!c.call->location) return nb::none();
        return nb::make_tuple(c.call->location->file, c.call->location->line);
      }, "(file, line) of the user's program, or None.")
      .def("__repr__", [](const PyCall& c) { return print(*c.call); });
}

}  // namespace

void bind_trace(nb::module_& m) {
  bind_call(m);
  nb::class_<PyTrace>(m, "Trace", "A program of the compiler. str() prints it as Python; exec() of that text runs it.")
      .def("__str__", [](const PyTrace& t) { return print(t.trace); })
      .def("__repr__", [](const PyTrace& t) { return print(t.trace); })
      .def("python", [](const PyTrace& t, bool bodies) { return text_of(t.trace, true, true, bodies, false); },
           nb::arg("bodies") = false, "The program without the primitives of its calls and without strides.")
      .def("text", [](const PyTrace& t, bool header, bool annotations, bool bodies, bool strides) {
        return text_of(t.trace, header, annotations, bodies, strides);
      }, nb::arg("header") = true, nb::arg("annotations") = true, nb::arg("bodies") = true, nb::arg("strides") = true)
      .def("opaque_context", [](const PyTrace& t) { return context(t.trace); },
           "The objects that the text names and cannot spell.")
      .def_prop_ro("name", [](const PyTrace& t) { return t.trace.name; })
      .def_prop_ro("inputs", [](const PyTrace& t) { return names(t.trace.inputs); })
      .def_prop_ro("outputs", [](const PyTrace& t) { return names(values_in(t.trace.output)); })
      .def_prop_ro("calls", [](const PyTrace& t) { return wrap_calls(t.trace.calls, t.trace.arena); })
      .def_prop_ro("pass_name", [](const PyTrace& t) { return t.trace.provenance.pass; })
      .def_prop_ro("milliseconds", [](const PyTrace& t) { return t.trace.provenance.milliseconds; })
      .def("verify", [](const PyTrace& t) { verify(t.trace); }, "RuntimeError with the call that is wrong.");
  m.def("parse", parse_text, nb::arg("text"), nb::arg("context") = nb::dict(), "The reverse of str(trace).");
  m.def("difference", [](const PyTrace& a, const PyTrace& b) {
    std::string why;
    return structurally_equal(a.trace, b.trace, &why) ? std::string() : why;
  }, "Empty if the traces are structurally equal, else the first difference.");
}

}  // namespace thunder::bindings
