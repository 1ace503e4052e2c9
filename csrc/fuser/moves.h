// Elements of calls that move elements: each is an element of a tensor that the call reads.  A part of elements.h.
#pragma once

#include <string>
#include <vector>

#include "fuser/elements.h"

namespace thunder::fuser {

class Moves {
 public:
  Moves(Elements& elements, KernelInProgress& made)
      : elements_(elements), places_(made.places), indices_(made.indices), made_(made) {}

  Scalar element(const Call& call, const Multi& index);

 private:
  Multi source_index(const Call& call, const Multi& index);
  Scalar taken_element(const Call& call, Multi index);
  Scalar indexed_element(const Call& call, const Multi& index);
  Index place_of(const Scalar& number, const Size& extent, bool wraps);
  Scalar cat_element(const Call& call, const Multi& index);
  Scalar cat_from(const Call& call, const std::vector<Value>& parts, size_t first, Multi index, size_t dim);
  Scalar pad_element(const Call& call, const Multi& index);
  struct Clause;
  Scalar all_hold(const std::vector<Clause>& clauses);
  bool within_source(const ArgList& config, const Size& size, Index& at, std::vector<Clause>& clauses);
  Scalar select(const std::string& type, const Scalar& condition, const Scalar& a, const Scalar& b);

  Elements& elements_;
  Places& places_;
  Indices& indices_;
  KernelInProgress& made_;
};

}  // namespace thunder::fuser
