// What the printer and the parser of traces agree on: tokens, Python's spelling of numbers and strings, and how a
// printed call finds its operator.  For core's own use.
#pragma once

#include <complex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/op.h"
#include "core/type.h"
#include "core/value.h"

namespace thunder::syntax {

// ---- literals -------------------------------------------------------------------------------------------------------

/// Python's repr: the shortest text that reads back, `1.0`, `1e-05`, `float('inf')`.
std::string repr(double x);
/// `(1+2j)` where Python reads that back exactly, else `complex(-0.0, float('inf'))`.
std::string repr(std::complex<double> x);
/// Python's repr of a string.  Bytes that are not UTF-8 are spelled as Python's "surrogateescape" does.
std::string repr(std::string_view text);

bool is_identifier(std::string_view text);
/// Whether Python reserves the word.
bool is_keyword(std::string_view text);

// ---- tokens ---------------------------------------------------------------------------------------------------------

struct Token {
  enum Kind : uint8_t { Name, Int, Float, Imaginary, String, Punctuation, Comment, End } kind;
  std::string text;  ///< of a string: what it denotes; of a comment: what follows the `#`
};

/// The tokens of one line, the last one being End.  Error (Value) says what is wrong, without a line number.
std::vector<Token> tokenize(std::string_view line);

// ---- types and operators --------------------------------------------------------------------------------------------

/// The number that an annotation `"t12"` stands for, if the name is one that print makes: a letter of `tifbco`, an id.
std::optional<ValueId> id_of_name(std::string_view name);
/// "bool", "int", "float", "complex".
std::string_view kind_name(NumberKind kind);

/// The strides that an annotation without strides means.  Like contiguous_strides, but asks nothing about symbolic
/// sizes, so that the answer is the same in and outside a compilation.
Dims row_major_strides(const Dims& shape);

inline constexpr std::string_view kDel = "prims.python_del";

using Keywords = std::vector<std::pair<std::string, Arg>>;

struct Resolved {
  const Op* op = nullptr;
  ArgList args;
};
/// The first of the operators that takes the arguments, and the arguments for each of its parameters, as they were
/// given.  Nothing, and the reasons, if there is none.
std::optional<Resolved> resolve(const std::vector<const Op*>& candidates, const ArgList& positional,
                                const Keywords& keyword, std::string* why = nullptr);

}  // namespace thunder::syntax
