#include "executors/c10d/c10d.h"

#include <optional>

#include "core/error.h"
#include "executors/c10d/communicator.h"
#include "executors/implementing.h"
#include "runtime/distributed/kept_gathers.h"
#include "runtime/distributed/kept_gradients.h"
#include "runtime/instruction.h"

namespace thunder {
namespace {

class Start : public Instruction {
 public:
  Start(const Call& call, const Assembler& assembler)
      : name_(call.op->print_name),
        communicator_(call.arguments().str("group")),
        planned_(call.arguments().has("name")),
        what_(what_of(call)) {
    for (const Arg& a : call.args[0].items()) operands.push_back(assembler.natural(a));
    check_size(communicator_, call.arguments().integer("world"));
  }
  std::string str() const override { return name_; }

  void run(Frame& frame) const final {
    auto c = communicator_.begin(what_);
    for (const Operand& o : operands) c->inputs.push_back(o.load(frame).toTensor());
    drop(frame);
    c = start(std::move(c));
    // A user's collective that this process alone does not read is over before the program goes on: what it reads may
    // be written to next.
    if (outputs[0] < 0 && !planned_) c->wait();
    if (outputs[0] >= 0) frame.registers[static_cast<size_t>(outputs[0])] = c10::IValue::make_capsule(std::move(c));
  }

 protected:
  using Started = c10::intrusive_ptr<Communication>;
  /// What the program is to wait for.
  virtual Started start(Started c) const = 0;

  // The same on a process that takes part without a program (shadow.h).
  static std::string what_of(const Call& call) {
    std::string name(call.op->implements->schema.name);
    if (name == "all_gather_once") name = "all_gather";
    return call.arguments().has("name") ? name + " of " + call.arguments().str("name") : name;
  }

  static void check_size(const Communicator& c, int64_t world) {
    THUNDER_CHECK(c.world() == world, Runtime, "distributed", "the program is for ", world,
                  " processes, the group has ", c.world());
  }

  std::string name_;
  Communicator communicator_;
  const bool planned_;  // of a CommunicationPlan, whose buckets have names
  const std::string what_;
};

class AllGather final : public Start {
 public:
  AllGather(const Call& call, const Assembler& assembler) : Start(call, assembler) {
    if (call.op->implements->full_name != "prims.all_gather_once") return;
    plan_ = call.arguments().str("plan");
    keep_ = call.arguments().flag("keep");
  }

 protected:
  Started start(Started c) const override {
    if (!plan_.empty())
      if (const c10::IValue kept = distributed::kept_gather(plan_, what_, keep_); !kept.isNone())
        return c10::static_intrusive_pointer_cast<Communication>(kept.toCapsule());
    communicator_.all_gather(*c, what_);
    if (keep_) distributed::keep_gather(plan_, what_, c10::IValue::make_capsule(c));
    return c;
  }

 private:
  std::string plan_;  // whose micro-batches gather once; else empty
  bool keep_ = false;
};

// Within the group and, of shards in several copies, over the replicas.
class Reduce final : public Start {
 public:
  Reduce(const Call& call, const Assembler& assembler) : Start(call, assembler), op_(call.arguments().str("op")) {
    const std::string& name = call.op->implements->name;
    scatters_ = name.starts_with("prims.reduce_scatter");
    if (!name.ends_with("_replicas")) return;
    replicas_.emplace(call.arguments().str("replicas"));
    check_size(*replicas_, call.arguments().integer("copies"));
  }

 protected:
  Started start(Started c) const override {
    if (scatters_) communicator_.reduce_scatter(*c, op_, what_);
    else communicator_.all_reduce(*c, op_, what_);
    if (replicas_) replicas_->reduce_further(*c, op_, what_);
    return c;
  }

 private:
  std::string op_;
  bool scatters_;
  std::optional<Communicator> replicas_;
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
class Keep final : public Instruction, public Accumulation {
 public:
  Keep(const Call& call, const Assembler& assembler, bool adds)
      : name_(call.op->print_name),
        plan_(call.arguments().str("plan")),
        index_(static_cast<size_t>(call.arguments().integer("index"))),
        adds_(adds) {
    operands.push_back(assembler.natural(call.args[0]));
  }
  std::string str() const override { return name_; }
  Accumulation* sums() override { return this; }
  bool add(size_t, Add add) override { return distributed::add_to_kept_gradient(plan_, index_, add); }

  void run(Frame& frame) const override {
    c10::IValue operand = operands[0].load(frame);
    // None: what makes it has added it to what is kept.
    at::Tensor g = operand.isNone() ? at::Tensor() : std::move(operand).toTensor();
    drop(frame);
    if (!adds_) {
      if (g.defined()) distributed::keep_gradient(plan_, index_, std::move(g));
      return;
    }
    g = g.defined() ? distributed::with_kept_gradient(plan_, index_, std::move(g))
                    : distributed::take_kept_gradient(plan_, index_);
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
  if (name.starts_with("prims.all_gather")) return std::make_unique<AllGather>(call, assembler);
  if (name.starts_with("prims.reduce_scatter") || name.starts_with("prims.all_reduce"))
    return std::make_unique<Reduce>(call, assembler);
  if (name == "prims.wait") return std::make_unique<Wait>(call, assembler);
  if (name == "prims.used_or_kept") return std::make_unique<UsedOrKept>(call, assembler);
  if (name == "prims.gradient_if_used") return std::make_unique<GradientIfUsed>(call, assembler);
  return std::make_unique<Keep>(call, assembler, name == "prims.add_kept_gradient");
}

class C10dExecutor final : public Executor {
 public:
  C10dExecutor() : Executor("c10d") {
    // An effect from here on: a process that left out a collective whose result it does not need would stop the others.
    for (const char* start : {"all_gather", "all_gather_once", "reduce_scatter", "all_reduce",
                              "reduce_scatter_replicas", "all_reduce_replicas"})
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

std::shared_ptr<Executor> make_c10d() {
  register_lowering("c10d", lower);
  return std::make_shared<C10dExecutor>();
}

}  // namespace

ExecutorDefinition c10d_executor() { return {.place = ExecutorPlace::Last, .rank = 10, .make = make_c10d}; }

}  // namespace thunder
