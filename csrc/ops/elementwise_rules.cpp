#include "ops/elementwise_rules.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "ops/common.h"

namespace thunder::ops {
namespace {

Expr in(const VjpContext& c, size_t i) { return c.in(param(c, i)); }
bool needs(const VjpContext& c, size_t i) { return c.needs(param(c, i)); }
/// A number as a 0-d tensor beside the result.
Expr as_tensor(VjpContext& c, const Expr& x) {
  if (x.arg().is_tensor()) return x;
  return c.b("torch.scalar_tensor", x, kw("dtype", c.out().dtype()), kw("device", c.out().tensor().device));
}
void put(VjpContext& c, const Expr& g) { put_reduced(c, 0, g); }

/// An optional argument of some of the records that share a rule.
Arg option(const VjpContext& c, std::string_view name) {
  return c.call.op->schema.index_of(name) < 0 ? Arg() : c.args()[name];
}

Expr scaled(const Expr& g, const Arg& factor) {
  if (factor.is_none() || (factor.is_literal_number() && factor.complex() == 1.0)) return g;
  return g.builder()("torch.mul", g, conj(g.builder().expr(factor)));
}

Expr sqr(const Expr& x) { return x.builder()("torch.pow", x, 2); }
Expr rsqrt(const Expr& x) { return x.builder()("torch.rsqrt", x); }
Expr zero_where(const Expr& g, const Expr& mask) { return g.builder()("torch.masked_fill", g, mask, 0); }
Expr normal_density(const Expr& x) {
  return x.builder()("torch.exp", sqr(x) * -0.5) * (std::numbers::inv_sqrtpi / std::numbers::sqrt2);
}

}  // namespace

void zero_vjp(VjpContext& c) { put(c, c.b("torch.zeros_like", c.grad())); }
void zeros_vjp(VjpContext& c) {
  for (size_t i : {0, 1})
    if (needs(c, i)) put_reduced(c, i, c.b("torch.zeros_like", c.grad()));
}
void identity_vjp(VjpContext& c) { put(c, c.grad()); }

// ---- one operand ----------------------------------------------------------------------------------------------------

void abs_vjp(VjpContext& c) { put(c, c.grad() * c.b("torch.sgn", in(c, 0))); }
void acos_vjp(VjpContext& c) { put(c, c.grad() * -conj(rsqrt(1 - in(c, 0) * in(c, 0)))); }
void acosh_vjp(VjpContext& c) {
  Expr x = in(c, 0);
  // Left of the imaginary axis the root of x^2 - 1 is on the other branch than the product of the roots.
  Expr slope = is_complex(x.dtype()) ? rsqrt(x - 1) * rsqrt(x + 1) : rsqrt(sqr(x) - 1);
  put(c, c.grad() * conj(slope));
}
void asin_vjp(VjpContext& c) { put(c, c.grad() * conj(rsqrt(1 - in(c, 0) * in(c, 0)))); }
void asinh_vjp(VjpContext& c) { put(c, c.grad() * conj(rsqrt(sqr(in(c, 0)) + 1))); }
void atan_vjp(VjpContext& c) { put(c, c.grad() / conj(in(c, 0) * in(c, 0) + 1)); }
void atanh_vjp(VjpContext& c) { put(c, c.grad() / conj(1 - sqr(in(c, 0)))); }
void conj_vjp(VjpContext& c) { put(c, conj(c.grad())); }
void convert_vjp(VjpContext& c) { put(c, c.grad()); }
void cos_vjp(VjpContext& c) { put(c, c.grad() * -conj(c.b("torch.sin", in(c, 0)))); }
void cosh_vjp(VjpContext& c) { put(c, c.grad() * conj(c.b("torch.sinh", in(c, 0)))); }
void digamma_vjp(VjpContext& c) { put(c, c.grad() * c.b("torch.polygamma", 1, in(c, 0))); }
void erf_vjp(VjpContext& c) { put(c, c.b("torch.exp", -sqr(in(c, 0))) * (2 / std::sqrt(std::numbers::pi)) * c.grad()); }
void erfc_vjp(VjpContext& c) {
  put(c, c.b("torch.exp", -sqr(in(c, 0))) * (-2 / std::sqrt(std::numbers::pi)) * c.grad());
}
void erfinv_vjp(VjpContext& c) {
  put(c, c.b("torch.exp", sqr(c.out())) * (0.5 * std::sqrt(std::numbers::pi)) * c.grad());
}
void exp_vjp(VjpContext& c) { put(c, c.grad() * conj(c.out())); }
void exp2_vjp(VjpContext& c) { put(c, c.grad() * conj(c.out()) * std::numbers::ln2); }
void expm1_vjp(VjpContext& c) { put(c, c.grad() * (conj(c.out()) + 1)); }
void device_put_vjp(VjpContext& c) { put(c, c.b("torch.to", c.grad(), in(c, 0).tensor().device)); }
void gelu_slope_vjp(VjpContext& c) { put(c, normal_density(in(c, 0)) * (2 - sqr(in(c, 0))) * c.grad()); }
void i0_vjp(VjpContext& c) { put(c, c.grad() * c.b("torch.i1", in(c, 0))); }
void i1_vjp(VjpContext& c) {
  // As autograd, for which what is not known to be large is 0.
  Expr x = in(c, 0);
  double epsilon =
      x.dtype() == DType::f64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  Expr large = c.b("torch.gt", c.b("torch.abs", x), epsilon);
  Expr divisor = c.b("torch.where", large, x, epsilon);
  put(c, c.grad() * c.b("torch.where", large, c.b("torch.i0", divisor) - c.out() / divisor, 0.5));
}
void imag_vjp(VjpContext& c) { put(c, c.b("torch.mul", c.grad(), std::complex<double>(0, 1))); }
void lgamma_vjp(VjpContext& c) { put(c, c.grad() * c.b("torch.digamma", in(c, 0))); }
void log_vjp(VjpContext& c) { put(c, c.grad() / conj(in(c, 0))); }
void log10_vjp(VjpContext& c) { put(c, c.grad() / (conj(in(c, 0)) * std::numbers::ln10)); }
void log1p_vjp(VjpContext& c) { put(c, c.grad() / conj(in(c, 0) + 1)); }
void log2_vjp(VjpContext& c) { put(c, c.grad() / (conj(in(c, 0)) * std::numbers::ln2)); }
void neg_vjp(VjpContext& c) { put(c, -c.grad()); }
void normal_cdf_vjp(VjpContext& c) { put(c, normal_density(in(c, 0)) * c.grad()); }
void polygamma_vjp(VjpContext& c) {
  int64_t n = as_dim(in(c, 0)).constant();
  put_reduced(c, 1, c.grad() * c.b("torch.polygamma", n + 1, in(c, 1)));
}
void real_vjp(VjpContext& c) { put(c, c.grad()); }
void reciprocal_vjp(VjpContext& c) { put(c, -c.grad() * conj(c.out() * c.out())); }
void rsqrt_vjp(VjpContext& c) { put(c, c.grad() * -0.5 * conj(c.b("torch.pow", c.out(), 3))); }
void sgn_vjp(VjpContext& c) {
  if (!is_complex(c.out().dtype())) return zero_vjp(c);
  // Only the part of the gradient across the direction of the input counts.
  Expr abs = c.b("torch.abs", in(c, 0)), g = c.grad() / abs;
  Expr along = c.b("torch.mul", c.b("torch.real", c.grad() / c.out()), c.out()) / abs;
  put(c, zero_where(g - along, c.b("torch.eq", abs, 0)));
}
void sigmoid_vjp(VjpContext& c) { put(c, c.b("torch.sigmoid_backward", c.grad(), c.out())); }
void sin_vjp(VjpContext& c) { put(c, c.grad() * conj(c.b("torch.cos", in(c, 0)))); }
void sinh_vjp(VjpContext& c) { put(c, c.grad() * conj(c.b("torch.cosh", in(c, 0)))); }
void sqrt_vjp(VjpContext& c) { put(c, c.grad() / (2 * conj(c.out()))); }
void square_vjp(VjpContext& c) { put(c, c.grad() * conj(in(c, 0) * 2)); }
void tan_vjp(VjpContext& c) { put(c, c.grad() * conj(1 + sqr(c.out()))); }
void tanh_vjp(VjpContext& c) { put(c, c.b("torch.tanh_backward", c.grad(), c.out())); }

// ---- two operands ---------------------------------------------------------------------------------------------------

void add_vjp(VjpContext& c) {
  put_reduced(c, 0, c.grad());
  if (needs(c, 1)) put_reduced(c, 1, scaled(c.grad(), option(c, "alpha")));
}

void sub_vjp(VjpContext& c) {
  put_reduced(c, 0, c.grad());
  if (needs(c, 1)) put_reduced(c, 1, -scaled(c.grad(), option(c, "alpha")));
}

void mul_vjp(VjpContext& c) {
  if (needs(c, 0)) put_reduced(c, 0, c.grad() * conj(in(c, 1)));
  if (needs(c, 1)) put_reduced(c, 1, c.grad() * conj(in(c, 0)));
}

void div_vjp(VjpContext& c) {
  if (!option(c, "rounding_mode").is_none()) return zeros_vjp(c);
  if (needs(c, 0)) put_reduced(c, 0, c.grad() / conj(in(c, 1)));
  if (needs(c, 1))
    put_reduced(c, 1, -c.grad() * conj(c.b("torch.div", c.b("torch.div", in(c, 0), in(c, 1)), in(c, 1))));
}

namespace {
Expr is_non_negative(const Expr& n) {
  Builder& b = n.builder();
  if (!is_complex(n.dtype())) return b("torch.ge", n, 0);
  return b("torch.logical_and", b("torch.ge", b("torch.real", n), 0), b("torch.eq", b("torch.imag", n), 0));
}
}  // namespace

void pow_vjp(VjpContext& c) {
  Expr x = in(c, 0), n = in(c, 1), g = c.grad();
  if (n.arg().is_tensor() && is_bool(n.dtype())) n = c.b("torch.to", n, c.out().dtype());
  if (needs(c, 0)) {
    if (n.arg().is_literal_number() && n.arg().complex() == 0.0) {
      put_reduced(c, 0, c.b("torch.zeros_like", g));
    } else if (n.arg().is_number()) {
      Expr lower = !n.arg().is_real_literal() ? c.b("torch.pow", x, c.b("torch.sub", n, 1))
                   : n.arg().real() == 2      ? x
                                              : c.b("torch.pow", x, n.arg().real() - 1);
      put_reduced(c, 0, g * conj(c.b("torch.mul", lower, n)));
    } else {
      Expr slope = g * conj(n * c.b("torch.pow", x, n - 1));
      put_reduced(c, 0, c.b("torch.where", c.b("torch.eq", n, 0), 0, slope));
    }
  }
  if (needs(c, 1)) {
    Expr base = as_tensor(c, x);
    if (base.dtype() != c.out().dtype()) base = c.b("torch.to", base, c.out().dtype());
    Expr at_zero = c.b("torch.logical_and", c.b("torch.eq", base, 0), is_non_negative(n));
    put_reduced(c, 1, g * c.b("torch.where", at_zero, 0, conj(c.out() * c.b("torch.log", base))));
  }
}

void fmod_vjp(VjpContext& c) {
  put_reduced(c, 0, c.grad());
  if (needs(c, 1)) put_reduced(c, 1, -c.grad() * c.b("torch.div", in(c, 0), in(c, 1), kw("rounding_mode", "trunc")));
}

// As PyTorch has it: a shift of the first operand, none where the two are equal.
void nextafter_vjp(VjpContext& c) {
  if (needs(c, 0)) put_reduced(c, 0, c.b("torch.where", c.b("torch.eq", in(c, 0), in(c, 1)), 0.0, c.grad()));
  if (needs(c, 1)) put_reduced(c, 1, c.b("torch.zeros_like", c.grad()));
}

void remainder_vjp(VjpContext& c) {
  put_reduced(c, 0, c.grad());
  if (needs(c, 1)) put_reduced(c, 1, -c.grad() * c.b("torch.div", in(c, 0), in(c, 1), kw("rounding_mode", "floor")));
}

namespace {

// Equal operands share the gradient; the loser gets none.
void extremum_vjp(VjpContext& c, const char* first_loses, const char* second_loses) {
  Expr tie = c.b("torch.eq", in(c, 0), in(c, 1));
  Expr shared = c.b("torch.where", tie, c.grad() / 2, c.grad());
  if (needs(c, 0)) put_reduced(c, 0, zero_where(shared, c.b(first_loses, in(c, 0), in(c, 1))));
  if (needs(c, 1)) put_reduced(c, 1, zero_where(shared, c.b(second_loses, in(c, 0), in(c, 1))));
}

// The first operand wins ties and whenever the second is NaN.
void nan_extremum_vjp(VjpContext& c, const char* first_wins) {
  Expr first = c.b("torch.logical_or", c.b(first_wins, in(c, 0), in(c, 1)), c.b("torch.isnan", in(c, 1)));
  if (needs(c, 0)) put_reduced(c, 0, zero_where(c.grad(), c.b("torch.logical_not", first)));
  if (needs(c, 1)) put_reduced(c, 1, zero_where(c.grad(), first));
}

}  // namespace

void maximum_vjp(VjpContext& c) { extremum_vjp(c, "torch.lt", "torch.gt"); }
void minimum_vjp(VjpContext& c) { extremum_vjp(c, "torch.gt", "torch.lt"); }
void fmax_vjp(VjpContext& c) { nan_extremum_vjp(c, "torch.ge"); }
void fmin_vjp(VjpContext& c) { nan_extremum_vjp(c, "torch.le"); }

// A literal is squared here: as a tensor of its own it would have the default dtype's precision.
Expr square(VjpContext& c, const Expr& e) {
  const Arg& a = e.arg();
  return a.is_literal_number() ? c.b.expr(a.real() * a.real()) : c.b("torch.mul", e, e);
}

void atan2_vjp(VjpContext& c) {
  Expr y = in(c, 0), x = in(c, 1);
  Expr length = c.b("torch.add", square(c, y), square(c, x));
  // The origin has no angle; the gradient there is zero.
  auto slope = [&](const Expr& g) { return zero_where(g / length, c.b("torch.eq", length, 0)); };
  if (needs(c, 0)) put_reduced(c, 0, slope(c.grad() * x));
  if (needs(c, 1)) put_reduced(c, 1, slope(-(c.grad() * y)));
}

void copysign_vjp(VjpContext& c) {
  if (needs(c, 0)) {
    Expr ratio = zero_where(c.out() / in(c, 0), c.b("torch.eq", in(c, 0), 0));
    put_reduced(c, 0, c.grad() * ratio);
  }
  if (needs(c, 1)) put_reduced(c, 1, c.b("torch.zeros_like", c.grad()));
}

void hypot_vjp(VjpContext& c) {
  if (needs(c, 0)) put_reduced(c, 0, c.grad() * (in(c, 0) / c.out()));
  if (needs(c, 1)) put_reduced(c, 1, c.grad() * (in(c, 1) / c.out()));
}

void logaddexp_vjp(VjpContext& c) {
  Expr x = in(c, 0), y = in(c, 1);
  if (needs(c, 0)) put_reduced(c, 0, c.grad() / conj(1 + c.b("torch.exp", y - x)));
  if (needs(c, 1)) put_reduced(c, 1, c.grad() / conj(1 + c.b("torch.exp", x - y)));
}

void logaddexp2_vjp(VjpContext& c) {
  Expr x = in(c, 0), y = in(c, 1);
  if (needs(c, 0)) put_reduced(c, 0, c.grad() / (1 + c.b("torch.exp2", y - x)));
  if (needs(c, 1)) put_reduced(c, 1, c.grad() / (1 + c.b("torch.exp2", x - y)));
}

void xlogy_vjp(VjpContext& c) {
  Expr x = in(c, 0), y = in(c, 1);
  if (needs(c, 0)) {
    // Where x is 0 and y not positive, the logarithm is not a number and the product was defined to be 0.
    Expr undefined = c.b("torch.logical_and", c.b("torch.eq", x, 0), c.b("torch.le", y, 0));
    put_reduced(c, 0, c.grad() * zero_where(c.b("torch.log", as_tensor(c, y)), undefined));
  }
  if (needs(c, 1)) put_reduced(c, 1, c.grad() * c.b("torch.div", x, y));
}

void where_vjp(VjpContext& c) {
  Expr condition = in(c, 0);
  if (needs(c, 1)) put_reduced(c, 1, c.b("torch.where", condition, c.grad(), 0));
  if (needs(c, 2)) put_reduced(c, 2, c.b("torch.where", condition, 0, c.grad()));
}

}  // namespace thunder::ops
