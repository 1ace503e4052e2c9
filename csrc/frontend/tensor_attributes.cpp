// What the user's code keeps in attributes of tensors, and what programs see otherwise than Python does.
#include "frontend/hooks.h"
#include "frontend/reads.h"
#include "python/lookup.h"

namespace thunder::frontend {

// Of an argument: the call's key says what is there (structure.h), once it is known that the code looks.
void Reads::read_attribute_of_tensor(PyObject* proxy, PyObject* name) {
  if (!arguments_ || !arguments_->is_argument_tensor(proxy)) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);  // the read may have raised
  if (PyUnicode_CompareWithASCIIString(name, "__dict__") == 0) use_of(hooks().tensor_class).everything = true;
  else if (!class_attribute(Py_TYPE(proxy), name)) use_of(hooks().tensor_class).add(name);
  PyErr_Restore(type, value, traceback);
}

// A parameter is gathered in another dtype than the one that its rows are kept in.
PyObject* dtype_of_sharded(PyObject* object, PyObject* name) {
  if (!is_tensor(object) || is_proxy(object) || PyUnicode_CompareWithASCIIString(name, "dtype") != 0) return nullptr;
  const std::optional<Sharded> s = hooks().sharded(object);
  return s ? dtype_to_python(s->full.dtype).release() : nullptr;
}

// What is left in an argument is written to the caller's tensor.
void Reads::write_attribute_of_tensor(PyObject* proxy, PyObject* name) {
  if (!arguments_ || !arguments_->is_argument_tensor(proxy)) return;
  PyObject* found = class_attribute(Py_TYPE(proxy), name);
  if (found && Py_TYPE(found)->tp_descr_set) return;
  ClassUse& use = use_of(hooks().tensor_class);
  use.add(name);
  use.written = true;
}

}  // namespace thunder::frontend
