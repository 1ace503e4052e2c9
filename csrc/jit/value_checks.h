// Values of tensors that a compiled program depends on: asked anew in each call, before the program runs.
//
// A read of the acquisition (frontend/value_reads.h) becomes a check: a small program of PyTorch's operators that
// computes the value, and the answer that the compiled program is for.  The small programs of an entry form a chain:
// each begins with what the earlier ones computed.  Entries whose programs begin alike, those of the two sides of a
// branch say, share their steps, and a call runs each step once, whichever entries ask for it.  A step may draw random
// numbers, which the program then takes as inputs; what is drawn for an entry whose checks fail in the end is drawn again.
#pragma once

#include <ATen/core/ivalue.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/number.h"
#include "core/trace.h"
#include "frontend/value_reads.h"
#include "runtime/program.h"

namespace thunder {

/// The calls between two questions.
class ValueStep {
 public:
  ValueStep(std::shared_ptr<Arena> arena, const frontend::ValueRead& read);

  /// Whether the read has the same calls and asks for the same of their results.  If so, or if it is the read that the
  /// step was made of, its values are found by input() and keep().
  bool is_for(const frontend::ValueRead& read, std::unordered_map<ValueId, Value>& ours) const;
  /// Equal for reads that may share a step.
  static size_t hash(const frontend::ValueRead& read);
  const std::vector<Value>& inputs() const { return trace_.inputs; }
  const std::vector<const Call*>& calls() const { return trace_.calls; }
  /// The devices from whose generators it draws; generators of Python's and NumPy's.
  const std::vector<Device>& draws() const { return draws_; }
  const std::vector<Ref>& generators() const { return generators_; }
  /// Where the value is among the results; from now on it is one.  The first result is the value asked for.
  size_t keep(Value ours);
  std::vector<c10::IValue> run(std::vector<c10::IValue> inputs);

 private:
  Trace trace_;
  std::vector<Value> results_;
  std::vector<Device> draws_;
  std::vector<Ref> generators_;
  std::shared_ptr<Program> program_;  // null: results were added since
};

/// The steps of a function's entries, which those that compute the same share.
class SharedSteps {
 public:
  /// The step of another entry, or a new one; `ours`: the step's values by those of the read.
  std::shared_ptr<ValueStep> step_for(const frontend::ValueRead& read, const std::shared_ptr<Arena>& arena,
                                      std::unordered_map<ValueId, Value>& ours);
  void clear() { steps_.clear(); }

 private:
  std::unordered_multimap<size_t, std::weak_ptr<ValueStep>> steps_;
};

/// What one call has found out so far.
struct ValueAnswers {
  struct Ran {
    const ValueStep* step;
    std::vector<c10::IValue> inputs, results;
    c10::IValue answer;                     ///< the first result, on the host
    std::string error;                      ///< what it raised
    std::function<void()> draw_again = {};  ///< undoes what it drew
  };
  std::deque<Ran> ran;
  std::vector<Ran*> drawn;  ///< those that drew random numbers, in order
  /// Leaves the first `n` of them: the generators are what they were behind them.
  void keep_drawn(size_t n);
  // Of the entry that was checked last:
  std::vector<const Ran*> steps;  ///< one per check
  std::vector<double> floats;     ///< as they are numbered in the entry, after the call's own
  std::unordered_map<SymbolId, int64_t> integers;
};

/// The checks of an entry, in the order in which its program asked.
class ValueChecks {
 public:
  struct Input {
    bool kept = false;  ///< a result of an earlier step, and not an input of the entry's
    size_t index = 0;   ///< the step, or what the entry's inputs count
    size_t result = 0;
  };
  struct Check {
    std::shared_ptr<ValueStep> step;
    std::vector<Input> inputs;
    size_t results = 1;  ///< how many of the step's are read
    c10::IValue answer;
    bool exact = true;
    std::optional<SymbolId> symbol;
    bool is_float = false;
    int64_t least = 0;
    std::vector<DimGuard> dims;  ///< to hold before the value is asked for
    std::vector<NumberGuard> numbers;
    std::string text;  ///< "item() == 5, asked at model.py:7 in forward"
  };
  /// Gives the i-th input of the entry.
  using Inputs = std::function<c10::IValue(size_t)>;

  /// Whether the values of this call are those that the program is for; else `why` not.
  bool hold(const Inputs& inputs, const NumberExpr::Values& numbers, ValueAnswers& answers, std::string* why) const;
  std::vector<std::string> text() const;

  std::vector<Check> checks;
  std::vector<DimGuard> last_dims;  ///< to hold when all values are known
  std::vector<NumberGuard> last_numbers;
};

/// On the host, contiguous: to be compared.
c10::IValue on_host(const c10::IValue& value);
/// "5"; of a tensor that is no lone number, how many there are.
std::string describe(const c10::IValue& answer);

}  // namespace thunder
