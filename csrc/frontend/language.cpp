#include "frontend/language.h"

#include <cstring>

#include "frontend/hooks.h"
#include "python/text.h"

namespace thunder::frontend {

Language& Language::torch() {
  static Language& torch = named("torch");
  return torch;
}

Language& Language::named(const std::string& name) {
  static auto* all = new std::unordered_map<std::string, Language>();
  Language& found = (*all)[name];
  found.name_ = name;
  return found;
}

void Language::add(PyObject* callable, TorchFunction f) {
  Py_INCREF(callable);
  functions_[function_key(callable)] = std::move(f);
}

const TorchFunction* Language::find(PyObject* callable) const {
  auto it = functions_.find(function_key(callable));
  return it == functions_.end() ? nullptr : &it->second;
}

void Language::add_attribute(const std::string& name, PyObject* function, bool method) {
  attributes_[name] = {Ref::borrow(function), method};
}

PyObject* Language::attribute(PyObject* tensor, PyObject* name) const {
  auto it = attributes_.find(printable(name));
  if (it == attributes_.end()) return nullptr;
  PyObject* function = it->second.function.get();
  return it->second.method ? PyMethod_New(function, tensor) : PyObject_CallOneArg(function, tensor);
}

PyObject* function_key(PyObject* callable) {
  if (std::strcmp(Py_TYPE(callable)->tp_name, "method-wrapper") != 0) return callable;
  PyObject* self = PyObject_GetAttrString(callable, "__self__");
  Py_XDECREF(self);  // the descriptor lives as long as torch.Tensor
  return self ? self : callable;
}

bool is_internal(PyCodeObject* code) {
  static auto* known = new std::unordered_map<PyCodeObject*, bool>();
  auto [it, fresh] = known->try_emplace(code, false);
  if (fresh) {
    Py_INCREF(code);  // so that the address stays this code's
    const std::string file = printable(code->co_filename);
    for (const std::string& prefix : hooks().internal_paths)
      if (file.starts_with(prefix)) it->second = true;
  }
  return it->second;
}

bool in_library() {
  PyFrameObject* frame = PyEval_GetFrame();
  if (!frame) return false;
  PyCodeObject* code = PyFrame_GetCode(frame);
  const bool internal = is_internal(code);
  Py_DECREF(code);
  return internal;
}

bool in_users_code() {
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  for (bool users = true; frame;) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const std::string file = printable(code->co_filename);
    const bool on_the_way = PyUnicode_CompareWithASCIIString(code->co_name, "__torch_function__") == 0 ||
                            file.ends_with("/torch/overrides.py") || file.ends_with("/torch/_tensor.py");
    users = !is_internal(code);
    Py_DECREF(code);
    PyFrameObject* back = on_the_way ? PyFrame_GetBack(frame) : nullptr;
    Py_DECREF(frame);
    if (!on_the_way) return users;
    frame = back;
  }
  return true;
}

}  // namespace thunder::frontend
