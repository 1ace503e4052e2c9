#include "frontend/interpreter/interpreter.h"
#include "bindings/bind.h"

namespace thunder::bindings {
namespace {

namespace interpreter = frontend::interpreter;

nb::object interpret(nb::handle callable, const nb::tuple& args, nb::handle kwargs) {
  interpreter::Interpreting scope(nullptr);
  PyObject* result = PyObject_Call(callable.ptr(), args.ptr(), kwargs.is_none() ? nullptr : kwargs.ptr());
  if (!result) throw nb::python_error();
  return nb::steal(result);
}

nb::dict counts() {
  nb::dict out;
  const std::vector<uint64_t>& n = interpreter::counts();
  for (size_t i = 0; i < n.size(); ++i)
    if (n[i]) out[interpreter::opcode_name(static_cast<int>(i))] = n[i];
  return out;
}

}  // namespace

void bind_interpreter(nb::module_& m) {
  m.def("interpret", interpret, nb::arg("callable"), nb::arg("args"), nb::arg("kwargs").none() = nb::none(),
        "Calls it with every Python frame in this thread interpreted.");
  m.def("interpreter_counts", counts, "How often each opcode was interpreted in this process.");
  m.def("natively_run", interpreter::natively_run,
        "file:function of the frames that CPython ran while frames were being interpreted.");
}

}  // namespace thunder::bindings
