#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails unless make_golden.py writes exactly the golden files that lie beside it, and README.md
names each of them and each struct of ours that leaves a process.

So neither the files nor the second implementation can change without the other, and no new format
comes without its bytes.
"""
import pathlib
import re
import sys
import tempfile

sys.dont_write_bytecode = True
import make_golden  # noqa: E402


def compare_files(here, fresh):
    """(names of all golden files, what is wrong with them)"""
    failures = []
    names = sorted({path.name for place in (here, fresh) for path in place.glob("*.hex")})
    for name in names:
        if not (fresh / name).exists():
            failures.append("%s: make_golden.py does not write it" % name)
        elif not (here / name).exists():
            failures.append("%s: missing; run make_golden.py" % name)
        elif (here / name).read_bytes() != (fresh / name).read_bytes():
            failures.append("%s: differs from what make_golden.py writes" % name)
    return names, failures


def compare_table(here, names):
    """Files and structs that are missing in the table of README.md, or too many in it."""
    rows = [line.split("|") for line in (here / "README.md").read_text().splitlines()
            if line.startswith("| `")]
    files = {name for row in rows for name in re.findall(r"`(\w+)`", row[1])}
    structs = {name for row in rows for name in re.findall(r"`(\w+)`", row[2])}
    root = here.parent.parent
    headers = [*root.glob("proto/*.h"), root / "daemon/index/meta_rows.h"]
    declared = {name for header in headers
                for name in re.findall(r"static_assert\(WireStruct<(\w+)>", header.read_text())}
    wanted = {name[:-len(".hex")] for name in names}
    if not declared:
        return ["no struct was found in %s" % root]
    return (["README.md: no row for %s" % name
             for name in sorted(wanted - files) + sorted(declared - structs)] +
            ["README.md: %s is no golden file or struct of ours" % name
             for name in sorted(files - wanted) + sorted(structs - declared)])


def main():
    here = pathlib.Path(__file__).resolve().parent
    with tempfile.TemporaryDirectory() as folder:
        fresh = pathlib.Path(folder)
        make_golden.write_all(fresh)
        names, failures = compare_files(here, fresh)
    failures += compare_table(here, names)
    for failure in failures:
        print(failure)
    print("%d golden files, %d failures" % (len(names), len(failures)))
    return 1 if failures or not names else 0


if __name__ == "__main__":
    sys.exit(main())
