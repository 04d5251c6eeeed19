#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""install_check: installs the build and uses the client library as a stranger would.

It compiles one C and one C++ program with the flags of hicache.pc, runs both, and reads the
exports of the library: nothing but hicache_* and hc_* may be visible.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

C_PROGRAM = "#include <hicache.h>\nint main(void) { return 0; }\n"
CXX_PROGRAM = "#include <hicache.hpp>\nint main() { return 0; }\n"


def run(command, **more):
    """Runs a command, shows its output only if it fails, and returns its standard output."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more
    )
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(command)}\n{done.stdout}")
    return done.stdout


def find(root, name):
    """The path of the only file called `name` under `root`."""
    found = [os.path.join(folder, name) for folder, _, files in os.walk(root) if name in files]
    if len(found) != 1:
        sys.exit(f"expected one {name} under the install folder, found {len(found)}")
    return found[0]


def foreign_exports(library):
    """Defined dynamic symbols that are not part of the C interface."""
    names = [line.split()[-1] for line in run(["nm", "-D", "--defined-only", library]).splitlines()]
    names = [re.sub(r"@.*", "", name) for name in names]
    exported = [name for name in names if name != "HICACHE_0"]
    if not exported:
        sys.exit(f"{library} exports nothing")
    return [name for name in exported if not re.match(r"(hicache|hc)_", name)]


def check(args, folder):
    run([args.cmake, "--install", args.build, "--prefix", folder])
    pkg_config_file = find(folder, "hicache.pc")
    env = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(pkg_config_file))
    overrides = []
    for name, value in (
        ("prefix", folder),
        ("libdir", os.path.dirname(find(folder, "libhicache.so.0"))),
        ("includedir", os.path.dirname(find(folder, "hicache.h"))),
    ):
        overrides.append(f"--define-variable={name}={value}")
    cflags, libs = (
        run(["pkg-config", *overrides, part, "hicache"], env=env).split()
        for part in ("--cflags", "--libs")
    )
    library = find(folder, "libhicache.so.0")
    programs = [
        (
            "use.c",
            C_PROGRAM,
            [args.cc, "-std=c11", "-pedantic-errors", "-Wall", "-Wextra", "-Werror"],
        )
    ]
    if os.path.exists(os.path.join(os.path.dirname(find(folder, "hicache.h")), "hicache.hpp")):
        programs.append(
            ("use.cpp", CXX_PROGRAM, [args.cxx, "-std=c++20", "-Wall", "-Wextra", "-Werror"])
        )
    for name, text, compiler in programs:
        source = os.path.join(folder, name)
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        binary = source + ".out"
        run([*compiler, *args.flags, *cflags, "-c", source, "-o", source + ".o"])
        # A sanitized library needs the C++ half of the sanitizer's runtime in the program.
        linker = args.cxx if args.flags else compiler[0]
        run([linker, *args.flags, source + ".o", "-o", binary, "-Wl,--no-as-needed", *libs])
        run([binary], env=dict(env, LD_LIBRARY_PATH=os.path.dirname(library)))
    foreign = foreign_exports(library)
    if foreign:
        sys.exit("exports beyond the C interface: " + ", ".join(foreign[:10]))


def main():
    parser = argparse.ArgumentParser()
    for name in ("--build", "--cmake", "--cc", "--cxx"):
        parser.add_argument(name, required=True)
    parser.add_argument("--flags", type=str.split, default=[])
    with tempfile.TemporaryDirectory(prefix="hc-install-") as folder:
        check(parser.parse_args(), folder)


main()
