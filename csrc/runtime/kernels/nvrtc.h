// CUDA C++ source text to cubins, by the NVRTC library that comes with PyTorch's CUDA wheels.  Needs no GPU and no CUDA
// toolkit; cubins are kept in the disk cache.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace thunder {

struct CudaSource {
  std::string name;                       // shows in messages and line information, "fusion3"
  std::string source;                     // kernels are `extern "C" __global__`
  std::vector<std::string> options = {};  // after the default ones, for example "--use_fast_math"
  // What stands before `source`.  Sources with equal options and an equal prelude, if it is not empty, may be compiled
  // in one program; then all that they define at the level of the file has names of its own.
  std::string prelude = {};
};

struct CompiledCubin {
  std::string name;
  // Null if the compilation failed.  Those that were compiled in one program have one cubin with all of them.
  std::shared_ptr<const std::string> cubin;
  std::string log;  // why there is no cubin: NVRTC's messages, or why there is no NVRTC
  bool from_cache = false;
  bool ok() const { return cubin != nullptr; }
};

struct CudaArch {
  int major = 0, minor = 0;
  bool specific = false;  // sm_90a: instructions of exactly this architecture (wgmma)
};

/// One result a source, in order.  Sources that are not in the disk cache compile in parallel threads, equal ones once,
/// several in one program (see nvrtc_packs.h).
std::vector<CompiledCubin> compile_cuda(const std::vector<CudaSource>& sources, CudaArch arch);
inline std::vector<CompiledCubin> compile_cuda(const std::vector<CudaSource>& sources, int major, int minor) {
  return compile_cuda(sources, CudaArch{major, minor, false});
}

/// The same in this thread.  What the disk cache does not have of sources with equal options and an equal prelude is one
/// program.
std::vector<CompiledCubin> compile_cuda_here(const std::vector<CudaSource>& sources, CudaArch arch);

/// Whether NVRTC is here; if not, `why_not` says what was looked for.  It is looked for at $THUNDER_NVRTC (a file),
/// among the libraries of the process, beside PyTorch's, then on the loader's path.  It is loaded by the first
/// compilation that the disk cache does not answer, because loading its 140 MB takes longer than reading cubins.
bool nvrtc_available(std::string* why_not = nullptr);
struct NvrtcVersion {
  int major = 0, minor = 0;
};
/// {13, 0}; {0, 0} without NVRTC.  Loads it.
NvrtcVersion nvrtc_version();
/// The folder of `cuda_bf16.h` and its like, which is passed to NVRTC for sources that include; empty if not there.
std::string cuda_include_folder();

}  // namespace thunder
