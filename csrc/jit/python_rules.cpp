#include "jit/python_rules.h"

#include <algorithm>
#include <deque>
#include <exception>

#include "core/error.h"
#include "jit/tracing.h"
#include "runtime/interop.h"

namespace thunder {

using frontend::Tracer;

Ref to_python(Tracer& tracer, const Arg& arg) {
  return frontend::to_python(arg, [&](Value v) { return tracer.tensors().add_value(v); });
}

// ---- fitting --------------------------------------------------------------------------------------------------------

std::optional<PythonFunction::Fitted> PythonFunction::fit(const Args& args, std::string* misfit) const {
  Fitted out;
  auto has = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const std::vector<Param>& params = args.op().schema.params;
  bool left_out = false;
  for (size_t i = 0; i < params.size(); ++i) {
    const Param& p = params[i];
    const Arg& a = args.list()[i];
    bool by_position = !p.keyword_only && !left_out && (any_positional || out.positional.size() < positional.size());
    if (by_position) {
      out.positional.push_back(a);
    } else if (any_keyword || has(keyword, p.name) || (p.keyword_only && has(positional, p.name))) {
      out.keyword.emplace_back(p.name, a);
    } else if (p.default_value && a.same(*p.default_value)) {
      left_out = left_out || !p.keyword_only;
    } else {
      if (misfit) *misfit = p.name;
      return std::nullopt;
    }
  }
  return out;
}

// ---- running Python -------------------------------------------------------------------------------------------------

Ref call_python(Tracer& tracer, const PythonFunction& f, const Args& args, const std::string& who) {
  std::string misfit;
  std::optional<PythonFunction::Fitted> fitted = f.fit(args, &misfit);
  THUNDER_CHECK(fitted, Type, args.op().name, who, " has no parameter '", misfit, "', which the call gives a value");
  auto n = static_cast<Py_ssize_t>(fitted->positional.size());
  Ref positional = Ref::steal(PyTuple_New(n));
  for (Py_ssize_t i = 0; i < n; ++i)
    PyTuple_SET_ITEM(positional.get(), i, to_python(tracer, fitted->positional[static_cast<size_t>(i)]).release());
  Ref keyword = Ref::steal(PyDict_New());
  for (const auto& [name, arg] : fitted->keyword)
    if (PyDict_SetItemString(keyword.get(), name.c_str(), to_python(tracer, arg).get()) != 0) throw PythonError();
  Ref result = function_runner()(tracer, f.callable.get(), positional.get(), keyword.get());
  THUNDER_CHECK(!tracer.tensors().wrote_to_values(), NotImplemented, args.op().name, who,
                " writes to one of its arguments in place");
  return result;
}

Arg distinct_results(Builder& b, const Args& args, const Arg& result) {
  std::vector<Value> seen;
  for (const Arg& a : args.list()) visit_values(a, [&](Value v) { seen.push_back(v); });
  return map_values(result, [&](Value v) -> Arg {
    bool taken = std::find(seen.begin(), seen.end(), v) != seen.end();
    Arg own = taken && v.type().is_tensor() ? b("torch.clone", v).arg() : Arg(v);
    if (own.is_value()) seen.push_back(own.value());
    return own;
  });
}

namespace {

std::string describe(const char* what, const PythonFunction& f) { return cat(what, " '", f.name, "'"); }

// ---- operators ------------------------------------------------------------------------------------------------------

const PythonOperator& record_of(const Op& op) { return *static_cast<const PythonOperator*>(op.context); }

Type result_type(Tracer& tracer, const Args& args, PyObject* object) {
  if (object == Py_None) return {};
  Arg a = tracer.tensors().convert(object);
  if (a.is_tensor()) {
    TensorType t = a.value().tensor();
    bool given = false;
    for (const Arg& x : args.list()) visit_values(x, [&](Value v) { given |= v == a.value(); });
    if (given) t.strides = preserve_format_strides(t);
    t.requires_grad = false;  // the builder knows
    return t;
  }
  if (a.is_value()) return a.value().type();
  THUNDER_CHECK(a.is_literal_number(), Type, args.op().name, "the meta function returned a ", Py_TYPE(object)->tp_name,
                ", expected a tensor, a number, None, or a tuple of these");
  NumberType number;
  number.kind = a.number_kind();
  return number;
}

thread_local size_t failed = 0;

// Counts when it is left by an exception.
class MayFail {
 public:
  MayFail() : before_(std::uncaught_exceptions()) {}
  ~MayFail() {
    if (std::uncaught_exceptions() > before_) ++failed;
  }
  MayFail(const MayFail&) = delete;
  MayFail& operator=(const MayFail&) = delete;

 private:
  int before_;
};

Types meta_thunk(const Args& args) {
  Gil gil;
  const MayFail counted;
  const PythonOperator& op = record_of(args.op());
  Builder scratch(std::make_shared<Arena>());
  Tracer tracer(scratch, true);
  Ref result = call_python(tracer, op.meta, args, describe("the meta function", op.meta));
  PyObject* r = result.get();
  if (!PyTuple_Check(r) && !PyList_Check(r)) return {result_type(tracer, args, r)};
  Types types;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(r); ++i)
    types.push_back(result_type(tracer, args, PySequence_Fast_GET_ITEM(r, i)));
  THUNDER_CHECK(types.size() != 1, Value, args.op().name,
                "the meta function returned a tuple of one; return the result itself");
  return types;
}

Arg body_thunk(Builder& b, const Args& args) {
  Gil gil;
  const MayFail counted;
  const PythonOperator& op = record_of(args.op());
  Tracer tracer(b);
  Ref result = call_python(tracer, op.like, args, describe("the function that the operator is like,", op.like));
  return distinct_results(b, args, tracer.tensors().convert(result.get()));
}

}  // namespace

size_t failed_operators() { return failed; }

const Op& register_python_operator(Executor& executor, PythonOperator definition) {
  THUNDER_CHECK(definition.meta || definition.like, Value, definition.name,
                "an operator needs a meta function or one that it is like, for the shapes and dtypes of its results");
  // Operators are never unregistered: a trace may hold on to one that was replaced.
  static auto* definitions = new std::deque<PythonOperator>();
  definitions->push_back(std::move(definition));
  PythonOperator& d = definitions->back();
  OpDef def;
  std::string schema = d.name + "() -> any";
  def.schema = schema;
  def.doc = d.doc;
  def.tags = d.tags;
  def.meta = d.meta ? meta_thunk : nullptr;
  def.body = d.like ? body_thunk : nullptr;
  def.context = &d;
  auto op = std::make_unique<Op>(executor.name(), def);
  op->schema.params = d.params;
  op->print_name = d.name;
  if (d.fn) {
    op->executor = executor.name();
    op->context_owner = hold_python(d.fn.get());
  }
  return Registry::instance().add(std::move(op), true);
}

// ---- implementations ------------------------------------------------------------------------------------------------

std::function<bool(const Call&)> python_checker(PythonFunction checker) {
  return [checker = std::make_shared<PythonFunction>(std::move(checker))](const Call& call) {
    Gil gil;
    Args args = call.arguments();
    if (!checker->fit(args)) return false;
    Builder scratch(std::make_shared<Arena>());
    Tracer tracer(scratch, true);
    Ref result = call_python(tracer, *checker, args, describe("the checker", *checker));
    int truth = PyObject_IsTrue(result.get());
    if (truth < 0) throw PythonError();
    return truth == 1;
  };
}

Transform python_transform(PythonFunction transform) {
  return [f = std::make_shared<PythonFunction>(std::move(transform))](Builder& b, const Args& args) {
    Gil gil;
    Tracer tracer(b);
    Ref result = call_python(tracer, *f, args, describe("the execution transform", *f));
    return tracer.tensors().convert(result.get());
  };
}

namespace {

PythonFunction parameters_of(const Op& op) {
  PythonFunction f;
  f.name = op.name;
  for (const Param& p : op.schema.params) (p.keyword_only ? f.keyword : f.positional).push_back(p.name);
  return f;
}

}  // namespace

Transform call_of(const Op& op) {
  return [&op, f = parameters_of(op)](Builder& b, const Args& args) {
    std::optional<PythonFunction::Fitted> fitted = f.fit(args);
    THUNDER_ASSERT(fitted, op.name, " was asked to run a call that it does not fit");
    return b.call_named(op.full_name, std::move(fitted->positional), std::move(fitted->keyword));
  };
}

std::function<bool(const Call&)> fits(const Op& op) {
  return [f = parameters_of(op)](const Call& call) { return f.fit(call.arguments()).has_value(); };
}

}  // namespace thunder
