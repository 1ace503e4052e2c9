#include "frontend/outputs.h"

#include <algorithm>
#include <unordered_set>

#include "core/error.h"
#include "core/rewrite.h"
#include "frontend/hooks.h"
#include "passes/visit.h"

namespace thunder::frontend {
namespace {

// How a user's output is made: a computed value and the views that lead from it; an input's own views if `computed`
// is -1.
struct Derived {
  int64_t computed = -1;
  TensorId base = 0;
  std::vector<const Call*> path;
  bool alias = false;     // of what the path leads to
  bool detached = false;  // made where no gradients were recorded
};

}  // namespace

// What the computation must give (new tensors, the new contents of written inputs) and how the user's outputs follow
// from it.
struct Outputs::Plan {
  std::vector<Value> computed;
  std::vector<uint32_t> storages;  // of each computed value, the storage that it becomes
  std::vector<Derived> derived;
  std::vector<std::pair<TensorId, size_t>> written;  // inputs, and which computed value goes into each
  std::vector<size_t> sizes;                         // computed lengths, for the views of the epilogue
  std::vector<std::pair<Value, size_t>> indices;     // the same for tensors that say which part a view is
  bool trivial = true;

  static constexpr uint32_t kNone = ~uint32_t{0};

  size_t compute(Value v, uint32_t storage = kNone) {
    for (size_t i = 0; i < computed.size(); ++i)
      if (computed[i] == v && (storages[i] == storage || storages[i] == kNone || storage == kNone)) {
        if (storage != kNone) storages[i] = storage;
        return i;
      }
    computed.push_back(v);
    storages.push_back(storage);
    return computed.size() - 1;
  }
};

namespace {

// A call and its body: what a pass that opens it will read.
void mark(const Call& call, std::unordered_set<Value, ValueHash>& used) {
  visit_own_inputs(call, [&](Value v) { used.insert(v); });
  for (const Call* inner : call.body) mark(*inner, used);
}

}  // namespace

// Which inputs the computation and the epilogue read.  The numbers that stand in the type of one that is read count:
// gradient rules ask for sizes.
std::vector<bool> Outputs::used_inputs(const Trace& computation, const Plan& plan) const {
  std::unordered_set<Value, ValueHash> used;
  for (const Call* c : computation.calls) mark(*c, used);
  visit_values(computation.output, [&](Value v) { used.insert(v); });
  std::unordered_set<TensorId> needed;
  for (const Derived& d : plan.derived) {
    if (d.computed < 0) needed.insert(d.base);
    for (const Call* view : d.path) mark(*view, used);
  }
  for (const auto& [id, index] : plan.written) needed.insert(id);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    Value v = inputs_.value(i);
    if (inputs_[i].is_number()) continue;
    if (needed.count(inputs_[i].id) != 0) used.insert(v);
    if (used.count(v) == 0) continue;
    for (const Dims* dims : {&v.tensor().shape, &v.tensor().strides})
      for (const Dim& d : *dims)
        for (SymbolId s : d.symbols())
          if (Value number = acquisition_.arena()->symbol_value(s)) used.insert(number);
  }
  std::vector<bool> out;
  for (Value v : b_.inputs()) out.push_back(used.count(v) != 0);
  return out;
}

// Tensors first, then numbers.
std::vector<size_t> Outputs::in_order(const std::vector<bool>& used) const {
  std::vector<size_t> out;
  for (bool number : {false, true})
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (used[i] && inputs_[i].is_number() == number) out.push_back(i);
  return out;
}

Outputs::Plan Outputs::plan(const std::vector<PyObject*>& outputs) {
  std::unordered_map<uint32_t, std::vector<TensorId>> of_storage;
  for (PyObject* o : outputs) {
    if (!is_tensor(o)) continue;
    TensorId id = tensors_.id_of(o);
    std::vector<TensorId>& list = of_storage[aliases_.storage(id)];
    if (std::find(list.begin(), list.end(), id) == list.end()) list.push_back(id);
  }
  const MemoryOf memory_of(b_.calls());
  Plan out;
  for (PyObject* o : outputs) {
    Derived d;
    THUNDER_CHECK(!is_tensor(o) || !aliases_.given_away(tensors_.id_of(o)), NotImplemented, "data",
                  "a compiled function returns or keeps a tensor whose memory was given to another by .data, or taken "
                  "from it");
    if (!is_tensor(o)) {
      Arg number = number_arg(o);
      if (number.kind() == Arg::Kind::Int) number = numbers_.value_of_size(number.dim());
      d.computed = static_cast<int64_t>(out.compute(number.value()));
    } else if (TensorId id = tensors_.id_of(o), base = tensors_.input_itself(id); base != Input::kNumber) {
      d.base = base;
      if (base != id) d.path = aliases_.path(id);
      d.detached = !aliases_.value(id).requires_grad();
      d.alias = aliases_.is_alias(id);
    } else if (of_storage[aliases_.storage(id)].size() > 1 || is_view_of_copy(id, memory_of)) {
      d.computed = static_cast<int64_t>(out.compute(aliases_.base(id), aliases_.storage(id)));
      d.path = aliases_.path(id);
      d.alias = aliases_.is_alias(id);
      d.detached = !aliases_.value(id).requires_grad();
    } else {
      d.computed = static_cast<int64_t>(out.compute(aliases_.value(id), aliases_.storage(id)));
    }
    hooks_.check_views(d.path);
    out.trivial = out.trivial && d.computed == static_cast<int64_t>(out.derived.size()) && d.path.empty() && !d.alias;
    out.derived.push_back(std::move(d));
  }
  for (const Input& i : inputs_)
    if (!i.is_number() && aliases_.written(i.id)) {
      Value v = aliases_.value(i.id);
      if (aliases_.data_only(i.id)) v = b_("prims.detach", v).value();
      out.written.emplace_back(i.id, out.compute(v));
    }
  add_sizes(out);
  add_indices(out);
  out.trivial = out.trivial && out.written.empty();
  give_own_memory(out);
  return out;
}

// A view of memory of its own that holds what copy_() put there, which no call has copied yet.
bool Outputs::is_view_of_copy(TensorId t, const MemoryOf& memory_of) const {
  return !aliases_.path(t).empty() && memory_of(aliases_.base(t)) != aliases_.base(t);
}

// Lengths that only the run knows, where the views of the epilogue mention them.
void Outputs::add_sizes(Plan& out) const {
  std::vector<SymbolId> seen;
  for (const Derived& d : out.derived)
    for (const Call* view : d.path)
      for (const Arg& a : view->args)
        for_each_symbol(a, [&](SymbolId s) {
          if (shapes_.is_unbacked(s) && std::find(seen.begin(), seen.end(), s) == seen.end()) seen.push_back(s);
        });
  for (SymbolId s : seen)
    if (Value number = acquisition_.arena()->symbol_value(s)) out.sizes.push_back(out.compute(number));
}

// x[i], where `i` is a tensor that the program computes, views the caller's `x`.
void Outputs::add_indices(Plan& out) const {
  const std::unordered_set<Value, ValueHash> given(b_.inputs().begin(), b_.inputs().end());
  for (size_t n = 0; n < out.derived.size(); ++n)
    for (const Call* view : out.derived[n].path)
      for (size_t i = 1; i < view->args.size(); ++i)
        visit_values(view->args[i], [&](Value v) {
          if (v.type().is_tensor() && !given.count(v)) out.indices.emplace_back(v, out.compute(v));
        });
}

// What tensors of different memory are made of must not lie in the same: they may have been given equal values by
// copy_().  And what is written to an input must not lie in one that is written to before.
void Outputs::give_own_memory(Plan& out) {
  MemoryOf memory_of(b_.calls());
  std::unordered_set<Value, ValueHash> taken;
  std::vector<bool> returned(out.computed.size());
  for (const Derived& d : out.derived)
    if (d.computed >= 0) returned[static_cast<size_t>(d.computed)] = true;
  for (const auto& [id, index] : out.written)
    if (aliases_.moved(id)) returned[index] = true;
  for (Value v : b_.inputs()) taken.insert(v);
  std::vector<std::pair<size_t, Value>> memories;
  std::unordered_map<Value, int, ValueHash> users;
  for (size_t i = 0; i < out.computed.size(); ++i) {
    if (!out.computed[i].type().is_tensor()) continue;
    memories.emplace_back(i, memory_of(out.computed[i]));
    ++users[memories.back().second];
  }
  // What a clone would lay out otherwise keeps the memory.
  std::stable_partition(memories.begin(), memories.end(), [&](const auto& m) {
    const TensorType& t = out.computed[m.first].tensor();
    return users[m.second] > 1 && t.strided() && !is_non_overlapping_and_dense(t.shape, t.strides);
  });
  for (const auto& [i, memory] : memories) {
    Value& v = out.computed[i];
    const bool free = taken.insert(memory).second;
    if (!free && (returned[i] || is_written(memory, out))) v = b_("torch.clone", v).value();
  }
}

bool Outputs::is_written(Value memory, const Plan& plan) const {
  return std::any_of(plan.written.begin(), plan.written.end(),
                     [&](const auto& w) { return inputs_.value(inputs_.find(w.first).value()) == memory; });
}

// Which output of the computation the tensor is; -1: nobody has it.
int64_t Outputs::place_of(const GradientHooks::Retained& r, const std::vector<PyObject*>& outputs, const Plan& plan) {
  const auto at = std::find(outputs.begin(), outputs.end(), r.tensor.get());
  if (at == outputs.end()) return -1;
  const Derived& d = plan.derived[static_cast<size_t>(at - outputs.begin())];
  THUNDER_CHECK(d.computed >= 0 && d.path.empty() && !d.alias && !d.detached, NotImplemented, "retain_grad",
                "a view that keeps its gradient, and what it views, are both returned or kept");
  THUNDER_CHECK(tensors_.value_of(r.tensor.get()) == r.value, NotImplemented, "retain_grad",
                "a tensor that keeps its gradient is written to, and returned or kept");
  return d.computed;
}

Trace Outputs::build_epilogue(const Plan& outputs, const std::vector<bool>& used) {
  Builder e(acquisition_.arena());
  std::unordered_map<TensorId, Value> base;
  for (size_t i : in_order(used)) {
    if (!inputs_[i].is_number()) base[inputs_[i].id] = inputs_.value(i);
    e.add_input(inputs_.value(i));
  }
  std::vector<Value> results;
  for (Value v : outputs.computed) {
    const bool number = v.type().is_number();
    // It binds no symbol a second time.
    const bool binds = std::find(outputs.sizes.begin(), outputs.sizes.end(), results.size()) != outputs.sizes.end();
    results.push_back(e.input(number && !binds ? Type(NumberType{v.type().number().kind, std::nullopt}) : v.type()));
  }
  for (const auto& [id, index] : outputs.written) {
    const Value to = base[id], from = results[index];
    base[id] = (aliases_.moved(id)       ? e("prims.set_data_", to, from)
                : aliases_.uncounted(id) ? e("prims.copy_data_", to, from, kw("counted", false))
                : aliases_.data_only(id) ? e("prims.copy_data_", to, from)
                                         : e("prims.copy_", to, from))
                   .value();
  }
  Substitution computed;
  for (const auto& [index, place] : outputs.indices) computed.replace(index, results[place]);
  ArgList flat;
  for (const Derived& d : outputs.derived) {
    Value v = d.computed >= 0 ? results[static_cast<size_t>(d.computed)] : base[d.base];
    for (const Call* view : d.path)
      v = replay_view(e, computed.empty() ? view : substitute(*acquisition_.arena(), view, computed), v);
    if (d.alias && d.path.empty()) v = e("prims.same", v).value();
    if (d.detached && v.requires_grad()) v = e("prims.detach", v).value();
    flat.push_back(v);
  }
  return e.finish("epilogue", Arg::tuple(std::move(flat)));
}

namespace {

// Gives way to their bodies where calls are of which the program reads more than the results.
void open_hidden(Trace& trace) {
  ValueSet read;
  for (const Call* c : trace.calls) visit_all_inputs(*c, [&](Value v) { read.set(v, 1); });
  visit_values(trace.output, [&](Value v) { read.set(v, 1); });
  trace.calls = open_where_needed(trace.calls, read);
}

}  // namespace

Acquired Outputs::finish(const std::vector<PyObject*>& outputs) {
  const ShapeEnv::Scope scope(shapes_);  // without answers: from here on nothing is read
  shapes_.asks = false;
  b_.set_location(nullptr);
  b_.set_grad_enabled(true);
  for (PyObject* o : outputs)
    THUNDER_CHECK(
        !is_proxy(o) || !acquisition_.is_new_leaf(tensors_.value_of(o)), NotImplemented, "requires_grad_",
        "a compiled function returns or keeps a tensor that it made a leaf, whose gradient nobody would compute");
  Plan plan = this->plan(outputs);
  layouts_.keep_sizes_of_one(plan.computed);
  Acquired a;
  for (const GradientHooks::Retained& r : hooks_.retained()) a.retained.push_back(place_of(r, outputs, plan));
  a.computation = b_.finish("computation", Arg::tuple(ArgList(plan.computed.begin(), plan.computed.end())));
  if (aliases_.has_hidden()) open_hidden(a.computation);
  a.trivial_epilogue = plan.trivial;

  std::vector<bool> used = used_inputs(a.computation, plan);
  a.computation.inputs.clear();
  for (size_t i : in_order(used)) {
    a.computation.inputs.push_back(inputs_.value(i));
    a.sources.push_back(inputs_[i].source);
    a.sources.back().leaf = inputs_[i].must_be_leaf;
  }
  if (!plan.trivial) a.epilogue = build_epilogue(plan, used);
  questions_.add_reads(a);
  a.arguments_outside = tensors_.arguments_outside();
  return a;
}

}  // namespace thunder::frontend
