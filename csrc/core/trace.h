// Calls and traces.
//
// A trace is a straight-line program in SSA form: inputs, calls, an output.  Nodes live in the compilation's Arena, are
// never mutated, and are shared by all the traces that the passes make one from another; so a value keeps its id, and
// its printed name, from acquisition to the final program.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/op.h"

namespace thunder {

/// A line of the user's program.
struct SourceLocation {
  std::string file;
  int line = 0;
  std::string function;
};

struct Call {
  const Op* op = nullptr;
  ArgList args;                   ///< one per schema parameter, in order
  Arg output;                     ///< a value, a container of values, or None
  std::vector<const Call*> body;  ///< the same computation one level lower; empty for primitives
  const SourceLocation* location = nullptr;
  /// Number values that bind symbols which dims in `args` mention: read by the call as `args` are.  Filled in by the
  /// arena.
  std::vector<Value> symbols;

  Args arguments() const { return Args(*op, args); }
};

/// Owns what the traces of one compilation are made of.
class Arena {
 public:
  Value make_value(Type type, std::string name = {});
  /// A value with this id, for the parser; ids may be left out, not taken twice.
  Value make_value_with_id(ValueId id, Type type, std::string name = {});
  const Call* make_call(Call call);
  const SourceLocation* make_location(SourceLocation location);
  /// An operator of this compilation only, such as a fusion region.
  const Op& own(std::unique_ptr<Op> op);
  ValueId next_id() const { return next_id_; }
  /// The number value that binds a symbol, the last one that was made; empty if none does (yet).
  Value symbol_value(SymbolId id) const;
  /// Calls that are made from here on read the symbol from this value.
  void bind(SymbolId id, Value v) { symbols_[id] = v; }
  bool has_symbols() const { return !symbols_.empty(); }
  /// A number for a name that must be unique in this compilation: unique("fusion") is 0, 1, 2, ...
  int unique(const std::string& prefix);

 private:
  ValueId next_id_ = 0;
  std::deque<ValueNode> values_;
  std::deque<Call> calls_;
  std::deque<SourceLocation> locations_;
  std::vector<std::unique_ptr<Op>> ops_;
  std::vector<std::pair<std::string, int>> counters_;
  std::unordered_map<SymbolId, Value> symbols_;
};

/// How the printed program takes its inputs.
struct Signature {
  enum Kind {
    Plain,     ///< def computation(a, b):
    StarArgs,  ///< def augmented_forward_fn(*args): and an unpacking line
    Backward,  ///< def backward_fn(saved_for_backward, cotangents): saved tensors, saved numbers, cotangents unpacked
  } kind = Plain;
  // Backward only: inputs = saved tensors, then saved numbers, then cotangents.
  size_t saved_tensors = 0;
  size_t saved_numbers = 0;
};

struct Provenance {
  std::string pass;  ///< "Delete Last Used"; empty for the acquired trace
  double milliseconds = 0;
};

struct Trace {
  std::string name = "computation";
  std::shared_ptr<Arena> arena;
  std::vector<Value> inputs;
  std::vector<const Call*> calls;
  Arg output;
  Signature signature;
  Provenance provenance;

  /// An empty trace over the same arena with the same name, inputs, signature and output: what a pass starts from.
  Trace derived() const;
};

/// Calls `fn(Value)` for each value that the call itself reads: those in its arguments, then those that bind symbols in
/// them.  visit_all_inputs() (passes/visit.h) adds what the body reads.
template <class F>
void visit_own_inputs(const Call& call, F&& fn) {
  for (const Arg& a : call.args) visit_values(a, fn);
  for (Value v : call.symbols) fn(v);
}
template <class F>
void visit_outputs(const Call& call, F&& fn) {
  visit_values(call.output, fn);
}
std::vector<Value> inputs_of(const Call& call);
std::vector<Value> outputs_of(const Call& call);

}  // namespace thunder
