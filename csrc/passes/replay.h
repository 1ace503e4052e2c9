// Calls made again with other operands, as the builder makes them now: what was recorded apart becomes a part of a
// program.
//
//   # of x1, which requires a gradient        # of x, which requires none
//   t1 = sin(x1)                        -->   t3 = sin(x)
//   t2 = mul(t1, w)                           t4 = mul(t3, w)
//
// Types are inferred anew, so that a result requires a gradient where its new operands do.
#pragma once

#include <unordered_map>

#include "core/builder.h"
#include "core/rewrite.h"
#include "passes/visit.h"

namespace thunder {

class Replay {
 public:
  explicit Replay(Builder& b) : b_(&b) {}
  /// What stands for a value that the calls read.
  void set(Value was, Value is) { values_.replace(was, is); }
  /// Makes the call.  Under no_grad where its results required no gradient though its operands did.
  /// Error (NotImplemented) where that would be another call: its results have sizes that only the run knows, or it has
  /// a gradient that was recorded with it.
  void put(const Call& call);
  /// What the calls so far made in place of the value; itself for what they do not make.
  /// Error (NotImplemented) for what a composite's body makes no more.
  Value now(Value v) const;
  /// The call that was made in place of this one, which may stand in another one's body.
  const Call* now(const Call* call) const;

 private:
  void match(const Call& was, const Call& is);
  void match(const Arg& was, const Arg& is);

  Builder* b_;
  Substitution values_;
  std::unordered_map<const Call*, const Call*> calls_;
  ValueSet made_;  // by the calls as they were
};

}  // namespace thunder
