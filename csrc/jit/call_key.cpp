#include "jit/call_key.h"

#include "core/error.h"
#include "frontend/hooks.h"
#include "runtime/torch_py.h"
#include "runtime/watchers.h"

namespace thunder {

CallKey::CallKey(const CallArguments& a, Apart numbers_apart, const Learned& of_function)
    : apart(numbers_apart), args(a), learned(&of_function) {
  fingerprint.begin();
  if (fingerprint.watched()) return;
  const bool symbolic = apart != Apart::Nothing;
  flat.symbolic = symbolic;
  flat.uses = &learned->uses();
  flat.themselves = &learned->themselves();
  for (size_t i = 0; i < a.nargs; ++i) frontend::flatten(a.args[i], flat);
  for (Py_ssize_t i = 0; i < a.num_names(); ++i) {
    flat.key.push_back('K');
    frontend::flatten(PyTuple_GET_ITEM(a.names, i), flat);
    frontend::flatten(a.args[a.nargs + i], flat);
  }
  for (PyObject* t : flat.tensors) {
    THUNDER_CHECK(frontend::is_tensor(t), Type, "jit",
                  "a number that another compiled function has yet to compute was passed");
    if (is_other_kind_of_tensor(t)) other_kind = t;
    knows_autograd |= torch_py::tensor(t).unsafeGetTensorImpl()->autograd_meta() != nullptr;
  }
  if (other_kind || flat.overriding) return;
  if (symbolic) add_layouts();
  else
    for (PyObject* t : flat.tensors) fingerprint.add(torch_py::tensor(t));
  hash = fingerprint.hash() ^ std::hash<std::string>()(flat.key);
}

void CallKey::add_layouts() {
  numbers.ints = flat.ints;
  numbers.floats = flat.floats;
  // "An int of the row" and a size of 1 look alike in a fingerprint; keys of both forms are in one table.
  if (apart == Apart::All) fingerprint.add_number(~uint64_t{0});
  for (PyObject* o : flat.tensors) {
    const at::Tensor& t = torch_py::tensor(o);
    bool repeated = false;
    const bool plain = t.defined() && fingerprint.add_kind(t, &repeated);
    layouts.emplace_back();
    if (repeated) continue;
    if (plain) {
      const size_t first = numbers.ints.size();
      layouts.back().emplace(t, numbers.ints, apart == Apart::All);
      if (numbers.ints.size() > first) places.push_back({first, (numbers.ints.size() - first) / 2});
      layouts.back()->add_to(fingerprint);
    } else {
      fingerprint.add(t);
    }
  }
}

std::optional<NeedsEager> CallKey::refused_arguments() const {
  if (other_kind) return NeedsEager{cat("an argument is a tensor ", other_kind_of_tensor(other_kind)), {}};
  if (flat.overriding)
    return NeedsEager{
        cat("an argument is of class ", Py_TYPE(flat.overriding)->tp_name, ", which overrides torch functions"), {}};
  return std::nullopt;
}

void CallKey::undraw() const {
  if (answers) answers->keep_drawn(0);
  if (whole_) whole_->undraw();
}

const CallKey& CallKey::whole() const {
  if (!whole_) {
    whole_ = std::make_unique<CallKey>(args, Apart::All, *learned);
    whole_->exact = this;
  }
  return *whole_;
}

std::string CallKey::text_now() const { return CallKey(args, apart, *learned).flat.key; }

CallFacts CallKey::facts() const {
  if (exact) return exact->facts();
  CallFacts out{fingerprint, flat.key, {}};
  for (size_t i = 0; i < flat.tensors.size(); ++i)
    out.tensors.push_back(describe(torch_py::tensor(flat.tensors[i]),
                                   i < layouts.size() && layouts[i] ? layouts[i]->str() : std::string()));
  return out;
}

std::vector<std::string> CallKey::labels() const {
  std::vector<std::string> out;
  for (size_t i = 0; i < flat.ints.size(); ++i) out.push_back(cat("int argument ", i));
  for (size_t i = 0; i < layouts.size(); ++i)
    if (layouts[i]) layouts[i]->add_labels(cat("tensor argument ", i), out);
  return out;
}

}  // namespace thunder
