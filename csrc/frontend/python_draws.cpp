#include "frontend/python_draws.h"

#include <algorithm>
#include <cstring>

#include "core/builder.h"
#include "core/error.h"
#include "frontend/hooks.h"
#include "frontend/interpreter/interpreter.h"
#include "frontend/large_ints.h"
#include "frontend/outside_state.h"
#include "ops/common.h"
#include "python/stack.h"
#include "python/text.h"

namespace thunder::frontend {

// ---- which calls draw ------------------------------------------------------------------------------------------------

namespace {

bool is_plain(PyObject* o) {
  return o == Py_None || is_traced_value(o) || PyLong_Check(o) || PyFloat_Check(o) || PyUnicode_Check(o) ||
         PyBytes_Check(o) || PyTuple_Check(o) || PyList_Check(o);
}

bool is_unbound_method(PyObject* o) {
  return Py_IS_TYPE(o, &PyMethodDescr_Type) || std::strstr(Py_TYPE(o)->tp_name, "cython_function");
}

const PyCodeObject* code_of(PyObject* function) {
  return reinterpret_cast<const PyCodeObject*>(PyFunction_GET_CODE(function));
}

}  // namespace

DrawingCalls::Key DrawingCalls::key_of_function(PyObject* function, PyObject* first) {
  const bool has_first = first && code_of(function)->co_argcount > 0 && !is_plain(first);
  return {function, has_first ? first : nullptr};
}

std::optional<DrawingCalls::Key> DrawingCalls::key_of(PyObject* callable, PyObject* first) {
  PyObject* generator = nullptr;
  if (PyFunction_Check(callable)) return key_of_function(callable, first);
  if (PyMethod_Check(callable)) {
    generator = PyMethod_GET_SELF(callable);  // of Cython
    PyObject* function = PyMethod_GET_FUNCTION(callable);
    if (PyFunction_Check(function)) return key_of_function(function, generator);
  } else if (PyCFunction_Check(callable)) {
    generator = PyCFunction_GET_SELF(callable);
  } else if (is_unbound_method(callable)) {
    generator = first;
  }
  if (!generator || !is_random(generator)) return std::nullopt;
  static PyObject* attribute = PyUnicode_InternFromString("__name__");
  PyObject* name = PyObject_GetAttr(callable, attribute);
  if (!name) return PyErr_Clear(), std::nullopt;
  const Ref owned = Ref::steal(name);
  if (!PyUnicode_Check(name)) return std::nullopt;
  return Key{generator, nullptr, printable(name)};
}

DrawingCalls::Call* DrawingCalls::find(PyObject* callable, PyObject* first) {
  if (calls_.empty()) return nullptr;
  const std::optional<Key> key = key_of(callable, first);
  const auto at = key ? calls_.find(*key) : calls_.end();
  return at == calls_.end() || at->second.refused ? nullptr : &at->second;
}

bool DrawingCalls::add(const Key& key, std::vector<Ref> generators) {
  constexpr size_t kMost = 256;  // generators that are new in every call would pile up
  if (calls_.size() >= kMost) return false;
  return calls_.try_emplace(key, Call{Ref::borrow(key.callee), Ref::borrow(key.self), std::move(generators)}).second;
}

bool DrawingCalls::add(const DrawingCalls& others) {
  bool more = false;
  for (const auto& [key, call] : others.calls_) more = add(key, call.generators) || more;
  return more;
}

// A frame whose arguments are *args alone would stand for its calls with all objects.
void DrawingFrames::is_of(PyObject* function, PyObject* first) {
  const bool called = std::exchange(next_, nullptr) == function && function;
  if (!called) return;
  constexpr int kSuspended = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
  const PyCodeObject* code = code_of(function);
  if (code->co_flags & kSuspended || (code->co_flags & CO_VARARGS && code->co_argcount == 0)) return;
  frames_.back().function = function;
  frames_.back().first = first;
}

void DrawingFrames::drew(PyObject* generator, Generator whose, std::string method, Result result) {
  const bool own = whose == Generator::Own;
  drawn_from_.push_back(own ? Ref() : Ref::borrow(generator));
  if (result == Result::Input && !own)
    found_.push_back({{generator, nullptr, std::move(method)}, {Ref::borrow(generator)}});
}

void DrawingFrames::ends(const Done& done, Result result) {
  const Frame frame = frames_.back();
  frames_.pop_back();
  if (result == Result::Other || !frame.function || drawn_from_.size() == frame.drawn || !(done == frame.done)) return;
  std::vector<Ref> generators;
  for (size_t i = frame.drawn; i < drawn_from_.size(); ++i) {
    const bool known = std::any_of(generators.begin(), generators.end(),
                                   [&](const Ref& g) { return g.get() == drawn_from_[i].get(); });
    if (drawn_from_[i] && !known) generators.push_back(drawn_from_[i]);
  }
  found_.resize(frame.found);
  found_.push_back({DrawingCalls::key_of_function(frame.function, frame.first), std::move(generators)});
}

const DrawingCalls& DrawingFrames::found() {
  for (Found& f : found_) calls_.add(f.key, std::move(f.generators));
  found_.clear();
  return calls_;
}

namespace {

bool is_array(PyObject* o) {
  static PyTypeObject* arrays = nullptr;
  if (!arrays) {
    PyObject* numpy = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");
    if (!numpy) return false;
    arrays = reinterpret_cast<PyTypeObject*>(Ref::steal(PyObject_GetAttrString(numpy, "ndarray")).release());
  }
  return Py_IS_TYPE(o, arrays);
}

// NumPy's numbers are of other types.
bool is_number(PyObject* o) { return PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o); }

}  // namespace

bool is_drawable(PyObject* result, const std::function<bool(PyObject*)>& is_own) {
  if (is_number(result)) return true;
  if (!is_array(result)) return false;
  constexpr int kMost = 64;  // views of views
  Ref at = Ref::borrow(result);
  for (int i = 0; i < kMost; ++i) {
    if (Py_REFCNT(at.get()) > 2 && !is_own(at.get())) return false;  // ours, and that of the view or the caller
    Ref base = Ref::steal(PyObject_GetAttrString(at.get(), "base"));
    if (base.get() == Py_None) return true;
    if (!is_array(base.get())) return false;
    at = std::move(base);
  }
  return false;
}

// ---- making them -----------------------------------------------------------------------------------------------------

namespace {

Ref helper(const char* name) {
  static PyObject* module = PyImport_ImportModule("thunder._draws");
  return Ref::steal(PyObject_GetAttrString(Ref::borrow(module).get(), name));
}

Types draw_meta(const Args& a) {
  return {ops::contiguous_type(a.dtype("dtype"), Device{DeviceType::cpu}, a.dims("shape"))};
}

// Executors leave the call alone: it is run beside programs, and never in one.
const Op& draw_operator() {
  static const Op& op = [&]() -> const Op& {
    OpDef def;
    def.schema = "draw(any function, any arguments, any names, any generators, *, dtype dtype, int[] shape) -> Tensor";
    def.doc = "What a Python function gives that draws random numbers from the generators.";
    def.tags = kRandom | kNoGrad | kCreation;
    def.meta = draw_meta;
    auto made = std::make_unique<Op>("python", def);
    made->executor = "python";
    made->context_owner = opaque_arg(helper("draw").get()).opaque().object;
    return Registry::instance().add(std::move(made), true);
  }();
  return op;
}

// A size of the result that equals a size given is that size.  draw() checks the sizes in every call.
void find_sizes(Dims& result, const Arg& given, const ShapeEnv& shapes) {
  if (given.is_sequence())
    for (const Arg& item : given.items()) find_sizes(result, item, shapes);
  if (given.kind() != Arg::Kind::Int || given.dim().is_constant()) return;
  const Dim now = given.dim().substitute([&](SymbolId s) { return Dim(shapes.hint(s).value()); });
  for (Dim& d : result)
    if (d.same(now)) d = given.dim();
}

}  // namespace

// Nothing for an object that the program made: it may be another one in later calls.
std::optional<Arg> PythonDraws::argument(PyObject* o, Lists lists, const Asks& is_settled) {
  if (is_traced_number(o)) return number_arg(o);
  if (is_tensor(o)) return tensors_.convert(o);
  if (PyTuple_CheckExact(o) || (lists == Lists::Copied && PyList_CheckExact(o) && !is_settled(o))) {
    ArgList items;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
      std::optional<Arg> item = argument(PySequence_Fast_GET_ITEM(o, i), lists, is_settled);
      if (!item) return std::nullopt;
      items.push_back(std::move(*item));
    }
    return PyTuple_Check(o) ? Arg::tuple(std::move(items)) : Arg::list(std::move(items));
  }
  if (!is_settled(o)) return std::nullopt;
  const bool plain = o == Py_None || PyBool_Check(o) || PyFloat_CheckExact(o) || PyUnicode_CheckExact(o);
  return plain || (PyLong_CheckExact(o) && !is_large_int(o)) ? to_arg(o, {}) : opaque_arg(o);
}

Ref PythonDraws::call(PyObject* callable, PyObject* const* arguments, size_t n, PyObject* names, const Asks& is_settled,
                      const Asks& touched) {
  PyObject* first = n > 0 ? arguments[0] : nullptr;
  DrawingCalls::Call* known = calls && acquisition_.owns_program() ? calls->find(callable, first) : nullptr;
  if (!known) return {};
  for (const Ref& g : known->generators)
    if (!is_settled(g.get()) || touched(g.get())) return {};
  PyObject* self = PyMethod_Check(callable) ? PyMethod_GET_SELF(callable) : nullptr;
  const bool of_python = PyFunction_Check(callable) || (self && PyFunction_Check(PyMethod_GET_FUNCTION(callable)));
  if (of_python && !is_settled(self ? self : callable)) return {};
  interpreter::NotInterpreting scope;
  ArgList given;
  const size_t named = names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0;
  for (size_t i = 0; i < n + named; ++i) {
    // A function would write to a copy of a list.
    std::optional<Arg> a = argument(arguments[i], of_python ? Lists::Refused : Lists::Copied, is_settled);
    if (!a) return {};
    given.push_back(std::move(*a));
  }
  const Arg all = Arg::tuple(std::move(given));
  const Arg keywords = names ? to_arg(names, {}) : Arg::tuple({});
  Ref result;
  const auto made = [&](const ValueQuestions::Now& now) { return make(callable, *known, all, keywords, now, result); };
  const Value v = questions_.read_made(all, known->generators, "draw", made);
  if (!v) {
    known->refused = true;
    return {};
  }
  if (is_number(result.get())) return questions_.number_of(v);
  const Ref tensor = proxies_.wrap(v, acquisition_.builder().calls().back());
  arrays_[result.get()] = {result, tensor};
  return result;
}

// The call in this run, and its record; nothing where it raises or gives what no program takes.
std::optional<std::pair<const thunder::Call*, Ref>> PythonDraws::make(PyObject* callable,
                                                                      const DrawingCalls::Call& call,
                                                                      const Arg& arguments, const Arg& names,
                                                                      const ValueQuestions::Now& now, Ref& result) {
  const Ref given = now(arguments), named = now(names);
  const Ref give = helper("give");
  PyObject* made = PyObject_CallFunctionObjArgs(give.get(), callable, given.get(), named.get(), nullptr);
  if (!made && !PyErr_ExceptionMatches(PyExc_Exception)) throw PythonError();  // Ctrl-C
  if (!made) return PyErr_Clear(), std::nullopt;
  const Ref both = Ref::steal(made);
  PyObject* tensor = PyTuple_GET_ITEM(made, 1);
  result = Ref::borrow(PyTuple_GET_ITEM(made, 0));
  if (tensor == Py_None || !(is_number(result.get()) || is_array(result.get()))) return std::nullopt;
  const TensorType type = hooks().type_of(tensor);
  ArgList generators, sizes;
  for (const Ref& g : call.generators) generators.push_back(opaque_arg(g.get()));
  Dims shape = type.shape;
  find_sizes(shape, arguments, acquisition_.shapes());
  for (const Dim& d : shape) sizes.emplace_back(d);
  Builder& b = acquisition_.builder();
  b.call(draw_operator(), {opaque_arg(callable), arguments, names, Arg::list(std::move(generators)), type.dtype,
                           Arg::list(std::move(sizes))});
  return std::pair(b.calls().back(), Ref::borrow(tensor));
}

Ref PythonDraws::tensor_of(PyObject* array, Memory memory) {
  const auto at = arrays_.find(array);
  if (at == arrays_.end()) return {};
  at->second.shared = at->second.shared || memory == Memory::One;
  return at->second.tensor;
}

void PythonDraws::open(PyObject* array) {
  const auto at = arrays_.find(array);
  if (at == arrays_.end()) return;
  if (at->second.shared && !acquisition_.eager)
    acquisition_.eager =
        NeedsEager{"the function uses an array of random numbers beside a tensor of the same memory", {}, true};
  if (!opened_) opened_ = interpreter::current_place();
  arrays_.erase(at);
}

void PythonDraws::open_all(PyObject* o) {
  check_stack();
  if (PyTuple_Check(o) || PyList_Check(o)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) open_all(PySequence_Fast_GET_ITEM(o, i));
  } else {
    open(o);
  }
}

// Arrays of other dtypes become other indices than tensors of them.
Ref PythonDraws::index_of(PyObject* key) {
  if (PyTuple_CheckExact(key)) {
    Ref out = Ref::steal(PyTuple_New(PyTuple_GET_SIZE(key)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
      PyTuple_SET_ITEM(out.get(), i, index_of(PyTuple_GET_ITEM(key, i)).release());
    return out;
  }
  const auto at = arrays_.find(key);
  if (at != arrays_.end()) {
    const DType dtype = tensors_.type_of(at->second.tensor.get()).dtype;
    if (dtype == DType::i64 || dtype == DType::boolean) return at->second.tensor;
  }
  open_all(key);
  return Ref::borrow(key);
}

Ref PythonDraws::arguments_of(PyObject* function, PyObject* args, PyObject* kwargs) {
  if (arrays_.empty()) return Ref::borrow(args);
  static PyObject* attribute = PyUnicode_InternFromString("__name__");
  PyObject* found = PyObject_GetAttr(function, attribute);
  if (!found) PyErr_Clear();
  const Ref owned = found ? Ref::steal(found) : Ref();
  const std::string name = found && PyUnicode_Check(found) ? printable(found) : "";
  const bool makes = name == "tensor" || name == "as_tensor" || name == "asarray" || name == "from_numpy";
  const bool indexes = name == "__getitem__" || name == "__setitem__";
  Ref out = Ref::steal(PyTuple_New(PyTuple_GET_SIZE(args)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    PyObject* o = PyTuple_GET_ITEM(args, i);
    Ref given = indexes && i == 1 ? index_of(o) : Ref::borrow(o);
    if (!(indexes && i == 1) && !(makes && i == 0 && arrays_.count(o))) open_all(o);
    PyTuple_SET_ITEM(out.get(), i, given.release());
  }
  PyObject *key, *value;
  for (Py_ssize_t pos = 0; kwargs && PyDict_Next(kwargs, &pos, &key, &value);) open_all(value);
  return out;
}

}  // namespace thunder::frontend
