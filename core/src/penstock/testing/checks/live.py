"""Live checks XX-01 to XX-06: the plugin in a real program on Spark, in processes of its own.

Three runs serve all six: one that ends gracefully, one chosen by configuration beside failing plugins, one killed.
"""

from __future__ import annotations

from collections import Counter

import attrs

from penstock.testing.check import NotApplicable, check, fail
from penstock.testing.feeder import Feeder
from penstock.testing.live import LiveKit, LiveRun

_LIMIT_S = 600.0
_LOST = "let store_all return, or acknowledge, only what is stored; flush in onStop"


@check("XX-01", "must", limit_s=_LIMIT_S, change="see the end of the program's output above")
def word_count_end_to_end(kit: LiveKit) -> None:
    """A program on Spark counts exactly the records that were fed.

    Purpose: everything together, as a user runs it.
    Method: a program in ``local[3]`` counts the records of the plugin's stream by value, batch by batch.
    Condition: every record fed, each as often as it was fed.
    Requires: Spark; a feeder whose source other processes reach, or an installed plugin.
    """
    result = kit.run_to_the_end(with_neighbours=False)
    found = Counter({record: number for record, number in result.tested.items() if record in result.first})
    if found != result.first:
        fail(f"missing {list(result.first - found)[:3]}, too often {list(found - result.first)[:3]}")


@check("XX-02", "must", limit_s=_LIMIT_S, change="offer the plugin under its name, with options that text can set")
def swapped_by_config_alone(kit: LiveKit) -> None:
    """Configuration alone chooses the plugin and sets its options.

    Purpose: operators swap plugins without a change of the program.
    Method: the program of XX-01 with the plugin's name and options from the configuration.
    Condition: the same counts.
    Requires: Spark; the installed plugin.
    """
    if not kit.subject.name:
        raise NotApplicable("no installed plugin: set name")
    result = kit.run_to_the_end(with_neighbours=True)
    if lost := result.first - result.tested:
        fail(f"{lost.total()} records are missing, such as {list(lost)[:3]}")


@check("XX-03", "must", limit_s=_LIMIT_S, change=_LOST)
def graceful_stop_loses_nothing(kit: LiveKit) -> None:
    """A graceful stop processes every record that the receiver has taken.

    Purpose: a deployment stops the program it replaces.
    Method: feed records, and stop gracefully as soon as the receiver has taken them.
    Condition: every record is in the output once.
    Requires: Spark; a feeder whose source other processes reach, or an installed plugin.
    """
    result = kit.run_to_the_end(with_neighbours=False)
    expected = result.first + result.second
    if result.tested != expected:
        lost, twice = expected - result.tested, result.tested - expected
        fail(f"{lost.total()} of {expected.total()} lost, {twice.total()} too many, such as {list(lost + twice)[:3]}")


@check("XX-04", "must", limit_s=_LIMIT_S, change=_LOST)
def killed_driver_restarts_right(kit: LiveKit) -> None:
    """A program killed with -9 and restarted on its checkpoint continues without a gap and loses nothing processed.

    Purpose: drivers die.
    Method: with write-ahead logs on, feed and await records; kill driver, JVM and workers; start again; feed more.
    Condition: all records are output; every batch time from the first to the last exists; a batch that was computed
        twice has the same records both times.
    Requires: Spark; a feeder whose source other processes reach, or an installed plugin.
    """
    kit.needs_plugin()
    feeder = kit.feeder() if kit.subject.kind == "receiver" else None
    folder = kit.folder / "killed"
    folder.mkdir()
    run = LiveRun(kit, folder)
    spec = kit.spec(folder, feeder)
    conf = {**spec.conf, "spark.streaming.receiver.writeAheadLog.enable": "true"}
    spec = attrs.evolve(spec, checkpoint=str(folder / "checkpoint"), conf=conf)
    fed: Counter[str] = Counter()
    run.start(spec)
    for start in (True, False):
        if feeder is None:
            count = run.counts().total() + 100
            run.until(lambda least=count: run.counts().total() >= least, f"fewer than {count} numbers were output")
        else:
            if not start:
                _until_connected(kit, run, feeder)
            records = feeder.sample(kit.rng, 100)
            feeder.put(records)
            fed.update(map(repr, records))
            run.until_counts(fed, "fed before the kill" if start else "fed before and after the kill")
        if start:
            run.kill()
            run.start(spec)
    run.stop()
    _judge_batches(run, round(spec.interval_s * 1000))


def _until_connected(kit: LiveKit, run: LiveRun, feeder: Feeder) -> None:
    """Feed single records until one is output: what is fed to a broken connection may be lost."""
    probes: Counter[str] = Counter()

    def arrived() -> bool:
        probe = feeder.sample(kit.rng, 1)
        feeder.put(probe)
        probes.update(map(repr, probe))
        return kit.becomes(lambda: bool(probes & run.counts()), 1)

    run.until(arrived, "no record is output after the restart")


def _judge_batches(run: LiveRun, interval_ms: int) -> None:
    by_time: dict[int, dict[str, int]] = {}
    for batch in run.batches():
        earlier = by_time.setdefault(batch["time_ms"], batch["counts"])
        if earlier != batch["counts"]:
            fail(f"batch {batch['time_ms']} had {len(earlier)} records, after the restart {len(batch['counts'])}")
    missing = [time for time in range(min(by_time), max(by_time), interval_ms) if time not in by_time]
    if missing:
        fail(f"{len(missing)} batch times are missing, the first is {missing[0]}")


@check("XX-05", "should", limit_s=_LIMIT_S, change="use names of your own for files, ports, threads and metrics")
def coexists_with_other_plugins(kit: LiveKit) -> None:
    """A second stream in the same program gets all its records too.

    Purpose: a program has several sources.
    Method: the program of XX-02 with the kit's own receiver as a second stream.
    Condition: both streams have every record.
    Requires: Spark; a feeder whose source other processes reach, or an installed plugin.
    """
    result = kit.run_to_the_end(with_neighbours=True)
    if kit.subject.kind == "receiver" and result.beside != Counter(map(repr, range(result.numbers))):
        fail(f"the second stream has {result.beside.total()} of {result.numbers} records")
    if lost := result.first - result.tested:
        fail(f"{lost.total()} records are missing, such as {list(lost)[:3]}")


@check("XX-06", "must", limit_s=_LIMIT_S, change="keep no state that other plugins can reach")
def failing_neighbour_does_not_matter(kit: LiveKit) -> None:
    """A plugin that cannot be imported and one whose listener raises at every event change nothing.

    Purpose: one bad plugin must not stop the others.
    Method: the program of XX-02 with both installed, on the driver and on its workers.
    Condition: every record is output.
    Requires: Spark; a feeder whose source other processes reach, or an installed plugin.
    """
    result = kit.run_to_the_end(with_neighbours=True)
    if lost := result.first - result.tested:
        fail(f"{lost.total()} records are missing, such as {list(lost)[:3]}")
