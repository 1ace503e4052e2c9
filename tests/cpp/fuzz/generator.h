// Random programs over the registry.
//
// The generator draws an operator, makes arguments for it from its schema (or from the table in arguments.cpp, where
// arguments must fit each other), calls it through the builder, and runs the call at once with the reference evaluator,
// so that it knows the values it draws from.  What the metas refuse is discarded; an internal error, or a result that
// is not what the meta promised, is a finding.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/builder.h"
#include "fuzz/random.h"
#include "reference/evaluator.h"

namespace thunder::fuzz {

struct Program {
  uint64_t seed = 0;
  std::shared_ptr<ShapeEnv> environment;
  Trace trace;
  std::vector<reference::Datum> inputs;
  /// The inputs once more, for a run that may write to them.
  std::vector<reference::Datum> fresh_inputs() const;
};

/// How often each operator occurred, over all programs of a run.
class Coverage {
 public:
  /// Of the operators that `keep` likes, or of all; and of all writes.
  explicit Coverage(const std::function<bool(const Op&)>& keep = {});
  /// Operators that are drawn: those of the registry that compute something without the outside world.
  const std::vector<const Op*>& operators() const { return operators_; }
  int count(const Op* op) const;
  int attempts(const Op* op) const;
  void occurred(const Op* op) { ++counts_[op].first; }
  void tried(const Op* op) { ++counts_[op].second; }
  /// Counts what is special about calls that were accepted: sizes, dtypes, layouts, results.
  void describe(const std::vector<const Call*>& calls);
  /// Of a few random operators the one that occurred least.
  const Op* draw(Random& random, bool smooth) const;
  /// Of the operators that write, the one that occurred least: programs end with one now and then.
  const Op* draw_write() const;
  std::string histogram() const;
  /// Operators, and special cases, that occurred less than `least` times.
  std::vector<std::string> below(int least) const;

 private:
  void add(const Op& op);
  std::vector<const Op*> operators_;
  std::vector<const Op*> smooth_;
  std::vector<const Op*> writes_;
  std::map<const Op*, std::pair<int, int>> counts_;
  std::map<std::string, int> cases_ = {
      {"0-d", 0}, {"empty", 0}, {"mixed dtypes", 0}, {"view", 0}, {"several results", 0}};
};

/// What went wrong while a program was made: an internal error, a meta that the evaluator contradicts, an unknown
/// primitive.
struct Finding {
  std::string op;
  std::string what;
};

struct GeneratorOptions {
  int calls = 8;
  /// Only operators through which gradients flow, and inputs that require them.
  bool smooth = false;
  /// Dimensions of 8 elements too, so that rows can be cut into vectors.
  bool wide = false;
};

class Generator;

/// What an argument maker sees: the operator, and the program so far.
class Draw {
 public:
  Draw(Generator& g, const Op& op, Random& random) : op(op), random(random), g_(g) {}
  const Op& op;
  Random& random;

  using Shape = std::vector<int64_t>;
  struct Want {
    std::optional<DType> dtype;
    std::optional<Shape> shape;
    /// Values of a new input; the domain of the operator unless given.
    std::optional<Domain> values;
    bool fresh = false;     ///< not a value of the program
    bool constant = false;  ///< a new input that needs no gradient
  };
  Value tensor(const Want& want);
  Value like(Value other) { return tensor({.dtype = other.dtype(), .shape = shape_of(other), .values = {}}); }
  Value indices(Shape shape, int64_t below, DType t = DType::i64);
  /// A row of positions of which no two are the same; `length` <= `below`.
  Value distinct_indices(int64_t length, int64_t below);
  /// A row of positions from 0 to `below` - 1, in order.
  Value sorted_indices(int64_t length, int64_t below);
  /// The same with 0 in front.
  Value offsets(int64_t length, int64_t below);
  Value mask(Shape shape);
  Shape shape(int64_t min_rank = 0, int64_t max_rank = 4);
  DType float_type();
  DType any_type();
  /// A shape that broadcasts with `s`.
  Shape broadcastable(const Shape& s);
  static Shape shape_of(Value v);
  static int64_t size(Value v, int64_t dim);
  bool smooth() const;
  const reference::Datum& datum(Value v) const;
  /// A number value of the program, if it has one of that kind.
  std::optional<Value> number_value(NumberKind kind);

 private:
  Value row(const std::vector<int64_t>& numbers);
  Generator& g_;
};

using Named = std::map<std::string, Arg>;
/// Arguments by name; what is left out is drawn from the schema.  Nothing: not this time.
using ArgumentMaker = std::function<std::optional<Named>(Draw&)>;
/// By full name; without a level ("take") for every level.
const ArgumentMaker* argument_maker(const Op& op);
/// All arguments of a call, or nothing.
std::optional<ArgList> draw_arguments(Draw& draw);

class Generator {
 public:
  Generator(Coverage& coverage, std::vector<Finding>& findings) : coverage_(coverage), findings_(findings) {}
  Program make(uint64_t seed, const GeneratorOptions& options);
  /// Called with every call that was accepted, as it was drawn: operator and arguments.
  std::function<void(const Op&, const ArgList&)> on_sample;

 private:
  friend class Draw;
  void step(const GeneratorOptions& options);
  bool attempt(const Op& op, const ArgList& args, const std::vector<Value>& new_inputs);
  bool accept(const std::vector<const Call*>& calls);
  std::vector<Value> writable_inputs() const;
  void add_write();
  Arg choose_output();
  bool usable(Value v) const;
  Value new_input(DType t, std::vector<int64_t> shape, const std::function<double()>& real, bool constant = false,
                  bool dense = false);
  Dims input_strides(const std::vector<int64_t>& shape);

  Coverage& coverage_;
  std::vector<Finding>& findings_;
  // Of the program being made:
  std::unique_ptr<Random> random_;
  std::shared_ptr<Arena> arena_;
  std::unique_ptr<reference::Evaluator> evaluator_;
  Trace trace_;
  std::vector<reference::Datum> inputs_;
  std::vector<Value> pool_;     ///< values that calls may read
  std::vector<Value> pending_;  ///< inputs made for the call being drawn
  bool smooth_ = false, wide_ = false;
};

}  // namespace thunder::fuzz
