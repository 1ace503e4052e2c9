// torch: matrix products in float8 and what they are made of.
//
// A float8 tensor stands for numbers that are its elements times one scale, a float32 of no dimensions on the tensor's
// device: nothing waits for it.  Products take both operands with the dimension that is summed up lying in memory
// (the only form that NVIDIA's kernels have), so an operand is kept in two forms, by rows and by columns.
//
// Operands of the forward are e4m3, gradients e5m2, which trades a digit for range (Micikevicius et al. 2022, "FP8
// Formats for Deep Learning").
#include "ops/common.h"
#include "ops/formula.h"

namespace thunder::ops::torch {
namespace {

constexpr int64_t kUnit = 16;            // that the summed up dimension is a multiple of
constexpr double kLeastMaximum = 1e-12;  // a tensor of zeros has a scale all the same

/// While it lives, what is computed carries no gradient: that of a float8 layer is its own rule's.
class NoGradient {
 public:
  explicit NoGradient(Builder& b) : b_(b), before_(b.grad_enabled()) { b.set_grad_enabled(false); }
  ~NoGradient() { b_.set_grad_enabled(before_); }
  NoGradient(const NoGradient&) = delete;
  NoGradient& operator=(const NoGradient&) = delete;

 private:
  Builder& b_;
  const bool before_;
};

double largest(std::string_view op, DType t) {
  THUNDER_CHECK(t == DType::f8e4m3fn || t == DType::f8e5m2, NotImplemented, op,
                "expected torch.float8_e4m3fn or torch.float8_e5m2, got ", t);
  return t == DType::f8e4m3fn ? 448 : 57344;
}

// ---- products -------------------------------------------------------------------------------------------------------

void check_scale(const char* name, const TensorType& scale, const Dims& rows) {
  const bool one = scale.numel() == 1;
  THUNDER_CHECK(scale.dtype == DType::f32 && (one || equal(scale.shape, rows)), Runtime, "_scaled_mm",
                "expected a float32 tensor of one element, or of shape ", str(rows), ", as ", name, ", got ",
                Type(scale).str());
}

Types scaled_mm_meta(const Args& a) {
  const TensorType &x = a.tensor("input"), &y = a.tensor("mat2");
  THUNDER_CHECK(x.rank() == 2 && y.rank() == 2, Runtime, "_scaled_mm", "expected two matrices, got ", x.rank(),
                "-D and ", y.rank(), "-D tensors");
  THUNDER_CHECK(x.shape[1] == y.shape[0], Runtime, "_scaled_mm", "mat1 and mat2 shapes cannot be multiplied (",
                x.shape[0], "x", x.shape[1], " and ", y.shape[0], "x", y.shape[1], ")");
  THUNDER_CHECK(is_float8(x.dtype) && is_float8(y.dtype), NotImplemented, "_scaled_mm",
                "expected float8 matrices, got ", x.dtype, " and ", y.dtype);
  check_scale("scale_a", a.tensor("scale_a"), {x.shape[0], 1});
  check_scale("scale_b", a.tensor("scale_b"), {1, y.shape[1]});
  THUNDER_CHECK(!a.has("scale_result"), NotImplemented, "_scaled_mm", "scale_result is not supported");
  const DType out = a.has("out_dtype") ? a.dtype("out_dtype") : x.dtype;
  return {contiguous_type(out, x.device, {x.shape[0], y.shape[1]})};
}

// ---- from and to float8 ---------------------------------------------------------------------------------------------

// Row by row first: where a kernel computes whole rows, their maxima cost it nothing.  Of all elements at once: a kernel
// that stores tiles of the matrix finds it on the way.
Arg amax_body(Builder& b, const Args& a) {
  const NoGradient no_gradient(b);
  const Formula x = abs(as(Formula(b, a["input"]), DType::f32));
  const int64_t rank = a.tensor("input").rank();
  if (rank == 0) return x;
  if (rank == 1 || !a.flag("by_rows")) return amax(x, range(0, rank));
  return amax(amax(x, {rank - 1}), range(0, rank - 1));
}

Arg scale_body(Builder& b, const Args& a) {
  const NoGradient no_gradient(b);
  const Formula least = maximum(as(Formula(b, a["amax"]), DType::f32), Arg(kLeastMaximum));
  return least / largest("float8_scale", a.dtype("dtype"));
}

Arg cast_body(Builder& b, const Args& a) {
  const NoGradient no_gradient(b);
  const double most = largest("float8_cast", a.dtype("dtype"));
  const Dims& shape = a.tensor("input").shape;
  THUNDER_CHECK(!shape.empty(), Runtime, "float8_cast", "expected a tensor of 1 dimension or more, got ",
                Type(a.tensor("input")).str());
  Dims leading(shape.begin(), shape.end() - 1);
  const Expr rows = reshape(b, a["input"], {product(leading), shape.back()});
  const Expr factor = b.expr(1.0 / Formula(b, a["scale"]));
  const Formula x = as(Formula(rows), DType::f32).call("prims.mul", expand_to(b, factor, rows.shape()));
  return as(minimum(maximum(x, Arg(-most)), Arg(most)), a.dtype("dtype"));
}

Arg transposed_body(Builder& b, const Args& a) {
  const NoGradient no_gradient(b);
  const TensorType& x = a.tensor("input");
  THUNDER_CHECK(x.rank() == 2, Runtime, "float8_transposed", "expected a matrix, got ", Type(x).str());
  const Dim missing = mod(kUnit - mod(x.shape[0], kUnit), kUnit);
  Expr rows = b.expr(a["input"]);
  if (!missing.same(0)) rows = b("prims.pad", rows, 0, Arg::list({Arg(Dims{0, missing, 0}), Arg(Dims{0, 0, 0})}));
  const Expr t = b("prims.transpose", rows, Arg(std::vector<int64_t>{1, 0}));
  return b("prims.restride", t, contiguous_strides(t.shape())).arg();
}

// ---- linear ---------------------------------------------------------------------------------------------------------

// The product reads nothing else, and a transposed weight (Conv1D's) keeps its layout in float8.
Expr with_rows_in_memory(Builder& b, const Arg& matrix) {
  const Expr x = b.expr(matrix);
  return is_contiguous(x.tensor()) ? x : b("prims.restride", x, contiguous_strides(x.shape()));
}

// `by_rows` times the transpose of `also_by_rows`: both with the dimension that is summed up in memory.
Expr product_of_rows(Builder& b, const Arg& by_rows, const Arg& also_by_rows, const Arg& scale, const Arg& other_scale,
                     DType out, bool fast, const Arg& bias = {}) {
  return b("torch._scaled_mm", with_rows_in_memory(b, by_rows), swap_last(with_rows_in_memory(b, also_by_rows)), scale,
           other_scale, bias, kw("out_dtype", out), kw("use_fast_accum", fast));
}

Types float8_linear_meta(const Args& a) {
  const TensorType &x = a.tensor("input"), &w = a.tensor("weight");
  THUNDER_CHECK(w.rank() == 2 && x.rank() >= 1 && x.shape.back() == w.shape[1], Runtime, "float8_linear",
                "expected an input whose last dimension is the weight's, got ", Type(x).str(), " and ", Type(w).str());
  for (const char* name : {"input8", "input8_t", "weight8", "weight8_t"})
    THUNDER_CHECK(a.tensor(name).rank() == 2, Runtime, "float8_linear", "expected ", name, " to be a matrix, got ",
                  Type(a.tensor(name)).str());
  Dims shape(x.shape.begin(), x.shape.end() - 1);
  shape.push_back(w.shape[0]);
  return {contiguous_type(x.dtype, x.device, std::move(shape))};
}

Arg float8_linear_body(Builder& b, const Args& a) {
  const NoGradient no_gradient(b);
  const TensorType &x = a.tensor("input"), &w = a.tensor("weight");
  // PyTorch's product has no bias in float32.
  const bool inside = x.dtype != DType::f32;
  Expr y = product_of_rows(b, a["input8"], a["weight8"], a["input_scale"], a["weight_scale"], x.dtype, true,
                           inside ? a["bias"] : Arg());
  if (!inside && a.has("bias")) y = b("torch.add", y, a["bias"]);
  Dims shape(x.shape.begin(), x.shape.end() - 1);
  shape.push_back(w.shape[0]);
  return torch_reshape(y, shape).arg();
}

// Sums of gradients are kept in float32 throughout, which fast accumulation is not.
void float8_linear_vjp(VjpContext& c) {
  const Args a = c.args();
  const Expr g = c.grad(), x = c.in("input"), w = c.in("weight");
  if (c.needs("bias")) c.put("bias", x.rank() == 1 ? g : c.b("torch.sum", g, Arg(range(0, x.rank() - 1))));
  if (!c.needs("input") && !c.needs("weight")) return;
  // Found first where the scale follows from it, last where it is for later ones.
  const bool delayed = a.has("grad_scale");
  Expr amax = delayed ? Expr() : c.b("torch.float8_amax", g);
  const Expr scale = delayed ? c.in("grad_scale") : c.b("torch.float8_scale", amax, DType::f8e5m2);
  const Expr g8 = c.b("torch.float8_cast", g, scale, DType::f8e5m2);
  if (c.needs("input")) {
    const Expr dx = product_of_rows(c.b, g8, a["weight8_t"], scale, a["weight_scale"], x.dtype(), false);
    c.put("input", torch_reshape(dx, x.shape()));
  }
  if (c.needs("weight"))
    c.put("weight", product_of_rows(c.b, c.b("torch.float8_transposed", g8), a["input8_t"], scale, a["input_scale"],
                                    w.dtype(), false));
  if (!a.has("history")) return;
  if (delayed) amax = c.b("torch.float8_amax", g, kw("by_rows", false));
  ArgList maxima = a["maxima"].items();
  maxima.push_back(amax);
  c.b("prims.float8_record", a["history"], Arg::list(std::move(maxima)), a["places"]);
}

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "_scaled_mm(Tensor input, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, "
               "Tensor? scale_result=None, dtype? out_dtype=None, bool use_fast_accum=False) -> Tensor",
     .doc = "Product of two float8 matrices, times their scales, plus bias. `use_fast_accum`: sums may have fewer digits "
            "than float32 on a GPU.",
     .tags = kMatmul | kNoGrad,
     .meta = scaled_mm_meta, .aten = "_scaled_mm",
     .python = "torch._scaled_mm"},
    {.schema = "float8_amax(Tensor input, bool by_rows=True) -> Tensor",
     .doc = "The largest absolute value, as a float32 of no dimensions; that of each row is found first, or not.",
     .tags = kReduction | kNoGrad, .body = amax_body},
    {.schema = "float8_scale(Tensor amax, dtype dtype) -> Tensor",
     .doc = "The scale by which numbers up to `amax` fill the range of `dtype`, torch.float8_e4m3fn or torch.float8_e5m2.",
     .tags = kNoGrad, .body = scale_body},
    {.schema = "float8_cast(Tensor input, Tensor scale, dtype dtype) -> Tensor",
     .doc = "`input` divided by `scale` as a float8 matrix, leading dimensions together; what is out of range becomes the "
            "largest number.",
     .tags = kNoGrad, .body = cast_body},
    {.schema = "float8_transposed(Tensor input) -> Tensor",
     .doc = "The transpose of a float8 matrix in memory of its own, with zeros behind its rows up to a multiple of 16.",
     .tags = kNoGrad, .body = transposed_body},
    {.schema = "float8_linear(Tensor input, Tensor weight, Tensor? bias, Tensor input8, Tensor input8_t, Tensor weight8, "
               "Tensor weight8_t, Tensor input_scale, Tensor weight_scale, *, Tensor? grad_scale=None, "
               "Tensor? history=None, Tensor[]? maxima=None, int[]? places=None) -> Tensor",
     .doc = "input @ weight^T + bias in float8: `input8` and `weight8` are what float8_cast() makes of the two, the names "
            "with `_t` what float8_transposed() makes of those, for the gradients. `input` and `weight` are what "
            "gradients are of. The result's gradient has `grad_scale`, or that of its largest number. The backward puts "
            "`maxima` and that of the gradient into the `history`, at `places`.",
     .tags = kMatmul, .meta = float8_linear_meta, .body = float8_linear_body, .vjp = float8_linear_vjp},
};
// clang-format on

}  // namespace

Records float8() { return kRecords; }

}  // namespace thunder::ops::torch
