// Reductions on the CPU in two steps: over rows in which every operand is walked along, and over the rows' results.
//
// Purpose       A kernel numbers the elements that it reduces from the first to the last one.  Where an operand is
//               broadcast along some of their dimensions, or lies in memory in another order, its place is a remainder
//               of that number: a division for each element, and no vectors.  And a reduction of all elements is one
//               row, which has one thread.
// Precondition  A call of which kind_of() says Reduce; OperandStrides has seen the calls that compute its operand.
//
//   t1 = prims.broadcast_in_dim(m, [16, 128, 768], [1, 2])
//   t2 = prims.mul(x, t1)
//   t3 = prims.sum(t2, [0, 1, 2])
//     -->
//   t1 = prims.broadcast_in_dim(m, [16, 128, 768], [1, 2])
//   t2 = prims.mul(x, t1)
//   t4 = prims.sum(t2, [1, 2])
//   t3 = prims.sum(t4, [0])
//
// Short rows stay together: they would take longer than the divisions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "core/trace.h"

namespace thunder::fuser {

/// The strides of the operands that values are computed from.
class OperandStrides {
 public:
  /// What is not found here is looked for in `before`, which must live as long.
  explicit OperandStrides(const OperandStrides* before = nullptr) : before_(before) {}
  void add(const Call& call);
  /// Bit i: with the dimensions in this order, the i-th cannot be walked as one with the one before.
  uint64_t breaks(Value v, const std::vector<size_t>& order) const;

 private:
  const std::vector<Dims>* find(Value v) const;

  const OperandStrides* before_;
  std::map<ValueId, std::vector<Dims>> strides_;  // of computed values' operands, each once
};

/// The calls in the place of a reduction; none where it stays.
std::vector<const Call*> in_rows(const Call& reduction, const OperandStrides& operands,
                                 const std::shared_ptr<Arena>& arena);

}  // namespace thunder::fuser
