// The tensors of a result, and what of it is made anew in every call.
#include "core/error.h"
#include "frontend/hooks.h"
#include "frontend/interpreter/interpreter.h"
#include "frontend/kinds.h"
#include "frontend/outside_state.h"
#include "frontend/structure.h"
#include "python/lookup.h"
#include "python/stack.h"

namespace thunder::frontend {
namespace {

// Finds the leaves of a result, and which of the objects in it hold any: those are made anew in every call.
class LeafFinder {
 public:
  LeafFinder(std::vector<PyObject*>& leaves, std::unordered_map<PyObject*, size_t>& index,
             const std::function<Origin(PyObject*)>& origin, const ArgumentCopies& copies)
      : leaves_(leaves), index_(index), origin_(origin), copies_(copies) {}

  void visit(PyObject* o, PyObject* holder) {
    check_stack();
    if (is_traced_value(o)) {
      THUNDER_CHECK(!class_of_number(o), NotImplemented, "jit",
                    "a result or attribute is a number of NumPy's that varies");
      if (index_.try_emplace(o, leaves_.size()).second) {
        leaves_.push_back(o);
        visit_attributes(o);
      }
      return mark(holder);
    }
    if (!is_tensor(o) && hooks().is_dtensor(o)) {
      dtensor_ = true;
      return;
    }
    if (std::optional<size_t> argument = copies_.argument(o)) {
      argument_copies_.emplace(o, *argument);
      return mark(holder);
    }
    const Origin origin = origin_(o);
    const bool known = is_made_again(o) || is_module(o);
    if (known && !PyTuple_Check(o) && !PyMethod_Check(o) && origin == Origin::Outside && !holds_proxies(o)) {
      kept_.insert(o);
      return;
    }
    if (PyTuple_Check(o)) return visit_items(o, holder);
    if (PySlice_Check(o)) {
      auto* s = reinterpret_cast<PySliceObject*>(o);
      for (PyObject* part : {s->start, s->stop, s->step}) visit(part, holder);
      return;
    }
    if (!is_made_again(o)) return check_opaque(o, origin);
    auto [it, first] = holders_.try_emplace(o);
    if (holder) it->second.push_back(holder);
    if (first) {
      if (origin == Origin::Inside) mark(o);
      auto* type = reinterpret_cast<PyObject*>(Py_TYPE(o));
      if (origin_(type) == Origin::Inside) check_opaque(type, Origin::Inside);
      visit_parts(o);
    }
    if (marked_.count(o)) mark(holder);
  }
  const std::vector<PyObject*>& attributed() const { return attributed_; }
  std::unordered_set<PyObject*> marked() && { return std::move(marked_); }
  const std::unordered_set<PyObject*>& kept() const { return kept_; }
  const std::unordered_map<PyObject*, size_t>& argument_copies() const { return argument_copies_; }
  const std::optional<std::string>& once() const { return once_; }
  bool dtensor() const { return dtensor_; }

 private:
  // What the program set on a tensor that it made; an argument's are written to the caller's.
  void visit_attributes(PyObject* tensor) {
    if (!is_proxy(tensor) || copies_.is_argument_tensor(tensor)) return;
    PyObject** dict = dict_place(tensor);
    if (!dict || !*dict || PyDict_GET_SIZE(*dict) == 0) return;
    attributed_.push_back(tensor);
    visit_entries(*dict, nullptr);
  }
  static bool is_callable(PyObject* o) {
    return PyFunction_Check(o) || PyMethod_Check(o) || is_partial(o) || is_wrapped_method(o);
  }
  static bool is_made_again(PyObject* o) {
    if (PyExceptionInstance_Check(o)) return false;
    if (PyList_Check(o) || PyDict_Check(o) || PyAnySet_Check(o) || is_deque(o)) return true;
    if (is_callable(o) || dataclass_fields(o) || attributes(o)) return true;
    bool slots = false;
    if (!is_module(o) && !PyType_Check(o)) each_slot(o, [&](PyObject*, PyObject*) { slots = true; });
    return slots;
  }
  void visit_parts(PyObject* o) {
    if (is_callable(o)) visit_callable(o);
    if (PyList_Check(o)) visit_items(o, o);
    if (PyDict_Check(o)) visit_entries(o, o);
    if (PyAnySet_Check(o) || is_deque(o)) {
      Ref elements = Ref::steal(PySequence_List(o));
      visit_items(elements.get(), o);
    }
    if (PyObject* fields = dataclass_fields(o)) visit_fields(o, fields, o);
    if (PyObject* dict = attributes(o)) visit_entries(dict, o);
    each_slot(o, [&](PyObject*, PyObject* value) { visit(value, o); });
  }
  // What is in the result as it is.
  void check_opaque(PyObject* o, Origin origin) {
    if (origin == Origin::Inside && !once_ && state_kind(o) == StateOf::Memory)
      once_ = std::string("the program gives a ") + Py_TYPE(o)->tp_name + " that it made";
    if (!PyObject_IS_GC(o) || PyModule_Check(o) || (PyType_Check(o) && origin != Origin::Inside)) return;
    if (!checked_.insert(o).second) return;
    THUNDER_CHECK(!reaches_proxy(o), NotImplemented, "jit", "a ",
                  PyType_Check(o) ? "class that the program makes" : Py_TYPE(o)->tp_name,
                  " that outlives the call holds a tensor of it, and cannot be made again in later calls");
    if (origin == Origin::Inside && !once_)
      once_ = std::string("the program leaves a ") + Py_TYPE(o)->tp_name + " outside that it made";
  }
  void visit_items(PyObject* o, PyObject* holder) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) visit(PySequence_Fast_GET_ITEM(o, i), holder);
  }
  void visit_callable(PyObject* o) {
    if (PyMethod_Check(o)) return visit(PyMethod_GET_SELF(o), o);
    if (is_wrapped_method(o)) return visit(function_in(o).get(), o);
    if (!PyFunction_Check(o)) {
      Ref parts = Ref::steal(PyObject_CallMethod(o, "__reduce__", nullptr));
      return visit(PyTuple_GET_ITEM(parts.get(), 2), o);
    }
    if (PyObject** dict = dict_place(o); dict && *dict) visit_entries(*dict, o);
    PyObject* closure = PyFunction_GET_CLOSURE(o);
    for (Py_ssize_t i = 0; closure && i < PyTuple_GET_SIZE(closure); ++i) visit_cell(PyTuple_GET_ITEM(closure, i), o);
    for (PyObject* part : {PyFunction_GET_DEFAULTS(o), PyFunction_GET_KW_DEFAULTS(o)})
      if (part) visit(part, o);
  }
  // A variable of a function outside is that function's.
  void visit_cell(PyObject* cell, PyObject* holder) {
    if (origin_(cell) == Origin::Outside) kept_.insert(cell);
    else if (PyObject* value = PyCell_GET(cell)) visit(value, holder);
  }
  void visit_entries(PyObject* dict, PyObject* holder) {
    PyObject *key, *value;
    for (Py_ssize_t pos = 0; PyDict_Next(dict, &pos, &key, &value);) visit(key, holder), visit(value, holder);
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
    check_stack();
    if (is_traced_value(o)) return is_proxy(o) || is_traced_number(o);
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
    std::vector<PyObject*> open = {holder};
    while (!open.empty()) {
      PyObject* next = open.back();
      open.pop_back();
      if (!next || !marked_.insert(next).second) continue;
      const std::vector<PyObject*>& outer = holders_[next];
      open.insert(open.end(), outer.begin(), outer.end());
    }
  }

  std::vector<PyObject*>& leaves_;
  std::unordered_map<PyObject*, size_t>& index_;
  const std::function<Origin(PyObject*)>& origin_;
  const ArgumentCopies& copies_;
  std::unordered_map<PyObject*, std::vector<PyObject*>> holders_;
  std::unordered_map<PyObject*, size_t> argument_copies_;
  std::vector<PyObject*> attributed_;
  std::unordered_set<PyObject*> marked_, kept_, checked_;
  std::optional<std::string> once_;
  bool dtensor_ = false;
};

}  // namespace

OutputSpec::OutputSpec(PyObject* result, std::vector<PyObject*>& leaves, const std::function<Origin(PyObject*)>& origin,
                       const ArgumentCopies& copies)
    : template_(Ref::borrow(result)) {
  LeafFinder finder(leaves, index_, origin, copies);
  finder.visit(result, nullptr);
  attributed_ = finder.attributed();
  single_ = is_traced_value(result) && attributed_.empty();
  kept_ = finder.kept();
  once_ = finder.once();
  dtensor_ = finder.dtensor();
  argument_copies_.assign(finder.argument_copies().begin(), finder.argument_copies().end());
  objects_ = std::move(finder).marked();
}

}  // namespace thunder::frontend
