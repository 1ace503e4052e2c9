// Why a program is good for this call only.
//
// Owns the two reasons; calls nothing.
#pragma once

#include <optional>
#include <string>

#include "frontend/interpreter/interpreter.h"

namespace thunder::frontend {

class NotKept {
 public:
  /// What the code did once and for all, so that the program cannot be acquired again.
  const std::optional<std::string>& once() const { return once_; }
  /// Why the program is good for this call only, though it may be acquired for it once more.
  const std::optional<std::string>& why() const { return why_; }

  /// "advances an iterator": the first one counts.
  void add_once(const std::string& does) { set(once_, does, interpreter::current_place()); }
  /// "calls now()": the first one counts.
  void add(const std::string& does, const interpreter::Place& place) { set(why_, does, place); }
  void add(const std::string& does) { add(does, interpreter::current_place()); }

 private:
  static void set(std::optional<std::string>& reason, const std::string& does, const interpreter::Place& place) {
    if (!reason) reason = "the program " + does + "\n  at " + place.str();
  }

  std::optional<std::string> once_, why_;
};

}  // namespace thunder::frontend
