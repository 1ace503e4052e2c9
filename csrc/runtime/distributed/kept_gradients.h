// Gradients that no_sync() keeps until they are reduced, by plan and parameter.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include <string>
#include <vector>

namespace thunder::distributed {

/// Adds the gradient to what is kept; the first one is kept as it is.
void keep_gradient(const std::string& plan, size_t parameter, at::Tensor gradient);
/// Calls `add` with what is kept, if nobody else holds its memory; false if there is none such, or `add` says so.
bool add_to_kept_gradient(const std::string& plan, size_t parameter, c10::function_ref<bool(const at::Tensor&)> add);
/// The gradient and what is kept, which is forgotten.
at::Tensor with_kept_gradient(const std::string& plan, size_t parameter, at::Tensor gradient);
/// What is kept, which is forgotten; undefined if nothing is.
at::Tensor take_kept_gradient(const std::string& plan, size_t parameter);
/// Which parameters something is kept of.
std::vector<size_t> parameters_with_kept_gradients(const std::string& plan);
/// Forgets all of a plan's.
void forget_kept_gradients(const std::string& plan);

}  // namespace thunder::distributed
