// The tokens of a prelude's text, as far as it takes to divide it and to see which names it has.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace thunder::fuser {

/// A part of a text, which must live as long.  Comments and spaces are no tokens.
struct PreludeToken {
  enum class Kind : unsigned char {
    Name,       ///< an identifier or a keyword
    Directive,  ///< from the `#` that begins a line to the end of the line, continued lines included
    Paste,      ///< `##`
    Mark,       ///< one character of punctuation
    Literal     ///< a number, a string, a character
  };
  Kind kind;
  std::string_view text;
  bool is(std::string_view expected) const { return text == expected; }
  bool is_name() const { return kind == Kind::Name; }
};
using Tokens = std::vector<PreludeToken>;

/// The tokens of a text that a C++ compiler accepts and that has no raw strings.
///
///   "int f(); // g"  ->  int f ( ) ;
Tokens tokens_of(std::string_view text);

/// The place behind the bracket that closes the one at `open`, of brackets of these two kinds; `end` without one.
size_t behind_bracket(const Tokens& tokens, size_t open, size_t end, std::string_view opening,
                      std::string_view closing);

/// The word of a directive ("define") and its tokens behind the `#`.
std::string_view word_of(const Tokens& inside);
Tokens inside_of(const PreludeToken& directive);

/// A macro with arguments.
struct Macro {
  std::vector<std::string> parameters;  ///< "..." as __VA_ARGS__
  std::string body;
  bool pastes = false;  ///< makes names of parts
};
using Macros = std::map<std::string, Macro, std::less<>>;

/// Adds the macro that a `#define` makes, if it has arguments.
void add_macro(const Tokens& inside, Macros& macros);

/// What stands for a macro with these arguments, from the place behind `(` on, once expanded.
///
///   #define TWICE(NAME) int NAME##_1, NAME##_2;      TWICE(x)  ->  int x_1 , x_2 ;
std::string expansion_of(const Macro& macro, const Tokens& tokens, size_t first, size_t end);

/// Calls `use` with each name of the text, and with those that its macros make by `##`.
void for_each_name(std::string_view text, const Macros& macros, const std::function<void(std::string_view)>& use);

}  // namespace thunder::fuser
