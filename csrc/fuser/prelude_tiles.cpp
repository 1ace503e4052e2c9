#include "fuser/emit.h"

namespace thunder::fuser {

// What the threads of a block do together with a tile of a matrix.
const std::string& tile_prelude() {
  static const std::string text =
      R"(// A tile that TX * TY threads hold by rows, each N neighbouring columns of 4 neighbouring rows, stored by columns: columns
// of `out` are so many rows long, a multiple of 16.
template <int TX, int TY, class T, int N, class I> TH_D void th_store_transposed(T* out, const Vec<T, N> (&v)[4], I rows, I cols) {
  constexpr int fours = 4 / sizeof(T), runs = TY / fours;  // those in 16 bytes, and how many such a column has
  __shared__ Vec<T, 4> tile[N * TX][TY + 1];
  __syncthreads();
#pragma unroll
  for (int j = 0; j < N; ++j) {
    Vec<T, 4> w;
#pragma unroll
    for (int i = 0; i < 4; ++i) w.at[i] = v[i].at[j];
    tile[threadIdx.x * N + j][threadIdx.y] = w;
  }
  __syncthreads();
#pragma unroll
  for (int s = threadIdx.y * TX + threadIdx.x; s < N * TX * runs; s += TX * TY) {
    const int c = s / runs, run = s % runs;
    const I col = I(blockIdx.x) * (N * TX) + c, row = (I(blockIdx.y) * TY + run * fours) * 4;
    if (col >= cols || row >= rows) continue;
    Vec<T, 4 * fours> w;
#pragma unroll
    for (int i = 0; i < 4 * fours; ++i) w.at[i] = tile[c][run * fours + i / 4].at[i % 4];
    th_store_vector(out + (col * rows + row), w);
  }
}
// The value of all threads of a block, a power of two, known to each of them.
template <int THREADS, class V, class F> TH_D V th_reduce_block(V x, F f) {
  constexpr int warps = THREADS / 32;
  __shared__ V parts[warps];
  const int t = threadIdx.y * blockDim.x + threadIdx.x;
#pragma unroll
  for (int m = 16; m > 0; m /= 2) x = f(x, th_shuffle(x, m, 0xffffffffu));
  __syncthreads();
  if (t % 32 == 0) parts[t / 32] = x;
  __syncthreads();
  x = parts[t % warps];
#pragma unroll
  for (int m = warps / 2; m > 0; m /= 2) x = f(x, th_shuffle(x, m, 0xffffffffu));
  return x;
}
)";
  return text;
}

}  // namespace thunder::fuser
