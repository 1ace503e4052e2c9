// Conversions: a change of dtype that stands outside of kernels is made where the value is made, or with others at once.
//
// Purpose       Mixed precision converts each parameter before it is read, and the gradient of each parameter after it
//               is made.  No kernel takes these conversions in: what makes or reads the value is a product of a library.
//               Most parameters are small, so that each conversion takes as long as a launch does.
// Precondition  Claimed and fused, without `del`.
//
//   t1 = torch_convert_element_type_prim_impl(w, torch.bfloat16)    # w, v: inputs of the program
//   t2 = cublaslt_linear(x, t1, None)
//   t3 = torch_convert_element_type_prim_impl(v, torch.bfloat16)
//   t4 = cublaslt_linear(t2, t3, None)
//   t5 = cublaslt_matmul(t6, t4)                                    # bf16, read by t7 alone
//   t7 = torch_convert_element_type_prim_impl(t5, torch.float32)
//     -->
//   [t1, t3] = torch_convert_element_types_prim_impl([w, v], torch.bfloat16)
//   t2 = cublaslt_linear(x, t1, None)
//   t4 = cublaslt_linear(t2, t3, None)
//   t7 = cublaslt_matmul_as(t6, t4, torch.float32)
#pragma once

#include "passes/executor.h"

namespace thunder {

/// Products whose only reader converts the result, where an executor has a product that gives the other dtype.  The
/// result is then not rounded to the first dtype.
Trace converted_products(const Trace& trace, const ExecutorList& executors);

struct JoinLimits {
  int64_t result = int64_t{8} << 20;     ///< bytes of one result: a longer conversion is no matter of launches
  int64_t results = int64_t{32} << 20;   ///< bytes of all results of a call, which exist from then on
  DeviceType device = DeviceType::cuda;  ///< where the launch of a kernel takes long
};

/// Conversions of inputs.  The call stands at the place of the first one.
Trace joined_conversions(const Trace& trace, const ExecutorList& executors, const JoinLimits& limits = {});

}  // namespace thunder
