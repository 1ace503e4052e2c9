// Whether NVRTC compiles the text of kernels, where there is NVRTC.
#pragma once

#include <doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "fuser/emit.h"
#include "runtime/kernels/nvrtc.h"

namespace thunder::test {

/// Each text behind the prelude, for devices of these capabilities. A message where there is no NVRTC.
inline void check_compiles(const std::string& name, const std::vector<std::string>& texts,
                           const std::vector<std::pair<int, int>>& capabilities = {{9, 0}}) {
  std::string why;
  if (!nvrtc_available(&why)) {
    MESSAGE("skipped: " << why);
    return;
  }
  std::vector<CudaSource> sources;
  for (const std::string& text : texts) sources.push_back({name, fuser::cuda_prelude() + text, {}});
  for (const auto& [major, minor] : capabilities)
    for (const CompiledCubin& c : compile_cuda(sources, major, minor)) CHECK_MESSAGE(c.ok(), c.log);
}

}  // namespace thunder::test
