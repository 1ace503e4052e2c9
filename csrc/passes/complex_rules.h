// What an operator on complex numbers computes, in real and imaginary parts: the rules of complex_parts.h.
#pragma once

#include <functional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/builder.h"
#include "core/trace.h"

namespace thunder {

/// Real and imaginary part: tensors of one shape, or numbers.  A rule whose result is real gives it as `re`.
struct ComplexValue {
  Expr re, im;
};

/// A call to be divided.
struct ComplexCall {
  Builder& b;
  const Call& call;
  std::function<Arg(const Arg&)> now;               ///< what stands for an argument of the call
  std::function<const Call*(Value)> maker;          ///< the call that makes a value; null for none
  std::unordered_map<ValueId, ComplexValue> parts;  ///< of complex tensors among the arguments

  /// The parts of the i-th argument, a complex tensor or a number.
  ComplexValue part(size_t i) const;
};

struct ComplexRule {
  std::string_view op;
  /// Kernels that are saved where the parts are fused: 1 for an operator that computes, and for a border between
  /// complex and real tensors; 0 for a view.
  int gain;
  ComplexValue (*run)(const ComplexCall& c);
};

/// Null for an operator without a rule, and for arguments that it does not know (complex numbers of 16-bit parts,
/// numbers that only the run knows).
const ComplexRule* complex_rule(const Call& call);

/// x[..., 0] and x[..., 1] of pairs.
ComplexValue parts_of_pairs(const Expr& pairs);
/// The parts as pairs in the last dimension, and as a complex tensor laid out as `type` if that lies densely.
Expr joined_pairs(const ComplexValue& z);
Arg joined_complex(const ComplexValue& z, const TensorType& type);

}  // namespace thunder
