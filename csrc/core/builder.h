// Builder: the one way to make calls.
//
//   Builder b(arena);
//   Value x = b.input(TensorType{...}, "x");
//   Expr y = b("torch.softmax", x, kw("dim", -1));
//   Trace t = b.finish("computation", y);
//
// A call of a primitive runs its meta and appends a Call with new values.  A call of a composite runs its body in a
// scope of its own; the calls made there become Call::body.  A composite whose body made no call (a conversion to the
// type that the tensor already has) leaves no call at all: its result is its argument.  After a call with a
// data-dependent shape, the builder adds `prims.size` calls, whose number values bind the new symbols.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/trace.h"

namespace thunder {

class Builder;

/// A keyword argument: b("torch.sum", x, kw("dim", 0)).
struct Kw {
  std::string name;
  Arg value;
};
inline Kw kw(std::string name, Arg value) { return Kw{std::move(name), std::move(value)}; }

/// An argument that knows its builder, so that rules can be written as formulas: `0.5 * x * (1.0 + erf)`.
/// The operators are the torch language's: they broadcast and promote, and executors can claim them whole.
class Expr {
 public:
  Expr() = default;
  Expr(Builder& b, Arg arg) : b_(&b), arg_(std::move(arg)) {}
  operator const Arg&() const { return arg_; }
  const Arg& arg() const { return arg_; }
  Value value() const { return arg_.value(); }
  Builder& builder() const { return *b_; }
  bool is_none() const { return arg_.is_none(); }
  const TensorType& tensor() const { return value().tensor(); }
  const Dims& shape() const { return tensor().shape; }
  DType dtype() const { return tensor().dtype; }
  int64_t rank() const { return tensor().rank(); }
  /// The i-th result of an operator that has several.
  Expr operator[](size_t i) const { return Expr(*b_, arg_.items().at(i)); }

 private:
  Builder* b_ = nullptr;
  Arg arg_;
};

Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator*(const Expr& a, const Expr& b);
Expr operator/(const Expr& a, const Expr& b);
Expr operator-(const Expr& a);
Expr operator+(const Expr& a, double b);
Expr operator-(const Expr& a, double b);
Expr operator*(const Expr& a, double b);
Expr operator/(const Expr& a, double b);
Expr operator+(double a, const Expr& b);
Expr operator-(double a, const Expr& b);
Expr operator*(double a, const Expr& b);
Expr operator/(double a, const Expr& b);

class Builder {
 public:
  explicit Builder(std::shared_ptr<Arena> arena);

  const std::shared_ptr<Arena>& arena() const { return arena_; }
  Value input(Type type, std::string name = {});
  /// Makes an existing value an input of the trace being built.
  void add_input(Value v) { inputs_.push_back(v); }
  const std::vector<Value>& inputs() const { return inputs_; }

  /// Calls an operator with all its arguments, one per schema parameter.
  Arg call(const Op& op, ArgList args);
  /// Calls by full name, or by name (the first overload that binds); missing arguments take their defaults.
  /// Error (Type) if nothing binds, with the reason.
  template <class... A>
  Expr operator()(std::string_view op, A&&... args) {
    ArgList positional;
    std::vector<std::pair<std::string, Arg>> keyword;
    (collect(positional, keyword, std::forward<A>(args)), ...);
    return Expr(*this, call_named(op, std::move(positional), std::move(keyword)));
  }
  Arg call_named(std::string_view op, ArgList positional, std::vector<std::pair<std::string, Arg>> keyword);
  Expr expr(Arg a) { return Expr(*this, std::move(a)); }

  /// Appends a call made elsewhere (by a pass that keeps it as it is).
  void append(const Call* call);
  /// The user's line for the calls that follow; nullptr for none.
  void set_location(const SourceLocation* location) { location_ = location; }
  const SourceLocation* location() const { return location_; }

  /// Off: results of the calls that follow do not require grad, as under torch.no_grad().
  void set_grad_enabled(bool on) { grad_enabled_ = on; }
  bool grad_enabled() const { return grad_enabled_; }

  /// The calls of the innermost open scope.
  const std::vector<const Call*>& calls() const { return scopes_.back().calls; }
  /// Those of the program itself, whichever scopes are open in it.
  const std::vector<const Call*>& outermost_calls() const { return scopes_.front().calls; }
  /// Opens a scope: what is called until close_scope() is collected apart.
  void open_scope() { scopes_.emplace_back(); }
  std::vector<const Call*> close_scope();
  /// The same program as the calls of the innermost scope: some of them opened.
  void replace_calls(std::vector<const Call*> calls) { scopes_.back().calls = std::move(calls); }

  /// What runs after every outermost call, with the call: the front end looks for aliases there.
  std::function<void(const Call&)> on_call;

  Trace finish(std::string name, Arg output);

 private:
  static void collect(ArgList& p, std::vector<std::pair<std::string, Arg>>&, const Expr& e) { p.push_back(e.arg()); }
  static void collect(ArgList& p, std::vector<std::pair<std::string, Arg>>&, Arg a) { p.push_back(std::move(a)); }
  static void collect(ArgList&, std::vector<std::pair<std::string, Arg>>& k, Kw a) { k.emplace_back(a.name, a.value); }
  Arg call_primitive(const Op& op, ArgList args);
  Arg call_composite(const Op& op, ArgList args);
  Arg make_outputs(const Op& op, const Types& types, const ArgList& args);
  void bind_symbols(const Arg& output, const std::vector<SymbolId>& symbols);
  void append_made(Call call);

  struct Scope {
    std::vector<const Call*> calls;
    std::vector<SymbolId> symbols;  // bound by calls of this scope
  };

  std::shared_ptr<Arena> arena_;
  std::vector<Value> inputs_;
  std::vector<Scope> scopes_;
  const SourceLocation* location_ = nullptr;
  bool grad_enabled_ = true;
};

/// What a gradient rule sees: the call, the gradients of its outputs, and where to put those of its inputs.
///
///   void mul_vjp(VjpContext& c) {
///     c.put("a", c.grad() * c.in("b"));
///     c.put("b", c.grad() * c.in("a"));
///   }
///
/// `grad(i)` is None for an output through which no gradient flows; if all are, the rule is not run.  Putting None, or
/// a gradient for an input that does not need one, is allowed and does nothing.
class VjpContext {
 public:
  VjpContext(Builder& builder, const Call& call, std::vector<Arg> grads);
  Builder& b;
  const Call& call;

  Args args() const { return call.arguments(); }
  Expr in(std::string_view param) const { return Expr(b, args()[param]); }
  Expr out(size_t i = 0) const;
  Expr grad(size_t i = 0) const { return Expr(b, grads_.at(i)); }
  /// The gradient, or zeros like the output where none flows.
  Expr grad_or_zeros(size_t i = 0) const;
  bool has_grad(size_t i = 0) const { return !grads_.at(i).is_none(); }
  /// Whether the input (any tensor in it, for a list) requires grad.
  bool needs(std::string_view param) const;
  void put(std::string_view param, const Arg& gradient);
  /// For an input that is a list of tensors.
  void put(std::string_view param, size_t index, const Arg& gradient);

  /// Gradients put, as (value, gradient).
  const std::vector<std::pair<Value, Value>>& result() const { return result_; }

 private:
  void put_value(const Arg& input, const Arg& gradient);
  std::vector<Arg> grads_;
  std::vector<std::pair<Value, Value>> result_;
};

}  // namespace thunder
