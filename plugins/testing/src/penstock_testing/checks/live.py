"""Live checks XX-01 to XX-06: the plugin in a real program on Spark, in processes of its own.

Three runs serve all six: one that ends gracefully, one chosen by configuration beside failing plugins, one killed.
"""

from __future__ import annotations

from collections import Counter

import attrs

from penstock_testing.check import NotApplicable, check, fail
from penstock_testing.feeder import Feeder
from penstock_testing.live_subject import LiveResult, LiveRun, LiveSubject

_LIMIT_S = 600.0
_LOST = "acknowledge a record only after it is stored, and store buffered records in onStop"


class LiveChecks:
    """The checks of this module, as test methods."""

    @check("XX-01", "must", limit_s=_LIMIT_S, change="correct the error that the program's output shows")
    def test_XX_01_word_count_end_to_end(self, subject: LiveSubject) -> None:
        """A program on Spark counts exactly the records that were fed.

        Purpose: the plugin must work in a complete program, as a user runs it.
        Condition: the output has every record fed, each as often as it was fed.
        """
        result = subject.run_to_the_end(with_neighbours=False)
        numbers = Counter({record: number for record, number in result.tested.items() if record in result.first})
        if numbers != result.first:
            lacking, extra = list(result.first - numbers)[:3], list(numbers - result.first)[:3]
            fail(f"the output lacks {lacking} and has {extra} too often")

    @check("XX-02", "must", limit_s=_LIMIT_S, change="offer the plugin under its name, with options that text can set")
    def test_XX_02_swapped_by_config_alone(self, subject: LiveSubject) -> None:
        """Configuration alone chooses the plugin and sets its options.

        Purpose: operators exchange plugins without changing the program.
        Condition: the output has every record fed.
        """
        if not subject.suite.name:
            raise NotApplicable("the suite names no installed plugin: set name")
        if functions := subject.functions():
            raise NotApplicable(f"the option {functions[0]} is a function, which no configuration can hold")
        result = subject.run_to_the_end(with_neighbours=True)
        _require_all(result)

    @check("XX-03", "must", limit_s=_LIMIT_S, change=_LOST)
    def test_XX_03_graceful_stop_loses_nothing(self, subject: LiveSubject) -> None:
        """A graceful stop processes every record that the receiver has taken.

        Purpose: a new deployment of a program stops the old one.
        Condition: the output has every record once.
        """
        result = subject.run_to_the_end(with_neighbours=False)
        expected = result.first + result.second
        if result.tested != expected:
            lost, twice = expected - result.tested, result.tested - expected
            fail(
                f"after a graceful stop the output lacks {lost.total()} of {expected.total()} records and has "
                f"{twice.total()} too many, such as {list(lost + twice)[:3]}"
            )

    @check("XX-04", "must", limit_s=_LIMIT_S, change=_LOST)
    def test_XX_04_killed_driver_restarts_right(self, subject: LiveSubject) -> None:
        """A program that is killed with -9 and restarted from its checkpoint continues without loss or gap.

        Purpose: drivers crash.
        Condition: the output has all records and every batch time from the first to the last. A batch that was computed
            twice has the same records both times.
        """
        subject.needs_plugin()
        feeder = subject.feeder() if subject.suite.kind == "receiver" else None
        folder = subject.folder / "killed"
        folder.mkdir()
        run = LiveRun(subject, folder)
        spec = subject.live_spec(folder, feeder)
        conf = {**spec.conf, "spark.streaming.receiver.writeAheadLog.enable": "true"}
        spec = attrs.evolve(spec, checkpoint=str(folder / "checkpoint"), conf=conf)
        fed: Counter[str] = Counter()
        run.start(spec)
        for start in (True, False):
            if feeder is None:
                count = run.counts().total() + 100
                run.until(
                    lambda least=count: run.counts().total() >= least,
                    f"the program's output has fewer than {count} records",
                )
            else:
                if not start:
                    _until_connected(subject, run, feeder)
                records = feeder.sample(subject.rng, 100)
                feeder.put(records)
                fed.update(map(repr, records))
                run.until_counts(fed, "fed before the kill" if start else "fed before and after the kill")
            if start:
                run.kill()
                run.start(spec)
        run.stop()
        _require_batches(run, round(spec.interval_s * 1000))

    @check("XX-05", "should", limit_s=_LIMIT_S, change="use unique names for files, ports, threads and metrics")
    def test_XX_05_coexists_with_other_plugins(self, subject: LiveSubject) -> None:
        """A second stream in the same program gets all its records, too.

        Purpose: a program may have several sources.
        Condition: the output has every record of both streams.
        """
        result = subject.run_to_the_end(with_neighbours=True)
        if subject.suite.kind == "receiver":
            if result.numbers is None:
                fail("the receiver of the second stream did not end: its process was killed, or it was not stopped")
            if result.beside != Counter(map(repr, range(result.numbers))):
                fail(f"the output has {result.beside.total()} of {result.numbers} records of the second stream")
        _require_all(result)

    @check("XX-06", "must", limit_s=_LIMIT_S, change="share no state with other plugins")
    def test_XX_06_failing_neighbour_does_not_matter(self, subject: LiveSubject) -> None:
        """Failing plugins, one at import and one at every completed batch, do not affect the tested plugin.

        Purpose: a bad plugin must not stop the others.
        Condition: the output has every record fed.
        """
        result = subject.run_to_the_end(with_neighbours=True)
        _require_all(result)


def _until_connected(subject: LiveSubject, run: LiveRun, feeder: Feeder) -> None:
    """Feed single records until one is output: a record fed to a broken connection may be lost."""
    probes: Counter[str] = Counter()

    def arrived() -> bool:
        probe = feeder.sample(subject.rng, 1)
        feeder.put(probe)
        probes.update(map(repr, probe))
        return subject.becomes(lambda: bool(probes & run.counts()), 1)

    run.until(arrived, "the program output no record after its restart")


def _require_all(result: LiveResult) -> None:
    """Fail unless all records fed are in the output."""
    if lost := result.first - result.tested:
        fail(
            f"the output lacks {lost.total()} of {result.first.total()} records of the tested stream, such as "
            f"{list(lost)[:3]}"
        )


def _require_batches(run: LiveRun, interval_ms: int) -> None:
    """Fail if a batch time is missing, or if a repeated batch has other records."""
    by_time: dict[int, dict[str, int]] = {}
    for batch in run.batches():
        earlier = by_time.setdefault(batch["time_ms"], batch["counts"])
        if earlier != batch["counts"]:
            fail(
                f"batch {batch['time_ms']} had {len(earlier)} distinct records, and other records, "
                f"{len(batch['counts'])} distinct ones, after the restart"
            )
    missing = [time for time in range(min(by_time), max(by_time), interval_ms) if time not in by_time]
    if missing:
        fail(f"the output lacks {len(missing)} batch times, of which the first is {missing[0]}")
