#include "frontend/tensors.h"

#include <algorithm>

#include "core/error.h"
#include "frontend/hooks.h"

namespace thunder::frontend {
namespace {

constexpr TensorId kNotYet = ~TensorId{0};

}  // namespace

Tensors::Tensors(Acquisition& acquisition, Proxies& proxies, Inputs& inputs, const std::vector<const void*>& shared,
                 std::unordered_set<size_t> begin)
    : acquisition_(acquisition),
      b_(acquisition.builder()),
      aliases_(acquisition.aliases()),
      proxies_(proxies),
      inputs_(inputs),
      beginners_(std::move(begin)) {
  for (const void* memory : shared) shared_[memory] = kNotYet;
}

TensorId Tensors::add_input(PyObject* object, PyObject* real, InputSource source, const TensorType* type) {
  const void* memory = hooks().storage_of(real);
  TensorId id;
  if (shared_.count(memory) != 0) {
    id = add_view_of_shared(real, std::move(source), memory);
  } else {
    id = aliases_.add_input(b_.input(type ? *type : hooks().type_of(real)), hooks().is_leaf(real));
    inputs_.add(id, std::move(source), Ref::borrow(real));
    if (memory) {
      auto [it, fresh] = storages_.try_emplace(memory, id);
      if (!fresh) {
        aliased_[id] = aliased_[it->second] = memory;
        if (aliases_.written(it->second)) share(memory, "jit");
      }
    }
  }
  proxies_.bind(object, id);
  return id;
}

void Tensors::share(const void* memory, const char* op) {
  shared_memory_written_ = memory;
  throw Error(ErrorKind::Runtime, cat("[", op, "] an input that shares memory with another input is written to"));
}

// The whole memory is the input, and the tensor a view of it.
TensorId Tensors::add_view_of_shared(PyObject* real, InputSource source, const void* memory) {
  TensorType t = hooks().type_of(real);
  THUNDER_CHECK(!t.requires_grad, NotImplemented, "jit",
                "writing in place to an input that shares memory with another input and "
                "requires grad is not supported; pass a clone() of one of them");
  auto [offset, count] = hooks().place_in_storage(real);
  InputSource itself = source;
  TensorId& base = shared_.at(memory);
  if (base == kNotYet) {
    base = aliases_.add_input(b_.input(TensorType{t.dtype, t.device, {Dim(count)}, {Dim(1)}, false}), true);
    source.whole_storage = true;
    inputs_.add(base, std::move(source), Ref::borrow(real));
  }
  Value whole = aliases_.value(base);
  THUNDER_CHECK(whole.dtype() == t.dtype, NotImplemented, "jit",
                "writing in place to an input that shares memory with an input of another dtype is not supported");
  Value view = b_("prims.as_strided", whole, t.shape, t.strides, offset).value();
  bool fresh = false;
  TensorId id = aliases_.add_result(view, b_.calls().back(), &fresh);
  views_of_shared_.emplace(id, std::move(itself));
  return id;
}

TensorId Tensors::input_itself(TensorId t) {
  auto at = views_of_shared_.find(t);
  if (at == views_of_shared_.end()) return aliases_.base_input(t).value_or(Input::kNumber);
  if (!inputs_.find(t)) {
    b_.input(aliases_.value(t).tensor());
    inputs_.add(t, at->second, {});
  }
  return t;
}

Ref Tensors::add_argument(PyObject* tensor, size_t index, const TensorType* type) {
  if (const std::optional<TensorId> known = proxies_.find(tensor)) return proxies_.object(*known);
  ShapeEnv::Scope scope(acquisition_.shapes());
  TensorType as = type ? *type : hooks().type_of(tensor);
  Ref proxy = new_proxy(as);
  const bool begins = beginners_.count(index) != 0;
  as.requires_grad = as.requires_grad || begins;
  InputSource source{InputSource::Argument, index, {}};
  source.becomes_leaf = begins;
  const TensorId id = add_input(proxy.get(), tensor, std::move(source), &as);
  if (begins) aliases_.rename(id, b_("prims.detach", aliases_.value(id)).value());
  proxies_.set_id(tensor, id);  // the closure may hold the very tensor that was passed
  arguments_.insert(tensor);
  return proxy;
}

// The program sees the whole of a sharded parameter.
std::optional<TensorId> Tensors::add_sharded(PyObject* tensor) {
  const std::optional<Sharded> s = hooks().sharded(tensor);
  if (!s || s->dtensor) return std::nullopt;
  return add_input(tensor, s->local.get(), {.kind = InputSource::Captured, .tensor = s->local, .partial = true},
                   &s->full);
}

void Tensors::add_captured(PyObject* tensor) {
  if (proxies_.knows(tensor) || add_sharded(tensor) || hooks().sharded(tensor)) return;
  if (const std::string kind = hooks().other_kind_of_tensor(tensor); !kind.empty())
    acquisition_.eager_if_it_fails =
        NeedsEager{cat("the module has a parameter or buffer ", kind), Ref::borrow(tensor)};
  else add_input(tensor, tensor, {InputSource::Captured, 0, Ref::borrow(tensor)});
}

Ref Tensors::add_value(Value v) {
  if (!v.type().is_tensor()) return make_number(v);
  for (TensorId id : values_)
    if (aliases_.value(id) == v) return proxies_.object(id);
  values_.push_back(aliases_.add_input(v, false));
  return proxies_.add(values_.back());
}

Ref Tensors::new_tensor(TensorType t) {
  THUNDER_CHECK(acquisition_.metadata_only(), Runtime, "TensorProxy",
                "a tensor without data can be made in a meta function only; in a program "
                "use torch.empty, torch.zeros, ...");
  return add_value(acquisition_.arena()->make_value(std::move(t)));
}

bool Tensors::wrote_to_values() const {
  return std::any_of(values_.begin(), values_.end(), [this](TensorId id) { return aliases_.written(id); });
}

bool Tensors::is_same(PyObject* proxy, PyObject* real) {
  if (!proxies_.knows(proxy) || !is_outside(id_of(proxy))) return false;
  // A call in which the answer is another one needs another program.
  compared_.try_emplace(real, Ref::borrow(real));
  return proxies_.knows(real) && id_of(proxy) == id_of(real);
}

TensorId Tensors::id_of(PyObject* tensor) {
  if (const std::optional<TensorId> known = proxies_.find(tensor)) {
    if (!is_proxy(tensor) && arguments_.count(tensor)) met_outside_.insert(tensor);
    if (!samples_.empty() && samples_.count(aliases_.value(*known).id()) != 0)
      acquisition_.leave_to_eager("what a function under torch.vmap computes for a sample is used outside of it");
    return *known;
  }
  THUNDER_CHECK(
      !is_proxy(tensor), NotImplemented, "jit",
      "a tensor that was made while another call was compiled is used here: it was kept in a global, an attribute or "
      "a container by a compiled function");
  THUNDER_CHECK(acquisition_.owns_program(), NotImplemented, "extend",
                "a rule of an executor uses a tensor that is none of its arguments; make it "
                "there (torch.full, torch.tensor), or pass it as an argument of the operator");
  if (const std::optional<TensorId> whole = add_sharded(tensor)) return *whole;
  if (const std::string kind = hooks().other_kind_of_tensor(tensor); !kind.empty())
    acquisition_.leave_to_eager(cat("the function uses a tensor ", kind), tensor);
  return add_input(tensor, tensor, {InputSource::Captured, 0, Ref::borrow(tensor)});
}

Arg Tensors::convert(PyObject* o) {
  return to_arg(o, [this](PyObject* t) -> Arg { return value_of(t); });
}

bool Tensors::is_plain_input(TensorId t) const {
  if (!acquisition_.owns_program() || !aliases_.is_input(t) || is_in_shared_memory(t) || aliases_.written(t))
    return false;
  const InputSource& s = inputs_.source_of(t);
  return (s.kind == InputSource::Argument || s.kind == InputSource::Captured) && !s.whole_storage && !s.partial &&
         !s.becomes_leaf && !s.dtensor;
}

std::vector<Ref> Tensors::arguments_outside() const {
  std::vector<Ref> out;
  for (PyObject* t : met_outside_) out.push_back(Ref::borrow(t));
  for (const auto& [object, t] : compared_) out.push_back(t);
  return out;
}

void Tensors::check_unshared(TensorId input, const char* op) {
  if (const auto at = aliased_.find(input); at != aliased_.end()) share(at->second, op);
}

bool Tensors::is_beginner(TensorId t) const {
  return aliases_.is_input(t) && !is_in_shared_memory(t) && inputs_.source_of(t).becomes_leaf;
}

void Tensors::begin_to_require_grad(TensorId argument) {
  new_beginner_ = inputs_.source_of(argument).argument;
  throw Error(ErrorKind::Runtime, "[requires_grad_] an argument begins to require a gradient");
}

}  // namespace thunder::frontend
