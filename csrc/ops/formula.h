// Bodies as formulas over prims, and the shape tools that the neural network families share.
//
//   Arg silu_body(Builder& b, const Args& a) {
//     Formula x = compute(b, a["input"]);
//     return store(x * sigmoid(x), a.tensor("input").dtype);
//   }
//
// Operands have one shape and dtype, or are numbers: nothing broadcasts or promotes here.  16-bit floats compute in
// f32.
#pragma once

#include <string_view>
#include <vector>

#include "core/builder.h"
#include "core/error.h"

namespace thunder::ops {

/// A tensor (or a number) on which operators mean prims.
class Formula {
 public:
  explicit Formula(Expr e) : e_(std::move(e)) {}
  Formula(Builder& b, Arg a) : e_(b, std::move(a)) {}
  operator const Arg&() const { return e_.arg(); }
  const Expr& expr() const { return e_; }
  Builder& b() const { return e_.builder(); }
  const Dims& shape() const { return e_.shape(); }
  DType dtype() const { return e_.dtype(); }
  Formula call(std::string_view prim) const { return Formula(b()(prim, e_)); }
  Formula call(std::string_view prim, const Arg& other) const { return Formula(b()(prim, e_, other)); }
  Formula rcall(std::string_view prim, const Arg& first) const { return Formula(b()(prim, first, e_)); }

 private:
  Expr e_;
};

inline Formula operator+(const Formula& x, const Formula& y) { return x.call("prims.add", y); }
inline Formula operator-(const Formula& x, const Formula& y) { return x.call("prims.sub", y); }
inline Formula operator*(const Formula& x, const Formula& y) { return x.call("prims.mul", y); }
inline Formula operator/(const Formula& x, const Formula& y) { return x.call("prims.div", y); }
inline Formula operator+(const Formula& x, double y) { return x.call("prims.add", y); }
inline Formula operator-(const Formula& x, double y) { return x.call("prims.sub", y); }
inline Formula operator*(const Formula& x, double y) { return x.call("prims.mul", y); }
inline Formula operator/(const Formula& x, double y) { return x.call("prims.div", y); }
inline Formula operator+(double x, const Formula& y) { return y.rcall("prims.add", x); }
inline Formula operator-(double x, const Formula& y) { return y.rcall("prims.sub", x); }
inline Formula operator*(double x, const Formula& y) { return y.rcall("prims.mul", x); }
inline Formula operator/(double x, const Formula& y) { return y.rcall("prims.div", x); }
inline Formula operator-(const Formula& x) { return x.call("prims.neg"); }
inline Formula operator<(const Formula& x, double y) { return x.call("prims.lt", y); }
inline Formula operator<=(const Formula& x, double y) { return x.call("prims.le", y); }
inline Formula operator>(const Formula& x, double y) { return x.call("prims.gt", y); }
inline Formula operator>=(const Formula& x, double y) { return x.call("prims.ge", y); }
inline Formula operator&(const Formula& x, const Formula& y) { return x.call("prims.bitwise_and", y); }
inline Formula operator|(const Formula& x, const Formula& y) { return x.call("prims.bitwise_or", y); }

inline Formula exp(const Formula& x) { return x.call("prims.exp"); }
inline Formula expm1(const Formula& x) { return x.call("prims.expm1"); }
inline Formula log(const Formula& x) { return x.call("prims.log"); }
inline Formula log1p(const Formula& x) { return x.call("prims.log1p"); }
inline Formula abs(const Formula& x) { return x.call("prims.abs"); }
inline Formula sign(const Formula& x) { return x.call("prims.sign"); }
inline Formula normal_cdf(const Formula& x) { return x.call("prims.normal_cdf"); }
inline Formula gelu_slope(const Formula& x) { return x.call("prims.gelu_slope"); }
inline Formula tanh(const Formula& x) { return x.call("prims.tanh"); }
inline Formula sigmoid(const Formula& x) { return x.call("prims.sigmoid"); }
inline Formula rsqrt(const Formula& x) { return x.call("prims.rsqrt"); }
inline Formula sqrt(const Formula& x) { return x.call("prims.sqrt"); }
inline Formula maximum(const Formula& x, const Arg& y) { return x.call("prims.maximum", y); }
inline Formula minimum(const Formula& x, const Arg& y) { return x.call("prims.minimum", y); }
/// At most one of the two values is a number.
Formula where(const Formula& condition, const Arg& x, const Arg& y);

/// The tensor in the dtype in which one operation computes.
Formula compute(Builder& b, const Arg& a);
Formula as(const Formula& x, DType t);
/// The result in the dtype in which it is stored.
Arg store(const Formula& x, DType t);

/// Reductions that drop `dims` (canonical, sorted).
Formula sum(const Formula& x, const std::vector<int64_t>& dims);
Formula amax(const Formula& x, const std::vector<int64_t>& dims);
/// Puts a tensor from which `dims` were reduced back to the shape that it had.
Formula spread(const Formula& reduced, const Dims& shape, const std::vector<int64_t>& dims);
/// Broadcasts a tensor along the leading dimensions of `shape`.
Formula spread_leading(const Formula& x, const Dims& shape);
/// Broadcasts a 1-d tensor of channels to `shape`, in which `dim` is the channels' dimension.
Formula spread_channels(const Formula& x, const Dims& shape, int64_t dim);

/// prims.view where the layout allows it, prims.reshape (a copy) otherwise; the tensor itself if it has that shape.
Expr reshape(Builder& b, const Arg& a, const Dims& shape);
/// The tensor itself if its elements lie in row-major order, a copy that does otherwise.
Expr contiguous(Builder& b, const Arg& a);
/// The same values with other strides: itself, or a copy by prims.restride.
Expr with_strides(const Expr& x, const Dims& strides);
/// The same as a tensor that is not the operand: a copy where it is.
Expr as_result(const Expr& x, Value operand, const Dims& strides);
/// The result in the layout that one pointwise kernel over these operands (tensors of its shape, and numbers) gives it.
Arg laid_out_as(const ArgList& operands, const Expr& result);
/// The result of a pointwise operation over these operands, in the dtype and the layout that it is stored in.
Arg store_like(const Formula& x, DType t, const ArgList& operands);
/// The last two dimensions swapped, by torch.permute.
Expr swap_last(const Expr& x);
/// torch.reshape, or the tensor itself if it has that shape.
Expr torch_reshape(const Expr& x, const Dims& shape);

/// All dimensions but those given, in order.
std::vector<int64_t> other_dims(int64_t rank, const std::vector<int64_t>& dims);
std::vector<int64_t> range(int64_t begin, int64_t end);
/// The number of elements is known to be zero.
bool known_empty(const Dims& shape);
/// The number of elements turned out to be zero, by lengths that depend on values and that the program asked for.
bool turned_out_empty(const Dims& shape);

/// Whether ATen's convolution of the two gives its results, gradients included, channels last: if either operand is.
bool convolution_is_channels_last(const TensorType& input, const TensorType& weight);

/// Error (NotImplemented) with PyTorch's text unless the tensor is of a floating type.
void check_floating(std::string_view op, std::string_view kernel, const Arg& a);
/// PyTorch's integer for reduction='none' | 'mean' | 'sum'.  Error (Value) otherwise.
int64_t reduction_number(std::string_view op, const Arg& reduction);

}  // namespace thunder::ops
