#include "jit/evaluate.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/InferenceMode.h>

#include "core/builder.h"
#include "core/error.h"
#include "frontend/hooks.h"
#include "passes/passes.h"
#include "python/text.h"
#include "runtime/convert.h"
#include "runtime/interop.h"
#include "runtime/program.h"
#include "runtime/torch_py.h"

namespace thunder {

namespace {

// Operators in Python run on real tensors, and what they call is no call of a program that is being traced.
class WithoutTorchFunction {
 public:
  WithoutTorchFunction() { set(at::impl::TorchFunctionDisabledState::ALL_DISABLED); }
  ~WithoutTorchFunction() { set(before_); }

 private:
  using State = at::impl::PythonTorchFunctionTLS;
  static void set(at::impl::TorchFunctionDisabledState s) { State::set_disabled_state(s); }
  at::impl::TorchFunctionDisabledState before_ = State::get_disabled_state();
};

std::vector<c10::IValue> run_below(const Trace& trace, std::vector<c10::IValue> inputs) {
  return run_below_autograd(*plain_program(trace), std::move(inputs));
}

Ref run(const Trace& trace, std::vector<c10::IValue> inputs) {
  std::vector<c10::IValue> results = run_below(trace, std::move(inputs));
  size_t next = 0;
  return frontend::to_python(trace.output, [&](Value) { return to_python(results[next++]); });
}

}  // namespace

std::vector<c10::IValue> run_below_autograd(const Program& program, std::vector<c10::IValue> inputs) {
  WithoutTorchFunction apart;
  BelowAutograd below;
  return program.run(std::move(inputs));
}

std::shared_ptr<Program> plain_program(const Trace& trace) {
  bool ready = true;
  for (const Call* c : trace.calls) ready = ready && !c->op->executor.empty();
  return Program::build(ready ? trace : claim(trace, Executors::instance().always()));
}

c10::IValue program_input(PyObject* object, bool whole_storage) {
  if (!frontend::is_tensor(object)) return from_python(object);
  const at::Tensor& t = torch_py::tensor(object);
  if (!whole_storage) return t;
  auto [offset, count] = frontend::hooks().place_in_storage(object);
  return t.as_strided({count}, {1}, 0);
}

std::vector<Ref> run_now(const Trace& trace, const std::vector<frontend::RealInput>& inputs) {
  // The program may save what it reads for its backward.
  c10::InferenceMode normal(false);
  std::vector<c10::IValue> given;
  for (const frontend::RealInput& i : inputs) given.push_back(program_input(i.object.get(), i.whole_storage));
  std::vector<Ref> out;
  for (const c10::IValue& v : run_below(trace, std::move(given))) out.push_back(to_python(v));
  return out;
}

Ref evaluate(const std::string& name, PyObject* args, PyObject* kwargs) {
  adopt_default_dtype();
  auto arena = std::make_shared<Arena>();
  Builder b(arena);
  ShapeEnv shapes;
  ShapeEnv::Scope scope(shapes);
  std::vector<c10::IValue> inputs;
  auto tensor = [&](PyObject* t) -> Arg {
    inputs.emplace_back(torch_py::tensor(t));
    return b.input(frontend::hooks().type_of(t));
  };
  ArgList positional;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i)
    positional.push_back(frontend::to_arg(PyTuple_GET_ITEM(args, i), tensor));
  std::vector<std::pair<std::string, Arg>> keyword;
  PyObject *key, *value;
  for (Py_ssize_t pos = 0; kwargs && PyDict_Next(kwargs, &pos, &key, &value);)
    keyword.emplace_back(printable(key), frontend::to_arg(value, tensor));

  Arg output = b.call_named(name, std::move(positional), std::move(keyword));
  return run(b.finish("evaluate", output), std::move(inputs));
}

Ref evaluate(const Trace& constant) { return run(constant, {}); }

}  // namespace thunder
