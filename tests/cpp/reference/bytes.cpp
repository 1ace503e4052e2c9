#include "reference/bytes.h"

#include <cstring>
#include <limits>

namespace thunder::reference {
namespace {

uint16_t half_bits(double x) {
  uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x)) return sign | 0x7E00;
  double m = std::fabs(x);
  if (std::isinf(m)) return sign | 0x7C00;
  if (m < 0x1p-14) return sign | static_cast<uint16_t>(m * 0x1p24);
  int exponent = std::ilogb(m);
  return static_cast<uint16_t>(sign | ((exponent + 15) << 10) |
                               static_cast<int>((m * std::ldexp(1.0, -exponent) - 1) * 1024));
}

double half_value(uint16_t bits) {
  int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  double m = exponent == 31
                 ? (mantissa ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity())
             : exponent == 0 ? mantissa * 0x1p-24
                             : std::ldexp(1 + mantissa / 1024.0, exponent - 15);
  return bits & 0x8000 ? -m : m;
}

template <class T>
void append(T value, std::vector<uint8_t>& out) {
  size_t at = out.size();
  out.resize(at + sizeof value);
  std::memcpy(&out[at], &value, sizeof value);
}

template <class T>
T read(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

void append_real(DType t, double x, std::vector<uint8_t>& out) {
  if (t == DType::f64) return append(x, out);
  if (t == DType::f16) return append(half_bits(x), out);
  float f = static_cast<float>(x);
  if (t == DType::f32) return append(f, out);
  if (t != DType::bf16) throw Unknown("the bytes of an 8-bit float");
  uint32_t bits;
  std::memcpy(&bits, &f, sizeof bits);
  append(static_cast<uint16_t>(bits >> 16), out);
}

double read_real(DType t, const uint8_t* bytes) {
  if (t == DType::f64) return read<double>(bytes);
  if (t == DType::f32) return read<float>(bytes);
  if (t == DType::f16) return half_value(read<uint16_t>(bytes));
  if (t != DType::bf16) throw Unknown("the bytes of an 8-bit float");
  uint32_t bits = static_cast<uint32_t>(read<uint16_t>(bytes)) << 16;
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}

DType half_of(DType t) { return t == DType::c128 ? DType::f64 : t == DType::c64 ? DType::f32 : DType::f16; }

}  // namespace

size_t bytes_of(DType t) {
  switch (t) {
    case DType::c128: return 16;
    case DType::c64:
    case DType::f64:
    case DType::i64:
    case DType::u64: return 8;
    case DType::c32:
    case DType::f32:
    case DType::i32:
    case DType::u32: return 4;
    case DType::f16:
    case DType::bf16:
    case DType::i16:
    case DType::u16: return 2;
    default: return 1;
  }
}

void append_bytes(DType t, Element e, std::vector<uint8_t>& out) {
  if (is_exact(t)) {
    for (size_t b = 0; b < bytes_of(t); ++b) out.push_back(static_cast<uint8_t>(static_cast<uint64_t>(e.i) >> (8 * b)));
  } else if (is_complex(t)) {
    append_real(half_of(t), e.re, out);
    append_real(half_of(t), e.im, out);
  } else {
    append_real(t, e.re, out);
  }
}

Element from_bytes(DType t, const uint8_t* bytes) {
  if (is_exact(t)) {
    uint64_t i = 0;
    for (size_t b = 0; b < bytes_of(t); ++b) i |= static_cast<uint64_t>(bytes[b]) << (8 * b);
    return stored(t, Element::integer(static_cast<int64_t>(i)), Rounding::Exact);
  }
  if (is_complex(t)) return {0, read_real(half_of(t), bytes), read_real(half_of(t), bytes + bytes_of(t) / 2)};
  return Element::real(read_real(t, bytes));
}

}  // namespace thunder::reference
