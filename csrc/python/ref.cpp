#include "python/ref.h"

#include "python/gil.h"

namespace thunder {

std::shared_ptr<void> hold_python(PyObject* borrowed) {
  Py_INCREF(borrowed);
  return {borrowed, [](void* p) {
            if (!Py_IsInitialized()) return;
            const Gil gil;
            Py_DECREF(static_cast<PyObject*>(p));
          }};
}

}  // namespace thunder
