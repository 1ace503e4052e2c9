// Types of values, and how PyTorch lays tensors out.
#include "core/type.h"

#include <doctest.h>

#include "core/error.h"
#include "core/errors.h"
#include "fuzz/random.h"

namespace thunder {
namespace {

TensorType tensor(Dims shape, Dims strides) { return {DType::f32, Device{}, std::move(shape), std::move(strides)}; }
TensorType rows(const Dims& shape) { return tensor(shape, contiguous_strides(shape)); }

std::string error_of(const std::function<void()>& f) { return test::error_of(ErrorKind::Internal, f); }

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// ---- types ----------------------------------------------------------------------------------------------------------

TEST_CASE("layout: names as torch's, and back") {
  for (Layout l : {Layout::Strided, Layout::SparseCoo, Layout::SparseCsr, Layout::SparseCsc})
    CHECK(layout_from_name(layout_name(l)) == l);
  CHECK(layout_name(Layout::SparseCoo) == "sparse_coo");
  for (const char* name : {"", "Strided", "torch.strided", "sparse"}) CHECK(layout_from_name(name) == std::nullopt);
}

TEST_CASE("TensorType: rank, number of elements, layout") {
  ShapeEnv env;
  const Dim s = env.make_symbol(4);
  CHECK(rows({}).rank() == 0);
  CHECK(rows({}).numel().same(1));
  CHECK(rows({2, 3, 4}).rank() == 3);
  CHECK(rows({2, 3, 4}).numel().same(24));
  CHECK(rows({2, 0}).numel().same(0));
  CHECK(tensor({s, 3}, {3, 1}).numel().same(3 * s));
  TensorType t = rows({2, 3});
  CHECK(t.strided());
  CHECK(t.layout_str() == "strided");
  t.layout = Layout::SparseCoo;
  CHECK_FALSE(t.strided());
  CHECK(t.layout_str() == "sparse_coo");
  TensorType dense = t;
  dense.dense_dims = 1;
  CHECK(dense.layout_str() == "sparse_coo dense=1");
  CHECK(t.same_layout(t));
  CHECK_FALSE(t.same_layout(dense));
  CHECK_FALSE(t.same_layout(rows({2, 3})));
}

TEST_CASE("Type: each kind prints as the annotation says") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  const Dim s = env.make_symbol(4, "s");
  TensorType sparse = tensor({2, 3}, {});
  sparse.layout = Layout::SparseCoo;
  CHECK(Type().str() == "None");
  CHECK(Type(rows({2, 3})).str() == "cpu f32[2, 3]");
  CHECK(Type(rows({})).str() == "cpu f32[]");
  CHECK(Type(tensor({s + 1}, {1})).str() == "cpu f32[s + 1]");
  CHECK(Type(sparse).str() == "cpu f32[2, 3] sparse_coo");
  CHECK(Type(NumberType{NumberKind::Bool, {}}).str() == "bool");
  CHECK(Type(NumberType{NumberKind::Int, s}).str() == "int");
  CHECK(Type(NumberType{NumberKind::Float, {}}).str() == "float");
  CHECK(Type(NumberType{NumberKind::Complex, {}}).str() == "complex");
  CHECK(Type::opaque("graph").str() == "graph");
}

TEST_CASE("Type: what is of another kind cannot be read, and the error says what it is") {
  const Type none, t = rows({2}), n = NumberType{}, o = Type::opaque("graph");
  CHECK(none.kind() == Type::Kind::None);
  CHECK((t.is_tensor() && !t.is_number() && !t.is_future()));
  CHECK((n.is_number() && !n.is_tensor() && !n.is_future()));
  CHECK(o.kind() == Type::Kind::Opaque);
  CHECK(t.tensor().shape.size() == 1);
  CHECK(n.number().kind == NumberKind::Int);
  CHECK(o.opaque_name() == "graph");
  CHECK(contains(error_of([&] { n.tensor(); }), "a tensor was expected, got int"));
  CHECK(contains(error_of([&] { t.number(); }), "a number was expected, got cpu f32[2]"));
  CHECK(contains(error_of([&] { none.opaque_name(); }), "an opaque value was expected, got None"));
  CHECK(contains(error_of([&] { o.future(); }), "a future was expected, got graph"));
}

TEST_CASE("Type: tensors are the same in everything; strides and requires_grad count where it is strict") {
  const TensorType t = rows({2, 3});
  const auto differs = [&](auto change, bool strict) {
    TensorType other = t;
    change(other);
    CHECK(Type(t).same(other, strict) == Type(other).same(t, strict));
    return !Type(t).same(other, strict);
  };
  CHECK(Type(t).same(rows({2, 3})));
  for (bool strict : {true, false}) {
    CHECK(differs([](TensorType& o) { o.dtype = DType::f64; }, strict));
    CHECK(differs([](TensorType& o) { o.device = {DeviceType::cuda, 0}; }, strict));
    CHECK(differs([](TensorType& o) { o.shape = {3, 2}; }, strict));
    CHECK(differs([](TensorType& o) { o.shape = {2, 3, 1}; }, strict));
    CHECK(differs([](TensorType& o) { o.layout = Layout::SparseCoo; }, strict));
    CHECK(differs([](TensorType& o) { o.strides = {1, 2}; }, strict) == strict);
    CHECK(differs([](TensorType& o) { o.requires_grad = true; }, strict) == strict);
  }
}

TEST_CASE("Type: other kinds are the same by what they hold, sizes by their normal form") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  const Dim s = env.make_symbol(4, "s"), t = env.make_symbol(4, "t");
  const auto number = [](NumberKind kind, std::optional<Dim> dim = {}) { return Type(NumberType{kind, dim}); };
  CHECK(Type().same(Type()));
  CHECK_FALSE(Type().same(number(NumberKind::Int)));
  CHECK(number(NumberKind::Int).same(number(NumberKind::Int)));
  CHECK_FALSE(number(NumberKind::Int).same(number(NumberKind::Float)));
  CHECK(number(NumberKind::Int, s + 1).same(number(NumberKind::Int, 1 + s)));
  CHECK_FALSE(number(NumberKind::Int, s).same(number(NumberKind::Int, t)));
  CHECK_FALSE(number(NumberKind::Int, s).same(number(NumberKind::Int)));
  CHECK(Type::opaque("graph").same(Type::opaque("graph")));
  CHECK_FALSE(Type::opaque("graph").same(Type::opaque("stream")));
  CHECK(Type(tensor({s + t}, {1})).same(tensor({t + s}, {1})));
  CHECK_FALSE(Type(tensor({s}, {1})).same(tensor({t}, {1})));
  CHECK(env.guards().empty());
}

// ---- layouts --------------------------------------------------------------------------------------------------------

TEST_CASE("contiguous_strides: row-major, a size of 0 counts as 1") {
  CHECK(str(contiguous_strides({})) == "[]");
  CHECK(str(contiguous_strides({5})) == "[1]");
  CHECK(str(contiguous_strides({2, 3, 4})) == "[12, 4, 1]");
  CHECK(str(contiguous_strides({2, 1, 4})) == "[4, 4, 1]");
  CHECK(str(contiguous_strides({2, 0, 3})) == "[3, 3, 1]");
  CHECK(str(contiguous_strides({2, 3, 0})) == "[3, 1, 1]");
}

TEST_CASE("contiguous_strides: of symbolic sizes") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  const Dim s = env.make_symbol(6, "s", 2), size = env.make_size(1), u = env.make_symbol(std::nullopt, "u");
  CHECK(same(contiguous_strides({3, s, 4}), {4 * s, 4, 1}));
  CHECK(same(contiguous_strides({3, size}), {size, 1}));
  CHECK(same(contiguous_strides({2, 3, u}), {3 * u, u, 1}));
  CHECK(env.guards().empty());
}

TEST_CASE("is_contiguous: strides of sizes of 1 do not count, nor any where there is no element") {
  CHECK(is_contiguous(rows({})));
  CHECK(is_contiguous(rows({2, 3})));
  CHECK(is_contiguous(tensor({2, 1, 3}, {3, 77, 1})));
  CHECK(is_contiguous(tensor({1, 1}, {5, 5})));
  CHECK(is_contiguous(tensor({2, 0}, {7, 7})));
  CHECK_FALSE(is_contiguous(tensor({2, 3}, {1, 2})));
  CHECK_FALSE(is_contiguous(tensor({2, 3}, {0, 1})));
  CHECK_FALSE(is_contiguous(tensor({2, 3}, {4, 1})));
  CHECK_FALSE(is_contiguous(tensor({3}, {2})));
}

TEST_CASE("is_non_overlapping_and_dense: a place for each element and no gap, in any order") {
  CHECK(is_non_overlapping_and_dense({}, {}));
  CHECK(is_non_overlapping_and_dense({2, 3}, {3, 1}));
  CHECK(is_non_overlapping_and_dense({2, 3}, {1, 2}));
  CHECK(is_non_overlapping_and_dense({2, 3, 4}, {4, 8, 1}));
  CHECK(is_non_overlapping_and_dense({2, 1, 3}, {3, 99, 1}));
  CHECK(is_non_overlapping_and_dense({2, 0}, {9, 9}));
  CHECK_FALSE(is_non_overlapping_and_dense({2, 3}, {4, 1}));
  CHECK_FALSE(is_non_overlapping_and_dense({2, 3}, {0, 1}));
  CHECK_FALSE(is_non_overlapping_and_dense({2, 2}, {1, 1}));
  CHECK_FALSE(is_non_overlapping_and_dense({3}, {2}));
}

std::string pointwise(const Dims& shape, std::vector<Dims> operands) {
  std::vector<const Dims*> pointers;
  for (const Dims& d : operands) pointers.push_back(&d);
  return str(pointwise_strides(shape, pointers));
}

// The strides that PyTorch 2 gives to a sum of tensors with these.
TEST_CASE("pointwise_strides: TensorIterator's") {
  CHECK(pointwise({2, 3}, {}) == "[3, 1]");
  CHECK(pointwise({2, 3, 4}, {{12, 4, 1}, {1, 2, 6}}) == "[12, 4, 1]");
  CHECK(pointwise({2, 3, 4}, {{1, 2, 6}, {12, 4, 1}}) == "[1, 2, 6]");
  CHECK(pointwise({2, 3, 4}, {{1, 2, 6}, {0, 4, 1}}) == "[1, 2, 6]");
  CHECK(pointwise({2, 3, 4}, {{0, 4, 1}, {1, 2, 6}}) == "[1, 8, 2]");
  CHECK(pointwise({2, 3, 4}, {{0, 0, 1}, {0, 0, 1}}) == "[12, 4, 1]");
  CHECK(pointwise({2, 3, 4, 5}, {{60, 1, 15, 3}, {0, 1, 0, 0}}) == "[60, 1, 15, 3]");
  CHECK(pointwise({2, 3, 4, 5}, {{0, 1, 0, 0}, {60, 1, 15, 3}}) == "[60, 1, 15, 3]");
}

TEST_CASE("pointwise_strides: where strides are equal the larger size goes further out") {
  CHECK(pointwise({2, 3}, {{1, 1}, {1, 1}}) == "[1, 2]");
  CHECK(pointwise({3, 2}, {{1, 1}, {1, 1}}) == "[2, 1]");
}

TEST_CASE("pointwise_strides: of no element, strides are 0 outside of the size of 0") {
  CHECK(pointwise({2, 0, 3}, {{3, 3, 1}, {3, 3, 1}}) == "[3, 3, 1]");
  CHECK(pointwise({2, 0, 3}, {{1, 2, 4}, {0, 0, 1}}) == "[1, 2, 0]");
}

TEST_CASE("preserve_format_strides: as they are where dense, as a pointwise operator's otherwise") {
  const auto preserved = [](Dims shape, Dims strides) { return str(preserve_format_strides(tensor(shape, strides))); };
  CHECK(preserved({2, 3}, {1, 2}) == "[1, 2]");
  CHECK(preserved({2, 3}, {1, 4}) == "[1, 2]");
  CHECK(preserved({2, 3}, {0, 1}) == "[3, 1]");
  CHECK(preserved({2, 2, 3}, {2, 12, 4}) == "[1, 6, 2]");
  CHECK(preserved({}, {}) == "[]");
  TensorType sparse = tensor({2, 3}, {});
  sparse.layout = Layout::SparseCsr;
  CHECK(preserve_format_strides(sparse).empty());
}

std::string view(const Dims& shape, const Dims& strides, const Dims& new_shape) {
  const std::optional<Dims> found = view_strides(shape, strides, new_shape);
  return found ? str(*found) : "none";
}

TEST_CASE("view_strides: sizes are split and joined where memory allows it") {
  CHECK(view({2, 3, 4}, {12, 4, 1}, {24}) == "[1]");
  CHECK(view({2, 3, 4}, {12, 4, 1}, {6, 2, 2}) == "[4, 2, 1]");
  CHECK(view({2, 3}, {1, 2}, {6}) == "none");
  CHECK(view({2, 3}, {4, 1}, {6}) == "none");
  CHECK(view({4, 3}, {1, 4}, {2, 2, 3}) == "[2, 1, 4]");
  CHECK(view({2, 1, 3}, {3, 50, 1}, {6}) == "[1]");
  CHECK(view({}, {}, {1, 1}) == "[1, 1]");
  CHECK(view({1}, {1}, {}) == "[]");
  CHECK(view({2, 3}, {0, 0}, {6}) == "[0]");
  CHECK(view({2, 3}, {0, 1}, {6}) == "none");
}

TEST_CASE("view_strides: of no element") {
  CHECK(view({2, 0}, {7, 7}, {2, 0}) == "[7, 7]");
  CHECK(view({2, 0}, {1, 1}, {0, 3}) == "[3, 1]");
}

TEST_CASE("view_strides: of symbolic sizes") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  const Dim s = env.make_symbol(6, "s", 2);
  const std::optional<Dims> flat = view_strides({s, 4, 3}, {12, 3, 1}, {4 * s, 3});
  REQUIRE(flat);
  CHECK(same(*flat, {3, 1}));
  CHECK_FALSE(view_strides({s, 4}, {1, s}, {4 * s}));
  CHECK(env.guards().empty());
}

// The places of the elements in row-major order.
std::vector<int64_t> places(const Dims& shape, const Dims& strides) {
  std::vector<int64_t> out = {0};
  for (size_t d = 0; d < shape.size(); ++d) {
    std::vector<int64_t> next;
    for (int64_t base : out)
      for (int64_t i = 0; i < shape[d].constant(); ++i) next.push_back(base + i * strides[d].constant());
    out = std::move(next);
  }
  return out;
}

// Each stride follows from the place of the element one further in that dimension; then they fit all elements or none
// do.
bool some_strides_fit(const Dims& shape, const std::vector<int64_t>& wanted) {
  Dims strides(shape.size());
  int64_t step = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d].constant() > 1) strides[d] = wanted[static_cast<size_t>(step)];
    step *= shape[d].constant();
  }
  return places(shape, strides) == wanted;
}

TEST_CASE("view_strides: of random tensors, the same elements in the same order, and none only where there are none") {
  int with = 0, without = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    fuzz::Random random(seed);
    const auto factored = [&](int64_t n) {  // sizes whose product is n
      Dims out;
      while (n > 1 || random.chance(0.3)) {
        int64_t f = random.between(1, n);
        while (n % f != 0) --f;
        out.push_back(f);
        n /= f;
      }
      return out;
    };
    const int64_t numel = random.pick(std::vector<int64_t>{1, 4, 12, 24});
    const Dims shape = factored(numel), new_shape = factored(numel);
    Dims strides = contiguous_strides(shape);
    for (Dim& stride : strides)
      if (random.chance(0.3)) stride = random.between(0, 6);
    for (size_t i = 0; i + 1 < strides.size(); ++i)
      if (random.chance(0.2)) std::swap(strides[i], strides[i + 1]);
    CAPTURE(seed);
    const std::vector<int64_t> wanted = places(shape, strides);
    const std::optional<Dims> found = view_strides(shape, strides, new_shape);
    CHECK(found.has_value() == some_strides_fit(new_shape, wanted));
    if (found) CHECK(places(new_shape, *found) == wanted);
    ++(found ? with : without);
  }
  CHECK(with > 50);
  CHECK(without > 50);
}

TEST_CASE("channels_last_strides: of images and of volumes, and of nothing else") {
  CHECK(str(channels_last_strides({2, 3, 4, 5})) == "[60, 1, 15, 3]");
  CHECK(str(channels_last_strides({2, 3, 4, 5, 6})) == "[360, 1, 90, 18, 3]");
  CHECK(str(channels_last_strides({1, 1, 1, 1})) == "[1, 1, 1, 1]");
  CHECK(contains(error_of([] { channels_last_strides({2, 3, 4}); }), "channels_last needs 4 or 5 dimensions, got 3"));
}

}  // namespace
}  // namespace thunder
