// The index maps of views as literals; the fuzz test compares them with the reference evaluator for random arguments.
#include <doctest.h>

#include "core/builder.h"
#include "core/error.h"
#include "core/print.h"
#include "ops/combine.h"
#include "ops/families.h"

namespace thunder {
namespace {

struct Views {
  Views() { ops::register_all(); }

  // "[offset + factor*i1, ...]" for the call that made `view`, with i<n> for the index along dimension n of the view.
  std::string map_of(const Expr& view) {
    const Call& call = *b.calls().back();
    const std::optional<IndexMap> map = call.op->index_map(call.arguments(), view.tensor());
    if (!map) return "none";
    if (map->row_major) return "row-major";
    std::string out;
    for (const IndexMap::Place& place : map->places) {
      std::string terms = place.offset.str();
      for (const auto& [dim, factor] : place.terms) terms += cat(" + ", factor, "*i", dim);
      out += (out.empty() ? "" : ", ") + terms;
    }
    return "[" + out + "]";
  }

  Expr tensor(Dims shape) {
    Dims strides = contiguous_strides(shape);
    return b.expr(b.input(TensorType{DType::f32, Device{}, std::move(shape), std::move(strides), false}));
  }

  Builder b{std::make_shared<Arena>()};
};

using Ints = std::vector<int64_t>;

}  // namespace

TEST_CASE("view rules: the index map of each view") {
  Views v;
  const Expr a = v.tensor({4, 6});
  CHECK(v.map_of(v.b("prims.slice", a, Dims{1, 0}, Dims{4, 6}, Dims{1, 2})) == "[1 + 1*i0, 0 + 2*i1]");
  CHECK(v.map_of(v.b("prims.transpose", a, Arg(Ints{1, 0}))) == "[0 + 1*i1, 0 + 1*i0]");
  CHECK(v.map_of(v.b("prims.diagonal", a, 2, 0, 1)) == "[0 + 1*i0, 2 + 1*i0]");
  CHECK(v.map_of(v.b("prims.diagonal", a, -1, 0, 1)) == "[1 + 1*i0, 0 + 1*i0]");
  CHECK(v.map_of(v.b("prims.unfold", a, 1, 2, 3)) == "[0 + 1*i0, 0 + 3*i1 + 1*i2]");
  CHECK(v.map_of(v.b("prims.view", a, Dims{24})) == "row-major");
  CHECK(v.map_of(v.b("prims.detach", a)) == "[0 + 1*i0, 0 + 1*i1]");
  CHECK(v.map_of(v.b("prims.flip", a, Arg(Ints{1}))) == "[0 + 1*i0, 5 + -1*i1]");
}

TEST_CASE("view rules: sizes 1 and 0, and tensors without dimensions") {
  Views v;
  const Expr row = v.tensor({1, 3}), none = v.tensor({3, 0}), number = v.tensor({});
  CHECK(v.map_of(v.b("prims.broadcast_in_dim", row, Dims{5, 3}, Arg(Ints{0, 1}))) == "[0, 0 + 1*i1]");
  CHECK(v.map_of(v.b("prims.squeeze", row, Arg(Ints{0}))) == "[0, 0 + 1*i0]");
  CHECK(v.map_of(v.b("prims.diagonal", none, 1, 0, 1)) == "[0 + 1*i0, 0 + 1*i0]");  // eager leaves it where its base is
  CHECK(v.map_of(v.b("prims.unfold", number, 0, 1, 1)) == "[]");
  CHECK(v.map_of(v.b("prims.flip", number, Arg(Ints{}))) == "[]");
}

TEST_CASE("view rules: a write through a view whose elements share memory is refused") {
  Views v;
  const Expr a = v.tensor({3, 1});
  const Expr wide = v.b("prims.broadcast_in_dim", a, Dims{3, 2}, Arg(Ints{0, 1}));
  const Call& call = *v.b.calls().back();
  CHECK_THROWS_WITH_AS(call.op->write_back(v.b, call.arguments(), a, wide, "add_"),
                       doctest::Contains("[add_] unsupported operation: more than one element"), Error);
}

TEST_CASE("combine: the neutral element of each reduction") {
  using ops::neutral_element;
  CHECK(print(*neutral_element(Combine::Add, DType::f32)) == "0.0");
  CHECK(print(*neutral_element(Combine::Mul, DType::i64)) == "1");
  CHECK_FALSE(neutral_element(Combine::Max, DType::i32).has_value());
  CHECK_FALSE(neutral_element(Combine::None, DType::f32).has_value());
  CHECK(neutral_element(Combine::Min, DType::boolean)->boolean());
  CHECK_FALSE(neutral_element(Combine::Max, DType::boolean)->boolean());
  CHECK(neutral_element(Combine::And, DType::boolean)->boolean());
}

}  // namespace thunder
