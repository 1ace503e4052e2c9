#include "fuser/memory.h"

#include <cstdint>
#include <cstring>

#include "core/error.h"

namespace thunder::test {
namespace {

constexpr size_t kAlignment = 64, kMargin = 64;
constexpr unsigned char kUntouched = 0xA5;

template <class T>
void put(void* to, T value) {
  std::memcpy(to, &value, sizeof value);
}
template <class T>
T get(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// A half that is known to be one.
uint16_t half_bits(double x) {
  if (std::isnan(x)) return 0x7e00;
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  x = std::fabs(x);
  if (std::isinf(x)) return sign | 0x7c00;
  if (x < 0x1p-14) return static_cast<uint16_t>(sign | static_cast<uint16_t>(x * 0x1p24));
  int e = 0;
  const double m = std::frexp(x, &e);  // x = m * 2^e, 0.5 <= m < 1
  return static_cast<uint16_t>(sign | ((e + 14) << 10) | static_cast<uint16_t>((2 * m - 1) * 1024));
}

double half_value(uint16_t bits) {
  const double sign = bits & 0x8000 ? -1 : 1;
  const int e = (bits >> 10) & 31, m = bits & 1023;
  if (e == 31) return m ? std::nan("") : sign * INFINITY;
  return sign * (e == 0 ? m * 0x1p-24 : std::ldexp(1 + m / 1024.0, e - 15));
}

// The eight bits of a number of so many bits of mantissa that is known to be one, and the number of bits.
uint8_t small_bits(double x, int mantissa, int bias) {
  const auto sign = static_cast<uint8_t>(std::signbit(x) ? 0x80 : 0);
  if (std::isnan(x)) return 0x7f;
  if (std::isinf(x)) return sign | 0x7c;
  x = std::fabs(x);
  const double least = std::ldexp(1, 1 - bias - mantissa);
  if (x < std::ldexp(1, 1 - bias)) return static_cast<uint8_t>(sign | static_cast<uint8_t>(x / least));
  const int e = std::ilogb(x);
  const auto m = static_cast<uint8_t>(std::ldexp(std::ldexp(x, -e) - 1, mantissa));
  return static_cast<uint8_t>(sign | (e + bias) << mantissa | m);
}

double small_value(uint8_t bits, int mantissa, int bias, bool infinity) {
  const double sign = bits & 0x80 ? -1 : 1;
  const int e = (bits & 0x7f) >> mantissa, m = bits & ((1 << mantissa) - 1);
  if (infinity && e == 31) return m ? std::nan("") : sign * INFINITY;
  if (!infinity && (bits & 0x7f) == 0x7f) return std::nan("");
  return sign * (e == 0 ? std::ldexp(m, 1 - bias - mantissa) : std::ldexp(1 + std::ldexp(m, -mantissa), e - bias));
}

void store(DType t, void* to, reference::Element e) {
  switch (t) {
    case DType::f64: return put(to, e.re);
    case DType::f32: return put(to, static_cast<float>(e.re));
    case DType::bf16:
      return put(to, static_cast<uint16_t>(get<uint32_t>(std::vector<float>{static_cast<float>(e.re)}.data()) >> 16));
    case DType::f16: return put(to, half_bits(e.re));
    case DType::f8e4m3fn: return put(to, small_bits(e.re, 3, 7));
    case DType::f8e5m2: return put(to, small_bits(e.re, 2, 15));
    case DType::i64: return put(to, e.i);
    case DType::i32: return put(to, static_cast<int32_t>(e.i));
    case DType::i16: return put(to, static_cast<int16_t>(e.i));
    case DType::i8: return put(to, static_cast<int8_t>(e.i));
    case DType::u8: return put(to, static_cast<uint8_t>(e.i));
    case DType::boolean: return put(to, static_cast<uint8_t>(e.i != 0));
    default: throw reference::Unknown("memory of another dtype");
  }
}

reference::Element load(DType t, const void* from) {
  using reference::Element;
  switch (t) {
    case DType::f64: return Element::real(get<double>(from));
    case DType::f32: return Element::real(static_cast<double>(get<float>(from)));
    case DType::bf16: {
      const uint32_t bits = static_cast<uint32_t>(get<uint16_t>(from)) << 16;
      return Element::real(static_cast<double>(get<float>(&bits)));
    }
    case DType::f16: return Element::real(half_value(get<uint16_t>(from)));
    case DType::f8e4m3fn: return Element::real(small_value(get<uint8_t>(from), 3, 7, false));
    case DType::f8e5m2: return Element::real(small_value(get<uint8_t>(from), 2, 15, true));
    case DType::i64: return Element::integer(get<int64_t>(from));
    case DType::i32: return Element::integer(get<int32_t>(from));
    case DType::i16: return Element::integer(get<int16_t>(from));
    case DType::i8: return Element::integer(get<int8_t>(from));
    case DType::u8: return Element::integer(get<uint8_t>(from));
    case DType::boolean: return Element::integer(get<uint8_t>(from));
    default: throw reference::Unknown("memory of another dtype");
  }
}

}  // namespace

Memory::Memory(const TensorType& type) : type_(type) {
  int64_t last = 0;
  for (size_t i = 0; i < type.shape.size(); ++i) {
    shape_.push_back(type.shape[i].constant());
    last += (shape_.back() - 1) * type.strides[i].constant();
  }
  size_ = static_cast<size_t>(last + 1) * static_cast<size_t>(itemsize(type.dtype));
  bytes_.assign(size_ + kAlignment + kMargin, kUntouched);
  start_ = (kAlignment - reinterpret_cast<uintptr_t>(bytes_.data()) % kAlignment) % kAlignment;
}

size_t Memory::offset(const reference::Shape& index) const {
  int64_t at = 0;
  for (size_t i = 0; i < index.size(); ++i) at += index[i] * type_.strides[i].constant();
  return start_ + static_cast<size_t>(at * itemsize(type_.dtype));
}

void Memory::write(const reference::Array& from) {
  size_t k = 0;
  reference::for_each_index(
      shape_, [&](const reference::Shape& i) { store(type_.dtype, bytes_.data() + offset(i), from.data[k++]); });
}

reference::ArrayPtr Memory::read() const {
  reference::ArrayPtr out = reference::make_array(type_.dtype, type_.device, shape_);
  size_t k = 0;
  reference::for_each_index(
      shape_, [&](const reference::Shape& i) { out->data[k++] = load(type_.dtype, bytes_.data() + offset(i)); });
  return out;
}

bool Memory::margin_intact() const {
  for (size_t i = start_ + size_; i < start_ + size_ + kMargin && i < bytes_.size(); ++i)
    if (bytes_[i] != kUntouched) return false;
  return true;
}

}  // namespace thunder::test
