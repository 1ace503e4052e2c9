// Shared by the printers.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "fuser/emit.h"

namespace thunder::fuser {

// Without a default, so that -Wswitch names what a new way to join elements lacks.
inline const char* combine_function(Combine c) {
  switch (c) {
    case Combine::None: break;
    case Combine::Add: return "th_add";
    case Combine::Mul: return "th_mul";
    case Combine::Max: return "th_max";
    case Combine::Min: return "th_min";
    case Combine::Or: return "th_or";
    case Combine::And: return "th_and";
  }
  return "";
}

/// What a reduction starts from.
inline std::string identity(const Accumulator& a) {
  switch (a.combine) {
    case Combine::Mul:
    case Combine::And: return a.type + "(1)";
    case Combine::Max: return "th_lowest<" + a.type + ">()";
    case Combine::Min: return "th_highest<" + a.type + ">()";
    case Combine::None:
    case Combine::Add:
    case Combine::Or: break;
  }
  return a.type + "(0)";
}

inline std::string line(int depth, const std::string& text) {
  return std::string(static_cast<size_t>(depth) * 2, ' ') + text + "\n";
}

/// Chunks that a phase walks over, of a row or of a section.
inline Size chunks_of(const Kernel& k, const Phase& p) { return p.chunks ? Size(p.chunks) : k.chunks(); }

inline bool reduces_rows(const Kernel& k) {
  return !k.row_stores.empty() ||
         std::any_of(k.phases.begin(), k.phases.end(), [](const Phase& p) { return !p.reductions.empty(); });
}

/// Whether threads have columns, and walk over rows of which nothing is summed up.
inline bool walks_columns(const Kernel& k) { return !k.columns.empty() && !reduces_rows(k); }

/// One row of which nothing is summed up.
inline bool is_flat(const Kernel& k) { return !reduces_rows(k) && k.columns.empty() && k.rows.is(1); }

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
  return rounds(a) && k.usual_rows > (target == Target::Host ? kRun : kRun * kBlocks);
}

/// Shared memory in which the rows of a block join the sums of their columns.
inline int64_t join_bytes(const Kernel& k, const CudaShape& s) {
  int64_t widest = 4;
  for (const Accumulator& a : k.columns)
    widest = std::max(widest, accumulator_bytes(a) * (has_runs(k, a, Target::Cuda) ? 2 : 1));
  return widest * s.threads * s.chunks * k.lanes * s.rows_per_block;
}

/// The bytes of one row of column sums: of so many columns.
inline int64_t bytes_of_columns(const Accumulator& a, int64_t cols) {
  return (accumulator_bytes(a) * cols + 63) / 64 * 64;
}

/// Rows of column sums that an accumulator has in each part: of a run, then its `high` and `low`.
inline int64_t arrays_of(const Kernel& k, const Accumulator& a, Target target) {
  return has_runs(k, a, target) ? 3 : 1;
}

/// Where the column sums of one part lie, in text: one row of them after the other.
class ColumnPlaces {
 public:
  ColumnPlaces(const Kernel& k, Target target) : k_(k), target_(target) {}
  /// Calls fn(accumulator, offset, bytes of a row).
  template <class F>
  void for_each(F&& fn) const {
    std::string at = "0";
    for (const Accumulator& a : k_.columns) {
      fn(a, at, row(a));
      for (int64_t i = 0; i < arrays_of(k_, a, target_); ++i) at = sum(at, row(a));
    }
  }
  /// The bytes of one part.
  std::string all() const {
    std::string bytes = "0";
    for (const Accumulator& a : k_.columns)
      for (int64_t i = 0; i < arrays_of(k_, a, target_); ++i) bytes = sum(bytes, row(a));
    return k_.cols.is_number() ? bytes : "(" + bytes + ")";
  }
  std::string sum(const std::string& a, const std::string& b) const {
    if (k_.cols.is_number()) return std::to_string(std::stoll(a) + std::stoll(b));
    return a == "0" ? b : a + " + " + b;
  }

 private:
  std::string row(const Accumulator& a) const {
    if (k_.cols.is_number()) return std::to_string(bytes_of_columns(a, k_.cols.number()));
    return "th_column_bytes(" + std::to_string(accumulator_bytes(a)) + " * " + k_.sizes.known(k_.cols) + ")";
  }

  const Kernel& k_;
  Target target_;
};

inline void indent(std::string& out, const std::vector<std::string>& lines, int depth) {
  for (const std::string& text : lines) out += line(depth, text);
}

inline std::string lines(const std::vector<std::string>& texts, int depth) {
  std::string out;
  indent(out, texts, depth);
  return out;
}

}  // namespace thunder::fuser
