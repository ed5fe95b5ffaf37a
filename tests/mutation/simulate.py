"""Finds out which defects the simulator sees: runs its seeds on each one of ``defects.py``, and then its unit tests.

Without names it tests all defects. A defect is killed by the first seed that violates a guarantee. The seeds run in
rounds, so that defects that need many of them do not keep the others waiting. The unit tests are those in the folder
of the package concerned that run the changed lines, without Spark and without the simulator. Everything runs in the
sandbox of ``tests.mutation``, one fork for each defect.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from attrs import define
from tests.mutation.defects import DEFECTS, Defect
from tests.mutation.forks import Send, in_forks
from tests.mutation.mutations import Mutant
from tests.mutation.sandbox import SandboxError, is_inside, run_inside
from tests.mutation.session import MutationSession, Verdict, replace

from penstock_testing import Simulation

_ROOT = Path(__file__).parents[2]
# The seeds of each round end before these numbers.
_ROUNDS = (20, 100, 300, 1000)
# Seconds of real time after which a simulation hangs. Its own limits, which raise errors, are lower on an idle machine.
_SEED_S = 600.0
# Tests that use the simulator, too.
_SIMULATING = "--ignore-glob=*_orders.py"
# The simulator was imported before pytest could rewrite its assertions.
_IMPORTED = ("-W", "ignore::pytest.PytestAssertRewriteWarning")


@define
class Result:
    """What is known of a defect: all seeds below a number were run, the last of which may violate a guarantee."""

    defect: Defect
    seeds: int = 0
    violation: str = ""
    #: The verdict of the unit tests, and the test that killed the mutant.
    verdict: Verdict | None = None
    killer: str = ""

    @property
    def row(self) -> str:
        """A row of the table."""
        seed = f"seed {self.seeds - 1}" if self.violation else f"survived {self.seeds} seeds"
        origin = "reported" if self.defect.was_reported else ""
        tests = {None: "not run", "killed": "killed", "timeout": "killed"}.get(self.verdict, "survived")
        return f"| `{self.defect.name}` | {self.defect.what} | {origin} | {seed} | {tests} |"


@define
class _Run:
    results: Sequence[Result]
    jobs: int
    seeds: range
    end_s: float

    def simulate(self) -> None:
        """Run the seeds until each defect is killed, or the time is over."""
        forks = in_forks(self._rounds(), self._run_seeds, lambda _message: _SEED_S, self.jobs)
        for (result, _seeds), messages, in_time in forks:
            result.seeds = max([result.seeds, *(message["seed"] + 1 for message in messages)])
            result.violation = messages[-1].get("violation", "") if messages else ""
            if not in_time:
                result.violation = f"the simulation did not end within {_SEED_S:g} s"
            print(f"{result.defect.name}: {result.seeds} seeds, {result.violation[:200] or 'survived'}", flush=True)

    def _rounds(self) -> Iterator[tuple[Result, range]]:
        ends = {*_ROUNDS, self.seeds.stop}.intersection(range(self.seeds.start + 1, self.seeds.stop + 1))
        for first, end in pairwise([self.seeds.start, *sorted(ends)]):
            # While others still run in a round, the next one begins with those that have survived it.
            for result in self.results:
                if not result.violation and result.seeds >= first and time.monotonic() < self.end_s:
                    yield result, range(first, end)

    def _run_seeds(self, task: tuple[Result, range], send: Send) -> None:
        result, seeds = task
        replace(result.defect.mutant())
        for seed in seeds:
            if time.monotonic() > self.end_s:
                return
            violations = Simulation(seed).run().violations
            send({"seed": seed, "violation": violations[0] if violations else ""})
            if violations:
                return

    def test(self) -> None:
        """Run the unit tests of each package on its defects."""
        for package in dict.fromkeys(result.defect.package for result in self.results):
            own = {str(result.defect.mutant()): result for result in self.results if result.defect.package == package}
            mutants = [result.defect.mutant() for result in own.values()]
            session = MutationSession(mutants, self.jobs, float("inf"), partial(_note, own))
            options = ["-q", "-m", "not spark", "-p", "no:cacheprovider", _SIMULATING, *_IMPORTED]
            pytest.main([*options, f"tests/{package}"], plugins=[session])


def _note(results: dict[str, Result], mutant: Mutant, verdict: Verdict, killer: str) -> None:
    result = results[str(mutant)]
    result.verdict = verdict
    result.killer = killer
    print(f"{result.defect.name}: {verdict} {killer}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation.simulate", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *(defect.name for defect in DEFECTS)], help="defects to test")
    parser.add_argument("--seeds", type=int, default=1000, help="run the seeds below this number")
    parser.add_argument("--first", type=int, default=0, help="the first seed, to continue an earlier run")
    parser.add_argument("--minutes", type=float, default=600.0, help="start no further seed after this time")
    parser.add_argument("--only-seeds", action="store_true", help="run no unit tests")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="defects that are tested at the same time")
    parser.add_argument("--output", type=Path, default=_ROOT / "build" / "defects.jsonl", help="a line for each defect")
    parser.add_argument("--results", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.results is None or not is_inside():
        return _run_inside(arguments.output)
    seeds = range(arguments.first, arguments.seeds)
    results = [
        Result(defect, seeds.start) for defect in DEFECTS if not arguments.names or defect.name in arguments.names
    ]
    run = _Run(results, arguments.jobs, seeds, time.monotonic() + arguments.minutes * 60)
    run.simulate()
    if not arguments.only_seeds:
        run.test()
    with os.fdopen(arguments.results, "w") as file:
        for result in results:
            print(json.dumps(_as_json(result)), file=file)
    print("| mutant | what goes wrong | once real | simulator | unit tests |", "|---|---|---|---|---|", sep="\n")
    print(*(result.row for result in results), sep="\n")
    return 0


def _as_json(result: Result) -> dict[str, Any]:
    values = {"seeds": result.seeds, "violation": result.violation, "verdict": result.verdict, "killer": result.killer}
    return {"defect": result.defect.name, **values}


def _run_inside(output: Path) -> int:
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("wb") as results:
        command = [sys.executable, "-m", "tests.mutation.simulate", *sys.argv[1:], "--results", str(results.fileno())]
        try:
            return run_inside(command, results=results)
        except SandboxError as error:
            raise SystemExit(f"nothing was mutated, because a mutant may delete any file: {error}") from error


if __name__ == "__main__":
    raise SystemExit(main())
