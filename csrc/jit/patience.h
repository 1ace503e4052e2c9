// How long a function is compiled for calls that no program fits, while none of its new programs serves a second call.
//
// A program costs its compilation once and gives back a little in every later call.  A function whose programs depend on
// what never comes twice (a random number of Python's, a text, a set of indices) pays and gets nothing.  After kPrograms
// such programs in a row eager runs kPrograms of the calls that would compile, then one is compiled, and with every such
// program that remains unused the pause doubles: the compilations of n calls are about log2(n).  A program that is used
// again ends that.
#pragma once

#include <cstddef>

namespace thunder {

class Patience {
 public:
  static constexpr size_t kPrograms = 32;

  /// The first pause comes after `programs`.
  explicit Patience(size_t programs = kPrograms) : programs_(programs) {}

  /// Whether the call that no program fits is to be compiled.  Counts the call.
  bool may_compile() {
    if (left_ > 0) {
      --left_;
      return false;
    }
    if (++unused_ >= programs_) left_ = pause_ *= 2;
    return true;
  }

  /// A program serves its second call.
  void used_again() { *this = Patience(programs_); }

 private:
  size_t programs_;
  size_t unused_ = 0;             // programs in a row
  size_t pause_ = kPrograms / 2;  // the last one's calls
  size_t left_ = 0;               // of them
};

}  // namespace thunder
