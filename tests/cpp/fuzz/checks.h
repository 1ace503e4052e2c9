// What must hold for every program under every pass.  The passes are parameters, so that the same checks can be shown
// to catch a pass with a bug in it (mutants_test.cpp).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/print.h"
#include "fuzz/generator.h"
#include "passes/autodiff.h"
#include "passes/passes.h"

namespace thunder::fuzz {

struct Passes {
  std::function<std::string(const Trace&)> print;
  std::function<Trace(const Trace&)> dce;
  std::function<Trace(const Trace&)> cse;
  std::function<Trace(const Trace&, const ExecutorList&)> claim;
  std::function<Trace(const Trace&)> delete_last_used;
  std::function<JointTrace(const Trace&)> autodiff;
  std::function<ForwardBackward(const JointTrace&, const SplitOptions&)> split;

  /// The real ones.
  static Passes real();
};

/// Two executors: one that takes a random part of all operators (chosen by `seed`), and one that takes every primitive.
ExecutorList test_executors(uint64_t seed);

/// Verifies, prints and parses, and evaluates the program after every small pass and after their chain.
/// What is wrong, by pass; empty if nothing is.
std::vector<std::string> check_passes(const Program& program, const Passes& passes);

/// How a program's gradients were checked.
struct GradientStatistics {
  int compared = 0;  ///< with finite differences
  int rough = 0;     ///< not: the differences of two steps disagree, or a value is not finite
  int without = 0;   ///< no output depends on an input that requires a gradient
};

/// The joint trace against the original, its gradients against central differences, forward and backward against the
/// joint trace.
std::vector<std::string> check_gradients(const Program& program, const Passes& passes, GradientStatistics& statistics);

/// The program with symbols for sizes of its inputs that are 2 or more, which inputs of their own bind; sizes that are
/// equal are one symbol, or several.  Inputs stand for some floats among the arguments of its calls, too.  Nothing where an operator refuses what it took before.
std::optional<Program> with_symbols(const Program& program);

/// The call once more with a symbol for every size of its tensors: what it gives, with the sizes put in, must be what
/// it gave.
std::vector<std::string> check_symbolic(const Op& op, const ArgList& args);

/// The record's index map and write-back against what the reference evaluator gives for the call.
std::vector<std::string> check_view(const Op& op, const ArgList& args);

}  // namespace thunder::fuzz
