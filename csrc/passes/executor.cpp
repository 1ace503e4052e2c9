#include "passes/executor.h"

#include <algorithm>

#include "core/error.h"

namespace thunder {
namespace {

const Implementation* find_in(const std::unordered_map<std::string, std::vector<Implementation>>& all,
                              const std::string& symbol, const Call& call) {
  auto it = all.find(symbol);
  if (it == all.end()) return nullptr;
  for (auto i = it->second.rbegin(); i != it->second.rend(); ++i)
    if (!i->checker || i->checker(call)) return &*i;
  return nullptr;
}

void insert_before(ExecutorList& list, std::shared_ptr<Executor> e, std::string_view before) {
  auto place = std::find_if(list.begin(), list.end(), [&](const auto& known) { return known->name() == before; });
  list.insert(place, std::move(e));
}

void drop_named(ExecutorList& list, std::string_view name) {
  std::erase_if(list, [&](const std::shared_ptr<Executor>& e) { return e->name() == name; });
}

}  // namespace

const Implementation* Executor::find(const Call& call) const {
  if (implementations_.empty()) return nullptr;
  const Implementation* found = find_in(implementations_, call.op->full_name, call);
  if (found || call.op->full_name == call.op->name) return found;
  return find_in(implementations_, call.op->name, call);
}

const Implementation* find_specialist(const ExecutorList& list, const Call& call) {
  const ExecutorList always = Executors::instance().always();
  for (const auto& e : list)
    if (std::find(always.begin(), always.end(), e) == always.end())
      if (const Implementation* found = e->find(call)) return found;
  return nullptr;
}

bool may_be_fused(const Call& call) {
  if (call.op->executor.empty()) return true;
  const std::shared_ptr<Executor> claimed_by = Executors::instance().find(call.op->executor);
  return claimed_by && claimed_by->yields_to_fusion();
}

void Executor::register_implementation(std::string symbol, Implementation implementation) {
  implementations_[std::move(symbol)].push_back(std::move(implementation));
}

const Op& Executor::register_operator(const OpDef& def, std::string print_name, bool replace) {
  auto op = std::make_unique<Op>(name_, def);
  op->executor = name_;
  op->print_name = print_name.empty() ? op->schema.name : std::move(print_name);
  return Registry::instance().add(std::move(op), replace);
}

Executors& Executors::instance() {
  static Executors executors;
  return executors;
}

void Executors::add(std::shared_ptr<Executor> e) {
  for (ExecutorList* list : {&defaults_, &always_})
    for (std::shared_ptr<Executor>& known : *list)
      if (known->name() == e->name()) known = e;
  drop_named(all_, e->name());
  all_.push_back(std::move(e));
}

void Executors::reserve_names() {
  auto reserve = [this](const std::string& name) {
    if (!is_reserved(name)) reserved_.push_back(name);
  };
  for (const auto& e : all_) reserve(e->name());
  for (const std::string& name : made_) reserve(name);
  for (const Op* op : Registry::instance().all()) reserve(op->level);
}

bool Executors::is_reserved(std::string_view name) const {
  return std::find(reserved_.begin(), reserved_.end(), name) != reserved_.end();
}

void Executors::remove(std::string_view name) {
  // The name may belong to the executor that goes.
  std::string copy(name);
  drop_named(all_, copy);
  drop_named(defaults_, copy);
  drop_named(always_, copy);
}

std::shared_ptr<Executor> Executors::find(std::string_view name) const {
  for (const auto& e : all_)
    if (e->name() == name) return e;
  return nullptr;
}

ExecutorList Executors::defaults() const {
  ExecutorList out;
  auto is_always = [&](const auto& e) { return std::find(always_.begin(), always_.end(), e) != always_.end(); };
  std::copy_if(defaults_.begin(), defaults_.end(), std::back_inserter(out),
               [&](const auto& e) { return !is_always(e); });
  out.insert(out.end(), always_.begin(), always_.end());
  return out;
}

ExecutorList Executors::always() const { return always_; }

void Executors::add_default(std::shared_ptr<Executor> e) {
  if (!find(e->name())) add(e);
  drop_named(defaults_, e->name());
  defaults_.insert(defaults_.begin(), std::move(e));
}

void Executors::remove_default(std::string_view name) { drop_named(defaults_, std::string(name)); }

void Executors::add_default(std::shared_ptr<Executor> e, std::string_view before) {
  if (!find(e->name())) add(e);
  drop_named(defaults_, e->name());
  insert_before(defaults_, std::move(e), before);
}

void Executors::add_always(std::shared_ptr<Executor> e, std::string_view before) {
  if (!find(e->name())) add(e);
  drop_named(always_, e->name());
  insert_before(always_, std::move(e), before);
}

}  // namespace thunder
