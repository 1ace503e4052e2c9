#include "jit/varying_programs.h"

#include <algorithm>

#include "core/error.h"

namespace thunder {

namespace {

// Whether a size of 1 has shown to need a program of its own: one in which the size is a symbol did not take it.
bool is_apart(const std::vector<std::shared_ptr<CacheEntry>>& entries, size_t i, const Numbers& now) {
  return now.ints[i] == 1 && std::any_of(entries.begin(), entries.end(),
                                         [&](const auto& e) { return e->symbols && e->symbols->is_symbol(i); });
}

}  // namespace

VaryingNumbers find_varying_numbers(Cache& cache, const CallKey& whole) {
  constexpr int kFew = 2;  // programs for one value of a number: it is not worth a try to make it a symbol again
  const std::vector<std::shared_ptr<CacheEntry>> entries = cache.alike(whole);
  VaryingNumbers out;
  std::vector<const Numbers*> earlier;
  std::vector<char> fixed(whole.numbers.ints.size());
  std::vector<int> learned(fixed.size());
  for (const auto& e : entries) {
    earlier.push_back(&e->kind->numbers);
    if (!e->kind->not_symbolic.empty()) out.not_symbolic = e->kind->not_symbolic;
    for (size_t i = 0; e->symbols && i < learned.size(); ++i) learned[i] += e->symbols->learned(i);
  }
  for (size_t i = 0; i < fixed.size(); ++i) fixed[i] = learned[i] >= kFew;
  for (const TensorPlace& p : whole.places)
    for (size_t i = p.first; i < p.first + p.rank; ++i) fixed[i] = fixed[i] || is_apart(entries, i, whole.numbers);
  out.varying = find_varying(earlier, whole.numbers, whole.places, fixed);
  if (!out.varying.any) return out;
  const std::vector<std::string> labels = whole.labels();
  for (size_t i = 0; i < out.varying.ints.size(); ++i)
    if (out.varying.ints[i].kind == IntBinding::Symbol)
      out.text += cat(out.text.empty() ? "" : ", ", labels[i], " (", earlier.back()->ints[i], ", now ",
                      whole.numbers.ints[i], ")");
  for (size_t i = 0; i < out.varying.constant_floats.size(); ++i)
    if (!out.varying.constant_floats[i])
      out.text += cat(out.text.empty() ? "" : ", ", "float argument ", i, " (", earlier.back()->floats[i], ", now ",
                      whole.numbers.floats[i], ")");
  return out;
}

}  // namespace thunder
