// The user's choice of layers in float8, and a program's own layers among them.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "frontend/tracer.h"
#include "passes/float8.h"

namespace thunder {

/// What thunder.transforms.Float8 says when a program is compiled.
struct Float8Choice {
  struct Layer {
    std::string name;
    Ref weight;           ///< null: none that could be a program's input
    std::string refusal;  ///< why it is not to be in float8; empty: it is
  };
  std::vector<Layer> layers;
  bool keeps_last = false;
  /// With delayed scaling: the maxima of earlier backwards, and whether any has run.  Until then scales are dynamic.
  Ref history;
  std::shared_ptr<std::atomic<bool>> recorded;
};
/// Python's, with the GIL held; takes the module that is compiled, or None.
using Float8Chooser = std::function<Float8Choice(PyObject* module)>;

/// What became of the linear layers of a module in its last program.
struct Float8Layers {
  std::vector<std::string> layers;                          ///< in float8
  std::vector<std::pair<std::string, std::string>> others;  ///< and why they are not
};

/// The chosen layers whose weights the program takes; tells what became of all of them.  A history becomes a source,
/// behind the others, and an input of the epilogue.
/// Error (NotImplemented) for delayed scaling of a distributed module.
Float8Options find_float8(const Float8Choice& choice, frontend::Acquired& acquired, bool distributed,
                          Float8Layers& told);

}  // namespace thunder
