// The recorder of torch calls: what a torch function mode, the interpreter and the handlers in Python hand over becomes
// calls of the program.  In-place operators become functional ones, whose results the mutation writes.
//
// Owns the language of the user's code.  Calls the tensors, the proxies, the constants and the mutation.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "frontend/acquisition.h"
#include "frontend/constants.h"
#include "frontend/hooks.h"
#include "frontend/language.h"
#include "frontend/mutation.h"
#include "frontend/proxies.h"
#include "frontend/python_draws.h"
#include "frontend/tensors.h"

namespace thunder::frontend {

class TorchCalls {
 public:
  TorchCalls(Acquisition& acquisition, Proxies& proxies, Tensors& tensors, Constants& constants, Mutation& mutation,
             PythonDraws& draws)
      : acquisition_(acquisition),
        b_(acquisition.builder()),
        shapes_(acquisition.shapes()),
        proxies_(proxies),
        tensors_(tensors),
        constants_(constants),
        mutation_(mutation),
        draws_(draws) {}

  /// A torch call of the running program.  Throws Error, or PythonError.
  Ref handle(PyObject* func, PyObject* args, PyObject* kwargs);
  /// Records a call of a registered operator with Python arguments; what handlers use.
  Ref apply(const std::string& op, PyObject* args, PyObject* kwargs, bool in_place = false);
  /// Records a call that the program makes by an operator's own name (thunder.torch.gelu) and not through PyTorch.
  Ref call_symbol(const std::string& op, PyObject* args, PyObject* kwargs);

  /// Interpreted calls of torch functions come here without a detour through Python, as long as no further torch
  /// function mode is active.
  void take_calls() { modes_ = hooks().function_modes(); }
  bool takes_calls() const { return modes_ >= 0 && hooks().function_modes() == modes_; }

  /// The language of the user's code from here on; null: PyTorch's alone.
  void set_language(const Language* language) {
    language_ = language;
    speaks_ = speaks_ || language;
  }
  const Language* language() const { return language_; }
  /// Whether a part of the program was in a language, in which Python alone does not run it.
  bool speaks() const { return speaks_; }
  /// What a callable means here; null if nothing.
  const TorchFunction* meaning(PyObject* callable) const;
  /// `object.name` in the language: a new reference, null with an exception, or null without if it is the object's own.
  PyObject* attribute(PyObject* object, PyObject* name) const;

 private:
  using Keywords = Constants::Keywords;
  Ref dispatch(PyObject* func, PyObject* args, PyObject* kwargs);
  Ref autocast(const TorchFunction& f, PyObject* func, PyObject* args, PyObject* kwargs);
  Ref dispatch_settled(const TorchFunction& f, PyObject* func, PyObject* args, PyObject* kwargs);
  Ref record(const TorchFunction& f, PyObject* args, PyObject* kwargs);
  /// Writes a record's last results into the arguments that PyTorch's function writes to; returns the other results.
  Arg write_arguments(const Op& op, const Arg& result, PyObject* args, PyObject* kwargs);
  Ref record_unrecorded(PyObject* func, PyObject* args, PyObject* kwargs);
  void check_watchers(PyObject* args, PyObject* kwargs);
  Arg call_operator(const std::string& op, ArgList positional, Keywords keyword);
  void take_dtype_of(PyObject* target, const std::string& op, const ArgList& positional, Keywords& keyword);
  Keywords keywords(PyObject* args, PyObject* kwargs, PyObject*& out, PyObject*& written);

  Acquisition& acquisition_;
  Builder& b_;
  ShapeEnv& shapes_;
  Proxies& proxies_;
  Tensors& tensors_;
  Constants& constants_;
  Mutation& mutation_;
  PythonDraws& draws_;
  const Language* language_ = nullptr;
  bool speaks_ = false;
  bool settled_ = false;  // what autocast does to the call that is being recorded has been done
  int64_t modes_ = -1;
};

}  // namespace thunder::frontend
