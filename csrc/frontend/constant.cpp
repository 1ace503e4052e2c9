// Tensors whose value is known while the program is acquired: made of constants alone, as a table of positions is.
//
// Branches on such a tensor, its numbers and its items are then Python's own, as they are in eager.
#include "core/number.h"
#include "frontend/tracer.h"
#include "passes/visit.h"

namespace thunder::frontend {

Ref Tracer::constant(PyObject* tensor) { return is_proxy(tensor) ? constant(value_of(tensor)) : Ref(); }

Ref Tracer::constant(Value v) {
  ValueSet needed;
  needed.set(v, 1);
  size_t missing = 1;
  std::vector<const Call*> calls;
  for (size_t i = b_.calls().size(); i-- > 0 && missing > 0;) {
    const Call* call = b_.calls()[i];
    size_t made = 0;
    visit_outputs(*call, [&](Value out) { made += needed[out] != 0; });
    if (made == 0) continue;
    if (tags_within(*call, kRandom | kCollective | kWrite | kInput)) return {};
    missing -= made;
    visit_inputs(*call, [&](Value in) {
      missing += needed[in] == 0;
      needed.set(in, 1);
    });
    calls.push_back(call);
  }
  if (missing > 0) return {};
  Trace t;
  t.name = "constant";
  t.arena = arena_;
  t.calls.assign(calls.rbegin(), calls.rend());
  t.output = v;
  return hooks().evaluate(t);
}

// Integers without dimensions become the numbers that they are, as in eager's conversions.
bool Tracer::fold_constants(Arg& a) {
  if (a.is_tensor()) {
    const TensorType& t = a.value().tensor();
    if (!t.shape.empty() || number_kind(t.dtype) > NumberKind::Int) return false;
    Ref tensor = constant(a.value());
    if (!tensor) return false;
    a = to_arg(Ref::steal(PyObject_CallMethod(tensor.get(), "item", nullptr)).get(), {});
    return true;
  }
  bool any = false;
  if (a.kind() == Arg::Kind::Slice) {
    Arg start = a.slice().start, stop = a.slice().stop, step = a.slice().step;
    for (Arg* bound : {&start, &stop, &step}) any |= fold_constants(*bound);
    if (any) a = Arg::slice(start, stop, step);
  } else if (a.is_sequence()) {
    ArgList items = a.items();
    for (Arg& item : items) any |= fold_constants(item);
    if (any) a = a.kind() == Arg::Kind::Tuple ? Arg::tuple(std::move(items)) : Arg::list(std::move(items));
  }
  return any;
}

}  // namespace thunder::frontend
