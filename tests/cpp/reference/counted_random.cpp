#include "reference/counted_random.h"

#include <cmath>
#include <numbers>

#include "reference/evaluator.h"

namespace thunder::reference {

Words philox(Words x, std::array<uint32_t, 2> key) {
  for (uint32_t round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xD2511F53} * x[0], second = uint64_t{0xCD9E8D57} * x[2];
    const uint32_t k0 = key[0] + round * 0x9E3779B9u, k1 = key[1] + round * 0xBB67AE85u;
    x = {static_cast<uint32_t>(second >> 32) ^ x[1] ^ k0, static_cast<uint32_t>(second),
         static_cast<uint32_t>(first >> 32) ^ x[3] ^ k1, static_cast<uint32_t>(first)};
  }
  return x;
}

namespace {

struct State {
  uint64_t seed, offset;
};

State state_of(const Inputs& in) {
  const Array& a = in.tensor("state");
  return {static_cast<uint64_t>(a.data.at(0).i), static_cast<uint64_t>(a.data.at(1).i)};
}

uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

Words block(State s, size_t i) {
  return philox({low(i), high(i), low(s.offset), high(s.offset)}, {low(s.seed), high(s.seed)});
}

uint32_t word(State s, size_t i) { return block(s, i / 4)[i % 4]; }

// 53 bits of the i-th pair of words.
uint64_t long_word(State s, size_t i) {
  const Words w = block(s, i / 2);
  return (uint64_t{w[i % 2 * 2 + 1]} << 32 | w[i % 2 * 2]) >> 11;
}

template <class F>
Datum filled(const Inputs& in, DType t, F&& element) {
  ArrayPtr out = make_array(t, in.tensor("state").device, in.integers("shape"));
  for (size_t i = 0; i < out->data.size(); ++i) out->data[i] = in.store(t, element(i));
  return out;
}

Datum rng_states(const Inputs& in) {
  std::vector<Datum> states;
  for (int64_t i = in.integer("n"); i > 0; --i) {
    ArrayPtr a = make_array(DType::i64, in.device("device"), {2});
    for (Element& e : a->data) e = Element::integer(static_cast<int64_t>(in.uniform() * 0x1p62));
    states.push_back(a);
  }
  return Datum::sequence(std::move(states));
}

Datum uniform_at(const Inputs& in) {
  const DType t = in.dtype("dtype");
  const State s = state_of(in);
  const int bits = t == DType::f32 ? 24 : t == DType::f16 ? 11 : 8;
  return filled(in, t, [&](size_t i) {
    if (t == DType::f64) return Element::real(std::ldexp(static_cast<double>(long_word(s, i)), -53));
    return Element::real(std::ldexp(word(s, i) >> (32 - bits), -bits));
  });
}

Datum normal_at(const Inputs& in) {
  const DType t = in.dtype("dtype");
  const State s = state_of(in);
  return filled(in, t, [&](size_t i) {
    const size_t first = i / 2 * 2;
    double u = 0, turn = 0;
    if (t == DType::f64) {
      u = (static_cast<double>(long_word(s, first)) + 0.5) * 0x1p-53;
      turn = static_cast<double>(long_word(s, first + 1)) * 0x1p-53;
    } else {
      u = static_cast<float>(word(s, first)) * 0x1p-32f + 0x1p-33f;
      turn = (word(s, first + 1) >> 8) * 0x1p-24;
    }
    // Wide, because a sine or cosine near zero keeps only what digits the angle has beyond a double's.
    const long double r = std::sqrt(-2 * std::log(u)), angle = 2 * std::numbers::pi_v<long double> * turn;
    return Element::real(static_cast<double>(r * (i % 2 ? std::sin(angle) : std::cos(angle))));
  });
}

Datum randint_at(const Inputs& in) {
  const State s = state_of(in);
  const int64_t from = in.integer("low");
  const auto range = static_cast<uint64_t>(in.integer("high") - from);
  return filled(in, DType::i64,
                [&](size_t i) { return Element::integer(from + static_cast<int64_t>(word(s, i) * range >> 32)); });
}

}  // namespace

void add_counted_random(Kernels& k) {
  k["prims.rng_states"] = rng_states;
  k["prims.uniform_at"] = uniform_at;
  k["prims.normal_at"] = normal_at;
  k["prims.randint_at"] = randint_at;
}

}  // namespace thunder::reference
