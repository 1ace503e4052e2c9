#include "fuser/size.h"

#include <algorithm>
#include <numeric>

#include "core/dim_algebra.h"
#include "core/error.h"

namespace thunder::fuser {
namespace {

constexpr int64_t kUsualLength = 256;

}  // namespace

void Size::add_key(std::string& out) const {
  if (is_number()) out += std::to_string(number_);
  else out += dim().str([](SymbolId id) { return "s" + std::to_string(id); });
}

bool surely_at_least_symbolic(const Size& a, const Size& b) {
  const std::optional<int64_t> low = least_value(a.dim() - b.dim());
  return low && *low >= 0;
}

std::optional<Size> symbolic_quotient(const Size& a, const Size& by) {
  if (by.is(0)) return std::nullopt;
  if (a.is(0)) return Size(0);
  const std::optional<Dim> out = exact_quotient(a.dim(), by.dim());
  return out ? std::optional<Size>(*out) : std::nullopt;
}

void split(const Size& a, const Size& by, Size& quotient, Size& rest) {
  if (a.is_number() && by.is_number()) {
    const int64_t n = a.number(), d = by.number();
    quotient = n >= 0 ? n / d : -((-n + d - 1) / d);
    rest = a - quotient * by;
    return;
  }
  const auto [q, r] = divided_terms(a.dim(), by.dim());
  quotient = q;
  rest = r;
}

Size common_factor(const Size& a, const Size& b) {
  if (a.is_number() && b.is_number()) return Size(std::gcd(a.number(), b.number()));
  if (a.is(0)) return b;
  if (b.is(0)) return a;
  return Size(thunder::common_factor(a.dim(), b.dim()));
}

int64_t usual(const Size& a) { return a.is_number() ? a.number() : usual_value(a.dim(), kUsualLength); }

std::string NamedSizes::text(const Size& size) {
  if (size.is_number()) return std::to_string(size.number());
  if (std::find(all_.begin(), all_.end(), size) == all_.end()) all_.push_back(size);
  return known(size);
}

std::string NamedSizes::known(const Size& size) const {
  if (size.is_number()) return std::to_string(size.number());
  const auto it = std::find(all_.begin(), all_.end(), size);
  THUNDER_ASSERT(it != all_.end(), "a kernel's text names a size that is no argument of a launch");
  return "n" + std::to_string(it - all_.begin());
}

}  // namespace thunder::fuser
