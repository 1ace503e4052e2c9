#include "jit/explain.h"

#include "core/error.h"
#include "runtime/convert.h"

namespace thunder {

std::string describe(const at::Tensor& tensor, const std::string& sizes) {
  if (!tensor.defined()) return "an undefined tensor";
  if (!from_aten(tensor.layout())) return "a tensor of a layout that is not supported";
  const TensorType t = type_of(tensor);
  std::string text = cat(t.device, " ", torch_name(t.dtype), " ");
  text +=
      sizes.empty() ? cat(str(t.shape), " ", t.strided() ? cat("strides=", str(t.strides)) : t.layout_str()) : sizes;
  return t.requires_grad ? text + " requires_grad" : text;
}

std::string difference(const CallFacts& now, const CallFacts& then) {
  if (std::string state = global_state_difference(now.fingerprint, then.fingerprint); !state.empty())
    return state + " is not what the program was compiled for";
  if (now.tensors.size() != then.tensors.size())
    return cat("there are ", now.tensors.size(), " tensors among the arguments, the program was compiled for ",
               then.tensors.size());
  for (size_t i = 0; i < now.tensors.size(); ++i)
    if (now.tensors[i] != then.tensors[i])
      return cat("tensor argument ", i, " is ", now.tensors[i], ", the program was compiled for ", then.tensors[i]);
  if (now.arguments != then.arguments) return "an argument that is no tensor, or the arguments' structure, differs";
  return "the arguments' dispatch keys, alignment or shared memory differ";
}

}  // namespace thunder
