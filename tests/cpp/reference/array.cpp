#include "reference/array.h"

#include <cstring>
#include <limits>
#include <sstream>

namespace thunder::reference {
namespace {

// Bits of mantissa behind the point, least normal exponent, greatest finite value, whether there is an infinity, and
// whether what is too large becomes the greatest.
struct FloatFormat {
  int mantissa;
  int min_exponent;
  double max;
  bool infinity;
  bool saturates = false;
};

FloatFormat format_of(DType t) {
  switch (t) {
    case DType::f16:
    case DType::c32: return {10, -14, 65504.0, true};
    case DType::bf16: return {7, -126, 3.3895313892515355e38, true};
    case DType::f8e4m3fn: return {3, -6, 448.0, false, true};
    case DType::f8e4m3fnuz: return {3, -7, 240.0, false};
    case DType::f8e5m2: return {2, -14, 57344.0, true};
    case DType::f8e5m2fnuz: return {2, -15, 57344.0, false};
    default: return {52, -1022, std::numeric_limits<double>::max(), true};
  }
}

double round_to_format(const FloatFormat& f, double x) {
  if (f.saturates && std::fabs(x) > f.max) return std::copysign(f.max, x);
  if (!std::isfinite(x) || x == 0) return std::isinf(x) && !f.infinity ? std::numeric_limits<double>::quiet_NaN() : x;
  int exponent = std::max(std::ilogb(x), f.min_exponent);
  double ulp = std::ldexp(1.0, exponent - f.mantissa);
  double rounded = std::nearbyint(x / ulp) * ulp;
  if (std::fabs(rounded) <= f.max) return rounded;
  if (f.infinity) return std::copysign(std::numeric_limits<double>::infinity(), x);
  return std::numeric_limits<double>::quiet_NaN();
}

int64_t wrap_integer(DType t, int64_t v) {
  switch (t) {
    case DType::boolean: return v != 0;
    case DType::u8: return static_cast<uint8_t>(v);
    case DType::u16: return static_cast<uint16_t>(v);
    case DType::u32: return static_cast<uint32_t>(v);
    case DType::i8: return static_cast<int8_t>(v);
    case DType::i16: return static_cast<int16_t>(v);
    case DType::i32: return static_cast<int32_t>(v);
    default: return v;
  }
}

int64_t to_integer(double x) {
  // Where a cast is undefined in C++ any fixed answer does.
  if (std::isnan(x)) return std::numeric_limits<int64_t>::min();
  if (x >= 9.2e18 || x <= -9.2e18) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(x);
}

}  // namespace

bool is_exact(DType t) { return t <= DType::i64; }

int64_t count(const Shape& shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

ArrayPtr make_array(DType dtype, Device device, Shape shape) {
  auto a = std::make_shared<Array>();
  a->dtype = dtype;
  a->device = device;
  a->data.resize(static_cast<size_t>(count(shape)));
  a->shape = std::move(shape);
  return a;
}

int64_t flat(const Shape& shape, const Shape& index) {
  int64_t at = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (index[d] < 0 || index[d] >= shape[d]) throw Undefined("an index is out of range");
    at = at * shape[d] + index[d];
  }
  return at;
}

void for_each_index(const Shape& shape, const std::function<void(const Shape&)>& fn) {
  int64_t n = count(shape);
  Shape index(shape.size(), 0);
  for (int64_t k = 0; k < n; ++k) {
    fn(index);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

int64_t wrap_dim(int64_t dim, int64_t rank) {
  int64_t n = rank == 0 ? 1 : rank;
  int64_t wrapped = dim < 0 ? dim + n : dim;
  if (wrapped < 0 || wrapped >= n) throw Undefined("a dimension is out of range");
  return wrapped;
}

double round_real(DType t, double x) {
  switch (t) {
    case DType::f32:
    case DType::c64: return static_cast<double>(static_cast<float>(x));
    case DType::f64:
    case DType::c128: return x;
    case DType::f8e8m0fnu: return std::isfinite(x) && x > 0 ? std::exp2(std::round(std::log2(x))) : x;
    default: return round_to_format(format_of(t), x);
  }
}

Element stored(DType t, Element e, Rounding rounding) {
  if (is_exact(t)) return Element::integer(wrap_integer(t, e.i));
  if (rounding == Rounding::None) return {0, e.re, is_complex(t) ? e.im : 0};
  return {0, round_real(t, e.re), is_complex(t) ? round_real(t, e.im) : 0};
}

double to_double(Element e, DType t) {
  if (t == DType::u64) return static_cast<double>(static_cast<uint64_t>(e.i));
  return is_exact(t) ? static_cast<double>(e.i) : e.re;
}

bool is_true(Element e, DType t) { return is_exact(t) ? e.i != 0 : (e.re != 0 || e.im != 0); }

Element converted(Element e, DType from, DType to) {
  if (is_bool(to)) return Element::integer(is_true(e, from));
  if (is_exact(to)) return is_exact(from) ? e : Element::integer(to_integer(e.re));
  if (is_exact(from)) return Element::real(to_double(e, from));
  return is_complex(to) ? e : Element::real(e.re);
}

namespace {
bool same_double(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::memcmp(&a, &b, sizeof a) == 0;
}
}  // namespace

bool same_element(const Element& a, const Element& b, DType t) {
  if (is_exact(t)) return a.i == b.i;
  return same_double(a.re, b.re) && (!is_complex(t) || same_double(a.im, b.im));
}

bool same_array(const Array& a, const Array& b, std::string* why) {
  std::ostringstream out;
  bool same = true;
  if (a.dtype != b.dtype) {
    out << "dtype " << a.dtype << " and " << b.dtype;
    same = false;
  } else if (a.shape != b.shape) {
    out << "another shape";
    same = false;
  } else {
    for (size_t k = 0; same && k < a.data.size(); ++k) {
      if (same_element(a.data[k], b.data[k], a.dtype)) continue;
      same = false;
      out << "element " << k << ": " << a.data[k].i << "/" << a.data[k].re << "+" << a.data[k].im << "j and "
          << b.data[k].i << "/" << b.data[k].re << "+" << b.data[k].im << "j";
    }
  }
  if (why) *why = out.str();
  return same;
}

}  // namespace thunder::reference
