#include "fuser/lower.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "fuser/elements.h"
#include "fuser/emit_common.h"
#include "fuser/places.h"

namespace thunder::fuser {
namespace {

class Lowering {
 public:
  Lowering(const Walk& walk, const std::vector<Root>& roots, const Producer& producer, const Materialized& materialized,
           const LowerOptions& options)
      : walk_(walk),
        roots_(roots),
        producer_(producer),
        options_(options),
        places_(walk, options.lanes),
        elements_(producer, materialized, options, info_, places_, kernel_) {
    kernel_.rows = walk.rows;
    kernel_.cols = walk.cols;
    kernel_.lanes = options.lanes;
    kernel_.cached = options.cached && walk.reduces;  // else a row has one phase
  }

  Kernel run() {
    choose_order();
    classify();
    if (walk_.reduces || kernel_.rows > 1 || !lower_sections())
      for (size_t level = 0; level <= top_level_; ++level) lower_phase(level);
    lower_finish();
    collect();
    return std::move(kernel_);
  }

 private:
  using Mode = RootInfo::Mode;

  // ---- preparation --------------------------------------------------------------------------------------------------

  // Without reductions elements are walked in the order in which the first output lies in memory.
  void choose_order() {
    if (walk_.reduces) return;
    for (const Root& r : roots_)
      if (r.stored && numel(r.value) == kernel_.numel()) return places_.follow(r.value);
  }

  void classify() {
    for (const Root& r : roots_) {
      RootInfo info;
      info.stored = r.stored;
      const Call* call = producer_(r.value);
      int64_t rows = 0, cols = 0;
      if (kind_of(*call) == Kind::Reduce) {
        info.mode = reduced(*call, rows, cols) == Reduced::Outer ? Mode::Outer : Mode::Inner;
        info.level = level_of(call->arguments().value("a"));
        result_level_[r.value.id()] = info.level + 1;
      } else {
        info.level = level_of(r.value);
        info.mode = depends_on_columns(r.value)         ? Mode::Column
                    : numel(r.value) == kernel_.numel() ? Mode::Full
                    : numel(r.value) == kernel_.rows    ? Mode::Row
                                                        : throw Refused();
      }
      if (info.mode != Mode::Column) top_level_ = std::max(top_level_, info.level);
      info_.emplace(r.value.id(), info);
    }
  }

  size_t level_of(Value v) {
    auto found = result_level_.find(v.id());
    if (found != result_level_.end()) return found->second;
    size_t level = 0;
    if (!elements_.is_leaf(v)) {
      const Call* call = producer_(v);
      // A reduction that is no root of this group would have to be added up for every element.
      if (kind_of(*call) == Kind::Reduce) throw Refused();
      visit_inputs(*call, [&](Value u) { level = std::max(level, level_of(u)); });
    }
    result_level_[v.id()] = level;
    return level;
  }

  bool depends_on_columns(Value v) {
    auto it = info_.find(v.id());
    if (it != info_.end()) return it->second.mode == Mode::Outer || it->second.mode == Mode::Column;
    if (elements_.is_leaf(v)) return false;
    auto [known, fresh] = columns_known_.emplace(v.id(), false);
    if (!fresh) return known->second;
    bool any = false;
    visit_inputs(*producer_(v), [&](Value u) { any = any || depends_on_columns(u); });
    columns_known_[v.id()] = any;
    return any;
  }

  // ---- phases -------------------------------------------------------------------------------------------------------

  void lower_phase(size_t level) {
    elements_.begin_phase();
    for (const Root& r : roots_) {
      RootInfo& info = info_.at(r.value.id());
      if (info.level != level) continue;
      if (info.mode == Mode::Inner) add_up(r.value);
      if (info.mode == Mode::Outer) add_column(r.value, info);
      if (info.mode == Mode::Full && info.stored) store_full(r.value);
      // In program order, so that what comes later finds its operands computed instead of asking ever deeper.
      else if (info.mode == Mode::Full && top_level_ == 0) elements_.element_of_root(r.value, places_.here(r.value));
      if (info.mode == Mode::Row && info.stored) store_row(r.value);
    }
    for (auto& [value, name] : pending_) {
      info_.at(value.id()).name = elements_.rounded(name, value.dtype());
      if (info_.at(value.id()).stored) store_row(value);
    }
    pending_.clear();
  }

  // The cat behind a root.
  const Call* cat_behind(Value v) const {
    while (!elements_.is_leaf(v)) {
      const Call& call = *producer_(v);
      if (call.op->full_name == "prims.cat") return &call;
      if (kind_of(call) != Kind::Pointwise && call.op->full_name != "prims.restride") return nullptr;
      Value next;
      visit_inputs(call, [&](Value u) {
        if (!next) next = u;
      });
      if (!next || sizes(next) != sizes(v)) return nullptr;
      v = next;
    }
    return nullptr;
  }

  // If each part of a cat is worth threads of its own: then no element asks which part it belongs to.
  bool lower_sections() {
    const Call* cat = roots_.size() == 1 && !places_.reordered() ? cat_behind(roots_[0].value) : nullptr;
    if (!cat || numel(roots_[0].value) != kernel_.cols) return false;
    const std::vector<int64_t> shape = sizes(cat->output.value());
    const size_t dim = dim_of(*cat, shape.size());
    int64_t inner = 1, outer = 1;
    for (size_t i = 0; i < dim; ++i) outer *= shape[i];
    for (size_t i = dim + 1; i < shape.size(); ++i) inner *= shape[i];
    std::vector<int64_t> lengths;
    for (Value part : cat->arguments().values("tensors")) lengths.push_back(sizes(part)[dim] * inner);
    for (int64_t n : lengths)
      if (n < options_.section || n % options_.lanes != 0) return false;
    if (lengths.size() < 2) return false;
    int64_t base = 0;
    for (int64_t n : lengths) {
      places_.enter_section(outer, n, shape[dim] * inner, base);
      elements_.forget();
      lower_phase(0);
      kernel_.phases.back().chunks = outer * (n / options_.lanes);
      base += n;
    }
    return true;
  }

  static Combine combine_of(const Call& call) {
    const std::string& name = call.op->full_name;
    if (name == "prims.sum") return Combine::Add;
    if (name == "prims.prod") return Combine::Mul;
    if (name == "prims.amax") return Combine::Max;
    if (name == "prims.amin") return Combine::Min;
    return name == "prims.any" ? Combine::Or : Combine::And;
  }

  void add_up(Value v) {
    const Call& call = *producer_(v);
    Scalar s = elements_.operand(call);
    const std::string name = elements_.fresh("sum");
    const Combine combine = combine_of(call);
    Phase& p = kernel_.phases.back();
    p.lane.push_back(name + " = " + combine_function(combine) + "(" + name + ", " + s.text + ");");
    p.reductions.push_back({name, compute_name(v.dtype()), combine});
    pending_.emplace_back(v, name);
  }

  void add_column(Value v, RootInfo& info) {
    const Call& call = *producer_(v);
    Scalar s = elements_.operand(call);
    const std::string name = elements_.fresh("col"), sum = "TH_COLUMN(" + name + ")";
    const Combine combine = combine_of(call);
    info.name = elements_.rounded(name, v.dtype());
    kernel_.phases.back().lane.push_back(sum + " = " + combine_function(combine) + "(" + sum + ", " + s.text + ");");
    kernel_.columns.push_back({name, compute_name(v.dtype()), combine});
  }

  std::string output(Value v) {
    auto known = std::find(kernel_.outputs.begin(), kernel_.outputs.end(), v);
    if (known == kernel_.outputs.end()) known = kernel_.outputs.insert(known, v);
    return "out" + std::to_string(known - kernel_.outputs.begin());
  }

  // The statement that stores an element of an output in memory.
  std::string store(Value v, const Multi& index, const Scalar& s) {
    const std::string at = places_.indices().text(places_.offset(v.tensor(), index));
    return "th_set(" + output(v) + "[" + at + "], " + s.text + ");";
  }

  void store_full(Value v) {
    Multi index = places_.here(v);
    Scalar s = elements_.element_of_root(v, index);
    Index at = places_.offset(v.tensor(), index);
    Phase& p = kernel_.phases.back();
    if (!places_.is_vector(at)) return p.lane.push_back(store(v, index, s));
    const std::string lanes = std::to_string(options_.lanes), y = elements_.fresh("y");
    const std::string start = places_.indices().text(places_.without_lane(at));
    p.chunk.push_back("Vec<" + storage_name(v.dtype()) + ", " + lanes + "> " + y + ";");
    p.lane.push_back("th_set(" + y + ".at[j], " + s.text + ");");
    p.stores.push_back("th_store_vector(" + output(v) + " + (" + start + "), " + y + ");");
  }

  void store_row(Value v) {
    Multi index = places_.delinearize(places_.row(), sizes(v));
    Scalar s = elements_.element(v, index);
    if (s.scope != Scope::Row) throw Refused();
    kernel_.row_stores.push_back(store(v, index, s));
  }

  void lower_finish() {
    if (kernel_.columns.empty()) return;
    elements_.begin_finish();
    for (const Root& r : roots_) {
      const RootInfo& info = info_.at(r.value.id());
      if (!info.stored || (info.mode != Mode::Outer && info.mode != Mode::Column)) continue;
      if (numel(r.value) != kernel_.cols) throw Refused();
      Multi index = places_.delinearize(places_.finish_column(), sizes(r.value));
      Scalar s = elements_.element(r.value, index);
      kernel_.finish.push_back(store(r.value, index, s));
    }
  }

  void collect() {
    elements_.collect();
    kernel_.wide = places_.wide();
    kernel_.divides = places_.indices().divides();
    for (const Root& r : roots_)
      if (!std::count(kernel_.calls.begin(), kernel_.calls.end(), producer_(r.value))) throw Refused();
    if (kernel_.outputs.empty()) throw Refused();
  }

  const Walk& walk_;
  const std::vector<Root>& roots_;
  const Producer& producer_;
  const LowerOptions& options_;

  Kernel kernel_;
  RootInfos info_;
  Places places_;
  Elements elements_;
  std::map<ValueId, size_t> result_level_;
  std::map<ValueId, bool> columns_known_;
  size_t top_level_ = 0;
  std::vector<std::pair<Value, std::string>> pending_;
};

// The innermost dimension, as the first root lies in memory, as columns.
Walk with_rows(const std::vector<Root>& roots, Walk walk) {
  for (const Root& r : roots) {
    if (!r.stored || numel(r.value) != walk.cols) continue;
    const TensorType& t = r.value.tensor();
    int64_t inner = 1, stride = INT64_MAX;
    for (size_t i = 0; i < t.shape.size(); ++i)
      if (t.shape[i].constant() > 1 && t.strides[i].constant() < stride)
        stride = t.strides[i].constant(), inner = t.shape[i].constant();
    return {walk.cols / inner, inner, false};
  }
  return walk;
}

}  // namespace

bool walk_of(const std::vector<Root>& roots, const Producer& producer, Walk& walk) {
  walk = {};
  int64_t longest = 1;
  for (const Root& r : roots) {
    const Call* call = producer(r.value);
    longest = std::max(longest, numel(r.value));
    if (kind_of(*call) != Kind::Reduce) continue;
    int64_t rows = 0, cols = 0;
    if (reduced(*call, rows, cols) == Reduced::Neither) return false;
    if (walk.reduces && (rows != walk.rows || cols != walk.cols)) return false;
    walk = {rows, cols, true};
  }
  if (walk.reduces) return longest <= walk.rows * walk.cols;
  walk = {1, longest, false};
  return true;
}

std::optional<Kernel> lower(const std::vector<Root>& roots, const Producer& producer, const Materialized& materialized,
                            const LowerOptions& options) {
  Walk walk;
  if (!walk_of(roots, producer, walk)) return std::nullopt;
  try {
    Kernel kernel = Lowering(walk, roots, producer, materialized, options).run();
    if (walk.reduces || !options.split_rows || !kernel.divides) return kernel;
    walk = with_rows(roots, walk);
    return Lowering(walk, roots, producer, materialized, options).run();
  } catch (const Refused&) {
    return std::nullopt;
  }
}

}  // namespace thunder::fuser
