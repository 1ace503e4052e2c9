// Kernels that walk over a matrix in tiles: its transpose is stored beside it, the extremum of all is found on the way.
#include <doctest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "core/parse.h"
#include "fuser/compiles.h"
#include "fuser/emit.h"
#include "fuser/kernel_checks.h"
#include "fuser/loops.h"
#include "fuser/lower.h"
#include "fuser/partition.h"
#include "fuzz/random.h"
#include "ops/families.h"
#include "passes/pass_ops.h"
#include "runtime/kernels/host_compiler.h"

namespace thunder::test {
namespace {

using fuser::Kernel;
using fuser::LowerOptions;

/// A program by its text, all of whose results are roots of one kernel.
struct Program {
  Program(const std::string& body, const std::string& inputs) {
    ops::register_all();
    trace = parse("import thunder.core.prims as prims\nimport torch\n\ndef f(" + inputs + "):\n" + body);
    for (const Call* c : trace.calls) maker[c->output.value().id()] = c;
  }
  std::optional<Kernel> lower(const LowerOptions& options = {}) const {
    std::vector<fuser::Root> roots;
    visit_values(trace.output, [&](Value v) { roots.push_back({v, true}); });
    const auto producer = [this](Value v) -> const Call* {
      const auto it = maker.find(v.id());
      return it == maker.end() ? nullptr : it->second;
    };
    return fuser::lower(
        roots, producer, [](Value) { return false; }, options);
  }
  Fused fused(const std::vector<LowerOptions>& variants) const {
    Fused f;
    f.plain = lower().value();
    f.calls = trace.calls;
    f.inputs = f.plain.inputs;
    f.outputs = f.plain.outputs;
    for (const LowerOptions& o : variants) f.lowered.push_back(lower(o).value());
    return f;
  }

  Trace trace;
  std::map<ValueId, const Call*> maker;
};

/// a * b in a type, and its transpose in memory of its own.
std::string both(const std::string& device, const std::string& rows, const std::string& cols, const std::string& type,
                 const std::string& torch_type) {
  const std::string shape = "[" + rows + ", " + cols + "]", transposed = "[" + cols + ", " + rows + "]";
  const auto of = [&](const std::string& t, const std::string& s) { return device + " " + t + s + "\"\n"; };
  return "  # a: \"" + of("f32", shape) + "  # b: \"" + of("f32", "[" + cols + "]") +
         "  t1 = prims.broadcast_in_dim(b, " + shape + ", [1])  # t1: \"" + device + " f32" + shape +
         " strides=(0, 1)\"\n  t2 = prims.mul(a, t1)  # t2: \"" + of("f32", shape) +
         "  t3 = prims.convert_element_type(t2, torch." + torch_type + ")  # t3: \"" + of(type, shape) +
         "  t4 = prims.transpose(t3, [1, 0])  # t4: \"" + device + " " + type + transposed + " strides=(1, " + cols +
         ")\"\n" + "  t5 = prims.restride(t4, [" + rows + ", 1])  # t5: \"" + of(type, transposed);
}

size_t transposed_in(const Kernel& k) {
  size_t n = 0;
  for (const fuser::Phase& p : k.phases) n += p.transposed.size();
  return n;
}

std::vector<reference::Datum> random_inputs(const std::vector<Value>& of) {
  fuzz::Random random(7);
  std::vector<reference::Datum> out;
  for (Value v : of) {
    std::vector<int64_t> shape;
    for (const Dim& d : v.shape()) shape.push_back(d.constant());
    auto a = reference::make_array(v.dtype(), v.tensor().device, shape);
    for (auto& e : a->data) e = reference::Element::real(reference::round_real(v.dtype(), random.uniform(-15, 15)));
    out.push_back(reference::Datum(a));
  }
  return out;
}

TEST_CASE("tiles: a matrix and its transpose are one walk over its rows") {
  const Program p(both("cpu", "32", "24", "bf16", "bfloat16") + "  return (t3, t5)\n", "a, b");
  const Kernel k = p.lower().value();
  CHECK(k.tiled);
  CHECK(k.rows == 32);
  CHECK(k.cols == 24);
  CHECK(transposed_in(k) == 0);  // one lane stores it where it belongs
  const Kernel wide = p.lower({.lanes = 8, .cached = true}).value();
  CHECK(transposed_in(wide) == 1);
  CHECK(!wide.cached);
  CHECK(wide.phases[0].stores.size() == 1);
  // Alone, too: what it is computed from lies by rows.
  CHECK(
      transposed_in(
          Program(both("cpu", "32", "24", "bf16", "bfloat16") + "  return t5\n", "a, b").lower({.lanes = 8}).value()) ==
      1);
}

TEST_CASE("tiles: what does not fit them is refused") {
  const std::string bf16 = both("cpu", "32", "24", "bf16", "bfloat16");
  // Columns must be vectors, whatever the lanes of a row are.
  const Program odd(both("cpu", "24", "32", "bf16", "bfloat16") + "  return (t3, t5)\n", "a, b");
  CHECK(odd.lower());
  CHECK(!odd.lower({.lanes = 8}));
  CHECK(!Program(both("cpu", "32", "24", "f64", "float64") + "  return (t3, t5)\n", "a, b").lower({.lanes = 2}));
  // Sums of rows are no walk over tiles, and a transpose is not read where it is made.
  const Program sums(bf16 + "  t6 = prims.sum(t2, [1])  # t6: \"cpu f32[32]\"\n  return (t5, t6)\n", "a, b");
  CHECK(!sums.lower());
  const Program read(bf16 + "  t6 = prims.neg(t5)  # t6: \"cpu bf16[24, 32]\"\n  return (t5, t6)\n", "a, b");
  CHECK(!read.lower());
  // On the host an extremum of all is a reduction like any other.
  const Program extremum(bf16 + "  t6 = prims.amax(t2, [0, 1])  # t6: \"cpu f32[]\"\n  return (t5, t6)\n", "a, b");
  CHECK(!extremum.lower());
}

TEST_CASE("tiles: both forms are what the calls say, in every type") {
  KernelChecks checks;
  const std::vector<std::pair<std::string, std::string>> types = {
      {"f32", "float32"}, {"bf16", "bfloat16"}, {"f8_e4m3fn", "float8_e4m3fn"}, {"f8_e5m2", "float8_e5m2"}};
  for (const auto& [type, name] : types) {
    // A conversion to the type that it has is none.
    std::string body = both("cpu", "48", "40", type, name);
    if (type == "f32") body.replace(body.find("prims.convert_element_type(t2, torch.float32)"), 45, "prims.neg(t2)");
    const Program p(body + "  return (t3, t5)\n", "a, b");
    const Fused f = p.fused({{.lanes = 2}, {.lanes = 4}, {.lanes = 8}});
    checks.add(f, expect(f, random_inputs(f.inputs), p.trace.arena, 1).value(), p.trace.arena, type);
  }
  for (const std::string& wrong : checks.run()) FAIL_CHECK(wrong);
}

const std::string kExtremum =
    "  t6 = prims.abs(t2)  # t6: \"cuda:0 f32[32, 24]\"\n  t7 = prims.amax(t6, [0, 1])  # t7: \"cuda:0 f32[]\"\n";

TEST_CASE("tiles: the extremum of all is found on the way on a GPU") {
  const Program p(both("cuda:0", "32", "24", "bf16", "bfloat16") + kExtremum + "  return (t3, t5, t7)\n", "a, b");
  for (int lanes : {1, 8}) {
    const Kernel k = p.lower({.lanes = lanes}).value();
    REQUIRE(k.extrema.size() == 1);
    CHECK(k.extrema[0].combine == Combine::Max);
    CHECK(k.has_finish());
    CHECK(fuser::partial_bytes(k, fuser::Target::Cuda, 24) == 4);
    // The walk as a loop.
    std::string error;
    const auto module = compile_host(fuser::host_prelude() + loops_prelude() + loops(k, "walk"), &error);
    REQUIRE_MESSAGE(module, error);
    std::vector<float> a(32 * 24), b(24, 2.0f);
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>((i * 7919) % 1009) - 700;
    alignas(16) uint16_t rows[32 * 24], columns[32 * 24];
    float most = 0;
    const std::map<ValueId, void*> memory = {{p.trace.inputs[0].id(), a.data()},
                                             {p.trace.inputs[1].id(), b.data()},
                                             {p.maker.rbegin()->second->output.value().id(), &most}};
    std::vector<void*> in, out;
    for (Value v : k.inputs) in.push_back(memory.at(v.id()));
    for (Value v : k.outputs) out.push_back(v.dtype() == DType::f32 ? static_cast<void*>(&most) : nullptr);
    for (size_t i = 0, next = 0; i < out.size(); ++i)
      if (!out[i]) out[i] = next++ == 0 ? rows : columns;
    using Walk = int (*)(const void* const*, void* const*, const int64_t*, const double*);
    CHECK(reinterpret_cast<Walk>(module->symbol("walk"))(in.data(), out.data(), nullptr, nullptr) == 0);
    float largest = 0;
    for (float x : a) largest = std::max(largest, std::abs(x * 2));
    CHECK(most == largest);
  }
}

TEST_CASE("tiles: alone, the extremum of many elements is found in tiles, and that of few in one row") {
  const auto lowered = [](const std::string& shape) {
    return Program("  # a: \"cuda:0 f32" + shape +
                       "\"\n  t1 = prims.amax(a, [0, 1])  # t1: \"cuda:0 f32[]\"\n  return t1\n",
                   "a")
        .lower({.lanes = 4})
        .value();
  };
  CHECK(lowered("[256, 256]").tiled);
  CHECK(lowered("[256, 256]").rows == 256);
  CHECK(!lowered("[16, 16]").tiled);
}

TEST_CASE("tiles: blocks cover the matrix") {
  const Program p(both("cuda:0", "272", "72", "f8_e4m3fn", "float8_e4m3fn") + "  return (t3, t5)\n", "a, b");
  const Kernel k = p.lower({.lanes = 8}).value();
  const fuser::CudaShape s = fuser::cuda_shape(k);
  CHECK(s.threads * s.rows_per_block == 256);
  const fuser::CudaBlocks blocks = fuser::cuda_blocks(k, 272, 72);
  CHECK(blocks.x * s.threads * k.lanes >= 72);
  CHECK((blocks.x - 1) * s.threads * k.lanes < 72);
  CHECK(blocks.y * s.rows_per_block * fuser::kTransposedRows >= 272);
}

TEST_CASE("tiles: NVRTC compiles them, with float8 instructions and without") {
  std::vector<std::string> texts;
  const std::vector<std::pair<std::string, std::string>> types = {
      {"bf16", "bfloat16"}, {"f8_e4m3fn", "float8_e4m3fn"}, {"f8_e5m2", "float8_e5m2"}};
  for (const auto& [type, name] : types) {
    const Program p(both("cuda:0", "32", "24", type, name) + kExtremum + "  return (t3, t5, t7)\n", "a, b");
    for (int lanes : {1, 4, 8}) texts.push_back(emit_cuda(p.lower({.lanes = lanes}).value(), "tiles"));
  }
  check_compiles("tiles", texts, {{9, 0}, {8, 0}});
}

/// What the shared text needs of CUDA, by threads of the host: one block after the other.  Kernels are linked without
/// C++'s library.
const std::string kHostBlocks = R"(
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#define TH_D static inline
#define __shared__ static
struct Place { unsigned x, y; };
static __thread Place threadIdx;
static Place blockIdx, blockDim;
static pthread_barrier_t together;
static void __syncthreads() { pthread_barrier_wait(&together); }
template <class T, int N> struct alignas(sizeof(T) * N > 16 ? 16 : sizeof(T) * N) Vec { T at[N]; };
static int misaligned = 0;
template <class T, int N> static void th_store_vector(T* p, const Vec<T, N>& v) {
  if ((unsigned long)p % (sizeof(T) * N > 16 ? 16 : sizeof(T) * N)) misaligned = 1;
  memcpy((void*)p, &v, sizeof v);
}
static char exchanged[1024][16];
template <class T> static T th_shuffle(T x, int mask, unsigned) {
  const unsigned t = threadIdx.y * blockDim.x + threadIdx.x;
  memcpy(exchanged[t], &x, sizeof x);
  __syncthreads();
  T y;
  memcpy(&y, exchanged[t ^ mask], sizeof y);
  __syncthreads();
  return y;
}
template <class F> struct Thread {
  const F* body;
  Place place;
  static void* run(void* self) {
    threadIdx = ((Thread*)self)->place;
    (*((Thread*)self)->body)();
    return 0;
  }
};
template <class F> static void run_blocks(unsigned gx, unsigned gy, unsigned tx, unsigned ty, const F& body) {
  static Thread<F> all[1024];
  static pthread_t threads[1024];
  blockDim = {tx, ty};
  pthread_barrier_init(&together, 0, tx * ty);
  for (unsigned b = 0; b < gx * gy; ++b) {
    blockIdx = {b % gx, b / gx};
    for (unsigned t = 0; t < tx * ty; ++t) {
      all[t] = {&body, {t % tx, t / tx}};
      pthread_create(&threads[t], 0, Thread<F>::run, &all[t]);
    }
    for (unsigned t = 0; t < tx * ty; ++t) pthread_join(threads[t], 0);
  }
  pthread_barrier_destroy(&together);
}
)";

const std::string kTurnAll = R"(
// The elements that end up in a wrong place, or are not stored aligned.
template <class T, int N, int TX, int TY> static int transpose(int rows, int cols) {
  T* in = (T*)aligned_alloc(64, (rows * cols * sizeof(T) + 63) / 64 * 64);
  T* out = (T*)aligned_alloc(64, (rows * cols * sizeof(T) + 63) / 64 * 64);
  for (int i = 0; i < rows * cols; ++i) in[i] = T((i * 2654435761u) >> 7), out[i] = T(1);
  run_blocks((cols / N + TX - 1) / TX, (rows + 4 * TY - 1) / (4 * TY), TX, TY, [&] {
    const int q = blockIdx.x * TX + threadIdx.x, first = (blockIdx.y * TY + threadIdx.y) * 4;
    Vec<T, N> v[4] = {};
    if (q < cols / N && first < rows)
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < N; ++j) v[i].at[j] = in[(first + i) * cols + q * N + j];
    th_store_transposed<TX, TY>(out, v, rows, cols);
  });
  int wrong = misaligned;
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c) wrong += out[c * rows + r] != in[r * cols + c];
  free(in);
  free(out);
  return wrong;
}
extern "C" int turn_all() {
  return transpose<unsigned char, 8, 8, 32>(144, 72) + transpose<unsigned char, 8, 8, 32>(16, 8) +
         transpose<unsigned char, 4, 16, 16>(80, 36) + transpose<unsigned char, 2, 32, 8>(48, 66) +
         transpose<unsigned short, 8, 8, 32>(144, 72) + transpose<float, 4, 16, 16>(80, 36);
}
extern "C" float largest_of_block() {
  float found[256];
  run_blocks(1, 1, 8, 32, [&] {
    const int t = threadIdx.y * 8 + threadIdx.x;
    found[t] = th_reduce_block<256>(float((t * 97) % 256), [](float a, float b) { return a > b ? a : b; });
  });
  float least = found[0];
  for (float x : found) least = x < least ? x : least;
  return least;  // each thread knows the largest
}
)";

TEST_CASE("tiles: the threads of a block transpose a tile, and find the largest of their numbers") {
  std::string error;
  const auto module = compile_host(kHostBlocks + fuser::tile_prelude() + kTurnAll, &error);
  REQUIRE_MESSAGE(module, error);
  CHECK(reinterpret_cast<int (*)()>(module->symbol("turn_all"))() == 0);
  CHECK(reinterpret_cast<float (*)()>(module->symbol("largest_of_block"))() == 255);
}

TEST_CASE("partition: what is stored by columns, too, leaves a kernel of rows for one of tiles") {
  Builder b = pass_builder();
  Value x = b.input(f32({32, 64}), "x");
  // A kernel of rows makes the sums and would make y, but not y's transpose.
  const Expr y = b("prims.exp", b("prims.neg", x));
  const Expr sums = b("prims.sum", y, std::vector<int64_t>{1});
  const Expr transposed = b("prims.restride", b("prims.transpose", y, std::vector<int64_t>{1, 0}), Dims{32, 1});
  const Trace t = b.finish("f", Arg::tuple({b("pt.heavy", sums), b("pt.heavy", y), b("pt.heavy", transposed)}));
  const Partitioned p = partitioned(t);
  const auto makes = [&](Value v) {
    return std::find_if(p.fusions.begin(), p.fusions.end(), [&](const Fused& f) {
      return std::find(f.outputs.begin(), f.outputs.end(), v) != f.outputs.end();
    });
  };
  REQUIRE(makes(y.value()) != p.fusions.end());
  CHECK(makes(y.value()) == makes(transposed.value()));
  CHECK(makes(y.value()) != makes(sums.value()));
  code(p.trace);
}

}  // namespace
}  // namespace thunder::test
