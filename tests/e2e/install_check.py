#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""install_check: installs the build and uses the client library as a stranger would.

The folder is none that the build was configured for. With the flags of hicache.pc alone it compiles
a C and a C++ program, which call the library and check its answer, and the examples of the tree,
which run against the installed daemon. It reads the exports of the library: nothing but hicache_*
and hc_* may be visible. And every file that the systemd unit names under /usr must be there.
"""

import argparse
import os
import re
import socket
import subprocess
import sys
import tempfile

C_PROGRAM = """#include <string.h>
#include <hicache.h>
int main(int count, char** arguments) {
  return count == 2 && strcmp(hicache_version(), arguments[1]) == 0 ? 0 : 1;
}
"""
CXX_PROGRAM = """#include <string>
#include <hicache.hpp>
int main(int count, char** arguments) {
  hicache::Client client;
  const bool empty = client.close(0) == hicache_close(nullptr, 0);
  return empty && count == 2 && std::string(hicache_version()) == arguments[1] ? 0 : 1;
}
"""


def run(command, **more):
    """Runs a command, shows its output only if it fails, and returns its standard output."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more
    )
    if done.returncode != 0:
        sys.exit(f"failed ({done.returncode}): {' '.join(command)}\n{done.stdout}")
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


def check_unit(prefix):
    """What the systemd unit names under /usr is installed under the prefix."""
    with open(find(prefix, "hicached.service"), encoding="utf-8") as file:
        named = sorted(set(re.findall(r"(?<=/usr/)[\w./-]+", file.read())))
    missing = [path for path in named if not os.path.isfile(os.path.join(prefix, path))]
    if missing or "bin/hicached" not in named:
        sys.exit(f"the unit names {named}; not installed: {missing}")


def package_flags(prefix):
    """(compiler flags, linker flags, version) of hicache.pc as it was installed."""
    env = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(find(prefix, "hicache.pc")))
    flags = [
        run(["pkg-config", part, "hicache"], env=env).split()
        for part in ("--cflags", "--libs", "--modversion")
    ]
    for flag in flags[0] + flags[1]:
        folder = os.path.realpath(flag[2:])
        if flag[:2] in ("-I", "-L") and not folder.startswith(os.path.realpath(prefix)):
            sys.exit(f"hicache.pc names {folder}, which is outside of the install folder")
    return flags


def run_examples(prefix, folder, library, examples):
    """Each one against the installed daemon, twice: with an empty store and with a used one."""
    config = os.path.join(folder, "hicached.toml")
    with open(config, "w", encoding="utf-8") as file:
        file.write(
            f'[daemon]\nruntime_dir = "{folder}/run"\n[l2]\nl2_bytes = "32MiB"\n'
            'family_bytes = "16MiB"\n'
            f'[l3]\nvolume_dir = "{folder}/volume"\nl3_bytes = "64MiB"\n'
            '[cold_start]\nmode = "load"\n'
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(f"{folder}/notify.sock")
        notify.settimeout(30)
        env = dict(os.environ, NOTIFY_SOCKET=f"{folder}/notify.sock")
        with open(f"{folder}/daemon.log", "wb") as log, subprocess.Popen(
            [find(prefix, "hicached"), "--config", config], env=env, stderr=log
        ) as daemon:
            try:
                while b"READY=1" not in notify.recv(4096):
                    pass
                env = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(library))
                for name in list(examples) * 2:
                    binary = os.path.join(folder, name + ".out")
                    run([binary, f"{folder}/run/hicached.sock"], env=env, timeout=60)
            finally:
                daemon.terminate()
        if daemon.returncode != 0:
            sys.exit(f"the installed daemon ended with {daemon.returncode}")


def check(args, folder):
    prefix = os.path.join(folder, "prefix")
    run([args.cmake, "--install", args.build, "--prefix", prefix])
    check_unit(prefix)
    cflags, libs, version = package_flags(prefix)
    library = find(prefix, "libhicache.so.0")
    c_compiler = [args.cc, "-std=c11", "-pedantic-errors", "-Wall", "-Wextra", "-Werror"]
    cxx_compiler = [args.cxx, "-std=c++20", "-Wall", "-Wextra", "-Werror"]
    examples = {}
    for name in ("host_rank.c", "reload_loop.c"):
        with open(os.path.join(args.source, "examples", name), encoding="utf-8") as file:
            examples[name] = file.read()
    for name, text, compiler in (
        ("use.c", C_PROGRAM, c_compiler),
        ("use.cpp", CXX_PROGRAM, cxx_compiler),
        *((name, text, c_compiler) for name, text in examples.items()),
    ):
        source = os.path.join(folder, name)
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        binary = source + ".out"
        run([*compiler, *args.flags, *cflags, "-c", source, "-o", source + ".o"])
        # A sanitized library needs the C++ half of the sanitizer's runtime in the program.
        linker = args.cxx if args.flags else compiler[0]
        run([linker, *args.flags, source + ".o", "-o", binary, *libs])
        if name not in examples:
            run([binary, *version], env=dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(library)))
    run_examples(prefix, folder, library, examples)
    foreign = foreign_exports(library)
    if foreign:
        sys.exit("exports beyond the C interface: " + ", ".join(foreign[:10]))


def main():
    parser = argparse.ArgumentParser()
    for name in ("--build", "--source", "--cmake", "--cc", "--cxx"):
        parser.add_argument(name, required=True)
    parser.add_argument("--flags", type=str.split, default=[])
    with tempfile.TemporaryDirectory(prefix="hc-install-") as folder:
        check(parser.parse_args(), folder)


main()
