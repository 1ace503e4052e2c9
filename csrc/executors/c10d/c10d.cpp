#include "executors/c10d/c10d.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/add.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

#include "core/error.h"
#include "runtime/distributed/kept_gradients.h"
#include "runtime/distributed/watch.h"
#include "runtime/gil.h"
#include "runtime/implementing.h"
#include "runtime/instruction.h"

namespace thunder {
namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

using distributed::Watch;

// A communication that was started, and all that it reads and writes until it is done.
struct Communication final : torch::CustomClassHolder {
  std::vector<at::Tensor> inputs, outputs;
  struct Ticket {
    std::shared_ptr<Watch> watch;
    uint64_t number;
  };
  std::vector<Ticket> tickets;
  std::vector<WorkPtr> works;
  int64_t divisor = 1;          // of a mean, where the backend has sums alone
  int64_t parts = 1, part = 0;  // of the rows, where the backend reduces whole tensors alone

  void add(WorkPtr work, const std::shared_ptr<Watch>& watch, const std::string& what) {
    tickets.push_back({watch, watch->start(what, work)});
    works.push_back(std::move(work));
  }

  void wait() {
    {
      WithoutGil released(PyGILState_Check() != 0);
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

  // What a program that raised has left holds its tensors until it is done, which may be never.
  ~Communication() override {
    for (const Ticket& t : tickets) t.watch->drop(t.number);
    const bool done = std::all_of(works.begin(), works.end(), [](const WorkPtr& w) { return w->isCompleted(); });
    if (!done) park({std::move(inputs), std::move(outputs), std::move(works)});
  }

 private:
  struct Parked {
    std::vector<at::Tensor> inputs, outputs;
    std::vector<WorkPtr> works;
  };
  static void park(Parked p) {
    static auto* mutex = new std::mutex;
    static auto* all = new std::vector<Parked>;
    std::lock_guard lock(*mutex);
    std::erase_if(*all, [](const Parked& q) {
      return std::all_of(q.works.begin(), q.works.end(), [](const WorkPtr& w) { return w->isCompleted(); });
    });
    all->push_back(std::move(p));
  }
};

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
      const WithoutGil released(PyGILState_Check() != 0);
      handle_.callBoxed(stack);
    }
    return stack.back().toCustomClass<c10d::Work>();
  }

 private:
  c10::OperatorHandle handle_;
};

c10::IValue list_of(std::vector<at::Tensor> tensors) { return c10::List<at::Tensor>(std::move(tensors)); }

// The processes of a group, as a program communicates with them.
class Members {
 public:
  Members(const std::string& name, int64_t world)
      : group_(distributed::group_named(name)), watch_(Watch::of(name)), world_(world) {
    THUNDER_CHECK(group_->getSize() == world, Runtime, "distributed", "the program is for ", world,
                  " processes, the group has ", group_->getSize());
  }

  int64_t world() const { return world_; }
  void check(const std::string& what) const { watch_->check(what); }

  // Whether the backend has means, reduces into parts, and takes several tensors in one launch, which has less latency.
  // PyTorch's "fake" stands for NCCL, on machines without it.
  bool has_all(const at::Tensor& t) const {
    const std::string backend = group_->getBackend(t.device().type())->getBackendName();
    return backend == "nccl" || backend == "fake";
  }

  void gather(Communication& c, const std::string& what) const {
    static const Operator gather("c10d::_allgather_base_"), gather_all("c10d::allgather_into_tensor_coalesced_");
    for (const at::Tensor& t : c.inputs) c.outputs.push_back(rows(t, t.size(0) * world_));
    if (together(c)) return c.add(gather_all({list_of(c.outputs), list_of(c.inputs), group_}), watch_, what);
    for (size_t i = 0; i < c.inputs.size(); ++i) c.add(gather({c.outputs[i], c.inputs[i], group_}), watch_, what);
  }

  void reduce_scatter(Communication& c, const std::string& op, const std::string& what) const {
    if (!has_all(c.inputs[0])) {
      // gloo reduces all and keeps a part, in a work that only blocks.
      for (const at::Tensor& t : c.inputs) c.outputs.push_back(t.clone());
      all_reduce(c, op, what);
      c.parts = world_;
      c.part = group_->getRank();
      return;
    }
    static const Operator scatter("c10d::_reduce_scatter_base_"), scatter_all("c10d::reduce_scatter_tensor_coalesced_");
    const c10::IValue how = reduction(op, c.inputs[0]);
    for (const at::Tensor& t : c.inputs) c.outputs.push_back(rows(t, t.size(0) / world_));
    if (together(c)) return c.add(scatter_all({list_of(c.outputs), list_of(c.inputs), group_, how}), watch_, what);
    for (size_t i = 0; i < c.inputs.size(); ++i) c.add(scatter({c.outputs[i], c.inputs[i], group_, how}), watch_, what);
  }

  // Of the outputs, where they lie.
  void all_reduce(Communication& c, const std::string& op, const std::string& what) const {
    static const Operator reduce("c10d::allreduce_"), reduce_all("c10d::allreduce_coalesced_");
    const c10::IValue how = reduction(op, c.outputs[0]);
    if (op == "avg" && !has_all(c.outputs[0])) c.divisor = world_;
    if (together(c)) return c.add(reduce_all({list_of(c.outputs), group_, how}), watch_, what);
    for (const at::Tensor& t : c.outputs) c.add(reduce({list_of({t}), group_, how, c10::IValue()}), watch_, what);
  }

 private:
  static at::Tensor rows(const at::Tensor& like, int64_t n) {
    std::vector<int64_t> sizes = like.sizes().vec();
    sizes[0] = n;
    return like.new_empty(sizes);
  }

  bool together(const Communication& c) const { return c.outputs.size() > 1 && has_all(c.outputs[0]); }

  // A mean is a sum where the backend knows none.
  c10::IValue reduction(const std::string& op, const at::Tensor& t) const {
    using Op = c10d::ReduceOp;
    static const std::map<std::string, Op::RedOpType> kOps{
        {"sum", Op::SUM}, {"avg", Op::AVG}, {"max", Op::MAX}, {"min", Op::MIN}};
    return c10::IValue(c10::make_intrusive<Op>(op == "avg" && !has_all(t) ? Op::SUM : kOps.at(op)));
  }

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::shared_ptr<Watch> watch_;
  int64_t world_;
};

class Start : public Instruction {
 public:
  Start(const Call& call, const Assembler& assembler)
      : name_(call.op->print_name),
        members_(call.arguments().str("group"), call.arguments().integer("world")),
        what_(call.op->implements->schema.name) {
    for (const Arg& a : call.args[0].items()) operands.push_back(assembler.natural(a));
    planned_ = call.arguments().has("name");
    if (planned_) what_ += " of " + call.arguments().str("name");
  }
  std::string str() const override { return name_; }

  void run(Frame& frame) const final {
    members_.check(what_);
    auto c = c10::make_intrusive<Communication>();
    for (const Operand& o : operands) c->inputs.push_back(o.load(frame).toTensor());
    drop(frame);
    start(*c);
    // A user's collective that this process alone does not read is over before the program goes on: what it reads may
    // be written to next.
    if (outputs[0] < 0 && !planned_) c->wait();
    if (outputs[0] >= 0) frame.registers[static_cast<size_t>(outputs[0])] = c10::IValue::make_capsule(std::move(c));
  }

 protected:
  virtual void start(Communication& c) const = 0;

  std::string name_;
  Members members_;
  std::string what_;
  bool planned_ = false;  // of a CommunicationPlan, whose buckets have names
};

class AllGather final : public Start {
 public:
  using Start::Start;

 protected:
  void start(Communication& c) const override { members_.gather(c, what_); }
};

class Reduce : public Start {
 public:
  Reduce(const Call& call, const Assembler& assembler) : Start(call, assembler), op_(call.arguments().str("op")) {
    if (!call.op->implements->name.ends_with("_replicas")) return;
    replicas_.emplace(call.arguments().str("replicas"), call.arguments().integer("copies"));
  }

 protected:
  void start(Communication& c) const final {
    reduce(c);
    if (replicas_) start_over_replicas(c);
  }
  virtual void reduce(Communication& c) const = 0;

  // On a stream of its own, where there are streams: what is computed meanwhile does not wait for the first stage.
  void start_over_replicas(Communication& c) const {
    const c10::Device device = c.outputs[0].device();
    replicas_->check(what_);
    if (!members_.has_all(c.outputs[0])) {
      c.wait();
      return replicas_->all_reduce(c, op_, what_);
    }
    if (device.is_cpu()) return replicas_->all_reduce(c, op_, what_);
    const c10::StreamGuard beside(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device));
    for (const WorkPtr& w : c.works) {
      const WithoutGil released(PyGILState_Check() != 0);
      w->wait();
    }
    replicas_->all_reduce(c, op_, what_);
  }

  std::string op_;
  std::optional<Members> replicas_;
};

class ReduceScatter final : public Reduce {
 public:
  using Reduce::Reduce;

 protected:
  void reduce(Communication& c) const override { members_.reduce_scatter(c, op_, what_); }
};

class AllReduce final : public Reduce {
 public:
  using Reduce::Reduce;

 protected:
  void reduce(Communication& c) const override {
    for (at::Tensor& t : c.inputs) {
      // It is reduced where it lies if nobody else can see it.
      const bool own = t.use_count() == 1 && t.has_storage() && t.storage().use_count() == 1;
      c.outputs.push_back(own ? std::move(t) : t.clone());
    }
    c.inputs.clear();
    members_.all_reduce(c, op_, what_);
  }
};

class Wait final : public Instruction {
 public:
  Wait(const Call& call, const Assembler& assembler) : name_(call.op->print_name) {
    operands.push_back(assembler.natural(call.args[0]));
  }
  std::string str() const override { return name_; }
  void run(Frame& frame) const override {
    const c10::IValue future = operands[0].load(frame);
    auto c = c10::static_intrusive_pointer_cast<Communication>(future.toCapsule());
    c->wait();
    drop(frame);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i] >= 0) frame.registers[static_cast<size_t>(outputs[i])] = c->outputs[i];
  }

 private:
  std::string name_;
};

// keep_gradient and add_kept_gradient.
class Keep final : public Instruction {
 public:
  Keep(const Call& call, const Assembler& assembler, bool adds)
      : name_(call.op->print_name),
        plan_(call.arguments().str("plan")),
        index_(static_cast<size_t>(call.arguments().integer("index"))),
        adds_(adds) {
    operands.push_back(assembler.natural(call.args[0]));
  }
  std::string str() const override { return name_; }
  void run(Frame& frame) const override {
    at::Tensor g = operands[0].load(frame).toTensor();
    drop(frame);
    if (!adds_) return distributed::keep_gradient(plan_, index_, std::move(g));
    const at::Tensor kept = distributed::take_kept_gradient(plan_, index_);
    if (kept.defined()) g = at::add(g, kept);
    if (outputs[0] >= 0) frame.registers[static_cast<size_t>(outputs[0])] = std::move(g);
  }

 private:
  std::string name_, plan_;
  size_t index_;
  bool adds_;
};

class UsedOrKept final : public Instruction {
 public:
  UsedOrKept(const Call& call, const Assembler& assembler)
      : name_(call.op->print_name), plan_(call.arguments().str("plan")) {
    operands.push_back(assembler.natural(call.args[0]));
  }
  std::string str() const override { return name_; }
  void run(Frame& frame) const override {
    at::Tensor used = operands[0].load(frame).toTensor().clone();
    drop(frame);
    for (size_t i : distributed::parameters_with_kept_gradients(plan_))
      used.narrow(0, static_cast<int64_t>(i), 1).fill_(1);
    if (outputs[0] >= 0) frame.registers[static_cast<size_t>(outputs[0])] = std::move(used);
  }

 private:
  std::string name_, plan_;
};

class GradientIfUsed final : public Instruction {
 public:
  GradientIfUsed(const Call& call, const Assembler& assembler)
      : name_(call.op->print_name), index_(call.arguments().integer("index")) {
    for (size_t i : {0, 1}) operands.push_back(assembler.natural(call.args[i]));
  }
  std::string str() const override { return name_; }
  void run(Frame& frame) const override {
    c10::IValue gradient = operands[0].load(frame);
    const at::Tensor used = operands[1].load(frame).toTensor();
    drop(frame);
    if (used.select(0, index_).item<float>() == 0) gradient = {};
    if (outputs[0] >= 0) frame.registers[static_cast<size_t>(outputs[0])] = std::move(gradient);
  }

 private:
  std::string name_;
  int64_t index_;
};

std::unique_ptr<Instruction> lower(const Call& call, const Assembler& assembler) {
  const std::string& name = call.op->implements->name;
  if (name == "prims.all_gather") return std::make_unique<AllGather>(call, assembler);
  if (name.starts_with("prims.reduce_scatter")) return std::make_unique<ReduceScatter>(call, assembler);
  if (name.starts_with("prims.all_reduce")) return std::make_unique<AllReduce>(call, assembler);
  if (name == "prims.wait") return std::make_unique<Wait>(call, assembler);
  if (name == "prims.used_or_kept") return std::make_unique<UsedOrKept>(call, assembler);
  if (name == "prims.gradient_if_used") return std::make_unique<GradientIfUsed>(call, assembler);
  return std::make_unique<Keep>(call, assembler, name == "prims.add_kept_gradient");
}

class C10dExecutor final : public Executor {
 public:
  C10dExecutor() : Executor("c10d") {
    // An effect from here on: a process that left out a collective whose result it does not need would stop the others.
    for (const char* start :
         {"all_gather", "reduce_scatter", "all_reduce", "reduce_scatter_replicas", "all_reduce_replicas"})
      add(start, cat("torch_", start, "_prim_impl"), kCollective);
    add("wait", "torch_wait_prim_impl", kNoTag);
    add("keep_gradient", "torch_keep_gradient_prim_impl", kNoTag);
    for (const char* prim : {"add_kept_gradient", "used_or_kept", "gradient_if_used"})
      add(prim, cat("torch_", prim, "_prim_impl"), kNoTag);
  }

 private:
  void add(const char* prim, std::string print_name, uint64_t tags) {
    const std::string symbol = cat("prims.", prim);
    Implementation i;
    i.op = &register_implementing_operator(Registry::instance().get(symbol), name(), std::move(print_name), tags);
    register_implementation(symbol, std::move(i));
  }
};

}  // namespace

std::shared_ptr<Executor> make_c10d_executor() {
  register_lowering("c10d", lower);
  return std::make_shared<C10dExecutor>();
}

}  // namespace thunder
