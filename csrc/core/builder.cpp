#include "core/builder.h"

#include <algorithm>

#include "core/error.h"
#include "core/rewrite.h"
#include "core/shown_name.h"

namespace thunder {

Builder::Builder(std::shared_ptr<Arena> arena) : arena_(std::move(arena)) { open_scope(); }

Value Builder::input(Type type, std::string name) {
  Value v = arena_->make_value(std::move(type), std::move(name));
  inputs_.push_back(v);
  return v;
}

std::vector<const Call*> Builder::close_scope() {
  std::vector<const Call*> calls = std::move(scopes_.back().calls);
  scopes_.pop_back();
  return calls;
}

void Builder::append(const Call* call) {
  scopes_.back().calls.push_back(call);
  if (scopes_.size() == 1 && on_call) on_call(*call);
}

void Builder::append_made(Call call) {
  call.location = location_;
  append(arena_->make_call(std::move(call)));
}

namespace {

// PyTorch's operator may well take it: a torch call that ends here is made as it is.
void require_strided(const Op& op, const ArgList& args) {
  for (const Arg& a : args)
    visit_values(a, [&](Value v) {
      THUNDER_CHECK(!v.type().is_tensor() || v.tensor().strided(), Type, op.schema.name,
                    "this operator takes dense tensors here, got ", v.type().str(), "; use to_dense()");
    });
}

}  // namespace

Arg Builder::call(const Op& op, ArgList args) {
  if (!op.has(kAnyLayout)) require_strided(op, args);
  THUNDER_ASSERT(args.size() == op.schema.params.size(), op.full_name, " takes ", op.schema.params.size(),
                 " arguments, got ", args.size());
  return op.body && !op.meta ? call_composite(op, std::move(args)) : call_primitive(op, std::move(args));
}

Arg Builder::call_named(std::string_view name, ArgList positional, std::vector<std::pair<std::string, Arg>> keyword) {
  const Registry& registry = Registry::instance();
  if (const Op* op = registry.find(name);
      op && (!op->schema.overload.empty() || registry.overloads(name).size() <= 1)) {
    std::string why;
    std::optional<ArgList> args = thunder::bind(op->schema, positional, keyword, &why);
    THUNDER_CHECK(args, Type, shown_name(op->schema), why);
    return call(*op, std::move(*args));
  }
  std::string reasons;
  for (const Op* op : registry.overloads(name)) {
    std::string why;
    if (std::optional<ArgList> args = thunder::bind(op->schema, positional, keyword, &why))
      return call(*op, std::move(*args));
    reasons += "\n  " + op->schema.str() + ": " + why;
  }
  THUNDER_ASSERT(!reasons.empty(), "there is no operator '", name, "'");
  throw Error(ErrorKind::Type, cat("[", name, "] no overload takes these arguments:", reasons));
}

namespace {

// A meta decides the types; the body is there for passes that look inside.
std::vector<const Call*> body_of(Builder& b, const Op& op, const ArgList& args, const Arg& output) {
  b.open_scope();
  Arg inner;
  try {
    inner = op.body(b, Args(op, args));
  } catch (...) {
    b.close_scope();
    throw;
  }
  std::vector<const Call*> body = b.close_scope();
  std::vector<Value> from = values_in(inner), to = values_in(output);
  if (inner.is_none() && !to.empty()) return {};
  THUNDER_ASSERT(from.size() == to.size(), op.full_name, ": the body returns ", from.size(), " values, the meta ",
                 to.size());
  Substitution map;
  for (size_t i = 0; i < from.size(); ++i) map.replace(from[i], to[i]);
  for (const Call*& c : body) c = substitute(*b.arena(), c, map);
  return body;
}

}  // namespace

Arg Builder::call_primitive(const Op& op, ArgList args) {
  THUNDER_ASSERT(op.meta, op.full_name, " has neither meta nor body");
  Types types = op.meta(Args(op, args));
  Call c;
  c.op = &op;
  c.output = make_outputs(op, types, args);
  if (op.body) c.body = body_of(*this, op, args, c.output);
  c.args = std::move(args);
  Arg output = c.output;
  append_made(std::move(c));
  if (op.has(kDataDependent)) {
    std::vector<SymbolId> symbols;
    visit_values(output, [&](Value v) {
      if (!v.type().is_tensor()) return;
      for (const Dim& d : v.shape())
        for (SymbolId s : d.symbols())
          if (!arena_->symbol_value(s) && std::find(symbols.begin(), symbols.end(), s) == symbols.end())
            symbols.push_back(s);
    });
    bind_symbols(output, symbols);
  }
  return output;
}

Arg Builder::call_composite(const Op& op, ArgList args) {
  open_scope();
  Arg output;
  try {
    output = op.body(*this, Args(op, args));
  } catch (...) {
    close_scope();
    throw;
  }
  std::vector<SymbolId> symbols = std::move(scopes_.back().symbols);
  std::vector<const Call*> body = close_scope();
  if (body.empty()) return output;
  append_made(Call{.op = &op, .args = std::move(args), .output = output, .body = std::move(body), .symbols = {}});
  bind_symbols(output, symbols);
  return output;
}

void Builder::bind_symbols(const Arg& output, const std::vector<SymbolId>& symbols) {
  for (SymbolId s : symbols) {
    bool bound = false;
    for (Value v : values_in(output)) {
      if (bound || !v.type().is_tensor()) continue;
      for (size_t i = 0; i < v.shape().size() && !bound; ++i) {
        if (!v.shape()[i].same(Dim::symbol(s))) continue;
        (*this)("prims.size", v, static_cast<int64_t>(i));
        scopes_.back().symbols.push_back(s);
        bound = true;
      }
    }
  }
}

Arg Builder::make_outputs(const Op& op, const Types& types, const ArgList& args) {
  bool any_grad = false;
  if (grad_enabled_ && !op.has(kNoGrad))
    for (const Arg& a : args) visit_values(a, [&](Value v) { any_grad |= v.requires_grad(); });
  ArgList outputs;
  for (const Type& t : types) {
    if (any_grad && t.is_tensor() && is_inexact(t.tensor().dtype) && !t.tensor().requires_grad) {
      TensorType with_grad = t.tensor();
      with_grad.requires_grad = true;
      outputs.push_back(arena_->make_value(std::move(with_grad)));
    } else if (t.kind() == Type::Kind::None) {
      outputs.push_back(nullptr);
    } else {
      outputs.push_back(arena_->make_value(t));
    }
  }
  const std::string& results = op.schema.results;
  if (results == "None") return nullptr;
  if (results.starts_with("(")) return Arg::tuple(std::move(outputs));
  if (results.ends_with("[]")) return Arg::list(std::move(outputs));
  if (results == "any" && outputs.empty()) return nullptr;
  if (results == "any" && outputs.size() > 1) return Arg::tuple(std::move(outputs));
  THUNDER_ASSERT(outputs.size() == 1, op.full_name, " declares one result, its meta gives ", outputs.size());
  return outputs[0];
}

Trace Builder::finish(std::string name, Arg output) {
  THUNDER_ASSERT(scopes_.size() == 1, "a scope was left open");
  Trace t;
  t.name = std::move(name);
  t.arena = arena_;
  t.inputs = inputs_;
  t.calls = std::move(scopes_.back().calls);
  t.output = std::move(output);
  scopes_.back() = {};
  return t;
}

// ---- Expr -----------------------------------------------------------------------------------------------------------

Expr operator+(const Expr& a, const Expr& b) { return a.builder()("torch.add", a, b); }
Expr operator-(const Expr& a, const Expr& b) { return a.builder()("torch.sub", a, b); }
Expr operator*(const Expr& a, const Expr& b) { return a.builder()("torch.mul", a, b); }
Expr operator/(const Expr& a, const Expr& b) { return a.builder()("torch.div", a, b); }
Expr operator-(const Expr& a) { return a.builder()("torch.neg", a); }
Expr operator+(const Expr& a, double b) { return a.builder()("torch.add", a, b); }
Expr operator-(const Expr& a, double b) { return a.builder()("torch.sub", a, b); }
Expr operator*(const Expr& a, double b) { return a.builder()("torch.mul", a, b); }
Expr operator/(const Expr& a, double b) { return a.builder()("torch.div", a, b); }
Expr operator+(double a, const Expr& b) { return b.builder()("torch.add", a, b); }
Expr operator-(double a, const Expr& b) { return b.builder()("torch.sub", a, b); }
Expr operator*(double a, const Expr& b) { return b.builder()("torch.mul", a, b); }
Expr operator/(double a, const Expr& b) { return b.builder()("torch.div", a, b); }

// ---- VjpContext -----------------------------------------------------------------------------------------------------

VjpContext::VjpContext(Builder& builder, const Call& c, std::vector<Arg> grads)
    : b(builder), call(c), grads_(std::move(grads)) {}

Expr VjpContext::out(size_t i) const {
  return Expr(b, call.output.is_sequence() ? call.output.items().at(i) : call.output);
}

Expr VjpContext::grad_or_zeros(size_t i) const {
  if (has_grad(i)) return grad(i);
  return b(out(i).tensor().strided() ? "torch.zeros_like" : "prims.sparse_zeros_like", out(i));
}

bool VjpContext::needs(std::string_view param) const {
  bool any = false;
  visit_values(args()[param], [&](Value v) { any |= v.requires_grad(); });
  return any;
}

void VjpContext::put(std::string_view param, const Arg& gradient) { put_value(args()[param], gradient); }

void VjpContext::put(std::string_view param, size_t index, const Arg& gradient) {
  put_value(args()[param].items().at(index), gradient);
}

void VjpContext::put_value(const Arg& input, const Arg& gradient) {
  if (gradient.is_none() || !input.is_value() || !input.value().requires_grad()) return;
  result_.emplace_back(input.value(), gradient.value());
}

}  // namespace thunder
