// Small operators with the properties that passes look at, and short ways to look at traces.
#pragma once

#include <doctest.h>

#include <algorithm>
#include <string>

#include "core/test_ops.h"
#include "core/verify.h"
#include "ops/families.h"
#include "passes/executor.h"
#include "passes/visit.h"

namespace thunder::test {

inline Types two_like_a(const Args& args) { return {like_a(args)[0], like_a(args)[0]}; }
inline Types half_meta(const Args& args) {
  TensorType t = args.tensor("a");
  t.dtype = DType::bf16;
  t.requires_grad = false;
  return {t};
}
inline Types transposed_meta(const Args& args) {
  TensorType t = args.tensor("a");
  t.strides = {1, t.shape[0]};
  t.requires_grad = false;
  return {t};
}

inline Arg dropout_body(Builder& b, const Args& args) { return b("pt.mul", args["a"], b("pt.rand", args["a"])); }
inline Arg scale_body(Builder& b, const Args& args) { return b("pt.mul", args["a"], b("pt.heavy", args["a"])); }
inline Arg scale_twice_body(Builder& b, const Args& args) { return b("pt.scale", b("pt.scale", args["a"])); }
inline Arg same_body(Builder& b, const Args& args) { return b("pt.detach", args["a"]); }

inline void mul_vjp(VjpContext& c) {
  c.put("a", c.b("pt.mul", c.grad(), c.in("b")));
  c.put("b", c.b("pt.mul", c.grad(), c.in("a")));
}
inline void exp_vjp(VjpContext& c) { c.put("a", c.b("pt.mul", c.grad(), c.out())); }
inline void heavy_vjp(VjpContext& c) { c.put("a", c.b("pt.mul", c.grad(), c.in("a"))); }
inline void view_vjp(VjpContext& c) { c.put("a", c.b("pt.view", c.grad())); }
inline void half_vjp(VjpContext& c) { c.put("a", c.b("pt.float", c.grad())); }
inline void bad_vjp(VjpContext& c) { c.put("a", c.b("pt.half", c.grad())); }
inline void pair_vjp(VjpContext& c) {
  Expr g = c.b("pt.mul", c.grad_or_zeros(0), c.out(0)), h = c.b("pt.mul", c.grad_or_zeros(1), c.out(1));
  c.put("a", c.b("pt.mul", g, h));
}
inline Types float_meta(const Args& args) {
  TensorType t = args.tensor("a");
  t.dtype = DType::f32;
  t.requires_grad = false;
  return {t};
}

/// Registers them once: `pt.mul`, `pt.rand`, ...
inline void register_pass_ops() {
  ops::register_all();
  register_test_ops();
  Registry& r = Registry::instance();
  if (r.find("pt.mul")) return;
  constexpr uint64_t cheap = kPointwise | kCheap;
  r.add("pt",
        {.schema = "mul(Tensor a, Tensor b) -> Tensor", .doc = "", .tags = cheap, .meta = like_a, .vjp = mul_vjp});
  r.add("pt", {.schema = "exp(Tensor a) -> Tensor", .doc = "", .tags = cheap, .meta = like_a, .vjp = exp_vjp});
  r.add("pt", {.schema = "heavy(Tensor a) -> Tensor", .doc = "", .meta = like_a, .vjp = heavy_vjp});
  r.add("pt", {.schema = "opaque(Tensor a) -> Tensor", .doc = "", .meta = like_a});
  r.add("pt", {.schema = "bad(Tensor a) -> Tensor", .doc = "", .meta = like_a, .vjp = bad_vjp});
  r.add("pt", {.schema = "wide(Tensor a) -> Tensor", .doc = "", .tags = cheap, .meta = like_a, .vjp = half_vjp});
  r.add("pt", {.schema = "half(Tensor a) -> Tensor", .doc = "", .tags = cheap, .meta = half_meta, .vjp = half_vjp});
  r.add("pt", {.schema = "float(Tensor a) -> Tensor", .doc = "", .tags = cheap, .meta = float_meta});
  r.add("pt", {.schema = "rand(Tensor a) -> Tensor", .doc = "", .tags = kRandom | kNoGrad, .meta = like_a});
  r.add("pt", {.schema = "write(Tensor a, Tensor b) -> Tensor", .doc = "", .tags = kWrite, .meta = like_a});
  r.add("pt", {.schema = "read(Tensor a) -> any", .doc = "", .tags = kHostSync, .meta = item_meta});
  r.add("pt", {.schema = "view(Tensor a) -> Tensor", .doc = "", .tags = kView, .meta = like_a, .vjp = view_vjp});
  r.add("pt", {.schema = "views(Tensor a) -> (Tensor, Tensor)", .doc = "", .tags = kView, .meta = two_like_a});
  r.add("pt", {.schema = "exp_pair(Tensor a) -> (Tensor, Tensor)",
               .doc = "",
               .tags = cheap,
               .meta = two_like_a,
               .vjp = pair_vjp});
  r.add("pt", {.schema = "view_pair(Tensor a) -> (Tensor, Tensor)",
               .doc = "",
               .tags = kView,
               .meta = two_like_a,
               .vjp = pair_vjp});
  r.add("pt", {.schema = "transpose(Tensor a) -> Tensor", .doc = "", .tags = kView, .meta = transposed_meta});
  r.add("pt", {.schema = "detach(Tensor a) -> Tensor", .doc = "", .tags = kView | kIdentity | kNoGrad, .meta = like_a});
  r.add("pt", {.schema = "same(Tensor a) -> Tensor", .doc = "", .body = same_body});
  r.add("pt", {.schema = "dropout(Tensor a) -> Tensor", .doc = "", .body = dropout_body});
  r.add("pt", {.schema = "scale(Tensor a) -> Tensor", .doc = "", .body = scale_body});
  r.add("pt", {.schema = "scale_twice(Tensor a) -> Tensor", .doc = "", .body = scale_twice_body});
}

inline Builder pass_builder() {
  register_pass_ops();
  return Builder(std::make_shared<Arena>());
}

/// How often a text has another one in it.
inline size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

/// The top-level calls of an operator.
inline size_t count(const Trace& t, const std::string& name) {
  return static_cast<size_t>(
      std::count_if(t.calls.begin(), t.calls.end(), [&](const Call* c) { return c->op->full_name == name; }));
}

/// The program's lines from the first call on, without annotations, bodies and the unpacking of inputs; verified.
inline std::string code(Trace t) {
  verify(t);
  t.signature = {};
  std::istringstream in(print(t, {.header = false, .annotations = false, .bodies = false}));
  std::string out, line;
  std::getline(in, line);  // def
  while (std::getline(in, line)) out += line.substr(2) + "\n";
  return out;
}

/// An executor that runs the operators in `names`, as "<name>_impl".
inline std::shared_ptr<Executor> executor_for(const std::string& name, const std::vector<std::string>& symbols) {
  register_pass_ops();
  auto e = std::make_shared<Executor>(name);
  for (const std::string& symbol : symbols) {
    const Op& of = Registry::instance().get(symbol);
    std::string schema = of.schema.str();
    OpDef def{.schema = schema, .doc = "", .meta = of.meta};
    def.vjp = of.vjp;
    const Op& op = e->register_operator(def, name + "_" + of.schema.name);
    e->register_implementation(symbol, {.checker = {}, .op = &op, .transform = {}, .grad_transform = {}});
  }
  return e;
}

/// Of the operator that an executor's one stands for.
inline Types implemented_types(const Args& args) {
  Builder b(std::make_shared<Arena>());
  Types types;
  visit_values(b.call(*args.op().implements, args.list()), [&](Value v) { types.push_back(v.type()); });
  return types;
}

/// An executor that runs `symbols`, as "<name>_<operator>"; passes see what its operators stand for.
inline std::shared_ptr<Executor> implementing_executor(const std::string& name,
                                                       const std::vector<std::string>& symbols) {
  ops::register_all();
  auto e = std::make_shared<Executor>(name);
  for (const std::string& symbol : symbols) {
    const Op& record = Registry::instance().get(symbol);
    auto op = std::make_unique<Op>(record);
    op->level = name;
    op->full_name = op->name = name + "." + record.schema.name;
    op->print_name = name + "_" + record.schema.name;
    op->meta = implemented_types;
    op->body = nullptr;
    op->executor = name;
    op->implements = &record;
    const Op& added = Registry::instance().add(std::move(op), true);
    e->register_implementation(symbol, {.checker = {}, .op = &added, .transform = {}, .grad_transform = {}});
  }
  return e;
}

}  // namespace thunder::test
