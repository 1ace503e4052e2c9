// The Python expressions of printed traces: literals, names, containers, sizes.  For the parser's own use.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/syntax.h"

namespace thunder::syntax {

/// Error (Value) that names the line of the text.
[[noreturn]] void fail(size_t line, const std::string& what);

/// The tokens of a piece of the line with this number; errors name it.
std::vector<Token> tokenize(std::string_view text, size_t line);

/// A level of what the parser reads by calling itself (brackets, signs, bodies, types that name others), for the length
/// of a scope.  Error (Value), naming the line, where there are more on this thread than the stack surely holds.
class Nesting {
 public:
  static constexpr size_t kMost = 500;
  explicit Nesting(size_t line);
  ~Nesting();
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;
};

/// A place in the tokens of a line.
class Cursor {
 public:
  Cursor(const std::vector<Token>& tokens, size_t line) : tokens_(&tokens), line_(line) {}

  const Token& peek(size_t ahead = 0) const { return (*tokens_)[std::min(pos_ + ahead, tokens_->size() - 1)]; }
  Token take();
  /// Whether the next token is this punctuation.
  bool is(std::string_view punctuation, size_t ahead = 0) const {
    return peek(ahead).kind == Token::Punctuation && peek(ahead).text == punctuation;
  }
  bool is_name(std::string_view name) const { return peek().kind == Token::Name && peek().text == name; }
  bool accept(std::string_view punctuation);
  void expect(std::string_view punctuation);
  /// `what` is expected, for the error.
  std::string name(const char* what);
  std::string dotted_name(const char* what);
  /// A comment counts as the end.
  bool at_end() const { return peek().kind == Token::End || peek().kind == Token::Comment; }
  void expect_end();
  void go_to(size_t position) { pos_ = position; }
  size_t line() const { return line_; }
  [[noreturn]] void error(const std::string& what) const { fail(line_, what); }
  /// ", found 'x'"
  std::string found() const;

 private:
  const std::vector<Token>* tokens_;
  size_t line_;
  size_t pos_ = 0;
};

/// What a name means at the place where it stands.
using NameFn = std::function<Arg(const std::string& name)>;

class Expression {
 public:
  /// Of symbolic sizes: each may be nested in the next one, without a bracket, and whoever walks a size calls itself.
  static constexpr size_t kMostQuotients = 5000;

  Expression(Cursor& cursor, NameFn name) : c_(cursor), name_(std::move(name)) {}

  Arg parse();
  /// `a, b` without brackets is a tuple.
  Arg parse_open();
  /// The items up to a closing bracket, which is taken; `trailing`: whether a comma stood before it.
  ArgList items(std::string_view close, bool* trailing = nullptr);
  Dims dims(std::string_view close);
  Dim dim() { return as_dim(parse()); }

 private:
  Dim as_dim(const Arg& a) const;
  Arg sum(const Arg& a, const Arg& b) const;
  Arg negate(const Arg& a) const;
  Arg term();
  Arg unary();
  Arg primary();
  Arg integer(const std::string& text) const;
  double real(const std::string& text) const;
  Arg dict();
  Arg named();
  Arg constructed(const std::string& name);
  Arg device(const std::string& text) const;

  Cursor& c_;
  NameFn name_;
  size_t quotients_ = 0;
};

}  // namespace thunder::syntax
