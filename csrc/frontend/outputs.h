// The end of an acquisition: what the computation gives, and the epilogue, which makes the user's tensors of it.
//
// The computation gives each memory once, as new tensors; writes to inputs, and outputs that view inputs or each other,
// are the epilogue's.
//
// Owns nothing: finish() is called once, when the program is recorded.  Calls all parts that add to what was acquired.
#pragma once

#include <vector>

#include "frontend/acquired.h"
#include "frontend/acquisition.h"
#include "frontend/gradient_hooks.h"
#include "frontend/inputs.h"
#include "frontend/layouts.h"
#include "frontend/numbers.h"
#include "frontend/tensors.h"
#include "frontend/value_questions.h"

namespace thunder::frontend {

class Outputs {
 public:
  Outputs(Acquisition& acquisition, Inputs& inputs, Layouts& layouts, Tensors& tensors, ValueQuestions& questions,
          Numbers& numbers, GradientHooks& hooks)
      : acquisition_(acquisition),
        b_(acquisition.builder()),
        aliases_(acquisition.aliases()),
        shapes_(acquisition.shapes()),
        inputs_(inputs),
        layouts_(layouts),
        tensors_(tensors),
        questions_(questions),
        numbers_(numbers),
        hooks_(hooks) {}

  /// `outputs`: the tensors and traced numbers that the user's function returned, in order.
  Acquired finish(const std::vector<PyObject*>& outputs);

 private:
  struct Plan;
  Plan plan(const std::vector<PyObject*>& outputs);
  std::vector<bool> used_inputs(const Trace& computation, const Plan& plan) const;
  std::vector<size_t> in_order(const std::vector<bool>& used) const;
  void give_own_memory(Plan& plan);
  bool is_view_of_copy(TensorId t, const MemoryOf& memory_of) const;
  void add_sizes(Plan& plan) const;
  void add_indices(Plan& plan) const;
  bool is_written(Value memory, const Plan& plan) const;
  int64_t place_of(const GradientHooks::Retained& r, const std::vector<PyObject*>& outputs, const Plan& plan);
  Trace build_epilogue(const Plan& plan, const std::vector<bool>& used);

  Acquisition& acquisition_;
  Builder& b_;
  AliasTracker& aliases_;
  ShapeEnv& shapes_;
  Inputs& inputs_;
  Layouts& layouts_;
  Tensors& tensors_;
  ValueQuestions& questions_;
  Numbers& numbers_;
  GradientHooks& hooks_;
};

}  // namespace thunder::frontend
