// numpy.*: making arrays.  Floats are float64 unless `dtype` says otherwise; `device` is PyTorch's.
#include "ops/common.h"
#include "ops/numpy/common.h"
#include "ops/shape_common.h"

namespace thunder::ops::numpy {
namespace {

Device device_of(const Args& a) { return a.has("device") ? a.device("device") : Device{}; }

template <int kValue>
Arg filled_body(Builder& b, const Args& a) {
  DType t = dtype_or(a, DType::f64);
  return full(b, size_args(a.op().schema.name, a["shape"]), is_bool(t) ? Arg(kValue != 0) : Arg(kValue), t,
              device_of(a));
}

Arg full_body(Builder& b, const Args& a) {
  Dims shape = size_args("full", a["shape"]);
  const Arg& value = a["fill_value"];
  DType t = dtype_or(a, result_type({value}));
  if (!value.is_tensor()) return full(b, shape, value, t, device_of(a));
  return b("prims.clone", expand_to(b, convert(b, value, t), shape));
}

Arg full_like(Builder& b, const Args& a, const Arg& value) {
  const Arg& like = a.list()[0];
  return b("torch.full_like", like, value, kw("dtype", dtype_or(a, like.value().dtype())), kw("device", a["device"]));
}
template <int kValue>
Arg filled_like_body(Builder& b, const Args& a) {
  return full_like(b, a, is_bool(dtype_or(a, a.list()[0].value().dtype())) ? Arg(kValue != 0) : Arg(kValue));
}
Arg full_like_body(Builder& b, const Args& a) { return full_like(b, a, a["fill_value"]); }

Arg arange(Builder& b, const Args& a, const Arg& start, const Arg& stop, const Arg& step) {
  DType t = dtype_or(a, result_type({start, stop, step}));
  const bool past = start.is_real_literal() && stop.is_real_literal() && step.is_real_literal() && step.real() != 0 &&
                    (step.real() > 0 ? stop.real() < start.real() : stop.real() > start.real());
  if (past) return full(b, {Dim(0)}, 0, t, device_of(a));
  return b("torch.arange", start, stop, step, kw("dtype", t), kw("device", a["device"]));
}
Arg arange_stop_body(Builder& b, const Args& a) { return arange(b, a, 0, a["stop"], 1); }
Arg arange_body(Builder& b, const Args& a) { return arange(b, a, a["start"], a["stop"], a["step"]); }

Arg linspace_body(Builder& b, const Args& a) {
  double start = a.real("start"), stop = a.real("stop");
  int64_t n = a.integer("num");
  THUNDER_CHECK(n >= 0, Value, "linspace", "Number of samples, ", n, ", must be non-negative.");
  DType t = dtype_or(a, DType::f64);
  if (!a.flag("endpoint") && n > 0) stop -= (stop - start) / static_cast<double>(n);
  Expr x = b("torch.linspace", start, stop, n, kw("dtype", DType::f64), kw("device", a["device"]));
  return convert(b, is_inexact(t) ? x : b("torch.floor", x), t);
}

Arg eye_body(Builder& b, const Args& a) {
  Arg rows = a.list()[0], columns = a.op().schema.index_of("M") >= 0 && a.has("M") ? a["M"] : rows;
  Arg k = a.op().schema.index_of("k") >= 0 ? a["k"] : Arg(0);
  Expr i = b("torch.arange", rows, kw("device", a["device"])),
       j = b("torch.arange", columns, kw("device", a["device"]));
  return convert(b, b("torch.eq", b("torch.add", unsqueeze_dims(i, {1}), k), j), dtype_or(a, DType::f64));
}

#define OPTIONS "dtype? dtype=None, *, device? device=None) -> Tensor"

constexpr OpDef creation_op(std::string_view schema, std::string_view doc, BodyFn body, std::string_view python) {
  return {.schema = schema, .doc = doc, .tags = kCreation | kNoGrad, .body = body, .python = python};
}

// clang-format off
constexpr OpDef kRecords[] = {
    creation_op("zeros(int[] shape, " OPTIONS, "Zeros, of float64 for None.", filled_body<0>, "numpy.zeros"),
    creation_op("ones(int[] shape, " OPTIONS, "Ones, of float64 for None.", filled_body<1>, "numpy.ones"),
    creation_op("empty(int[] shape, " OPTIONS, "Elements that mean nothing (zeros), of float64 for None.",
                filled_body<0>, "numpy.empty"),
    {.schema = "full(int[] shape, Scalar fill_value, " OPTIONS,
     .doc = "Every element the same, of the number's kind for None.", .tags = kCreation, .body = full_body,
     .python = "numpy.full"},
    creation_op("zeros_like(Tensor a, " OPTIONS, "Zeros in the shape of an array.", filled_like_body<0>,
                "numpy.zeros_like"),
    creation_op("ones_like(Tensor a, " OPTIONS, "Ones in the shape of an array.", filled_like_body<1>,
                "numpy.ones_like"),
    creation_op("empty_like(Tensor prototype, " OPTIONS, "Elements that mean nothing (zeros) in the shape of an array.",
                filled_like_body<0>, "numpy.empty_like"),
    creation_op("full_like(Tensor a, Number fill_value, " OPTIONS, "Every element the number, in the shape of an array.",
                full_like_body, "numpy.full_like"),
    creation_op("arange(Number stop, *, dtype? dtype=None, device? device=None) -> Tensor", "0, 1, ... below `stop`.",
                arange_stop_body, "numpy.arange"),
    creation_op("arange.start(Number start, Number stop, Number step=1, " OPTIONS,
                "start, start + step, ... before `stop`.", arange_body, "numpy.arange"),
    creation_op("linspace(Number start, Number stop, int num=50, *, bool endpoint=True, dtype? dtype=None, "
                "device? device=None) -> Tensor",
                "So many numbers at equal distances, `stop` included if `endpoint`.", linspace_body, "numpy.linspace"),
    creation_op("eye(int N, int? M=None, int k=0, " OPTIONS, "Ones on the k-th diagonal.", eye_body, "numpy.eye"),
    creation_op("identity(int n, " OPTIONS, "The identity matrix.", eye_body, "numpy.identity"),
};
// clang-format on

}  // namespace

Records creation() { return kRecords; }

}  // namespace thunder::ops::numpy
