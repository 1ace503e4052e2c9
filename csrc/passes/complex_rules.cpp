#include "passes/complex_rules.h"

#include <algorithm>
#include <complex>
#include <iterator>
#include <utility>

#include "ops/formula.h"
#include "passes/visit.h"

namespace thunder {
namespace {

using ops::Formula;

DType part_type(const ComplexCall& c) { return real_part_type(c.call.output.value().dtype()); }

// ---- views and other operators that do the same to both parts --------------------------------------------------------

Expr again(const ComplexCall& c, const Expr& part) {
  ArgList args;
  for (const Arg& a : c.call.args) args.push_back(c.now(a));
  args[0] = part;
  return Expr(c.b, c.b.call(*c.call.op, args));
}

ComplexValue both(const ComplexCall& c) {
  const ComplexValue z = c.part(0);
  return {again(c, z.re), again(c, z.im)};
}

// The layout of a part is its own: a view of the complex tensor may be none of the part.
ComplexValue reshaped(const ComplexCall& c) {
  const ComplexValue z = c.part(0);
  const Dims& shape = c.call.output.value().shape();
  return {ops::reshape(c.b, z.re, shape), ops::reshape(c.b, z.im, shape)};
}

ComplexValue same_parts(const ComplexCall& c) { return c.part(0); }

ComplexValue cat(const ComplexCall& c) {
  ArgList re, im;
  for (const Arg& a : c.call.args[0].items()) {
    const ComplexValue& z = c.parts.at(a.value().id());
    re.push_back(z.re);
    im.push_back(z.im);
  }
  return {c.b("prims.cat", Arg::list(re), c.call.args[1]), c.b("prims.cat", Arg::list(im), c.call.args[1])};
}

ComplexValue where(const ComplexCall& c) {
  const Arg condition = c.now(c.call.args[0]);
  const ComplexValue x = c.part(1), y = c.part(2);
  return {c.b("prims.where", condition, x.re, y.re), c.b("prims.where", condition, x.im, y.im)};
}

ComplexValue full(const ComplexCall& c) {
  const std::complex<double> z = c.call.args[1].complex();
  const auto part = [&](double number) {
    ArgList args = c.call.args;
    args[1] = number;
    args[2] = part_type(c);
    return Expr(c.b, c.b.call(*c.call.op, args));
  };
  return {part(z.real()), part(z.imag())};
}

// ---- between real and complex tensors --------------------------------------------------------------------------------

// The two tensors that a call puts side by side as pairs.
std::vector<Value> sides(const Call* call) {
  if (!call || (call->op->full_name != "torch.stack" && call->op->full_name != "prims.cat")) return {};
  const bool stacks = call->op->full_name == "torch.stack";
  const Value out = call->output.value();
  const Dim& dim = call->arguments().dim("dim");
  if (!call->args[0].is_sequence() || !(dim.same(-1) || dim.same(out.rank() - 1))) return {};
  const std::vector<Value> tensors = call->arguments().values("tensors");
  const bool fits = tensors.size() == 2 && std::all_of(tensors.begin(), tensors.end(), [&](Value v) {
                      return v.dtype() == out.dtype() && (stacks || v.shape().back().same(1));
                    });
  return fits ? tensors : std::vector<Value>();
}

ComplexValue view_as_complex(const ComplexCall& c) {
  const Value pairs = c.call.args[0].value();
  const Call* maker = c.maker(pairs);
  if (maker && maker->op->full_name == "prims.restride") maker = c.maker(maker->args[0].value());
  const std::vector<Value> tensors = sides(maker);
  if (tensors.empty()) return parts_of_pairs(Expr(c.b, c.now(pairs)));
  const Dims& shape = c.call.output.value().shape();
  return {ops::reshape(c.b, c.now(tensors[0]), shape), ops::reshape(c.b, c.now(tensors[1]), shape)};
}

ComplexValue view_as_real(const ComplexCall& c) { return {joined_pairs(c.part(0)), {}}; }
ComplexValue real(const ComplexCall& c) { return {c.part(0).re, {}}; }
ComplexValue imag(const ComplexCall& c) { return {c.part(0).im, {}}; }

ComplexValue convert(const ComplexCall& c) {
  const Value from = c.call.args[0].value();
  const DType to = real_part_type(c.call.args[1].dtype());
  const auto converted = [&](const Arg& a) {
    return a.value().dtype() == to ? Expr(c.b, a) : c.b("prims.convert_element_type", a, to);
  };
  if (!is_complex(from.dtype())) {
    const Expr re = converted(c.now(from));
    return {re, c.b("prims.full", re.shape(), 0.0, kw("dtype", to), kw("device", from.tensor().device))};
  }
  const ComplexValue z = c.part(0);
  return {converted(z.re), is_complex(c.call.args[1].dtype()) ? converted(z.im) : Expr()};
}

// ---- arithmetic, as c10::complex has it ------------------------------------------------------------------------------

struct ComplexFormula {
  Formula re, im;
};

ComplexFormula number(const ComplexValue& z) { return {Formula(z.re), Formula(z.im)}; }
ComplexValue value(const ComplexFormula& z) { return {z.re.expr(), z.im.expr()}; }

ComplexValue add(const ComplexCall& c) {
  const ComplexFormula x = number(c.part(0)), y = number(c.part(1));
  return {(x.re + y.re).expr(), (x.im + y.im).expr()};
}

ComplexValue sub(const ComplexCall& c) {
  const ComplexFormula x = number(c.part(0)), y = number(c.part(1));
  return {(x.re - y.re).expr(), (x.im - y.im).expr()};
}

ComplexValue mul(const ComplexCall& c) {
  const ComplexFormula x = number(c.part(0)), y = number(c.part(1));
  return {(x.re * y.re - x.im * y.im).expr(), (x.re * y.im + x.im * y.re).expr()};
}

ComplexValue neg(const ComplexCall& c) {
  const ComplexFormula z = number(c.part(0));
  return {(-z.re).expr(), (-z.im).expr()};
}

ComplexValue conj(const ComplexCall& c) {
  const ComplexFormula z = number(c.part(0));
  return {z.re.expr(), (-z.im).expr()};
}

// Smith's algorithm: the larger part of the divisor is divided by.
ComplexFormula quotient(const ComplexFormula& x, const ComplexFormula& y) {
  const Formula c = ops::abs(y.re), d = ops::abs(y.im);
  const Formula by_real(c.call("prims.ge", d)), is_zero(c.call("prims.eq", 0.0).call("prims.bitwise_and", d <= 0.0));
  const Formula large = ops::where(by_real, y.re, y.im), small = ops::where(by_real, y.im, y.re);
  const Formula ratio = small / large, scale = 1.0 / (large + small * ratio);
  const Formula re = ops::where(by_real, x.re + x.im * ratio, x.re * ratio + x.im),
                im = ops::where(by_real, x.im - x.re * ratio, x.im * ratio - x.re);
  return {ops::where(is_zero, x.re / c, re * scale), ops::where(is_zero, x.im / c, im * scale)};
}

ComplexValue div(const ComplexCall& c) {
  const ComplexValue x = c.part(0), y = c.part(1);
  const auto tensor = [&](const Expr& part, const Expr& like) {
    if (part.arg().is_tensor()) return part;
    const TensorType& t = like.tensor();
    return c.b("prims.full", t.shape, part, kw("dtype", t.dtype), kw("device", t.device));
  };
  return value(
      quotient(number({tensor(x.re, y.re), tensor(x.im, y.re)}), number({tensor(y.re, x.re), tensor(y.im, x.re)})));
}

ComplexValue abs(const ComplexCall& c) {
  const ComplexValue z = c.part(0);
  return {c.b("prims.hypot", z.re, z.im), {}};
}

ComplexValue sgn(const ComplexCall& c) {
  const ComplexFormula z = number(c.part(0));
  const Formula length = z.re.call("prims.hypot", z.im), is_zero = length.call("prims.eq", 0.0);
  return {ops::where(is_zero, 0.0, z.re / length).expr(), ops::where(is_zero, 0.0, z.im / length).expr()};
}

// A real number's result is real, an infinite one too, and that of minus infinity is zero in any direction.
ComplexValue exp(const ComplexCall& c) {
  const ComplexFormula z = number(c.part(0));
  const Formula length = ops::exp(z.re), is_zero = length.call("prims.eq", 0.0), is_real = z.im.call("prims.eq", 0.0);
  return {ops::where(is_zero | is_real, length, length * z.im.call("prims.cos")).expr(),
          ops::where(is_real, z.im, ops::where(is_zero, length, length * z.im.call("prims.sin"))).expr()};
}

constexpr ComplexRule kRules[] = {
    {"prims.abs", 2, abs},
    {"prims.add", 1, add},
    {"prims.broadcast_in_dim", 0, both},
    {"prims.cat", 1, cat},
    {"prims.clone", 1, same_parts},
    {"prims.conj", 1, conj},
    {"prims.convert_element_type", 1, convert},
    {"prims.div", 1, div},
    {"prims.exp", 1, exp},
    {"prims.flip", 1, both},
    {"prims.full", 0, full},
    {"prims.imag", 1, imag},
    {"prims.mul", 1, mul},
    {"prims.neg", 1, neg},
    {"prims.real", 1, real},
    {"prims.reshape", 0, reshaped},
    {"prims.restride", 1, same_parts},
    {"prims.sgn", 1, sgn},
    {"prims.slice", 0, both},
    {"prims.squeeze", 0, both},
    {"prims.sub", 1, sub},
    {"prims.sum", 1, both},
    {"prims.transpose", 0, both},
    {"prims.view", 0, reshaped},
    {"prims.view_as_complex", 1, view_as_complex},
    {"prims.view_as_real", 1, view_as_real},
    {"prims.where", 1, where},
};

// A complex tensor with parts of 32 or 64 bits, a real tensor, or a number that is known.
bool is_known(const Arg& a) {
  bool known = !a.is_number() || a.kind() == Arg::Kind::Complex || a.is_real_literal();
  visit_values(a, [&](Value v) {
    const bool is_tensor = v.type().is_tensor();
    known &= is_tensor && (!is_complex(v.dtype()) || v.dtype() == DType::c64 || v.dtype() == DType::c128);
  });
  return known;
}

}  // namespace

ComplexValue ComplexCall::part(size_t i) const {
  const Arg& a = call.args[i];
  if (a.is_tensor()) return parts.at(a.value().id());
  const std::complex<double> z = a.complex();
  return {Expr(b, z.real()), Expr(b, z.imag())};
}

const ComplexRule* complex_rule(const Call& call) {
  const auto* rule = std::find_if(std::begin(kRules), std::end(kRules),
                                  [&](const ComplexRule& r) { return r.op == call.op->full_name; });
  if (rule == std::end(kRules) || !call.output.is_value() || !is_known(call.output)) return nullptr;
  if (rule->run == convert && is_bool(call.output.value().dtype())) return nullptr;  // whether either part is not zero
  return std::all_of(call.args.begin(), call.args.end(), is_known) ? rule : nullptr;
}

ComplexValue parts_of_pairs(const Expr& pairs) {
  const auto part = [&](int64_t i) {
    Dims begin(pairs.shape().size(), 0), end = pairs.shape(), step(pairs.shape().size(), 1);
    begin.back() = i;
    end.back() = i + 1;
    return pairs.builder()("prims.squeeze", pairs.builder()("prims.slice", pairs, begin, end, step),
                           Arg::list({pairs.rank() - 1}));
  };
  return {part(0), part(1)};
}

Expr joined_pairs(const ComplexValue& z) {
  Dims shape = z.re.shape();
  shape.push_back(1);
  Builder& b = z.re.builder();
  return b("prims.cat", Arg::list({ops::reshape(b, z.re, shape), ops::reshape(b, z.im, shape)}), z.re.rank());
}

Arg joined_complex(const ComplexValue& z, const TensorType& type) {
  Expr pairs = joined_pairs(z);
  Dims strides;
  bool is_dense = true;
  for (size_t i = 0; i < type.strides.size(); ++i) {
    is_dense &= !type.strides[i].same(0) || type.shape[i].same(1);
    strides.push_back(type.strides[i] * 2);
  }
  strides.push_back(1);
  pairs = ops::with_strides(pairs, is_dense ? strides : contiguous_strides(pairs.shape()));
  return pairs.builder()("prims.view_as_complex", pairs).arg();
}

}  // namespace thunder
