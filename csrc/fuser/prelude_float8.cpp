#include "fuser/emit.h"

namespace thunder::fuser {

// A float8 value stays one in a kernel: what is stored twice, by rows and by columns, is converted once.  Conversions
// are PyTorch's: to the nearest, ties to even; beyond the range e5m2 is infinite, and e4m3 the largest number, or none
// with releases of PyTorch before 2.13 (set_float8_saturates()).
const std::string& float8_prelude() {
  static const std::string text = R"(
struct f8e4m3 { uint8 bits; f8e4m3() = default; TH_INIT explicit f8e4m3(int) : bits(0) {} };
struct f8e5m2 { uint8 bits; f8e5m2() = default; TH_INIT explicit f8e5m2(int) : bits(0) {} };
TH_FN float th_widened(f8e4m3 x) {
  const uint32 rest = x.bits & 0x7f;
  const float normal = th_float((rest << 20) + 0x3c000000), small = float(int(rest)) * 0.001953125f;
  return th_float(th_bits(rest == 0x7f ? TH_NAN : rest < 8 ? small : normal) | uint32(x.bits & 0x80) << 24);
}
TH_FN float th_widened(f8e5m2 x) { f16 h; h.bits = uint16(x.bits << 8); return th_get(h); }
#if __CUDA_ARCH__ >= 890
TH_FN f8e4m3 th_to_f8e4m3(float x) {
  uint16 pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
  f8e4m3 y;
  y.bits = uint8(pair);
  return y;
}
TH_FN f8e5m2 th_to_f8e5m2(float x) {
  uint16 pair;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
  f8e5m2 y;
  y.bits = uint8(fabsf(x) >= 61440.0f ? (pair & 0x80) | 0x7c : pair);
  return y;
}
#else
TH_FN f8e4m3 th_to_f8e4m3(float x) {
  const uint32 b = th_bits(x), a = b & 0x7fffffff;
  const uint32 normal = (a - 0x3c000000 + 0x7ffff + ((a >> 20) & 1)) >> 20;
  const uint32 small = th_bits(th_float(a) + 16384.0f) - 0x46800000;
  const uint32 least = a > 0x43e00000 ? 0x7e : normal;
  f8e4m3 y;
  y.bits = uint8(((b >> 24) & 0x80) | (a > 0x7f800000 ? 0x7f : a < 0x3c800000 ? small : least));
  return y;
}
TH_FN f8e5m2 th_to_f8e5m2(float x) {
  const uint32 b = th_bits(x), a = b & 0x7fffffff;
  const uint32 normal = (a - 0x38000000 + 0xfffff + ((a >> 21) & 1)) >> 21;
  const uint32 small = th_bits(th_float(a) + 128.0f) - 0x43000000;
  f8e5m2 y;
  y.bits = uint8(((b >> 24) & 0x80) | (a > 0x7f800000 ? 0x7f : a >= 0x47800000 ? 0x7c : a < 0x38800000 ? small : normal));
  return y;
}
#endif
TH_FN f8e4m3 th_to_f8e4m3_or_nan(float x) {
  f8e4m3 y = th_to_f8e4m3(x);
  y.bits = (th_bits(x) & 0x7fffffff) > 0x43e80000 ? y.bits | 0x7f : y.bits;
  return y;
}
)";
  return text;
}

}  // namespace thunder::fuser
