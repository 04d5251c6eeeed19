#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tidy: reads the tree and reports every place where it breaks the rules of the house.

Usage: tidy.py [--root FOLDER]. Prints `path:line: rule: what is wrong` and exits 1 if anything is.
The rules on one file are in rules.py; this file holds those that need the whole tree.
"""

import argparse
import os
import re
import sys

import rules
from rules import Finding, SourceFile

PRODUCT = ("proto", "shm", "client", "daemon")
SKIPPED_FOLDERS = {".git", ".cache", "__pycache__", "build"}
README_LINES_MAX = 80


class Table:
    """The rooms of rooms.txt and what each may include; None means every room."""

    def __init__(self, path):
        self.rooms = {}
        self.findings = []
        for number, key, value in read_pairs(path):
            if key in self.rooms:
                self.findings.append(Finding(path, number, "rooms", f"{key} is listed twice"))
            self.rooms[key] = None if value.strip() == "*" else value.split()
        self.path = path

    def room_of(self, path):
        """The room a file lies in; a room under tests/ covers its subfolders."""
        folder = os.path.dirname(path)
        if folder in self.rooms:
            return folder
        while folder.startswith("tests/"):
            folder = os.path.dirname(folder)
            if folder in self.rooms:
                return folder
        return None

    def check(self):
        for room, allowed in self.rooms.items():
            for other in allowed or []:
                if other not in self.rooms:
                    self.findings.append(
                        Finding(
                            self.path, 0, "rooms", f"{room} may include {other}, which is no room"
                        )
                    )
        for cycle in self.cycles():
            self.findings.append(Finding(self.path, 0, "cycle", " -> ".join(cycle)))
        return self.findings

    def cycles(self):
        """Every loop that a walk along the arrows closes."""
        found, done = [], set()

        def walk(room, trail):
            if room in trail:
                found.append(trail[trail.index(room) :] + [room])
                return
            if room in done:
                return
            for other in self.rooms.get(room) or []:
                walk(other, trail + [room])
            done.add(room)

        for room in self.rooms:
            walk(room, [])
        return found


def read_pairs(path):
    """Lines `KEY : VALUE` of a table as (line number, key, value), without comments."""
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.split("#")[0].strip()
            if line:
                key, _, value = line.partition(":")
                yield number, key.strip(), value.strip()


def list_files(root):
    """All files of the tree, relative to the root, sorted; generated folders left out."""
    found = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = sorted(name for name in subfolders if name not in SKIPPED_FOLDERS)
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(found)


def check_rooms(files, table):
    """Every folder with sources is a room of the table, and every room has its README."""
    findings, seen = [], set()
    for path in sorted(files):
        if not re.search(r"\.(cpp|h|hpp|c|py)$", path) or not re.match(
            r"(proto|shm|client|daemon|tests)/", path
        ):
            continue
        room = table.room_of(path)
        if room is None:
            findings.append(
                Finding(path, 0, "rooms", f"{os.path.dirname(path)} is not in tests/tidy/rooms.txt")
            )
        elif room not in seen:
            seen.add(room)
            if f"{room}/README.md" not in files:
                findings.append(
                    Finding(
                        f"{room}/README.md",
                        0,
                        "readme",
                        "a room says what it is for in a README.md",
                    )
                )
    return findings


def check_includes(source, file_set, table):
    """Quoted includes name a file (from the root, beside, or in tests/) that the room may see."""
    findings = []
    room = table.room_of(source.path)
    for number, name in source.quoted_includes():
        beside = os.path.normpath(os.path.join(os.path.dirname(source.path), name))
        target = next((path for path in (name, f"tests/{name}", beside) if path in file_set), None)
        if target is None:
            findings.append(
                Finding(source.path, number, "include", f'"{name}" is no file of this tree')
            )
            continue
        other = table.room_of(target)
        if room is None or other is None or other == room:
            continue
        allowed = table.rooms[room]
        if allowed is not None and other not in allowed:
            findings.append(
                Finding(source.path, number, "arrow", f"{room} may not include {other} ({name})")
            )
    return findings


def check_tested(sources, untested_path):
    """Each product .cpp is named by a unit test or has a reason in untested.txt."""
    findings = []
    units = [source for source in sources if source.path.startswith("tests/unit/")]
    text = "\n".join(source.text for source in units)
    names = {source.path for source in units}
    excused = {key: (number, reason) for number, key, reason in read_pairs(untested_path)}
    products = [
        source.path
        for source in sources
        if source.path.split("/")[0] in PRODUCT
        and source.path.endswith(".cpp")
        and os.path.basename(source.path) != "main.cpp"
    ]
    for path in products:
        stem = path[: -len(".cpp")]
        tested = f"tests/unit/{stem}_test.cpp" in names or re.search(
            rf"\b{re.escape(stem)}\.(h|cpp)\b", text
        )
        if not tested and path not in excused:
            findings.append(
                Finding(
                    path, 0, "untested", "no unit test names it, and untested.txt gives no reason"
                )
            )
        if tested and path in excused:
            findings.append(
                Finding(
                    untested_path, excused[path][0], "untested", f"{path} has a unit test by now"
                )
            )
    for path, (number, reason) in excused.items():
        if path not in products:
            findings.append(
                Finding(untested_path, number, "untested", f"{path} is no product file")
            )
        if len(reason.split()) < 3:
            findings.append(
                Finding(untested_path, number, "untested", f"{path} needs a reason in words")
            )
    return findings


def check_readmes(root, files):
    """A room's README is at most a page of text; the rows of its tables do not count."""
    findings = []
    for path in files:
        if os.path.basename(path) == "README.md" and "/" in path:
            with open(os.path.join(root, path), encoding="utf-8") as file:
                count = sum(1 for line in file if not line.lstrip().startswith("|"))
            if count > README_LINES_MAX:
                findings.append(
                    Finding(path, count, "readme", f"{count} lines, at most {README_LINES_MAX}")
                )
    return findings


def check_tree(root):
    """All findings of the tree under `root`."""
    files = list_files(root)
    file_set = set(files)
    table = Table(os.path.join(root, "tests/tidy/rooms.txt"))
    findings = table.check() + check_rooms(file_set, table) + check_readmes(root, files)
    sources = []
    for path in files:
        text = rules.read_text(os.path.join(root, path))
        if text is None:
            continue
        source = SourceFile(path, text)
        findings += rules.check_file(source)
        if source.is_cxx:
            sources.append(source)
            findings += check_includes(source, file_set, table)
    return findings + check_tested(sources, os.path.join(root, "tests/tidy/untested.txt"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(here)))
    root = os.path.abspath(parser.parse_args().root)
    findings = check_tree(root)
    for finding in findings:
        print(finding.line_in(root))
    print(f"tidy: {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
