// Shared by the printers.
#pragma once

#include <string>
#include <vector>

#include "fuser/kernel.h"

namespace thunder::fuser {

inline const char* combine_function(Combine c) {
  constexpr const char* names[] = {"th_add", "th_mul", "th_max", "th_min", "th_or", "th_and"};
  return names[static_cast<size_t>(c)];
}

/// What a reduction starts from.
inline std::string identity(const Accumulator& a) {
  switch (a.combine) {
    case Combine::Mul: return a.type + "(1)";
    case Combine::Max: return "th_lowest<" + a.type + ">()";
    case Combine::Min: return "th_highest<" + a.type + ">()";
    case Combine::And: return a.type + "(1)";
    default: return a.type + "(0)";
  }
}

inline int64_t accumulator_bytes(const Accumulator& a) { return a.type == "double" || a.type == "int64" ? 8 : 4; }

inline void indent(std::string& out, const std::vector<std::string>& lines, int depth) {
  for (const std::string& line : lines) out += std::string(static_cast<size_t>(depth) * 2, ' ') + line + "\n";
}

}  // namespace thunder::fuser
