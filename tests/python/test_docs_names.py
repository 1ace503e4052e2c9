"""The pages: every file, anchor and name that they mention exists, and they stay short."""

import functools
import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    p.relative_to(ROOT)
    for p in [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs/architecture").glob("*.md"), *ROOT.glob("*.md")]
    if p.name != "CHANGELOG.md"  # about files as they were
)
SOURCES = {
    "csrc": "*.[hc]*",
    "thunder": "*.py",
    "tests": "*.[hcp]*",
    "tools": "*.py",
    "benchmarks": "*.py",
    "examples": "*.[cp]*",
}
CODE = re.compile(r"^```.*?^```", re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]+)\)")
QUOTED = re.compile(r"`([^`\n]+)`")
NAME = re.compile(r"[A-Za-z_][\w.]*(?:::[A-Za-z_]\w*)*(?:\(\))?")
# A name with the file where it is, in a link behind it.
LOCATED = re.compile(r"`(_?[A-Z][\w:]+|[\w:]+\(\))`\s+\(\[`[^`]+`\]\(([^)#]+)\)")
# What users write, what a build makes, and the style of a name.
NOT_HERE = {"train.py", "build/cpp/thunder_tests", "kConstants"}


@functools.cache
def text_of(page):
    return (ROOT / page).read_text()


def prose(page):
    return CODE.sub("", text_of(page))


@functools.cache
def words():
    """Of all source files, but this one."""
    files = [p for folder, kind in SOURCES.items() for p in (ROOT / folder).rglob(kind) if p != Path(__file__)]
    return frozenset().union(*(re.findall(r"\w+", p.read_text()) for p in files if p.is_file() and p.suffix != ".pyc"))


@functools.cache
def words_of(path):
    return frozenset(re.findall(r"\w+", path.read_text()))


@functools.cache
def anchors(page):
    """As GitHub makes them of headings, and those that are written out."""
    headings = re.findall(r"^#+ (.*)$", CODE.sub("", page.read_text()), re.M)
    made = {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}
    return made | set(re.findall(r'<a id="([^"]+)"', page.read_text()))


def missing_links(page):
    for target in LINK.findall(prose(page)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        if not file.exists():
            yield target
        elif anchor and anchor not in anchors(file):
            yield target


def is_path(text):
    return re.fullmatch(
        r"[\w./-]+\.(h|cpp|py|md|sh|txt)|(csrc|thunder|tests|tools|docs|benchmarks|examples)(/[\w.-]+)+/?", text
    )


@functools.cache
def file_names():
    return {p.name for folder in SOURCES for p in (ROOT / folder).rglob("*")} | {p.name for p in ROOT.iterdir()}


def missing_paths(page):
    """Paths stand as they are from the root, or without their folders."""
    for text in QUOTED.findall(prose(page)):
        if not is_path(text) or text in NOT_HERE:
            continue
        found = [ROOT / text, ROOT / "csrc" / text, (ROOT / page).parent / text]
        if not any(p.exists() for p in found) and ("/" in text or text not in file_names()):
            yield text


def exists(name):
    """A word of the source, or a name of PyTorch or Python."""
    last = re.split(r"\.|::", name.removesuffix("()"))[-1]
    return last in words() or hasattr(torch, last) or hasattr(torch.Tensor, last)


def missing_names(page):
    """Calls (`compile()`), members (`Kernel::in_place`) and names of ours (`THUNDER_SKIP`, `kComm`, `thunder.jit`)."""
    for text in QUOTED.findall(prose(page)):
        name = text.split("=")[0] if text.startswith("THUNDER_") else text
        ours = "()" in name or "::" in name or re.match(r"(THUNDER_|k[A-Z]|thunder\.|prims\.)", name)
        if NAME.fullmatch(name) and ours and not is_path(name) and name not in NOT_HERE and not exists(name):
            yield text
    for name, target in LOCATED.findall(prose(page)):
        file = ((ROOT / page).parent / target).resolve()
        if file.is_file() and not set(name.removesuffix("()").split("::")) <= words_of(file):
            yield f"{name} in {target}"


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_what_a_page_mentions_exists(page):
    assert [*missing_links(page)] == []
    assert [*missing_paths(page)] == []
    assert [*missing_names(page)] == []


def test_what_does_not_exist_is_found(tmp_path):
    """The test of the test: a page with one mistake of each kind."""
    page = tmp_path / "page.md"
    (tmp_path / "CONTRIBUTING.md").write_text((ROOT / "CONTRIBUTING.md").read_text())
    page.write_text(
        "# A page\n\n[a](no_such_file.md) [b](CONTRIBUTING.md#no-such-heading) [c](CONTRIBUTING.md#style)\n"
        "[d](#a-page) [e](https://no.such.host/page)\n"
        "`csrc/core/no_such_header.h` `csrc/core/dim.h` `no_such_tool.py`\n"
        "`no_such_function_here()` `Kernel::no_such_member` `THUNDER_NO_SUCH=1` `THUNDER_SKIP=cse` `in_place()`\n"
    )
    assert [*missing_links(page)] == ["no_such_file.md", "CONTRIBUTING.md#no-such-heading"]
    assert [*missing_paths(page)] == ["csrc/core/no_such_header.h", "no_such_tool.py"]
    assert [*missing_names(page)] == ["no_such_function_here()", "Kernel::no_such_member", "THUNDER_NO_SUCH=1"]


def test_every_page_is_linked_from_the_map():
    linked = {link.partition("#")[0] for link in LINK.findall(text_of("docs/architecture.md"))}
    pages = {str(p.relative_to("docs")) for p in PAGES if p.parts[:2] == ("docs", "architecture")}
    assert pages and pages <= linked


def test_pages_stay_short():
    """A page has one subject; one that grows beyond this has two."""
    long = {str(p): n for p in PAGES if "architecture" in str(p) and (n := len(text_of(p).split())) > 1600}
    assert long == {}


def test_the_glossary_is_in_order():
    rows = re.findall(r"^\| ([a-z][^|]*?) \|", text_of("docs/glossary.md"), re.M)[1:]
    assert len(rows) > 80 and rows == sorted(rows, key=str.lower)
