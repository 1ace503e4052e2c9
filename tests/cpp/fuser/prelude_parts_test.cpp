#include "fuser/prelude_parts.h"

#include <doctest.h>

#include <string>

#include "fuser/emit_common.h"
#include "runtime/kernels/host_compiler.h"

namespace thunder {
namespace {

using fuser::divide_prelude;
using fuser::PreludeParts;
using fuser::used_part;

std::string used(const std::string& prelude, const std::string& kernels) {
  return used_part(divide_prelude(prelude), kernels);
}

TEST_CASE("prelude_parts: kernels that use nothing have nothing") {
  CHECK(used("", "").empty());
  CHECK(used("", "f();").empty());
  CHECK(used("int f();\nstruct S { int x; };\n#define M 1\n", "").empty());
  CHECK(used("int f();", "int fg = f2; // f\n/* f */ const char* s = \"f\"; char c = 'f';").empty());
  CHECK(used("int f();", "0x1f + 1.0f + 1e-3f + 0x1p+2f + 1'000f").empty());
  CHECK(used("int f();", "1'0 + f() + '0'") == "int f();\n");
}

TEST_CASE("prelude_parts: what an item names comes with it, in the order of the prelude") {
  const std::string prelude =
      "typedef unsigned char byte; typedef unsigned int word;  // byte, word\n"
      "#define FN static \\\n  inline\n"
      "struct S { word at[4]; };\n"
      "FN S g(int x) { return {word(x), x ? ';' : '}'}; }\n"
      "FN word f(int x) { if (x) { x = 1; } return g(x).at[0]; }\n"
      "FN byte h() { return 1; }\n"
      "constexpr int table[2] = {1, 2}; static byte count;\n";
  CHECK(used(prelude, "int y = f(1);") ==
        "typedef unsigned int word;\n"
        "#define FN static \\\n  inline\n"
        "struct S { word at[4]; };\n"
        "FN S g(int x) { return {word(x), x ? ';' : '}'}; }\n"
        "FN word f(int x) { if (x) { x = 1; } return g(x).at[0]; }\n");
  CHECK(used(prelude, "table[0]") == "constexpr int table[2] = {1, 2};\n");
  CHECK(used(prelude, "++count;") == "typedef unsigned char byte;\nstatic byte count;\n");
}

TEST_CASE("prelude_parts: items that name each other") {
  const std::string prelude =
      "int f(int x);\nint g(int x) { return f(x); }\nint f(int x) { return x ? g(x - 1) : 0; }\n";
  CHECK(used(prelude, "f") == prelude);
  CHECK(used(prelude, "g") == prelude);
}

TEST_CASE("prelude_parts: overloads and specialisations stay together") {
  const std::string overloads =
      "template <class T> T f(T x) { return x; }\n"
      "template <> int f<int>(int x) { return x + 1; }\n"
      "typename A::type* f(A x);\n"
      "B<C<int>, 2> f(B<int, 2>& x);\n";
  CHECK(used(overloads + "int g();\n", "f(1)") == overloads);
  const std::string types =
      "template <class T> struct R;\n"
      "template <> struct R<float> { static float of() { return 1; } };\n"
      "template <class T, int N> struct alignas(N > 4 ? 4 : N) V { T at[N]; };\n";
  CHECK(used(types, "V<int, 2> v;") == types.substr(types.rfind("template")));
  CHECK(used(types, "R<float>::of()") == types.substr(0, types.rfind("template")));
}

TEST_CASE("prelude_parts: names that macros make") {
  const std::string unary =
      "#define UNARY(NAME) extern \"C\" float NAME##f(float); FN float th_##NAME(float x) { return NAME##f(x); }\n";
  const std::string prelude =
      "#define FN static inline\n" + unary + "UNARY(sin) UNARY(cos)\nfloat g(float x) { return cosf(x); }\n";
  CHECK(used(prelude, "th_sin(x)") == "#define FN static inline\n" + unary + "UNARY(sin)\n");
  CHECK(used(prelude, "sinf(x)") == used(prelude, "th_sin(x)"));
  CHECK(used(prelude, "g(x)") ==
        "#define FN static inline\n" + unary + "UNARY(cos)\nfloat g(float x) { return cosf(x); }\n");
  CHECK(used(prelude, "UNARY(tan)") == "#define FN static inline\n" + unary);
}

TEST_CASE("prelude_parts: names that a macro makes where it is used") {
  const std::string prelude =
      "int f_1(int); int f_2(int, int); int g_1(int);\n"
      "#define CALL(NAME, N, ...) NAME##_##N(__VA_ARGS__)\n"
      "#define twice(...) f_2(__VA_ARGS__, limit)\n"
      "const int limit = 2;\n"
      "int h(int x) { return CALL(g, 1, (x, 1)); }\n";
  const std::string call = "#define CALL(NAME, N, ...) NAME##_##N(__VA_ARGS__)\n";
  CHECK(used(prelude, "CALL(f, 2, 3, 4)") == "int f_2(int, int);\n" + call);
  CHECK(used(prelude, "h(1)") == "int g_1(int);\n" + call + "int h(int x) { return CALL(g, 1, (x, 1)); }\n");
  CHECK(used(prelude, "twice(1)") ==
        "int f_2(int, int);\n#define twice(...) f_2(__VA_ARGS__, limit)\nconst int limit = 2;\n");
  CHECK(used("#define SELF(x) x##1 + SELF(x)\nint a1;\n", "SELF(a)") == "#define SELF(x) x##1 + SELF(x)\nint a1;\n");
}

TEST_CASE("prelude_parts: a conditional is one item, with all that its sides define") {
  const std::string conditional =
      "#if defined(FAST)\nint f() {\n#ifdef FASTER\n  return 2;\n#endif\n  return 1; }\n#else\n#define f() "
      "g()\n#endif\n";
  const std::string prelude = "#define FAST\nint g();\nint h();\n" + conditional;
  CHECK(used(prelude, "f()") == "#define FAST\nint g();\n" + conditional);
  CHECK(used(prelude, "h()") == "int h();\n");
}

TEST_CASE("prelude_parts: what has no name that is recognised stays") {
  for (const std::string item :
       {"static_assert(sizeof(int) == 4);", "enum { A, B };", "int a, b;", "typedef int (*F)(int);", "using I = int;",
        "namespace n { int f(); }", "bool operator<(S a, S b) { return a.x < b.x; }", "int S::f() { return 1; }",
        "extern \"C\" { int f(); }", "template struct R<int>;", "#pragma once", "#undef M",
        "#if M\nint g();\nenum { A };\n#endif"}) {
    CHECK(used("int k();\n" + item + "\nint l();\n", "k()") == "int k();\n" + item + "\n");
  }
  CHECK(used("struct S { int x; };\nbool operator<(S a, S b) { return a.x < b.x; }\n", "") ==
        "struct S { int x; };\nbool operator<(S a, S b) { return a.x < b.x; }\n");
}

TEST_CASE("prelude_parts: for each name of the host's prelude there is a part that compiles") {
  const PreludeParts parts = divide_prelude(fuser::host_prelude() + fuser::host_functions());
  std::string source, macros;
  for (const PreludeParts::Item& item : parts.items) {
    CHECK_MESSAGE(!item.names.empty(), item.text);
    if (item.text.starts_with("#define")) macros += "#undef " + item.names.front() + "\n";
  }
  for (const auto& [name, items] : parts.by_name) {
    const std::string part = used_part(parts, name);
    for (size_t i : items) CHECK_MESSAGE(part.find(parts.items[i].text) != part.npos, name);
    source += "namespace of_" + name + " {\n" + part + "}\n" + macros;
  }
  if (host_compiler_command().empty()) return;
  std::string error;
  CHECK_MESSAGE(compile_host(source, &error), error);
}

TEST_CASE("prelude_parts: a kernel's source is no longer than it takes") {
  CHECK(fuser::host_source("").empty());
  const std::string kernel = "extern \"C\" int64 f(int64 x) { return th_wrapped(x, 2); }\n";
  CHECK(fuser::host_source(kernel) ==
        "typedef long long int64;\n"
        "static inline int64 th_wrapped(int64 i, int64 n) { return i < 0 ? i + n : i; }\n" +
            kernel);
}

TEST_CASE("prelude_parts: each way to join elements has a function in both preludes") {
  for (Combine c : {Combine::Add, Combine::Mul, Combine::Max, Combine::Min, Combine::Or, Combine::And}) {
    const std::string name = fuser::combine_function(c);
    CAPTURE(name);
    CHECK(fuser::host_prelude().find(" " + name + "(T a, T b)") != std::string::npos);
    CHECK(fuser::cuda_prelude().find(" " + name + "(T a, T b)") != std::string::npos);
  }
}

}  // namespace
}  // namespace thunder
