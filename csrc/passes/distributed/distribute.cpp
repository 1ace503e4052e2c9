#include "passes/distributed/distribute.h"

#include <algorithm>

#include "core/builder.h"
#include "core/error.h"
#include "core/rewrite.h"

namespace thunder::distributed {
namespace {

class Distributor {
 public:
  Distributor(const std::shared_ptr<Arena>& arena, const Distribution& d, Collectives& made)
      : d_(d), plan_(*d.plan), made_(made), b_(arena) {
    b_.set_grad_enabled(false);
  }

  // The program's input in place of the whole parameter; the calls that make one of the other come first.
  Value take(Value full, size_t index) {
    const PlannedParameter& p = plan_.parameters.at(index);
    if (!p.sharded) return full;
    const std::string& name = full.given_name();
    Value local = b_.arena()->make_value(p.local, name.empty() ? "" : name + "_shard");
    Expr whole = gather(local, index);
    if (p.full.rank() == 0) whole = b_("torch.reshape", b_("torch.narrow", whole, 0, 0, 1), Arg::list({}));
    else if (!whole.shape()[0].same(p.full.shape[0])) whole = b_("torch.narrow", whole, 0, 0, p.full.shape[0]);
    // The whole keeps the value that the program reads.
    whole_.replace(whole.value(), full);
    return local;
  }

  // The rows that all processes hold, padding included.
  Expr gather(Value local, size_t index) {
    Expr part = cast(b_.expr(local), plan_.parameters.at(index).full.dtype);
    const Arg tensors = Arg::list({part.arg()});
    Expr future = gathers_once() ? b_("prims.all_gather_once", tensors, plan_.group, plan_.world, plan_.id,
                                      d_.mode == Synchronization::Accumulate)
                                 : b_("prims.all_gather", tensors, plan_.group, plan_.world);
    made_.gathers.set(future.value(), static_cast<int>(index));
    return b_("prims.wait", future);
  }

  /// The calls made so far.
  std::vector<const Call*> made() {
    std::vector<const Call*> out = b_.finish("", {}).calls;
    for (const Call*& c : out) c = substitute(*b_.arena(), c, whole_);
    return out;
  }

  // What the optimizer gets; None where it is kept.
  Arg synchronized(const Arg& gradient, size_t index) {
    const PlannedParameter& p = plan_.parameters.at(index);
    if (!p.trainable) return {};
    const DType sums = plan_.reduce_dtype.value_or(p.full.dtype);  // of several backwards, too
    if (keeps()) {
      if (!gradient.is_none())
        b_("prims.keep_gradient", cast(b_.expr(gradient), sums), plan_.id, static_cast<int64_t>(index));
      return {};
    }
    Expr g = contiguous(cast(gradient.is_none() ? zeros(p.full) : b_.expr(gradient), sums));
    if (!plan_.regather && d_.mode == Synchronization::ReduceKept)
      g = b_("prims.add_kept_gradient", g, plan_.id, static_cast<int64_t>(index));
    Expr future = reduce(p.sharded, p.sharded ? padded(g, p) : g, "avg");
    made_.reductions.set(future.value(), static_cast<int>(index));
    return cast(b_("prims.wait", future), p.local.dtype).arg();
  }

  // Which parameters some process has used: 1 for those with a gradient here, and all that others have.
  Expr used(const std::vector<char>& here) {
    ArgList parts;
    for (size_t i = 0; i < here.size();) {
      const size_t first = i;
      while (i < here.size() && here[i] == here[first]) ++i;
      const TensorType run = with_length(static_cast<int64_t>(i - first));
      parts.push_back(
          b_("prims.full", Arg(run.shape), here[first] ? 1.0 : 0.0, kw("dtype", run.dtype), kw("device", run.device))
              .arg());
    }
    Expr bits = parts.size() == 1 ? b_.expr(parts[0]) : b_("prims.cat", Arg::list(std::move(parts)), 0);
    if (!plan_.regather && d_.mode == Synchronization::ReduceKept) bits = b_("prims.used_or_kept", bits, plan_.id);
    Expr future = reduce(false, bits, "max");
    made_.reductions.set(future.value(), static_cast<int>(plan_.used_index()));
    return b_("prims.wait", future);
  }

  Arg if_used(const Arg& gradient, const Expr& used, size_t index) {
    if (gradient.is_none()) return gradient;
    return b_("prims.gradient_if_used", gradient, used, static_cast<int64_t>(index)).arg();
  }

  // Whole gradients are kept where whole parameters are, too.
  bool keeps() const { return !plan_.regather && d_.mode == Synchronization::Accumulate; }

 private:
  // Whether the micro-batches of a step gather once.
  bool gathers_once() const { return !plan_.regather && d_.mode != Synchronization::Reduce; }

  Expr reduce(bool scatter, const Expr& e, const char* op) {
    const Arg tensors = Arg::list({e.arg()});
    if (plan_.copies == 1)
      return b_(scatter ? "prims.reduce_scatter" : "prims.all_reduce", tensors, op, plan_.reduce_group, plan_.world);
    return b_(scatter ? "prims.reduce_scatter_replicas" : "prims.all_reduce_replicas", tensors, op, plan_.reduce_group,
              plan_.world, plan_.replicas, plan_.copies);
  }

  Expr cast(const Expr& e, DType t) { return e.dtype() == t ? e : b_("prims.convert_element_type", e, t); }

  Expr contiguous(const Expr& e) {
    if (same(e.tensor().strides, contiguous_strides(e.shape()))) return e;
    return b_("prims.clone", e, kw("memory_format", ConstantArg{"torch.contiguous_format"}));
  }

  TensorType with_length(int64_t n) const {
    TensorType t;
    t.device = plan_.parameters.at(0).full.device;
    t.shape = {Dim(n)};
    t.strides = {Dim(1)};
    return t;
  }

  Expr zeros(const TensorType& t) {
    return b_("prims.full", Arg(t.shape), 0.0, kw("dtype", t.dtype), kw("device", t.device));
  }

  // As many rows as there are in all processes' shards.
  Expr padded(const Expr& g, const PlannedParameter& p) {
    Expr rows = p.full.rank() == 0 ? b_("torch.reshape", g, Arg::list({1})) : g;
    const int64_t missing = p.local.shape[0].constant() * plan_.world - rows.shape()[0].constant();
    if (missing == 0) return rows;
    ArgList config;
    for (int64_t i = 0; i < rows.rank(); ++i) config.push_back(Arg::tuple({0, i == 0 ? missing : 0, 0}));
    return b_("prims.pad", rows, 0.0, Arg::list(std::move(config)));
  }

  const Distribution& d_;
  const CommunicationPlan& plan_;
  Collectives& made_;
  Builder b_;
  Substitution whole_;
};

// The parameters that the program does not read, by values made for them.
std::vector<std::pair<Value, size_t>> unread(const Distribution& d, Arena& arena) {
  std::vector<char> known(d.plan->parameters.size());
  for (const auto& [v, index] : d.inputs) known.at(index) = 1;
  std::vector<std::pair<Value, size_t>> out;
  for (size_t i = 0; i < known.size(); ++i)
    if (!known[i]) out.emplace_back(arena.make_value(d.plan->parameters[i].full), i);
  return out;
}

// Replaces the gradients, which stand at `places`, by those of all processes.
void synchronize(Distributor& work, const Distribution& d, const std::vector<size_t>& places, ArgList& gradients) {
  const std::vector<PlannedParameter>& parameters = d.plan->parameters;
  std::vector<char> here;
  bool reduces = false;
  for (size_t i = 0; i < parameters.size(); ++i) {
    here.push_back(!gradients[places[i]].is_none());
    reduces = reduces || (parameters[i].trainable && !work.keeps());
  }
  // The vector is made before kept gradients are forgotten.
  Expr used = reduces ? work.used(here) : Expr();
  for (size_t i = 0; i < parameters.size(); ++i) {
    Arg& gradient = gradients[places[i]];
    gradient = work.synchronized(gradient, i);
    if (!here[i]) gradient = work.if_used(gradient, used, i);
  }
}

int index_of(const ValueMap<int>& by_future, const Call& start) {
  return start.output.is_value() && start.output.value().type().is_future() ? by_future[start.output.value()] : -1;
}

}  // namespace

int Collectives::gather_of(const Call& start) const { return index_of(gathers, start); }
int Collectives::reduction_of(const Call& start) const { return index_of(reductions, start); }

Trace distribute(const Trace& trace, const Distribution& d, Collectives& made) {
  Distributor work(trace.arena, d, made);
  Trace out = trace.derived();
  for (const auto& [full, index] : d.inputs)
    *std::find(out.inputs.begin(), out.inputs.end(), full) = work.take(full, index);
  for (const auto& [full, index] : unread(d, *trace.arena)) out.inputs.push_back(work.take(full, index));
  out.calls = work.made();
  out.calls.insert(out.calls.end(), trace.calls.begin(), trace.calls.end());
  return out;
}

JointTrace distribute(const JointTrace& joint, const Distribution& d, Collectives& made) {
  const Trace& trace = joint.trace;
  const auto primal = static_cast<ptrdiff_t>(joint.primal_inputs);
  Distributor before(trace.arena, d, made), after(trace.arena, d, made);
  JointTrace out = joint;
  std::vector<Value> inputs(trace.inputs.begin(), trace.inputs.begin() + primal);
  ArgList gradients = joint.gradients();
  // By the parameters' indices: where among the inputs they are.
  std::vector<size_t> places(d.plan->parameters.size());
  for (const auto& [full, index] : d.inputs) {
    auto at = std::find(inputs.begin(), inputs.end(), full);
    THUNDER_ASSERT(at != inputs.end(), "a distributed parameter is no input of the program");
    places[index] = static_cast<size_t>(at - inputs.begin());
    *at = before.take(full, index);
  }
  for (const auto& [full, index] : unread(d, *trace.arena)) {
    places[index] = inputs.size();
    inputs.push_back(before.take(full, index));
    gradients.emplace_back();
  }
  // The other processes' backwards gather it.
  for (size_t index : d.saved) after.gather(inputs[places[index]], index);
  synchronize(after, d, places, gradients);
  const std::vector<const Call*> first = before.made(), last = after.made();
  out.primal_inputs = inputs.size();
  inputs.insert(inputs.end(), trace.inputs.begin() + primal, trace.inputs.end());
  out.trace.inputs = std::move(inputs);
  out.trace.calls.insert(out.trace.calls.begin(), first.begin(), first.end());
  out.trace.calls.insert(out.trace.calls.end(), last.begin(), last.end());
  out.forward.insert(out.forward.begin(), first.begin(), first.end());
  out.forward_calls += first.size();
  out.trace.output = Arg::tuple({trace.output.items()[0], Arg::tuple(std::move(gradients))});
  return out;
}

std::optional<size_t> bucket_read_last(const Trace& trace, size_t calls, const CommunicationPlan& plan,
                                       const Collectives& made) {
  std::optional<size_t> out;
  ValueMap<int> gathered{-1};  // a parameter, by what shares its gathered memory
  for (size_t i = 0; i < calls; ++i) {
    const Call& call = *trace.calls[i];
    const bool waits = call.op->has(kComm) && call.args[0].is_value(), views = is_pure_view(call);
    visit_all_inputs(call, [&](Value v) {
      const int index = waits ? made.gathers[v] : gathered[v];
      if (index < 0) return;
      if (waits || views) visit_outputs(call, [&](Value o) { gathered.set(o, index); });
      else out = plan.parameters.at(static_cast<size_t>(index)).bucket;
    });
  }
  return out;
}

}  // namespace thunder::distributed
