// Errors that reach the user, and assertions about ourselves.
//
// THUNDER_CHECK is for the user's mistakes: it names the operator and the actual values, and carries the kind of
// exception that PyTorch would raise, which the bindings turn into the Python exception of that kind.
// THUNDER_ASSERT is for ours: the message says that it is a bug.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace thunder {

enum class ErrorKind { Runtime, Type, Value, Index, NotImplemented, Attribute, Assertion, Import, Internal };

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

/// The arguments, streamed one after the other into a string.
template <class... A>
std::string cat(const A&... parts) {
  std::ostringstream out;
  (void)(out << ... << parts);
  return out.str();
}

/// Elements joined by `separator`, for lists in messages and in printed traces.
template <class Range>
std::string join(const Range& range, const char* separator = ", ") {
  std::ostringstream out;
  bool first = true;
  for (const auto& x : range) {
    if (!first) out << separator;
    first = false;
    out << x;
  }
  return out.str();
}

[[noreturn]] void fail_assertion(const char* condition, const char* file, int line, const std::string& message);

}  // namespace thunder

/// `op` is the operator's name as the user wrote it ("add"), without brackets.
#define THUNDER_CHECK(condition, kind, op, ...)                                                                       \
  do {                                                                                                                \
    if (!(condition)) throw ::thunder::Error(::thunder::ErrorKind::kind, ::thunder::cat("[", op, "] ", __VA_ARGS__)); \
  } while (false)

#define THUNDER_ASSERT(condition, ...)                                                                        \
  do {                                                                                                        \
    if (!(condition)) ::thunder::fail_assertion(#condition, __FILE__, __LINE__, ::thunder::cat(__VA_ARGS__)); \
  } while (false)
