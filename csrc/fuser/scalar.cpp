#include "fuser/scalar.h"

#include <atomic>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <set>
#include <string_view>

#include "core/error.h"
#include "fuser/kernel.h"

namespace thunder::fuser {
namespace {

std::atomic<bool> float8_saturates{true};

std::string to_float8(const std::string& text, DType t) {
  const bool or_nan = t == DType::f8e4m3fn && !float8_saturates;
  return "th_to_" + storage_name(t) + (or_nan ? "_or_nan(" : "(") + text + ")";
}

}  // namespace

void set_float8_saturates(bool saturates) { float8_saturates = saturates; }

std::string literal(double value, DType t) {
  if (is_float8(t)) return to_float8(literal(value, DType::f32), t);
  const std::string type = compute_name(t);
  if (t == DType::boolean) return value != 0 ? "true" : "false";
  if (is_floating(t)) {
    if (std::isnan(value)) return type + "(TH_NAN)";
    if (std::isinf(value)) return type + (value > 0 ? "(TH_INF)" : "(-TH_INF)");
    if (t != DType::f64 && std::fabs(value) > 3.4028235677973366e38) return literal(std::copysign(INFINITY, value), t);
    char text[64];
    std::snprintf(text, sizeof text, t == DType::f64 ? "%.17g" : "%.9g", value);
    std::string out = text;
    if (out.find_first_of(".e") == std::string::npos) out += ".0";
    if (t != DType::f64) out += "f";
    return std::signbit(value) ? "(" + out + ")" : out;
  }
  return literal(Arg(Dim(static_cast<int64_t>(value))), t);
}

std::string literal(const Arg& number, DType t) {
  if (is_floating(t) || t == DType::boolean || number.kind() != Arg::Kind::Int) {
    if (!is_floating(t) && t != DType::boolean && number.kind() == Arg::Kind::Bool)
      return compute_name(t) + (number.boolean() ? "(1)" : "(0)");
    return literal(number.real(), t);
  }
  const int64_t i = number.dim().constant();
  if (i == INT64_MIN) return "int64(-9223372036854775807ll - 1)";
  return compute_name(t) + "(" + std::to_string(i) + (t == DType::i64 ? "ll)" : ")");
}

std::string scalar_text(const Op& op, const std::vector<std::pair<std::string, std::string>>& operands) {
  const std::string& s = op.scalar;
  std::string out;
  for (size_t i = 0; i < s.size();) {
    if (!std::isalpha(static_cast<unsigned char>(s[i])) && s[i] != '_') {
      out += s[i++];
      continue;
    }
    size_t end = i;
    while (end < s.size() && (std::isalnum(static_cast<unsigned char>(s[end])) || s[end] == '_')) ++end;
    std::string word = s.substr(i, end - i);
    i = end;
    bool found = false;
    if (end < s.size() && s[end] == '(') {
      out += "th_" + word;
      continue;
    }
    for (const auto& [name, text] : operands)
      if (name == word) {
        out += text;
        found = true;
      }
    THUNDER_ASSERT(found, op.full_name, ": the scalar expression mentions '", word, "'");
  }
  return out;
}

bool calls_library(const Op& op) {
  // What processors have instructions for.
  static const std::set<std::string_view> instructions = {
      "abs",   "ceil",    "floor",    "rint",       "trunc",       "max",  "min",        "isfinite",
      "isinf", "signbit", "copysign", "shift_left", "shift_right", "sqrt", "bitwise_not"};
  const std::string_view s = op.scalar;
  for (size_t open = s.find('('); open != s.npos; open = s.find('(', open + 1)) {
    size_t begin = open;
    while (begin > 0 && (std::isalnum(static_cast<unsigned char>(s[begin - 1])) || s[begin - 1] == '_')) --begin;
    if (begin < open && !instructions.count(s.substr(begin, open - begin))) return true;
  }
  return false;
}

bool is_periodic(const Op& op) {
  const std::string& s = op.scalar;
  return s.starts_with("sin(") || s.starts_with("cos(") || s.starts_with("tan(");
}

bool is_approximate(const Op& op) { return calls_library(op) || op.scalar.find('/') != std::string::npos; }

std::string converted(const std::string& text, DType from, DType to) {
  if (compute_name(from) == compute_name(to)) return text;
  if (is_float8(from)) return converted("th_widened(" + text + ")", DType::f32, to);
  if (is_float8(to)) return to_float8(converted(text, from, DType::f32), to);
  if (to == DType::boolean) return "(" + text + " != 0)";
  // A choice is what compilers vectorise; a conversion of a comparison's result they do not.
  if (from == DType::boolean) return "(" + text + " ? " + literal(1.0, to) + " : " + literal(0.0, to) + ")";
  // Beyond the range of the target the language leaves the result open; PyTorch goes through a wide integer.
  if (is_floating(from) && !is_floating(to) && to != DType::i64) return compute_name(to) + "(int64(" + text + "))";
  return compute_name(to) + "(" + text + ")";
}

}  // namespace thunder::fuser
