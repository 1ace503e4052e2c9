// The interpreter of Python bytecode.
//
//   Interpreting scope(&observer);
//   result = PyObject_Call(function, ...);      // every Python frame that begins in here, in this thread, is interpreted
//
// It is a frame evaluator (PEP 523): CPython makes frames, binds arguments, keeps generators, and hands each frame that
// begins or resumes to us, whoever called it: the user's code or a C function (sorted, map, a property, __init__).
// The loop executes all instructions but the one that leaves a frame, which CPython's own loop does, so that frames end
// as it wants.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "python/ref.h"

namespace thunder::frontend::interpreter {

class Observer;

/// Frames of this thread are interpreted while it lives.
class Interpreting {
 public:
  explicit Interpreting(Observer* observer);
  ~Interpreting();
  Interpreting(const Interpreting&) = delete;
  Interpreting& operator=(const Interpreting&) = delete;

 private:
  Observer* outer_;
  bool outer_active_;
};

/// Frames of this thread are run by CPython while it lives: the compiler's own Python code.
class NotInterpreting {
 public:
  NotInterpreting();
  ~NotInterpreting();
  NotInterpreting(const NotInterpreting&) = delete;
  NotInterpreting& operator=(const NotInterpreting&) = delete;

 private:
  bool outer_active_;
};

/// Within a NotInterpreting: frames are interpreted again for who observed them, if anybody did.
class InterpretingAgain {
 public:
  InterpretingAgain();
  ~InterpretingAgain();
  InterpretingAgain(const InterpretingAgain&) = delete;
  InterpretingAgain& operator=(const InterpretingAgain&) = delete;

 private:
  bool outer_active_;
};

/// An instruction of a code object.
struct Place {
  Ref code;
  int unit = -1;
  /// "file:line in function: source text"; empty if it is no place.
  std::string str() const;
};
/// Where the innermost frame of this thread is.
Place current_place();

/// How often each opcode was interpreted, by opcode, since the process began.
const std::vector<uint64_t>& counts();
/// "file:function" of frames that CPython ran although frames were being interpreted, each once.
std::vector<std::string> natively_run();
const char* opcode_name(int opcode);
/// Beginnings of "file:function": CPython runs those, and what they call, but for `interpreted`.
void set_internal_paths(std::vector<std::string> paths, std::vector<std::string> interpreted);

}  // namespace thunder::frontend::interpreter
