#include "frontend/touched_states.h"

#include <algorithm>

#include "core/error.h"

namespace thunder::frontend {
namespace {

constexpr const char* kUsesWeak = "uses a weak reference that was made outside of it";

// What an array, or another view of memory (a slice, `flat`, a memoryview), shows: itself, what it is a view of, ...
template <class F>
void for_each_owner(PyObject* object, F&& look) {
  constexpr int kMost = 64;  // views of views
  Ref at = Ref::borrow(object);
  for (int i = 0; i < kMost && at && at.get() != Py_None; ++i) {
    look(at.get());
    PyObject* next = PyObject_GetAttrString(at.get(), PyMemoryView_Check(at.get()) ? "obj" : "base");
    if (!next) PyErr_Clear();
    at = next ? Ref::steal(next) : Ref();
  }
}

Ref last_owner(PyObject* object) {
  Ref last;
  for_each_owner(object, [&](PyObject* owner) { last = Ref::borrow(owner); });
  return last;
}

}  // namespace

void TouchedStates::watch_weak(EnvironmentGuard& environment) {
  for (const Weak& w : weak_)
    if (!environment.watch_weak(w.reference.get())) not_kept_.add(kUsesWeak, w.place);
}

bool TouchedStates::shows_fresh_memory(PyObject* object) const {
  bool found = false;
  for_each_owner(object, [&](PyObject* owner) { found = found || fresh_.has(owner); });
  return found;
}

void TouchedStates::touch(StateOf of) {
  PyObject* owner = of.owner.get();
  if (fresh_.has(owner)) return;
  if (of.kind == StateOf::Memory) {
    interpreter::NotInterpreting scope;
    if (shows_fresh_memory(owner)) return;
  }
  for (const State& s : states_)
    if (s.of.owner.get() == owner && s.of.kind == of.kind &&
        PyObject_RichCompareBool(s.of.key.get(), of.key.get(), Py_EQ) == 1)
      return;
  interpreter::NotInterpreting scope;
  // The compiler switches gradients off around functions of the user's that it runs.
  Ref now = of.of_gradients() ? Ref::borrow(gradients_ ? Py_True : Py_False) : of.now();
  if (!now) {
    not_kept_.add("uses " + of.text() + ", which is not compared with what it is in another call");
    return;
  }
  states_.push_back({std::move(of), std::move(now), {}, interpreter::current_place()});
}

void TouchedStates::touch(PyObject* object) {
  if (is_tensor(object)) return;
  if (takes_arrays_) return take_memory(object);
  see_drawn(object);
  if (std::optional<StateOf::Kind> kind = state_kind(object)) touch({*kind, Ref::borrow(object), Ref::borrow(Py_None)});
}

void TouchedStates::take_memory(PyObject* object) {
  if (state_kind(object) != StateOf::Memory) return;
  interpreter::NotInterpreting scope;
  Ref owner = last_owner(object);
  if (!owner || fresh_.has(owner.get())) return;
  taken_memory_.push_back(std::move(owner));
  for (const State& s : states_)
    if (s.of.kind == StateOf::Memory && !s.of.is(s.before.get())) refuse_written_memory(s);
}

// The program reads tensors of arrays once, before the changes that are made after it.
void TouchedStates::refuse_written_memory(const State& s) {
  if (s.of.kind != StateOf::Memory || taken_memory_.empty()) return;
  const Ref owner = last_owner(s.of.owner.get());
  const bool taken =
      std::any_of(taken_memory_.begin(), taken_memory_.end(), [&](const Ref& t) { return t.get() == owner.get(); });
  if (!taken || acquisition_.eager) return;
  acquisition_.eager =
      NeedsEager{"the function writes to " + s.of.text() + ", of which it makes a tensor, at " + s.place.str()};
}

bool TouchedStates::touch_attribute(PyObject* object, PyObject* name) {
  if (PyWeakref_CheckProxy(object) && !fresh_.has(object)) not_kept_.add(kUsesWeak);
  if (is_thread_local(object)) {
    touch({StateOf::ThreadAttribute, Ref::borrow(object), Ref::borrow(name)});
    return true;
  }
  if (is_tensor(object) || state_kind(object) != StateOf::Memory) return false;
  touch(object);
  return true;
}

void TouchedStates::will_call(PyObject* callable, PyObject* self, PyObject* const* arguments, size_t n) {
  if (self && is_context_variable(self)) touch({StateOf::Variable, Ref::borrow(self), Ref::borrow(Py_None)});
  else if (self) touch(self);
  if (PyWeakref_CheckRef(callable) && !fresh_.has(callable)) {
    PyObject* target = PyWeakref_GetObject(callable);  // one that is dead stays dead
    if (is_tensor(target)) weak_.push_back({Ref::borrow(callable), interpreter::current_place()});
    else if (target != Py_None) not_kept_.add(kUsesWeak);
  }
  if (std::optional<StateOf> setting = setting_of(callable, arguments, n)) touch(std::move(*setting));
}

void TouchedStates::see_drawn(PyObject* object) {
  if (!takes_arrays_) draws_.open(object);
}

bool TouchedStates::touched(PyObject* owner) const {
  return std::any_of(states_.begin(), states_.end(), [owner](const State& s) { return s.of.owner.get() == owner; });
}

bool TouchedStates::sets() const {
  return std::any_of(states_.begin(), states_.end(), [](const State& s) { return s.of.kind == StateOf::Setting; });
}

void TouchedStates::called(PyObject* callable, PyObject* self, PyObject* result) {
  for (State& s : states_) {
    PyObject* owner = s.of.owner.get();
    if (s.of.kind == StateOf::Setting && owner == callable) hooks().adopt_settings();
    if (s.of.kind == StateOf::Variable && owner == self && result && PyContextToken_CheckExact(result))
      s.tokens.push_back(Ref::borrow(result));
  }
}

void TouchedStates::put_back() {
  for (size_t i = states_.size(); i-- > 0;) put_back(states_[i]);
}

void TouchedStates::put_back(State& s) {
  if (s.of.is(s.before.get())) return;
  s.after = s.of.now();
  if (s.of.put(s.before.get()) && s.of.is(s.before.get())) return;
  PyErr_Clear();
  // The first token that the program has not used makes a variable what it was: without a value.
  for (const Ref& token : s.tokens) {
    if (PyContextVar_Reset(s.of.owner.get(), token.get()) == 0 && s.of.is(s.before.get())) return;
    PyErr_Clear();
  }
}

void TouchedStates::finish(EnvironmentGuard& environment, std::vector<Effect>& out) {
  for (State& s : states_) {
    if (!s.after) {
      if (s.of.kind != StateOf::Setting || !is_in_key(s.of.owner.get()))
        environment.watch_state(s.of, s.before, s.place);
      continue;
    }
    refuse_written_memory(s);
    not_kept_.add("changes " + s.of.text() + ", which was made outside of it", s.place);
    out.push_back({.kind = Effect::State, .owner = s.of.owner, .after = s.after, .state = s.of});
  }
  states_.clear();
  taken_memory_.clear();
}

}  // namespace thunder::frontend
