// Where the parameters of distributed models lie: what the user and the optimizer hold, and what programs take.
//
// A sharded parameter is a DTensor, or a tensor of this process's rows.  The program takes the same memory as a plain
// tensor, with as many rows as every other process's, and gives a gradient of that form.  Of a DTensor that belongs to no
// plan (tensor parallelism by PyTorch) it takes the local tensor.
#pragma once

#include <ATen/core/Tensor.h>
#include <Python.h>

#include <memory>

#include "passes/distributed/plan.h"

namespace thunder::distributed {

struct Placement {
  std::shared_ptr<CommunicationPlan> plan;  ///< null: nothing is communicated for it
  size_t index = 0;                         ///< in the plan
  at::Tensor parameter;                     ///< a leaf; undefined where there is no plan
  at::Tensor local;                         ///< the program's input; the parameter itself where that is whole
  std::shared_ptr<void> local_object;       ///< the Python object of `local`
  /// Where modules hold it: dicts and their keys, Python objects.
  std::vector<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>> holders;
  std::shared_ptr<void> wrap;  ///< a function that makes the parameter's gradient of the program's, or null
  bool dtensor = false;        ///< what the program sees is a part of a DTensor over other processes than the plan's
  /// Of a parameter of no plan: its Python object, in which PyTorch may put another tensor when the module is moved, and
  /// whether it was trainable.
  std::shared_ptr<void> object = {};
  bool trainable = false;

  /// The parameter as it is now.
  const at::Tensor& current() const;
  const PlannedParameter& planned() const { return plan->parameters[index]; }
  /// The parameter's gradient.  Takes the GIL if it needs it.
  at::Tensor gradient(at::Tensor g) const;
  /// Of a plan's: Error (Runtime) if the parameter is not what it was when it was placed: its memory, requires_grad, who
  /// holds it.  Needs the GIL.
  void check() const;
  /// Of no plan's: whether the parameter is what it was.  Needs the GIL.
  bool holds() const;
};

/// Error (Runtime) if the parameter is placed already.  Needs the GIL, as all functions here do.
void place(PyObject* parameter, Placement placement);
/// Of a parameter, or of the tensor that programs take; null for any other tensor.
std::shared_ptr<const Placement> placement_of(PyObject* tensor);
/// The plan's placements by the parameters' indices.
std::vector<std::shared_ptr<const Placement>> placements_of(const CommunicationPlan& plan);
/// The parameters are plain ones from here on.
void forget(const CommunicationPlan& plan);

}  // namespace thunder::distributed
