#!/usr/bin/env python3
"""Prints the lines of csrc that are new since a commit, as clang-tidy's --line-filter takes them.

    python tools/changed_lines.py origin/main

Findings of other lines are then left out: a change answers for its own.
"""

import json
import re
import subprocess
import sys


def changed(diff):
    """Files and ranges of `git diff -U0`.  Where lines were only removed, the two around them count."""
    files = []
    for line in diff.splitlines():
        if line.startswith("+++ "):
            files.append({"name": line.removeprefix("+++ ").removeprefix("b/"), "lines": []})
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            files[-1]["lines"].append([first, first + count - 1] if count else [max(first, 1), first + 1])
    return [file for file in files if file["lines"]]


def main():
    options = ["-U0", "--no-color", "--no-ext-diff", "--diff-filter=d"]
    command = ["git", "diff", *options, f"{sys.argv[1]}...HEAD", "--", "csrc"]
    diff = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    print(json.dumps(changed(diff), separators=(",", ":")))


if __name__ == "__main__":
    main()
