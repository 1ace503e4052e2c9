// Arguments and results made again, with other tensors in them.
#include <utility>

#include "frontend/hooks.h"
#include "frontend/interpreter/interpreter.h"
#include "frontend/kinds.h"
#include "frontend/structure.h"
#include "python/lookup.h"
#include "python/stack.h"

namespace thunder::frontend {
namespace {

Ref copy_object(PyObject* o) {
  Ref none = Ref::steal(PyTuple_New(0));
  return Ref::steal(PyBaseObject_Type.tp_new(Py_TYPE(o), none.get(), nullptr));
}

Ref shallow_copy(PyObject* o) {
  static PyObject* copy = PyObject_GetAttrString(Ref::steal(PyImport_ImportModule("copy")).get(), "copy");
  return Ref::steal(PyObject_CallOneArg(copy, o));
}

// Of a result: what is made anew.
struct Template {
  const std::unordered_set<PyObject*>& objects;  // functions, methods and other objects
  const std::unordered_set<PyObject*>& kept;     // what is itself
};

class Rebuilder {
 public:
  /// Of an argument.  `number`: what symbolic numbers become, as flatten() finds them; null: they stay.
  Rebuilder(const std::function<Ref(PyObject*)>& leaf, const std::function<Ref(PyObject*)>* number,
            ArgumentCopies& copies)
      : leaf_(leaf), number_(number), copies_(&copies) {}
  Rebuilder(const std::function<Ref(PyObject*)>& leaf, const Template& t) : leaf_(leaf), template_(&t) {}

  /// `o` becomes this.
  void set(PyObject* o, PyObject* replacement) { made_.emplace(o, Ref::borrow(replacement)); }

  Ref operator()(PyObject* o) {
    check_stack();
    if (is_traced_value(o)) return copies_ ? tensor(o) : leaf_(o);
    if (number_ && is_symbolic_number(o)) return (*number_)(o);
    if (copies_) {
      if (PyObject* copy = copies_->copy_of(o)) return Ref::borrow(copy);
    } else {
      if (template_->kept.count(o)) return Ref::borrow(o);
      if (auto it = made_.find(o); it != made_.end()) return it->second;
    }
    const bool itself = copies_ && !copies_->stands_for(o);
    if (itself && is_more_than_a_container(o)) return Ref::borrow(o);
    if (PyTuple_Check(o)) return tuple(o);
    if (PySlice_Check(o)) return slice(o);
    if (itself) return Ref::borrow(o);
    if (PyList_Check(o)) return list(o);
    if (PyObject* fields = dataclass_fields(o); fields && !(copies_ ? is_plain_object(o) : is_python_object(o)))
      return dataclass(o, fields);
    if (PyDict_Check(o)) return dict(o);
    if (copies_) return is_partial(o) ? partial_of_argument(o) : object(o);
    if (PyAnySet_Check(o) || is_deque(o)) return elements(o);
    if (!template_->objects.count(o) && !dataclass_fields(o)) return Ref::borrow(o);
    if (PyFunction_Check(o)) return function(o);
    if (PyMethod_Check(o)) {
      Ref self = (*this)(PyMethod_GET_SELF(o));
      return Ref::steal(PyMethod_New(PyMethod_GET_FUNCTION(o), self.get()));
    }
    if (is_wrapped_method(o)) return wrapped_method(o);
    return is_partial(o) ? partial(o) : object(o);
  }

 private:
  // An argument's, with the attributes that flatten() found.
  Ref tensor(PyObject* o) {
    Ref proxy = leaf_(o);
    copies_->add_tensor(proxy.get());
    if (!copies_->stands_for(o) || copies_->copy_of(o)) return proxy;
    copies_->made(o, proxy);
    const ClassUse* use = use_of_tensors(&copies_->uses());
    PyObject** dict = dict_place(o);
    PyObject *name, *value;
    for (Py_ssize_t pos = 0; dict && *dict && PyDict_Next(*dict, &pos, &name, &value);) {
      if (!use->wants(name)) continue;
      Ref item = (*this)(value);
      if (PyObject_GenericSetAttr(proxy.get(), name, item.get()) != 0) throw PythonError();
    }
    return proxy;
  }

  Ref list(PyObject* o) {
    Ref none = Ref::steal(PyTuple_New(0));
    Ref out = PyList_CheckExact(o) ? Ref::steal(PyList_New(0))
                                   : Ref::steal(PyList_Type.tp_new(Py_TYPE(o), none.get(), nullptr));
    remember(o, out);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(o); ++i) {
      Ref item = (*this)(PyList_GET_ITEM(o, i));
      if (PyList_Append(out.get(), item.get()) != 0) throw PythonError();
    }
    if (!PyList_CheckExact(o)) set_attributes(o, out);
    return out;
  }

  Ref tuple(PyObject* o) {
    Ref out = Ref::steal(PyTuple_New(PyTuple_GET_SIZE(o)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i)
      PyTuple_SET_ITEM(out.get(), i, (*this)(PyTuple_GET_ITEM(o, i)).release());
    if (PyTuple_CheckExact(o)) return out;
    auto* type = reinterpret_cast<PyObject*>(Py_TYPE(o));
    // A named tuple takes its fields one by one, other subclasses one iterable.
    if (PyObject_HasAttrString(type, "_make")) return Ref::steal(PyObject_CallMethod(type, "_make", "(O)", out.get()));
    return Ref::steal(PyObject_CallOneArg(type, out.get()));
  }

  Ref slice(PyObject* o) {
    auto* s = reinterpret_cast<PySliceObject*>(o);
    Ref start = (*this)(s->start), stop = (*this)(s->stop), step = (*this)(s->step);
    const bool same = start.get() == s->start && stop.get() == s->stop && step.get() == s->step;
    return same ? Ref::borrow(o) : Ref::steal(PySlice_New(start.get(), stop.get(), step.get()));
  }

  Ref dict(PyObject* o) {
    Ref out = PyDict_CheckExact(o) ? Ref::steal(PyDict_New()) : shallow_copy(o);
    remember(o, out);
    PyObject *key, *value;
    for (Py_ssize_t pos = 0; PyDict_Next(o, &pos, &key, &value);) {
      Ref item = (*this)(value), name = template_ ? (*this)(key) : Ref::borrow(key);
      if (PyObject_SetItem(out.get(), name.get(), item.get()) != 0) throw PythonError();
    }
    if (!PyDict_CheckExact(o)) set_attributes(o, out);
    return out;
  }

  // A set or deque.
  Ref elements(PyObject* o) {
    Ref now = Ref::steal(PySequence_List(o)), out = shallow_copy(o);
    remember(o, out);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(now.get()); ++i)
      PyList_SetItem(now.get(), i, (*this)(PyList_GET_ITEM(now.get(), i)).release());
    if (PyFrozenSet_Check(o)) return made_.insert_or_assign(o, Ref::steal(PyFrozenSet_New(now.get()))).first->second;
    if (!set_contents(out.get(), now.get())) throw PythonError();
    return out;
  }

  Ref dataclass(PyObject* o, PyObject* fields) {
    const auto* number = std::exchange(number_, nullptr);
    Ref out = shallow_copy(o);
    remember(o, out);
    PyObject *name, *field;
    for (Py_ssize_t pos = 0; PyDict_Next(fields, &pos, &name, &field);) {
      PyObject* value = PyObject_GetAttr(o, name);
      if (!value) {
        PyErr_Clear();
        continue;
      }
      Ref owned = Ref::steal(value), item = (*this)(value);
      if (item.get() == value) continue;
      // A frozen dataclass refuses plain assignment.
      if (PyObject_SetAttr(out.get(), name, item.get()) != 0) {
        PyErr_Clear();
        if (PyObject_GenericSetAttr(out.get(), name, item.get()) != 0) throw PythonError();
      }
    }
    number_ = number;
    if (template_) set_attributes(o, out);
    return out;
  }

  // The same object stays the same one, however often the result refers to it.
  Ref object(PyObject* o) {
    Ref out = is_python_object(o) ? copy_object(o) : shallow_copy(o);
    remember(o, out);
    const auto* number = dataclass_fields(o) ? std::exchange(number_, nullptr) : number_;
    set_attributes(o, out);
    number_ = number;
    return out;
  }

  // Those of `o`, in a dict of its own or in slots.
  void set_attributes(PyObject* o, const Ref& out) {
    PyObject** from = dict_place(o);
    if (from && *from) {
      Ref made = Ref::steal(PyObject_GenericGetDict(out.get(), nullptr));
      PyObject *name, *value;
      for (Py_ssize_t pos = 0; PyDict_Next(*from, &pos, &name, &value);) {
        if (copies_ && !is_wanted(copies_->uses(), o, name)) continue;
        Ref item = (*this)(value);
        if (PyDict_SetItem(made.get(), name, item.get()) != 0) throw PythonError();
      }
    }
    if (!template_) return;
    each_slot(o, [&](PyObject* name, PyObject* value) {
      Ref item = (*this)(value);
      if (PyObject_GenericSetAttr(out.get(), name, item.get()) != 0) throw PythonError();
    });
  }

  // Functions that share a variable share its new cell.
  Ref cell(PyObject* o) {
    if (auto it = made_.find(o); it != made_.end()) return it->second;
    if (template_->kept.count(o)) return Ref::borrow(o);
    Ref out = Ref::steal(PyCell_New(nullptr));
    remember(o, out);
    if (!PyCell_GET(o)) return out;
    Ref value = (*this)(PyCell_GET(o));
    PyCell_Set(out.get(), value.get());
    return out;
  }

  Ref function(PyObject* o) {
    Ref out = Ref::steal(PyFunction_NewWithQualName(PyFunction_GET_CODE(o), PyFunction_GET_GLOBALS(o),
                                                    reinterpret_cast<PyFunctionObject*>(o)->func_qualname));
    remember(o, out);
    PyObject* closure = PyFunction_GET_CLOSURE(o);
    Ref cells = Ref::steal(PyTuple_New(closure ? PyTuple_GET_SIZE(closure) : 0));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(cells.get()); ++i)
      PyTuple_SET_ITEM(cells.get(), i, cell(PyTuple_GET_ITEM(closure, i)).release());
    if (closure && PyFunction_SetClosure(out.get(), cells.get()) != 0) throw PythonError();
    if (PyObject* defaults = PyFunction_GET_DEFAULTS(o)) {
      Ref made = (*this)(defaults);
      if (PyFunction_SetDefaults(out.get(), made.get()) != 0) throw PythonError();
    }
    if (PyObject* defaults = PyFunction_GET_KW_DEFAULTS(o)) {
      Ref made = (*this)(defaults);
      if (PyFunction_SetKwDefaults(out.get(), made.get()) != 0) throw PythonError();
    }
    set_attributes(o, out);
    return out;
  }

  Ref wrapped_method(PyObject* o) {
    const Ref function = (*this)(function_in(o).get());
    // The constructor of a user's class may take other arguments.
    PyTypeObject* base = PyObject_TypeCheck(o, &PyStaticMethod_Type) ? &PyStaticMethod_Type : &PyClassMethod_Type;
    const Ref none = Ref::steal(PyTuple_New(0)), arguments = Ref::steal(PyTuple_Pack(1, function.get()));
    Ref out = Ref::steal(base->tp_new(Py_TYPE(o), none.get(), nullptr));
    if (base->tp_init(out.get(), arguments.get(), nullptr) != 0) throw PythonError();
    remember(o, out);
    set_attributes(o, out);
    return out;
  }

  Ref partial(PyObject* o) {
    Ref parts = Ref::steal(PyObject_CallMethod(o, "__reduce__", nullptr));
    Ref state = (*this)(PyTuple_GET_ITEM(parts.get(), 2));
    auto* type = reinterpret_cast<PyObject*>(Py_TYPE(o));
    Ref out = Ref::steal(PyObject_CallOneArg(type, PyTuple_GET_ITEM(state.get(), 0)));
    Ref done = Ref::steal(PyObject_CallMethod(out.get(), "__setstate__", "(O)", state.get()));
    return out;
  }

  Ref partial_of_argument(PyObject* o) {
    Ref function = (*this)(Ref::steal(PyObject_GetAttrString(o, "func")).get());
    Ref given = (*this)(Ref::steal(PyObject_GetAttrString(o, "args")).get());
    Ref keywords = Ref::steal(PyObject_GetAttrString(o, "keywords")), named = Ref::steal(PyDict_New());
    PyObject *key, *value;
    for (Py_ssize_t pos = 0; PyDict_Next(keywords.get(), &pos, &key, &value);) {
      Ref item = (*this)(value);
      if (PyDict_SetItem(named.get(), key, item.get()) != 0) throw PythonError();
    }
    Ref first = Ref::steal(PyTuple_Pack(1, function.get()));
    Ref all = Ref::steal(PySequence_Concat(first.get(), given.get()));
    Ref out = Ref::steal(PyObject_Call(reinterpret_cast<PyObject*>(Py_TYPE(o)), all.get(), named.get()));
    remember(o, out);
    return out;
  }

  void remember(PyObject* o, const Ref& made) {
    if (copies_) copies_->made(o, made);
    else made_.emplace(o, made);
  }

  const std::function<Ref(PyObject*)>& leaf_;
  const std::function<Ref(PyObject*)>* number_ = nullptr;
  ArgumentCopies* copies_ = nullptr;
  const Template* template_ = nullptr;
  std::unordered_map<PyObject*, Ref> made_;
};

}  // namespace

Ref rebuild(PyObject* o, const std::function<Ref(PyObject*)>& leaf, const std::function<Ref(PyObject*)>* number,
            ArgumentCopies& copies) {
  return Rebuilder(leaf, number, copies)(o);
}

Ref OutputSpec::build(PyObject* const* leaves, const std::vector<PyObject*>& arguments) const {
  if (single_) return Ref::borrow(leaves[0]);
  const std::function<Ref(PyObject*)> leaf = [&](PyObject* o) { return Ref::borrow(leaves[index_.at(o)]); };
  const Template t{objects_, kept_};
  Rebuilder rebuilder(leaf, t);
  for (const auto& [copy, i] : argument_copies_) rebuilder.set(copy, arguments[i]);
  Ref built = rebuilder(template_.get());
  for (PyObject* proxy : attributed_) {
    Ref tensor = leaf(proxy);
    PyObject *name, *value;
    for (Py_ssize_t pos = 0; PyDict_Next(*dict_place(proxy), &pos, &name, &value);) {
      Ref item = rebuilder(value);
      if (PyObject_GenericSetAttr(tensor.get(), name, item.get()) != 0) throw PythonError();
    }
  }
  return built;
}

}  // namespace thunder::frontend
