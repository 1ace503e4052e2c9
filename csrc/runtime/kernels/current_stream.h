// PyTorch's current CUDA stream, without a CUDA header and without linking to PyTorch.
#pragma once

namespace thunder {

/// The stream (cudaStream_t, CUstream) that PyTorch's operators use on `device` in this thread; null is the default
/// stream.  Error (Runtime) if the PyTorch in this process has no CUDA.
void* current_cuda_stream(int device);

}  // namespace thunder
