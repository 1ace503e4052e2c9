// Instructions that compute: operators, subscripts, attributes, containers, strings.
#include "frontend/interpreter/handlers.h"

namespace thunder::frontend::interpreter {
namespace {

using Binary = PyObject* (*)(PyObject*, PyObject*);

PyObject* power(PyObject* a, PyObject* b) { return PyNumber_Power(a, b, Py_None); }
PyObject* in_place_power(PyObject* a, PyObject* b) { return PyNumber_InPlacePower(a, b, Py_None); }

// In CPython's order (opcode.h: NB_ADD, ...).
const Binary kBinary[] = {
    PyNumber_Add,
    PyNumber_And,
    PyNumber_FloorDivide,
    PyNumber_Lshift,
    PyNumber_MatrixMultiply,
    PyNumber_Multiply,
    PyNumber_Remainder,
    PyNumber_Or,
    power,
    PyNumber_Rshift,
    PyNumber_Subtract,
    PyNumber_TrueDivide,
    PyNumber_Xor,
    PyNumber_InPlaceAdd,
    PyNumber_InPlaceAnd,
    PyNumber_InPlaceFloorDivide,
    PyNumber_InPlaceLshift,
    PyNumber_InPlaceMatrixMultiply,
    PyNumber_InPlaceMultiply,
    PyNumber_InPlaceRemainder,
    PyNumber_InPlaceOr,
    in_place_power,
    PyNumber_InPlaceRshift,
    PyNumber_InPlaceSubtract,
    PyNumber_InPlaceTrueDivide,
    PyNumber_InPlaceXor,
};

void read_whole(Machine& m, int operands) {
  if (!m.observer) return;
  for (int i = 1; i <= operands; ++i) m.observer->read_whole(m.peek(i));
}

// The observer may replace what the instruction is about to use: the `n` topmost.
void tell_of_operands(Machine& m, Operands kind, int n) {
  if (m.observer) m.observer->operands(kind, m.sp - n);
}

// Nobody else holds the container: the operation made it.
void tell_if_made(Machine& m, PyObject* value) {
  if (!m.observer || !value || Py_REFCNT(value) != 1) return;
  if (PyList_Check(value) || PyDict_Check(value) || PyAnySet_Check(value)) m.observer->made(value);
}

Flow keep_first(Machine& m, PyObject* made) {
  if (!made) return Flow::Error;
  m.push(made);
  return Flow::Next;
}

PyObject* slice_of(PyObject* start, PyObject* stop) { return PySlice_New(start, stop, nullptr); }

}  // namespace

// ---- operators ------------------------------------------------------------------------------------------------------

Flow binary_op(Machine& m, int op) {
  tell_of_operands(m, Operands::Operator, 2);
  read_whole(m, 2);
  constexpr int kInPlace = 13;
  if (op >= kInPlace && m.observer && !m.observer->write_item(m.peek(2), Py_None, m.peek(1))) return Flow::Error;
  PyObject* value = kBinary[op](m.peek(2), m.peek(1));
  tell_if_made(m, value);
  return m.result(2, value);
}

Flow compare_op(Machine& m, int argument) {
  tell_of_operands(m, Operands::Operator, 2);
  for (int i = 1; m.observer && i <= 2; ++i) m.observer->read_compared(m.peek(i));
#if PY_VERSION_HEX >= 0x030C0000
  argument >>= 4;
#endif
  PyObject *left = m.peek(2), *right = m.peek(1);
  // Python asks a subclass first.
  if (m.observer && m.observer->is_plain_subclass(right, left)) {
    PyObject* result = Py_TYPE(left)->tp_richcompare(left, right, argument);
    if (result != Py_NotImplemented) return m.result(2, result);
    Py_DECREF(result);
  }
  return m.result(2, PyObject_RichCompare(left, right, argument));
}

Flow is_op(Machine& m, int negated) {
  tell_of_operands(m, Operands::Identity, 2);
  PyObject *left = m.peek(2), *right = m.peek(1);
  const bool same = Py_Is(left, right) || (m.observer && m.observer->are_same(left, right));
  return m.truth(2, same ^ negated);
}

// As lists and tuples look for a key, where an argument may stand for an item.
int contains(Machine& m, PyObject* container, PyObject* key) {
  if (!m.observer || !(PyList_CheckExact(container) || PyTuple_CheckExact(container)))
    return PySequence_Contains(container, key);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(container); ++i) {
    const Ref item = Ref::borrow(PySequence_Fast_GET_ITEM(container, i));
    if (m.observer->are_same(item.get(), key)) return 1;
    if (const int equal = PyObject_RichCompareBool(item.get(), key, Py_EQ); equal != 0) return equal;
  }
  return 0;
}

Flow contains_op(Machine& m, int negated) {
  tell_of_operands(m, Operands::Membership, 2);
  PyObject *container = m.peek(1), *key = m.peek(2);
  int found = contains(m, container, key);
  if (m.observer && found >= 0) m.observer->read_membership(container, key, found);
  return m.truth(2, found < 0 ? found : found ^ negated);
}

Flow unary_negative(Machine& m, int) {
  read_whole(m, 1);
  return m.result(1, PyNumber_Negative(m.peek(1)));
}
Flow unary_positive(Machine& m, int) {
  read_whole(m, 1);
  return m.result(1, PyNumber_Positive(m.peek(1)));
}
Flow unary_invert(Machine& m, int) {
  read_whole(m, 1);
  return m.result(1, PyNumber_Invert(m.peek(1)));
}
Flow unary_not(Machine& m, int) {
  if (m.observer) m.observer->read_length(m.peek(1));
  int value = PyObject_IsTrue(m.peek(1));
  return m.truth(1, value < 0 ? value : !value);
}

// ---- subscripts and attributes --------------------------------------------------------------------------------------

Flow binary_subscr(Machine& m, int) {
  tell_of_operands(m, Operands::Subscript, 2);
  PyObject *object = m.peek(2), *key = m.peek(1);
  if (m.observer)
    if (std::optional<PyObject*> given = m.observer->entry(object, key)) return m.result(2, *given);
  PyObject* value = PyObject_GetItem(object, key);
  if (m.observer) m.observer->read_item(object, key, value);
  tell_if_made(m, value);
  return m.result(2, value);
}

Flow binary_slice(Machine& m, int) {
  read_whole(m, 2);
  PyObject* slice = slice_of(m.peek(2), m.peek(1));
  if (!slice) return Flow::Error;
  if (m.observer) m.observer->read_whole(m.peek(3));
  PyObject* value = PyObject_GetItem(m.peek(3), slice);
  Py_DECREF(slice);
  tell_if_made(m, value);
  return m.result(3, value);
}

Flow store_subscr(Machine& m, int) {
  tell_of_operands(m, Operands::Store, 3);
  PyObject *key = m.peek(1), *object = m.peek(2), *value = m.peek(3);
  if (m.observer && !m.observer->write_item(object, key, value)) return Flow::Error;
  return m.status(3, PyObject_SetItem(object, key, value));
}

Flow store_slice(Machine& m, int) {
  read_whole(m, 2);
  PyObject* slice = slice_of(m.peek(2), m.peek(1));
  if (!slice) return Flow::Error;
  PyObject *object = m.peek(3), *value = m.peek(4);
  bool allowed = !m.observer || m.observer->write_item(object, slice, value);
  int error = allowed ? PyObject_SetItem(object, slice, value) : -1;
  Py_DECREF(slice);
  return m.status(4, error);
}

Flow delete_subscr(Machine& m, int) {
  tell_of_operands(m, Operands::Subscript, 2);
  if (m.observer && !m.observer->write_item(m.peek(2), m.peek(1), nullptr)) return Flow::Error;
  return m.status(2, PyObject_DelItem(m.peek(2), m.peek(1)));
}

namespace {

Flow load_attribute(Machine& m, PyObject* name) {
  PyObject* object = m.peek(1);
  if (m.observer)
    if (std::optional<PyObject*> given = m.observer->attribute(object, name)) return m.result(1, *given);
  PyObject* value = PyObject_GetAttr(object, name);
  if (m.observer) m.observer->read_attribute(object, name, value);
  return m.result(1, value);
}

}  // namespace

// Two places: the function and its self, or nothing and what is to be called.
Flow load_method(Machine& m, int i) {
  PyObject *object = m.peek(1), *name = m.name(i), *method = nullptr;
  std::optional<PyObject*> given = m.observer ? m.observer->attribute(object, name) : std::nullopt;
  int unbound = 0;
  if (given) {
    method = *given;
  } else {
    unbound = _PyObject_GetMethod(object, name, &method);
    if (m.observer) m.observer->read_attribute(object, name, method);
  }
  if (!method) {
    m.drop();
    return Flow::Error;
  }
  if (unbound) {
    m.peek(1) = method;
    m.push(object);
  } else {
    m.peek(1) = nullptr;
    m.push(method);
    Py_DECREF(object);
  }
  return Flow::Next;
}

Flow load_attr(Machine& m, int argument) {
#if PY_VERSION_HEX >= 0x030C0000
  return argument & 1 ? load_method(m, argument >> 1) : load_attribute(m, m.name(argument >> 1));
#else
  return load_attribute(m, m.name(argument));
#endif
}

namespace {

// A write that raises is none.
int set_attribute(Machine& m, PyObject* object, PyObject* name, PyObject* value) {
  if (!m.observer) return PyObject_SetAttr(object, name, value);
  const size_t before = m.observer->writes();
  if (!m.observer->write_attribute(object, name, value)) return -1;
  const bool remembered = m.observer->writes() > before;
  const int error = PyObject_SetAttr(object, name, value);
  if (error < 0 && remembered) m.observer->forget_write(before);
  return error;
}

}  // namespace

Flow store_attr(Machine& m, int i) {
  tell_of_operands(m, Operands::Attribute, 2);
  return m.status(2, set_attribute(m, m.peek(1), m.name(i), m.peek(2)));
}

Flow delete_attr(Machine& m, int i) { return m.status(1, set_attribute(m, m.peek(1), m.name(i), nullptr)); }

// ---- containers -----------------------------------------------------------------------------------------------------

Flow build_tuple(Machine& m, int n) {
  PyObject* made = PyTuple_New(n);
  if (!made) return Flow::Error;
  for (int i = n; i-- > 0;) PyTuple_SET_ITEM(made, i, m.pop());
  return m.result(made);
}

Flow build_list(Machine& m, int n) {
  PyObject* made = PyList_New(n);
  if (!made) return Flow::Error;
  for (int i = n; i-- > 0;) PyList_SET_ITEM(made, i, m.pop());
  return m.made(made);
}

Flow build_set(Machine& m, int n) {
  for (int i = n; i > 0; --i) tell_of_operands(m, Operands::Key, i);
  PyObject* made = PySet_New(nullptr);
  for (int i = n; i > 0 && made; --i)
    if (PySet_Add(made, m.peek(i)) < 0) Py_CLEAR(made);
  m.drop(n);
  return m.made(made);
}

Flow build_map(Machine& m, int n) {
  for (int i = n; i > 0; --i) tell_of_operands(m, Operands::Key, 2 * i);
  PyObject* made = PyDict_New();
  for (int i = n; i > 0 && made; --i)
    if (PyDict_SetItem(made, m.peek(2 * i), m.peek(2 * i - 1)) < 0) Py_CLEAR(made);
  m.drop(2 * n);
  return m.made(made);
}

Flow build_const_key_map(Machine& m, int n) {
  PyObject* keys = m.peek(1);
  PyObject* made = PyDict_New();
  for (int i = 0; i < n && made; ++i)
    if (PyDict_SetItem(made, PyTuple_GET_ITEM(keys, i), m.peek(n + 1 - i)) < 0) Py_CLEAR(made);
  m.drop(n + 1);
  return m.made(made);
}

Flow build_string(Machine& m, int n) {
  Ref nothing = Ref::steal(PyUnicode_New(0, 0));
  return m.result(n, _PyUnicode_JoinArray(nothing.get(), m.sp - n, n));
}

Flow build_slice(Machine& m, int n) {
  read_whole(m, n);
  PyObject* made = n == 3 ? PySlice_New(m.peek(3), m.peek(2), m.peek(1)) : slice_of(m.peek(2), m.peek(1));
  return m.result(n, made);
}

Flow list_append(Machine& m, int depth) { return m.status(1, PyList_Append(m.peek(depth + 1), m.peek(1))); }
Flow set_add(Machine& m, int depth) {
  tell_of_operands(m, Operands::Key, 1);
  return m.status(1, PySet_Add(m.peek(depth + 1), m.peek(1)));
}
Flow map_add(Machine& m, int depth) {
  tell_of_operands(m, Operands::Key, 2);
  return m.status(2, PyDict_SetItem(m.peek(depth + 2), m.peek(2), m.peek(1)));
}

Flow list_extend(Machine& m, int depth) {
  PyObject* source = m.peek(1);
  read_whole(m, 1);
  PyObject* done = _PyList_Extend(reinterpret_cast<PyListObject*>(m.peek(depth + 1)), source);
  if (!done && PyErr_ExceptionMatches(PyExc_TypeError) && !Py_TYPE(source)->tp_iter && !PySequence_Check(source))
    PyErr_Format(PyExc_TypeError, "Value after * must be an iterable, not %.200s", Py_TYPE(source)->tp_name);
  Py_XDECREF(done);
  return m.status(1, done ? 0 : -1);
}

Flow set_update(Machine& m, int depth) {
  read_whole(m, 1);
  return m.status(1, _PySet_Update(m.peek(depth + 1), m.peek(1)));
}

Flow dict_update(Machine& m, int depth) {
  PyObject* source = m.peek(1);
  read_whole(m, 1);
  int error = PyDict_Update(m.peek(depth + 1), source);
  if (error < 0 && PyErr_ExceptionMatches(PyExc_AttributeError))
    PyErr_Format(PyExc_TypeError, "'%.200s' object is not a mapping", Py_TYPE(source)->tp_name);
  return m.status(1, error);
}

Flow list_to_tuple(Machine& m, int) { return m.result(1, PyList_AsTuple(m.peek(1))); }

Flow get_len(Machine& m, int) {
  if (m.observer) m.observer->read_length(m.peek(1));
  Py_ssize_t n = PyObject_Length(m.peek(1));
  return n < 0 ? Flow::Error : keep_first(m, PyLong_FromSsize_t(n));
}

namespace {

// The items of a sequence in reverse order on the stack.  `after`: how many follow the starred one, -1 without one.
Flow unpack(Machine& m, int before, int after) {
  read_whole(m, 1);
  Ref source = Ref::steal(m.pop());
  PyObject* iterator = PyObject_GetIter(source.get());
  if (!iterator) {
    PyObject* o = source.get();
    if (PyErr_ExceptionMatches(PyExc_TypeError) && !Py_TYPE(o)->tp_iter && !PySequence_Check(o))
      PyErr_Format(PyExc_TypeError, "cannot unpack non-iterable %.200s object", Py_TYPE(o)->tp_name);
    return Flow::Error;
  }
  Ref it = Ref::steal(iterator);
  std::vector<Ref> items;
  for (int i = 0; i < before; ++i) {
    PyObject* item = PyIter_Next(iterator);
    if (!item) {
      if (PyErr_Occurred()) return Flow::Error;
      const char* least = after < 0 ? "" : "at least ";
      PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected %s%d, got %d)", least,
                   before + (after < 0 ? 0 : after), i);
      return Flow::Error;
    }
    items.push_back(Ref::steal(item));
  }
  if (after < 0) {
    PyObject* more = PyIter_Next(iterator);
    if (more) {
      Py_DECREF(more);
      PyErr_Format(PyExc_ValueError, "too many values to unpack (expected %d)", before);
    }
    if (PyErr_Occurred()) return Flow::Error;
  } else {
    PyObject* rest = PySequence_List(iterator);
    if (!rest) return Flow::Error;
    Ref list = Ref::steal(rest);
    Py_ssize_t n = PyList_GET_SIZE(rest);
    if (n < after) {
      PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected at least %d, got %zd)", before + after,
                   before + n);
      return Flow::Error;
    }
    std::vector<Ref> last;
    for (Py_ssize_t i = n - after; i < n; ++i) last.push_back(Ref::borrow(PyList_GET_ITEM(rest, i)));
    if (PyList_SetSlice(rest, n - after, n, nullptr) < 0) return Flow::Error;
    if (m.observer) m.observer->made(rest);
    items.push_back(std::move(list));
    for (Ref& r : last) items.push_back(std::move(r));
  }
  for (size_t i = items.size(); i-- > 0;) m.push(items[i].release());
  return Flow::Next;
}

}  // namespace

Flow unpack_sequence(Machine& m, int n) { return unpack(m, n, -1); }
Flow unpack_ex(Machine& m, int argument) { return unpack(m, argument & 0xFF, argument >> 8); }

// ---- strings --------------------------------------------------------------------------------------------------------

Flow format_value(Machine& m, int argument) {
  bool has_spec = argument & 4;
  if (m.observer) m.observer->read_whole(m.peek(1 + has_spec));
  PyObject* value = m.peek(1 + has_spec);
  PyObject* converted = nullptr;
  switch (argument & 3) {
    case 1: converted = PyObject_Str(value); break;
    case 2: converted = PyObject_Repr(value); break;
    case 3: converted = PyObject_ASCII(value); break;
    default: converted = Py_NewRef(value);
  }
  PyObject* text = nullptr;
  if (converted) {
    bool is_text = PyUnicode_CheckExact(converted) && !has_spec;
    text = is_text ? Py_NewRef(converted) : PyObject_Format(converted, has_spec ? m.peek(1) : nullptr);
    Py_DECREF(converted);
  }
  return m.result(1 + has_spec, text);
}

}  // namespace thunder::frontend::interpreter
