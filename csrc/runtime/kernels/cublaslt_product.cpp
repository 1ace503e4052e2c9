#include "runtime/kernels/cublaslt_product.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "core/error.h"
#include "runtime/kernels/cuda_api.h"
#include "runtime/kernels/disk_cache.h"

namespace thunder::cublaslt {
namespace {

constexpr int kProposals = 8;
constexpr size_t kMaxWorkspace = size_t{32} << 20;  // what NVIDIA advises for Hopper
constexpr size_t kCounters = 4096;                  // bytes
constexpr size_t kFinalists = 2;                    // beside cuBLASLt's first choice
constexpr int kRounds = 3;
constexpr float kRoundMilliseconds = 0.2f;  // that a measurement takes at least, so that the clock is fine enough
constexpr float kWorthwhile = 0.96f;        // of the first choice's time: less is lost again when the clock is lowered

// Partial sums in the compute type only: never rounded to 16 bits on the way, whatever PyTorch allows itself.
constexpr uint32_t kReductions = kInPlace | kInComputeType;

int type_of(DType t) {
  switch (t) {
    case DType::bf16: return kBfloat16;
    case DType::f16: return kReal16;
    case DType::f8e4m3fn: return kFloat8E4M3;
    case DType::f8e5m2: return kFloat8E5M2;
    default: return kReal32;
  }
}

void require(const Api& api, int status, const char* doing) {
  THUNDER_CHECK(status == 0, Runtime, "cublaslt", doing, ": ", api.status_string(status));
}

MatrixLayout make_layout(const Api& api, DType t, bool transposed, int64_t rows, int64_t cols, int64_t stride) {
  if (transposed) std::swap(rows, cols);
  MatrixLayout layout = nullptr;
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
  if (p.float8)
    for (int64_t n :
         {static_cast<int64_t>(p.float8->first), static_cast<int64_t>(p.float8->second), int64_t{p.float8->fast}})
      key.add(n);
  if (p.left_free) key.add(p.left_free);
  if (p.wide) key.add("wide");
  return key.key();
}

}  // namespace

std::shared_ptr<const CublasLtProduct> CublasLtProduct::get(const Api& api, const MatrixProduct& problem) {
  static std::mutex mutex;
  static auto* all = new std::map<MatrixProduct, std::shared_ptr<const CublasLtProduct>>;
  std::lock_guard lock(mutex);
  std::shared_ptr<const CublasLtProduct>& known = (*all)[problem];
  if (!known) known = std::make_shared<const CublasLtProduct>(api, problem);
  return known;
}

CublasLtProduct::CublasLtProduct(const Api& api, const MatrixProduct& p) : api_(api), problem_(p) {
  const MatrixProduct::Float8 operands = p.float8.value_or(MatrixProduct::Float8{p.dtype, p.dtype, false});
  first_ = make_layout(api, operands.first, p.transpose_first, p.m, p.k, p.first_stride);
  second_ = make_layout(api, operands.second, p.transpose_second, p.k, p.n, p.second_stride);
  out_ = make_layout(api, p.wide ? DType::f32 : p.dtype, false, p.m, p.n, p.m);
  if (!p.bias && !p.float8 && !p.left_free) desc_ = describe(0, {});
}

CublasLtProduct::~CublasLtProduct() {
  for (MatrixLayout l : {first_, second_, out_})
    if (l) api_.layout_destroy(l);
}

CublasLtProduct::Description CublasLtProduct::describe(int device, const ProductOperands& o) const {
  if (desc_) return desc_;
  MatmulDesc desc = nullptr;
  require(api_, api_.desc_create(&desc, kCompute32, kReal32), "cublasLtMatmulDescCreate");
  Description owned(desc, api_.desc_destroy);
  const int32_t first = problem_.transpose_first, second = problem_.transpose_second, epilogue = kEpilogueBias;
  api_.desc_set(desc, kTransposeA, &first, sizeof first);
  api_.desc_set(desc, kTransposeB, &second, sizeof second);
  if (problem_.left_free) {
    const int32_t used = std::max(cuda_device_properties(device).multiprocessors - problem_.left_free, 1);
    api_.desc_set(desc, kMultiprocessors, &used, sizeof used);
  }
  if (problem_.bias) {
    api_.desc_set(desc, kEpilogue, &epilogue, sizeof epilogue);
    api_.desc_set(desc, kBiasPointer, &o.bias, sizeof o.bias);
  }
  if (problem_.float8) {
    const int8_t fast = problem_.float8->fast;
    const int32_t bias_type = type_of(problem_.dtype);
    api_.desc_set(desc, kScalePointerA, &o.first_scale, sizeof o.first_scale);
    api_.desc_set(desc, kScalePointerB, &o.second_scale, sizeof o.second_scale);
    api_.desc_set(desc, kFastAccumulation, &fast, sizeof fast);
    if (problem_.bias) api_.desc_set(desc, kBiasType, &bias_type, sizeof bias_type);
  }
  return owned;
}

int CublasLtProduct::launch(const Run& run, const Choice& choice) const {
  const float one = 1, zero = 0;
  const ProductOperands& o = run.operands;
  void* memory = choice.workspace ? run.workspace(choice.workspace) : nullptr;
  return api_.matmul(handle(api_, run.device), describe(run.device, o).get(), &one, o.first, first_, o.second, second_,
                     o.accumulate ? &one : &zero, o.out, out_, o.out, out_, &choice.algorithm, memory, choice.workspace,
                     run.stream);
}

// First those without a workspace.  One of a few bytes is a counter by which blocks of threads share the work, and
// costs a launch to clear it, for no gain; larger ones hold partial sums, without which a long product of few rows and
// columns would leave most of the device idle.
std::vector<CublasLtProduct::Choice> CublasLtProduct::proposed(int device) const {
  std::vector<Choice> out = proposed(device, 0);
  const bool all = out.empty();
  for (const Choice& c : proposed(device, kMaxWorkspace))
    if (all || c.workspace > kCounters) out.push_back(c);
  return out;
}

std::vector<CublasLtProduct::Choice> CublasLtProduct::proposed(int device, size_t workspace) const {
  Preference preference = nullptr;
  require(api_, api_.preference_create(&preference), "cublasLtMatmulPreferenceCreate");
  const uint32_t reductions = kReductions, alignment = kAlignment;
  api_.preference_set(preference, kWorkspaceLimit, &workspace, sizeof workspace);
  api_.preference_set(preference, kReductionSchemes, &reductions, sizeof reductions);
  for (int attribute : {kMinAlignmentA, kMinAlignmentB, kMinAlignmentC, kMinAlignmentD})
    api_.preference_set(preference, attribute, &alignment, sizeof alignment);
  std::array<Heuristic, kProposals> found{};
  int count = 0;
  const int status = api_.heuristics(handle(api_, device), describe(device, {}).get(), first_, second_, out_, out_,
                                     preference, kProposals, found.data(), &count);
  api_.preference_destroy(preference);
  std::vector<Choice> out;
  for (size_t i = 0; status == 0 && i < static_cast<size_t>(count); ++i)
    if (found[i].status == 0) out.push_back({found[i].algorithm, found[i].workspace});
  return out;
}

std::optional<CublasLtProduct::Choice> CublasLtProduct::remembered(int device, UsedCache& used) const {
  if (!used) used = DiskCache::open();
  const std::optional<std::string> bytes = used->load(cache_key(api_, problem_, device));
  Choice c;
  uint64_t workspace = 0;
  if (!bytes || bytes->size() != sizeof c.algorithm + sizeof workspace) return std::nullopt;
  std::memcpy(&c.algorithm, bytes->data(), sizeof c.algorithm);
  std::memcpy(&workspace, bytes->data() + sizeof c.algorithm, sizeof workspace);
  Heuristic checked{};
  const int status =
      api_.check(handle(api_, device), describe(device, {}).get(), first_, second_, out_, out_, &c.algorithm, &checked);
  if (status != 0 || checked.status != 0 || workspace > kMaxWorkspace) return std::nullopt;
  c.workspace = workspace;
  return c;
}

void CublasLtProduct::remember(int device, const Choice& c, UsedCache& used) const {
  const uint64_t workspace = c.workspace;
  std::string bytes(reinterpret_cast<const char*>(&c.algorithm), sizeof c.algorithm);
  bytes.append(reinterpret_cast<const char*>(&workspace), sizeof workspace);
  if (!used) used = DiskCache::open();
  used->store(cache_key(api_, problem_, device), bytes);
}

// Each once, then the first and the best others alternately, so that a clock that changes meanwhile changes for all of
// them.
std::optional<CublasLtProduct::Choice> CublasLtProduct::fastest(const Run& run,
                                                                const std::vector<Choice>& choices) const {
  CudaTimer timer(run.device, run.stream);
  auto time = [&](size_t i, int repeats) {
    timer.start();
    for (int n = 0; n < repeats; ++n)
      if (launch(run, choices[i]) != 0) return INFINITY;
    return timer.stop() / static_cast<float>(repeats);
  };
  std::vector<std::pair<float, size_t>> once;  // of the others
  float first = INFINITY;
  for (size_t i = 0; i < choices.size(); ++i) {
    time(i, 1);  // loads the kernel
    const float t = time(i, 1);
    if (i == 0) first = t;
    else if (t != INFINITY) once.emplace_back(t, i);
  }
  std::sort(once.begin(), once.end());
  if (once.size() > kFinalists) once.resize(kFinalists);
  const float least = once.empty() ? first : std::min(first, once[0].first);
  if (least == INFINITY) return std::nullopt;
  const int repeats = std::clamp(static_cast<int>(std::ceil(kRoundMilliseconds / std::max(least, 1e-3f))), 1, 50);
  std::vector<float> best(once.size(), INFINITY);
  first = INFINITY;
  for (int round = 0; round < kRounds; ++round) {
    first = std::min(first, time(0, repeats));
    for (size_t i = 0; i < once.size(); ++i) best[i] = std::min(best[i], time(once[i].second, repeats));
  }
  const auto winner = std::min_element(best.begin(), best.end());
  if (winner == best.end() || *winner > first * kWorthwhile) return choices[0];
  return choices[once[static_cast<size_t>(winner - best.begin())].second];
}

// Under the lock.
std::optional<CublasLtProduct::Choice> CublasLtProduct::known(int device, bool measure, UsedCache& used) const {
  Known& known = known_[static_cast<size_t>(device)];
  if (!measure) return known.first;
  if (!known.measured) known.measured = remembered(device, used);
  return known.measured;
}

bool CublasLtProduct::ready(int device, bool measure) const {
  const CudaContextScope scope(device);
  UsedCache used;
  bool found = false;
  {
    std::lock_guard lock(mutex_);
    found = known(device, measure, used).has_value();
  }
  if (used) used->warn();
  return found;
}

std::optional<CublasLtProduct::Choice> CublasLtProduct::choice(const Run& run, bool measure, UsedCache& used) const {
  std::lock_guard lock(mutex_);
  if (std::optional<Choice> c = known(run.device, measure, used)) return c;
  Known& known = known_[static_cast<size_t>(run.device)];
  const bool can_measure = measure && !cuda_is_capturing(run.device, run.stream);
  if (!can_measure && known.first) return known.first;
  const std::vector<Choice> choices = proposed(run.device);
  if (choices.empty()) return std::nullopt;
  known.first = choices[0];
  if (!can_measure) return known.first;
  known.measured = fastest(run, choices);
  if (known.measured) remember(run.device, *known.measured, used);
  else known.measured = known.first;  // nothing ran, and the next time would be no better
  return known.measured;
}

std::string CublasLtProduct::run(int device, void* stream, const ProductOperands& operands, const Workspace& workspace,
                                 bool measure) const {
  const CudaContextScope scope(device);
  const Run run{device, stream, operands, workspace};
  UsedCache used;
  const std::optional<Choice> c = choice(run, measure, used);
  if (used) used->warn();
  if (!c) return "cuBLASLt has no algorithm for it";
  const int status = launch(run, *c);
  return status == 0 ? "" : api_.status_string(status);
}

}  // namespace thunder::cublaslt
