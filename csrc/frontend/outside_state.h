// What C code keeps where no instruction shows it: the memory of NumPy's arrays and their like, context variables, what
// a thread has of its own, the states of Python's and NumPy's random numbers, PyTorch's global settings.
//
// Each is a state of an owner, which can be taken, compared with what is there now, and put back.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "python/ref.h"

namespace thunder::frontend {

/// An owner of state, and which of its states.
struct StateOf {
  enum Kind {
    Memory,           ///< of an object with the buffer protocol
    Variable,         ///< a contextvars.ContextVar
    ThreadAttribute,  ///< of a threading.local; `key` is its name
    Random,           ///< a generator of Python's or NumPy's
    Setting           ///< of PyTorch's; the owner is the function that sets it, `key` what tells several apart, or None
  } kind;
  Ref owner{}, key{};

  /// The state now; null, without an exception, where it cannot be taken.
  Ref now() const;
  /// Whether gradients are recorded.
  bool of_gradients() const;
  /// Whether `state` is what now() gives.
  bool is(PyObject* state) const;
  /// False, with an exception set, if it cannot be.
  bool put(PyObject* state) const;
  /// "a numpy.ndarray".
  std::string text() const;
};

/// Memory or Random; nothing for another object.
std::optional<StateOf::Kind> state_kind(PyObject* o);
bool is_context_variable(PyObject* o);
bool is_thread_local(PyObject* o);
/// The setting that this call of a C function of PyTorch's sets; nothing for another call.
std::optional<StateOf> setting_of(PyObject* function, PyObject* const* arguments, size_t n);
/// The setting that making an object of the class changes until the object's __exit__(): an inference mode's is whether
/// gradients are recorded.
std::optional<StateOf> setting_of_mode(PyObject* type);
/// The name of a function that sets what cannot be set in a program; nothing for another function.
std::optional<Ref> refused_setting(PyObject* function);
/// Whether calls with another value of the setting have another key.
bool is_in_key(PyObject* setter);
/// A generator of Python's or NumPy's.
bool is_random(PyObject* o);
/// Remembers what generators of these kinds are; what it returns makes them that again.
std::function<void()> remember_random(const std::vector<Ref>& generators);
/// The dict that a mapping proxy or a view of a dict shows; else the object itself.
PyObject* shown_by(PyObject* o);

}  // namespace thunder::frontend
