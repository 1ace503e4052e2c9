// The reference evaluator: runs a trace on plain arrays, one loop a primitive.
//
// It knows primitives only (and those higher operators that have no body).  Everything else runs by its body: the one
// that the call carries or, for a call without one (an executor's), the record's own.  Results are compared with the
// declared types, so an evaluated trace is also a check of the metas.  Random primitives draw from a counter, in
// program order.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/trace.h"
#include "reference/array.h"

namespace thunder::reference {

/// What a value or an argument is while the program runs.
struct Datum {
  enum class Kind : uint8_t { None, Tensor, Number, Text, DType, Device, Sequence, Future, Other };
  Kind kind = Kind::None;
  ArrayPtr array;
  NumberKind number_kind = NumberKind::Int;  ///< of a Number
  Element number;                            ///< of a Number; of a Future which start of its group made it
  std::vector<Datum> items;                  ///< of a Sequence; start, stop, step of a slice (Other, text "slice")
  std::string text;  ///< of a Text, the group of a Future, or the name of a torch constant (Other)
  thunder::DType dtype = thunder::DType::f64;
  thunder::Device device;

  Datum() = default;
  Datum(ArrayPtr a) : kind(Kind::Tensor), array(std::move(a)) {}
  static Datum of_number(NumberKind kind, Element value);
  static Datum integer(int64_t v) { return of_number(NumberKind::Int, Element::integer(v)); }
  static Datum sequence(std::vector<Datum> items);
  static Datum future(std::string group, int64_t start);

  bool is_none() const { return kind == Kind::None; }
  bool is_tensor() const { return kind == Kind::Tensor; }
  bool is_number() const { return kind == Kind::Number; }
  bool is_sequence() const { return kind == Kind::Sequence; }
  double real() const;      ///< of a Number
  int64_t integer() const;  ///< of a Number
  bool truth() const;       ///< of a Number
  /// The number as an element of a tensor of that type.
  Element as(thunder::DType t) const;
};

/// All leaves (tensors, numbers, None) in order.
std::vector<Datum> leaves(const Datum& d);
/// Same structure and leaves; `why` says where not.
bool same_datum(const Datum& a, const Datum& b, std::string* why = nullptr);

struct EvaluatorOptions {
  Rounding rounding = Rounding::Exact;
  uint64_t seed = 1;
  /// Compare every result with the type that the trace declares for it.
  bool check_types = true;
};

class Evaluator;

/// A primitive's arguments, by the names that its schema gives them.
class Inputs {
 public:
  Inputs(Evaluator& evaluator, const Op& op, const Call& call, std::vector<Datum> args)
      : evaluator_(evaluator), op_(op), call_(call), args_(std::move(args)) {}
  const Op& op() const { return op_; }
  const Datum& operator[](std::string_view param) const;
  const Datum& at(size_t i) const { return args_.at(i); }
  size_t size() const { return args_.size(); }
  bool has(std::string_view param) const { return op_.schema.index_of(param) >= 0 && !(*this)[param].is_none(); }
  const Array& tensor(std::string_view param) const;
  int64_t integer(std::string_view param) const { return (*this)[param].integer(); }
  double real(std::string_view param) const { return (*this)[param].real(); }
  bool flag(std::string_view param) const { return (*this)[param].truth(); }
  thunder::DType dtype(std::string_view param) const { return (*this)[param].dtype; }
  thunder::Device device(std::string_view param) const { return (*this)[param].device; }
  std::vector<int64_t> integers(std::string_view param) const;
  std::vector<const Array*> tensors(std::string_view param) const;
  /// The strides that the program declares for an argument: where as_strided finds its elements.
  Shape declared_strides(std::string_view param) const;
  Rounding rounding() const;
  /// An element as the type stores it, under the evaluator's rounding.
  Element store(thunder::DType t, Element e) const { return stored(t, e, rounding()); }
  /// The next random number in [0, 1).
  double uniform() const;

 private:
  Evaluator& evaluator_;
  const Op& op_;
  const Call& call_;
  std::vector<Datum> args_;
};

using Kernel = std::function<Datum(const Inputs&)>;
using Kernels = std::unordered_map<std::string, Kernel>;

// The families, by full name ("prims.add").
void add_elementwise(Kernels& k);
void add_creation(Kernels& k);
void add_counted_random(Kernels& k);
void add_reductions(Kernels& k);
void add_shapes(Kernels& k);
void add_indexing(Kernels& k);
void add_sorting(Kernels& k);
void add_nn(Kernels& k);
void add_padding(Kernels& k);
void add_pooling(Kernels& k);
void add_resampling(Kernels& k);
void add_unique(Kernels& k);
void add_linalg(Kernels& k);
void add_recurrent(Kernels& k);
const Kernels& kernels();

class Evaluator {
 public:
  explicit Evaluator(EvaluatorOptions options = {}) : options_(options), random_state_(options.seed) {}

  /// Runs the program; throws Wrong, Undefined or Unknown.
  Datum run(const Trace& trace, const std::vector<Datum>& inputs);

  // For the generator, which runs calls as it draws them, and for collectives (spmd.h).
  void define(Value v, Datum d);
  const Datum& get(Value v) const;
  bool defined(Value v) const { return values_.contains(v.id()); }
  void run(const Call& call, const std::shared_ptr<Arena>& arena);
  Datum argument(const Arg& arg) const;
  /// Defines the values of a call's output, and checks them.
  void bind(const Arg& output, const Datum& result, const Call& call);

  const EvaluatorOptions& options() const { return options_; }
  uint64_t next_random();
  int64_t evaluate(const Dim& d) const;

 private:
  void run_body(const Call& call, const std::vector<const Call*>& body, const std::shared_ptr<Arena>& arena);
  void define_lengths(const std::vector<const Call*>& body, std::vector<ValueId>& defined_here);
  void run_record_body(const Call& call, const Op& op, const std::shared_ptr<Arena>& arena);
  void check_type(Value v, const Datum& d, const Call& call);

  EvaluatorOptions options_;
  uint64_t random_state_;
  std::unordered_map<ValueId, Datum> values_;
  std::map<SymbolId, int64_t> symbols_;
};

/// The value of a program for these inputs.
Datum evaluate(const Trace& trace, const std::vector<Datum>& inputs, EvaluatorOptions options = {});

}  // namespace thunder::reference
