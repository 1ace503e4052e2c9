// Traced numbers: sizes and numbers that calls of one program differ in, and what the program computes from them.
//
// Owns nothing: numbers are values of the program, and what is compared becomes a guard of its sizes.  Calls the value
// questions and the constants.
#pragma once

#include <string>

#include "frontend/acquisition.h"
#include "frontend/constants.h"
#include "frontend/inputs.h"
#include "frontend/tensors.h"
#include "frontend/value_questions.h"

namespace thunder::frontend {

class Numbers {
 public:
  Numbers(Acquisition& acquisition, Inputs& inputs, Tensors& tensors, ValueQuestions& questions,
          const Constants& constants)
      : acquisition_(acquisition),
        b_(acquisition.builder()),
        shapes_(acquisition.shapes()),
        inputs_(inputs),
        tensors_(tensors),
        questions_(questions),
        constants_(constants) {}

  /// A traced number for a float argument of the call; they count from 0.
  /// `of`: its class, where that is not float.
  Ref add_float(double hint, PyObject* of = nullptr);
  /// Arithmetic and comparisons of traced numbers.  None where an operand is no number, or where Python has to compute
  /// with the numbers themselves; an error that says what to do instead for numbers that only the run knows.
  Ref operation(const std::string& op, PyObject* a, PyObject* b);
  /// A function of one number (NumberExpr::function()); `digits`: of round().  None where Python has to compute it.
  Ref function(const std::string& name, PyObject* number, int64_t digits);
  /// The number itself, on which the program then depends; None for one that only the run knows.
  Ref specialize(PyObject* number);
  /// What float(o) or int(o) is in interpreted code, of a tensor or a traced number, where it can stay a traced number;
  /// null where not.
  Ref convert(PyObject* type, PyObject* o);
  /// What len() of a tensor gives; null where it raises.
  Ref length(const TensorType& t) const;
  /// For a size that the user's function returns.
  Value value_of_size(const Dim& size);

 private:
  Ref result(const NumberPtr& number, PyObject* of = nullptr);

  Acquisition& acquisition_;
  Builder& b_;
  ShapeEnv& shapes_;
  Inputs& inputs_;
  Tensors& tensors_;
  ValueQuestions& questions_;
  const Constants& constants_;
};

}  // namespace thunder::frontend
