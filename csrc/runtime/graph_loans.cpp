#include "runtime/graph_loans.h"

#include <c10/core/TensorImpl.h>

#include <algorithm>

#include "core/error.h"
#include "runtime/graphs.h"

namespace thunder {
namespace {

constexpr size_t kLooks = 2;  // runs after which a caller is known

using Owner = std::shared_ptr<const GraphRecording>;

}  // namespace

std::pair<at::Tensor, Loan> Loan::lend(const at::Tensor& t, std::shared_ptr<const GraphRecording> recording) {
  c10::StorageImpl& from = *t.storage().unsafeGetStorageImpl();
  // A pointer to a pointer: each loan has a count of its own.
  auto memory = std::make_shared<const Owner>(std::move(recording));
  Loan loan;
  loan.memory_ = memory;
  auto* context = new std::shared_ptr<const Owner>(std::move(memory));
  c10::DataPtr data(
      const_cast<void*>(from.data()), context, [](void* c) { delete static_cast<std::shared_ptr<const Owner>*>(c); },
      from.device());
  c10::Storage storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), from.nbytes(),
                                                             std::move(data), from.allocator(), from.resizable()));
  at::Tensor lent = alias_without_history(t);
  lent.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
  return {std::move(lent), std::move(loan)};
}

bool any_out(const std::vector<Loan>& loans) {
  return std::any_of(loans.begin(), loans.end(), [](const Loan& l) { return l.is_out(); });
}

void Handed::give(const std::vector<c10::IValue>& results, const std::vector<char>& known) {
  given_.clear();
  known_.resize(known.size());
  for (size_t i = 0; i < known.size(); ++i)
    if (const at::Tensor* t = known[i] ? defined_tensor(results[i]) : nullptr; t && t->has_storage())
      given_.push_back({i, t->storage().getWeakStorageImpl()});
}

void Handed::look() {
  for (const Result& r : given_) {
    Known& known = known_[r.index];
    ++known.looks;
    known.kept = known.kept || !r.storage.expired();
  }
  given_.clear();
}

bool Handed::drops(size_t result) const {
  return result < known_.size() && known_[result].looks >= kLooks && !known_[result].kept;
}

bool Handed::drops_any() const {
  for (size_t i = 0; i < known_.size(); ++i)
    if (drops(i)) return true;
  return false;
}

// ---- what a program lends -------------------------------------------------------------------------------------------

bool EntryGraphs::may_lend(const GraphSpecialization& spec) {
  const bool drops = spec.forward.handed.drops_any() || spec.backward.handed.drops_any();
  if (!settings_->automatic || !drops || !spec.lends || !lends_) return false;
  lends_ = !settings_->others_have_streams(index_);
  if (!lends_) ++settings_->why["results are copied: other streams are used beside the current one"];
  return lends_;
}

std::vector<char> EntryGraphs::to_lend(const GraphSpecialization& spec, const ForwardGraph& graph) {
  std::vector<char> out;
  for (size_t i = 0; graph.lends && i < spec.forward.given.size(); ++i) out.push_back(spec.forward.handed.drops(i));
  return out;
}

int64_t GraphSpecialization::pinned_bytes() const {
  int64_t bytes = 0;
  for (const auto& recording : pinned)
    if (const auto alive = recording.lock()) bytes += alive->bytes();
  return bytes;
}

void EntryGraphs::stop_lending(GraphSpecialization& spec, const ForwardGraph& graph) {
  if (spec.lends) ++settings_->why["results are copied: what a replay would overwrite is kept over several calls"];
  spec.lends = false;
  spec.pinned.push_back(graph.recording);
  for (const auto& b : graph.backwards) spec.pinned.push_back(b->recording);
}

// Streams may have come since the recording was made.
void EntryGraphs::ask_about_streams(const GraphSpecialization& spec) {
  if (std::any_of(spec.graphs.begin(), spec.graphs.end(), [](const auto& g) { return g->lends; })) may_lend(spec);
}

}  // namespace thunder
