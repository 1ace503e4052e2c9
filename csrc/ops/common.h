// What metas, bodies and gradient rules share: type promotion, broadcasting, dimensions, gradients of broadcast
// operands.
//
// A body at the torch or clang level promotes and broadcasts with these functions and then emits prims:
//
//   Arg add_body(Builder& b, const Args& a) {
//     return pointwise(b, "prims.add", {a["input"], a["other"]}, Promotion::Default);
//   }
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/builder.h"
#include "core/error.h"
#include "core/op.h"

namespace thunder::ops {

using Records = std::span<const OpDef>;

// ---- type promotion -------------------------------------------------------------------------------------------------

/// What an operation computes in, given torch.result_type of its operands.
enum class Promotion {
  Default,     ///< the result type itself (add, maximum, comparisons)
  IntToFloat,  ///< integers and booleans become the default dtype (sin, div)
  BoolToInt,   ///< booleans become int64 (sum, prod)
};

/// One operand of torch.result_type; `a` is a tensor or a number.
PromotionOperand promotion_operand(const Arg& a);
/// torch.result_type of tensors and numbers.  None operands do not count.
DType result_type(const ArgList& operands);
DType apply(Promotion p, DType t);
/// The dtype that Python's number becomes as a tensor of its own: bool, int64, the default dtype or its complex
/// partner.
DType dtype_of_number(const Arg& number);

/// The argument in dtype `t`: the tensor itself if it has that dtype, else prims.convert_element_type.  Numbers stay as
/// they are.
Arg convert(Builder& b, const Arg& a, DType t);

// ---- shapes ---------------------------------------------------------------------------------------------------------

/// Broadcast shape.  Error (Runtime) as PyTorch words it.
Dims broadcast_shapes(std::string_view op, const std::vector<const Dims*>& shapes);
/// Broadcast shape of the tensors among the arguments.
Dims broadcast_shape_of(std::string_view op, const ArgList& args);
/// The tensor broadcast to `shape` by prims.broadcast_in_dim as an operand; itself if it has that shape.
/// Numbers stay as they are.  Error (Runtime) if it does not broadcast.
Arg expand_to(Builder& b, const Arg& a, const Dims& shape);
/// Equal, deciding as few comparisons of symbolic dims as possible.
bool equal(const Dims& a, const Dims& b);
/// The number of elements over these dimensions; a 0-d tensor counts as having one, of size 1.
Dim count_of(const Dims& shape, const std::vector<int64_t>& dims);
/// A size as an operand of floating arithmetic.
Arg real_number(const Dim& d);

/// An int argument as a size: a literal, or a number value that binds a symbol.  Error (Runtime) for another number
/// value.
Dim as_dim(const Arg& a);
/// A dimension counted from 0; a 0-d tensor counts as having one.  Error (Index) as PyTorch words it.
int64_t canonical_dim(std::string_view op, int64_t dim, int64_t rank);
/// As above for several; sorted; Error (Runtime) for a repeated one.  `all_if_empty`: no dims, or None, means all.
std::vector<int64_t> canonical_dims(std::string_view op, const Arg& dims, int64_t rank, bool all_if_empty = true);

/// Error (NotImplemented) if a factory is asked for a tensor that requires grad.
void check_no_grad(const Args& a);

// ---- devices --------------------------------------------------------------------------------------------------------

/// The device that operands compute on: that of the tensors with dimensions; a 0-d CPU tensor joins any of them.
/// Error (Runtime) as PyTorch words it.
Device common_device(std::string_view op, const ArgList& operands);

// ---- emitting prims -------------------------------------------------------------------------------------------------

/// Promotes, broadcasts, moves 0-d CPU operands to the common device, and calls a pointwise primitive.  `operands` are
/// tensors and numbers in the order of the primitive's parameters.
Arg pointwise(Builder& b, std::string_view prim, const ArgList& operands, Promotion promotion,
              std::string_view op = {});
/// The body of an operator that calls the primitive of its own name on all its arguments, promoted and broadcast.
template <Promotion P>
Arg same_primitive(Builder& b, const Args& a) {
  const std::string& name = a.op().schema.name;
  return pointwise(b, "prims." + name, a.list(), P, name);
}
/// The body of an operator (condition, input, other): the three are broadcast, the last two promoted.  Error (Runtime)
/// for a condition that is neither of booleans nor of bytes.
Arg where(Builder& b, const Args& a);
/// The operands promoted to `t`, broadcast to a common shape and on one device; if all are numbers, the first becomes a
/// 0-d tensor.
ArgList broadcast_operands(Builder& b, std::string_view op, const ArgList& operands, DType t);
/// prims.full on a device.
Arg full(Builder& b, const Dims& shape, const Arg& value, DType t, Device device);
/// A reduced tensor with the reduced dims put back with size 1, for keepdim=True.  `dims` are canonical and sorted.
Arg keep_dims(Builder& b, const Arg& reduced, const std::vector<int64_t>& dims);
/// The first place (int64) along `dim` whose element is the extremum that was reduced along it, or is not a number: what
/// PyTorch's kernels choose.
Expr first_place(const Expr& x, const Expr& extremum, int64_t dim);

// ---- metas ----------------------------------------------------------------------------------------------------------

/// A tensor of `shape` in row-major layout.
TensorType contiguous_type(DType t, Device device, Dims shape);
/// Strides of a copy of `t` in a memory format: torch.contiguous_format, torch.channels_last, ...; None:
/// torch.preserve_format.
Dims strides_in(const TensorType& t, const Arg& memory_format);
/// pointwise_strides, and row-major ones where all operands differ from that only in sizes of 1 or are empty: PyTorch's
/// iterator has a short way for contiguous operands, and such tensors count as contiguous.
Dims elementwise_strides(const Dims& shape, const std::vector<const Dims*>& operands);
/// Type of a pointwise primitive's result: checks that operands have one shape, device and dtype (numbers: a kind not
/// above the dtype's) and gives the layout that PyTorch's iterator gives.  `result`: dtype of the result, if another
/// than operands'.
TensorType pointwise_type(const Args& args, const std::vector<std::string_view>& operands,
                          std::optional<DType> result = std::nullopt);

// ---- gradient rules -------------------------------------------------------------------------------------------------

/// The name of the i-th parameter: lets records with other parameter names share a rule.
std::string_view param(const VjpContext& c, size_t i);
/// Puts a gradient after undoing broadcasting, dropping the imaginary part for a real input, and converting to the
/// input's dtype.  Does nothing for a number or for a tensor that needs no gradient.
void put_reduced(VjpContext& c, size_t i, const Expr& gradient);
void put_reduced(VjpContext& c, std::string_view name, const Expr& gradient);
/// torch.conj for complex tensors, the argument itself otherwise (numbers, too).
Expr conj(const Expr& e);
/// The gradient summed to `shape`: torch.sum_to_size, or itself if it has that shape.
Expr sum_to(const Expr& gradient, const Dims& shape);
/// `x` times 2 / (count - correction), the slope of a variance.
Expr variance_slope(const Expr& x, const Dim& count, double correction);
/// Converted by torch.to, or itself.
Expr to_dtype(const Expr& e, DType t);

}  // namespace thunder::ops
