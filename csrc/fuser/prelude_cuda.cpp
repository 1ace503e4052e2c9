#include "fuser/emit.h"

namespace thunder::fuser {

const std::string& cuda_prelude() {
  static const std::string text =
      std::string() +
      R"(typedef long long int64; typedef int int32; typedef short int16; typedef signed char int8; typedef unsigned char uint8;
typedef unsigned long long uint64; typedef unsigned int uint32; typedef unsigned short uint16;
#define TH_NAN __int_as_float(0x7fc00000)
#define TH_INF __int_as_float(0x7f800000)
#define TH_D static __device__ __forceinline__
#define TH_FN TH_D
#define TH_INIT __device__ __forceinline__
#define TH_UNARY(NAME) TH_D float th_##NAME(float x) { return NAME##f(x); } TH_D double th_##NAME(double x) { return NAME(x); }
#define TH_BINARY(NAME) TH_D float th_##NAME(float x, float y) { return NAME##f(x, y); } TH_D double th_##NAME(double x, double y) { return NAME(x, y); }
TH_UNARY(exp) TH_UNARY(log) TH_UNARY(sin) TH_UNARY(cos) TH_UNARY(tan) TH_UNARY(tanh) TH_UNARY(sinh) TH_UNARY(cosh) TH_UNARY(asin) TH_UNARY(acos)
TH_UNARY(atan) TH_UNARY(asinh) TH_UNARY(acosh) TH_UNARY(atanh) TH_UNARY(erf) TH_UNARY(erfc) TH_UNARY(exp2) TH_UNARY(expm1) TH_UNARY(log2)
TH_UNARY(log10) TH_UNARY(log1p) TH_UNARY(lgamma) TH_UNARY(sqrt)
TH_D float th_normal_cdf(float x) { return 0.5f * (1.0f + erff(x * 0.707106781f)); }
TH_D double th_normal_cdf(double x) { return 0.5 * (1.0 + erf(x * 0.70710678118654752)); }
TH_D float th_gelu_slope(float x) { return th_normal_cdf(x) + x * (0.39894228f * expf(x * x * -0.5f)); }
TH_D double th_gelu_slope(double x) { return th_normal_cdf(x) + x * (0.39894228040143268 * exp(x * x * -0.5)); }
TH_BINARY(atan2) TH_BINARY(hypot) TH_BINARY(nextafter) TH_BINARY(pow) TH_BINARY(copysign) TH_BINARY(fmod)
TH_D int64 th_pow(int64 x, int64 n) { if (n < 0) return x == 1 ? 1 : x == -1 ? (n % 2 ? -1 : 1) : 0; uint64 r = 1, y = x; while (n) { if (n & 1) r *= y; n >>= 1; y *= y; } return int64(r); }
TH_D int64 th_pow(int32 x, int32 n) { return th_pow(int64(x), int64(n)); }
#define TH_ROUND(NAME) TH_D float th_##NAME(float x) { return NAME##f(x); } TH_D double th_##NAME(double x) { return NAME(x); } template <class T> TH_D T th_##NAME(T x) { return x; }
TH_ROUND(ceil) TH_ROUND(floor) TH_ROUND(rint) TH_ROUND(trunc)
// Of integers the divisor is neither 0 nor -1.
template <class T> TH_D T th_fmod(T x, T y) { return T(x % y); }
template <class T> TH_D T th_remainder(T x, T y) { const T rest = th_fmod(x, y); return rest != 0 && (y < 0) != (rest < 0) ? T(rest + y) : rest; }
template <class T> TH_D T th_floor_div(T x, T y) { return T(x / y - (x % y != 0 && (x < 0) != (y < 0))); }
template <class T> TH_D T th_floor_quotient(T x, T y) {
  if (y == 0) return x / y;
  const T rest = th_fmod(x, y), whole = (x - rest) / y - T(rest != 0 && (y < 0) != (rest < 0)), below = th_floor(whole);
  return whole == 0 ? th_copysign(T(0), x / y) : whole - below > T(0.5) ? below + 1 : below;
}
TH_D float th_floor_div(float x, float y) { return th_floor_quotient(x, y); }
TH_D double th_floor_div(double x, double y) { return th_floor_quotient(x, y); }
template <class T> TH_D T th_bitwise_not(T x) { return T(~x); }
TH_D bool th_bitwise_not(bool x) { return !x; }
template <class T> TH_D T th_abs(T x) { return x < 0 ? T(0 - uint64(x)) : x; }
TH_D float th_abs(float x) { return fabsf(x); }
TH_D double th_abs(double x) { return fabs(x); }
TH_D bool th_abs(bool x) { return x; }
TH_D float th_divisor_scale(float x) { return th_abs(x) < 0x1p-100f ? 0x1p100f : th_abs(x) > 0x1p100f ? 0x1p-100f : 1.0f; }
template <class T> TH_D bool th_isfinite(T) { return true; }
template <class T> TH_D bool th_isinf(T) { return false; }
template <class T> TH_D bool th_signbit(T x) { return x < 0; }
template <class T> TH_D T th_shift_left(T x, T n) { return n < 0 || n >= T(8 * sizeof(T)) ? T(0) : T((unsigned long long)(x) << n); }
template <class T> TH_D T th_shift_right(T x, T n) { return n < 0 || n >= T(8 * sizeof(T)) ? T(x < 0 ? -1 : 0) : T(x >> n); }
TH_D bool th_isinf(float x) { return fabsf(x) == TH_INF; }
TH_D bool th_isinf(double x) { return fabs(x) == double(TH_INF); }
TH_D bool th_isfinite(float x) { return fabsf(x) < TH_INF; }
TH_D bool th_isfinite(double x) { return fabs(x) < double(TH_INF); }
TH_D bool th_signbit(float x) { return __float_as_int(x) < 0; }
TH_D bool th_signbit(double x) { return __double_as_longlong(x) < 0; }
template <class T> TH_D T th_add(T a, T b) { return a + b; }
template <class T> TH_D T th_mul(T a, T b) { return a * b; }
// Sums and products of integers wrap around, which signed numbers of C++ do not.
TH_D int64 th_add(int64 a, int64 b) { return int64(uint64(a) + uint64(b)); }
TH_D int64 th_mul(int64 a, int64 b) { return int64(uint64(a) * uint64(b)); }
TH_D int32 th_add(int32 a, int32 b) { return int32(uint32(a) + uint32(b)); }
TH_D int32 th_mul(int32 a, int32 b) { return int32(uint32(a) * uint32(b)); }
template <class T> TH_D T th_max(T a, T b) { return a != a || a > b ? a : b; }
template <class T> TH_D T th_min(T a, T b) { return a != a || a < b ? a : b; }
#if __CUDA_ARCH__ >= 800
TH_D float th_max(float a, float b) { float c; asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b)); return c; }
TH_D float th_min(float a, float b) { float c; asm("min.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b)); return c; }
#endif
template <class T> TH_D T th_or(T a, T b) { return a | b; }
template <class T> TH_D T th_and(T a, T b) { return a & b; }
template <class T> struct th_limits { TH_D T highest() { return T(~0ull >> (65 - 8 * sizeof(T))); } TH_D T lowest() { return T(-highest() - 1); } };
template <> struct th_limits<float> { TH_D float highest() { return TH_INF; } TH_D float lowest() { return -TH_INF; } };
template <> struct th_limits<double> { TH_D double highest() { return TH_INF; } TH_D double lowest() { return -TH_INF; } };
template <> struct th_limits<uint8> { TH_D uint8 highest() { return 255; } TH_D uint8 lowest() { return 0; } };
template <> struct th_limits<bool> { TH_D bool highest() { return true; } TH_D bool lowest() { return false; } };
template <class T> TH_D T th_highest() { return th_limits<T>::highest(); }
template <class T> TH_D T th_lowest() { return th_limits<T>::lowest(); }
)" + total_prelude() +
      R"(
struct bf16 { uint16 bits; };
struct f16 { uint16 bits; };
TH_D float th_get(bf16 x) { return __uint_as_float(uint32(x.bits) << 16); }
TH_D float th_get(f16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y; }
template <class T> TH_D T th_get(T x) { return x; }
TH_D float th_float(uint32 bits) { return __uint_as_float(bits); }
TH_D uint32 th_bits(float x) { return __float_as_uint(x); }
)" + float8_prelude() +
      R"(TH_D void th_set(bf16& out, float x) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out.bits) : "f"(x)); }
TH_D void th_set(f16& out, float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out.bits) : "f"(x)); }
template <class T, class U> TH_D void th_set(T& out, U x) { out = T(x); }
TH_D float th_round_bf16(float x) { bf16 h; th_set(h, x); return th_get(h); }
TH_D float th_round_f16(float x) { f16 h; th_set(h, x); return th_get(h); }
template <class I> TH_D I th_place(int64 i, int64 n, bool wanted = true) {
  if (wanted && (i < 0 || i >= n)) asm volatile("trap;");
  return i < 0 || i >= n ? 0 : I(i);
}
TH_D int64 th_wrapped(int64 i, int64 n) { return i < 0 ? i + n : i; }
#define TH_PLACE(...) th_place<I>(__VA_ARGS__)
template <class T> TH_D auto th_load(const T* p) { return th_get(*p); }
template <class T, int N> struct alignas(sizeof(T) * N > 16 ? 16 : sizeof(T) * N) Vec { T at[N]; };
template <int BYTES> struct th_word { typedef uint4 type; };
template <> struct th_word<8> { typedef uint2 type; };
template <> struct th_word<4> { typedef uint32 type; };
template <> struct th_word<2> { typedef uint16 type; };
template <> struct th_word<1> { typedef uint8 type; };
template <class T, int N> TH_D Vec<T, N> th_load_vector(const T* p) {
  constexpr int B = sizeof(T) * N, W = B > 16 ? 16 : B;
  typedef typename th_word<W>::type word;
  Vec<T, N> v;
#pragma unroll
  for (int i = 0; i < B / W; ++i) reinterpret_cast<word*>(&v)[i] = __ldg(reinterpret_cast<const word*>(p) + i);
  return v;
}
template <class T, int N> TH_D Vec<T, N> th_load_vector(const T* p, bool wanted) {
  Vec<T, N> v;
  if (wanted) v = th_load_vector<T, N>(p);
  else {
#pragma unroll
    for (int i = 0; i < N; ++i) v.at[i] = T();
  }
  return v;
}
template <class T, int N> TH_D void th_store_vector(T* p, const Vec<T, N>& v) {
  constexpr int B = sizeof(T) * N, W = B > 16 ? 16 : B;
  typedef typename th_word<W>::type word;
#pragma unroll
  for (int i = 0; i < B / W; ++i) reinterpret_cast<word*>(p)[i] = reinterpret_cast<const word*>(&v)[i];
}
template <class T> TH_D T th_shuffle(T x, int mask, uint32 of) { return __shfl_xor_sync(of, x, mask); }
TH_D bool th_shuffle(bool x, int mask, uint32 of) { return __shfl_xor_sync(of, int(x), mask); }
TH_D int8 th_shuffle(int8 x, int mask, uint32 of) { return __shfl_xor_sync(of, int(x), mask); }
TH_D uint8 th_shuffle(uint8 x, int mask, uint32 of) { return __shfl_xor_sync(of, int(x), mask); }
TH_D int16 th_shuffle(int16 x, int mask, uint32 of) { return __shfl_xor_sync(of, int(x), mask); }
// exp(x) for x <= 0 that is summed beside exp(0): an error grows with -x, where the term is small.
TH_D float th_exp_below(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.4426950408889634f)); return y; }
TH_D double th_exp_below(double x) { return exp(x); }
// A maximum m, and the sum s of exp(x - m), with N numbers more.
template <int N, class T> TH_D void th_online(T& m, T& s, const T (&v)[N]) {
  T n = m, sum = 0;
#pragma unroll
  for (int j = 0; j < N; ++j) n = th_max(n, v[j]);
  const T b = n == T(-TH_INF) ? T(0) : n;
#pragma unroll
  for (int j = 0; j < N; ++j) sum += th_exp_below(v[j] - b);
  s = s * th_exp_below(m - b) + sum;
  m = n;
}
// The value of all T threads of a row, a part of a warp or whole warps, known to each of them.  Rows that share a warp
// may end at different times.  Where a place in the text is passed once a row, alternate rows have memory of their own:
// a thread may write while another still reads of the row before.
template <int T, class V, class F> TH_D V th_reduce(V x, F f, int buffer = 0) {
  constexpr int W = T < 32 ? T : 32, N = T / W;
  const uint32 row = W == 32 ? 0xffffffffu : ((1u << W) - 1) << ((threadIdx.y * T + threadIdx.x) % 32 / W * W);
#pragma unroll
  for (int m = W / 2; m > 0; m /= 2) x = f(x, th_shuffle(x, m, row));
  if constexpr (N > 1) {
    __shared__ V parts[2][N];
    if (threadIdx.x % 32 == 0) parts[buffer][threadIdx.x / 32] = x;
    __syncthreads();
    if constexpr ((N & (N - 1)) == 0) {
      x = parts[buffer][threadIdx.x % N];
#pragma unroll
      for (int m = N / 2; m > 0; m /= 2) x = f(x, th_shuffle(x, m, row));
    } else {
      x = parts[buffer][0];
#pragma unroll
      for (int i = 1; i < N; ++i) x = f(x, parts[buffer][i]);
    }
  }
  return x;
}
// The value of all T threads of a row, known to each of them, where neighbouring threads are of R rows.
template <int T, int R, class V, class F> TH_D V th_reduce_across(V x, F f) {
  if constexpr (T > 1) {
    __shared__ V parts[T][R];
    parts[threadIdx.y][threadIdx.x] = x;
    __syncthreads();
    x = parts[0][threadIdx.x];
#pragma unroll
    for (int i = 1; i < T; ++i) x = f(x, parts[i][threadIdx.x]);
  }
  return x;
}
template <int N, class V, class F> TH_D V th_reduce_y(V x, F f) {
  __shared__ V parts[N][33];
  __syncthreads();
  parts[threadIdx.y][threadIdx.x] = x;
  __syncthreads();
#pragma unroll
  for (int m = N / 2; m > 0; m /= 2) {
    if (threadIdx.y < m) parts[threadIdx.y][threadIdx.x] = x = f(x, parts[threadIdx.y + m][threadIdx.x]);
    __syncthreads();
  }
  return x;
}
)" + tile_prelude() +
      random_prelude();
  return text;
}

}  // namespace thunder::fuser
