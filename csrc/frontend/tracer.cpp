#include "frontend/tracer.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "frontend/interpreter/interpreter.h"
#include "frontend/kinds.h"
#include "frontend/large_ints.h"

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

bool has_unknown_size(const ShapeEnv& shapes, const ArgList& args) {
  bool any = false;
  for (const Arg& a : args) for_each_symbol(a, [&](SymbolId s) { any = any || !shapes.hint(s); });
  return any;
}

bool any_requires_grad(const ArgList& positional, const std::vector<std::pair<std::string, Arg>>& keyword) {
  bool any = false;
  auto look = [&](Value v) { any = any || v.requires_grad(); };
  for (const Arg& a : positional) for_each_value(a, look);
  for (const auto& [name, a] : keyword) for_each_value(a, look);
  return any;
}

// Whether a call also reads what it was given as out=.
bool is_read(PyObject* out, PyObject* args, PyObject* kwargs) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i)
    if (PyTuple_GET_ITEM(args, i) == out) return true;
  PyObject *key, *value;
  for (Py_ssize_t pos = 0; PyDict_Next(kwargs, &pos, &key, &value);)
    if (value == out && PyUnicode_CompareWithASCIIString(key, "out") != 0) return true;
  return false;
}

constexpr TensorId kNotYet = ~TensorId{0};

}  // namespace

Tracer::Tracer(std::vector<const void*> shared, std::unordered_set<size_t> begin)
    : owned_(std::make_unique<Builder>(std::make_shared<Arena>())),
      b_(*owned_),
      arena_(b_.arena()),
      aliases_(b_),
      beginners_(std::move(begin)) {
  for (const void* memory : shared) shared_[memory] = kNotYet;
  shapes_.location = [this] { return location(); };
  shapes_.ask = [this](SymbolId s, bool firmly) { return ask_size(s, firmly); };
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

const InputSource& Tracer::source_of(TensorId input) const {
  return sources_.at(static_cast<size_t>(std::find(inputs_.begin(), inputs_.end(), input) - inputs_.begin()));
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
  TensorType as = type ? *type : hooks().type_of(tensor);
  Ref proxy = new_proxy(as);
  const bool begins = beginners_.count(index) != 0;
  as.requires_grad = as.requires_grad || begins;
  InputSource source{InputSource::Argument, index, {}};
  source.becomes_leaf = begins;
  const TensorId id = add_input(proxy.get(), tensor, std::move(source), &as);
  if (begins) aliases_.rename(id, b_("prims.detach", aliases_.value(id)).value());
  ids_[tensor] = id;  // the closure may hold the very tensor that was passed
  arguments_.insert(tensor);
  return proxy;
}

// The program sees the whole of a sharded parameter.
std::optional<TensorId> Tracer::add_sharded(PyObject* tensor) {
  const std::optional<Sharded> s = hooks().sharded(tensor);
  if (!s || s->dtensor) return std::nullopt;
  return add_input(tensor, s->local.get(), {.kind = InputSource::Captured, .tensor = s->local, .partial = true},
                   &s->full);
}

void Tracer::add_captured(PyObject* tensor) {
  if (knows(tensor) || add_sharded(tensor) || hooks().sharded(tensor)) return;
  if (const std::string kind = hooks().other_kind_of_tensor(tensor); !kind.empty())
    eager_if_it_fails = {cat("the module has a parameter or buffer ", kind), Ref::borrow(tensor)};
  else add_input(tensor, tensor, {InputSource::Captured, 0, Ref::borrow(tensor)});
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

bool Tracer::is_same(PyObject* proxy, PyObject* real) {
  if (!knows(proxy) || !is_outside(id_of(proxy))) return false;
  // A call in which the answer is another one needs another program.
  compared_.try_emplace(real, Ref::borrow(real));
  return knows(real) && id_of(proxy) == id_of(real);
}

TensorId Tracer::id_of(PyObject* tensor) {
  auto it = ids_.find(tensor);
  if (it != ids_.end()) {
    if (!is_proxy(tensor) && arguments_.count(tensor)) met_outside_.insert(tensor);
    if (!samples_.empty() && samples_.count(aliases_.value(it->second).id()) != 0)
      leave_to_eager("what a function under torch.vmap computes for a sample is used outside of it");
    return it->second;
  }
  THUNDER_CHECK(
      !is_proxy(tensor), NotImplemented, "jit",
      "a tensor that was made while another call was compiled is used here: it was kept in a global, an attribute or "
      "a container by a compiled function");
  THUNDER_CHECK(owned_, NotImplemented, "extend",
                "a rule of an executor uses a tensor that is none of its arguments; make it "
                "there (torch.full, torch.tensor), or pass it as an argument of the operator");
  if (const std::optional<TensorId> whole = add_sharded(tensor)) return *whole;
  if (const std::string kind = hooks().other_kind_of_tensor(tensor); !kind.empty())
    leave_to_eager(cat("the function uses a tensor ", kind), tensor);
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
  if (fresh) note_copy(v, call);
  if (!fresh && unchanged == Unchanged::Viewed) return alias_of(id);
  if (new_leaves_.count(v.id()) != 0) aliases_.make_leaf(id);
  auto it = objects_.find(id);
  return it != objects_.end() ? it->second : proxy_of(id);
}

Ref Tracer::alias_of(TensorId of) {
  Value v = aliases_.value(of);
  TensorId id;
  if (v.requires_grad() && !hooks().grad_enabled()) {
    bool fresh = false;
    v = aliases_.viewed_whole(of);
    id = aliases_.add_result(v, b_.calls().back(), &fresh);
  } else {
    id = aliases_.add_alias(of);
  }
  return proxy_of(id);
}

Ref Tracer::proxy_of(TensorId t) {
  Ref proxy = new_proxy(aliases_.value(t).tensor());
  ids_[proxy.get()] = t;
  objects_[t] = proxy;
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

Arg Tracer::call_operator(const std::string& op, ArgList positional, std::vector<std::pair<std::string, Arg>> keyword) {
  b_.set_grad_enabled(hooks().grad_enabled());
  // Tensors are made first, and require gradients then.
  auto leaf = std::find_if(keyword.begin(), keyword.end(), [](const auto& k) { return k.first == "requires_grad"; });
  if (leaf != keyword.end() && leaf->second.kind() == Arg::Kind::Bool && leaf->second.boolean()) {
    keyword.erase(leaf);
    Arg made = call_operator(op, std::move(positional), std::move(keyword));
    return new_leaf(made.value());
  }
  try {
    return b_.call_named(op, positional, keyword);
  } catch (const Error& e) {
    // If it is for a length that was taken to differ from 0 and 1, the program is acquired again and asks for it.
    if (!shapes_.asks && shapes_.assumed() && has_unknown_size(shapes_, positional)) throw;
    return call_with_numbers(op, positional, keyword, e);
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

// The operator's keyword arguments; what it is to write to goes to `out` and `written`.
std::vector<std::pair<std::string, Arg>> Tracer::keywords(PyObject* args, PyObject* kwargs, PyObject*& out,
                                                          PyObject*& written) {
  std::vector<std::pair<std::string, Arg>> keyword;
  if (!kwargs) return keyword;
  PyObject *key, *value;
  for (Py_ssize_t pos = 0; PyDict_Next(kwargs, &pos, &key, &value);) {
    std::string name = PyUnicode_AsUTF8(key);
    if (name == "out") {
      if (value != Py_None) out = value;
    } else if (name == "inplace") {
      if (value == Py_True) written = PyTuple_GET_ITEM(args, 0);
    } else if (value != Py_None || (name != "generator" && name != "pin_memory" && name != "layout")) {
      if (name == "pin_memory" && value == Py_False) continue;
      keyword.emplace_back(std::move(name), is_large_int(value) ? Arg() : convert(value));
    }
  }
  return keyword;
}

Ref Tracer::record(const TorchFunction& f, PyObject* args, PyObject* kwargs) {
  Py_ssize_t n = PyTuple_GET_SIZE(args);
  ArgList positional;
  positional.reserve(n);
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* o = PyTuple_GET_ITEM(args, i);
    positional.push_back(is_large_int(o) ? Arg() : convert(o));
  }
  THUNDER_CHECK(!f.method || (n > 0 && is_tensor(PyTuple_GET_ITEM(args, 0))), Type, f.op,
                "a method of torch.Tensor was called on ",
                n > 0 ? Py_TYPE(PyTuple_GET_ITEM(args, 0))->tp_name : "nothing");
  PyObject* out = nullptr;
  PyObject* written = f.in_place && n > 0 ? PyTuple_GET_ITEM(args, f.reflected ? 1 : 0) : nullptr;
  std::vector<std::pair<std::string, Arg>> keyword = keywords(args, kwargs, out, written);
  take_large_ints(f.op, args, kwargs, positional, keyword);
  if (f.reflected && n >= 2) std::swap(positional[0], positional[1]);
  if (PyObject* target = out ? out : written; target && is_tensor(target))
    take_dtype_of(target, f.op, positional, keyword);
  const bool differentiable = any_requires_grad(positional, keyword);
  Arg result;
  try {
    result = call_operator(f.op, std::move(positional), std::move(keyword));
  } catch (const Error& e) {  // eager looks at what it is to write to first, but for what its Python looks at
    if (e.kind() == ErrorKind::Type || e.kind() == ErrorKind::Value) throw;
    if (written && is_tensor(written)) check_writable(written, f.op.c_str());
    if (out && differentiable) check_out_gradient(f.op);
    throw;
  }
  const std::vector<const Call*>& calls = b_.calls();
  const Call* call = calls.empty() ? nullptr : calls.back();
  if (out) {
    if (result.is_tensor() && is_tensor(out) && is_read(out, args, kwargs)) check_same_shape(out, result, f.op);
    write_out(out, result, f.op);
    return f.result && !is_tensor(out) ? Ref::steal(PyObject_CallOneArg(f.result.get(), out)) : Ref::borrow(out);
  }
  if (written) {
    if (unchanged_by(f.op) == Unchanged::Viewed) check_writable(written, f.op.c_str());
    if (!changes_metadata(written, result, call, f.op)) write(written, result, f.op.c_str());
    return Ref::borrow(written);
  }
  PyObject* first = n > 0 ? PyTuple_GET_ITEM(args, 0) : nullptr;
  Ref object = to_python(result, [&](Value v) { return wrap(v, call, unchanged_by(f.op), first); });
  if (!f.result || !PyTuple_CheckExact(object.get())) return object;
  return Ref::steal(PyObject_CallOneArg(f.result.get(), object.get()));
}

Ref Tracer::apply(const std::string& op, PyObject* args, PyObject* kwargs, bool in_place) {
  TorchFunction f;
  f.op = op;
  f.in_place = in_place;
  return record(f, args, kwargs);
}

Ref Tracer::located(const std::function<Ref()>& record) {
  update_location();
  // A borrowed builder's program has an environment of its own.
  ShapeEnv* current = ShapeEnv::current();
  ShapeEnv::Scope scope(!owned_ && current ? *current : shapes_);
  EqualSources::Scope equal(owned_ ? &equal_values_ : EqualSources::current());
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
  return located([&] {
    if (Ref result = record_with_dtensors(func, args, kwargs)) return result;
    if (owned_) check_watchers(args, kwargs);
    return dispatch(func, args, kwargs);
  });
}

namespace {

// An object that is no tensor, and whose class says what torch functions do with it.
PyObject* find_override(PyObject* o) {
  if (overrides_torch_functions(o)) return o;
  if (PyTuple_Check(o) || PyList_Check(o)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i)
      if (PyObject* found = find_override(PySequence_Fast_GET_ITEM(o, i))) return found;
  }
  return nullptr;
}

}  // namespace

void Tracer::check_watchers(PyObject* args, PyObject* kwargs) {
  if (std::string who = hooks().watcher(); !who.empty()) leave_to_eager(std::move(who) + " in the function");
  PyObject *found = find_override(args), *key, *value;
  for (Py_ssize_t pos = 0; kwargs && !found && PyDict_Next(kwargs, &pos, &key, &value);) found = find_override(value);
  if (found)
    leave_to_eager(
        cat("the function uses an object of class ", Py_TYPE(found)->tp_name, ", which overrides torch functions"));
}

void Tracer::leave_to_eager(std::string why, PyObject* tensor, bool warns) {
  const std::string where = location();
  eager = {where.empty() ? why : cat(why, ", at ", where), Ref::borrow(tensor), warns};
  throw Error(ErrorKind::NotImplemented, cat("[jit] ", why));
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
  if (f->kind != TorchFunction::PassThrough && !settled_ && hooks().any_autocast())
    return autocast(*f, func, args, kwargs);
  return dispatch_settled(*f, func, args, kwargs);
}

// Within the call autocast has no more to say, as below PyTorch's own dispatch key.
Ref Tracer::autocast(const TorchFunction& f, PyObject* func, PyObject* args, PyObject* kwargs) {
  Ref named = kwargs ? Ref::borrow(kwargs) : Ref::steal(PyDict_New());
  Ref plan = Ref::steal(PyObject_CallFunctionObjArgs(hooks().autocast.get(), func, args, named.get(), nullptr));
  if (PyTuple_Check(plan.get()) && PyTuple_GET_SIZE(plan.get()) == 1)
    return Ref::borrow(PyTuple_GET_ITEM(plan.get(), 0));
  settled_ = true;
  struct Restore {
    bool& flag;
    ~Restore() { flag = false; }
  } restore{settled_};
  if (plan.get() == Py_None) return dispatch_settled(f, func, args, kwargs);
  return dispatch_settled(f, func, PyTuple_GET_ITEM(plan.get(), 0), PyTuple_GET_ITEM(plan.get(), 1));
}

Ref Tracer::dispatch_settled(const TorchFunction& function, PyObject* func, PyObject* args, PyObject* kwargs) {
  const TorchFunction* f = &function;
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
  } catch (const PythonError&) {
    throw;
  } catch (const Error& e) {
    // Arguments may be those of another operator, or eager's exception another one; but not where the program is
    // acquired again because of a length.
    const bool final = e.kind() == ErrorKind::Type || shapes_.asks || !shapes_.assumed();
    if (Ref made = final ? record_unrecorded(func, args, kwargs) : Ref()) return made;
    throw;
  } catch (const std::exception&) {  // arguments of a kind that the record did not expect
    if (Ref made = record_unrecorded(func, args, kwargs)) return made;
    throw;
  }
}

// Called while the exception is handled.
Ref Tracer::record_unrecorded(PyObject* func, PyObject* args, PyObject* kwargs) {
  if (!owned_ || !hooks().unrecorded) return {};
  hooks().set_python_error();
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Ref kind = Ref::steal(type), exception = Ref::steal(value);
  Py_XDECREF(traceback);
  Ref named = kwargs ? Ref::borrow(kwargs) : Ref::steal(PyDict_New());
  Ref made = Ref::steal(
      PyObject_CallFunctionObjArgs(hooks().unrecorded.get(), func, args, named.get(), exception.get(), nullptr));
  return PyTuple_Check(made.get()) ? Ref::borrow(PyTuple_GET_ITEM(made.get(), 0)) : Ref();
}

}  // namespace thunder::frontend
