// The statements of a kernel that is being made: part of lowering (lower.cpp).
//
// A statement goes to the phase at hand, at the scope that it changes with, and the name that it gives stands for its
// value in later statements.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fuser/kernel.h"
#include "fuser/lower.h"
#include "fuser/places.h"

namespace thunder::fuser {

struct Scalar {
  std::string text;
  LoopScope scope = LoopScope::Row;
  bool costly = false;  ///< a function of the C library is in it
};

/// A read of an input, or a write to an output, by a statement of a kernel.
struct Access {
  size_t operand;  ///< number of the input or output
  Index at;        ///< offset in its memory
  size_t phase;
  LoopScope scope;  ///< of the statement
  size_t position;  ///< among the statements of that scope
};

class Statements {
 public:
  Statements(Places& places, Kernel& kernel) : places_(places), kernel_(kernel) {}

  std::string fresh(const char* prefix) { return prefix + std::to_string(next_++); }
  /// Where the next statement of the phase at hand goes.
  std::vector<std::string>& at(LoopScope scope);
  Scalar define(const std::string& type, const std::string& text, LoopScope scope);
  /// The name that the text already has, where the loops stand.
  Scalar defined_once(const std::string& type, const std::string& text, LoopScope scope);
  /// Where the next statement of the phase at hand stands.
  Access access(size_t operand, const Index& place, LoopScope scope) const;

  /// The value that has this key where the loops stand; null if none has.
  const Scalar* known(const std::string& key) const;
  /// `in_row`: until the row ends, and not the phase.
  void know(const std::string& key, const Scalar& s, bool in_row) { (in_row ? row_ : loop_).emplace(key, s); }
  /// What the phase at hand knows within its loops.
  const std::map<std::string, Scalar>& known_in_loop() const { return loop_; }
  /// No name of a statement holds any longer.
  void forget();

  void begin_phase();
  /// Statements go to the loop over columns that runs when all rows are done.
  void begin_finish();
  /// The same where that is Kernel::last.
  void begin_last();
  bool in_finish() const { return in_finish_; }

 private:
  Places& places_;
  Kernel& kernel_;
  std::map<std::string, Scalar> row_, loop_;
  bool in_finish_ = false;
  size_t next_ = 0, count_ = 0;
};

}  // namespace thunder::fuser
