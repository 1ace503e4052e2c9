#include "fuser/emit.h"

namespace thunder::fuser {

// Philox 4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011): a block of
// four words for each counter, whose upper half is the offset of the draw and whose lower half counts blocks.
//
// A kind of draw makes the `per` elements of a block: element i of a tensor is element i % per of block i / per, so that
// it does not matter which elements a thread makes, nor in which order.
//
// The angle of a normal number is reduced to an eighth of a turn, exactly, so that the numbers of all targets agree to a
// few units in the last place even where sine or cosine is nearly zero.
const std::string& random_prelude() {
  static const std::string text = R"(
struct th_words { uint32 at[4]; };
TH_FN th_words th_philox(uint64 seed, uint64 offset, uint64 block) {
  uint32 a = uint32(block), b = uint32(block >> 32), c = uint32(offset), d = uint32(offset >> 32), k = uint32(seed), l = uint32(seed >> 32);
  for (int i = 0; i < 10; ++i) {
    const uint64 p = uint64(a) * 0xD2511F53u, q = uint64(c) * 0xCD9E8D57u;
    a = uint32(q >> 32) ^ b ^ k; b = uint32(q); c = uint32(p >> 32) ^ d ^ l; d = uint32(p);
    k += 0x9E3779B9u; l += 0xBB67AE85u;
  }
  return {{a, b, c, d}};
}
TH_FN int64 th_upper(uint32 low, uint32 high) { return int64((uint64(low) | uint64(high) << 32) >> 11); }
struct th_integers {
  typedef uint32 type; static constexpr int per = 4;
  TH_FN void make(const th_words& w, uint32* x) { x[0] = w.at[0]; x[1] = w.at[1]; x[2] = w.at[2]; x[3] = w.at[3]; }
};
// As many bits as the type that the numbers become has, so that none is rounded up to 1.
template <int bits> struct th_uniform {
  typedef float type; static constexpr int per = 4;
  TH_FN float one(uint32 w) { return float(int32(w >> (32 - bits))) * (1.0f / float(1 << bits)); }
  TH_FN void make(const th_words& w, float* x) { x[0] = one(w.at[0]); x[1] = one(w.at[1]); x[2] = one(w.at[2]); x[3] = one(w.at[3]); }
};
template <> struct th_uniform<53> {
  typedef double type; static constexpr int per = 2;
  TH_FN double one(uint32 low, uint32 high) { return double(th_upper(low, high)) * 0x1p-53; }
  TH_FN void make(const th_words& w, double* x) { x[0] = one(w.at[0], w.at[1]); x[1] = one(w.at[2], w.at[3]); }
};
// The sine of at most an eighth of a turn: x + x^3 p(x^2), p to 2^-37 in float and 2^-66 in double.
TH_FN float th_sine(float x) { const float z = x * x; return x + x * z * (-0.166666666f + z * (0.00833332927f + z * (-0.000198392961f + z * 2.7179394e-06f))); }
TH_FN double th_sine(double x) {
  const double z = x * x;
  return x + x * z * (-0.16666666666666666 + z * (0.0083333333333333124 + z * (-0.00019841269841245173 + z * (2.7557319209578455e-06 +
         z * (-2.5052103831928703e-08 + z * (1.6058242366477607e-10 + z * -7.5730935082714028e-13))))));
}
// Box and Muller: two numbers from u in (0, 1] and `turn` in [0, 1).
template <class T> TH_FN void th_two_normals(T u, T turn, T* x) {
  const T r = th_sqrt(T(-2) * th_log(u)), quarter = th_rint(turn * T(4)), rest = (turn - quarter * T(0.25)) * T(6.283185307179586);
  const T sine = th_sine(rest), s = sine * r, c = th_sqrt(T(1) - sine * sine) * r;
  const bool odd = quarter == T(1) || quarter == T(3), flip = quarter == T(1) || quarter == T(2), flop = quarter == T(2) || quarter == T(3);
  const T y = odd ? s : c, z = odd ? c : s;
  x[0] = flip ? -y : y;
  x[1] = flop ? -z : z;
}
template <class T> struct th_normal {
  typedef float type; static constexpr int per = 4;
  TH_FN float open(uint32 w) { return float(w) * 0x1p-32f + 0x1p-33f; }
  TH_FN void make(const th_words& w, float* x) {
    th_two_normals(open(w.at[0]), th_uniform<24>::one(w.at[1]), x);
    th_two_normals(open(w.at[2]), th_uniform<24>::one(w.at[3]), x + 2);
  }
};
template <> struct th_normal<double> {
  typedef double type; static constexpr int per = 2;
  TH_FN void make(const th_words& w, double* x) {
    th_two_normals((double(th_upper(w.at[0], w.at[1])) + 0.5) * 0x1p-53, th_uniform<53>::one(w.at[2], w.at[3]), x);
  }
};
template <class K> TH_FN void th_block(uint64 seed, uint64 offset, uint64 block, typename K::type* out) {
  typename K::type x[K::per];
  K::make(th_philox(seed, offset, block), x);
  out[0] = x[0]; out[1] = x[1];
  if constexpr (K::per == 4) { out[2] = x[2]; out[3] = x[3]; }
}
template <class K> TH_FN typename K::type th_random(uint64 seed, uint64 offset, uint64 i) {
  typename K::type x[K::per];
  K::make(th_philox(seed, offset, i / K::per), x);
  if constexpr (K::per == 2) return i % 2 ? x[1] : x[0];
  else { const auto y = i % 2 ? x[1] : x[0], z = i % 2 ? x[3] : x[2]; return i / 2 % 2 ? z : y; }
}
template <class T, int N> struct th_lanes { T at[N]; };
// N neighbours, from a multiple of N on.
template <class K, int N> TH_FN th_lanes<typename K::type, N> th_random_vector(uint64 seed, uint64 offset, uint64 first) {
  th_lanes<typename K::type, N> out;
  if constexpr (N >= K::per) {
#pragma unroll
    for (int b = 0; b < N / K::per; ++b) K::make(th_philox(seed, offset, first / K::per + b), out.at + K::per * b);
  } else {
    typename K::type x[K::per];
    K::make(th_philox(seed, offset, first / K::per), x);
#pragma unroll
    for (int i = 0; i < N; ++i) out.at[i] = first / N % 2 ? x[N + i] : x[i];
  }
  return out;
}
// n neighbours in a buffer, which has room for as many and a block; returns where the first one is.
template <class K> TH_FN typename K::type* th_random_fill(typename K::type* buffer, uint64 seed, uint64 offset, uint64 first, int64 n) {
  const uint64 from = first / K::per;
  const int64 blocks = int64((first + n - 1) / K::per - from) + 1;
#pragma omp simd
  for (int64 b = 0; b < blocks; ++b) th_block<K>(seed, offset, from + b, buffer + K::per * b);
  return buffer + first % K::per;
}
// An integer of [low, low + range), for a range of up to 2^32.
TH_FN int64 th_integer(uint32 bits, int64 low, uint64 range) { return int64(uint64(low) + (bits * range >> 32)); }
)";
  return text;
}

}  // namespace thunder::fuser
