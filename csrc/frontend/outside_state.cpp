#include "frontend/outside_state.h"

#include <cstring>

#include "core/error.h"
#include "frontend/environment.h"
#include "frontend/hooks.h"
#include "python/errors.h"
#include "python/lookup.h"
#include "python/text.h"

namespace thunder::frontend {
namespace {

constexpr Py_ssize_t kMostBytes = 64 << 20;  // of memory that is kept to be compared

PyObject* absent() {
  static PyObject* o = PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type));
  return o;
}

Ref owned_or_null(PyObject* o) {
  if (!o) PyErr_Clear();
  Ref r;
  if (o) r = Ref::steal(o);
  return r;
}

// Kept by a module that may never be imported: null until it is.
PyObject* class_of(const char* module, const char* name, PyObject*& cache) {
  if (cache) return cache;
  PyObject* m = PyDict_GetItemString(PyImport_GetModuleDict(), module);
  if (m) cache = owned_or_null(PyObject_GetAttrString(m, name)).release();
  return cache;
}

bool is_a(PyObject* o, PyObject* type) {
  return type && PyType_Check(type) && PyObject_TypeCheck(o, reinterpret_cast<PyTypeObject*>(type));
}

bool is_immutable_buffer(PyObject* o) {
  static PyObject* generic = nullptr;
  return PyBytes_Check(o) || is_a(o, class_of("numpy", "generic", generic));
}

PyObject* helper(const char* name) {
  return Ref::steal(PyObject_GetAttrString(hooks().outside_states.get(), name)).release();
}

// A view of memory, for a scope.
class Buffer {
 public:
  explicit Buffer(PyObject* o, int flags = PyBUF_FULL_RO) : ok_(PyObject_GetBuffer(o, &view_, flags) == 0) {
    if (!ok_) PyErr_Clear();
  }
  ~Buffer() {
    if (ok_) PyBuffer_Release(&view_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  /// References and addresses among the elements mean more than their bits.
  bool comparable() const {
    return ok_ && view_.len <= kMostBytes && (!view_.format || !std::strpbrk(view_.format, "OPzZ&X"));
  }
  Py_buffer& view() { return view_; }
  Ref shape() const {
    Ref t = Ref::steal(PyTuple_New(view_.shape ? view_.ndim : 0));
    for (int i = 0; view_.shape && i < view_.ndim; ++i)
      PyTuple_SET_ITEM(t.get(), i, PyLong_FromSsize_t(view_.shape[i]));
    return t;
  }
  const char* format() const { return view_.format ? view_.format : "B"; }
  Ref bytes() {
    Ref out = Ref::steal(PyBytes_FromStringAndSize(nullptr, view_.len));
    if (view_.len > 0 && PyBuffer_ToContiguous(PyBytes_AS_STRING(out.get()), &view_, view_.len, 'C') != 0)
      throw PythonError();
    return out;
  }

 private:
  Py_buffer view_;
  bool ok_;
};

// Its elements, what they are, and its sizes.
Ref memory_now(PyObject* o) {
  Buffer b(o);
  if (!b.comparable()) return {};
  const Ref bytes = b.bytes(), shape = b.shape();
  return Ref::steal(Py_BuildValue("(OsO)", bytes.get(), b.format(), shape.get()));
}

bool memory_is(PyObject* o, PyObject* state) {
  Buffer b(o);
  PyObject* then = PyTuple_GET_ITEM(state, 0);
  if (!b.comparable() || b.view().len != PyBytes_GET_SIZE(then)) return false;
  if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(state, 1), b.format()) != 0) return false;
  if (PyObject_RichCompareBool(PyTuple_GET_ITEM(state, 2), b.shape().get(), Py_EQ) != 1) return false;
  const size_t n = static_cast<size_t>(b.view().len);
  if (PyBuffer_IsContiguous(&b.view(), 'C'))
    return n == 0 || std::memcmp(b.view().buf, PyBytes_AS_STRING(then), n) == 0;
  return std::memcmp(PyBytes_AS_STRING(b.bytes().get()), PyBytes_AS_STRING(then), n) == 0;
}

bool put_memory(PyObject* o, PyObject* state) {
  PyObject* bytes = PyTuple_GET_ITEM(state, 0);
  Py_ssize_t now;
  {
    Buffer b(o);
    now = b.view().len;
  }
  if (now != PyBytes_GET_SIZE(bytes)) {  // a bytearray or an array that grew
    Ref resize = Ref::steal(helper("put_bytes"));
    return static_cast<bool>(owned_or_null(PyObject_CallFunctionObjArgs(resize.get(), o, bytes, nullptr)));
  }
  Buffer b(o, PyBUF_FULL);
  if (!b.comparable()) return false;
  return now == 0 || PyBuffer_FromContiguous(&b.view(), PyBytes_AS_STRING(bytes), now, 'C') == 0;
}

}  // namespace

bool is_context_variable(PyObject* o) { return PyContextVar_CheckExact(o); }

bool is_thread_local(PyObject* o) {
  static PyObject* type = PyObject_GetAttrString(Ref::steal(PyImport_ImportModule("_thread")).get(), "_local");
  return is_a(o, type);
}

std::optional<StateOf::Kind> state_kind(PyObject* o) {
  if (PyObject_CheckBuffer(o)) {
    if (is_immutable_buffer(o)) return std::nullopt;
    return StateOf::Memory;
  }
  if (is_random(o)) return StateOf::Random;
  return std::nullopt;
}

PyObject* shown_by(PyObject* o) {
  PyObject* shown = mapping_of_view(o);
  return shown ? shown : o;
}

bool is_random(PyObject* o) {
  static PyObject *python = nullptr, *old_style = nullptr, *generator = nullptr, *bits = nullptr;
  return is_a(o, class_of("_random", "Random", python)) ||
         is_a(o, class_of("numpy.random", "RandomState", old_style)) ||
         is_a(o, class_of("numpy.random", "Generator", generator)) ||
         is_a(o, class_of("numpy.random", "BitGenerator", bits));
}

std::function<void()> remember_random(const std::vector<Ref>& generators) {
  static PyObject *take = helper("take_random_state"), *give = helper("give_random_state");
  std::vector<std::pair<Ref, Ref>> states;
  for (const Ref& g : generators) states.emplace_back(g, Ref::steal(PyObject_CallOneArg(take, g.get())));
  return [states = std::move(states)] {
    const KeepError pending;
    for (const auto& [generator, state] : states) {
      PyObject* done = PyObject_CallFunctionObjArgs(give, generator.get(), state.get(), nullptr);
      if (!done) PyErr_Clear();
      Py_XDECREF(done);
    }
  };
}

std::optional<Ref> refused_setting(PyObject* function) {
  if (!hooks().outside_states) return std::nullopt;
  static PyObject* refused = helper("REFUSED");
  PyObject* name = PyObject_Hash(function) == -1 ? nullptr : PyDict_GetItemWithError(refused, function);
  PyErr_Clear();
  if (!name) return std::nullopt;
  return Ref::borrow(name);
}

bool is_in_key(PyObject* setter) {
  static PyObject* in_key = helper("IN_KEY");
  return PySet_Contains(in_key, setter) == 1;
}

std::optional<StateOf> setting_of(PyObject* function, PyObject* const* arguments, size_t n) {
  if (!PyCFunction_Check(function) || !hooks().outside_states) return std::nullopt;
  static PyObject* settings = helper("SETTINGS");
  PyObject* about = PyDict_GetItemWithError(settings, function);
  if (!about) return PyErr_Clear(), std::nullopt;
  // With one argument the text is the value itself (a precision).
  const bool keyed = n > 1 && PyUnicode_Check(arguments[0]);
  return StateOf{StateOf::Setting, Ref::borrow(function), Ref::borrow(keyed ? arguments[0] : Py_None)};
}

std::optional<StateOf> setting_of_mode(PyObject* type) {
  static PyObject* inference_mode = nullptr;
  if (!hooks().outside_states || type != class_of("torch._C", "_InferenceMode", inference_mode)) return std::nullopt;
  static PyObject* setter = helper("SETS_GRADIENTS");
  return StateOf{StateOf::Setting, Ref::borrow(setter), Ref::borrow(Py_None)};
}

bool StateOf::of_gradients() const {
  if (kind != Setting) return false;
  static PyObject* setter = helper("SETS_GRADIENTS");
  return owner.get() == setter;
}

Ref StateOf::now() const {
  switch (kind) {
    case Memory: return memory_now(owner.get());
    case Variable: {
      PyObject* value = nullptr;
      // A default of get() is no value of the variable.
      if (PyContextVar_Get(owner.get(), absent(), &value) != 0) throw PythonError();
      return Ref::steal(value);
    }
    case ThreadAttribute: {
      static PyObject* dict = PyUnicode_InternFromString("__dict__");
      Ref own = owned_or_null(PyObject_GetAttr(owner.get(), dict));  // this thread's
      PyObject* entry = own ? PyDict_GetItemWithError(own.get(), key.get()) : nullptr;
      return Ref::borrow(entry ? entry : absent());
    }
    default: {
      Ref take = Ref::steal(helper(kind == Random ? "random_state" : "setting"));
      return owned_or_null(PyObject_CallFunctionObjArgs(take.get(), owner.get(), key.get(), nullptr));
    }
  }
}

bool StateOf::is(PyObject* state) const {
  if (kind == Memory) return memory_is(owner.get(), state);
  Ref n = now();
  if (kind == Variable || kind == ThreadAttribute) return n.get() == state || same_value(state, n.get());
  const int same = n ? PyObject_RichCompareBool(n.get(), state, Py_EQ) : 0;
  if (same < 0) PyErr_Clear();
  return same == 1;
}

bool StateOf::put(PyObject* state) const {
  switch (kind) {
    case Memory: return put_memory(owner.get(), state);
    case Variable: {
      if (state == absent()) return true;  // by a token of the program's alone
      PyObject* token = PyContextVar_Set(owner.get(), state);
      Py_XDECREF(token);
      return token != nullptr;
    }
    case ThreadAttribute:
      if (state != absent()) return PyObject_SetAttr(owner.get(), key.get(), state) == 0;
      if (PyObject_DelAttr(owner.get(), key.get()) != 0) PyErr_Clear();
      return true;
    default: {
      Ref put = Ref::steal(helper(kind == Random ? "put_random_state" : "put_setting"));
      PyObject* done = PyObject_CallFunctionObjArgs(put.get(), owner.get(), key.get(), state, nullptr);
      Py_XDECREF(done);
      if (kind == Setting) hooks().adopt_settings();
      return done != nullptr;
    }
  }
}

std::string StateOf::text() const {
  switch (kind) {
    case Variable: return "a ContextVar";
    case ThreadAttribute: return cat("the attribute '", printable(key.get()), "' of a threading.local");
    case Setting: return cat("what ", reinterpret_cast<PyCFunctionObject*>(owner.get())->m_ml->ml_name, "() sets");
    default: return cat("a ", Py_TYPE(owner.get())->tp_name);
  }
}

}  // namespace thunder::frontend
