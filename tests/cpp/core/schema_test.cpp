// Schema strings, and the binding of arguments to them.
#include "core/schema.h"

#include <doctest.h>

#include <limits>

#include "core/error.h"
#include "core/errors.h"
#include "core/trace.h"

namespace thunder {
namespace {

using PK = Param::Kind;
using Keywords = std::vector<std::pair<std::string, Arg>>;

/// The only parameter of "f(<text>) -> None".
Param param(const std::string& text) { return Schema::parse("f(" + text + ") -> None").params.at(0); }

std::string error_of(std::string_view text) {
  return test::error_of(ErrorKind::Internal, [&] { Schema::parse(text); });
}

// ---- text -----------------------------------------------------------------------------------------------------------

TEST_CASE("schema: names, parameters and results") {
  const Schema s = Schema::parse("softmax(Tensor input, int? dim=None, *, dtype? dtype=None) -> Tensor");
  CHECK(s.name == "softmax");
  CHECK(s.overload == "");
  CHECK(s.results == "Tensor");
  REQUIRE(s.params.size() == 3);
  CHECK(s.params[0].name == "input");
  CHECK(s.params[0].kind == PK::Tensor);
  CHECK_FALSE((s.params[0].optional || s.params[0].keyword_only || s.params[0].default_value));
  CHECK(s.params[1].kind == PK::Int);
  CHECK((s.params[1].optional && !s.params[1].keyword_only));
  REQUIRE(s.params[1].default_value);
  CHECK(s.params[1].default_value->is_none());
  CHECK(s.params[2].kind == PK::DType);
  CHECK((s.params[2].optional && s.params[2].keyword_only));
  CHECK(s.index_of("input") == 0);
  CHECK(s.index_of("dtype") == 2);
  CHECK(s.index_of("") == -1);
  CHECK(s.index_of("inputs") == -1);
}

TEST_CASE("schema: an overload stands behind a dot, and there may be no parameter") {
  CHECK(Schema::parse("max.dim(Tensor a) -> (Tensor, Tensor)").overload == "dim");
  CHECK(Schema::parse("max.dim(Tensor a) -> (Tensor, Tensor)").results == "(Tensor, Tensor)");
  const Schema none = Schema::parse("f() -> None");
  CHECK(none.params.empty());
  CHECK(none.results == "None");
}

TEST_CASE("schema: each type by its name") {
  const std::pair<const char*, PK> types[] = {
      {"Tensor", PK::Tensor}, {"Number", PK::Number}, {"Scalar", PK::Scalar}, {"int", PK::Int},
      {"float", PK::Float},   {"bool", PK::Bool},     {"str", PK::Str},       {"dtype", PK::DType},
      {"device", PK::Device}, {"layout", PK::Layout}, {"index", PK::Index},   {"memory_format", PK::MemoryFormat},
      {"any", PK::Any}};
  for (const auto& [name, kind] : types) CHECK(param(std::string(name) + " a").kind == kind);
}

TEST_CASE("schema: suffixes") {
  const Param plain = param("int[] a"), twice = param("int[2] a"), strict = param("int[:] a"),
              optional = param("int[]? a"), varargs = param("int[] ...a");
  for (const Param& p : {plain, twice, strict, optional, varargs}) CHECK((p.list && p.name == "a"));
  CHECK((plain.repeat == 0 && !plain.strict && !plain.optional && !plain.varargs));
  CHECK(twice.repeat == 2);
  CHECK(strict.strict);
  CHECK(optional.optional);
  CHECK(varargs.varargs);
  CHECK_FALSE(param("int a").list);
}

TEST_CASE("schema: defaults") {
  const auto value = [](const std::string& text) { return param(text).default_value.value(); };
  CHECK(value("int a=-1").same(-1));
  CHECK(value("float a=1.0").same(1.0));
  CHECK(value("float a=1e-05").same(1e-5));
  CHECK(value("float a=-inf").same(-std::numeric_limits<double>::infinity()));
  CHECK(value("bool a=True").same(true));
  CHECK(value("bool a=False").same(false));
  CHECK(value("str a='mean, of all'").same("mean, of all"));
  CHECK(value("str a=''").same(""));
  CHECK(value("dtype a=torch.float32").same(DType::f32));
  CHECK(value("memory_format a=torch.contiguous_format").same(ConstantArg{"torch.contiguous_format"}));
  CHECK(value("int[] a=[]").same(Arg::list({})));
  CHECK(value("int[] a=[1, 2]").same(Arg::list({1, 2})));
  CHECK(value("int[] a=1").same(Arg::list({1})));
  CHECK(value("int[2] a=1").same(Arg::list({1, 1})));
  CHECK(value("int[]? a=None").is_none());
}

TEST_CASE("schema: what str writes is what parse reads") {
  for (std::string text :
       {"f() -> None", "softmax(Tensor input, int? dim=None, *, dtype? dtype=None) -> Tensor",
        "max.dim(Tensor a, int dim=-1) -> (Tensor, Tensor)", "view(Tensor a, int[] ...shape) -> Tensor",
        "pool(Tensor a, int[2] size, int[:] stride=[1, 2], bool ceil=False) -> Tensor[]",
        "g(*, str mode='sum', float eps=1e-05, dtype t=torch.float32, any x, index i, Scalar s) -> any",
        "h(float a=1.0, float b=0.3333333333333333, float c=1e+16, float d=-inf, Number e=0.0, Number f=0) -> None",
        "k(float[] a=[0.1, 1.0], memory_format m=torch.contiguous_format) -> (Tensor, Tensor[], any)"}) {
    CAPTURE(text);
    CHECK(Schema::parse(text).str() == text);
  }
}

TEST_CASE("schema: an error shows the text, the place and what is wrong") {
  CHECK(error_of("") == "schema '' at 0: a name is missing");
  CHECK(error_of("f") == "schema 'f' at 1: expected '('");
  CHECK(error_of("(Tensor a) -> Tensor") == "schema '(Tensor a) -> Tensor' at 0: a name is missing");
  CHECK(error_of("f(Tensor a)") == "schema 'f(Tensor a)' at 11: expected '->'");
  CHECK(error_of("f(tensor a) -> None") == "schema 'f(tensor a) -> None' at 8: unknown type 'tensor'");
  CHECK(error_of("f(Tensor) -> None").find("unknown type 'Tensor)'") != std::string::npos);
  CHECK(error_of("f(Tensor ) -> None") == "schema 'f(Tensor ) -> None' at 9: a parameter's name is missing");
  CHECK(error_of("f(Tensor a Tensor b) -> None").find("at 11: expected ','") != std::string::npos);
  CHECK(error_of("f(int a=x) -> None").find("cannot read the default 'x'") != std::string::npos);
  CHECK(error_of("f(int a=) -> None").find("cannot read the default ''") != std::string::npos);
  CHECK(error_of("f(int[ a) -> None").find("expected ']'") != std::string::npos);
  CHECK(error_of("f(str a='x) -> None").find("at 19: expected '''") != std::string::npos);
  CHECK(error_of("f(str a=') -> None").find("expected '''") != std::string::npos);
  CHECK(error_of("f(int a, *, int a) -> None").find("two parameters are named 'a'") != std::string::npos);
}

TEST_CASE("schema: the length of a list is a number above 0") {
  for (const char* length : {"x", "2x", "x2", "0", "-1", " ", "::", "99999999999"}) {
    CAPTURE(length);
    CHECK(error_of(cat("f(int[", length, "] a) -> None")).find(cat("'", length, "' is no length of a list")) !=
          std::string::npos);
  }
}

TEST_CASE("schema: a list is closed as it was opened, with commas between its items") {
  CHECK(param("int[] a=(1, 2)").default_value.value().same(Arg::list({1, 2})));
  CHECK(param("int[] a=[ 1, 2, ]").default_value.value().same(Arg::list({1, 2})));
  CHECK(error_of("f(int[] a=[1)) -> None").find("expected ','") != std::string::npos);
  CHECK(error_of("f(int[] a=(1]) -> None").find("expected ','") != std::string::npos);
  CHECK(error_of("f(int[] a=[1 2]) -> None").find("expected ','") != std::string::npos);
  CHECK(error_of("f(int[] a=[1, 2").find("expected ','") != std::string::npos);
}

TEST_CASE("schema: results are types of parameters, lists of them, several in brackets, or None") {
  for (const char* results :
       {"Tensor", "Tensor?", "Tensor[]", "(Tensor, Tensor)", "(any)", "(Tensor, Tensor[])", "any[]", "int", "None"}) {
    CAPTURE(results);
    CHECK(Schema::parse(cat("f() -> ", results)).results == results);
  }
  for (const char* results : {"", "nonsense", "tensor", "Tensor[", "Tensor[2]", "(Tensor", "(Tensor,)", "()", "Tensor,",
                              "(Tensor) x", "None[]", "(None)", "Tensor -> Tensor"}) {
    CAPTURE(results);
    CHECK(error_of(cat("f() -> ", results)).starts_with(cat("schema 'f() -> ", results, "' at ")));
  }
}

// ---- what a parameter takes -----------------------------------------------------------------------------------------

/// Arguments of every kind, by a letter each.
struct Samples {
  Arena arena;
  Value tensor = arena.make_value(TensorType{DType::f32, Device{}, {2}, {1}});
  Value int_value = arena.make_value(NumberType{NumberKind::Int, {}});
  Value float_value = arena.make_value(NumberType{NumberKind::Float, {}});
  std::vector<std::pair<char, Arg>> args = {{'n', nullptr},
                                            {'b', true},
                                            {'i', 1},
                                            {'f', 1.5},
                                            {'c', std::complex<double>(1, 2)},
                                            {'s', "cpu"},
                                            {'d', DType::f32},
                                            {'v', Device{}},
                                            {'k', ConstantArg{"torch.strided"}},
                                            {'t', tensor},
                                            {'I', int_value},
                                            {'F', float_value},
                                            {'l', Arg::list({1, 2})},
                                            {'u', Arg::tuple({1, 2})},
                                            {'L', Arg::list({tensor})},
                                            {'e', Arg::list({})}};

  std::string taken_by(const std::string& text) const {
    const Param p = param(text + " a");
    std::string out;
    for (const auto& [letter, arg] : args)
      if (accepts(p, arg)) out += letter;
    return out;
  }
};

TEST_CASE("accepts: each type takes its own") {
  const Samples s;
  CHECK(s.taken_by("Tensor") == "t");
  CHECK(s.taken_by("Number") == "bifcIF");
  CHECK(s.taken_by("Scalar") == "bifctIF");
  CHECK(s.taken_by("int") == "iI");
  CHECK(s.taken_by("float") == "bifIF");
  CHECK(s.taken_by("bool") == "b");
  CHECK(s.taken_by("str") == "s");
  CHECK(s.taken_by("dtype") == "d");
  CHECK(s.taken_by("device") == "isv");
  CHECK(s.taken_by("layout") == "k");
  CHECK(s.taken_by("memory_format") == "k");
  CHECK(s.taken_by("any") == "nbifcsdvktIFluLe");
  CHECK(s.taken_by("index") == "nbifcsdvktIFluLe");
}

TEST_CASE("accepts: None where it is optional") {
  const Samples s;
  CHECK(s.taken_by("Tensor?") == "nt");
  CHECK(s.taken_by("int[]?") == "niIlue");
}

TEST_CASE("accepts: lists by their items, a lone int unless the list is strict") {
  const Samples s;
  CHECK(s.taken_by("int[]") == "iIlue");
  CHECK(s.taken_by("int[2]") == "iIlue");
  CHECK(s.taken_by("int[:]") == "lue");
  CHECK(s.taken_by("Tensor[]") == "Le");
  CHECK(s.taken_by("str[]") == "e");
  const Param ints = param("int[] a");
  CHECK_FALSE(accepts(ints, Arg::list({1, 2.5})));
  CHECK_FALSE(accepts(ints, Arg::list({Arg::list({1})})));
  CHECK_FALSE(accepts(ints, Arg::list({1, nullptr})));
}

// ---- binding --------------------------------------------------------------------------------------------------------

/// The arguments as a tuple, or why there are none.
Arg bound(const char* schema, const ArgList& positional, const Keywords& keyword = {}) {
  std::string why;
  std::optional<ArgList> args = thunder::bind(Schema::parse(schema), positional, keyword, &why);
  CHECK(args.has_value() == why.empty());
  return args ? Arg::tuple(std::move(*args)) : Arg(why);
}

TEST_CASE("bind: one argument per parameter, in order, with defaults") {
  const char* f = "f(int a, int b=2, *, bool c=False) -> None";
  CHECK(bound(f, {1}).same(Arg::tuple({1, 2, false})));
  CHECK(bound(f, {1, 5}).same(Arg::tuple({1, 5, false})));
  CHECK(bound(f, {1}, {{"c", true}}).same(Arg::tuple({1, 2, true})));
  CHECK(bound(f, {}, {{"b", 7}, {"a", 6}}).same(Arg::tuple({6, 7, false})));
  CHECK(bound("f() -> None", {}).same(Arg::tuple({})));
}

TEST_CASE("bind: says why arguments do not fit") {
  const char* f = "f(int a, int b=2, *, bool c=False) -> None";
  CHECK(bound(f, {}).same("f() missing required argument 'a'"));
  CHECK(bound(f, {1, 2, true}).same("f() takes 2 positional arguments but 3 were given"));
  CHECK(bound(f, {1}, {{"d", 1}}).same("f() got an unexpected keyword argument 'd'"));
  CHECK(bound(f, {1}, {{"a", 1}}).same("f() got multiple values for argument 'a'"));
  CHECK(bound(f, {1}, {{"b", 1}, {"b", 2}}).same("f() got multiple values for argument 'b'"));
  CHECK(bound(f, {1.5}).same("f(): argument 'a' (position 1) has the wrong type"));
  CHECK(bound(f, {1, nullptr}).same("f(): argument 'b' (position 2) has the wrong type"));
  CHECK(bound(f, {1}, {{"c", 0}}).same("f(): argument 'c' has the wrong type"));
  CHECK(bound("f() -> None", {1}).same("f() takes 0 positional arguments but 1 were given"));
  CHECK_FALSE(thunder::bind(Schema::parse(f), {}, {}));  // nobody asks why
}

TEST_CASE("bind: an int where a list is declared") {
  CHECK(bound("f(int[] a) -> None", {3}).same(Arg::tuple({Arg::list({3})})));
  CHECK(bound("f(int[2] a) -> None", {3}).same(Arg::tuple({Arg::list({3, 3})})));
  CHECK(bound("f(int[2] a) -> None", {}, {{"a", 3}}).same(Arg::tuple({Arg::list({3, 3})})));
  CHECK(bound("f(int[2] a) -> None", {Arg::list({4})}).same(Arg::tuple({Arg::list({4})})));
  CHECK(bound("f(int[:] a) -> None", {3}).same("f(): argument 'a' (position 1) has the wrong type"));
  CHECK(bound("f(int[] a) -> None", {Arg::tuple({1, 2})}).same(Arg::tuple({Arg::list({1, 2})})));
  CHECK(bound("f(int[]? a) -> None", {nullptr}).same(Arg::tuple({nullptr})));
}

TEST_CASE("bind: variable arguments as a list or one by one") {
  const char* view = "view(int[] ...shape, *, bool copy=False) -> None";
  const Arg expected = Arg::tuple({Arg::list({2, 3}), false});
  CHECK(bound(view, {2, 3}).same(expected));
  CHECK(bound(view, {Arg::tuple({2, 3})}).same(expected));
  CHECK(bound(view, {}, {{"shape", Arg::list({2, 3})}}).same(expected));
  CHECK(bound(view, {2, 3}, {{"copy", true}}).same(Arg::tuple({Arg::list({2, 3}), true})));
  CHECK(bound(view, {Arg::list({})}).same(Arg::tuple({Arg::list({}), false})));
  CHECK(bound(view, {}).same("view() missing required argument 'shape'"));
  CHECK(bound(view, {2, "3"}).same("view(): argument 'shape' has the wrong type"));
  CHECK(bound(view, {2}, {{"shape", 3}}).same("view() got multiple values for argument 'shape'"));
}

TEST_CASE("bind: a device's text becomes a device, a number where a float is declared a float") {
  CHECK(bound("f(device d) -> None", {"cuda:1"}).same(Arg::tuple({Device{DeviceType::cuda, 1}})));
  CHECK(bound("f(device d) -> None", {2}).same(Arg::tuple({Device{DeviceType::cuda, 2}})));
  CHECK(bound("f(device d) -> None", {Device{}}).same(Arg::tuple({Device{}})));
  CHECK(bound("f(float x) -> None", {2}).same(Arg::tuple({2.0})));
  CHECK(bound("f(float x) -> None", {true}).same(Arg::tuple({1.0})));
  CHECK(bound("f(Number x) -> None", {2}).same(Arg::tuple({2})));
}

TEST_CASE("bind: a device that there cannot be is an error of PyTorch's kind, and no reason to try an overload") {
  const Schema f = Schema::parse("f(device d) -> None");
  const auto error = [&](const Arg& device) -> std::string {
    try {
      thunder::bind(f, {device}, {});
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::Runtime);
      return e.what();
    }
    return "no error";
  };
  CHECK(error("gpu").find("at start of device string: gpu") != std::string::npos);
  CHECK(error("cuda:01") == "[device] Invalid device string: 'cuda:01'");
  CHECK(error(-1) == "[device] Device index must not be negative");
  CHECK(error(70000) == "[device] there is no device 70000");
  CHECK(error(32767) == "no error");
}

}  // namespace
}  // namespace thunder
