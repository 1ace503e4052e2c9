// Kernels against the reference evaluator, many in one translation unit.
#pragma once

#include <string>
#include <vector>

#include "fuser/fused.h"
#include "fuser/memory.h"
#include "reference/evaluator.h"

namespace thunder::test {

/// Numbers that calls read, with what they are.
using Numbers = std::vector<std::pair<Value, reference::Datum>>;

/// What a kernel must give, and how far off it may be: what the calls give in double precision, and how far that moves
/// when every value on the way moves by a rounding error.
struct Expectation {
  std::vector<reference::Datum> inputs;
  Numbers numbers;
  std::vector<reference::Array> outputs;
  std::vector<std::vector<double>> spread;  ///< an element each; NaN: anything goes
};

/// Nothing if a value on the way leaves the range in which float has full precision.
std::optional<Expectation> expect(const Fused& fusion, const std::vector<reference::Datum>& inputs,
                                  const std::shared_ptr<Arena>& arena, uint64_t seed, const Numbers& numbers = {});

/// The kernels of several programs.
class KernelChecks {
 public:
  /// The kernel as `emit_host` prints it, its variants as loops, and as `emit_cuda` prints them.  Symbols are their hints
  /// in the environment of the thread.  `where` is printed with a finding.
  void add(const Fused& fusion, Expectation expected, std::shared_ptr<Arena> arena, const std::string& where);
  size_t size() const { return runs_.size(); }
  /// Compiles and runs all on the host; what is wrong.  CUDA's threads are emulated, in two orders that must give the
  /// same.  The others are run again with outputs in the memory of inputs, as far as they allow that, which must change
  /// nothing.
  std::vector<std::string> run();
  int ran_in_place() const { return in_place_; }
  /// Compiles the CUDA text of all with NVRTC; what is wrong.
  std::vector<std::string> compile_cuda_texts();

 private:
  enum class How : uint8_t { Host, Loops, Cuda };
  struct Run {
    fuser::Kernel kernel;
    How how;
    std::string name, text, where;
    std::shared_ptr<const Expectation> expected;
    std::vector<Value> inputs, outputs;  // in the order of the expectation
    std::shared_ptr<Arena> arena;
    std::vector<int64_t> sizes, offsets;
    std::vector<double> numbers;
    int64_t rows, cols;
    std::vector<TensorType> input_types, output_types;  // of the kernel's, without symbols
  };
  struct Functions {
    void *kernel, *finish;
    int* misaligned;
  };
  static int call_host(const Run& run, const Functions& f, const void* const* in, void* const* out);
  static int call_cuda(const Run& run, const Functions& f, const void* const* in, void* const* out, bool backwards);
  static int call(const Run& run, const Functions& f, const std::vector<void*>& in, const std::vector<void*>& out,
                  bool backwards = false);
  static std::vector<std::unique_ptr<Memory>> inputs_of(const Run& run);
  std::vector<std::string> run_one(const Run& run, const Functions& functions);
  std::vector<std::string> run_backwards(const Run& run, const Functions& functions,
                                         const std::vector<std::unique_ptr<Memory>>& expected);
  std::vector<std::string> run_in_place(const Run& run, const Functions& functions, bool last_first,
                                        const std::vector<std::unique_ptr<Memory>>& expected);
  std::vector<Run> runs_;
  int in_place_ = 0;
};

}  // namespace thunder::test
