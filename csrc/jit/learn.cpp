// What a function turns out to look at in its arguments.
#include "jit/function.h"

namespace thunder {

namespace {

// Whether the copies of tensors had the attributes that the program looked at, and what it set is written back.
bool knows_tensors(const frontend::ClassUse* now, const frontend::ClassUse* known) {
  if (!now) return true;
  if (!known || (now->written && !known->written) || (now->everything && !known->everything)) return false;
  if (!now->names) return true;
  const frontend::Ref names = frontend::Ref::steal(PySequence_List(now->names.get()));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names.get()); ++i)
    if (!known->wants(PyList_GET_ITEM(names.get(), i))) return false;
  return true;
}

}  // namespace

// Whether the arguments were taken by identity where the program knows them so.
bool JitFunction::knows_identities(const frontend::Reads& reads) const {
  for (const auto& [o, owned] : reads.themselves())
    if (!themselves_.count(o)) return false;
  for (const auto& [type, use] : reads.uses())
    if (auto known = uses_.find(type); use.identity && (known == uses_.end() || !known->second.identity)) return false;
  return knows_tensors(frontend::use_of_tensors(&reads.uses()), frontend::use_of_tensors(&uses_));
}

// Whether there was anything new in it.
bool JitFunction::learn(const frontend::Reads& reads) {
  bool more = false;
  for (const auto& [o, owned] : reads.themselves()) more = themselves_.emplace(o, owned).second || more;
  for (const auto& [type, use] : reads.uses()) {
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

}  // namespace thunder
