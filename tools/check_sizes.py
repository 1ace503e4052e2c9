#!/usr/bin/env python3
"""Holds files, functions and classes to sizes that a reader can take in. Prints each one that is larger; exit status
1 if there is one. With `--summary` also the median and the greatest size.

The C++ here is read without a compiler: comments, strings and preprocessor lines are blanked, and braces are followed
from there. A string literal of several lines, such as the source of kernels, counts as one line.
"""

import pathlib
import re
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

MOST_LINES_OF_A_FILE = 600
MOST_LINES_OF_A_FUNCTION = 60
MOST_METHODS_OF_A_CLASS = 40
FOLDERS = {"csrc": (".h", ".cpp"), "thunder": (".py",), "tools": (".py",), "tests/python": (".py",)}

# In the order in which they are tried: where one begins, the others do not.
LEXEMES = re.compile(
    r"""
    (?P<blank>//(?:\\\n|[^\n])* | /\*.*?\*/ | ^[ \t]*\#(?:\\\n|[^\n])*)
  | (?P<string>(?:u8|[uUL])?R"(?P<mark>[^()\s\\"]*)\(.*?\)(?P=mark)" | (?:u8|[uUL])?"(?:\\.|[^"\\\n])*")
  | (?P<word>[A-Za-z_]\w* | \.?\d(?:'?[\w.])*)
  | (?P<char>'(?:\\.|[^'\\\n])+')
  | (?P<sign>::|->|[^\s\w])
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
OPENING, CLOSING = "([{", ")]}"
CLASSES = ("class", "struct", "union")
NOT_METHODS = ("using", "typedef", "friend", "static_assert", "enum", "return", *CLASSES)


class Token:
    __slots__ = ("kind", "line", "text")

    def __init__(self, kind, text, line):
        self.kind, self.text, self.line = kind, text, line


def tokens_of(source):
    """The tokens of C++, without comments and preprocessor lines."""
    out, line, at = [], 1, 0
    for match in LEXEMES.finditer(source):
        line += source.count("\n", at, match.start())
        at = match.start()
        kind = match.lastgroup if match.lastgroup != "mark" else "string"
        if match["string"] is not None:
            kind = "string"
        if kind != "blank":
            out.append(Token(kind, match[0], line))
    return out


def partner(tokens, at):
    """The number of the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(tokens)):
        if tokens[i].kind != "sign":
            continue
        depth += (tokens[i].text in OPENING) - (tokens[i].text in CLOSING)
        if depth == 0:
            return i
    return len(tokens) - 1


class Declaration:
    """What is declared at the scope of a namespace or a class: its tokens in front of a body, and the body.

    Args:
        head: Tokens; what stands in brackets is left out, but for the brackets.
        body: The numbers of the braces around the body, or None.
    """

    def __init__(self, head, body):
        self.head, self.body = head, body
        self.texts = [t.text for t in head]

    @property
    def introducer(self):
        """Its first word behind `template <...>` and attributes."""
        texts, at = self.texts, 0
        while texts[at : at + 1] == ["template"]:
            at += 1
            depth = 0
            while at < len(texts):
                depth += (texts[at] == "<") - (texts[at] == ">")
                at += 1
                if depth == 0:
                    break
        while texts[at : at + 1] in (["["], ["]"]):
            at += 1
        return texts[at] if at < len(texts) else ""

    @property
    def is_scope(self):
        """Whether its body is that of a namespace, or of `extern "C"`."""
        if self.body is None:
            return False
        return self.introducer == "namespace" or (self.texts[:1] == ["extern"] and self.head[-1].kind == "string")

    @property
    def class_name(self):
        """Of the definition of a class, else None."""
        if self.body is None or self.introducer not in CLASSES or "=" in self.texts:
            return None
        words = []
        for token in self.head[self.texts.index(self.introducer) + 1 :]:
            if token.text in (":", "final"):
                break
            if token.kind == "word" or token.text == "::":
                words.append(token.text)
        return "".join(words) or "(no name)"

    @property
    def has_body(self):
        """Whether what stands in its braces is a body, and not what a variable or a member begins with."""
        if self.is_scope or self.class_name or self.introducer == "enum":
            return True
        if not self.function_name:
            return False
        # A single colon behind the parameters begins a constructor's list, whose members may have braces.
        behind = self.texts[self.texts.index(")") :]
        return ":" not in behind or self.head[-1].kind != "word"

    def is_method(self, of_class):
        """Whether it is a function of the class that a reader has to know: no constructor, destructor or `= delete`."""
        return self.function_name != of_class.rpartition("::")[2] and "delete" not in self.texts

    @property
    def function_name(self):
        """Of a function, declared or defined, else None."""
        if self.introducer in (*NOT_METHODS, "namespace", "extern", "asm", ""):
            return None
        depth = 0
        for i, token in enumerate(self.head):
            text = token.text
            depth += (text == "<") - (text == ">")
            if text == "operator":
                return "operator"
            if depth > 0:
                continue
            if text == "=":
                return None
            if text == "(" and i > 0 and self.head[i - 1].kind == "word":
                name = self.texts[i - 1]
                if name in ("decltype", "alignas", "__attribute__", "requires", "noexcept", "explicit"):
                    continue
                return None if name.isupper() and len(name) > 1 else name
        return None


def declarations(tokens, begin, end):
    """Those between two tokens."""
    head, i = [], begin
    while i < end:
        token = tokens[i]
        sign = token.text if token.kind == "sign" else ""
        if sign == ";":
            if head:
                yield Declaration(head, None)
            head = []
        elif sign == ":" and len(head) == 1 and head[0].text in ("public", "private", "protected"):
            head = []
        elif sign and sign in OPENING:
            last = partner(tokens, i)
            declared = Declaration(head, (i, last))
            if sign == "{" and declared.has_body:
                yield declared
                head = []
            else:
                head += (token, tokens[last])
            i = last
        else:
            head.append(token)
        i += 1


def lines_of(tokens):
    """How many lines they stand on, where a string literal of several lines, the source of a kernel, counts as one."""
    within = sum(t.text.count("\n") for t in tokens if t.kind == "string")
    return tokens[-1].line - tokens[0].line + 1 - within


def functions_and_classes(source):
    """[(name, first line, lines)] of the functions with a body, [(name, first line, methods)] of the classes."""
    tokens = tokens_of(source)
    functions, classes = [], []

    def visit(begin, end, of_class):
        methods = 0
        for d in declarations(tokens, begin, end):
            if d.class_name:
                line = d.head[0].line
                classes.append((d.class_name, line, visit(d.body[0] + 1, d.body[1], d.class_name)))
            elif d.is_scope:
                visit(d.body[0] + 1, d.body[1], None)
            elif d.function_name:
                methods += of_class is not None and d.is_method(of_class)
                if d.body:
                    whole = [d.head[0], *tokens[d.body[0] : d.body[1] + 1]]
                    functions.append((d.function_name, d.head[0].line, lines_of(whole)))
        return methods

    visit(0, len(tokens), None)
    return functions, classes


def problems_in(path, name, functions, classes):
    lines = path.read_text().count("\n")
    if lines > MOST_LINES_OF_A_FILE:
        yield f"{name}: {lines} lines, at most {MOST_LINES_OF_A_FILE}"
    for what, line, length in functions:
        if length > MOST_LINES_OF_A_FUNCTION:
            yield f"{name}:{line}: {what}() has {length} lines, at most {MOST_LINES_OF_A_FUNCTION}"
    for what, line, methods in classes:
        if methods > MOST_METHODS_OF_A_CLASS:
            yield f"{name}:{line}: {what} has {methods} methods, at most {MOST_METHODS_OF_A_CLASS}"


def summary_of(functions, classes):
    """The median and the greatest size, for comparisons of two states of the project."""
    lengths = sorted(length for _, _, length in functions) or [0]
    methods = [count for _, _, count in classes] or [0]
    return (
        f"functions in C++: {len(functions)}, lines: median {statistics.median_low(lengths)}, "
        f"95th percentile {lengths[len(lengths) * 95 // 100]}, most {lengths[-1]}; "
        f"classes: {len(classes)}, most methods {max(methods)}"
    )


def main(root=ROOT, summary=False):
    found, count, all_functions, all_classes = [], 0, [], []
    for folder, suffixes in FOLDERS.items():
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in suffixes or not path.is_file():
                continue
            count += 1
            cpp = path.suffix in (".h", ".cpp")
            functions, classes = functions_and_classes(path.read_text()) if cpp else ([], [])
            found += problems_in(path, path.relative_to(root).as_posix(), functions, classes)
            all_functions += functions
            all_classes += classes
    print(*found, sep="\n", end="\n" if found else "")
    if summary:
        print(summary_of(all_functions, all_classes))
    print(f"sizes: {count} files, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(summary="--summary" in sys.argv[1:]))
