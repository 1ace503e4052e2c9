#include "passes/prepare.h"

#include <string>

#include "passes/pass_ops.h"
#include "passes/passes.h"

namespace thunder {
namespace {

using test::code;
using test::f32;
using test::pass_builder;

constexpr const char* kAttention = "torch.scaled_dot_product_attention";

// An executor that takes attention and wants the mask doubled, unless it is the result of a product.
std::shared_ptr<Executor> doubling(bool takes) {
  auto e = std::make_shared<Executor>("doubling");
  Implementation attention;
  attention.checker = [takes](const Call&) { return takes; };
  attention.transform = [](Builder&, const Args& a) { return Arg(a["query"]); };
  attention.prepare = [](Builder& b, const Args& a) {
    ArgList args = a.list();
    if (a.has("attn_mask")) args[3] = b("torch.mul", a["attn_mask"], 2.0).arg();
    return args;
  };
  e->register_implementation(kAttention, attention);
  return e;
}

std::shared_ptr<Executor> plain() {
  auto e = std::make_shared<Executor>("plain");
  Implementation attention;
  attention.transform = [](Builder&, const Args& a) { return Arg(a["query"]); };
  e->register_implementation(kAttention, attention);
  return e;
}

struct Program {
  Builder b = pass_builder();
  Expr q{b, b.input(f32({2, 4, 5, 8}), "q")};
  Expr m{b, b.input(f32({5, 5}), "m")};

  Expr attention(const Expr& x, const Arg& mask) { return b(kAttention, x, q, q, mask); }
};

TEST_CASE("prepare: what several calls want of one argument is made once") {
  Program p;
  const Trace t = p.b.finish("f", p.attention(p.attention(p.q, p.m.arg()), p.m.arg()));
  const Trace after = cse(prepare(t, {doubling(true)}));
  const std::string text = code(after);
  CHECK(text.find("ltorch.mul(m, 2.0)") != std::string::npos);
  CHECK(text.find("ltorch.mul(m, 2.0)") == text.rfind("ltorch.mul(m, 2.0)"));
  CHECK(after.calls.size() == 3);
}

TEST_CASE("prepare: nothing to do") {
  Program p;
  const Trace none = p.b.finish("f", p.b("torch.mul", p.q, p.q));
  CHECK(prepare(none, {doubling(true)}).calls == none.calls);
  Program q;
  const Trace unmasked = q.b.finish("f", q.attention(q.q, {}));
  CHECK(prepare(unmasked, {doubling(true)}).calls == unmasked.calls);
}

TEST_CASE("prepare: by the executor that takes the call alone") {
  for (const ExecutorList& executors : {ExecutorList{doubling(false)}, ExecutorList{plain(), doubling(true)}}) {
    Program p;
    const Trace t = p.b.finish("f", p.attention(p.q, p.m.arg()));
    CHECK(prepare(t, executors).calls == t.calls);
  }
}

}  // namespace
}  // namespace thunder
