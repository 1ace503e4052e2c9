// Calls of ATen's operators as instructions.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/SmallVector.h>

#include <string>

#include "runtime/instruction.h"

namespace thunder::aten {

/// Calls the operator by PyTorch's dispatcher.
class BoxedCall : public Instruction {
 public:
  /// `list`: the operator's one result is a list of tensors.
  BoxedCall(const c10::OperatorHandle& handle, bool list) : handle_(handle), list_(list) {}
  /// Called after `operands` are set.
  virtual void prepare(const Call&) {}
  void run(Frame& frame) const override;
  std::string str() const override { return handle_.schema().name(); }

 protected:
  const c10::OperatorHandle& handle() const { return handle_; }

 private:
  void store_list(Frame& frame) const;

  c10::OperatorHandle handle_;
  bool list_;
};

/// Whether an operator's result may be a view of its first argument.
bool views(const c10::FunctionSchema& schema);

/// An operator whose result is a view.  A step of a large model makes hundreds of them, and the dispatcher takes most of
/// their time.  For constant sizes prepare() runs the operator on the meta device and keeps the layout of the view; run()
/// then makes the view without the dispatcher.  run() calls the operator if its operand has another layout than in the
/// trace, and if autograd or a mode sees operators.
class ViewCall final : public BoxedCall {
 public:
  explicit ViewCall(const c10::OperatorHandle& handle) : BoxedCall(handle, false) { moves_operands = false; }
  void prepare(const Call& call) override;
  void run(Frame& frame) const override;

 private:
  struct Layout {
    c10::SmallVector<int64_t, 5> sizes, strides;
  };
  at::Tensor view_of(const at::Tensor& t) const;
  bool knows(const Frame& frame, const at::Tensor& t) const;

  bool known_ = false;
  Layout from_, to_;
  int64_t offset_ = 0;  // from the first element, in elements
};

}  // namespace thunder::aten
