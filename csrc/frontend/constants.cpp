#include "frontend/constants.h"

#include "core/dtype_error.h"
#include "core/number.h"
#include "frontend/hooks.h"
#include "passes/visit.h"

namespace thunder::frontend {

Ref Constants::find(PyObject* tensor) const { return is_proxy(tensor) ? find(tensors_.value_of(tensor)) : Ref(); }

Ref Constants::find(Value v) const {
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
    visit_all_inputs(*call, [&](Value in) {
      missing += needed[in] == 0;
      needed.set(in, 1);
    });
    calls.push_back(call);
  }
  if (missing > 0) return {};
  Trace t;
  t.name = "constant";
  t.arena = acquisition_.arena();
  t.calls.assign(calls.rbegin(), calls.rend());
  t.output = v;
  return hooks().evaluate(t);
}

bool Constants::fold(Arg& a, bool read) {
  if (a.is_value()) {
    const Type& t = a.value().type();
    if (t.is_number()) {
      if (!read || t.number().dim || t.number().expr) return false;
      a = questions_.resolve(a.value(), "item");
      return true;
    }
    if (!t.is_tensor() || !t.tensor().shape.empty() || number_kind(t.tensor().dtype) > NumberKind::Int) return false;
    if (Ref tensor = find(a.value())) {
      a = to_arg(hooks().item(tensor.get()).get(), {});
      return true;
    }
    if (read) a = questions_.resolve(b_("torch.item", a.value()).value(), "item");
    return read;
  }
  bool any = false;
  if (a.kind() == Arg::Kind::Slice) {
    Arg start = a.slice().start, stop = a.slice().stop, step = a.slice().step;
    for (Arg* bound : {&start, &stop, &step}) any |= fold(*bound, read);
    if (any) a = Arg::slice(start, stop, step);
  } else if (a.is_sequence()) {
    ArgList items = a.items();
    for (Arg& item : items) any |= fold(item, read);
    if (any) a = a.kind() == Arg::Kind::Tuple ? Arg::tuple(std::move(items)) : Arg::list(std::move(items));
  }
  return any;
}

namespace {

// Whether each overload that has the parameter wants True or False there, for which no tensor stands.
template <class FindParameter>
bool all_are_flags(const std::string& op, const FindParameter& find) {
  bool any = false;
  const Registry& registry = Registry::instance();
  const std::vector<const Op*>& overloads = registry.overloads(op);
  const Op* exact = registry.find(op);
  for (const Op* o : overloads.empty() && exact ? std::vector<const Op*>{exact} : overloads) {
    const Param* p = find(o->schema);
    if (p && p->kind != Param::Kind::Bool) return false;
    any = any || p;
  }
  return any;
}

bool is_flag(const std::string& op, size_t place) {
  return all_are_flags(op, [&](const Schema& s) {
    return place < s.params.size() && !s.params[place].keyword_only ? &s.params[place] : nullptr;
  });
}

bool is_flag(const std::string& op, const std::string& name) {
  return all_are_flags(op,
                       [&](const Schema& s) { return s.index_of(name) < 0 ? nullptr : &s.params[s.index_of(name)]; });
}

}  // namespace

// What the operator does not take may be a tensor or a number of the run's where it wants a size, a bound, a dimension.
Arg Constants::call_with_numbers(const std::string& op, const ArgList& positional, const Keywords& keyword,
                                 const Error& refusal) {
  std::exception_ptr refused = std::current_exception();
  // What eager says of a tensor's dtype it says of a 0-d one, too.
  if (dynamic_cast<const DTypeError*>(&refusal)) throw;
  for (bool read : {false, true}) {
    ArgList items = positional;
    Keywords named = keyword;
    bool folded = false;
    try {
      for (size_t i = 0; i < items.size(); ++i) folded |= !is_flag(op, i) && fold(items[i], read);
      for (auto& [name, a] : named) folded |= !is_flag(op, name) && fold(a, read);
      if (folded) return b_.call_named(op, std::move(items), std::move(named));
    } catch (const Error& e) {  // of a tensor where no number may stand the first error tells more
      if (folded && read && e.kind() != ErrorKind::Type) throw;
    }
  }
  std::rethrow_exception(refused);
}

}  // namespace thunder::frontend
