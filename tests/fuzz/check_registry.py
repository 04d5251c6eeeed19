#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails unless every fuzz target is in registry.txt, has a corpus, and the corpus is small."""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
CORPUS_BYTES_MAX = 200 * 1024


def main():
    lines = (HERE / "registry.txt").read_text().splitlines()
    listed = {line.split()[0] for line in lines if line and not line.startswith("#")}
    written = {path.name[:-len("_fuzz.cpp")] for path in HERE.glob("*_fuzz.cpp")}
    corpora = {path.name for path in (HERE / "corpus").iterdir()} - {"canary"}
    failures = ["%s: not in registry.txt" % name for name in sorted(written - listed)]
    failures += ["%s: no %s_fuzz.cpp" % (name, name) for name in sorted(listed - written)]
    failures += ["corpus/%s: no such target" % name for name in sorted(corpora - listed)]
    for name in sorted(listed):
        if not any((HERE / "corpus" / name).glob("*")):
            failures.append("corpus/%s: empty" % name)
    total = sum(path.stat().st_size for path in (HERE / "corpus").rglob("*") if path.is_file())
    if total > CORPUS_BYTES_MAX:
        failures.append("corpus: %d bytes, at most %d" % (total, CORPUS_BYTES_MAX))
    for failure in failures:
        print(failure)
    print("%d targets, %d corpus bytes, %d failures" % (len(listed), total, len(failures)))
    return 1 if failures or not listed else 0


if __name__ == "__main__":
    sys.exit(main())
