#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mutants: shows that the simulation can see. Every small bug of mutants.txt must break a law.

Each mutant of hc_sim_hooks runs on the seed that is known to kill it, and if that one has drifted
on the seeds of the suite, until one fails. Without a mutant all those seeds must pass. Exit status
1: a mutant survives, or a name is in one of proto/test_hooks.h and the table only.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SEARCH_LAST = 300  # the seeds of sim.smoke
SEARCH_STEP = 20


def read_table(path):
    """Lines `name seed law  what it is` as {name: (seed, law, words)}."""
    table = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        words = line.split("#")[0].split(None, 3)
        if words:
            name, seed, law, what = words
            if name in table:
                sys.exit(f"{path}: {name} is listed twice")
            table[name] = (int(seed), law, what)
    return table


def run(sim, mutant, seeds):
    """How the first failing seed failed, as (seed, law, line); None when all pass."""
    environment = dict(os.environ)
    environment.pop("HICACHE_MUTANT", None)
    if mutant:
        environment["HICACHE_MUTANT"] = mutant
    done = subprocess.run(
        [sim, *seeds], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, errors="replace", check=False, timeout=900,
    )  # fmt: skip
    if done.returncode == 0:
        return None
    lines = done.stderr.splitlines()
    for line in lines:
        broken = re.match(r"seed (\d+): (?:law (\d) is broken|the engine aborted)", line)
        if broken:
            checks = [other for other in lines if "check failed" in other]
            law = broken.group(2) or "check"
            return int(broken.group(1)), law, line if broken.group(2) else checks[-1:] or line
    sys.exit(f"{sim}: status {done.returncode}\n{done.stderr}")


def search(sim, mutant):
    for first in range(1, SEARCH_LAST + 1, SEARCH_STEP):
        found = run(sim, mutant, ["--seeds", f"{first}..{first + SEARCH_STEP - 1}"])
        if found:
            return found
    return None


def judge(sim, mutant, entry):
    known = run(sim, mutant, ["--seed", str(entry[0])]) if entry else None
    return known or search(sim, mutant)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sim", required=True, help="hc_sim_hooks of a finished build")
    parser.add_argument("--table", default=str(HERE / "mutants.txt"))
    parser.add_argument("--kind", default="mutant", help="of the list: mutant or group_mutant")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", help="one mutant")
    args = parser.parse_args()
    table = read_table(pathlib.Path(args.table))
    listed = subprocess.run(
        [args.sim], env=dict(os.environ, HICACHE_HOOKS="list"), capture_output=True, text=True,
        check=True,
    ).stdout  # fmt: skip
    names = [line.split()[1] for line in listed.splitlines() if line.split()[0] == args.kind]
    failed = 0
    for name in sorted(set(names) ^ set(table)):
        print(f"{name}: in only one of proto/test_hooks.h and {args.table}")
        failed += 1
    names = [name for name in names if args.only in (None, name)]
    seeds = sorted({table[name][0] for name in names if name in table})
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        clean = pool.submit(
            run, args.sim, None, [word for seed in seeds for word in ("--seed", str(seed))]
        )
        results = pool.map(lambda name: judge(args.sim, name, table.get(name)), names)
        for name, result in zip(names, results):
            if result is None:
                print(f"{name}: SURVIVES seeds 1..{SEARCH_LAST}")
                failed += 1
                continue
            seed, law, line = result
            drifted = name in table and table[name][:2] != (seed, law)
            print(f"{name}: {line}{'  (the table says otherwise)' if drifted else ''}")
            sys.stdout.flush()
        if seeds and clean.result():
            print(f"without a mutant: {clean.result()[2]}")
            failed += 1
    print(f"{len(names)} mutants, {failed} failures")
    return 1 if failed else 0


sys.exit(main())
