#include "python/errors.h"

#include "python/text.h"

namespace thunder {

Raised Raised::take() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Raised out;
  out.type = Ref::steal(type);
  if (value) out.value = Ref::steal(value);
  if (traceback) {
    out.traceback = Ref::steal(traceback);
    PyException_SetTraceback(out.value.get(), traceback);
  }
  return out;
}

void Raised::raise() { PyErr_Restore(type.release(), value.release(), traceback.release()); }

std::string Raised::text() const {
  PyObject* s = value ? PyObject_Str(value.get()) : nullptr;
  if (s) return printable(Ref::steal(s).get());
  PyErr_Clear();
  return {};
}

}  // namespace thunder
