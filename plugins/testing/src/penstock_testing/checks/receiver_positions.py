"""Receiver checks RC-35 to RC-42: positions, the end of a source, partitions of a source.

A position is the merged metadata of the blocks stored so far, without ``lag``: a later block's values replace earlier
ones.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from penstock import Block
from penstock_testing.check import NotApplicable, check, fail
from penstock_testing.checks.receiver_guarantees import NO_RETRIES
from penstock_testing.feeder import Feeder
from penstock_testing.receiver_harness import ReceiverHarness
from penstock_testing.receiver_subject import ReceiverSubject
from penstock_testing.receiver_workers import ReceiverWorkers


def position_after(blocks: Iterable[Block]) -> dict[str, Any] | None:
    """The position after these blocks as a checkpoint saves it; ``None`` without a block."""
    position: dict[str, Any] = {}
    for block in blocks:
        position |= _without_lag(block.metadata)
    loaded: dict[str, Any] | None = json.loads(json.dumps(position)) or None
    return loaded


def _without_lag(metadata: dict[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in (metadata or {}).items() if key != "lag"}


def run_one_by_one(subject: ReceiverSubject, feeder: Feeder, records: Sequence[Any]) -> ReceiverHarness:
    """Run a receiver and put each record once the one before is stored, so that each record is a block."""
    harness = subject.run(subject.make(feeder), conf=NO_RETRIES)
    for count, record in enumerate(records, 1):
        feeder.put([record])
        subject.until_stored(harness, records[:count])
    return harness


def must_equal(subject: ReceiverSubject, expected: Sequence[Any], got: Sequence[Any], what: str, smallest: str) -> None:
    """Fail unless the records are equal, also in order if ``Capabilities.ordered`` is set."""
    missing = list((Counter(expected) - Counter(got)).elements())
    extra = list((Counter(got) - Counter(expected)).elements())
    if missing or extra:
        fail(f"{what}: missing {missing}, stored twice or unexpectedly {extra}", smallest)
    if subject.capabilities.ordered and list(expected) != list(got):
        fail(f"{what}: stored in the order {list(got)}, expected {list(expected)}", smallest)


def must_continue(
    subject: ReceiverSubject,
    feeder: Feeder,
    position: dict[str, Any] | None,
    expected: list[Any],
    what: str,
    smallest: str,
) -> None:
    """Fail unless a new receiver at a position stores these records and no others."""
    harness = subject.run(subject.make(feeder, position))
    # ``must_equal`` reports missing records.
    subject.becomes(lambda: harness.count >= len(expected))
    harness.stop()
    must_equal(subject, expected, harness.records, what, smallest)


class ReceiverPositionsChecks:
    """The checks of this module, as test methods."""

    @check("RC-35", "must", requires="replayable", change="pass the offset after the records as metadata to store_all")
    def test_RC_35_offsets_are_plain_and_monotone(self, subject: ReceiverSubject) -> None:
        """Each block has a position of JSON values, which never moves backwards.

        Purpose: a position outlives the process, the release and the machine that wrote it.
        Condition: each block has metadata that survives a conversion to JSON and back. From block to block no number in
            it decreases, and no other value returns to an earlier one.
        """
        feeder = subject.feeder()
        harness = run_one_by_one(subject, feeder, feeder.sample(subject.rng, 5))
        values: dict[str, list[Any]] = {}
        for number, block in enumerate(harness.blocks):
            metadata = _without_lag(block.metadata)
            if not metadata:
                fail(f"block {number} has no metadata, and therefore no position", f"{number + 1} records")
            if (loaded := json.loads(json.dumps(metadata))) != metadata:
                fail(f"the position {metadata!r} reads as {loaded!r} after JSON", f"{number + 1} records")
            for key, value in metadata.items():
                before = values.setdefault(key, [])
                if before and _is_back(before, value):
                    fail(
                        f"the position moves backwards in block {number}: {key!r} changes from {before[-1]!r} to "
                        f"{value!r}",
                        f"{number + 1} records",
                    )
                before.append(value)

    @check(
        "RC-36", "must", requires="replayable", change="start at the given position, and ignore offsets saved elsewhere"
    )
    def test_RC_36_same_range_same_records(self, subject: ReceiverSubject) -> None:
        """A receiver that starts at an earlier position stores the same records again.

        Purpose: a batch that is computed again must have the same input.
        Condition: each stores the records after its position and no others, in the same order if Capabilities.ordered
            is set.
        """
        feeder = subject.feeder()
        records = feeder.sample(subject.rng, 6)
        harness = run_one_by_one(subject, feeder, records)
        harness.stop()
        for number in (1, 3):
            blocks = harness.blocks[:number]
            rest = harness.records[sum(block.num_records for block in blocks) :]
            position = position_after(blocks)
            must_continue(subject, feeder, position, rest, f"read again from {position}", "six records, one by one")

    @check(
        "RC-37",
        "must",
        requires="replayable",
        change="pass with a block the offset after its last record, not the offset after the last record read",
    )
    def test_RC_37_resumes_from_every_prefix(self, subject: ReceiverSubject) -> None:
        """A receiver that starts after any stored record continues with the next record.

        Purpose: a driver may die after any block; accepted records must be neither lost nor repeated.
        Condition: the new receiver stores the records that the first one did not store, and no others.
        """
        for count in range(5):
            feeder = subject.feeder()
            *records, last = feeder.sample(subject.rng, 6)
            harness = run_one_by_one(subject, feeder, records[:count])
            offers = harness.offers
            harness.refuse(after=1)
            feeder.put(records[count:])
            subject.until(
                lambda before=offers, run=harness: run.offers > before + 1 or run.count == 5,  # type: ignore[misc]
                lambda run=harness: f"the receiver stored {run.count} of 5 records",  # type: ignore[misc]
            )
            harness.stop()
            stored = harness.records
            # The new receiver reads the last record after those that it reads again.
            feeder.put([last])
            rest = [*(Counter(records) - Counter(stored)).elements(), last]
            what = f"a receiver that continues after {len(stored)} of 5 records"
            must_continue(subject, feeder, position_after(harness.blocks), rest, what, f"{len(stored)} records stored")

    @check(
        "RC-38", "must", requires="replayable", change="compute the offset after the records are read, for every block"
    )
    def test_RC_38_data_moves_the_offset(self, subject: ReceiverSubject) -> None:
        """Each block with records changes the position.

        Purpose: records without a new offset are read again, or are treated as no data.
        Condition: no position equals the one before.
        """
        feeder = subject.feeder()
        harness = run_one_by_one(subject, feeder, feeder.sample(subject.rng, 5))
        before = None
        for number in range(len(harness.blocks)):
            position = position_after(harness.blocks[: number + 1])
            if position == before:
                fail(f"block {number} has records and does not change the position {position}", f"{number + 1} records")
            before = position

    @check("RC-39", "must", requires="replayable", change="commit absolute offsets to the source, not increments")
    def test_RC_39_commit_is_idempotent(self, subject: ReceiverSubject) -> None:
        """A receiver can start at the same position several times.

        Purpose: a driver that dies between a commit and its next step commits the same position again.
        Condition: the third receiver stores the second record, and no others.
        """
        feeder = subject.feeder()
        records = feeder.sample(subject.rng, 2)
        harness = run_one_by_one(subject, feeder, records)
        harness.stop()
        position = position_after(harness.blocks[:1])
        for _ in range(2):
            refused = subject.run(subject.make(feeder, position), conf=NO_RETRIES)
            refused.refuse()
            subject.becomes(lambda run=refused: run.offers, 1)  # type: ignore[misc]
            refused.stop()
        rest = harness.records[harness.blocks[0].num_records :]
        must_continue(
            subject,
            feeder,
            position,
            rest,
            f"the third receiver from {position}",
            "two records, one position three times",
        )

    @check("RC-40", "must", requires="bounded", change="return from receive(), or call stop, at the end of the source")
    def test_RC_40_bounded_run_ends(self, subject: ReceiverSubject) -> None:
        """The receiver ends its work when it has stored every record of a source that has ended.

        Purpose: a program over a bounded source must be able to end.
        Condition: all records are stored, without an error. Within 10 s the receiver's threads and processes have
            ended, or the receiver has stopped.
        """
        feeder = subject.feeder()
        records = feeder.sample(subject.rng, 5)
        harness = subject.harness(subject.make(feeder))
        workers: ReceiverWorkers = subject.enter(ReceiverWorkers(harness.receiver))
        harness.start()
        feeder.put(records)
        feeder.end()
        subject.until_stored(harness, records)
        subject.until(
            lambda: harness.is_terminated or not (workers.alive() or _is_ending()),
            lambda: f"the source has ended, and the receiver's {', '.join(workers.alive())} still runs",
            10,
        )
        harness.stop()
        if harness.errors:
            fail(
                f"the receiver reported the end of the source as an error: {harness.errors[0]}", "five records, the end"
            )
        must_equal(subject, records, harness.records, "at the end of the source", "five records, the end")

    @check(
        "RC-41",
        "must",
        requires="partitioned",
        change="let make(feeder, index, count) read the partitions of this index",
    )
    def test_RC_41_partitions_cover_once(self, subject: ReceiverSubject) -> None:
        """Several instances together store each record of the source once.

        Purpose: instances that share a source must neither overlap nor leave a gap.
        Condition: the records of the three are those that were put, each once.
        """
        feeder = subject.feeder()
        records = feeder.sample(subject.rng, 30)
        _cover(subject, feeder, None, 3, records)

    @check("RC-42", "should", requires="partitioned", change="save an offset for each partition, not for each instance")
    def test_RC_42_repartition_on_restore(self, subject: ReceiverSubject) -> None:
        """A different number of instances continues at the position of the former ones.

        Purpose: a program is restarted with more or fewer receivers when its load changes.
        Condition: each step stores the records that were put in it, each once.
        """
        if not (subject.capabilities.replayable or subject.capabilities.acknowledged):
            raise NotApplicable("Capabilities.replayable and acknowledged are not set")
        feeder = subject.feeder()
        records = feeder.sample(subject.rng, 36)
        position: dict[str, Any] | None = None
        for step, count in enumerate((2, 3, 1)):
            blocks = _cover(subject, feeder, position, count, records[step * 12 : step * 12 + 12])
            if subject.capabilities.replayable:
                position = {**(position or {}), **(position_after(blocks) or {})}


def _is_ending() -> bool:
    """Whether a stop or restart that the receiver has asked for is under way."""
    return any(thread.name in {"receiver stop", "receiver restart"} for thread in threading.enumerate())


def _is_back(before: list[Any], value: Any) -> bool:
    if isinstance(value, int | float) and isinstance(before[-1], int | float):
        return value < before[-1]
    return value != before[-1] and value in before


def _cover(
    subject: ReceiverSubject, feeder: Feeder, position: dict[str, Any] | None, count: int, records: list[Any]
) -> list[Block]:
    """Run instances from a position and put records; return the blocks. Fail unless each record is stored once."""
    runs = [subject.run(subject.make(feeder, position, index=index, count=count)) for index in range(count)]
    third = len(records) // 3
    for part in (records[:third], records[third : 2 * third], records[2 * third :]):
        feeder.put(part)
    subject.becomes(lambda: sum(run.count for run in runs) >= len(records))
    for run in runs:
        run.stop()
    got = [record for run in runs for record in run.records]
    missing, extra = Counter(records) - Counter(got), Counter(got) - Counter(records)
    if missing or extra:
        some_missing, some_extra = list(missing.elements())[:3], list(extra.elements())[:3]
        fail(
            f"{count} instances: missing {some_missing}, stored twice or unexpectedly {some_extra}",
            f"{count} instances, {len(records)} records",
        )
    return [block for run in runs for block in run.blocks]
