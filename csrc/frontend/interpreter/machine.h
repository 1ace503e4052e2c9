// One frame under interpretation: CPython's own frame struct, its stack and where it is in the code.
//
// The only header that knows CPython's internals.  Frames are CPython's, so that everything that looks at them
// (tracebacks, super(), locals(), generators, sys._getframe) finds what it expects.
#pragma once

#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1
#endif
#include <Python.h>
#include <internal/pycore_frame.h>
#undef HAVE_STD_ATOMIC  // C11's, which C++20 does not have; the compiler's own has the same layout
#include <internal/pycore_interp.h>
#undef Py_BUILD_CORE
#include <frameobject.h>

extern "C" PyAPI_FUNC(PyObject*) _PyObject_LookupSpecial(PyObject*, PyObject*);  // exported, in no public header

#include <cstdint>

namespace thunder::frontend::interpreter {

class Observer;
struct Machine;

/// What an instruction leaves the loop to do.
enum class Flow : uint8_t {
  Next,
  Error,    ///< an exception is set: the frame becomes a part of its traceback
  Reraise,  ///< an exception is set whose traceback has this frame already
  Leave,    ///< the frame returns or yields: CPython's own loop executes this one instruction
};

using Handler = Flow (*)(Machine&, int argument);

struct Bytecode {
  Handler run;
  int32_t argument;  ///< with the EXTENDED_ARGs before it
  uint8_t opcode;
  uint8_t size;  ///< code units, inline caches included
};

struct Machine {
  PyThreadState* thread;
  _PyInterpreterFrame* frame;
  const Bytecode* code;
  PyObject** sp;  ///< the first free place of the stack
  PyObject** locals;
  int here = 0, next = 0;        ///< code units: of the instruction that runs, of the one that follows
  PyObject* keywords = nullptr;  ///< borrowed: names of the next call's keyword arguments
  Observer* observer = nullptr;  ///< who wants to know what is read; null: nobody

  void push(PyObject* o) { *sp++ = o; }
  PyObject* pop() { return *--sp; }
  /// The i-th from the top, counted from 1.
  PyObject*& peek(int i) { return sp[-i]; }
  void drop(int n = 1) {
    for (; n > 0; --n) Py_XDECREF(*--sp);
  }
  void jump(int units) { next += units; }

  PyObject* name(int i) const { return PyTuple_GET_ITEM(frame->f_code->co_names, i); }
  PyObject* constant(int i) const { return PyTuple_GET_ITEM(frame->f_code->co_consts, i); }
  PyObject* globals() const { return frame->f_globals; }
  PyObject* builtins() const { return frame->f_builtins; }

  /// Pushes a new reference; null: an exception is set.
  Flow result(PyObject* o) {
    if (!o) return Flow::Error;
    push(o);
    return Flow::Next;
  }
  /// The same after `n` operands, which it takes off.
  Flow result(int n, PyObject* o) {
    drop(n);
    return result(o);
  }
  Flow made(PyObject* o);  ///< a new container
  Flow status(int n, int error) {
    drop(n);
    return error < 0 ? Flow::Error : Flow::Next;
  }
  Flow truth(int n, int value) {
    drop(n);
    if (value < 0) return Flow::Error;
    push(Py_NewRef(value ? Py_True : Py_False));
    return Flow::Next;
  }
};

inline PyFunctionObject* function_of(_PyInterpreterFrame* f) {
#if PY_VERSION_HEX >= 0x030C0000
  return reinterpret_cast<PyFunctionObject*>(f->f_funcobj);
#else
  return f->f_func;
#endif
}

/// Whether signals, other threads, the collector or what asked to be called wait for their turn.
inline bool others_wait(PyThreadState* thread) {
  return _Py_atomic_load_relaxed(&thread->interp->ceval.eval_breaker) != 0;
}

/// Executes one instruction of CPython's on these operands (borrowed) by a code object made for it: for the rare ones
/// whose work no public function does.  `names`: its co_names, or null.  Gives a new reference to the result, a tuple
/// if it leaves several.
PyObject* run_alone(int opcode, int argument, PyObject* const* operands, int n_operands, int n_results,
                    PyObject* names = nullptr);

/// The handlers of this Python version by opcode; null: the instruction is not known.
const Handler* handlers();

}  // namespace thunder::frontend::interpreter
