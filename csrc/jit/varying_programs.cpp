// Programs in which what varied between calls is a symbol.
#include <algorithm>
#include <exception>

#include "jit/cache_entry.h"

namespace thunder {

const JitFunction::Key& JitFunction::whole(const Key& key) const {
  if (!key.whole) {
    key.whole = std::make_unique<Key>(key.args, Key::Apart::All, uses_, themselves_);
    key.whole->exact = &key;
  }
  return *key.whole;
}

uint64_t JitFunction::kind_of(const Key& key) const {
  return cache_ == CacheMode::VaryingValues && !key.exact ? whole(key).hash : key.hash;
}

std::vector<std::shared_ptr<JitFunction::CacheEntry>> JitFunction::alike(const Key& whole) {
  std::vector<std::shared_ptr<CacheEntry>> out;
  auto [first, last] = kinds_.equal_range(whole.hash);
  for (auto it = first; it != last;) {
    std::shared_ptr<CacheEntry> e = it->second.lock();
    if (!e) {
      it = kinds_.erase(it);
      continue;
    }
    ++it;
    // One that runs the function itself has no numbers, and what it was found in another world says nothing of this one.
    if (!e->eager.empty() || !(e->kind->fingerprint == whole.fingerprint) || e->kind->key != whole.flat.key) continue;
    if (e->world.check(nullptr)) out.push_back(std::move(e));
  }
  return out;
}

// Whether a size of 1 has shown to need a program of its own: one in which the size is a symbol did not take it.
bool JitFunction::is_apart(const std::vector<std::shared_ptr<CacheEntry>>& entries, size_t i, const Numbers& now) {
  return now.ints[i] == 1 && std::any_of(entries.begin(), entries.end(),
                                         [&](const auto& e) { return e->symbols && e->symbols->is_symbol(i); });
}

// `*not_symbolic`: why what varies is not to be symbols, where an entry tells.
Varying JitFunction::varying_of(const Key& whole, std::string* not_symbolic) {
  constexpr int kFew = 2;  // programs for one value of a number: it is not worth a try to make it a symbol again
  const std::vector<std::shared_ptr<CacheEntry>> entries = alike(whole);
  std::vector<const Numbers*> rows;
  std::vector<char> fixed(whole.numbers.ints.size());
  std::vector<int> learned(fixed.size());
  for (const auto& e : entries) {
    rows.push_back(&e->kind->numbers);
    if (!e->kind->not_symbolic.empty()) *not_symbolic = e->kind->not_symbolic;
    for (size_t i = 0; e->symbols && i < learned.size(); ++i) learned[i] += e->symbols->learned(i);
  }
  for (size_t i = 0; i < fixed.size(); ++i) fixed[i] = learned[i] >= kFew;
  for (const TensorPlace& p : whole.places)
    for (size_t i = p.first; i < p.first + p.rank; ++i) fixed[i] = fixed[i] || is_apart(entries, i, whole.numbers);
  Varying out = find_varying(rows, whole.numbers, whole.places, fixed);
  if (!out.any) return out;
  const std::vector<std::string> labels = whole.labels();
  std::string text;
  for (size_t i = 0; i < out.ints.size(); ++i)
    if (out.ints[i].kind == IntBinding::Symbol)
      text +=
          cat(text.empty() ? "" : ", ", labels[i], " (", rows.back()->ints[i], ", now ", whole.numbers.ints[i], ")");
  for (size_t i = 0; i < out.constant_floats.size(); ++i)
    if (!out.constant_floats[i])
      text += cat(text.empty() ? "" : ", ", "float argument ", i, " (", rows.back()->floats[i], ", now ",
                  whole.numbers.floats[i], ")");
  last_miss_ += cat("; what varies becomes symbols: ", text);
  return out;
}

std::shared_ptr<JitFunction::CacheEntry> JitFunction::compile_varying(const Key& key, const Arguments& args) {
  std::string why;
  const Key& other = whole(key);
  const Varying varying = varying_of(other, &why);
  if (varying.any && why.empty()) {
    try {
      std::shared_ptr<CacheEntry> e = compile_with_reads(other, args, false, &varying);
      // A program whose guards leave out this call, in which a size is 1, is for the others.
      if (!e || !e->symbols || e->symbols->hold(other.numbers, nullptr)) return e;
      return compile_with_reads(key, args, true);
    } catch (const OtherKey&) {
      throw;
    } catch (const std::exception& e) {
      // What cannot be said of symbols can be of the numbers themselves; if not, the error is about them.
      why = e.what();
      PyErr_Clear();
    }
  }
  std::shared_ptr<CacheEntry> e = compile_with_reads(key, args, true);
  if (varying.any && e && e->kind) e->kind->not_symbolic = why;
  if (varying.any) not_symbolic_ = std::move(why);
  return e;
}

}  // namespace thunder
