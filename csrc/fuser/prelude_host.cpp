#include "fuser/emit.h"
#include "fuser/prelude_parts.h"

namespace thunder::fuser {

// The sign bit is read as an integer's: g++ 12 breaks down over its own builtin in vectors of two floats.
// No header is included: they would cost more time than the kernels.
// Of th_outside the sign bit counts: g++ 12 makes wrong code, with 512 bits, for a flag that is narrower than the places.
const std::string& host_prelude() {
  static const std::string text =
      std::string() +
      R"(typedef long long int64; typedef int int32; typedef short int16; typedef signed char int8; typedef unsigned char uint8;
typedef unsigned long long uint64; typedef unsigned int uint32; typedef unsigned short uint16;
#define TH_FN static inline
#define TH_INIT
#define TH_NAN __builtin_nanf("")
#define TH_INF __builtin_inff()
#define TH_UNARY(NAME) extern "C" float NAME##f(float) noexcept; extern "C" double NAME(double) noexcept; \
  static inline float th_##NAME(float x) { return NAME##f(x); } static inline double th_##NAME(double x) { return NAME(x); }
#define TH_BINARY(NAME) extern "C" float NAME##f(float, float) noexcept; extern "C" double NAME(double, double) noexcept; \
  static inline float th_##NAME(float x, float y) { return NAME##f(x, y); } static inline double th_##NAME(double x, double y) { return NAME(x, y); }
TH_UNARY(asin) TH_UNARY(acos) TH_UNARY(asinh) TH_UNARY(acosh) TH_UNARY(erfc) TH_UNARY(lgamma) TH_BINARY(hypot) TH_BINARY(nextafter) TH_BINARY(fmod)
static inline int64 th_pow(int64 x, int64 n) { if (n < 0) return x == 1 ? 1 : x == -1 ? (n % 2 ? -1 : 1) : 0; uint64 r = 1, y = x; while (n) { if (n & 1) r *= y; n >>= 1; y *= y; } return int64(r); }
static inline int64 th_pow(int32 x, int32 n) { return th_pow(int64(x), int64(n)); }
static inline float th_sqrt(float x) { return __builtin_sqrtf(x); }
static inline double th_sqrt(double x) { return __builtin_sqrt(x); }
static inline float th_copysign(float x, float y) { return __builtin_copysignf(x, y); }
static inline double th_copysign(double x, double y) { return __builtin_copysign(x, y); }
#define TH_ROUND(NAME) static inline float th_##NAME(float x) { return __builtin_##NAME##f(x); } static inline double th_##NAME(double x) { return __builtin_##NAME(x); } \
  template <class T> static inline T th_##NAME(T x) { return x; }
TH_ROUND(ceil) TH_ROUND(floor) TH_ROUND(rint) TH_ROUND(trunc)
// Of integers the divisor is neither 0 nor -1.
template <class T> static inline T th_fmod(T x, T y) { return T(x % y); }
template <class T> static inline T th_remainder(T x, T y) { const T rest = th_fmod(x, y); return rest != 0 && (y < 0) != (rest < 0) ? T(rest + y) : rest; }
template <class T> static inline T th_floor_div(T x, T y) { return T(x / y - (x % y != 0 && (x < 0) != (y < 0))); }
template <class T> static inline T th_floor_quotient(T x, T y) {
  if (y == 0) return x / y;
  const T rest = th_fmod(x, y), whole = (x - rest) / y - T(rest != 0 && (y < 0) != (rest < 0)), below = th_floor(whole);
  return whole == 0 ? th_copysign(T(0), x / y) : whole - below > T(0.5) ? below + 1 : below;
}
static inline float th_floor_div(float x, float y) { return th_floor_quotient(x, y); }
static inline double th_floor_div(double x, double y) { return th_floor_quotient(x, y); }
template <class T> static inline T th_bitwise_not(T x) { return T(~x); }
static inline bool th_bitwise_not(bool x) { return !x; }
template <class T> static inline T th_abs(T x) { return x < 0 ? T(0 - uint64(x)) : x; }
static inline float th_abs(float x) { return __builtin_fabsf(x); }
static inline double th_abs(double x) { return __builtin_fabs(x); }
static inline float th_divisor_scale(float x) { return th_abs(x) < 0x1p-100f ? 0x1p100f : th_abs(x) > 0x1p100f ? 0x1p-100f : 1.0f; }
static inline bool th_abs(bool x) { return x; }
template <class T> static inline bool th_isfinite(T) { return true; }
template <class T> static inline bool th_isinf(T) { return false; }
template <class T> static inline bool th_signbit(T x) { return x < 0; }
template <class T> static inline T th_shift_left(T x, T n) { return n < 0 || n >= T(8 * sizeof(T)) ? T(0) : T((unsigned long long)(x) << n); }
template <class T> static inline T th_shift_right(T x, T n) { return n < 0 || n >= T(8 * sizeof(T)) ? T(x < 0 ? -1 : 0) : T(x >> n); }
static inline bool th_isfinite(float x) { return th_abs(x) <= __FLT_MAX__; }
static inline bool th_isfinite(double x) { return th_abs(x) <= __DBL_MAX__; }
static inline bool th_isinf(float x) { return th_abs(x) > __FLT_MAX__; }
static inline bool th_isinf(double x) { return th_abs(x) > __DBL_MAX__; }
static inline bool th_signbit(float x) { int32 b; __builtin_memcpy(&b, &x, 4); return b < 0; }
static inline bool th_signbit(double x) { int64 b; __builtin_memcpy(&b, &x, 8); return b < 0; }
template <class T> static inline T th_add(T a, T b) { return a + b; }
template <class T> static inline T th_mul(T a, T b) { return a * b; }
// Sums and products of integers wrap around, which signed numbers of C++ do not.
static inline int64 th_add(int64 a, int64 b) { return int64(uint64(a) + uint64(b)); }
static inline int64 th_mul(int64 a, int64 b) { return int64(uint64(a) * uint64(b)); }
static inline int32 th_add(int32 a, int32 b) { return int32(uint32(a) + uint32(b)); }
static inline int32 th_mul(int32 a, int32 b) { return int32(uint32(a) * uint32(b)); }
// Two selects: a condition that is joined of two comparisons is not vectorised by g++.
template <class T> static inline T th_max(T a, T b) { const T m = b > a ? b : a; return b == b ? m : b; }
template <class T> static inline T th_min(T a, T b) { const T m = b < a ? b : a; return b == b ? m : b; }
template <class T> static inline T th_or(T a, T b) { return a | b; }
template <class T> static inline T th_and(T a, T b) { return a & b; }
template <class T> constexpr T th_highest() { return T(~0ull >> (65 - 8 * sizeof(T))); }
template <> constexpr float th_highest<float>() { return __builtin_inff(); }
template <> constexpr double th_highest<double>() { return __builtin_inf(); }
template <> constexpr uint8 th_highest<uint8>() { return 255; }
template <> constexpr bool th_highest<bool>() { return true; }
template <class T> constexpr T th_lowest() { return T(-th_highest<T>() - 1); }
template <> constexpr float th_lowest<float>() { return -__builtin_inff(); }
template <> constexpr double th_lowest<double>() { return -__builtin_inf(); }
template <> constexpr uint8 th_lowest<uint8>() { return 0; }
template <> constexpr bool th_lowest<bool>() { return false; }
// Halves until one is left, so that neighbours are joined by one instruction.
template <int n, class T, class F> static inline T th_join(T* x, F f) {
  if constexpr (n % 2 == 1) {
    for (int i = 1; i < n; ++i) x[0] = f(x[0], x[i]);
    return x[0];
  } else {
    for (int i = 0; i < n / 2; ++i) x[i] = f(x[i], x[i + n / 2]);
    return th_join<n / 2>(x, f);
  }
}
)" + total_prelude() +
      R"(
struct bf16 { uint16 bits; };
struct f16 { uint16 bits; };
static inline float th_float(uint32 bits) { float x; __builtin_memcpy(&x, &bits, 4); return x; }
static inline uint32 th_bits(float x) { uint32 b; __builtin_memcpy(&b, &x, 4); return b; }
static inline float th_get(bf16 x) { return th_float(uint32(x.bits) << 16); }
static inline float th_from_f16(uint32 bits) {
  const uint32 sign = (bits & 0x8000) << 16, rest = bits & 0x7fff;
  const float normal = th_float((rest << 13) + 0x38000000), small = float(rest) * 0x1p-24f;
  const float value = rest >= 0x7c00 ? th_float((rest << 13) | 0x7f800000) : rest < 0x400 ? small : normal;
  return th_float(th_bits(value) | sign);
}
static inline float th_get(f16 x) { return th_from_f16(x.bits); }
template <class T> static inline T th_get(T x) { return x; }
)" + float8_prelude() +
      R"(
// In 32 bits: where rounding changes the width of lanes, loops take twice as long.
static inline uint32 th_to_bf16(float x) {
  const uint32 b = th_bits(x);
  return x != x ? 0x7fc0 : (b + 0x7fff + ((b >> 16) & 1)) >> 16;
}
static inline uint32 th_to_f16(float x) {
  const uint32 b = th_bits(x), sign = (b >> 16) & 0x8000, a = b & 0x7fffffff;
  const uint32 normal = (a - 0x38000000 + 0xfff + ((a >> 13) & 1)) >> 13;
  const uint32 small = th_bits(th_float(a) + 0.5f) - 0x3f000000;
  return sign | (a > 0x7f800000 ? 0x7e00 : a >= 0x477ff000 ? 0x7c00 : a < 0x38800000 ? small : normal);
}
static inline float th_round_bf16(float x) { return th_float(th_to_bf16(x) << 16); }
static inline float th_round_f16(float x) { return th_from_f16(th_to_f16(x)); }
static inline int64 th_place(int64& outside, int64 i, int64 n, bool wanted = true) {
  outside |= wanted ? i | int64(uint64(n) - 1 - uint64(i)) : 0;
  return i < 0 || i >= n ? 0 : i;
}
static inline int64 th_wrapped(int64 i, int64 n) { return i < 0 ? i + n : i; }
#define TH_PLACE(...) th_place(th_outside, __VA_ARGS__)
template <class T> static inline auto th_load(const T* p) { return th_get(*p); }
// A byte that is compared with 0: where g++ loads the condition of a select as bool, it makes a branch of the select.
static inline bool th_load(const bool* p) { return *(const uint8*)p != 0; }
static inline void th_set(bf16& out, float x) { out.bits = uint16(th_to_bf16(x)); }
static inline void th_set(f16& out, float x) { out.bits = uint16(th_to_f16(x)); }
template <class T, class U> static inline void th_set(T& out, U x) { out = T(x); }
)" + host_math_prelude() +
      random_prelude();
  return text;
}

std::string host_source(const std::string& kernels) {
  static const PreludeParts parts = divide_prelude(host_prelude() + host_functions());
  return used_part(parts, kernels) + kernels;
}

}  // namespace thunder::fuser
