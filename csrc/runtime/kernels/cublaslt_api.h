// The functions of cuBLASLt that we call, declared by hand and found in the library that PyTorch has loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace thunder::cublaslt {

struct Algorithm {
  uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspace;
  int status;
  float waves;
  int reserved[4];
};

using Handle = void*;
using MatmulDesc = void*;
using MatrixLayout = void*;
using Preference = void*;

// Numbers of cublasLtMatmulDescAttributes_t, of cublasLtMatmulPreferenceAttributes_t, and of enumerations among their
// values.
enum DescAttribute {
  kTransposeA = 3,
  kTransposeB = 4,
  kEpilogue = 7,
  kBiasPointer = 8,
  kMultiprocessors = 15,
  kScalePointerA = 17,
  kScalePointerB = 18,
  kFastAccumulation = 25,
  kBiasType = 26
};
enum PreferenceAttribute {
  kWorkspaceLimit = 1,
  kReductionSchemes = 3,
  kMinAlignmentA = 5,
  kMinAlignmentB = 6,
  kMinAlignmentC = 7,
  kMinAlignmentD = 8
};
enum ReductionScheme { kInPlace = 1, kInComputeType = 2 };
constexpr int kEpilogueBias = 4, kReal32 = 0, kReal16 = 2, kBfloat16 = 14, kFloat8E4M3 = 28, kFloat8E5M2 = 29,
              kCompute32 = 68;

struct Api {
  int (*create)(Handle*);
  size_t (*version)();
  const char* (*status_string)(int);
  int (*desc_create)(MatmulDesc*, int compute_type, int scale_type);
  int (*desc_set)(MatmulDesc, int attribute, const void*, size_t bytes);
  int (*desc_destroy)(MatmulDesc);
  int (*layout_create)(MatrixLayout*, int type, uint64_t rows, uint64_t cols, int64_t stride);
  int (*layout_destroy)(MatrixLayout);
  int (*preference_create)(Preference*);
  int (*preference_set)(Preference, int attribute, const void*, size_t bytes);
  int (*preference_destroy)(Preference);
  int (*heuristics)(Handle, MatmulDesc, MatrixLayout a, MatrixLayout b, MatrixLayout c, MatrixLayout d, Preference,
                    int wanted, Heuristic*, int* found);
  int (*check)(Handle, MatmulDesc, MatrixLayout a, MatrixLayout b, MatrixLayout c, MatrixLayout d, const Algorithm*,
               Heuristic*);
  int (*matmul)(Handle, MatmulDesc, const void* alpha, const void* a, MatrixLayout, const void* b, MatrixLayout,
                const void* beta, const void* c, MatrixLayout, void* d, MatrixLayout, const Algorithm*, void* workspace,
                size_t bytes, void* stream);
};

/// Null if the PyTorch in this process has none.  Only what was found is remembered: PyTorch loads it with its first
/// CUDA library.
const Api* api();
/// The library's handle for a device, whose context must be current.
Handle handle(const Api& api, int device);

}  // namespace thunder::cublaslt
