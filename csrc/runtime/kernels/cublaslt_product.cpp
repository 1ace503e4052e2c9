#include "runtime/kernels/cublaslt_product.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "core/error.h"
#include "runtime/kernels/cuda_api.h"
#include "runtime/kernels/disk_cache.h"

namespace thunder::cublaslt {
namespace {

constexpr int kProposals = 8;
constexpr size_t kMaxWorkspace = size_t{32} << 20;  // what NVIDIA advises for Hopper
constexpr size_t kCounters = 4096;                  // bytes
constexpr size_t kFinalists = 3;
constexpr int kRounds = 3;
constexpr float kRoundMilliseconds = 0.2f;  // that a measurement takes at least, so that the clock is fine enough
constexpr float kWorthwhile =
    0.96f;  // of the time of cuBLASLt's first choice: less is lost again when the clock is lowered

// Partial sums in the compute type only: never rounded to 16 bits on the way, whatever PyTorch allows itself.
constexpr uint32_t kReductions = kInPlace | kInComputeType;

int type_of(DType t) { return t == DType::bf16 ? kBfloat16 : t == DType::f16 ? kReal16 : kReal32; }

void require(const Api& api, int status, const char* doing) {
  THUNDER_CHECK(status == 0, Runtime, "cublaslt", doing, ": ", api.status_string(status));
}

Layout make_layout(const Api& api, DType t, bool transposed, int64_t rows, int64_t cols, int64_t stride) {
  if (transposed) std::swap(rows, cols);
  Layout layout = nullptr;
  require(api, api.layout_create(&layout, type_of(t), static_cast<uint64_t>(rows), static_cast<uint64_t>(cols), stride),
          "cublasLtMatrixLayoutCreate");
  return layout;
}

// cuBLASLt's model may change with its version, what is fastest with the device.
CacheKey cache_key(const Api& api, const MatrixProduct& p, int device) {
  const CudaDeviceProperties& properties = cuda_device_properties(device);
  CacheKeyBuilder key("cublaslt algorithm");
  key.add(static_cast<int64_t>(api.version()))
      .add(cuda_driver_version())
      .add(properties.name)
      .add(properties.multiprocessors);
  for (int64_t n : {static_cast<int64_t>(p.dtype), p.m, p.n, p.k, int64_t{p.transpose_first},
                    int64_t{p.transpose_second}, p.first_stride, p.second_stride, int64_t{p.bias}})
    key.add(n);
  return key.key();
}

}  // namespace

std::shared_ptr<const Product> Product::get(const Api& api, const MatrixProduct& problem) {
  static std::mutex mutex;
  static auto* all = new std::map<MatrixProduct, std::shared_ptr<const Product>>;
  std::lock_guard lock(mutex);
  std::shared_ptr<const Product>& known = (*all)[problem];
  if (!known) known = std::make_shared<const Product>(api, problem);
  return known;
}

Product::Product(const Api& api, const MatrixProduct& p) : api_(api), problem_(p) {
  first_ = make_layout(api, p.dtype, p.transpose_first, p.m, p.k, p.first_stride);
  second_ = make_layout(api, p.dtype, p.transpose_second, p.k, p.n, p.second_stride);
  out_ = make_layout(api, p.dtype, false, p.m, p.n, p.m);
  if (!p.bias) desc_ = describe(nullptr);
}

Product::~Product() {
  if (desc_) api_.desc_destroy(desc_);
  for (Layout l : {first_, second_, out_})
    if (l) api_.layout_destroy(l);
}

MatmulDesc Product::describe(const void* bias) const {
  MatmulDesc desc = nullptr;
  require(api_, api_.desc_create(&desc, kCompute32, kReal32), "cublasLtMatmulDescCreate");
  const int32_t first = problem_.transpose_first, second = problem_.transpose_second, epilogue = kEpilogueBias;
  api_.desc_set(desc, kTransposeA, &first, sizeof first);
  api_.desc_set(desc, kTransposeB, &second, sizeof second);
  if (problem_.bias) {
    api_.desc_set(desc, kEpilogue, &epilogue, sizeof epilogue);
    api_.desc_set(desc, kBiasPointer, &bias, sizeof bias);
  }
  return desc;
}

int Product::launch(int device, void* stream, const Operands& o, const Workspace& workspace, const Algorithm& algorithm,
                    size_t bytes) const {
  const float one = 1, zero = 0;
  MatmulDesc desc = problem_.bias ? describe(o.bias) : desc_;
  void* memory = bytes ? workspace(bytes) : nullptr;
  const int status = api_.matmul(handle(api_, device), desc, &one, o.first, first_, o.second, second_, &zero, o.out,
                                 out_, o.out, out_, &algorithm, memory, bytes, stream);
  if (problem_.bias) api_.desc_destroy(desc);
  return status;
}

// First those without a workspace.  One of a few bytes is a counter by which blocks of threads share the work, and
// costs a launch to clear it, for no gain; larger ones hold partial sums, without which a long product of few rows and
// columns would leave most of the device idle.
std::vector<Product::Choice> Product::proposed(int device) const {
  std::vector<Choice> out = proposed(device, 0);
  for (Choice& c : proposed(device, kMaxWorkspace))
    if (c.workspace > kCounters || out.empty()) out.push_back(std::move(c));
  return out;
}

std::vector<Product::Choice> Product::proposed(int device, size_t workspace) const {
  Preference preference = nullptr;
  require(api_, api_.preference_create(&preference), "cublasLtMatmulPreferenceCreate");
  const uint32_t reductions = kReductions, alignment = kAlignment;
  api_.preference_set(preference, kWorkspaceLimit, &workspace, sizeof workspace);
  api_.preference_set(preference, kReductionSchemes, &reductions, sizeof reductions);
  for (int attribute : {kMinAlignmentA, kMinAlignmentB, kMinAlignmentC, kMinAlignmentD})
    api_.preference_set(preference, attribute, &alignment, sizeof alignment);
  std::array<Heuristic, kProposals> found{};
  int count = 0;
  MatmulDesc desc = problem_.bias ? describe(nullptr) : desc_;
  const int status = api_.heuristics(handle(api_, device), desc, first_, second_, out_, out_, preference, kProposals,
                                     found.data(), &count);
  if (problem_.bias) api_.desc_destroy(desc);
  api_.preference_destroy(preference);
  std::vector<Choice> out;
  for (int i = 0; status == 0 && i < count; ++i)
    if (found[static_cast<size_t>(i)].status == 0)
      out.push_back({found[static_cast<size_t>(i)].algorithm, found[static_cast<size_t>(i)].workspace, false});
  return out;
}

std::optional<Product::Choice> Product::remembered(int device) const {
  const std::optional<std::string> bytes = DiskCache::open().load(cache_key(api_, problem_, device));
  Choice c;
  uint64_t workspace = 0;
  if (!bytes || bytes->size() != sizeof c.algorithm + sizeof workspace) return std::nullopt;
  std::memcpy(&c.algorithm, bytes->data(), sizeof c.algorithm);
  std::memcpy(&workspace, bytes->data() + sizeof c.algorithm, sizeof workspace);
  Heuristic checked{};
  MatmulDesc desc = problem_.bias ? describe(nullptr) : desc_;
  const int status = api_.check(handle(api_, device), desc, first_, second_, out_, out_, &c.algorithm, &checked);
  if (problem_.bias) api_.desc_destroy(desc);
  if (status != 0 || checked.status != 0 || workspace > kMaxWorkspace) return std::nullopt;
  c.workspace = workspace;
  c.measured = true;
  return c;
}

// Each once, then the best few in turns, so that a clock that changes meanwhile changes for all of them.
std::optional<Product::Choice> Product::fastest(int device, void* stream, const Operands& operands,
                                                const Workspace& workspace, const std::vector<Choice>& choices) const {
  CudaTimer timer(device, stream);
  auto time = [&](const Choice& c, int repeats) {
    timer.start();
    for (int i = 0; i < repeats; ++i)
      if (launch(device, stream, operands, workspace, c.algorithm, c.workspace) != 0)
        return std::numeric_limits<float>::infinity();
    return timer.stop() / static_cast<float>(repeats);
  };
  struct Entrant {
    size_t index;
    float best;
  };
  std::vector<Entrant> entrants;
  for (size_t i = 0; i < choices.size(); ++i) {
    launch(device, stream, operands, workspace, choices[i].algorithm, choices[i].workspace);  // loads the kernel
    if (const float t = time(choices[i], 1); std::isfinite(t)) entrants.push_back({i, t});
  }
  if (entrants.empty()) return std::nullopt;
  std::sort(entrants.begin(), entrants.end(), [](const Entrant& a, const Entrant& b) { return a.best < b.best; });
  const int repeats =
      std::clamp(static_cast<int>(std::ceil(kRoundMilliseconds / std::max(entrants[0].best, 1e-3f))), 1, 50);
  if (entrants.size() > kFinalists) {
    // cuBLASLt's own choice stays in: a nearly equal one is not worth leaving it.
    auto own = std::find_if(entrants.begin(), entrants.end(), [](const Entrant& e) { return e.index == 0; });
    if (own - entrants.begin() >= static_cast<std::ptrdiff_t>(kFinalists)) std::swap(entrants[kFinalists - 1], *own);
    entrants.resize(kFinalists);
  }
  for (Entrant& e : entrants) e.best = std::numeric_limits<float>::infinity();
  for (int round = 0; round < kRounds; ++round)
    for (Entrant& e : entrants) e.best = std::min(e.best, time(choices[e.index], repeats));
  const Entrant winner = *std::min_element(entrants.begin(), entrants.end(),
                                           [](const Entrant& a, const Entrant& b) { return a.best < b.best; });
  auto own = std::find_if(entrants.begin(), entrants.end(), [](const Entrant& e) { return e.index == 0; });
  Choice out = choices[own != entrants.end() && winner.best > own->best * kWorthwhile ? 0 : winner.index];
  out.measured = true;
  return out;
}

std::optional<Product::Choice> Product::choice(int device, void* stream, const Operands& operands,
                                               const Workspace& workspace, bool measure) const {
  std::lock_guard lock(mutex_);
  std::optional<Choice>& chosen = chosen_[static_cast<size_t>(device)];
  if (chosen && (chosen->measured || !measure)) return chosen;
  if (measure) {
    if ((chosen = remembered(device))) return chosen;
    measure = !cuda_is_capturing(device, stream);
  }
  std::vector<Choice> choices = proposed(device);
  if (choices.empty()) return std::nullopt;
  if (!measure) return chosen = choices.front();
  chosen = choices.front();
  chosen->measured = true;  // also where nothing ran: the next time would be no better
  if (const std::optional<Choice> best = fastest(device, stream, operands, workspace, choices)) {
    chosen = best;
    const uint64_t workspace = chosen->workspace;
    std::string bytes(reinterpret_cast<const char*>(&chosen->algorithm), sizeof chosen->algorithm);
    bytes.append(reinterpret_cast<const char*>(&workspace), sizeof workspace);
    DiskCache::open().store(cache_key(api_, problem_, device), bytes);
  }
  return chosen;
}

std::string Product::run(int device, void* stream, const Operands& operands, const Workspace& workspace,
                         bool measure) const {
  const CudaContextScope scope(device);
  const std::optional<Choice> c = choice(device, stream, operands, workspace, measure);
  if (!c) return "cuBLASLt has no algorithm for it";
  const int status = launch(device, stream, operands, workspace, c->algorithm, c->workspace);
  return status == 0 ? "" : api_.status_string(status);
}

}  // namespace thunder::cublaslt
