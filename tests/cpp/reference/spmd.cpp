#include "reference/spmd.h"

#include <algorithm>

#include "core/error.h"
#include "core/print.h"

namespace thunder::reference {
namespace {

const Op& record_of(const Call& call) {
  const Op* op = call.op;
  while (op->implements) op = op->implements;
  return *op;
}

Datum argument(const Evaluator& e, const Call& call, std::string_view param) {
  return e.argument(call.args.at(static_cast<size_t>(record_of(call).schema.index_of(param))));
}

std::string type_of(const Array& a) { return cat(a.device, " ", short_name(a.dtype), "[", join(a.shape), "]"); }

// `n` rows from `first` on.
Array rows(const Array& a, int64_t first, int64_t n) {
  Array out = a;
  const int64_t width = a.shape[0] == 0 ? 0 : a.numel() / a.shape[0];
  out.shape[0] = n;
  out.data.assign(a.data.begin() + first * width, a.data.begin() + (first + n) * width);
  return out;
}

Element combined(const std::string& reduction, DType t, const Element& a, const Element& b) {
  if (reduction == "max" || reduction == "min") {
    const bool greater = is_exact(t) ? a.i > b.i : a.re > b.re;
    return greater == (reduction == "max") ? a : b;
  }
  return {a.i + b.i, a.re + b.re, a.im + b.im};
}

}  // namespace

bool Processes::Communication::started(size_t from, size_t to) const {
  return std::all_of(given.begin() + static_cast<ptrdiff_t>(from), given.begin() + static_cast<ptrdiff_t>(to),
                     [](const auto& g) { return g.has_value(); });
}

size_t Processes::kept() const {
  size_t n = 0;
  for (const auto& of_process : kept_) n += of_process.size();
  return n;
}

// ---- running --------------------------------------------------------------------------------------------------------

void Processes::prepare(const std::vector<const Trace*>& traces, const std::vector<std::vector<Datum>>& inputs) {
  if (traces.size() != world_ || inputs.size() != world_)
    throw Wrong(cat("programs and inputs for ", world_, " processes are expected"));
  processes_.clear();
  groups_.clear();
  starts_.assign(world_, {});
  unread_ = 0;
  for (size_t r = 0; r < world_; ++r) {
    Process& p = processes_.emplace_back(*traces[r], options_);
    if (inputs[r].size() != p.trace->inputs.size())
      throw Wrong(cat("the program takes ", p.trace->inputs.size(), " inputs, got ", inputs[r].size()));
    for (size_t i = 0; i < inputs[r].size(); ++i) p.evaluator.define(p.trace->inputs[i], inputs[r][i]);
  }
}

std::vector<Datum> Processes::run(const std::vector<const Trace*>& traces,
                                  const std::vector<std::vector<Datum>>& inputs) {
  prepare(traces, inputs);
  auto running = [](const Process& p) { return !p.result; };
  while (std::any_of(processes_.begin(), processes_.end(), running)) {
    bool moved = false;
    for (size_t r = 0; r < world_; ++r) moved = advance(r) || moved;
    if (!moved) stuck();
  }
  check_all_started();
  std::vector<Datum> out;
  for (Process& p : processes_) out.push_back(std::move(*p.result));
  return out;
}

// Runs a process up to a wait for what another has not started; whether it got anywhere.
bool Processes::advance(size_t rank) {
  Process& p = processes_[rank];
  if (p.result) return false;
  const size_t before = p.next;
  for (; p.next < p.trace->calls.size(); ++p.next) {
    const Call& call = *p.trace->calls[p.next];
    const Step done = step(rank, call);
    if (done == Step::Blocked) return p.next > before;
    if (done == Step::Other) p.evaluator.run(call, p.trace->arena);
  }
  p.result = p.evaluator.argument(p.trace->output);
  for (const Datum& leaf : leaves(*p.result))
    if (leaf.kind == Datum::Kind::Future) throw Wrong(cat("process ", rank, " returns a future"));
  return true;
}

Processes::Step Processes::step(size_t rank, const Call& call) {
  const std::string& op = record_of(call).full_name;
  if (op == "prims.wait") return wait(rank, call) ? Step::Done : Step::Blocked;
  if (call.output.is_value() && call.output.value().type().is_future())
    return start(rank, call, op) ? Step::Done : Step::Blocked;
  if (op == "prims.keep_gradient") keep(rank, call);
  else if (op == "prims.add_kept_gradient") add_kept(rank, call);
  else if (op == "prims.used_or_kept") add_used(rank, call);
  else if (op == "prims.gradient_if_used") give_if_used(rank, call);
  else return Step::Other;
  return Step::Done;
}

// ---- collectives ----------------------------------------------------------------------------------------------------

bool over_replicas(const std::string& op) { return op.ends_with("_replicas"); }

// False: over replicas, where no backend starts the second stage before the first is done.
bool Processes::start(size_t rank, const Call& call, const std::string& op) {
  Process& p = processes_[rank];
  if (!p.starting) p.starting = &begin(rank, call, op);
  const size_t first = rank / group_ * group_;
  p.waits_for = "the first stage of " + p.starting->what;
  if (over_replicas(op) && !p.starting->started(first, first + group_)) return false;
  p.starting = nullptr;
  return true;
}

Processes::Communication& Processes::begin(size_t rank, const Call& call, const std::string& op) {
  const Evaluator& e = processes_[rank].evaluator;
  const size_t first = over_replicas(op) ? 0 : rank / group_ * group_,
               last = over_replicas(op) ? world_ : first + group_;
  std::string group = argument(e, call, "group").text;
  if (argument(e, call, "world").integer() != static_cast<int64_t>(group_) ||
      (over_replicas(op) && argument(e, call, "copies").integer() != static_cast<int64_t>(world_ / group_)))
    throw Wrong(cat("a group of ", group_, " processes is expected in ", print(call)));
  if (over_replicas(op)) group += " " + argument(e, call, "replicas").text;
  else if (group_ < world_) group += cat(" of processes ", first, " to ", last - 1);
  const std::string reduction = op.starts_with("prims.all_gather") ? "" : argument(e, call, "op").text;
  std::vector<ArrayPtr> tensors;
  std::string what = cat(op, " '", group, "'", reduction.empty() ? "" : " " + reduction);
  for (const Datum& d : argument(e, call, "tensors").items) {
    tensors.push_back(std::make_shared<Array>(*d.array));
    what += cat(tensors.size() > 1 ? ", " : " ", type_of(*d.array));
  }
  starts_[rank].push_back(what);
  Group& g = groups_[group];
  g.started.resize(world_);
  const size_t n = g.started[rank]++;
  if (n == g.communications.size())
    g.communications.push_back(
        {what, op, reduction, first, last, decltype(Communication::given)(world_), std::vector<char>(world_)});
  Communication& c = g.communications[n];
  if (c.what != what)
    throw Diverged(cat("start ", n, " of the group '", group, "' is ", what, " on process ", rank, ", and ", c.what,
                       " on one before it, in: ", print(call)));
  c.given[rank] = std::move(tensors);
  processes_[rank].evaluator.define(call.output.value(), Datum::future(group, static_cast<int64_t>(n)));
  return c;
}

// False: not yet.
bool Processes::wait(size_t rank, const Call& call) {
  Process& p = processes_[rank];
  const Datum future = argument(p.evaluator, call, "future");
  if (future.kind != Datum::Kind::Future) throw Wrong(cat("no future is waited for in ", print(call)));
  Communication& c = groups_.at(future.text).communications.at(static_cast<size_t>(future.number.i));
  if (c.waited[rank]) throw Wrong(cat("process ", rank, " waits twice for ", c.what, " in: ", print(call)));
  p.waits_for = cat("start ", future.number.i, " of the group '", future.text, "', ", c.what);
  if (!c.complete()) return false;
  c.waited[rank] = 1;
  std::vector<Datum> out;
  for (size_t i = 0; i < c.given[rank]->size(); ++i) out.push_back(result(c, i, rank));
  p.evaluator.bind(call.output, out.size() == 1 ? out[0] : Datum::sequence(std::move(out)), call);
  return true;
}

Datum Processes::result(const Communication& c, size_t tensor, size_t rank) const {
  std::vector<const Array*> parts;
  for (size_t r = c.first; r < c.last; ++r) parts.push_back((*c.given[r])[tensor].get());
  if (c.op.starts_with("prims.all_gather")) return Datum(std::make_shared<Array>(gathered(parts)));
  Array whole = over_replicas(c.op) ? reduced_over_replicas(parts, c.reduction) : reduced(parts, c.reduction);
  if (c.op.starts_with("prims.all_reduce")) return Datum(std::make_shared<Array>(std::move(whole)));
  const int64_t n = whole.shape[0] / static_cast<int64_t>(group_);
  return Datum(std::make_shared<Array>(rows(whole, static_cast<int64_t>(rank % group_) * n, n)));
}

Array Processes::reduced_over_replicas(const std::vector<const Array*>& parts, const std::string& reduction) const {
  std::vector<Array> of_groups;
  for (auto first = parts.begin(); first != parts.end(); first += static_cast<ptrdiff_t>(group_))
    of_groups.push_back(reduced({first, first + static_cast<ptrdiff_t>(group_)}, reduction));
  std::vector<const Array*> all;
  for (const Array& a : of_groups) all.push_back(&a);
  return reduced(all, reduction);
}

Array Processes::gathered(const std::vector<const Array*>& parts) const {
  Array out = *parts[0];
  out.shape[0] *= static_cast<int64_t>(parts.size());
  for (size_t r = 1; r < parts.size(); ++r)
    out.data.insert(out.data.end(), parts[r]->data.begin(), parts[r]->data.end());
  return out;
}

Array Processes::reduced(const std::vector<const Array*>& parts, const std::string& reduction) const {
  Array out = *parts[0];
  for (size_t r = 1; r < parts.size(); ++r)
    for (size_t k = 0; k < out.data.size(); ++k)
      out.data[k] =
          stored(out.dtype, combined(reduction, out.dtype, out.data[k], parts[r]->data[k]), options_.rounding);
  if (reduction != "avg") return out;
  if (is_exact(out.dtype)) throw Undefined("integers have no average of their own type");
  const auto w = static_cast<double>(parts.size());
  for (Element& e : out.data) e = stored(out.dtype, {0, e.re / w, e.im / w}, options_.rounding);
  return out;
}

Array Processes::sum(const Array& a, const Array& b) const {
  Array out = a;
  for (size_t k = 0; k < out.data.size(); ++k)
    out.data[k] = stored(out.dtype, combined("sum", out.dtype, a.data[k], b.data[k]), options_.rounding);
  return out;
}

// ---- gradients that are kept ----------------------------------------------------------------------------------------

void Processes::keep(size_t rank, const Call& call) {
  const Evaluator& e = processes_[rank].evaluator;
  const Array& a = *argument(e, call, "a").array;
  ArrayPtr& kept = kept_[rank][{argument(e, call, "plan").text, argument(e, call, "index").integer()}];
  if (kept && (kept->shape != a.shape || kept->dtype != a.dtype))
    throw Wrong(cat("what was kept is ", type_of(*kept), " in ", print(call)));
  kept = std::make_shared<Array>(kept ? sum(*kept, a) : a);
}

void Processes::add_kept(size_t rank, const Call& call) {
  Evaluator& e = processes_[rank].evaluator;
  const ArrayPtr a = argument(e, call, "a").array;
  auto& kept = kept_[rank];
  auto it = kept.find({argument(e, call, "plan").text, argument(e, call, "index").integer()});
  ArrayPtr out = a;
  if (it != kept.end()) {
    if (it->second->shape != a->shape || it->second->dtype != a->dtype)
      throw Wrong(cat("what was kept is ", type_of(*it->second), " in ", print(call)));
    out = std::make_shared<Array>(sum(*it->second, *a));
    kept.erase(it);
  }
  e.bind(call.output, Datum(out), call);
}

// 1 for parameters of which a gradient is kept.
void Processes::add_used(size_t rank, const Call& call) {
  Evaluator& e = processes_[rank].evaluator;
  auto out = std::make_shared<Array>(*argument(e, call, "a").array);
  for (const auto& [key, kept] : kept_[rank])
    if (key.first == argument(e, call, "plan").text) out->data.at(static_cast<size_t>(key.second)) = Element::real(1);
  e.bind(call.output, Datum(out), call);
}

void Processes::give_if_used(size_t rank, const Call& call) {
  Evaluator& e = processes_[rank].evaluator;
  const auto index = static_cast<size_t>(argument(e, call, "index").integer());
  const bool used = argument(e, call, "used").array->data.at(index).re != 0;
  if (used) e.bind(call.output, argument(e, call, "a"), call);
  else e.define(call.output.value(), {});
}

// ---- what may go wrong ----------------------------------------------------------------------------------------------

void Processes::stuck() const {
  std::string text = "nothing moves any more:";
  for (size_t r = 0; r < world_; ++r) {
    const Process& p = processes_[r];
    text += cat("\n  process ", r, p.result ? " has ended" : " waits for " + p.waits_for);
    for (const auto& [name, g] : groups_) text += cat("; started ", g.started[r], " of the group '", name, "'");
  }
  throw Diverged(text);
}

void Processes::check_all_started() {
  for (const auto& [name, g] : groups_)
    for (size_t n = 0; n < g.communications.size(); ++n)
      for (size_t r = g.communications[n].first; r < g.communications[n].last; ++r) {
        const Communication& c = g.communications[n];
        if (!c.given[r])
          throw Diverged(cat("process ", r, " ends without start ", n, " of the group '", name, "', ", c.what));
        unread_ += !c.waited[r];
      }
}

std::vector<Datum> spmd(const Trace& trace, const std::vector<std::vector<Datum>>& inputs_by_rank,
                        EvaluatorOptions options) {
  const size_t world = inputs_by_rank.size();
  return Processes(world, options).run(std::vector<const Trace*>(world, &trace), inputs_by_rank);
}

}  // namespace thunder::reference
