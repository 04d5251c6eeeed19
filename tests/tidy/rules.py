# SPDX-License-Identifier: Apache-2.0
"""rules: what a single file of the tree must keep to: head, sizes, words, calls, headers."""

import os
import re
from dataclasses import dataclass

from functions import code_only, function_lengths

SOURCE_LINES_MAX = 400
HEADER_LINES_MAX = 250
COORDINATOR_LINES_MAX = 150
PUBLIC_HEADER_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
COLUMNS_MAX = 100
# The contracts of the library explain every field, so they may be as long as a source.
PUBLIC_HEADERS = ("client/hicache.h", "client/hicache_group.h")
COORDINATORS = ("daemon/engine/engine.cpp", "daemon/reactor.cpp", "daemon/daemon.cpp")

LICENCE = "SPDX-License-Identifier: Apache-2.0"
TEXT_SUFFIXES = (
    ".cpp",
    ".h",
    ".hpp",
    ".c",
    ".py",
    ".sh",
    ".md",
    ".txt",
    ".cmake",
    ".toml",
    ".service",
    ".json",
    ".in",
    ".map",
)
# Corpora and golden bytes are data; the licence is not ours to reword.
DATA_FOLDERS = ("tests/golden/", "tests/fuzz/corpus/")
# The tidy test itself has to spell what it forbids.
SPELLS_FORBIDDEN = "tests/tidy/"

# An outside header and the files that alone may include it.
ONLY_IN = [
    (r"spdlog/.*", r"daemon/log/[^/]*\.cpp"),
    (r"CLI/.*", r"(client/ctl|daemon)/main\.cpp"),
    (r"toml\+\+/.*|toml\.hpp", r"daemon/config/[^/]*\.cpp"),
    (r"lmdb\.h", r"daemon/index/[^/]*|tests/.*"),
    (r"liburing\.h", r"daemon/os/[^/]*"),
    (r"catch2/.*", r"tests/support/catch(_main)?\.(h|cpp)"),
    (r"source_location|expected|format|cassert|assert\.h", r"(?!)"),
]

# (rule, pattern over code without comments and strings, files it holds for, message)
BANNED_CODE = [
    (
        "banned",
        r"\bstd::(views|ranges::views|source_location|expected|format)\b",
        r".*",
        "clang 14 does not have it",
    ),
    ("banned", r"\busing\s+namespace\s+std\b", r".*", "names of std are written out"),
    (
        "assert",
        r"(?<![\w:])assert\s*\(",
        r"(proto|shm|client|daemon)/.*",
        "HC_CHECK is on in every build, assert is not",
    ),
    ("throw", r"\bthrow\b", r"(proto|shm|client|daemon)/(?!python/).*", "errors are values"),
    (
        "atomic-wait",
        r"\batomic_wait|\bnotify_(one|all)\b|(?<!doorbell_)(?<!doorbell)(\.|->)wait\s*\(",
        r"shm/(?!gpu/).*",  # whose threads are of one process
        "std::atomic::wait is private to a process; use the doorbell",
    ),
]
SLEEP = re.compile(
    r"\b(sleep_for|sleep_until|usleep|nanosleep|time\.sleep|(?<!\w)sleep)\s*\(|^\s*sleep\s+[\d.]"
)
# A sleep in the clothes of a poll. Tests of whole processes once hid theirs in it, so it is allowed
# in one helper only: the one that looks again and again, with a bound, at what sends no event.
POLL_SLEEP = re.compile(r"\bpoll\s*\(\s*(nullptr|NULL|0)\s*,\s*0\s*,|\bselect\s*\(\s*0\s*,")
POLL_SLEEP_HELPER = "tests/e2e/process.cpp"
WAITS = re.compile(r"(//|#) waits: \w+")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
MACHINE_PATH = re.compile(r"(?<![\w.~])/(work|root|home)/")
OUTSIDE_NUMBER = re.compile(r"\bissue #?\d", re.IGNORECASE)


@dataclass
class Finding:
    path: str
    line: int
    rule: str
    message: str

    def line_in(self, root):
        path = os.path.relpath(self.path, root) if os.path.isabs(self.path) else self.path
        return f"{path}:{self.line}: {self.rule}: {self.message}"


class SourceFile:
    """A text file with its path from the root."""

    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.lines = text.splitlines()
        self.name = os.path.basename(path)
        self.is_cxx = bool(re.search(r"\.(cpp|h|hpp|c)$", path))
        self.is_header = bool(re.search(r"\.(h|hpp)$", path))
        self.code = code_only(text) if self.is_cxx else text

    def includes(self, pattern):
        for number, line in enumerate(self.lines, 1):
            match = re.match(pattern, line)
            if match:
                yield number, match.group(1)

    def quoted_includes(self):
        return self.includes(r'\s*#\s*include\s+"([^"]+)"')

    def outside_includes(self):
        return self.includes(r"\s*#\s*include\s+<([^>]+)>")


def read_text(path):
    """The text of a file we hold rules for, else None."""
    relative_ok = path.endswith(TEXT_SUFFIXES)
    try:
        with open(path, "rb") as file:
            raw = file.read(1 << 20)
        if not relative_ok and not raw.startswith(b"#!"):
            return None
        return raw.decode("utf-8")
    except (UnicodeDecodeError, OSError):
        return None


def check_file(source):
    if source.path.startswith(DATA_FOLDERS):
        return []
    findings = check_words(source)
    if is_program_text(source):
        findings += check_licence(source) + check_columns(source)
    if source.is_cxx:
        findings += (
            check_head(source)
            + check_sizes(source)
            + check_code(source)
            + check_outside_headers(source)
        )
        findings += check_own_header_first(source)
    if source.path.startswith("tests/"):
        findings += check_sleeps(source)
    return findings


def is_program_text(source):
    """Files that carry the licence line: code and scripts, not prose, tables or data."""
    return (
        source.is_cxx
        or source.text.startswith("#!")
        or source.path.endswith((".py", ".sh", ".cmake"))
        or source.name == "CMakeLists.txt"
    )


def at(source, position):
    return source.code.count("\n", 0, position) + 1


def check_licence(source):
    head = [line for line in source.lines[:2] if not line.startswith("#!")]
    if not head or LICENCE not in head[0]:
        return [Finding(source.path, 1, "licence", f"the first line is `{LICENCE}`")]
    return []


def check_head(source):
    """After the licence line comes `// stem: purpose`."""
    stem = source.name.split(".")[0]
    for line in source.lines[1:3]:
        if re.match(rf"(//|/\*|\s\*) ?({re.escape(stem)}|{re.escape(source.name)}): \S.*", line):
            return []
    return [
        Finding(
            source.path, 2, "purpose", f"the second line is `// {stem}: one sentence of purpose`"
        )
    ]


def check_columns(source):
    findings = []
    for number, line in enumerate(source.lines, 1):
        if len(line) > COLUMNS_MAX:
            findings.append(
                Finding(
                    source.path, number, "line-size", f"{len(line)} columns, at most {COLUMNS_MAX}"
                )
            )
    return findings


def check_sizes(source):
    findings = []
    limit = HEADER_LINES_MAX if source.is_header else SOURCE_LINES_MAX
    if source.path in PUBLIC_HEADERS:
        limit = PUBLIC_HEADER_LINES_MAX
    if source.path in COORDINATORS:
        limit = COORDINATOR_LINES_MAX
    if len(source.lines) > limit:
        findings.append(
            Finding(
                source.path, limit + 1, "file-size", f"{len(source.lines)} lines, at most {limit}"
            )
        )
    for number, count in function_lengths(source.code):
        if count > FUNCTION_LINES_MAX:
            findings.append(
                Finding(
                    source.path,
                    number,
                    "function-size",
                    f"{count} lines, at most {FUNCTION_LINES_MAX}",
                )
            )
    return findings


def check_words(source):
    """Nothing unfinished, and nothing about the machine or the people the text was written by."""
    if source.path.startswith(SPELLS_FORBIDDEN) or source.name == "LICENSE":
        return []
    findings = []
    for number, line in enumerate(source.lines, 1):
        if UNFINISHED.search(line):
            findings.append(
                Finding(
                    source.path,
                    number,
                    "unfinished",
                    "finish it, or say what is missing in the docs",
                )
            )
        if MACHINE_PATH.search(line):
            findings.append(Finding(source.path, number, "machine-path", "a path of one machine"))
        if OUTSIDE_NUMBER.search(line):
            findings.append(
                Finding(
                    source.path, number, "outside-number", "say the thing, not its number elsewhere"
                )
            )
    return findings


def check_code(source):
    findings = []
    for rule, pattern, where, message in BANNED_CODE:
        if re.fullmatch(where, source.path):
            for match in re.finditer(pattern, source.code):
                findings.append(
                    Finding(
                        source.path,
                        at(source, match.start()),
                        rule,
                        f"{match.group(0).strip()}: {message}",
                    )
                )
    return findings


def check_outside_headers(source):
    findings = []
    for number, name in source.outside_includes():
        for header, where in ONLY_IN:
            if re.fullmatch(header, name) and not re.fullmatch(where, source.path):
                findings.append(
                    Finding(source.path, number, "header", f"<{name}> may not be included here")
                )
    return findings


def check_own_header_first(source):
    """X.cpp includes X.h before any other header, which proves that X.h stands alone."""
    if not source.path.endswith(".cpp"):
        return []
    stem = source.path[: -len(".cpp")]
    own = {f"{stem}.h", f"{stem}.h".removeprefix("tests/")}
    includes = list(source.includes(r'\s*#\s*include\s+[<"]([^>"]+)[>"]'))
    for position, (number, name) in enumerate(includes):
        if name in own and position > 0:
            return [Finding(source.path, number, "own-header", f"{name} comes first")]
    return []


def check_sleeps(source):
    if source.path.startswith(SPELLS_FORBIDDEN) or source.path.endswith(".md"):
        return []
    findings = []
    for number, line in enumerate(source.lines, 1):
        code = line.split("//")[0]
        if POLL_SLEEP.search(code) and source.path != POLL_SLEEP_HELPER:
            findings.append(
                Finding(
                    source.path,
                    number,
                    "sleep",
                    f"wait for an event, or with `eventually` of {POLL_SLEEP_HELPER}",
                )
            )
        elif (SLEEP.search(code) or POLL_SLEEP.search(code)) and not WAITS.search(line):
            findings.append(
                Finding(
                    source.path,
                    number,
                    "sleep",
                    "wait for an event, or say why with `// waits: reason`",
                )
            )
    return findings
