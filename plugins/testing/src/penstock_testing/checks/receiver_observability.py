"""Receiver checks RC-45 and RC-46: the counts and the lag that a receiver reports."""

from __future__ import annotations

from collections import Counter
from typing import Any

from penstock_testing.check import NotApplicable, check, fail
from penstock_testing.feeder import Feeder
from penstock_testing.receiver_subject import ReceiverSubject


class ReceiverObservabilityChecks:
    """The checks of this module, as test methods."""

    @check("RC-45", "must", change="store each record of the source as one record, and nothing else")
    def test_RC_45_counts_agree(self, subject: ReceiverSubject) -> None:
        """The reported number of records equals the number of records fed.

        Purpose: rate control, charts and audits use the reported number.
        Condition: the reported count, the rows of the blocks and the number of records put are equal. So are the total
            lengths of the texts and bytes put and stored.
        """
        feeder = subject.feeder()
        records = feeder.sample(subject.rng, 127)
        harness = subject.run(subject.make(feeder))
        for power in range(7):
            part = records[2**power - 1 : 2 ** (power + 1) - 1]
            {2: harness.pause, 3: harness.resume}.get(power, lambda: None)()
            {4: lambda: harness.update_rate(1e6), 5: lambda: harness.update_rate(None)}.get(power, lambda: None)()
            feeder.put(part)
        subject.until(
            lambda: harness.count >= len(records), lambda: f"{harness.count} of {len(records)} records are stored", 10
        )
        harness.stop()
        rows = harness.records
        if not len(records) == harness.stored_records == harness.count == len(rows):
            fail(
                f"{len(records)} records were put; the receiver reported {harness.stored_records} as stored, and the "
                f"blocks have {len(rows)}",
                list((Counter(map(repr, rows)) - Counter(map(repr, records))).elements())[:3],
            )
        if _size(records) != _size(rows):
            fail(
                f"the records put have {_size(records)} characters or bytes, the stored ones {_size(rows)}",
                f"{len(records)} records",
            )

    @check("RC-46", "should", change="omit lag from the metadata, or set it to None, if the source has none")
    def test_RC_46_lag_or_unknown(self, subject: ReceiverSubject) -> None:
        """A receiver reports the right lag, or none.

        Purpose: alarms and autoscaling rely on the lag; a missing value is better than a wrong one.
        Condition: ``lag`` is absent, None or an integer: 0 in the last block of each group, and in the others at most
            the number of records put and not yet stored. If the feeder has pause, it is not 0 in all of these others.
        """
        feeder = subject.feeder()
        records = feeder.sample(subject.rng, 12)
        harness = subject.run(subject.make(feeder))
        put = stored = number = 0
        for count in (1, 10, 1):
            paused = _put_at_once(feeder, records[put : put + count])
            put += count
            subject.until_stored(harness, records[:put], 10)
            blocks = harness.blocks[number:]
            for block in blocks:
                stored += block.num_records
                lag = (block.metadata or {}).get("lag")
                most = 0 if block is blocks[-1] else put - stored
                if lag is not None and not (type(lag) is int and 0 <= lag <= most):
                    fail(
                        f"block {number} reports a lag of {lag!r}, and the source had {most} more records",
                        f"{put} records",
                    )
                number += 1
            lags = [(block.metadata or {}).get("lag") for block in blocks[:-1]]
            if paused and lags and all(lag == 0 for lag in lags):
                fail(
                    f"{len(blocks)} blocks report a lag of 0, and the source had up to {count - 1} more records",
                    f"{count} records at once",
                )


def _size(records: list[Any]) -> int:
    return sum(len(record) for record in records if isinstance(record, str | bytes))


def _put_at_once(feeder: Feeder, records: list[Any]) -> bool:
    """Put records while the source is paused; return false if the feeder has no pause."""
    try:
        feeder.pause()
    except NotApplicable:
        feeder.put(records)
        return False
    feeder.put(records)
    feeder.heal()
    return True
