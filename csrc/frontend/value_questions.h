// What the program asks of its tensors' values while it is acquired (value_reads.h).
//
// Owns the questions, what they computed, and the numbers that they made inputs of the program.  Calls the tensors and
// the inputs.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "frontend/acquired.h"
#include "frontend/acquisition.h"
#include "frontend/inputs.h"
#include "frontend/tensors.h"
#include "frontend/value_reads.h"

namespace thunder::frontend {

class ValueQuestions : public SizeAnswers {
 public:
  ValueQuestions(Acquisition& acquisition, Inputs& inputs, Tensors& tensors);
  ~ValueQuestions() override;
  ValueQuestions(const ValueQuestions&) = delete;
  ValueQuestions& operator=(const ValueQuestions&) = delete;

  /// Tells whether an int that is read at a place ("model.py:7 in forward #0") is known to differ from call to call;
  /// null: numbers that are read stay what they are.
  std::function<bool(const std::string& place, int64_t now)> int_varies;
  /// Whether reads may draw random numbers ahead of the program, which takes them as inputs then.
  bool draws_ahead = false;

  /// The tensor's value in this call, on which the program then depends: later calls run it only for the same one.
  Ref read(PyObject* tensor, const std::string& what);
  /// A number of the environment that changes, an int of 2 at least or a float: each call reads it from its place.
  Ref read_counter(PyObject* container, PyObject* key, PyObject* now);
  /// An argument in this call, whose values reads computed.
  using Now = std::function<Ref(const Arg&)>;
  /// The one result of a call that `make` makes in this run and records, both; it is given arguments that hold no values
  /// but those of `of`.  Later calls make it again ahead of the program.  A null value where `make` gives nothing.
  Value read_made(const Arg& of, const std::vector<Ref>& generators, const std::string& what,
                  const std::function<std::optional<std::pair<const Call*, Ref>>(const Now&)>& make);
  /// The number in a tensor without dimensions: a number of the call where it may vary.
  Ref number_of(Value tensor);
  /// A number that only the run knows, as one of the call that is being compiled: an Arg that is a literal, or a traced
  /// number with a hint.
  Arg resolve(Value number, const std::string& what);
  /// A length that the program computes; where random numbers decide it, only if that is necessary.
  bool find(SymbolId s, Need need) override;
  /// Finds the symbols of a size that have no hints.  Whether all have one now.
  bool find_all(const Dim& size);
  /// Whether the number is a float that was read, which then has to be the very same in later calls.
  bool hold_exactly(const NumberExpr& number);

  const std::vector<ValueRead>& reads() const { return reads_; }
  /// Leaves the generators as they are behind what reads have drawn, which else is undone in the end.
  void keep_drawn() { keeps_drawn_ = true; }
  /// Tells what was read, and what the reads take from the program's inputs.
  void add_reads(Acquired& a) const;
  /// What the reads computed becomes inputs of the computation, which does not compute it again.
  void take_from_reads(Acquired& a) const;

 private:
  RealInput real_input(size_t i) const;
  std::vector<const Call*> calls_leading_to(const std::vector<Value>& values, const std::vector<const Call*>& all,
                                            const std::string& what) const;
  void find_calls(ValueRead& read, std::vector<Value> wanted, const std::string& what) const;
  void run_now(const std::vector<const Call*>& calls);
  const Ref& value_now(Value v);
  Ref in_this_call(const Arg& a);
  ValueRead new_read(const std::vector<Value>& wanted, const std::string& what);
  ValueRead& read_value(Value v, const std::string& what);
  bool becomes_symbol(const ValueRead& r, int64_t n) const;
  Arg as_symbol(ValueRead& r);
  Arg as_number(ValueRead& r);

  Acquisition& acquisition_;
  Builder& b_;
  ShapeEnv& shapes_;
  Inputs& inputs_;
  Tensors& tensors_;
  std::vector<ValueRead> reads_;
  std::unordered_map<ValueId, Ref> values_now_;  // what reads computed
  std::map<std::pair<PyObject*, std::string>, Arg> counters_;
  std::unordered_map<ValueId, Arg> resolved_;    // numbers that only the run knew
  std::unordered_map<std::string, int> places_;  // how often a line has read
  bool keeps_drawn_ = false;
};

}  // namespace thunder::frontend
