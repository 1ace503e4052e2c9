// Communication of the processes of a group, all of which run the same program: a start, which gives a future, and a
// wait, which gives the tensors.
//
// A start takes a list of tensors and starts one communication for each, in one launch where the backend can.  A group
// is named as c10d names it; `name` says for readers and errors what is communicated.  No rank occurs in a trace, so
// every process of a group has the same one.
#include "core/builder.h"
#include "core/error.h"
#include "ops/common.h"

namespace thunder::ops::prims {
namespace {

// What each process contributes, checked.
std::vector<TensorType> contributions(const Args& a, bool rows) {
  std::vector<TensorType> out;
  for (Value v : a.values("tensors")) {
    TensorType t = v.tensor();
    const std::string_view op = a.op().schema.name;
    THUNDER_CHECK(!rows || t.rank() > 0, Runtime, op, "expected tensors with rows, got ", v.type().str());
    THUNDER_CHECK(is_contiguous(t), Runtime, op, "expected contiguous tensors, got ", v.type().str(), " with strides ",
                  str(t.strides));
    t.requires_grad = false;
    out.push_back(std::move(t));
  }
  THUNDER_CHECK(!out.empty(), Runtime, a.op().schema.name, "expected at least one tensor");
  THUNDER_CHECK(a.integer("world") > 0, Runtime, a.op().schema.name,
                "expected a group of processes, got world=", a.integer("world"));
  return out;
}

Types future_of(std::vector<TensorType> results) {
  for (TensorType& t : results) t.strides = contiguous_strides(t.shape);
  return {Type::future(std::move(results))};
}

void check_reduction(const Args& a) {
  const std::string& op = a.str("op");
  THUNDER_CHECK(op == "sum" || op == "avg" || op == "max" || op == "min", Value, a.op().schema.name,
                "expected a reduction 'sum', 'avg', 'max' or 'min', got '", op, "'");
}

void check_replicas(const Args& a) {
  THUNDER_CHECK(a.integer("copies") > 0, Runtime, a.op().schema.name,
                "expected a group of processes with the same rows, got copies=", a.integer("copies"));
}

Types all_gather_meta(const Args& a) {
  std::vector<TensorType> types = contributions(a, true);
  for (TensorType& t : types) t.shape[0] = t.shape[0] * a.integer("world");
  return future_of(std::move(types));
}

Types reduce_scatter_meta(const Args& a) {
  check_reduction(a);
  std::vector<TensorType> types = contributions(a, true);
  const int64_t world = a.integer("world");
  for (TensorType& t : types) {
    THUNDER_CHECK(t.shape[0].is_constant() && t.shape[0].constant() % world == 0, Runtime, a.op().schema.name,
                  "expected a number of rows that ", world, " processes share evenly, got ", Type(t).str());
    t.shape[0] = t.shape[0].constant() / world;
  }
  return future_of(std::move(types));
}

Types all_reduce_meta(const Args& a) {
  check_reduction(a);
  return future_of(contributions(a, false));
}

Types reduce_scatter_replicas_meta(const Args& a) {
  check_replicas(a);
  return reduce_scatter_meta(a);
}

Types all_reduce_replicas_meta(const Args& a) {
  check_replicas(a);
  return all_reduce_meta(a);
}

Types wait_meta(const Args& a) {
  THUNDER_CHECK(a["future"].is_value() && a.value("future").type().is_future(), Type, "wait", "expected a future");
  Types out;
  for (const TensorType& t : a.value("future").type().future()) out.emplace_back(t);
  return out;
}

Types kept_meta(const Args& a) {
  TensorType t = a.tensor("a");
  t.requires_grad = false;
  return {std::move(t)};
}
Types nothing_meta(const Args&) { return {}; }

Types if_used_meta(const Args& a) {
  const TensorType& used = a.tensor("used");
  const int64_t index = a.integer("index");
  THUNDER_CHECK(used.rank() == 1 && index >= 0 && used.shape[0] > index, Runtime, "gradient_if_used",
                "expected a vector with an element ", index, ", got ", a.value("used").type().str());
  return kept_meta(a);
}

constexpr uint64_t kTags = kComm | kNoGrad;

constexpr OpDef kRecords[] = {
    {.schema = "all_gather(Tensor[] tensors, str group, int world, str? name=None) -> any",
     .doc = "Starts to gather the rows of all processes' tensors, in the order of the processes.",
     .tags = kTags,
     .meta = all_gather_meta},
    {.schema = "all_gather_once(Tensor[] tensors, str group, int world, str plan, bool keep, str? name=None) -> any",
     .doc =
         "As all_gather, unless an earlier program of the plan has kept what it gathered under the name. With `keep` "
         "the rows are kept for the next program.",
     .tags = kTags,
     .meta = all_gather_meta},
    {.schema = "reduce_scatter(Tensor[] tensors, str op, str group, int world, str? name=None) -> any",
     .doc = "Starts to reduce all processes' tensors; each process gets an equal part of the rows, in order.",
     .tags = kTags,
     .meta = reduce_scatter_meta},
    {.schema = "all_reduce(Tensor[] tensors, str op, str group, int world, str? name=None) -> any",
     .doc = "Starts to reduce all processes' tensors; each process gets all of the result.",
     .tags = kTags,
     .meta = all_reduce_meta},
    {.schema = "reduce_scatter_replicas(Tensor[] tensors, str op, str group, int world, str replicas, int copies, "
               "str? name=None) -> any",
     .doc = "As reduce_scatter; the parts are then reduced over the processes of `replicas`, which have the same part.",
     .tags = kTags,
     .meta = reduce_scatter_replicas_meta},
    {.schema = "all_reduce_replicas(Tensor[] tensors, str op, str group, int world, str replicas, int copies, "
               "str? name=None) -> any",
     .doc = "As all_reduce, within the group and then over the processes of `replicas`, one of each group.",
     .tags = kTags,
     .meta = all_reduce_replicas_meta},
    {.schema = "wait(any future) -> any",
     .doc = "The tensors of a communication: one, or a tuple.",
     .tags = kTags,
     .meta = wait_meta},
    {.schema = "keep_gradient(Tensor a, str plan, int index) -> None",
     .doc = "Adds the gradient of the plan's parameter to what is kept of it until gradients are reduced.",
     .tags = kCollective | kNoGrad,
     .meta = nothing_meta},
    {.schema = "add_kept_gradient(Tensor a, str plan, int index) -> Tensor",
     .doc = "The sum of a gradient and what was kept of it, which is forgotten.",
     .tags = kCollective | kNoGrad,
     .meta = kept_meta},
    {.schema = "used_or_kept(Tensor a, str plan) -> Tensor",
     .doc = "Per parameter of the plan, 1 where the vector has it or a gradient is kept.",
     .tags = kCollective | kNoGrad,
     .meta = kept_meta},
    {.schema = "gradient_if_used(Tensor a, Tensor used, int index) -> Tensor",
     .doc =
         "The gradient; none if the vector has 0 in that place, for then no process's program has used the parameter.",
     .tags = kHostSync | kNoGrad,
     .meta = if_used_meta},
};

}  // namespace

Records distributed() { return kRecords; }

}  // namespace thunder::ops::prims
