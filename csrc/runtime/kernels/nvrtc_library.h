// Finding and loading the NVRTC library.
#pragma once

#include <cstddef>
#include <string>

namespace thunder {

/// NVRTC's functions, declared by hand: their C interface has not changed since CUDA 11.
struct NvrtcApi {
  using Program = void*;
  int (*version)(int* major, int* minor);
  int (*create)(Program*, const char* source, const char* name, int headers, const char* const*, const char* const*);
  int (*compile)(Program, int options, const char* const*);
  int (*cubin_size)(Program, size_t*);
  int (*cubin)(Program, char*);
  int (*log_size)(Program, size_t*);
  int (*log)(Program, char*);
  int (*destroy)(Program*);
  const char* (*error_string)(int);
};

/// The library's file, without loading it where that is possible; empty if there is none, and `why_not` says why.
std::string find_nvrtc(std::string* why_not);
/// Loads what find_nvrtc() finds.  Null if that fails, and `why_not` says why.
const NvrtcApi* load_nvrtc(std::string* why_not);

}  // namespace thunder
