#include "executors/aten/recurrent.h"

#include <ATen/ops/_cudnn_rnn.h>
#include <ATen/ops/_cudnn_rnn_backward.h>
#include <ATen/ops/_cudnn_rnn_flatten_weight.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "core/error.h"
#include "runtime/saved_memory.h"

namespace thunder::aten {
namespace {

using Tensors = std::vector<at::Tensor>;

// cudnnRNNMode_t
int64_t mode_of(std::string_view name) {
  constexpr std::array<std::string_view, 4> kModes = {"rnn_relu", "rnn_tanh", "lstm", "gru"};
  const auto* found = std::find(kModes.begin(), kModes.end(), name);
  THUNDER_ASSERT(found != kModes.end(), "no recurrent layer ", name);
  return found - kModes.begin();
}

// What PyTorch's operators are told about the layers.
struct RecurrentLayers {
  int64_t mode, layers, width, projection, inputs, per_layer;  // per_layer: weights of a layer in one direction
  bool bidirectional;
  auto operator<=>(const RecurrentLayers&) const = default;
};

RecurrentLayers layers_of(const at::Tensor& x, const Tensors& weights, const at::Tensor& hx, const at::Tensor& cx,
                          const std::string& mode, int64_t layers, bool bidirectional) {
  const int64_t out = hx.size(2), width = cx.defined() ? cx.size(2) : out;
  const int64_t cells = layers * (bidirectional ? 2 : 1), count = static_cast<int64_t>(weights.size());
  THUNDER_CHECK(cells > 0 && count > 0 && count % cells == 0, Runtime, "recurrent", count, " weights are not those of ",
                layers, bidirectional ? " layers in both directions" : " layers");
  return {mode_of(mode), layers, width, out == width ? 0 : out, x.size(2), count / cells, bidirectional};
}

// ---- the buffer of the weights --------------------------------------------------------------------------------------

// Where cuDNN expects each weight, in elements.
struct WeightPlaces {
  std::vector<int64_t> offsets;
  int64_t total = 0;
};

// PyTorch's operator makes weights views of a buffer, whose offsets tell.
WeightPlaces asked_places(const RecurrentLayers& l, const Tensors& weights) {
  Tensors views;
  for (const at::Tensor& w : weights) views.push_back(at::empty(w.sizes(), w.options()));
  WeightPlaces places;
  places.total = at::_cudnn_rnn_flatten_weight(views, l.per_layer, l.inputs, l.mode, l.width, l.projection, l.layers,
                                               /*batch_first=*/false, l.bidirectional)
                     .numel();
  for (const at::Tensor& v : views) places.offsets.push_back(v.storage_offset());
  return places;
}

const WeightPlaces& places_of(const RecurrentLayers& l, const Tensors& weights) {
  static std::mutex mutex;
  static std::map<std::tuple<RecurrentLayers, at::ScalarType, int>, WeightPlaces> known;
  const std::tuple key(l, weights[0].scalar_type(), static_cast<int>(weights[0].get_device()));
  std::lock_guard lock(mutex);
  if (auto found = known.find(key); found != known.end()) return found->second;
  return known.emplace(key, asked_places(l, weights)).first->second;
}

int64_t count_of(const Tensors& weights) {
  int64_t count = 0;
  for (const at::Tensor& w : weights) count += w.numel();
  return count;
}

// Layers without biases have places for them, which other tensors of the same storage must not have.
bool lie_there(const Tensors& weights, const WeightPlaces& places) {
  const int64_t start = weights[0].storage_offset() - places.offsets[0];
  const int64_t size = static_cast<int64_t>(weights[0].storage().nbytes()) / weights[0].element_size();
  if (start < 0 || start + places.total > size) return false;
  if (count_of(weights) < places.total && (start != 0 || size != places.total)) return false;
  for (size_t i = 0; i < weights.size(); ++i)
    if (!weights[i].is_alias_of(weights[0]) || !weights[i].is_contiguous() ||
        weights[i].storage_offset() != start + places.offsets[i])
      return false;
  return true;
}

at::Tensor buffer_of(const RecurrentLayers& l, const Tensors& weights) {
  const WeightPlaces& places = places_of(l, weights);
  if (lie_there(weights, places))
    return weights[0].as_strided({places.total}, {1}, weights[0].storage_offset() - places.offsets[0]);
  at::Tensor buffer = at::empty({places.total}, weights[0].options());
  if (count_of(weights) < places.total) buffer.zero_();  // cuDNN adds biases where the layers have none
  Tensors views;
  for (size_t i = 0; i < weights.size(); ++i)
    views.push_back(buffer.narrow(0, places.offsets[i], weights[i].numel()).view(weights[i].sizes()));
  at::_foreach_copy_(views, weights);
  return buffer;
}

// ---- arguments ------------------------------------------------------------------------------------------------------

at::Tensor optional(const FunctionArgs& a, size_t i) { return a.is_none(i) ? at::Tensor() : a.tensor(i); }

at::Tensor dense(const at::Tensor& t) { return t.defined() ? t.contiguous() : t; }

Tensors list(const FunctionArgs& a, size_t i) {
  Tensors out;
  for (size_t k = 0; k < a.length(i); ++k) out.push_back(a.element(i, k).toTensor());
  return out;
}

// The backward writes to the reserve, which a second backward through the same call reads again.
at::Tensor own_reserve(const at::Tensor& reserve) { return saved_may_be_overwritten() ? reserve : reserve.clone(); }

}  // namespace

c10::IValue recurrent(const FunctionArgs& a) {
  THUNDER_CHECK(a.tensor(0).is_cuda(), NotImplemented, "recurrent", "expected tensors on a CUDA device, got ",
                a.tensor(0).device().str());
  const Tensors weights = list(a, 1);
  const at::Tensor &x = a.tensor(0), hx = dense(a.tensor(2)), cx = dense(optional(a, 3));
  const bool bidirectional = a.value(6).toBool(), train = a.value(7).toBool();
  const RecurrentLayers l = layers_of(x, weights, hx, cx, a.value(4).toStringRef(), a.integer(5), bidirectional);
  auto [out, hy, cy, reserve, buffer] =
      at::_cudnn_rnn(x, weights, l.per_layer, buffer_of(l, weights), hx, cx, l.mode, l.width, l.projection, l.layers,
                     /*batch_first=*/false, /*dropout=*/0, train, bidirectional, /*batch_sizes=*/{},
                     /*dropout_state=*/{});
  return Tensors{out, hy, cy, reserve};
}

c10::IValue recurrent_backward(const FunctionArgs& a) {
  const Tensors weights = list(a, 4);
  const at::Tensor &x = a.tensor(3), hx = dense(a.tensor(5)), cx = dense(optional(a, 6));
  const bool bidirectional = a.value(11).toBool(), of_weights = a.value(12).toBool();
  const RecurrentLayers l = layers_of(x, weights, hx, cx, a.value(9).toStringRef(), a.integer(10), bidirectional);
  auto [dx, dh, dc, dw] = at::_cudnn_rnn_backward(
      x, weights, l.per_layer, buffer_of(l, weights), hx, cx, a.tensor(7).contiguous(), optional(a, 0), optional(a, 1),
      optional(a, 2), l.mode, l.width, l.projection, l.layers, /*batch_first=*/false, /*dropout=*/0, /*train=*/true,
      bidirectional, /*batch_sizes=*/{}, /*dropout_state=*/{}, own_reserve(a.tensor(8)),
      std::array<bool, 4>{true, true, cx.defined(), of_weights});
  Tensors made = {dx, dh};
  if (cx.defined()) made.push_back(dc);
  if (of_weights) made.insert(made.end(), dw.begin(), dw.end());
  return made;
}

}  // namespace thunder::aten
