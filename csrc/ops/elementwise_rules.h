// Gradient rules of pointwise operators, shared by the primitives and the torch operators of the same name: a rule
// reads its operands by position.  The formulas are those of PyTorch's autograd, made of torch operators.
#pragma once

#include "core/op.h"

namespace thunder::ops {

/// For operators that are constant almost everywhere (floor, sign): zeros.
void zero_vjp(VjpContext& c);
/// Likewise, of two operands.
void zeros_vjp(VjpContext& c);
/// The result is the first operand plus something that does not depend on it (frac, clone).
void identity_vjp(VjpContext& c);

void abs_vjp(VjpContext& c);
void acos_vjp(VjpContext& c);
void acosh_vjp(VjpContext& c);
void asin_vjp(VjpContext& c);
void asinh_vjp(VjpContext& c);
void atan_vjp(VjpContext& c);
void atanh_vjp(VjpContext& c);
void conj_vjp(VjpContext& c);
void convert_vjp(VjpContext& c);
void cos_vjp(VjpContext& c);
void cosh_vjp(VjpContext& c);
void device_put_vjp(VjpContext& c);
void digamma_vjp(VjpContext& c);
void erf_vjp(VjpContext& c);
void erfc_vjp(VjpContext& c);
void erfinv_vjp(VjpContext& c);
void exp_vjp(VjpContext& c);
void exp2_vjp(VjpContext& c);
void expm1_vjp(VjpContext& c);
void gelu_slope_vjp(VjpContext& c);
void i0_vjp(VjpContext& c);
void i1_vjp(VjpContext& c);
void imag_vjp(VjpContext& c);
void lgamma_vjp(VjpContext& c);
void log_vjp(VjpContext& c);
void log10_vjp(VjpContext& c);
void log1p_vjp(VjpContext& c);
void log2_vjp(VjpContext& c);
void neg_vjp(VjpContext& c);
void normal_cdf_vjp(VjpContext& c);
void polygamma_vjp(VjpContext& c);  ///< (n, a)
void real_vjp(VjpContext& c);
void reciprocal_vjp(VjpContext& c);
void rsqrt_vjp(VjpContext& c);
void sgn_vjp(VjpContext& c);
void sigmoid_vjp(VjpContext& c);
void sin_vjp(VjpContext& c);
void sinh_vjp(VjpContext& c);
void sqrt_vjp(VjpContext& c);
void square_vjp(VjpContext& c);
void tan_vjp(VjpContext& c);
void tanh_vjp(VjpContext& c);

void add_vjp(VjpContext& c);  ///< with `alpha`, if the schema has it
void sub_vjp(VjpContext& c);  ///< likewise
void mul_vjp(VjpContext& c);
void div_vjp(VjpContext& c);  ///< with `rounding_mode`, if the schema has it
void pow_vjp(VjpContext& c);
void fmod_vjp(VjpContext& c);
void remainder_vjp(VjpContext& c);
void nextafter_vjp(VjpContext& c);
void maximum_vjp(VjpContext& c);
void minimum_vjp(VjpContext& c);
void fmax_vjp(VjpContext& c);
void fmin_vjp(VjpContext& c);
void atan2_vjp(VjpContext& c);
void copysign_vjp(VjpContext& c);
void hypot_vjp(VjpContext& c);
void logaddexp_vjp(VjpContext& c);
void logaddexp2_vjp(VjpContext& c);
void xlogy_vjp(VjpContext& c);
void where_vjp(VjpContext& c);

}  // namespace thunder::ops
