// Program: a claimed trace, compiled to a flat vector of instructions over a register file.
//
// A value that nobody reads any more leaves its register with its last reader (it is moved into the call), so a
// tensor's memory goes back to the allocator as early as the trace's `del` lines say.  A Program is immutable and all
// state of a run is the run's own: it may run in several threads and recursively.
#pragma once

#include <ATen/core/ivalue.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "core/trace.h"

namespace thunder {

class Accumulation;

class Program {
 public:
  /// The trace must be claimed: every call belongs to an executor.  Error (NotImplemented) names a call that none runs,
  /// Error (Internal) one whose record does not fit its ATen operator.  Nothing of the trace's arena is kept.
  static std::shared_ptr<Program> build(const Trace& trace);
  ~Program();

  /// Runs on `inputs`, one per input of the trace, and returns the leaves of the trace's output in order (the values of
  /// a dict, not its keys).  Inputs are dropped as soon as they are not needed.  Sets no dispatch or grad mode: the
  /// caller decides (BelowAutograd for a computation, nothing for an epilogue).  With THUNDER_CHECK_RUN=1 in the
  /// environment, programs compare every result's dtype, shape and strides with what the trace says.  `accumulation`:
  /// where outputs of accumulable() may go; those that did are None.
  std::vector<c10::IValue> run(std::vector<c10::IValue> inputs, Accumulation* accumulation = nullptr) const;

  /// Whether it works on a GPU.
  bool uses_gpu() const;
  size_t num_inputs() const;
  size_t num_outputs() const;
  /// Whether a call or an output of the program reads input `i`.
  bool reads_input(size_t i) const;
  /// For an output that is an input as it came, the index of the input; else -1.
  int64_t output_is_input(size_t i) const;
  /// Outputs that the program can add to a tensor of the caller's.
  const std::vector<size_t>& accumulable() const;
  /// From now on results are added to the sums of what alone reads them (Instruction::sums), and rounded once with these.
  /// `count` goes up by one for each.  Before the first run.
  void add_to_sums(std::shared_ptr<std::atomic<size_t>> count);
  /// Whether an instruction calls Python.  If not, the caller may release the GIL around run(); if so, run() takes the
  /// GIL for those instructions itself when the caller does not hold it.
  bool needs_python() const;
  /// One line an instruction, for debugging and tests.
  std::string str() const;

  struct Impl;
  explicit Program(std::unique_ptr<Impl> impl);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

 private:
  std::unique_ptr<Impl> impl_;
};

/// For the length of a scope, operators run without autograd, version counters of results and autocast: what a
/// computation's Program runs under.
class BelowAutograd {
 public:
  BelowAutograd();
  ~BelowAutograd();
  BelowAutograd(const BelowAutograd&) = delete;
  BelowAutograd& operator=(const BelowAutograd&) = delete;

 private:
  alignas(8) unsigned char guards_[64];
};

}  // namespace thunder
