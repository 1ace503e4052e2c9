"""What an extension says that does not fit, and what a build checks."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest
import torch

import thunder

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def import_error(before):
    program = f"import sys, torch\n{before}\ntry:\n    import thunder\nexcept ImportError as e:\n    print(e)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("version", ["2.12.1", "2.12.1+cpu", "2.14.0a0+git0123456"])
def test_an_extension_of_another_pytorch_is_an_import_error(version):
    said = import_error(f"torch.__version__ = {version!r}")
    assert f"compiled for PyTorch {torch.__version__}, and this is PyTorch {version} (" in said
    assert "pip install --no-build-isolation" in said


def test_wheels_of_one_release_fit():
    release = torch.__version__.partition("+")[0]
    assert import_error(f"torch.__version__ = '{release}+cu130'") == ""
    of = thunder._build.release_of
    assert of("2.14.0a0+git1234") != of("2.14.0a0+git5678")


def test_an_extension_that_is_not_there_is_an_import_error():
    # As another Python sees it: the sources, and an extension with another suffix.
    said = import_error(
        "sys.meta_path[:] = [f for f in sys.meta_path if not type(f).__module__.startswith('_editable')]\n"
        "import importlib.machinery\n"
        "importlib.machinery.EXTENSION_SUFFIXES[:] = ['.cpython-399-x86_64-linux-gnu.so']\n"
        "sys.path_importer_cache.clear()\n"
        f"sys.path[:] = [{str(ROOT)!r}] + [p for p in sys.path if 'site-packages' not in p or 'thunder' not in p]"
    )
    assert "the extension is not compiled for this Python" in said
    assert "pip install --no-build-isolation" in said


def test_a_build_that_does_not_run_says_so(tmp_path):
    broken = tmp_path / "_C.so"
    source = 'extern "C" void* PyInit__C() { return *(void* volatile*)0; }'
    compiler = os.environ.get("CXX", "g++").split()
    subprocess.run([*compiler, "-shared", "-fPIC", "-x", "c++", "-", "-o", broken], input=source, text=True, check=True)
    command = [sys.executable, ROOT / "tools" / "try_build.py", broken, "the-compiler"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "built by the-compiler" in done.stderr and "it ended by SIGSEGV" in done.stderr


def test_the_build_that_is_tested_runs():
    command = [sys.executable, ROOT / "tools" / "try_build.py", thunder._C.__file__, "c++"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_the_shared_cpp_library_is_linked():
    def output_of(*command):
        return subprocess.run([*command, thunder._C.__file__], capture_output=True, text=True, check=True).stdout

    needed = output_of("readelf", "-d")
    assert "libstdc++.so.6" in needed and "libgcc_s.so.1" in needed
    # One that was linked statically has locale facets of its own beside those of the process.
    assert "std::num_put<char" not in output_of("nm", "-C", "--defined-only")


def test_headers_of_packages_that_a_fresh_machine_lacks_are_found():
    path = pathlib.PurePosixPath
    headers = map(
        path,
        [
            "/src/csrc/core/op.h",
            "/usr/include/c++/12/vector",
            "/usr/include/stdio.h",
            "/usr/include/x86_64-linux-gnu/bits/types.h",
            "/usr/include/x86_64-linux-gnu/sys/stat.h",
            "/usr/include/linux/errno.h",
            "/usr/include/doctest/doctest.h",
            "/usr/include/gtest.h",
            "/usr/include/x86_64-linux-gnu/openssl/evp.h",
            "/usr/local/include/fmt/core.h",
            "/opt/other/include/stdio.h",
        ],
    )
    own, system = [path("/src"), path("/usr/include/c++/12")], [path("/usr/include"), path("/usr/local/include")]
    assert [str(p) for p in tool("check_headers").foreign(headers, own, system)] == [
        "/opt/other/include/stdio.h",
        "/usr/include/doctest/doctest.h",
        "/usr/include/gtest.h",
        "/usr/include/x86_64-linux-gnu/openssl/evp.h",
        "/usr/local/include/fmt/core.h",
    ]
