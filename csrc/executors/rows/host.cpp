#include "executors/rows/host.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/error.h"
#include "runtime/parallel.h"

namespace thunder::rows {
namespace {

// ---- where each number stands: a counting sort ----------------------------------------------------------------------

template <class Id>
bool group(const Id* index, int64_t count, int64_t groups, bool skips, int64_t* order, int64_t* starts) {
  std::fill(starts, starts + groups + 1, 0);
  int64_t skipped = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t r = index[i];
    if (static_cast<uint64_t>(r) < static_cast<uint64_t>(groups)) ++starts[r];
    else if (skips && r == -1) ++skipped;
    else return false;
  }
  int64_t end = 0;
  for (int64_t r = 0; r < groups; ++r) starts[r] = end += starts[r];
  starts[groups] = end;
  // From the last on, so that what counts as an end becomes a start, and equal numbers stay in order.
  int64_t behind = count;
  for (int64_t i = count; i-- > 0;) {
    const int64_t r = index[i];
    order[r < 0 ? --behind : --starts[r]] = i;
  }
  return true;
}

// ---- sums -----------------------------------------------------------------------------------------------------------

#define THUNDER_INLINE [[gnu::always_inline]] inline

template <class T>
using SumOf =
    std::conditional_t<std::is_integral_v<T>, int64_t, std::conditional_t<std::is_same_v<T, double>, double, float>>;

constexpr int64_t kBytes = 64;  // of a vector: the widest registers, or several narrower ones
constexpr int kVectors = 4;     // of which a segment's sum stays in registers at once

template <class S>
struct VectorOf {
  typedef S type __attribute__((vector_size(kBytes)));
  static constexpr int64_t lanes = kBytes / static_cast<int64_t>(sizeof(S));
};

// What follows is by reference: vectors that are passed by value depend on the processor that is compiled for.
template <class T, class V>
THUNDER_INLINE void load(const T* from, V& v) {
  using S = SumOf<T>;
  if constexpr (std::is_same_v<T, S>) {
    std::memcpy(&v, from, sizeof(V));
  } else if constexpr (std::is_same_v<T, c10::BFloat16>) {
    typedef uint16_t Half __attribute__((vector_size(kBytes / 2)));
    typedef uint32_t Bits __attribute__((vector_size(kBytes)));
    Half half;
    std::memcpy(&half, from, sizeof(half));
    const Bits bits = __builtin_convertvector(half, Bits) << 16;
    std::memcpy(&v, &bits, sizeof(v));
  } else {
    S lanes[VectorOf<S>::lanes];
    for (int64_t j = 0; j < VectorOf<S>::lanes; ++j) lanes[j] = static_cast<S>(from[j]);
    std::memcpy(&v, lanes, sizeof(v));
  }
}

template <class T, class V>
THUNDER_INLINE void store(T* to, const V& v) {
  using S = SumOf<T>;
  if constexpr (std::is_same_v<T, S>) {
    std::memcpy(to, &v, sizeof(V));
  } else {
    S lanes[VectorOf<S>::lanes];
    std::memcpy(lanes, &v, sizeof(v));
    for (int64_t j = 0; j < VectorOf<S>::lanes; ++j) to[j] = static_cast<T>(lanes[j]);
  }
}

// A segment's places, and what each is multiplied by.
template <class T>
struct Segment {
  const int64_t *begin, *end;
  const T* weights;  // of `begin`, or null
};

constexpr int64_t kAhead = 4;  // slices whose memory is asked for before they are read

template <class T>
THUNDER_INLINE void ask_for(const T* a, int64_t stride, const int64_t* p, const int64_t* end, int64_t elements) {
  if (p + kAhead >= end || p[kAhead] < 0) return;
  const char* slice = reinterpret_cast<const char*>(a + p[kAhead] * stride);
  for (int64_t b = 0; b < elements * static_cast<int64_t>(sizeof(T)); b += 64) __builtin_prefetch(slice + b);
}

// `kCount` neighbouring vectors of a segment's sum.
template <int kCount, class T, bool kWeighted>
THUNDER_INLINE void sum_vectors(const T* a, int64_t stride, const Segment<T>& s, T* out) {
  using S = SumOf<T>;
  using V = typename VectorOf<S>::type;
  constexpr int64_t n = VectorOf<S>::lanes;
  V x[kCount] = {}, y[kCount];
  for (const int64_t* p = s.begin; p < s.end; ++p) {
    ask_for(a, stride, p, s.end, kCount * n);
    if (*p < 0) continue;
    const T* slice = a + *p * stride;
    for (int k = 0; k < kCount; ++k) load(slice + k * n, y[k]);
    if constexpr (kWeighted) {
      const S w = static_cast<S>(s.weights[p - s.begin]);
      for (int k = 0; k < kCount; ++k) y[k] *= w;
    }
    for (int k = 0; k < kCount; ++k) x[k] += y[k];
  }
  for (int k = 0; k < kCount; ++k) store(out + k * n, x[k]);
}

// As many vectors as fit, from element `q` on, which moves on.
template <int kCount, class T>
THUNDER_INLINE void sum_groups(const T* a, int64_t stride, const Segment<T>& s, int64_t elements, T* out, int64_t& q) {
  constexpr int64_t width = kCount * VectorOf<SumOf<T>>::lanes;
  for (; q + width <= elements; q += width) {
    if (s.weights) sum_vectors<kCount, T, true>(a + q, stride, s, out + q);
    else sum_vectors<kCount, T, false>(a + q, stride, s, out + q);
  }
}

// Fewer elements than a vector has.
template <class T>
THUNDER_INLINE void sum_few(const T* a, int64_t stride, const Segment<T>& s, int64_t elements, T* out) {
  using S = SumOf<T>;
  S sums[VectorOf<S>::lanes];
  for (int64_t j = 0; j < elements; ++j) sums[j] = 0;
  for (const int64_t* p = s.begin; p < s.end; ++p) {
    if (*p < 0) continue;
    const T* slice = a + *p * stride;
    const S w = s.weights ? static_cast<S>(s.weights[p - s.begin]) : S(1);
    if (s.weights)
      for (int64_t j = 0; j < elements; ++j) sums[j] += static_cast<S>(slice[j]) * w;
    else
      for (int64_t j = 0; j < elements; ++j) sums[j] += static_cast<S>(slice[j]);
  }
  for (int64_t j = 0; j < elements; ++j) out[j] = static_cast<T>(sums[j]);
}

template <class T>
THUNDER_INLINE T sum_of_one(const T* a, int64_t stride, const Segment<T>& s) {
  using S = SumOf<T>;
  S sum = 0;
  for (const int64_t* p = s.begin; p < s.end; ++p)
    if (*p >= 0)
      sum += s.weights ? static_cast<S>(a[*p * stride]) * static_cast<S>(s.weights[p - s.begin])
                       : static_cast<S>(a[*p * stride]);
  return static_cast<T>(sum);
}

struct SegmentRange {
  int64_t first, last;  // outer
  int64_t begin, end;   // segments
};

template <class T>
THUNDER_INLINE Segment<T> segment_of(const SegmentSum& sum, int64_t r) {
  const T* weights = static_cast<const T*>(sum.weights);
  const int64_t from = sum.starts ? sum.starts[r] : r * sum.length,
                to = sum.starts ? sum.starts[r + 1] : from + sum.length;
  return {sum.places + from, sum.places + to, weights ? weights + from : nullptr};
}

// Outer places whose sums are made together where a slice has one element: a branch whose way depends on the index,
// such as the end of a segment, is taken once for all of them.  So many segments of them stay in the nearest cache
// until rows of the result are written.
constexpr int64_t kTogether = 8, kTile = 64;

template <class T>
THUNDER_INLINE void sum_one_of_each(const SegmentSum& sum, const T* a, const Segment<T>& s, SumOf<T>* sums) {
  using S = SumOf<T>;
  S x[kTogether] = {};
  for (const int64_t* p = s.begin; p < s.end; ++p) {
    if (*p < 0) continue;
    const T* slice = a + *p * sum.slice_stride;
    const S w = s.weights ? static_cast<S>(s.weights[p - s.begin]) : S(1);
    for (int64_t o = 0; o < kTogether; ++o) x[o] += static_cast<S>(slice[o * sum.outer_stride]) * w;
  }
  for (int64_t o = 0; o < kTogether; ++o) sums[o * kTile] = x[o];
}

template <class T>
THUNDER_INLINE void store_row(const SumOf<T>* sums, int64_t n, T* out) {
  using Vector = VectorOf<SumOf<T>>;
  int64_t j = 0;
  for (typename Vector::type v; j + Vector::lanes <= n; j += Vector::lanes) {
    std::memcpy(&v, sums + j, sizeof(v));
    store(out + j, v);
  }
  for (; j < n; ++j) out[j] = static_cast<T>(sums[j]);
}

template <class T>
THUNDER_INLINE void sum_ones_together(const SegmentSum& sum, const T* a, const SegmentRange& range, T* out) {
  SumOf<T> sums[kTogether * kTile];
  for (int64_t begin = range.begin; begin < range.end; begin += kTile) {
    const int64_t n = std::min(kTile, range.end - begin);
    for (int64_t r = 0; r < n; ++r) sum_one_of_each(sum, a, segment_of<T>(sum, begin + r), sums + r);
    for (int64_t o = 0; o < kTogether; ++o) store_row(sums + o * kTile, n, out + o * sum.segments + begin);
  }
}

template <class T>
THUNDER_INLINE void sum_segments(const SegmentSum& sum, const T* a, const SegmentRange& range, T* out) {
  constexpr int64_t lanes = VectorOf<SumOf<T>>::lanes;
  out += range.begin * sum.inner;
  for (int64_t r = range.begin; r < range.end; ++r, out += sum.inner) {
    const Segment<T> s = segment_of<T>(sum, r);
    if (sum.inner == 1) {
      *out = sum_of_one(a, sum.slice_stride, s);
      continue;
    }
    int64_t q = 0;
    sum_groups<kVectors>(a, sum.slice_stride, s, sum.inner, out, q);
    sum_groups<2>(a, sum.slice_stride, s, sum.inner, out, q);
    sum_groups<1>(a, sum.slice_stride, s, sum.inner, out, q);
    // The last vector may begin before the end of the others: the same sums once more.
    if (q < sum.inner && sum.inner >= lanes) q = sum.inner - lanes;
    sum_groups<1>(a, sum.slice_stride, s, sum.inner, out, q);
    if (q < sum.inner) sum_few(a + q, sum.slice_stride, s, sum.inner - q, out + q);
  }
}

template <class T>
THUNDER_INLINE void sum_range(const SegmentSum& sum, const SegmentRange& range) {
  const bool together = sum.inner == 1;
  for (int64_t o = range.first; o < range.last;) {
    const T* a = static_cast<const T*>(sum.a) + o * sum.outer_stride;
    T* out = static_cast<T*>(sum.out) + o * sum.segments * sum.inner;
    if (together && o + kTogether <= range.last) {
      sum_ones_together(sum, a, range, out);
      o += kTogether;
    } else {
      sum_segments(sum, a, range, out);
      ++o;
    }
  }
}

using SumRange = void (*)(const SegmentSum&, const SegmentRange&);

template <class T>
void sum_plain(const SegmentSum& sum, const SegmentRange& range) {
  sum_range<T>(sum, range);
}

#if defined(__x86_64__)
template <class T>
[[gnu::target("avx2,f16c")]] void sum_avx2(const SegmentSum& sum, const SegmentRange& range) {
  sum_range<T>(sum, range);
}
template <class T>
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,f16c")]] void sum_avx512(const SegmentSum& sum,
                                                                           const SegmentRange& range) {
  sum_range<T>(sum, range);
}
#endif

template <class T>
SumRange choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return sum_avx512<T>;
  if (__builtin_cpu_supports("avx2")) return sum_avx2<T>;
#endif
  return sum_plain<T>;
}

SumRange loop_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return choose<float>();
    case at::kDouble: return choose<double>();
    case at::kBFloat16: return choose<c10::BFloat16>();
    case at::kHalf: return choose<c10::Half>();
    case at::kLong: return choose<int64_t>();
    case at::kInt: return choose<int32_t>();
    case at::kShort: return choose<int16_t>();
    case at::kChar: return choose<int8_t>();
    case at::kByte: return choose<uint8_t>();
    default: THUNDER_ASSERT(false, "segment_sum of ", c10::toString(type));
  }
}

bool all_inside(const SegmentSum& sum) {
  bool inside = true;
  const int64_t shift = sum.skips ? 1 : 0;
  for (int64_t i = 0; i < sum.count; ++i)
    inside &= static_cast<uint64_t>(sum.places[i] + shift) < static_cast<uint64_t>(sum.slices + shift);
  for (int64_t r = 0; sum.starts && r < sum.segments + 1; ++r)
    inside &= static_cast<uint64_t>(sum.starts[r]) <= static_cast<uint64_t>(sum.count);
  return inside;
}

constexpr int64_t kGrain = 16384;  // elements that are worth another thread

}  // namespace

bool group_index(const int64_t* index, int64_t count, int64_t groups, bool skips, int64_t* order, int64_t* starts) {
  return group(index, count, groups, skips, order, starts);
}
bool group_index(const int32_t* index, int64_t count, int64_t groups, bool skips, int64_t* order, int64_t* starts) {
  return group(index, count, groups, skips, order, starts);
}

bool segment_sum(at::ScalarType type, const SegmentSum& sum) {
  if (!all_inside(sum)) return false;
  if (sum.outer == 0 || sum.segments == 0) return true;
  const SumRange loop = loop_of(type);
  if (sum.outer > 1) {
    const int64_t each = std::max<int64_t>((sum.count + sum.segments) * sum.inner, 1);
    parallel_for(0, sum.outer, std::max<int64_t>(kGrain / each, 1), [&](int64_t begin, int64_t end) {
      loop(sum, {begin, end, 0, sum.segments});
    });
    return true;
  }
  // A segment counts as its places and one: long ones do not make one thread wait for another.
  const bool in_order = !sum.starts || std::is_sorted(sum.starts, sum.starts + sum.segments + 1);
  const auto segment_at = [&](int64_t work) {
    if (!sum.starts || !in_order) return work * sum.segments / (sum.count + sum.segments);
    int64_t low = 0, high = sum.segments;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (sum.starts[middle] + middle < work) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  const int64_t all = sum.count + sum.segments;
  parallel_for(0, all, std::max<int64_t>(kGrain / std::max<int64_t>(sum.inner, 1), 1), [&](int64_t begin, int64_t end) {
    loop(sum, {0, 1, segment_at(begin), end == all ? sum.segments : segment_at(end)});
  });
  return true;
}

}  // namespace thunder::rows
