#include <string>

#include "fuser/emit.h"

namespace thunder::fuser {
namespace {

// Conditions choose between numbers: g++ 12 does not vectorise what joins conditions of which one is the same in the
// whole loop.
//
// sin, cos  float: x = n pi + r with |r| <= pi/2, in double.  double: x = n pi/2 + r with |r| <= pi/4, where r is the
//           sum of two numbers and pi/2 of four, the first three of which have 29 bits: n times such a part is exact
//           below 2^24.  Beyond it the C library is asked (TH_FAR).
// tan       sin / cos.
constexpr const char* kTrigonometry = R"(
TH_INLINE double th_sine_of(double r) { const double z = r * r; return r * th_fma(z, th_poly(z, -0.16666666626116086, 0.0083333311070504755, -0.00019840867994984726, 2.7525372907043853e-06, -2.388869883975607e-08), 1.0); }
TH_INLINE double th_turn(double x, double n) { return th_fma(n, -0x1.10b4611a62633p-29, th_fma(n, -0x1.921fb54p1, x)); }
TH_INLINE double th_flip(double x, uint64 odd) { return th_real<double>::from(th_real<double>::of(x) ^ (odd << 63)); }
TH_INLINE float th_sin_near(float x) {
  const double t = x * 0x1.45f306dc9c883p-2 + 0x1.8p52;
  return float(th_flip(th_sine_of(th_turn(x, t - 0x1.8p52)), th_real<double>::of(t)));
}
TH_INLINE float th_cos_near(float x) {
  const double t = (x * 0x1.45f306dc9c883p-2 - 0.5) + 0x1.8p52;
  return float(th_flip(th_sine_of(th_turn(x, (t - 0x1.8p52) + 0.5)), th_real<double>::of(t) + 1));
}
TH_INLINE float th_tan_near(float x) {
  const double r = th_turn(x, (x * 0x1.45f306dc9c883p-2 + 0x1.8p52) - 0x1.8p52), a = r < 0 ? -r : r;
  return float(th_sine_of(r) / th_sine_of((0x1.921fb54442d18p0 - a) + 0x1.1a62633145c07p-54));
}
struct th_quarter { double sine, cosine; uint64 n; };
TH_INLINE th_quarter th_quarter_of(double x) {
  const double t = x * 0x1.45f306dc9c883p-1 + 0x1.8p52, n = t - 0x1.8p52;
  const double a = th_fma(n, -0x1.921fb54p0, x), b = n * 0x1.10b4611p-30, high = a - b, c = n * 0x1.4c4c662p-59, most = high - c;
  const double lost = ((b - (a - high)) + (c - (high - most))) + n * 0x1.1701b839a252p-88, r = most - lost, low = (most - r) - lost;
  const double z = r * r, half = 0.5 * z, w = 1.0 - half;
  th_quarter q;
  q.sine = r + th_fma(z * r, th_poly(z, -0.1666666666666663, 0.0083333333333221078, -0.00019841269829580993, 2.7557313618286115e-06, -2.5050747257449162e-08, 1.5896199749053206e-10), low);
  q.cosine = w + (((1.0 - w) - half) + th_fma(z * z, th_poly(z, 0.041666666666666595, -0.0013888888888873043, 2.4801587288842126e-05, -2.7557314176416553e-07, 2.0875700436353374e-09, -1.1358514836805591e-11), -r * low));
  q.n = th_real<double>::of(t);
  return q;
}
TH_INLINE double th_sin_near(double x) {
  const th_quarter q = th_quarter_of(x);
  const double y = th_flip(q.n & 1 ? q.cosine : q.sine, q.n >> 1);
  return x == 0 ? x : y;
}
TH_INLINE double th_cos_near(double x) {
  const th_quarter q = th_quarter_of(x);
  return th_flip(q.n & 1 ? q.sine : q.cosine, (q.n + 1) >> 1);
}
TH_INLINE double th_tan_near(double x) {
  const th_quarter q = th_quarter_of(x);
  const double y = th_flip((q.n & 1 ? q.cosine : q.sine) / (q.n & 1 ? q.sine : q.cosine), q.n);
  return x == 0 ? x : y;
}
#define TH_FAR(NAME) extern "C" float NAME##f(float) noexcept; extern "C" double NAME(double) noexcept; \
  TH_INLINE float th_library_##NAME(float x) { return NAME##f(x); } TH_INLINE double th_library_##NAME(double x) { return NAME(x); } \
  template <bool exact, class T> TH_INLINE T th_##NAME##_of(T x, int64& far) { \
    const T a = x < T(0) ? -x : x; \
    if constexpr (exact) return a > T(0x1p24f) ? th_library_##NAME(x) : th_##NAME##_near(x); \
    far |= int64(th_real<double>::of(double(T(0x1p24f) - a))); \
    return th_##NAME##_near(x); }
TH_FAR(sin) TH_FAR(cos) TH_FAR(tan)
constexpr bool th_exact = true;
static int64 th_far;
#define th_sin(...) th_sin_of<th_exact>(__VA_ARGS__, th_far)
#define th_cos(...) th_cos_of<th_exact>(__VA_ARGS__, th_far)
#define th_tan(...) th_tan_of<th_exact>(__VA_ARGS__, th_far)
)";

// atan      t + t^3 p(t^2) for t = x, or 1/x beyond 1, which then is taken from pi/2.
constexpr const char* kArcTangent = R"(
TH_INLINE float th_atan_of(float t) { const float z = t * t; return th_fma(t * z, th_poly(z, -0.333332986f, 0.199985474f, -0.142642394f, 0.109521762f, -0.0840342566f, 0.0579572022f, -0.0311774798f, 0.0109144198f, -0.00179358188f), t); }
TH_INLINE double th_atan_of(double t) {
  const double z = t * t;
  return th_fma(t * z, th_poly(z, -0.33333333333333071, 0.19999999999951459, -0.14285714282575027, 0.11111111007023218, -0.090909070029319541, 0.076922798385438404, -0.066664040512238731, 0.058805277764071719, -0.052535183839906227, 0.047223216541461145, -0.042191775191499123, 0.036641882540084082, -0.02990381499987195, 0.021984801798931339, -0.013900513332426584, 0.0071964713510162806, -0.0028849027109513572, 0.00083131650797707601, -0.00015215975469427996, 1.3224968710259792e-05), t);
}
template <class T> struct th_right_angle;
template <> struct th_right_angle<float> { static constexpr float high = 0x1.921fb6p0f, low = -0x1.777a5cp-25f; };
template <> struct th_right_angle<double> { static constexpr double high = 0x1.921fb54442d18p0, low = 0x1.1a62633145c07p-54; };
template <class T> TH_INLINE T th_atan_real(T x) {
  typedef th_right_angle<T> Q;
  const T a = x < T(0) ? -x : x, r = th_atan_of((a > T(1) ? T(1) : a) / (a > T(1) ? a : T(1)));
  return th_copysign(a > T(1) ? Q::high - (r - Q::low) : r, x);
}
template <class T> TH_INLINE T th_atan2_real(T y, T x) {
  typedef th_right_angle<T> Q;
  const T a = x < T(0) ? -x : x, b = y < T(0) ? -y : y, m = b > a ? a : b, n = b > a ? b : a;
  const bool left = th_signbit(x), same = m == n && (m == T(0) || m == th_real<T>::infinity);
  const T r = th_atan_of(same ? (m == T(0) ? T(0) : T(1)) : m / n), turns = b > a ? T(1) : left ? T(2) : T(0);
  return th_copysign(th_fma(turns, Q::high, ((b > a) != left ? -r : r) + turns * Q::low), y);
}
TH_INLINE float th_atan(float x) { return th_atan_real(x); }
TH_INLINE double th_atan(double x) { return th_atan_real(x); }
TH_INLINE float th_atan2(float y, float x) { return th_atan2_real(y, x); }
TH_INLINE double th_atan2(double y, double x) { return th_atan2_real(y, x); }
)";

// pow       e^(y log x).  float: in double.  double: log x is the sum of two numbers, and so is its product with y;
//           log m = 2 s + 2/3 s^3 + s^5 Q(s^2), whose first two terms have twice the digits.
constexpr const char* kPower = R"(
TH_INLINE double th_product(double a, double b, double& lost) {
  const double p = a * b;
#if defined(__FMA__) || defined(__aarch64__)
  lost = __builtin_fma(a, b, -p);
#else
  const double s = a * 0x1.000001p27, t = b * 0x1.000001p27, ah = s - (s - a), bh = t - (t - b), al = a - ah, bl = b - bh;
  lost = ((ah * bh - p) + ah * bl + al * bh) + al * bl;
#endif
  return p;
}
template <class T> TH_INLINE T th_power_signs(T x, T y, T r) {
  const T half = y * T(0.5), finite = x < -th_real<T>::largest ? r : T(TH_NAN), fraction = x < T(0) ? finite : r, odd = th_copysign(r, x);
  r = th_trunc(y) == y ? (th_trunc(half) == half ? r : odd) : fraction;
  r = y == T(0) ? T(1) : r;
  return x == T(1) ? T(1) : r;
}
TH_INLINE float th_pow(float x, float y) {
  typedef th_real<double> R;
  const double a = x < 0 ? -x : x;
  const R::bits b = R::of(a) + (R::one - R::sqrt_half), fraction = (R::bits(1) << 52) - 1;
  const double e = (R::from((b >> 52) | R::of(R::whole)) - R::whole) - 1023.0, f = R::from((b & fraction) + R::sqrt_half) - 1.0, s = f / (2.0 + f), z = s * s;
  const double m = th_fma(s * z, th_poly(z, 0.66666665643797074, 0.40000335617087368, 0.28537278984772646, 0.23582753152805105), 2.0 * s), l = th_fma(e, 0.69314718055994531, m);
  double p = double(y > th_real<float>::largest ? th_real<float>::largest : y < -th_real<float>::largest ? -th_real<float>::largest : y) * (a < R::infinity ? a > 0 ? l : -R::infinity : a);
  p = p < -104 ? -104.0 : p > 89 ? 89.0 : p;
  const double n = th_nearest(p * R::log2e), r = th_fma(n, -0.69314718055994531, p);
  const double q = th_poly(r, 0.50000000783682785, 0.16666666866167515, 0.041666268334993775, 0.0083332628586124356, 0.0013946190333002017, 0.00019919329957204533);
  return th_power_signs(x, y, float(th_fma(r * r, q, r + 1.0) * th_power_of_2(n)));
}
TH_INLINE double th_pow(double x, double y) {
  typedef th_real<double> R;
  const double a = x < 0 ? -x : x;
  double e, z_low, lost;
  const double f = th_log_parts(a, e), d = 2.0 + f, inverse = 1.0 / d, s = f * inverse;
  const double p = th_product(s, d, lost), s_low = (((f - p) - lost) - s * (f - (d - 2.0))) * inverse;
  const double z = th_product(s, s, z_low), c = z * th_poly(z, 0.40000000000002262, 0.28571428570096785, 0.2222222252044371, 0.18181784319638569, 0.15386759602095668, 0.13256763025059762, 0.13196852796071865);
  const double w = 0x1.5555555555555p-1 + c, w_low = ((0x1.5555555555555p-1 - w) + c) + 0x1.5555555555555p-55;
  z_low += 2.0 * s * s_low;
  const double v = th_product(z, w, lost), v_low = lost + (z * w_low + z_low * w), u = th_product(s, v, lost), u_low = lost + (s * v_low + s_low * v);
  const double m = 2.0 * s + u, m_low = ((2.0 * s - m) + u) + (u_low + 2.0 * s_low);
  const double g = e * 0x1.62e42fefa3p-1, h = g + m, l_low = ((g - h) + m) + (m_low + e * 0x1.3de6af278ece6p-42);
  const double l = a < R::infinity ? a > 0 ? h : -R::infinity : a, t = y > 0x1p65 ? 0x1p65 : y < -0x1p65 ? -0x1p65 : y;
  const double k = th_product(t, l, lost), most = k > R::exp_most ? R::exp_most : k, q = most < R::exp_least ? R::exp_least : most;
  const double n = th_nearest(q * R::log2e), rest = lost + t * l_low;
  return th_power_signs(x, y, th_exp_of(th_rest_of(q, n) + (q == k ? rest : 0.0), n));
}
)";

// erf       x + x p(x^2) below 0.93, 1 - exp(-k(x)) above.
constexpr const char* kError = R"(
TH_INLINE float th_erf(float x) {
  float a = x < 0 ? -x : x;
  const float z = a * a, below = th_fma(a, th_poly(z, 0.128379167f, -0.376126337f, 0.112836939f, -0.0268592708f, 0.00520063431f, -0.000813743756f, 8.34522489e-05f), a);
  a = a > 4.0f ? 4.0f : a;
  const float k = th_poly(a, -0.000169205125f, 1.12948841f, 0.633400851f, 0.108220384f, -0.0250806165f, 0.0041562549f, -0.000431393563f, 2.08286181e-05f);
  const float n = th_nearest(k * -1.44269504f), above = 1.0f - th_exp_of(th_rest_of(-k, n), n);
  return __builtin_copysignf(a < 0.93f ? below : above, x);
}
TH_INLINE double th_erf(double x) {
  double a = x < 0 ? -x : x;
  const double z = a * a, below = th_fma(a, th_poly(z, 0.12837916709551256, -0.37612638903183704, 0.11283791670952438, -0.026866170644556917, 0.0052239776190836614, -0.00085483266070016746, 0.0001205531564110281, -1.492517335247447e-05, 1.6453317689145152e-06, -1.6257840437380548e-07, 1.395350135255651e-08, -8.2724242616328537e-10), a);
  a = a > 5.95 ? 5.95 : a;
  const double k = th_poly(a, 3.3104456996123597e-09, 1.1283791681792255, 0.63661951747683754, 0.10277445923661913, -0.019135643830404832, -0.0001905781985545413, 0.0016610823302739511, -0.00053945852161253131, -3.1559123232405489e-05, 0.00011646441321130911, -6.7486787620629751e-05, 2.5335197834519898e-05, -7.1121428147390114e-06, 1.5509090158504645e-06, -2.6391439122636255e-07, 3.4544776253269724e-08, -3.3670617391818291e-09, 2.303755201465137e-10, -9.8737263096964273e-12, 1.9940041922966714e-13);
  const double n = th_nearest(k * -1.4426950408889634), above = 1.0 - th_exp_of(th_rest_of(-k, n), n);
  return __builtin_copysign(a < 0.93 ? below : above, x);
}
)";

// normal    1/2 + x p(x^2) / q(x^2), with an error of 1.7e-7: where the tail is as small, it counts as nothing.  One
//           division takes half the time of erf's exponential.  The derivative of x times it in the same way, with an
//           error of 2e-7.
constexpr const char* kNormal = R"(
TH_INLINE float th_normal_cdf(float x) {
  const float z = x * x, r = x * th_poly(z, 0.398942262f, 0.0322646014f, 0.00459562335f, 0.000154446752f, 6.43688509e-06f, 2.5281107e-08f) / th_poly(z, 1.0f, 0.247541785f, 0.0277769677f, 0.00180385611f, 6.99415032e-05f, 1.27674559e-06f);
  return x > 5.1f ? 1.0f : x < -5.1f ? 0.0f : 0.5f + r;
}
TH_INLINE double th_normal_cdf(double x) { return 0.5 * (1.0 + th_erf(x * 0.70710678118654752)); }
TH_INLINE float th_gelu_slope(float x) {
  const float z = x * x, r = x * th_poly(z, 0.797884524f, -0.0205660854f, 0.0136698866f, 0.000239507266f, 3.20416366e-05f, 1.00123293e-06f, 1.22113306e-08f, -2.83679243e-11f) / th_poly(z, 1.0f, 0.307557195f, 0.0446528383f, 0.00402092841f, 0.000247285585f, 1.02228996e-05f, 3.31200567e-07f);
  const float none = x - x;  // as eager has it, of infinities
  return x > 5.85f ? 1.0f + none : x < -5.85f ? none : 0.5f + r;
}
TH_INLINE double th_gelu_slope(double x) { return th_normal_cdf(x) + x * (0.39894228040143268 * th_exp(-0.5 * (x * x))); }
)";

// sinh, cosh   of (e^x - 1) / 4, which does not overflow before they do.
constexpr const char* kHyperbolic = R"(
template <class T> TH_INLINE T th_quarter_expm1(T a) {
  typedef th_real<T> R;
  a = a > R::sinh_most ? R::sinh_most : a;
  const T n = th_nearest(a * R::log2e), r = th_rest_of(a, n), power = th_power_of_2(n - T(2));
  return th_fma(power, th_fma(r * r, R::q(r), r), power - T(0.25));
}
template <class T> TH_INLINE T th_sinh_real(T x) { const T a = x < T(0) ? -x : x, e = th_quarter_expm1(a); return th_copysign(a < T(0x1p-30f) ? a : T(2) * e + T(0.5) * (e / (e + T(0.25))), x); }
template <class T> TH_INLINE T th_cosh_real(T x) { const T e = th_quarter_expm1(x < T(0) ? -x : x) + T(0.25); return T(2) * e + T(0.125) / e; }
template <class T> TH_INLINE T th_atanh_real(T x) { const T a = x < T(0) ? -x : x; return th_copysign(T(0.5) * th_log1p_real(T(2) * a / (T(1) - a)), x); }
TH_REAL(sinh) TH_REAL(cosh) TH_REAL(atanh)
)";

}  // namespace

const std::string& host_functions() {
  static const std::string text = std::string(kTrigonometry) + kArcTangent + kPower + kError + kNormal + kHyperbolic;
  return text;
}

}  // namespace thunder::fuser
