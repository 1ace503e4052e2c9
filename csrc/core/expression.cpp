#include "core/expression.h"

#include <charconv>

#include "core/error.h"

namespace thunder::syntax {

void fail(size_t line, const std::string& what) {
  throw Error(ErrorKind::Value, cat("[parse] line ", line, ": ", what));
}

std::vector<Token> tokenize(std::string_view text, size_t line) {
  try {
    return tokenize(text);
  } catch (const Error& e) {
    fail(line, e.what());
  }
}

// ---- Nesting --------------------------------------------------------------------------------------------------------

namespace {
thread_local size_t levels = 0;
}  // namespace

Nesting::Nesting(size_t line) {
  if (levels >= kMost) fail(line, cat("more than ", kMost, " levels are nested here"));
  ++levels;
}

Nesting::~Nesting() { --levels; }

// ---- Cursor ---------------------------------------------------------------------------------------------------------

Token Cursor::take() {
  Token t = peek();
  if (pos_ + 1 < tokens_->size()) ++pos_;
  return t;
}

bool Cursor::accept(std::string_view punctuation) {
  if (!is(punctuation)) return false;
  take();
  return true;
}

void Cursor::expect(std::string_view punctuation) {
  if (!accept(punctuation)) error(cat("expected '", punctuation, "'", found()));
}

std::string Cursor::name(const char* what) {
  if (peek().kind != Token::Name) error(cat("expected ", what, found()));
  return take().text;
}

std::string Cursor::dotted_name(const char* what) {
  std::string text = name(what);
  while (is(".") && peek(1).kind == Token::Name) {
    take();
    text += "." + take().text;
  }
  return text;
}

void Cursor::expect_end() {
  if (!at_end()) error("expected the end of the line" + found());
}

std::string Cursor::found() const {
  return at_end() ? ", found the end of the line" : cat(", found '", peek().text, "'");
}

// ---- Expression -----------------------------------------------------------------------------------------------------

Arg Expression::parse() {
  Arg left = term();
  while (c_.is("+") || c_.is("-")) {
    bool minus = c_.take().text == "-";
    Arg right = term();
    left = sum(left, minus ? negate(right) : right);
  }
  return left;
}

Arg Expression::parse_open() {
  Arg first = parse();
  if (!c_.is(",")) return first;
  ArgList items = {first};
  while (c_.accept(",") && !c_.at_end() && !c_.is("=")) items.push_back(parse());
  return Arg::tuple(std::move(items));
}

ArgList Expression::items(std::string_view close, bool* trailing) {
  ArgList out;
  bool comma = false;
  while (!c_.accept(close)) {
    if (!out.empty() && !comma) c_.error(cat("expected ',' or '", close, "'", c_.found()));
    out.push_back(parse());
    comma = c_.accept(",");
  }
  if (trailing) *trailing = comma;
  return out;
}

Dims Expression::dims(std::string_view close) {
  Dims out;
  for (const Arg& a : items(close)) out.push_back(as_dim(a));
  return out;
}

Dim Expression::as_dim(const Arg& a) const {
  if (a.kind() == Arg::Kind::Int) return a.dim();
  if (a.is_value() && a.value().type().is_number() && a.value().type().number().dim)
    return *a.value().type().number().dim;
  c_.error("expected an int or a symbolic size");
}

namespace {

// What the function computes; that a size is too large is an error of the text.
template <class F>
Dim computed(const Cursor& c, const F& f) {
  try {
    return f();
  } catch (const Error& e) {
    c.error(e.what());
  }
}

}  // namespace

Arg Expression::sum(const Arg& a, const Arg& b) const {
  auto is_float = [](const Arg& x) { return x.kind() == Arg::Kind::Float || x.kind() == Arg::Kind::Complex; };
  if (!is_float(a) && !is_float(b)) {
    const Dim x = as_dim(a), y = as_dim(b);
    return computed(c_, [&] { return x + y; });
  }
  if (!a.is_literal_number() || !b.is_literal_number())
    c_.error("'+' and '-' are for sizes and the parts of a complex number");
  return a.complex() + b.complex();
}

Arg Expression::negate(const Arg& a) const {
  if (a.kind() == Arg::Kind::Float) return -a.real();
  if (a.kind() == Arg::Kind::Complex) return -a.complex();
  const Dim x = as_dim(a);
  return computed(c_, [&] { return -x; });
}

Arg Expression::term() {
  Arg left = unary();
  while (c_.is("*") || c_.is("//") || c_.is("%")) {
    std::string op = c_.take().text;
    Dim a = as_dim(left), b = as_dim(unary());
    if (op != "*" && b.is_constant() && b.constant() == 0) c_.error("division by zero");
    const Dim result = computed(c_, [&] { return op == "*" ? a * b : op == "//" ? floordiv(a, b) : mod(a, b); });
    if (op != "*" && !result.is_constant() && ++quotients_ > kMostQuotients)
      c_.error(cat("more than ", kMostQuotients, " quotients and remainders of symbolic sizes"));
    left = result;
  }
  return left;
}

Arg Expression::unary() {
  const Nesting level(c_.line());
  if (c_.accept("+")) return unary();
  if (!c_.accept("-")) return primary();
  if (c_.peek().kind == Token::Int) return integer("-" + c_.take().text);  // the least int has no positive counterpart
  return negate(unary());
}

Arg Expression::integer(const std::string& text) const {
  int64_t i = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), i).ec != std::errc())
    c_.error(text + " does not fit into 64 bits");
  return i;
}

double Expression::real(const std::string& text) const {
  double x = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), x).ec != std::errc()) c_.error(text + " is no double");
  return x;
}

Arg Expression::primary() {
  switch (c_.peek().kind) {
    case Token::Int: return integer(c_.take().text);
    case Token::Float: return real(c_.take().text);
    case Token::Imaginary: return std::complex<double>(0, real(c_.take().text));
    case Token::String: return c_.take().text;
    case Token::Name: return named();
    default: break;
  }
  if (c_.accept("...")) return ConstantArg{"..."};
  if (c_.accept("[")) return Arg::list(items("]"));
  if (c_.accept("{")) return dict();
  if (!c_.accept("(")) c_.error("expected a value" + c_.found());
  bool trailing = false;
  ArgList list = items(")", &trailing);
  return list.size() == 1 && !trailing ? list[0] : Arg::tuple(std::move(list));
}

Arg Expression::dict() {
  std::vector<std::pair<Arg, Arg>> entries;
  bool comma = true;
  while (!c_.accept("}")) {
    if (!comma) c_.error("expected ',' or '}'" + c_.found());
    Arg key = parse();
    c_.expect(":");
    entries.emplace_back(std::move(key), parse());
    comma = c_.accept(",");
  }
  return Arg::dict(std::move(entries));
}

Arg Expression::named() {
  std::string name = c_.dotted_name("a name");
  if (name == "None") return nullptr;
  if (name == "True") return true;
  if (name == "False") return false;
  return c_.is("(") ? constructed(name) : name_(name);
}

namespace {

// max() and min() decide what the environment lets them decide; a printed one was undecided, and stays so when it is
// put together by substitution.
Dim undecided(Dim (*function)(const Dim&, const Dim&), const Dim& a, const Dim& b) {
  static const std::pair<Dim, Dim> unknown = [] {
    ShapeEnv env;
    Dim left = env.make_symbol(std::nullopt), right = env.make_symbol(std::nullopt);
    return std::pair(left, right);
  }();
  SymbolId left = unknown.first.symbols()[0];
  return function(unknown.first, unknown.second).substitute([&](SymbolId s) { return s == left ? a : b; });
}

}  // namespace

Arg Expression::constructed(const std::string& name) {
  c_.expect("(");
  ArgList a = items(")");
  auto is_str = [&](size_t i) { return a[i].kind() == Arg::Kind::Str; };
  auto is_float = [&](size_t i) { return a[i].kind() == Arg::Kind::Float; };
  if (name == "float" && a.size() == 1 && is_str(0) &&
      (a[0].str() == "inf" || a[0].str() == "-inf" || a[0].str() == "nan"))
    return real(a[0].str());
  if (name == "complex" && a.size() == 2 && is_float(0) && is_float(1))
    return std::complex<double>(a[0].real(), a[1].real());
  if (name == "torch.device" && a.size() == 1 && is_str(0)) return device(a[0].str());
  if (name == "slice" && a.size() == 3) return Arg::slice(a[0], a[1], a[2]);
  if (name == "max" && a.size() == 2) return undecided(max, as_dim(a[0]), as_dim(a[1]));
  if (name == "min" && a.size() == 2) return undecided(min, as_dim(a[0]), as_dim(a[1]));
  c_.error(cat("this call of '", name, "' is not understood: an argument is a literal or a name"));
}

Arg Expression::device(const std::string& text) const {
  try {
    return Device::parse(text);
  } catch (const Error& e) {
    c_.error(e.what());
  }
}

}  // namespace thunder::syntax
