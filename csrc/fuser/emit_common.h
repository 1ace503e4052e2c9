// Shared by the printers.
#pragma once

#include <string>
#include <vector>

#include "fuser/emit.h"

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

/// Sums of floating point numbers are added up in short runs, whose sums are added up in turn: the error does not grow
/// with the number of elements.
inline bool rounds(const Accumulator& a) {
  return a.combine == Combine::Add && a.maximum.empty() && (a.type == "float" || a.type == "double");
}

constexpr int64_t kRun = 16;  // additions one after the other, where that costs nothing more

/// Whether a column's sum is `NAME_part` for the rows of a run, and `NAME_high` + `NAME_low` for the runs before.
inline bool has_runs(const Kernel& k, const Accumulator& a, Target target) {
  // On a GPU rows are divided among hundreds of blocks first.
  constexpr int64_t kBlocks = 2048;
  return rounds(a) && k.rows > (target == Target::Host ? kRun : kRun * kBlocks);
}

/// Calls fn(accumulator, offset, bytes) for the column sums of one part, which lie one after the other, a run's before
/// its `high` and `low`; returns the bytes of all.
template <class F>
int64_t for_each_column(const Kernel& k, Target target, F&& fn) {
  int64_t at = 0;
  for (const Accumulator& a : k.columns) {
    const int64_t bytes = (accumulator_bytes(a) * k.cols + 63) / 64 * 64;
    fn(a, at, bytes);
    at += has_runs(k, a, target) ? 3 * bytes : bytes;
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
