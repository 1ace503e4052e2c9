"""Whether the compiled extension is for this PyTorch and this Python, asked before it is loaded."""

import importlib.util
import json
import pathlib
import sys
import sysconfig

import torch

HOW = "Build it here: `make build` in a checkout, or `pip install --no-build-isolation --no-deps -e .`"


def release_of(version):
    """What decides whether extensions fit: "2.13.0" of "2.13.0+cpu", all of a source build ("2.14.0a0+git1234")."""
    public, _, local = version.partition("+")
    return version if local.startswith("git") else public


def check():
    """Raises ImportError if the extension was not compiled, or for another PyTorch."""
    spec = importlib.util.find_spec("thunder._C")
    if spec is None or not spec.origin:
        python = ".".join(map(str, sys.version_info[:3]))
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        others = sorted(f.name for f in pathlib.Path(__file__).parent.glob("_C.*.so"))
        raise ImportError(
            f"[thunder] the extension is not compiled for this Python {python} ({sys.executable}): there is no "
            f"thunder/_C{suffix}{', but ' + ', '.join(others) if others else ''}. {HOW}"
        )
    try:
        built_for = json.loads((pathlib.Path(spec.origin).parent / "_C.built_for.json").read_text())["torch"]
    except FileNotFoundError:
        built_for = "an unknown PyTorch"
    if release_of(built_for) != release_of(torch.__version__):
        raise ImportError(
            f"[thunder] the extension was compiled for PyTorch {built_for}, and this is PyTorch {torch.__version__} "
            f"({torch.__path__[0]}); it does not load with another release. Install that release, or build again. {HOW}"
        )


check()
