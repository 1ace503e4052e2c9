// Calls that run the function itself, because a program in its place would not be what eager is.
#include "core/error.h"
#include "jit/cache_entry.h"

namespace thunder {

void JitFunction::check_argument_kinds(const Key& key) const {
  if (key.other_kind)
    throw NeedsEager{cat("an argument is a tensor ", other_kind_of_tensor(key.other_kind)), {}};
}

// Transforms that the user gave are a part of the function, which eager would leave out without a word.
PyObject* JitFunction::run_eagerly(const Arguments& args, const std::string& why) {
  THUNDER_CHECK(options_.transforms.empty(), NotImplemented, "jit", why,
                ", where only the function itself can run, without the transform ", options_.transforms[0].first,
                ". Call the function there as it was before thunder.jit, or compile it without transforms");
  ++eager_[why];
  return PyObject_Vectorcall(fn_.get(), args.args, args.nargs, args.names);
}

// Later calls with the same key, in the same world, need not find that out again.
void JitFunction::make_eager(CacheEntry& e, const Key& key, const NeedsEager& reason) {
  e.eager = reason.why;
  e.symbols = nullptr;
  e.effects.clear();
  e.facts = key.facts();
  e.fingerprint = key.fingerprint;
  e.key = key.flat.key;
  for (PyObject* o : key.flat.objects) e.objects.push_back(frontend::Ref::borrow(o));
  if (reason.tensor) e.world.add_tensor(reason.tensor.get());
}

}  // namespace thunder
