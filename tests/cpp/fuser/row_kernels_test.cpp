#include "fuser/row_kernels.h"

#include <doctest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "fuser/compiles.h"
#include "fuser/cuda_on_host.h"
#include "fuzz/random.h"

namespace thunder::test {
namespace {

using namespace fuser::rows;
using Numbers = std::vector<int64_t>;

unsigned blocks(int64_t threads) {
  return static_cast<unsigned>(std::max<int64_t>((threads + kThreads - 1) / kThreads, 1));
}

TEST_CASE("row kernels: they compile for every type") {
  std::vector<std::string> texts;
  for (DType t : {DType::i64, DType::i32})
    for (bool short_keys : {false, true}) texts.push_back(group_text(t, short_keys));
  for (DType t :
       {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i64, DType::i32, DType::i16, DType::i8, DType::u8})
    texts.push_back(sum_text(t));
  check_compiles("rows", texts);
}

TEST_CASE("row kernels: long segments are cut where a part takes about as long as all parts of one") {
  for (int64_t n : {1, 100, 4096, 100000, 1000000, 100000000}) {
    const int64_t heavy = heavy_of(n);
    CHECK(heavy >= 32);
    CHECK(heavy <= 512);
    CHECK((heavy & (heavy - 1)) == 0);
  }
  CHECK(heavy_of(4096) == 32);
  CHECK(heavy_of(1000000) == 256);
}

// ---- the index ------------------------------------------------------------------------------------------------------

template <class Id, class Key>
void check_group(CudaOnHost& cuda, const std::vector<Id>& ids, int64_t groups, int skips) {
  const int count = static_cast<int>(ids.size());
  Numbers order(ids.size(), -7), starts(static_cast<size_t>(groups) + 1, -7);
  std::vector<Key> keys(ids.size(), -7), plain(ids.size(), -7);
  std::vector<Key> tiles(ids.size(), -7);
  std::vector<int> from(ids.size(), -7);
  auto* sort_tiles = cuda.kernel<void(const Id*, Key*, int*, int, int64_t, int)>("rows_tiles");
  auto* place = cuda.kernel<void(const Key*, const int*, int64_t*, Key*, int)>("rows_places");
  auto* make_keys = cuda.kernel<void(const Id*, Key*, int, int64_t, int)>("rows_keys");
  auto* find_starts = cuda.kernel<void(const Key*, int64_t*, int, int64_t)>("rows_starts");
  const unsigned number_of_tiles = static_cast<unsigned>((count + kTile - 1) / kTile);
  cuda.launch({number_of_tiles}, kThreads,
              [&] { sort_tiles(ids.data(), tiles.data(), from.data(), count, groups, skips); });
  CHECK(!cuda.trapped());
  cuda.launch({blocks(count * kPlacedBy)}, kThreads,
              [&] { place(tiles.data(), from.data(), order.data(), keys.data(), count); });
  cuda.launch({blocks(count)}, kThreads, [&] { make_keys(ids.data(), plain.data(), count, groups, skips); });
  cuda.launch({blocks(groups + 1)}, kThreads, [&] { find_starts(keys.data(), starts.data(), count, groups); });
  Numbers want(ids.size());
  std::iota(want.begin(), want.end(), int64_t{0});
  const auto number = [&](int64_t i) {
    return ids[static_cast<size_t>(i)] < 0 ? groups : int64_t{ids[static_cast<size_t>(i)]};
  };
  std::stable_sort(want.begin(), want.end(), [&](int64_t a, int64_t b) { return number(a) < number(b); });
  CHECK(order == want);
  for (size_t i = 0; i < ids.size(); ++i) {
    CHECK(plain[i] == number(static_cast<int64_t>(i)));
    CHECK(keys[i] == number(order[i]));
  }
  for (int64_t r = 0; r <= groups; ++r)
    CHECK(starts[static_cast<size_t>(r)] ==
          std::count_if(want.begin(), want.end(), [&](int64_t i) { return number(i) < r; }));
}

template <class Id, class Key>
void check_groups(DType id, bool short_keys) {
  CudaOnHost cuda(group_text(id, short_keys));
  fuzz::Random random(1);
  for (int64_t groups : {1, 6, 900})
    for (int64_t n : {1, 33, 512, 2100})
      for (int skips : {0, 1}) {
        std::vector<Id> ids;
        for (int64_t i = 0; i < n; ++i) ids.push_back(static_cast<Id>(random.between(-skips, groups - 1)));
        check_group<Id, Key>(cuda, ids, groups, skips);
      }
}

TEST_CASE("row kernels: the positions of each number, on the host") {
  check_groups<int64_t, int16_t>(DType::i64, true);
  check_groups<int32_t, int32_t>(DType::i32, false);
}

TEST_CASE("row kernels: a number out of range is a trap") {
  CudaOnHost cuda(group_text(DType::i64, false));
  auto* make_keys = cuda.kernel<void(const int64_t*, int32_t*, int, int64_t, int)>("rows_keys");
  int32_t key = 0;
  const auto traps = [&](int64_t id, int skips) {
    cuda.launch({1}, kThreads, [&] { make_keys(&id, &key, 1, 5, skips); });
    return cuda.trapped();
  };
  CHECK(!traps(4, 0));
  CHECK(traps(5, 0));
  CHECK(traps(-1, 0));
  CHECK(!traps(-1, 1));
  CHECK(traps(-2, 1));
  CHECK(traps(int64_t{1} << 32, 0));
}

// ---- sums -----------------------------------------------------------------------------------------------------------

struct Shape {
  int64_t outer, slices, inner;
};

// Everything that a launch takes, for numbers of type X in memory.
template <class X, class S>
class SumRun {
 public:
  SumRun(CudaOnHost& cuda, Shape shape, int lanes) : cuda_(cuda), shape_(shape), lanes_(lanes) {}

  std::vector<X> operator()(const std::vector<X>& a, const Numbers& places, const Numbers* starts, int64_t length,
                            const std::vector<X>* weights, int64_t heavy, int skips) {
    const auto count = static_cast<int64_t>(places.size());
    const int64_t segments = starts ? static_cast<int64_t>(starts->size()) - 1 : count / length,
                  parts_of_places = (count + heavy - 1) / heavy, chunks = shape_.inner / lanes_;
    std::vector<X> out(static_cast<size_t>(shape_.outer * segments * shape_.inner));
    std::vector<S> parts(static_cast<size_t>(shape_.outer * parts_of_places * 2 * shape_.inner),
                         std::numeric_limits<S>::max());
    const std::string suffix = lanes_ == 1 ? "_1" : "";
    auto* make_parts = cuda_.kernel<Parts>("rows_parts" + suffix);
    auto* sum = cuda_.kernel<Whole>("rows_sum" + suffix);
    const int64_t* s = starts ? starts->data() : nullptr;
    const X* w = weights ? weights->data() : nullptr;
    const unsigned y = shape_.outer > 1 ? 2 : 1;  // fewer blocks than outer dimensions
    const int64_t stride = shape_.inner, outer_stride = shape_.slices * shape_.inner;
    cuda_.launch({blocks(parts_of_places * chunks), y}, kThreads, [&] {
      make_parts(a.data(), places.data(), s, w, parts.data(), shape_.slices, stride, shape_.outer, outer_stride,
                 shape_.inner, count, segments, length, heavy, skips);
    });
    cuda_.launch({blocks(segments * chunks), y}, kThreads, [&] {
      sum(a.data(), places.data(), s, w, parts.data(), out.data(), shape_.slices, stride, shape_.outer, outer_stride,
          shape_.inner, count, segments, length, heavy, skips);
    });
    return out;
  }

 private:
  using Parts = void(const X*, const int64_t*, const int64_t*, const X*, S*, int64_t, int64_t, int64_t, int64_t,
                     int64_t, int64_t, int64_t, int64_t, int64_t, int);
  using Whole = void(const X*, const int64_t*, const int64_t*, const X*, const S*, X*, int64_t, int64_t, int64_t,
                     int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int);
  CudaOnHost& cuda_;
  const Shape shape_;
  const int lanes_;
};

// Small integers, whose sums are exact in any order.
template <class X>
std::vector<X> small(fuzz::Random& random, int64_t n) {
  std::vector<X> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(static_cast<X>(random.between(-4, 4)));
  return out;
}

template <class X>
std::vector<X> expected(Shape shape, const std::vector<X>& a, const Numbers& places, const Numbers& starts,
                        const std::vector<X>* weights) {
  std::vector<X> out;
  for (int64_t o = 0; o < shape.outer; ++o)
    for (size_t r = 0; r + 1 < starts.size(); ++r)
      for (int64_t q = 0; q < shape.inner; ++q) {
        X sum = 0;
        for (auto p = static_cast<size_t>(starts[r]); p < static_cast<size_t>(starts[r + 1]); ++p)
          if (places[p] >= 0)
            sum += a[static_cast<size_t>((o * shape.slices + places[p]) * shape.inner + q)] *
                   (weights ? (*weights)[p] : X(1));
        out.push_back(sum);
      }
  return out;
}

// Starts of segments of `count` places: empty ones, ones of one place, long ones and any.
Numbers random_starts(fuzz::Random& random, int64_t count, int kind) {
  Numbers starts = {0};
  while (starts.back() < count || starts.size() < 3) {
    const int64_t length = kind == 0 ? count : kind == 1 ? random.below(3) : random.chance(0.3) ? 0 : random.below(120);
    starts.push_back(std::min(count, starts.back() + length));
  }
  return starts;
}

template <class X, class S>
void check_sums(DType t) {
  CudaOnHost cuda(sum_text(t));
  fuzz::Random random(2);
  const int lanes = lanes_of(t);
  for (Shape shape : {Shape{1, 9, 2 * lanes}, Shape{3, 9, lanes}, Shape{1, 9, 5}, Shape{4, 9, 1}})
    for (int kind : {0, 1, 2, 3})
      for (bool weighted : {false, true}) {
        const int64_t count = kind == 3 ? 140 : random.between(1, 300);
        const std::vector<X> a = small<X>(random, shape.outer * shape.slices * shape.inner),
                             weights = small<X>(random, count);
        Numbers places;
        for (int64_t i = 0; i < count; ++i) places.push_back(random.between(-1, shape.slices - 1));
        Numbers starts = random_starts(random, count, kind);
        if (kind == 3) starts = {0, 70, 140};  // of one length
        SumRun<X, S> run(cuda, shape, shape.inner % lanes == 0 ? lanes : 1);
        for (int64_t heavy : {32, 64}) {
          const std::vector<X> got = run(a, places, kind == 3 ? nullptr : &starts, kind == 3 ? 70 : 0,
                                         weighted ? &weights : nullptr, heavy, 1);
          CHECK(!cuda.trapped());
          CHECK(!cuda.misaligned());
          CHECK(got == expected(shape, a, places, starts, weighted ? &weights : nullptr));
        }
      }
}

TEST_CASE("row kernels: sums of segments, on the host") {
  check_sums<float, float>(DType::f32);
  check_sums<double, double>(DType::f64);
  check_sums<int64_t, int64_t>(DType::i64);
  check_sums<int16_t, int64_t>(DType::i16);
}

TEST_CASE("row kernels: a place out of range is a trap, one that is skipped is none") {
  CudaOnHost cuda(sum_text(DType::f32));
  SumRun<float, float> run(cuda, {1, 3, 4}, 4);
  const std::vector<float> a(12, 1.0F);
  const Numbers starts = {0, 2};
  const auto traps = [&](int64_t place, int skips) {
    run(a, {0, place}, &starts, 0, nullptr, 32, skips);
    return cuda.trapped();
  };
  CHECK(!traps(2, 0));
  CHECK(traps(3, 0));
  CHECK(traps(-1, 0));
  CHECK(!traps(-1, 1));
  CHECK(traps(-2, 1));
}

}  // namespace
}  // namespace thunder::test
