#include "fuser/elements.h"

#include <algorithm>

#include "fuser/scalar.h"

namespace thunder::fuser {
namespace {

constexpr int64_t kKnownDistance = 8;    // of neighbours that g++ loads as vectors and takes apart
constexpr int64_t kRead = 8;             // times, from which on an element stays in the caches
constexpr int kSector = 32;              // bytes that a GPU fetches from memory at once
constexpr size_t kMaxDepth = 300;        // of operands within operands: an element is computed recursively
constexpr size_t kMaxStatements = 4000;  // beyond that a kernel is no longer readable, nor quick to compile

// Integers wrap around, which signed numbers of C++ do not; those narrower than `int` are computed in it.
bool wraps(const Op& op, DType out) {
  if (out != DType::i32 && out != DType::i64) return false;
  const std::string& name = op.full_name;
  return name == "prims.add" || name == "prims.sub" || name == "prims.mul" || name == "prims.neg";
}

// Of a type that elements are computed in.
int64_t bytes_of(const std::string& type) { return type == "double" || type == "int64" ? 8 : 4; }

}  // namespace

Scalar Elements::element(Value v, const Multi& index) {
  std::string key = std::to_string(v.id()) + predicate_key_;
  for (const Index& i : index) {
    key += ',';
    i.add_key(key);
  }
  for (auto* memo : {&row_memo_, &loop_memo_})
    if (auto it = memo->find(key); it != memo->end()) return it->second;
  if (auto kept = from_earlier_phase(key, v.dtype())) return loop_memo_.emplace(key, *kept).first->second;
  if (++depth_ > kMaxDepth) throw Refused();
  Scalar s = compute(v, index);
  --depth_;
  (s.scope == Scope::Row && predicate_.empty() ? row_memo_ : loop_memo_).emplace(key, s);
  return s;
}

Scalar Elements::element_of_root(Value v, const Multi& index) {
  computing_ = v.id();
  Scalar s = element(v, index);
  computing_ = UINT32_MAX;
  return s;
}

Scalar Elements::operand(const Call& reduction) {
  calls_.insert(&reduction);
  Value x = reduction.arguments().value("a");
  Scalar s = element(x, places_.here(x));
  s.text = converted(s.text, x.dtype(), reduction.output.value().dtype());
  return s;
}

// A later phase reads what an earlier one has computed where computing it again takes longer.
std::optional<Scalar> Elements::from_earlier_phase(const std::string& key, DType t) {
  auto it = earlier_.find(key);
  if (it == earlier_.end() || in_finish_ || !predicate_.empty()) return std::nullopt;
  Kept& kept = it->second;
  const std::string type = compute_name(t);
  if (kept.buffer.empty()) {
    kept.buffer = keeps_registers() ? registers_for(type) : row_for(type);
    if (kept.buffer.empty() && lender_) kept.buffer = lender_(type, kept.phase);
    if (kept.buffer.empty()) return std::nullopt;
    kernel_.phases[kept.phase].lane.push_back(kept.buffer + " = " + kept.name + ";");
  }
  return define(type, kept.buffer, Scope::Lane);
}

// Of all chunks that a thread has.
std::string Elements::registers_for(const std::string& type) {
  const std::string name = fresh("x");
  kernel_.cached_vectors.push_back(type + " " + name + "[K][" + std::to_string(options_.lanes) + "];");
  kernel_.cached_bytes += options_.lanes * bytes_of(type);
  return name + "[k][j]";
}

// Empty where no room is left for one.
std::string Elements::row_for(const std::string& type) {
  if (!kernel_.cols.is_number()) return {};
  const int64_t bytes = kernel_.cols.number() * bytes_of(type);
  if (bytes > row_buffer_left_) return {};
  row_buffer_left_ -= bytes;
  const std::string name = fresh("row");
  kernel_.row_buffers.push_back(type + " " + name + "[" + indices_.text(kernel_.cols) + "];");
  return name + "[q]";
}

void Elements::begin_phase() {
  if ((row_buffer_left_ > 0 || lender_ || keeps_registers()) && !kernel_.phases.empty())
    for (const auto& [key, s] : loop_memo_)
      if (s.costly && key.find('|') == std::string::npos)
        earlier_.try_emplace(key, Kept{kernel_.phases.size() - 1, s.text, ""});
  kernel_.phases.emplace_back();
  loop_memo_.clear();
  conditional_.clear();
  std::erase_if(vectors_, [&](const auto& v) { return !kept_.count(v.first); });
}

void Elements::begin_finish() {
  in_finish_ = true;
  forget();
  places_.enter_finish();
}

void Elements::begin_last() {
  in_finish_ = true;
  forget();
  vectors_.clear();
  conditional_.clear();
  kernel_.last.emplace();
  places_.enter_last();
}

void Elements::forget() {
  row_memo_.clear();
  loop_memo_.clear();
}

void Elements::collect() {
  // A call may read what no element needs (a pad that cuts all of it off); the calls are a program all the same.
  std::vector<const Call*> open(calls_.begin(), calls_.end());
  std::sort(open.begin(), open.end(),
            [](const Call* a, const Call* b) { return a->output.value().id() < b->output.value().id(); });
  while (!open.empty()) {
    const Call* call = open.back();
    open.pop_back();
    visit_inputs(*call, [&](Value v) {
      if (v.type().is_number() && !v.type().number().dim) number_place(v);
      if (!v.type().is_tensor()) return;
      if (is_leaf(v)) input(v);
      else if (calls_.insert(producer_(v)).second) open.push_back(producer_(v));
    });
  }
  kernel_.calls.assign(calls_.begin(), calls_.end());
}

bool Elements::is_exact(Value v) const { return options_.eager_rounding || (options_.exact && (*options_.exact)[v]); }

std::string Elements::rounded(const std::string& text, Value v) const {
  const DType t = v.dtype();
  if (!is_exact(v) || (t != DType::bf16 && t != DType::f16)) return text;
  return "th_round_" + storage_name(t) + "(" + text + ")";
}

std::vector<std::string>& Elements::buffer(Scope scope) {
  if (++statements_ > kMaxStatements) throw Refused();
  if (in_finish_ && !kernel_.last) return kernel_.finish;
  Phase& p = in_finish_ ? *kernel_.last : kernel_.phases.back();
  return scope == Scope::Row ? p.row : scope == Scope::Chunk ? p.chunk : p.lane;
}

Scalar Elements::define(const std::string& type, const std::string& text, Scope scope) {
  std::string name = fresh("t");
  buffer(scope).push_back("const " + type + " " + name + " = " + text + ";");
  return {name, scope};
}

size_t Elements::input(Value v) {
  auto [it, is_new] = input_of_.emplace(v.id(), kernel_.inputs.size());
  if (is_new) {
    kernel_.inputs.push_back(v);
    kernel_.offsets.emplace_back(0);
    has_offset_.push_back(0);
  }
  return it->second;
}

// The pointer of an input stands where the first read has its constant part.
Index Elements::from_pointer(size_t number, const Index& at) {
  if (!has_offset_[number]) kernel_.offsets[number] = at.constant();
  has_offset_[number] = 1;
  return indices_.add(at, Index(-kernel_.offsets[number]));
}

Scalar Elements::compute(Value v, const Multi& index) {
  auto root = roots_.find(v.id());
  if (root != roots_.end() && root->second.mode != RootInfo::Mode::Full) return root_element(v, root->second, index);
  if (root != roots_.end() && v.id() != computing_ && (root->second.turned || !places_.is_root_here(v, index)))
    throw Refused();
  return is_leaf(v) ? load(v, index) : computed(*producer_(v), index);
}

Scalar Elements::computed(const Call& call, const Multi& index) {
  calls_.insert(&call);
  if (call.op->has(kMayLackOperand)) {
    const Value a = call.args[0].value();
    return is_leaf(a) ? load(a, index, !options_.zeros_in_memory) : element(a, index);
  }
  switch (kind_of(call)) {
    case Kind::Pointwise: return pointwise(call, index);
    case Kind::Move: return move(call, index);
    case Kind::Create: return create(call, index);
    case Kind::Random: return draw(call, index);
    default: throw Refused();
  }
}

// A value of which a row, or a column, has one.
Scalar Elements::root_element(Value v, const RootInfo& info, const Multi& index) {
  Index at = places_.linearize(index, sizes(v));
  const bool is_row = at == places_.row(), is_column = in_finish_ && at == places_.finish_column();
  switch (info.mode) {
    case RootInfo::Mode::Inner:
      if (info.name.empty() || !is_row) throw Refused();
      return {info.name, Scope::Row};
    case RootInfo::Mode::Outer:
      if (!is_column) throw Refused();
      return {info.name, kernel_.last ? Scope::Lane : Scope::Row};
    case RootInfo::Mode::Row:
      if (!is_row) throw Refused();
      break;
    case RootInfo::Mode::Extremum: throw Refused();
    default:
      if (!is_column) throw Refused();
      break;
  }
  return computed(*producer_(v), index);
}

Access Elements::access(size_t operand, const Index& place, Scope scope) const {
  const Index at = places_.without_parts(place);
  if (in_finish_) return {operand, at, SIZE_MAX, scope, kernel_.finish.size()};
  const Phase& p = kernel_.phases.back();
  const auto& statements = scope == Scope::Row ? p.row : scope == Scope::Chunk ? p.chunk : p.lane;
  return {operand, at, kernel_.phases.size() - 1, scope, statements.size()};
}

std::string Elements::place_text(const Index& at) {
  const std::optional<int64_t> distance = options_.name_distances ? places_.distance(at) : std::nullopt;
  if (!distance || std::abs(*distance) <= kKnownDistance) return indices_.text(at);
  kernel_.distances.insert(*distance);
  return places_.text_by_distance(at, distance_name(*distance));
}

// g++ vectorises no reduction whose elements have one byte here and four there.
std::string Elements::widened(const std::string& array, const Index& at, std::string text) {
  if (in_finish_ || !predicate_.empty() || !places_.follows_columns(at) || places_.distance(at) != 1) return text;
  const auto [it, fresh] = widened_.try_emplace(array + "@" + at.key());
  if (fresh && !(it->second = row_for("int32")).empty())
    kernel_.phases.back().row.push_back("_Pragma(\"omp simd\") for (int64 q = 0; q < " + indices_.text(kernel_.cols) +
                                        "; ++q) " + it->second + " = " + text + ";");
  return it->second.empty() ? text : it->second + " != 0";
}

Scalar Elements::load(Value v, const Multi& index, bool optional) {
  const TensorType& t = v.tensor();
  const size_t number = input(v);
  const std::string array = "in" + std::to_string(number), present = optional ? array + " != nullptr" : "";
  Index at = places_.offset(t, index);
  // An operand that is read many times stays in the caches, wherever it lies.
  const bool few = usual_numel(v) * kRead < kernel_.usual_rows * kernel_.usual_cols;
  if (!in_finish_ && !few && places_.runs_along(at)) kernel_.along_rows = true;
  if (predicate_scope_ != Scope::Lane && places_.is_vector(at)) {
    reads_.push_back(access(number, at, Scope::Chunk));
    return load_vector(t.dtype, from_pointer(number, places_.without_lane(at)), array, present);
  }
  if (const auto near = optional ? std::nullopt : readable_neighbours(t, at)) {
    reads_.push_back(access(number, at, Scope::Chunk));
    return load_neighbours(t.dtype, *near, number);
  }
  Scope scope = std::max(indices_.scope(at), predicate_scope_);
  reads_.push_back(access(number, at, scope));
  if (scope != Scope::Row) {
    kernel_.strided = true;
    if (!few && places_.follows_rows(at))
      kernel_.rows_together = std::max(kernel_.rows_together, kSector / static_cast<int>(itemsize(t.dtype)));
  }
  std::string text = "th_load(" + array + " + (" + place_text(from_pointer(number, at)) + "))";
  if (t.dtype == DType::boolean && scope != Scope::Row) text = widened(array, at, std::move(text));
  if (optional) text = "(" + present + " ? " + text + " : " + compute_name(t.dtype) + "(0))";
  if (kernel_.cached && options_.keep_singles && !in_finish_ && scope != Scope::Row && predicate_.empty() &&
      indices_.fixed(at, true) && places_.differs_by_row(at))
    text = kept_single(array + "@" + at.key(), t.dtype, text, scope);
  if (!predicate_.empty()) text = predicate_ + " ? " + text + " : " + compute_name(t.dtype) + "(0)";
  return define(compute_name(t.dtype), text, scope);
}

Scalar Elements::load_vector(DType t, const Index& start, const std::string& array, const std::string& present) {
  const std::string of = "<" + storage_name(t) + ", " + std::to_string(options_.lanes) + ">",
                    key = array + "@" + start.key() + predicate_;
  std::string name;
  const auto load_if = [&](const std::string& condition) {
    return "th_load_vector" + of + "(" + array + " + (" + indices_.text(start) + ")" + condition + ");";
  };
  if (predicate_.empty()) {
    const std::string text = load_if(present.empty() ? "" : ", " + present);
    // All of a row is asked for before anything is computed, where the addresses are known by then.  What all rows read
    // stays in the caches, and would take registers that let other rows be loaded meanwhile.
    const int64_t kept_bytes = places_.differs_by_row(start) ? itemsize(t) : 0;
    name = vector(key, "Vec" + of, text, kept_bytes, indices_.fixed(start, kernel_.phases.size() == 1));
  } else if (!present.empty()) {
    name = vector(key, "Vec" + of, load_if(", (" + predicate_ + ") && " + present), 0);
  } else {
    std::string& known = vectors_[key];
    if (known.empty()) known = vector_under_predicate(of, start, array);
    name = known;
  }
  return define(compute_name(t), "th_get(" + name + ".at[j])", Scope::Lane);
}

// Neighbours that may be read whatever the lanes' condition says: all of them lie among the tensor's elements.
std::optional<Places::Neighbours> Elements::readable_neighbours(const TensorType& t, const Index& at) {
  if (!predicate_.empty() && predicate_scope_ != Scope::Lane) return std::nullopt;
  auto near = places_.neighbours(at);
  if (!near || (!predicate_.empty() && indices_.assumes(near->start))) return std::nullopt;
  Size last = 0;
  for (size_t i = 0; i < t.shape.size(); ++i) last += (Size(t.shape[i]) - 1) * Size(t.strides[i]);
  return indices_.within(near->start, last - (near->width - 2)) ? near : std::nullopt;
}

Scalar Elements::load_neighbours(DType t, const Places::Neighbours& near, size_t number) {
  const std::string of = "<" + storage_name(t) + ", " + std::to_string(near.width) + ">",
                    array = "in" + std::to_string(number);
  const Index start = from_pointer(number, near.start);
  const int64_t bytes = std::max<int64_t>(1, itemsize(t) * near.width / options_.lanes);
  const std::string name =
      vector(array + "@" + start.key() + of, "Vec" + of,
             "th_load_vector" + of + "(" + array + " + (" + indices_.text(start) + "));",
             places_.differs_by_row(start) ? bytes : 0, indices_.fixed(start, kernel_.phases.size() == 1));
  std::string text = "th_get(" + name + ".at[" + indices_.text(near.lane) + "])";
  if (!predicate_.empty()) text = predicate_ + " ? " + text + " : " + compute_name(t) + "(0)";
  return define(compute_name(t), text, Scope::Lane);
}

// Where an element that is loaded by itself stays over the phases of a row.
std::string Elements::kept_single(const std::string& key, DType t, const std::string& text, Scope scope) {
  auto [it, is_new] = vectors_.emplace(key, "");
  if (!is_new) return it->second;
  const bool each_lane = scope == Scope::Lane;
  const std::string name = fresh("x");
  kernel_.cached_vectors.push_back(compute_name(t) + " " + name + "[K]" +
                                   (each_lane ? "[" + std::to_string(options_.lanes) + "];" : ";"));
  kernel_.cached_bytes += std::max<int64_t>(4, itemsize(t)) * (each_lane ? options_.lanes : 1);
  it->second = name + (each_lane ? "[k][j]" : "[k]");
  kept_.insert(key);
  buffer(scope).push_back(it->second + " = " + text + ";");
  return it->second;
}

// The name of a chunk's vector, which the text makes where there is none yet.  One of 0 bytes is not kept over phases.
std::string Elements::vector(const std::string& key, const std::string& type, const std::string& text,
                             int64_t kept_bytes, bool early) {
  auto [it, is_new] = vectors_.emplace(key, "");
  if (!is_new) return it->second;
  it->second = fresh("x");
  if (kernel_.cached && kept_bytes > 0 && !in_finish_) {
    kernel_.cached_vectors.push_back(type + " " + it->second + "[K];");
    kernel_.cached_bytes += kept_bytes * options_.lanes;
    it->second += "[k]";
    (early ? kernel_.cached_loads : buffer(Scope::Chunk)).push_back(it->second + " = " + text);
    kept_.insert(key);
  } else {
    buffer(Scope::Chunk).push_back("const " + type + " " + it->second + " = " + text);
  }
  return it->second;
}

// Of two loads from an array of which one happens where the other does not, as in the halves of a rotation, one is
// made, from a place that depends on the condition.  A condition's name lives in its phase, and so does the vector.
std::string Elements::vector_under_predicate(const std::string& of, const Index& start, const std::string& array) {
  const bool negated = predicate_[0] == '!';
  const std::string opposite = negated ? predicate_.substr(1) : "!" + predicate_, load = "th_load_vector" + of + "(",
                    declared = "const Vec" + of + " ", address = indices_.text(start);
  std::vector<std::string>& chunk = buffer(Scope::Chunk);
  std::vector<Conditional>& waiting = conditional_[array + of + opposite];
  if (!waiting.empty() && indices_.fixed(start, true)) {
    const Conditional first = waiting.back();
    waiting.pop_back();
    chunk[first.statement] = declared + first.name + " = " + load + array + " + (" + opposite + " ? " + first.address +
                             " : " + address + "));";
    return first.name;
  }
  const std::string name = fresh("x");
  if (predicate_.find('(') == std::string::npos)
    conditional_[array + of + predicate_].push_back({name, address, chunk.size()});
  chunk.push_back(declared + name + " = " + load + array + " + (" + address + "), " + predicate_ + ");");
  return name;
}

// The quotient that a call is, or that it rounds, where the divisor is one for a row and the result has 16 bits; empty
// otherwise.
Scalar Elements::rounded_quotient(const Call& call, const Multi& index) {
  const Value out = call.output.value();
  if (!is_floating(out.dtype()) || itemsize(out.dtype()) != 2 || is_exact(out)) return {};
  const Call* quotient = &call;
  if (call.op->full_name == "prims.convert_element_type") {
    const Value from = call.args[0].value();
    quotient = from.dtype() == DType::f32 && !is_leaf(from) && !roots_.contains(from.id()) ? producer_(from) : nullptr;
  }
  if (!quotient || quotient->op->full_name != "prims.div" || !quotient->args[0].is_tensor() ||
      !quotient->args[1].is_tensor())
    return {};
  const Scalar divisor = element(quotient->args[1].value(), index);
  if (divisor.scope != Scope::Row) return {};
  const Scalar dividend = element(quotient->args[0].value(), index);
  if (dividend.scope == Scope::Row) return {};
  Scalar s = define("float", quotient_by_row(dividend.text, divisor.text), dividend.scope);
  s.costly = dividend.costly;
  return s;
}

Scalar Elements::pointwise(const Call& call, const Multi& index) {
  if (Scalar quotient = rounded_quotient(call, index); !quotient.text.empty()) return quotient;
  const DType out = call.output.value().dtype();
  // What numbers among the operands are converted to.
  DType operand = out;
  for_each_input(call, [&](Value v) {
    if (!v.type().is_tensor()) return;
    if (call.op->full_name != "prims.where" || v.dtype() != DType::boolean) operand = v.dtype();
  });
  if (call.op->full_name == "prims.where") operand = out;
  std::vector<std::pair<std::string, std::string>> operands;
  Scope scope = Scope::Row;
  bool costly = calls_library(*call.op);
  DType from = operand;
  for (size_t i = 0; i < call.args.size(); ++i) {
    const Arg& a = call.args[i];
    if (a.is_tensor()) {
      Scalar s = element(a.value(), index);
      scope = std::max(scope, s.scope);
      costly |= s.costly;
      from = a.value().dtype();
      operands.emplace_back(call.op->schema.params[i].name, s.text);
    } else if (a.is_number()) {
      operands.emplace_back(call.op->schema.params[i].name, number(a, operand));
    }
  }
  if (wraps(*call.op, out))
    for (auto& [name, text] : operands) text = "u" + compute_name(out) + "(" + text + ")";
  std::string text = scalar_text(*call.op, operands);
  if (call.op->full_name == "prims.convert_element_type") text = converted(text, from, out);
  else if (compute_name(out) != "float" && compute_name(out) != "double") text = compute_name(out) + "(" + text + ")";
  Scalar s = define(compute_name(out), rounded(text, call.output.value()), scope);
  s.costly = costly;
  return s;
}

// A division takes as long as ten products.  Of a quotient that is rounded to 16 bits nobody sees that the reciprocal was
// rounded; the scale keeps the reciprocal of the smallest and largest numbers within float32.
std::string Elements::quotient_by_row(const std::string& dividend, const std::string& divisor) {
  const std::string scale = defined_once("float", "th_divisor_scale(" + divisor + ")", Scope::Row).text,
                    reciprocal = defined_once("float", "1.0f / (" + divisor + " * " + scale + ")", Scope::Row).text;
  return "(" + dividend + " * " + reciprocal + " * " + scale + ")";
}

size_t Elements::number_place(Value number) {
  std::vector<Value>& known = kernel_.numbers;
  auto it = std::find(known.begin(), known.end(), number);
  if (it == known.end()) it = known.insert(it, number);
  return static_cast<size_t>(it - known.begin());
}

std::string Elements::number(const Arg& a, DType t) {
  const NumberType* type = a.is_value() ? &a.value().type().number() : nullptr;
  if (type && !type->dim) {
    return compute_name(t) + "(f" + std::to_string(number_place(a.value())) + ")";
  }
  if (!type && a.kind() != Arg::Kind::Int) return literal(a, t);
  const Dim& n = type ? *type->dim : a.dim();
  return n.is_constant() ? literal(n, t) : compute_name(t) + "(" + indices_.text(Size(n)) + ")";
}

Scalar Elements::create(const Call& call, const Multi& index) {
  Args a = call.arguments();
  const DType out = call.output.value().dtype();
  if (call.op->full_name == "prims.full")
    return {rounded(literal(a["fill_value"], out), call.output.value()), Scope::Row};
  const std::string type = compute_name(out), at = indices_.text(index[0]);
  const Scope scope = indices_.scope(index[0]);
  if (call.op->full_name == "prims.arange") return define(type, type + "(" + at + ")", scope);
  const DType compute = is_floating(out) ? DType::f64 : DType::i64;
  const std::string start = literal(a["start"], compute), step = literal(a["step"], compute);
  return define(type, type + "(" + start + " + " + step + " * " + compute_name(compute) + "(" + at + "))", scope);
}

// The place of an element among those that its call draws is its number in row-major order, wherever it lies in memory.
Scalar Elements::draw(const Call& call, const Multi& index) {
  const DType out = call.output.value().dtype();
  Args a = call.arguments();
  const Value state = a.value("state");
  const Index place = places_.linearize(index, sizes(call.output.value()));
  const std::string& name = call.op->full_name;
  if (name == "prims.normal_at") {
    Scalar s = drawn("th_normal<" + compute_name(out) + ">", compute_name(out), state, place);
    s.text = rounded(s.text, call.output.value());
    return s;
  }
  if (name == "prims.uniform_at") {
    const int bits = out == DType::f64 ? 53 : out == DType::f32 ? 24 : out == DType::f16 ? 11 : 8;
    return drawn("th_uniform<" + std::to_string(bits) + ">", compute_name(out), state, place);
  }
  const int64_t low = a.integer("low"), high = a.integer("high");
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  const Scalar bits = drawn("th_integers", "uint32", state, place);
  const std::string text =
      "th_integer(" + bits.text + ", " + literal(Arg(low), DType::i64) + ", uint64(" + std::to_string(range) + "ull))";
  Scalar s = define(compute_name(out), text, bits.scope);
  s.costly = true;
  return s;
}

Scalar Elements::drawn(const std::string& kind, const std::string& type, Value state, const Index& place) {
  const Scalar seed = element(state, {Index(0)}), offset = element(state, {Index(1)});
  const std::string key = seed.text + ", " + offset.text;
  Scalar s{"", std::max({indices_.scope(place), seed.scope, offset.scope}), true};
  const bool known_early = std::max(seed.scope, offset.scope) == Scope::Row;
  if (known_early && places_.is_vector(place)) {
    const Index start = places_.without_lane(place);
    const std::string lanes = std::to_string(options_.lanes);
    const std::string text =
        "th_random_vector<" + kind + ", " + lanes + ">(" + key + ", " + indices_.text(start) + ");";
    const int64_t bytes = options_.draw_again ? 0 : type == "double" ? 8 : 4;
    kernel_.caches_draws |= kernel_.cached && bytes > 0;
    s.text = vector(kind + key + "@" + start.key(), "th_lanes<" + type + ", " + lanes + ">", text, bytes) + ".at[j]";
  } else if (known_early && options_.draw_ahead && predicate_.empty() && places_.follows_columns(place)) {
    std::vector<Ahead>& ahead = kernel_.phases.back().ahead;
    ahead.push_back({fresh("x"), kind, key, indices_.text(place)});
    s.text = ahead.back().name + "[l]";
  } else {
    s.text = "th_random<" + kind + ">(" + key + ", " + indices_.text(place) + ")";
  }
  s.text = define(type, s.text, s.scope).text;
  return s;
}

Scalar Elements::move(const Call& call, const Multi& index) {
  if (call.op->index_map) return element(call.arguments().value("a"), source_index(call, index));
  const std::string& name = call.op->full_name;
  if (name == "prims.cat") return cat_element(call, index);
  if (name == "prims.pad") return pad_element(call, index);
  if (name == "prims.index") return indexed_element(call, index);
  return taken_element(call, index);
}

Multi Elements::source_index(const Call& call, const Multi& index) {
  const Args a = call.arguments();
  const IndexMap map = call.op->index_map(a, call.output.value().tensor()).value();
  if (map.row_major)
    return places_.delinearize(places_.linearize(index, sizes(call.output.value())), sizes(a.value("a")));
  Multi out;
  for (const IndexMap::Place& place : map.places) {
    Index at{Size(place.offset)};
    for (const auto& [dim, factor] : place.terms) at = indices_.add(at, indices_.mul(index[dim], factor));
    out.push_back(std::move(at));
  }
  return out;
}

// The name that the text already has, where the loops stand.
Scalar Elements::defined_once(const std::string& type, const std::string& text, Scope scope) {
  auto& memo = scope == Scope::Row ? row_memo_ : loop_memo_;
  auto [it, is_new] = memo.try_emplace(text);
  if (is_new) it->second = define(type, text, scope);
  return it->second;
}

}  // namespace thunder::fuser
