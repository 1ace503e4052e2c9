#include "core/verify.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "core/error.h"
#include "core/print.h"
#include "core/rewrite.h"
#include "core/syntax.h"

namespace thunder {
namespace {

using ValueSet = std::unordered_set<Value, ValueHash>;

// What the calls of a trace, or of one body, can see.
struct VisibleValues {
  ValueSet defined, deleted;
  const Call* owner = nullptr;  // the call whose body it is; null for the trace
};

bool makes_symbols(const Call& call) {
  return call.op->has(kDataDependent | kHostSync) ||
         std::any_of(call.body.begin(), call.body.end(), [](const Call* c) { return makes_symbols(*c); });
}

// What a meta said against what the trace has.  Symbols that the meta made up (the length of a `nonzero`) are as good
// as others.  A length that was asked for after the call was recorded is guarded, so it is as good as its symbol.
class TypeComparison {
 public:
  explicit TypeComparison(const Call& call) : may_rename_(makes_symbols(call)) {
    if (!may_rename_) return;
    for (const Arg& a : call.args) {
      for_each_symbol(a, [&](SymbolId s) { known_.insert(s); });
      visit_values(a, [&](Value v) { know(v.type()); });
    }
  }

  // requires_grad is left out: passes may detach.
  bool same(const Type& expected, const Type& actual) {
    if (expected.kind() != actual.kind()) return false;
    if (expected.is_tensor()) {
      const TensorType &e = expected.tensor(), &a = actual.tensor();
      return e.dtype == a.dtype && e.device == a.device && e.same_layout(a) && same(e.shape, a.shape) &&
             same_strides(e, a);
    }
    if (expected.is_future()) {
      const std::vector<TensorType>&e = expected.future(), &a = actual.future();
      return std::equal(e.begin(), e.end(), a.begin(), a.end(),
                        [&](const TensorType& x, const TensorType& y) { return same(Type(x), Type(y)); });
    }
    if (!expected.is_number()) return expected.same(actual);
    const NumberType &e = expected.number(), &a = actual.number();
    return e.kind == a.kind && e.dim.has_value() == a.dim.has_value() && (!e.dim || same(*e.dim, *a.dim));
  }

 private:
  void know(const Type& t) {
    auto dim = [&](const Dim& d) {
      for (SymbolId s : d.symbols()) known_.insert(s);
    };
    if (t.is_number() && t.number().dim) dim(*t.number().dim);
    if (!t.is_tensor()) return;
    for (const Dim& d : t.tensor().shape) dim(d);
    for (const Dim& d : t.tensor().strides) dim(d);
  }

  bool same(const Dims& expected, const Dims& actual) {
    if (expected.size() != actual.size()) return false;
    for (size_t i = 0; i < expected.size(); ++i)
      if (!same(expected[i], actual[i])) return false;
    return true;
  }

  // Of a dimension that was found to have one element or none, any stride will do.
  bool same_strides(const TensorType& expected, const TensorType& actual) {
    if (expected.strides.size() != actual.strides.size()) return false;
    for (size_t i = 0; i < actual.strides.size(); ++i) {
      const Dim& size = actual.shape[i];
      const Dim found = asked(size);
      if (!size.is_constant() && found.is_constant() && found.constant() <= 1) continue;
      if (!same(expected.strides[i], actual.strides[i])) return false;
    }
    return true;
  }

  static Dim asked(const Dim& d) {
    const ShapeEnv* env = ShapeEnv::current();
    if (d.is_constant() || !env) return d;
    return d.substitute([&](SymbolId s) {
      const std::optional<int64_t> found = env->is_unbacked(s) ? env->hint(s) : std::nullopt;
      return found ? Dim(*found) : Dim::symbol(s);
    });
  }

  bool same(const Dim& expected, const Dim& actual) {
    return same_symbols(expected, actual) || asked(expected).same(asked(actual));
  }

  bool same_symbols(const Dim& expected, const Dim& actual) {
    if (!may_rename_ || expected.is_constant()) return expected.same(actual);
    std::vector<SymbolId> symbols = expected.symbols(), others = actual.symbols();
    bool lone = symbols.size() == 1 && expected.same(Dim::symbol(symbols[0]));
    if (lone && !known_.count(symbols[0]) && others.size() == 1 && actual.same(Dim::symbol(others[0])))
      if (!known_.count(others[0]) && renamed_.emplace(symbols[0], others[0]).second) known_.insert(others[0]);
    return expected
        .substitute([&](SymbolId s) {
          auto it = renamed_.find(s);
          return Dim::symbol(it == renamed_.end() ? s : it->second);
        })
        .same(actual);
  }

  bool may_rename_;
  std::unordered_set<SymbolId> known_;
  std::unordered_map<SymbolId, SymbolId> renamed_;
};

class Verifier {
 public:
  explicit Verifier(const Trace& trace) : trace_(trace) {}

  void run() {
    VisibleValues scope;
    for (Value v : trace_.inputs)
      if (!scope.defined.insert(v).second) fail(nullptr, cat(v.name(), " is an input twice"));
    signature();
    for (const Call* c : trace_.calls) call(*c, scope);
    visit_values(trace_.output, [&](Value v) { readable(v, scope, nullptr, "the return reads"); });
    for_each_symbol(trace_.output, [&](SymbolId s) {
      if (Value v = trace_.arena->symbol_value(s)) readable(v, scope, nullptr, "a size in the return reads");
    });
  }

 private:
  [[noreturn]] void fail(const Call* call, const std::string& what) const {
    std::string where = "trace '" + trace_.name + "'";
    if (!trace_.provenance.pass.empty()) where += " after " + trace_.provenance.pass;
    throw Error(ErrorKind::Internal, cat("[verify] ", where, ": ", what, call ? ", in: " + print(*call) : ""));
  }

  void signature() const {
    const Signature& s = trace_.signature;
    if (s.kind != Signature::Backward) return;
    if (s.saved_tensors + s.saved_numbers > trace_.inputs.size())
      fail(nullptr, "the signature saves more values than there are inputs");
    for (size_t i = s.saved_tensors; i < s.saved_tensors + s.saved_numbers; ++i)
      // Anything that is no tensor stands among the numbers: an autograd graph that is saved whole, for one.
      if (trace_.inputs[i].type().is_tensor())
        fail(nullptr, cat("the saved number ", trace_.inputs[i].name(), " is a tensor"));
  }

  void readable(Value v, const VisibleValues& scope, const Call* call, const char* reader) const {
    if (scope.deleted.count(v)) fail(call, cat(reader, " ", v.name(), " after its del"));
    if (scope.defined.count(v)) return;
    if (!scope.owner) fail(call, cat(reader, " ", v.name(), " before it is defined"));
    fail(call, cat(reader, " ", v.name(), ", which is neither an argument of ", scope.owner->op->full_name,
                   " nor defined before in its body"));
  }

  void call(const Call& c, VisibleValues& scope) const {
    if (!c.op) fail(nullptr, "a call has no operator");
    arguments(c);
    for (const Arg& a : c.args) visit_values(a, [&](Value v) { readable(v, scope, &c, "the call reads"); });
    // A body is not run: a size that it mentions may be bound outside, also after the call.
    if (!scope.owner)
      for (Value v : c.symbols) readable(v, scope, &c, "a size in the call reads");
    if (c.op->full_name == syntax::kDel) {
      visit_values(c.args[0], [&](Value v) {
        if (!scope.deleted.insert(v).second) fail(&c, cat(v.name(), " is deleted twice"));
      });
      return;
    }
    types(c);
    body(c);
    define_outputs(c, scope);
  }

  void arguments(const Call& c) const {
    const std::vector<Param>& params = c.op->schema.params;
    if (c.args.size() != params.size())
      fail(&c, cat(c.op->full_name, " has ", params.size(), " parameters, the call ", c.args.size(), " arguments"));
    for (size_t i = 0; i < params.size(); ++i) {
      const Param& p = params[i];
      if (!accepts(p, c.args[i]) && !(p.default_value && c.args[i].same(*p.default_value)))
        fail(&c, cat("the argument '", p.name, "' = ", print(c.args[i]), " does not fit ", c.op->schema.str()));
    }
  }

  void types(const Call& c) const {
    visit_outputs(c, [&](Value v) {
      if (v.requires_grad() && !is_inexact(v.dtype())) fail(&c, cat(v.name(), " requires grad, but holds ", v.dtype()));
    });
    if (!c.op->meta) return;
    Types expected;
    try {
      expected = c.op->meta(c.arguments());
    } catch (const std::exception& e) {
      fail(&c, cat("the meta refuses the arguments: ", e.what()));
    }
    std::erase_if(expected, [](const Type& t) { return t.kind() == Type::Kind::None; });
    std::vector<Value> outputs = outputs_of(c);
    if (outputs.size() != expected.size())
      fail(&c, cat("the meta gives ", expected.size(), " outputs, the call has ", outputs.size()));
    TypeComparison comparison(c);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (!comparison.same(expected[i], outputs[i].type()))
        fail(&c, cat(outputs[i].name(), " is ", full(outputs[i].type()), ", the meta gives ", full(expected[i])));
  }

  static std::string full(const Type& t) {
    return t.is_tensor() ? cat(t.str(), " strides=", str(t.tensor().strides)) : t.str();
  }

  void body(const Call& c) const {
    if (c.body.empty()) {
      if (c.op->body && !c.op->meta) fail(&c, "the call of a composite has no body");
      return;
    }
    VisibleValues inner;
    inner.owner = &c;
    visit_own_inputs(c, [&](Value v) { inner.defined.insert(v); });
    for (const Call* b : c.body) call(*b, inner);
    visit_outputs(c, [&](Value v) {
      if (!inner.defined.count(v)) fail(&c, cat("the body does not compute ", v.name()));
      if (inner.deleted.count(v)) fail(&c, cat("the body deletes ", v.name(), ", which the call returns"));
    });
  }

  void define_outputs(const Call& c, VisibleValues& scope) const {
    ValueSet known;
    for (const Arg& a : c.args) visit_values(a, [&](Value v) { known.insert(v); });
    visit_outputs(c, [&](Value v) {
      if (known.insert(v).second && !scope.defined.insert(v).second) fail(&c, cat(v.name(), " is defined twice"));
    });
  }

  const Trace& trace_;
};

}  // namespace

void verify(const Trace& trace) {
  // Metas run again in a copy of the environment: they see the hints, find none, and what they record goes with it.
  ShapeEnv scratch;
  if (ShapeEnv::current()) scratch = *ShapeEnv::current();
  ShapeEnv::Scope scope(scratch);
  Verifier(trace).run();
}

}  // namespace thunder
