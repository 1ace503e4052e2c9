// A size in a shape: an integer, or a symbolic expression over integers known only when the program runs.
//
// Metas compute on Dim as they would on int64_t.  A constant Dim costs a null pointer more than the integer.
// A symbolic one is a polynomial over symbols and atoms (floor division, remainder, max, min) in normal form, so that
// `(s0 + 1) * 2 == 2 * s0 + 2` holds without asking anyone.  A comparison that the normal form does not decide is
// decided by the symbols' hints (their values in the call being compiled) and recorded as a guard in the thread's
// ShapeEnv.  A symbol without a hint (the length of a `nonzero`) makes such a comparison an error that says so, except
// that the symbol is taken to differ from 0 and 1, so that layouts and broadcasting do not depend on it; what runs
// handles 0 and 1 all the same.  A program that such an assumption made an error of is acquired again without it
// (ShapeEnv::asks).  A size that is 1 in other calls (ShapeEnv::make_size) is taken to differ from 1 in the same way.
//
// A comparison runs no operator, unless its scope (ShapeEnv::Scope) was opened with SizeAnswers: these find the hint of
// such a symbol.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace thunder {

class SymExpr;
using SymPtr = std::shared_ptr<const SymExpr>;
using SymbolId = uint32_t;

class Dim {
 public:
  Dim(int64_t value = 0) : value_(value) {}
  Dim(int value) : value_(value) {}
  explicit Dim(SymPtr expr);
  static Dim symbol(SymbolId id);

  bool is_constant() const { return !expr_; }
  /// The integer; a symbolic one is specialized.  Error (Runtime), naming the expression, if there are no hints.
  int64_t constant() const;
  const SymPtr& expr() const { return expr_; }
  /// The value under the hints, recording that the program now depends on it; Error (Runtime) without hints.
  int64_t specialize() const;

  /// Symbols that the expression mentions, each once.
  std::vector<SymbolId> symbols() const;
  /// The expression with symbols replaced by what `value_of` gives.
  Dim substitute(const std::function<Dim(SymbolId)>& value_of) const;
  /// Printed with `name_of` for symbols: "2*s0 + 1".  A valid Python expression.
  std::string str(const std::function<std::string(SymbolId)>& name_of = nullptr) const;

  /// Same normal form: decides nothing, records nothing.
  bool same(const Dim& other) const;

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a);
  /// Python's floor division and remainder.
  friend Dim floordiv(const Dim& a, const Dim& b);
  friend Dim mod(const Dim& a, const Dim& b);
  friend Dim max(const Dim& a, const Dim& b);
  friend Dim min(const Dim& a, const Dim& b);

  // Comparisons may record a guard, and find hints in a scope with SizeAnswers; see the top of the file.
  friend bool operator==(const Dim& a, const Dim& b);
  friend bool operator<(const Dim& a, const Dim& b);
  friend bool operator!=(const Dim& a, const Dim& b) { return !(a == b); }
  friend bool operator>(const Dim& a, const Dim& b) { return b < a; }
  friend bool operator<=(const Dim& a, const Dim& b) { return !(b < a); }
  friend bool operator>=(const Dim& a, const Dim& b) { return !(a < b); }

  Dim& operator+=(const Dim& b) { return *this = *this + b; }
  Dim& operator-=(const Dim& b) { return *this = *this - b; }
  Dim& operator*=(const Dim& b) { return *this = *this * b; }

 private:
  int64_t value_ = 0;
  SymPtr expr_;
};

Dim floordiv(const Dim& a, const Dim& b);
Dim mod(const Dim& a, const Dim& b);
Dim max(const Dim& a, const Dim& b);
Dim min(const Dim& a, const Dim& b);
inline Dim ceildiv(const Dim& a, const Dim& b) { return -floordiv(-a, b); }

std::ostream& operator<<(std::ostream& out, const Dim& d);

using Dims = std::vector<Dim>;

/// Whether all are numbers.
bool all_constant(const Dims& dims);

/// Product of all entries (1 for none).
Dim product(const Dims& dims);
/// Every entry has the same normal form as its partner: no guard.
bool same(const Dims& a, const Dims& b);
/// "[2, 3]"
std::string str(const Dims& dims);

/// A comparison on which a compiled program relies.
struct DimGuard {
  enum Relation { Equal, NotEqual, Less, GreaterEqual } relation;
  Dim left, right;
  std::string where = {};  ///< the user's line that asked
  std::string str() const;
  /// Whether it holds for these values of the symbols.
  bool holds(const std::function<Dim(SymbolId)>& value_of) const;
};

/// A guard that only a run of operators decides.
struct SizeCheck {
  std::function<bool(const std::function<int64_t(SymbolId)>& value_of)> holds;
  std::string text;  ///< what is checked, for explanations
};

class NumberExpr;
using NumberPtr = std::shared_ptr<const NumberExpr>;
struct NumberGuard;

/// Finds the sizes of a program that only a run can tell.
class SizeAnswers {
 public:
  enum class Need : uint8_t {
    Useful,    ///< the program can be compiled without the value
    Necessary  ///< it cannot
  };
  virtual ~SizeAnswers() = default;
  /// Sets the hint of an unbacked symbol to its value in the call being compiled, for which operators may run.  Returns
  /// false if this value cannot be told.
  virtual bool find(SymbolId id, Need need) = 0;
};

/// The symbols of one compilation, their hints, and the guards that comparisons recorded.
class ShapeEnv {
 public:
  /// A new symbol.  `hint`: its value in the call being compiled, none if only a run can tell (an unbacked symbol).
  /// `least`: the least value that it can have where the program is used; without a hint that is 0.
  Dim make_symbol(std::optional<int64_t> hint, std::string name = {}, int64_t least = 0);
  /// A new symbol for a size that is 1 at least, and 1 in some calls.  Whether sizes equal 1, or each other because it is
  /// 1, is decided as if it were not, unless somebody `asks`; layouts (LayingOut) compare strides so, too.
  Dim make_size(int64_t hint);
  /// An unbacked symbol for a length that `what` finds in a tensor's values: the same one whenever it is asked for the
  /// same tensor, which `source` stands for (its node), so that x[mask] and y[mask] have the same length.
  Dim symbol_of(const std::string& what, const void* source);
  std::optional<int64_t> hint(SymbolId id) const;
  /// Whether only a run can tell it, also if it was asked for in the call being compiled.
  bool is_unbacked(SymbolId id) const;
  /// What an unbacked symbol turned out to be in the call being compiled.
  void set_hint(SymbolId id, int64_t value);
  int64_t least(SymbolId id) const;
  const std::string& name(SymbolId id) const;
  const std::vector<DimGuard>& guards() const { return guards_; }

  /// A float argument of the call being compiled.
  NumberPtr make_number(double hint);
  double number_hint(size_t index) const { return number_hints_.at(index); }
  /// The value under the hints, recording that the program now depends on it.
  double specialize(const NumberPtr& number);
  void guard(NumberGuard g);
  const std::vector<std::shared_ptr<const NumberGuard>>& number_guards() const { return number_guards_; }

  /// Such a check costs a run, so that it is made once for each tuple of numbers.
  void guard(SizeCheck check) { checks_.push_back(std::move(check)); }
  const std::vector<SizeCheck>& checks() const { return checks_; }

  /// Tells the user's line, which guards carry.
  std::function<std::string()> location;
  /// Whether the scope's answers are asked for an unbacked symbol before it is taken to differ from 0 and 1.
  bool asks = false;
  /// Whether none may be taken to differ from 0 and 1.
  bool insists = false;
  /// Whether one was taken to differ from 0 or 1.
  bool assumed() const { return assumed_; }
  /// The comparisons of sizes that may be 1 that were decided as if they were not, in order: they hold where the sizes
  /// differ from 1.
  const std::vector<DimGuard>& taken() const { return taken_; }
  /// From here on this one is a guard.
  void keep_taken(size_t i) { guard(DimGuard(taken_.at(i))); }
  /// From here on the symbol is not 1 where the program is used.
  void exclude_one(SymbolId id) { guard(DimGuard{DimGuard::NotEqual, Dim::symbol(id), 1}); }
  /// Whether it is one of make_size().
  bool may_be_one(SymbolId id) const;
  /// Whether all symbols of a size have hints.  The answers of the current scope are asked for those that have none.
  bool knows(const Dim& size, SizeAnswers::Need need = SizeAnswers::Need::Useful);

  /// The environment that comparisons on this thread use; none outside a compilation.
  static ShapeEnv* current();

  /// For the length of a scope the current environment `asks`: where a wrong assumption would be no error but another
  /// result.  `insists`: what nobody can tell is an error then, and no assumption.
  class Asking {
   public:
    explicit Asking(bool insists = false);
    ~Asking();
    Asking(const Asking&) = delete;
    Asking& operator=(const Asking&) = delete;

   private:
    ShapeEnv* env_;
    bool before_ = false, insisted_ = false;
  };

  /// For the length of a scope the order of strides is that of sizes that differ from 1.
  class LayingOut {
   public:
    LayingOut();
    ~LayingOut();
    LayingOut(const LayingOut&) = delete;
    LayingOut& operator=(const LayingOut&) = delete;

   private:
    ShapeEnv* env_;
    bool before_ = false;
  };

  /// For the length of a scope sizes that may be 1 are what they are in the call being compiled: the program goes
  /// another way, or is an error, where they are 1.
  class Exactly {
   public:
    Exactly();
    ~Exactly();
    Exactly(const Exactly&) = delete;
    Exactly& operator=(const Exactly&) = delete;

   private:
    ShapeEnv* env_;
    bool before_ = false;
  };

  /// Makes `env` current for the length of a scope.  `answers`: find hints that comparisons need, for which operators
  /// may run; null: comparisons run nothing.
  class Scope {
   public:
    explicit Scope(ShapeEnv& env, SizeAnswers* answers = nullptr);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    /// Those of the current scope, or null.
    static SizeAnswers* answers();

   private:
    ShapeEnv* previous_;
    SizeAnswers* previous_answers_;
  };

 private:
  friend class Dim;
  friend bool operator==(const Dim&, const Dim&);
  friend bool operator<(const Dim&, const Dim&);
  void guard(DimGuard g);
  /// Whether a comparison assumes that unbacked symbols differ from 0 and 1, before it asks for the symbols.
  static bool assumes();
  /// Whether a comparison may make this assumption where it cannot ask for the symbols.
  static bool may_assume();
  /// Notes that a comparison was decided by this assumption (assumed()).  Returns `outcome`.
  static bool assume(bool outcome);
  /// Whether a comparison assumes that sizes which may be 1 differ from 1 (make_size()).
  static bool takes();
  /// Whether `difference` is positive, or negative, with sizes that may be 1 taken to differ from it.
  static bool take_to_differ(const Dim& difference, bool* positive);
  static bool take(DimGuard::Relation relation, const Dim& a, const Dim& b, bool outcome);
  struct Symbol {
    std::optional<int64_t> hint;
    std::string name;
    int64_t least = 0;
    bool unbacked = false;
    bool may_be_one = false;
  };
  std::map<SymbolId, Symbol> symbols_;
  std::map<std::pair<std::string, const void*>, Dim> found_;
  std::vector<DimGuard> guards_;
  bool assumed_ = false, laying_out_ = false, exact_ = false;
  std::vector<DimGuard> taken_;
  std::vector<double> number_hints_;
  std::vector<std::shared_ptr<const NumberGuard>> number_guards_;
  std::vector<SizeCheck> checks_;
};

}  // namespace thunder
