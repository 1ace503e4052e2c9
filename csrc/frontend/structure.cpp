#include "frontend/structure.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "frontend/hooks.h"

namespace thunder::frontend {
namespace {

void put(std::string& key, const void* data, size_t n) { key.append(static_cast<const char*>(data), n); }

template <class T>
void put(std::string& key, char tag, T value) {
  key.push_back(tag);
  put(key, &value, sizeof value);
}

void put_class(char tag, PyObject* o, Flattened& out) {
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(o));
  put(out.key, tag, reinterpret_cast<uintptr_t>(type));
  out.objects.push_back(type);
}

PyObject* fields_name() {
  static PyObject* name = PyUnicode_InternFromString("__dataclass_fields__");
  return name;
}

// The fields of a dataclass instance, borrowed; null for anything else.
PyObject* dataclass_fields(PyObject* o) {
  if (PyType_Check(o)) return nullptr;
  PyObject* fields = _PyType_Lookup(Py_TYPE(o), fields_name());
  return fields && PyDict_Check(fields) ? fields : nullptr;
}

void flatten_symbolic(PyObject* o, Flattened& out) {
  if (PyFloat_CheckExact(o)) {
    out.key.push_back('d');
    out.floats.push_back(PyFloat_AS_DOUBLE(o));
  } else {
    out.key.push_back('i');
    out.ints.push_back(PyLong_AsLongLong(o));
  }
}

// What it holds is taken as it is.
class Literally {
 public:
  explicit Literally(Flattened& flat) : flat_(flat), symbolic_(std::exchange(flat.symbolic, false)) {}
  ~Literally() { flat_.symbolic = symbolic_; }

 private:
  Flattened& flat_;
  bool symbolic_;
};

void flatten_int(PyObject* o, std::string& key) {
  int overflow = 0;
  long long i = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (!overflow) return put(key, 'I', i);
  Ref text = Ref::steal(PyObject_Str(o));
  key.push_back('J');
  key += PyUnicode_AsUTF8(text.get());
  key.push_back('\0');
}

// Whether it came before; if not, it is remembered.
bool again(PyObject* o, Flattened& out) {
  auto it = std::find(out.containers.begin(), out.containers.end(), o);
  if (it == out.containers.end()) {
    out.containers.push_back(o);
    return false;
  }
  put(out.key, 'R', it - out.containers.begin());
  return true;
}

void flatten_container(PyObject* o, Flattened& out) {
  if (PyList_CheckExact(o) && again(o, out)) return;
  Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
  bool exact = PyTuple_CheckExact(o) || PyList_CheckExact(o);
  put(out.key, PyTuple_Check(o) ? '(' : '[', n);
  if (!exact) put_class('C', o, out);
  for (Py_ssize_t i = 0; i < n && out.key.size() <= out.limit; ++i) flatten(PySequence_Fast_GET_ITEM(o, i), out);
}

bool is_module(PyObject* o) {
  static PyObject* name = PyUnicode_InternFromString("_parameters");
  PyObject** dict = _PyObject_GetDictPtr(o);
  return dict && *dict && PyDict_Contains(*dict, name) == 1;
}

// An instance of a Python class whose state is its attributes, and that nothing but them tells apart.
bool is_plain_object(PyObject* o) {
  static auto* enums = reinterpret_cast<PyTypeObject*>(
      PyObject_GetAttrString(Ref::steal(PyImport_ImportModule("enum")).get(), "EnumMeta"));
  PyTypeObject* type = Py_TYPE(o);
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE)) return false;
  if (type->tp_finalize || type->tp_itemsize || PyType_Check(o) || PyType_IsSubtype(Py_TYPE(type), enums)) return false;
  // Nothing but the places for a dict and weak references: no slots, no base of C code.
  if (type->tp_basicsize > static_cast<Py_ssize_t>(sizeof(PyObject) + 2 * sizeof(PyObject*))) return false;
  for (PyTypeObject* base = type->tp_base; base && base != &PyBaseObject_Type; base = base->tp_base)
    if (!(base->tp_flags & Py_TPFLAGS_HEAPTYPE)) return false;
  PyObject** dict = _PyObject_GetDictPtr(o);
  return dict && *dict && !is_module(o);
}

void flatten_identity(PyObject* o, Flattened& out) {
  put(out.key, 'O', reinterpret_cast<uintptr_t>(o));
  out.objects.push_back(o);
}

void flatten_entries(PyObject* dict, Flattened& out) {
  put(out.key, '{', PyDict_GET_SIZE(dict));
  PyObject *key, *value;
  for (Py_ssize_t pos = 0; out.key.size() <= out.limit && PyDict_Next(dict, &pos, &key, &value);) {
    if (is_plain_object(key)) {
      flatten_identity(key, out);
    } else {
      Literally keys(out);
      flatten(key, out);
    }
    flatten(value, out);
  }
}

void flatten_dict(PyObject* o, Flattened& out) {
  if (again(o, out)) return;
  if (!PyDict_CheckExact(o)) put_class('C', o, out);
  flatten_entries(o, out);
}

void flatten_dataclass(PyObject* o, PyObject* fields, Flattened& out) {
  if (again(o, out)) return;
  Literally all(out);
  put_class('D', o, out);
  PyObject *name, *field;
  for (Py_ssize_t pos = 0; PyDict_Next(fields, &pos, &name, &field);) {
    PyObject* value = PyObject_GetAttr(o, name);
    if (!value) {
      PyErr_Clear();
      out.key.push_back('u');
      continue;
    }
    Ref owned = Ref::steal(value);  // the instance keeps it alive beyond this
    flatten(value, out);
  }
}

bool is_wanted(const ClassUses* uses, PyObject* o, PyObject* name) {
  if (!uses) return true;
  auto use = uses->find(Py_TYPE(o));
  return use == uses->end() || use->second.wants(name);
}

constexpr size_t kMostOfAnObject = 1 << 15;  // bytes of key

// Its attributes; by identity if they are too many to look at in every call.
void flatten_object(PyObject* o, Flattened& out) {
  if (again(o, out)) return;
  const bool outermost = out.limit == SIZE_MAX;
  const size_t key = out.key.size(), tensors = out.tensors.size(), containers = out.containers.size() - 1,
               objects = out.objects.size(), ints = out.ints.size(), floats = out.floats.size();
  if (outermost) out.limit = key + kMostOfAnObject;
  put_class('A', o, out);
  PyObject *name, *value;
  for (Py_ssize_t i = 0; out.key.size() <= out.limit && PyDict_Next(*_PyObject_GetDictPtr(o), &i, &name, &value);) {
    if (!is_wanted(out.uses, o, name)) continue;
    flatten(name, out);
    flatten(value, out);
  }
  out.key.push_back('.');
  if (!outermost) return;
  const bool too_much = out.key.size() > std::exchange(out.limit, SIZE_MAX);
  if (!too_much) return;
  out.key.resize(key);
  out.tensors.resize(tensors);
  out.containers.resize(containers);
  out.objects.resize(objects);
  out.ints.resize(ints);
  out.floats.resize(floats);
  flatten_identity(o, out);
}

Ref copy_object(PyObject* o) {
  Ref none = Ref::steal(PyTuple_New(0));
  return Ref::steal(PyBaseObject_Type.tp_new(Py_TYPE(o), none.get(), nullptr));
}

Ref shallow_copy(PyObject* o) {
  static PyObject* copy = PyObject_GetAttrString(Ref::steal(PyImport_ImportModule("copy")).get(), "copy");
  return Ref::steal(PyObject_CallOneArg(copy, o));
}

bool is_partial(PyObject* o) {
  static PyObject* partial = PyObject_GetAttrString(Ref::steal(PyImport_ImportModule("functools")).get(), "partial");
  return PyObject_TypeCheck(o, reinterpret_cast<PyTypeObject*>(partial));
}

// Of a result: what holds leaves is made anew.
struct Template {
  const std::unordered_set<PyObject*>& objects;  // functions, methods and other objects that hold leaves
  const std::unordered_set<PyObject*>& kept;     // lists and dicts that are themselves
};

class Rebuilder {
 public:
  /// Of an argument.  `number`: what symbolic numbers become, as flatten() finds them; null: they stay.
  Rebuilder(const std::function<Ref(PyObject*)>& leaf, const std::function<Ref(PyObject*)>* number, StandIns& copies)
      : leaf_(leaf), number_(number), copies_(&copies) {}
  Rebuilder(const std::function<Ref(PyObject*)>& leaf, const Template& t) : leaf_(leaf), template_(&t) {}

  /// `o` becomes this.
  void set(PyObject* o, PyObject* replacement) { made_.emplace(o, Ref::borrow(replacement)); }

  Ref operator()(PyObject* o) {
    if (is_leaf(o)) return leaf_(o);
    if (number_ && is_symbolic_number(o)) return (*number_)(o);
    if (copies_) {
      if (PyObject* copy = copies_->copy_of(o)) return Ref::borrow(copy);
    } else {
      if (template_->kept.count(o)) return Ref::borrow(o);
      if (auto it = made_.find(o); it != made_.end()) return it->second;
    }
    if (PyTuple_Check(o) || PyList_Check(o)) return sequence(o);
    if (copies_ && !copies_->stands_for(o)) return Ref::borrow(o);
    if (PyObject* fields = dataclass_fields(o)) return dataclass(o, fields);
    if (PyDict_Check(o)) return dict(o);
    if (copies_) return object(o);
    if (!template_->objects.count(o)) return Ref::borrow(o);
    if (PyFunction_Check(o)) return function(o);
    if (PyMethod_Check(o)) {
      Ref self = (*this)(PyMethod_GET_SELF(o));
      return Ref::steal(PyMethod_New(PyMethod_GET_FUNCTION(o), self.get()));
    }
    return is_partial(o) ? partial(o) : object(o);
  }

 private:
  Ref sequence(PyObject* o) {
    Ref list = Ref::steal(PyList_New(0));
    if (PyList_CheckExact(o)) remember(o, list);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
      Ref item = (*this)(PySequence_Fast_GET_ITEM(o, i));
      if (PyList_Append(list.get(), item.get()) != 0) throw PythonError();
    }
    if (PyList_CheckExact(o)) return list;
    Ref tuple = Ref::steal(PyList_AsTuple(list.get()));
    if (PyTuple_CheckExact(o)) return tuple;
    PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(o));
    // A named tuple takes its fields one by one, other subclasses one iterable.
    if (PyObject_HasAttrString(type, "_make"))
      return Ref::steal(PyObject_CallMethod(type, "_make", "(O)", tuple.get()));
    return Ref::steal(PyObject_CallOneArg(type, PyTuple_Check(o) ? tuple.get() : list.get()));
  }

  Ref dict(PyObject* o) {
    Ref out = PyDict_CheckExact(o) ? Ref::steal(PyDict_New()) : shallow_copy(o);
    remember(o, out);
    PyObject *key, *value;
    for (Py_ssize_t pos = 0; PyDict_Next(o, &pos, &key, &value);) {
      Ref item = (*this)(value);
      if (PyObject_SetItem(out.get(), key, item.get()) != 0) throw PythonError();
    }
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
    return out;
  }

  // The same object stays the same one, however often the result refers to it.
  Ref object(PyObject* o) {
    Ref out = is_plain_object(o) ? copy_object(o) : shallow_copy(o);
    remember(o, out);
    PyObject** from = _PyObject_GetDictPtr(o);
    if (!from || !*from) return out;
    Ref made = Ref::steal(PyObject_GenericGetDict(out.get(), nullptr));
    PyObject *name, *value;
    for (Py_ssize_t pos = 0; PyDict_Next(*from, &pos, &name, &value);) {
      if (copies_ && !is_wanted(&copies_->uses(), o, name)) continue;
      Ref item = (*this)(value);
      if (PyDict_SetItem(made.get(), name, item.get()) != 0) throw PythonError();
    }
    return out;
  }

  // Functions that share a variable share its new cell.
  Ref cell(PyObject* o) {
    if (auto it = made_.find(o); it != made_.end()) return it->second;
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

  void remember(PyObject* o, const Ref& made) {
    if (copies_) copies_->made(o, made);
    else made_.emplace(o, made);
  }

  const std::function<Ref(PyObject*)>& leaf_;
  const std::function<Ref(PyObject*)>* number_ = nullptr;
  StandIns* copies_ = nullptr;
  const Template* template_ = nullptr;
  std::unordered_map<PyObject*, Ref> made_;
};

}  // namespace

void flatten(PyObject* o, Flattened& out) {
  if (is_leaf(o)) {
    out.key.push_back('T');
    out.tensors.push_back(o);
    return;
  }
  if (o == Py_None) return out.key.push_back('N');
  if (out.symbolic && is_symbolic_number(o)) return flatten_symbolic(o, out);
  if (PyBool_Check(o)) return out.key.push_back(o == Py_True ? 't' : 'f');
  if (PyLong_CheckExact(o)) return flatten_int(o, out.key);
  if (PyFloat_CheckExact(o)) return put(out.key, 'F', PyFloat_AS_DOUBLE(o));
  if (PyUnicode_CheckExact(o)) {
    Py_ssize_t n = 0;
    const char* s = PyUnicode_AsUTF8AndSize(o, &n);
    if (!s) throw PythonError();
    put(out.key, 'S', n);
    put(out.key, s, static_cast<size_t>(n));
    return;
  }
  if (PyTuple_Check(o) || PyList_Check(o)) return flatten_container(o, out);
  const auto* use = out.uses && out.uses->count(Py_TYPE(o)) ? &out.uses->at(Py_TYPE(o)) : nullptr;
  const bool by_identity = use && use->identity;
  // A dataclass first: transformers' outputs are dataclasses and dicts at once.
  if (PyObject* fields = dataclass_fields(o); fields && !by_identity) return flatten_dataclass(o, fields, out);
  if (PyDict_Check(o)) return flatten_dict(o, out);
  if (!by_identity && is_plain_object(o)) return flatten_object(o, out);
  flatten_identity(o, out);
}

bool is_symbolic_number(PyObject* o) {
  if (PyFloat_CheckExact(o)) {
    const double f = PyFloat_AS_DOUBLE(o);
    return std::isfinite(f) && f != 0 && std::abs(f) != 1;
  }
  if (!PyLong_CheckExact(o)) return false;
  int overflow = 0;
  const long long i = PyLong_AsLongLongAndOverflow(o, &overflow);
  return !overflow && i >= 2 && i < (1ll << 31);
}

Ref rebuild(PyObject* o, const std::function<Ref(PyObject*)>& leaf, const std::function<Ref(PyObject*)>* number,
            StandIns& copies) {
  return Rebuilder(leaf, number, copies)(o);
}

namespace {

// The attributes of an object that may hold results (a cache of keys and values), borrowed; null where there are none.
// Modules are the program's, not its results.
PyObject* attributes(PyObject* o) {
  if (PyType_Check(o) || PyModule_Check(o) || PyFunction_Check(o) || is_module(o)) return nullptr;
  PyObject** dict = _PyObject_GetDictPtr(o);
  return dict ? *dict : nullptr;
}

// Finds the leaves of a result, and which of the objects in it hold any: those are made anew in every call.
class LeafFinder {
 public:
  LeafFinder(std::vector<PyObject*>& leaves, std::unordered_map<PyObject*, size_t>& index,
             const std::function<bool(PyObject*)>& outside, const StandIns& copies)
      : leaves_(leaves), index_(index), outside_(outside), copies_(copies) {}

  void visit(PyObject* o, PyObject* holder) {
    if (is_leaf(o)) {
      if (index_.try_emplace(o, leaves_.size()).second) leaves_.push_back(o);
      return mark(holder);
    }
    if (std::optional<size_t> argument = copies_.argument(o)) {
      stand_ins_.emplace(o, *argument);
      return mark(holder);
    }
    const bool callable = PyFunction_Check(o) || PyMethod_Check(o) || is_partial(o);
    if (!callable && !PyTuple_Check(o) && outside_(o) && !holds_proxies(o)) {
      kept_.insert(o);
      return;
    }
    if (PyList_CheckExact(o) || PyDict_CheckExact(o)) {
      auto [it, fresh] = holders_.try_emplace(o);
      if (holder) it->second.push_back(holder);
      if (fresh && PyDict_Check(o)) visit_values(o, o);
      if (fresh && PyList_Check(o)) visit_items(o, o);
      if (marked_.count(o)) mark(holder);
    } else if (PyTuple_Check(o) || PyList_Check(o)) {
      visit_items(o, holder);
    } else if (callable) {
      auto [it, fresh] = holders_.try_emplace(o);
      if (holder) it->second.push_back(holder);
      if (fresh) visit_callable(o);
      if (marked_.count(o)) mark(holder);
    } else if (PyObject* fields = dataclass_fields(o)) {
      visit_fields(o, fields, holder);
    } else if (PyDict_Check(o)) {
      visit_values(o, holder);
    } else if (PyObject* dict = attributes(o)) {
      auto [it, fresh] = holders_.try_emplace(o);
      if (holder) it->second.push_back(holder);
      if (fresh) visit_values(dict, o);
      if (marked_.count(o)) mark(holder);
    }
  }
  std::unordered_set<PyObject*> marked() && { return std::move(marked_); }
  const std::unordered_set<PyObject*>& kept() const { return kept_; }
  const std::unordered_map<PyObject*, size_t>& stand_ins() const { return stand_ins_; }

 private:
  void visit_items(PyObject* o, PyObject* holder) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) visit(PySequence_Fast_GET_ITEM(o, i), holder);
  }
  void visit_callable(PyObject* o) {
    if (PyMethod_Check(o)) return visit(PyMethod_GET_SELF(o), o);
    if (!PyFunction_Check(o)) {
      Ref parts = Ref::steal(PyObject_CallMethod(o, "__reduce__", nullptr));
      return visit(PyTuple_GET_ITEM(parts.get(), 2), o);
    }
    PyObject* closure = PyFunction_GET_CLOSURE(o);
    for (Py_ssize_t i = 0; closure && i < PyTuple_GET_SIZE(closure); ++i)
      if (PyObject* value = PyCell_GET(PyTuple_GET_ITEM(closure, i))) visit(value, o);
    for (PyObject* part : {PyFunction_GET_DEFAULTS(o), PyFunction_GET_KW_DEFAULTS(o)})
      if (part) visit(part, o);
  }
  void visit_values(PyObject* dict, PyObject* holder) {
    PyObject *key, *value;
    for (Py_ssize_t pos = 0; PyDict_Next(dict, &pos, &key, &value);) visit(value, holder);
  }
  void visit_fields(PyObject* o, PyObject* fields, PyObject* holder) {
    PyObject *name, *field;
    for (Py_ssize_t pos = 0; PyDict_Next(fields, &pos, &name, &field);) {
      PyObject* value = PyObject_GetAttr(o, name);
      if (value) visit(Ref::steal(value).get(), holder);
      else PyErr_Clear();
    }
  }
  // C code makes lists and objects that nobody was told of.
  bool holds_proxies(PyObject* o) const {
    std::unordered_set<PyObject*> seen;
    return holds_proxies(o, seen);
  }
  bool holds_proxies(PyObject* o, std::unordered_set<PyObject*>& seen) const {
    if (is_leaf(o)) return is_proxy(o) || is_traced_number(o);
    if (copies_.argument(o)) return true;
    if (!seen.insert(o).second) return false;
    if (PyTuple_Check(o) || PyList_Check(o)) {
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i)
        if (holds_proxies(PySequence_Fast_GET_ITEM(o, i), seen)) return true;
    }
    PyObject *key, *value;
    for (PyObject* dict : {PyDict_Check(o) ? o : nullptr, attributes(o)})
      for (Py_ssize_t pos = 0; dict && PyDict_Next(dict, &pos, &key, &value);)
        if (holds_proxies(value, seen)) return true;
    return false;
  }
  // And whoever holds it: a cycle may be entered at any of its objects.
  void mark(PyObject* holder) {
    if (!holder || !marked_.insert(holder).second) return;
    for (PyObject* outer : holders_[holder]) mark(outer);
  }

  std::vector<PyObject*>& leaves_;
  std::unordered_map<PyObject*, size_t>& index_;
  const std::function<bool(PyObject*)>& outside_;
  const StandIns& copies_;
  std::unordered_map<PyObject*, std::vector<PyObject*>> holders_;
  std::unordered_map<PyObject*, size_t> stand_ins_;
  std::unordered_set<PyObject*> marked_, kept_;
};

}  // namespace

OutputSpec::OutputSpec(PyObject* result, std::vector<PyObject*>& leaves, const std::function<bool(PyObject*)>& outside,
                       const StandIns& copies)
    : template_(Ref::borrow(result)) {
  single_ = is_leaf(result);
  LeafFinder finder(leaves, index_, outside, copies);
  finder.visit(result, nullptr);
  kept_ = finder.kept();
  stand_ins_.assign(finder.stand_ins().begin(), finder.stand_ins().end());
  objects_ = std::move(finder).marked();
}

Ref OutputSpec::build(PyObject* const* leaves, const std::vector<PyObject*>& arguments) const {
  if (single_) return Ref::borrow(leaves[0]);
  const std::function<Ref(PyObject*)> leaf = [&](PyObject* o) { return Ref::borrow(leaves[index_.at(o)]); };
  const Template t{objects_, kept_};
  Rebuilder rebuilder(leaf, t);
  for (const auto& [copy, i] : stand_ins_) rebuilder.set(copy, arguments[i]);
  return rebuilder(template_.get());
}

}  // namespace thunder::frontend
