"""Kills the processes of a Spark program that writes into tables, cuts their stores off, and compares the tables.

Run: python -m plugins.tables.tests.killed_programs delta sql --kills 25 --cuts 5 --seed 1
In parts: ... delta --kills 100 --cuts 20 --minutes 10 --results kills.jsonl, again until all ran.

The program receives numbers, which it acknowledges once they are stored, and writes them into each table. At seeded
random moments of an output's tasks, or of its commit, one of its processes is killed (-9): the driver, its JVM, an
executor, or a Python worker. The outputs run at once, so that a kill interrupts several of them. Cuts take a store away
for a while, or lose the answer of a commit; the program retries. In the end every acknowledged number must be in each
table, and nothing that was stored once may be there twice. The program may finish what it has to write, as long as it
writes. A number that is missing then is lost, or pending if the program has stopped with batches left: both fail the
run. So must every run with ``--defect``.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import psutil
from benchmarks.numbered_source import Source
from benchmarks.processes import end_session, ends_on_sigterm
from plugins.tables.tests.kind_of_table import KINDS, Kind
from plugins.tables.tests.kinds_with_servers import POSTGRESQL, kind_of_table
from plugins.tables.tests.table_program import (
    ANSWERS_ARE_LOST,
    BATCHES_LEFT,
    DEFECTS,
    LOST_ANSWERS,
    STOP_S,
    launch,
    progress_of,
)
from plugins.tables.tests.writer_progress import Phase
from pyspark.find_spark_home import _find_spark_home

from penstock_tables.iceberg_table import IcebergTableSettings
from penstock_tables.sql_table import SqlTableSettings

# In local mode the JVM is the executor.
VICTIMS = ("driver", "JVM", "executor", "worker")
# Recovery, and the next batch.
_RECOVERY_S = 300.0
# At the end: what is missing after this time without a new number in a table stays missing.
_IDLE_S = 300.0
_POLL_S = 0.002
# The longest delay of a kill after the moment that it waited for.
_INTO_TASKS_S, _INTO_COMMIT_S = 0.25, 0.02
# How long a store is away: longer than several attempts.
_AWAY_S = (1.0, 3.0)
#: The counts that must be 0.
FAULTS = ("lost", "pending", "twice", "unknown")


def compare(
    rows: Iterable[tuple[int, int]], acknowledged: Collection[int], sent: Collection[int], *, left: int
) -> dict[str, int]:
    """Compare a table with what its source has sent.

    Args:
        rows: number and store of each row.
        acknowledged: the numbers that have to be in the table.
        sent: the numbers that may be in it.
        left: batches that the program has not completed.
    """
    counts = Counter(rows)
    numbers = {number for number, _store in counts}
    missing = len(set(acknowledged) - numbers)
    return {
        "acknowledged": len(acknowledged),
        "written": counts.total(),
        "lost": 0 if left else missing,
        "pending": missing if left else 0,
        "twice": counts.total() - len(counts),
        "unknown": len(numbers.difference(sent)),
        "sent again and stored again": len(counts) - len(numbers),
    }


class KilledProgram:
    """The program, its source and its tables."""

    def __init__(self, kinds: Sequence[Kind], folder: Path, options: argparse.Namespace) -> None:
        self.source = Source(options.seed)
        self.rng = random.Random(options.seed)
        self.kinds = kinds
        self.progress = {kind.name: progress_of(folder, kind) for kind in kinds}
        self._folder = folder
        self._victims = options.victims
        self._is_local = options.master.startswith("local[")
        settings = [f"--{name}={getattr(options, name)}" for name in ("interval", "master", "defect")]
        self._launch = partial(launch, folder, kinds, [f"--port={self.source.port}", *settings])
        self._sessions = list[int]()
        self._process = self._launched()

    def _launched(self) -> subprocess.Popen[bytes]:
        process = self._launch()
        self._sessions.append(process.pid)
        return process

    # -- kills --

    def kill(self) -> tuple[str, Mapping[str, Phase]]:
        """Kill a process at a random moment; return which, and what the output of each table did."""
        victim, kind = self.rng.choice(self._victims), self.rng.choice(self.kinds)
        aim = self.rng.choice((Phase.TASKS, Phase.COMMIT))
        # Most commits are short.
        delay_s = _INTO_COMMIT_S * self.rng.random() ** 3 if aim is Phase.COMMIT else _INTO_TASKS_S * self.rng.random()
        self._await_batches()
        interrupted: Mapping[str, Phase] | None = None
        ends_program = False
        while interrupted is None:
            process = self._process_of(victim)
            # In local mode the JVM is the executor.
            ends_program = victim in ("driver", "JVM") or (victim == "executor" and self._is_local)
            self._await(lambda: self._phase(kind) is aim, f"a batch is in its {aim.text} of {kind.name}")
            time.sleep(delay_s)
            interrupted = {each.name: self._phase(each) for each in self.kinds}
            try:
                process.kill()
            except psutil.NoSuchProcess:
                # An idle worker has ended by itself.
                interrupted = None
        if ends_program:
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                raise SystemExit(f"FAILED: 60 s after its {victim} was killed, the program runs") from None
            for progress in self.progress.values():
                progress.phase = Phase.BETWEEN_BATCHES
            self._process = self._launched()
        return victim, interrupted

    def _phase(self, kind: Kind) -> Phase:
        """What an output does; a task that commits is in the commit while its transaction has written something."""
        phase = self.progress[kind.name].phase
        if not kind.table.commits_in_task or phase is Phase.BETWEEN_BATCHES:
            return phase
        return Phase.COMMIT if self._in_transaction(kind) else Phase.TASKS

    def _in_transaction(self, kind: Kind) -> bool:
        if kind.server is None:
            return (kind.folder / "shop.db-journal").exists()
        with suppress(Exception):
            query = b"SELECT 1 FROM pg_stat_activity WHERE datname = 'shop' AND backend_xid IS NOT NULL"
            return self._observer(kind).execute(query).fetchone() is not None
        return False

    @lru_cache(maxsize=1)  # noqa: B019  # as long as the program
    def _observer(self, kind: Kind) -> Any:
        assert kind.server is not None
        return kind.server.connect()

    def _process_of(self, victim: str) -> psutil.Process:
        found: list[psutil.Process] = []

        def look() -> bool:
            with suppress(psutil.Error, IndexError, StopIteration):
                found.append(self._look_for(victim))
            return bool(found)

        self._await(look, f"the {victim} runs")
        return found[0]

    def _look_for(self, victim: str) -> psutil.Process:
        driver = psutil.Process(self._process.pid)
        if victim == "driver":
            return driver
        jvm = next(child for child in driver.children() if child.name() == "java")
        executors = [child for child in jvm.children() if child.name() == "java"]
        if victim == "JVM":
            return jvm
        # In local mode the driver's JVM runs the tasks.
        executor = self.rng.choice(executors) if executors else jvm
        if victim == "executor":
            return executor
        workers = [each for each in executor.children(recursive=True) if each.name().startswith("python")]
        return self.rng.choice([worker for worker in workers if not worker.children()])

    # -- cuts --

    def cut(self) -> tuple[str, str]:
        """Take a table's store away in the middle of a batch, bring it back; return which table, and how."""
        kind = self.rng.choice(self.kinds)
        cuts = {"answer lost": self._answer_lost, **self._cuts(kind)}
        name = self.rng.choice(list(cuts))
        self._await_batches()
        self._await(lambda: self._phase(kind) is not Phase.BETWEEN_BATCHES, f"a batch is written into {kind.name}")
        time.sleep(self.rng.uniform(0, 0.1))
        with cuts[name](kind):
            time.sleep(self.rng.uniform(*_AWAY_S))
        self._await_batches()
        return kind.name, name

    def _cuts(self, kind: Kind) -> Mapping[str, Callable[[Kind], AbstractContextManager[None]]]:
        if kind.server is not None:
            return {"server suspended": self._suspended, "server killed": self._stopped}
        if isinstance(kind.table, SqlTableSettings):
            return {"locked": self._locked, "removed": self._removed}
        cuts = {"removed": self._removed, "not a folder": self._replaced}
        if isinstance(kind.table, IcebergTableSettings):
            # The catalog is in the folder as well: its open connection would commit what is written nowhere.
            del cuts["removed"]
        return cuts

    @contextmanager
    def _answer_lost(self, kind: Kind) -> Iterator[None]:
        path, lost = self._folder / f"{ANSWERS_ARE_LOST}-{kind.name}", self._folder / LOST_ANSWERS
        before = lost.read_text() if lost.exists() else ""
        path.touch()
        try:
            self._await(lambda: lost.exists() and lost.read_text() != before, "a commit without an answer")
            yield
        finally:
            path.unlink()

    @contextmanager
    def _suspended(self, kind: Kind) -> Iterator[None]:
        assert kind.server is not None
        kind.server.suspend()
        try:
            yield
        finally:
            kind.server.resume()

    @contextmanager
    def _stopped(self, kind: Kind) -> Iterator[None]:
        assert kind.server is not None
        kind.server.kill()
        try:
            yield
        finally:
            kind.server.start()
            self._observer.cache_clear()

    @contextmanager
    def _locked(self, kind: Kind) -> Iterator[None]:
        with closing(sqlite3.connect(kind.folder / "shop.db", timeout=60)) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            yield

    @contextmanager
    def _removed(self, kind: Kind) -> Iterator[None]:
        """As when a disk is not mounted: the folder is there, and empty."""
        away = kind.folder.with_suffix(".away")
        kind.folder.rename(away)
        kind.folder.mkdir()
        try:
            yield
        finally:
            shutil.rmtree(kind.folder)
            away.rename(kind.folder)

    @contextmanager
    def _replaced(self, kind: Kind) -> Iterator[None]:
        """No folder can be created in its place."""
        away = kind.folder.with_suffix(".away")
        kind.folder.rename(away)
        kind.folder.touch()
        try:
            yield
        finally:
            kind.folder.unlink()
            away.rename(kind.folder)

    # -- waiting and the end --

    def _await_batches(self) -> None:
        """Wait until a number is acknowledged, and a later batch is written into each table."""
        acknowledged = len(self.source.acknowledged)
        self._await(lambda: len(self.source.acknowledged) > acknowledged, "a number is acknowledged")
        batches = {name: progress.batches for name, progress in self.progress.items()}
        self._await(
            lambda: all(progress.batches > batches[name] for name, progress in self.progress.items()),
            "a batch is written into each table",
        )

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _RECOVERY_S
        while not condition():
            if self._process.poll() is not None:
                raise SystemExit(f"FAILED: the program ended with {self._process.returncode}; see {self._folder}/log")
            if time.monotonic() > deadline:
                raise SystemExit(f"FAILED: not within {_RECOVERY_S:g} s: {what}; see {self._folder}/log")
            time.sleep(_POLL_S)

    def finish(self) -> int:
        """Let the program write what is acknowledged, and stop it gracefully; return its exit code."""
        self._await_batches()
        self.source.paused.set()
        missing, since = self._missing(), time.monotonic()
        while missing and time.monotonic() < since + _IDLE_S:
            time.sleep(1)
            if (fewer := self._missing()) < missing:
                missing, since = fewer, time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(STOP_S + 60)

    def _missing(self) -> int:
        """The numbers that tables lack, in all of them together."""
        return sum(self.counts(kind)[fault] for kind in self.kinds for fault in ("lost", "pending"))

    def counts(self, kind: Kind) -> dict[str, int]:
        """Compare a table with what was acknowledged."""
        rows = [(row["number"], row["store"]) for row in kind.rows()]
        with self.source.lock:
            acknowledged, sent = set(self.source.acknowledged), set(self.source.sends)
        left = self._folder / BATCHES_LEFT
        compared = compare(rows, acknowledged, sent, left=int(left.read_text()) if left.exists() else 0)
        return {"batches": self.progress[kind.name].batches, **compared}

    def close(self) -> None:
        """End every process, and remove what Spark keeps of its executors."""
        self.source.shutdown()
        self.source.server_close()
        for session in self._sessions:
            end_session(session)
        with suppress(FileNotFoundError):
            for application in (self._folder / "applications").read_text().split():
                shutil.rmtree(Path(_find_spark_home()) / "work" / application, ignore_errors=True)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Kill and cut; return the counts of the run, and of each table."""
    began_s = time.monotonic()
    victims, cuts = Counter[str](), Counter[tuple[str, str]]()
    interrupted = Counter[tuple[str, str, Phase]]()
    folder = Path(tempfile.mkdtemp(prefix="penstock-killed-"))
    with ExitStack() as opened:
        kinds = [opened.enter_context(kind_of_table(name)) for name in options.kinds]
        program = KilledProgram(kinds, folder, options)
        opened.callback(program.close)
        faults = ["kill"] * options.kills + ["cut"] * options.cuts
        program.rng.shuffle(faults)
        for number, fault in enumerate(faults, 1):
            if time.monotonic() - began_s > 60 * options.minutes:
                break
            if fault == "kill":
                victim, phases = program.kill()
                victims[victim] += 1
                # Of which output a worker is nobody knows.
                if victim != "worker":
                    interrupted.update((name, victim, phase) for name, phase in phases.items())
                text = ", ".join([f"{victim} killed", *(f"{phase.text} of {name}" for name, phase in phases.items())])
            else:
                cut = program.cut()
                cuts[cut] += 1
                text = f"{cut[1]}, {cut[0]}"
            if options.verbose:
                print(f"{time.monotonic() - began_s:4.0f} s, fault {number} of {len(faults)}: {text}", flush=True)
        code = program.finish()
        result: dict[str, Any] = {
            "seed": options.seed,
            "seconds": round(time.monotonic() - began_s),
            "exit code": code,
            "kills": victims.total(),
            "cuts": cuts.total(),
            "victims": victims,
            "tables": {},
        }
        for kind in kinds:
            kills = {
                f"{victim}, {phase.text}": count
                for (name, victim, phase), count in sorted(interrupted.items())
                if name == kind.name
            }
            of_kind = {name: count for (table, name), count in cuts.items() if table == kind.name}
            result["tables"][kind.name] = {"kills": kills, "cuts": of_kind, **program.counts(kind)}
    if has_failed(result):
        print(f"the log is {folder}/log", flush=True)
    else:
        shutil.rmtree(folder)
    return result


def has_failed(result: Mapping[str, Any]) -> bool:
    """Whether a run ended with an error, or a table differs from what was acknowledged."""
    tables = result["tables"].values()
    return result["exit code"] != 0 or any(table[fault] for table in tables for fault in FAULTS)


def earlier_runs(path: Path, kinds: Sequence[str]) -> list[dict[str, Any]]:
    """The runs with these tables whose results a file has."""
    results = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [result for result in results if list(result["tables"]) == list(kinds)]


def main() -> None:
    """Print a line of JSON for the run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=(*KINDS, POSTGRESQL), help=", ".join((*KINDS, POSTGRESQL)))
    parser.add_argument("--kills", type=int, default=25)
    parser.add_argument("--cuts", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=math.inf, help="no further fault after this time")
    parser.add_argument("--results", type=Path, help="append the results to this file; its faults have been done")
    parser.add_argument("--seed", type=int, default=1, help="with --results, plus the number of earlier runs")
    parser.add_argument("--interval", type=float, default=1.0, help="batch interval in seconds")
    parser.add_argument("--master", default="local[7]", help="Spark's; local-cluster[1,7,1024] has executors")
    parser.add_argument("--victims", nargs="+", default=VICTIMS, choices=VICTIMS, help="what to kill")
    parser.add_argument("--defect", default="none", choices=DEFECTS, help="an error of the outputs")
    parser.add_argument("--verbose", action="store_true", help="a line per fault")
    options = parser.parse_args()
    if options.results is not None:
        earlier = earlier_runs(options.results, options.kinds)
        options.seed += len(earlier)
        options.kills = max(options.kills - sum(result["kills"] for result in earlier), 0)
        options.cuts = max(options.cuts - sum(result["cuts"] for result in earlier), 0)
        if not options.kills + options.cuts:
            print(f"all of it ran before: {options.results}")
            return
    result = run(options)
    print(json.dumps(result, indent=1), flush=True)
    if options.results is not None:
        with options.results.open("a") as results:
            print(json.dumps(result), file=results)
    if has_failed(result):
        raise SystemExit("FAILED")


if __name__ == "__main__":
    with ends_on_sigterm():
        main()
