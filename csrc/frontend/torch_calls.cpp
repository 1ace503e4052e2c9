#include "frontend/torch_calls.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/shown_name.h"
#include "frontend/dtensors.h"
#include "frontend/kinds.h"
#include "frontend/large_ints.h"
#include "python/text.h"

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
    return printable(name);
  }
  return Py_TYPE(o)->tp_name;
}

bool has_unknown_size(const ShapeEnv& shapes, const ArgList& args) {
  bool any = false;
  for (const Arg& a : args) for_each_symbol(a, [&](SymbolId s) { any = any || !shapes.hint(s); });
  return any;
}

bool any_requires_grad(const ArgList& positional, const Constants::Keywords& keyword) {
  bool any = false;
  auto look = [&](Value v) { any = any || v.requires_grad(); };
  for (const Arg& a : positional) visit_values(a, look);
  for (const auto& [name, a] : keyword) visit_values(a, look);
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

}  // namespace

Arg TorchCalls::call_operator(const std::string& op, ArgList positional, Keywords keyword) {
  b_.set_grad_enabled(hooks().grad_enabled());
  // Tensors are made first, and require gradients then.
  auto leaf = std::find_if(keyword.begin(), keyword.end(), [](const auto& k) { return k.first == "requires_grad"; });
  if (leaf != keyword.end() && leaf->second.kind() == Arg::Kind::Bool && leaf->second.boolean()) {
    keyword.erase(leaf);
    Arg made = call_operator(op, std::move(positional), std::move(keyword));
    return acquisition_.new_leaf(made.value());
  }
  try {
    return b_.call_named(op, positional, keyword);
  } catch (const Error& e) {
    // If it is for a length that was taken to differ from 0 and 1, the program is acquired again and asks for it.
    if (!shapes_.asks && shapes_.assumed() && has_unknown_size(shapes_, positional)) throw;
    return constants_.call_with_numbers(op, positional, keyword, e);
  }
}

// What has a dtype= computes, where it is not given, in that of the tensor that takes the result.
void TorchCalls::take_dtype_of(PyObject* target, const std::string& op, const ArgList& positional, Keywords& keyword) {
  const std::vector<const Op*>& overloads = Registry::instance().overloads(op);
  if (overloads.size() != 1) return;
  const std::vector<Param>& params = overloads[0]->schema.params;
  for (size_t i = positional.size(); i < params.size(); ++i) {
    if (params[i].name != "dtype") continue;
    for (const auto& [name, value] : keyword)
      if (name == "dtype") return;
    keyword.emplace_back("dtype", tensors_.value_of(target).dtype());
  }
}

// The operator's keyword arguments; what it is to write to goes to `out` and `written`.
TorchCalls::Keywords TorchCalls::keywords(PyObject* args, PyObject* kwargs, PyObject*& out, PyObject*& written) {
  Keywords keyword;
  if (!kwargs) return keyword;
  PyObject *key, *value;
  for (Py_ssize_t pos = 0; PyDict_Next(kwargs, &pos, &key, &value);) {
    std::string name = printable(key);
    if (name == "out") {
      if (value != Py_None) out = value;
    } else if (name == "inplace") {
      if (value == Py_True) written = PyTuple_GET_ITEM(args, 0);
    } else if (value != Py_None || (name != "generator" && name != "pin_memory" && name != "layout")) {
      if (name == "pin_memory" && value == Py_False) continue;
      keyword.emplace_back(std::move(name), is_large_int(value) ? Arg() : tensors_.convert(value));
    }
  }
  return keyword;
}

Ref TorchCalls::record(const TorchFunction& f, PyObject* args, PyObject* kwargs) {
  Py_ssize_t n = PyTuple_GET_SIZE(args);
  ArgList positional;
  positional.reserve(n);
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* o = PyTuple_GET_ITEM(args, i);
    positional.push_back(is_large_int(o) ? Arg() : tensors_.convert(o));
  }
  THUNDER_CHECK(!f.method || (n > 0 && is_tensor(PyTuple_GET_ITEM(args, 0))), Type, f.op,
                "a method of torch.Tensor was called on ",
                n > 0 ? Py_TYPE(PyTuple_GET_ITEM(args, 0))->tp_name : "nothing");
  PyObject* out = nullptr;
  PyObject* written = f.in_place && n > 0 ? PyTuple_GET_ITEM(args, f.reflected ? 1 : 0) : nullptr;
  Keywords keyword = keywords(args, kwargs, out, written);
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
    if (written && is_tensor(written)) mutation_.check_writable(written, f.op.c_str());
    if (out && differentiable) Mutation::check_out_gradient(f.op);
    throw;
  }
  const std::vector<const Call*>& calls = b_.calls();
  const Call* call = calls.empty() ? nullptr : calls.back();
  const Op* op = f.functional ? nullptr : Registry::instance().find(f.op);
  if (op && !op->writes.empty()) result = write_arguments(*op, result, args, kwargs);
  if (out) {
    if (result.is_tensor() && is_tensor(out) && is_read(out, args, kwargs))
      mutation_.check_same_shape(out, result, f.op);
    mutation_.write_out(out, result, f.op);
    return f.result && !is_tensor(out) ? Ref::steal(PyObject_CallOneArg(f.result.get(), out)) : Ref::borrow(out);
  }
  if (written) {
    mutation_.write_result(written, result, call, f.op);
    return Ref::borrow(written);
  }
  PyObject* first = n > 0 ? PyTuple_GET_ITEM(args, 0) : nullptr;
  Ref object = to_python(result, [&](Value v) { return proxies_.wrap(v, call, Proxies::unchanged_by(f.op), first); });
  if (!f.result || !PyTuple_CheckExact(object.get())) return object;
  return Ref::steal(PyObject_CallOneArg(f.result.get(), object.get()));
}

namespace {

// The argument as the caller gave it; null if there is none.
PyObject* argument(const Op& op, const std::string& name, PyObject* args, PyObject* kwargs) {
  if (PyObject* found = kwargs ? PyDict_GetItemString(kwargs, name.c_str()) : nullptr) return found;
  const Py_ssize_t place = op.schema.index_of(name);
  return place < PyTuple_GET_SIZE(args) ? PyTuple_GET_ITEM(args, place) : nullptr;
}

}  // namespace

Arg TorchCalls::write_arguments(const Op& op, const Arg& result, PyObject* args, PyObject* kwargs) {
  const std::string name(shown_name(op.schema));
  ArgList results = result.items();
  const size_t own = results.size() - op.writes.size();
  for (size_t i = 0; i < op.writes.size(); ++i) {
    const Arg& value = results[own + i];
    PyObject* target = argument(op, op.writes[i], args, kwargs);
    if (!value.is_tensor() || !target || !is_tensor(target) || value.value() == tensors_.value_of(target)) continue;
    mutation_.write(target, b_("torch.detach", value), name.c_str());
  }
  results.resize(own);
  return own == 1 ? results.front() : Arg::tuple(std::move(results));
}

Ref TorchCalls::apply(const std::string& op, PyObject* args, PyObject* kwargs, bool in_place) {
  TorchFunction f;
  f.op = op;
  f.in_place = in_place;
  return acquisition_.located_with_answers([&] { return record(f, args, kwargs); });
}

Ref TorchCalls::handle(PyObject* func, PyObject* args, PyObject* kwargs) {
  const Ref given = draws_.arguments_of(func, args, kwargs);
  args = given.get();
  return acquisition_.located_with_answers([&] {
    if (acquisition_.owns_program()) {
      if (Ref result = record_with_dtensors(func, args, kwargs)) return result;
      check_watchers(args, kwargs);
    }
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

void TorchCalls::check_watchers(PyObject* args, PyObject* kwargs) {
  if (std::string who = hooks().watcher(); !who.empty())
    acquisition_.leave_to_eager(std::move(who) + " in the function");
  PyObject *found = find_override(args), *key, *value;
  for (Py_ssize_t pos = 0; kwargs && !found && PyDict_Next(kwargs, &pos, &key, &value);) found = find_override(value);
  if (found)
    acquisition_.leave_to_eager(
        cat("the function uses an object of class ", Py_TYPE(found)->tp_name, ", which overrides torch functions"));
}

Ref TorchCalls::call_symbol(const std::string& op, PyObject* args, PyObject* kwargs) {
  TorchFunction f;
  f.op = op;
  f.functional = true;
  return acquisition_.located_with_answers([&] { return record(f, args, kwargs); });
}

const TorchFunction* TorchCalls::meaning(PyObject* callable) const {
  if (language_ && in_users_code())
    if (const TorchFunction* f = language_->find(callable)) return f;
  return find_torch_function(callable);
}

PyObject* TorchCalls::attribute(PyObject* object, PyObject* name) const {
  return language_ && is_tensor(object) && in_users_code() ? language_->attribute(object, name) : nullptr;
}

Ref TorchCalls::dispatch(PyObject* func, PyObject* args, PyObject* kwargs) {
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
Ref TorchCalls::autocast(const TorchFunction& f, PyObject* func, PyObject* args, PyObject* kwargs) {
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

Ref TorchCalls::dispatch_settled(const TorchFunction& function, PyObject* func, PyObject* args, PyObject* kwargs) {
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
Ref TorchCalls::record_unrecorded(PyObject* func, PyObject* args, PyObject* kwargs) {
  if (!acquisition_.owns_program() || !hooks().unrecorded) return {};
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
