#include "frontend/fresh_objects.h"

#include "frontend/hooks.h"
#include "frontend/kinds.h"
#include "frontend/outside_state.h"
#include "python/lookup.h"
#include "python/stack.h"

namespace thunder::frontend {

bool FreshObjects::made_inside(PyObject* o) const { return has(o) || (is_native_iterator(o) && !iterators_.has(o)); }

bool FreshObjects::is_settled(PyObject* o) const {
  if (is_traced_value(o) || has(o)) return false;
  for (Py_ssize_t i = 0; PyTuple_Check(o) && i < PyTuple_GET_SIZE(o); ++i)
    if (!is_settled(PyTuple_GET_ITEM(o, i))) return false;
  return true;
}

void FreshObjects::came_from_outside(PyObject* value) {
  if (!value || has(value)) return;
  if (PyCFunction_Check(value) && PyCFunction_GET_SELF(value)) return came_from_outside(PyCFunction_GET_SELF(value));
  if (PyMethod_Check(value)) return came_from_outside(PyMethod_GET_SELF(value));
  if (is_bound_slot(value)) return came_from_outside(Ref::steal(PyObject_GetAttrString(value, "__self__")).get());
  if (PyTuple_Check(value)) {
    check_stack();
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) came_from_outside(PyTuple_GET_ITEM(value, i));
  }
  if (is_native_iterator(value)) iterators_.add(value);
}

void FreshObjects::will_advance(PyObject* iterator) {
  if (!iterators_.has(iterator)) return;
  not_kept_.add_once(std::string("advances a ") + Py_TYPE(iterator)->tp_name + " that was made outside of it");
}

void FreshObjects::add_result(PyObject* result) {
  if (!result || Py_REFCNT(result) != 1 || is_tensor(result)) return;
  check_stack();
  if (PyTuple_Check(result) || PyList_Check(result)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(result); ++i) add_result(PySequence_Fast_GET_ITEM(result, i));
  } else if (PyDict_Check(result)) {
    PyObject *key, *value;
    for (Py_ssize_t i = 0; PyDict_Next(result, &i, &key, &value);) add_result(value);
  }
  if (PyTuple_CheckExact(result)) return;
  if (state_kind(result)) add(result);
  if (is_container(result) || dict_place(result) || (Py_TYPE(result)->tp_flags & Py_TPFLAGS_HEAPTYPE)) add(result);
}

}  // namespace thunder::frontend
