#include <Python.h>  // before the standard library, as it asks

#include "runtime/guards.h"

#include <ATen/Context.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <vector>

#include "runtime/convert.h"
#include "runtime/torch_py.h"
#include "runtime/watchers.h"

// Declared by hand: ATen/autocast_mode.h includes every operator.
namespace at::autocast {
TORCH_API at::ScalarType get_autocast_dtype(at::DeviceType device_type);
TORCH_API bool is_autocast_cache_enabled();
}  // namespace at::autocast

namespace thunder {
namespace {

// Of the dispatch keys, those that change what an operator does to the tensor; the rest follows from dtype and device.
constexpr c10::DispatchKeySet kRelevantKeys = c10::DispatchKeySet(
    {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative, c10::DispatchKey::ZeroTensor, c10::DispatchKey::Python,
     c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper, c10::DispatchKey::Functionalize,
     c10::DispatchKey::ADInplaceOrView});

constexpr const char* kGlobalNames[] = {"grad mode, autocast cache, deterministic algorithms or attention backends",
                                        "dispatch state (autocast, inference "
                                        "mode, functorch)",
                                        "dispatch state (autocast, inference mode, functorch)",
                                        "autocast or default dtype", "active function or dispatch modes"};
// Of alias_class(): which earlier tensor, and whether it is that one; not how far the data is from that one's.
constexpr uint64_t kAliasOf = (1ull << 24) - 1;
constexpr size_t kGlobalWords = std::size(kGlobalNames);

// Where requires_grad() looks in torch::autograd::AutogradMeta, whose header includes half of PyTorch: the virtual
// table and grad_fn_, then requires_grad_.  Only for prefetching.
constexpr size_t kGradFnEnd = 64, kRequiresGrad = 128;

// Identifies the memory that a tensor lies on; the tensor itself where it has no storage.
const void* storage_of(const c10::TensorImpl* impl) {
  return impl->has_storage() ? static_cast<const void*>(impl->unsafe_storage().unsafeGetStorageImpl()) : impl;
}

size_t metadata_words(const c10::TensorImpl* impl) { return 2 + 2 * impl->sizes().size(); }

uint64_t alignment_bit(const c10::TensorImpl* impl) {
  if (!impl->has_storage()) return 0;
  auto base =
      reinterpret_cast<uintptr_t>(impl->unsafe_storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get());
  bool aligned = ((base + static_cast<uintptr_t>(impl->storage_offset()) * impl->itemsize()) & 15) == 0;
  return static_cast<uint64_t>(aligned) << 42;
}

// Dtype, device, rank and what changes how operators treat the tensor.
void write_kind(const c10::TensorImpl* impl, uint64_t* w) {
  const size_t rank = impl->sizes().size();
  const c10::Device device = impl->device();
  w[0] = static_cast<uint64_t>(c10::typeMetaToScalarType(impl->dtype())) | static_cast<uint64_t>(device.type()) << 8 |
         static_cast<uint64_t>(static_cast<uint8_t>(device.index())) << 16 | static_cast<uint64_t>(rank) << 24 |
         static_cast<uint64_t>(impl->requires_grad()) << 40 | static_cast<uint64_t>(impl->is_wrapped_number()) << 41 |
         static_cast<uint64_t>(impl->layout()) << 48;
  w[1] = (impl->key_set() & kRelevantKeys).raw_repr();
}

// All that a compiled program assumes about a tensor but its aliases and its alignment, in metadata_words() words.
void write_metadata(const c10::TensorImpl* impl, uint64_t* w) {
  bool strided = impl->layout() == c10::kStrided;
  c10::IntArrayRef sizes = impl->sizes(), strides = strided ? impl->strides() : c10::IntArrayRef();
  const size_t rank = sizes.size();
  write_kind(impl, w);
  for (size_t i = 0; i < rank; ++i) {
    w[2 + i] = static_cast<uint64_t>(sizes[i]);
    w[2 + rank + i] = strided ? static_cast<uint64_t>(strides[i]) : 0;
  }
}

// The device of torch.set_default_device() or of `with torch.device(...)`, which are function modes of Python: the
// innermost.
uint64_t hash_of_default_device(int64_t modes) {
  Py_hash_t hash = 0;
  for (int64_t i = modes; i-- > 0 && hash == 0;) {
    PyObject* mode = function_mode_at(i);
    PyObject* device = mode && is_device_mode(mode) ? PyObject_GetAttrString(mode, "device") : nullptr;
    if (device) hash = PyObject_Hash(device);
    Py_XDECREF(device);
    Py_XDECREF(mode);
  }
  if (PyErr_Occurred()) PyErr_Clear();
  return static_cast<uint64_t>(hash);
}

uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9E3779B97F4A7C15ull;
  return h ^ (h >> 32);
}

}  // namespace

// An open-addressing table from storages to the tensors seen on them; emptied by counting up its generation.
struct Fingerprint::SeenTable {
  struct Slot {
    Seen seen;
    uint32_t generation = 0;
  };
  std::vector<Slot> slots = std::vector<Slot>(1024);
  uint32_t generation = 1, count = 0;

  void clear() {
    ++generation;
    count = 0;
  }
  size_t start(const void* storage) const {
    return (reinterpret_cast<uintptr_t>(storage) >> 4) * 0x9E3779B97F4A7C15ull >> 20 & (slots.size() - 1);
  }
  // Calls `look` for all entries whose place is in the probe sequence of `storage`; returns the free slot at its end.
  template <class F>
  size_t probe(const void* storage, F&& look) const {
    size_t i = start(storage);
    for (; slots[i].generation == generation; i = (i + 1) & (slots.size() - 1)) look(slots[i].seen);
    return i;
  }
  void insert(size_t slot, const Seen& seen) {
    slots[slot] = {seen, generation};
    if (++count * 2 > slots.size()) enlarge();
  }
  void enlarge() {
    std::vector<Slot> old(slots.size() * 2);
    old.swap(slots);
    for (const Slot& s : old)
      if (s.generation == generation) slots[probe(s.seen.storage, [](const Seen&) {})] = s;
  }
};

namespace {
// Tables that no fingerprint uses: one is 32 KB, and a key of a call lives as long as the call.
thread_local std::vector<std::unique_ptr<Fingerprint::SeenTable>> idle_tables;
}  // namespace

void Fingerprint::take_table() {
  if (idle_tables.empty()) {
    more_seen_ = std::make_unique<SeenTable>();
    return;
  }
  more_seen_ = std::move(idle_tables.back());
  idle_tables.pop_back();
  more_seen_->clear();
}

Fingerprint::Fingerprint() : words_(inline_) {}
Fingerprint::~Fingerprint() {
  if (words_ != inline_) delete[] words_;
  if (more_seen_ && idle_tables.size() < 4) idle_tables.push_back(std::move(more_seen_));
}

void Fingerprint::grow(size_t more) {
  size_t capacity = std::max(capacity_ * 2, size_ + more);
  auto* words = new uint64_t[capacity];
  std::memcpy(words, words_, size_ * sizeof(uint64_t));
  if (words_ != inline_) delete[] words_;
  words_ = words;
  capacity_ = capacity;
}

void Fingerprint::copy(const Fingerprint& other) {
  size_ = 0;
  reserve(other.size_);
  std::memcpy(words_, other.words_, other.size_ * sizeof(uint64_t));
  size_ = other.size_;
}

void Fingerprint::begin() {
  size_ = 0;
  tensors_ = 0;
  filter_ = 0;
  if (more_seen_) more_seen_->clear();
  const auto& keys = c10::impl::tls_local_dispatch_key_set();
  auto& context = at::globalContext();
  words_[0] = static_cast<uint64_t>(c10::GradMode::is_enabled()) |
              static_cast<uint64_t>(at::autocast::is_autocast_cache_enabled()) << 1 |
              static_cast<uint64_t>(context.deterministicAlgorithms()) << 2 |
              static_cast<uint64_t>(context.deterministicAlgorithmsWarnOnly()) << 3 |
              static_cast<uint64_t>(context.userEnabledFlashSDP()) << 4 |
              static_cast<uint64_t>(context.userEnabledMemEfficientSDP()) << 5 |
              static_cast<uint64_t>(context.userEnabledCuDNNSDP()) << 6 |
              static_cast<uint64_t>(context.userEnabledCuDNN()) << 7;
  words_[1] = keys.included_.raw_repr();
  words_[2] = keys.excluded_.raw_repr();
  words_[3] = static_cast<uint64_t>(at::autocast::get_autocast_dtype(at::kCPU)) |
              static_cast<uint64_t>(at::autocast::get_autocast_dtype(at::kCUDA)) << 8 |
              static_cast<uint64_t>(c10::get_default_dtype_as_scalartype()) << 16;
  words_[4] = static_cast<uint64_t>(at::impl::PythonTorchFunctionTLS::stack_len()) |
              static_cast<uint64_t>(at::impl::PythonTorchFunctionTLS::get_disabled_state()) << 24 |
              static_cast<uint64_t>(c10::impl::TorchDispatchModeTLS::stack_len()) << 32;
  size_ = kGlobalWords;
  saw_gpu_ = false;
  const int64_t modes = at::impl::PythonTorchFunctionTLS::stack_len();
  const bool disabled = (words_[4] >> 24 & 0xFF) != at::impl::TorchFunctionDisabledState::ENABLED;
  watched_ = !ignores_watchers() && (disabled || !((keys.included_ - keys.excluded_) & kWatchingKeys).empty() ||
                                     (modes > 0 && any_function_mode()));
  if (modes > 0) add_number(hash_of_default_device(modes));
}

// 0 for a tensor that shares nothing.  Else the first earlier one that it is, or whose storage it shares: its index
// plus 1, a bit that tells the two apart, and how far the data lies from that one's.
uint64_t Fingerprint::alias_class(const at::Tensor& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const void* storage = storage_of(impl);
  Seen now{storage, impl, tensors_++};
  const Seen* first = nullptr;
  auto look = [&](const Seen& s) {
    if (s.storage != storage) return;
    if (!first || (s.tensor == impl && first->tensor != impl)) first = &s;
  };
  // Most tensors share nothing: one bit says so for most of those.
  uint64_t bit = 1ull << ((reinterpret_cast<uintptr_t>(storage) >> 4) * 0x9E3779B97F4A7C15ull >> 58);
  if (filter_ & bit) {
    uint32_t in_array = std::min<uint32_t>(now.index, kInlineSeen);
    for (uint32_t i = 0; i < in_array; ++i) look(seen_[i]);
  }
  if (now.index < kInlineSeen) filter_ |= bit;
  uint64_t result = 0;
  auto encode = [&] {
    if (!first) return;
    auto offset = [](const c10::TensorImpl* t) { return t->storage_offset() * static_cast<int64_t>(t->itemsize()); };
    auto distance = static_cast<uint64_t>(offset(impl) - offset(first->tensor));
    result = (static_cast<uint64_t>(first->index) + 1) << 1 | (first->tensor == impl) | distance << 24;
  };
  if (now.index < kInlineSeen) {
    encode();
    seen_[now.index] = now;
    return result;
  }
  if (!more_seen_) take_table();
  size_t slot = more_seen_->probe(storage, look);
  encode();
  more_seen_->insert(slot, now);
  return result;
}

void Fingerprint::note_gpu(const c10::TensorImpl* impl) {
  if (saw_gpu_ || !impl->is_cuda()) return;
  saw_gpu_ = true;
  add_number(static_cast<uint64_t>(current_device_index(DeviceType::cuda)));  // what "cuda" means in the program
}

bool Fingerprint::add_kind(const at::Tensor& tensor, bool* repeated) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  note_gpu(impl);
  reserve(3);
  const uint64_t alias = alias_class(tensor) & kAliasOf;
  words_[size_] = alias;
  write_kind(impl, words_ + size_ + 1);
  words_[size_ + 1] |= alignment_bit(impl);
  size_ += 3;
  *repeated = (alias & 1) != 0;
  return impl->layout() == c10::kStrided;
}

void Fingerprint::add(const at::Tensor& tensor) {
  if (!tensor.defined()) return add_number(~0ull);
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  note_gpu(impl);
  size_t words = metadata_words(impl);
  reserve(1 + words);
  words_[size_] = alias_class(tensor);
  write_metadata(impl, words_ + size_ + 1);
  words_[size_ + 1] |= alignment_bit(impl);
  size_ += 1 + words;
}

CapturedTensors::CapturedTensors(const std::vector<PyObject*>& tensors) {
  for (PyObject* t : tensors) {
    const c10::TensorImpl* impl = torch_py::tensor(t).unsafeGetTensorImpl();
    auto count = static_cast<uint32_t>(metadata_words(impl));
    items_.push_back(
        {t, Py_TYPE(t), impl, storage_of(impl), impl->storage_offset(), static_cast<uint32_t>(words_.size()), count});
    words_.resize(words_.size() + count);
    write_metadata(impl, words_.data() + items_.back().first);
    storages_.push_back(items_.back().storage);
  }
  std::sort(storages_.begin(), storages_.end());
}

bool CapturedTensors::unchanged(const std::vector<PyObject*>& tensors) const {
  if (tensors.size() != items_.size()) return false;
  c10::SmallVector<uint64_t, 32> now;
  for (size_t i = 0; i < items_.size(); ++i) {
    const Item& item = items_[i];
    const c10::TensorImpl* impl = torch_py::tensor(tensors[i]).unsafeGetTensorImpl();
    if (impl != item.impl || Py_TYPE(tensors[i]) != item.type || storage_of(impl) != item.storage ||
        impl->storage_offset() != item.offset || metadata_words(impl) != item.count)
      return false;
    now.resize(item.count);
    write_metadata(impl, now.data());
    if (std::memcmp(now.data(), words_.data() + item.first, item.count * sizeof(uint64_t)) != 0) return false;
  }
  return true;
}

bool CapturedTensors::shares_memory(const at::Tensor& tensor) const {
  return tensor.defined() &&
         std::binary_search(storages_.begin(), storages_.end(), storage_of(tensor.unsafeGetTensorImpl()));
}

void CapturedTensors::add_lines(const std::function<void(const void*, size_t)>& add) const {
  for (const Item& item : items_) {
    add(&torch_py::tensor(item.object), sizeof(at::Tensor));
    add(item.impl, sizeof(c10::TensorImpl));
    if (const auto* meta = reinterpret_cast<const char*>(item.impl->autograd_meta())) {
      add(meta, kGradFnEnd);
      add(meta + kRequiresGrad, 1);
    }
  }
  add(items_.data(), items_.size() * sizeof(Item));
  add(words_.data(), words_.size() * sizeof(uint64_t));
}

// Four lanes, since a multiplication waits for the one before it in its lane.
uint64_t Fingerprint::hash() const {
  uint64_t lanes[4] = {1, 2, 3, size_};
  size_t i = 0;
  for (; i + 4 <= size_; i += 4)
    for (size_t k = 0; k < 4; ++k) lanes[k] = mix(lanes[k], words_[i + k]);
  for (; i < size_; ++i) lanes[0] = mix(lanes[0], words_[i]);
  return mix(mix(lanes[0], lanes[1]), mix(lanes[2], lanes[3]));
}

std::string global_state_difference(const Fingerprint& a, const Fingerprint& b) {
  for (size_t i = 0; i < kGlobalWords; ++i)
    if (a.word(i) != b.word(i)) return kGlobalNames[i];
  return {};
}

}  // namespace thunder
