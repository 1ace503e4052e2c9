#include "executors/aten/random.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

#include <limits>
#include <numbers>

namespace thunder::aten {
namespace {

constexpr int64_t kWord = 0xffffffff;

at::Tensor low_word(const at::Tensor& x) { return x.bitwise_and(kWord); }
at::Tensor high_word(const at::Tensor& x) { return x.bitwise_right_shift(32).bitwise_and(kWord); }

// Blocks of Philox 4x32-10 as rows of four words, each in 64 bits.
at::Tensor words(const at::Tensor& state, int64_t blocks) {
  const at::Tensor block = at::arange(blocks, state.options()), seed = state.select(0, 0), offset = state.select(0, 1);
  at::Tensor a = low_word(block), b = high_word(block), c = low_word(offset), d = high_word(offset);
  at::Tensor k = low_word(seed), l = high_word(seed);
  for (int i = 0; i < 10; ++i) {
    const at::Tensor p = a.mul(at::Scalar(int64_t{0xD2511F53})), q = c.mul(at::Scalar(int64_t{0xCD9E8D57}));
    a = high_word(q).bitwise_xor(b).bitwise_xor(k);
    b = low_word(q);
    c = high_word(p).bitwise_xor(d).bitwise_xor(l);
    d = low_word(p);
    k = low_word(k.add(at::Scalar(int64_t{0x9E3779B9})));
    l = low_word(l.add(at::Scalar(int64_t{0xBB67AE85})));
  }
  return at::stack({a, b, c, d}, 1);
}

int64_t product(const Ints& shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

at::Tensor words_for(const FunctionArgs& a, int64_t elements_per_block) {
  const int64_t n = product(a.ints(1));
  return words(a.tensor(0), (n + elements_per_block - 1) / elements_per_block);
}

at::Tensor shaped(const at::Tensor& numbers, const FunctionArgs& a) {
  const Ints shape = a.ints(1);
  return numbers.reshape(-1).narrow(0, 0, product(shape)).view(shape);
}

// The upper `bits` of words of `of` bits, as fractions of 1.
at::Tensor fraction(const at::Tensor& words, int of, int bits, at::ScalarType t) {
  const int64_t kept = (int64_t{1} << bits) - 1;
  return words.bitwise_right_shift(of - bits).bitwise_and(kept).to(t).mul(1.0 / static_cast<double>(kept + 1));
}

// Pairs of words as one of 64 bits: [blocks, 4] to [blocks, 2].
at::Tensor pairs(const at::Tensor& words) {
  const at::Tensor w = words.view({-1, 2, 2});
  return w.select(2, 0).bitwise_or(w.select(2, 1).bitwise_left_shift(32));
}

at::Tensor two_normals(const at::Tensor& u, const at::Tensor& turn) {
  const at::Tensor r = u.log().mul(-2.0).sqrt(), quarter = turn.mul(4.0).round();
  const at::Tensor sine = turn.sub(quarter.mul(0.25)).mul(2 * std::numbers::pi).sin();
  const at::Tensor s = sine.mul(r), c = sine.mul(sine).neg().add(1.0).sqrt().mul(r);
  const at::Tensor one = quarter.eq(1), two = quarter.eq(2), three = quarter.eq(3), odd = one.logical_or(three);
  const at::Tensor y = at::where(odd, s, c), z = at::where(odd, c, s);
  return at::stack({at::where(one.logical_or(two), y.neg(), y), at::where(two.logical_or(three), z.neg(), z)}, 1);
}

}  // namespace

// All states by one draw; each has memory aligned to 16 bytes.
c10::IValue rng_states(const FunctionArgs& a) {
  constexpr int64_t low = std::numeric_limits<int64_t>::min(), high = std::numeric_limits<int64_t>::max();
  const at::TensorOptions options = at::TensorOptions().dtype(at::kLong).device(a.value(1).toDevice());
  return at::randint(low, high, {a.integer(0), 2}, options).unbind(0);
}

c10::IValue uniform_at(const FunctionArgs& a) {
  const at::ScalarType t = a.value(2).toScalarType();
  if (t == at::kDouble) return shaped(fraction(pairs(words_for(a, 2)), 64, 53, t), a);
  const int bits = t == at::kFloat ? 24 : t == at::kHalf ? 11 : 8;
  return shaped(fraction(words_for(a, 4), 32, bits, at::kFloat), a).to(t);
}

c10::IValue normal_at(const FunctionArgs& a) {
  const at::ScalarType t = a.value(2).toScalarType();
  if (t == at::kDouble) {
    const at::Tensor w = pairs(words_for(a, 2));
    const at::Tensor u = w.select(1, 0).bitwise_right_shift(11).bitwise_and((int64_t{1} << 53) - 1).to(t);
    return shaped(two_normals(u.add(0.5).mul(0x1p-53), fraction(w.select(1, 1), 64, 53, t)), a);
  }
  const at::Tensor w = words_for(a, 4).view({-1, 2});
  const at::Tensor u = w.select(1, 0).to(at::kFloat).mul(0x1p-32).add(0x1p-33);
  return shaped(two_normals(u, fraction(w.select(1, 1), 32, 24, at::kFloat)), a).to(t);
}

c10::IValue randint_at(const FunctionArgs& a) {
  const int64_t low = a.integer(2), range = a.integer(3) - low;
  return shaped(high_word(words_for(a, 4).mul(at::Scalar(range))).add(at::Scalar(low)), a);
}

}  // namespace thunder::aten
