// CUDA sources for the tests: a trivial kernel, and one of the size that the fuser makes.
#pragma once

namespace kernel_test {

inline constexpr const char* kAddOne = R"(
#ifndef ADDED
#define ADDED 1
#endif
extern "C" __global__ void add_one(const float* x, float* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = x[i] + ADDED;
}
)";

/// One block of 256 threads a row, the row in registers, 16-byte accesses; a residual is added first and kept.
inline constexpr const char* kRmsNorm = R"(
extern "C" __global__ __launch_bounds__(256) void rms_norm(
    const unsigned short* __restrict__ x, const unsigned short* __restrict__ residual,
    const unsigned short* __restrict__ weight, unsigned short* __restrict__ sum_out,
    unsigned short* __restrict__ y, float epsilon) {
  constexpr int kRow = 2048, kThreads = 256, kEach = kRow / kThreads;
  struct alignas(16) Pack { unsigned short v[8]; };
  auto up = [](unsigned short h) { return __uint_as_float((unsigned)h << 16); };
  auto down = [](float f) {
    unsigned u = __float_as_uint(f);
    return (unsigned short)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  };
  const long long base = (long long)blockIdx.x * kRow + threadIdx.x * kEach;
  const Pack a = *(const Pack*)(x + base), b = *(const Pack*)(residual + base);
  float h[kEach], sum = 0.f;
  Pack s;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    s.v[i] = down(up(a.v[i]) + up(b.v[i]));
    h[i] = up(s.v[i]);
    sum += h[i] * h[i];
  }
  *(Pack*)(sum_out + base) = s;
#pragma unroll
  for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  __shared__ float parts[kThreads / 32];
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  float total = 0.f;
#pragma unroll
  for (int i = 0; i < kThreads / 32; ++i) total += parts[i];
  const float scale = rsqrtf(total / kRow + epsilon);
  const Pack w = *(const Pack*)(weight + threadIdx.x * kEach);
  Pack out;
#pragma unroll
  for (int i = 0; i < kEach; ++i) out.v[i] = down(h[i] * scale * up(w.v[i]));
  *(Pack*)(y + base) = out;
}
)";

}  // namespace kernel_test
