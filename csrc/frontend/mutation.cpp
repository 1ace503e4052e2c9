// What the program does to a tensor in place: writes to its values, and changes of the tensor object itself (its sizes,
// whether it is a leaf).
#include <algorithm>
#include <string_view>

#include "core/error.h"
#include "frontend/tracer.h"

namespace thunder::frontend {

Value Tracer::new_leaf(Value v) {
  THUNDER_CHECK(is_inexact(v.dtype()), Runtime, "requires_grad_",
                "only Tensors of floating point dtype can require gradients, got ", torch_name(v.dtype()));
  Value leaf = b_("prims.new_leaf", v).value();
  new_leaves_.insert(leaf.id());
  return leaf;
}

bool Tracer::is_beginner(TensorId t) const {
  return aliases_.is_input(t) && views_of_shared_.count(t) == 0 && source_of(t).becomes_leaf;
}

// An argument: the caller's tensor will require a gradient, too, and get one.  Up to here the program reads what is
// detached from it.
void Tracer::require_grad_outside(PyObject* tensor) {
  const TensorId id = id_of(tensor);
  const bool argument = aliases_.is_input(id) && views_of_shared_.count(id) == 0 &&
                        source_of(id).kind == InputSource::Argument && is_inexact(value_of(tensor).dtype()) &&
                        !aliases_.written(id);
  THUNDER_CHECK(argument, NotImplemented, "requires_grad_",
                "a tensor from outside, or an argument that was written to, would begin to require gradients; do it "
                "outside");
  if (!is_beginner(id)) {
    new_beginner_ = source_of(id).argument;
    throw Error(ErrorKind::Runtime, "[requires_grad_] an argument begins to require a gradient");
  }
  aliases_.rename(id, aliases_.base(id));
}

void Tracer::require_grad(PyObject* tensor) {
  if (is_outside(id_of(tensor))) return require_grad_outside(tensor);
  Value v = value_of(tensor);
  aliases_.rename(id_of(tensor), new_leaf(v));
  aliases_.make_leaf(id_of(tensor));
}

std::optional<bool> Tracer::made_leaf(PyObject* tensor) {
  const TensorId id = id_of(tensor);
  if (is_outside(id)) {
    if (is_beginner(id)) return true;
    auto at = std::find(inputs_.begin(), inputs_.end(), id);
    const bool written_only =
        at != inputs_.end() && !b_.inputs()[static_cast<size_t>(at - inputs_.begin())].requires_grad();
    return written_only ? std::optional<bool>(false) : std::nullopt;
  }
  return new_leaves_.count(value_of(tensor).id()) != 0;
}

void Tracer::check_writable(PyObject* tensor, const char* op) {
  check_unwritable(id_of(tensor));
  aliases_.check_leaf(id_of(tensor), hooks().grad_enabled(), op);
}

void Tracer::write(PyObject* tensor, const Arg& value, const char* op) {
  TensorId id = id_of(tensor);
  check_unwritable(id);
  const std::optional<TensorId> base = aliases_.base_input(id);
  if (auto it = base ? aliased_.find(*base) : aliased_.end(); it != aliased_.end()) share(it->second, op);
  check_strided_write(id, op);
  b_.set_grad_enabled(hooks().grad_enabled());
  const TensorType target = aliases_.value(id).tensor();
  Expr v = b_.expr(value);
  THUNDER_CHECK(number_kind(v.dtype()) <= number_kind(target.dtype), Runtime, op, "result type ", torch_name(v.dtype()),
                " can't be cast to the desired output type ", torch_name(target.dtype));
  check_same_shape(tensor, v.value(), op);
  if (!same(v.shape(), target.shape)) v = b_("torch.reshape", v, target.shape);  // lengths that turned out to be equal
  if (v.dtype() != target.dtype) v = b_("torch.to", v, target.dtype);
  THUNDER_CHECK(!base || !v.value().requires_grad() || !source_of(*base).whole_storage, NotImplemented, op,
                "writing what requires grad to an input that shares memory with another input is not supported");
  if (target.requires_grad && hooks().grad_enabled() && !v.value().requires_grad())
    v = b_("prims.cover", aliases_.value(id), v);
  aliases_.write(id, v.value(), hooks().grad_enabled(), op);
}

void Tracer::copy_into(PyObject* target, PyObject* source, const char* op) {
  b_.set_grad_enabled(hooks().grad_enabled());
  const TensorType to = value_of(target).tensor();
  Arg from = convert(source);
  // A number leaves what requires grad a constant function of what it was.
  bool constant = to.requires_grad && hooks().grad_enabled();
  // copy_() converts a number, the others take only one that the dtype holds.
  const bool converts = !from.is_tensor() && std::string_view(op) == "copy_" && !constant;
  Expr v = from.is_tensor() ? b_.expr(from)
           : constant       ? b_("torch.fill", value_of(target), from)
           : converts       ? b_("torch.full", Dims{}, from, kw("device", to.device))
                            : b_("torch.full", to.shape, from, kw("dtype", to.dtype), kw("device", to.device));
  if (v.dtype() != to.dtype) v = b_("torch.to", v, to.dtype);
  if (v.tensor().device != to.device) v = b_("torch.to", v, to.device);
  if (!same(v.shape(), to.shape)) v = b_("torch.expand", v, to.shape);
  write(target, v, op);
}

void Tracer::set_data(PyObject* target, PyObject* source) {
  b_.set_grad_enabled(hooks().grad_enabled());
  const TensorId to = id_of(target), from = id_of(source);
  const TensorType was = aliases_.value(to).tensor(), is = aliases_.value(from).tensor();
  auto refuse_unless = [](bool fits, const char* what) {
    THUNDER_CHECK(fits, NotImplemented, "data", "assigning to .data inside a compiled function is not supported for ",
                  what, "; use copy_() under torch.no_grad()");
  };
  refuse_unless(same(was.shape, is.shape) && same(was.strides, is.strides) && was.dtype == is.dtype &&
                    was.device == is.device && was.layout == is.layout,
                "a tensor of other sizes, strides, dtype or device");
  if (from == to || aliases_.same_elements(to, from)) return;  // `x.data *= y` assigns what x.data gave
  refuse_unless(aliases_.path(to).empty() && !aliases_.is_alias(to) && !views_of_shared_.count(to) &&
                    !aliased_.count(to) && !new_leaves_.count(value_of(target).id()),
                "a view, or what shares memory with another input");
  refuse_unless(!aliases_.is_input(to) || !aliases_.written(to) || aliases_.moved(to),
                "a tensor that was written to before");
  refuse_unless(aliases_.owns_memory(from) && !is_outside(from) && !aliases_.given_away(from) && from != to,
                "values that share memory with another tensor");
  Value v = aliases_.value(from);
  if (v.requires_grad()) v = b_("prims.detach", v).value();
  v = (was.requires_grad ? b_("prims.graft", value_of(target), v) : b_("prims.same", v)).value();
  aliases_.take_memory(to, v, from);
}

// The in-place form of a view (transpose_, squeeze_, ...) changes sizes and strides of the object, not its memory.
bool Tracer::changes_metadata(PyObject* written, const Arg& result, const Call* call, const std::string& op) {
  if (!result.is_tensor()) return false;
  TensorId before = id_of(written);
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

// Where something that requires grad is among what a call with out= reads or writes.
void Tracer::check_out_gradient(const std::string& op) const {
  THUNDER_CHECK(!hooks().grad_enabled(), Runtime, op,
                "functions with out=... arguments don't support automatic differentiation, but one of the arguments "
                "requires grad.");
}

void Tracer::check_same_shape(PyObject* target, const Arg& result, const std::string& op) {
  const Dims &to = value_of(target).shape(), &from = result.value().shape();
  THUNDER_CHECK(std::equal(from.begin(), from.end(), to.begin(), to.end()), Runtime, op, "output with shape ", str(to),
                " doesn't match the broadcast shape ", str(from));
}

// out=: one tensor, or one for each result.
void Tracer::write_out(PyObject* out, const Arg& result, const std::string& op) {
  if (result.is_sequence()) {
    const size_t n = result.items().size();
    const bool fits = (PyTuple_Check(out) || PyList_Check(out)) && PySequence_Fast_GET_SIZE(out) == Py_ssize_t(n);
    THUNDER_CHECK(fits, Type, op, "argument 'out' must be a tuple of ", n, " tensors");
    for (size_t i = 0; i < n; ++i)
      write_out(PySequence_Fast_GET_ITEM(out, static_cast<Py_ssize_t>(i)), result.items()[i], op);
    return;
  }
  THUNDER_CHECK(result.is_tensor() && is_tensor(out), Type, op, "argument 'out' must be a tensor");
  if (result.value().requires_grad() || aliases_.value(id_of(out)).requires_grad()) check_out_gradient(op);
  resize_for(out, result, op);
  write(out, result, op.c_str());
}

// out= of another shape becomes a tensor of the result's; eager's memory grows, which views of it would see.
void Tracer::resize_for(PyObject* out, const Arg& result, const std::string& op) {
  TensorId id = id_of(out);
  const TensorType before = aliases_.value(id).tensor();
  const Dims& shape = result.value().shape();
  if (std::equal(shape.begin(), shape.end(), before.shape.begin(), before.shape.end())) return;
  for (const Dim& d : shape)
    for (SymbolId s : d.symbols())
      THUNDER_CHECK(shapes_.hint(s), NotImplemented, op, "out= of a result whose size depends on data");
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

void Tracer::rebind(PyObject* object, TensorId id, const char* op) {
  TensorId before = id_of(object);
  THUNDER_CHECK(!is_outside(before), NotImplemented, op,
                "not the values of an input, or of a tensor from outside, would change, but the tensor itself; use the "
                "form that is not in place");
  Ref proxy = new_proxy(aliases_.value(id).tensor());
  Ref swapped = Ref::steal(PyObject_CallFunctionObjArgs(hooks().swap_tensors.get(), object, proxy.get(), nullptr));
  Ref kept = Ref::borrow(object);
  objects_.erase(before);
  ids_[object] = id;
  objects_[id] = std::move(kept);
}

void Tracer::detach_in_place(PyObject* tensor) {
  TensorId id = id_of(tensor);
  Value v = aliases_.value(id);
  if (!v.requires_grad()) return;
  THUNDER_CHECK(!aliases_.is_view(id), Runtime, "detach_", "Can't detach views in-place. Use detach() instead.");
  bool fresh = false;
  Value detached = b_("prims.detach", v).value();
  rebind(tensor, aliases_.add_result(detached, b_.calls().back(), &fresh), "detach_");
}

}  // namespace thunder::frontend
