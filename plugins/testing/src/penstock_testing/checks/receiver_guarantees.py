"""Receiver checks RC-31 to RC-34: a record is acknowledged once it is stored, and redelivered otherwise."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from penstock_testing.check import check, fail
from penstock_testing.feeder import Feeder
from penstock_testing.receiver_harness import ReceiverHarness
from penstock_testing.receiver_subject import ReceiverSubject

#: The deadline of an acknowledgement: sound receivers acknowledge by a timer, often every 5 s.
ACKNOWLEDGED_S = 15.0
# Less than the 20 s after which the harness refuses a held block.
_MOST_HELD_S = 18.0
#: Without retries, a refused block fails its store at once.
NO_RETRIES = {"spark.penstock.receiver.storeRetries": "0"}


def run_refused(subject: ReceiverSubject, feeder: Feeder, records: list[Any]) -> ReceiverHarness:
    """Run a receiver whose blocks are all refused, and put records; return the harness after the first refusal."""
    harness = subject.run(subject.make(feeder), conf=NO_RETRIES)
    harness.refuse()
    feeder.put(records)
    subject.until(lambda: harness.offers, "the receiver stored no record")
    return harness


class ReceiverGuaranteesChecks:
    """The checks of this module, as test methods."""

    @check(
        "RC-31",
        "must",
        requires="acknowledged",
        limit_s=90,
        change="acknowledge when store_all returns, or when on_stored gets None",
    )
    def test_RC_31_acks_only_after_stored(self, subject: ReceiverSubject) -> None:
        """The receiver acknowledges a record after it is stored, not before, and not if it cannot be stored.

        Purpose: the source forgets an acknowledged record, so that the record is lost if it is not stored.
        Condition: the receiver acknowledges the stored records within 15 s, and no others.
        """
        feeder = subject.feeder()
        harness = run_refused(subject, feeder, feeder.sample(subject.rng, 5))
        harness.stop()
        _check_none(feeder.acknowledged(), "five records, refused")
        feeder = subject.feeder()
        records = feeder.sample(subject.rng, 11)
        harness = subject.run(subject.make(feeder))
        # The last record is stored just after a timer has acknowledged the others, and waits for its full period.
        period_s = max(_acknowledged_after_s(subject, feeder, harness, part) for part in (records[:5], records[5:6]))
        harness.hold()
        offers, held = harness.offers, Counter(records[6:])

        def acknowledged() -> list[Any]:
            return list((held & Counter(feeder.acknowledged())).elements())

        feeder.put(records[6:])
        subject.until(lambda: harness.offers > offers, "the receiver stored no further record")
        subject.becomes(acknowledged, min(1.5 * period_s + 0.3, _MOST_HELD_S))
        _check_none(acknowledged(), "five records, neither accepted nor refused")

    @check(
        "RC-32", "must", requires="acknowledged", change="let the source redeliver a record that could not be stored"
    )
    def test_RC_32_unacked_comes_back(self, subject: ReceiverSubject) -> None:
        """The source redelivers a record that the receiver has read and not stored.

        Purpose: a receiver may die with records that it has read; the next receiver must get them.
        Condition: the new receiver stores the five refused records.
        """
        feeder = subject.feeder()
        records = feeder.sample(subject.rng, 10)
        harness = subject.run(subject.make(feeder), conf=NO_RETRIES)
        feeder.put(records[:5])
        subject.until_stored(harness, records[:5])
        harness.refuse()
        offers = harness.offers
        feeder.put(records[5:])
        subject.until(lambda: harness.offers > offers, "the receiver stored no further record")
        harness.stop()
        successor = subject.run(subject.make(feeder))
        subject.until_stored(successor, records[5:])

    @check("RC-33", "must", requires="acknowledged", change="acknowledge up to the first record that is not stored")
    def test_RC_33_out_of_order_acks_do_not_skip(self, subject: ReceiverSubject) -> None:
        """An acknowledgement does not cover an earlier record that is not stored.

        Purpose: in many protocols an acknowledgement covers all earlier records, so that a gap would be lost.
        Condition: after the stop each acknowledged record is stored; the new receiver stores all others.
        """
        feeder = subject.feeder()
        records = feeder.sample(subject.rng, 6)
        harness = run_refused(subject, feeder, records[:3])
        harness.accept()
        feeder.put(records[3:])
        # A receiver that stops at the refusal ends here.
        subject.becomes(lambda: harness.is_terminated or not Counter(records[3:]) - Counter(harness.records))
        harness.stop()
        if lost := list((Counter(feeder.acknowledged()) - Counter(harness.records)).elements()):
            fail(
                f"the receiver acknowledged records that are not stored: {lost}",
                "three records refused, three accepted",
            )
        successor = subject.run(subject.make(feeder))
        missing = list((Counter(records) - Counter(harness.records)).elements())
        subject.until_stored(successor, missing)

    @check(
        "RC-34",
        "must",
        requires="acknowledged",
        limit_s=60,
        change="limit the records in flight, and free their slots when stored",
    )
    def test_RC_34_saturated_then_resumes(self, subject: ReceiverSubject) -> None:
        """The receiver resumes after a time in which no block was accepted, and acknowledges every record.

        Purpose: a receiver that has once reached its limit of unacknowledged records must not stop for ever.
        Condition: all records are stored within 10 s, and acknowledged within 15 s more.
        """
        feeder = subject.feeder()
        records = feeder.sample(subject.rng, 600)
        harness = subject.run(subject.make(feeder), conf={"spark.penstock.receiver.maxBufferedRecords": "10"})
        for until in (300, 600):
            harness.hold()
            offers = harness.offers
            feeder.put(records[until - 300 : until])
            subject.until(lambda before=offers: harness.offers > before, "the receiver stored no record")  # type: ignore[misc]
            harness.accept()
            subject.until_stored(harness, records[:until], 10)
            subject.until(
                lambda some=records[:until]: not Counter(some) - Counter(feeder.acknowledged()),  # type: ignore[misc]
                lambda: f"the receiver acknowledged {len(feeder.acknowledged())} of {harness.count} stored records",
                ACKNOWLEDGED_S,
            )


def _check_none(acknowledged: list[Any], what: str) -> None:
    if acknowledged:
        fail(f"the receiver acknowledged {len(acknowledged)} records that are not stored: {acknowledged[:3]}", what)


def _acknowledged_after_s(
    subject: ReceiverSubject, feeder: Feeder, harness: ReceiverHarness, records: list[Any]
) -> float:
    """Put records, and wait until the receiver has acknowledged them; return the seconds until then."""
    began = time.monotonic()
    feeder.put(records)
    subject.until_stored(harness, records)

    def missing() -> int:
        return (Counter(records) - Counter(feeder.acknowledged())).total()

    subject.until(
        lambda: not missing(),
        lambda: f"the receiver acknowledged {len(records) - missing()} of {len(records)} stored records",
        ACKNOWLEDGED_S,
    )
    return time.monotonic() - began
