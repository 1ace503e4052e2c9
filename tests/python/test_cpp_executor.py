"""examples/cpp_executor: an executor in C++ that is built against the installed package, outside of the tree."""

import ctypes
import fcntl
import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest
import torch
from test_build import tool
from torch.utils._python_dispatch import TorchDispatchMode

import thunder
import thunder.executors
from thunder import _C

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "cpp_executor"
INSTALLED = pathlib.Path(_C.__file__).parent
cross_entropy = torch.nn.functional.cross_entropy


# Executors that cannot be loaded: a header, and what makes the executor. Most need no header of PyTorch.
SMALL = {
    "taken": ("core/error.h", 'return std::make_shared<thunder::Executor>("fuser");'),
    "empty": ("core/error.h", "return nullptr;"),
    "throws": (
        "core/error.h",
        'THUNDER_CHECK(false, NotImplemented, "throws", "this machine has ", 0, " of the devices");\n  return nullptr;',
    ),
    "lowers": ("runtime/instruction.h", 'thunder::register_lowering("aten", nullptr);\n  return nullptr;'),
}
SOURCE = """
#include "{header}"
#include "executors/plugin.h"

static std::shared_ptr<thunder::Executor> make() {{
  {body}
}}
static thunder::ExecutorDefinition definition() {{ return {{.make = make}}; }}
THUNDER_EXECUTOR(definition);
"""
PROJECT = """
cmake_minimum_required(VERSION 3.26)
project(small LANGUAGES CXX)
find_package(Thunder {version} CONFIG REQUIRED)
foreach(name {names})
  add_library(${{name}} MODULE ${{name}}.cpp)
  target_link_libraries(${{name}} PRIVATE Thunder::thunder)
endforeach()
"""


def cmake(*arguments):
    return subprocess.run([sys.executable, "-m", "cmake", *arguments], capture_output=True, text=True, timeout=300)


def once(factory, name, build):
    """A folder that build() fills, in one of the processes of a run of the tests."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "built").exists():
            build(folder)
            (folder / "built").touch()
    return folder


def build_example(folder):
    """By its own program."""
    spec = importlib.util.spec_from_file_location("run", EXAMPLE / "run.py")
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    assert run.build(folder) == folder / "libfused_loss.so"


def build_small(folder):
    for name, (header, body) in SMALL.items():
        (folder / f"{name}.cpp").write_text(SOURCE.format(header=header, body=body))
    (folder / "CMakeLists.txt").write_text(PROJECT.format(version=thunder.__version__, names=" ".join(SMALL)))
    options = [f"-DPython_EXECUTABLE={sys.executable}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
    done = cmake("-S", folder, "-B", folder, *options, f"-DThunder_DIR={thunder.executors.cmake_path()}")
    assert done.returncode == 0, done.stderr
    done = cmake("--build", folder, "--parallel", "2")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return once(tmp_path_factory, "fused_loss", build_example) / "libfused_loss.so"


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The folder of the libraries that cannot be loaded."""
    return once(tmp_path_factory, "small_executors", build_small)


@pytest.fixture
def fused_loss(library):
    """Loaded for one test: other tests have the default list that they know."""
    executor = thunder.executors.load(library)
    yield executor
    thunder.extend.deregister_executor(executor)


def inputs(rows=6, classes=37, scale=1.0):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(rows, classes, generator=generator) * scale
    return logits.requires_grad_(), torch.randint(0, classes, (rows,), generator=generator)


def step(f, logits, *rest):
    result = f(logits, *rest)
    return result, torch.autograd.grad(result, logits)[0]


@pytest.mark.parametrize("classes", [1, 15, 16, 37, 1000])
@pytest.mark.parametrize("scale", [1.0, 50.0])
def test_results_and_gradients(fused_loss, classes, scale):
    def f(logits, target):
        return cross_entropy(logits * 2, target) * 3

    f_compiled = thunder.jit(f, executors=["fused_loss", "fuser"])
    arguments = inputs(classes=classes, scale=scale)
    torch.testing.assert_close(step(f_compiled, *arguments), step(f, *arguments))


@pytest.mark.parametrize("ignored", [-100, 3])
def test_rows_that_are_ignored(fused_loss, ignored):
    def f(logits, target):
        return cross_entropy(logits, target, ignore_index=ignored)

    logits, target = inputs()
    for rows in ([0, 4], range(6)):  # of the mean of no rows nothing is known
        target[rows] = ignored
        torch.testing.assert_close(
            step(thunder.jit(f, executors=["fused_loss"]), logits, target), step(f, logits, target), equal_nan=True
        )


def test_sizes_that_vary(fused_loss):
    f = thunder.jit(cross_entropy, executors=["fused_loss"], cache="symbolic values")
    for rows, classes in [(6, 37), (9, 40), (3, 17)]:
        arguments = inputs(rows, classes)
        torch.testing.assert_close(step(f, *arguments), step(cross_entropy, *arguments))
    assert thunder.cache_misses(f) == 1
    assert "cross_entropy_forward(" in str(thunder.last_traces(f)[-1])


def test_many_rows_in_several_threads(fused_loss):
    arguments = inputs(rows=3000, classes=50)
    compiled = thunder.jit(cross_entropy, executors=["fused_loss"])
    torch.testing.assert_close(step(compiled, *arguments), step(cross_entropy, *arguments))


def test_logits_of_minus_infinity(fused_loss):
    logits, target = inputs()
    logits = logits.detach().masked_fill(torch.arange(37) % 3 == 0, -torch.inf).requires_grad_()
    target = target // 3 * 3 + 1
    compiled = thunder.jit(cross_entropy, executors=["fused_loss"])
    torch.testing.assert_close(step(compiled, logits, target), step(cross_entropy, logits, target))


def test_the_programs_have_its_operators(fused_loss):
    f = thunder.jit(cross_entropy, executors=["fused_loss"])
    f(*inputs())
    assert "cross_entropy_forward(" in str(thunder.last_traces(f)[-1])
    assert "cross_entropy_backward(" in str(thunder.last_backward_traces(f)[-1])
    assert "log_softmax" not in str(thunder.last_traces(f)[-1])


@pytest.mark.parametrize(
    "options", [{"label_smoothing": 0.1}, {"reduction": "sum"}, {"weight": torch.ones(37)}], ids=lambda o: [*o][0]
)
def test_other_calls_are_left_to_others(fused_loss, options):
    f = thunder.jit(lambda *a: cross_entropy(*a, **options), executors=["fused_loss"])
    arguments = inputs()
    torch.testing.assert_close(f(*arguments), cross_entropy(*arguments, **options))
    assert "cross_entropy_forward(" not in str(thunder.last_traces(f)[-1])


def test_it_stands_in_the_default_list_by_its_rank(library):
    # In a process of its own: tests before this one may have changed the order of the list.
    program = (
        f"import thunder.executors; thunder.executors.load({str(library)!r}); "
        "print(*(e.name for e in thunder.get_default_executors()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    names = done.stdout.split()
    assert names[names.index("rows") : names.index("cublaslt") + 1] == ["rows", "fused_loss", "cublaslt"], done.stderr


def test_it_is_found_by_its_name(fused_loss):
    assert "fused_loss" in thunder.extend.list_executors()
    assert thunder.get_executor("fused_loss") is fused_loss and fused_loss.version == "0.1"


def test_the_default_list_uses_it(fused_loss):
    f = thunder.jit(cross_entropy)
    arguments = inputs()
    torch.testing.assert_close(step(f, *arguments), step(cross_entropy, *arguments))
    assert "cross_entropy_forward(" in str(thunder.last_traces(f)[-1])


def test_the_same_library_gives_the_same_executor(fused_loss, library):
    thunder.extend.deregister_executor(fused_loss)
    assert thunder.get_executor("fused_loss") is None
    assert thunder.executors.load(library) is fused_loss
    assert [e.name for e in thunder.get_default_executors()].count("fused_loss") == 1


def test_an_exception_of_a_kernel_has_its_class(fused_loss):
    f = thunder.jit(cross_entropy, executors=["fused_loss"])
    logits, target = inputs()
    f(logits, target)
    target[3] = 99
    with pytest.raises(IndexError, match=r"\[cross_entropy\] Target 99 is out of bounds for 37 classes\."):
        f(logits, target)
    with pytest.raises(IndexError, match="Target 99 is out of bounds"):
        cross_entropy(logits, target)


def test_an_exception_while_it_is_made_has_its_class(small):
    for _ in range(2):  # what failed is not taken for loaded
        with pytest.raises(NotImplementedError, match=r"\[throws\] this machine has 0 of the devices"):
            thunder.executors.load(small / "libthrows.so")


@pytest.mark.parametrize(
    "built_for, other",
    [
        (f"Thunder {thunder.__version__}", "Thunder 9.9.9"),
        ("(headers ", "(headers*"),
        (f"PyTorch {torch.__version__.partition('+')[0]}", "PyTorch 2.00.0"),
        ("CXX11_ABI=1", "CXX11_ABI=0"),
    ],
)
def test_a_library_for_another_version_is_refused(library, tmp_path, built_for, other):
    """Before its code runs: what follows the mark is the same as before."""
    code = library.read_bytes()
    assert code.count(built_for.encode()) == 1 and len(built_for) == len(other)
    wrong = tmp_path / "libwrong.so"
    wrong.write_bytes(code.replace(built_for.encode(), other.encode()))
    before = thunder.get_all_executors()
    with pytest.raises(ImportError) as caught:
        thunder.executors.load(wrong)
    theirs, ours = str(caught.value).split(", and this is ")
    assert theirs.startswith(f"[executors] {wrong} was built for Thunder ") and other in theirs
    assert built_for in ours and thunder.get_all_executors() == before


def test_what_is_no_executor_is_refused(small, tmp_path):
    text = tmp_path / "text.so"
    text.write_text("thunder")
    for path, why in [
        (_C.__file__, "has no THUNDER_EXECUTOR"),
        (text, "has no THUNDER_EXECUTOR"),
        (tmp_path / "none.so", "there is no file"),
        (small / "libtaken.so", "the name 'fuser' is taken by Thunder itself"),
        (small / "liblowers.so", "the name 'aten' is taken by Thunder itself"),
        (small / "libempty.so", "makes no executor"),
    ]:
        with pytest.raises(ImportError, match=why):
            thunder.executors.load(path)
    assert thunder.jit(torch.sin)(torch.zeros(2)).tolist() == [0, 0]


def test_a_file_that_the_linker_refuses_is_an_import_error(library, tmp_path):
    code, mark = library.read_bytes(), b"thunder executor, built for: "
    start = code.index(mark)
    (tmp_path / "libtext.so").write_bytes(bytes(4096) + code[start : code.index(b"\0", start) + 1])
    with pytest.raises(ImportError, match=r"\[executors\] cannot load .*libtext\.so: .*ELF"):
        thunder.executors.load(tmp_path / "libtext.so")


def test_builds_use_the_installed_headers(small):
    used = (small / "compile_commands.json").read_text()
    assert used.count(str(INSTALLED / "include")) == len(SMALL) and str(ROOT / "csrc") not in used


def test_another_version_of_the_package_is_not_found(tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(PROJECT.format(version="9.9.9", names=""))
    package = f"-DThunder_DIR={thunder.executors.cmake_path()}"
    done = cmake("-S", tmp_path, "-B", tmp_path, f"-DPython_EXECUTABLE={sys.executable}", package)
    assert done.returncode != 0 and f"version: {thunder.__version__}" in done.stderr


def test_the_folder_is_printed():
    done = subprocess.run([sys.executable, "-m", "thunder", "--cmake_dir"], capture_output=True, text=True, timeout=120)
    assert done.stdout == str(INSTALLED / "cmake") + "\n"


def test_a_mode_sees_operators_of_pytorch(fused_loss):
    seen = []

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    logits, target = inputs()
    loss = thunder.jit(cross_entropy, executors=["fused_loss"])(logits, target)
    with Seen():
        (gradient,) = torch.autograd.grad(loss, logits)
    assert "aten.nll_loss_backward.default" in seen
    torch.testing.assert_close(gradient, step(cross_entropy, logits, target)[1])


def test_the_extension_exports_what_the_headers_declare():
    library = ctypes.CDLL(_C.__file__)
    exported = ["_ZN7thunder8Registry8instanceEv", "_ZTVN7thunder8ExecutorE", "_ZNK7thunder7Operand4loadERNS_5FrameE"]
    hidden = ["_ZN7thunder7Program5buildERKNS_5TraceE", "_ZN7thunder11JitFunctionC1Ev"]
    assert [name for name in exported if not hasattr(library, name)] == []
    assert [name for name in hidden if hasattr(library, name)] == []


def test_symbols_and_what_declares_them():
    exports = tool("exports")
    declared = exports.declared({"a.h": "namespace thunder::ops { class A; int f(); // B\nstruct C { A g(); }; }"})
    yes = ["_ZN7thunder3ops1fEv", "_ZNK7thunder3ops1C1gEv", "_ZN7thunder3ops1CC1Ev", "_ZTVN7thunder3ops1AE"]
    no = ["_ZN7thunder3ops1BC1Ev", "_ZN7thunder3ops1hEv", "_ZN7thunder3jit1fEv", "_ZTVN7thunder3ops1fE", "_ZN3ops1fEv"]
    assert list(map(declared, yes + no)) == [True] * len(yes) + [False] * len(no)


def test_the_hash_is_that_of_code():
    identity = tool("exports").identity
    first, second, third = (
        identity({"a.h": text}, "1.2", "3.4") for text in ("int a;  // b", "int  a; /* c */", "int b;")
    )
    assert first == second != third and '"Thunder 1.2 (headers ' in first and ', PyTorch 3.4"' in first


def test_a_header_that_includes_one_that_is_not_installed_ends_the_build(tmp_path):
    (tmp_path / "a.h").write_text('#include "b.h"\n')
    (tmp_path / "b.h").write_text("#include <map>\n")
    read = tool("exports").read
    assert sorted(read(tmp_path, ["a.h", "b.h"])) == ["a.h", "b.h"]
    with pytest.raises(SystemExit, match="csrc/a.h is installed and includes b.h, which THUNDER_HEADERS lacks"):
        read(tmp_path, ["a.h"])
