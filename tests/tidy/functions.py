# SPDX-License-Identifier: Apache-2.0
"""functions: finds the functions of a C++ file by counting braces, and how long each is."""

import re

TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|'
    r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'",
    re.DOTALL,
)
SCOPE = re.compile(
    r"(?:(?:inline|typedef|export|static|const|constexpr)\s+)*"
    r'(?:(?:namespace|class|struct|union|enum)\b|extern\s*"")'
)


def code_only(text):
    """The text with comments, strings and character constants emptied; line numbers stay."""

    def blank(match):
        token = match.group(0)
        lines = "\n" * token.count("\n")
        if token.startswith("/"):
            return " " + lines
        return '""' + lines if token[0] in 'R"' else "' '"

    return TOKEN.sub(blank, text)


def without_directives(code):
    """Preprocessor lines (with their continuations) emptied, so that their braces do not count."""
    out, continued = [], False
    for line in code.split("\n"):
        directive = continued or line.lstrip().startswith("#")
        continued = directive and line.rstrip().endswith("\\")
        out.append("" if directive else line)
    return "\n".join(out)


def without_template_head(head):
    """`template <class T> void f()` without its parameter list, whose `class` opens no scope."""
    while True:
        match = re.match(r"\s*template\s*<", head)
        if not match:
            return re.sub(r"\[\[.*?\]\]", " ", head, flags=re.DOTALL).strip()
        depth, position = 1, match.end()
        while depth and position < len(head):
            depth += {"<": 1, ">": -1}.get(head[position], 0)
            position += 1
        head = head[position:]


def is_scope(head):
    return SCOPE.match(without_template_head(head)) is not None or head.strip() == ""


def is_function(head):
    """An opening brace after `(...)`, unless it begins the value of a constant."""
    bare = without_template_head(head)
    outside_parentheses = re.sub(r"\([^()]*\)", "", bare)
    return "(" in bare and ("operator" in bare or "=" not in outside_parentheses)


def function_lengths(code):
    """(first line, line count) of each body directly in a file, namespace or class."""
    found, stack = [], []
    line, head, head_line = 1, "", None
    for char in without_directives(code):
        if char == "\n":
            line += 1
        inside_body = any(kind != "scope" for kind, _ in stack)
        if char == "{":
            if inside_body:
                stack.append(("inner", line))
            elif is_scope(head):
                stack.append(("scope", line))
            else:
                stack.append(("function" if is_function(head) else "data", head_line or line))
            head, head_line = "", None
        elif char == "}":
            if stack:
                kind, first = stack.pop()
                if kind == "function":
                    found.append((first, line - first + 1))
            head, head_line = "", None
        elif char == ";" and "(" not in head.rpartition(")")[2]:
            head, head_line = "", None
        elif not inside_body:
            if head_line is None and not char.isspace():
                head_line = line
            head += char
            if re.search(r"\b(public|private|protected)\s*:$", head):
                head, head_line = "", None
    return found
