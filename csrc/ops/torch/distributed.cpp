// What a user's program communicates: PyTorch's functional collectives, whose gradients communicate, too.
//
// Each has an effect until an executor has taken what it consists of: it is neither left out nor repeated, and stays in
// its order among the others.
#include "core/builder.h"
#include "core/error.h"
#include "ops/common.h"

namespace thunder::ops::torch {
namespace {

Types type_of_rows(const Args& a, const Dim& rows) {
  TensorType t = a.tensor("input");
  if (t.rank() > 0) t.shape[0] = rows;
  return {Type(contiguous_type(t.dtype, t.device, t.shape))};
}

Dim rows_of(const Args& a) {
  const TensorType& t = a.tensor("input");
  THUNDER_CHECK(t.rank() > 0, Runtime, a.op().schema.name, "expected a tensor with rows, got ", Type(t).str());
  return t.shape[0];
}

Types all_reduce_meta(const Args& a) {
  const TensorType& t = a.tensor("input");
  return type_of_rows(a, t.rank() > 0 ? t.shape[0] : Dim(1));
}

Types all_gather_meta(const Args& a) { return type_of_rows(a, rows_of(a) * a.integer("world")); }

Types reduce_scatter_meta(const Args& a) {
  const Dim rows = rows_of(a);
  const int64_t world = a.integer("world");
  THUNDER_CHECK(rows.is_constant() && rows.constant() % world == 0, Runtime, "reduce_scatter",
                "expected a number of rows that ", world, " processes share evenly, got ",
                a.value("input").type().str());
  return type_of_rows(a, rows.constant() / world);
}

// A start and the wait for it.
Arg communicated(Builder& b, std::string_view prim, const Args& a, const ArgList& rest) {
  ArgList args{Arg::list({b("torch.contiguous", a["input"]).arg()})};
  args.insert(args.end(), rest.begin(), rest.end());
  return b("prims.wait", b.call_named(prim, std::move(args), {})).arg();
}

Arg all_reduce_body(Builder& b, const Args& a) {
  return communicated(b, "prims.all_reduce", a, {a["op"], a["group"], a["world"]});
}

Arg all_gather_body(Builder& b, const Args& a) {
  return communicated(b, "prims.all_gather", a, {a["group"], a["world"]});
}

Arg reduce_scatter_body(Builder& b, const Args& a) {
  return communicated(b, "prims.reduce_scatter", a, {a["op"], a["group"], a["world"]});
}

void check_sum(const VjpContext& c) {
  const std::string& op = c.args().str("op");
  THUNDER_CHECK(op == "sum", Runtime, c.call.op->schema.name, "the backward supports the reduction 'sum' alone, got '",
                op, "'");
}

void all_reduce_vjp(VjpContext& c) {
  check_sum(c);
  c.put("input", c.b("torch.all_reduce", c.grad(), "sum", c.args()["group"], c.args()["world"]));
}

void all_gather_vjp(VjpContext& c) {
  c.put("input", c.b("torch.reduce_scatter", c.grad(), "sum", c.args()["group"], c.args()["world"]));
}

void reduce_scatter_vjp(VjpContext& c) {
  check_sum(c);
  c.put("input", c.b("torch.all_gather", c.grad(), c.args()["group"], c.args()["world"]));
}

constexpr OpDef kRecords[] = {
    {.schema = "all_reduce(Tensor input, str op, str group, int world) -> Tensor",
     .doc = "The reduction ('sum', 'avg', 'max', 'min') of all processes' tensors, on each process.",
     .tags = kCollective,
     .meta = all_reduce_meta,
     .body = all_reduce_body,
     .vjp = all_reduce_vjp},
    {.schema = "all_gather(Tensor input, str group, int world) -> Tensor",
     .doc = "The rows of all processes' tensors, in the order of the processes.",
     .tags = kCollective,
     .meta = all_gather_meta,
     .body = all_gather_body,
     .vjp = all_gather_vjp},
    {.schema = "reduce_scatter(Tensor input, str op, str group, int world) -> Tensor",
     .doc = "An equal part of the rows of the reduction of all processes' tensors, in the order of the processes.",
     .tags = kCollective,
     .meta = reduce_scatter_meta,
     .body = reduce_scatter_body,
     .vjp = reduce_scatter_vjp},
};

}  // namespace

Records distributed() { return kRecords; }

}  // namespace thunder::ops::torch
