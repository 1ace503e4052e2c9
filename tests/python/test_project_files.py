"""Workflows, templates, presets and owners: what they name exists, and what they share with other files is the same."""

import functools
import json
import os
import pkgutil
import re
import tomllib
from pathlib import Path

import pytest
import test_docs_names as pages
from test_build import tool

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted(str(p.relative_to(ROOT)) for p in ROOT.glob(".github/workflows/*"))
COMMANDS = [".devcontainer/devcontainer.json", *WORKFLOWS]
FORMS = sorted(str(p.relative_to(ROOT)) for p in ROOT.glob(".github/*TEMPLATE*/*.yml"))
PROSE = [*FORMS, ".github/PULL_REQUEST_TEMPLATE.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"]

CODE = re.compile(r"^```\n(.*?)^```|`([^`\n]+)`", re.M | re.S)
TARGET = re.compile(r"\bmake (?:[A-Z_]+=\S+ )*([a-z][\w-]*)")
PRESET = re.compile(r"(--workflow |--build )?--preset (\w+)")
PATH = re.compile(r"(?<![\w./-])(?:csrc|thunder|tests|tools|docs|requirements|benchmarks|examples)/[\w./*-]+")


@functools.cache
def text_of(file):
    return (ROOT / file).read_text()


def commands_of(file):
    """All of a workflow; of prose what stands as code."""
    return text_of(file) if file in COMMANDS else "\n".join(a or b for a, b in CODE.findall(text_of(file)))


def missing_targets(text):
    targets = set(re.findall(r"^([a-z][\w-]*):", text_of("Makefile"), re.M))
    return sorted(set(TARGET.findall(text)) - targets)


def missing_paths(text):
    """`*` stands for folders, too, as in git."""
    return [path for path in PATH.findall(text) if not any(ROOT.glob(path.rstrip("/").replace("*", "**/*")))]


@functools.cache
def presets():
    return json.loads(text_of("CMakePresets.json"))


def missing_presets(text):
    names = {
        kind: {preset["name"] for preset in presets()[f"{kind or 'configure'}Presets"]}
        for kind in ("", "build", "workflow")
    }
    return [name for kind, name in PRESET.findall(text) if name not in names[kind.strip(" -")]]


@pytest.mark.parametrize("file", [*COMMANDS, *PROSE, "Makefile"])
def test_what_a_command_names_exists(file):
    commands = commands_of(file) if file != "Makefile" else text_of(file)
    assert missing_presets(commands) == []
    if file != "Makefile":
        assert missing_targets(commands) == []
        assert missing_paths(commands) == []


def test_what_does_not_exist_is_found():
    """The test of the test."""
    assert missing_targets("run: make PYTHON=python3.12 no-such && make test") == ["no-such"]
    assert missing_paths("docs/none.md docs/architecture.md 'csrc/*.cpp' csrc/*.f90") == ["docs/none.md", "csrc/*.f90"]
    assert missing_presets("cmake --preset cpp; cmake --build --preset none; cmake --workflow --preset clang") == [
        "none",
        "clang",
    ]


def test_something_is_named():
    assert len(FORMS) >= 3 and len(COMMANDS) >= 4
    named = {target for file in COMMANDS for target in TARGET.findall(commands_of(file))}
    assert {"build", "conformance", "docs", "fuzz", "lint", "sanitize", "stubs", "test", "tidy"} <= named


@pytest.mark.parametrize("file", [f for f in PROSE if ".github" in f])
def test_what_a_template_names_exists(file):
    assert [*pages.missing_paths(file)] == []
    assert [*pages.missing_names(file)] == []


@pytest.mark.parametrize("file", [*FORMS, "SECURITY.md"])
def test_functions_that_a_form_asks_for_exist(file):
    for name in re.findall(r"\bthunder(?:\.[A-Za-z_]\w*)+", text_of(file)):
        pkgutil.resolve_name(name)


def test_scripts_of_workflows_can_be_run():
    scripts = {path for file in COMMANDS for path in PATH.findall(text_of(file)) if path.endswith(".sh")}
    assert scripts and all(os.access(ROOT / script, os.X_OK) for script in scripts)


def test_lines_that_clang_tidy_is_asked_about():
    diff = (
        "diff --git a/csrc/core/a.cpp b/csrc/core/a.cpp\n--- a/csrc/core/a.cpp\n+++ b/csrc/core/a.cpp\n"
        "@@ -3 +3,2 @@ namespace\n-a\n+b\n+c\n@@ -9,2 +9,0 @@\n-d\n-e\n"
        "diff --git a/csrc/core/b.h b/csrc/core/b.h\n--- /dev/null\n+++ b/csrc/core/b.h\n@@ -0,0 +1 @@\n+f\n"
    )
    assert tool("changed_lines").changed(diff) == [
        {"name": "csrc/core/a.cpp", "lines": [[3, 4], [9, 10]]},
        {"name": "csrc/core/b.h", "lines": [[1, 1]]},
    ]


def test_paths_of_owners_exist():
    lines = [line.split() for line in text_of(".github/CODEOWNERS").splitlines() if line and not line.startswith("#")]
    assert lines
    for path, *owners in lines:
        assert path.startswith("/") and (ROOT / path[1:]).exists(), path
        assert (ROOT / path[1:]).is_dir() == path.endswith("/"), path
        assert all(re.fullmatch(r"@[\w-]+(/[\w-]+)?", owner) for owner in owners), owners


def test_the_dev_container_is_json():
    assert json.loads(text_of(".devcontainer/devcontainer.json"))["postCreateCommand"] == "make build"


def test_folders_of_presets_are_those_of_the_pages():
    table = dict(re.findall(r"^\| `(\w+)` \| `(build/[\w-]+)` \|", text_of("CONTRIBUTING.md"), re.M))
    folders = {p["name"]: p["binaryDir"].removeprefix("${sourceDir}/") for p in presets()["configurePresets"]}
    assert table == folders and len(set(folders.values())) == len(folders)
    programs = re.findall(r"(build/[\w-]+)/thunder_tests", text_of("CONTRIBUTING.md") + text_of("Makefile"))
    assert programs and set(programs) <= set(folders.values())
    assert "build/sanitize/thunder_tests" in text_of("Makefile")


def test_every_configuration_can_be_built_and_tested():
    names = [p["name"] for p in presets()["configurePresets"]]
    for kind in ("buildPresets", "testPresets"):
        assert [(p["name"], p["configurePreset"]) for p in presets()[kind]] == [(name, name) for name in names]
    for workflow in presets()["workflowPresets"]:
        assert [step["name"] for step in workflow["steps"]] == [workflow["name"]] * 3


def test_settings_of_builds_exist():
    known = set(re.findall(r"(?:option|set)\((THUNDER_\w+)", text_of("CMakeLists.txt")))
    used = {name for p in presets()["configurePresets"] for name in p["cacheVariables"]}
    used |= set(re.findall(r"(?:-D|cmake\.define\.)(THUNDER_\w+)", text_of("Makefile") + text_of("CONTRIBUTING.md")))
    assert {name for name in used if name.startswith("THUNDER_")} <= known


def test_cmake_is_the_same_everywhere():
    least = presets()["cmakeMinimumRequired"]
    assert f"cmake_minimum_required(VERSION {least['major']}.{least['minor']})" in text_of("CMakeLists.txt")
    assert f">={least['major']}.{least['minor']}" in text_of("requirements/build.txt")


def test_the_version_has_one_source():
    project = tomllib.loads(text_of("pyproject.toml"))
    assert "version" not in project["project"] and project["project"]["dynamic"] == ["version"]
    source = project["tool"]["scikit-build"]["metadata"]["version"]["input"]
    (version,) = re.findall(r'^__version__ = "([^"]+)"', text_of(source), re.M)
    assert re.search(r"^## (\S+)", text_of("CHANGELOG.md"), re.M).group(1) == version
    assert not re.search(r"^project\([^)]*VERSION", text_of("CMakeLists.txt"), re.M)
    files = ["pyproject.toml", "CMakeLists.txt", "CMakePresets.json", *COMMANDS, *PROSE]
    files += [str(p.relative_to(ROOT)) for p in (ROOT / "thunder").rglob("*.py") if str(p.relative_to(ROOT)) != source]
    assert [f for f in files if re.search(rf"(?<![\d.]){re.escape(version)}(?![\d.])", text_of(f))] == []


def test_what_is_tested_is_what_is_supported():
    project = tomllib.loads(text_of("pyproject.toml"))["project"]
    matrix = dict(re.findall(r"^        (python|torch): \[(.*)\]$", text_of(".github/workflows/test.yml"), re.M))
    pythons, releases = (re.findall(r'"([^"]+)"', matrix[name]) for name in ("python", "torch"))
    assert pythons == re.findall(r":: Python :: ([\d.]+)", "\n".join(project["classifiers"]))
    (least,) = re.findall(r"torch>=([\d.]+)", "\n".join(project["dependencies"]))
    default = re.search(r"\$\{TORCH:-torch==([\d.]+)\}", text_of("tools/setup.sh")).group(1)
    assert releases[0].startswith(f"{least}.") and releases[-1] == default
