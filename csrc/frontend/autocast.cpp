#include "frontend/autocast.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "core/error.h"
#include "frontend/hooks.h"

namespace thunder::frontend {
namespace {

enum class Policy { None, Lower, Fp32, Promote };

// PyTorch's lists (documented under "Autocast Op Reference"), by the names of the torch language.  A test holds them
// against the autocast kernels that the installed PyTorch registers.
// clang-format off
constexpr std::string_view kLower[] = {
    "matmul", "linear", "mm", "bmm", "addmm", "baddbmm", "addbmm", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "chain_matmul", "multi_dot", "scaled_dot_product_attention"};
constexpr std::string_view kLowerCuda[] = {"addmv", "addr", "mv", "prelu"};
constexpr std::string_view kFp32Cpu[] = {
    "avg_pool3d", "binary_cross_entropy", "grid_sampler", "polar", "prod", "quantile", "nanquantile", "stft", "cdist",
    "trace", "view_as_complex", "cholesky", "inverse", "pinverse", "mse_loss", "cosine_embedding_loss", "nll_loss",
    "nll_loss2d", "hinge_embedding_loss", "poisson_nll_loss", "smooth_l1_loss", "cross_entropy_loss", "l1_loss",
    "huber_loss", "margin_ranking_loss", "soft_margin_loss", "triplet_margin_loss", "multi_margin_loss", "ctc_loss",
    "kl_div", "multilabel_margin_loss", "binary_cross_entropy_with_logits"};
constexpr std::string_view kFp32Cuda[] = {
    "acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal", "rsqrt", "sinh",
    "tan", "pow", "softplus", "layer_norm", "native_layer_norm", "group_norm", "norm", "cosine_similarity",
    "poisson_nll_loss", "cosine_embedding_loss", "nll_loss", "nll_loss2d", "hinge_embedding_loss", "kl_div", "l1_loss",
    "smooth_l1_loss", "huber_loss", "mse_loss", "margin_ranking_loss", "multilabel_margin_loss", "soft_margin_loss",
    "triplet_margin_loss", "multi_margin_loss", "binary_cross_entropy_with_logits", "dist", "pdist", "cdist", "renorm",
    "logsumexp", "softmax", "log_softmax", "cumprod", "cumsum", "prod", "sum"};
constexpr std::string_view kPromote[] = {"cat", "stack", "index_copy"};
constexpr std::string_view kPromoteCuda[] = {"addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "grid_sample",
                                             "index_put", "tensordot", "scatter_add"};
// clang-format on

template <size_t N>
bool contains(const std::string_view (&list)[N], std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

Policy policy_of(std::string_view op, DeviceType device) {
  constexpr std::string_view kPrefix = "torch.";
  if (op.substr(0, kPrefix.size()) == kPrefix) op.remove_prefix(kPrefix.size());
  if (size_t dot = op.find('.'); dot != std::string_view::npos) op = op.substr(0, dot);
  bool cuda = device == DeviceType::cuda;
  if (contains(kLower, op) || (cuda && contains(kLowerCuda, op))) return Policy::Lower;
  if (cuda ? contains(kFp32Cuda, op) : contains(kFp32Cpu, op)) return Policy::Fp32;
  if (contains(kPromote, op) || (cuda && contains(kPromoteCuda, op))) return Policy::Promote;
  return Policy::None;
}

bool eligible(Value v, DeviceType device) { return v.type().is_tensor() && ops::autocasts(v.tensor(), device); }

// The device whose autocast rules apply: that of the first tensor argument.
std::optional<DeviceType> device_of(const ArgList& args) {
  std::optional<DeviceType> d;
  for (const Arg& a : args)
    for_each_value(a, [&](Value v) {
      if (!d && v.type().is_tensor()) d = v.tensor().device.type;
    });
  return d;
}

}  // namespace

ops::ProductDtype autocast_products(const ArgList& positional) {
  std::optional<DeviceType> device = hooks().any_autocast() ? device_of(positional) : std::nullopt;
  return {device.value_or(DeviceType::cpu), device ? hooks().autocast_dtype(*device) : std::nullopt};
}

const char* autocast_policy(const std::string& op, DeviceType device) {
  static constexpr const char* kNames[] = {"none", "lower", "fp32", "promote"};
  return kNames[static_cast<size_t>(policy_of(op, device))];
}

void autocast_arguments(Builder& b, const std::string& op, ArgList& positional,
                        std::vector<std::pair<std::string, Arg>>& keyword) {
  if (!hooks().any_autocast()) return;
  std::optional<DeviceType> device = device_of(positional);
  if (!device) return;
  std::optional<DType> lower = hooks().autocast_dtype(*device);
  if (!lower) return;
  Policy policy = policy_of(op, *device);
  if (policy == Policy::None) return;
  DType target = policy == Policy::Lower ? *lower : DType::f32;
  if (policy == Policy::Promote) {
    target = *lower;
    for (const Arg& a : positional)
      for_each_value(a, [&](Value v) {
        if (eligible(v, *device) && v.dtype() == DType::f32) target = DType::f32;
      });
  }
  auto cast = [&](Value v) -> Arg {
    if (!eligible(v, *device) || v.dtype() == target) return v;
    return b("torch.to", v, target);
  };
  for (Arg& a : positional) a = map_values(a, cast);
  for (auto& [name, a] : keyword) a = map_values(a, cast);
}

}  // namespace thunder::frontend
