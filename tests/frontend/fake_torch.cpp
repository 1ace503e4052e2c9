#include "fake_torch.h"

#include "core/error.h"

namespace thunder::frontend::test {
namespace {

constexpr const char* kSource = R"(
import pickle
import sys
import types

class device:
    def __init__(self, name): self.name = name
    def __str__(self): return self.name

class dtype:
    def __init__(self, index): self.index = index

dtypes = []

class Memory:
    pass

class Tensor:
    # Slots are attributes of the class, as PyTorch's own are; a user's are in the dict.
    __slots__ = ("shape", "strides", "dtype", "requires_grad", "is_leaf", "memory", "grad", "__dict__", "__weakref__")
    def __init__(self, shape, strides, dtype, requires_grad=False, memory=None):
        self.shape, self.strides, self.dtype, self.requires_grad = shape, strides, dtype, requires_grad
        self.is_leaf, self.grad, self.memory = True, None, memory or Memory()

class Proxy(Tensor):
    __slots__ = ()

class Number:
    def __init__(self, arg): self._arg = arg
    def _known(self, what): return number_hint(self)

class Int(Number):
    pass

class Float(Number):
    pass

class Size(tuple):
    pass

def make_wrapper_subclass(cls, shape, strides, *, dtype, device, requires_grad):
    return cls(shape, strides, dtype, requires_grad)

def swap_tensors(a, b):
    for name in ("shape", "strides", "dtype", "requires_grad", "is_leaf", "memory", "grad"):
        of_a, of_b = getattr(a, name), getattr(b, name)
        setattr(a, name, of_b)
        setattr(b, name, of_a)

def in_memory_of(t):
    return type(t)(t.shape, t.strides, t.dtype, t.requires_grad, t.memory)

# What acquisition imports of the modules above it.
torch = types.ModuleType("torch")
torch.from_numpy = lambda array: None
numbers = types.ModuleType("thunder._numbers")
numbers.math_function = lambda name, *arguments: None
frontend = types.ModuleType("thunder._frontend")
frontend.call_outside = lambda function, arguments, keywords: function(*arguments, **keywords)
draws = types.ModuleType("thunder._draws")
draws.draw = object()
draws.give = lambda function, arguments, names: (function(*arguments), Tensor((), (), dtypes[17]))
sys.modules.update({"torch": torch, "thunder": types.ModuleType("thunder"), "thunder._numbers": numbers,
                    "thunder._frontend": frontend, "thunder._draws": draws})

# The module thunder._outside.
current = {"setting": 1}
outside = types.ModuleType("thunder._outside")
outside.current = current
outside.REFUSED = {sys.setrecursionlimit: "setrecursionlimit"}
outside.IN_KEY = set()
outside.SETTINGS = {sys.setswitchinterval: None}
outside.SETS_GRADIENTS = object()
outside.setting = lambda setter, key: current["setting"]
outside.put_setting = lambda setter, key, value: current.update(setting=value)
outside.put_bytes = lambda owner, content: owner.__setitem__(slice(None), content)
outside.take_random_state = lambda generator: generator.getstate()
outside.give_random_state = lambda generator, state: generator.setstate(state)
outside.random_state = lambda generator, key: pickle.dumps(generator.getstate())
outside.put_random_state = lambda generator, key, state: generator.setstate(pickle.loads(state))
)";

FakeTorch* current = nullptr;

Ref attribute(PyObject* o, const char* name) { return Ref::steal(PyObject_GetAttrString(o, name)); }

bool is_true(PyObject* o, const char* name) { return PyObject_IsTrue(attribute(o, name).get()) == 1; }

Dims dims_of(PyObject* o, const char* name) {
  const Ref tuple = attribute(o, name);
  Dims out;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.get()); ++i)
    out.emplace_back(static_cast<int64_t>(PyLong_AsLongLong(PyTuple_GET_ITEM(tuple.get(), i))));
  return out;
}

Ref tuple_of(const Dims& dims) {
  Ref out = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(dims.size())));
  for (size_t i = 0; i < dims.size(); ++i)
    PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i), integer(dims[i].constant()).release());
  return out;
}

TensorType type_of(PyObject* tensor) {
  const Ref index = attribute(attribute(tensor, "dtype").get(), "index");
  return tensor_type(dims_of(tensor, "shape"), dims_of(tensor, "strides"),
                     static_cast<DType>(PyLong_AsLong(index.get())), is_true(tensor, "requires_grad"));
}

Ref number(NumberKind kind) {
  if (kind == NumberKind::Bool) return Ref::borrow(current->integer ? Py_True : Py_False);
  return kind == NumberKind::Int ? integer(current->integer) : Ref::steal(PyFloat_FromDouble(current->real));
}

Ref result_of(const Type& type) {
  if (!type.is_tensor()) return number(type.number().kind);
  Dims shape;
  for (const Dim& d : type.tensor().shape) shape.push_back(d.is_constant() ? d : Dim(current->integer));
  return tensor(shape, type.tensor().dtype);
}

std::string names_of(const Trace& t) {
  std::string out;
  for (const Call* call : t.calls) out += (out.empty() ? "" : " ") + call->op->full_name;
  return out;
}

std::vector<Ref> run(const Trace& t, const std::vector<RealInput>& inputs) {
  current->ran.push_back(names_of(t));
  current->run_inputs.push_back(inputs.size());
  if (current->fails) throw Error(ErrorKind::Runtime, "the run fails");
  std::vector<Ref> out;
  for (const Arg& result : t.output.items()) out.push_back(result_of(result.value().type()));
  return out;
}

void set_python_error() {
  try {
    throw;
  } catch (const PythonError&) {
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
}

PyObject* hint_of(PyObject*, PyObject* number) { return number_hint(number).release(); }

PyMethodDef kNumberHint = {"number_hint", hint_of, METH_O, nullptr};

void set_functions(Hooks& h) {
  h.type_of = type_of;
  h.is_leaf = [](PyObject* t) { return is_true(t, "is_leaf"); };
  h.storage_of = [](PyObject* t) -> const void* { return attribute(t, "memory").get(); };
  h.forbid_data = [](PyObject*) {};
  h.place_in_storage = [](PyObject* t) {
    return std::pair<int64_t, int64_t>(0, product(dims_of(t, "shape")).constant());
  };
  h.grad_enabled = [] { return current->grad_enabled; };
  h.other_kind_of_tensor = [](PyObject*) { return current->other_kind; };
  h.is_distributed = [](PyObject*) { return false; };
  h.is_dtensor = [](PyObject*) { return false; };
  h.sharded = [](PyObject*) { return std::optional<Sharded>(); };
  h.watcher = [] { return std::string(); };
  h.function_modes = [] { return int64_t{0}; };
  h.set_python_error = set_python_error;
  h.any_autocast = [] { return false; };
  h.adopt_settings = [] { ++current->settings; };
  h.evaluate = [](const Trace& t) {
    ++current->evaluated;
    return result_of(t.output.value().type());
  };
  h.run = run;
  h.item = [](PyObject* t) { return number(number_kind(type_of(t).dtype)); };
  h.remember_generators = [](const std::vector<Device>&) -> std::function<void()> { return [] { ++current->undone; }; };
  h.run_input = [](const RealInput& input) { return input.object; };
}

// Once: the front end remembers some of these objects for the length of the process.
const Names& installed() {
  static const Names* names = [] {
    auto* made = new Names(kSource);
    Hooks& h = hooks();
    set_functions(h);
    h.tensor_class = made->type("Tensor");
    h.proxy_class = made->type("Proxy");
    h.outside_states = Ref::borrow((*made)["outside"]);
    h.make_wrapper_subclass = Ref::borrow((*made)["make_wrapper_subclass"]);
    h.swap_tensors = Ref::borrow((*made)["swap_tensors"]);
    h.torch_size = Ref::borrow((*made)["Size"]);
    h.int_class = Ref::borrow((*made)["Int"]);
    h.float_class = Ref::borrow((*made)["Float"]);
    h.number_class = Ref::borrow((*made)["Number"]);
    LiteralObjects& objects = literal_objects();
    objects.device_class = Ref::borrow((*made)["device"]);
    for (int i = 0; i < kNumDTypes; ++i) {
      objects.dtypes.push_back(Ref::steal(PyObject_CallFunction((*made)["dtype"], "i", i)));
      PyList_Append((*made)["dtypes"], objects.dtypes.back().get());
    }
    return made;
  }();
  return *names;
}

}  // namespace

FakeTorch::FakeTorch() {
  installed();
  current = this;
  begin_numbers();
}

FakeTorch::~FakeTorch() {
  current = nullptr;
  CHECK(PyErr_Occurred() == nullptr);
  PyErr_Clear();
}

TensorType tensor_type(Dims shape, Dims strides, DType dtype, bool requires_grad) {
  TensorType t;
  t.dtype = dtype;
  t.shape = std::move(shape);
  t.strides = std::move(strides);
  t.requires_grad = requires_grad;
  return t;
}

Ref tensor(const Dims& shape, DType dtype, bool requires_grad) {
  const Ref sizes = tuple_of(shape), strides = tuple_of(contiguous_strides(shape));
  return Ref::steal(PyObject_CallFunctionObjArgs(installed()["Tensor"], sizes.get(), strides.get(),
                                                 dtype_to_python(dtype).get(), requires_grad ? Py_True : Py_False,
                                                 nullptr));
}

Ref in_memory_of(PyObject* tensor) { return Ref::steal(PyObject_CallOneArg(installed()["in_memory_of"], tensor)); }

void make_computed(PyObject* tensor) { PyObject_SetAttrString(tensor, "is_leaf", Py_False); }

Names::Names(const char* source) : dict_(Ref::steal(PyDict_New())) {
  PyDict_SetItemString(dict_.get(), "__builtins__", PyEval_GetBuiltins());
  PyDict_SetItemString(dict_.get(), "__name__", str("names").get());
  const Ref hint = Ref::steal(PyCFunction_New(&kNumberHint, nullptr));
  PyDict_SetItemString(dict_.get(), "number_hint", hint.get());
  exec(source);
}

void Names::exec(const char* statement) const {
  const Ref code = Ref::steal(Py_CompileString(statement, "<test>", Py_file_input));
  Ref::steal(PyEval_EvalCode(code.get(), dict_.get(), dict_.get()));
}

Ref Names::eval(const char* expression) const {
  const Ref code = Ref::steal(Py_CompileString(expression, "<test>", Py_eval_input));
  return Ref::steal(PyEval_EvalCode(code.get(), dict_.get(), dict_.get()));
}

PyObject* Names::operator[](const char* name) const {
  PyObject* found = PyDict_GetItemString(dict_.get(), name);
  REQUIRE(found != nullptr);
  return found;
}

Ref str(const char* text) { return Ref::steal(PyUnicode_InternFromString(text)); }

Ref integer(int64_t value) { return Ref::steal(PyLong_FromLongLong(value)); }

std::string repr(PyObject* o) {
  const Ref text = Ref::steal(PyObject_Repr(o));
  return PyUnicode_AsUTF8(text.get());
}

}  // namespace thunder::frontend::test
