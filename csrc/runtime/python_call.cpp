// Calls of operators implemented in Python.
#include <ATen/ATen.h>

#include <sstream>

#include "core/error.h"
#include "python/gil.h"
#include "python/literals.h"
#include "runtime/instruction.h"
#include "runtime/interop.h"
#include "runtime/python_error.h"
#include "runtime/torch_py.h"

namespace thunder {
namespace {

// An argument: a constant object, the object of a register or a size, or a container of those.
struct ArgumentTemplate {
  std::shared_ptr<void> constant;
  Operand operand;
  std::vector<ArgumentTemplate> items;
  bool tuple = false;

  Ref make(Frame& frame) const {
    if (constant) return Ref::borrow(static_cast<PyObject*>(constant.get()));
    if (operand.kind != Operand::Kind::List) return to_python(operand.load(frame));
    const auto n = static_cast<Py_ssize_t>(items.size());
    Ref out = checked(tuple ? PyTuple_New(n) : PyList_New(n));
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* item = items[static_cast<size_t>(i)].make(frame).release();
      if (tuple) PyTuple_SET_ITEM(out.get(), i, item);
      else PyList_SET_ITEM(out.get(), i, item);
    }
    return out;
  }
};

bool is_constant(const Arg& a) {
  bool values = false;
  visit_values(a, [&](Value) { values = true; });
  for_each_symbol(a, [&](SymbolId) { values = true; });
  return !values;
}

ArgumentTemplate make_template(const Arg& a, const Assembler& assembler) {
  ArgumentTemplate t;
  if (is_constant(a)) {
    Gil gil;
    t.constant = hold_python(checked([&] { return literal_to_python(a); }).get());
  } else if (a.is_sequence()) {
    t.operand.kind = Operand::Kind::List;
    t.tuple = a.kind() == Arg::Kind::Tuple;
    for (const Arg& item : a.items()) t.items.push_back(make_template(item, assembler));
  } else {
    THUNDER_CHECK(a.is_value() || a.kind() == Arg::Kind::Int, NotImplemented, "call",
                  "a dict or slice that holds values cannot be passed to a Python executor");
    t.operand = assembler.natural(a);
  }
  return t;
}

// What the trace says of a result.
struct Promise {
  bool tensor = false, constant = false;  // constant: of sizes and strides that are numbers
  bool strided = true;
  std::vector<int64_t> sizes, strides;
};

Promise promise(Value v) {
  Promise p{.tensor = true, .sizes = {}, .strides = {}};
  p.strided = v.tensor().strided();
  p.constant = all_constant(v.shape()) && all_constant(v.tensor().strides);
  if (!p.constant) return p;
  for (const Dim& d : v.shape()) p.sizes.push_back(d.constant());
  for (const Dim& d : v.tensor().strides) p.strides.push_back(d.constant());
  return p;
}

std::string text(at::IntArrayRef sizes) {
  std::ostringstream s;
  s << sizes;
  return s.str();
}

class PythonCall final : public Instruction {
 public:
  PythonCall(const Call& call, const Assembler& assembler)
      : name_(call.op->full_name), callable_(call.op->context_owner) {
    THUNDER_CHECK(callable_, NotImplemented, call.op->full_name, "the executor '", call.op->executor,
                  "' registered no function for this operator");
    moves_operands = false;
    sequence_ = call.output.is_sequence();
    for (Value v : flat_results(call.output)) promised_.push_back(v && v.type().is_tensor() ? promise(v) : Promise{});
    const auto& params = call.op->schema.params;
    std::vector<std::string> names;
    for (size_t i = 0; i < params.size(); ++i) {
      arguments_.push_back(make_template(call.args[i], assembler));
      if (params[i].keyword_only) names.push_back(params[i].name);
    }
    if (names.empty()) return;
    Gil gil;
    const Ref tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(names.size())));
    for (size_t i = 0; i < names.size(); ++i)
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), PyUnicode_InternFromString(names[i].c_str()));
    keywords_ = hold_python(tuple.get());
    num_keywords_ = names.size();
  }

  bool needs_python() const override { return true; }
  std::string str() const override { return name_; }

  void run(Frame& frame) const override {
    Gil gil;
    std::vector<Ref> owned;
    std::vector<PyObject*> arguments;
    for (const ArgumentTemplate& t : arguments_) {
      owned.push_back(t.make(frame));
      arguments.push_back(owned.back().get());
    }
    const Ref result =
        checked(PyObject_Vectorcall(static_cast<PyObject*>(callable_.get()), arguments.data(),
                                    arguments.size() - num_keywords_, static_cast<PyObject*>(keywords_.get())));
    owned.clear();
    drop(frame);
    store(frame, result.get());
  }

 private:
  void store(Frame& frame, PyObject* result) const {
    if (!sequence_) {
      if (!outputs.empty()) store(frame, 0, result);
      return;
    }
    THUNDER_CHECK(PyTuple_Check(result) || PyList_Check(result), Type, name_, "returned a ", Py_TYPE(result)->tp_name,
                  ", its meta function gives ", outputs.size(), " results: return a tuple");
    const Ref items = checked(PySequence_Fast(result, ""));
    auto n = static_cast<size_t>(PySequence_Fast_GET_SIZE(items.get()));
    THUNDER_CHECK(n == outputs.size(), Runtime, name_, "returned ", n, " results, its meta function gives ",
                  outputs.size());
    for (size_t i = 0; i < n; ++i) store(frame, i, PySequence_Fast_GET_ITEM(items.get(), static_cast<Py_ssize_t>(i)));
  }

  void store(Frame& frame, size_t i, PyObject* result) const {
    THUNDER_CHECK(!promised_[i].tensor || torch_py::is_tensor(result), Type, name_, "returned a ",
                  Py_TYPE(result)->tp_name, " as result ", i, ", where its meta function gives a tensor");
    if (outputs[i] < 0) return;
    frame.registers[outputs[i]] = from_python(result);
    if (promised_[i].constant) frame.registers[outputs[i]] = as_promised(i, frame.registers[outputs[i]].toTensor());
  }

  // What comes after was compiled for the layout that the meta function gave.
  at::Tensor as_promised(size_t i, at::Tensor t) const {
    const Promise& p = promised_[i];
    THUNDER_CHECK(t.sizes().vec() == p.sizes, Runtime, name_, "returned a tensor of shape ", text(t.sizes()),
                  " as result ", i, ", where its meta function gives ", text(p.sizes),
                  ": sizes that depend on data are not supported");
    // A sparse tensor's gradient may be of another layout, as eager's may.
    if (!p.strided) return t;
    if (t.layout() != at::kStrided) t = t.to_dense();
    bool same = true;
    for (size_t d = 0; d < p.sizes.size(); ++d) same &= p.sizes[d] == 1 || t.stride(d) == p.strides[d];
    if (same || t.numel() == 0) return t;
    at::Tensor copy = at::empty_strided(p.sizes, p.strides, t.options());
    copy.copy_(t);
    return copy;
  }

  std::string name_;
  std::shared_ptr<void> callable_, keywords_;
  size_t num_keywords_ = 0;
  bool sequence_ = false;
  std::vector<Promise> promised_;  // by the meta function, for each result
  std::vector<ArgumentTemplate> arguments_;
};

}  // namespace

std::unique_ptr<Instruction> lower_python_call(const Call& call, const Assembler& assembler) {
  return std::make_unique<PythonCall>(call, assembler);
}

}  // namespace thunder
