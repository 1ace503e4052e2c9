#include "fuser/cuda_on_host.h"

#include <doctest.h>
#include <ucontext.h>

#include <vector>

#include "fuser/emit.h"
#include "fuser/loops.h"

namespace thunder::test {
namespace {

constexpr const char* kCuda = R"(
extern "C" {
struct cuda_dim { unsigned x, y, z; };
cuda_dim cuda_thread, cuda_block, cuda_grid, cuda_size;
int cuda_trapped = 0;
void (*cuda_sync)() = nullptr;
}
#define threadIdx cuda_thread
#define blockIdx cuda_block
#define gridDim cuda_grid
#define blockDim cuda_size
#define __global__
#define __device__
#define __forceinline__ inline
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __shared__ static
#define __syncthreads() cuda_sync()
#define TH_D static inline
static inline int min(int a, int b) { return a < b ? a : b; }
struct int4 { int x, y, z, w; };
template <class T> static inline T cuda_exchange(T x, unsigned from) {
  static T all[1024];
  all[cuda_thread.x] = x;
  cuda_sync();
  const T y = all[from];
  cuda_sync();
  return y;
}
template <class T> static inline T __shfl_up_sync(unsigned, T x, unsigned d, unsigned width) {
  return cuda_exchange(x, cuda_thread.x % width >= d ? cuda_thread.x - d : cuda_thread.x);
}
template <class T> static inline T __shfl_sync(unsigned, T x, unsigned lane, unsigned width) {
  return cuda_exchange(x, cuda_thread.x / width * width + lane % width);
}
static inline int __shfl_xor_sync(unsigned, int x, int mask) { return cuda_exchange(x, cuda_thread.x ^ unsigned(mask)); }
static inline float th_exp_below(float x) { return th_exp(x); }
static inline double th_exp_below(double x) { return th_exp(x); }
template <class I> static inline I th_place(int64 i, int64 n, bool wanted = true) {
  if (wanted && (i < 0 || i >= n)) cuda_trapped = 1;
  return i < 0 || i >= n ? 0 : I(i);
}
)";

// The threads of a block as contexts of their own.
class Block {
 public:
  Block(unsigned threads, const std::function<void()>& thread)
      : thread_(thread), contexts_(threads), stacks_(threads) {}

  void run(unsigned* number) {
    current = this;
    number_ = number;
    left_ = contexts_.size();
    for (size_t i = 0; i < contexts_.size(); ++i) {
      stacks_[i].resize(kStack);
      getcontext(&contexts_[i]);
      contexts_[i].uc_stack.ss_sp = stacks_[i].data();
      contexts_[i].uc_stack.ss_size = kStack;
      contexts_[i].uc_link = &scheduler_;
      makecontext(&contexts_[i], &Block::body, 0);
    }
    for (std::vector<char> done(contexts_.size(), 0); left_ > 0;)
      for (size_t i = 0; i < contexts_.size(); ++i) {
        if (done[i]) continue;
        *number_ = static_cast<unsigned>(at_ = i);
        const size_t before = left_;
        swapcontext(&scheduler_, &contexts_[i]);
        done[i] = left_ < before;
      }
  }
  static void wait() { swapcontext(&current->contexts_[current->at_], &current->scheduler_); }

 private:
  static constexpr size_t kStack = 1 << 16;
  static void body() {
    current->thread_();
    --current->left_;
  }
  static Block* current;
  const std::function<void()>& thread_;
  std::vector<ucontext_t> contexts_;
  std::vector<std::vector<char>> stacks_;
  ucontext_t scheduler_{};
  size_t left_ = 0, at_ = 0;
  unsigned* number_ = nullptr;
};

Block* Block::current = nullptr;

}  // namespace

CudaOnHost::CudaOnHost(const std::string& kernels) {
  std::string error;
  module_ = compile_host(fuser::host_prelude() + loops_prelude() + kCuda + kernels, &error);
  REQUIRE_MESSAGE(module_, error);
  thread_ = static_cast<Dim*>(module_->symbol("cuda_thread"));
  block_ = static_cast<Dim*>(module_->symbol("cuda_block"));
  grid_ = static_cast<Dim*>(module_->symbol("cuda_grid"));
  size_ = static_cast<Dim*>(module_->symbol("cuda_size"));
  trapped_ = static_cast<int*>(module_->symbol("cuda_trapped"));
  misaligned_ = static_cast<int*>(module_->symbol("th_misaligned"));
  *static_cast<void (**)()>(module_->symbol("cuda_sync")) = &Block::wait;
}

void CudaOnHost::launch(Grid grid, unsigned threads, const std::function<void()>& thread) {
  *grid_ = {grid.x, grid.y, 1};
  *size_ = {threads, 1, 1};
  *trapped_ = *misaligned_ = 0;
  Block block(threads, thread);
  for (unsigned y = 0; y < grid.y; ++y)
    for (unsigned x = 0; x < grid.x; ++x) {
      *block_ = {x, y, 0};
      block.run(&thread_->x);
    }
}

}  // namespace thunder::test
