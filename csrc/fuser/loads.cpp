#include "fuser/loads.h"

#include <algorithm>

namespace thunder::fuser {
namespace {

constexpr int64_t kKnownDistance = 8;  // of neighbours that g++ loads as vectors and takes apart
constexpr int64_t kRead = 8;           // times, from which on an element stays in the caches
constexpr int kSector = 32;            // bytes that a GPU fetches from memory at once

}  // namespace

size_t Loads::input(Value v) {
  auto [it, is_new] = input_of_.emplace(v.id(), made_.kernel.inputs.size());
  if (is_new) {
    made_.kernel.inputs.push_back(v);
    made_.kernel.offsets.emplace_back(0);
    has_offset_.push_back(0);
  }
  return it->second;
}

// The pointer of an input stands where the first read has its constant part.
Index Loads::from_pointer(size_t number, const Index& at) {
  Size& offset = made_.kernel.offsets[number];
  if (!has_offset_[number]) offset = at.constant();
  has_offset_[number] = 1;
  return made_.indices.add(at, Index(-offset));
}

std::string Loads::place_text(const Index& at) {
  const std::optional<int64_t> distance = made_.options.name_distances ? made_.places.distance(at) : std::nullopt;
  if (!distance || std::abs(*distance) <= kKnownDistance) return made_.indices.text(at);
  made_.kernel.distances.insert(*distance);
  return made_.places.text_by_distance(at, distance_name(*distance));
}

// g++ vectorises no reduction whose elements have one byte here and four there.
std::string Loads::widened(const std::string& array, const Index& at, std::string text) {
  if (made_.statements.in_finish() || !made_.condition.empty() || !made_.places.follows_columns(at) ||
      made_.places.distance(at) != 1)
    return text;
  const auto [it, fresh] = widened_.try_emplace(array + "@" + at.key());
  if (fresh && !(it->second = kept_.row_for("int32")).empty())
    made_.kernel.phases.back().row.push_back("_Pragma(\"omp simd\") for (int64 q = 0; q < " +
                                             made_.indices.text(made_.kernel.cols) + "; ++q) " + it->second + " = " +
                                             text + ";");
  return it->second.empty() ? text : it->second + " != 0";
}

Scalar Loads::load(Value v, const Multi& index, Tensor tensor) {
  const TensorType& t = v.tensor();
  const size_t number = input(v);
  const bool optional = tensor == Tensor::Optional;
  const std::string array = "in" + std::to_string(number), present = optional ? array + " != nullptr" : "";
  const Index at = made_.places.offset(t, index);
  Kernel& kernel = made_.kernel;
  // An operand that is read many times stays in the caches, wherever it lies.
  const bool few = usual_numel(v) * kRead < kernel.usual_rows * kernel.usual_cols;
  if (!made_.statements.in_finish() && !few && made_.places.runs_along(at)) kernel.along_rows = true;
  if (made_.condition.scope() != LoopScope::Lane && made_.places.is_vector(at)) {
    reads_.push_back(made_.statements.access(number, at, LoopScope::Chunk));
    return load_vector(t.dtype, from_pointer(number, made_.places.without_lane(at)), array, present);
  }
  if (const auto near = optional ? std::nullopt : readable_neighbours(t, at)) {
    reads_.push_back(made_.statements.access(number, at, LoopScope::Chunk));
    return load_neighbours(t.dtype, *near, number);
  }
  return load_single(t.dtype, at, number, few, present);
}

Scalar Loads::load_single(DType t, const Index& at, size_t number, bool few, const std::string& present) {
  Kernel& kernel = made_.kernel;
  const std::string array = "in" + std::to_string(number), type = compute_name(t);
  const LoopScope scope = std::max(made_.indices.scope(at), made_.condition.scope());
  reads_.push_back(made_.statements.access(number, at, scope));
  if (scope != LoopScope::Row) {
    kernel.strided = true;
    if (!few && made_.places.follows_rows(at))
      kernel.rows_together = std::max(kernel.rows_together, kSector / static_cast<int>(itemsize(t)));
  }
  std::string text = "th_load(" + array + " + (" + place_text(from_pointer(number, at)) + "))";
  if (t == DType::boolean && scope != LoopScope::Row) text = widened(array, at, std::move(text));
  if (!present.empty()) text = "(" + present + " ? " + text + " : " + type + "(0))";
  if (kernel.cached && made_.options.keep_singles && !made_.statements.in_finish() && scope != LoopScope::Row &&
      made_.condition.empty() && made_.indices.fixed(at, true) && made_.places.differs_by_row(at))
    text = vectors_.single(array + "@" + at.key(), t, text, scope);
  return made_.statements.define(type, made_.condition.or_zero(text, type), scope);
}

Scalar Loads::load_vector(DType t, const Index& start, const std::string& array, const std::string& present) {
  const std::string of = "<" + storage_name(t) + ", " + std::to_string(made_.options.lanes) + ">";
  const Condition& condition = made_.condition;
  const std::string key = array + "@" + start.key() + condition.text();
  std::string name;
  const auto load_if = [&](const std::string& holds) {
    return "th_load_vector" + of + "(" + array + " + (" + made_.indices.text(start) + ")" + holds + ");";
  };
  if (condition.empty()) {
    const std::string text = load_if(present.empty() ? "" : ", " + present);
    // All of a row is asked for before anything is computed, where the addresses are known by then.  What all rows read
    // stays in the caches, and would take registers that let other rows be loaded meanwhile.
    const int64_t kept_bytes = made_.places.differs_by_row(start) ? itemsize(t) : 0;
    name =
        vectors_.vector(key, "Vec" + of, text, kept_bytes, made_.indices.fixed(start, made_.kernel.phases.size() == 1));
  } else if (!present.empty()) {
    name = vectors_.vector(key, "Vec" + of, load_if(", (" + condition.text() + ") && " + present), 0);
  } else {
    name = vectors_.under_condition(key, of, start, array);
  }
  return made_.statements.define(compute_name(t), "th_get(" + name + ".at[j])", LoopScope::Lane);
}

// Neighbours that may be read whatever the lanes' condition says: all of them lie among the tensor's elements.
std::optional<Places::Neighbours> Loads::readable_neighbours(const TensorType& t, const Index& at) {
  if (!made_.condition.empty() && made_.condition.scope() != LoopScope::Lane) return std::nullopt;
  auto near = made_.places.neighbours(at);
  if (!near || (!made_.condition.empty() && made_.indices.assumes(near->start))) return std::nullopt;
  Size last = 0;
  for (size_t i = 0; i < t.shape.size(); ++i) last += (Size(t.shape[i]) - 1) * Size(t.strides[i]);
  return made_.indices.within(near->start, last - (near->width - 2)) ? near : std::nullopt;
}

Scalar Loads::load_neighbours(DType t, const Places::Neighbours& near, size_t number) {
  const std::string of = "<" + storage_name(t) + ", " + std::to_string(near.width) + ">",
                    array = "in" + std::to_string(number);
  const Index start = from_pointer(number, near.start);
  const int64_t bytes = std::max<int64_t>(1, itemsize(t) * near.width / made_.options.lanes);
  const std::string name = vectors_.vector(
      array + "@" + start.key() + of, "Vec" + of,
      "th_load_vector" + of + "(" + array + " + (" + made_.indices.text(start) + "));",
      made_.places.differs_by_row(start) ? bytes : 0, made_.indices.fixed(start, made_.kernel.phases.size() == 1));
  const std::string text = "th_get(" + name + ".at[" + made_.indices.text(near.lane) + "])", type = compute_name(t);
  return made_.statements.define(type, made_.condition.or_zero(text, type), LoopScope::Lane);
}

}  // namespace thunder::fuser
