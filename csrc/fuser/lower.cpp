#include "fuser/lower.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>

#include "fuser/elements.h"
#include "fuser/emit_common.h"
#include "fuser/places.h"
#include "fuser/walk.h"

namespace thunder::fuser {
namespace {

constexpr int64_t kLongRow = 1024;  // elements
constexpr int64_t kShortRow = 16;
constexpr int64_t kTransposedRow = 32;
constexpr int64_t kTransposedUnit = 16;  // rows that make a vector of the narrowest type

class KernelLowering {
 public:
  KernelLowering(const Walk& walk, const std::vector<Root>& roots, const Producer& producer,
                 const Materialized& materialized, const LowerOptions& options)
      : walk_(walk),
        roots_(roots),
        producer_(producer),
        options_(options),
        places_(walk, options.lanes),
        made_(options, places_, kernel_),
        elements_(producer, materialized, info_, made_) {
    kernel_.rows = walk.rows;
    kernel_.cols = walk.cols;
    kernel_.usual_rows = usual(walk.rows);
    kernel_.usual_cols = usual(walk.cols);
    kernel_.lanes = options.lanes;
    kernel_.tiled = walk.tiled;
    // A thread has one chunk, or as many as its registers must then be for.
    kernel_.cached = options.cached && (walk.reduces || !walk.rows.is(1)) && walk.cols.is_number() && !walk.tiled;
    if (!walk.reduces) return;
    elements_.kept().keep_rows();
    if (options.in_outputs && options.part == 0 && !options.online)
      elements_.kept().keep_in_outputs([&](const std::string& type, size_t phase) { return lend_output(type, phase); });
  }

  Kernel run() {
    choose_order();
    classify();
    join_online_sums();
    if (walk_.reduces || !kernel_.rows.is(1) || !lower_sections())
      for (size_t level = 0; level <= top_level_; ++level) lower_phase(level);
    check_online_sums();
    lower_finish();
    collect();
    return std::move(kernel_);
  }

 private:
  using Mode = RootInfo::Mode;

  // ---- preparation --------------------------------------------------------------------------------------------------

  // Without reductions elements are walked in the order in which the first output lies in memory.
  void choose_order() {
    if (walk_.reduces) return places_.follow(walk_.order, walk_.shape);
    if (walk_.tiled) return;
    for (const Root& r : roots_)
      if (r.stored && numel(r.value) == kernel_.numel()) return places_.follow(r.value);
  }

  void classify() {
    for (const Root& r : roots_) {
      RootInfo info;
      info.stored = r.stored;
      const Call* call = producer_(r.value);
      if (walk_.tiled && kind_of(*call) == Kind::Reduce) {
        info.mode = Mode::Extremum;
      } else if (kind_of(*call) == Kind::Reduce) {
        info.mode = walk_.rows_apart || reduction_of(*call).which == Reduced::Inner ? Mode::Inner : Mode::Outer;
        info.level = level_of(call->arguments().value("a"));
        result_level_[r.value.id()] = info.level + 1;
      } else {
        info.level = level_of(r.value);
        info.mode = depends_on_columns(r.value)         ? Mode::Column
                    : numel(r.value) == kernel_.numel() ? Mode::Full
                    : numel(r.value) == kernel_.rows    ? Mode::Row
                                                        : throw Refused();
        if (walk_.tiled && info.mode != Mode::Full) throw Refused();
        info.transposed = walk_.tiled && transposed_source(r.value, producer_);
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
      visit_all_inputs(*call, [&](Value u) { level = std::max(level, level_of(u)); });
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
    visit_all_inputs(*producer_(v), [&](Value u) { any = any || depends_on_columns(u); });
    columns_known_[v.id()] = any;
    return any;
  }

  // The row's maximum and the sum of exp(x - maximum) in one walk: each time the maximum grows, the sum is scaled.
  // Only where that saves loading the row again.
  void join_online_sums() {
    if (!options_.online) return;
    const bool walked_again = std::any_of(roots_.begin(), roots_.end(), [&](const Root& r) {
      const RootInfo& info = info_.at(r.value.id());
      return info.mode != Mode::Row && (info.mode != Mode::Inner || info.level > 1);
    });
    if (walked_again) return;
    for (const Root& r : roots_) {
      RootInfo& sum = info_.at(r.value.id());
      if (sum.mode != Mode::Inner || sum.level != 1 || !is_call(r.value, "prims.sum")) continue;
      const Value maximum = maximum_under(operand_of(r.value));
      if (maximum) online_.emplace(maximum.id(), r.value);
    }
    // Others that need the maximum walk all the same.
    size_t at_level_1 = 0;
    for (const Root& r : roots_)
      at_level_1 += info_.at(r.value.id()).mode == Mode::Inner && info_.at(r.value.id()).level == 1;
    if (at_level_1 != online_.size()) return online_.clear();
    for (const auto& [maximum, sum] : online_) info_.at(sum.id()).level = 0;
    if (!online_.empty()) kernel_.cached = false;
  }

  bool is_call(Value v, std::string_view name) const {
    return !elements_.is_leaf(v) && producer_(v)->op->full_name == name;
  }
  Value operand_of(Value v) const { return producer_(v)->arguments().value("a"); }

  // The maximum of x where `v` is exp(x - maximum), in a type that knows no rounding of its own.
  Value maximum_under(Value v) const {
    if (!is_call(v, "prims.exp") || (v.dtype() != DType::f32 && v.dtype() != DType::f64)) return {};
    const Value difference = operand_of(v);
    if (!is_call(difference, "prims.sub")) return {};
    const Args a = producer_(difference)->arguments();
    if (!a["a"].is_tensor() || !a["b"].is_tensor()) return {};
    Value m = a.value("b");
    while (!elements_.is_leaf(m) && kind_of(*producer_(m)) == Kind::Move && producer_(m)->op->has(kView))
      m = operand_of(m);
    auto root = info_.find(m.id());
    const bool found = root != info_.end() && root->second.mode == Mode::Inner && is_call(m, "prims.amax") &&
                       operand_of(m) == a.value("a") && m.dtype() == v.dtype();
    return found ? m : Value();
  }

  // ---- phases -------------------------------------------------------------------------------------------------------

  bool reduces(size_t level) const {
    return std::any_of(roots_.begin(), roots_.end(), [&](const Root& r) {
      const RootInfo& info = info_.at(r.value.id());
      return info.level == level && (info.mode == Mode::Inner || info.mode == Mode::Outer);
    });
  }

  void lower_phase(size_t level) {
    elements_.begin_phase();
    if (options_.part > 0 && walk_.reduces) {
      kernel_.phases.back().part = reduces(level) ? 0 : options_.part;
      places_.enter_parts(kernel_.phases.back().part);
    }
    places_.indices().forget_divisions();
    lower_roots(level);
    note_divisions();
  }

  void note_divisions() {
    const Indices& indices = places_.indices();
    kernel_.phases.back().divides = indices.division() != Division::None;
    kernel_.division = std::max(kernel_.division, indices.division());
    kernel_.common_divisor = std::gcd(kernel_.common_divisor, indices.common_divisor());
  }

  void lower_roots(size_t level) {
    for (const Root& r : roots_) {
      RootInfo& info = info_.at(r.value.id());
      if (info.level != level) continue;
      if (info.mode == Mode::Inner && online_.count(r.value.id())) add_up_online(r.value);
      else if (info.mode == Mode::Inner && !joined(r.value)) add_up(r.value);
      if (info.mode == Mode::Outer) add_column(r.value, info);
      if (info.mode == Mode::Extremum) add_extremum(r.value);
      if (info.mode == Mode::Full && info.stored) info.transposed ? store_transposed(r.value) : store_full(r.value);
      // In program order, so that what comes later finds its operands computed instead of asking ever deeper.
      else if (info.mode == Mode::Full && top_level_ == 0)
        elements_.element_of_root(r.value, places_.root_here(r.value));
      if (info.mode == Mode::Row && info.stored) store_row(r.value);
    }
    for (auto& [value, name] : pending_) {
      info_.at(value.id()).name = elements_.rounded(name, value);
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
      visit_all_inputs(call, [&](Value u) {
        if (!next && u.type().is_tensor()) next = u;
      });
      if (!next || !(sizes(next) == sizes(v))) return nullptr;
      v = next;
    }
    return nullptr;
  }

  // If each part of a cat is worth threads of its own: then no element asks which part it belongs to.
  bool lower_sections() {
    const Call* cat = roots_.size() == 1 && !places_.reordered() ? cat_behind(roots_[0].value) : nullptr;
    if (!cat || !(numel(roots_[0].value) == kernel_.cols) || !kernel_.cols.is_number()) return false;
    std::vector<int64_t> shape;
    for (const Size& n : sizes(cat->output.value())) {
      if (!n.is_number()) return false;
      shape.push_back(n.number());
    }
    const size_t dim = dim_of(*cat, shape.size());
    int64_t inner = 1, outer = 1;
    for (size_t i = 0; i < dim; ++i) outer *= shape[i];
    for (size_t i = dim + 1; i < shape.size(); ++i) inner *= shape[i];
    std::vector<int64_t> lengths;
    for (Value part : cat->arguments().values("tensors")) lengths.push_back(sizes(part)[dim].number() * inner);
    for (int64_t n : lengths)
      if (n < options_.section || n % options_.lanes != 0) return false;
    if (lengths.size() < 2) return false;
    int64_t base = 0;
    for (int64_t n : lengths) {
      places_.enter_section(outer, n, shape[dim] * inner, base);
      made_.statements.forget();
      lower_phase(0);
      kernel_.phases.back().chunks = outer * (n / options_.lanes);
      base += n;
    }
    return true;
  }

  void add_up(Value v) {
    const Call& call = *producer_(v);
    Scalar s = elements_.operand(call);
    const std::string name = made_.statements.fresh("sum");
    const Combine combine = call.op->combine;
    Phase& p = kernel_.phases.back();
    p.lane.push_back(name + " = " + combine_function(combine) + "(" + name + ", " + s.text + ");");
    p.reductions.push_back({name, compute_name(v.dtype()), combine, ""});
    pending_.emplace_back(v, name);
  }

  bool joined(Value v) const {
    return std::any_of(online_.begin(), online_.end(), [&](const auto& o) { return o.second == v; });
  }

  void add_up_online(Value v) {
    const Value sum_value = online_.at(v.id());
    const Scalar s = elements_.operand(*producer_(v));
    const std::string type = compute_name(v.dtype()), maximum = made_.statements.fresh("sum"),
                      sum = made_.statements.fresh("sum"), terms = made_.statements.fresh("v");
    Phase& p = kernel_.phases.back();
    p.chunk.push_back(type + " " + terms + "[" + std::to_string(options_.lanes) + "];");
    p.lane.push_back(terms + "[j] = " + s.text + ";");
    p.stores.push_back("th_online<" + std::to_string(options_.lanes) + ">(" + maximum + ", " + sum + ", " + terms +
                       ");");
    p.reductions.push_back({maximum, type, Combine::Max, ""});
    p.reductions.push_back({sum, type, Combine::Add, maximum});
    pending_.emplace_back(v, maximum);
    pending_.emplace_back(sum_value, sum);
    online_sums_.push_back(sum_value);
  }

  // What the sum stands for: its calls, and whether the maximum that it is under is the row's own.
  void check_online_sums() {
    for (Value v : online_sums_) {
      const Args a = producer_(operand_of(operand_of(v)))->arguments();
      elements_.begin_phase();
      elements_.operand(*producer_(v));
      const Scalar m = elements_.element(a.value("b"), places_.here(a.value("b")));
      kernel_.phases.pop_back();
      if (m.scope != LoopScope::Row) throw Refused();
    }
  }

  void add_column(Value v, RootInfo& info) {
    const Call& call = *producer_(v);
    Scalar s = elements_.operand(call);
    const std::string name = made_.statements.fresh("col"), sum = "TH_COLUMN(" + name + ")";
    const Combine combine = call.op->combine;
    info.name = elements_.rounded(walks_all_rows() ? sum : name, v);
    kernel_.phases.back().lane.push_back(sum + " = " + combine_function(combine) + "(" + sum + ", " + s.text + ");");
    kernel_.columns.push_back({name, compute_name(v.dtype()), combine, ""});
  }

  void add_extremum(Value v) {
    const Call& call = *producer_(v);
    const Scalar s = elements_.operand(call);
    const Combine combine = call.op->combine;
    const std::string name = made_.statements.fresh("extremum");
    kernel_.extrema.push_back({name, compute_name(v.dtype()), combine, ""});
    kernel_.phases.back().lane.push_back(name + " = " + combine_function(combine) + "(" + name + ", " + s.text + ");");
    kernel_.finish.push_back("th_set(out" + std::to_string(output(v)) + "[0], " + name + ");");
  }

  size_t output(Value v) {
    auto known = std::find(kernel_.outputs.begin(), kernel_.outputs.end(), v);
    if (known == kernel_.outputs.end()) known = kernel_.outputs.insert(known, v);
    return static_cast<size_t>(known - kernel_.outputs.begin());
  }

  // The statement that stores an element of an output in memory.
  std::string store(Value v, const Index& at, const Scalar& s) {
    return "th_set(out" + std::to_string(output(v)) + "[" + places_.indices().text(at) + "], " + s.text + ");";
  }

  // The last phase stores this output last, so that each kept element is read before its place is overwritten.
  std::string lend_output(const std::string& type, size_t phase) {
    Value last;
    for (const Root& r : roots_) {
      const RootInfo& info = info_.at(r.value.id());
      if (info.level != top_level_ || info.mode == Mode::Row || info.mode == Mode::Column) continue;
      // A reduction behind the store may read the kept element.
      last = info.mode == Mode::Full && r.stored ? r.value : Value();
    }
    if (!last || lent_ || storage_name(last.dtype()) != type || compute_name(last.dtype()) != type) return {};
    // Each element needs a place of its own.
    if (!is_non_overlapping_and_dense(last.shape(), last.tensor().strides)) return {};
    lent_ = last;
    const Index at = places_.offset(last.tensor(), places_.root_here(last));
    writes_.push_back(
        {output(last), places_.without_parts(at), phase, LoopScope::Lane, kernel_.phases[phase].lane.size()});
    return "out" + std::to_string(output(last)) + "[" + places_.indices().text(at) + "]";
  }

  void store_full(Value v) {
    Multi index = places_.root_here(v);
    Scalar s = elements_.element_of_root(v, index);
    const Index at = places_.offset(v.tensor(), index);
    if (places_.runs_along(at)) kernel_.along_rows = true;
    if (v != lent_) writes_.push_back(made_.statements.access(output(v), at, LoopScope::Lane));
    store_chunk(kernel_.phases.back(), v, at, s);
  }

  void store_chunk(Phase& p, Value v, const Index& at, const Scalar& s) {
    if (!places_.is_vector(at)) return p.lane.push_back(store(v, at, s));
    const std::string lanes = std::to_string(options_.lanes), y = made_.statements.fresh("y");
    const std::string start = places_.indices().text(places_.without_lane(at));
    p.chunk.push_back("Vec<" + storage_name(v.dtype()) + ", " + lanes + "> " + y + ";");
    p.lane.push_back("th_set(" + y + ".at[j], " + s.text + ");");
    p.stores.push_back("th_store_vector(out" + std::to_string(output(v)) + " + (" + start + "), " + y + ");");
  }

  // With several lanes the block of threads transposes what they hold.
  void store_transposed(Value v) {
    const Multi index = places_.transposed_here(v);
    const Scalar s = elements_.element_of_root(v, index);
    const Index at = places_.offset(v.tensor(), index);
    Phase& p = kernel_.phases.back();
    if (options_.lanes == 1) return p.lane.push_back(store(v, at, s));
    const bool vectors =
        kernel_.rows.is_number() && kernel_.rows.number() % kTransposedUnit == 0 && itemsize(v.dtype()) <= 4;
    if (!vectors) throw Refused();
    const std::string y = made_.statements.fresh("y");
    p.transposed.push_back({output(v), y, storage_name(v.dtype())});
    p.lane.push_back("th_set(" + y + "[i].at[j], " + s.text + ");");
  }

  void store_row(Value v) {
    Multi index = places_.delinearize(places_.row(), sizes(v));
    Scalar s = elements_.element(v, index);
    if (s.scope != LoopScope::Row) throw Refused();
    kernel_.row_stores.push_back(store(v, places_.offset(v.tensor(), index), s));
  }

  // Whether a thread walks over all rows of its columns.
  bool walks_all_rows() const {
    const auto of_row = [](const auto& root) {
      return root.second.mode == Mode::Inner || root.second.mode == Mode::Row;
    };
    return options_.few_rows > 0 && kernel_.rows.is_number() && kernel_.rows.number() <= options_.few_rows &&
           kernel_.cols.is_number() && kernel_.cols.number() >= options_.many_columns &&
           std::none_of(info_.begin(), info_.end(), of_row);
  }

  void lower_finish() {
    if (kernel_.columns.empty()) return;
    if (walks_all_rows()) elements_.begin_last();
    else elements_.begin_finish();
    for (const Root& r : roots_) {
      const RootInfo& info = info_.at(r.value.id());
      if (!info.stored || (info.mode != Mode::Outer && info.mode != Mode::Column)) continue;
      if (!(numel(r.value) == kernel_.cols)) throw Refused();
      Multi index = places_.delinearize(places_.finish_column(), sizes(r.value));
      Scalar s = elements_.element(r.value, index);
      const Index at = places_.offset(r.value.tensor(), index);
      if (kernel_.last) store_chunk(*kernel_.last, r.value, at, s);
      else kernel_.finish.push_back(store(r.value, at, s));
    }
  }

  // Whether the write stands after the read in the same step of the loops: then no other step, whatever their order,
  // touches the element.  What is read once a row may be read by several threads.
  static bool before(const Access& read, const Access& write) {
    if (read.scope == LoopScope::Row || !(read.at == write.at) || read.phase > write.phase) return false;
    return read.phase < write.phase || read.scope == LoopScope::Chunk || read.position <= write.position;
  }

  // A kernel that may run twice keeps what it reads.
  void find_in_place() {
    if (kernel_.may_run_twice()) return;
    for (const Access& write : writes_) {
      const auto of_output = [&](const Access& other) { return other.operand == write.operand; };
      if (std::count_if(writes_.begin(), writes_.end(), of_output) != 1) continue;  // sections
      const DType t = kernel_.outputs[write.operand].dtype();
      for (size_t i = 0; i < kernel_.inputs.size(); ++i)
        if (kernel_.inputs[i].dtype() == t && numel(kernel_.inputs[i]) == numel(kernel_.outputs[write.operand]) &&
            std::all_of(elements_.reads().begin(), elements_.reads().end(),
                        [&](const Access& read) { return read.operand != i || before(read, write); }))
          kernel_.in_place.push_back({i, write.operand});
    }
  }

  void collect() {
    elements_.collect();
    find_in_place();
    kernel_.wide = places_.wide();
    kernel_.most = places_.most();
    kernel_.cached = kernel_.cached && kernel_.cached_bytes > 0;
    // A row may end before such a change where its length is symbolic.
    if (kernel_.cols.is_number() && (kernel_.phases.size() == 1 || walk_.reduces))
      kernel_.condition_changes = places_.condition_changes();
    for (const Root& r : roots_)
      if (!std::count(kernel_.calls.begin(), kernel_.calls.end(), producer_(r.value))) throw Refused();
    if (kernel_.outputs.empty()) throw Refused();
    name_sizes();
  }

  // What the printers write themselves.
  void name_sizes() {
    kernel_.sizes = places_.indices().names();
    // Each thread has an accumulator for each of its columns, whose number is in the text.
    if (!kernel_.cols.is_number() && !kernel_.columns.empty() && reduces_rows(kernel_)) throw Refused();
    for (const Size& n : {kernel_.rows, kernel_.cols, kernel_.chunks()}) kernel_.sizes.text(n);
  }

  const Walk& walk_;
  const std::vector<Root>& roots_;
  const Producer& producer_;
  const LowerOptions& options_;

  Kernel kernel_;
  RootInfos info_;
  Places places_;
  KernelInProgress made_;
  Elements elements_;
  std::map<ValueId, size_t> result_level_;
  std::map<ValueId, bool> columns_known_;
  std::map<ValueId, Value> online_;  // from a maximum to the sum that is made with it
  std::vector<Value> online_sums_;
  std::vector<Access> writes_;
  Value lent_;  // the output that keeps an earlier phase's elements
  size_t top_level_ = 0;
  std::vector<std::pair<Value, std::string>> pending_;
};

// A walk without reductions whose columns are a part of a row of `walk`, so that no index within a row is divided.
class Rows {
 public:
  Rows(const Walk& walk, const std::vector<Root>& roots, const Producer& producer, const Materialized& materialized,
       const LowerOptions& options)
      : whole_(walk), roots_(roots), producer_(producer), materialized_(materialized), options_(options) {}

  Kernel instead_of(Kernel kernel) const {
    const bool always = options_.split_rows == LowerOptions::SplitRows::Always;
    const Walk walk = along_memory(roots_, whole_);
    const std::optional<Walk> longer = joined(walk, kernel);
    if (!always && kernel.strided && kernel.phases.size() == 1) {
      if (std::optional<Kernel> rows = transposed(walk)) return std::move(*rows);
      if (std::optional<Kernel> rows = longer ? transposed(*longer) : std::nullopt) return std::move(*rows);
    }
    // Dimensions that lie together make one row where no index tells them apart.
    if (longer) {
      const bool pays = always || (kernel.division == Division::Other && usual(longer->cols) >= kLongRow &&
                                   kernel.phases.size() == 1);
      if (pays)
        if (Kernel rows = along(*longer); rows.division == Division::None) return rows;
    }
    const bool worth =
        always ? kernel.division != Division::None
               : kernel.division == Division::Other && usual(walk.cols) >= kLongRow && kernel.phases.size() == 1;
    if (!worth) return kernel;
    kernel = along(walk);
    if (kernel.division == Division::None || !always || !walk.cols.is_number()) return kernel;
    // A row of several heads, each with its own conditions: one row a head.
    const int64_t cols = walk.cols.number(), part = std::gcd(kernel.common_divisor, cols);
    if (part < kShortRow || part == cols) return kernel;
    Kernel finer = along({walk.rows * Size(cols / part), part, false});
    return finer.division == Division::None ? finer : kernel;
  }

 private:
  Kernel along(const Walk& walk) const {
    return KernelLowering(walk, roots_, producer_, materialized_, options_).run();
  }

  // Rows that are neighbours in an operand's memory, as a matrix's that lies transposed.
  std::optional<Kernel> transposed(const Walk& walk) const {
    if (usual(walk.cols) < kTransposedRow) return std::nullopt;
    Kernel rows = along(walk);
    return rows.rows_together > 0 ? std::optional<Kernel>(std::move(rows)) : std::nullopt;
  }

  std::optional<Walk> joined(const Walk& walk, const Kernel& kernel) const {
    if (!whole_.cols.is_number() || kernel.division == Division::None) return std::nullopt;
    const int64_t all = whole_.cols.number(), cols = walk.cols.number(),
                  together = std::gcd(kernel.common_divisor * options_.lanes, all);
    if (together <= cols || together % cols != 0) return std::nullopt;
    return Walk{all / together, together, false};
  }

  const Walk& whole_;
  const std::vector<Root>& roots_;
  const Producer& producer_;
  const Materialized& materialized_;
  const LowerOptions& options_;
};

// A host's compiler does not vectorise divisions.  In the parts of a row that an index tells apart there are none.
int64_t part_of_row(const Kernel& kernel) {
  const auto gains = [](const Phase& p) { return p.divides && p.reductions.empty(); };
  if (!kernel.cols.is_number() || std::none_of(kernel.phases.begin(), kernel.phases.end(), gains)) return 0;
  const int64_t cols = kernel.cols.number(), part = std::gcd(kernel.common_divisor, cols);
  return part < kShortRow || part == cols ? 0 : part;
}

std::optional<Kernel> lower_along(const Walk& walk, const std::vector<Root>& roots, const Producer& producer,
                                  const Materialized& materialized, const LowerOptions& options) {
  try {
    const Kernel kernel = KernelLowering(walk, roots, producer, materialized, options).run();
    if (walk.reduces && options.split_rows == LowerOptions::SplitRows::Always && options.part == 0) {
      LowerOptions in_parts = options;
      in_parts.part = part_of_row(kernel);
      if (in_parts.part > 0)
        if (std::optional<Kernel> better = lower_along(walk, roots, producer, materialized, in_parts)) return better;
    }
    if (walk.reduces || walk.tiled || options.split_rows == LowerOptions::SplitRows::Never) return kernel;
    try {
      return Rows(walk, roots, producer, materialized, options).instead_of(kernel);
    } catch (const Refused&) {
      return kernel;  // a root that has one element is none of a row
    }
  } catch (const Refused&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<Kernel> lower(const std::vector<Root>& roots, const Producer& producer, const Materialized& materialized,
                            const LowerOptions& options) {
  Walk walk;
  if (!walk_of(roots, producer, materialized, walk)) return std::nullopt;
  std::optional<Kernel> kernel = lower_along(walk, roots, producer, materialized, options);
  // A root whose dimensions are permuted on the way to a reduction.
  walk.roots_by_memory =
      !kernel && walk.reduces && walk.order.empty() && std::any_of(roots.begin(), roots.end(), [&](const Root& r) {
        if (!(numel(r.value) == walk.rows * walk.cols)) return false;
        const std::vector<size_t> order = memory_order(r.value.tensor());
        return !std::is_sorted(order.begin(), order.end());
      });
  return walk.roots_by_memory ? lower_along(walk, roots, producer, materialized, options) : kernel;
}

}  // namespace thunder::fuser
