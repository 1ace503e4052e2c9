// The elements of values as statements of a kernel: the part of lowering (lower.cpp) that knows operators.
//
// An element is asked for by its value and its index in each dimension.  What it takes to compute it is added to the
// phase at hand, at the scope that it changes with, and a name comes back:
//
//   element(mul(exp(x), y), [r, q])      const float t0 = th_load(in0 + (4*r + q));
//                                        const float t1 = th_exp(t0);
//                                        const float t2 = th_load(in1 + (4*r + q));
//                               "t3" <-  const float t3 = (t1 * t2);
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "fuser/graph.h"
#include "fuser/loads.h"

namespace thunder::fuser {

/// What a root of the group is to the walk.
struct RootInfo {
  enum class Mode : uint8_t {
    Full,      ///< an element for each of the walk
    Row,       ///< one a row
    Inner,     ///< a reduction over columns, so one a row
    Outer,     ///< a reduction over rows, so one a column
    Column,    ///< one a column, made of such reductions
    Extremum,  ///< of all elements
  } mode = Mode::Full;
  size_t level = 0;  ///< the first phase that can compute it; of a reduction, the phase that adds it up
  bool stored = false;
  bool transposed = false;  ///< the transpose of what is walked: nobody else reads it here
  std::string name;         ///< of a reduction's result, once it is known
};
using RootInfos = std::map<ValueId, RootInfo>;

class Elements {
 public:
  Elements(const Producer& producer, const Materialized& materialized, const RootInfos& roots, KernelInProgress& made)
      : producer_(producer), materialized_(materialized), roots_(roots), made_(made) {}
  Elements(const Elements&) = delete;
  Elements& operator=(const Elements&) = delete;

  /// Whether it is read from memory, not computed.
  bool is_leaf(Value v) const { return !producer_(v) || materialized_(v); }
  Scalar element(Value v, const Multi& index);
  /// Of a root, where it is computed: elsewhere an element at another place than the loops' is refused.
  Scalar element_of_root(Value v, const Multi& index);
  /// The operand of a reduction, where the loops stand, in the type that it is added up in.
  Scalar operand(const Call& reduction);

  KeptElements& kept() { return kept_; }
  void begin_phase();
  /// Statements go to the loop over columns that runs when all rows are done.
  void begin_finish() { made_.statements.begin_finish(); }
  /// The same where that is Kernel::last.
  void begin_last();

  /// Whether the value has to be rounded to its dtype as eager does.
  bool is_exact(Value v) const;
  /// The text, with the rounding if is_exact(v).
  std::string rounded(const std::string& text, Value v) const;
  /// Gives the kernel the calls that were computed and what they read.
  void collect();
  const std::vector<Access>& reads() const { return loads_.reads(); }

 private:
  Scalar compute(Value v, const Multi& index);
  Scalar computed(const Call& call, const Multi& index);
  Scalar root_element(Value v, const RootInfo& info, const Multi& index);
  Scalar pointwise(const Call& call, const Multi& index);
  Scalar rounded_quotient(const Call& call, const Multi& index);
  std::string quotient_by_row(const std::string& dividend, const std::string& divisor);
  /// Where a number of the run is among the arguments of a launch.
  size_t number_place(Value number);
  /// A number among the operands as one of the type that elements of `t` are computed in.
  std::string number(const Arg& a, DType t);

  const Producer& producer_;
  const Materialized& materialized_;
  const RootInfos& roots_;
  KernelInProgress& made_;
  KeptElements kept_{made_};
  ChunkVectors vectors_{made_};
  Loads loads_{made_, kept_, vectors_};

  std::set<const Call*> calls_;
  ValueId computing_ = UINT32_MAX;
  size_t depth_ = 0;
};

}  // namespace thunder::fuser
