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

inline std::string line(int depth, const std::string& text) {
  return std::string(static_cast<size_t>(depth) * 2, ' ') + text + "\n";
}

/// Chunks that a phase walks over, of a row or of a section.
inline int64_t chunks_of(const Kernel& k, const Phase& p) { return p.chunks ? p.chunks : k.cols / k.lanes; }

inline int64_t accumulator_bytes(const Accumulator& a) { return a.type == "double" || a.type == "int64" ? 8 : 4; }

/// Calls fn(accumulator, offset) for the column sums of one part, which lie one after the other; returns the bytes of
/// all.
template <class F>
int64_t for_each_column(const Kernel& k, F&& fn) {
  int64_t at = 0;
  for (const Accumulator& a : k.columns) {
    fn(a, at);
    at += (accumulator_bytes(a) * k.cols + 63) / 64 * 64;
  }
  return at;
}

inline void indent(std::string& out, const std::vector<std::string>& lines, int depth) {
  for (const std::string& text : lines) out += line(depth, text);
}

inline std::string lines(const std::vector<std::string>& texts, int depth) {
  std::string out;
  indent(out, texts, depth);
  return out;
}

}  // namespace thunder::fuser
