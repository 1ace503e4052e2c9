// What attention is written out of: the operands, the scale and the masks behind a product of a softmax and a matrix.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "core/trace.h"
#include "passes/visit.h"

namespace thunder {

/// One mask, as it is applied to the scores.
struct WrittenMask {
  /// Scores are kept by a condition; otherwise a tensor is added to them.
  bool chooses = false;
  Value tensor;
  /// The tensor's shape as it is broadcast to `scores`, with as many dimensions.
  Dims shape;
  Dims scores;
  double factor = 1;  ///< of what is added
  bool keeps_where_true = true;
  double hidden = 0;  ///< what stands in place of a score that is not kept; at most kHidden
};

/// A score from this one on downwards has the weight 0 beside any that is not hidden.
inline constexpr double kHidden = -1e4;

enum class Hides : uint8_t {
  Somehow,     ///< by kHidden or a number that is farther from 0
  Narrowly,    ///< by kHidden, or about: a log-sum-exp of a row that sees nothing has some digits behind the point
  Infinitely,  ///< by negative infinity
};

struct WrittenAttention {
  Value result;            ///< [..., rows, size]
  Value query;             ///< [..., rows, features]
  Value key;               ///< [..., keys, features], or [..., features, keys]; perhaps one head for all
  bool key_is_transposed;  ///< the latter
  Value value;             ///< [..., keys, size]; perhaps one head for all
  Dims batch;              ///< two numbers: what stands before rows in [batch, heads, rows, size]
  double scale = 1;
  std::vector<Value> factors = {}, divisors = {};  ///< of the scores, before any mask: tensors without dimensions
  std::vector<WrittenMask> masks = {};             ///< in the order in which they are applied
  bool is_floored = false;                         ///< no score is less than a finite number, whatever masks say
};

class WrittenScores {
 public:
  explicit WrittenScores(const Trace& trace);

  /// All products of matrices, in order.
  const std::vector<const Call*>& products() const { return products_; }
  bool has_softmax() const { return has_softmax_; }
  /// What attention the product is the end of, if it is one.
  std::optional<WrittenAttention> match(const Call& product) const;
  /// Whether each number of the tensor is known to be 0, or to hide like that.
  bool hides(Value v, Hides how, int depth = 0) const;

 private:
  struct Scores;
  struct Operand {
    Value value;
    bool transposed;
  };
  void add(const Call& call);
  const Call* maker(Value v, std::string_view op) const;
  Value passed_on(Value v, DType t, double* least) const;
  std::optional<Operand> operand(Value v, DType t) const;
  bool is_private(Value v) const;
  Value split_result(Value v, const Dims& batch) const;
  std::optional<double> number(const Arg& a) const;
  bool is_whole(Value v, int depth = 0) const;
  std::optional<Value> scalar(Value v) const;
  WrittenMask broadcast(Value v) const;
  std::optional<WrittenAttention> finished(Scores& s, Value p, Value v, Value out) const;
  bool scores_of(Value v, Scores& s, int depth) const;
  bool product_of(const Call& call, Scores& s) const;
  bool scaled(const Call& call, Value scores, const Arg& by, bool divides, Scores& s, int depth) const;
  bool added(Value scores, Value mask, Scores& s, int depth) const;
  bool floored(const Call& call, Scores& s, int depth) const;
  bool chosen(const Call& call, Scores& s, int depth) const;

  ValueMap<const Call*> makers_{nullptr};
  ValueMap<int> readers_;                          // calls of the program
  ValueMap<const Call*> readers_inside_{nullptr};  // the last primitive whose first operand it is
  std::vector<const Call*> products_;
  bool has_softmax_ = false;
};

}  // namespace thunder
