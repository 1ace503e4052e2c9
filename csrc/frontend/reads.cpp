#include "frontend/reads.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "core/error.h"
#include "core/progress.h"

#include "frontend/hooks.h"
#include "frontend/kinds.h"
#include "python/errors.h"
#include "python/lookup.h"
#include "python/stack.h"
#include "python/text.h"

namespace thunder::frontend {
namespace {

// Stands for "there is no such entry" as a value.
PyObject* absent() {
  static PyObject* o = PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type));
  return o;
}

std::string short_text(PyObject* o) {
  if (PyUnicode_Check(o)) {
    return printable(o);
  }
  if (!PyLong_CheckExact(o)) return std::string("<") + Py_TYPE(o)->tp_name + ">";
  Ref s = Ref::steal(PyObject_Str(o));
  return printable(s.get());
}

// Values that can be compared by what they are; they have no places of their own.
bool is_value(PyObject* o) {
  return !o || o == Py_None || PyBool_Check(o) || PyLong_Check(o) || PyFloat_Check(o) || PyUnicode_Check(o) ||
         is_tensor(o);
}

std::vector<EnvironmentGuard::Entry> entries_of(PyObject* dict, const std::vector<interpreter::Place>& places = {}) {
  std::vector<EnvironmentGuard::Entry> out;
  PyObject *key, *value;
  for (Py_ssize_t i = 0; PyDict_Next(dict, &i, &key, &value);) {
    EnvironmentGuard::Entry e{Ref::borrow(key), {}, {}};
    if (value != absent()) e.value = Ref::borrow(value);
    if (!places.empty()) e.place = places[std::min(out.size(), places.size() - 1)];
    out.push_back(std::move(e));
  }
  return out;
}

}  // namespace

bool is_c_descriptor(PyObject* o) { return Py_IS_TYPE(o, &PyMemberDescr_Type) || Py_IS_TYPE(o, &PyGetSetDescr_Type); }

bool is_container(PyObject* o) { return PyList_Check(o) || PyAnySet_Check(o) || PyDict_Check(o) || is_deque(o); }

// ---- names, for messages --------------------------------------------------------------------------------------------

const std::string& Reads::name_of(PyObject* o) {
  std::string& name = names_[o];
  if (!name.empty()) return name;
  if (PyDict_Check(o)) {
    PyObject* module = PyDict_GetItemString(o, "__name__");
    if (module && PyUnicode_Check(module)) return name = "globals of " + short_text(module);
  }
  return name = std::string("a ") + Py_TYPE(o)->tp_name;
}

void Reads::name_value(PyObject* owner, PyObject* key, PyObject* value, bool attribute) {
  if (is_value(value) || names_.count(value)) return;
  constexpr size_t kLongest = 200;
  std::string text = short_text(key), of = name_of(owner);
  if (of.size() > kLongest) of = "..." + of.substr(of.size() - kLongest / 2);
  if (PyDict_Check(owner) && of.starts_with("globals of ")) {
    of = text;
  } else {
    // module._modules['layer'] is module.layer to its user.
    for (std::string_view part : {"._modules", "._parameters", "._buffers"})
      if (of.ends_with(part)) of.resize(of.size() - part.size()), attribute = true;
    of += attribute || instance_dicts_.count(owner) ? "." + text : "[" + text + "]";
  }
  names_[value] = of;
  keep(value);
}

void Reads::name_root(PyObject* object, std::string name) {
  names_.emplace(object, std::move(name));
  keep(object);
}

void Reads::name_instance_dict(PyObject* object, PyObject* dict) {
  if (instance_dicts_.insert(dict).second) names_.emplace(dict, name_of(object)), keep(dict);
}

// ---- what is the code's own -----------------------------------------------------------------------------------------

void Reads::made(PyObject* object) {
  if (fresh_.insert(object).second) keep(object);
}

bool Reads::made_inside(PyObject* o) const { return fresh(o) || (is_native_iterator(o) && !iterators_.count(o)); }

// Where iterators of C code are cannot be seen: those that were there before the call are remembered.
void Reads::came_from_outside(PyObject* value) {
  if (!value || fresh(value)) return;
  if (PyCFunction_Check(value) && PyCFunction_GET_SELF(value)) return came_from_outside(PyCFunction_GET_SELF(value));
  if (PyMethod_Check(value)) return came_from_outside(PyMethod_GET_SELF(value));
  if (is_bound_slot(value)) return came_from_outside(Ref::steal(PyObject_GetAttrString(value, "__self__")).get());
  if (PyTuple_Check(value)) {
    check_stack();
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) came_from_outside(PyTuple_GET_ITEM(value, i));
  }
  if (is_native_iterator(value) && iterators_.insert(value).second) keep(value);
}

// It cannot be taken back, nor done again.
void Reads::will_advance(PyObject* iterator) {
  if (!once_.empty() || !iterators_.count(iterator)) return;
  once_ = std::string("the program advances a ") + Py_TYPE(iterator)->tp_name + " that was made outside of it\n  at " +
          interpreter::current_place().str();
}

bool Reads::enter(PyObject* function, PyCodeObject* code, PyObject* locals, PyObject* first) {
  Progress::step("acquiring", [&] { return printable(code->co_qualname); });
  frames_.is_of(function, first, function && !fresh(function) && !(first && fresh(first)));
  // The namespace of a class that is being made.
  if (locals && !(code->co_flags & CO_OPTIMIZED)) made(locals);
  if (!constructing_.empty() && first && reinterpret_cast<PyObject*>(Py_TYPE(first)) == constructing_.back()) {
    // Its code may have another name: a lambda's, a decorator's.
    static PyObject* init = PyUnicode_InternFromString("__init__");
    if ((function && class_attribute(Py_TYPE(first), init) == function) ||
        PyUnicode_Compare(code->co_name, init) == 0) {
      made(first);
      constructing_.back() = nullptr;
    }
  }
  if (function && !fresh(function) && functions_.insert(function).second) {
    keep(function);
    if (PyObject* defaults = PyFunction_GET_DEFAULTS(function)) came_from_outside(defaults);
    if (PyObject* defaults = PyFunction_GET_KW_DEFAULTS(function)) read_dict_whole(defaults);
  }
  // A special method that C code looked up in the class of its first argument.
  if (function && first && printable(code->co_name).starts_with("__")) {
    PyObject* found = class_attribute(Py_TYPE(first), code->co_name);
    if (found == function) read_type(first), read_class(Py_TYPE(first), code->co_name, found);
  }
  return true;
}

// ---- reads ----------------------------------------------------------------------------------------------------------

Reads::DictReads& Reads::reads_of(PyObject* dict) {
  auto [it, fresh_entry] = dict_index_.emplace(dict, dicts_.size());
  if (fresh_entry) dicts_.push_back({Ref::borrow(dict), Ref::steal(PyDict_New()), {}});
  return dicts_[it->second];
}

void Reads::read_entry(PyObject* dict, PyObject* key, PyObject* value) {
  if (!PyDict_Check(dict) || fresh(dict) || written(dict, key)) return;
  // torch.compiler's: true while programs are acquired, whatever it is outside.
  static PyObject* compiling = PyUnicode_InternFromString("_is_compiling_flag");
  if (key == compiling) {
    tracer_.asked_whether_compiled = true;
    return;
  }
  add_entry(dict, key, value);
  name_value(dict, key, value, false);
}

void Reads::add_entry(PyObject* dict, PyObject* key, PyObject* value) {
  DictReads& r = reads_of(dict);
  if (r.order) return;  // all of it is known
  Py_ssize_t before = PyDict_GET_SIZE(r.entries.get());
  if (!PyDict_SetDefault(r.entries.get(), key, value ? value : absent())) PyErr_Clear();
  if (PyDict_GET_SIZE(r.entries.get()) > before) r.places.push_back(interpreter::current_place());
  came_from_outside(value);
}

void Reads::read_dict_whole(PyObject* dict) {
  if (fresh(dict)) return;
  DictReads& r = reads_of(dict);
  if (r.order) return;
  r.order = true;
  Ref original = as_it_was(dict);
  PyObject* source = original.get();
  r.size = PyDict_GET_SIZE(source);
  if (PyODict_Check(source) && r.size > 1) {  // its order is its own
    container_index_.emplace(dict, containers_.size());
    containers_.push_back({Ref::borrow(dict), Ref::steal(PySequence_Tuple(source)), r.size, {}});
  }
  Ref ordered = Ref::steal(PyDict_New());
  PyObject *key, *value;
  for (Py_ssize_t i = 0; PyDict_Next(source, &i, &key, &value);) {
    PyDict_SetItem(ordered.get(), key, value);
    name_value(dict, key, value, false);
    came_from_outside(value);
  }
  r.entries = std::move(ordered);
  r.places = {interpreter::current_place()};
}

void Reads::read_cell(PyObject* cell, PyObject* value) {
  if (fresh(cell) || written(cell, nullptr)) return;
  came_from_outside(value);
  auto [it, first] = cell_index_.emplace(cell, cells_.size());
  if (first) cells_.push_back({Ref::borrow(cell), Ref::borrow(value), "the function", interpreter::current_place()});
  if (!is_value(value) && names_.emplace(value, std::string("a closure's ") + Py_TYPE(value)->tp_name).second)
    keep(value);
}

// torch.autograd.Function.apply is the compiler's while programs are acquired.
static bool of_the_compiler(PyObject* found) {
  if (!found || !Py_IS_TYPE(found, &PyClassMethod_Type) || hooks().internal_paths.empty()) return false;
  Ref function = Ref::steal(PyObject_GetAttrString(found, "__func__"));
  if (!PyFunction_Check(function.get())) return false;
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function.get()));
  return printable(code->co_filename).starts_with(hooks().internal_paths[0]);
}

void Reads::read_class(PyTypeObject* type, PyObject* name, PyObject* found) {
  if (of_the_compiler(found) || class_written(type, name)) return;
  came_from_outside(found);
  // Classes of C code do not change.
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE)) return;
  auto* o = reinterpret_cast<PyObject*>(type);
  if (fresh(o)) {
    PyTypeObject* base = type->tp_base;
    return base ? read_class(base, name, class_attribute(base, name)) : void();
  }
  auto [it, first] = class_index_.emplace(o, classes_.size());
  if (first) {
    classes_.push_back({type, Ref::steal(PyDict_New())});
    keep(o);
  }
  if (!PyDict_SetDefault(classes_[it->second].found.get(), name, found ? found : absent())) PyErr_Clear();
}

void Reads::read_type(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE)) return;
  if (is_tensor(object) || fresh(object) || hooks().is_dtensor(object)) return;
  if (types_.insert(object).second) keep(object);
}

// Each class from the one after super's own to the one that has the name.
void Reads::read_super(PyObject* super, PyObject* name) {
  struct Fields {
    PyObject_HEAD
    PyTypeObject* type;
    PyObject* object;
    PyTypeObject* object_type;
  };
  auto* s = reinterpret_cast<Fields*>(super);
  PyObject* order = s->object_type ? s->object_type->tp_mro : nullptr;
  bool below = true;
  for (Py_ssize_t i = 0; order && i < PyTuple_GET_SIZE(order); ++i) {
    auto* type = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(order, i));
    if (!below) {
      read_class(type, name, class_attribute(type, name));
      if (PyDict_Contains(class_dict(PyTuple_GET_ITEM(order, i)), name) != 0) return;
    }
    below = below && type != s->type;
  }
}

namespace {

// The dict of an instance, or null.
PyObject* instance_dict(PyObject* o) {
  PyObject** place = dict_place(o);
  if (!place) return nullptr;
  if (!*place) {
    PyObject* made = PyObject_GenericGetDict(o, nullptr);
    if (!made) PyErr_Clear();
    Py_XDECREF(made);
    place = dict_place(o);
  }
  return place ? *place : nullptr;
}

}  // namespace

void Reads::read_attribute(PyObject* object, PyObject* name, PyObject* value) {
  if (PyErr_Occurred()) {
    // Being told of what raised must not disturb the exception.
    const KeepError pending;
    read_attribute(object, name, nullptr);
    return;
  }
  if (is_proxy(object)) return read_attribute_of_tensor(object, name);
  if (!is_tensor(object) && hooks().is_dtensor(object)) return;  // the program made it
  if (fresh(object)) {
    see_drawn(object);
    if (ClassUse* use = use_of(object)) use->add(name);
    // The dict of what is the code's own is its own.
    if (value && PyDict_CheckExact(value) && dict_place(object) && instance_dict(object) == value) {
      made(value);
      ask_everything(object);
    }
    // Its class may be somebody else's.
    PyTypeObject* type = PyType_Check(object) ? reinterpret_cast<PyTypeObject*>(object) : Py_TYPE(object);
    return read_class(type, name, class_attribute(type, name));
  }
  if (PyModule_Check(object)) {
    PyObject* dict = PyModule_GetDict(object);
    names_.emplace(dict, std::string("globals of ") + name_of(object));
    return read_entry(dict, name, PyDict_GetItemWithError(dict, name));
  }
  if (PyType_Check(object)) {
    auto* type = reinterpret_cast<PyTypeObject*>(object);
    read_class(type, name, class_attribute(type, name));
    read_class(Py_TYPE(object), name, class_attribute(Py_TYPE(object), name));
    return;
  }
  if (PyObject_TypeCheck(object, &PySuper_Type)) return read_super(object, name);
  touch_attribute(object, name);
  PyTypeObject* type = Py_TYPE(object);
  read_type(object);
  PyObject* found = class_attribute(type, name);
  read_class(type, name, found);
  if (is_tensor(object) && found) {  // its metadata, say
    if (asked_.insert(object).second) keep(object);
    // Whether it is a leaf is no part of a tensor's type, nor is its gradient, of which programs see None alone.
    const bool is_gradient = PyUnicode_CompareWithASCIIString(name, "grad") == 0;
    const bool of_graph = is_gradient || PyUnicode_CompareWithASCIIString(name, "grad_fn") == 0 ||
                          PyUnicode_CompareWithASCIIString(name, "is_leaf") == 0;
    if (of_graph && attributed_.insert(object).second) keep(object);
    if (is_gradient && (!value || value == Py_None))
      attributes_.push_back({Ref::borrow(object), Ref::borrow(name), Ref::borrow(Py_None)});
    return;
  }
  if (found && Py_TYPE(found)->tp_descr_set) {
    read_descriptor(object, name, found);
    if (value && PyDict_CheckExact(value) && instance_dict(object) == value) name_instance_dict(object, value);
    return;  // what a property reads is told by itself
  }
  PyObject* dict = instance_dict(object);
  if (is_tensor(object) && attributed_.insert(object).second) keep(object);
  if (!dict || attribute_written(object, name)) return;
  name_instance_dict(object, dict);
  PyObject* now = PyDict_GetItemWithError(dict, name);
  if (!written(dict, name)) add_entry(dict, name, now);
  name_value(object, name, now, true);
}

void Reads::read_item(PyObject* object, PyObject* key, PyObject* value) {
  ask_identity(key);
  object = shown_by(object);
  see_drawn(object);
  if (!is_tensor(object)) tracer_.draws().open_all(key);
  if (fresh(object) || is_tensor(object)) return;
  const KeepError pending;
  touch(object);
  if (PyDict_Check(object)) read_entry(object, key, PyDict_GetItemWithError(object, key));
  else if (PyList_CheckExact(object) && PyLong_Check(key)) read_element(object, key);
  else if (is_container(object)) read_whole(object);
}

void Reads::read_membership(PyObject* object, PyObject* key, bool found) {
  ask_identity(key);
  const bool of_values = PyDictItems_Check(object) || PyDictValues_Check(object);
  object = shown_by(object);
  see_drawn(object);
  if (fresh(object)) return;
  if (PyDict_Check(object) && !of_values) return read_entry(object, key, PyDict_GetItemWithError(object, key));
  read_whole(object);
}

Reads::ContainerReads& Reads::container_reads(PyObject* container) {
  auto [it, first] = container_index_.emplace(container, containers_.size());
  if (first) containers_.push_back({Ref::borrow(container), {}, -1, interpreter::current_place()});
  return containers_[it->second];
}

void Reads::read_element(PyObject* list, PyObject* index) {
  Py_ssize_t i = PyLong_AsSsize_t(index), n = PyList_GET_SIZE(list);
  bool inside = i >= -n && i < n;
  if (i < 0 || !inside) read_length(list);
  if (!inside) return PyErr_Clear();
  if (i < 0) i += n;
  Ref key = Ref::steal(PyLong_FromSsize_t(i));
  if (written(list, key.get())) return;
  container_reads(list).items.emplace(i, Ref::borrow(PyList_GET_ITEM(list, i)));
  came_from_outside(PyList_GET_ITEM(list, i));
  name_value(list, key.get(), PyList_GET_ITEM(list, i), false);
}

// Its elements before the code wrote to it.
Ref Reads::as_it_was(PyObject* container) {
  if (PyDict_Check(container)) {
    for (size_t i : effects_of_[container])
      if (effects_[i].kind == Effect::Contents) return effects_[i].before;
    if (effects_of_[container].empty()) return Ref::borrow(container);
    Ref dict = Ref::steal(PyDict_Copy(container));
    for (size_t i : effects_of_[container]) {
      const Effect& e = effects_[i];
      if (e.before) PyDict_SetItem(dict.get(), e.key.get(), e.before.get());
      else if (PyDict_DelItem(dict.get(), e.key.get()) < 0) PyErr_Clear();
    }
    return dict;
  }
  if (!PyList_Check(container)) {
    for (size_t i : effects_of_[container]) return effects_[i].before;
    return Ref::borrow(container);
  }
  Ref list = Ref::steal(PySequence_List(container));
  for (size_t i : effects_of_[container]) {
    const Effect& e = effects_[i];
    if (e.kind == Effect::Contents) return e.before;
    if (e.kind == Effect::Appended) {
      PyList_SetSlice(list.get(), PyLong_AsSsize_t(e.before.get()), PY_SSIZE_T_MAX, nullptr);
    }
  }
  for (size_t i : effects_of_[container])
    if (const Effect& e = effects_[i]; e.kind == Effect::Element)
      PyList_SetItem(list.get(), PyLong_AsSsize_t(e.key.get()), Py_NewRef(e.before.get()));
  return list;
}

void Reads::read_length(PyObject* object) {
  // What truth asks the class for.
  if (PyTypeObject* type = Py_TYPE(object); type->tp_flags & Py_TPFLAGS_HEAPTYPE)
    for (const char* name : {"__bool__", "__len__"}) {
      Ref key = Ref::steal(PyUnicode_InternFromString(name));
      read_class(type, key.get(), class_attribute(type, key.get()));
    }
  object = shown_by(object);
  touch(object);
  if (!is_container(object) || fresh(object)) return;
  if (!effects_of_[object].empty()) return read_whole(object);
  if (PyDict_Check(object)) {
    DictReads& r = reads_of(object);
    if (r.size < 0) r.size = PyDict_GET_SIZE(object);
    return;
  }
  ContainerReads& r = container_reads(object);
  if (r.length < 0) r.length = PyObject_Size(object);
}

void Reads::read_whole(PyObject* object) {
  object = shown_by(object);
  will_advance(object);
  touch(object);
  if (!is_container(object) || fresh(object)) return;
  if (PyDict_Check(object)) return read_dict_whole(object);
  ContainerReads& r = container_reads(object);
  if (r.elements) return;
  Ref original = as_it_was(object);
  PyObject* source = original.get();
  r.elements = Ref::steal(PyAnySet_Check(source) ? PyFrozenSet_New(source) : PySequence_Tuple(source));
  r.length = PyObject_Size(source);
  if (!PyTuple_Check(r.elements.get())) return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(r.elements.get()); ++i) {
    Ref index = Ref::steal(PyLong_FromSsize_t(i));
    name_value(object, index.get(), PyTuple_GET_ITEM(r.elements.get(), i), false);
    came_from_outside(PyTuple_GET_ITEM(r.elements.get(), i));
  }
}

// A C function may look at all that it is given.
void Reads::read_deep(PyObject* object) {
  check_stack();
  ask_everything(object);
  object = shown_by(object);
  bool tuple = PyTuple_Check(object);
  if (!tuple && !is_container(object)) return touch(object), will_advance(object), read_callable(object);
  read_whole(object);
  if (!visited_.insert(object).second) return;  // a cycle
  if (tuple || PyList_Check(object)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i) read_deep(PySequence_Fast_GET_ITEM(object, i));
  } else if (PyDict_Check(object)) {
    PyObject *key, *value;
    for (Py_ssize_t i = 0; PyDict_Next(object, &i, &key, &value);) read_deep(value);
  }
  visited_.erase(object);
}

void Reads::read_compared(PyObject* object) { read_deep(object); }
bool Reads::are_same(PyObject* left, PyObject* right) {
  if (!is_tensor(left) || !is_tensor(right) || is_proxy(left) == is_proxy(right)) return false;
  return is_proxy(left) ? tracer_.tensors().is_same(left, right) : tracer_.tensors().is_same(right, left);
}
bool Reads::is_plain_subclass(PyObject* object, PyObject* other) {
  return is_proxy(object) && is_tensor(other) && !is_proxy(other);
}

// ---- the end --------------------------------------------------------------------------------------------------------

std::vector<Effect> Reads::finish(EnvironmentGuard& environment) {
  take_back();
  find_arguments_elsewhere();
  for (PyObject* tensor : attributed_) environment.hold_tensor(tensor);
  for (const DictReads& r : dicts_)
    if (!fresh(r.dict.get()))
      environment.watch_entries(r.dict.get(), name_of(r.dict.get()), entries_of(r.entries.get(), r.places), r.size,
                                r.order);
  for (const CellRead& r : cells_) environment.watch_cell(r.cell.get(), r.value.get(), r.name, r.place);
  for (const ContainerReads& r : containers_) watch(environment, r);
  for (PyObject* o : types_) environment.watch_type(o);
  for (EnvironmentGuard::Answer& answer : answers_) environment.watch_answer(std::move(answer));
  for (const ClassReads& r : classes_) environment.watch_class(r.type, entries_of(r.found.get()));
  for (const AttributeRead& r : attributes_)
    environment.watch_attribute(r.object.get(), r.name.get(), r.value.get(), name_of(r.object.get()));
  for (PyObject* f : functions_) environment.watch_code(f);
  for (PyObject* tensor : asked_) environment.add_tensor(tensor);
  finish_weak(environment);
  std::vector<Effect> out;
  for (Effect& e : effects_) {
    bool nothing = e.kind == Effect::Appended ? PyList_GET_SIZE(e.after.get()) == 0 : e.before.get() == e.after.get();
    nothing = nothing && !e.moved && guarded(e);
    if (nothing || fresh(e.owner.get())) continue;
    if (e.kind == Effect::Contents || e.kind == Effect::Appended) made(e.after.get());
    out.push_back(std::move(e));
  }
  effects_.clear();
  finish_states(environment, out);
  return out;
}

void Reads::watch(EnvironmentGuard& environment, const ContainerReads& r) {
  PyObject* o = r.object.get();
  if (fresh(o)) return;
  std::string name = name_of(o);
  bool list = PyList_Check(o);
  if (r.length >= 0) environment.watch_container(o, r.length, list ? Ref() : r.elements, name, r.place);
  if (!list) return;
  for (Py_ssize_t i = 0; r.elements && i < PyTuple_GET_SIZE(r.elements.get()); ++i)
    environment.watch_element(o, i, PyTuple_GET_ITEM(r.elements.get(), i), name, r.place);
  for (const auto& [i, value] : r.items)
    if (!r.elements) environment.watch_element(o, i, value.get(), name, r.place);
}

Reads::~Reads() {
  if (effects_.empty() && states_.empty()) return;
  const KeepError pending;
  take_back();
}

}  // namespace thunder::frontend
