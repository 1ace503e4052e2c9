// What metas and bodies of shape and index operators share: sizes and dimensions as arguments, and the few steps of
// which view operators are made.
#pragma once

#include <string_view>
#include <vector>

#include "core/builder.h"
#include "core/error.h"

namespace thunder::ops {

/// A size given as an argument: a literal, a symbol, or a number value that binds one.
/// Error (Runtime) for a number known only at run time.
Dim size_arg(std::string_view op, const Arg& arg);
Dims size_args(std::string_view op, const Arg& list);
/// How many elements from its first one on a tensor of these sizes and strides reaches in memory.
Dim storage_extent(const Dims& shape, const Dims& strides);
/// Whether no place in storage is read twice, for all that the numbers say.
bool reads_once(const Dims& shape, const Dims& strides);
/// -rank <= dim < rank, made non-negative; a 0-d tensor counts as 1-d.  Error (Index).
int64_t wrapped_dim(std::string_view op, const Arg& dim, int64_t rank);
/// Each one wrapped; Error (Runtime) if one occurs twice.
std::vector<int64_t> wrapped_dims(std::string_view op, const std::vector<int64_t>& dims, int64_t rank);
std::vector<int64_t> wrapped_dims(std::string_view op, const Arg& dims, int64_t rank);
/// `shape` with its -1 replaced by what `numel` elements leave for it.  Error (Runtime) if it does not fit.
Dims inferred_shape(std::string_view op, Dims shape, const Dim& numel);

TensorType with_shape(const TensorType& like, Dims shape, Dims strides);
/// Row-major, same dtype and device.
TensorType contiguous_like(const TensorType& like, Dims shape);
/// The layout of torch.empty_like.
TensorType preserve_like(const TensorType& like);

bool is_one(const Dim& d);
/// As is_one(), where the rank of a result depends on it: a size that depends on values is asked for, and an error
/// (Runtime) if only the run knows it.
bool turns_out_one(const Dim& d);
/// The dimensions of size 1, all of them asked for.
std::vector<int64_t> dims_of_one(const Dims& shape);
/// What Tensor.suggest_memory_format() sees: 4 (or 5) dimensions in channels-last order; ambiguous layouts count as
/// row-major.
bool suggests_channels_last(const TensorType& t);
/// The memory format of a tensor with as many dimensions that lies so.
ConstantArg channels_last_format(const TensorType& t);
/// Which of the operands of cat() are 1-d tensors without elements.  They join tensors of any shape: PyTorch keeps this
/// exception from the time when it had no other empty tensors.
std::vector<bool> legacy_empty(const std::vector<Value>& tensors);
/// Of cat(tensors, dim).
void cat_vjp(VjpContext& c);

// ---- steps of bodies and rules; each leaves no call if there is nothing to do ---------------------------------------

/// A view if strides allow, else a copy.
Expr reshape(const Expr& x, const Dims& shape);
Expr permute(const Expr& x, const std::vector<int64_t>& permutation);
Expr squeeze_dims(const Expr& x, const std::vector<int64_t>& dims);
/// New dimensions of size 1 at these places of the result.
Expr unsqueeze_dims(const Expr& x, const std::vector<int64_t>& places);
/// x[start:end:step] along one dimension, 0 <= start <= end <= size.
Expr slice_dim(const Expr& x, int64_t dim, const Dim& start, const Dim& end, const Dim& step = 1);
Expr slice_dims(const Expr& x, const Dims& start, const Dims& end, const Dims& step);
Expr zeros(Builder& b, const Dims& shape, const TensorType& like);
Expr full_scalar(Builder& b, const Arg& number, const TensorType& like);

/// Sizes of an expansion, -1 keeping a size.  Error (Runtime) if the tensor cannot be expanded to it.
Dims expanded_shape(std::string_view op, const Dims& from, const Dims& to);
Expr expand(const Expr& x, const Dims& shape);
/// The tensor expanded to the sizes of an argument.
Expr expand_to_sizes(std::string_view op, const Expr& x, const Arg& sizes);
/// The shape to which all broadcast.  Error (`kind`) if there is none.
Dims broadcast_of(std::string_view op, const std::vector<Dims>& shapes, ErrorKind kind = ErrorKind::Runtime);

}  // namespace thunder::ops
