// In-place operators that leave the data and change how the tensor looks at them: t_(), squeeze_(), resize_().
#include "core/error.h"
#include "frontend/tracer.h"

namespace thunder::frontend {

void Tracer::become(PyObject* tensor, PyObject* view, const char* op) {
  TensorId before = id_of(tensor), after = id_of(view);
  if (before == after) return;
  THUNDER_CHECK(!aliases_.is_input(before), NotImplemented, op,
                "changing the sizes or strides of a tensor from outside of the compiled function is not supported; use "
                "the operator that returns a view");
  Ref made = Ref::borrow(view);
  objects_.erase(before);
  ids_.erase(view);
  ids_[tensor] = after;
  objects_[after] = Ref::borrow(tensor);
}

}  // namespace thunder::frontend
