#include "frontend/environment.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "frontend/hooks.h"
#include "python/lookup.h"
#include "python/stack.h"
#include "python/text.h"

namespace thunder::frontend {
namespace {

bool is_plain(PyObject* o) {
  return o == Py_None || PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyUnicode_CheckExact(o);
}

}  // namespace

bool same_value(PyObject* then, PyObject* now) {
  if (then == now) return true;
  if (!now || Py_TYPE(then) != Py_TYPE(now)) return false;
  if (PyTuple_CheckExact(then)) {
    check_stack();
    Py_ssize_t n = PyTuple_GET_SIZE(then);
    if (n != PyTuple_GET_SIZE(now)) return false;
    for (Py_ssize_t i = 0; i < n; ++i)
      if (!same_value(PyTuple_GET_ITEM(then, i), PyTuple_GET_ITEM(now, i))) return false;
    return true;
  }
  if (!is_plain(then)) return false;
  if (PyFloat_CheckExact(then)) {  // by their bits: -0.0 is another, a NaN the same
    double a = PyFloat_AS_DOUBLE(then), b = PyFloat_AS_DOUBLE(now);
    return std::memcmp(&a, &b, sizeof a) == 0;
  }
  int equal = PyObject_RichCompareBool(then, now, Py_EQ);
  if (equal < 0) PyErr_Clear();
  return equal == 1;
}

namespace {

std::string text_of(PyObject* o) { return printable(Ref::steal(PyObject_Str(o)).get()); }

std::string read_at(const interpreter::Place& place) {
  std::string where = place.str();
  return where.empty() ? where : "\n  read at " + where;
}

Ref attribute(PyObject* o, const char* name) {
  PyObject* a = PyObject_GetAttrString(o, name);
  if (!a) PyErr_Clear();
  Ref r;
  if (a) r = Ref::steal(a);
  return r;
}

}  // namespace

void EnvironmentGuard::watch_dict(PyObject* dict, std::string name, bool exact) {
  if (!dict || !PyDict_Check(dict)) return;
  if (!watched_.insert(dict).second) return;
  Watch w;
  w.dict = Ref::borrow(dict);
  w.name = std::move(name);
  if (exact) w.size = PyDict_GET_SIZE(dict);
  PyObject *key, *value;
  for (Py_ssize_t pos = 0; PyDict_Next(dict, &pos, &key, &value);)
    w.items.push_back({Ref::borrow(key), Ref::borrow(value), is_tensor(value), {}});
  add_watch(std::move(w));
}

void EnvironmentGuard::watch_module(PyObject* root) {
  Ref named = Ref::steal(PyObject_CallMethod(root, "named_modules", nullptr));
  Ref pairs = Ref::steal(PySequence_List(named.get()));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(pairs.get()); ++i) {
    PyObject* pair = PyList_GET_ITEM(pairs.get(), i);
    std::string name = text_of(PyTuple_GET_ITEM(pair, 0));
    if (name.empty()) name = "the module";
    PyObject* module = PyTuple_GET_ITEM(pair, 1);
    owned_.push_back(Ref::borrow(module));
    Ref dict = attribute(module, "__dict__");
    watch_dict(dict.get(), name, true);
    if (!dict) continue;
    for (const char* part : {"_modules", "_parameters", "_buffers", "_forward_hooks", "_forward_pre_hooks",
                             "_backward_hooks", "_backward_pre_hooks"})
      watch_dict(PyDict_GetItemString(dict.get(), part), name + "." + part, true);
  }
  Ref nn = Ref::steal(PyImport_ImportModule("torch.nn.modules.module"));
  for (const char* global :
       {"_global_forward_hooks", "_global_forward_pre_hooks", "_global_backward_hooks", "_global_backward_pre_hooks"})
    watch_dict(attribute(nn.get(), global).get(), global, true);
}

void EnvironmentGuard::add_watch(Watch w) {
  writes_.watch(w.dict.get());
  watches_.push_back(std::move(w));
}

void EnvironmentGuard::watch_code(PyObject* code, PyObject* globals, const std::string& name) {
  auto* co = reinterpret_cast<PyCodeObject*>(code);
  Watch w;
  w.dict = Ref::borrow(globals);
  w.name = "globals of " + name;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(co->co_names); ++i) {
    PyObject* key = PyTuple_GET_ITEM(co->co_names, i);
    if (PyObject* value = PyDict_GetItem(globals, key))
      w.items.push_back({Ref::borrow(key), Ref::borrow(value), is_tensor(value), {}});
  }
  if (!w.items.empty()) add_watch(std::move(w));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(co->co_consts); ++i)
    if (PyObject* c = PyTuple_GET_ITEM(co->co_consts, i); PyCode_Check(c)) watch_code(c, globals, name);
}

void EnvironmentGuard::watch_function(PyObject* function) {
  if (PyMethod_Check(function)) {
    if (Ref dict = attribute(PyMethod_GET_SELF(function), "__dict__")) watch_dict(dict.get(), "self", true);
    function = PyMethod_GET_FUNCTION(function);
  }
  if (!PyFunction_Check(function)) return;
  owned_.push_back(Ref::borrow(function));
  std::string name = text_of(attribute(function, "__qualname__").get());
  watch_code(PyFunction_GET_CODE(function), PyFunction_GET_GLOBALS(function), name);
  PyObject* closure = PyFunction_GET_CLOSURE(function);
  for (Py_ssize_t i = 0; closure && i < PyTuple_GET_SIZE(closure); ++i) {
    PyObject* cell = PyTuple_GET_ITEM(closure, i);
    PyObject* value = PyCell_GET(cell);
    cells_.push_back({Ref::borrow(cell), Ref::borrow(value), name, value && is_tensor(value), {}});
  }
}

std::vector<EnvironmentGuard::Place> EnvironmentGuard::find(PyObject* tensor) {
  std::vector<Place> out;
  for (Watch& w : watches_)
    for (Item& item : w.items)
      if (item.value.get() == tensor) out.push_back({Place::Dict, w.dict, item.key});
  for (Cell& c : cells_)
    if (c.value.get() == tensor) out.push_back({Place::CellContents, c.cell, {}});
  for (Element& e : elements_)
    if (e.value.get() == tensor) out.push_back({Place::ListElement, e.list, {}, e.index});
  if (out.empty()) out.push_back({Place::Fixed, Ref::borrow(tensor), {}});
  return out;
}

void EnvironmentGuard::add_tensor(PyObject* tensor) {
  places_.push_back(find(tensor));
  owned_tensors_.push_back(Ref::borrow(tensor));
  current_.push_back(tensor);
}

bool EnvironmentGuard::watch_weak(PyObject* reference) {
  std::vector<Place> places = find(PyWeakref_GetObject(reference));
  if (places.front().kind == Place::Fixed) return false;
  weak_.push_back({Ref::borrow(reference), std::move(places)});
  return true;
}

namespace {

// Elements now, in the form that watch_container() was given; null with an exception cleared if that fails.
Ref elements_of(PyObject* o) {
  PyObject* now = PyAnySet_Check(o) ? PyFrozenSet_New(o) : PySequence_Tuple(o);
  if (!now) PyErr_Clear();
  Ref r;
  if (now) r = Ref::steal(now);
  return r;
}

bool same_elements(PyObject* object, PyObject* then) {
  if (PyAnySet_Check(object)) {
    int equal = PyObject_RichCompareBool(object, then, Py_EQ);
    if (equal < 0) PyErr_Clear();
    return equal == 1;
  }
  Ref copy;
  bool list = PyList_CheckExact(object);
  if (!list) copy = elements_of(object);
  if (!list && !copy) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(then); ++i) {
    PyObject* now = list ? PyList_GET_ITEM(object, i) : PyTuple_GET_ITEM(copy.get(), i);
    if (!same_value(PyTuple_GET_ITEM(then, i), now)) return false;
  }
  return true;
}

}  // namespace

// A DTensor's place among the program's inputs is taken by a tensor in its memory.
bool EnvironmentGuard::is_replaceable(PyObject* o) const {
  return o && is_tensor(o) && !held_.count(o) && !hooks().is_dtensor(o);
}

void EnvironmentGuard::watch_entries(PyObject* dict, std::string name, const std::vector<GuardedEntry>& entries,
                                     Py_ssize_t size, bool order) {
  Watch w;
  w.dict = Ref::borrow(dict);
  w.name = std::move(name);
  w.size = size;
  w.order = order;
  for (const GuardedEntry& e : entries) w.items.push_back({e.key, e.value, is_replaceable(e.value.get()), e.place});
  add_watch(std::move(w));
}

void EnvironmentGuard::watch_cell(PyObject* cell, PyObject* value, std::string name, interpreter::Place place) {
  bool tensor = is_replaceable(value);
  cells_.push_back({Ref::borrow(cell), Ref::borrow(value), std::move(name), tensor, std::move(place)});
}

void EnvironmentGuard::watch_container(PyObject* object, Py_ssize_t length, Ref elements, std::string name,
                                       interpreter::Place place) {
  containers_.push_back({Ref::borrow(object), std::move(elements), length, std::move(name), std::move(place)});
}

void EnvironmentGuard::watch_element(PyObject* list, Py_ssize_t index, PyObject* value, std::string name,
                                     interpreter::Place place) {
  bool tensor = is_replaceable(value);
  elements_.push_back({Ref::borrow(list), Ref::borrow(value), index, std::move(name), std::move(place), tensor});
}

void EnvironmentGuard::watch_type(PyObject* object) {
  PyObject** place = dict_place(object);
  if (place && !*place) place = nullptr;
  types_.push_back({Ref::borrow(object), Py_TYPE(object), place, Ref::borrow(place ? *place : nullptr)});
}

void EnvironmentGuard::watch_state(const StateOf& of, Ref state, interpreter::Place place) {
  states_.push_back({of, std::move(state), std::move(place)});
}

void EnvironmentGuard::watch_answer(Answer answer) { answers_.push_back(std::move(answer)); }

void EnvironmentGuard::watch_class(PyTypeObject* type, std::vector<GuardedEntry> found) {
  static constexpr const char* kImplied[] = {"__getattribute__", "__getattr__", "__setattr__", "__delattr__",
                                             "__bool__",         "__len__",     "__eq__",      "__hash__",
                                             "__contains__",     "__iter__",    "__getitem__", "__call__"};
  for (const GuardedEntry& e : found) class_attribute(type, e.key.get());  // gives the class a version
  std::vector<GuardedEntry> implied;
  for (const char* name : kImplied) {
    Ref key = Ref::steal(PyUnicode_InternFromString(name));
    implied.push_back({key, Ref::borrow(class_attribute(type, key.get())), {}});
  }
  classes_.push_back(
      {Ref::borrow(reinterpret_cast<PyObject*>(type)), type->tp_version_tag, std::move(found), std::move(implied)});
}

void EnvironmentGuard::watch_attribute(PyObject* object, PyObject* name, PyObject* value, std::string where) {
  attributes_.push_back({Ref::borrow(object), Ref::borrow(name), Ref::borrow(value), std::move(where)});
}

void EnvironmentGuard::watch_code(PyObject* function) {
  functions_.push_back({Ref::borrow(function), Ref::borrow(PyFunction_GET_CODE(function)),
                        Ref::borrow(PyFunction_GET_DEFAULTS(function)),
                        Ref::borrow(PyFunction_GET_KW_DEFAULTS(function))});
}

bool EnvironmentGuard::check_objects(std::string* why) {
  auto fails = [&](auto&& text) {
    if (why) *why = text();
    return false;
  };
  for (Container& c : containers_) {
    Py_ssize_t n = PyObject_Size(c.object.get());
    if (n < 0) PyErr_Clear();
    if ((c.length >= 0 && n != c.length) || (c.elements && !same_elements(c.object.get(), c.elements.get())))
      return fails([&] { return c.name + " has other elements" + read_at(c.place); });
  }
  if (!check_classes(why)) return false;
  for (Attribute& a : attributes_) {
    PyObject* now = PyObject_GenericGetAttr(a.object.get(), a.name.get());
    if (!now) PyErr_Clear();
    bool same = now ? a.value && same_value(a.value.get(), now) : !a.value;
    Py_XDECREF(now);
    if (!same) return fails([&] { return a.where + ": '" + text_of(a.name.get()) + "' changed"; });
  }
  for (Function& f : functions_)
    if (PyFunction_GET_CODE(f.function.get()) != f.code.get() ||
        PyFunction_GET_DEFAULTS(f.function.get()) != f.defaults.get() ||
        PyFunction_GET_KW_DEFAULTS(f.function.get()) != f.keyword_defaults.get())
      return fails([&] {
        return "the code or a default of function " + text_of(attribute(f.function.get(), "__qualname__").get()) +
               " changed";
      });
  for (const State& state : states_)
    if (!state.of.is(state.state.get()))
      return fails([&] { return state.of.text() + " changed" + read_at(state.place); });
  for (Answer& a : answers_) {
    PyObject* now = PyObject_Call(a.function.get(), a.arguments.get(), a.keywords.get());
    if (!now) PyErr_Clear();
    bool same = now && same_value(a.value.get(), now);
    Py_XDECREF(now);
    if (!same)
      return fails(
          [&] { return "what " + text_of(attribute(a.function.get(), "__name__").get()) + "() gives changed"; });
  }
  return true;
}

bool EnvironmentGuard::check_classes(std::string* why) {
  auto fails = [&](auto&& text) {
    if (why) *why = text();
    return false;
  };
  for (const Type& t : types_) {
    if (Py_TYPE(t.object.get()) != t.type)
      return fails([&] { return std::string("an object of class ") + t.type->tp_name + " has another"; });
    if (t.place && *t.place != t.dict.get())
      return fails([&] { return std::string("an object of class ") + t.type->tp_name + " has another __dict__"; });
  }
  for (Class& c : classes_) {
    auto* type = reinterpret_cast<PyTypeObject*>(c.type.get());
    if (type->tp_version_tag == c.version && c.version) continue;
    for (const auto* entries : {&c.found, &c.implied})
      for (const GuardedEntry& e : *entries)
        if (PyObject* now = class_attribute(type, e.key.get()); now != e.value.get()) {
          if (why) note_number(c.type.get(), e.key.get(), e.value.get(), value_at(c.type.get(), e.key.get()));
          return fails([&] { return "'" + text_of(e.key.get()) + "' of class " + type->tp_name + " changed"; });
        }
    c.version = type->tp_version_tag;
  }
  return true;
}

bool EnvironmentGuard::compare(Watch& w, std::string* why) {
  if (w.size >= 0 && PyDict_GET_SIZE(w.dict.get()) != w.size) {
    if (why) {
      *why = cat(w.name, ": it has ", PyDict_GET_SIZE(w.dict.get()), " entries, it had ", w.size);
      if (!w.items.empty()) *why += read_at(w.items.front().place);
    }
    return false;
  }
  PyObject *key, *value;
  size_t i = 0;
  for (Py_ssize_t pos = 0; w.order && PyDict_Next(w.dict.get(), &pos, &key, &value); ++i)
    if (key != w.items[i].key.get() && !same_value(w.items[i].key.get(), key)) {
      if (why) *why = w.name + ": its entries are others or in another order";
      return false;
    }
  for (Item& item : w.items) {
    PyObject* now = PyDict_GetItem(w.dict.get(), item.key.get());
    bool ok = !item.value ? !now : item.tensor ? now && is_tensor(now) : same_value(item.value.get(), now);
    if (ok) continue;
    if (why) note_number(w.dict.get(), item.key.get(), item.value.get(), now);
    if (why) *why = w.name + ": '" + text_of(item.key.get()) + "' changed" + read_at(item.place);
    return false;
  }
  return true;
}

PyObject* EnvironmentGuard::Place::tensor() const {
  PyObject* o = container.get();
  PyObject* now = o;
  if (kind == Dict) now = PyDict_GetItem(o, key.get());
  if (kind == CellContents) now = PyCell_GET(o);
  if (kind == ListElement) now = index < PyList_GET_SIZE(o) ? PyList_GET_ITEM(o, index) : nullptr;
  return now && is_tensor(now) ? now : nullptr;
}

bool EnvironmentGuard::refresh_tensors(std::string* why) {
  for (size_t i = 0; i < places_.size(); ++i) {
    PyObject* now = places_[i].front().tensor();
    if (!now) {
      if (why) *why = "a captured tensor is gone";
      return false;
    }
    // The program has one input for what was one tensor wherever it lay.
    for (const Place& p : places_[i])
      if (p.tensor() != now) {
        if (why) *why = "a captured tensor was replaced in one of several places";
        return false;
      }
    if (now == current_[i]) continue;
    current_[i] = now;
    owned_tensors_[i] = Ref::borrow(now);
  }
  return true;
}

bool EnvironmentGuard::referents_stay() const {
  return std::all_of(weak_.begin(), weak_.end(), [](const Weak& w) {
    PyObject* now = PyWeakref_GetObject(w.reference.get());
    return std::all_of(w.places.begin(), w.places.end(), [&](const Place& p) { return p.tensor() == now; });
  });
}

bool EnvironmentGuard::check_cells(bool& written, std::string* why) {
  for (Cell& c : cells_) {
    PyObject* now = PyCell_GET(c.cell.get());
    if (now == c.value.get()) continue;
    bool ok = c.tensor ? now && is_tensor(now) : c.value && same_value(c.value.get(), now);
    if (!ok) {
      if (why) note_number(c.cell.get(), nullptr, c.value.get(), now);
      if (why) *why = "a variable of the closure of " + c.name + " changed" + read_at(c.place);
      return false;
    }
    if (!c.tensor) continue;
    c.value = Ref::borrow(now);
    written = true;
  }
  return true;
}

bool EnvironmentGuard::check_elements(bool& written, std::string* why) {
  for (Element& e : elements_) {
    PyObject* list = e.list.get();
    PyObject* now = e.index < PyList_GET_SIZE(list) ? PyList_GET_ITEM(list, e.index) : nullptr;
    if (now == e.value.get()) continue;
    if (e.tensor ? !now || !is_tensor(now) : !same_value(e.value.get(), now)) {
      if (why) note_number(list, Ref::steal(PyLong_FromSsize_t(e.index)).get(), e.value.get(), now);
      if (why) *why = e.name + "[" + std::to_string(e.index) + "] changed" + read_at(e.place);
      return false;
    }
    if (!e.tensor) continue;
    e.value = Ref::borrow(now);
    written = true;
  }
  return true;
}

void EnvironmentGuard::add_lines(CacheLines& lines) {
  writes_.add_lines(lines);
  for (const Type& t : types_) {
    lines.add(t.object.get(), sizeof(PyObject));
    if (t.place) lines.add(t.place, sizeof *t.place);
  }
  for (const Class& c : classes_)
    lines.add(&reinterpret_cast<PyTypeObject*>(c.type.get())->tp_version_tag, sizeof c.version);
  for (const Function& f : functions_) lines.add(f.function.get(), sizeof(PyFunctionObject));
  for (const Cell& c : cells_) lines.add(c.cell.get(), sizeof(PyCellObject));
  for (const Container& c : containers_) lines.add(c.object.get(), sizeof(PyVarObject));
  for (const Element& e : elements_) lines.add(e.list.get(), sizeof(PyListObject));
}

void EnvironmentGuard::note_number(PyObject* container, PyObject* key, PyObject* then, PyObject* now) {
  if (is_plain_number(then) && is_plain_number(now)) changed_ = {Ref::borrow(container), Ref::borrow(key)};
}

bool EnvironmentGuard::check(std::string* why) {
  if (gone_) {
    if (why) *why = "a tensor with a weak reference to it was replaced";
    return false;
  }
  if (check_all(why)) return true;
  if (referents_stay()) return false;
  // The tensor dies where the user's program has let go of it, which who holds a weak reference sees.
  EnvironmentGuard none;
  none.gone_ = true;
  none.changed_ = changed_;
  const EnvironmentGuard old = std::exchange(*this, std::move(none));
  return false;
}

bool EnvironmentGuard::check_all(std::string* why) {
  bool written = false;
  changed_ = {};
  bool fine = writes_.visit([&](size_t i) {
    written = true;
    return compare(watches_[i], why);
  });
  fine = fine && check_cells(written, why) && check_elements(written, why) && check_objects(why);
  // A write is told of once, also where another guard fails.
  refresh_due_ = refresh_due_ || written;
  if (!fine) return false;
  if (refresh_due_ && !refresh_tensors(why)) return false;
  if (refresh_due_ && !referents_stay()) {
    if (why) *why = "a tensor with a weak reference to it was replaced";
    return false;
  }
  refresh_due_ = false;
  return true;
}

namespace {

std::string value_text(PyObject* o) {
  if (!o) return "absent";
  if (!is_plain(o) && !PyTuple_CheckExact(o)) return std::string("the same ") + Py_TYPE(o)->tp_name;
  PyObject* r = PyObject_Repr(o);
  if (!r) {
    PyErr_Clear();
    return "?";
  }
  Ref owned = Ref::steal(r);
  constexpr size_t kMost = 100;  // a file's contents are not worth printing
  std::string text = printable(r);
  return "== " + (text.size() <= kMost ? text : text.substr(0, kMost) + "...");
}

std::string is_text(bool tensor, PyObject* value) { return tensor ? "a tensor" : value_text(value); }

}  // namespace

std::vector<std::string> EnvironmentGuard::lines() const {
  std::vector<std::string> out;
  for (const Watch& w : watches_) {
    if (w.size >= 0) out.push_back("len(" + w.name + ") == " + std::to_string(w.size));
    for (const Item& i : w.items)
      out.push_back(w.name + "['" + text_of(i.key.get()) + "'] " + is_text(i.tensor, i.value.get()));
  }
  for (const Cell& c : cells_) out.push_back("closure of " + c.name + " " + is_text(c.tensor, c.value.get()));
  for (const Container& c : containers_) {
    if (c.length >= 0) out.push_back("len(" + c.name + ") == " + std::to_string(c.length));
    if (c.elements) out.push_back(c.name + " " + value_text(c.elements.get()));
  }
  for (const Element& e : elements_)
    out.push_back(e.name + "[" + std::to_string(e.index) + "] " + is_text(e.tensor, e.value.get()));
  for (const Class& c : classes_)
    for (const GuardedEntry& e : c.found)
      out.push_back(std::string("class ") + reinterpret_cast<PyTypeObject*>(c.type.get())->tp_name + ": '" +
                    text_of(e.key.get()) + "' " + value_text(e.value.get()));
  for (const Attribute& a : attributes_)
    out.push_back(a.where + "." + text_of(a.name.get()) + " " + value_text(a.value.get()));
  for (const State& state : states_) out.push_back(state.of.text() + " is what it was");
  for (const Function& f : functions_)
    out.push_back("code and defaults of " + text_of(attribute(f.function.get(), "__qualname__").get()));
  return out;
}

}  // namespace thunder::frontend
