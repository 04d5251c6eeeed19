#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails unless make_golden.py writes exactly the golden files that lie beside it.

So neither the files nor the second implementation can change without the other.
"""
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
import make_golden  # noqa: E402


def main():
    here = pathlib.Path(__file__).resolve().parent
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        fresh = pathlib.Path(folder)
        make_golden.write_all(fresh)
        names = sorted({path.name for place in (here, fresh) for path in place.glob("*.hex")})
        for name in names:
            if not (fresh / name).exists():
                failures.append("%s: make_golden.py does not write it" % name)
            elif not (here / name).exists():
                failures.append("%s: missing; run make_golden.py" % name)
            elif (here / name).read_bytes() != (fresh / name).read_bytes():
                failures.append("%s: differs from what make_golden.py writes" % name)
    for failure in failures:
        print(failure)
    print("%d golden files, %d failures" % (len(names), len(failures)))
    return 1 if failures or not names else 0


if __name__ == "__main__":
    sys.exit(main())
