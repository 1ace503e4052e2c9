// Values of a program that are equal because equal calls make them: the two masks of `y[~m] = x[~m]`.
#pragma once

#include <unordered_map>

#include "core/equal_sources.h"
#include "core/rewrite.h"

namespace thunder {

class EqualValues : public EqualSources {
 public:
  /// Of the builder's outermost calls, which are looked at when something is asked.
  explicit EqualValues(const Builder& builder) : builder_(builder) {}
  const void* first(const void* source) override;

 private:
  struct Seen {
    const Call* call;
    ArgList args;  ///< with the first of equal values
  };
  void add(const Call& call);

  const Builder& builder_;
  size_t added_ = 0;
  Substitution map_;
  std::unordered_map<const void*, const void*> first_;
  std::unordered_multimap<size_t, Seen> seen_;
};

}  // namespace thunder
