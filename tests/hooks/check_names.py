#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_names: every hook that proto/test_hooks.h lists stands somewhere in the daemon or, if it is
one of a group, in client/reload, or of copies, in shm/gpu; once only in the list, and nothing else
has hooks.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def listed(text, macro):
    block = re.search(rf"#define {macro}\(X\)(.*?)\n\n", text, re.DOTALL).group(1)
    return re.findall(r"X\((\w+)\)", block)


def main():
    header = (ROOT / "proto/test_hooks.h").read_text(encoding="utf-8")
    lists = {
        "mutant": (
            listed(header, "HC_MUTANTS")
            + listed(header, "HC_GROUP_MUTANTS")
            + listed(header, "HC_GPU_MUTANTS"),
            r"HC_MUTANT\((\w+)\)",
        ),
        "failpoint": (
            listed(header, "HC_FAILPOINTS") + listed(header, "HC_GPU_FAILPOINTS"),
            r"HC_FAILPOINT(?:_FAILS)?\((\w+)\)",
        ),
    }
    used = {kind: [] for kind in lists}
    findings = []
    for folder in ("proto", "shm", "client", "daemon"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".cpp", ".h") or path.name == "test_hooks.h":
                continue
            text = path.read_text(encoding="utf-8")
            for kind, (_, pattern) in lists.items():
                found = re.findall(pattern, text)
                used[kind] += found
                may = folder == "daemon" or path.parent.name == "reload"
                if found and not may and path.parent != ROOT / "shm/gpu":
                    findings.append(f"{path.relative_to(ROOT)}: a {kind} where none may be")
    for kind, (names, _) in lists.items():
        findings += [f"{kind} {name} is listed twice" for name in names if names.count(name) > 1]
        findings += [f"{kind} {name} stands nowhere" for name in names if name not in used[kind]]
        findings += [f"{kind} {name} is not listed" for name in used[kind] if name not in names]
    print("\n".join(findings + [f"hooks: {len(findings)} findings"]))
    return 1 if findings else 0


sys.exit(main())
