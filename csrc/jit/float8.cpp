#include "jit/float8.h"

#include "core/error.h"
#include "runtime/convert.h"
#include "runtime/distributed/placements.h"
#include "runtime/torch_py.h"

namespace thunder {

using frontend::InputSource;

namespace {

Value add_history(const Ref& history, frontend::Acquired& acquired) {
  const auto place = static_cast<ptrdiff_t>(acquired.sources.size());
  const Value v = acquired.computation.arena->make_value(type_of(torch_py::tensor(history.get())));
  acquired.sources.push_back({.kind = InputSource::Captured, .tensor = history});
  acquired.computation.inputs.push_back(v);
  if (!acquired.trivial_epilogue) acquired.epilogue.inputs.insert(acquired.epilogue.inputs.begin() + place, v);
  return v;
}

}  // namespace

Float8Options find_float8(const Float8Choice& choice, frontend::Acquired& acquired, bool distributed,
                          Float8Layers& told) {
  THUNDER_CHECK(
      !distributed || !choice.history, NotImplemented, "float8",
      "expected scaling='dynamic' for a distributed module, got 'delayed': each process would scale by its own "
      "maxima");
  Float8Options out;
  out.keeps_last = choice.keeps_last;
  for (size_t i = 0; i < choice.layers.size(); ++i) {
    const Float8Choice::Layer& layer = choice.layers[i];
    if (!layer.refusal.empty()) {
      told.others.emplace_back(layer.name, layer.refusal);
      continue;
    }
    // A sharded parameter is not itself what programs take.
    const std::shared_ptr<const distributed::Placement> placed = distributed::placement_of(layer.weight.get());
    const void* taken = placed ? placed->local_object.get() : layer.weight.get();
    Value weight;
    for (size_t s = 0; s < acquired.sources.size() && !weight; ++s)
      if (acquired.sources[s].kind == InputSource::Captured && acquired.sources[s].tensor.get() == taken)
        weight = acquired.computation.inputs[s];
    if (weight) out.layers.push_back({layer.name, weight, static_cast<int64_t>(i)});
    else told.others.emplace_back(layer.name, "the program does not use it");
  }
  const std::vector<std::string> refusals = float8_refusals(acquired.computation, out);
  for (size_t i = 0; i < out.layers.size(); ++i)
    if (refusals[i].empty()) told.layers.push_back(out.layers[i].name);
    else told.others.emplace_back(out.layers[i].name, refusals[i]);
  if (!choice.history || told.layers.empty()) return out;
  out.history = add_history(choice.history, acquired);
  out.delayed = *choice.recorded;
  return out;
}

}  // namespace thunder
