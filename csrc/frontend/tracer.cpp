#include "frontend/tracer.h"

#include "frontend/interpreter/interpreter.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "core/error.h"
#include "core/number.h"
#include "core/rewrite.h"
#include "frontend/autocast.h"
#include "passes/visit.h"

namespace thunder::frontend {
namespace {

bool is_setter(PyObject* callable) {
  if (std::strcmp(Py_TYPE(callable)->tp_name, "method-wrapper") != 0) return false;
  Ref name = Ref::steal(PyObject_GetAttrString(callable, "__name__"));
  return PyUnicode_CompareWithASCIIString(name.get(), "__set__") == 0;
}

std::string qualified_name(PyObject* callable) {
  PyObject* o = function_key(callable);
  for (const char* attribute : {"__qualname__", "__name__"}) {
    PyObject* name = PyObject_GetAttrString(o, attribute);
    if (!name) {
      PyErr_Clear();
      continue;
    }
    Ref owned = Ref::steal(name);
    if (const char* text = PyUnicode_AsUTF8(name)) return text;
  }
  return Py_TYPE(o)->tp_name;
}

constexpr TensorId kNotYet = ~TensorId{0};

}  // namespace

Tracer::Tracer(std::vector<const void*> shared)
    : owned_(std::make_unique<Builder>(std::make_shared<Arena>())), b_(*owned_), arena_(b_.arena()), aliases_(b_) {
  for (const void* memory : shared) shared_[memory] = kNotYet;
  shapes_.location = [this] { return location(); };
  shapes_.ask = [this](SymbolId s) { return ask_size(s); };
  begin_numbers();
}

Tracer::Tracer(Builder& borrowed, bool metadata_only)
    : b_(borrowed), arena_(b_.arena()), metadata_only_(metadata_only), aliases_(b_) {}

// ---- inputs ---------------------------------------------------------------------------------------------------------

TensorId Tracer::add_input(PyObject* object, PyObject* real, InputSource source, const TensorType* type) {
  const void* memory = hooks().storage_of(real);
  TensorId id;
  if (shared_.count(memory) != 0) {
    id = add_view_of_shared(real, std::move(source), memory);
  } else {
    id = aliases_.add_input(b_.input(type ? *type : hooks().type_of(real)), hooks().is_leaf(real));
    sources_.push_back(std::move(source));
    inputs_.push_back(id);
    reals_.push_back(Ref::borrow(real));
    if (memory) {
      auto [it, fresh] = storages_.try_emplace(memory, id);
      if (!fresh) {
        aliased_[id] = aliased_[it->second] = memory;
        if (aliases_.written(it->second)) share(memory, "jit");
      }
    }
  }
  ids_[object] = id;
  objects_[id] = Ref::borrow(object);
  return id;
}

// Ends this acquisition, as the inputs in this memory have to be views of one.
void Tracer::share(const void* memory, const char* op) {
  shared_memory_written_ = memory;
  throw Error(ErrorKind::Runtime, cat("[", op, "] an input that shares memory with another input is written to"));
}

// The whole memory is the input, and the tensor a view of it.
TensorId Tracer::add_view_of_shared(PyObject* real, InputSource source, const void* memory) {
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
    sources_.push_back(std::move(source));
    inputs_.push_back(base);
    reals_.push_back(Ref::borrow(real));
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

// The program returns it: the tensor is an input for that alone, which the epilogue passes on.
TensorId Tracer::input_itself(TensorId t) {
  auto at = views_of_shared_.find(t);
  if (at == views_of_shared_.end()) return aliases_.base_input(t).value_or(kNoTensor);
  if (std::find(inputs_.begin(), inputs_.end(), t) == inputs_.end()) {
    b_.input(aliases_.value(t).tensor());
    sources_.push_back(at->second);
    inputs_.push_back(t);
    reals_.emplace_back();
  }
  return t;
}

Ref Tracer::add_argument(PyObject* tensor, size_t index, const TensorType* type) {
  if (auto it = ids_.find(tensor); it != ids_.end()) return objects_.at(it->second);
  ShapeEnv::Scope scope(shapes_);
  Ref proxy = new_proxy(type ? *type : hooks().type_of(tensor));
  TensorId id = add_input(proxy.get(), tensor, {InputSource::Argument, index, {}}, type);
  ids_[tensor] = id;  // the closure may hold the very tensor that was passed
  arguments_.insert(tensor);
  return proxy;
}

void Tracer::add_captured(PyObject* tensor) {
  if (!knows(tensor)) add_input(tensor, tensor, {InputSource::Captured, 0, Ref::borrow(tensor)});
}

Ref Tracer::add_value(Value v) {
  if (!v.type().is_tensor()) return make_number(v);
  for (TensorId id : values_)
    if (aliases_.value(id) == v) return objects_.at(id);
  Ref proxy = new_proxy(v.tensor());
  TensorId id = aliases_.add_input(v, false);
  ids_[proxy.get()] = id;
  objects_[id] = proxy;
  values_.push_back(id);
  return proxy;
}

Ref Tracer::new_tensor(TensorType t) {
  THUNDER_CHECK(metadata_only_, Runtime, "TensorProxy",
                "a tensor without data can be made in a meta function only; in a program "
                "use torch.empty, torch.zeros, ...");
  return add_value(arena_->make_value(std::move(t)));
}

bool Tracer::wrote_to_values() const {
  return std::any_of(values_.begin(), values_.end(), [this](TensorId id) { return aliases_.written(id); });
}

TensorId Tracer::id_of(PyObject* tensor) {
  auto it = ids_.find(tensor);
  if (it != ids_.end()) {
    if (!is_proxy(tensor) && arguments_.count(tensor)) met_outside_.insert(tensor);
    return it->second;
  }
  THUNDER_CHECK(
      !is_proxy(tensor), Runtime, "jit",
      "a tensor that was made while another call was compiled is used here: it was kept in a global, an attribute or "
      "a container by a compiled function");
  THUNDER_CHECK(owned_, NotImplemented, "extend",
                "a rule of an executor uses a tensor that is none of its arguments; make it "
                "there (torch.full, torch.tensor), or pass it as an argument of the operator");
  return add_input(tensor, tensor, {InputSource::Captured, 0, Ref::borrow(tensor)});
}

Arg Tracer::convert(PyObject* o) {
  return to_arg(o, [this](PyObject* t) -> Arg { return value_of(t); });
}

// ---- outputs --------------------------------------------------------------------------------------------------------

Ref Tracer::new_proxy(const TensorType& t) {
  Hooks& h = hooks();
  auto sizes = [](const Dims& dims) {
    Ref out = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(dims.size())));
    for (size_t i = 0; i < dims.size(); ++i) {
      // The proxy's own sizes are not read where they are symbolic (see the handlers of shape and size).
      int64_t d = dims[i].is_constant() ? dims[i].constant() : 2;
      PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(d));
    }
    return out;
  };
  Ref shape = sizes(t.shape), strides = sizes(t.strided() ? t.strides : contiguous_strides(t.shape));
  Ref args = Ref::steal(PyTuple_Pack(3, h.proxy_class, shape.get(), strides.get()));
  Ref kwargs = Ref::steal(PyDict_New());
  Ref device = device_to_python(t.device);
  PyDict_SetItemString(kwargs.get(), "dtype", dtype_to_python(t.dtype).get());
  PyDict_SetItemString(kwargs.get(), "device", device.get());
  PyDict_SetItemString(kwargs.get(), "requires_grad", t.requires_grad ? Py_True : Py_False);
  Ref proxy = Ref::steal(PyObject_Call(h.make_wrapper_subclass.get(), args.get(), kwargs.get()));
  h.forbid_data(proxy.get());
  return proxy;
}

Tracer::Unchanged Tracer::unchanged_by(const std::string& op) {
  for (const Op* o : Registry::instance().overloads(op))
    if (o->level != "torch" || o->has(kReturnsInput)) return Unchanged::Returned;
  return Unchanged::Viewed;
}

Ref Tracer::wrap(Value v, const Call* call, Unchanged unchanged, PyObject* first) {
  if (!v.type().is_tensor()) return make_number(v);
  if (auto it = first ? ids_.find(first) : ids_.end(); it != ids_.end() && aliases_.value(it->second) == v)
    return unchanged == Unchanged::Viewed ? alias_of(it->second) : Ref::borrow(first);
  bool fresh = false;
  TensorId id = aliases_.add_result(v, call, &fresh);
  if (!fresh && unchanged == Unchanged::Viewed) return alias_of(id);
  auto it = objects_.find(id);
  if (it != objects_.end()) return it->second;
  Ref proxy = new_proxy(v.tensor());
  ids_[proxy.get()] = id;
  objects_[id] = proxy;
  return proxy;
}

Ref Tracer::alias_of(TensorId of) {
  Value v = aliases_.value(of);
  TensorId id;
  if (v.requires_grad() && !hooks().grad_enabled()) {
    bool fresh = false;
    v = b_("prims.detach", v).value();
    id = aliases_.add_result(v, b_.calls().back(), &fresh);
  } else {
    id = aliases_.add_alias(of);
  }
  Ref proxy = new_proxy(v.tensor());
  ids_[proxy.get()] = id;
  objects_[id] = proxy;
  return proxy;
}

// ---- calls ----------------------------------------------------------------------------------------------------------

std::string Tracer::location() const {
  const SourceLocation* l = b_.location();
  return l ? cat(l->file, ":", l->line, " in ", l->function) : "";
}

// Whether it is PyTorch's code, or thunder's, that runs.
bool Tracer::in_library() const {
  PyFrameObject* frame = PyEval_GetFrame();
  if (!frame) return false;
  PyCodeObject* code = PyFrame_GetCode(frame);
  const bool internal = is_internal(code);
  Py_DECREF(code);
  return internal;
}

void Tracer::update_location() {
  if (!owned_) return;
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    bool internal = is_internal(code);
    if (!internal) {
      SourceLocation l;
      if (const char* file = PyUnicode_AsUTF8(code->co_filename)) l.file = file;
      if (const char* name = PyUnicode_AsUTF8(code->co_name)) l.function = name;
      l.line = PyFrame_GetLineNumber(frame);
      b_.set_location(arena_->make_location(std::move(l)));
    }
    Py_DECREF(code);
    if (internal) {
      PyFrameObject* back = PyFrame_GetBack(frame);
      Py_DECREF(frame);
      frame = back;
    } else {
      Py_DECREF(frame);
      return;
    }
  }
}

Value Tracer::new_leaf(Value v) {
  THUNDER_CHECK(is_inexact(v.dtype()), Runtime, "requires_grad_",
                "only Tensors of floating point dtype can require gradients, got ", torch_name(v.dtype()));
  Value leaf = b_("prims.new_leaf", v).value();
  new_leaves_.insert(leaf.id());
  return leaf;
}

Arg Tracer::call_operator(const std::string& op, ArgList positional, std::vector<std::pair<std::string, Arg>> keyword) {
  b_.set_grad_enabled(hooks().grad_enabled());
  // Tensors are made first, and require gradients then.
  auto leaf = std::find_if(keyword.begin(), keyword.end(), [](const auto& k) { return k.first == "requires_grad"; });
  if (leaf != keyword.end() && leaf->second.kind() == Arg::Kind::Bool && leaf->second.boolean()) {
    keyword.erase(leaf);
    Arg made = call_operator(op, std::move(positional), std::move(keyword));
    return new_leaf(made.value());
  }
  autocast_arguments(b_, op, positional, keyword);
  ops::ProductDtype products = autocast_products(positional);
  try {
    return b_.call_named(op, positional, keyword);
  } catch (const Error&) {
    return call_with_numbers(op, positional, keyword);
  }
}

// What has a dtype= computes, where it is not given, in that of the tensor that takes the result.
void Tracer::take_dtype_of(PyObject* target, const std::string& op, const ArgList& positional,
                           std::vector<std::pair<std::string, Arg>>& keyword) {
  const std::vector<const Op*>& overloads = Registry::instance().overloads(op);
  if (overloads.size() != 1) return;
  const std::vector<Param>& params = overloads[0]->schema.params;
  for (size_t i = positional.size(); i < params.size(); ++i) {
    if (params[i].name != "dtype") continue;
    for (const auto& [name, value] : keyword)
      if (name == "dtype") return;
    keyword.emplace_back("dtype", value_of(target).dtype());
  }
}

Ref Tracer::record(const TorchFunction& f, PyObject* args, PyObject* kwargs) {
  Py_ssize_t n = PyTuple_GET_SIZE(args);
  ArgList positional;
  positional.reserve(n);
  for (Py_ssize_t i = 0; i < n; ++i) positional.push_back(convert(PyTuple_GET_ITEM(args, i)));
  THUNDER_CHECK(!f.method || (n > 0 && is_tensor(PyTuple_GET_ITEM(args, 0))), Type, f.op,
                "a method of torch.Tensor was called on ",
                n > 0 ? Py_TYPE(PyTuple_GET_ITEM(args, 0))->tp_name : "nothing");
  if (f.reflected && n >= 2) std::swap(positional[0], positional[1]);

  std::vector<std::pair<std::string, Arg>> keyword;
  PyObject* out = nullptr;
  PyObject* written = f.in_place && n > 0 ? PyTuple_GET_ITEM(args, f.reflected ? 1 : 0) : nullptr;
  if (kwargs) {
    PyObject *key, *value;
    for (Py_ssize_t pos = 0; PyDict_Next(kwargs, &pos, &key, &value);) {
      std::string name = PyUnicode_AsUTF8(key);
      if (name == "out") {
        if (value != Py_None) out = value;
      } else if (name == "inplace") {
        if (value == Py_True) written = PyTuple_GET_ITEM(args, 0);
      } else if (value != Py_None || (name != "generator" && name != "pin_memory" && name != "layout")) {
        if (name == "pin_memory" && value == Py_False) continue;
        keyword.emplace_back(std::move(name), convert(value));
      }
    }
  }
  if (written && is_tensor(written) && unchanged_by(f.op) == Unchanged::Viewed)
    aliases_.check_leaf(id_of(written), hooks().grad_enabled(), f.op.c_str());
  if (PyObject* target = out ? out : written; target && is_tensor(target))
    take_dtype_of(target, f.op, positional, keyword);
  Arg result;
  try {
    result = call_operator(f.op, std::move(positional), std::move(keyword));
  } catch (const Error&) {  // eager looks at what it is to write to first
    if (written && is_tensor(written)) aliases_.check_leaf(id_of(written), hooks().grad_enabled(), f.op.c_str());
    throw;
  }
  const std::vector<const Call*>& calls = b_.calls();
  const Call* call = calls.empty() ? nullptr : calls.back();
  if (out) {
    write_out(out, result, f.op);
    return f.result && !is_tensor(out) ? Ref::steal(PyObject_CallOneArg(f.result.get(), out)) : Ref::borrow(out);
  }
  if (written) {
    if (!changes_metadata(written, result, call, f.op)) write(written, result, f.op.c_str());
    return Ref::borrow(written);
  }
  PyObject* first = n > 0 ? PyTuple_GET_ITEM(args, 0) : nullptr;
  Ref object = to_python(result, [&](Value v) { return wrap(v, call, unchanged_by(f.op), first); });
  if (!f.result || !PyTuple_CheckExact(object.get())) return object;
  return Ref::steal(PyObject_CallOneArg(f.result.get(), object.get()));
}

// The in-place form of a view (transpose_, squeeze_, ...) changes sizes and strides of the object, not its memory.
bool Tracer::changes_metadata(PyObject* written, const Arg& result, const Call* call, const std::string& op) {
  if (!result.is_tensor()) return false;
  TensorId before = id_of(written);
  if (result.value() == aliases_.value(before)) return true;
  bool fresh = false;
  TensorId id = aliases_.add_result(result.value(), call, &fresh);
  if (!aliases_.share_memory(id, before)) return false;
  rebind(written, id, op.c_str());
  return true;
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
  const bool differentiable = result.value().requires_grad() || aliases_.value(id_of(out)).requires_grad();
  THUNDER_CHECK(!differentiable || !hooks().grad_enabled(), Runtime, op,
                "functions with out=... arguments don't support automatic differentiation, but one of the arguments "
                "requires grad.");
  resize_for(out, result, op);
  write(out, result, op.c_str());
}

// out= of another shape becomes a tensor of the result's.
void Tracer::resize_for(PyObject* out, const Arg& result, const std::string& op) {
  TensorId id = id_of(out);
  const TensorType before = aliases_.value(id).tensor();
  const Dims& shape = result.value().shape();
  if (same(before.shape, shape)) return;
  for (const Dim& d : shape)
    for (SymbolId s : d.symbols())
      THUNDER_CHECK(shapes_.hint(s), NotImplemented, op, "out= of a result whose size depends on data");
  THUNDER_CHECK(aliases_.path(id).empty() && !aliases_.is_alias(id), NotImplemented, op, "out= of shape ",
                str(before.shape), ", a view, would be resized to ", str(result.value().shape()));
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

Ref Tracer::apply(const std::string& op, PyObject* args, PyObject* kwargs, bool in_place) {
  TorchFunction f;
  f.op = op;
  f.in_place = in_place;
  return record(f, args, kwargs);
}

void Tracer::require_grad(PyObject* tensor) {
  THUNDER_CHECK(!is_outside(id_of(tensor)), NotImplemented, "requires_grad_",
                "an input of the compiled function, or a tensor from outside, would begin to require gradients; do it "
                "outside");
  Value v = value_of(tensor);
  aliases_.rename(id_of(tensor), new_leaf(v));
}

std::optional<bool> Tracer::made_leaf(PyObject* tensor) {
  if (is_outside(id_of(tensor))) return std::nullopt;
  return new_leaves_.count(value_of(tensor).id()) != 0;
}

void Tracer::detach_in_place(PyObject* tensor) {
  TensorId id = id_of(tensor);
  Value v = aliases_.value(id);
  if (!v.requires_grad()) return;
  THUNDER_CHECK(aliases_.path(id).empty() && !aliases_.is_alias(id), Runtime, "detach_",
                "Can't detach views in-place. Use detach() instead.");
  bool fresh = false;
  Value detached = b_("prims.detach", v).value();
  rebind(tensor, aliases_.add_result(detached, b_.calls().back(), &fresh), "detach_");
}

void Tracer::write(PyObject* tensor, const Arg& value, const char* op) {
  TensorId id = id_of(tensor);
  if (std::optional<TensorId> base = aliases_.base_input(id))
    if (auto it = aliased_.find(*base); it != aliased_.end()) share(it->second, op);
  b_.set_grad_enabled(hooks().grad_enabled());
  const TensorType target = aliases_.value(id).tensor();
  Expr v = b_.expr(value);
  THUNDER_CHECK(number_kind(v.dtype()) <= number_kind(target.dtype), Runtime, op, "result type ", torch_name(v.dtype()),
                " can't be cast to the desired output type ", torch_name(target.dtype));
  THUNDER_CHECK(same(v.shape(), target.shape), Runtime, op, "output with shape ", str(target.shape),
                " doesn't match the broadcast shape ", str(v.shape()));
  if (v.dtype() != target.dtype) v = b_("torch.to", v, target.dtype);
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
  Expr v = from.is_tensor() ? b_.expr(from)
           : constant       ? b_("torch.fill", value_of(target), from)
                            : b_("torch.full", to.shape, from, kw("dtype", to.dtype), kw("device", to.device));
  if (v.dtype() != to.dtype) v = b_("torch.to", v, to.dtype);
  if (v.tensor().device != to.device) v = b_("torch.to", v, to.device);
  if (!same(v.shape(), to.shape)) v = b_("torch.expand", v, to.shape);
  write(target, v, op);
}

Ref Tracer::located(const std::function<Ref()>& record) {
  update_location();
  // A borrowed builder's program has an environment of its own.
  ShapeEnv* current = ShapeEnv::current();
  ShapeEnv::Scope scope(!owned_ && current ? *current : shapes_);
  try {
    return record();
  } catch (const Error& e) {
    std::string where = location();
    throw Error(e.kind(), where.empty() ? e.what() : cat(e.what(), "\n  at ", where));
  }
}

Ref Tracer::run(PyObject* fn, PyObject* args, PyObject* kwargs) {
  std::optional<interpreter::Interpreting> scope;
  if (observer_) scope.emplace(observer_);
  return Ref::steal(PyObject_Call(fn, args, kwargs));
}

Ref Tracer::handle(PyObject* func, PyObject* args, PyObject* kwargs) {
  return located([&] { return dispatch(func, args, kwargs); });
}

Ref Tracer::call_symbol(const std::string& op, PyObject* args, PyObject* kwargs) {
  return located([&] { return apply(op, args, kwargs); });
}

const TorchFunction* Tracer::meaning(PyObject* callable) const {
  if (language_ && in_users_code())
    if (const TorchFunction* f = language_->find(callable)) return f;
  return find_torch_function(callable);
}

PyObject* Tracer::attribute(PyObject* object, PyObject* name) const {
  return language_ && is_tensor(object) && in_users_code() ? language_->attribute(object, name) : nullptr;
}

Ref Tracer::dispatch(PyObject* func, PyObject* args, PyObject* kwargs) {
  const TorchFunction* f = meaning(func);
  if (!f || (is_setter(func) && f->kind != TorchFunction::Handler)) {
    std::string name = qualified_name(func);
    throw Error(ErrorKind::NotImplemented,
                cat("[", name,
                    "] this torch function is not supported inside a compiled function. Call it outside, or write it "
                    "with supported operators"));
  }
  switch (f->kind) {
    case TorchFunction::PassThrough: return Ref::steal(PyObject_Call(func, args, kwargs));
    case TorchFunction::Handler: {
      Ref k = kwargs ? Ref::borrow(kwargs) : Ref::steal(PyDict_New());
      return Ref::steal(PyObject_CallFunctionObjArgs(f->handler.get(), func, args, k.get(), nullptr));
    }
    case TorchFunction::Operator: break;
  }
  try {
    return record(*f, args, kwargs);
  } catch (const Error& e) {
    // Arguments that no record takes may be those of an operator without one.
    if (e.kind() != ErrorKind::Type || !owned_) throw;
    if (Ref made = record_unrecorded(func, args, kwargs)) return made;
    throw;
  }
}

Ref Tracer::record_unrecorded(PyObject* func, PyObject* args, PyObject* kwargs) {
  if (!hooks().unrecorded) return {};
  Ref named = kwargs ? Ref::borrow(kwargs) : Ref::steal(PyDict_New());
  Ref made = Ref::steal(PyObject_CallFunctionObjArgs(hooks().unrecorded.get(), func, args, named.get(), nullptr));
  return PyTuple_Check(made.get()) ? Ref::borrow(PyTuple_GET_ITEM(made.get(), 0)) : Ref();
}

// ---- the end --------------------------------------------------------------------------------------------------------

// What the computation must give (new tensors, the new contents of written inputs) and how the user's outputs follow
// from it.
struct Tracer::Outputs {
  std::vector<Value> computed;
  std::vector<uint32_t> storages;  // of each computed value, the storage that it becomes
  std::vector<Derived> derived;
  std::vector<std::pair<TensorId, size_t>> written;  // inputs, and which computed value goes into each
  bool trivial = true;

  static constexpr uint32_t kNone = ~uint32_t{0};

  size_t compute(Value v, uint32_t storage = kNone) {
    for (size_t i = 0; i < computed.size(); ++i)
      if (computed[i] == v && (storages[i] == storage || storages[i] == kNone || storage == kNone)) {
        if (storage != kNone) storages[i] = storage;
        return i;
      }
    computed.push_back(v);
    storages.push_back(storage);
    return computed.size() - 1;
  }
};

namespace {

// A call and its body: what a pass that opens it will read.
void mark(const Call& call, std::unordered_set<Value, ValueHash>& used) {
  for_each_input(call, [&](Value v) { used.insert(v); });
  for (const Call* inner : call.body) mark(*inner, used);
}

}  // namespace

// Which inputs the computation and the epilogue read.  The numbers that stand in the type of one that is read count:
// gradient rules ask for sizes.
std::vector<bool> Tracer::used_inputs(const Trace& computation, const Outputs& plan) const {
  std::unordered_set<Value, ValueHash> used;
  for (const Call* c : computation.calls) mark(*c, used);
  for_each_value(computation.output, [&](Value v) { used.insert(v); });
  std::unordered_set<TensorId> needed;
  for (const Derived& d : plan.derived) {
    if (d.computed < 0) needed.insert(d.base);
    for (const Call* view : d.path) mark(*view, used);
  }
  for (const auto& [id, index] : plan.written) needed.insert(id);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    Value v = b_.inputs()[i];
    if (inputs_[i] == kNoTensor) continue;
    if (needed.count(inputs_[i]) != 0) used.insert(v);
    if (used.count(v) == 0) continue;
    for (const Dims* dims : {&v.tensor().shape, &v.tensor().strides})
      for (const Dim& d : *dims)
        for (SymbolId s : d.symbols())
          if (Value number = arena_->symbol_value(s)) used.insert(number);
  }
  std::vector<bool> out;
  for (Value v : b_.inputs()) out.push_back(used.count(v) != 0);
  return out;
}

// Tensors first, then numbers.
std::vector<size_t> Tracer::in_order(const std::vector<bool>& used) const {
  std::vector<size_t> out;
  for (bool number : {false, true})
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (used[i] && (inputs_[i] == kNoTensor) == number) out.push_back(i);
  return out;
}

Tracer::Outputs Tracer::plan_outputs(const std::vector<PyObject*>& outputs) {
  std::unordered_map<uint32_t, std::vector<TensorId>> of_storage;
  for (PyObject* o : outputs) {
    if (!is_tensor(o)) continue;
    TensorId id = id_of(o);
    std::vector<TensorId>& list = of_storage[aliases_.storage(id)];
    if (std::find(list.begin(), list.end(), id) == list.end()) list.push_back(id);
  }
  Outputs out;
  for (PyObject* o : outputs) {
    Derived d;
    if (!is_tensor(o)) {
      Arg number = number_arg(o);
      if (number.kind() == Arg::Kind::Int) number = value_of_size(number.dim());
      d.computed = static_cast<int64_t>(out.compute(number.value()));
    } else if (TensorId id = id_of(o), base = input_itself(id); base != kNoTensor) {
      d.base = base;
      if (base != id) d.path = aliases_.path(id);
      d.detached = !aliases_.value(id).requires_grad();
      d.alias = aliases_.is_alias(id);
    } else if (of_storage[aliases_.storage(id)].size() > 1) {
      d.computed = static_cast<int64_t>(out.compute(aliases_.base(id), aliases_.storage(id)));
      d.path = aliases_.path(id);
      d.alias = aliases_.is_alias(id);
      d.detached = !aliases_.value(id).requires_grad();
    } else {
      d.computed = static_cast<int64_t>(out.compute(aliases_.value(id), aliases_.storage(id)));
    }
    out.trivial = out.trivial && d.computed == static_cast<int64_t>(out.derived.size()) && d.path.empty() && !d.alias;
    out.derived.push_back(std::move(d));
  }
  for (TensorId id : inputs_)
    if (id != kNoTensor && aliases_.written(id)) {
      Value v = aliases_.value(id);
      if (aliases_.data_only(id)) v = b_("prims.detach", v).value();
      out.written.emplace_back(id, out.compute(v));
    }
  out.trivial = out.trivial && out.written.empty();
  give_own_memory(out);
  return out;
}

// What tensors of different memory are made of must not lie in the same: they may have been given equal values by
// copy_().  And what is written to an input must not lie in one that is written to before.
void Tracer::give_own_memory(Outputs& out) {
  MemoryOf memory_of(b_.calls());
  std::unordered_set<Value, ValueHash> taken;
  std::vector<bool> returned(out.computed.size());
  for (const Derived& d : out.derived)
    if (d.computed >= 0) returned[static_cast<size_t>(d.computed)] = true;
  for (Value v : b_.inputs()) taken.insert(v);
  for (size_t i = 0; i < out.computed.size(); ++i) {
    Value& v = out.computed[i];
    if (!v.type().is_tensor()) continue;
    Value memory = memory_of(v);
    const bool free = taken.insert(memory).second;
    if (!free && (returned[i] || is_written(memory, out))) v = b_("torch.clone", v).value();
  }
}

bool Tracer::is_written(Value memory, const Outputs& plan) const {
  return std::any_of(plan.written.begin(), plan.written.end(), [&](const auto& w) {
    auto at = std::find(inputs_.begin(), inputs_.end(), w.first);
    return b_.inputs()[static_cast<size_t>(at - inputs_.begin())] == memory;
  });
}

Trace Tracer::build_epilogue(const Outputs& outputs, const std::vector<bool>& used) {
  Builder e(arena_);
  std::unordered_map<TensorId, Value> base;
  for (size_t i : in_order(used)) {
    if (inputs_[i] != kNoTensor) base[inputs_[i]] = b_.inputs()[i];
    e.add_input(b_.inputs()[i]);
  }
  std::vector<Value> results;
  for (Value v : outputs.computed) {
    const bool number = v.type().is_number();  // it binds no symbol a second time
    results.push_back(e.input(number ? Type(NumberType{v.type().number().kind, std::nullopt}) : v.type()));
  }
  for (const auto& [id, index] : outputs.written)
    base[id] = e(aliases_.data_only(id) ? "prims.copy_data_" : "prims.copy_", base[id], results[index]).value();
  ArgList flat;
  for (const Derived& d : outputs.derived) {
    Value v = d.computed >= 0 ? results[static_cast<size_t>(d.computed)] : base[d.base];
    for (const Call* view : d.path) v = replay_view(e, view, v);
    if (d.alias && d.path.empty()) v = e("prims.same", v).value();
    if (d.detached && v.requires_grad()) v = e("prims.detach", v).value();
    flat.push_back(v);
  }
  return e.finish("epilogue", Arg::tuple(std::move(flat)));
}

namespace {

// Gives way to their bodies where calls are of which the program reads more than the results.
void open_hidden(Trace& trace) {
  ValueSet read;
  for (const Call* c : trace.calls) visit_inputs(*c, [&](Value v) { read.set(v, 1); });
  for_each_value(trace.output, [&](Value v) { read.set(v, 1); });
  trace.calls = open_where_needed(trace.calls, read);
}

}  // namespace

Acquired Tracer::finish(const std::vector<PyObject*>& outputs) {
  ShapeEnv::Scope scope(shapes_);
  shapes_.ask = nullptr;  // from here on nothing is read
  b_.set_location(nullptr);
  b_.set_grad_enabled(true);
  for (PyObject* o : outputs)
    THUNDER_CHECK(
        !is_proxy(o) || !new_leaves_.count(value_of(o).id()), NotImplemented, "requires_grad_",
        "a compiled function returns or keeps a tensor that it made a leaf, whose gradient nobody would compute");
  Outputs plan = plan_outputs(outputs);
  Acquired a;
  a.computation = b_.finish("computation", Arg::tuple(ArgList(plan.computed.begin(), plan.computed.end())));
  if (aliases_.has_hidden()) open_hidden(a.computation);
  a.trivial_epilogue = plan.trivial;

  std::vector<bool> used = used_inputs(a.computation, plan);
  a.computation.inputs.clear();
  for (size_t i : in_order(used)) {
    a.computation.inputs.push_back(b_.inputs()[i]);
    a.sources.push_back(sources_[i]);
  }
  if (!plan.trivial) a.epilogue = build_epilogue(plan, used);
  add_read_inputs(a);
  for (PyObject* t : met_outside_) a.arguments_outside.push_back(Ref::borrow(t));
  return a;
}

}  // namespace thunder::frontend
