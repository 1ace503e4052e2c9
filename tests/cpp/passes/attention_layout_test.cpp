#include "passes/attention_layout.h"

#include <string>

#include "passes/pass_ops.h"
#include "passes/passes.h"

namespace thunder {
namespace {

using test::code;
using test::f32;
using test::pass_builder;

/// Attention of two heads of four numbers over five places, for a batch of three.
struct Program {
  Builder b = pass_builder();

  /// [3, 2, 5, 4] with the heads inside the sequence: a view of a projection.
  Expr heads(const char* name) {
    const Expr x(b, b.input(f32({3, 5, 8}), name));
    return b("torch.transpose", b("torch.reshape", b("torch.exp", x), Dims{3, 5, 2, 4}), 1, 2);
  }
  Expr copied(const char* name) { return b("torch.contiguous", heads(name)); }
  /// As after a rotary embedding.
  Expr computed(const char* name) { return b("torch.exp", copied(name)); }
  Expr attention(const Expr& q, const Expr& k, const Expr& v) {
    return b("torch.scaled_dot_product_attention", q, k, v);
  }
  Expr merged(const Expr& out, bool copy) {
    Expr t = b("torch.transpose", out, 1, 2);
    if (copy) t = b("torch.contiguous", t);
    return b("torch.reshape", t, Dims{3, 5, 8});
  }
  std::string after(const Expr& result) {
    const Trace out = attention_layout(b.finish("f", result));
    CHECK_NOTHROW(verify(out));
    return code(dce(out));
  }
};

bool has(const std::string& text, const char* what) { return text.find(what) != std::string::npos; }

TEST_CASE("attention_layout: nothing to do") {
  Program p;
  const Trace none = p.b.finish("f", p.heads("x"));
  CHECK(attention_layout(none).calls == none.calls);
  Program q;
  const Trace inside = q.b.finish("f", q.merged(q.attention(q.heads("q"), q.heads("k"), q.heads("v")), false));
  CHECK(attention_layout(inside).calls == inside.calls);
}

TEST_CASE("attention_layout: computed queries are written with the heads inside") {
  for (const bool copy : {false, true}) {
    Program p;
    const std::string text = p.after(p.merged(p.attention(p.computed("q"), p.computed("k"), p.heads("v")), copy));
    INFO(text);
    CHECK(has(text, "prims.restride("));
  }
}

TEST_CASE("attention_layout: copies in front and behind are left out") {
  Program p;
  const std::string text = p.after(p.merged(p.attention(p.copied("q"), p.copied("k"), p.copied("v")), true));
  INFO(text);
  CHECK(!has(text, "prims.restride("));
  CHECK(!has(text, "ltorch.contiguous("));
}

TEST_CASE("attention_layout: refused where somebody sees the layout") {
  const auto left = [](const Trace& t) {
    const Trace out = attention_layout(t);
    return code(out) == code(t);
  };
  Program returned;
  const Expr out = returned.attention(returned.copied("q"), returned.copied("k"), returned.copied("v"));
  CHECK(left(returned.b.finish("f", Expr(returned.b, Arg::tuple({out.arg(), returned.merged(out, true).arg()})))));
  Program copy;
  const Expr t =
      copy.b("torch.contiguous",
             copy.b("torch.transpose", copy.attention(copy.copied("q"), copy.copied("k"), copy.copied("v")), 1, 2));
  CHECK(left(copy.b.finish("f", t)));
  Program other;
  const Expr o = other.attention(other.copied("q"), other.copied("k"), other.copied("v"));
  CHECK(left(other.b.finish("f", other.b("torch.reshape", other.b("torch.transpose", o, 1, 2), Dims{15, 2, 4}))));
}

}  // namespace
}  // namespace thunder
