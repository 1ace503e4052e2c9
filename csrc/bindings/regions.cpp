// What fusion passes in Python do with calls: run them, and put one in the place of several.
#include "bindings/types.h"
#include "executors/aten/record_lowering.h"
#include "frontend/hooks.h"
#include "passes/region.h"
#include "runtime/interop.h"
#include "runtime/program.h"

namespace thunder::bindings {
namespace {

std::vector<const Call*> calls_of(const std::vector<PyCall>& calls) {
  std::vector<const Call*> out;
  for (const PyCall& c : calls) out.push_back(c.call);
  return out;
}

PyTrace replace(const PyTrace& t, const std::vector<PyCall>& calls, nb::handle fn, const std::string& executor,
                const std::string& prefix) {
  OpDef def;
  std::string name = cat(prefix, t.trace.arena->unique(prefix));
  std::string schema = name + "() -> any";
  def.schema = schema;
  auto op = std::make_unique<Op>(executor, def);
  op->print_name = name;
  op->executor = executor;
  op->context_owner = hold_python(fn.ptr());
  return {replace_region(t.trace, calls_of(calls), std::move(op))};
}

// The ATen operator that does what the call does, as (name, overload, arguments, keyword arguments); None if there is
// no such.
nb::object aten_call(const PyCall& c) {
  const Op& op = c.call->op->implements ? *c.call->op->implements : *c.call->op;
  if (op.aten.empty()) return nb::none();
  aten::RecordLowering lowering(op);
  const aten::BoundOperator* bound = lowering.problem().empty() ? lowering.operator_for(c.call->args) : nullptr;
  if (!bound) return nb::none();
  const c10::FunctionSchema& schema = bound->handle.schema();
  nb::list args;
  nb::dict kwargs;
  for (size_t i = 0; i < bound->sources.size(); ++i) {
    const aten::ArgumentSource& s = bound->sources[i];
    if (s.param < 0 && !s.literal) {
      if (schema.arguments()[i].kwarg_only()) continue;
      const auto& value = schema.arguments()[i].default_value();
      if (!value) return nb::none();
      args.append(object(to_python(*value)));
      continue;
    }
    nb::object a = wrap_arg(s.literal ? *s.literal : c.call->args[static_cast<size_t>(s.param)], c.arena);
    if (schema.arguments()[i].kwarg_only()) kwargs[schema.arguments()[i].name().c_str()] = a;
    else args.append(a);
  }
  return nb::make_tuple(schema.name(), schema.overload_name(), args, kwargs);
}

// A call by itself as a Python function of the values that it reads, in the order of its arguments.
nb::object function_of(const PyCall& c) {
  Trace t;
  t.name = c.call->op->print_name;
  t.arena = c.arena;
  for (const Arg& a : c.call->args) t.inputs.push_back(a.value());
  t.calls = {c.call};
  t.output = c.call->output;
  return nb::cpp_function([program = Program::build(t), output = c.call->output](const nb::args& args) {
    std::vector<c10::IValue> inputs, results;
    for (nb::handle a : args) inputs.push_back(from_python(a.ptr()));
    {
      BelowAutograd below;
      results = program->run(std::move(inputs));
    }
    size_t next = 0;
    return object(frontend::to_python(output, [&](Value) { return to_python(results[next++]); }));
  });
}

}  // namespace

void bind_regions(nb::module_& m) {
  m.def("call_aten", aten_call);
  m.def("call_function", function_of, "What runs the call, as a function of its arguments, which are all values.");
  m.def("trace_replace", replace, nb::arg("trace"), nb::arg("calls"), nb::arg("fn"), nb::arg("executor"),
        nb::arg("prefix"));
  m.def(
      "region_values",
      [](const PyTrace& t, const std::vector<PyCall>& calls) {
        RegionValues values = region_values(t.trace, calls_of(calls));
        return std::make_pair(wrap_values(values.inputs, t.trace.arena), wrap_values(values.outputs, t.trace.arena));
      },
      "What the calls read from outside, and what of their results others read.");
}

}  // namespace thunder::bindings
