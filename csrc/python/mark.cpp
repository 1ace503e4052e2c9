#include "python/mark.h"

#include "python/lookup.h"

namespace thunder {
namespace {

// thunder/_marks.py has the same names.
constexpr const char* kAttribute = "_thunder_mark";
constexpr const char* kNames[] = {"compiler", "sharp edge", "out of bounds", "internal"};

}  // namespace

void mark_error(Mark mark) {
  Raised raised = Raised::take();
  const Ref name = Ref::steal(PyUnicode_FromString(kNames[static_cast<size_t>(mark)]));
  if (PyObject_SetAttrString(raised.value.get(), kAttribute, name.get()) != 0) PyErr_Clear();
  raised.raise();
}

std::optional<Mark> mark_of(const Raised& raised) {
  // Not by the class, whose __getattr__ may answer for an exception that it wraps.
  PyObject** dict = raised.value ? dict_place(raised.value.get()) : nullptr;
  PyObject* found = dict && *dict ? PyDict_GetItemString(*dict, kAttribute) : nullptr;
  if (!found) return std::nullopt;
  for (const Mark mark : {Mark::Compiler, Mark::SharpEdge, Mark::OutOfBounds, Mark::Internal})
    if (PyUnicode_Check(found) && PyUnicode_CompareWithASCIIString(found, kNames[static_cast<size_t>(mark)]) == 0)
      return mark;
  return std::nullopt;
}

}  // namespace thunder
