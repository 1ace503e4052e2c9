// What the code does with the objects among its arguments, of which it has copies.
#include "frontend/hooks.h"
#include "frontend/reads.h"

namespace thunder::frontend {

void Reads::take(const ArgumentCopies& arguments, const std::vector<PyObject*>& others,
                 const std::vector<PyObject*>& values) {
  arguments_ = &arguments;
  for (const Ref& copy : arguments.copies()) {
    if (is_proxy(copy.get())) continue;
    made(copy.get());
    use_of(copy.get());
  }
  for (PyObject* o : others) came_from_outside(o);
  for (PyObject* o : values) made(o);
}

ClassUse& Reads::use_of(PyTypeObject* type) {
  ClassUse& use = uses_[type];
  if (!use.type) use.type = Ref::borrow(reinterpret_cast<PyObject*>(type));
  return use;
}

// Null: it is not the copy of an object that was taken apart.
ClassUse* Reads::use_of(PyObject* copy) {
  if (!arguments_ || is_container(copy) || is_proxy(copy) || !arguments_->argument(copy)) return nullptr;
  return &use_of(Py_TYPE(copy));
}

// The code tells apart what equals the caller's object and what is it.
void Reads::ask_identity(PyObject* object) {
  if (Py_TYPE(object)->tp_hash != PyBaseObject_Type.tp_hash) return;
  if (ClassUse* use = use_of(object)) use->identity = true;
}

void Reads::ask_everything(PyObject* object) {
  if (ClassUse* use = use_of(object)) use->everything = true;
}

void Reads::met(PyObject* value) {
  if (!value || is_tensor(value) || !arguments_->stands_for(value)) return;
  if (is_container(value)) themselves_.emplace(value, Ref::borrow(value));
  else use_of(Py_TYPE(value)).identity = true;
}

// An argument that the code reaches by another way, too, is one object there and its copy here.
void Reads::find_arguments_elsewhere() {
  if (!arguments_ || arguments_->copies().empty()) return;
  auto each = [&](PyObject* dict) {
    PyObject *key, *value;
    for (Py_ssize_t i = 0; dict && PyDict_Next(dict, &i, &key, &value);) met(value);
  };
  for (const DictReads& r : dicts_) each(r.entries.get());
  for (const ClassReads& r : classes_) each(r.found.get());
  for (const CellRead& r : cells_) met(r.value.get());
  for (const AttributeRead& r : attributes_) met(r.value.get());
  for (const ContainerReads& r : containers_) {
    for (const auto& [i, value] : r.items) met(value.get());
    if (r.elements && PyTuple_Check(r.elements.get()))
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(r.elements.get()); ++i) met(PyTuple_GET_ITEM(r.elements.get(), i));
  }
  for (const Effect& e : effects_) met(e.owner.get());
}

}  // namespace thunder::frontend
