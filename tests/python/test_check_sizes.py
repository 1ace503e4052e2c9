"""tools/check_sizes.py finds what is too large, and reads C++ as a compiler would."""

import importlib.util
import pathlib

import pytest

TOOL = pathlib.Path(__file__).parents[2] / "tools" / "check_sizes.py"


@pytest.fixture(scope="module")
def sizes():
    spec = importlib.util.spec_from_file_location("check_sizes", TOOL)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


def functions(sizes, source):
    return {name: lines for name, _, lines in sizes.functions_and_classes(source)[0]}


def classes(sizes, source):
    return {name: methods for name, _, methods in sizes.functions_and_classes(source)[1]}


def function_of(lines, statement="  ++x;"):
    return "\n".join(["int f(int x) {", *[statement] * (lines - 2), "}", ""])


def class_of(methods):
    return "\n".join(["class C {", " public:", *(f"  int f{i}(int x) const;" for i in range(methods)), "};", ""])


def problems(sizes, tmp_path, files):
    """The lines that the tool prints of files in a tree of their own, and its exit status."""
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return sizes.main(tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("csrc/a.cpp", function_of(61), "csrc/a.cpp:1: f() has 61 lines, at most 60"),
        ("csrc/a.cpp", function_of(60), None),
        ("csrc/a.cpp", "namespace n {\n\n" + function_of(61) + "}\n", "csrc/a.cpp:3: f() has 61 lines, at most 60"),
        ("csrc/a.h", class_of(41), "csrc/a.h:1: C has 41 methods, at most 40"),
        ("csrc/a.h", class_of(40), None),
        ("csrc/a.h", "struct Outer {\n" + class_of(41) + "};\n", "csrc/a.h:2: C has 41 methods, at most 40"),
        ("thunder/a.py", "x = 1\n" * 601, "thunder/a.py: 601 lines, at most 600"),
        ("tests/python/a.py", "x = 1\n" * 600, None),
        ("csrc/a.inc", "1,\n" * 601, None),
        ("thunder/a.pyi", "x: int\n" * 601, None),
    ],
)
def test_found(sizes, tmp_path, capsys, name, text, said):
    status = problems(sizes, tmp_path, {name: text})
    found = capsys.readouterr().out.splitlines()[:-1]
    assert found == ([said] if said else [])
    assert status == (1 if said else 0)


@pytest.mark.parametrize(
    "statement",
    [
        '  use("}");',
        "  use('}');",
        "  use('\\'', '{');",
        "  // }",
        "  /* } */",
        '  use(R"(})");',
        '  use(R"x(}")x");',
        "  use(1'000'000, '{');",
        '  use("\\"}");',
        "  if (x) { ++x; }",
        "  auto g = [&](int y) { return y; };",
        "  std::vector<int> v{1, 2};",
    ],
)
def test_no_text_disturbs_the_braces(sizes, statement):
    source = function_of(61, statement) + "int g() { return 1; }\n"
    assert functions(sizes, source) == {"f": 61, "g": 1}


def test_preprocessor_lines_are_no_code(sizes):
    source = "#define OPEN {\n#define TWO \\\n  { {\n" + function_of(3)
    assert functions(sizes, source) == {"f": 3}


def test_a_text_of_several_lines_counts_as_one(sizes):
    kernel = "\n".join(["x += 1;"] * 100)
    source = 'const char* text() {\n  return R"(' + kernel + ')";\n}\n'
    assert functions(sizes, source) == {"text": 3}
    assert functions(sizes, function_of(61)) == {"f": 61}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("C::C(int x) : a_{x}, b_(x) {\n}\n", {"C": 2}),
        ("C::C(int x)\n    : a_(x),\n      b_(x) {}\n", {"C": 3}),
        ("template <class T>\nstd::vector<T> f(const std::map<int, T>& m) noexcept {\n}\n", {"f": 3}),
        ("auto f() -> std::vector<int> {\n}\n", {"f": 2}),
        ("bool C::operator()(int x) const {\n}\n", {"operator": 2}),
        ('extern "C" {\nint f() {\n}\n}\n', {"f": 2}),
        ("int x = f({1, 2});\nstd::vector<int> v{1, 2};\nint table[] = {1, 2};\n", {}),
        ("auto f = [](int x) {\n  return x;\n};\n", {}),
        ("enum class E { A, B };\nstruct S { int x = 0; } s;\n", {}),
        ("class C {\n  int f() {\n    return 1;\n  }\n};\n", {"f": 3}),
    ],
)
def test_functions(sizes, source, expected):
    assert functions(sizes, source) == expected


def test_methods(sizes):
    source = """
class C : public B {
 public:
  explicit C(int x) : x_(x) {}
  ~C();
  C(const C&) = delete;
  C& operator=(const C&) = delete;
  using Use = std::function<int(int)>;
  int declared(int x) const;
  int defined() const { return f(x_); }
  template <class F>
  auto generic(F&& f);
  friend bool operator==(const C& a, const C& b);
  bool operator()(int x) const;
  static_assert(sizeof(int) == 4);

 private:
  struct Inner {
    int own();
  };
  std::function<int(int)> call_;
  int x_ = f(1), y_{2};
};
"""
    assert classes(sizes, source) == {"C": 4, "Inner": 1}
