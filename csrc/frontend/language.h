// Languages: what callables and attributes of tensors mean to the program that is traced.
//
// PyTorch's language is a table from callables (torch.add, torch.Tensor.__add__) to what is recorded for them.  Another
// language is another such table, which comes first while the program has it switched on (`TorchCalls::set_language`), with
// attributes that torch.Tensor has not, or has with another meaning.  It holds in the user's code, not in PyTorch's own
// Python, which means PyTorch's language whoever calls it.
#pragma once

#include <string>
#include <unordered_map>

#include "python/ref.h"

namespace thunder::frontend {

/// What a callable means.
struct TorchFunction {
  enum Kind {
    Operator,     ///< records `op`
    PassThrough,  ///< reads metadata: called as it is
    Handler,      ///< a Python function of (tracer, func, args, kwargs) decides
  } kind = Operator;
  std::string op;           ///< name in the registry: "torch.add"
  bool in_place = false;    ///< the result is written into the first argument, which is returned
  bool method = false;      ///< of torch.Tensor: the first argument must be a tensor
  bool reflected = false;   ///< __radd__: the first two arguments change places
  bool creates = false;     ///< taken from interpreted code even if no tensor is among the arguments
  bool functional = false;  ///< what its record writes to arguments (OpDef::writes) is returned, and not written
  Ref handler;
  Ref result;  ///< the class of several results (torch.return_types.max), or null
};

class Language {
 public:
  /// PyTorch's.
  static Language& torch();
  /// By name; an empty one at first.
  static Language& named(const std::string& name);

  const std::string& name() const { return name_; }
  void add(PyObject* callable, TorchFunction f);
  const TorchFunction* find(PyObject* callable) const;
  /// `tensor.name` is what `function` gives for the tensor, or the function bound to it if `method`.
  void add_attribute(const std::string& name, PyObject* function, bool method);
  /// A new reference; null without an exception if the language says nothing of the name.
  PyObject* attribute(PyObject* tensor, PyObject* name) const;

 private:
  struct Attribute {
    Ref function;
    bool method = false;
  };
  std::string name_;
  std::unordered_map<PyObject*, TorchFunction> functions_;
  std::unordered_map<std::string, Attribute> attributes_;
};

/// The callables known; filled when thunder is imported, from the records' `python` fields.
inline const TorchFunction* find_torch_function(PyObject* callable) { return Language::torch().find(callable); }

/// `Tensor.shape.__get__` is a new method-wrapper at every access; what it is bound to is not.
PyObject* function_key(PyObject* callable);
/// Code of the compiler's or of PyTorch's.
bool is_internal(PyCodeObject* code);
/// Whether PyTorch's Python, or the compiler's, and not the user's, runs.
bool in_library();
/// Whether the user's code runs, or PyTorch's operators and overrides on the way from it to the tracer.
bool in_users_code();

}  // namespace thunder::frontend
