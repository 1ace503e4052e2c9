// The condition under which elements are computed (those of the parts of a cat): part of lowering (lower.cpp).
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "fuser/statements.h"

namespace thunder::fuser {

class Condition {
 public:
  bool empty() const { return text_.empty(); }
  const std::string& text() const { return text_; }
  /// Ends the key of an element; an element that is computed under another condition is another one.
  std::string key() const { return empty() ? "" : kMark + text_; }
  static bool is_part_of(const std::string& key) { return key.find(kMark) != std::string::npos; }
  LoopScope scope() const { return scope_; }
  /// The text where the condition holds, and zero elsewhere.
  std::string or_zero(const std::string& text, const std::string& type) const {
    return empty() ? text : text_ + " ? " + text + " : " + type + "(0)";
  }

  /// What `evaluate` gives under a further condition: loads happen only where that one holds, or does not.
  template <class F>
  Scalar narrowed(const Scalar& condition, bool holds, F&& evaluate) {
    if (depth_ == kMaxDepth) throw Refused();
    const Condition outer = *this;
    const std::string text = (holds ? "" : "!") + condition.text;
    text_ = empty() ? text : "(" + text_ + " && " + text + ")";
    scope_ = std::max(scope_, condition.scope);
    ++depth_;
    Scalar s = evaluate();
    *this = outer;
    return s;
  }

 private:
  static constexpr char kMark = '|';
  static constexpr size_t kMaxDepth = 20;  // each condition is in the text of all within it

  std::string text_;
  LoopScope scope_ = LoopScope::Row;
  size_t depth_ = 0;
};

}  // namespace thunder::fuser
