#include "jit/learned.h"

namespace thunder {

namespace {

// Whether the copies of tensors had the attributes that the program looked at, and what it set is written back.
bool knows_tensors(const frontend::ClassUse* now, const frontend::ClassUse* known) {
  if (!now) return true;
  if (!known || (now->written && !known->written) || (now->everything && !known->everything)) return false;
  if (!now->names) return true;
  const Ref names = Ref::steal(PySequence_List(now->names.get()));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names.get()); ++i)
    if (!known->wants(PyList_GET_ITEM(names.get(), i))) return false;
  return true;
}

}  // namespace

bool Learned::knows(const frontend::Reads& reads) const {
  for (const auto& [o, owned] : reads.arguments().themselves())
    if (!themselves_.count(o)) return false;
  for (const auto& [type, use] : reads.arguments().uses())
    if (auto known = uses_.find(type); use.identity && (known == uses_.end() || !known->second.identity)) return false;
  return knows_tensors(frontend::use_of_tensors(&reads.arguments().uses()), frontend::use_of_tensors(&uses_));
}

bool Learned::learn(const frontend::Reads& reads) {
  bool more = false;
  for (const auto& [o, owned] : reads.arguments().themselves()) more = themselves_.emplace(o, owned).second || more;
  for (const auto& [type, use] : reads.arguments().uses()) {
    auto [it, first] = uses_.try_emplace(type);
    frontend::ClassUse& known = it->second;
    const bool identity = known.identity, everything = known.everything, written = known.written;
    const Py_ssize_t names = known.names ? PySet_GET_SIZE(known.names.get()) : 0;
    known.type = use.type;
    known.add(use);
    more = more || first || known.identity != identity || known.everything != everything || known.written != written ||
           PySet_GET_SIZE(known.names.get()) != names;
  }
  return more;
}

void Learned::find_counters(const std::vector<frontend::Effect>& effects) {
  using frontend::Effect;
  for (const Effect& e : effects) {
    if (!e.owner || !e.after) continue;
    const bool of_class = e.kind == Effect::Attribute && PyType_Check(e.owner.get());
    if (e.kind != Effect::Entry && e.kind != Effect::Cell && e.kind != Effect::Element && !of_class) continue;
    const bool number = frontend::is_plain_number(e.after.get()) || frontend::is_traced_number(e.after.get());
    if (!number || !frontend::is_plain_number(e.before.get())) continue;
    if (frontend::is_plain_number(e.after.get()) && PyObject_RichCompareBool(e.before.get(), e.after.get(), Py_EQ) == 1)
      continue;
    if (std::optional<std::string> name = frontend::name_of_key(e.key.get()))
      counters_.emplace(std::pair(e.owner.get(), *name), e.owner);
  }
}

// A number that took its third value goes on to change.
void Learned::find_counter(const frontend::EnvironmentGuard& environment) {
  constexpr int kFew = 2;
  const frontend::NumberPlace& place = environment.changed_number();
  if (!place) return;
  const std::optional<std::string> name = frontend::name_of_key(place.key.get());
  if (!name) return;
  const std::pair<PyObject*, std::string> where(place.container.get(), *name);
  std::vector<Ref>& values = changed_[where];
  Ref now = Ref::borrow(frontend::value_at(place.container.get(), place.key.get()));
  for (const Ref& v : values)
    if (PyObject_RichCompareBool(v.get(), now.get(), Py_EQ) == 1) return;
  values.push_back(std::move(now));
  if (values.size() >= kFew) counters_.emplace(where, place.container);
}

bool Learned::varies(const std::string& place, int64_t now) const {
  auto it = ints_.find(place);
  return it != ints_.end() && it->second != now;
}

void Learned::clear_numbers() {
  ints_.clear();
  counters_.clear();
  changed_.clear();
}

}  // namespace thunder
