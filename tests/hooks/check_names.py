#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_names: every hook that proto/test_hooks.h lists stands somewhere in the rooms that may have
it (ROOMS); once only in the list, and nothing else has hooks.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# Where hooks of which list may stand. The list of a daemon's hooks says nothing of its room.
ROOMS = {
    "HC_LANE_FAILPOINTS": ("shm/gpu",),
    "HC_CLIENT_FAILPOINTS": ("client", "client/gpu"),
    "HC_GROUP_MUTANTS": ("client/reload",),
    "HC_GPU_MUTANTS": ("shm/gpu", "daemon"),
}
MACROS = {
    "mutant": ("HC_MUTANTS", "HC_GROUP_MUTANTS", "HC_GPU_MUTANTS"),
    "failpoint": (
        "HC_FAILPOINTS",
        "HC_GPU_FAILPOINTS",
        "HC_LANE_FAILPOINTS",
        "HC_CLIENT_FAILPOINTS",
    ),
}
PATTERNS = {
    "mutant": r"HC_MUTANT\((\w+)\)",
    "failpoint": r"HC_FAILPOINT(?:_FAILS)?\((\w+)\)",
}


def listed(text, macro):
    block = re.search(rf"#define {macro}\(X\)(.*?)\n\n", text, re.DOTALL).group(1)
    return re.findall(r"X\((\w+)\)", block)


def may_stand(room, macro):
    rooms = ROOMS.get(macro, ("daemon",))
    return room in rooms or ("daemon" in rooms and room.startswith("daemon"))


def main():
    header = (ROOT / "proto/test_hooks.h").read_text(encoding="utf-8")
    lists = {
        kind: [(name, macro) for macro in macros for name in listed(header, macro)]
        for kind, macros in MACROS.items()
    }
    used = {kind: [] for kind in lists}
    findings = []
    for folder in ("proto", "shm", "client", "daemon"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".cpp", ".h") or path.name == "test_hooks.h":
                continue
            room = str(path.parent.relative_to(ROOT))
            text = path.read_text(encoding="utf-8")
            for kind, pattern in PATTERNS.items():
                macros = dict(lists[kind])
                for name in re.findall(pattern, text):
                    used[kind].append(name)
                    if name in macros and not may_stand(room, macros[name]):
                        where = path.relative_to(ROOT)
                        findings.append(f"{where}: {kind} {name}, which may not stand there")
    for kind, pairs in lists.items():
        names = [name for name, _ in pairs]
        findings += [f"{kind} {name} is listed twice" for name in names if names.count(name) > 1]
        findings += [f"{kind} {name} stands nowhere" for name in names if name not in used[kind]]
        findings += [f"{kind} {name} is not listed" for name in used[kind] if name not in names]
    print("\n".join(findings + [f"hooks: {len(findings)} findings"]))
    return 1 if findings else 0


sys.exit(main())
