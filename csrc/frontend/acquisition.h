// What all parts of an acquisition share: the program that is recorded, the memory of its tensors, the sizes that only
// the run knows, the user's line, and the reason for which the function is left to eager.
//
// The acquisition calls none of its parts (tracer.h lists them).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "core/builder.h"
#include "core/error.h"
#include "frontend/alias.h"
#include "frontend/equal_values.h"
#include "frontend/needs_eager.h"
#include "python/ref.h"

namespace thunder::frontend {

class Acquisition {
 public:
  /// Records a program of its own.
  Acquisition();
  /// Records into another's builder: a rule in Python that takes part in a pass.  Calls keep the builder's location.
  /// `metadata_only`: nothing of what is recorded will run (metas, checkers), so that tensors may come from nowhere.
  Acquisition(Builder& borrowed, bool metadata_only);
  Acquisition(const Acquisition&) = delete;
  Acquisition& operator=(const Acquisition&) = delete;

  bool owns_program() const { return owned_ != nullptr; }
  bool metadata_only() const { return metadata_only_; }
  Builder& builder() { return b_; }
  const std::shared_ptr<Arena>& arena() const { return arena_; }
  AliasTracker& aliases() { return aliases_; }
  /// The sizes that only the run knows; current while what was traced is compiled.
  ShapeEnv& shapes() { return shapes_; }

  /// The user's line: "model.py:7 in forward"; empty if there is none.
  std::string location() const;
  /// Who finds sizes that only the run knows (ValueQuestions); null in a rule.
  SizeAnswers* answers = nullptr;
  /// Records at the user's current line, with the sizes of this program.  Comparisons of sizes run nothing.  Errors name
  /// the line.
  template <typename Record>
  std::invoke_result_t<Record> located(const Record& record) {
    return record_with(nullptr, record);
  }
  /// The same, but a comparison of sizes may run what was recorded so far, to find a size that only the run knows.
  template <typename Record>
  std::invoke_result_t<Record> located_with_answers(const Record& record) {
    return record_with(answers, record);
  }
  /// Why no program can stand for the function; nothing: a program can.
  std::optional<NeedsEager> eager;
  /// A reason that counts only if the acquisition fails: a sharded module gathers its parameters when it is called.
  std::optional<NeedsEager> eager_if_it_fails;
  /// Ends this acquisition: the function itself has to run.
  [[noreturn]] void leave_to_eager(std::string why, PyObject* tensor = nullptr, bool warns = false);

  /// Makes a value a leaf: gradients begin there.
  Value new_leaf(Value v);
  bool is_new_leaf(Value v) const { return new_leaves_.count(v.id()) != 0; }
  /// The value is that of a new leaf's call, which has been made again.
  void add_new_leaf(Value v) { new_leaves_.insert(v.id()); }

  /// Calls are recorded apart until close_scope(), in a scope that has a number.
  void open_scope();
  std::vector<const Call*> close_scope();
  /// The number of the innermost scope; 0: the program itself.
  size_t scope() const { return scopes_.back(); }
  /// Whether the scope with this number is open.
  bool is_within(size_t scope) const;
  /// Whether calls go to the program itself.
  bool records_program() const { return owned_ && &b_.calls() == &b_.outermost_calls(); }

 private:
  template <typename Record>
  std::invoke_result_t<Record> record_with(SizeAnswers* finder, const Record& record) {
    update_location();
    const Current current(*this, finder);
    try {
      return record();
    } catch (const Error& e) {
      rethrow(e);
    }
  }

  // What asks for sizes, and for equal values, asks this program.
  struct Current {
    Current(Acquisition& a, SizeAnswers* answers);
    ShapeEnv::Scope shapes;
    EqualSources::Scope equal;
  };
  void update_location();
  [[noreturn]] void rethrow(const Error& e) const;

  std::unique_ptr<Builder> owned_;  // null where the builder is borrowed
  Builder& b_;
  std::shared_ptr<Arena> arena_;
  bool metadata_only_ = false;
  AliasTracker aliases_;
  ShapeEnv shapes_;
  EqualValues equal_values_{b_};
  std::unordered_set<ValueId> new_leaves_;
  std::vector<size_t> scopes_ = {0};  // the open ones, from the program itself inwards
  size_t last_scope_ = 0;
};

}  // namespace thunder::frontend
