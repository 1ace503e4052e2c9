#include "fuser/emulated_cuda.h"

#include <utility>

#include "core/error.h"
#include "fuser/emit.h"

namespace thunder::test {

using namespace fuser;

namespace {

// Ahead of CUDA's prelude.
const char* const kBefore = R"(
#include <math.h>
#include <setjmp.h>
#include <string.h>
#include <ucontext.h>
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
struct uint2 { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };
struct th_place3 { unsigned x, y; };
static th_place3 threadIdx, blockIdx, blockDim, gridDim;
template <class T> static inline T __ldg(const T* p) { return *p; }
template <class To, class From> static inline To th_bits(From x) { To y; memcpy(&y, &x, sizeof y); return y; }
static inline float __int_as_float(int x) { return th_bits<float>(x); }
static inline int __float_as_int(float x) { return th_bits<int>(x); }
static inline unsigned __float_as_uint(float x) { return th_bits<unsigned>(x); }
static inline float __uint_as_float(unsigned x) { return th_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return th_bits<long long>(x); }

// Threads of a block: they go on by turns, and a barrier is passed when all that are left have reached it.
constexpr int th_most = 1024, th_stack = 1 << 16;
static char th_stacks[th_most][th_stack];
static jmp_buf th_contexts[th_most], th_scheduler;
static bool th_begun[th_most], th_ended[th_most];
static int th_threads, th_alive, th_now, th_progress, th_outside;
static void (*th_body)();
struct th_gate { int arrived, passed; };
static th_gate th_block_gate, th_gates[th_most];
static long long th_slots[th_most];
static inline void th_wait() { if (!_setjmp(th_contexts[th_now])) _longjmp(th_scheduler, 1); }
static inline void th_pass(th_gate& gate, int expected) {
  const int before = gate.passed;
  if (++gate.arrived >= expected) { gate.arrived = 0; ++gate.passed; ++th_progress; }
  else while (gate.passed == before) th_wait();
}
static inline void __syncthreads() { th_pass(th_block_gate, th_alive); }
template <class T> static inline T __shfl_xor_sync(unsigned of, T x, int mask) {
  const int warp = th_now / 32 * 32, me = th_now;
  int expected = 0;
  for (int i = 0; i < 32; ++i) expected += (of >> i & 1) && warp + i < th_threads && !th_ended[warp + i];
  th_gate& gate = th_gates[warp + __builtin_ctz(of)];
  memcpy(&th_slots[me], &x, sizeof x);
  th_pass(gate, expected);
  T y;
  memcpy(&y, &th_slots[me ^ mask], sizeof y);
  th_pass(gate, expected);
  return y;
}
static ucontext_t th_entries[th_most], th_starter;
static void th_entry() {
  th_body();
  th_ended[th_now] = true;
  --th_alive;
  ++th_progress;
  if (th_block_gate.arrived && th_block_gate.arrived >= th_alive) { th_block_gate.arrived = 0; ++th_block_gate.passed; }
  _longjmp(th_scheduler, 1);
}
static void th_go_on(int i) {
  if (_setjmp(th_scheduler)) return;
  if (th_begun[i]) _longjmp(th_contexts[i], 1);
  th_begun[i] = true;
  getcontext(&th_entries[i]);
  th_entries[i].uc_stack.ss_sp = th_stacks[i];
  th_entries[i].uc_stack.ss_size = th_stack;
  makecontext(&th_entries[i], th_entry, 0);
  setcontext(&th_entries[i]);
}
// 0, or 2 if all that are left wait.
static int th_run_block(int width, int height, int backwards) {
  th_threads = th_alive = width * height;
  memset(th_begun, 0, sizeof th_begun);
  memset(th_ended, 0, sizeof th_ended);
  memset(&th_block_gate, 0, sizeof th_block_gate);
  memset(th_gates, 0, sizeof th_gates);
  while (th_alive > 0) {
    const int before = th_progress;
    for (int n = 0; n < th_threads; ++n) {
      const int i = backwards ? th_threads - 1 - n : n;
      if (th_ended[i]) continue;
      th_now = i;
      threadIdx = {unsigned(i % width), unsigned(i / width)};
      th_go_on(i);
    }
    if (th_progress == before) return 2;
  }
  return 0;
}
static int th_run_grid(void (*body)(), const int* grid, const int* block, int backwards) {
  th_body = body;
  th_outside = 0;
  gridDim = {unsigned(grid[0]), unsigned(grid[1])};
  blockDim = {unsigned(block[0]), unsigned(block[1])};
  for (int y = 0; y < grid[1]; ++y)
    for (int x = 0; x < grid[0]; ++x) {
      blockIdx = {unsigned(x), unsigned(y)};
      if (int status = th_run_block(block[0], block[1], backwards)) return status;
    }
  return th_outside;
}
static inline float th_from_f16(unsigned short h) {
  const unsigned sign = unsigned(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 1023;
  if (e == 31) return th_bits<float>(sign | 0x7f800000u | m << 13);
  const float x = e ? ldexpf(float(1024 + m), int(e) - 25) : ldexpf(float(m), -24);
  return sign ? -x : x;
}
static inline unsigned short th_to_f16(float x) {
  const unsigned short sign = th_bits<unsigned>(x) >> 16 & 0x8000;
  const float a = fabsf(x);
  if (a != a) return sign | 0x7e00;
  if (a >= 65520.0f) return sign | 0x7c00;
  if (a < 6.103515625e-05f) return sign | (unsigned short)nearbyintf(ldexpf(a, 24));
  int e;
  frexpf(a, &e);
  const int m = int(nearbyintf(ldexpf(a, 11 - e)));  // 1024 ... 2048
  return sign | (unsigned short)(((e + 14) << 10) + m - 1024);
}
static inline unsigned short th_to_bf16(float x) {
  const unsigned u = th_bits<unsigned>(x);
  return x != x ? 0x7fc0 : (unsigned short)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
)";

// Instructions of the prelude, and the same in C++.
const std::pair<const char*, const char*> kInstructions[] = {
    {R"(float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y;)", "return th_from_f16(x.bits);"},
    {R"(asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out.bits) : "f"(x));)", "out.bits = th_to_bf16(x);"},
    {R"(asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out.bits) : "f"(x));)", "out.bits = th_to_f16(x);"},
    {R"(asm volatile("trap;");)", "th_outside = 1;"},
    {R"(float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.4426950408889634f)); return y;)",
     "return expf(x);"},
    {R"(float c; asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b)); return c;)",
     "return a != a || a > b ? a : b;"},
    {R"(float c; asm("min.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b)); return c;)",
     "return a != a || a < b ? a : b;"},
    // Of newer GPUs: the prelude has the same in C++.
    {R"(asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));)", ""},
    {R"(asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));)", ""},
};

std::string as_cpp(std::string text) {
  for (const auto& [instruction, same] : kInstructions)
    for (size_t at = text.find(instruction); at != std::string::npos; at = text.find(instruction, at))
      text.replace(at, std::string(instruction).size(), same);
  THUNDER_ASSERT(text.find("asm(") == std::string::npos && text.find("asm volatile") == std::string::npos,
                 "an instruction of the CUDA prelude has no emulation");
  return text;
}

// The function that each thread runs, and the one that runs the grid.
std::string grid_of(const Kernel& k, const std::string& name, bool finish) {
  const std::string type = k.wide ? "(long long)" : "(int)";
  std::string arguments;
  for (size_t i = 0; i < k.inputs.size(); ++i)
    arguments += "(const " + storage_name(k.inputs[i].dtype()) + "*)th_in[" + std::to_string(i) + "], ";
  for (size_t i = 0; i < k.outputs.size(); ++i)
    arguments += "(" + storage_name(k.outputs[i].dtype()) + "*)th_out[" + std::to_string(i) + "], ";
  for (size_t i = 0; i < k.sizes.all().size(); ++i) arguments += type + "th_sizes[" + std::to_string(i) + "], ";
  for (size_t i = 0; i < k.numbers.size(); ++i) arguments += "th_numbers[" + std::to_string(i) + "], ";
  return "static void " + name + "_thread() { " + name + "(" + arguments + "th_partial" + (finish ? ", th_parts" : "") +
         "); }\nextern \"C\" int " + name +
         "_grid(const void* const* in, void* const* out, char* partial, const int64* sizes, const double* numbers, "
         "const "
         "int* grid, const int* block, int parts, int backwards) {\n  th_in = in; th_out = out; th_partial = partial; "
         "th_sizes = sizes; th_numbers = numbers; th_parts = parts;\n  return th_run_grid(" +
         name + "_thread, grid, block, backwards);\n}\n";
}

}  // namespace

const std::string& emulation_prelude() {
  static const std::string text =
      kBefore + as_cpp(cuda_prelude()) +
      "static const void* const* th_in; static void* const* th_out; static char* th_partial; static const int64* "
      "th_sizes; static const double* th_numbers; static int th_parts;\n";
  return text;
}

std::string emulated(const Kernel& kernel, const std::string& name) {
  std::string out = emit_cuda(kernel, name) + grid_of(kernel, name, false);
  if (finishes_apart(kernel)) out += grid_of(kernel, name + "_finish", true);
  return out;
}

}  // namespace thunder::test
