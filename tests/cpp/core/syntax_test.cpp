// What printer and parser agree on: Python's literals, tokens, names, and how a call finds its operator.
#include "core/syntax.h"

#include <limits>

#include "core/test_ops.h"

namespace thunder {
namespace {

using namespace syntax;
using test::f32;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// ---- literals -------------------------------------------------------------------------------------------------------

TEST_CASE("repr: floats are Python's") {
  CHECK(repr(1.0) == "1.0");
  CHECK(repr(0.0) == "0.0");
  CHECK(repr(-0.0) == "-0.0");
  CHECK(repr(0.1) == "0.1");
  CHECK(repr(4096.0) == "4096.0");
  CHECK(repr(0.08838834764831843) == "0.08838834764831843");
  CHECK(repr(0.0001) == "0.0001");
  CHECK(repr(0.00001) == "1e-05");
  CHECK(repr(1.5e-7) == "1.5e-07");
  CHECK(repr(1e15) == "1000000000000000.0");
  CHECK(repr(1e16) == "1e+16");
  CHECK(repr(-1.25e300) == "-1.25e+300");
  CHECK(repr(123456.789) == "123456.789");
  CHECK(repr(5e-324) == "5e-324");
  CHECK(repr(1.7976931348623157e308) == "1.7976931348623157e+308");
  CHECK(repr(kInf) == "float('inf')");
  CHECK(repr(-kInf) == "float('-inf')");
  CHECK(repr(kNan) == "float('nan')");
}

TEST_CASE("repr: complex numbers, spelled out where Python's literal would lose a sign") {
  using C = std::complex<double>;
  CHECK(repr(C(1, 2)) == "(1+2j)");
  CHECK(repr(C(-1.5, -2)) == "(-1.5-2j)");
  CHECK(repr(C(0, 2)) == "2j");
  CHECK(repr(C(0, 0)) == "0j");
  CHECK(repr(C(1e20, 1e-7)) == "(1e+20+1e-07j)");
  CHECK(repr(C(0, -2)) == "complex(0.0, -2.0)");
  CHECK(repr(C(-0.0, 2)) == "complex(-0.0, 2.0)");
  CHECK(repr(C(1, -0.0)) == "complex(1.0, -0.0)");
  CHECK(repr(C(kNan, kInf)) == "complex(float('nan'), float('inf'))");
}

TEST_CASE("repr: strings are Python's") {
  CHECK(repr(std::string_view("sum")) == "'sum'");
  CHECK(repr(std::string_view("")) == "''");
  CHECK(repr(std::string_view("it's")) == "\"it's\"");
  CHECK(repr(std::string_view("say \"it's\"")) == "'say \"it\\'s\"'");
  CHECK(repr(std::string_view("a\\b\n\t\r")) == "'a\\\\b\\n\\t\\r'");
  CHECK(repr(std::string_view("\0\x1f\x7f", 3)) == "'\\x00\\x1f\\x7f'");
  CHECK(repr(std::string_view("Grüße € 😀")) == "'Grüße € 😀'");
  CHECK(repr(std::string_view("\xff\xc3")) == "'\\udcff\\udcc3'");
  CHECK(repr(std::string_view("\xed\xa0\x80")) == "'\\udced\\udca0\\udc80'");
}

TEST_CASE("is_identifier and is_keyword") {
  for (const char* text : {"a", "_", "t12", "a_B9", "match", "if"}) CHECK(is_identifier(text));
  for (const char* text : {"", "1a", "a.b", "a b", "a-", "ä"}) CHECK_FALSE(is_identifier(text));
  for (const char* text : {"None", "True", "False", "if", "lambda", "yield", "async"}) CHECK(is_keyword(text));
  // Those that Python takes as names in other places, and other spellings.
  for (const char* text : {"match", "case", "type", "_", "none", "If", "print", ""}) CHECK_FALSE(is_keyword(text));
}

// ---- tokens ---------------------------------------------------------------------------------------------------------

/// Each token as its kind's letter and its text: "n:x p:( e:".
std::string tokens(std::string_view line) {
  std::string out;
  for (const Token& t : tokenize(line)) {
    out += out.empty() ? "" : " ";
    out += "nifjspce"[t.kind];
    out += ":" + t.text;
  }
  return out;
}

// The message of the error, which is about the text.
std::string token_error(std::string_view line) {
  try {
    tokenize(line);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::Value);
    return e.what();
  }
  return "no error";
}

TEST_CASE("tokenize: the last token is the end") {
  CHECK(tokens("") == "e:");
  CHECK(tokens(" \t ") == "e:");
  CHECK(tokens("x") == "n:x e:");
}

TEST_CASE("tokenize: names and punctuation") {
  CHECK(tokens("t2 = torch.add(a, _b9)") == "n:t2 p:= n:torch p:. n:add p:( n:a p:, n:_b9 p:) e:");
  CHECK(tokens("a//b%c") == "n:a p:// n:b p:% n:c e:");
  CHECK(tokens("[...]{}:@*+-") == "p:[ p:... p:] p:{ p:} p:: p:@ p:* p:+ p:- e:");
  CHECK(tokens("....") == "p:... p:. e:");
}

TEST_CASE("tokenize: numbers") {
  CHECK(tokens("0 12 1.5 .5 2. 1e5 1E-05 1.5e+300") == "i:0 i:12 f:1.5 f:.5 f:2. f:1e5 f:1E-05 f:1.5e+300 e:");
  CHECK(tokens("2j 1.5j 1e-07j") == "j:2 j:1.5 j:1e-07 e:");
  CHECK(tokens("-1") == "p:- i:1 e:");
  CHECK(tokens("1-2") == "i:1 p:- i:2 e:");
  CHECK(tokens("1..2") == "f:1. f:.2 e:");
}

TEST_CASE("tokenize: a comment is what follows, to the end of the line") {
  CHECK(tokens("x  # t0: \"f32\" # more") == "n:x c: t0: \"f32\" # more e:");
  CHECK(tokens("#") == "c: e:");
  CHECK(tokens("'#'") == "s:# e:");
}

TEST_CASE("tokenize: strings, as what they denote") {
  CHECK(tokens("'a b'") == "s:a b e:");
  CHECK(tokens("\"it's\"") == "s:it's e:");
  CHECK(tokens("''") == "s: e:");
  CHECK(tokens(R"('\\ \' \" \n \t')") == "s:\\ ' \" \n \t e:");
  CHECK(tokens(R"('\x41\u00fc\U0001F600')") == "s:Aü😀 e:");
  CHECK(tokens(R"('\udcff')") == "s:\xff e:");
}

TEST_CASE("tokenize: an error says what is wrong, without a line number") {
  CHECK(token_error("a ? b") == "unexpected character '?'");
  CHECK(token_error("a / b") == "unexpected character '/'");
  CHECK(token_error("1x") == "'1x' is not a number");
  CHECK(token_error("1e") == "'1e' is not a number");
  CHECK(token_error("'open") == "a string is not closed");
  CHECK(token_error("'open\\'") == "a string is not closed");
  CHECK(token_error(R"('\q')") == "unknown escape '\\q' in a string");
  CHECK(token_error(R"('\x4')") == "unknown escape '\\x' in a string");
  CHECK(token_error(R"('\U00110000')") == "unknown escape '\\U' in a string");
}

// ---- types and operators --------------------------------------------------------------------------------------------

TEST_CASE("id_of_name: of the names that print makes") {
  CHECK(id_of_name("t0") == ValueId{0});
  CHECK(id_of_name("t12") == ValueId{12});
  for (const char* name : {"i1", "f1", "b1", "c1", "o1"}) CHECK(id_of_name(name) == ValueId{1});
  for (const char* name : {"", "t", "12", "x1", "t01", "t1x", "t-1", "t 1", "T1", "tt1"})
    CHECK(id_of_name(name) == std::nullopt);
}

TEST_CASE("kind_name: Python's names") {
  CHECK(kind_name(NumberKind::Bool) == "bool");
  CHECK(kind_name(NumberKind::Int) == "int");
  CHECK(kind_name(NumberKind::Float) == "float");
  CHECK(kind_name(NumberKind::Complex) == "complex");
}

TEST_CASE("row_major_strides: as contiguous_strides of constants, and asks nothing about symbolic sizes") {
  for (const Dims& shape : std::vector<Dims>{{}, {5}, {2, 3, 4}, {2, 1, 4}, {2, 0, 3}, {0}})
    CHECK(same(row_major_strides(shape), contiguous_strides(shape)));
  ShapeEnv env;
  const Dim s = env.make_symbol(6, "s"), u = env.make_symbol(std::nullopt, "u");
  const Dims outside = row_major_strides({s, u, 0, s});
  CHECK(same(outside, {u * s, s, s, 1}));
  ShapeEnv::Scope scope(env);
  CHECK(same(row_major_strides({s, u, 0, s}), outside));
  CHECK(env.guards().empty());
  CHECK_FALSE(env.assumed());
}

/// Operators with these schemas.
struct Candidates {
  explicit Candidates(const std::vector<const char*>& schemas) {
    for (const char* s : schemas)
      pointers.push_back(&arena.own(std::make_unique<Op>("t", OpDef{.schema = s, .doc = ""})));
  }
  Arena arena;
  std::vector<const Op*> pointers;
};

TEST_CASE("resolve: the first operator that takes the arguments") {
  const Candidates c({"f(Tensor a) -> Tensor", "f.i(int a) -> Tensor", "f.n(Number a, int b=3) -> Tensor"});
  const auto found = resolve(c.pointers, {2}, {});
  REQUIRE(found);
  CHECK(found->op == c.pointers[1]);
  CHECK(Arg::list(found->args).same(Arg::list({2})));
  const auto keyword = resolve(c.pointers, {}, {{"b", 4}, {"a", 2}});
  REQUIRE(keyword);
  CHECK(keyword->op == c.pointers[2]);
  CHECK(Arg::list(keyword->args).same(Arg::list({2, 4})));
}

TEST_CASE("resolve: arguments are those that were given, unlike what bind makes of them") {
  const Candidates c({"f(int[] a, float x, int[] ...rest) -> Tensor"});
  const auto as_given = [&](const ArgList& positional, const Keywords& keyword = {}) {
    const auto found = resolve(c.pointers, positional, keyword);
    REQUIRE(found);
    return Arg::list(found->args);
  };
  CHECK(as_given({Arg::tuple({1, 2}), 2, Arg::tuple({3})}).same(Arg::list({Arg::tuple({1, 2}), 2, Arg::tuple({3})})));
  CHECK(as_given({Arg::list({1}), true}, {{"rest", Arg::tuple({})}})
            .same(Arg::list({Arg::list({1}), true, Arg::tuple({})})));
  CHECK(as_given({Arg::list({1}), 1.0, 3, 4}).same(Arg::list({Arg::list({1}), 1.0, Arg::list({3, 4})})));
}

TEST_CASE("resolve: what verify would refuse can be read, if each argument has its place") {
  const Candidates c({"f(Tensor a, *, int b=3) -> Tensor"});
  const auto found = resolve(c.pointers, {"no tensor"}, {{"b", 1.5}});
  REQUIRE(found);
  CHECK(Arg::list(found->args).same(Arg::list({"no tensor", 1.5})));
  CHECK_FALSE(resolve(c.pointers, {"no tensor", 1.5}, {}));
  CHECK_FALSE(resolve(c.pointers, {}, {{"b", 1.5}}));
}

TEST_CASE("resolve: the reasons, where no operator takes the arguments") {
  const Candidates c({"f(Tensor a) -> Tensor", "f.i(int a, int b) -> Tensor"});
  std::string why;
  CHECK_FALSE(resolve(c.pointers, {1}, {{"d", 1}}, &why));
  CHECK(why == "f(): argument 'a' (position 1) has the wrong type; f() got an unexpected keyword argument 'd'");
  CHECK_FALSE(resolve(c.pointers, {1}, {{"d", 1}}));
  std::string of_none;
  CHECK_FALSE(resolve({}, {1}, {}, &of_none));
  CHECK(of_none.empty());
}

}  // namespace
}  // namespace thunder
