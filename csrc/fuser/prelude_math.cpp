#include "fuser/emit.h"

namespace thunder::fuser {

// A value that two kernels compute, or the vector loop and the remainder of one kernel, must have the same bits: a
// program may compare one with the other.  A C library's vector variants differ from its scalar functions, so the
// functions that models use most are arithmetic here and in prelude_functions.cpp, which compilers vectorise without
// changing a bit; all others are scalar calls everywhere.  No error seen is above 2.6 units in the last place
// (tests/python/test_kernel_math.py).
//
// exp       x = n ln 2 + r with |r| <= ln(2)/2 (Cody and Waite's two-part constant), e^r = 1 + r + r^2 q(r).
// expm1     2^n (e^r - 1) + (2^n - 1).
// log       x = 2^e m with m in [sqrt(1/2), sqrt(2)), f = m - 1, s = f/(2 + f), log m = 2 s + s^3 R(s^2).
// The polynomials are minimax fits: of q to 2^-32 (double: 2^-61), of R to 2^-37 (2^-66).
const std::string& host_math_prelude() {
  static const std::string text = R"(
#define TH_INLINE static inline __attribute__((always_inline))
#if defined(__FMA__) || defined(__aarch64__)
TH_INLINE float th_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
TH_INLINE double th_fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
TH_INLINE float th_fma(float a, float b, float c) { return a * b + c; }
TH_INLINE double th_fma(double a, double b, double c) { return a * b + c; }
#endif
template <class T> TH_INLINE T th_poly(T, T c) { return c; }
template <class T, class... C> TH_INLINE T th_poly(T x, T c, C... rest) { return th_fma(x, th_poly(x, rest...), c); }
template <class T> struct th_real;
template <> struct th_real<float> {
  typedef uint32 bits; static constexpr int mantissa = 23; static constexpr bits bias = 127, one = 0x3f800000, sqrt_half = 0x3f3504f3;
  static constexpr float magic = 0x1.8p23f, whole = 0x1p23f, least = 0x1p-126f, infinity = __builtin_inff();
  static constexpr float log2e = 1.44269504f, ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f, log10e = 0.434294482f, log10_2_high = 0.301025390625f, log10_2_low = 4.60503907e-6f;
  static constexpr float largest = __FLT_MAX__, sinh_most = 89.5f, exp_least = -104, exp_most = 89, expm1_least = -18, tanh_most = 10;
  TH_INLINE bits of(float x) { bits b; __builtin_memcpy(&b, &x, 4); return b; }
  TH_INLINE float from(bits b) { float x; __builtin_memcpy(&x, &b, 4); return x; }
  TH_INLINE float q(float r) { return th_poly(r, 0.5f, 0.166666668f, 0.0416663508f, 0.00833327343f, 0.00139413251f, 0.000199140003f); }
  TH_INLINE float R(float z) { return th_poly(z, 0.666666656f, 0.400003456f, 0.285366017f, 0.235963523f); }
};
template <> struct th_real<double> {
  typedef uint64 bits; static constexpr int mantissa = 52; static constexpr bits bias = 1023, one = 0x3ff0000000000000ull, sqrt_half = 0x3fe6a09e667f3bcdull;
  static constexpr double magic = 0x1.8p52, whole = 0x1p52, least = 0x1p-1022, infinity = __builtin_inf();
  static constexpr double log2e = 1.4426950408889634, ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33, log10e = 0.43429448190325182, log10_2_high = 0x1.34413508p-2, log10_2_low = 0x1.f79fef311f12bp-34;
  static constexpr double largest = __DBL_MAX__, sinh_most = 710.6, exp_least = -746, exp_most = 710, expm1_least = -40, tanh_most = 20;
  TH_INLINE bits of(double x) { bits b; __builtin_memcpy(&b, &x, 8); return b; }
  TH_INLINE double from(bits b) { double x; __builtin_memcpy(&x, &b, 8); return x; }
  TH_INLINE double q(double r) { return th_poly(r, 0.5, 0.16666666666666677, 0.041666666666666685, 0.0083333333333211728, 0.0013888888888874719, 0.00019841269887312275, 2.4801587345814571e-05, 2.7557242986773854e-06, 2.7557254606762562e-07, 2.5109474134698097e-08, 2.0921016488196761e-09); }
  TH_INLINE double R(double z) { return th_poly(z, 0.66666666666666663, 0.40000000000006908, 0.28571428568875135, 0.22222222678078596, 0.1818177320445338, 0.15387196517780077, 0.13247773185565215, 0.13272314976017185); }
};
// A whole number that is no larger than an exponent, and 2 to the power of one.
template <class T> TH_INLINE T th_nearest(T x) { return (x + th_real<T>::magic) - th_real<T>::magic; }
template <class T> TH_INLINE T th_power_of_2(T n) { typedef th_real<T> R; return R::from(R::of(R::magic + (n + T(R::bias))) << R::mantissa); }
// e^r 2^n in two steps, of which the second one may overflow or lose bits to a denormal number.
template <class T> TH_INLINE T th_exp_of(T r, T n) {
  const T half = th_nearest(n * T(0.5));
  return (th_fma(r * r, th_real<T>::q(r), r) + T(1)) * th_power_of_2(half) * th_power_of_2(n - half);
}
template <class T> TH_INLINE T th_rest_of(T x, T n) { return th_fma(n, -th_real<T>::ln2_low, th_fma(n, -th_real<T>::ln2_high, x)); }
template <class T> TH_INLINE T th_exp_real(T x) {
  typedef th_real<T> R;
  x = x < R::exp_least ? R::exp_least : x > R::exp_most ? R::exp_most : x;
  const T n = th_nearest(x * R::log2e);
  return th_exp_of(th_rest_of(x, n), n);
}
template <class T> TH_INLINE T th_exp2_real(T x) {
  typedef th_real<T> R;
  constexpr T least = R::exp_least * R::log2e - 1, most = R::exp_most * R::log2e + 1;
  x = x < least ? least : x > most ? most : x;
  const T n = th_nearest(x);
  return th_exp_of((x - n) * T(0.69314718055994530942), n);
}
template <class T> TH_INLINE T th_expm1_real(T x) {
  typedef th_real<T> R;
  const T y = x < R::expm1_least ? R::expm1_least : x > R::exp_most ? R::exp_most : x, n = th_nearest(y * R::log2e), r = th_rest_of(y, n);
  const T power = th_power_of_2(n - T(1));
  return th_copysign(T(2) * th_fma(power, th_fma(r * r, R::q(r), r), power - T(0.5)), x);
}
template <class T> TH_INLINE T th_tanh_real(T x) {
  T a = x < T(0) ? -x : x;
  a = a > th_real<T>::tanh_most ? th_real<T>::tanh_most : a;
  const T e = th_expm1_real(T(2) * a);
  return th_copysign(e / (e + T(2)), x);
}
// x = 2^e (1 + f)
template <class T> TH_INLINE T th_log_parts(T x, T& e) {
  typedef th_real<T> R;
  const bool tiny = x < R::least;
  const typename R::bits b = R::of(tiny ? x * R::whole : x) + (R::one - R::sqrt_half), fraction = (typename R::bits(1) << R::mantissa) - 1;
  const T raised = tiny ? T(R::bias) + T(R::mantissa) : T(R::bias);
  e = (R::from((b >> R::mantissa) | R::of(R::whole)) - R::whole) - raised;
  return R::from((b & fraction) + R::sqrt_half) - T(1);
}
// scale * log(x) as the sum of high * e, low * e and scale * log m.
template <class T> TH_INLINE T th_log_scaled(T x, T high, T low, T scale) {
  typedef th_real<T> R;
  T e;
  const T f = th_log_parts(x, e), s = f / (T(2) + f), z = s * s, half = T(0.5) * f * f;
  const T rest = s * (half + z * R::R(z));
  T y;
  if (scale == T(1)) y = e * high - ((half - th_fma(e, low, rest)) - f);
  else y = th_fma(e, high, th_fma(e, low, scale * (f - (half - rest))));
  return x > T(0) ? (x < R::infinity ? y : x) : x == T(0) ? -R::infinity : T(TH_NAN);
}
template <class T> TH_INLINE T th_log_real(T x) { return th_log_scaled(x, th_real<T>::ln2_high, th_real<T>::ln2_low, T(1)); }
template <class T> TH_INLINE T th_log2_real(T x) { return th_log_scaled(x, T(1), T(0), th_real<T>::log2e); }
template <class T> TH_INLINE T th_log10_real(T x) { return th_log_scaled(x, th_real<T>::log10_2_high, th_real<T>::log10_2_low, th_real<T>::log10e); }
// What 1 + x lost of x is made up for by the derivative.
template <class T> TH_INLINE T th_log1p_real(T x) {
  const T u = T(1) + x, lost = (x - (u - T(1))) / u;
  const T y = th_log_real(u) + (u > T(0) && u < th_real<T>::infinity ? lost : T(0));
  return x == T(0) ? x : y;
}
#define TH_REAL(NAME) TH_INLINE float th_##NAME(float x) { return th_##NAME##_real(x); } TH_INLINE double th_##NAME(double x) { return th_##NAME##_real(x); }
TH_REAL(exp) TH_REAL(exp2) TH_REAL(expm1) TH_REAL(tanh) TH_REAL(log) TH_REAL(log2) TH_REAL(log10) TH_REAL(log1p)
)";
  return text;
}

}  // namespace thunder::fuser
