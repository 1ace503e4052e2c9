// What kinds of Python objects there are for those that take them apart and make them again.
#pragma once

#include <functional>
#include <unordered_set>
#include <vector>

#include "python/ref.h"

namespace thunder::frontend {

/// The fields of a dataclass instance, borrowed; null for anything else.
PyObject* dataclass_fields(PyObject* o);
/// An nn.Module.
bool is_module(PyObject* o);
/// An instance of a Python class whose state is its attributes, and that nothing but them tells apart.
bool is_plain_object(PyObject* o);
/// An object that is no tensor and overrides torch functions (`__torch_function__`): a torch function that gets the
/// object as an argument asks the object what to do.
bool overrides_torch_functions(PyObject* o);
/// A list, tuple or dict that is more than what is in it: of a class with attributes, or that may change how it works.
bool is_more_than_a_container(PyObject* o);
bool is_partial(PyObject* o);
/// Of the very class functools.partial, without attributes of its own.
bool is_bare_partial(PyObject* o);
/// One of NumPy's numbers (np.float32(2)).
bool is_numpy_number(PyObject* o);
/// Of the class np.float64, which derives from float.
bool is_numpy_float64(PyObject* o);
/// A path of pathlib's own classes, which its text tells apart.
bool is_path(PyObject* o);
/// An instance of Python classes all the way up: nothing but its dict and its slots makes it up.
bool is_python_object(PyObject* o);
/// The attributes of an object that may hold results (a cache of keys and values), borrowed; null where there are none.
/// Modules are the program's, not its results.
PyObject* attributes(PyObject* o);
/// The attributes of a class itself, borrowed.
PyObject* class_dict(PyObject* type);
/// A staticmethod or classmethod, as it lies in a class.
inline bool is_wrapped_method(PyObject* o) {
  return PyObject_TypeCheck(o, &PyStaticMethod_Type) || PyObject_TypeCheck(o, &PyClassMethod_Type);
}
/// The function in it.
inline Ref function_in(PyObject* wrapped) { return Ref::steal(PyObject_GetAttrString(wrapped, "__func__")); }
/// The attributes that an object keeps in slots.
void each_slot(PyObject* o, const std::function<void(PyObject* name, PyObject* value)>& visit);
bool is_deque(PyObject* o);
/// A list, dict, set or deque: what has elements and no attributes that matter.
bool is_container(PyObject* o);
/// An iterator of C code, or a generator: where it is cannot be seen or put back.
bool is_native_iterator(PyObject* o);
/// The Python function that a wrapper stands for: the function below a wrapper of torch._dynamo.disable, whose
/// bookkeeping does not concern the program; the source of a function of torch.jit.script; or thunder's function in the
/// place of vmap's.  Empty for any other callable.
Ref stands_for(PyObject* callable);
/// Whether a tensor or number of the acquisition is held by the object, or by what that holds.
bool reaches_proxy(PyObject* o);

}  // namespace thunder::frontend
