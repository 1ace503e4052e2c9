// Types of values: what is known about a value before the program runs.
#pragma once

#include <complex>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/device.h"
#include "core/dim.h"
#include "core/dtype.h"

namespace thunder {

/// How elements lie in memory: by strides, or as those that are not zero and where they are.
enum class Layout : uint8_t { Strided, SparseCoo, SparseCsr, SparseCsc };

std::string_view layout_name(Layout l);  ///< "sparse_coo", as in torch.sparse_coo
std::optional<Layout> layout_from_name(std::string_view name);

struct TensorType {
  DType dtype = DType::f32;
  Device device;
  Dims shape;
  Dims strides;  ///< in elements, one per entry of shape; none where the layout is sparse
  bool requires_grad = false;
  Layout layout = Layout::Strided;
  int64_t dense_dims = 0;  ///< of a sparse tensor: how many of its last dimensions are dense

  /// Few operators take others (kAnyLayout).
  bool strided() const { return layout == Layout::Strided; }
  bool same_layout(const TensorType& o) const { return layout == o.layout && dense_dims == o.dense_dims; }
  /// "strided", "sparse_coo", "sparse_coo dense=1"
  std::string layout_str() const;

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  Dim numel() const { return product(shape); }
};

/// A Python number computed at run time, such as the result of `Tensor.item()`.
struct NumberType {
  NumberKind kind = NumberKind::Int;
  /// For an int that a shape may use: the symbol it binds.
  std::optional<Dim> dim;
  /// For a number that a call's own numbers give: what computes it, so that it can be specialized.
  NumberPtr expr = nullptr;
};

class Type {
 public:
  enum class Kind : uint8_t { None, Tensor, Number, Future, Opaque };
  Type() = default;
  Type(TensorType t) : kind_(Kind::Tensor), tensor_(std::make_shared<const TensorType>(std::move(t))) {}
  Type(NumberType n) : kind_(Kind::Number), number_(std::make_shared<const NumberType>(std::move(n))) {}
  /// What a communication gives once it is waited for: these tensors, in order.
  static Type future(std::vector<TensorType> of);
  /// Anything else that flows through a trace, such as an autograd graph.  `what` names it in print.
  static Type opaque(std::string what);

  Kind kind() const { return kind_; }
  bool is_tensor() const { return kind_ == Kind::Tensor; }
  bool is_number() const { return kind_ == Kind::Number; }
  bool is_future() const { return kind_ == Kind::Future; }
  const TensorType& tensor() const;
  const NumberType& number() const;
  const std::vector<TensorType>& future() const;
  const std::string& opaque_name() const;

  /// "cpu f32[2, 3]", "int", "FUTURE cpu f32[2], cpu f32[3]", ...: the annotation in a printed trace.
  std::string str() const;
  /// Equal, dims by normal form, but for NumberType::expr.  `strict` also compares strides and requires_grad.
  bool same(const Type& other, bool strict = true) const;

 private:
  Kind kind_ = Kind::None;
  std::shared_ptr<const TensorType> tensor_;
  std::shared_ptr<const NumberType> number_;
  std::shared_ptr<const std::vector<TensorType>> future_;
  std::shared_ptr<const std::string> opaque_;
};

// ---- layouts --------------------------------------------------------------------------------------------------------

/// Row-major strides of a shape, as PyTorch gives them (a size of 0 counts as 1).
Dims contiguous_strides(const Dims& shape);
bool is_contiguous(const TensorType& t);
/// Every element has its own place and there are no gaps, in any order of dimensions.
bool is_non_overlapping_and_dense(const Dims& shape, const Dims& strides);
/// Output strides of a pointwise operation over operands already broadcast to `shape` (their broadcast dimensions have
/// stride 0): PyTorch's TensorIterator rule.
Dims pointwise_strides(const Dims& shape, const std::vector<const Dims*>& operand_strides);
/// Strides of empty_like/clone with torch.preserve_format.
Dims preserve_format_strides(const TensorType& t);
/// Strides that view a tensor of `shape`, `strides` as `new_shape` without a copy, or nothing if there are none.
std::optional<Dims> view_strides(const Dims& shape, const Dims& strides, const Dims& new_shape);
/// Channels-last strides of a 4-d (or 5-d, channels_last_3d) shape.
Dims channels_last_strides(const Dims& shape);

}  // namespace thunder
