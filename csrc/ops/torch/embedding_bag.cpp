// torch: sums, means and maxima of the rows of a table that bags of numbers name.
#include "ops/common.h"
#include "ops/formula.h"
#include "ops/shape_common.h"

namespace thunder::ops::torch {
namespace {

struct Bags {
  Expr places;  // rows of the weight, -1 for padding
  Arg starts;   // of each bag, with the end of the last; None if all have `length` entries
  Dim length = 0;
  Dim count = 0;
};

Expr as_positions(Builder& b, const Arg& t) {
  return b.expr(convert(b, reshape(b, t, {t.value().tensor().numel()}), DType::i64));
}

// F.embedding_bag's padding_idx, counted from 0.
Arg padding_of(const Args& a) {
  if (!a.has("padding_idx")) return nullptr;
  const Dim p = size_arg("embedding_bag", a["padding_idx"]);
  const Dim& rows = a.tensor("weight").shape[0];
  THUNDER_CHECK(p >= -rows && p < rows, Runtime, "embedding_bag",
                "padding_idx must be within the number of embeddings, -", rows, " through ", rows - 1, " but got ", p);
  return p < 0 ? p + rows : p;
}

Bags bags_of(Builder& b, const Args& a) {
  const TensorType& input = a.tensor("input");
  Bags bags;
  bags.places = as_positions(b, a["input"]);
  if (input.rank() == 2) {
    bags.length = input.shape[1];
    bags.count = input.shape[0];
  } else {
    Expr offsets = as_positions(b, a["offsets"]);
    bags.count = offsets.shape()[0] - (a.flag("include_last_offset") ? 1 : 0);
    Arg end = full(b, {Dim(1)}, input.shape[0], DType::i64, input.device);
    bags.starts = a.flag("include_last_offset") ? offsets : b("prims.cat", Arg::list({offsets, end}), 0);
  }
  return bags;
}

// How many entries each bag has that count.
Expr sizes_of(Builder& b, const Bags& bags, bool has_padding) {
  if (has_padding) {
    Expr counts = b("prims.convert_element_type", b("prims.ge", bags.places, 0), DType::i64);
    Expr each = b("prims.iota", bags.places.shape()[0], 0, 1, kw("dtype", DType::i64),
                  kw("device", bags.places.tensor().device));
    return b("prims.segment_sum", counts, each, bags.starts, nullptr, 0, bags.length, false);
  }
  Expr starts = b.expr(bags.starts);
  return b("prims.sub", slice_dim(starts, 0, 1, bags.count + 1), slice_dim(starts, 0, 0, bags.count));
}

Arg mean(Builder& b, const Expr& sum, const Bags& bags, bool has_padding) {
  Formula total = compute(b, sum);
  if (!bags.length.same(0) && !has_padding)
    return store(total.call("prims.div", real_number(bags.length)), sum.dtype());
  Formula size = as(maximum(Formula(sizes_of(b, bags, has_padding)), 1), total.dtype());
  return store(total / spread(size, total.shape(), {1}), sum.dtype());
}

Arg largest(Builder& b, const Args& a, const Bags& bags, const Arg& padding) {
  Expr offsets;
  if (bags.length.same(0)) offsets = slice_dim(b.expr(bags.starts), 0, 0, bags.count);
  else
    offsets =
        b("prims.iota", bags.count, 0, bags.length, kw("dtype", DType::i64), kw("device", bags.places.tensor().device));
  return b("prims.embedding_bag_max", a["weight"], bags.places, offsets, padding.is_none() ? Arg(-1) : padding)[0]
      .arg();
}

Arg embedding_bag_body(Builder& b, const Args& a) {
  const TensorType& weight = a.tensor("weight");
  THUNDER_CHECK(weight.device == a.tensor("input").device, Runtime, "embedding_bag",
                "Expected all tensors to be on the same device, but got weight on ", weight.device, " and indices on ",
                a.tensor("input").device);
  Bags bags = bags_of(b, a);
  const Arg padding = padding_of(a);
  const std::string& mode = a.str("mode");
  if (mode == "max") return largest(b, a, bags, padding);
  if (!padding.is_none()) bags.places = b("torch.where", b("torch.eq", bags.places, padding), -1, bags.places);
  Arg weights = nullptr;
  if (a.has("per_sample_weights")) weights = reshape(b, a["per_sample_weights"], bags.places.shape());
  Expr sum = b("prims.segment_sum", a["weight"], bags.places, bags.starts, weights, 0, bags.length, !padding.is_none());
  return mode == "mean" ? mean(b, sum, bags, !padding.is_none()) : sum.arg();
}

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "embedding_bag(Tensor input, Tensor weight, Tensor? offsets, str mode, Tensor? per_sample_weights, "
               "bool include_last_offset, int? padding_idx) -> Tensor",
     .doc = "What F.embedding_bag gives for legal arguments: for each bag the sum, mean or maximum ('sum', 'mean', "
            "'max') of the weight's rows that it names. A bag is a row of a 2-d input, or reaches from its offset in a "
            "1-d one to the next.",
     .body = embedding_bag_body},
};
// clang-format on

}  // namespace

Records embedding_bag() { return kRecords; }

}  // namespace thunder::ops::torch
