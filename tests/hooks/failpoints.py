#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""failpoints: a kill at every failpoint, in several processes at once: they mostly wait for disks.

Exit status 1: one of them failed; what it printed is shown.
"""

import argparse
import os
import subprocess
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--e2e", required=True, help="the end-to-end test program")
    parser.add_argument("--processes", type=int, default=8)
    options = parser.parse_args()
    parts = []
    for part in range(options.processes):
        environment = dict(os.environ)
        environment["HC_E2E_FAILPOINTS"] = f"part:{part}/{options.processes}"
        parts.append(
            subprocess.Popen(
                [options.e2e, "--filenames-as-tags", "[#failpoint_test]"], env=environment,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            )  # fmt: skip
        )
    failed = 0
    for part in parts:
        output, _ = part.communicate()
        if part.returncode != 0:
            print(output)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
