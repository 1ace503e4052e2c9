// What a chunk loads or makes at once for all of its lanes, and what of it stays over the phases of a row: part of
// lowering (lower.cpp).
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "fuser/kernel_in_progress.h"

namespace thunder::fuser {

class ChunkVectors {
 public:
  explicit ChunkVectors(KernelInProgress& made) : made_(made) {}

  /// The name of a chunk's vector, which the text makes where there is none yet.  One of 0 bytes is not kept over
  /// phases.  `early`: where it is kept, it is made before all phases.
  std::string vector(const std::string& key, const std::string& type, const std::string& text, int64_t kept_bytes,
                     bool early = false);
  /// A vector `of` a type and lanes, of which the condition at hand says whether it is loaded.
  std::string under_condition(const std::string& key, const std::string& of, const Index& start,
                              const std::string& array);
  /// Where an element that is loaded by itself stays over the phases of a row.
  std::string single(const std::string& key, DType t, const std::string& text, LoopScope scope);

  void begin_phase();
  void forget();

 private:
  std::string one_of_two(const std::string& of, const Index& start, const std::string& array);

  KernelInProgress& made_;
  std::map<std::string, std::string> names_;
  std::set<std::string> kept_;
  struct Conditional {
    std::string name, address;
    size_t statement;  // of the phase's chunk
  };
  std::map<std::string, std::vector<Conditional>> conditional_;  // vectors that wait for one under the opposite
};

}  // namespace thunder::fuser
