// A code object made ready for interpretation, kept with it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frontend/interpreter/machine.h"

namespace thunder::frontend::interpreter {

struct Region {
  int handler;      ///< in code units
  int depth;        ///< of the stack that the handler finds
  bool keep_place;  ///< push where the exception happened, for a later RERAISE
};

struct DecodedCode {
  std::vector<Bytecode> instructions;  ///< by code unit
  bool imports = false;                ///< importlib's: imports a module
  bool internal = false;               ///< of the compiler itself: CPython runs it and what it calls
  bool alone = false;                  ///< made by run_alone(): CPython runs it, but not what it calls

  /// The handler that covers the instruction at `place`.
  static std::optional<Region> handler(PyCodeObject* code, int place);
};

/// Of the code object, decoded on first use.  Null, and an exception set, if that fails.
const DecodedCode* decoded(PyCodeObject* code);
/// co_filename of what run_alone() makes.
inline constexpr const char* kAloneFile = "<one instruction>";

}  // namespace thunder::frontend::interpreter
