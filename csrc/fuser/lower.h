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

namespace thunder::fuser {

struct Root {
  Value value;
  bool stored = true;  ///< read by others: it is written to memory
};

struct LowerOptions {
  int lanes = 1;        ///< elements that a chunk computes
  bool cached = false;  ///< keep loaded vectors over the phases of a row
  bool online = false;  ///< sums of exp(x - max(x)) in the walk that finds the maximum, where nothing walks again
  /// Without reductions: walk the last dimension as columns where that saves divisions.
  enum class SplitRows : uint8_t {
    Never,
    Always,  ///< any division: compilers do not vectorise them
    Long,    ///< no shifts, only rows that are worth blocks of threads of their own, no parts of a cat that have chunks
  } split_rows = SplitRows::Never;
  int64_t section = 64;     ///< elements that a part of a cat must have to be computed apart from the others
  int64_t row_buffer = 0;   ///< bytes in which a row's costly elements may be kept for later phases; with one lane only
  bool draw_again = false;  ///< random numbers are made again in each phase, and not cached
  bool draw_ahead = false;  ///< random numbers of neighbouring columns are made together (Ahead); with one lane only
  bool eager_rounding = false;      ///< round every bf16 and f16 value as eager does
  const ValueSet* exact = nullptr;  ///< those that are rounded without that (Repeated::rounded)
};

/// The fusible call that makes a value; null for an input, or for what a barrier makes.
using Producer = std::function<const Call*(Value)>;
/// Whether a value exists in memory although its producer is fusible, because another kernel makes it.
using Materialized = std::function<bool(Value)>;

/// `roots` are in the order of the program.
std::optional<Kernel> lower(const std::vector<Root>& roots, const Producer& producer, const Materialized& materialized,
                            const LowerOptions& options);

/// The walk that reductions ask for, or the longest root; false if they do not agree.
struct Walk {
  Size rows = 1, cols = 1;
  bool reduces = false;
  std::vector<size_t> order = {};  ///< of reductions in the order of memory, see Reduction; with the operand's shape
  Sizes shape = {};
  bool roots_by_memory =
      false;  ///< what is stored is walked as it lies in memory, the reductions' operands as they are
};
bool walk_of(const std::vector<Root>& roots, const Producer& producer, Walk& walk);

}  // namespace thunder::fuser
