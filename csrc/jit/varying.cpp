#include "jit/varying.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace thunder {
namespace {

class Finder {
 public:
  Finder(const std::vector<const Numbers*>& earlier, const Numbers& now, const std::vector<char>& fixed)
      : calls_(earlier), now_(now), fixed_(fixed) {
    calls_.push_back(&now);
    out_.ints.resize(now.ints.size(), {.kind = IntBinding::Constant});
    for (size_t i = 0; i < now.floats.size(); ++i)
      out_.constant_floats.push_back(
          std::all_of(earlier.begin(), earlier.end(), [&](const Numbers* r) { return r->floats[i] == now.floats[i]; }));
  }

  void take_argument(size_t i) {
    if (varies(i)) out_.ints[i] = {.kind = IntBinding::Symbol};
  }

  void take_tensor(const TensorPlace& p) {
    for (size_t d = 0; d < p.rank; ++d)
      if (varies(p.first + d)) out_.ints[p.first + d] = {.kind = IntBinding::Symbol, .may_be_one = true};
    std::vector<bool> known(p.rank, false);
    for (size_t d : inner_first(p)) {
      if (varies(p.first + p.rank + d)) take_stride(p, d, known);
      known[d] = true;
    }
  }

  Varying finish() {
    out_.any = std::any_of(out_.ints.begin(), out_.ints.end(),
                           [](const IntBinding& b) { return b.kind == IntBinding::Symbol; }) ||
               std::any_of(out_.constant_floats.begin(), out_.constant_floats.end(), [](char c) { return !c; });
    return std::move(out_);
  }

 private:
  bool varies(size_t i) const {
    return !fixed_[i] &&
           std::any_of(calls_.begin(), calls_.end(), [&](const Numbers* r) { return r->ints[i] != now_.ints[i]; });
  }

  // Dimensions by their strides in the call with the most elements: sizes of 1 say little.
  std::vector<size_t> inner_first(const TensorPlace& p) const {
    auto count = [&](const Numbers* r) {
      double n = 1;
      for (size_t d = 0; d < p.rank; ++d) n *= static_cast<double>(r->ints[p.first + d]);
      return n;
    };
    const Numbers& most = **std::max_element(calls_.begin(), calls_.end(),
                                             [&](const Numbers* a, const Numbers* b) { return count(a) < count(b); });
    std::vector<size_t> order(p.rank);
    std::iota(order.rbegin(), order.rend(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return most.ints[p.first + p.rank + a] < most.ints[p.first + p.rank + b];
    });
    return order;
  }

  // Whether the stride is always that of dimension `from` times its size.  Where the dimension has one element nobody
  // reads its stride; a program that asks for strides is not for that (Layouts::keep_strides).
  bool follows(const TensorPlace& p, size_t d, size_t from) const {
    return std::all_of(calls_.begin(), calls_.end(), [&](const Numbers* r) {
      const int64_t* sizes = r->ints.data() + p.first;
      const int64_t* strides = sizes + p.rank;
      return sizes[d] == 1 || (strides[from] != 0 && strides[from] * sizes[from] == strides[d]);
    });
  }

  void take_stride(const TensorPlace& p, size_t d, const std::vector<bool>& known) {
    const size_t strides = p.first + p.rank;
    auto take = [&](size_t from) {
      if (!known[from] || !follows(p, d, from)) return false;
      out_.ints[strides + d] = {
          .kind = IntBinding::Product, .other = strides + from, .by = p.first + from, .size = p.first + d};
      return true;
    };
    if (d + 1 < p.rank && take(d + 1)) return;
    for (size_t from = p.rank; from-- > 0;)
      if (take(from)) return;
    if (now_.ints[strides + d] >= 2) out_.ints[strides + d] = {.kind = IntBinding::Symbol};
  }

  std::vector<const Numbers*> calls_;  // this call's is the last
  const Numbers& now_;
  const std::vector<char>& fixed_;
  Varying out_;
};

}  // namespace

Varying find_varying(const std::vector<const Numbers*>& earlier, const Numbers& now,
                     const std::vector<TensorPlace>& places, const std::vector<char>& fixed) {
  Finder finder(earlier, now, fixed);
  size_t arguments = now.ints.size();
  for (const TensorPlace& p : places) arguments = std::min(arguments, p.first);
  for (size_t i = 0; i < arguments; ++i) finder.take_argument(i);
  for (const TensorPlace& p : places) finder.take_tensor(p);
  return finder.finish();
}

}  // namespace thunder
