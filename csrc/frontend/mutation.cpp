#include "frontend/mutation.h"

#include <algorithm>
#include <string_view>

#include "core/error.h"
#include "frontend/hooks.h"

namespace thunder::frontend {

// An argument: the caller's tensor will require a gradient, too, and get one.  Up to here the program reads what is
// detached from it.
void Mutation::require_grad_outside(PyObject* tensor) {
  const TensorId id = tensors_.id_of(tensor);
  const bool argument = aliases_.is_input(id) && !tensors_.is_in_shared_memory(id) &&
                        inputs_.source_of(id).kind == InputSource::Argument &&
                        is_inexact(tensors_.value_of(tensor).dtype()) && !aliases_.written(id);
  THUNDER_CHECK(argument, NotImplemented, "requires_grad_",
                "a tensor from outside, or an argument that was written to, would begin to require gradients; do it "
                "outside");
  if (!tensors_.is_beginner(id)) tensors_.begin_to_require_grad(id);
  aliases_.rename(id, aliases_.base(id));
}

void Mutation::require_grad(PyObject* tensor) {
  if (tensors_.is_outside(tensors_.id_of(tensor))) return require_grad_outside(tensor);
  Value v = tensors_.value_of(tensor);
  aliases_.rename(tensors_.id_of(tensor), acquisition_.new_leaf(v));
  aliases_.make_leaf(tensors_.id_of(tensor));
}

std::optional<bool> Mutation::made_leaf(PyObject* tensor) {
  const TensorId id = tensors_.id_of(tensor);
  if (tensors_.is_outside(id)) {
    if (tensors_.is_beginner(id)) return true;
    const std::optional<size_t> at = inputs_.find(id);
    const bool written_only = at && !inputs_.value(*at).requires_grad();
    return written_only ? std::optional<bool>(false) : std::nullopt;
  }
  return acquisition_.is_new_leaf(tensors_.value_of(tensor));
}

void Mutation::check_unwritable(TensorId id) {
  constexpr bool kWarns = true;
  if (hooks().grad_enabled() && unwritable_.count(aliases_.storage(id)) != 0)
    acquisition_.leave_to_eager("a write to what a module with backward hooks is given or gives", nullptr, kWarns);
}

void Mutation::check_writable(PyObject* tensor, const char* op) {
  check_unwritable(tensors_.id_of(tensor));
  aliases_.check_leaf(tensors_.id_of(tensor), hooks().grad_enabled(), op);
}

void Mutation::write(PyObject* tensor, const Arg& value, const char* op) {
  TensorId id = tensors_.id_of(tensor);
  check_unwritable(id);
  const std::optional<TensorId> base = aliases_.base_input(id);
  if (base) tensors_.check_unshared(*base, op);
  strided_.check_write(id, op);
  b_.set_grad_enabled(hooks().grad_enabled());
  const TensorType target = aliases_.value(id).tensor();
  Expr v = b_.expr(value);
  THUNDER_CHECK(number_kind(v.dtype()) <= number_kind(target.dtype), Runtime, op, "result type ", torch_name(v.dtype()),
                " can't be cast to the desired output type ", torch_name(target.dtype));
  check_same_shape(tensor, v.value(), op);
  if (!same(v.shape(), target.shape)) v = b_("torch.reshape", v, target.shape);  // lengths that turned out to be equal
  if (v.dtype() != target.dtype) v = b_("torch.to", v, target.dtype);
  THUNDER_CHECK(!base || !v.value().requires_grad() || !inputs_.source_of(*base).whole_storage, NotImplemented, op,
                "writing what requires grad to an input that shares memory with another input is not supported");
  if (target.requires_grad && hooks().grad_enabled() && !v.value().requires_grad())
    v = b_("prims.cover", aliases_.value(id), v);
  aliases_.write(id, v.value(), hooks().grad_enabled(), op);
}

void Mutation::write_result(PyObject* tensor, const Arg& result, const Call* call, const std::string& op) {
  if (Proxies::unchanged_by(op) == Proxies::Unchanged::Viewed) check_writable(tensor, op.c_str());
  if (!changes_metadata(tensor, result, call, op)) write(tensor, result, op.c_str());
}

void Mutation::copy_into(PyObject* target, PyObject* source, const char* op) {
  b_.set_grad_enabled(hooks().grad_enabled());
  const TensorType to = tensors_.value_of(target).tensor();
  Arg from = tensors_.convert(source);
  // A number leaves what requires grad a constant function of what it was.
  bool constant = to.requires_grad && hooks().grad_enabled();
  // copy_() converts a number, the others take only one that the dtype holds.
  const bool converts = !from.is_tensor() && std::string_view(op) == "copy_" && !constant;
  Expr v = from.is_tensor() ? b_.expr(from)
           : constant       ? b_("torch.fill", tensors_.value_of(target), from)
           : converts       ? b_("torch.full", Dims{}, from, kw("device", to.device))
                            : b_("torch.full", to.shape, from, kw("dtype", to.dtype), kw("device", to.device));
  if (v.dtype() != to.dtype) v = b_("torch.to", v, to.dtype);
  if (v.tensor().device != to.device) v = b_("torch.to", v, to.device);
  if (!same(v.shape(), to.shape)) v = b_("torch.expand", v, to.shape);
  write(target, v, op);
}

void Mutation::set_data(PyObject* target, PyObject* source) {
  b_.set_grad_enabled(hooks().grad_enabled());
  const TensorId to = tensors_.id_of(target), from = tensors_.id_of(source);
  const TensorType was = aliases_.value(to).tensor(), is = aliases_.value(from).tensor();
  auto refuse_unless = [](bool fits, const char* what) {
    THUNDER_CHECK(fits, NotImplemented, "data", "assigning to .data inside a compiled function is not supported for ",
                  what, "; use copy_() under torch.no_grad()");
  };
  refuse_unless(same(was.shape, is.shape) && same(was.strides, is.strides) && was.dtype == is.dtype &&
                    was.device == is.device && was.layout == is.layout,
                "a tensor of other sizes, strides, dtype or device");
  if (from == to || aliases_.same_elements(to, from)) return;  // `x.data *= y` assigns what x.data gave
  refuse_unless(aliases_.path(to).empty() && !aliases_.is_alias(to) && !tensors_.is_in_shared_memory(to) &&
                    !tensors_.shares_memory(to) && !acquisition_.is_new_leaf(tensors_.value_of(target)),
                "a view, or what shares memory with another input");
  refuse_unless(!aliases_.is_input(to) || !aliases_.written(to) || aliases_.moved(to),
                "a tensor that was written to before");
  refuse_unless(aliases_.owns_memory(from) && !tensors_.is_outside(from) && !aliases_.given_away(from) && from != to,
                "values that share memory with another tensor");
  Value v = aliases_.value(from);
  if (v.requires_grad()) v = b_("prims.detach", v).value();
  v = (was.requires_grad ? b_("prims.graft", tensors_.value_of(target), v) : b_("prims.same", v)).value();
  aliases_.take_memory(to, v, from);
}

// The in-place form of a view (transpose_, squeeze_, ...) changes sizes and strides of the object, not its memory.
bool Mutation::changes_metadata(PyObject* written, const Arg& result, const Call* call, const std::string& op) {
  if (!result.is_tensor()) return false;
  TensorId before = tensors_.id_of(written);
  if (result.value() == aliases_.value(before)) return true;
  bool fresh = false;
  TensorId id = aliases_.add_result(result.value(), call, &fresh);
  if (!aliases_.share_memory(id, before)) return false;
  // Whatever the mode, it stays a function of what it was.
  if (fresh && aliases_.value(before).requires_grad() && !result.value().requires_grad())
    id = aliases_.with_gradient(id, before);
  aliases_.inherit_view(id, before);
  rebind(written, id, op.c_str());
  return true;
}

void Mutation::check_out_gradient(const std::string& op) {
  THUNDER_CHECK(!hooks().grad_enabled(), Runtime, op,
                "functions with out=... arguments don't support automatic differentiation, but one of the arguments "
                "requires grad.");
}

void Mutation::check_same_shape(PyObject* target, const Arg& result, const std::string& op) {
  const Dims &to = tensors_.value_of(target).shape(), &from = result.value().shape();
  THUNDER_CHECK(std::equal(from.begin(), from.end(), to.begin(), to.end()), Runtime, op, "output with shape ", str(to),
                " doesn't match the broadcast shape ", str(from));
}

void Mutation::write_out(PyObject* out, const Arg& result, const std::string& op) {
  if (result.is_sequence()) {
    const size_t n = result.items().size();
    const bool fits = (PyTuple_Check(out) || PyList_Check(out)) && PySequence_Fast_GET_SIZE(out) == Py_ssize_t(n);
    THUNDER_CHECK(fits, Type, op, "argument 'out' must be a tuple of ", n, " tensors");
    for (size_t i = 0; i < n; ++i)
      write_out(PySequence_Fast_GET_ITEM(out, static_cast<Py_ssize_t>(i)), result.items()[i], op);
    return;
  }
  THUNDER_CHECK(result.is_tensor() && is_tensor(out), Type, op, "argument 'out' must be a tensor");
  if (result.value().requires_grad() || aliases_.value(tensors_.id_of(out)).requires_grad()) check_out_gradient(op);
  resize_for(out, result, op);
  write(out, result, op.c_str());
}

// out= of another shape becomes a tensor of the result's; eager's memory grows, which views of it would see.
void Mutation::resize_for(PyObject* out, const Arg& result, const std::string& op) {
  TensorId id = tensors_.id_of(out);
  const TensorType before = aliases_.value(id).tensor();
  const Dims& shape = result.value().shape();
  if (std::equal(shape.begin(), shape.end(), before.shape.begin(), before.shape.end())) return;
  for (const Dim& d : shape)
    for (SymbolId s : d.symbols())
      THUNDER_CHECK(acquisition_.shapes().hint(s), NotImplemented, op, "out= of a result whose size depends on data");
  THUNDER_CHECK(aliases_.owns_memory(id), NotImplemented, op, "out= of shape ", str(before.shape),
                ", which shares memory with another tensor, would be resized to ", str(result.value().shape()));
  THUNDER_CHECK(!before.requires_grad, NotImplemented, op, "out= of shape ", str(before.shape),
                ", which requires grad, would be resized to ", str(shape));
  bool fresh = false;
  const Dims& strides = result.value().tensor().strides;
  Value empty =
      b_("prims.empty_strided", shape, strides, kw("dtype", before.dtype), kw("device", before.device)).value();
  rebind(out, aliases_.add_result(empty, b_.calls().back(), &fresh), op.c_str());
}

void Mutation::rebind(PyObject* object, TensorId id, const char* op) {
  TensorId before = tensors_.id_of(object);
  THUNDER_CHECK(!tensors_.is_outside(before), NotImplemented, op,
                "not the values of an input, or of a tensor from outside, would change, but the tensor itself; use the "
                "form that is not in place");
  proxies_.rebind(object, before, id);
}

void Mutation::detach_in_place(PyObject* tensor) {
  TensorId id = tensors_.id_of(tensor);
  Value v = aliases_.value(id);
  if (!v.requires_grad()) return;
  THUNDER_CHECK(!aliases_.is_view(id), Runtime, "detach_", "Can't detach views in-place. Use detach() instead.");
  bool fresh = false;
  Value detached = b_("prims.detach", v).value();
  rebind(tensor, aliases_.add_result(detached, b_.calls().back(), &fresh), "detach_");
}

void Mutation::become(PyObject* tensor, PyObject* other, const char* op) {
  check_writable(tensor, op);
  aliases_.inherit_view(tensors_.id_of(other), tensors_.id_of(tensor));
  rebind(tensor, tensors_.id_of(other), op);
}

}  // namespace thunder::frontend
