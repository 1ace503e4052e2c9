#include "core/syntax.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "core/error.h"

namespace thunder::syntax {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

// A finite number as Python prints it, but `1` for 1.0: complex numbers print their parts like that.
std::string short_repr(double x) {
  char buffer[32];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, x, std::chars_format::scientific);
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  size_t e = text.find('e');
  int exponent = 0;
  std::string_view digits_of_exponent = text.substr(e + (text[e + 1] == '+' ? 2 : 1));
  std::from_chars(digits_of_exponent.data(), digits_of_exponent.data() + digits_of_exponent.size(), exponent);
  std::string sign, digits;
  for (char c : text.substr(0, e)) {
    if (c == '-') sign = "-";
    if (is_digit(c)) digits += c;
  }
  int n = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    std::snprintf(buffer, sizeof buffer, "e%c%02d", exponent < 0 ? '-' : '+', std::abs(exponent));
    return sign + digits[0] + (n > 1 ? "." + digits.substr(1) : "") + buffer;
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (n <= exponent + 1) return sign + digits + std::string(static_cast<size_t>(exponent + 1 - n), '0');
  return sign + digits.substr(0, static_cast<size_t>(exponent) + 1) + "." +
         digits.substr(static_cast<size_t>(exponent) + 1);
}

// Length of the UTF-8 sequence at the start of the text; 0 if it is not one.
size_t utf8_length(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char first = byte(0);
  if (first < 0x80) return 1;
  size_t length = first >= 0xC2 && first < 0xE0   ? 2
                  : first >= 0xE0 && first < 0xF0 ? 3
                  : first >= 0xF0 && first < 0xF5 ? 4
                                                  : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  bool no_character = (first == 0xED && byte(1) >= 0xA0) || (first == 0xF4 && byte(1) >= 0x90);
  return overlong || no_character ? 0 : length;
}

void append_utf8(std::string& out, uint32_t code) {
  if (code >= 0xDC80 && code <= 0xDCFF) {  // surrogateescape: a byte that was not UTF-8
    out += static_cast<char>(code - 0xDC00);
  } else if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | (code >> 12));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (code >> 18));
    out += static_cast<char>(0x80 | ((code >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

class Tokenizer {
 public:
  explicit Tokenizer(std::string_view text) : text_(text) {}

  std::vector<Token> run() {
    std::vector<Token> out;
    do out.push_back(next());
    while (out.back().kind != Token::End);
    return out;
  }

 private:
  [[noreturn]] static void fail(const std::string& what) { throw Error(ErrorKind::Value, what); }
  char peek(size_t ahead = 0) const { return pos_ + ahead < text_.size() ? text_[pos_ + ahead] : '\0'; }

  Token next() {
    while (peek() == ' ' || peek() == '\t') ++pos_;
    if (pos_ >= text_.size()) return {Token::End, ""};
    size_t start = pos_;
    if (peek() == '#') {
      pos_ = text_.size();
      return {Token::Comment, std::string(text_.substr(start + 1))};
    }
    if (is_name_start(peek())) {
      while (is_name_part(peek())) ++pos_;
      return {Token::Name, std::string(text_.substr(start, pos_ - start))};
    }
    if (is_digit(peek()) || (peek() == '.' && is_digit(peek(1)))) return number();
    if (peek() == '\'' || peek() == '"') return {Token::String, string()};
    for (std::string_view p : {"...", "//"})
      if (text_.substr(pos_, p.size()) == p) {
        pos_ += p.size();
        return {Token::Punctuation, std::string(p)};
      }
    if (std::string_view("()[]{},=:.*+-%@").find(peek()) == std::string_view::npos)
      fail(cat("unexpected character '", peek(), "'"));
    return {Token::Punctuation, std::string(1, text_[pos_++])};
  }

  Token number() {
    size_t start = pos_;
    bool integral = true;
    while (is_digit(peek())) ++pos_;
    if (peek() == '.') {
      integral = false;
      ++pos_;
      while (is_digit(peek())) ++pos_;
    }
    size_t sign = peek(1) == '+' || peek(1) == '-' ? 1 : 0;
    if ((peek() == 'e' || peek() == 'E') && is_digit(peek(1 + sign))) {
      integral = false;
      pos_ += 1 + sign;
      while (is_digit(peek())) ++pos_;
    }
    std::string text(text_.substr(start, pos_ - start));
    if (peek() == 'j') {
      ++pos_;
      return {Token::Imaginary, text};
    }
    if (is_name_part(peek())) fail(cat("'", text, peek(), "' is not a number"));
    return {integral ? Token::Int : Token::Float, text};
  }

  std::string string() {
    char quote = text_[pos_++];
    std::string out;
    while (pos_ < text_.size() && peek() != quote) {
      if (peek() == '\\') escape(out);
      else out += text_[pos_++];
    }
    if (pos_ >= text_.size()) fail("a string is not closed");
    ++pos_;
    return out;
  }

  void escape(std::string& out) {
    static constexpr std::string_view kNames = "\\'\"nrtabfv", kMeanings = "\\'\"\n\r\t\a\b\f\v";
    ++pos_;
    char c = peek();
    ++pos_;
    if (size_t i = kNames.find(c); i != std::string_view::npos) {
      out += kMeanings[i];
      return;
    }
    size_t n = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    std::string_view digits = text_.substr(std::min(pos_, text_.size()), n);
    uint32_t code = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (n == 0 || error != std::errc() || end != digits.data() + n || code > 0x10FFFF)
      fail(cat("unknown escape '\\", c, "' in a string"));
    append_utf8(out, code);
    pos_ += n;
  }

  std::string_view text_;
  size_t pos_ = 0;
};

}  // namespace

std::string repr(double x) {
  if (std::isnan(x)) return "float('nan')";
  if (std::isinf(x)) return x > 0 ? "float('inf')" : "float('-inf')";
  std::string text = short_repr(x);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string repr(std::complex<double> x) {
  double re = x.real(), im = x.imag();
  auto plain = [](double v) { return std::isfinite(v) && !(v == 0 && std::signbit(v)); };
  if (!plain(re) || !plain(im) || (re == 0 && im < 0)) return "complex(" + repr(re) + ", " + repr(im) + ")";
  if (re == 0) return short_repr(im) + "j";
  return "(" + short_repr(re) + (im < 0 ? "" : "+") + short_repr(im) + "j)";
}

std::string repr(std::string_view text) {
  bool single = text.find('\'') != std::string_view::npos, both = single && text.find('"') != std::string_view::npos;
  char quote = single && !both ? '"' : '\'';
  std::string out(1, quote);
  for (size_t i = 0; i < text.size();) {
    char c = text[i];
    size_t length = utf8_length(text.substr(i));
    auto byte = static_cast<unsigned char>(c);
    char buffer[8];
    if (c == quote || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      std::snprintf(buffer, sizeof buffer, "\\x%02x", byte);
      out += buffer;
    } else if (length == 0) {
      std::snprintf(buffer, sizeof buffer, "\\udc%02x", byte);
      out += buffer;
    } else {
      out += text.substr(i, length);
    }
    i += std::max<size_t>(length, 1);
  }
  return out + quote;
}

bool is_identifier(std::string_view text) {
  return !text.empty() && is_name_start(text[0]) && std::all_of(text.begin(), text.end(), is_name_part);
}

bool is_keyword(std::string_view text) {
  static constexpr std::array<std::string_view, 35> kKeywords = {
      "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
      "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
      "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
      "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"};
  return std::find(kKeywords.begin(), kKeywords.end(), text) != kKeywords.end();
}

std::vector<Token> tokenize(std::string_view line) { return Tokenizer(line).run(); }

std::optional<ValueId> id_of_name(std::string_view name) {
  if (name.size() < 2 || name.size() > 10 || std::string_view("tifbco").find(name[0]) == std::string_view::npos)
    return std::nullopt;
  if (name[1] == '0' && name.size() > 2) return std::nullopt;
  ValueId id = 0;
  auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), id);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return id;
}

std::string_view kind_name(NumberKind kind) {
  static constexpr std::string_view kNames[] = {"bool", "int", "float", "complex"};
  return kNames[static_cast<size_t>(kind)];
}

Dims row_major_strides(const Dims& shape) {
  Dims strides(shape.size());
  Dim step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    if (!shape[i].is_constant() || shape[i].constant() > 0) step = step * shape[i];
  }
  return strides;
}

// ---- operators ------------------------------------------------------------------------------------------------------

namespace {

// bind() makes what a user writes into what a schema declares; a trace may hold what a user would not write (a tuple
// for a list, an int for a float), and that must come back as it was.
void keep_as_given(const Param& p, const Arg& given, Arg& bound) {
  if (given.kind() == Arg::Kind::Tuple || (p.kind == Param::Kind::Float && given.is_literal_number())) bound = given;
}

// Arguments put in their places by number and name alone.
std::optional<ArgList> assign(const Schema& schema, const ArgList& positional, const Keywords& keyword) {
  size_t n = schema.params.size();
  std::vector<const Arg*> given(n, nullptr);
  if (positional.size() > n) return std::nullopt;
  for (size_t i = 0; i < positional.size(); ++i) {
    if (schema.params[i].keyword_only) return std::nullopt;
    given[i] = &positional[i];
  }
  for (const auto& [name, value] : keyword) {
    int i = schema.index_of(name);
    if (i < 0 || given[static_cast<size_t>(i)]) return std::nullopt;
    given[static_cast<size_t>(i)] = &value;
  }
  ArgList out(n);
  for (size_t i = 0; i < n; ++i) {
    if (!given[i] && !schema.params[i].default_value) return std::nullopt;
    out[i] = given[i] ? *given[i] : *schema.params[i].default_value;
  }
  return out;
}

}  // namespace

std::optional<Resolved> resolve(const std::vector<const Op*>& candidates, const ArgList& positional,
                                const Keywords& keyword, std::string* why) {
  for (const Op* op : candidates) {
    std::string reason;
    const Schema& schema = op->schema;
    std::optional<ArgList> args = bind(schema, positional, keyword, &reason);
    if (!args) {
      if (why) *why += (why->empty() ? "" : "; ") + reason;
      continue;
    }
    for (size_t i = 0; i < std::min(positional.size(), args->size()); ++i)
      if (!schema.params[i].varargs || positional[i].is_sequence())
        keep_as_given(schema.params[i], positional[i], (*args)[i]);
    for (const auto& [name, value] : keyword) {
      auto i = static_cast<size_t>(schema.index_of(name));
      keep_as_given(schema.params[i], value, (*args)[i]);
    }
    return Resolved{op, std::move(*args)};
  }
  // A trace that verify would refuse can be read, so that verify can say what is wrong with it.
  for (const Op* op : candidates)
    if (std::optional<ArgList> args = assign(op->schema, positional, keyword)) return Resolved{op, std::move(*args)};
  return std::nullopt;
}

}  // namespace thunder::syntax
