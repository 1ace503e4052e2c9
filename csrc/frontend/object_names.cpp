#include "frontend/object_names.h"

#include <string_view>

#include "frontend/hooks.h"
#include "python/text.h"

namespace thunder::frontend {
namespace {

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

}  // namespace

const std::string& ObjectNames::of(PyObject* o) {
  std::string& name = names_[o];
  if (!name.empty()) return name;
  if (PyDict_Check(o)) {
    PyObject* module = PyDict_GetItemString(o, "__name__");
    if (module && PyUnicode_Check(module)) return name = "globals of " + short_text(module);
  }
  return name = std::string("a ") + Py_TYPE(o)->tp_name;
}

void ObjectNames::name_value(PyObject* owner, PyObject* key, PyObject* value, bool attribute) {
  if (is_value(value) || names_.count(value)) return;
  constexpr size_t kLongest = 200;
  std::string text = short_text(key), owner_name = of(owner);
  if (owner_name.size() > kLongest) owner_name = "..." + owner_name.substr(owner_name.size() - kLongest / 2);
  if (PyDict_Check(owner) && owner_name.starts_with("globals of ")) {
    owner_name = text;
  } else {
    // module._modules['layer'] is module.layer to its user.
    for (std::string_view part : {"._modules", "._parameters", "._buffers"})
      if (owner_name.ends_with(part)) owner_name.resize(owner_name.size() - part.size()), attribute = true;
    owner_name += attribute || instance_dicts_.has(owner) ? "." + text : "[" + text + "]";
  }
  names_[value] = owner_name;
  kept_.push_back(Ref::borrow(value));
}

void ObjectNames::name_root(PyObject* object, std::string name) {
  names_.emplace(object, std::move(name));
  kept_.push_back(Ref::borrow(object));
}

void ObjectNames::name_instance_dict(PyObject* object, PyObject* dict) {
  if (instance_dicts_.add(dict)) names_.emplace(dict, of(object));
}

void ObjectNames::name_globals(PyObject* module, PyObject* globals) {
  names_.emplace(globals, "globals of " + of(module));
}

void ObjectNames::name_in_closure(PyObject* value) {
  if (is_value(value)) return;
  if (names_.emplace(value, std::string("a closure's ") + Py_TYPE(value)->tp_name).second)
    kept_.push_back(Ref::borrow(value));
}

}  // namespace thunder::frontend
