// Calls and programs with symbols for sizes.
#include "core/builder.h"
#include "core/error.h"
#include "core/print.h"
#include "fuzz/checks.h"
#include "fuzz/random.h"

namespace thunder::fuzz {
namespace {

class SymbolicCall {
 public:
  SymbolicCall(const Op& op, const ArgList& args) : op_(op), args_(args) {}

  std::vector<std::string> run() {
    std::vector<std::string> findings;
    std::vector<Value> expected, actual;
    if (!has_constant_sizes()) return {};
    try {
      ShapeEnv constant;
      ShapeEnv::Scope scope(constant);
      expected = call(args_);
    } catch (const Error& e) {
      return {cat(op_.full_name, " refuses what it took before: ", e.what(), "\n  ", describe())};
    }
    ShapeEnv::Scope scope(environment_);
    auto found = [&](const std::string& what) {
      findings.push_back(cat(op_.full_name, " on symbolic sizes: ", what, "\n  ", describe()));
    };
    try {
      ArgList symbolic;
      for (const Arg& a : args_) symbolic.push_back(map_values(a, [&](Value v) -> Arg { return symbolized(v); }));
      actual = call(symbolic);
    } catch (const std::exception& e) {
      found(e.what());
      return findings;
    }
    if (expected.size() != actual.size()) {
      found(cat("gives ", actual.size(), " values, with constants ", expected.size()));
      return findings;
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      std::string why = compare(expected[i].type(), actual[i].type());
      if (!why.empty()) found(why);
    }
    return findings;
  }

 private:
  std::vector<Value> call(const ArgList& args) {
    auto arena = std::make_shared<Arena>();
    arenas_.push_back(arena);
    Builder b(arena);
    return values_in(b.call(op_, args));
  }

  // Lengths known at run time only belong to another compilation.
  bool has_constant_sizes() const {
    bool constant = true;
    for (const Arg& a : args_) {
      for_each_symbol(a, [&](SymbolId) { constant = false; });
      visit_values(a, [&](Value v) {
        if (v.type().is_number() && v.type().number().dim) constant &= v.type().number().dim->is_constant();
        if (v.type().is_tensor())
          for (const Dim& d : v.shape()) constant &= d.is_constant();
      });
    }
    return constant;
  }

  static std::string full_type(Value v) {
    return " : " + v.type().str() + (v.type().is_tensor() ? " strides=" + str(v.tensor().strides) : "");
  }

  std::string describe() const {
    std::vector<std::string> parts;
    for (const Arg& a : args_) {
      parts.push_back(thunder::print(a));
      visit_values(a, [&](Value v) { parts.back() += full_type(v); });
    }
    return op_.schema.str() + " with " + join(parts);
  }

  Value symbolized(Value v) {
    if (auto it = symbolized_.find(v); it != symbolized_.end()) return it->second;
    if (!v.type().is_tensor()) return v;
    TensorType t = v.tensor();
    bool contiguous = same(t.strides, contiguous_strides(t.shape));
    // A compilation specialises on sizes of 0 and 1, as PyTorch's do: layouts and broadcasting depend on them.
    for (Dim& d : t.shape)
      if (d.constant() > 1) d = environment_.make_symbol(d.constant());
    // Dense layouts follow the sizes; gaps and expansions stay numbers.
    if (contiguous) t.strides = contiguous_strides(t.shape);
    if (arenas_.empty()) arenas_.push_back(std::make_shared<Arena>());
    return symbolized_[v] = arenas_[0]->make_value(t);
  }

  // The number under the hints; nothing if a run decides.
  std::optional<int64_t> value_of(const Dim& d) const {
    bool known = true;
    Dim v = d.substitute([&](SymbolId s) -> Dim {
      std::optional<int64_t> h = environment_.hint(s);
      known &= h.has_value();
      return h.value_or(1);
    });
    if (!known) return std::nullopt;
    return v.constant();
  }

  std::string compare_dims(const char* what, const Dims& expected, const Dims& actual) const {
    if (expected.size() != actual.size()) return cat(what, " of another length");
    for (size_t i = 0; i < expected.size(); ++i) {
      std::optional<int64_t> n = value_of(actual[i]);
      if (n && (!expected[i].is_constant() || expected[i].constant() != *n))
        return cat(what, " ", str(actual), ", which is ", *n, " at ", i, ", with constants ", str(expected));
    }
    return {};
  }

  std::string compare(const Type& expected, const Type& actual) const {
    if (expected.kind() != actual.kind()) return "gives something of another kind";
    if (!expected.is_tensor()) return {};
    const TensorType &e = expected.tensor(), &a = actual.tensor();
    if (e.dtype != a.dtype) return cat("gives ", a.dtype, ", with constants ", e.dtype);
    if (e.requires_grad != a.requires_grad) return "another requires_grad";
    std::string why = compare_dims("shape", e.shape, a.shape);
    return why.empty() ? compare_dims("strides", e.strides, a.strides) : why;
  }

  const Op& op_;
  const ArgList& args_;
  ShapeEnv environment_;
  std::vector<std::shared_ptr<Arena>> arenas_;
  std::map<Value, Value, decltype([](Value a, Value b) { return a.id() < b.id(); })> symbolized_;
};

class SymbolicProgram {
 public:
  explicit SymbolicProgram(const Program& from) : from_(from), random_(from.seed), builder_(arena_) {}

  std::optional<Program> run() {
    Program out;
    out.seed = from_.seed;
    out.environment = environment_;
    ShapeEnv::Scope scope(*environment_);
    for (size_t i = 0; i < from_.inputs.size(); ++i) {
      Value v = from_.trace.inputs[i];
      if (v.type().is_tensor() && !all_constant(v.shape())) return std::nullopt;
      values_[v.id()] = input(v);
      out.inputs.push_back(from_.inputs[i]);
    }
    try {
      for (const Call* c : from_.trace.calls) call(*c);
    } catch (const Error&) {
      return std::nullopt;
    }
    out.trace = from_.trace.derived();
    out.trace.arena = arena_;
    out.trace.calls = builder_.calls();
    out.trace.inputs.clear();
    for (Value v : from_.trace.inputs) out.trace.inputs.push_back(values_.at(v.id()).value());
    for (const auto& [number, n] : numbers_) {
      out.trace.inputs.push_back(number);
      out.inputs.push_back(n);
    }
    out.trace.output = mapped(from_.trace.output);
    return out;
  }

 private:
  Arg mapped(const Arg& a) {
    return map_values(a, [&](Value v) -> Arg { return values_.at(v.id()); });
  }

  void call(const Call& c) {
    ArgList args;
    const bool takes_numbers = c.op->is_prim() && c.op->has(kPointwise);
    for (const Arg& a : c.args) {
      args.push_back(mapped(a));
      if (takes_numbers && a.kind() == Arg::Kind::Float && random_.below(2) == 0) args.back() = number(a.real());
    }
    const Arg result = builder_.call(*c.op, std::move(args));
    const std::vector<Value> before = values_in(c.output), after = values_in(result);
    if (before.size() != after.size()) throw Error(ErrorKind::Runtime, "the call gives another number of values");
    for (size_t i = 0; i < before.size(); ++i) values_[before[i].id()] = after[i];
  }

  Dim symbol(int64_t n) {
    if (auto it = symbols_.find(n); it != symbols_.end() && random_.below(3) > 0) return it->second;
    const Dim d = environment_->make_symbol(n);
    symbols_.insert_or_assign(n, d);
    numbers_.emplace_back(arena_->make_value(NumberType{NumberKind::Int, d}), reference::Datum::integer(n));
    return d;
  }

  Value number(double x) {
    const Value v = arena_->make_value(NumberType{NumberKind::Float, std::nullopt});
    numbers_.emplace_back(v, reference::Datum::of_number(NumberKind::Float, reference::Element::real(x)));
    return v;
  }

  // Dense layouts follow the sizes; gaps and expansions stay numbers.
  Value input(Value v) {
    if (!v.type().is_tensor()) return arena_->make_value(v.type());
    TensorType t = v.tensor();
    const bool contiguous = same(t.strides, contiguous_strides(t.shape));
    for (Dim& d : t.shape)
      if (d.constant() > 1 && random_.below(4) > 0) d = symbol(d.constant());
    if (contiguous) t.strides = contiguous_strides(t.shape);
    return arena_->make_value(t);
  }

  const Program& from_;
  Random random_;
  std::shared_ptr<Arena> arena_ = std::make_shared<Arena>();
  std::shared_ptr<ShapeEnv> environment_ = std::make_shared<ShapeEnv>();
  Builder builder_;
  std::map<ValueId, Arg> values_;
  std::map<int64_t, Dim> symbols_;
  std::vector<std::pair<Value, reference::Datum>> numbers_;
};

}  // namespace

std::optional<Program> with_symbols(const Program& program) { return SymbolicProgram(program).run(); }

std::vector<std::string> check_symbolic(const Op& op, const ArgList& args) { return SymbolicCall(op, args).run(); }

}  // namespace thunder::fuzz
