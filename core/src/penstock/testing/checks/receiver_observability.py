"""Receiver checks RC-45 and RC-46: what a receiver reports about itself."""

from __future__ import annotations

from collections import Counter
from typing import Any

from penstock.testing.check import check, fail
from penstock.testing.kit import ReceiverKit


@check("RC-45", "must", change="store each record of the source as one record, and nothing else")
def counts_agree(kit: ReceiverKit) -> None:
    """The number of records that is reported equals the number that was fed.

    Purpose: rate control, charts and audits count what the receiver stores.
    Method: put 1, 2, 4, ... 64 records, in between a pause, a rate and its removal; then stop.
    Condition: the reported count, the rows of the blocks and the number of records put are equal, and so is the size
        of the texts and bytes that were put and stored.
    Requires: a feeder.
    """
    feeder = kit.feeder()
    records = feeder.sample(kit.rng, 127)
    harness = kit.run(kit.make(feeder))
    for power in range(7):
        part = records[2**power - 1 : 2 ** (power + 1) - 1]
        {2: harness.pause, 3: harness.resume}.get(power, lambda: None)()
        {4: lambda: harness.update_rate(1e6), 5: lambda: harness.update_rate(None)}.get(power, lambda: None)()
        feeder.put(part)
    kit.until(
        lambda: harness.count >= len(records), lambda: f"{harness.count} of {len(records)} records are stored", 10
    )
    harness.stop()
    rows = harness.records
    if not len(records) == harness.stored_records == harness.count == len(rows):
        fail(
            f"{len(records)} records put, {harness.stored_records} reported as stored, {len(rows)} in the blocks",
            list((Counter(map(repr, rows)) - Counter(map(repr, records))).elements())[:3],
        )
    if _size(records) != _size(rows):
        fail(f"{_size(records)} characters or bytes put, {_size(rows)} stored", f"{len(records)} records")


def _size(records: list[Any]) -> int:
    return sum(len(each) for each in records if isinstance(each, str | bytes))


@check("RC-46", "should", change="leave lag out of the metadata, or set it to None, where the source does not tell it")
def lag_or_unknown(kit: ReceiverKit) -> None:
    """The lag that a receiver reports is right, or it reports none.

    Purpose: alarms and autoscaling trust a number; none is better than a wrong one.
    Method: put a record, ten, and a record, each once those before are stored. Read ``lag`` from the metadata of each
        block: the number of records that the source had after those of this block when the receiver read them.
    Condition: it is absent or None, or a whole number: 0 in the last block of each put, in the others not above the
        number of records put and not stored.
    Requires: a feeder.
    """
    feeder = kit.feeder()
    records = feeder.sample(kit.rng, 12)
    harness = kit.run(kit.make(feeder))
    put = stored = number = 0
    for count in (1, 10, 1):
        feeder.put(records[put : put + count])
        put += count
        kit.until_stored(harness, records[:put], 10)
        blocks = harness.blocks[number:]
        for block in blocks:
            stored += block.num_records
            lag = (block.metadata or {}).get("lag")
            most = 0 if block is blocks[-1] else put - stored
            if lag is not None and not (type(lag) is int and 0 <= lag <= most):
                fail(f"block {number} reports a lag of {lag!r}, and there were {most} more records", f"{put} records")
            number += 1
