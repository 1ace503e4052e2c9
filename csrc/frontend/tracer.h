// Tracing: the program runs on proxies, and every torch call that it makes is recorded.
//
// The tracer is one acquisition with all its parts.  A part calls only parts that are made before it, in this order:
//
//   layouts           sizes of 1, and what is laid out otherwise for them
//   proxies           the objects that stand for tensors
//   inputs            the inputs of the computation, with their sources
//   tensors           which tensor an object is; tensors from outside become inputs
//   questions         values of tensors that the program asks for
//   Python draws      calls that draw random numbers by Python's or NumPy's generators
//   constants         tensors of known value, and numbers in the place of tensors
//   numbers           traced numbers, sizes among them
//   strided views     as_strided()
//   mutation          writes in place, out=, .data
//   DTensors          this process's parts, and trials
//   torch calls       the recorder
//   functions apart   functions of the user's that are recorded apart
//   custom gradients  torch.autograd.Function
//   gradient hooks    hooks, and tensors that keep their gradients
//   gradients         torch.autograd.grad
//   derivatives       torch.func
//   batched functions torch.vmap
//   outputs           the end: the computation and the epilogue
#pragma once

#include <unordered_set>
#include <utility>
#include <vector>

#include "frontend/acquisition.h"
#include "frontend/batched.h"
#include "frontend/constants.h"
#include "frontend/custom_gradient.h"
#include "frontend/derivatives.h"
#include "frontend/dtensors.h"
#include "frontend/functions_apart.h"
#include "frontend/gradient_hooks.h"
#include "frontend/gradients.h"
#include "frontend/inputs.h"
#include "frontend/interpreter/observer.h"
#include "frontend/layouts.h"
#include "frontend/mutation.h"
#include "frontend/numbers.h"
#include "frontend/outputs.h"
#include "frontend/proxies.h"
#include "frontend/python_draws.h"
#include "frontend/strided.h"
#include "frontend/tensors.h"
#include "frontend/torch_calls.h"
#include "frontend/value_questions.h"

namespace thunder::frontend {

class Tracer : public Acquisition {
 public:
  /// A program of its own; `shared`, `begin`: as Tensors says.
  explicit Tracer(const std::vector<const void*>& shared = {}, std::unordered_set<size_t> begin = {});
  /// Records into another's builder, as Acquisition says.
  explicit Tracer(Builder& borrowed, bool metadata_only = false);

  Inputs& inputs() { return inputs_; }
  Proxies& proxies() { return proxies_; }
  Tensors& tensors() { return tensors_; }
  ValueQuestions& questions() { return questions_; }
  const ValueQuestions& questions() const { return questions_; }
  PythonDraws& draws() { return draws_; }
  Constants& constants() { return constants_; }
  Layouts& layouts() { return layouts_; }
  Numbers& numbers() { return numbers_; }
  StridedViews& strided() { return strided_; }
  Mutation& mutation() { return mutation_; }
  TorchCalls& calls() { return calls_; }
  const TorchCalls& calls() const { return calls_; }
  CustomGradients& custom_gradients() { return custom_gradients_; }
  GradientHooks& gradient_hooks() { return gradient_hooks_; }
  Gradients& gradients() { return gradients_; }
  Derivatives& derivatives() { return derivatives_; }
  BatchedFunctions& batched() { return batched_; }
  DTensors& dtensors() { return dtensors_; }
  Outputs& outputs() { return outputs_; }

  /// Calls the user's function, interpreted, with `observer` told what it reads; null: Python runs it.
  Ref run(PyObject* fn, PyObject* args, PyObject* kwargs);
  void set_observer(interpreter::Observer* observer) { observer_ = observer; }
  bool interprets() const { return observer_ != nullptr; }
  /// A container that stands for no object of the caller's: what the function does to it ends with the function.
  void made(PyObject* container) {
    if (observer_) observer_->made(container);
  }
  /// Whether the function made the object; true where that is not known.
  bool made_inside(PyObject* object) const { return !observer_ || observer_->made_inside(object); }
  /// The value for the program, if this is the entry of PyTorch's variables which torch.compiler.is_compiling() returns;
  /// else null.
  PyObject* whether_compiled(PyObject* variables, PyObject* name);
  bool seems_compiled = true;
  bool asked_whether_compiled = false;

 private:
  Layouts layouts_{*this};
  Proxies proxies_{*this, layouts_};
  Inputs inputs_{*this};
  Tensors tensors_;
  ValueQuestions questions_{*this, inputs_, tensors_};
  PythonDraws draws_{*this, proxies_, tensors_, questions_};
  Constants constants_{*this, tensors_, questions_};
  Numbers numbers_{*this, inputs_, tensors_, questions_, constants_};
  StridedViews strided_{*this, proxies_, inputs_, tensors_, constants_};
  Mutation mutation_{*this, proxies_, inputs_, tensors_, strided_};
  DTensors dtensors_{*this, proxies_, tensors_};
  TorchCalls calls_{*this, proxies_, tensors_, constants_, mutation_, draws_};
  FunctionsApart functions_{*this, proxies_, tensors_, questions_};
  CustomGradients custom_gradients_{*this, proxies_, tensors_};
  GradientHooks gradient_hooks_{*this, tensors_, custom_gradients_};
  Gradients gradients_{*this, proxies_, inputs_, tensors_, gradient_hooks_};
  Derivatives derivatives_{*this, layouts_, proxies_, tensors_, functions_};
  BatchedFunctions batched_{*this, proxies_, tensors_, functions_};
  Outputs outputs_{*this, inputs_, layouts_, tensors_, questions_, numbers_, gradient_hooks_};
  interpreter::Observer* observer_ = nullptr;
};

}  // namespace thunder::frontend
