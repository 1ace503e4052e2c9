#include "fuser/work.h"

#include "fuser/graph.h"
#include "fuser/scalar.h"

namespace thunder::fuser {
namespace {

// Of GPUs and CPUs alike: arithmetic of so many instructions takes as long as a byte takes to memory.
constexpr double kPerByte = 7;
constexpr double kLoad = 3;  // instructions of a load from a cache
constexpr double kFunction = 20, kDivision = 8, kGather = 5, kPart = 3;
constexpr double kLeastReads = 4;  // of each element: with fewer it may be one kernel that reads it all the time

}  // namespace

double instructions(const Call& call) {
  switch (kind_of(call)) {
    case Kind::Pointwise: {
      const double wide = call.output.value().dtype() == DType::i64 ? 2 : 1;
      return wide * (calls_library(*call.op) ? kFunction : is_approximate(*call.op) ? kDivision : 1);
    }
    case Kind::Random: return kFunction;
    case Kind::Create: return 0;  // a literal, or the loop's variable
    case Kind::Move:
      if (call.op->has(kView)) return 0;
      return gathers(call) ? kGather : kPart;
    default: return 1;
  }
}

bool worth_storing(double elements, int64_t bytes_each, double instructions, double read) {
  if (read < kLeastReads * elements) return false;
  const double stored = elements * (instructions + 2 * kPerByte * static_cast<double>(bytes_each)) + read * kLoad;
  return read * instructions > stored;
}

}  // namespace thunder::fuser
