#include "passes/group_heads.h"

#include <string>

#include "passes/pass_ops.h"
#include "passes/passes.h"

namespace thunder {
namespace {

using test::code;
using test::f32;
using test::pass_builder;

// An executor that takes attention where `takes` says so, by an operator of its own.
std::shared_ptr<Executor> attention_executor(std::string name, std::function<bool(const Args&)> takes) {
  auto e = std::make_shared<Executor>(std::move(name));
  e->register_implementation("torch.scaled_dot_product_attention",
                             {.checker = [takes](const Call& c) { return takes(c.arguments()); },
                              .op = nullptr,
                              .transform = [](Builder& b, const Args& a) { return Arg(a["query"]); },
                              .grad_transform = nullptr});
  return e;
}

bool takes_all(const Args&) { return true; }
bool takes_grouped(const Args& a) { return a.flag("enable_gqa"); }
bool takes_equal(const Args& a) { return !a.flag("enable_gqa"); }

TensorType tensor(Dims shape, bool grad = false) {
  TensorType t = f32(std::move(shape));
  t.requires_grad = grad;
  return t;
}

Expr expanded(const Expr& x, int64_t n) {
  Dims s = x.shape();
  Expr wide = x.builder()("torch.expand", x.builder()("torch.unsqueeze", x, 2), Dims{s[0], s[1], n, s[2], s[3]});
  return x.builder()("torch.reshape", wide, Dims{s[0], s[1] * n, s[2], s[3]});
}

Expr attention(const Expr& q, const Expr& k, const Expr& v) {
  return q.builder()("torch.scaled_dot_product_attention", q, k, v, kw("is_causal", true));
}

struct Program {
  Builder b = pass_builder();
  Expr q{b, b.input(tensor({2, 8, 5, 16}), "q")};
  Expr k{b, b.input(tensor({2, 2, 5, 16}), "k")};
  Expr v{b, b.input(tensor({2, 2, 5, 16}), "v")};

  std::string after(const Expr& result, const ExecutorList& executors) {
    return code(dce(group_heads(b.finish("f", result), executors)));
  }
};

const std::string kGrouped =
    "t = ltorch.scaled_dot_product_attention(q, k, v, None, 0.0, True, enable_gqa=True)\nreturn t\n";

// The text with the number of its one result left out.
std::string unnumbered(std::string text) {
  for (size_t at = 0; (at = text.find('t', at)) != std::string::npos; ++at)
    while (at + 1 < text.size() && text[at + 1] >= '0' && text[at + 1] <= '9') text.erase(at + 1, 1);
  return text;
}

TEST_CASE("group_heads: nothing to do") {
  Program p;
  Trace none = p.b.finish("f", p.b("torch.mul", p.q, p.q));
  CHECK(group_heads(none, {attention_executor("e", takes_all)}).calls == none.calls);
  Program plain;
  Expr all{plain.b, plain.b.input(tensor({2, 8, 5, 16}), "all")};
  Trace t = plain.b.finish("f", attention(plain.q, all, all));
  CHECK(group_heads(t, {attention_executor("e", takes_all)}).calls == t.calls);
}

TEST_CASE("group_heads: repeat_interleave, and unsqueeze, expand and reshape, in any combination") {
  for (int form = 0; form < 4; ++form) {
    Program p;
    auto repeat = [&](const Expr& x, bool interleave) {
      return interleave ? p.b("torch.repeat_interleave", x, 4, 1) : expanded(x, 4);
    };
    Expr y = attention(p.q, repeat(p.k, form & 1), repeat(p.v, form & 2));
    CHECK(unnumbered(p.after(y, {attention_executor("e", takes_all)})) == unnumbered(kGrouped));
  }
}

TEST_CASE("group_heads: the readers of the result read the new one") {
  Program p;
  Expr y = attention(p.q, expanded(p.k, 4), expanded(p.v, 4));
  Expr z = attention(p.b("torch.mul", y, p.q), expanded(p.k, 4), expanded(p.v, 4));
  Trace t = dce(group_heads(p.b.finish("f", z), {attention_executor("e", takes_all)}));
  CHECK(t.calls.size() == 3);
  CHECK_NOTHROW(verify(t));
}

TEST_CASE("group_heads: refused where no executor takes grouped heads, or only one further down the list") {
  auto run = [](const ExecutorList& executors) {
    Program p;
    return p.after(attention(p.q, expanded(p.k, 4), expanded(p.v, 4)), executors);
  };
  auto equal = attention_executor("equal", takes_equal), grouped = attention_executor("grouped", takes_grouped);
  const std::string refused = run({});
  CHECK(refused.find("enable_gqa") == std::string::npos);
  CHECK(run({equal}) == refused);
  CHECK(run({equal, grouped}) == refused);
  CHECK(unnumbered(run({grouped, equal})) == unnumbered(kGrouped));
}

TEST_CASE("group_heads: refused where it is another expansion") {
  ExecutorList all = {attention_executor("e", takes_all)};
  Program p;
  // Heads in another order: head h reads h modulo 2, not h / 4.
  Expr tiled = p.b("torch.repeat", p.k, Dims{1, 4, 1, 1});
  CHECK(p.after(attention(p.q, tiled, expanded(p.v, 4)), all).find("enable_gqa") == std::string::npos);
  // Rows are repeated, not heads.
  Program rows;
  Expr half{rows.b, rows.b.input(tensor({2, 8, 1, 16}), "half")};
  Expr long_rows = rows.b("torch.repeat_interleave", half, 5, 2);
  CHECK(rows.after(attention(rows.q, long_rows, long_rows), all).find("enable_gqa") == std::string::npos);
  // Key and value are not expanded alike.
  Program uneven;
  Expr one{uneven.b, uneven.b.input(tensor({2, 1, 5, 16}), "one")};
  CHECK(uneven.after(attention(uneven.q, expanded(uneven.k, 4), expanded(one, 8)), all).find("enable_gqa") ==
        std::string::npos);
}

TEST_CASE("group_heads: refused where the expansion stops the gradient") {
  Builder b = pass_builder();
  Expr q{b, b.input(tensor({2, 8, 5, 16}, true), "q")}, k{b, b.input(tensor({2, 2, 5, 16}, true), "k")};
  b.set_grad_enabled(false);
  Expr frozen = b("torch.repeat_interleave", k, 4, 1);
  b.set_grad_enabled(true);
  Trace t = b.finish("f", attention(q, frozen, frozen));
  CHECK(code(group_heads(t, {attention_executor("e", takes_all)})).find("enable_gqa") == std::string::npos);
}

}  // namespace
}  // namespace thunder
