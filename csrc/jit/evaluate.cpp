#include "jit/evaluate.h"

#include "core/builder.h"
#include "core/error.h"
#include "frontend/hooks.h"
#include "passes/passes.h"
#include "runtime/convert.h"
#include "runtime/interop.h"
#include "runtime/program.h"
#include "runtime/torch_py.h"

namespace thunder {

using frontend::Ref;

namespace {

Ref run(Trace trace, std::vector<c10::IValue> inputs) {
  bool ready = true;
  for (const Call* c : trace.calls) ready = ready && !c->op->executor.empty();
  if (!ready) trace = claim(trace, Executors::instance().always());
  std::shared_ptr<Program> program = Program::build(trace);
  std::vector<c10::IValue> results;
  {
    BelowAutograd below;
    results = program->run(std::move(inputs));
  }
  size_t next = 0;
  return frontend::to_python(trace.output, [&](Value) { return Ref::steal(to_python(results[next++])); });
}

}  // namespace

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
    keyword.emplace_back(PyUnicode_AsUTF8(key), frontend::to_arg(value, tensor));

  Arg output = b.call_named(name, std::move(positional), std::move(keyword));
  return run(b.finish("evaluate", output), std::move(inputs));
}

Ref evaluate(const Trace& constant) { return run(constant, {}); }

}  // namespace thunder
