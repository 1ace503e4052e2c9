#include "executors/aten/aten.h"

#include <mutex>
#include <unordered_map>

#include "core/builder.h"
#include "core/error.h"
#include "executors/aten/own_functions.h"
#include "executors/aten/product.h"
#include "executors/aten/record_lowering.h"
#include "executors/aten/rows.h"
#include "executors/implementing.h"

namespace thunder {
namespace {

using aten::OwnFunction;
using aten::RecordLowering;

std::string print_name_of(const Op& op) {
  if (op.is_prim()) return "torch_" + op.schema.name + "_prim_impl";
  if (!op.python.empty()) return op.python.front();
  return op.level + "_" + op.schema.name + "_impl";
}

struct Support {
  OwnFunction function = nullptr;
  std::unique_ptr<RecordLowering> lowering;
  Implementation implementation;
  bool claimable = false;
};

class AtenExecutor final : public Executor {
 public:
  AtenExecutor() : Executor("aten") {}
  bool yields_to_fusion() const override { return true; }

  const Implementation* find(const Call& call) const override {
    if (const Implementation* own = Executor::find(call)) return own;
    // Entries are kept by the operator's address, so operators of one compilation, which come and go, must not get
    // there.
    if (!call.op->executor.empty() || Registry::instance().find(call.op->full_name) != call.op) return nullptr;
    const Support& e = entry(*call.op);
    if (!e.claimable || (!e.function && !e.lowering->operator_for(call.args))) return nullptr;
    return &e.implementation;
  }

  // Entries are made once and never change, so a reference stays good outside of the lock.
  const Support& entry(const Op& op) const {
    std::lock_guard lock(mutex_);
    auto [it, is_new] = entries_.try_emplace(&op);
    Support& e = it->second;
    if (!is_new) return e;
    e.function = aten::find_own_function(op.full_name);
    if (!e.function) e.lowering = std::make_unique<RecordLowering>(op);
    e.claimable = e.function || e.lowering->problem().empty();
    if (e.claimable) e.implementation.op = &register_implementing_operator(op, name(), print_name_of(op));
    return e;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::unordered_map<const Op*, Support> entries_;
};

std::shared_ptr<AtenExecutor> instance() {
  static std::shared_ptr<AtenExecutor> executor = [] {
    auto made = std::make_shared<AtenExecutor>();
    register_lowering(made->name(), [e = made.get()](const Call& call, const Assembler& assembler) {
      const Op& op = *call.op->implements;
      if (auto product = aten::lower_product(op, call, assembler)) return product;
      if (auto rows = aten::lower_rows(op, call, assembler)) return rows;
      if (auto zeros = aten::lower_or_zeros(op, call, assembler)) return zeros;
      const Support& entry = e->entry(op);
      if (entry.function) return aten::lower_own_function(entry.function, op, call, assembler);
      return entry.lowering->lower(call, assembler);
    });
    return made;
  }();
  return executor;
}

std::shared_ptr<Executor> make_aten() { return instance(); }

}  // namespace

ExecutorDefinition aten_executor() { return {.place = ExecutorPlace::Last, .rank = 20, .make = make_aten}; }

void register_aten_operators() {
  const std::vector<const Op*> records = Registry::instance().all();  // a copy: making operators adds to it
  for (const Op* op : records)
    if (op->executor.empty()) instance()->entry(*op);
}

std::string check_record(const Op& op) {
  if (aten::find_own_function(op.full_name)) return {};
  return RecordLowering(op).problem();
}

}  // namespace thunder
