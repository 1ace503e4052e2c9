#include "reference/special.h"

#include <limits>
#include <numbers>

namespace thunder::reference {

double digamma(double x) {
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  if (x < 0) {
    if (x == std::floor(x)) return std::numeric_limits<double>::quiet_NaN();
    return digamma(1 - x) - std::numbers::pi / std::tan(std::numbers::pi * x);
  }
  double shift = 0;
  for (; x < 10; x += 1) shift -= 1 / x;
  double z = 1 / (x * x);
  double series =
      z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760))))));
  return shift + std::log(x) - 0.5 / x - series;
}

namespace {
// Hurwitz's zeta function for s > 1, x > 0, by Euler and Maclaurin.
double zeta(double s, double x) {
  double sum = 0;
  for (int k = 0; k < 12; ++k) sum += std::pow(x + k, -s);
  double a = x + 12;
  sum += std::pow(a, 1 - s) / (s - 1) + std::pow(a, -s) / 2;
  static constexpr double kBernoulli[] = {1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6};
  double term = s * std::pow(a, -s - 1), factorial = 2;
  for (int k = 0; k < 7; ++k) {
    sum += kBernoulli[k] / factorial * term;
    term *= (s + 2 * k + 1) * (s + 2 * k + 2) / (a * a);
    factorial *= (2 * k + 3) * (2 * k + 4);
  }
  return sum;
}
}  // namespace

double polygamma(int64_t n, double x) {
  if (n == 0) return digamma(x);
  if (n == 1 && x < 0.5) {
    double s = std::sin(std::numbers::pi * x);
    return -polygamma(1, 1 - x) + std::numbers::pi * std::numbers::pi / (s * s);
  }
  if (x <= 0) return std::numeric_limits<double>::quiet_NaN();
  return (n % 2 ? 1 : -1) * std::tgamma(static_cast<double>(n) + 1) * zeta(static_cast<double>(n) + 1, x);
}

double erfinv(double x) {
  if (std::isnan(x) || x < -1 || x > 1) return std::numeric_limits<double>::quiet_NaN();
  if (std::fabs(x) == 1) return std::copysign(std::numeric_limits<double>::infinity(), x);
  // Bisection, then Newton: slow, and plainly the inverse.
  double low = -7, high = 7;
  for (int i = 0; i < 60; ++i) {
    double mid = (low + high) / 2;
    (std::erf(mid) < x ? low : high) = mid;
  }
  double y = (low + high) / 2;
  for (int i = 0; i < 2; ++i) y -= (std::erf(y) - x) / (2 / std::sqrt(std::numbers::pi) * std::exp(-y * y));
  return y;
}

double next_after(DType t, double x, double y) {
  if (t == DType::f64) return std::nextafter(x, y);
  if (t == DType::f32) return std::nextafter(static_cast<float>(x), static_cast<float>(y));
  if (std::isnan(x) || std::isnan(y) || x == y) return std::isnan(x) ? x : y;
  // Half types: the first number of the type on the way, found by widening the step until rounding moves.
  double direction = y > x ? 1 : -1;
  double step = std::ldexp(1.0, -200);
  for (; round_real(t, x + direction * step) == x; step *= 2) {
  }
  return round_real(t, x + direction * step);
}

}  // namespace thunder::reference
