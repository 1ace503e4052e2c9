// Elementwise primitives: one function of elements each, mapped over operands of one shape.
#include <limits>
#include <numbers>

#include "reference/evaluator.h"
#include "reference/special.h"

namespace thunder::reference {
namespace {

using Complex = std::complex<double>;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// ---- unary ----------------------------------------------------------------------------------------------------------

ArrayPtr map(const Inputs& in, const Array& a, DType result, const std::function<Element(Element)>& fn) {
  ArrayPtr out = make_array(result, a.device, a.shape);
  for (size_t k = 0; k < a.data.size(); ++k) out->data[k] = in.store(result, fn(a.data[k]));
  return out;
}

Kernel float_unary(double (*real)(double), Complex (*complex)(Complex) = nullptr,
                   int64_t (*integer)(int64_t) = nullptr) {
  return [=](const Inputs& in) -> Datum {
    const Array& a = in.tensor("a");
    if (is_exact(a.dtype)) {
      if (!integer) throw Unknown(in.op().full_name + " of an integer tensor");
      return map(in, a, a.dtype, [=](Element e) { return Element::integer(integer(e.i)); });
    }
    if (is_complex(a.dtype)) {
      if (!complex) throw Unknown(in.op().full_name + " of a complex tensor");
      return map(in, a, a.dtype, [=](Element e) { return Element::complex(complex(e.z())); });
    }
    return map(in, a, a.dtype, [=](Element e) { return Element::real(real(e.re)); });
  };
}

// A predicate over a real number; a complex one is looked at in both parts by `join_any`.
Kernel predicate(bool (*real)(double), bool join_any) {
  return [=](const Inputs& in) -> Datum {
    const Array& a = in.tensor("a");
    DType t = a.dtype;
    return map(in, a, DType::boolean, [=](Element e) {
      if (!is_complex(t)) return Element::integer(real(to_double(e, t)));
      return Element::integer(join_any ? real(e.re) || real(e.im) : real(e.re) && real(e.im));
    });
  };
}

int64_t same_integer(int64_t x) { return x; }
int64_t negated(int64_t x) { return static_cast<int64_t>(0 - static_cast<uint64_t>(x)); }
int64_t absolute(int64_t x) { return x < 0 ? negated(x) : x; }
double real_sign(double x) { return (x > 0) - (x < 0); }
double round_half_even(double x) { return std::nearbyint(x); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double rsqrt(double x) { return 1 / std::sqrt(x); }
double reciprocal(double x) { return 1 / x; }

Datum absolute_value(const Inputs& in) {
  const Array& a = in.tensor("a");
  if (is_exact(a.dtype)) return map(in, a, a.dtype, [](Element e) { return Element::integer(absolute(e.i)); });
  DType t = a.dtype == DType::c128  ? DType::f64
            : a.dtype == DType::c64 ? DType::f32
            : a.dtype == DType::c32 ? DType::f16
                                    : a.dtype;
  return map(in, a, t,
             [&](Element e) { return Element::real(is_complex(a.dtype) ? std::abs(e.z()) : std::fabs(e.re)); });
}

Datum sign(const Inputs& in) {
  const Array& a = in.tensor("a");
  if (is_exact(a.dtype)) return map(in, a, a.dtype, [](Element e) { return Element::integer((e.i > 0) - (e.i < 0)); });
  if (!is_complex(a.dtype)) return map(in, a, a.dtype, [](Element e) { return Element::real(real_sign(e.re)); });
  return map(in, a, a.dtype, [](Element e) { return Element::complex(e.z() == 0.0 ? 0.0 : e.z() / std::abs(e.z())); });
}

Datum bitwise_not(const Inputs& in) {
  const Array& a = in.tensor("a");
  return map(in, a, a.dtype, [&](Element e) { return Element::integer(is_bool(a.dtype) ? !e.i : ~e.i); });
}

DType part_type(DType t) {
  return t == DType::c128 ? DType::f64 : t == DType::c64 ? DType::f32 : t == DType::c32 ? DType::f16 : t;
}

void add_unary(Kernels& k) {
#define BOTH(f) [](double x) { return std::f(x); }, [](Complex z) { return std::f(z); }
#define REAL(f) [](double x) { return std::f(x); }
  k["prims.acos"] = float_unary(BOTH(acos));
  k["prims.acosh"] = float_unary(BOTH(acosh));
  k["prims.asin"] = float_unary(BOTH(asin));
  k["prims.asinh"] = float_unary(BOTH(asinh));
  k["prims.atan"] = float_unary(BOTH(atan));
  k["prims.atanh"] = float_unary(BOTH(atanh));
  k["prims.cos"] = float_unary(BOTH(cos));
  k["prims.cosh"] = float_unary(BOTH(cosh));
  k["prims.exp"] = float_unary(BOTH(exp));
  k["prims.log"] = float_unary(BOTH(log));
  k["prims.log10"] = float_unary(BOTH(log10));
  k["prims.sin"] = float_unary(BOTH(sin));
  k["prims.sinh"] = float_unary(BOTH(sinh));
  k["prims.sqrt"] = float_unary(BOTH(sqrt));
  k["prims.tan"] = float_unary(BOTH(tan));
  k["prims.tanh"] = float_unary(BOTH(tanh));
  k["prims.erf"] = float_unary(REAL(erf));
  k["prims.erfc"] = float_unary(REAL(erfc));
  k["prims.normal_cdf"] = float_unary([](double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); });
  k["prims.gelu_slope"] = float_unary([](double x) {
    const double density = std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
    return 0.5 * std::erfc(-x / std::numbers::sqrt2) + (density > 0 ? x * density : 0.0);
  });
  k["prims.lgamma"] = float_unary(REAL(lgamma));
  k["prims.ceil"] = float_unary(REAL(ceil), nullptr, same_integer);
  k["prims.floor"] = float_unary(REAL(floor), nullptr, same_integer);
  k["prims.trunc"] = float_unary(REAL(trunc), nullptr, same_integer);
#undef BOTH
#undef REAL
  k["prims.round"] = float_unary(round_half_even, nullptr, same_integer);
  k["prims.digamma"] = float_unary(digamma);
  k["prims.erfinv"] = float_unary(erfinv);
  k["prims.exp2"] =
      float_unary([](double x) { return std::exp2(x); }, [](Complex z) { return std::exp(z * std::log(2.0)); });
  k["prims.expm1"] = float_unary([](double x) { return std::expm1(x); }, [](Complex z) { return std::exp(z) - 1.0; });
  k["prims.log1p"] = float_unary([](double x) { return std::log1p(x); }, [](Complex z) { return std::log(1.0 + z); });
  k["prims.log2"] =
      float_unary([](double x) { return std::log2(x); }, [](Complex z) { return std::log(z) / std::log(2.0); });
  k["prims.neg"] = float_unary([](double x) { return -x; }, [](Complex z) { return -z; }, negated);
  k["prims.reciprocal"] = float_unary(reciprocal, [](Complex z) { return 1.0 / z; });
  k["prims.rsqrt"] = float_unary(rsqrt, [](Complex z) { return 1.0 / std::sqrt(z); });
  k["prims.sigmoid"] = float_unary(sigmoid, [](Complex z) { return 1.0 / (1.0 + std::exp(-z)); });
  k["prims.abs"] = absolute_value;
  k["prims.sign"] = sign;
  k["prims.sgn"] = sign;
  k["prims.i0"] = float_unary([](double x) { return std::isnan(x) ? x : std::cyl_bessel_i(0, std::fabs(x)); });
  k["prims.i1"] =
      float_unary([](double x) { return std::isnan(x) ? x : std::copysign(std::cyl_bessel_i(1, std::fabs(x)), x); });
  k["prims.polygamma"] = [](const Inputs& in) -> Datum {
    const Array& a = in.tensor("a");
    return map(in, a, a.dtype, [n = in.integer("n")](Element e) { return Element::real(polygamma(n, e.re)); });
  };
  k["prims.bitwise_not"] = bitwise_not;
  k["prims.isfinite"] = predicate([](double x) { return std::isfinite(x); }, false);
  k["prims.isinf"] = predicate([](double x) { return std::isinf(x); }, true);
  k["prims.isnan"] = predicate([](double x) { return std::isnan(x); }, true);
  k["prims.signbit"] = predicate([](double x) { return std::signbit(x); }, false);
  k["prims.real"] = [](const Inputs& in) -> Datum {
    const Array& a = in.tensor("a");
    return map(in, a, part_type(a.dtype), [](Element e) { return Element{e.i, e.re, 0}; });
  };
  k["prims.imag"] = [](const Inputs& in) -> Datum {
    const Array& a = in.tensor("a");
    return map(in, a, part_type(a.dtype), [](Element e) { return Element::real(e.im); });
  };
  k["prims.conj"] = [](const Inputs& in) -> Datum {
    const Array& a = in.tensor("a");
    return map(in, a, a.dtype, [](Element e) { return Element{e.i, e.re, -e.im}; });
  };
}

// ---- binary ---------------------------------------------------------------------------------------------------------

// An operand that is a tensor or a number, read as elements of one type.
struct Operand {
  const Datum& d;
  DType type;
  Element at(size_t k) const { return d.is_tensor() ? converted(d.array->data[k], d.array->dtype, type) : d.as(type); }
};

struct Pair {
  const Array* like;
  DType type;
};

Pair operands(const Inputs& in, std::string_view x, std::string_view y) {
  const Datum &a = in[x], &b = in[y];
  if (!a.is_tensor() && !b.is_tensor()) throw Unknown(in.op().full_name + " of two numbers");
  if (a.is_tensor() && b.is_tensor() && a.array->shape != b.array->shape)
    throw Wrong(in.op().full_name + ": shapes differ");
  if (a.is_tensor() && b.is_tensor() && a.array->dtype != b.array->dtype)
    throw Wrong(in.op().full_name + ": dtypes differ");
  const Array* like = a.is_tensor() ? a.array.get() : b.array.get();
  return {like, like->dtype};
}

using IntegerFn = int64_t (*)(int64_t, int64_t);
using RealFn = double (*)(double, double);
using ComplexFn = Complex (*)(Complex, Complex);

Kernel arithmetic(IntegerFn integer, RealFn real, ComplexFn complex = nullptr) {
  return [=](const Inputs& in) -> Datum {
    Pair p = operands(in, "a", "b");
    Operand a{in["a"], p.type}, b{in["b"], p.type};
    if (is_exact(p.type) ? !integer : is_complex(p.type) ? !complex : !real)
      throw Unknown(in.op().full_name + " of " + std::string(torch_name(p.type)));
    ArrayPtr out = make_array(p.type, p.like->device, p.like->shape);
    for (size_t k = 0; k < out->data.size(); ++k) {
      Element x = a.at(k), y = b.at(k), r;
      if (is_exact(p.type)) r = Element::integer(integer(x.i, y.i));
      else if (is_complex(p.type)) r = Element::complex(complex(x.z(), y.z()));
      else r = Element::real(real(x.re, y.re));
      out->data[k] = in.store(p.type, r);
    }
    return out;
  };
}

// A number may be of a higher kind than the tensor here (an int tensor compared with 2.5), so compare as doubles then.
Kernel comparison(bool (*integer)(int64_t, int64_t), bool (*real)(double, double)) {
  return [=](const Inputs& in) -> Datum {
    Pair p = operands(in, "a", "b");
    auto real_number = [](const Datum& d) { return d.is_number() && d.number_kind >= NumberKind::Float; };
    bool as_real = !is_exact(p.type) || real_number(in["a"]) || real_number(in["b"]);
    Operand a{in["a"], p.type}, b{in["b"], p.type};
    auto value = [&](const Operand& o, size_t k) { return o.d.is_number() ? o.d.real() : to_double(o.at(k), p.type); };
    ArrayPtr out = make_array(DType::boolean, p.like->device, p.like->shape);
    for (size_t k = 0; k < out->data.size(); ++k) {
      bool r;
      if (is_complex(p.type)) {
        Element x = a.at(k), y = b.at(k);
        bool equal = x.re == y.re && x.im == y.im;
        r = real(equal ? 0 : 1, 0);
      } else {
        r = as_real ? real(value(a, k), value(b, k)) : integer(a.at(k).i, b.at(k).i);
      }
      out->data[k] = Element::integer(r);
    }
    return out;
  };
}

int64_t checked_divisor(int64_t y) {
  if (y == 0) throw Undefined("division of an integer by zero");
  return y;
}

int64_t floor_quotient(int64_t x, int64_t y) {
  if (checked_divisor(y) == -1) return negated(x);
  int64_t q = x / y;
  return q * y != x && (x < 0) != (y < 0) ? q - 1 : q;
}

int64_t integer_power(int64_t x, int64_t y) {
  if (y < 0) {
    if (x == 1) return 1;
    if (x == -1) return y % 2 ? -1 : 1;
    return 0;
  }
  uint64_t r = 1, base = static_cast<uint64_t>(x);
  for (; y > 0; y >>= 1, base *= base)
    if (y & 1) r *= base;
  return static_cast<int64_t>(r);
}

double real_remainder(double x, double y) {
  double r = std::fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

double real_floor_quotient(double x, double y) { return y == 0 ? x / y : std::floor(x / y); }

int64_t shifted(int64_t x, int64_t y, bool left) {
  if (y < 0 || y >= 64) throw Undefined("a shift by more bits than there are");
  return left ? static_cast<int64_t>(static_cast<uint64_t>(x) << y) : x >> y;
}

template <class F>
double with_nan(double x, double y, F f) {
  return std::isnan(x) || std::isnan(y) ? kNaN : f(x, y);
}

void add_binary(Kernels& k) {
  k["prims.add"] = arithmetic(
      [](int64_t x, int64_t y) { return static_cast<int64_t>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y)); },
      [](double x, double y) { return x + y; }, [](Complex x, Complex y) { return x + y; });
  k["prims.sub"] = arithmetic(
      [](int64_t x, int64_t y) { return static_cast<int64_t>(static_cast<uint64_t>(x) - static_cast<uint64_t>(y)); },
      [](double x, double y) { return x - y; }, [](Complex x, Complex y) { return x - y; });
  k["prims.mul"] = arithmetic(
      [](int64_t x, int64_t y) { return static_cast<int64_t>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y)); },
      [](double x, double y) { return x * y; }, [](Complex x, Complex y) { return x * y; });
  // C's division: towards zero.
  k["prims.div"] = arithmetic([](int64_t x, int64_t y) { return checked_divisor(y) == -1 ? negated(x) : x / y; },
                              [](double x, double y) { return x / y; }, [](Complex x, Complex y) { return x / y; });
  k["prims.pow"] = arithmetic(
      integer_power, [](double x, double y) { return std::pow(x, y); },
      [](Complex x, Complex y) { return y == 0.0 ? Complex(1) : std::pow(x, y); });
  k["prims.fmod"] = arithmetic([](int64_t x, int64_t y) { return checked_divisor(y) == -1 ? 0 : x % y; },
                               [](double x, double y) { return std::fmod(x, y); });
  k["prims.remainder"] = arithmetic(
      [](int64_t x, int64_t y) { return checked_divisor(y) == -1 ? int64_t{0} : x - floor_quotient(x, y) * y; },
      real_remainder);
  k["prims.floor_div"] = arithmetic(floor_quotient, real_floor_quotient);
  k["prims.maximum"] =
      arithmetic([](int64_t x, int64_t y) { return std::max(x, y); },
                 [](double x, double y) { return with_nan(x, y, [](double p, double q) { return p > q ? p : q; }); });
  k["prims.minimum"] =
      arithmetic([](int64_t x, int64_t y) { return std::min(x, y); },
                 [](double x, double y) { return with_nan(x, y, [](double p, double q) { return p < q ? p : q; }); });
  k["prims.atan2"] = arithmetic(nullptr, [](double x, double y) { return std::atan2(x, y); });
  k["prims.copysign"] = arithmetic(nullptr, [](double x, double y) { return std::copysign(x, y); });
  k["prims.hypot"] = arithmetic(nullptr, [](double x, double y) { return std::hypot(x, y); });
  k["prims.nextafter"] = [](const Inputs& in) -> Datum {
    Pair p = operands(in, "a", "b");
    Operand a{in["a"], p.type}, b{in["b"], p.type};
    ArrayPtr out = make_array(p.type, p.like->device, p.like->shape);
    for (size_t k = 0; k < out->data.size(); ++k)
      out->data[k] = Element::real(next_after(p.type, a.at(k).re, b.at(k).re));
    return out;
  };
  k["prims.bitwise_and"] = arithmetic([](int64_t x, int64_t y) { return x & y; }, nullptr);
  k["prims.bitwise_or"] = arithmetic([](int64_t x, int64_t y) { return x | y; }, nullptr);
  k["prims.bitwise_xor"] = arithmetic([](int64_t x, int64_t y) { return x ^ y; }, nullptr);
  k["prims.shift_left"] = arithmetic([](int64_t x, int64_t y) { return shifted(x, y, true); }, nullptr);
  k["prims.shift_right"] = arithmetic([](int64_t x, int64_t y) { return shifted(x, y, false); }, nullptr);
}

void add_comparisons(Kernels& k) {
#define COMPARE(op) comparison([](int64_t x, int64_t y) { return x op y; }, [](double x, double y) { return x op y; })
  k["prims.eq"] = COMPARE(==);
  k["prims.ne"] = COMPARE(!=);
  k["prims.lt"] = COMPARE(<);
  k["prims.le"] = COMPARE(<=);
  k["prims.gt"] = COMPARE(>);
  k["prims.ge"] = COMPARE(>=);
#undef COMPARE
}

// ---- ternary and conversions ----------------------------------------------------------------------------------------

Datum where(const Inputs& in) {
  const Array& pred = in.tensor("pred");
  const Datum &a = in["a"], &b = in["b"];
  DType type = a.is_tensor() ? a.array->dtype : b.is_tensor() ? b.array->dtype : DType::f32;
  if (!a.is_tensor() && !b.is_tensor()) throw Unknown("prims.where of two numbers");
  for (const Datum* d : {&a, &b}) {
    if (!d->is_tensor()) continue;
    if (d->array->shape != pred.shape || d->array->dtype != type)
      throw Wrong("prims.where: operands differ in shape or dtype");
  }
  Operand x{a, type}, y{b, type};
  ArrayPtr out = make_array(type, pred.device, pred.shape);
  for (size_t k = 0; k < out->data.size(); ++k)
    out->data[k] = in.store(type, is_true(pred.data[k], pred.dtype) ? x.at(k) : y.at(k));
  return out;
}

Datum convert_element_type(const Inputs& in) {
  const Array& a = in.tensor("a");
  DType to = in.dtype("dtype");
  return map(in, a, to, [&](Element e) { return converted(e, a.dtype, to); });
}

Datum copy_of(const Array& a) { return std::make_shared<Array>(a); }

}  // namespace

void add_elementwise(Kernels& k) {
  add_unary(k);
  add_binary(k);
  add_comparisons(k);
  k["prims.where"] = where;
  k["prims.convert_element_type"] = convert_element_type;
  k["prims.clone"] = [](const Inputs& in) { return copy_of(in.tensor("a")); };
  k["prims.device_put"] = [](const Inputs& in) -> Datum {
    auto out = std::make_shared<Array>(in.tensor("a"));
    out->device = in.device("device");
    return out;
  };
}

}  // namespace thunder::reference
