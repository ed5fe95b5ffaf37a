"""Receiver checks RC-35 to RC-42: positions, the end of a source, shares of a source.

A position is the metadata of the blocks stored so far, each one's values over those before, without ``lag``.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from penstock.blocks.block import Block
from penstock.testing.check import NotApplicable, check, fail
from penstock.testing.checks.receiver_guarantees import NO_RETRIES
from penstock.testing.feeder import Feeder
from penstock.testing.kit import ReceiverKit
from penstock.testing.receiver_harness import ReceiverHarness
from penstock.testing.receiver_workers import ReceiverWorkers


def position_after(blocks: Iterable[Block]) -> dict[str, Any] | None:
    """The position after these blocks, as a checkpoint would have it; ``None`` when there is no block."""
    position: dict[str, Any] = {}
    for block in blocks:
        position |= _without_lag(block.metadata)
    loaded: dict[str, Any] | None = json.loads(json.dumps(position)) or None
    return loaded


def _without_lag(metadata: dict[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in (metadata or {}).items() if key != "lag"}


def run_one_by_one(kit: ReceiverKit, feeder: Feeder, records: Sequence[Any]) -> ReceiverHarness:
    """Run a receiver and put each record once the one before is stored, so that each is in a block of its own."""
    harness = kit.run(kit.make(feeder), conf=NO_RETRIES)
    for count, record in enumerate(records, 1):
        feeder.put([record])
        kit.until_stored(harness, records[:count])
    return harness


def must_equal(kit: ReceiverKit, expected: Sequence[Any], got: Sequence[Any], what: str, smallest: str) -> None:
    """Fail unless these are the same records, in the same order if the receiver keeps it."""
    missing = list((Counter(expected) - Counter(got)).elements())
    extra = list((Counter(got) - Counter(expected)).elements())
    if missing or extra:
        fail(f"{what}: missing {missing}, twice or unexpected {extra}", smallest)
    if kit.capabilities.ordered and list(expected) != list(got):
        fail(f"{what}: another order: {list(got)}, expected {list(expected)}", smallest)


def must_continue(
    kit: ReceiverKit, feeder: Feeder, position: dict[str, Any] | None, expected: list[Any], what: str, smallest: str
) -> None:
    """Fail unless a new receiver from a position stores these records and nothing else."""
    harness = kit.run(kit.make(feeder, position))
    # A record that is missing is found after this wait.
    kit.becomes(lambda: harness.count >= len(expected))
    harness.stop()
    must_equal(kit, expected, harness.records, what, smallest)


@check(
    "RC-35", "must", requires="replayable", change="give store_all or store_arrow the offset after the records as JSON"
)
def offsets_are_plain_and_monotone(kit: ReceiverKit) -> None:
    """Each block has a position of plain JSON values, which never goes back.

    Purpose: a position outlives the process, the release and the machine that wrote it.
    Method: store five records one by one; read the metadata of the blocks.
    Condition: each has metadata that JSON gives back unchanged; no number in it decreases from block to block, no
        other value returns to an earlier one.
    Requires: Capabilities.replayable, a feeder.
    """
    feeder = kit.feeder()
    harness = run_one_by_one(kit, feeder, feeder.sample(kit.rng, 5))
    values: dict[str, list[Any]] = {}
    for number, block in enumerate(harness.blocks):
        metadata = _without_lag(block.metadata)
        if not metadata:
            fail(f"block {number} has no metadata, so no position", f"{number + 1} records")
        if (loaded := json.loads(json.dumps(metadata))) != metadata:
            fail(f"the position {metadata!r} is {loaded!r} after JSON", f"{number + 1} records")
        for key, value in metadata.items():
            before = values.setdefault(key, [])
            if before and _is_back(before, value):
                fail(f"{key!r} goes back from {before[-1]!r} to {value!r} in block {number}", f"{number + 1} records")
            before.append(value)


def _ends() -> bool:
    """Whether a stop or restart that the receiver has asked for is under way."""
    return any(each.name in {"receiver stop", "receiver restart"} for each in threading.enumerate())


def _is_back(before: list[Any], value: Any) -> bool:
    if isinstance(value, int | float) and isinstance(before[-1], int | float):
        return value < before[-1]
    return value != before[-1] and value in before


@check(
    "RC-36", "must", requires="replayable", change="read from the given position, and from nothing else that is saved"
)
def same_range_same_records(kit: ReceiverKit) -> None:
    """A receiver from an earlier position stores the same records as the one before.

    Purpose: a batch that is computed again must have the same input.
    Method: store six records one by one; run a new receiver from the position after the first, then another one from
        the position after the third.
    Condition: each stores the records that followed, in the same order if the receiver keeps it, and nothing else.
    Requires: Capabilities.replayable, a feeder, make with a position.
    """
    feeder = kit.feeder()
    records = feeder.sample(kit.rng, 6)
    harness = run_one_by_one(kit, feeder, records)
    harness.stop()
    for number in (1, 3):
        blocks = harness.blocks[:number]
        rest = harness.records[sum(block.num_records for block in blocks) :]
        position = position_after(blocks)
        must_continue(kit, feeder, position, rest, f"read again from {position}", "six records, one by one")


@check(
    "RC-37",
    "must",
    requires="replayable",
    change="save with a block the offset after its records, not that of the read",
)
def resumes_from_every_prefix(kit: ReceiverKit) -> None:
    """Stopped after any record, a new receiver continues with the next.

    Purpose: a driver may die after any block; what it has accepted is neither lost nor repeated.
    Method: for k from 0 to 4: store k of five records one by one, put the others together, accept one block of them and
        refuse the next, stop the receiver; put a last one, run a new receiver from the position after the stored ones.
    Condition: the new one stores the records that the first did not store, and nothing else.
    Requires: Capabilities.replayable, a feeder, make with a position.
    """
    for count in range(5):
        feeder = kit.feeder()
        *records, last = feeder.sample(kit.rng, 6)
        harness = run_one_by_one(kit, feeder, records[:count])
        offers = harness.offers
        harness.refuse(after=1)
        feeder.put(records[count:])
        kit.until(
            lambda before=offers, run=harness: run.offers > before + 1 or run.count == 5,  # type: ignore[misc]
            lambda run=harness: f"{run.count} of 5 records given to store",  # type: ignore[misc]
        )
        harness.stop()
        stored = harness.records
        # What is read again comes before the last one.
        feeder.put([last])
        rest = [*(Counter(records) - Counter(stored)).elements(), last]
        what = f"stopped after {len(stored)} of 5 records, continued"
        must_continue(kit, feeder, position_after(harness.blocks), rest, what, f"{len(stored)} records stored")


@check("RC-38", "must", requires="replayable", change="compute the offset after the records are read, for every block")
def data_moves_the_offset(kit: ReceiverKit) -> None:
    """Each block with records has another position than the one before.

    Purpose: records without a new offset are read again, or taken for none.
    Method: store five records one by one; compare the positions after each block.
    Condition: no position equals the one before.
    Requires: Capabilities.replayable, a feeder.
    """
    feeder = kit.feeder()
    harness = run_one_by_one(kit, feeder, feeder.sample(kit.rng, 5))
    before = None
    for number in range(len(harness.blocks)):
        position = position_after(harness.blocks[: number + 1])
        if position == before:
            fail(f"block {number} has records and leaves the position at {position}", f"{number + 1} records")
        before = position


@check("RC-39", "must", requires="replayable", change="set the offset in the source, do not add to it")
def commit_is_idempotent(kit: ReceiverKit) -> None:
    """A position that is given twice is the same position.

    Purpose: a driver that dies between a commit and its next step commits again.
    Method: store two records; then twice run a new receiver from the position after the first, put nothing, refuse its
        blocks and stop it; then once more from this position.
    Condition: the last one stores the second record, and nothing else.
    Requires: Capabilities.replayable, a feeder, make with a position.
    """
    feeder = kit.feeder()
    records = feeder.sample(kit.rng, 2)
    harness = run_one_by_one(kit, feeder, records)
    harness.stop()
    position = position_after(harness.blocks[:1])
    for _ in range(2):
        refused = kit.run(kit.make(feeder, position), conf=NO_RETRIES)
        refused.refuse()
        kit.becomes(lambda run=refused: run.offers, 1)  # type: ignore[misc]
        refused.stop()
    rest = harness.records[harness.blocks[0].num_records :]
    must_continue(
        kit, feeder, position, rest, f"the third run from {position}", "two records, one position three times"
    )


@check("RC-40", "must", requires="bounded", change="return from receive(), or call stop, at the end of the source")
def bounded_run_ends(kit: ReceiverKit) -> None:
    """At the end of the source the receiver has stored every record, and its work ends.

    Purpose: what waits for a source that has ended waits for ever.
    Method: put five records, mark the end of the source.
    Condition: all records are stored, without an error; within 10 s the receiver's threads and processes have ended, or
        it has stopped.
    Requires: Capabilities.bounded, Feeder.end.
    """
    feeder = kit.feeder()
    records = feeder.sample(kit.rng, 5)
    harness = kit.harness(kit.make(feeder))
    workers: ReceiverWorkers = kit.enter(ReceiverWorkers(harness.receiver))
    harness.start()
    feeder.put(records)
    feeder.end()
    kit.until_stored(harness, records)
    kit.until(
        lambda: harness.is_terminated or not (workers.alive() or _ends()),
        lambda: f"the source has ended, and {', '.join(workers.alive())} of the receiver runs",
        10,
    )
    harness.stop()
    if harness.errors:
        fail(f"the end of the source is reported as an error: {harness.errors[0]}", "five records, the end")
    must_equal(kit, records, harness.records, "at the end of the source", "five records, the end")


@check(
    "RC-41", "must", requires="partitioned", change="let make(feeder, index, count) read the partitions of this index"
)
def partitions_cover_once(kit: ReceiverKit) -> None:
    """Several instances together store each record of the source once.

    Purpose: instances that share a source must neither overlap nor leave a gap.
    Method: run three instances, put 30 records in three parts, stop.
    Condition: the records of the three are those that were put, each once.
    Requires: Capabilities.partitioned, a feeder, make with index and count.
    """
    feeder = kit.feeder()
    records = feeder.sample(kit.rng, 30)
    _cover(kit, feeder, None, 3, records)


@check("RC-42", "should", requires="partitioned", change="save an offset for each partition, not for each instance")
def repartition_on_restore(kit: ReceiverKit) -> None:
    """Another number of instances continues where the former ones were.

    Purpose: a program is restarted with more or fewer receivers when its load changes.
    Method: two instances store twelve records; three continue with twelve more, then one.
    Condition: the records of each step are those that were put in it, each once.
    Requires: Capabilities.partitioned, and replayable or acknowledged; a feeder, make with index and count.
    """
    if not (kit.capabilities.replayable or kit.capabilities.acknowledged):
        raise NotApplicable("Capabilities.replayable and acknowledged are not set")
    feeder = kit.feeder()
    records = feeder.sample(kit.rng, 36)
    position: dict[str, Any] | None = None
    for step, count in enumerate((2, 3, 1)):
        blocks = _cover(kit, feeder, position, count, records[step * 12 : step * 12 + 12])
        if kit.capabilities.replayable:
            position = {**(position or {}), **(position_after(blocks) or {})}


def _cover(
    kit: ReceiverKit, feeder: Feeder, position: dict[str, Any] | None, count: int, records: list[Any]
) -> list[Block]:
    """Run instances from a position, put records; fail unless these store each of them once. Return the blocks."""
    runs = [kit.run(kit.make(feeder, position, index=index, count=count)) for index in range(count)]
    third = len(records) // 3
    for part in (records[:third], records[third : 2 * third], records[2 * third :]):
        feeder.put(part)
    kit.becomes(lambda: sum(run.count for run in runs) >= len(records))
    for run in runs:
        run.stop()
    got = [record for run in runs for record in run.records]
    missing, extra = Counter(records) - Counter(got), Counter(got) - Counter(records)
    if missing or extra:
        some_missing, some_extra = list(missing.elements())[:3], list(extra.elements())[:3]
        fail(
            f"{count} instances: missing {some_missing}, twice or unexpected {some_extra}",
            f"{count} instances, {len(records)} records",
        )
    return [block for run in runs for block in run.blocks]
