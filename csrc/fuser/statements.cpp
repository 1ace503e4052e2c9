#include "fuser/statements.h"

namespace thunder::fuser {
namespace {

constexpr size_t kMaxStatements = 4000;  // beyond that a kernel is no longer readable, nor quick to compile

}  // namespace

std::vector<std::string>& Statements::at(LoopScope scope) {
  if (++count_ > kMaxStatements) throw Refused();
  if (in_finish_ && !kernel_.last) return kernel_.finish;
  Phase& p = in_finish_ ? *kernel_.last : kernel_.phases.back();
  return scope == LoopScope::Row ? p.row : scope == LoopScope::Chunk ? p.chunk : p.lane;
}

Scalar Statements::define(const std::string& type, const std::string& text, LoopScope scope) {
  std::string name = fresh("t");
  at(scope).push_back("const " + type + " " + name + " = " + text + ";");
  return {name, scope};
}

Scalar Statements::defined_once(const std::string& type, const std::string& text, LoopScope scope) {
  auto& known = scope == LoopScope::Row ? row_ : loop_;
  auto [it, is_new] = known.try_emplace(text);
  if (is_new) it->second = define(type, text, scope);
  return it->second;
}

Access Statements::access(size_t operand, const Index& place, LoopScope scope) const {
  const Index at = places_.without_parts(place);
  if (in_finish_) return {operand, at, SIZE_MAX, scope, kernel_.finish.size()};
  const Phase& p = kernel_.phases.back();
  const auto& statements = scope == LoopScope::Row ? p.row : scope == LoopScope::Chunk ? p.chunk : p.lane;
  return {operand, at, kernel_.phases.size() - 1, scope, statements.size()};
}

const Scalar* Statements::known(const std::string& key) const {
  for (const auto* values : {&row_, &loop_})
    if (auto it = values->find(key); it != values->end()) return &it->second;
  return nullptr;
}

void Statements::forget() {
  row_.clear();
  loop_.clear();
}

void Statements::begin_phase() {
  kernel_.phases.emplace_back();
  loop_.clear();
}

void Statements::begin_finish() {
  in_finish_ = true;
  forget();
  places_.enter_finish();
}

void Statements::begin_last() {
  in_finish_ = true;
  forget();
  kernel_.last.emplace();
  places_.enter_last();
}

}  // namespace thunder::fuser
