#include "core/type.h"

#include <algorithm>
#include <numeric>

#include "core/dim_algebra.h"
#include "core/error.h"

namespace thunder {

namespace {
constexpr std::string_view kLayouts[] = {"strided", "sparse_coo", "sparse_csr", "sparse_csc"};
}  // namespace

std::string_view layout_name(Layout l) { return kLayouts[static_cast<size_t>(l)]; }

std::optional<Layout> layout_from_name(std::string_view name) {
  auto it = std::find(std::begin(kLayouts), std::end(kLayouts), name);
  if (it == std::end(kLayouts)) return std::nullopt;
  return static_cast<Layout>(it - std::begin(kLayouts));
}

std::string TensorType::layout_str() const {
  return dense_dims > 0 ? cat(layout_name(layout), " dense=", dense_dims) : std::string(layout_name(layout));
}

Type Type::future(std::vector<TensorType> of) {
  Type t;
  t.kind_ = Kind::Future;
  t.future_ = std::make_shared<const std::vector<TensorType>>(std::move(of));
  return t;
}

Type Type::opaque(std::string what) {
  Type t;
  t.kind_ = Kind::Opaque;
  t.opaque_ = std::make_shared<const std::string>(std::move(what));
  return t;
}

const TensorType& Type::tensor() const {
  THUNDER_ASSERT(tensor_, "a tensor was expected, got ", str());
  return *tensor_;
}

const NumberType& Type::number() const {
  THUNDER_ASSERT(number_, "a number was expected, got ", str());
  return *number_;
}

const std::vector<TensorType>& Type::future() const {
  THUNDER_ASSERT(future_, "a future was expected, got ", str());
  return *future_;
}

const std::string& Type::opaque_name() const {
  THUNDER_ASSERT(opaque_, "an opaque value was expected, got ", str());
  return *opaque_;
}

std::string Type::str() const {
  switch (kind_) {
    case Kind::None: return "None";
    case Kind::Tensor:
      return cat(tensor_->device, " ", short_name(tensor_->dtype), thunder::str(tensor_->shape),
                 tensor_->strided() ? "" : " " + tensor_->layout_str());
    case Kind::Future: {
      std::string text;
      for (const TensorType& t : *future_) text += (text.empty() ? "FUTURE " : ", ") + Type(t).str();
      return text;
    }
    case Kind::Opaque: return *opaque_;
    case Kind::Number: break;
  }
  static constexpr const char* kNames[] = {"bool", "int", "float", "complex"};
  return kNames[static_cast<size_t>(number_->kind)];
}

bool Type::same(const Type& other, bool strict) const {
  if (kind_ != other.kind_) return false;
  switch (kind_) {
    case Kind::None: return true;
    case Kind::Opaque: return *opaque_ == *other.opaque_;
    case Kind::Future:
      return std::equal(future_->begin(), future_->end(), other.future_->begin(), other.future_->end(),
                        [&](const TensorType& a, const TensorType& b) { return Type(a).same(b, strict); });
    case Kind::Number:
      return number_->kind == other.number_->kind && number_->dim.has_value() == other.number_->dim.has_value() &&
             (!number_->dim || number_->dim->same(*other.number_->dim));
    case Kind::Tensor: break;
  }
  const TensorType &a = *tensor_, &b = *other.tensor_;
  if (a.dtype != b.dtype || a.device != b.device || !a.same_layout(b) || !thunder::same(a.shape, b.shape)) return false;
  return !strict || (a.requires_grad == b.requires_grad && thunder::same(a.strides, b.strides));
}

// ---- layouts --------------------------------------------------------------------------------------------------------

Dims contiguous_strides(const Dims& shape) {
  ShapeEnv::LayingOut scope;
  Dims strides(shape.size());
  Dim step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    // Such lengths are taken to differ from 0 here as in comparisons.
    step = step * (known_in_run_alone(shape[i]) ? shape[i] : max(shape[i], Dim(1)));
  }
  return strides;
}

bool is_contiguous(const TensorType& t) {
  Dim step = 1;
  for (const Dim& d : t.shape)
    if (d == 0) return true;
  for (size_t i = t.shape.size(); i-- > 0;) {
    if (t.shape[i] == 1) continue;
    if (t.strides[i] != step) return false;
    step = step * t.shape[i];
  }
  return true;
}

bool is_non_overlapping_and_dense(const Dims& shape, const Dims& strides) {
  ShapeEnv::LayingOut scope;
  std::vector<size_t> order;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return strides[a] < strides[b]; });
  Dim expected = 1;
  for (size_t i : order) {
    if (strides[i] != expected) return false;
    expected = expected * shape[i];
  }
  return true;
}

namespace {

// Whether dimension `a` should be further in than `b`: 1 yes, -1 no, 0 the operands do not tell (TensorIterator's
// reorder_dimensions).
int should_swap(size_t a, size_t b, const Dims& shape, const std::vector<const Dims*>& operands) {
  for (const Dims* s : operands) {
    const Dim &x = (*s)[a], &y = (*s)[b];
    if (x == 0 || y == 0) continue;
    if (x < y) return -1;
    if (x > y) return 1;
    if (shape[a] > shape[b]) return 1;  // equal strides: the larger size goes further out
  }
  return 0;
}

}  // namespace

Dims pointwise_strides(const Dims& shape, const std::vector<const Dims*>& operand_strides) {
  ShapeEnv::LayingOut scope;
  if (!operand_strides.empty()) {
    const Dims& first = *operand_strides[0];
    bool all_same =
        std::all_of(operand_strides.begin(), operand_strides.end(), [&](const Dims* s) { return same(*s, first); });
    if (all_same && same(first, contiguous_strides(shape))) return first;
    if (all_same && is_non_overlapping_and_dense(shape, first)) return first;
  }
  // perm[0] is the innermost dimension; insertion sort, as the comparison is not a strict order.
  std::vector<size_t> perm(shape.size());
  std::iota(perm.rbegin(), perm.rend(), size_t{0});
  for (size_t i = 1; i < perm.size(); ++i) {
    size_t dim1 = i;
    for (size_t k = i; k-- > 0;) {
      int c = should_swap(perm[k], perm[dim1], shape, operand_strides);
      if (c > 0) {
        std::swap(perm[k], perm[dim1]);
        dim1 = k;
      } else if (c < 0) {
        break;
      }
    }
  }
  if (std::is_sorted(perm.rbegin(), perm.rend())) return contiguous_strides(shape);
  Dims strides(shape.size());
  Dim step = 1;
  // Unlike contiguous_strides: outside of a size of 0, strides are 0.
  for (size_t d : perm) {
    strides[d] = step;
    step = step * shape[d];
  }
  return strides;
}

Dims preserve_format_strides(const TensorType& t) {
  if (!t.strided()) return {};
  if (is_non_overlapping_and_dense(t.shape, t.strides)) return t.strides;
  return pointwise_strides(t.shape, {&t.strides});
}

std::optional<Dims> view_strides(const Dims& shape, const Dims& strides, const Dims& new_shape) {
  ShapeEnv::LayingOut scope;
  if (product(shape) == 0) {
    if (same(shape, new_shape)) return strides;
    return contiguous_strides(new_shape);
  }
  Dims result(new_shape.size());
  int64_t view_dim = static_cast<int64_t>(new_shape.size()) - 1;
  if (shape.empty()) {
    std::fill(result.begin(), result.end(), Dim(1));
    return result;
  }
  // Walk chunks of dimensions that are contiguous with each other, from the innermost, and fit new sizes into each.
  Dim chunk_base = strides.back(), chunk = 1, view = 1;
  for (int64_t d = static_cast<int64_t>(shape.size()) - 1; d >= 0; --d) {
    chunk = chunk * shape[d];
    bool ends = d == 0 || (shape[d - 1] != 1 && strides[d - 1] != chunk * chunk_base);
    if (!ends) continue;
    while (view_dim >= 0 && (new_shape[view_dim] == 1 || (!view.same(chunk) && view < chunk))) {
      result[view_dim] = view * chunk_base;
      view = view * new_shape[view_dim];
      --view_dim;
    }
    if (view != chunk) return std::nullopt;
    if (d > 0) {
      chunk_base = strides[d - 1];
      chunk = 1;
      view = 1;
    }
  }
  if (view_dim != -1) return std::nullopt;
  return result;
}

Dims channels_last_strides(const Dims& shape) {
  THUNDER_ASSERT(shape.size() == 4 || shape.size() == 5, "channels_last needs 4 or 5 dimensions, got ", shape.size());
  Dims strides(shape.size());
  strides[1] = 1;
  Dim step = shape[1];
  for (size_t i = shape.size(); i-- > 2;) {
    strides[i] = step;
    step = step * shape[i];
  }
  strides[0] = step;
  return strides;
}

}  // namespace thunder
