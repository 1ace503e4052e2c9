#include "frontend/interpreter/machine.h"

#include "frontend/interpreter/interpreter.h"

#include <set>

#include "frontend/interpreter/code.h"
#include "frontend/interpreter/handlers.h"
#include "python/mark.h"
#include "python/stack.h"
#include "python/text.h"

namespace thunder::frontend::interpreter {
namespace {

thread_local bool active = false;
thread_local Observer* current_observer = nullptr;

// How many threads interpret: our evaluator is in its place while there are any.
int installed = 0;
_PyFrameEvalFunction before = nullptr;

std::vector<uint64_t>& counters() {
  static auto* c = new std::vector<uint64_t>(256);
  return *c;
}

std::set<std::string>& native_frames() {
  static auto* s = new std::set<std::string>();
  return *s;
}

PyObject* run_natively(PyThreadState* thread, _PyInterpreterFrame* frame, int throwing) {
  return before ? before(thread, frame, throwing) : _PyEval_EvalFrameDefault(thread, frame, throwing);
}

// CPython's list of running frames has this one at its end while the scope lives.
class Linked {
 public:
  Linked(PyThreadState* thread, _PyInterpreterFrame* frame) : thread_(thread), frame_(frame) {
    chain_ = *thread->cframe;
    chain_.previous = thread->cframe;
    frame->previous = thread->cframe->current_frame;
    chain_.current_frame = frame;
    thread->cframe = &chain_;
#if PY_VERSION_HEX >= 0x030C0000
    --thread->py_recursion_remaining;
#else
    frame->is_entry = true;
    --thread->recursion_remaining;
#endif
  }
  ~Linked() {
#if PY_VERSION_HEX >= 0x030C0000
    ++thread_->py_recursion_remaining;
#else
    ++thread_->recursion_remaining;
#endif
    thread_->cframe = chain_.previous;
    frame_->previous = nullptr;
  }

 private:
  PyThreadState* thread_;
  _PyInterpreterFrame* frame_;
  _PyCFrame chain_;
};

bool too_deep(PyThreadState* thread) {
#if PY_VERSION_HEX >= 0x030C0000
  bool deep = thread->py_recursion_remaining <= 0;
#else
  bool deep = thread->recursion_remaining <= 0;
#endif
  if ((!deep || thread->recursion_headroom) && !stack_ends()) return false;
  ++thread->recursion_headroom;
  PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded");
  --thread->recursion_headroom;
  return true;
}

// Moves to the handler of the exception that is set; false: this frame has none.
bool handle(Machine& m, bool add_to_traceback) {
  std::optional<Region> region = DecodedCode::handler(m.frame->f_code, m.here);
  if (!region) return false;
  if (add_to_traceback)
    if (PyFrameObject* f = PyEval_GetFrame()) PyTraceBack_Here(f);
  PyObject** base = _PyFrame_Stackbase(m.frame) + region->depth;
  while (m.sp > base) m.drop();
  if (region->keep_place) m.push(PyLong_FromLong(_PyInterpreterFrame_LASTI(m.frame)));
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyException_SetTraceback(value, traceback ? traceback : Py_None);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  m.push(value);
  m.next = region->handler;
  m.keywords = nullptr;
  return true;
}

Flow unknown(const Bytecode& in) {
  PyErr_Format(PyExc_SystemError, "[interpreter] unknown opcode %d (%s)", in.opcode, opcode_name(in.opcode));
  mark_error(Mark::Compiler);
  return Flow::Error;
}

Flow step(Machine& m, const Bytecode& in) {
  if (!in.run) return unknown(in);
  try {
    return in.run(m, in.argument);
  } catch (const PythonError&) {
    return Flow::Error;
  }
}

// Until the frame is left: Leave at the instruction that does it, Error or Reraise for an exception without a handler.
Flow loop(Machine& m) {
  std::vector<uint64_t>& count = counters();
  _Py_CODEUNIT* first = _PyCode_CODE(m.frame->f_code);
  for (;;) {
    const Bytecode& in = m.code[m.next];
    m.here = m.next;
    m.next += in.size;
    m.frame->prev_instr = first + m.here;
    ++count[in.opcode];
    Flow flow = step(m, in);
    if (flow == Flow::Next) continue;
    if (flow == Flow::Leave) return flow;
    if (!handle(m, flow == Flow::Error)) return flow;
  }
}

// CPython ends the frame: it executes the instruction that leaves, or finds no handler.
PyObject* finish(Machine& m, Flow flow) {
  _Py_CODEUNIT* first = _PyCode_CODE(m.frame->f_code);
  m.frame->stacktop = static_cast<int>(m.sp - m.frame->localsplus);
  if (flow == Flow::Leave) {
    m.frame->prev_instr = first + m.here - 1;
    return _PyEval_EvalFrameDefault(m.thread, m.frame, 0);
  }
  // A RERAISE has set the place at which the exception first happened, where the frame is to be seen at its end.
  _Py_CODEUNIT* place = std::exchange(m.frame->prev_instr, first + m.here);
  PyFrameObject* seen = place != first + m.here ? m.frame->frame_obj : nullptr;
  Ref kept = Ref::borrow(reinterpret_cast<PyObject*>(seen));
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyErr_Restore(Py_XNewRef(type), Py_XNewRef(value), Py_XNewRef(traceback));
  PyObject* result = _PyEval_EvalFrameDefault(m.thread, m.frame, 1);
  if (seen) seen->f_frame->prev_instr = place;
  if (flow == Flow::Reraise && !result) {
    // It has added the frame to a traceback that had it.
    PyObject *same, *v, *longer;
    PyErr_Fetch(&same, &v, &longer);
    if (v == value) {
      Py_XDECREF(longer);
      longer = Py_XNewRef(traceback);
      PyException_SetTraceback(value, traceback ? traceback : Py_None);
    }
    PyErr_Restore(same, v, longer);
  }
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return result;
}

bool tell_entered(Machine& m) {
  PyCodeObject* code = m.frame->f_code;
  bool begins = m.next == 0;
  if (begins && code->co_flags & CO_VARKEYWORDS) {
    int i = code->co_argcount + code->co_kwonlyargcount + (code->co_flags & CO_VARARGS ? 1 : 0);
    if (m.locals[i]) m.observer->made(m.locals[i]);  // CPython made **kwargs
  }
  PyObject* first = begins && code->co_argcount ? m.locals[0] : nullptr;
  return m.observer->enter(reinterpret_cast<PyObject*>(function_of(m.frame)), code, m.frame->f_locals, first);
}

PyObject* interpret(PyThreadState* thread, _PyInterpreterFrame* frame, int throwing, const DecodedCode& code) {
  Machine m{thread, frame, code.instructions.data(), frame->localsplus + frame->stacktop, frame->localsplus};
  frame->stacktop = -1;
  m.here = _PyInterpreterFrame_LASTI(frame);
  m.next = m.here < 0 ? 0 : m.here + 1;
  m.observer = current_observer;
  const bool asks = m.observer && m.observer->enters();
  Flow flow = Flow::Error;
  {
    Linked linked(thread, frame);
    bool entered = !throwing && !too_deep(thread);
    try {
      if (entered && m.observer) entered = tell_entered(m);
    } catch (const PythonError&) {
      entered = false;
    }
    if (entered || handle(m, true)) flow = loop(m);
  }
  PyObject* result = finish(m, flow);
  return asks ? m.observer->leaves(result) : result;
}

PyObject* evaluate(PyThreadState* thread, _PyInterpreterFrame* frame, int throwing) {
  if (!active) return run_natively(thread, frame, throwing);
  // A callback or finalizer runs when the collector does, not where we are.
  if (current_observer && thread->interp->gc.collecting) {
    NotInterpreting scope;
    return run_natively(thread, frame, throwing);
  }
  PyCodeObject* code = frame->f_code;
  const DecodedCode* ready = nullptr;
  try {
    ready = decoded(code);
  } catch (const PythonError&) {
  }
  if (!ready) PyErr_Clear();
  if (ready && ready->alone) return _PyEval_EvalFrameDefault(thread, frame, throwing);
  // As with an import statement: a module that is imported for the first time is not a part of the program.
  if (ready && ready->imports && current_observer) {
    NotInterpreting scope;
    return run_natively(thread, frame, throwing);
  }
  if (ready && !ready->internal) return interpret(thread, frame, throwing, *ready);
  native_frames().insert(printable(code->co_filename) + ":" + printable(code->co_qualname));
  if (!ready || !ready->internal) return run_natively(thread, frame, throwing);
  NotInterpreting scope;
  return run_natively(thread, frame, throwing);
}

}  // namespace

bool let_others_run() {
  // CPython's own loop looks after them when a function begins: one that does nothing.
  NotInterpreting scope;
  static PyObject* idle = nullptr;
  if (!idle) {
    // Other threads may run in here: C++'s guard of a static variable would wait for us while they hold Python's lock.
    Ref globals = Ref::steal(PyDict_New());
    Ref code = Ref::steal(Py_CompileString("lambda: None", kAloneFile, Py_eval_input));
    Ref made = Ref::steal(PyEval_EvalCode(code.get(), globals.get(), globals.get()));
    if (!idle) idle = made.release();
  }
  PyObject* done = PyObject_CallNoArgs(idle);
  Py_XDECREF(done);
  return done != nullptr;
}

Interpreting::Interpreting(Observer* observer) : outer_(current_observer), outer_active_(active) {
  PyInterpreterState* interpreter = PyInterpreterState_Get();
  if (installed++ == 0) {
    before = _PyInterpreterState_GetEvalFrameFunc(interpreter);
    if (before == _PyEval_EvalFrameDefault) before = nullptr;
    _PyInterpreterState_SetEvalFrameFunc(interpreter, evaluate);
  }
  current_observer = observer;
  active = true;
}

Interpreting::~Interpreting() {
  active = outer_active_;
  current_observer = outer_;
  if (--installed) return;
  _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), before ? before : _PyEval_EvalFrameDefault);
}

NotInterpreting::NotInterpreting() : outer_active_(active) { active = false; }
NotInterpreting::~NotInterpreting() { active = outer_active_; }

InterpretingAgain::InterpretingAgain() : outer_active_(active) { active = active || current_observer; }
InterpretingAgain::~InterpretingAgain() { active = outer_active_; }

Place current_place() {
  _PyInterpreterFrame* frame = PyThreadState_Get()->cframe->current_frame;
  if (!frame) return {};
  return {Ref::borrow(reinterpret_cast<PyObject*>(frame->f_code)), _PyInterpreterFrame_LASTI(frame)};
}

std::string Place::str() const {
  if (!code) return {};
  NotInterpreting scope;
  auto* c = reinterpret_cast<PyCodeObject*>(code.get());
  int line = PyCode_Addr2Line(c, unit * static_cast<int>(sizeof(_Py_CODEUNIT)));
  std::string out = printable(c->co_filename) + ":" + std::to_string(line) + " in " + printable(c->co_name);
  PyObject* linecache = PyImport_ImportModule("linecache");
  PyObject* text = linecache ? PyObject_CallMethod(linecache, "getline", "Oi", c->co_filename, line) : nullptr;
  PyObject* stripped = text ? PyObject_CallMethod(text, "strip", nullptr) : nullptr;
  if (stripped && PyUnicode_GET_LENGTH(stripped)) out += ": " + printable(stripped);
  Py_XDECREF(stripped);
  Py_XDECREF(text);
  Py_XDECREF(linecache);
  PyErr_Clear();
  return out;
}

const std::vector<uint64_t>& counts() { return counters(); }
std::vector<std::string> natively_run() { return {native_frames().begin(), native_frames().end()}; }

}  // namespace thunder::frontend::interpreter
