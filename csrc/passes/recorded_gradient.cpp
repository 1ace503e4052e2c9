#include "passes/recorded_gradient.h"

#include "core/error.h"
#include "core/rewrite.h"

namespace thunder {
namespace {

// The gradient, put for whichever argument holds the value.
void put(VjpContext& c, Value input, const Arg& gradient) {
  const std::vector<Param>& params = c.call.op->schema.params;
  for (size_t i = 0; i < params.size(); ++i) {
    const Arg& a = c.call.args[i];
    if (a.is_value() && a.value() == input) return c.put(params[i].name, gradient);
    if (!a.is_sequence()) continue;
    for (size_t j = 0; j < a.items().size(); ++j)
      if (a.items()[j].is_value() && a.items()[j].value() == input) return c.put(params[i].name, j, gradient);
  }
}

void replay(VjpContext& c) {
  const auto& rule = *static_cast<const RecordedGradient*>(c.call.op->context);
  Substitution map;
  // Passes may have renamed the call's values since the rule ran.
  auto rename = [&](const std::vector<Value>& from, const std::vector<Value>& to) {
    for (size_t i = 0; i < from.size() && i < to.size(); ++i)
      if (!(from[i] == to[i])) map.replace(from[i], to[i]);
  };
  for (size_t i = 0; i < rule.args.size(); ++i) rename(values_in(rule.args[i]), values_in(c.call.args[i]));
  std::vector<Value> results = values_in(rule.output);
  rename(results, values_in(c.call.output));
  const ArgList single{rule.output};
  const ArgList& flat = rule.output.is_sequence() ? rule.output.items() : single;
  for (const auto& [result, placeholder] : rule.placeholders)
    for (size_t i = 0; i < flat.size(); ++i)
      if (flat[i].is_value() && flat[i].value() == result) map.replace(placeholder, c.grad_or_zeros(i).arg());
  for (const Call* call : rule.backward) {
    Arg made = c.b.call(*call->op, map(call->args));
    std::vector<Value> from = values_in(call->output), to = values_in(made);
    THUNDER_ASSERT(from.size() == to.size(), call->op->full_name, " gave other results when it was made again");
    for (size_t i = 0; i < from.size(); ++i) map.replace(from[i], to[i]);
  }
  for (const auto& [input, gradient] : rule.puts) put(c, map(input).value(), map(gradient));
}

}  // namespace

TensorType placeholder_type(const TensorType& result) {
  TensorType t = result;
  t.requires_grad = false;
  t.strides = preserve_format_strides(result);
  return t;
}

const Op& operator_of(Arena& arena, std::shared_ptr<RecordedGradient> rule, const std::string& name,
                      std::vector<Param> params, std::string results) {
  const std::string last = name.substr(name.rfind('.') + 1);
  OpDef def;
  std::string schema = last + "() -> any";
  def.schema = schema;
  def.vjp = replay;
  def.context = rule.get();
  auto op = std::make_unique<Op>("augmented", def);
  op->name = op->full_name = "augmented." + name;
  op->print_name = last + "_augmented";
  op->schema.params = std::move(params);
  op->schema.results = std::move(results);
  op->context_owner = std::move(rule);
  return arena.own(std::move(op));
}

}  // namespace thunder
