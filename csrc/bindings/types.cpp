#include "bindings/types.h"

#include "frontend/hooks.h"

namespace thunder::bindings {
namespace {

Ref wrap(Value v, const std::shared_ptr<Arena>& arena) {
  return Ref::steal(nb::cast(PyValue{v, arena}).release().ptr());
}

}  // namespace

nb::object wrap_arg(const Arg& a, const std::shared_ptr<Arena>& arena) {
  return object(frontend::to_python(a, [&](Value v) { return wrap(v, arena); }));
}

nb::list wrap_values(const std::vector<Value>& values, const std::shared_ptr<Arena>& arena) {
  nb::list out;
  for (Value v : values) out.append(object(wrap(v, arena)));
  return out;
}

nb::list wrap_calls(const std::vector<const Call*>& calls, const std::shared_ptr<Arena>& arena) {
  nb::list out;
  for (const Call* c : calls) out.append(PyCall{c, arena});
  return out;
}

}  // namespace thunder::bindings
