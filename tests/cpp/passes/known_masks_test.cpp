#include "passes/known_masks.h"

#include <string>

#include "passes/pass_ops.h"
#include "passes/passes.h"

namespace thunder {
namespace {

using test::code;
using test::f32;
using test::pass_builder;

struct Program {
  Builder b = pass_builder();
  Expr q{b, b.input(f32({2, 4, 5, 8}), "q")};
  Expr k{b, b.input(f32({2, 4, 5, 8}), "k")};
  Expr long_k{b, b.input(f32({2, 4, 7, 8}), "long_k")};
  Expr x{b, b.input(f32({5, 5}), "x")};
  int asked = 0;

  Expr mask(int64_t rows = 5, int64_t columns = 5) {
    Expr i = b("torch.unsqueeze", b("torch.arange", rows), 1);
    return b("torch.ge", i, b("torch.arange", columns));
  }
  Expr attention(const Expr& keys, const Expr& mask) {
    return b("torch.scaled_dot_product_attention", q, keys, keys, mask);
  }
  // The text when a mask is said to be of that kind.
  std::string after(const Arg& result, MaskKind kind) { return after(b.finish("f", result), kind); }
  std::string after(const Trace& t, MaskKind kind) {
    const auto classify = [&](const Trace& m) {
      ++asked;
      CHECK(m.inputs.empty());
      CHECK(m.output.value().tensor().dtype == DType::boolean);
      verify(m);
      return kind;
    };
    return code(dce(known_masks(t, {classify, nullptr})));
  }
};

TEST_CASE("known_masks: a mask of nothing but numbers is left out, or causal") {
  Program causal, full;
  const std::string text = causal.after(causal.attention(causal.k, causal.mask()).arg(), MaskKind::Causal);
  CHECK(text.find("scaled_dot_product_attention(q, k, k, None, 0.0, True)") != std::string::npos);
  CHECK(text.find("arange") == std::string::npos);
  CHECK(full.after(full.attention(full.long_k, full.mask(5, 7)).arg(), MaskKind::Full)
            .find("scaled_dot_product_attention(q, long_k, long_k, None, 0.0, False)") != std::string::npos);
}

TEST_CASE("known_masks: a mask is looked at once") {
  Program p;
  Expr mask = p.mask();
  p.after(Arg::tuple({p.attention(p.k, mask).arg(), p.attention(p.k, mask).arg()}), MaskKind::Causal);
  CHECK(p.asked == 1);
}

TEST_CASE("known_masks: others stay") {
  auto stays = [](Program& p, const Expr& result, MaskKind kind, int asked) {
    const Trace t = p.b.finish("f", result);
    CHECK(p.after(t, kind) == code(dce(t)));
    CHECK(p.asked == asked);
  };
  Program other, of_input, few_rows, many_keys, none;
  stays(other, other.attention(other.k, other.mask()), MaskKind::Other, 1);
  stays(of_input, of_input.attention(of_input.k, of_input.b("torch.gt", of_input.x, 0.0)), MaskKind::Causal, 0);
  // What is causal for one row, or with more keys than queries, is not for attention.
  stays(few_rows, few_rows.attention(few_rows.k, few_rows.mask(1, 5)), MaskKind::Causal, 1);
  stays(many_keys, many_keys.attention(many_keys.long_k, many_keys.mask(5, 7)), MaskKind::Causal, 1);
  stays(none, none.b("torch.scaled_dot_product_attention", none.q, none.k, none.k), MaskKind::Causal, 0);
}

TEST_CASE("known_masks: a choice by a condition that is known to hold everywhere is none") {
  const auto text = [](MaskKind kind, bool keeps_gradient) {
    Program p;
    const Expr bias{p.b, p.b.input(f32({1, 4, 5, 5}, true), "bias")};
    const Expr other{p.b, p.b.input(f32({5, 5}, true), "other")};
    const Expr mask = keeps_gradient ? p.b("torch.where", p.mask(), bias, -1e9)
                                     : p.b("torch.where", p.mask(), p.x, other);  // only the other has one
    return p.after(p.attention(p.k, mask).arg(), kind);
  };
  CHECK(text(MaskKind::Full, true).find("scaled_dot_product_attention(q, k, k, bias, 0.0, False)") !=
        std::string::npos);
  CHECK(text(MaskKind::Causal, true).find("where") != std::string::npos);
  CHECK(text(MaskKind::Full, false).find("where") != std::string::npos);
}

KnownMask is_window(const Trace&) { return {MaskKind::Window, 2, 0}; }

std::shared_ptr<Executor> taking_windows(bool takes) {
  auto e = std::make_shared<Executor>("windows");
  Implementation attention;
  attention.checker = [takes](const Call&) { return takes; };
  attention.transform = [](Builder&, const Args& a) { return Arg(a["query"]); };
  e->register_implementation("torch.windowed_attention", attention);
  return e;
}

TEST_CASE("known_masks: a window is one where an executor takes it") {
  for (bool takes : {true, false}) {
    Program p;
    const Trace t = p.b.finish("f", p.attention(p.k, p.mask()));
    const std::string text = code(dce(known_masks(t, {is_window, nullptr}, {taking_windows(takes)})));
    CHECK((text.find("ltorch.windowed_attention(q, k, k, 2, 0, 0.0") != std::string::npos) == takes);
    CHECK((text.find("arange") == std::string::npos) == takes);
  }
}

TEST_CASE("known_masks: a window needs a place for each row and column") {
  Program p;
  const Trace t = p.b.finish("f", p.attention(p.k, p.mask(1, 5)));
  const std::string text = code(dce(known_masks(t, {is_window, nullptr}, {taking_windows(true)})));
  CHECK(text.find("windowed") == std::string::npos);
}

// Attention of n queries and keys, with a mask of n.
struct Sized {
  ShapeEnv env;
  ShapeEnv::Scope scope{env};
  Dim n = env.make_symbol(5, {}, 2);
  Builder b = pass_builder();
  Value number = b.input(NumberType{NumberKind::Int, n});
  Expr q{b, b.input(f32({2, 4, n, 8}), "q")};
  int guards = 0;

  std::string after(bool guarded, MaskKind kind, const Expr& other) {
    const Expr places = b("torch.arange", number);
    const Expr mask = b("torch.ge", b("torch.unsqueeze", places, 1), b("torch.add", places, other));
    const Trace t = b.finish("f", Arg::tuple({b("torch.scaled_dot_product_attention", q, q, q, mask).arg(),
                                              b("torch.scaled_dot_product_attention", q, q, q, mask).arg()}));
    MaskReader reader{[&](const Trace& m) {
                        CHECK(m.inputs == std::vector<Value>{number});
                        verify(m);
                        return kind;
                      },
                      nullptr};
    if (guarded)
      reader.guard = [&](const Trace& m, const KnownMask& known) {
        CHECK(m.output.value().shape()[0].same(n));
        CHECK(known.kind == kind);
        ++guards;
      };
    return code(dce(known_masks(t, reader)));
  }
};

TEST_CASE("known_masks: what a mask of symbolic sizes is becomes one guard") {
  Sized p;
  CHECK(p.after(true, MaskKind::Causal, p.b.expr(0)).find("(q, q, q, None, 0.0, True)") != std::string::npos);
  CHECK(p.guards == 1);
}

TEST_CASE("known_masks: a mask of symbolic sizes stays without a guard, of another kind and of an input") {
  auto stays = [](bool guarded, MaskKind kind, bool of_input) {
    Sized p;
    const Expr other = of_input ? p.b.expr(p.b.input(f32({}), "shift")) : p.b.expr(0);
    CHECK(p.after(guarded, kind, other).find("arange") != std::string::npos);
    CHECK(p.guards == 0);
  };
  stays(false, MaskKind::Causal, false);
  stays(true, MaskKind::Other, false);
  stays(true, MaskKind::Causal, true);
}

TEST_CASE("known_masks: a mask of random numbers is not known") {
  Program p;
  Expr random = p.b("torch.lt", p.b("torch.rand", Dims{5, 5}), 0.5);
  p.after(p.attention(p.k, random).arg(), MaskKind::Full);
  CHECK(p.asked == 0);
}

}  // namespace
}  // namespace thunder
