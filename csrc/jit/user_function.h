// The user's function or module, and how it is compiled.
//
// A UserFunction owns the Python object and the options that thunder.jit was given.  The parts of a JitFunction read
// them.  A compilation adds what it finds out for good (`distributed`).
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "frontend/sharp_calls.h"
#include "jit/float8.h"
#include "passes/pipeline.h"
#include "runtime/graphs.h"

namespace thunder {

enum class CacheMode { ConstantValues, VaryingValues, SymbolicValues, SameInput, NoCaching };

/// The options of `thunder.jit`, which thunder/_options.py documents.
struct JitOptions {
  CacheMode cache = CacheMode::VaryingValues;
  frontend::SharpEdges sharp_edges = frontend::SharpEdges::Allow;
  CompileOptions compile;                 ///< executors, numerics, rng, and transforms of traces
  std::shared_ptr<GraphSettings> graphs;  ///< null: no program runs as a graph
  Float8Chooser float8;                   ///< null: no layer is in float8
};

struct UserFunction {
  UserFunction(PyObject* fn, PyObject* module, JitOptions options);

  bool is_module() const { return module.get() != Py_None; }
  /// Of the function, or of the module's class.
  std::string name() const;
  /// A transform of the user's by which a program computes something else than the function; empty if there is none.
  std::string transform() const {
    const auto& transforms = options.compile.transforms;
    return !transforms.empty() ? transforms[0].first : options.float8 ? "Float8" : "";
  }
  /// Whether it is a distributed module.  Eager has not the parameters of one.  A pending exception stays.
  bool is_of_distributed() const;
  /// Error (NotImplemented) where eager would leave the communication out.
  void check_not_distributed(const std::string& why) const;

  Ref fn, module;  ///< None: it is no module
  JitOptions options;
  /// Gradients that backwards added to the leaves' .grad where they computed them.
  std::shared_ptr<std::atomic<size_t>> accumulated = std::make_shared<std::atomic<size_t>>(0);
  /// Whether buffers that masks of attention are made of change from call to call.
  std::shared_ptr<std::atomic<bool>> masks_change = std::make_shared<std::atomic<bool>>(false);
  bool distributed = false;    ///< some program of it takes distributed parameters
  bool compiles_only = false;  ///< compilations stop before programs are built
};

}  // namespace thunder
