// Elements of calls that read no tensor: constants, sequences, random numbers.  A part of elements.h.
#pragma once

#include <string>

#include "fuser/chunk_vectors.h"
#include "fuser/elements.h"

namespace thunder::fuser {

class Creations {
 public:
  Creations(Elements& elements, ChunkVectors& vectors, KernelInProgress& made)
      : elements_(elements), vectors_(vectors), made_(made) {}

  /// Of a constant or a sequence.
  Scalar element(const Call& call, const Multi& index);
  /// A random number.
  Scalar draw(const Call& call, const Multi& index);

 private:
  Scalar drawn(const std::string& kind, const std::string& type, Value state, const Index& place);

  Elements& elements_;
  ChunkVectors& vectors_;
  KernelInProgress& made_;
};

}  // namespace thunder::fuser
