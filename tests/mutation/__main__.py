"""Mutates the engine itself: changes one expression or statement at a time, and runs the tests of the changed line.

A surviving mutant changes the engine without a failing test: a test is missing, the changed code is needless, or the
mutant behaves as the original does; then ``equivalents.py`` lists it with the reason. Runs the tests without Spark, one
fork for each mutant, in a sandbox whose file systems are read-only: a mutant of code that deletes files may delete any.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TextIO

import pytest
from tests.mutation.mutations import Mutant, mutants_of
from tests.mutation.sandbox import SandboxError, is_inside, run_inside
from tests.mutation.session import MutationSession, Verdict

_ROOT = Path(__file__).parents[2]
_CORE = _ROOT / "core" / "src"
#: The folders that decide what is stored, allocated, run and recovered.
_FOLDERS = ("track", "journal", "checkpoint", "schedule")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument(
        "targets",
        nargs="*",
        default=list(_FOLDERS),
        help="folders or files below core/src/penstock (track, wire/client.py)",
    )
    parser.add_argument("--tests", action="append", help="tests to run; by default those of the folder")
    parser.add_argument("--sample", type=int, help="test at most this many mutants of each target")
    parser.add_argument("--seed", type=int, default=1, help="chooses the sample")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="mutants that are tested at the same time")
    parser.add_argument("--minutes", type=float, default=600.0, help="stop after this time")
    parser.add_argument(
        "--output", type=Path, default=_ROOT / "build" / "mutation.jsonl", help="a line for each mutant"
    )
    parser.add_argument("--results", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.results is None or not is_inside():
        return _run_inside(arguments.output)
    end_s = time.monotonic() + arguments.minutes * 60
    results = os.fdopen(arguments.results, "w", buffering=1)
    for target in arguments.targets:
        mutants = _mutants(target)
        if arguments.sample is not None and len(mutants) > arguments.sample:
            mutants = random.Random(arguments.seed).sample(mutants, arguments.sample)
        tests = arguments.tests or [f"tests/{target.partition('/')[0]}"]
        _test(target, mutants, tests, arguments.jobs, end_s, results)
    return 0


def _run_inside(output: Path) -> int:
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("wb") as results:
        command = [sys.executable, "-m", "tests.mutation", *sys.argv[1:], "--results", str(results.fileno())]
        try:
            return run_inside(command, results=results)
        except SandboxError as error:
            raise SystemExit(f"nothing was mutated, because a mutant may delete any file: {error}") from error


def _mutants(target: str) -> list[Mutant]:
    path = _CORE / "penstock" / target
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    if not all(file.is_file() for file in files) or not files:
        raise SystemExit(f"{path} does not exist: name a folder or file below core/src/penstock")
    modules = [".".join(file.relative_to(_CORE).with_suffix("").parts) for file in files if file.stem != "__init__"]
    paths = [file for file in files if file.stem != "__init__"]
    return [mutant for module, file in zip(modules, paths, strict=True) for mutant in mutants_of(module, file)]


def _test(target: str, mutants: list[Mutant], tests: list[str], jobs: int, end_s: float, results: TextIO) -> None:
    counts: Counter[str] = Counter()
    survivors: dict[str, list[str]] = defaultdict(list)

    def note(mutant: Mutant, verdict: Verdict, killer: str) -> None:
        counts[verdict] += 1
        print(json.dumps({"target": target, "mutant": str(mutant), "verdict": verdict, "killer": killer}), file=results)
        if verdict in ("survived", "untested"):
            survivors[mutant.module].append(f"  {verdict}: {mutant}  [{mutant.source}]")
        print(f"\r{target}: {counts.total()} of {len(mutants)}, {dict(counts)}", end="", file=sys.stderr, flush=True)

    session = MutationSession(mutants, jobs, end_s, note)
    code = pytest.main(["-q", "-m", "not spark", "-p", "no:cacheprovider", *tests], plugins=[session])
    print(file=sys.stderr)
    if code not in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise SystemExit(f"the tests of {target} were not collected: pytest ended with {code!r}")
    for failing in session.failing:
        print(f"fails without a mutant, left out: {failing}")
    for lines in survivors.values():
        print("\n".join(lines))
    killed = counts["killed"] + counts["timeout"]
    print(f"{target}: {counts.total()} of {len(mutants)} mutants tested, {killed} killed, {dict(counts)}")


if __name__ == "__main__":
    raise SystemExit(main())
