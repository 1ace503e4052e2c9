#include "fuser/scan_kernels.h"

#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "core/error.h"
#include "fuser/compiles.h"
#include "fuser/cuda_on_host.h"
#include "fuzz/random.h"

namespace thunder::test {
namespace {

using namespace fuser::scans;

constexpr int kDevice = 132;  // multiprocessors
const std::vector<Kind> kKinds = {Kind::Sum,       Kind::ReversedSum,      Kind::Product, Kind::ProductGradient,
                                  Kind::LogSumExp, Kind::LogSumExpGradient};

TEST_CASE("scan kernels: types that are joined in a wider one, and rounded once") {
  CHECK(supported({Kind::Sum, DType::bf16, DType::bf16}));
  CHECK(supported({Kind::Sum, DType::f16, DType::f32}));
  CHECK(supported({Kind::Product, DType::boolean, DType::i64}));
  CHECK(supported({Kind::Sum, DType::i32, DType::i32}));
  CHECK_FALSE(supported({Kind::Sum, DType::f32, DType::bf16}));  // rounded before it is summed
  CHECK_FALSE(supported({Kind::Sum, DType::i64, DType::f32}));
  CHECK_FALSE(supported({Kind::Sum, DType::c64, DType::c64}));
  CHECK_FALSE(supported({Kind::LogSumExp, DType::i64, DType::i64}));
  CHECK_FALSE(supported({Kind::LogSumExp, DType::bf16, DType::f32}));
}

TEST_CASE("scan kernels: they compile for every type") {
  std::vector<std::string> texts;
  for (Kind k : kKinds)
    for (DType t : {DType::f32, DType::f64, DType::bf16}) texts.push_back(text_of({k, t, t}));
  for (DType t : {DType::boolean, DType::u8, DType::i8, DType::i16, DType::i32, DType::i64})
    texts.push_back(text_of({Kind::Sum, t, DType::i64}));
  texts.push_back(text_of({Kind::LogSumExpGradient, DType::f16, DType::f16}));
  texts.push_back(text_of({Kind::Product, DType::f16, DType::f32}));
  texts.push_back(text_of({Kind::ReversedSum, DType::i32, DType::i32}));
  check_compiles("scan", texts);
}

TEST_CASE("scan kernels: all elements are somebody's, and long rows keep the device busy") {
  for (Kind k : {Kind::Sum, Kind::LogSumExpGradient})
    for (DType t : {DType::bf16, DType::f32, DType::f64})
      for (int64_t outer : {1, 3, 64, 4096, 65536})
        for (int64_t length : {1, 2, 7, 64, 1000, 4096, 1000003})
          for (int64_t inner : {1, 2, 3, 64, 513}) {
            const Problem p{k, t, t};
            const Launch l = launch_of(p, outer, length, inner, true, kDevice);
            CAPTURE(outer);
            CAPTURE(length);
            CAPTURE(inner);
            CHECK(l.threads <= kMostThreads);
            CHECK(l.parts <= 65535);
            if (l.way == Launch::Way::Columns) {
              CHECK(inner % l.columns == 0);
              CHECK(l.blocks * l.team * l.columns >= outer * inner);
              CHECK(l.parts * l.part >= length);
              CHECK((l.parts - 1) * l.part < length);
              CHECK(l.threads / l.team <= kMostInColumn);
            } else if (l.way == Launch::Way::Rows) {
              CHECK(l.threads % 32 == 0);
              CHECK(chunks_of(p) * l.threads / 32 <= 32);
              CHECK(l.parts * l.part * lanes_of(p) >= length + (length % lanes_of(p) ? lanes_of(p) - 1 : 0));
            } else {
              CHECK(l.blocks * l.threads >= outer * l.team);
              CHECK(l.threads % 32 == 0);
            }
            if (length == 1000003) CHECK(l.blocks * l.parts >= 100);
          }
  CHECK(launch_of({Kind::Sum, DType::bf16, DType::bf16}, 65536, 64, 1, true, kDevice).team == 4);
  CHECK(launch_of({Kind::Sum, DType::bf16, DType::bf16}, 4096, 4096, 1, true, kDevice).parts == 1);
}

// ---- on the host ----------------------------------------------------------------------------------------------------

struct Shape {
  int64_t outer, length, inner;
  int64_t numel() const { return outer * length * inner; }
  size_t at(int64_t o, int64_t i, int64_t column) const {
    return static_cast<size_t>((o * length + i) * inner + column);
  }
};

// A kernel's run, as the executor launches it.
template <class In, class Out>
class Run {
 public:
  explicit Run(const Problem& p) : cuda_(text_of(p)), problem_(p) {}

  std::vector<Out> operator()(const Shape& s, const std::vector<const In*>& in, const Launch& l, int aligned) {
    // A place more than there is: memory of the host that begins at a multiple of 16 bytes.
    std::vector<Out> memory(static_cast<size_t>(s.numel() + 16), Out(77));
    Out* out = memory.data();
    std::vector<char> states(static_cast<size_t>(l.states * state_bytes(problem_)) + 16, 7);
    const In *a = in[0], *b = in.size() > 1 ? in[1] : nullptr, *c = in.size() > 2 ? in[2] : nullptr;
    void* parts = l.parts > 1 ? states.data() : nullptr;
    const CudaOnHost::Grid grid{static_cast<unsigned>(l.blocks), static_cast<unsigned>(l.parts)};
    const std::string suffix = l.columns == 1 ? "_1" : "";
    const auto threads = static_cast<unsigned>(l.threads);
    const auto check = [&] {
      CHECK(!cuda_.misaligned());
      CHECK(!cuda_.trapped());
    };
    if (l.way == Launch::Way::ShortRows) {
      auto* f = cuda_.template kernel<void(const In*, const In*, const In*, Out*, int64_t, int64_t, int, int)>(
          "scan_short_rows");
      cuda_.launch(grid, threads, [&] { f(a, b, c, out, s.outer, s.length, l.team, aligned); });
    } else if (l.way == Launch::Way::Rows) {
      auto* make = cuda_.template kernel<void(const In*, const In*, const In*, void*, int64_t, int64_t, int64_t, int)>(
          "scan_row_parts");
      auto* f =
          cuda_.template kernel<void(const In*, const In*, const In*, void*, Out*, int64_t, int64_t, int64_t, int)>(
              "scan_rows");
      if (parts) cuda_.launch(grid, threads, [&] { make(a, b, c, parts, s.outer, s.length, l.part, aligned); });
      if (parts) check();
      cuda_.launch(grid, threads, [&] { f(a, b, c, parts, out, s.outer, s.length, l.part, aligned); });
    } else {
      auto* make =
          cuda_.template kernel<void(const In*, const In*, const In*, void*, int64_t, int64_t, int64_t, int64_t, int)>(
              "scan_column_parts" + suffix);
      auto* f = cuda_.template kernel<void(const In*, const In*, const In*, void*, Out*, int64_t, int64_t, int64_t,
                                           int64_t, int)>("scan_columns" + suffix);
      if (parts) cuda_.launch(grid, threads, [&] { make(a, b, c, parts, s.outer, s.length, s.inner, l.part, l.team); });
      if (parts) check();
      cuda_.launch(grid, threads, [&] { f(a, b, c, parts, out, s.outer, s.length, s.inner, l.part, l.team); });
    }
    check();
    for (auto i = static_cast<size_t>(s.numel()); i < memory.size(); ++i) CHECK(memory[i] == Out(77));
    memory.resize(static_cast<size_t>(s.numel()));
    return memory;
  }

 private:
  CudaOnHost cuda_;
  const Problem problem_;
};

// One column, in the order of its elements.
std::vector<double> expected(Kind k, const std::vector<std::vector<double>>& x) {
  const size_t n = x[0].size();
  std::vector<double> out(n);
  double sum = 0, product = 1, behind = 0;
  for (size_t i = 0; i < n; ++i) {
    const double factor = product;
    sum += k == Kind::LogSumExp ? std::exp(x[0][i]) : x[0][i];
    product *= k == Kind::ProductGradient ? x[1][i] : x[0][i];
    out[i] = k == Kind::LogSumExp ? std::log(sum) : k == Kind::Product ? product : k == Kind::Sum ? sum : factor;
  }
  for (size_t i = n; i-- > 0;) {
    if (k == Kind::ReversedSum) out[i] = behind += x[0][i];
    if (k == Kind::LogSumExpGradient) {
      behind += x[0][i] * std::exp(-x[2][i]);
      out[i] = behind * std::exp(x[1][i]);
    }
    if (k == Kind::ProductGradient) {
      out[i] *= x[0][i] + behind;
      behind = x[1][i] * (x[0][i] + behind);
    }
  }
  return out;
}

bool small_numbers(Kind k) { return k == Kind::Sum || k == Kind::ReversedSum; }

// Numbers whose products neither vanish nor grow; sums of small integers are exact.
template <class In>
std::vector<std::vector<In>> inputs(fuzz::Random& random, Kind k, const Shape& s) {
  std::vector<std::vector<In>> in(static_cast<size_t>(inputs_of(k)), std::vector<In>(static_cast<size_t>(s.numel())));
  const bool of_product = k == Kind::Product || k == Kind::ProductGradient;
  for (auto& numbers : in)
    for (In& e : numbers) {
      const double u = random.uniform(-1, 1);
      e = small_numbers(k) ? static_cast<In>(random.between(-4, 4)) : static_cast<In>(of_product ? 1 + u / 10 : 3 * u);
    }
  if (k == Kind::ProductGradient && s.length > 2) in[1][s.at(0, s.length / 2, 0)] = In(0);
  if (in.size() < 3) return in;
  // The third one is the result for the second one.
  for (int64_t o = 0; o < s.outer; ++o)
    for (int64_t c = 0; c < s.inner; ++c) {
      double state = k == Kind::ProductGradient ? 1 : 0;
      for (int64_t i = 0; i < s.length; ++i) {
        const double x = static_cast<double>(in[1][s.at(o, i, c)]);
        state = k == Kind::ProductGradient ? state * x : state + std::exp(x);
        in[2][s.at(o, i, c)] = static_cast<In>(k == Kind::ProductGradient ? state : std::log(state));
      }
    }
  return in;
}

template <class In, class Out>
void check_scan(Run<In, Out>& run, fuzz::Random& random, const Problem& p, const Shape& s, const Launch& l,
                bool shifted) {
  const auto in = inputs<In>(random, p.kind, s);
  std::vector<std::vector<In>> memory;
  std::vector<const In*> pointers;
  for (const auto& numbers : in) {
    std::vector<In>& m = memory.emplace_back(numbers.size() + 1);
    std::copy(numbers.begin(), numbers.end(), m.begin() + (shifted ? 1 : 0));
    pointers.push_back(m.data() + (shifted ? 1 : 0));
  }
  const std::vector<Out> got = run(s, pointers, l, shifted ? 0 : 1);
  double worst = 0;
  for (int64_t o = 0; o < s.outer; ++o)
    for (int64_t c = 0; c < s.inner; ++c) {
      std::vector<std::vector<double>> column(in.size());
      for (size_t k = 0; k < in.size(); ++k)
        for (int64_t i = 0; i < s.length; ++i) column[k].push_back(static_cast<double>(in[k][s.at(o, i, c)]));
      const std::vector<double> want = expected(p.kind, column);
      double norm = 1e-30, difference = 0;
      for (int64_t i = 0; i < s.length; ++i) {
        const double w = want[static_cast<size_t>(i)], d = static_cast<double>(got[s.at(o, i, c)]) - w;
        norm += w * w;
        difference += d * d;
      }
      worst = std::max(worst, std::sqrt(difference / norm));
    }
  const double allowed = small_numbers(p.kind) ? 0 : sizeof(Out) == 4 ? 2e-5 : 1e-12;
  CHECK_MESSAGE(worst <= allowed, cat("scan ", static_cast<int>(p.kind), " of ", s.outer, " x ", s.length, " x ",
                                      s.inner, " by ", static_cast<int>(l.way), " in ", l.parts, " parts: ", worst));
}

// Launches as for a device, and with few threads, so that short rows have several tiles and parts.
std::vector<Launch> launches(const Problem& p, const Shape& s) {
  std::vector<Launch> all = {launch_of(p, s.outer, s.length, s.inner, true, kDevice)};
  const int64_t lanes = lanes_of(p), chunks = (s.length + 2 * lanes - 2) / lanes;
  if (s.inner == 1) {
    for (int team : {1, 4, 32}) {
      Launch l{.way = Launch::Way::ShortRows, .blocks = (s.outer * team + 63) / 64, .threads = 64, .team = team};
      all.push_back(l);
    }
    for (int64_t tiles : {1, 2, 100}) {
      Launch l{.way = Launch::Way::Rows, .blocks = s.outer, .threads = 64};
      l.part = tiles * 64 * chunks_of(p);
      l.parts = (chunks + l.part - 1) / l.part;
      l.states = l.parts > 1 ? s.outer * l.parts : 0;
      all.push_back(l);
    }
    return all;
  }
  for (int team : {2, 8})
    for (int64_t tiles : {1, 3}) {
      Launch l{.way = Launch::Way::Columns, .threads = 4 * team, .team = team};
      l.columns = s.inner % columns_of(p) == 0 ? columns_of(p) : 1;
      l.blocks = (s.outer * s.inner / l.columns + team - 1) / team;
      l.part = tiles * 4 * kItems;
      l.parts = (s.length + l.part - 1) / l.part;
      l.states = l.parts > 1 ? s.outer * s.inner * l.parts : 0;
      all.push_back(l);
    }
  return all;
}

template <class In, class Out>
void check_scans(const Problem& p) {
  Run<In, Out> run(p);
  fuzz::Random random(3);
  for (const Shape& s : {Shape{1, 1, 1}, Shape{5, 3, 1}, Shape{20, 16, 1}, Shape{3, 65, 1}, Shape{2, 1025, 1},
                         Shape{1, 1, 2}, Shape{3, 5, 7}, Shape{2, 33, 12}, Shape{1, 230, 3}})
    for (const Launch& l : launches(p, s)) {
      check_scan(run, random, p, s, l, false);
      if (l.way != Launch::Way::Columns || l.columns == 1) check_scan(run, random, p, s, l, true);
    }
}

TEST_CASE("scan kernels: rows and columns of any length, in parts or not, on the host") {
  for (Kind k : kKinds) check_scans<float, float>({k, DType::f32, DType::f32});
  for (Kind k : {Kind::ReversedSum, Kind::ProductGradient, Kind::LogSumExp})
    check_scans<double, double>({k, DType::f64, DType::f64});
  check_scans<int64_t, int64_t>({Kind::Sum, DType::i64, DType::i64});
  check_scans<int8_t, int64_t>({Kind::Sum, DType::i8, DType::i64});
  check_scans<int32_t, int32_t>({Kind::ReversedSum, DType::i32, DType::i32});
}

// Halves have two columns a thread and eight elements a chunk.
struct Half {
  uint16_t bits;
  Half() : bits(0) {}
  template <class T>
  explicit Half(T x) {
    const auto value = static_cast<float>(x);
    uint32_t b = 0;
    std::memcpy(&b, &value, 4);
    bits = static_cast<uint16_t>((b + 0x7fff + ((b >> 16) & 1)) >> 16);
  }
  explicit operator double() const {
    const uint32_t b = uint32_t{bits} << 16;
    float x = 0;
    std::memcpy(&x, &b, 4);
    return x;
  }
  bool operator==(const Half&) const = default;
};

TEST_CASE("scan kernels: halves, on the host") {
  // Sums of so few small integers are exact.
  Run<Half, Half> run({Kind::Sum, DType::bf16, DType::bf16});
  fuzz::Random random(4);
  const Problem p{Kind::Sum, DType::bf16, DType::bf16};
  for (const Shape& s :
       {Shape{5, 3, 1}, Shape{70, 16, 1}, Shape{4, 60, 1}, Shape{3, 61, 1}, Shape{3, 50, 6}, Shape{3, 61, 5}})
    for (const Launch& l : launches(p, s))
      if (l.way != Launch::Way::Columns || l.columns == 1 || s.inner % 2 == 0) check_scan(run, random, p, s, l, false);
}

TEST_CASE("scan kernels: infinities among exponents, on the host") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  Run<float, float> run({Kind::LogSumExp, DType::f32, DType::f32}),
      gradient({Kind::LogSumExpGradient, DType::f32, DType::f32});
  const Shape s{1, 6, 1};
  const Launch l = launch_of({Kind::LogSumExp, DType::f32, DType::f32}, 1, 6, 1, true, kDevice);
  const auto scan = [&](const std::vector<float>& x) { return run(s, {x.data()}, l, 0); };
  CHECK(scan({-inf, -inf, 1, -inf, -inf, -inf}) == std::vector<float>{-inf, -inf, 1, 1, 1, 1});
  CHECK(scan({1, inf, 2, inf, -inf, 0})[5] == inf);
  CHECK(std::isnan(scan({1, nan, 2, inf, -inf, 0})[5]));
  CHECK(scan({1, nan, 2, inf, -inf, 0})[0] == 1);
  const std::vector<float> g(6, 1.0F), x = {1, -inf, 1, 1, -inf, -inf}, y = scan(x);
  const std::vector<float> d = gradient(s, {g.data(), x.data(), y.data()}, l, 0);
  CHECK(d[1] == 0);
  CHECK(d[4] == 0);
  CHECK(d[3] == doctest::Approx(1));                // a third for each of three
  CHECK(d[0] == doctest::Approx(1 + 1 + 0.5 + 1));  // alone twice, one of two, one of three thrice
  const std::vector<float> first = {-inf, 1, 1, 1, 1, 1}, z = scan(first);
  CHECK(std::isnan(gradient(s, {g.data(), first.data(), z.data()}, l, 0)[0]));  // as in eager
  CHECK(std::isfinite(gradient(s, {g.data(), first.data(), z.data()}, l, 0)[1]));
}

TEST_CASE("scan kernels: products that overflow behind a zero leave gradients, on the host") {
  Run<float, float> gradient({Kind::ProductGradient, DType::f32, DType::f32});
  std::vector<float> x(64, 1e20F), y(64, 0.0F), g(64, 0.0F);
  x[0] = 2, x[1] = 3, x[2] = 0;
  y[0] = 2, y[1] = 6;
  g[0] = g[1] = g[2] = 1;
  const Launch l = launch_of({Kind::ProductGradient, DType::f32, DType::f32}, 1, 64, 1, true, kDevice);
  const std::vector<float> d = gradient({1, 64, 1}, {g.data(), x.data(), y.data()}, l, 0);
  CHECK(d[0] == 4);
  CHECK(d[1] == 2);
  CHECK(d[2] == 6);
  CHECK(std::all_of(d.begin() + 3, d.end(), [](float e) { return e == 0; }));
}

}  // namespace
}  // namespace thunder::test
