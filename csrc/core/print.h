// Prints a trace as the Python program it is.
//
//   # Constructed by Delete Last Used (took 3 milliseconds)
//   import torch
//   from thunder.executors.torchex import no_autocast
//
//   @torch.no_grad()
//   @no_autocast
//   def computation(a, b):
//     # a: "cpu f32[2, 3]"
//     # b: "cpu f32[2, 3]"
//     t2 = torch.add(a, b)  # t2: "cpu f32[2, 3]"
//     del a, b
//     return t2
//
// The text is valid Python; run with the context that `python_context` names it computes what the trace computes.
// Symbolic sizes go by the int value that binds them: `# i2: "int u0"` and then `# t1: "cpu i64[i2, 2]"`, `[2*i2]`.
// `# op: torch.max.dim` behind a call names the operator where the printed form alone would be read as another one.
#pragma once

#include <map>
#include <string>

#include "core/trace.h"

namespace thunder {

struct PrintOptions {
  bool header = true;       ///< the "Constructed by" line, imports and decorators
  bool annotations = true;  ///< `# t0: "cpu f32[2]"`
  bool bodies = true;       ///< a call's body as comments below it
  bool strides = true;      ///< full types, which the parser needs: strides where not contiguous, requires_grad
};

std::string print(const Trace& trace, const PrintOptions& options = {});
/// A literal as Python source: `1e-05`, `float('inf')`, `torch.float32`, `slice(None, 2, None)`.
std::string print(const Arg& arg);
std::string print(const Call& call);
/// Every opaque object that the trace mentions, by its printed name.
std::map<std::string, std::shared_ptr<void>> python_context(const Trace& trace);

}  // namespace thunder
