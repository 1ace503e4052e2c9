// The environment of a compilation: symbols, hints and guards.
#include <atomic>
#include <utility>

#include "core/dim.h"
#include "core/equal_sources.h"
#include "core/number.h"

namespace thunder {
namespace {

// Ids are unique in the process, so that dims of two environments never look alike.
std::atomic<SymbolId> next_symbol{0};

thread_local ShapeEnv* current_env = nullptr;
thread_local SizeAnswers* current_answers = nullptr;

}  // namespace

Dim ShapeEnv::make_symbol(std::optional<int64_t> hint, std::string name, int64_t least) {
  SymbolId id = next_symbol++;
  if (name.empty()) name = (hint ? "s" : "u") + std::to_string(symbols_.size());
  symbols_[id] = {hint, std::move(name), hint ? least : 0, !hint};
  return Dim::symbol(id);
}

Dim ShapeEnv::make_size(int64_t hint) {
  const Dim d = make_symbol(hint, {}, 1);
  symbols_.at(d.symbols().at(0)).may_be_one = true;
  return d;
}

bool ShapeEnv::may_be_one(SymbolId id) const {
  auto it = symbols_.find(id);
  return it != symbols_.end() && it->second.may_be_one;
}

Dim ShapeEnv::symbol_of(const std::string& what, const void* source) {
  if (EqualSources* equal = EqualSources::current()) source = equal->first(source);
  auto [it, is_new] = found_.try_emplace({what, source});
  if (is_new) it->second = make_symbol(std::nullopt);
  return it->second;
}

std::optional<int64_t> ShapeEnv::hint(SymbolId id) const {
  auto it = symbols_.find(id);
  return it == symbols_.end() ? std::nullopt : it->second.hint;
}

bool ShapeEnv::is_unbacked(SymbolId id) const {
  auto it = symbols_.find(id);
  return it != symbols_.end() && it->second.unbacked;
}

void ShapeEnv::set_hint(SymbolId id, int64_t value) { symbols_.at(id).hint = value; }

bool ShapeEnv::knows(const Dim& size, SizeAnswers::Need need) {
  SizeAnswers* answers = current_env == this ? current_answers : nullptr;
  for (SymbolId s : size.symbols())
    if (!hint(s) && !(answers && answers->find(s, need))) return false;
  return true;
}

int64_t ShapeEnv::least(SymbolId id) const {
  auto it = symbols_.find(id);
  return it == symbols_.end() ? 0 : it->second.least;
}

const std::string& ShapeEnv::name(SymbolId id) const {
  static const std::string unknown = "s?";
  auto it = symbols_.find(id);
  return it == symbols_.end() ? unknown : it->second.name;
}

void ShapeEnv::guard(DimGuard g) {
  for (const DimGuard& known : guards_)
    if (known.relation == g.relation && known.left.same(g.left) && known.right.same(g.right)) return;
  if (location && g.where.empty()) g.where = location();
  guards_.push_back(std::move(g));
}

NumberPtr ShapeEnv::make_number(double hint) {
  number_hints_.push_back(hint);
  return NumberExpr::input(number_hints_.size() - 1);
}

double ShapeEnv::specialize(const NumberPtr& number) {
  const double value = number->hinted(*this);
  guard(NumberGuard{NumberGuard::Equal, true, number, NumberExpr::constant(value)});
  return value;
}

void ShapeEnv::guard(NumberGuard g) {
  for (const auto& known : number_guards_)
    if (known->relation == g.relation && known->left->same(*g.left) && known->right->same(*g.right)) return;
  if (location) g.where = location();
  number_guards_.push_back(std::make_shared<const NumberGuard>(std::move(g)));
}

ShapeEnv* ShapeEnv::current() { return current_env; }
ShapeEnv::Scope::Scope(ShapeEnv& env, SizeAnswers* answers)
    : previous_(std::exchange(current_env, &env)), previous_answers_(std::exchange(current_answers, answers)) {}
ShapeEnv::Scope::~Scope() {
  current_env = previous_;
  current_answers = previous_answers_;
}
SizeAnswers* ShapeEnv::Scope::answers() { return current_answers; }

ShapeEnv::LayingOut::LayingOut() : env_(current_env) {
  if (env_) before_ = std::exchange(env_->laying_out_, true);
}
ShapeEnv::LayingOut::~LayingOut() {
  if (env_) env_->laying_out_ = before_;
}

ShapeEnv::Exactly::Exactly() : env_(current_env) {
  if (env_) before_ = std::exchange(env_->exact_, true);
}
ShapeEnv::Exactly::~Exactly() {
  if (env_) env_->exact_ = before_;
}

ShapeEnv::Asking::Asking(bool insists) : env_(current_env) {
  if (!env_) return;
  before_ = std::exchange(env_->asks, true);
  insisted_ = std::exchange(env_->insists, insists);
}
ShapeEnv::Asking::~Asking() {
  if (!env_) return;
  env_->asks = before_;
  env_->insists = insisted_;
}

}  // namespace thunder
