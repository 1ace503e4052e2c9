// The elements of values as statements of a kernel: the part of lowering (lower.cpp) that knows operators.
//
// An element is asked for by its value and its index in each dimension.  What it takes to compute it is added to the
// phase at hand, at the scope that it changes with, and a name comes back:
//
//   element(mul(exp(x), y), [r, q])      const float t0 = th_load(in0 + (4*r + q));
//                                        const float t1 = th_exp(t0);
//                                        const float t2 = th_load(in1 + (4*r + q));
//                               "t3" <-  const float t3 = (t1 * t2);
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fuser/graph.h"
#include "fuser/kernel.h"
#include "fuser/places.h"

namespace thunder::fuser {

struct Scalar {
  std::string text;
  Scope scope = Scope::Row;
  bool costly = false;  ///< a function of the C library is in it
};

/// A read of an input, or a write to an output, by a statement of a kernel.
struct Access {
  size_t operand;  ///< number of the input or output
  Index at;        ///< offset in its memory
  size_t phase;
  Scope scope;      ///< of the statement
  size_t position;  ///< among the statements of that scope
};

/// What a root of the group is to the walk.
struct RootInfo {
  enum class Mode : uint8_t {
    Full,      ///< an element for each of the walk
    Row,       ///< one a row
    Inner,     ///< a reduction over columns, so one a row
    Outer,     ///< a reduction over rows, so one a column
    Column,    ///< one a column, made of such reductions
    Extremum,  ///< of all elements
  } mode = Mode::Full;
  size_t level = 0;  ///< the first phase that can compute it; of a reduction, the phase that adds it up
  bool stored = false;
  bool turned = false;  ///< the transpose of what is walked: nobody else reads it here
  std::string name;     ///< of a reduction's result, once it is known
};
using RootInfos = std::map<ValueId, RootInfo>;

class Elements {
 public:
  Elements(const Producer& producer, const Materialized& materialized, const LowerOptions& options,
           const RootInfos& roots, Places& places, Kernel& kernel)
      : producer_(producer),
        materialized_(materialized),
        options_(options),
        roots_(roots),
        places_(places),
        indices_(places.indices()),
        kernel_(kernel) {}

  /// Whether it is read from memory, not computed.
  bool is_leaf(Value v) const { return !producer_(v) || materialized_(v); }
  Scalar element(Value v, const Multi& index);
  /// Of a root, where it is computed: elsewhere an element at another place than the loops' is refused.
  Scalar element_of_root(Value v, const Multi& index);
  /// The operand of a reduction, where the loops stand, in the type that it is added up in.
  Scalar operand(const Call& reduction);

  /// Costly elements may be kept in a buffer of a row (LowerOptions::row_buffer), or in registers.
  void keep_rows() { row_buffer_left_ = options_.row_buffer; }
  /// Names an element of an output in whose memory `phase` may keep a value of `type` until that output is stored; empty
  /// if there is none.
  using Lender = std::function<std::string(const std::string& type, size_t phase)>;
  /// `lender` is asked where no buffer has room for a row.
  void keep_in_outputs(Lender lender) { lender_ = std::move(lender); }
  void begin_phase();
  /// Statements go to the loop over columns that runs when all rows are done.
  void begin_finish();
  /// The same where that is Kernel::last.
  void begin_last();
  /// No name of a statement holds any longer.
  void forget();

  std::string fresh(const char* prefix) { return prefix + std::to_string(next_++); }
  /// Whether the value has to be rounded to its dtype as eager does.
  bool is_exact(Value v) const;
  /// The text, with the rounding if is_exact(v).
  std::string rounded(const std::string& text, Value v) const;
  /// Gives the kernel the calls that were computed and what they read.
  void collect();
  const std::vector<Access>& reads() const { return reads_; }
  /// Where the next statement of the phase at hand stands.
  Access access(size_t operand, const Index& place, Scope scope) const;

 private:
  std::vector<std::string>& buffer(Scope scope);
  Scalar define(const std::string& type, const std::string& text, Scope scope);
  std::optional<Scalar> from_earlier_phase(const std::string& key, DType t);
  bool keeps_registers() const { return options_.keep_costly && kernel_.cached; }
  std::string registers_for(const std::string& type);
  std::string row_for(const std::string& type);
  size_t input(Value v);
  Index from_pointer(size_t number, const Index& at);
  std::string place_text(const Index& at);
  /// A load of truth values, `text`, from a buffer of the row with integers where there is room for one.
  std::string widened(const std::string& array, const Index& at, std::string text);

  Scalar compute(Value v, const Multi& index);
  Scalar computed(const Call& call, const Multi& index);
  Scalar root_element(Value v, const RootInfo& info, const Multi& index);
  /// `optional`: there may be no tensor, which stands for zeros.
  Scalar load(Value v, const Multi& index, bool optional = false);
  Scalar load_vector(DType t, const Index& start, const std::string& array, const std::string& present);
  std::optional<Places::Neighbours> readable_neighbours(const TensorType& t, const Index& at);
  Scalar load_neighbours(DType t, const Places::Neighbours& near, size_t number);
  std::string kept_single(const std::string& key, DType t, const std::string& text, Scope scope);
  std::string vector(const std::string& key, const std::string& type, const std::string& text, int64_t kept_bytes,
                     bool early = false);
  std::string vector_under_predicate(const std::string& of, const Index& start, const std::string& array);
  Scalar pointwise(const Call& call, const Multi& index);
  Scalar rounded_quotient(const Call& call, const Multi& index);
  std::string quotient_by_row(const std::string& dividend, const std::string& divisor);
  /// Where a number of the run is among the arguments of a launch.
  size_t number_place(Value number);
  /// A number among the operands as one of the type that elements of `t` are computed in.
  std::string number(const Arg& a, DType t);
  Scalar create(const Call& call, const Multi& index);
  Scalar draw(const Call& call, const Multi& index);
  Scalar drawn(const std::string& kind, const std::string& type, Value state, const Index& place);

  Scalar move(const Call& call, const Multi& index);
  Multi source_index(const Call& call, const Multi& index);
  Scalar taken_element(const Call& call, Multi index);
  Scalar indexed_element(const Call& call, const Multi& index);
  Index place_of(const Scalar& number, const Size& extent, bool wraps);
  Scalar cat_element(const Call& call, const Multi& index);
  Scalar cat_from(const Call& call, const std::vector<Value>& parts, size_t first, Multi index, size_t dim);
  Scalar pad_element(const Call& call, const Multi& index);
  struct Clause;
  Scalar all_hold(const std::vector<Clause>& clauses);
  bool within_source(const ArgList& config, const Size& size, Index& at, std::vector<Clause>& clauses);
  Scalar defined_once(const std::string& type, const std::string& text, Scope scope);
  template <class F>
  Scalar under(const Scalar& condition, bool holds, F&& evaluate);
  Scalar select(const std::string& type, const Scalar& condition, const Scalar& a, const Scalar& b);

  const Producer& producer_;
  const Materialized& materialized_;
  const LowerOptions& options_;
  const RootInfos& roots_;
  Places& places_;
  Indices& indices_;
  Kernel& kernel_;

  std::map<ValueId, size_t> input_of_;
  std::vector<char> has_offset_;
  std::vector<Access> reads_;
  std::map<std::string, Scalar> row_memo_, loop_memo_;
  struct Kept {
    size_t phase;
    std::string name, buffer;  // an element of the buffer, once it is asked for
  };
  std::map<std::string, Kept> earlier_;  // costly elements of the phases before
  int64_t row_buffer_left_ = 0;
  Lender lender_;
  std::map<std::string, std::string> widened_;  // by array and place
  std::map<std::string, std::string> vectors_;
  struct Conditional {
    std::string name, address;
    size_t statement;  // of the phase's chunk
  };
  std::map<std::string, std::vector<Conditional>> conditional_;  // vectors that wait for one under the opposite
  std::set<std::string> kept_;
  std::set<const Call*> calls_;
  std::string predicate_, predicate_key_;
  Scope predicate_scope_ = Scope::Row;
  ValueId computing_ = UINT32_MAX;
  bool in_finish_ = false;
  size_t next_ = 0, statements_ = 0, depth_ = 0, conditions_ = 0;
};

}  // namespace thunder::fuser
