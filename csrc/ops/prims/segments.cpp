// Sums of slices by what an index says of them, in two steps: where each number stands in the index, and the sums.
#include <algorithm>
#include <span>

#include "core/builder.h"
#include "core/dtype_error.h"
#include "core/error.h"
#include "ops/common.h"
#include "ops/shape_common.h"

namespace thunder::ops::prims {
namespace {

Types group_index_meta(const Args& a) {
  const TensorType& index = a.tensor("index");
  THUNDER_CHECK(index.rank() == 1, Runtime, "group_index", "the index has ", index.rank(), " dimensions, expected 1");
  THUNDER_CHECK_DTYPE(index.dtype == DType::i64 || index.dtype == DType::i32, "group_index", "the index has dtype ",
                      index.dtype, ", expected int32 or int64");
  const Dim groups = size_arg("group_index", a["groups"]);
  THUNDER_CHECK(groups >= 0, Runtime, "group_index", "the number of groups is ", groups, ", expected 0 or more");
  return {contiguous_type(DType::i64, index.device, index.shape),
          contiguous_type(DType::i64, index.device, {groups + 1})};
}

void check_positions(const TensorType& t, std::string_view what) {
  THUNDER_CHECK(t.rank() == 1 && t.dtype == DType::i64, Runtime, "segment_sum", what, " are ", t.dtype, " of shape ",
                str(t.shape), ", expected a vector of int64");
}

// Segments of one length take no starts.
Dim number_of_segments(const Args& a) {
  const Dim count = a.tensor("places").numel(), length = size_arg("segment_sum", a["length"]);
  THUNDER_CHECK(a.has("starts") == length.same(0), Runtime, "segment_sum",
                "expected either starts or a length above 0, got length ", length);
  if (a.has("starts")) {
    check_positions(a.tensor("starts"), "starts");
    THUNDER_CHECK(a.tensor("starts").shape[0] >= 1, Runtime, "segment_sum", "starts are empty, expected one or more");
    return a.tensor("starts").shape[0] - 1;
  }
  const Dim segments = floordiv(count, length);
  THUNDER_CHECK(segments * length == count, Runtime, "segment_sum", count, " places are no multiple of the length ",
                length);
  return segments;
}

Types segment_sum_meta(const Args& a) {
  const TensorType& t = a.tensor("a");
  THUNDER_CHECK(t.rank() > 0 && !is_bool(t.dtype) && !is_complex(t.dtype), NotImplemented, "segment_sum",
                "not implemented for ", t.dtype, " of ", t.rank(), " dimensions");
  check_positions(a.tensor("places"), "places");
  if (a.has("weights")) {
    const TensorType& w = a.tensor("weights");
    THUNDER_CHECK(w.dtype == t.dtype && equal(w.shape, a.tensor("places").shape), Runtime, "segment_sum",
                  "weights are ", w.dtype, " of shape ", str(w.shape), ", expected ", t.dtype, " of shape ",
                  str(a.tensor("places").shape));
  }
  Dims shape = t.shape;
  shape[static_cast<size_t>(wrapped_dim("segment_sum", a["dim"], t.rank()))] = number_of_segments(a);
  return {contiguous_like(t, std::move(shape))};
}

// The segment that each place belongs to, -1 for none.
Expr segment_of_each(VjpContext& c) {
  const TensorType& places = c.in("places").tensor();
  Expr position = c.b("prims.iota", places.shape[0], 0, 1, kw("dtype", DType::i64), kw("device", places.device));
  if (!c.args().has("starts")) return c.b("torch.floor_divide", position, c.in("length"));
  Expr starts = c.in("starts");
  Expr behind = c.b("torch.searchsorted", starts, position, kw("right", true));
  return c.b("torch.where", c.b("torch.lt", behind, starts.shape()[0]), c.b("torch.sub", behind, 1), -1);
}

// Each slice gets the gradients of the segments that it is in.
void put_for_slices(VjpContext& c, const Expr& segment, const Expr& g) {
  const int64_t dim = wrapped_dim("segment_sum", c.args()["dim"], g.rank());
  const Dim& slices = c.in("a").shape()[static_cast<size_t>(dim)];
  Expr grouped = c.b("prims.group_index", c.in("places"), slices, c.in("skips")), order = grouped[0];
  Arg weights = nullptr;
  if (c.args().has("weights")) weights = c.b("prims.take", c.in("weights"), order, 0);
  const bool all_in_segments = !c.args().has("starts");
  c.put("a", c.b("prims.segment_sum", g, c.b("prims.take", segment, order, 0), grouped[1], weights, dim, 0,
                 !all_in_segments));
}

void put_for_weights(VjpContext& c, const Expr& segment, const Expr& g) {
  const Args args = c.args();
  const int64_t dim = wrapped_dim("segment_sum", args["dim"], g.rank());
  Expr a = c.in("a"), places = c.in("places");
  const Dim none(0);
  if (a.shape()[static_cast<size_t>(dim)].same(none) || g.shape()[static_cast<size_t>(dim)].same(none))
    return c.put("weights", zeros(c.b, places.shape(), g.tensor()));
  Expr counts = c.b("torch.logical_and", c.b("torch.ge", places, 0), c.b("torch.ge", segment, 0));
  const auto taken = [&](const Expr& x, const Expr& index) {
    return c.b("torch.index_select", x, dim, c.b("torch.where", counts, index, 0));
  };
  Expr products = taken(g, segment) * taken(a, places);
  std::vector<int64_t> others;
  for (int64_t d = 0; d < g.rank(); ++d)
    if (d != dim) others.push_back(d);
  Expr sums = others.empty() ? products : c.b("torch.sum", products, Arg(others));
  c.put("weights", c.b("torch.where", counts, sums, c.b("torch.zeros_like", sums)));
}

void segment_sum_vjp(VjpContext& c) {
  Expr segment = segment_of_each(c), g = c.grad();
  if (c.needs("a")) put_for_slices(c, segment, g);
  if (c.args().has("weights") && c.needs("weights")) put_for_weights(c, segment, g);
}

Types embedding_bag_max_meta(const Args& a) {
  const TensorType &weight = a.tensor("weight"), &offsets = a.tensor("offsets");
  THUNDER_CHECK(weight.rank() == 2 && is_floating(weight.dtype), Runtime, "embedding_bag", "the weight is ",
                weight.dtype, " of shape ", str(weight.shape), ", expected a matrix of floating numbers");
  check_positions(a.tensor("indices"), "indices");
  check_positions(offsets, "offsets");
  TensorType out = contiguous_like(weight, {offsets.shape[0], weight.shape[1]}), rows = out;
  rows.dtype = DType::i64;
  return {out, rows};
}

void embedding_bag_max_vjp(VjpContext& c) {
  if (!c.has_grad(0)) return;
  Expr g = c.grad(0), rows = c.out(1);
  Expr any = c.b("torch.ge", rows, 0);
  Expr there = c.b("torch.where", any, g, c.b("torch.zeros_like", g));
  c.put("weight", c.b("prims.scatter_add", zeros(c.b, c.in("weight").shape(), g.tensor()), 0,
                      c.b("torch.where", any, rows, 0), there));
}

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "group_index(Tensor index, int groups, bool skips) -> (Tensor, Tensor)",
     .doc = "Where each number stands in a vector of numbers from 0 to groups - 1: positions in the order of the "
            "numbers, equal ones in their own order, and where those of each number begin among them, with the end of "
            "the last. The positions of r are order[starts[r]:starts[r + 1]]. With skips, -1 is no number: its "
            "positions stand behind all others.",
     .tags = kNoGrad, .meta = group_index_meta},
    {.schema = "segment_sum(Tensor a, Tensor places, Tensor? starts, Tensor? weights, int dim, int length, "
               "bool skips) -> Tensor",
     .doc = "For each segment r the sum of a's slices along dim at places[starts[r]:starts[r + 1]], each times its "
            "weight; with skips, a place of -1 adds nothing. Without starts all segments have the same length. The sums of 16 bits "
            "are added up in float32.",
     .meta = segment_sum_meta, .vjp = segment_sum_vjp},
    {.schema = "embedding_bag_max(Tensor weight, Tensor indices, Tensor offsets, int padding_idx) -> (Tensor, Tensor)",
     .doc = "For each bag, which reaches from its offset in indices to the next one's, the largest of the weight's rows "
            "in each column, and which row that is; 0 and -1 for a bag without rows. The row padding_idx does not "
            "count.",
     .meta = embedding_bag_max_meta, .vjp = embedding_bag_max_vjp},
};
// clang-format on

}  // namespace

std::span<const OpDef> segments() { return kRecords; }

}  // namespace thunder::ops::prims
