#include "fuser/lower.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

#include "core/error.h"
#include "fuser/emit_common.h"
#include "fuser/index.h"
#include "fuser/scalar.h"

namespace thunder::fuser {
namespace {

// Thrown where the group does not fit one kernel.
struct Refused {};

using Multi = std::vector<Index>;  // an index per dimension

constexpr size_t kMaxDepth = 300;        // of operands within operands: lowering is recursive
constexpr size_t kMaxStatements = 4000;  // beyond that a kernel is no longer readable, nor quick to compile

class Lowering {
 public:
  Lowering(const std::vector<Root>& roots, const Producer& producer, const Materialized& materialized, const LowerOptions& options)
      : roots_(roots), producer_(producer), materialized_(materialized), options_(options) {}

  Kernel run(const Walk& walk) {
    kernel_.rows = walk.rows;
    kernel_.cols = walk.cols;
    kernel_.lanes = options_.lanes;
    kernel_.cached = options_.cached && walk.reduces;  // else a row has one phase
    note_range(kernel_.numel());
    if (kernel_.cols % options_.lanes != 0) throw Refused();
    row_ = indices_.variable("r", kernel_.rows, Scope::Row);
    chunk_ = indices_.variable("q", kernel_.cols / options_.lanes, Scope::Chunk);
    lane_ = indices_.variable("j", options_.lanes, Scope::Lane);
    column_ = indices_.add(indices_.mul(chunk_, options_.lanes), lane_);
    place_ = indices_.add(indices_.mul(row_, kernel_.cols), column_);
    choose_order(walk);
    classify();
    if (walk.reduces || kernel_.rows > 1 || !lower_sections())
      for (size_t level = 0; level <= top_level_; ++level) lower_phase(level);
    lower_finish();
    collect();
    return std::move(kernel_);
  }

 private:
  enum class Mode : uint8_t { Full, Row, Inner, Outer, Column };
  struct Info {
    Mode mode;
    size_t level = 0;  // the first phase that can compute it; of a reduction, the phase that adds it up
    bool stored = false;
    std::string name;  // of a reduction's result, once it is known
  };

  // ---- preparation ---------------------------------------------------------------------------------------------------

  // Without reductions elements are walked in the order in which the first output lies in memory.
  void choose_order(const Walk& walk) {
    if (walk.reduces) return;
    for (const Root& r : roots_) {
      if (!r.stored || numel(r.value) != kernel_.numel()) continue;
      const TensorType& t = r.value.tensor();
      std::vector<size_t> order(t.shape.size());
      for (size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return t.strides[a].constant() > t.strides[b].constant(); });
      if (std::is_sorted(order.begin(), order.end())) return;
      order_ = order;
      ordered_shape_ = sizes(r.value);
      return;
    }
  }

  void classify() {
    for (const Root& r : roots_) {
      Info info;
      info.stored = r.stored;
      const Call* call = producer_(r.value);
      int64_t rows = 0, cols = 0;
      if (kind_of(*call) == Kind::Reduce) {
        info.mode = reduced(*call, rows, cols) == Reduced::Outer ? Mode::Outer : Mode::Inner;
        info.level = level_of(call->arguments().value("a"));
        result_level_[r.value.id()] = info.level + 1;
      } else {
        info.level = level_of(r.value);
        info.mode = depends_on_columns(r.value)             ? Mode::Column
                    : numel(r.value) == kernel_.numel()     ? Mode::Full
                    : numel(r.value) == kernel_.rows        ? Mode::Row
                                                            : throw Refused();
      }
      if (info.mode != Mode::Column) top_level_ = std::max(top_level_, info.level);
      info_.emplace(r.value.id(), info);
    }
  }

  bool is_leaf(Value v) const { return !producer_(v) || materialized_(v); }

  size_t level_of(Value v) {
    auto found = result_level_.find(v.id());
    if (found != result_level_.end()) return found->second;
    size_t level = 0;
    if (!is_leaf(v)) {
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
    if (is_leaf(v)) return false;
    auto [known, fresh] = columns_known_.emplace(v.id(), false);
    if (!fresh) return known->second;
    bool any = false;
    visit_inputs(*producer_(v), [&](Value u) { any = any || depends_on_columns(u); });
    columns_known_[v.id()] = any;
    return any;
  }

  // ---- indices -------------------------------------------------------------------------------------------------------

  Multi delinearize(Index linear, const std::vector<int64_t>& shape) {
    Multi out(shape.size());
    int64_t stride = 1;
    for (size_t i = shape.size(); i-- > 0;) {
      Index q = indices_.div(linear, stride);
      out[i] = i == 0 ? q : indices_.mod(q, shape[i]);
      if (shape[i] == 1) out[i] = 0;
      stride *= shape[i];
    }
    return out;
  }

  Index linearize(const Multi& index, const std::vector<int64_t>& shape) {
    Index linear;
    int64_t stride = 1;
    for (size_t i = shape.size(); i-- > 0;) {
      linear = indices_.add(linear, indices_.mul(index[i], stride));
      stride *= shape[i];
    }
    note_range(indices_.max(linear));
    return linear;
  }

  // Where the element being computed lies in a value of as many elements as the walk.
  Multi here(Value v) {
    std::vector<int64_t> shape = sizes(v);
    if (order_.empty()) return delinearize(place_, shape);
    if (shape != ordered_shape_) throw Refused();
    std::vector<int64_t> permuted;
    for (size_t d : order_) permuted.push_back(shape[d]);
    Multi in_order = delinearize(place_, permuted), out(shape.size());
    for (size_t i = 0; i < order_.size(); ++i) out[order_[i]] = in_order[i];
    return out;
  }

  bool is_here(Value v, const Multi& index) {
    Multi now = here(v);
    std::vector<int64_t> shape = sizes(v);
    for (size_t i = 0; i < shape.size(); ++i)
      if (shape[i] > 1 && !(now[i] == index[i])) return linearize(now, shape) == linearize(index, shape);
    return true;
  }

  Index offset(const TensorType& t, const Multi& index) {
    Index out;
    for (size_t i = 0; i < index.size(); ++i)
      if (t.shape[i].constant() != 1) out = indices_.add(out, indices_.mul(index[i], t.strides[i].constant()));
    note_range(indices_.max(out));
    return out;
  }

  // Loops step beyond their end by less than a grid of threads.
  void note_range(int64_t most) {
    if (most >= (int64_t{1} << 31) - (int64_t{1} << 24)) kernel_.wide = true;
  }

  // ---- statements ----------------------------------------------------------------------------------------------------

  std::string fresh() { return "t" + std::to_string(next_++); }

  std::vector<std::string>& buffer(Scope scope) {
    if (++statements_ > kMaxStatements) throw Refused();
    if (in_finish_) return kernel_.finish;
    Phase& p = kernel_.phases.back();
    return scope == Scope::Row ? p.row : scope == Scope::Chunk ? p.chunk : p.lane;
  }

  struct Scalar {
    std::string text;
    Scope scope = Scope::Row;
  };

  Scalar define(const std::string& type, const std::string& text, Scope scope) {
    std::string name = fresh();
    buffer(scope).push_back("const " + type + " " + name + " = " + text + ";");
    return {name, scope};
  }

  size_t input(Value v) {
    auto [it, is_new] = input_of_.emplace(v.id(), kernel_.inputs.size());
    if (is_new) kernel_.inputs.push_back(v);
    return it->second;
  }

  // ---- elements ------------------------------------------------------------------------------------------------------

  Scalar element(Value v, const Multi& index) {
    std::string key = std::to_string(v.id()) + predicate_key_;
    for (const Index& i : index) key += "," + i.key();
    for (auto* memo : {&row_memo_, &loop_memo_})
      if (auto it = memo->find(key); it != memo->end()) return it->second;
    if (++depth_ > kMaxDepth) throw Refused();
    Scalar s = compute(v, index);
    --depth_;
    (s.scope == Scope::Row && predicate_.empty() ? row_memo_ : loop_memo_).emplace(key, s);
    return s;
  }

  Scalar compute(Value v, const Multi& index) {
    auto root = info_.find(v.id());
    if (root != info_.end() && root->second.mode != Mode::Full) return root_element(v, root->second, index);
    if (root != info_.end() && v.id() != computing_ && !is_here(v, index)) throw Refused();
    return is_leaf(v) ? load(v, index) : computed(*producer_(v), index);
  }

  Scalar computed(const Call& call, const Multi& index) {
    calls_.insert(&call);
    switch (kind_of(call)) {
      case Kind::Pointwise: return pointwise(call, index);
      case Kind::Move: return move(call, index);
      case Kind::Create: return create(call, index);
      default: throw Refused();
    }
  }

  // A value of which a row, or a column, has one.
  Scalar root_element(Value v, const Info& info, const Multi& index) {
    Index at = linearize(index, sizes(v));
    switch (info.mode) {
      case Mode::Inner:
        if (info.name.empty() || !(at == row_)) throw Refused();
        return {info.name, Scope::Row};
      case Mode::Outer:
        if (!in_finish_ || !(at == finish_column_)) throw Refused();
        return {info.name, Scope::Row};
      case Mode::Row:
        if (!(at == row_)) throw Refused();
        break;
      default:
        if (!in_finish_ || !(at == finish_column_)) throw Refused();
        break;
    }
    return computed(*producer_(v), index);
  }

  Scalar load(Value v, const Multi& index) {
    const TensorType& t = v.tensor();
    const std::string storage = storage_name(t.dtype), array = "in" + std::to_string(input(v));
    Index at = offset(t, index);
    Scope scope = std::max(indices_.scope(at), predicate_scope_);
    if (predicate_scope_ != Scope::Lane && is_vector(at)) return load_vector(v, at, array, storage, predicate_);
    std::string text = "th_load(" + array + " + (" + indices_.text(at) + "))";
    if (!predicate_.empty()) text = predicate_ + " ? " + text + " : " + compute_name(t.dtype) + "(0)";
    return define(compute_name(t.dtype), text, scope);
  }

  Scalar load_vector(Value v, const Index& at, const std::string& array, const std::string& storage, const std::string& guard) {
    const Index start = without_lane(at);
    const std::string key = array + "@" + start.key() + guard, lanes = std::to_string(options_.lanes);
    auto [it, is_new] = vectors_.emplace(key, "");
    if (is_new) {
      it->second = "x" + std::to_string(next_++);
      const std::string text = "th_load_vector<" + storage + ", " + lanes + ">(" + array + " + (" + indices_.text(start) + ")" +
                               (guard.empty() ? "" : ", " + guard) + ");";
      const std::string type = "Vec<" + storage + ", " + lanes + ">";
      // A guard's name lives in its phase, so only unguarded loads are kept over phases.
      if (kernel_.cached && guard.empty()) {
        kernel_.cached_vectors.push_back(type + " " + it->second + "[K];");
        kernel_.cached_bytes += itemsize(v.dtype()) * options_.lanes;
        buffer(Scope::Chunk).push_back(it->second + "[k] = " + text);
        it->second += "[k]";
        kept_.insert(key);
      } else {
        buffer(Scope::Chunk).push_back("const " + type + " " + it->second + " = " + text);
      }
    }
    return define(compute_name(v.dtype()), "th_get(" + it->second + ".at[j])", Scope::Lane);
  }

  // Whether the lanes of a chunk are neighbours, from a multiple of their number on that is known before the lanes are walked.
  bool is_vector(const Index& at) {
    if (options_.lanes == 1) return false;
    const int32_t lane = Indices::atom(lane_);
    return at.factor_of(lane) == 1 && indices_.multiple_of(at, options_.lanes, lane) && indices_.scope(without_lane(at)) != Scope::Lane;
  }

  Index without_lane(const Index& at) { return indices_.add(at, indices_.mul(lane_, -1)); }

  // Integers wrap around, which signed numbers of C++ do not; those narrower than `int` are computed in it.
  static bool wraps(const Op& op, DType out) {
    if (out != DType::i32 && out != DType::i64) return false;
    const std::string& name = op.full_name;
    return name == "prims.add" || name == "prims.sub" || name == "prims.mul" || name == "prims.neg";
  }

  std::string rounded(const std::string& text, DType t) const {
    if (!options_.eager_rounding || (t != DType::bf16 && t != DType::f16)) return text;
    return "th_round_" + storage_name(t) + "(" + text + ")";
  }

  Scalar pointwise(const Call& call, const Multi& index) {
    const DType out = call.output.value().dtype();
    // What numbers among the operands are converted to.
    DType operand = out;
    for_each_input(call, [&](Value v) {
      if (call.op->full_name != "prims.where" || v.dtype() != DType::boolean) operand = v.dtype();
    });
    if (call.op->full_name == "prims.where") operand = out;
    std::vector<std::pair<std::string, std::string>> operands;
    Scope scope = Scope::Row;
    DType from = operand;
    for (size_t i = 0; i < call.args.size(); ++i) {
      const Arg& a = call.args[i];
      if (a.is_tensor()) {
        Scalar s = element(a.value(), index);
        scope = std::max(scope, s.scope);
        from = a.value().dtype();
        operands.emplace_back(call.op->schema.params[i].name, s.text);
      } else if (a.is_literal_number()) {
        operands.emplace_back(call.op->schema.params[i].name, literal(a, operand));
      }
    }
    if (wraps(*call.op, out))
      for (auto& [name, text] : operands) text = "u" + compute_name(out) + "(" + text + ")";
    std::string text = scalar_text(*call.op, operands);
    if (call.op->full_name == "prims.convert_element_type") text = converted(text, from, out);
    else if (compute_name(out) != "float" && compute_name(out) != "double") text = compute_name(out) + "(" + text + ")";
    return define(compute_name(out), rounded(text, out), scope);
  }

  Scalar create(const Call& call, const Multi& index) {
    Args a = call.arguments();
    const DType out = call.output.value().dtype();
    if (call.op->full_name == "prims.full") return {rounded(literal(a["fill_value"], out), out), Scope::Row};
    const std::string type = compute_name(out), at = indices_.text(index[0]);
    const Scope scope = indices_.scope(index[0]);
    if (call.op->full_name == "prims.arange") return define(type, type + "(" + at + ")", scope);
    const DType compute = is_floating(out) ? DType::f64 : DType::i64;
    return define(type, type + "(" + literal(a["start"], compute) + " + " + literal(a["step"], compute) + " * " + compute_name(compute) +
                            "(" + at + "))", scope);
  }

  // ---- moves ---------------------------------------------------------------------------------------------------------

  Scalar move(const Call& call, const Multi& index) {
    const std::string& name = call.op->full_name;
    if (name == "prims.cat") return cat_element(call, index);
    if (name == "prims.pad") return pad_element(call, index);
    if (name == "prims.take" || name == "prims.take_along_axis") return taken_element(call, index);
    Args a = call.arguments();
    Value source = a.value("a");
    std::vector<int64_t> from = sizes(source);
    return element(source, source_index(name, a, from, sizes(call.output.value()), index));
  }

  Multi source_index(const std::string& name, const Args& a, const std::vector<int64_t>& from, const std::vector<int64_t>& to,
                     const Multi& index) {
    Multi out(from.size());
    if (name == "prims.view" || name == "prims.reshape") return delinearize(linearize(index, to), from);
    if (name == "prims.detach" || name == "prims.restride") return index;
    if (name == "prims.broadcast_in_dim") {
      std::vector<int64_t> dims = a.integers("broadcast_dims");
      for (size_t i = 0; i < from.size(); ++i) out[i] = from[i] == 1 ? Index(0) : index[static_cast<size_t>(dims[i])];
    } else if (name == "prims.transpose") {
      std::vector<int64_t> order = a.integers("permutation");
      for (size_t i = 0; i < order.size(); ++i) out[static_cast<size_t>(order[i])] = index[i];
    } else if (name == "prims.slice") {
      std::vector<int64_t> start = a.integers("start_indices"), step = a.integers("strides");
      for (size_t i = 0; i < from.size(); ++i) out[i] = indices_.add(indices_.mul(index[i], step[i]), Index(start[i]));
    } else if (name == "prims.squeeze") {
      std::set<int64_t> dropped;
      for (int64_t d : a.integers("dims")) dropped.insert(d < 0 ? d + static_cast<int64_t>(from.size()) : d);
      for (size_t i = 0, next = 0; i < from.size(); ++i) out[i] = dropped.count(static_cast<int64_t>(i)) ? Index(0) : index[next++];
    } else if (name == "prims.flip") {
      std::set<int64_t> dims;
      for (int64_t d : a.integers("dims")) dims.insert(d < 0 ? d + static_cast<int64_t>(from.size()) : d);
      for (size_t i = 0; i < from.size(); ++i)
        out[i] = dims.count(static_cast<int64_t>(i)) ? indices_.add(Index(from[i] - 1), indices_.mul(index[i], -1)) : index[i];
    } else {
      throw Refused();
    }
    return out;
  }

  // An element at a place that another tensor gives.  A place outside of the tensor is the user's error, which the kernel reports.
  Scalar taken_element(const Call& call, Multi index) {
    Args a = call.arguments();
    Value source = a.value("a"), places = a.value("index");
    int64_t dim = a.integer("dim");
    if (dim < 0) dim += static_cast<int64_t>(index.size());
    const size_t d = static_cast<size_t>(dim);
    const int64_t extent = sizes(source)[d];
    Scalar place = element(places, call.op->full_name == "prims.take" ? Multi{index[d]} : index);
    Scope scope = std::max(place.scope, predicate_scope_);
    const std::string condition = predicate_.empty() ? "" : ", " + predicate_;
    kernel_.gathers = true;
    Scalar checked = define("I", "TH_PLACE(" + place.text + ", " + std::to_string(extent) + condition + ")", scope);
    index[d] = indices_.dynamic(checked.text, extent, scope);
    return element(source, index);
  }

  // `e < bound` as text, with the lane left out where it cannot matter; empty where it always or never holds.
  std::string below(const Index& e, int64_t bound, Scope& scope, bool& always) {
    always = indices_.max(e) < bound;
    if (always || indices_.min(e) >= bound) return "";
    Index cut = e;
    if (options_.lanes > 1 && indices_.scope(e) == Scope::Lane) {
      const int32_t lane = Indices::atom(lane_);
      if (e.factor_of(lane) == 1 && indices_.multiple_of(e, options_.lanes, lane) && bound % options_.lanes == 0) cut = without_lane(e);
    }
    scope = indices_.scope(cut);
    return indices_.text(cut) + " < " + std::to_string(bound);
  }

  // Evaluates under a condition: loads happen only where it holds.
  template <class F>
  Scalar under(const Scalar& condition, bool holds, F&& evaluate) {
    auto saved = std::tuple(predicate_, predicate_key_, predicate_scope_);
    const std::string text = (holds ? "" : "!") + condition.text;
    predicate_ = predicate_.empty() ? text : "(" + predicate_ + " && " + text + ")";
    predicate_key_ = "|" + predicate_;
    predicate_scope_ = std::max(predicate_scope_, condition.scope);
    Scalar s = evaluate();
    std::tie(predicate_, predicate_key_, predicate_scope_) = saved;
    return s;
  }

  Scalar select(const std::string& type, const Scalar& condition, const Scalar& a, const Scalar& b) {
    return define(type, condition.text + " ? " + a.text + " : " + b.text, std::max({condition.scope, a.scope, b.scope}));
  }

  Scalar cat_element(const Call& call, const Multi& index) {
    Args a = call.arguments();
    std::vector<Value> parts;
    for (Value v : a.values("tensors"))
      if (numel(v) > 0) parts.push_back(v);
    int64_t dim = a.integer("dim");
    if (dim < 0) dim += static_cast<int64_t>(index.size());
    return cat_from(call, parts, 0, index, static_cast<size_t>(dim));
  }

  Scalar cat_from(const Call& call, const std::vector<Value>& parts, size_t first, Multi index, size_t dim) {
    const int64_t size = sizes(parts[first])[dim];
    if (first + 1 == parts.size()) {
      index[dim] = indices_.bounded(index[dim], size, options_.lanes);
      return element(parts[first], index);
    }
    Scope scope = Scope::Row;
    bool always = false;
    std::string text = below(index[dim], size, scope, always);
    Multi rest = index;
    rest[dim] = indices_.add(index[dim], Index(-size));
    if (text.empty()) return always ? element(parts[first], index) : cat_from(call, parts, first + 1, rest, dim);
    Scalar condition = define("bool", text, scope);
    index[dim] = indices_.bounded(index[dim], size, options_.lanes);
    Scalar here = under(condition, true, [&] { return element(parts[first], index); });
    Scalar there = under(condition, false, [&] { return cat_from(call, parts, first + 1, rest, dim); });
    return select(compute_name(call.output.value().dtype()), condition, here, there);
  }

  Scalar pad_element(const Call& call, const Multi& index) {
    Args a = call.arguments();
    const DType out = call.output.value().dtype();
    Value source = a.value("a");
    std::vector<int64_t> from = sizes(source);
    Multi inner = index;
    std::string inside;
    Scope scope = Scope::Row;
    for (size_t i = 0; i < from.size(); ++i) {
      const int64_t low = a["config"].items()[i].items()[0].dim().constant();
      bool always = false, never_inside = false;
      Scope s = Scope::Row;
      std::string too_low = low > 0 ? below(index[i], low, s, never_inside) : "";
      scope = std::max(scope, s);
      std::string fits = below(index[i], low + from[i], s, always);
      if (never_inside || (fits.empty() && !always)) return {rounded(literal(a["value"], out), out), Scope::Row};
      scope = std::max(scope, s);
      if (!too_low.empty()) inside += (inside.empty() ? "" : " && ") + ("!(" + too_low + ")");
      if (!fits.empty()) inside += (inside.empty() ? "" : " && ") + fits;
      inner[i] = indices_.bounded(indices_.add(index[i], Index(-low)), from[i], options_.lanes);
    }
    if (inside.empty()) return element(source, inner);
    Scalar condition = define("bool", inside, scope);
    Scalar value = under(condition, true, [&] { return element(source, inner); });
    return select(compute_name(out), condition, value, {rounded(literal(a["value"], out), out), Scope::Row});
  }

  // ---- phases --------------------------------------------------------------------------------------------------------

  void lower_phase(size_t level) {
    kernel_.phases.emplace_back();
    loop_memo_.clear();
    std::erase_if(vectors_, [&](const auto& v) { return !kept_.count(v.first); });
    for (const Root& r : roots_) {
      Info& info = info_.at(r.value.id());
      if (info.level != level) continue;
      if (info.mode == Mode::Inner) add_up(r.value);
      if (info.mode == Mode::Outer) add_column(r.value, info);
      if (info.mode == Mode::Full && info.stored) store_full(r.value);
      // In program order, so that what comes later finds its operands computed instead of asking ever deeper.
      else if (info.mode == Mode::Full && top_level_ == 0) element_of_root(r.value, here(r.value));
      if (info.mode == Mode::Row && info.stored) store_row(r.value);
    }
    for (auto& [value, name] : pending_) {
      info_.at(value.id()).name = rounded(name, value.dtype());
      if (info_.at(value.id()).stored) store_row(value);
    }
    pending_.clear();
  }

  // The cat behind a root, if each of its parts is worth threads of its own: then no element asks which part it belongs to.
  const Call* cat_behind(Value v) const {
    while (!is_leaf(v)) {
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

  bool lower_sections() {
    const Call* cat = roots_.size() == 1 && order_.empty() ? cat_behind(roots_[0].value) : nullptr;
    if (!cat || numel(roots_[0].value) != kernel_.cols) return false;
    const std::vector<int64_t> shape = sizes(cat->output.value());
    int64_t dim = cat->arguments().integer("dim");
    if (dim < 0) dim += static_cast<int64_t>(shape.size());
    int64_t inner = 1, outer = 1;
    for (size_t i = 0; i < shape.size(); ++i) (static_cast<int64_t>(i) < dim ? outer : inner) *= static_cast<int64_t>(i) == dim ? 1 : shape[i];
    std::vector<int64_t> lengths;
    for (Value part : cat->arguments().values("tensors")) lengths.push_back(sizes(part)[static_cast<size_t>(dim)]);
    for (int64_t n : lengths)
      if (n * inner < options_.section || n * inner % options_.lanes != 0) return false;
    if (lengths.size() < 2) return false;
    int64_t base = 0;
    for (int64_t n : lengths) {
      const int64_t chunks = n * inner / options_.lanes, full = shape[static_cast<size_t>(dim)] * inner;
      Index q = indices_.variable("q", outer * chunks, Scope::Chunk);
      Index within = indices_.add(indices_.mul(indices_.mod(q, chunks), options_.lanes), lane_);
      place_ = indices_.add(indices_.add(indices_.mul(indices_.div(q, chunks), full), within), Index(base));
      row_memo_.clear();
      lower_phase(0);
      kernel_.phases.back().chunks = outer * chunks;
      base += n * inner;
    }
    return true;
  }

  static Combine combine_of(const Call& call) {
    const std::string& name = call.op->full_name;
    return name == "prims.sum" ? Combine::Add : name == "prims.prod" ? Combine::Mul : name == "prims.amax" ? Combine::Max
           : name == "prims.amin" ? Combine::Min : name == "prims.any" ? Combine::Or : Combine::And;
  }

  // The operand of a reduction, at this element.
  Scalar operand(const Call& call, DType& out) {
    calls_.insert(&call);
    Value x = call.arguments().value("a");
    out = call.output.value().dtype();
    Scalar s = element(x, here(x));
    s.text = converted(s.text, x.dtype(), out);
    return s;
  }

  void add_up(Value v) {
    const Call& call = *producer_(v);
    DType out;
    Scalar s = operand(call, out);
    std::string name = "sum" + std::to_string(next_++);
    Combine combine = combine_of(call);
    kernel_.phases.back().lane.push_back(name + " = " + combine_function(combine) + "(" + name + ", " + s.text + ");");
    kernel_.phases.back().reductions.push_back({name, compute_name(out), combine});
    pending_.emplace_back(v, name);
  }

  void add_column(Value v, Info& info) {
    const Call& call = *producer_(v);
    DType out;
    Scalar s = operand(call, out);
    const std::string name = "col" + std::to_string(next_++);
    info.name = rounded(name, out);
    Combine combine = combine_of(call);
    kernel_.phases.back().lane.push_back("TH_COLUMN(" + name + ") = " + combine_function(combine) + "(TH_COLUMN(" + name + "), " + s.text + ");");
    kernel_.columns.push_back({name, compute_name(out), combine});
  }

  std::string output(Value v) {
    auto known = std::find(kernel_.outputs.begin(), kernel_.outputs.end(), v);
    if (known == kernel_.outputs.end()) known = kernel_.outputs.insert(known, v);
    return "out" + std::to_string(known - kernel_.outputs.begin());
  }

  Scalar element_of_root(Value v, const Multi& index) {
    computing_ = v.id();
    Scalar s = element(v, index);
    computing_ = UINT32_MAX;
    return s;
  }

  void store_full(Value v) {
    Multi index = here(v);
    Scalar s = element_of_root(v, index);
    Index at = offset(v.tensor(), index);
    const std::string array = output(v), storage = storage_name(v.dtype());
    Phase& p = kernel_.phases.back();
    if (is_vector(at)) {
      const std::string lanes = std::to_string(options_.lanes), y = "y" + std::to_string(next_++);
      p.chunk.push_back("Vec<" + storage + ", " + lanes + "> " + y + ";");
      p.lane.push_back("th_set(" + y + ".at[j], " + s.text + ");");
      p.stores.push_back("th_store_vector(" + array + " + (" + indices_.text(without_lane(at)) + "), " + y + ");");
    } else {
      p.lane.push_back("th_set(" + array + "[" + indices_.text(at) + "], " + s.text + ");");
    }
  }

  void store_row(Value v) {
    Multi index = delinearize(row_, sizes(v));
    Scalar s = element(v, index);
    if (s.scope != Scope::Row) throw Refused();
    kernel_.row_stores.push_back("th_set(" + output(v) + "[" + indices_.text(offset(v.tensor(), index)) + "], " + s.text + ");");
  }

  void lower_finish() {
    if (kernel_.columns.empty()) return;
    in_finish_ = true;
    row_memo_.clear();
    loop_memo_.clear();
    finish_column_ = indices_.variable("c", kernel_.cols, Scope::Row);
    for (const Root& r : roots_) {
      const Info& info = info_.at(r.value.id());
      if (!info.stored || (info.mode != Mode::Outer && info.mode != Mode::Column)) continue;
      if (numel(r.value) != kernel_.cols) throw Refused();
      Multi index = delinearize(finish_column_, sizes(r.value));
      Scalar s = element(r.value, index);
      kernel_.finish.push_back("th_set(" + output(r.value) + "[" + indices_.text(offset(r.value.tensor(), index)) + "], " + s.text + ");");
    }
  }

  void collect() {
    // A call may read what no element needs (a pad that cuts all of it off); the calls are a program all the same.
    std::vector<const Call*> open(calls_.begin(), calls_.end());
    while (!open.empty()) {
      const Call* call = open.back();
      open.pop_back();
      visit_inputs(*call, [&](Value v) {
        if (is_leaf(v)) input(v);
        else if (calls_.insert(producer_(v)).second) open.push_back(producer_(v));
      });
    }
    kernel_.calls.assign(calls_.begin(), calls_.end());
    kernel_.divides = indices_.divides();
    for (const Root& r : roots_)
      if (!calls_.count(producer_(r.value))) throw Refused();
    if (kernel_.outputs.empty()) throw Refused();
  }

  const std::vector<Root>& roots_;
  const Producer& producer_;
  const Materialized& materialized_;
  const LowerOptions& options_;

  Kernel kernel_;
  Indices indices_;
  Index row_, chunk_, lane_, column_, place_, finish_column_;
  std::vector<size_t> order_;
  std::vector<int64_t> ordered_shape_;
  std::map<ValueId, Info> info_;
  std::map<ValueId, size_t> result_level_;
  std::map<ValueId, bool> columns_known_;
  size_t top_level_ = 0;
  std::map<ValueId, size_t> input_of_;
  std::map<std::string, Scalar> row_memo_, loop_memo_;
  std::map<std::string, std::string> vectors_;
  std::set<std::string> kept_;
  std::vector<std::pair<Value, std::string>> pending_;
  std::set<const Call*> calls_;
  std::string predicate_, predicate_key_;
  Scope predicate_scope_ = Scope::Row;
  ValueId computing_ = UINT32_MAX;
  bool in_finish_ = false;
  size_t next_ = 0, statements_ = 0, depth_ = 0;
};

// The innermost dimension, as the first root lies in memory, as columns.
Walk with_rows(const std::vector<Root>& roots, Walk walk) {
  for (const Root& r : roots) {
    if (!r.stored || numel(r.value) != walk.cols) continue;
    const TensorType& t = r.value.tensor();
    int64_t inner = 1, stride = INT64_MAX;
    for (size_t i = 0; i < t.shape.size(); ++i)
      if (t.shape[i].constant() > 1 && t.strides[i].constant() < stride) stride = t.strides[i].constant(), inner = t.shape[i].constant();
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
    Kernel kernel = Lowering(roots, producer, materialized, options).run(walk);
    if (walk.reduces || !options.split_rows || !kernel.divides) return kernel;
    walk = with_rows(roots, walk);
    return Lowering(roots, producer, materialized, options).run(walk);
  } catch (const Refused&) {
    return std::nullopt;
  }
}

}  // namespace thunder::fuser
