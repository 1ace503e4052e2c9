// Reads the rows that make_cases.py writes (its header explains them) and runs them on the operators.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/builder.h"

namespace thunder::testing {

struct ExpectedTensor {
  DType dtype;
  std::vector<std::string> shape, strides;  ///< numbers, or "*"
  bool alias = false;
};

struct Case {
  std::string op, text;
  std::vector<TensorType> inputs;
  std::string arguments;
  std::string exception;  ///< empty: there are results
  std::vector<ExpectedTensor> results;
};

Case read_case(const std::string& row);

/// Positional and keyword arguments of a case, `$i` being inputs[i].
struct CaseArguments {
  ArgList positional;
  std::vector<std::pair<std::string, Arg>> keyword;
};
CaseArguments read_arguments(const std::string& text, const std::vector<Value>& inputs);

/// "" if the operator gives what the case expects, else what is different.  `symbolic`: every size of the inputs that
/// is not 0 or 1, and every stride, is a symbol whose hint is the number; the results are compared after putting the
/// numbers in.
std::string check_case(const Case& c, bool symbolic);

}  // namespace thunder::testing
