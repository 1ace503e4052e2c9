// Random models on several processes: what the passes of distributed training make of a program, against the same
// program in one piece.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fuzz/random.h"
#include "passes/pipeline.h"
#include "reference/evaluator.h"

namespace thunder::fuzz {

/// One operation on rows of the model's width.
struct ModelStep {
  enum Kind : uint8_t {
    Linear,      ///< h @ w^T, perhaps + b
    Tied,        ///< h @ w, of a weight that others use transposed
    Scale,       ///< h * v, a row or a scalar
    Shift,       ///< h + v
    Norm,        ///< layer_norm with weight and bias
    Embedding,   ///< h + table[index]
    Largest,     ///< h + the largest of each column: its gradient compares
    SumOfRows,   ///< h + the sum of each column, also of a table without rows
    FirstRow,    ///< h * w[0]: a view of the parameter
    NoGradient,  ///< h + the sum of a detached parameter
    Residual,    ///< h + an earlier h
    Tanh,
    Relu,
    ThroughF64,  ///< casts there and back
  } kind;
  std::vector<size_t> parameters;
  size_t earlier = 0;
};

/// A plan, whole parameters, and what a program may do with them.
struct DistributedModel {
  std::shared_ptr<distributed::CommunicationPlan> plan;
  DType dtype = DType::f32;
  int64_t width = 1;
  int64_t indices_below = 0;             ///< the rows of the smallest table; 0: there is none
  std::vector<reference::Datum> values;  ///< by parameter; of the type that programs see
  std::vector<ModelStep> steps;

  explicit DistributedModel(Random& random);
  /// What a process holds of a parameter; rows that stand for nothing are 99.
  reference::Datum local(size_t parameter, int64_t rank) const;

 private:
  void add_parameter(Random& random, bool sharded);
  void add_step(Random& random);
};

/// One of the programs of a model.
struct ModelProgram {
  Trace trace;
  std::vector<std::pair<Value, size_t>> parameters;  ///< inputs, with their indices in the plan
  int64_t batch = 1;

  /// With `part` some steps are left out, and other outputs returned.
  ModelProgram(const DistributedModel& model, Random& random, bool part);
  /// The inputs of one process in a run; parameters are whole.
  std::vector<reference::Datum> inputs(const DistributedModel& model, Random& random) const;
};

/// Small integers, of a floating type: sums of them are exact.
reference::Datum integers(DType t, const std::vector<int64_t>& shape, Random& random);

struct DistributedStatistics {
  int compared = 0;        ///< models whose gradients were compared
  int without = 0;         ///< not: nothing needs a gradient
  int other_programs = 0;  ///< runs in which processes ran different programs
  int over_limit = 0;      ///< first programs that gather more ahead than they may
  int other_orders = 0;    ///< of these: starts of two groups in another order on one process than on another
};

/// Findings; none if all is well.
std::vector<std::string> check_distributed(uint64_t seed, DistributedStatistics& statistics);

}  // namespace thunder::fuzz
