"""``python -m tests.mutants [--live] [CHECK...]``: every mutant against every check of its kind, as a table.

With ``--live`` the mutants of the live checks, each against these checks, on Spark. Takes minutes. Fails when a mutant
passes its check, fails it with other words, or fails a check that ``also`` does not name. Each mutant is checked in
processes of its own.
"""

from __future__ import annotations

import sys
import time

from attrs import evolve
from tests.mutants.mutant import Mutant, all_mutants

from penstock_testing import Report, checks_for
from penstock_testing.plugin_probe import installed, probe


def judge(mutant: Mutant) -> tuple[Report, list[str]]:
    """The report on a mutant's own kind of checks, and what is unexpected in it."""
    isolated = evolve(mutant, extra={**mutant.extra, "isolated": True})
    own = [mutant.check, *mutant.also]
    live = mutant.check.startswith("XX")
    checks = [check.id for check in checks_for(mutant.kind) if (check.kind == "live") == live]
    others = [check for check in checks if check not in own]
    # What hangs is waited for no longer than in its test; the others get their whole time.
    first, rest = isolated.run(own, mutant.scale), isolated.run(others)
    report = evolve(first, results=first.results + rest.results)
    unexpected = [f"fails {result.id} too: {result.seen.splitlines()[0]}" for result in rest.failed]
    unexpected += [f"passes {check}" for check in own if first[check].outcome != "failed"]
    if mutant.words not in first[mutant.check].seen:
        unexpected.append(f"fails with other words: {first[mutant.check].seen.splitlines()[:1]}")
    return report, unexpected


def main(wanted: list[str]) -> int:
    """Print the table; 1 when anything is unexpected."""
    began, bad = time.monotonic(), 0
    probe(installed()[0], limit_s=60)  # starts the probe process, which the processes of all runs share
    print("| check | mutant | words | fails too |\n|---|---|---|---|", flush=True)
    live = "--live" in wanted
    wanted = [argument for argument in wanted if argument != "--live"]
    for mutant in all_mutants(live=live):
        if wanted and mutant.check not in wanted:
            continue
        _, unexpected = judge(mutant)
        name = mutant.id.partition("-")[2].partition("-")[2]
        print(f"| {mutant.check} | {name} | {mutant.words} | {', '.join(mutant.also)} |", flush=True)
        for line in unexpected:
            print(f"UNEXPECTED: {mutant.id} {line}", flush=True)
        bad += bool(unexpected)
    print(f"\n{bad} unexpected; {time.monotonic() - began:.0f} s")
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
