#include "jit/distribution.h"

#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "core/error.h"
#include "passes/visit.h"
#include "python/gil.h"
#include "runtime/distributed/watch.h"
#include "runtime/interop.h"
#include "runtime/torch_py.h"

namespace thunder {

using distributed::Placement;
using frontend::InputSource;

namespace {

// From the first process's compilation to the last one's.
constexpr std::chrono::minutes kMostCompilation{10};

using Placements = std::vector<std::shared_ptr<const Placement>>;

std::string order_of_first(const distributed::CommunicationPlan& plan, const std::string& own,
                           const std::string& known) {
  const WithoutGil released(true);
  const std::string key = cat(plan.id, " order: ", known);
  std::string first = own;
  // The first process gives it to those with its rows, of which each gives it to the rest of its group.
  if (plan.copies > 1) first = distributed::from_first(plan.replicas, key, first, kMostCompilation, plan.first_copy);
  return distributed::from_first(plan.group, key, first, kMostCompilation, plan.first);
}

[[noreturn]] void refuse(const Placement& p, const char* what) {
  throw Error(ErrorKind::NotImplemented,
              cat("[distributed] the program ", what, " the sharded parameter ", p.planned().name,
                  ", of which this process holds a part. Do so outside of the compiled function"));
}

void check_uses(const frontend::Acquired& acquired, const Placements& placements) {
  ValueMap<const Placement*> sharded;
  for (size_t i = 0; i < placements.size(); ++i)
    if (placements[i] && placements[i]->plan && placements[i]->planned().sharded)
      sharded.set(acquired.computation.inputs[i], placements[i].get());
  visit_values(acquired.computation.output, [&](Value v) {
    if (sharded[v]) refuse(*sharded[v], "returns");
  });
  if (acquired.trivial_epilogue) return;
  for (const Call* c : acquired.epilogue.calls)
    visit_all_inputs(*c, [&](Value v) {
      if (sharded[v]) refuse(*sharded[v], c->op->has(kWrite) ? "writes to" : "returns");
    });
  visit_values(acquired.epilogue.output, [&](Value v) {
    if (sharded[v]) refuse(*sharded[v], "returns");
  });
}

void add_unread(frontend::Acquired& acquired, DistributedInputs& out) {
  Placements all = distributed::placements_of(*out.distribution.plan);
  for (const auto& [value, index] : out.distribution.inputs) all[index] = nullptr;
  Trace& epilogue = acquired.epilogue;
  for (const std::shared_ptr<const Placement>& p : all) {
    if (!p) continue;
    const auto place = static_cast<ptrdiff_t>(acquired.sources.size());
    auto* object = static_cast<PyObject*>(p->local_object.get());
    acquired.sources.push_back({.kind = InputSource::Captured, .tensor = Ref::borrow(object)});
    out.placements.push_back(p);
    if (!acquired.trivial_epilogue)
      epilogue.inputs.insert(epilogue.inputs.begin() + place, epilogue.arena->make_value(p->planned().local));
  }
}

// Of a DTensor that belongs to no plan.
std::shared_ptr<const Placement> lone_placement(const InputSource& s) {
  Placement p;
  p.object = hold_python(s.dtensor.get());
  p.local = torch_py::tensor(s.tensor.get());
  p.local_object = hold_python(s.tensor.get());
  p.wrap = hold_python(s.wrap.get());
  p.trainable = p.current().requires_grad();
  // An optimizer writes to the DTensor; what a program saved of its memory has to tell.
  torch::autograd::impl::set_version_counter(p.local, torch::autograd::impl::version_counter(p.current()));
  return std::make_shared<const Placement>(std::move(p));
}

}  // namespace

DistributedInputs find_distributed(frontend::Acquired& acquired) {
  DistributedInputs out;
  out.placements.resize(acquired.sources.size());
  for (size_t i = 0; i < acquired.sources.size(); ++i) {
    const InputSource& s = acquired.sources[i];
    if (s.kind != InputSource::Captured) continue;
    if (s.dtensor) {
      out.placements[i] = lone_placement(s);
      continue;
    }
    std::shared_ptr<const Placement> p = distributed::placement_of(s.tensor.get());
    if (!p) continue;
    THUNDER_CHECK(!out.distribution || out.distribution.plan == p->plan, NotImplemented, "distributed",
                  "the function uses ", p->planned().name,
                  " and parameters of another distributed model; compile them one by one");
    out.distribution.plan = p->plan;
    out.distribution.inputs.emplace_back(acquired.computation.inputs[i], p->index);
    out.placements[i] = std::move(p);
  }
  if (!out.distribution) {
    const bool any =
        std::any_of(out.placements.begin(), out.placements.end(), [](const auto& p) { return p != nullptr; });
    if (!any) out.placements.clear();
    return out;
  }
  check_told(*out.distribution.plan);
  out.distribution.mode = out.distribution.plan->mode();
  check_uses(acquired, out.placements);
  add_unread(acquired, out);
  return out;
}

std::string part_that_leaves(const frontend::Acquired& acquired) {
  ValueSet parts;
  for (size_t i = 0; i < acquired.sources.size(); ++i)
    if (acquired.sources[i].dtensor) parts.set(acquired.computation.inputs[i], 1);
  std::string why;
  auto look = [&](Value v) {
    if (parts[v]) why = "the function returns, or writes to, what this process holds of a DTensor";
  };
  visit_values(acquired.computation.output, look);
  if (acquired.trivial_epilogue) return why;
  for (const Call* c : acquired.epilogue.calls) visit_all_inputs(*c, look);
  visit_values(acquired.epilogue.output, look);
  return why;
}

void check_parameters(PyObject* module) {
  PyObject* state = PyObject_GetAttrString(module, "_thunder_plan");
  if (!state) return PyErr_Clear();  // a function, or a part of a wrapped module
  const Ref owned = Ref::steal(state);
  PyObject* checked = PyObject_CallMethod(state, "check", "O", module);
  if (!checked) throw PythonError();
  Py_DECREF(checked);
}

Compiled compile_in_agreement(const distributed::Distribution& d, const std::function<Compiled()>& compile) {
  if (!d) return compile();
  distributed::CommunicationOrder& order = d.plan->order;
  const distributed::CommunicationOrder before = order;
  Compiled out = compile();
  if (before.known() == order.known() || d.plan->world * d.plan->copies == 1) return out;
  const std::string own = order.str();
  const std::string first = order_of_first(*d.plan, own, order.known());
  if (first == own) return out;
  order = distributed::CommunicationOrder::parse(first);
  return compile();
}

void check_told(const distributed::CommunicationPlan& plan) {
  THUNDER_CHECK(!plan.joining || plan.told, NotImplemented, "join",
                "processes without data do not know of this call of a distributed module. Within join() call what "
                "thunder.jit(module) returned, not another compiled function that calls the module or is a part of it");
}

bool knows_order(const distributed::CommunicationPlan& plan, const CallOfModule& call) {
  const distributed::CommunicationOrder& o = plan.order;
  return o.gathers && (!call.differentiates || o.regathers) && (!call.reduces || o.reductions);
}

void await_order(distributed::CommunicationPlan& plan, const CallOfModule& call) {
  if (knows_order(plan, call)) return;
  distributed::CommunicationOrder will = plan.order;
  if (!will.gathers) will.gathers.emplace();
  if (call.differentiates && !will.regathers) will.regathers.emplace();
  if (call.reduces && !will.reductions) will.reductions.emplace();
  plan.order = distributed::CommunicationOrder::parse(order_of_first(plan, "", will.known()));
}

}  // namespace thunder
