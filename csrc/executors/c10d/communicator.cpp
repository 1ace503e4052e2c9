#include "executors/c10d/communicator.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/StreamGuard.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "python/gil.h"
#include "runtime/own_streams.h"

namespace thunder {
namespace {

using WorkPtr = Communication::WorkPtr;

// What a program that raised has left holds its tensors until it is done, which may be never.
struct Parked {
  std::vector<at::Tensor> inputs, outputs;
  std::vector<WorkPtr> works;
};

void park(Parked p) {
  static auto* mutex = new std::mutex;
  static auto* all = new std::vector<Parked>;
  std::lock_guard lock(*mutex);
  std::erase_if(*all, [](const Parked& q) {
    return std::all_of(q.works.begin(), q.works.end(), [](const WorkPtr& w) { return w->isCompleted(); });
  });
  all->push_back(std::move(p));
}

// By schema and not by method, whose names and parameters change from release to release.
class Operator {
 public:
  explicit Operator(const char* name) : handle_(c10::Dispatcher::singleton().findSchemaOrThrow(name, "")) {}
  WorkPtr operator()(std::vector<c10::IValue> stack) const {
    const size_t given = stack.size();
    const std::vector<c10::Argument>& arguments = handle_.schema().arguments();
    for (size_t i = given; i < arguments.size(); ++i) stack.push_back(arguments[i].default_value().value());
    {
      // A thread of gloo's may hold gloo's lock while it waits for the GIL, to free a tensor that Python has seen.
      const WithoutGil released;
      handle_.callBoxed(stack);
    }
    return stack.back().toCustomClass<c10d::Work>();
  }

 private:
  c10::OperatorHandle handle_;
};

at::Tensor rows(const at::Tensor& like, int64_t n) {
  std::vector<int64_t> sizes = like.sizes().vec();
  sizes[0] = n;
  return like.new_empty(sizes);
}

c10::IValue list_of(std::vector<at::Tensor> tensors) { return c10::List<at::Tensor>(std::move(tensors)); }

}  // namespace

void Communication::add(WorkPtr work, const std::shared_ptr<distributed::Watch>& watch, const std::string& what) {
  tickets.push_back({watch, watch->start(what, work)});
  works.push_back(std::move(work));
}

void Communication::wait() {
  {
    WithoutGil released;
    while (!tickets.empty()) {
      const Ticket first = tickets.front();
      tickets.erase(tickets.begin());
      first.watch->wait(first.number);
    }
  }
  works.clear();
  inputs.clear();
  for (at::Tensor& t : outputs) {
    // A copy: the whole would live as long as the part.
    if (parts > 1) t = t.narrow(0, part * (t.size(0) / parts), t.size(0) / parts).clone();
    if (divisor > 1) t.div_(divisor);
  }
  parts = divisor = 1;
}

Communication::~Communication() {
  for (const Ticket& t : tickets) t.watch->drop(t.number);
  const bool done = std::all_of(works.begin(), works.end(), [](const WorkPtr& w) { return w->isCompleted(); });
  if (!done) park({std::move(inputs), std::move(outputs), std::move(works)});
}

Communicator::Communicator(const std::string& group)
    : group_(distributed::group_named(group)), watch_(distributed::Watch::of(group)), peers_(Peers::of(group_)) {}

c10::intrusive_ptr<Communication> Communicator::begin(const std::string& what) const {
  watch_->check(what);
  return c10::make_intrusive<Communication>();
}

void Communicator::all_gather(Communication& c, const std::string& what) const {
  static const Operator gather("c10d::_allgather_base_"), gather_all("c10d::allgather_into_tensor_coalesced_");
  for (const at::Tensor& t : c.inputs) c.outputs.push_back(rows(t, t.size(0) * world()));
  if (peers_ && peers_->takes_gather(c.inputs)) return c.add(peers_->all_gather(c.outputs, c.inputs), watch_, what);
  if (together(c)) return c.add(gather_all({list_of(c.outputs), list_of(c.inputs), group()}), watch_, what);
  for (size_t i = 0; i < c.inputs.size(); ++i) c.add(gather({c.outputs[i], c.inputs[i], group()}), watch_, what);
}

void Communicator::reduce_scatter(Communication& c, const std::string& op, const std::string& what) const {
  if (!has_all(c.inputs[0])) {
    // gloo reduces all and keeps a part, in a work that only blocks.
    for (const at::Tensor& t : c.inputs) c.outputs.push_back(t.clone());
    reduce_outputs(c, op, what);
    c.parts = world();
    c.part = group_->getRank();
    return;
  }
  static const Operator scatter("c10d::_reduce_scatter_base_"), scatter_all("c10d::reduce_scatter_tensor_coalesced_");
  const c10::IValue how = reduction(op, c.inputs[0]);
  for (const at::Tensor& t : c.inputs) c.outputs.push_back(rows(t, t.size(0) / world()));
  if (peers_ && peers_->takes_reduce_scatter(c.inputs, op))
    return c.add(peers_->reduce_scatter(c.outputs, c.inputs, op), watch_, what);
  if (together(c)) return c.add(scatter_all({list_of(c.outputs), list_of(c.inputs), group(), how}), watch_, what);
  for (size_t i = 0; i < c.inputs.size(); ++i) c.add(scatter({c.outputs[i], c.inputs[i], group(), how}), watch_, what);
}

void Communicator::all_reduce(Communication& c, const std::string& op, const std::string& what) const {
  for (at::Tensor& t : c.inputs) {
    // It is reduced where it lies if nobody else can see it.
    const bool own = t.use_count() == 1 && t.has_storage() && t.storage().use_count() == 1;
    c.outputs.push_back(own ? std::move(t) : t.clone());
  }
  c.inputs.clear();
  reduce_outputs(c, op, what);
}

void Communicator::reduce_further(Communication& c, const std::string& op, const std::string& what) const {
  const c10::Device device = c.outputs[0].device();
  watch_->check(what);
  if (!has_all(c.outputs[0])) {
    // gloo has no streams: only a wait puts this reduction behind the first.
    c.wait();
    return reduce_outputs(c, op, what);
  }
  if (device.is_cpu()) return reduce_outputs(c, op, what);
  // On a stream of its own: what is computed meanwhile does not wait for the first reduction.
  const c10::StreamGuard beside(take_stream(device));
  {
    const WithoutGil released;
    for (const WorkPtr& w : c.works) w->wait();
  }
  reduce_outputs(c, op, what);
}

void Communicator::reduce_outputs(Communication& c, const std::string& op, const std::string& what) const {
  static const Operator reduce("c10d::allreduce_"), reduce_all("c10d::allreduce_coalesced_");
  if (peers_ && peers_->takes_all_reduce(c.outputs, op)) return c.add(peers_->all_reduce(c.outputs, op), watch_, what);
  const c10::IValue how = reduction(op, c.outputs[0]);
  if (op == "avg" && !has_all(c.outputs[0])) c.divisor = world();
  if (together(c)) return c.add(reduce_all({list_of(c.outputs), group(), how}), watch_, what);
  for (const at::Tensor& t : c.outputs) c.add(reduce({list_of({t}), group(), how, c10::IValue()}), watch_, what);
}

// The reduction; a mean is a sum where the backend knows none.
c10::IValue Communicator::reduction(const std::string& op, const at::Tensor& t) const {
  using Op = c10d::ReduceOp;
  static const std::map<std::string, Op::RedOpType> kOps{
      {"sum", Op::SUM}, {"avg", Op::AVG}, {"max", Op::MAX}, {"min", Op::MIN}};
  return c10::IValue(c10::make_intrusive<Op>(op == "avg" && !has_all(t) ? Op::SUM : kOps.at(op)));
}

// Whether the backend has means, and reduces into parts.  PyTorch's "fake" stands for NCCL, on machines without it.
bool Communicator::has_all(const at::Tensor& t) const {
  const std::string backend = group_->getBackend(t.device().type())->getBackendName();
  return backend == "nccl" || backend == "fake";
}

// Whether one launch takes all tensors: less latency, and fewer kernels to issue.
bool Communicator::together(const Communication& c) const { return c.outputs.size() > 1 && has_all(c.outputs[0]); }

}  // namespace thunder
