// Layouts of what the program computes, where some calls have sizes of 1.
//
// Layouts and broadcasting take such a size to differ from 1 (ShapeEnv::make_size).  Elements are the same for 1; layouts
// and shared memory may not be.  A guard excludes 1 where a result, or something computed from it, would show the
// difference: contiguous() and reshape() that return the tensor itself for 1, and results that eager lays out otherwise.
//
// Owns the copies that would be no copies for sizes of 1.  Calls the acquisition alone.
#pragma once

#include <string>
#include <vector>

#include "frontend/acquisition.h"
#include "passes/replay.h"

namespace thunder::frontend {

class Layouts {
 public:
  explicit Layouts(Acquisition& acquisition) : acquisition_(acquisition), shapes_(acquisition.shapes()) {}

  /// `call` gave `v`, a tensor of its own, where it may have been taken for one that differs from an argument.
  void note_copy(Value v, const Call* call);
  /// The calls that gave copies have been made again.
  void replay(const Replay& calls);
  /// The program depends on what the tensor's strides are.
  void keep(const TensorType& t);
  /// The program asks for the strides of that tensor.
  void keep_strides(const TensorType& t);
  /// `computed`: what the computation gives.
  void keep_sizes_of_one(const std::vector<Value>& computed);
  /// Whether a tensor has a memory format: "contiguous_format", "channels_last", "channels_last_3d".
  static bool has_format(const TensorType& t, const std::string& format);

 private:
  // A tensor that would be another one itself for sizes of 1: those comparisons were decided as if there were none.
  struct Copy {
    Value value;
    size_t from, to;  // in ShapeEnv::taken()
    bool lays_out;    // what is computed from it, otherwise for a size of 1
  };

  Acquisition& acquisition_;
  ShapeEnv& shapes_;
  std::vector<Copy> copies_;
  size_t copies_known_ = 0;
};

}  // namespace thunder::frontend
