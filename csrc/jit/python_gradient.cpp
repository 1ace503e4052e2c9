#include "jit/python_gradient.h"

#include <algorithm>

#include "core/error.h"
#include "passes/recorded_gradient.h"
#include "passes/visit.h"

namespace thunder {

using frontend::Tracer;

namespace {

// A rule while it runs.
struct Recording {
  Tracer& tracer;
  std::string op;
  std::vector<std::pair<Value, Value>> placeholders;  // (result, what stands for its gradient)
  std::vector<std::pair<Value, Arg>> puts;            // (argument, gradient)
};

thread_local std::vector<Recording*> recordings;

Recording& current(const char* what) {
  THUNDER_CHECK(!recordings.empty(), Runtime, what, "is called outside of a gradient rule");
  return *recordings.back();
}

Value tensor_of(Recording& r, PyObject* o, const char* what) {
  Arg a = frontend::is_tensor(o) ? r.tracer.tensors().convert(o) : Arg();
  THUNDER_CHECK(a.is_tensor(), Type, r.op, what, " takes a tensor of the rule, got ", Py_TYPE(o)->tp_name);
  return a.value();
}

// Splits what the rule recorded.
std::vector<const Call*> split(const std::vector<const Call*>& calls, const std::string& op, RecordedGradient& rule) {
  ValueSet late, needed;
  for (const auto& [result, placeholder] : rule.placeholders) late.set(placeholder, 1);
  visit_values(rule.output, [&](Value v) { needed.set(v, 1); });
  std::vector<char> is_late(calls.size(), 0), is_forward(calls.size(), 0);
  for (size_t i = 0; i < calls.size(); ++i) {
    visit_all_inputs(*calls[i], [&](Value v) { is_late[i] |= late[v]; });
    if (is_late[i]) visit_outputs(*calls[i], [&](Value v) { late.set(v, 1); });
  }
  visit_values(rule.output, [&](Value v) {
    THUNDER_CHECK(!late[v], Value, op, "a result of the gradient rule depends on get_grad()");
  });
  std::vector<const Call*> forward;
  for (size_t i = calls.size(); i-- > 0;) {
    if (is_late[i]) continue;
    bool wanted = effects(*calls[i]) != 0;
    visit_outputs(*calls[i], [&](Value v) { wanted |= needed[v] != 0; });
    if (!wanted) continue;
    is_forward[i] = 1;
    visit_all_inputs(*calls[i], [&](Value v) { needed.set(v, 1); });
    forward.push_back(calls[i]);
  }
  std::reverse(forward.begin(), forward.end());
  for (size_t i = 0; i < calls.size(); ++i)
    if (!is_forward[i]) rule.backward.push_back(calls[i]);
  return forward;
}

void check(const RecordedGradient& rule, const Args& args) {
  std::vector<Value> inputs, results = values_in(rule.output);
  for (const Arg& a : args.list()) visit_values(a, [&](Value v) { inputs.push_back(v); });
  auto has = [](const std::vector<Value>& list, Value v) {
    return std::find(list.begin(), list.end(), v) != list.end();
  };
  for (const auto& [result, placeholder] : rule.placeholders)
    THUNDER_CHECK(has(results, result), Value, args.op().name,
                  "get_grad() was asked for the gradient of a tensor that the rule "
                  "does not return");
  for (const auto& [input, gradient] : rule.puts)
    THUNDER_CHECK(has(inputs, input), Value, args.op().name,
                  "put_grad() was given a gradient for a tensor that is no argument of "
                  "the rule");
}

std::vector<const Call*> record(Builder& b, const PythonFunction& f, const Args& args, RecordedGradient& rule) {
  b.open_scope();
  bool pushed = false;
  try {
    Tracer tracer(b);
    Recording recording{tracer, args.op().name, {}, {}};
    recordings.push_back(&recording);
    pushed = true;
    Ref result = call_python(tracer, f, args, cat("the gradient rule '", f.name, "'"));
    recordings.pop_back();
    pushed = false;
    rule.placeholders = std::move(recording.placeholders);
    rule.puts = std::move(recording.puts);
    rule.output = tracer.tensors().convert(result.get());
    check(rule, args);
    // Autodiff must tell the call's results from its arguments, and a gradient asked for the one is that of the other.
    Arg own = distinct_results(b, args, rule.output);
    std::vector<Value> before = values_in(rule.output), after = values_in(own);
    for (auto& [value, placeholder] : rule.placeholders)
      for (size_t i = 0; i < before.size(); ++i)
        if (value == before[i]) {
          value = after[i];
          break;
        }
    rule.output = own;
  } catch (...) {
    if (pushed) recordings.pop_back();
    b.close_scope();
    throw;
  }
  return b.close_scope();
}

}  // namespace

Transform python_gradient_rule(PythonFunction f) {
  return [f = std::make_shared<PythonFunction>(std::move(f))](Builder& b, const Args& args) {
    Gil gil;
    auto rule = std::make_shared<RecordedGradient>();
    std::vector<const Call*> calls = record(b, *f, args, *rule);
    rule->args = args.list();
    std::vector<const Call*> forward = split(calls, args.op().name, *rule);
    Arg output = rule->output;
    const Schema& schema = args.op().schema;
    const Op& op = operator_of(*b.arena(), std::move(rule), args.op().full_name, schema.params, schema.results);
    b.append(b.arena()->make_call(Call{.op = &op,
                                       .args = args.list(),
                                       .output = output,
                                       .body = std::move(forward),
                                       .location = b.location(),
                                       .symbols = {}}));
    return output;
  };
}

Ref get_grad(PyObject* result) {
  Recording& r = current("get_grad");
  Value v = tensor_of(r, result, "get_grad()");
  for (const auto& [value, placeholder] : r.placeholders)
    if (value == v) return r.tracer.tensors().add_value(placeholder);
  Value placeholder = r.tracer.builder().arena()->make_value(placeholder_type(v.tensor()));
  r.placeholders.emplace_back(v, placeholder);
  return r.tracer.tensors().add_value(placeholder);
}

void put_grad(PyObject* argument, PyObject* gradient) {
  Recording& r = current("put_grad");
  Value v = tensor_of(r, argument, "put_grad()");
  if (gradient == Py_None) return;
  r.puts.emplace_back(v, tensor_of(r, gradient, "put_grad()"));
}

}  // namespace thunder
