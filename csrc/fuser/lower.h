// From a group of calls to the loop IR of one kernel.
//
// A group is given by its roots: values that must exist in memory, and reductions.  Everything else that they need is
// computed where it is used, element by element, up to what other kernels or operators have made.  Views become index
// arithmetic.  Lowering says no (nullopt) where the roots do not fit one walk over rows: a reduction that another row
// needs, lengths that differ, an access to a root of the group at another place than the one being computed.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "fuser/graph.h"
#include "fuser/kernel.h"
#include "fuser/walk.h"

namespace thunder::fuser {

struct LowerOptions {
  int lanes = 1;              ///< elements that a chunk computes
  bool cached = false;        ///< keep loaded vectors over the phases of a row
  bool keep_singles = false;  ///< and what is loaded element by element
  bool keep_costly = false;   ///< and costly elements
  bool online = false;        ///< sums of exp(x - max(x)) in the walk that finds the maximum, where nothing walks again
  /// Without reductions: walk the last dimension as columns where that saves divisions.
  enum class SplitRows : uint8_t {
    Never,
    Always,  ///< any division: compilers do not vectorise them
    Long,  ///< no shifts, only rows that are worth blocks of threads of their own, no parts of a cat that have chunks;
           ///< and where an operand lies in another order, so that a block has rows that lie together there
  } split_rows = SplitRows::Never;
  int64_t few_rows = 0;  ///< sums of columns over at most so many rows are finished by the threads that make them, ...
  int64_t many_columns = 0;  ///< ... if there are at least so many columns
  int64_t section = 64;      ///< elements that a part of a cat must have to be computed apart from the others
  int64_t row_buffer = 0;  ///< bytes in which a row's costly elements may be kept for later phases; with one lane only
  /// Where the buffer has no room, the output that is stored last may keep them until then; not with `online` or `part`.
  bool in_outputs = false;
  bool draw_again = false;  ///< random numbers are made again in each phase, and not cached
  /// Not 0: phases without reductions, of rows that are reduced, walk parts of so many columns; with one lane only.
  int64_t part = 0;
  bool draw_ahead = false;  ///< random numbers of neighbouring columns are made together (Ahead); with one lane only
  bool name_distances = false;      ///< see Kernel::distances
  bool zeros_in_memory = false;     ///< what or_zeros() reads is a tensor in any case: g++ vectorises no such choice
  bool eager_rounding = false;      ///< round every bf16 and f16 value as eager does
  const ValueSet* exact = nullptr;  ///< those that are rounded without that (Repeated::rounded)

  bool operator==(const LowerOptions&) const = default;
};

/// `roots` are in the order of the program.
std::optional<Kernel> lower(const std::vector<Root>& roots, const Producer& producer, const Materialized& materialized,
                            const LowerOptions& options);

}  // namespace thunder::fuser
