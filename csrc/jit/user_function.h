// The user's function or module, and how it is compiled.
//
// A UserFunction owns the Python object, the options and the transforms that thunder.jit was given.  The parts of a
// JitFunction read them.  A compilation adds what it finds out for good (`distributed`).
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "frontend/reads.h"
#include "jit/float8.h"
#include "passes/pipeline.h"
#include "runtime/graphs.h"

namespace thunder {

enum class CacheMode { ConstantValues, VaryingValues, SymbolicValues, SameInput, NoCaching };

struct UserFunction {
  /// `graphs`: how programs run as graphs; null: they never do.
  UserFunction(PyObject* fn, PyObject* module, CacheMode cache, CompileOptions options,
               std::shared_ptr<GraphSettings> graphs);

  bool is_module() const { return module.get() != Py_None; }
  /// Of the function, or of the module's class.
  std::string name() const;
  /// A transform of the user's by which a program computes something else than the function; empty if there is none.
  std::string transform() const {
    return !options.transforms.empty() ? options.transforms[0].first : float8 ? "Float8" : "";
  }
  /// Whether it is a distributed module.  Eager has not the parameters of one.  A pending exception stays.
  bool is_of_distributed() const;
  /// Error (NotImplemented) where eager would leave the communication out.
  void check_not_distributed(const std::string& why) const;

  Ref fn, module;  ///< None: it is no module
  CacheMode cache;
  frontend::SharpEdges edges = frontend::SharpEdges::Allow;
  CompileOptions options;
  std::shared_ptr<GraphSettings> graphs;
  Float8Chooser float8;  ///< null: no layer is in float8
  /// Gradients that backwards added to the leaves' .grad where they computed them.
  std::shared_ptr<std::atomic<size_t>> accumulated = std::make_shared<std::atomic<size_t>>(0);
  /// Whether buffers that masks of attention are made of change from call to call.
  std::shared_ptr<std::atomic<bool>> masks_change = std::make_shared<std::atomic<bool>>(false);
  bool distributed = false;    ///< some program of it takes distributed parameters
  bool compiles_only = false;  ///< compilations stop before programs are built
};

}  // namespace thunder
