// The expressions of printed traces: a place in a line's tokens, and the values written there.
#include "core/expression.h"

#include <doctest.h>

#include <limits>
#include <map>
#include <memory>

#include "core/error.h"
#include "core/errors.h"
#include "core/trace.h"

namespace thunder {
namespace {

using namespace syntax;

// The message of the error, which is about the text.
std::string error_of(const std::function<void()>& f) { return test::error_of(ErrorKind::Value, f); }

/// A line, its tokens, a place in them, and what its names mean.
struct Line {
  explicit Line(std::string_view text) : tokens(tokenize(text, 3)) {}
  std::vector<Token> tokens;
  Cursor cursor{tokens, 3};
  std::map<std::string, Arg> names;

  Expression expression() {
    return Expression(cursor, [this](const std::string& name) {
      auto it = names.find(name);
      if (it == names.end()) cursor.error("no name '" + name + "'");
      return it->second;
    });
  }
};

// ---- errors and tokens ----------------------------------------------------------------------------------------------

TEST_CASE("expression: errors name the line") {
  CHECK(error_of([] { fail(12, "nonsense"); }) == "[parse] line 12: nonsense");
  CHECK(error_of([] { tokenize("'open", 7); }) == "[parse] line 7: a string is not closed");
  CHECK(tokenize("a b", 7).size() == 3);
  Line line("x");
  CHECK(line.cursor.line() == 3);
  CHECK(error_of([&] { line.cursor.error("what"); }) == "[parse] line 3: what");
}

// ---- Cursor ---------------------------------------------------------------------------------------------------------

TEST_CASE("Cursor: takes one token after the other, and stays at the end") {
  Line line("f(1)");
  Cursor& c = line.cursor;
  CHECK(c.peek().text == "f");
  CHECK(c.peek(2).text == "1");
  CHECK(c.peek(100).kind == Token::End);
  CHECK(c.take().text == "f");
  CHECK(c.take().text == "(");
  CHECK(c.take().kind == Token::Int);
  CHECK(c.take().text == ")");
  for (int i = 0; i < 3; ++i) CHECK(c.take().kind == Token::End);
  c.go_to(1);
  CHECK(c.is("("));
}

TEST_CASE("Cursor: punctuation and names are told apart from strings of the same text") {
  Line line("'(' a (");
  Cursor& c = line.cursor;
  CHECK_FALSE(c.is("("));
  CHECK_FALSE(c.accept("("));
  CHECK(c.is("(", 2));
  CHECK_FALSE(c.is_name("("));
  c.take();
  CHECK(c.is_name("a"));
  CHECK_FALSE(c.is("a"));
  CHECK(c.name("a name") == "a");
  CHECK(c.accept("("));
  CHECK(c.at_end());
}

TEST_CASE("Cursor: what was expected and what was found") {
  Line line("1 # a comment");
  Cursor& c = line.cursor;
  CHECK(c.found() == ", found '1'");
  CHECK(error_of([&] { c.expect(")"); }) == "[parse] line 3: expected ')', found '1'");
  CHECK(error_of([&] { c.name("a parameter"); }) == "[parse] line 3: expected a parameter, found '1'");
  CHECK(error_of([&] { c.expect_end(); }) == "[parse] line 3: expected the end of the line, found '1'");
  c.take();
  CHECK(c.at_end());
  CHECK_NOTHROW(c.expect_end());
  CHECK(error_of([&] { c.expect(")"); }) == "[parse] line 3: expected ')', found the end of the line");
}

TEST_CASE("Cursor: dotted names") {
  Line line("torch.nn.relu(x).y. 1");
  Cursor& c = line.cursor;
  CHECK(c.dotted_name("a name") == "torch.nn.relu");
  CHECK(c.is("("));
  c.go_to(8);
  CHECK(c.is("."));
  c.take();
  CHECK(c.dotted_name("a name") == "y");
  CHECK(c.is("."));
  CHECK(error_of([&] { c.dotted_name("a name"); }) == "[parse] line 3: expected a name, found '.'");
}

// ---- Expression -----------------------------------------------------------------------------------------------------

/// The value of a text that is an expression and nothing more.
Arg value(std::string_view text, std::map<std::string, Arg> names = {}) {
  Line line(text);
  line.names = std::move(names);
  Arg a = line.expression().parse();
  line.cursor.expect_end();
  return a;
}

std::string value_error(std::string_view text) {
  const std::string message = error_of([&] { value(text); }), head = "[parse] line 3: ";
  CHECK_MESSAGE(message.starts_with(head), message);
  return message.substr(std::min(head.size(), message.size()));
}

TEST_CASE("Expression: literals") {
  CHECK(value("7").same(7));
  CHECK(value("-9223372036854775808").same(std::numeric_limits<int64_t>::min()));
  CHECK(value("1.5e-07").same(1.5e-7));
  CHECK(value("-0.0").same(-0.0));
  CHECK(value("+2").same(2));
  CHECK(value("- -2").same(2));
  CHECK(value("'a' ").same("a"));
  CHECK(value("None").is_none());
  CHECK(value("True").same(true));
  CHECK(value("...").same(ConstantArg{"..."}));
  CHECK(value("float('-inf')").same(-std::numeric_limits<double>::infinity()));
  CHECK(value("float('nan')").same(std::numeric_limits<double>::quiet_NaN()));
  CHECK(value("torch.device('cuda:1')").same(Device{DeviceType::cuda, 1}));
  CHECK(value("slice(None, 2, -1)").same(Arg::slice(nullptr, 2, -1)));
}

TEST_CASE("Expression: complex numbers") {
  using C = std::complex<double>;
  CHECK(value("2j").same(C(0, 2)));
  CHECK(value("(1+2j)").same(C(1, 2)));
  CHECK(value("1.5-2j").same(C(1.5, -2)));
  CHECK(value("complex(-0.0, 1.0)").same(C(-0.0, 1)));
}

TEST_CASE("Expression: integers are computed as Python does") {
  CHECK(value("1 - 2 - 3").same(-4));
  CHECK(value("2 + 3 * 4").same(14));
  CHECK(value("(2 + 3) * 4").same(20));
  CHECK(value("2 * 7 % 4").same(2));
  CHECK(value("7 // 2 * 2").same(6));
  CHECK(value("-7 // 2").same(-4));
  CHECK(value("-7 % 3").same(2));
  CHECK(value("-(7 // 2)").same(-3));
  CHECK(value("2 * -3").same(-6));
  CHECK(value("max(2, 3) - min(2, 3)").same(1));
  CHECK(value("-9223372036854775808 % -1").same(0));
}

TEST_CASE("Expression: sizes, of symbols and of the values that bind them") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  Arena arena;
  const Dim s = env.make_symbol(6, "s"), u = env.make_symbol(std::nullopt, "u");
  const std::map<std::string, Arg> names = {{"s", s}, {"i0", arena.make_value(NumberType{NumberKind::Int, u})}};
  CHECK(value("2*s + 1", names).same(2 * s + 1));
  CHECK(value("((s + i0) // (2))", names).same(floordiv(s + u, 2)));
  const Dim least = std::numeric_limits<int64_t>::min();
  for (const Dim& d : {s * least, s + least, u * s + least * u + least})
    CHECK(value(d.str(), {{"s", s}, {"u", u}}).same(d));
  CHECK(value("i0", names).is_value());
  CHECK(value("-i0", names).same(-u));
  CHECK(value("i0 - i0", names).same(0));
}

TEST_CASE("Expression: a maximum that was printed undecided stays so") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  const Dim s = env.make_symbol(6, "s"), t = env.make_symbol(5, "t");
  CHECK(value("max(s, t + 1)", {{"s", s}, {"t", t}}).dim().str() == "max(s, t + 1)");
  CHECK(value("min(s, t)", {{"s", s}, {"t", t}}).dim().str() == "min(s, t)");
  CHECK(env.guards().empty());
}

TEST_CASE("Expression: containers, where a comma makes a tuple") {
  CHECK(value("()").same(Arg::tuple({})));
  CHECK(value("(1)").same(1));
  CHECK(value("(1,)").same(Arg::tuple({1})));
  CHECK(value("(1, 2)").same(Arg::tuple({1, 2})));
  CHECK(value("[]").same(Arg::list({})));
  CHECK(value("[1, [2,],]").same(Arg::list({1, Arg::list({2})})));
  CHECK(value("{}").same(Arg::dict({})));
  CHECK(value("{'a': 1, 2: (3,),}").same(Arg::dict({{"a", 1}, {2, Arg::tuple({3})}})));
}

TEST_CASE("Expression: without brackets, and up to a bracket") {
  const auto open = [](std::string_view text) { return Line(text).expression().parse_open(); };
  CHECK(open("1").same(1));
  CHECK(open("1,").same(Arg::tuple({1})));
  CHECK(open("1, 2").same(Arg::tuple({1, 2})));
  CHECK(open("1, 2 # a comment").same(Arg::tuple({1, 2})));
  Line line("1, 2,) 3");
  bool trailing = false;
  CHECK(Arg::list(line.expression().items(")", &trailing)).same(Arg::list({1, 2})));
  CHECK(trailing);
  CHECK(line.cursor.peek().text == "3");
  Line none("] x");
  CHECK(none.expression().items("]", &trailing).empty());
  CHECK_FALSE(trailing);
  Line sizes("2, 1 + 2]");
  CHECK(str(sizes.expression().dims("]")) == "[2, 3]");
  Line size("2 * 3");
  CHECK(size.expression().dim().same(6));
}

TEST_CASE("Expression: a name means what the place says, dots included") {
  CHECK(value("group_0", {{"group_0", "found"}}).same("found"));
  CHECK(value("torch.float32", {{"torch.float32", DType::f32}}).same(DType::f32));
  CHECK(value("[a, a]", {{"a", 1}}).same(Arg::list({1, 1})));
  CHECK(value_error("missing") == "no name 'missing'");
}

// `open` n times, (1), `close` n times.
std::string nested(size_t n, const std::string& open, const std::string& close) {
  std::string text;
  for (size_t i = 0; i < n; ++i) text += open;
  text += "(1)";
  for (size_t i = 0; i < n; ++i) text += close;
  return text;
}

TEST_CASE("Expression: what is nested deeper than the stack holds is an error") {
  const std::string too_deep = "more than 500 levels are nested here";
  for (const auto& [open, close] : {std::pair<std::string, std::string>{"[", "]"},
                                    {"(", ")"},
                                    {"{", ": 1}"},
                                    {"{1: ", "}"},
                                    {"max(", ", 1)"},
                                    {"slice(1, 2, ", ")"},
                                    {"- ", ""},
                                    {"+", ""}}) {
    CAPTURE(open);
    CHECK(value_error(nested(300000, open, "")) == too_deep);
    CHECK(value_error(nested(Nesting::kMost - 1, open, close)) == too_deep);
    CHECK_NOTHROW(value(nested(Nesting::kMost - 2, open, close)));
  }
  CHECK(value(nested(300, "(", ")")).same(1));  // the levels of the texts before are left
}

TEST_CASE("Expression: more quotients of quotients than the stack holds are an error") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  const std::map<std::string, Arg> names = {{"s", env.make_symbol(6, "s")}};
  const auto chain = [](size_t n, const char* op) {
    std::string text = "s";
    for (size_t i = 0; i < n; ++i) text += op;
    return text;
  };
  for (const char* op : {" // 3", " % 3"}) {
    CHECK(error_of([&] { value(chain(300000, op), names); }) ==
          "[parse] line 3: more than 5000 quotients and remainders of symbolic sizes");
    CHECK_NOTHROW(value(chain(Expression::kMostQuotients, op), names));
  }
  CHECK(value("9" + chain(10000, " // 1").substr(1)).same(9));  // integers are computed at once
}

TEST_CASE("Nesting: an error beyond the most levels, until one is left") {
  std::vector<std::unique_ptr<Nesting>> levels;
  while (levels.size() < Nesting::kMost) levels.push_back(std::make_unique<Nesting>(7));
  for (int i = 0; i < 2; ++i)
    CHECK(error_of([] { Nesting(7); }) == "[parse] line 7: more than 500 levels are nested here");
  levels.pop_back();
  CHECK_NOTHROW(Nesting(7));
}

TEST_CASE("Expression: what is no expression is an error that says what was expected") {
  CHECK(value_error("") == "expected a value, found the end of the line");
  CHECK(value_error(")") == "expected a value, found ')'");
  CHECK(value_error("[1 2]") == "expected ',' or ']', found '2'");
  CHECK(value_error("(1, 2") == "expected ',' or ')', found the end of the line");
  CHECK(value_error("[1,") == "expected a value, found the end of the line");
  CHECK(value_error("{1}") == "expected ':', found '}'");
  CHECK(value_error("{1: 2 3: 4}") == "expected ',' or '}', found '3'");
  CHECK(value_error("1 +") == "expected a value, found the end of the line");
  CHECK(value_error("9223372036854775808") == "9223372036854775808 does not fit into 64 bits");
  CHECK(value_error("1e999") == "1e999 is no double");
  CHECK(value_error("1 // 0") == "division by zero");
  CHECK(value_error("1 % (2 - 2)") == "division by zero");
  const std::string large = " is too large for a symbolic integer";
  CHECK(value_error("-9223372036854775808 // -1") == "[size] -9223372036854775808 // -1" + large);
  CHECK(value_error("- -9223372036854775808") == "[size] -9223372036854775808 * -1" + large);
  CHECK(value_error("9223372036854775807 + 1") == "[size] 9223372036854775807 + 1" + large);
  CHECK(value_error("9223372036854775807 * 2") == "[size] 9223372036854775807 * 2" + large);
  CHECK(value_error("1.5 * 2") == "expected an int or a symbolic size");
  CHECK(value_error("'a' + 1") == "expected an int or a symbolic size");
  CHECK(value_error("1.5 + 'a'") == "'+' and '-' are for sizes and the parts of a complex number");
  CHECK(value_error("f(1)") == "this call of 'f' is not understood: an argument is a literal or a name");
  CHECK(value_error("max(1)") == "this call of 'max' is not understood: an argument is a literal or a name");
  CHECK(value_error("float('1')") == "this call of 'float' is not understood: an argument is a literal or a name");
  CHECK(value_error("torch.device('cuda:x')") == "[device] Invalid device string: 'cuda:x'");
}

}  // namespace
}  // namespace thunder
