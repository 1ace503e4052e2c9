#include "jit/entry_inputs.h"

#include <algorithm>

#include "passes/visit.h"
#include "runtime/interop.h"

namespace thunder {

using frontend::InputSource;
using frontend::ValueRead;

namespace {

InputOfEntry source_of(CacheEntry& e, const InputSource& s) {
  using Number = CacheEntry::Number;
  if (s.kind == InputSource::Number) {
    Number n{Number::Computed, 0, s.number, s.integer};
    std::optional<size_t> at = s.integer && e.symbols ? e.symbols->index(s.number->size()) : std::nullopt;
    if (at) n.kind = Number::Int, n.index = *at;
    if (s.number->op() == NumberExpr::Op::Input && e.symbols && s.number->index() < e.symbols->numbers().floats.size())
      n.kind = Number::Float, n.index = s.number->index();
    e.numbers.push_back(std::move(n));
    return {InputSource::Number, e.numbers.size() - 1};
  }
  if (s.kind == InputSource::Entry) {
    e.counters.push_back(s.place);
    return {InputSource::Entry, e.counters.size() - 1};
  }
  e.by_place = e.by_place || s.whole_storage;
  if (s.kind == InputSource::Argument) return {s.kind, s.argument, s.whole_storage};
  const std::vector<PyObject*>& known = e.environment.tensors();
  const auto it = std::find(known.begin(), known.end(), s.tensor.get());
  const size_t index = static_cast<size_t>(it - known.begin());
  if (it == known.end()) e.environment.add_tensor(s.tensor.get());
  return {InputSource::Captured, index, s.whole_storage};
}

// Whether a guard is about what the program read, and not about the call's own sizes and numbers alone.
struct OfReads {
  const std::vector<ValueRead>& reads;

  bool operator()(SymbolId s) const {
    return std::any_of(reads.begin(), reads.end(), [&](const ValueRead& r) { return r.symbol == s; });
  }
  bool operator()(const Dim& d) const {
    const std::vector<SymbolId> symbols = d.symbols();
    return std::any_of(symbols.begin(), symbols.end(), *this);
  }
  bool operator()(const DimGuard& g) const { return (*this)(g.left) || (*this)(g.right); }
  bool operator()(const NumberGuard& g) const {
    bool any = false;
    auto leaf = [&](const NumberExpr& e) {
      if (e.op() == NumberExpr::Op::Size) any = any || (*this)(e.size());
      else
        any = any || std::any_of(reads.begin(), reads.end(), [&](const ValueRead& r) { return r.input == e.index(); });
    };
    g.left->visit(leaf);
    g.right->visit(leaf);
    return any;
  }
};

std::string text_of(const ValueRead& r, const c10::IValue& answer) {
  const std::string at = r.where.empty() ? "" : ", asked at " + r.where;
  if (r.exact) return cat(r.what, "() == ", describe(answer), at);
  if (answer.isTensor()) return cat(r.what, "() is random", at);
  return cat(r.what, "() is a number", r.least > 0 ? cat(" of at least ", r.least) : "", at);
}

// The reads of an acquisition, one by one, as checks.
class EntryChecks {
 public:
  using Values = std::unordered_map<ValueId, Value>;

  EntryChecks(ValueChecks& out, const ShapeEnv& env, const std::function<bool(const DimGuard&)>& dim_of_reads,
              const std::function<bool(const NumberGuard&)>& number_of_reads)
      : out_(out), env_(env), dim_of_reads_(dim_of_reads), number_of_reads_(number_of_reads) {}

  /// The value is an input of the program, the next one of those that checks begin with.
  void add_input(Value v) { inputs_.emplace(v.id(), inputs_.size()); }

  /// `ours`: the step's values by those of the read.
  ValueChecks::Check& add(const ValueRead& r, std::shared_ptr<ValueStep> step, const Values& ours) {
    ValueChecks::Check c;
    take_guards(r.dim_guards, r.number_guards, c.dims, c.numbers);
    c.step = std::move(step);
    std::unordered_map<ValueId, ValueId> theirs;
    for (const auto& [id, v] : ours) theirs[v.id()] = id;
    for (Value v : c.step->inputs()) c.inputs.push_back(input(theirs.at(v.id())));
    for (const Call* call : r.calls)
      visit_outputs(*call, [&](Value v) { made_[v.id()] = {out_.checks.size(), ours.at(v.id())}; });
    c.answer = on_host(from_python(r.answer.get()));
    // It may lie in the memory of an input, or of a result, which others write to.
    if (c.answer.isTensor()) c.answer = c.answer.toTensor().clone();
    c.exact = r.exact;
    c.symbol = r.symbol;
    c.is_float = r.input.has_value();
    c.least = r.least;
    c.text = text_of(r, c.answer);
    out_.checks.push_back(std::move(c));
    return out_.checks.back();
  }

  /// Where a value is that reads computed.
  ValueChecks::Input find(Value v) { return input(v.id()); }

  void finish() { take_guards(env_.guards().size(), env_.number_guards().size(), out_.last_dims, out_.last_numbers); }

 private:
  // Guards that the program recorded since the last read.
  void take_guards(size_t dims, size_t numbers, std::vector<DimGuard>& d, std::vector<NumberGuard>& n) {
    for (; next_dim_ < dims; ++next_dim_)
      if (dim_of_reads_(env_.guards()[next_dim_])) d.push_back(env_.guards()[next_dim_]);
    for (; next_number_ < numbers; ++next_number_)
      if (number_of_reads_(*env_.number_guards()[next_number_])) n.push_back(*env_.number_guards()[next_number_]);
  }

  ValueChecks::Input input(ValueId id) {
    auto kept = made_.find(id);
    if (kept == made_.end()) return {false, inputs_.at(id), 0};
    ValueChecks::Check& before = out_.checks[kept->second.first];
    const size_t result = before.step->keep(kept->second.second);
    before.results = std::max(before.results, result + 1);
    return {true, kept->second.first, result};
  }

  ValueChecks& out_;
  const ShapeEnv& env_;
  std::function<bool(const DimGuard&)> dim_of_reads_;
  std::function<bool(const NumberGuard&)> number_of_reads_;
  size_t next_dim_ = 0, next_number_ = 0;
  std::unordered_map<ValueId, size_t> inputs_;
  std::unordered_map<ValueId, std::pair<size_t, Value>> made_;  // the check whose step computes it; the step's value
};

void add_checks(CacheEntry& e, const CallKey& key, const frontend::Acquired& acquired, EntryChecks& checks,
                SharedSteps& steps, Learned& learned) {
  key.answers = std::make_unique<ValueAnswers>();
  for (const auto& [value, source] : acquired.read_inputs) {
    checks.add_input(value);
    e.check_inputs.push_back(source_of(e, source));
  }
  for (const ValueRead& r : acquired.reads) {
    EntryChecks::Values ours;
    std::shared_ptr<ValueStep> step = steps.step_for(r, acquired.computation.arena, ours);
    key.answers->ran.push_back({step.get(), {}, {}, {}, {}, r.undo});
    key.answers->steps.push_back(&key.answers->ran.back());
    if (r.undo) key.answers->drawn.push_back(&key.answers->ran.back());
    const ValueChecks::Check& c = checks.add(r, std::move(step), ours);
    // What another call reads there tells whether it varies.
    if (c.exact && c.answer.isInt()) learned.add_int(r.place, c.answer.toInt());
    if (c.symbol) key.answers->integers[*c.symbol] = c.answer.toInt();
    if (c.is_float) key.answers->floats.push_back(c.answer.toDouble());
  }
  checks.finish();
}

}  // namespace

void add_inputs(CacheEntry& e, const CallKey& key, const frontend::Acquired& acquired, const ShapeEnv& env,
                SharedSteps& steps, Learned& learned) {
  const OfReads of_reads{acquired.reads};
  if (e.symbols) e.symbols->keep_guards(env, of_reads, of_reads);
  EntryChecks checks(e.checks, env, of_reads, of_reads);
  if (!acquired.reads.empty()) add_checks(e, key, acquired, checks, steps, learned);
  for (const InputSource& s : acquired.sources) {
    if (s.kind != InputSource::Read) {
      e.sources.push_back(source_of(e, s));
      e.sources.back().leaf = s.leaf;
      e.sources.back().becomes_leaf = s.becomes_leaf;
      e.asks_for_leaves = e.asks_for_leaves || s.leaf || s.becomes_leaf;
      continue;
    }
    const ValueChecks::Input at = checks.find(s.value);
    e.sources.push_back({.kind = s.kind, .index = at.index, .result = at.result});
    std::vector<c10::IValue>& now = key.answers->ran[at.index].results;
    now.resize(std::max(now.size(), at.result + 1));
    now[at.result] = from_python(s.tensor.get());
  }
  for (const Ref& t : acquired.arguments_outside) e.environment.add_tensor(t.get());
  e.by_place = e.by_place || !acquired.arguments_outside.empty();
}

}  // namespace thunder
