#include "ops/combine.h"

#include <limits>

namespace thunder::ops {

std::optional<Arg> neutral_element(Combine combine, DType t) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto number = [&](int value) { return is_floating(t) ? Arg(static_cast<double>(value)) : Arg(value); };
  switch (combine) {
    case Combine::None: return std::nullopt;
    case Combine::Add: return number(0);
    case Combine::Mul: return number(1);
    case Combine::Or: return is_bool(t) ? Arg(false) : number(0);
    case Combine::And: return is_bool(t) ? Arg(true) : number(1);
    case Combine::Max:
    case Combine::Min: {
      const bool largest = combine == Combine::Max;
      if (is_bool(t)) return Arg(!largest);
      if (is_floating(t)) return Arg(largest ? -infinity : infinity);
      return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace thunder::ops
