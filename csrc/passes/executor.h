// The executor contract: who runs which operator.
//
// An operator executor claims single calls at the highest level it knows.  The list that the user gives is the
// priority: each call is offered to the executors in turn; if none takes it, the calls of its body are offered.  A fusion
// executor takes whole regions instead.  The always executors (`c10d`, `aten`, `python`) stand last in every list.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/builder.h"
#include "core/trace.h"

namespace thunder {

/// How an executor runs one symbol ("torch.scaled_dot_product_attention").
struct Implementation {
  /// Whether it can run this very call: dtypes, layouts, values of options.  Null: always.  A checker does not
  /// validate: a call that reached it is a legal one.
  std::function<bool(const Call&)> checker;
  /// An operator of the executor with the symbol's schema, called with the same arguments; or ...
  const Op* op = nullptr;
  /// ... calls that do the same, made with the builder (execution transform); returns the results.
  std::function<Arg(Builder&, const Args&)> transform;
  /// Like `transform`, for a call through which gradients flow: makes calls of operators that have gradient rules.
  /// Autodiff asks for it before it looks at the record's own rule.
  std::function<Arg(Builder&, const Args&)> grad_transform;
  /// The arguments as this executor wants them, for a call that gives the same: what several calls have in common is
  /// then made once (prepare.h).  Makes no call where there is nothing to do.
  std::function<ArgList(Builder&, const Args&)> prepare = nullptr;
};

/// What the user asked of fusion.
struct FusionOptions {
  /// Every intermediate result is rounded to its type, products and sums one by one, as if each call ran alone.
  bool eager_numerics = false;
  /// Random numbers are drawn inside kernels, by counting: other numbers than eager's.
  bool counted_random = false;
  /// Kernels are compiled; otherwise the program is for reading.
  bool compiles = true;
};

struct Repeated;

class Executor {
 public:
  explicit Executor(std::string name, std::string version = {})
      : name_(std::move(name)), version_(std::move(version)) {}
  virtual ~Executor() = default;
  const std::string& name() const { return name_; }
  const std::string& version() const { return version_; }

  /// Empty if it can be used here, else why not ("needs a CUDA device").
  virtual std::string unavailable() const { return {}; }
  /// The implementation that takes the call, or null.
  virtual const Implementation* find(const Call& call) const;
  /// Fusion executors: the trace with regions replaced by calls of this executor.  Others return it as it is.
  /// `repeated`: of the whole program that the trace is a part of.
  virtual Trace fuse(const Trace& trace, const FusionOptions& /*options*/, const Repeated& /*repeated*/) const {
    return trace;
  }
  virtual bool is_fusion() const { return false; }
  /// Fusion executors: whether one kernel computes the elements of a row and their sum.
  virtual bool fuses_sums() const { return false; }
  /// Whether what it runs instead of eager's operators may be used with numerics="eager".
  virtual bool has_eagers_bits() const { return true; }
  /// Whether a fusion executor may take the calls that this one claims.  An executor that runs any call, one operator at a
  /// time, says yes; one with kernels of its own keeps its calls.
  virtual bool yields_to_fusion() const { return false; }
  /// Whether a product of a matrix and a vector may be a fused reduction, where the list fuses, instead of a call of
  /// this executor's.
  virtual bool yields_vector_products() const { return false; }
  /// Fusion executors: the calls in whose place this one may stand where it helps to see through it, so that what is
  /// saved for a backward can be chosen among them; the call itself if there is nothing to gain.
  virtual std::vector<const Call*> open(const Call& call, Arena& /*arena*/) const { return {&call}; }

  /// Adds an implementation of a symbol; later ones are asked first.
  void register_implementation(std::string symbol, Implementation implementation);
  /// An operator that this executor runs; `print_name` is what stands in the final program.
  const Op& register_operator(const OpDef& def, std::string print_name = {}, bool replace = true);
  const std::unordered_map<std::string, std::vector<Implementation>>& implementations() const {
    return implementations_;
  }

 private:
  std::string name_, version_;
  std::unordered_map<std::string, std::vector<Implementation>> implementations_;
};

using ExecutorList = std::vector<std::shared_ptr<Executor>>;

/// What takes the call before those executors that stand last in every list; null if nothing does.
const Implementation* find_specialist(const ExecutorList& list, const Call& call);

/// Whether a fusion executor may take the call: one that nobody has claimed, or whose executor yields to fusion.
bool may_be_fused(const Call& call);

/// Executors by name.
class Executors {
 public:
  static Executors& instance();
  /// One of the same name gives way to it, in the lists as well.
  void add(std::shared_ptr<Executor> e);
  /// Names that no other executor may have from here on: those registered or made so far, and the levels of operators.
  void reserve_names();
  /// An executor of that name, registered or not.
  void made(std::string name) { made_.push_back(std::move(name)); }
  bool is_reserved(std::string_view name) const;
  void remove(std::string_view name);
  /// Null if there is none.
  std::shared_ptr<Executor> find(std::string_view name) const;
  const ExecutorList& all() const { return all_; }
  /// Those that stand in a list unless the user gives another, highest priority first; always the always ones last.
  ExecutorList defaults() const;
  ExecutorList always() const;
  void add_default(std::shared_ptr<Executor> e);  ///< to the front
  /// In front of the executor of that name; to the end if there is none in the list.
  void add_default(std::shared_ptr<Executor> e, std::string_view before);
  void remove_default(std::string_view name);
  /// The same for the always executors.
  void add_always(std::shared_ptr<Executor> e, std::string_view before = {});

 private:
  ExecutorList all_, defaults_, always_;
  std::vector<std::string> made_, reserved_;
};

}  // namespace thunder
