#!/usr/bin/env python3
"""Writes what the extension and an executor outside of the tree share: csrc/executors/plugin.h.

    python tools/exports.py identity OUT --thunder 0.1.0 --torch 2.13.0 --headers FOLDER HEADER...
    python tools/exports.py symbols OUT --nm nm --archives ARCHIVE... --headers FOLDER HEADER...

`identity` writes a header with the versions and a hash of the installed headers, without their comments. `symbols`
writes the version script that the extension is linked with: a symbol that an installed header declares is exported, and
all others are hidden.
"""

import argparse
import hashlib
import pathlib
import re
import subprocess
import sys

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
SCOPE = re.compile(r"(?<!enum )\b(?:class|struct|namespace)\s+(\w+(?:::\w+)*)")
# A mangled symbol: _ZNK7thunder8Executor4findERKNS_4CallE has the scopes thunder and Executor, and the name find.
NESTED = re.compile(r"_Z(T[VTIS])?N[KRO]*(7thunder\w*)")
MADE_IN_THE_BUILD = {"executors/built_for.h"}


def read(folder, headers):
    """The headers' texts by name. A header that includes one that is not installed ends the build."""
    texts = {name: (folder / name).read_text() for name in sorted(headers)}
    for name, text in texts.items():
        missing = set(INCLUDE.findall(text)) - texts.keys() - MADE_IN_THE_BUILD
        if missing:
            sys.exit(f"csrc/{name} is installed and includes {', '.join(sorted(missing))}, which THUNDER_HEADERS lacks")
    return texts


def identity(texts, thunder, torch):
    code = {name: COMMENT.sub("", text).split() for name, text in texts.items()}
    digest = hashlib.sha256(repr(sorted(code.items())).encode()).hexdigest()[:12]
    return (
        "// Written by tools/exports.py.\n#pragma once\n\n"
        f'#define THUNDER_BUILT_FOR "Thunder {thunder} (headers {digest}), PyTorch {torch}"\n'
    )


def scopes_and_name(symbol):
    """(["thunder", "Executor"], "find") of the symbol above. A constructor, an operator and a table of a class have no
    name of their own. Of a symbol outside of the namespace thunder: None."""
    found = NESTED.match(symbol)
    if not found:
        return None
    out, rest = [], found[2]
    while length := re.match(r"\d+", rest):
        end = length.end() + int(length[0])
        out.append(rest[length.end() : end])
        rest = rest[end:]
    is_named = not found[1] and rest[:1] in ("E", "I", "B")  # the end, template arguments, an ABI tag
    return (out[:-1], out[-1]) if is_named else (out, None)


def declared(texts):
    """A test for symbols: whether one of the headers declares it."""
    code = COMMENT.sub(" ", "\n".join(texts.values()))
    names = set(re.findall(r"\w+", code)) | {None}
    scopes = {part for scope in SCOPE.findall(code) for part in scope.split("::")}

    def test(symbol):
        parts = scopes_and_name(symbol)
        return parts is not None and scopes.issuperset(parts[0]) and parts[1] in names

    return test


def symbols(texts, nm, archives):
    """Strong symbols, and tables of classes: a library makes inline functions and instances of templates itself."""
    command = [nm, "--defined-only", "--extern-only", "--format=posix", *archives]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    defined = {line.split()[0] for line in out.splitlines() if re.match(r"\S+ [BDRTV] ", line)}
    return sorted(filter(declared(texts), defined))


def version_script(names):
    """Exact names go before patterns. What is not in the namespace thunder keeps its visibility."""
    lines = "".join(f"    {name};\n" for name in names)
    return f"{{\n  global:\n{lines}  local:\n    *7thunder*;\n}};\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("identity", "symbols"))
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--thunder")
    parser.add_argument("--torch")
    parser.add_argument("--nm")
    parser.add_argument("--archives", nargs="+")
    parser.add_argument("--headers", nargs="+", required=True)
    a = parser.parse_args()
    texts = read(pathlib.Path(a.headers[0]), a.headers[1:])
    if a.what == "identity":
        text = identity(texts, a.thunder, a.torch)
    else:
        text = version_script(symbols(texts, a.nm, a.archives))
    # An unchanged file keeps its time, so that nothing is compiled for it.
    if not a.out.exists() or a.out.read_text() != text:
        a.out.parent.mkdir(parents=True, exist_ok=True)
        a.out.write_text(text)


if __name__ == "__main__":
    main()
