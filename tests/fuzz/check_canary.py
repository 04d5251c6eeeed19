#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_canary.py PROGRAM CORPUS: the canary must pass on `quiet` and end by its check on `sing`.

CTest's WILL_FAIL would not do: it does not invert an abort, and a missing program would satisfy it.
"""
import pathlib
import signal
import subprocess
import sys

# An abort, as the replay and sanitizers show it, or as libFuzzer reports it.
CHECK_ENDED_IT = (-signal.SIGABRT, 77)


def replay(program, path):
    done = subprocess.run([program, str(path)], stderr=subprocess.PIPE, text=True, errors="replace")
    return done.returncode, "check failed: !canary_sings" in done.stderr


def main():
    program, corpus = sys.argv[1], pathlib.Path(sys.argv[2])
    quiet_code, quiet_failed = replay(program, corpus / "quiet")
    sing_code, sing_failed = replay(program, corpus / "sing")
    if quiet_code != 0 or quiet_failed:
        print("the canary fails without a reason: exit code %d" % quiet_code)
        return 1
    if sing_code not in CHECK_ENDED_IT or not sing_failed:
        print("the canary sang and nobody heard it: exit code %d" % sing_code)
        return 1
    print("the canary is heard")
    return 0


if __name__ == "__main__":
    sys.exit(main())
