// Executors, operators and rules made in Python: thunder.extend.
#include "bindings/bind.h"
#include "bindings/types.h"
#include "frontend/tracer.h"
#include "jit/python_gradient.h"
#include "jit/python_rules.h"
#include "passes/autodiff.h"
#include "passes/executor.h"
#include "runtime/recorded_graph.h"
#include "runtime/torch_py.h"

namespace thunder::bindings {
namespace {

Ref ref(nb::handle h) { return Ref::borrow(h.is_none() ? nullptr : h.ptr()); }

/// An executor whose class is Python's.
class PythonExecutor : public Executor {
 public:
  PythonExecutor(const std::string& name, const std::string& version, std::string unavailable)
      : Executor(name, version), unavailable_(std::move(unavailable)) {
    // Calls name their executor, and who runs the calls of these names is no Python code.
    THUNDER_CHECK(!name.empty() && !Executors::instance().is_reserved(name), Value, "Executor", "the name '", name,
                  "' is taken by Thunder itself; give the executor another one");
    Executors::instance().made(name);
  }
  std::string unavailable() const override { return unavailable_; }

 private:
  std::string unavailable_;
};

class PythonFusionExecutor final : public PythonExecutor {
 public:
  using PythonExecutor::PythonExecutor;
  bool is_fusion() const override { return true; }
  Trace fuse(const Trace& trace, const FusionOptions& /*options*/, const Repeated& /*repeated*/) const override {
    nb::gil_scoped_acquire gil;
    nb::object result = nb::find(this).attr("fusion_pass")(PyTrace{trace});
    PyTrace* made = nullptr;
    THUNDER_CHECK(nb::try_cast(result, made) && made, Type, name(), "fusion_pass() must return a trace, got ",
                  nb::cast<std::string>(result.type().attr("__name__")));
    return made->trace;
  }
};

Arg literal(nb::handle h) {
  return frontend::to_arg(h.ptr(), [](PyObject*) -> Arg {
    throw Error(ErrorKind::Type, "[register_operator] a tensor cannot be the default of a parameter");
  });
}

// (callable, name, positional parameters, keyword-only parameters, *args?, **kwargs?), or None.
PythonFunction python_function(nb::handle h) {
  PythonFunction f;
  if (h.is_none()) return f;
  f.callable = ref(h[0]);
  f.name = nb::cast<std::string>(h[1]);
  f.positional = nb::cast<std::vector<std::string>>(h[2]);
  f.keyword = nb::cast<std::vector<std::string>>(h[3]);
  f.any_positional = nb::cast<bool>(h[4]);
  f.any_keyword = nb::cast<bool>(h[5]);
  return f;
}

// A list of (name, keyword-only?, (default,) or ()).
std::vector<Param> parameters(const nb::list& list) {
  std::vector<Param> out;
  for (nb::handle h : list) {
    Param p;
    p.name = nb::cast<std::string>(h[0]);
    p.keyword_only = nb::cast<bool>(h[1]);
    nb::tuple given = nb::cast<nb::tuple>(h[2]);
    if (given.size() > 0) p.default_value = literal(given[0]);
    out.push_back(std::move(p));
  }
  return out;
}

const Op& make_operator(PythonExecutor& executor, const std::string& name, const std::string& doc,
                        const nb::list& params, uint64_t tags, nb::handle meta, nb::handle like, nb::handle fn) {
  PythonOperator op;
  op.name = name;
  op.doc = doc;
  op.params = parameters(params);
  op.tags = tags;
  op.meta = python_function(meta);
  op.like = python_function(like);
  op.fn = ref(fn);
  return register_python_operator(executor, std::move(op));
}

// `symbol`: with or without overload.  `op`: full name of the operator that runs it, or empty.
void implement(PythonExecutor& executor, const std::string& symbol, const std::string& op, nb::handle checker,
               nb::handle execution_transform, nb::handle grad_transform) {
  Implementation i;
  if (!checker.is_none()) i.checker = python_checker(python_function(checker));
  if (!op.empty()) {
    const Op& runs = Registry::instance().get(op);
    // Called anew and not put in the place of the call: the operator's own meta knows the layout of what it returns.
    i.transform = call_of(runs);
    i.checker = [fit = fits(runs), also = i.checker](const Call& call) { return fit(call) && (!also || also(call)); };
  }
  if (!execution_transform.is_none()) i.transform = python_transform(python_function(execution_transform));
  if (!grad_transform.is_none()) i.grad_transform = python_gradient_rule(python_function(grad_transform));
  executor.register_implementation(symbol, std::move(i));
}

nb::object new_tensor(frontend::Tracer& t, nb::handle like, nb::handle shape, nb::handle dtype, nb::handle device,
                      nb::handle requires_grad, nb::handle strides, const std::string& layout, int64_t dense_dims) {
  TensorType type;
  if (!like.is_none()) {
    type = t.tensors().type_of(like.ptr());
    type.strides = preserve_format_strides(type);
  }
  auto dims_of = [&](nb::handle list) {
    Dims dims;
    Arg sizes = t.tensors().convert(nb::list(list).ptr());
    for (const Arg& a : sizes.items()) dims.push_back(a.is_value() ? a.value().type().number().dim.value() : a.dim());
    return dims;
  };
  if (!shape.is_none()) {
    Dims dims = dims_of(shape);
    if (like.is_none() || !same(dims, type.shape)) type.strides = contiguous_strides(dims);
    type.shape = std::move(dims);
  }
  if (!strides.is_none()) type.strides = dims_of(strides);
  std::optional<Layout> l = layout_from_name(layout);
  THUNDER_CHECK(l, Value, "TensorProxy", "there are no tensors of layout '", layout, "'");
  if (like.is_none()) {
    type.layout = *l;
    type.dense_dims = dense_dims;
  }
  if (!type.strided()) type.strides.clear();
  if (!dtype.is_none()) type.dtype = literal(dtype).dtype();
  if (!device.is_none()) {
    Arg d = literal(device);
    type.device = d.kind() == Arg::Kind::Str ? Device::parse(d.str()) : d.device();
  }
  if (!requires_grad.is_none()) type.requires_grad = nb::cast<bool>(requires_grad);
  return object(t.tensors().new_tensor(std::move(type)));
}

std::vector<at::Tensor> tensors(const nb::sequence& list) {
  std::vector<at::Tensor> out;
  for (nb::handle h : list) out.push_back(torch_py::tensor(h.ptr()));
  return out;
}

nb::list gradients(const RecordedGraph& graph, const std::vector<size_t>& outputs, const nb::sequence& cotangents,
                   bool keep) {
  std::vector<std::pair<size_t, at::Tensor>> given;
  for (size_t i : outputs) given.emplace_back(i, torch_py::tensor(nb::object(cotangents[given.size()]).ptr()));
  nb::list out;
  for (at::Tensor& t : graph.gradients(given, keep)) out.append(nb::steal(THPVariable_Wrap(std::move(t))));
  return out;
}

}  // namespace

void bind_extend(nb::module_& m) {
  nb::class_<PythonExecutor, Executor>(m, "PythonExecutor")
      .def(nb::init<const std::string&, const std::string&, std::string>(), nb::arg("name"), nb::arg("version"),
           nb::arg("unavailable"))
      .def("_make_operator", make_operator, nb::rv_policy::reference, nb::arg("name"), nb::arg("doc"),
           nb::arg("params"), nb::arg("tags"), nb::arg("meta").none(), nb::arg("like").none(), nb::arg("fn").none())
      .def("_implement", implement, nb::arg("symbol"), nb::arg("op"), nb::arg("checker").none(),
           nb::arg("execution_transform").none(), nb::arg("grad_transform").none());
  nb::class_<PythonFusionExecutor, PythonExecutor>(m, "PythonFusionExecutor")
      .def(nb::init<const std::string&, const std::string&, std::string>(), nb::arg("name"), nb::arg("version"),
           nb::arg("unavailable"));
  nb::class_<RecordedGraph>(m, "RecordedGraph", "What autograd recorded from `inputs`, which are leaves, to `outputs`.")
      .def(
          "__init__",
          [](RecordedGraph* self, const nb::sequence& inputs, const nb::sequence& outputs) {
            new (self) RecordedGraph(tensors(inputs), tensors(outputs));
          },
          nb::arg("inputs"), nb::arg("outputs"))
      .def("gradients", gradients, nb::arg("outputs"), nb::arg("cotangents"), nb::arg("keep"),
           "Of the inputs, from those of the outputs with these numbers.");
  m.def("register_gradient_rule", [](const std::string& symbol, nb::handle rule) {
    register_gradient_rule(symbol, python_gradient_rule(python_function(rule)));
  });
  m.def("unregister_gradient_rule", [](const std::string& symbol) { register_gradient_rule(symbol, {}); });
  m.def("get_grad", [](nb::handle result) { return object(get_grad(result.ptr())); });
  m.def(
      "put_grad", [](nb::handle argument, nb::handle gradient) { put_grad(argument.ptr(), gradient.ptr()); },
      nb::arg("argument"), nb::arg("gradient").none());
  m.def("new_tensor", new_tensor, nb::arg("tracer"), nb::arg("like").none(), nb::arg("shape").none(),
        nb::arg("dtype").none(), nb::arg("device").none(), nb::arg("requires_grad").none(), nb::arg("strides").none(),
        nb::arg("layout") = "strided", nb::arg("dense_dims") = 0);
}

}  // namespace thunder::bindings
