#include "frontend/alias.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "passes/replay.h"

namespace thunder::frontend {
namespace {

using ViewMap = std::unordered_map<Value, const Call*, ValueHash>;

// `view`: the call stands in the body of an operator whose result PyTorch makes a view, though the primitive is none
// (conj).
void collect_views(const Call& call, ViewMap& made_by, bool view = false) {
  view = view || call.op->has(kView);
  if (call.body.empty()) {
    if (view && call.output.is_value()) made_by[call.output.value()] = &call;
    return;
  }
  for (const Call* inner : call.body) collect_views(*inner, made_by, view);
}

// How many of the call's results view `root`.
size_t views_of(Value root, const Call& call, const ViewMap& made_by) {
  size_t count = 0;
  visit_values(call.output, [&](Value v) {
    for (auto it = made_by.find(v); it != made_by.end(); it = made_by.find(v)) v = viewed(it->second);
    count += v == root;
  });
  return count;
}

}  // namespace

MemoryOf::MemoryOf(const std::vector<const Call*>& calls) {
  for (const Call* c : calls) {
    if (!c->body.empty()) {
      for (const auto& [result, operand] : MemoryOf(c->body).same_) same_.emplace(result, operand);
    } else if (c->op->has(kView | kIdentity) && c->output.is_value()) {
      auto tensors = [&](auto begin, auto end) {
        return std::find_if(begin, end, [](const Arg& a) { return a.is_tensor(); });
      };
      // What is no view returns the data of its last tensor.
      Value of = c->op->has(kView) ? tensors(c->args.begin(), c->args.end())->value()
                                   : tensors(c->args.rbegin(), c->args.rend())->value();
      same_.emplace(c->output.value(), of);
    }
  }
}

Value MemoryOf::operator()(Value v) const {
  for (auto it = same_.find(v); it != same_.end(); it = same_.find(v)) v = it->second;
  return v;
}

Value replay_view(Builder& b, const Call* view, Value of) {
  ArgList args = view->args;
  for (Arg& a : args)
    if (a.is_tensor()) {
      a = of;
      break;
    }
  return b.call(*view->op, std::move(args)).value();
}

TensorId AliasTracker::add(Tensor t) {
  TensorId id = static_cast<TensorId>(tensors_.size());
  t.generation = storages_[t.storage].generation;
  t.no_grad = !t.input && (t.no_grad || !b_.grad_enabled());
  owner_[t.current] = id;
  tensors_.push_back(std::move(t));
  return id;
}

TensorId AliasTracker::add_input(Value v, bool leaf) {
  storages_.push_back({v, 0, static_cast<TensorId>(tensors_.size()), leaf && v.requires_grad(), false});
  Tensor t;
  t.storage = static_cast<uint32_t>(storages_.size() - 1);
  t.current = v;
  t.input = true;
  return add(std::move(t));
}

TensorId AliasTracker::add_result(Value v, const Call* call, bool* fresh) {
  auto owned = owner_.find(v);
  *fresh = owned == owner_.end();
  if (!*fresh) return owned->second;
  ViewMap made_by;
  if (call) collect_views(*call, made_by);
  std::vector<const Call*> path;
  Value root = v;
  for (auto it = made_by.find(root); it != made_by.end(); it = made_by.find(root)) {
    path.push_back(it->second);
    root = viewed(it->second);
  }
  std::reverse(path.begin(), path.end());
  // What was made inside the call has no name outside: its only view stands for it.
  if (!path.empty() && !owner_.count(root) && views_of(root, *call, made_by) == 1) path.clear();
  Tensor t;
  t.current = v;
  if (auto it = owner_.find(root); it != owner_.end() && !path.empty()) {
    const Tensor& base = tensors_[it->second];
    t.storage = base.storage;
    t.path = base.path;
    t.no_grad = base.no_grad && !base.path.empty();
    t.uncounted = base.uncounted;
    t.path.insert(t.path.end(), path.begin(), path.end());
  } else {
    storages_.push_back({v, 0, std::nullopt, false, false});
    t.storage = static_cast<uint32_t>(storages_.size() - 1);
    // A view of something made inside the call: later results of the call may view the same memory.
    if (!path.empty()) {
      storages_.back().base = root;
      t.path = std::move(path);
      owner_.try_emplace(root, static_cast<TensorId>(tensors_.size()));
      has_hidden_ = true;
      Tensor hidden;
      hidden.storage = t.storage;
      hidden.current = root;
      add(std::move(hidden));
    }
  }
  return add(std::move(t));
}

Value AliasTracker::viewed_whole(TensorId of) {
  Value v = value(of);
  std::vector<int64_t> same_order(v.shape().size());
  std::iota(same_order.begin(), same_order.end(), 0);
  return b_("prims.transpose", v, same_order).value();
}

TensorId AliasTracker::add_view(TensorId t, Value v, std::vector<const Call*> path) {
  Tensor made;
  made.storage = tensors_[t].storage;
  made.path = std::move(path);
  made.current = v;
  made.uncounted = tensors_[t].uncounted;
  return add(std::move(made));
}

TensorId AliasTracker::with_gradient(TensorId t, TensorId of) {
  Tensor made = tensors_[of];
  made.input = made.alias = false;
  const std::vector<const Call*> views(tensors_[t].path.begin() + static_cast<long>(made.path.size()),
                                       tensors_[t].path.end());
  const bool enabled = b_.grad_enabled();
  b_.set_grad_enabled(true);
  made.current = value(of);
  for (const Call* view : views) {
    made.current = replay_view(b_, view, made.current);
    made.path.push_back(b_.calls().back());
  }
  b_.set_grad_enabled(enabled);
  return add(std::move(made));
}

bool AliasTracker::requires_grad(TensorId t) {
  if (value(t).requires_grad()) return true;
  const std::vector<const Call*>& path = tensors_[t].path;
  for (size_t i = path.size(); i-- > 0 && !path[i]->op->has(kNoGrad);)
    if (viewed(path[i]).requires_grad()) return true;
  return false;
}

TensorId AliasTracker::add_alias(TensorId of) {
  Tensor t = tensors_[of];
  t.no_grad = !b_.grad_enabled() || (t.no_grad && is_view(of));
  t.input = false;
  t.alias = true;
  tensors_.push_back(std::move(t));
  return static_cast<TensorId>(tensors_.size() - 1);
}

Value AliasTracker::value(TensorId id) {
  Tensor& t = tensors_[id];
  const Storage& s = storages_[t.storage];
  if (t.generation == s.generation) return t.current;
  THUNDER_CHECK(!s.now || storages_[*s.now].generation == 1, NotImplemented, "data",
                "reading a tensor whose memory was given to another by .data, and written to there");
  Value v = s.base;
  for (const Call* view : t.path) v = again(view, v);
  t.current = v;
  t.generation = s.generation;
  owner_[v] = id;
  return v;
}

// With gradients where the view was made with them, wherever the program reads it now.
Value AliasTracker::again(const Call* view, Value of) {
  const bool enabled = b_.grad_enabled();
  b_.set_grad_enabled(view->output.value().requires_grad() || !viewed(view).requires_grad());
  Value v = replay_view(b_, view, of);
  b_.set_grad_enabled(enabled);
  return v;
}

Value AliasTracker::with_strides(Value v, const TensorType& like) {
  if (same(v.tensor().strides, like.strides)) return v;
  return b_("prims.restride", v, like.strides).value();
}

Value AliasTracker::unview(const Call* view, Value base, Value written, const char* op) {
  THUNDER_CHECK(view->op->write_back, NotImplemented, op, "writing in place through ", view->op->schema.name,
                "() is not supported; write to the tensor it views, or clone() it first");
  return view->op->write_back(b_, view->arguments(), Expr(b_, base), Expr(b_, written), op).value();
}

AliasTracker::Checkpoint AliasTracker::checkpoint() const { return {storages_, tensors_}; }

bool AliasTracker::restore(const Checkpoint& before) {
  bool unwritten = true;
  for (size_t i = 0; i < before.storages.size(); ++i)
    unwritten = unwritten && storages_[i].generation == before.storages[i].generation;
  std::copy(before.storages.begin(), before.storages.end(), storages_.begin());
  std::copy(before.tensors.begin(), before.tensors.end(), tensors_.begin());
  return unwritten;
}

void AliasTracker::replay(const Checkpoint& since, const Replay& calls,
                          const std::vector<std::pair<TensorId, TensorId>>& same) {
  for (size_t i = since.storages.size(); i < storages_.size(); ++i) storages_[i].base = calls.now(storages_[i].base);
  for (size_t i = since.tensors.size(); i < tensors_.size(); ++i) {
    Tensor& t = tensors_[i];
    if (t.generation == storages_[t.storage].generation) t.current = calls.now(t.current);
    for (const Call*& view : t.path) view = calls.now(view);
    owner_.try_emplace(t.current, static_cast<TensorId>(i));
  }
  for (const auto& [made, of] : same) {
    const uint32_t storage = tensors_[made].storage;
    for (size_t i = since.tensors.size(); i < tensors_.size(); ++i) {
      Tensor& t = tensors_[i];
      if (t.storage != storage || i == made) continue;
      const std::vector<const Call*>& before = tensors_[of].path;
      t.path.insert(t.path.begin(), before.begin(), before.end());
      t.storage = tensors_[of].storage;
      t.generation = storages_[t.storage].generation;
    }
  }
}

void AliasTracker::take_memory(TensorId t, Value v, TensorId source) {
  Storage taken = storages_[tensors_[t].storage];
  const auto now = static_cast<uint32_t>(storages_.size());
  for (TensorId old : {t, source}) {
    Storage& s = storages_[tensors_[old].storage];
    s.given_away = old == source || s.input;
    ++s.generation;
  }
  storages_[tensors_[source].storage].now = now;
  taken.base = v;
  taken.generation = 1;
  taken.data_only = v.requires_grad();
  taken.moved = true;
  storages_.push_back(std::move(taken));
  Tensor& moved = tensors_[t];
  moved.storage = now;
  moved.current = v;
  moved.generation = 1;
  owner_[v] = t;
}

void AliasTracker::write(TensorId id, Value v, bool grad_enabled, const char* op) {
  THUNDER_CHECK(value(id).tensor().strided(), NotImplemented, op,
                "writing in place to a sparse tensor is not supported");
  THUNDER_CHECK(!given_away(id), NotImplemented, op,
                "writing in place to a tensor whose memory was given to another by .data, or taken from it");
  const std::vector<const Call*> path = tensors_[id].path;
  Storage& s = storages_[tensors_[id].storage];
  Value old_base = s.base;
  check_leaf(id, grad_enabled, op);
  THUNDER_CHECK(!(grad_enabled && v.requires_grad() && tensors_[id].no_grad && is_view(id) && !leaves_graph(path)),
                Runtime, op, kNoGradView);
  THUNDER_CHECK(!(grad_enabled && v.requires_grad() && leaves_graph(path)), NotImplemented, op,
                "writing what requires grad to a tensor through detach() is not supported");
  bool keep_graph = old_base.requires_grad() && (!grad_enabled || leaves_graph(path));
  Value base = keep_graph ? b_("prims.detach", old_base).value() : old_base;

  std::vector<Value> chain{base};
  for (const Call* p : path) chain.push_back(replay_view(b_, p, chain.back()));
  Value result = with_strides(v, chain.back().tensor());
  for (size_t i = path.size(); i-- > 0;) result = unview(path[i], chain[i], result, op);
  result = with_strides(result, old_base.tensor());
  if (keep_graph) result = b_("prims.graft", old_base, result).value();

  // What copy_() gave it may be another tensor's value, and is to be known as this one's.
  if (auto owned = owner_.find(result); path.empty() && owned != owner_.end() && owned->second != id)
    result = b_("prims.same", result).value();

  s.uncounted = tensors_[id].uncounted && (s.generation == 0 || s.uncounted);
  s.data_only = keep_graph && (s.generation == 0 || s.data_only);
  s.base = result;
  ++s.generation;
  if (path.empty()) {
    tensors_[id].current = result;
    tensors_[id].generation = s.generation;
    owner_[result] = id;
  }
}

}  // namespace thunder::frontend
