// Shards: whether calls on shards of tensors give shards of what they would give for the whole.
//
// Each process has its own shard of some tensors, along one dimension, and all of the others.  The answer follows from
// the primitives inside of the calls:
//
//   %2 = ltorch.layer_norm(%0, [8], %1, None)     %0: a shard along dimension 1 of 3  ->  %2: the same
//   %3 = prims.sum(%0, [1])                       error: it would be a sum over one process's shard
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/trace.h"
#include "passes/visit.h"

namespace thunder::distributed {

class Shards {
 public:
  /// What a process has of a tensor along a dimension.
  enum class Extent : uint8_t {
    Whole,  ///< all of it, as each of the others
    Shard,  ///< its own shard
    Any,    ///< the same all along, or random: it may be the whole of it, or a shard
  };
  using Extents = std::vector<Extent>;

  /// The value is a shard along `dim`.
  void set_shard(Value v, int64_t dim);
  /// What the call's results are.  Error (NotImplemented), naming the operator, where they depend on other processes'
  /// shards, or nobody knows.
  void add(const Call& call);
  /// The dimension along which the value is a shard; nothing for one that all processes have.
  std::optional<int64_t> dim_of(Value v) const;

 private:
  Extents of(Value v) const;
  bool any_shard(const Call& call) const;
  Extents result_of(const Call& call) const;
  Extents pointwise(const Call& call) const;
  Extents broadcast(const Call& call) const;
  Extents reshaped(const Call& call) const;
  Extents sliced(const Call& call) const;
  Extents reduced(const Call& call) const;
  Extents joined(const Call& call) const;
  Extents taken(const Call& call) const;
  Extents product(const Call& call) const;
  Extents linear(const Call& call) const;

  ValueMap<Extents> known_;
};

}  // namespace thunder::distributed
