#include "fuser/depthwise.h"

#include <doctest.h>

#include <vector>

#include "fuser/compiles.h"
#include "fuser/cuda_on_host.h"
#include "fuzz/random.h"

namespace thunder::test {
namespace {

using namespace fuser::depthwise;

Problem filter(int64_t size, int64_t stride = 1, int64_t channels = 96, int64_t columns = 56) {
  return {channels, size, size, stride, stride, size / 2, size / 2, columns, DType::bf16};
}

TEST_CASE("depthwise: filters that have kernels") {
  for (int64_t size : {1, 2, 3, 5, 7}) CHECK(supported(filter(size)));
  CHECK(supported(filter(3, 2)));
  CHECK_FALSE(supported(filter(9)));
  CHECK_FALSE(supported(filter(3, 3)));
  CHECK_FALSE(supported(filter(1, 2)));  // rows that no filter reads
  Problem p = filter(3);
  p.padding_x = 3;
  CHECK_FALSE(supported(p));
  p = filter(3);
  p.dtype = DType::f64;
  CHECK_FALSE(supported(p));
  p = filter(1);
  p.height = 49;
  CHECK(supported(p));
  p.height = 50;
  CHECK_FALSE(supported(p));
}

TEST_CASE("depthwise: threads cover all channels, by vectors that divide them") {
  for (int64_t channels : {1, 2, 3, 6, 8, 30, 32, 96, 100, 144, 1152, 1154, 8191})
    for (int64_t size : {3, 5, 7})
      for (Kind kind : {Kind::Forward, Kind::Input, Kind::Weight}) {
        const Plan plan = plan_of(filter(size, 1, channels), kind);
        CHECK(channels % plan.items == 0);
        CHECK(plan.lanes >= 1);
        CHECK(plan.lanes <= 32);
        CHECK(plan.blocks_y * plan.lanes * plan.items >= channels);
        CHECK((plan.blocks_y - 1) * plan.lanes * plan.items < channels);
      }
}

TEST_CASE("depthwise: tiles leave few columns empty") {
  CHECK(plan_of(filter(7, 1, 96, 56), Kind::Forward).tile == 7);
  CHECK(plan_of(filter(7, 1, 96, 7), Kind::Forward).tile == 7);
  CHECK(plan_of(filter(7, 1, 96, 16), Kind::Forward).tile == 4);
  CHECK(plan_of(filter(7, 1, 96, 0), Kind::Forward).tile == 4);  // any number of columns
  CHECK(plan_of(filter(3, 2), Kind::Input).tile % 2 == 0);
}

TEST_CASE("depthwise: strips cover all rows and columns") {
  for (int64_t batch : {1, 3, 128})
    for (int64_t rows : {1, 3, 4, 7, 55, 112})
      for (int64_t columns : {1, 7, 56})
        for (Kind kind : {Kind::Forward, Kind::Input, Kind::Weight}) {
          const Plan plan = plan_of(filter(5, 1, 40, columns), kind);
          const Launch l = launch_of(plan, batch, rows, columns, 132);
          const int64_t tiles = (columns + plan.tile - 1) / plan.tile;
          CHECK(l.segment * l.segments >= rows);
          CHECK(l.segment * (l.segments - 1) < rows);
          CHECK(l.strips == batch * tiles * l.segments);
          CHECK(l.blocks_x >= 1);
          if (kind == Kind::Weight) CHECK(partial_numbers(plan, l) == l.blocks_x * 25 * 40);
          else CHECK(l.blocks_x * (kThreads / plan.lanes) >= l.strips);
        }
  // A large batch gives work to every multiprocessor without cutting images, one image does not.
  const Plan plan = plan_of(filter(7), Kind::Forward);
  CHECK(launch_of(plan, 128, 56, 56, 132).segments == 1);
  CHECK(launch_of(plan, 1, 56, 56, 132).segments > 1);
}

TEST_CASE("depthwise: a few small images have smaller tiles and shorter strips") {
  Problem p = filter(7, 1, 384, 14);
  p.positions = 14 * 14;
  const Plan few = plan_of(p, Kind::Forward);
  CHECK(few.tile == 2);
  CHECK(launch_of(few, 1, 14, 14, 132).segment == 1);
  CHECK(plan_of(p, Kind::Weight).tile == 7);
  p.positions *= 256;
  CHECK(plan_of(p, Kind::Forward).tile == 7);
  CHECK(launch_of(plan_of(p, Kind::Forward), 256, 14, 14, 132).segments == 1);
}

// ---- numbers, by the text on the host ---------------------------------------------------------------------------------

using Numbers = std::vector<float>;

Numbers random_numbers(int64_t n, uint64_t seed) {
  fuzz::Random random(seed);
  Numbers out;
  for (int64_t i = 0; i < n; ++i) out.push_back(static_cast<float>(random.between(-8, 8)));
  return out;
}

// A convolution, small whole numbers, and what each kernel must give: sums of these are exact.
struct Convolution {
  Problem p;
  int64_t batch, height, width;
  int64_t out_height = (height + 2 * p.padding_y - p.height) / p.stride_y + 1;
  int64_t out_width = (width + 2 * p.padding_x - p.width) / p.stride_x + 1;
  int64_t taps = p.height * p.width;
  Numbers x = random_numbers(batch * height * width * p.channels, 1);
  Numbers w = random_numbers(p.channels * taps, 2);
  Numbers bias = random_numbers(p.channels, 3);
  Numbers g = random_numbers(batch * out_height * out_width * p.channels, 4);
  Numbers y = Numbers(g.size()), dx = Numbers(x.size()), dw = Numbers(w.size()), db = Numbers(bias.size());

  void compute() {
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t oy = 0; oy < out_height; ++oy)
        for (int64_t ox = 0; ox < out_width; ++ox)
          for (int64_t c = 0; c < p.channels; ++c) element(n, oy, ox, c);
  }

 private:
  void element(int64_t n, int64_t oy, int64_t ox, int64_t c) {
    const auto out = static_cast<size_t>(((n * out_height + oy) * out_width + ox) * p.channels + c);
    const auto channel = static_cast<size_t>(c);
    y[out] += bias[channel];
    db[channel] += g[out];
    for (int64_t k = 0; k < taps; ++k) {
      const int64_t iy = oy * p.stride_y - p.padding_y + k / p.width, ix = ox * p.stride_x - p.padding_x + k % p.width;
      if (iy < 0 || iy >= height || ix < 0 || ix >= width) continue;
      const auto in = static_cast<size_t>(((n * height + iy) * width + ix) * p.channels + c);
      const auto tap = static_cast<size_t>(c * taps + k);
      y[out] += x[in] * w[tap];
      dx[in] += g[out] * w[tap];
      dw[tap] += g[out] * x[in];
    }
  }
};

class OnHost {
 public:
  OnHost(const Convolution& c, Kind kind) : c_(c), plan_(plan_of(c.p, kind, true)), cuda_(text_of(plan_)) {}

  Numbers forward() {
    Numbers y(c_.g.size());
    launch("depthwise_forward", c_.out_height, c_.out_width, c_.x.data(), c_.w.data(), c_.bias.data(), y.data());
    return y;
  }
  Numbers input() {
    Numbers dx(c_.x.size());
    launch("depthwise_input", c_.height, c_.width, c_.g.data(), c_.w.data(), dx.data());
    return dx;
  }
  std::pair<Numbers, Numbers> weight() {
    const Launch l = launch_of(plan_, c_.batch, c_.out_height, c_.out_width, kMultiprocessors);
    Numbers parts(static_cast<size_t>(partial_numbers(plan_, l))), dw(c_.w.size()), db(c_.bias.size());
    launch("depthwise_weight", c_.out_height, c_.out_width, c_.g.data(), c_.x.data(), parts.data());
    auto* join = cuda_.kernel<void(const float*, float*, float*, int, int)>("depthwise_join");
    const auto channels = static_cast<int>(c_.p.channels);
    cuda_.launch({static_cast<unsigned>((channels + 31) / 32), static_cast<unsigned>(results_of(plan_))}, kJoinThreads,
                 [&] { join(parts.data(), dw.data(), db.data(), channels, static_cast<int>(l.blocks_x)); });
    return {dw, db};
  }

 private:
  static constexpr int64_t kMultiprocessors = 3;

  template <class... P>
  void launch(const char* name, int64_t rows, int64_t columns, P... pointers) {
    const Launch l = launch_of(plan_, c_.batch, rows, columns, kMultiprocessors);
    auto* kernel = cuda_.kernel<void(P..., int, int, int, int, int, int, int, int, int)>(name);
    const auto n = [](int64_t i) { return static_cast<int>(i); };
    cuda_.launch({static_cast<unsigned>(l.blocks_x), static_cast<unsigned>(plan_.blocks_y)},
                 static_cast<unsigned>(kThreads / plan_.lanes * plan_.lanes), [&] {
                   kernel(pointers..., n(c_.p.channels), n(plan_.lanes), n(c_.height), n(c_.width), n(c_.out_height),
                          n(c_.out_width), n(l.segment), n(l.segments), n(l.strips));
                 });
  }

  const Convolution& c_;
  const Plan plan_;
  CudaOnHost cuda_;
};

TEST_CASE("depthwise: results and gradients, on the host") {
  const auto problem = [](int64_t channels, int64_t h, int64_t w, int64_t sy, int64_t sx, int64_t py, int64_t px) {
    return Problem{channels, h, w, sy, sx, py, px, 0, DType::f32};
  };
  const std::vector<Convolution> convolutions = {{problem(12, 3, 3, 1, 1, 1, 1), 2, 9, 8},
                                                 {problem(6, 5, 4, 2, 1, 2, 0), 3, 11, 9},
                                                 {problem(5, 7, 7, 1, 1, 3, 3), 1, 5, 6},
                                                 {problem(136, 2, 3, 1, 2, 0, 2), 1, 3, 7}};
  for (Convolution c : convolutions) {
    c.p.columns = c.out_width;
    c.compute();
    for (int64_t positions : {int64_t{0}, c.batch * c.out_height * c.out_width}) {  // tiles for many threads, for few
      c.p.positions = positions;
      CHECK(OnHost(c, Kind::Forward).forward() == c.y);
      CHECK(OnHost(c, Kind::Input).input() == c.dx);
    }
    const auto [dw, db] = OnHost(c, Kind::Weight).weight();
    CHECK(dw == c.dw);
    CHECK(db == c.db);
  }
}

TEST_CASE("depthwise: the kernels compile for every type") {
  std::vector<std::string> texts;
  for (DType t : {DType::f32, DType::bf16, DType::f16})
    for (int64_t size : {1, 2, 3, 7})
      for (int64_t stride : {1, 2})
        for (Kind kind : {Kind::Forward, Kind::Input, Kind::Weight}) {
          Problem p = filter(size, stride, size == 2 ? 5 : 96);
          p.dtype = t;
          if (supported(p)) texts.push_back(text_of(plan_of(p, kind, size == 3)));
          p.positions = 56;
          if (supported(p)) texts.push_back(text_of(plan_of(p, kind, size == 3)));
        }
  check_compiles("depthwise", texts);
}

}  // namespace
}  // namespace thunder::test
