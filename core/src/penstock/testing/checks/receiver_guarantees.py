"""Receiver checks RC-31 to RC-34: a record is acknowledged once it is stored, and comes back otherwise."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from penstock.testing.check import check, fail
from penstock.testing.feeder import Feeder
from penstock.testing.kit import ReceiverKit
from penstock.testing.receiver_harness import ReceiverHarness

#: The deadline of an acknowledgement: sound receivers acknowledge by a timer, often every 5 s.
ACKNOWLEDGED_S = 15.0
# Below the time after which the harness refuses a block that it holds.
_MOST_HELD_S = 18.0
#: A refused block fails its store at once.
NO_RETRIES = {"spark.penstock.receiver.storeRetries": "0"}


def run_refused(kit: ReceiverKit, feeder: Feeder, records: list[Any]) -> ReceiverHarness:
    """Run a receiver and put records, every block of which is refused; return the harness once one was."""
    harness = kit.run(kit.make(feeder), conf=NO_RETRIES)
    harness.refuse()
    feeder.put(records)
    kit.until(lambda: harness.offers, "no record was given to store")
    return harness


@check(
    "RC-31",
    "must",
    requires="acknowledged",
    limit_s=90,
    change="acknowledge when store_all returns, or when on_stored gets None",
)
def acks_only_after_stored(kit: ReceiverKit) -> None:
    """A record is acknowledged after it is stored, not before, and not if it cannot be stored.

    Purpose: the source forgets an acknowledged record; if it is not stored then, it is lost.
    Method: put five records whose blocks are refused, and stop the receiver. Store five others from another source,
        then one more, and measure how long the acknowledgements take. Put five whose blocks get no answer, and wait
        1.5 times as long and 0.3 s.
    Condition: stored records are acknowledged within 15 s; none is whose block is refused or has no answer.
    Requires: Capabilities.acknowledged, Feeder.acknowledged.
    """
    feeder = kit.feeder()
    harness = run_refused(kit, feeder, feeder.sample(kit.rng, 5))
    harness.stop()
    if acknowledged := feeder.acknowledged():
        fail(f"{len(acknowledged)} records acknowledged, none stored: {acknowledged[:3]}", "five records, refused")
    feeder = kit.feeder()
    records = feeder.sample(kit.rng, 11)
    harness = kit.run(kit.make(feeder))
    # The second begins just after a timer has acknowledged the first: it takes the timer's whole period.
    period_s = max(_acknowledged_after_s(kit, feeder, harness, part) for part in (records[:5], records[5:6]))
    harness.hold()
    offers, unanswered = harness.offers, Counter(records[6:])
    feeder.put(records[6:])
    kit.until(lambda: harness.offers > offers, "no further record was given to store")
    kit.becomes(lambda: unanswered & Counter(feeder.acknowledged()), min(1.5 * period_s + 0.3, _MOST_HELD_S))
    if early := list((unanswered & Counter(feeder.acknowledged())).elements()):
        fail(f"{len(early)} records acknowledged whose blocks have no answer: {early[:3]}", "five records, no answer")


def _acknowledged_after_s(kit: ReceiverKit, feeder: Feeder, harness: ReceiverHarness, records: list[Any]) -> float:
    """Store records and wait until they are acknowledged; return the seconds that took."""
    began = time.monotonic()
    feeder.put(records)
    kit.until_stored(harness, records)

    def missing() -> int:
        return (Counter(records) - Counter(feeder.acknowledged())).total()

    kit.until(
        lambda: not missing(),
        lambda: f"{len(records) - missing()} of {len(records)} stored records acknowledged",
        ACKNOWLEDGED_S,
    )
    return time.monotonic() - began


@check(
    "RC-32", "must", requires="acknowledged", change="do not reject a record that could not be stored: let it return"
)
def unacked_comes_back(kit: ReceiverKit) -> None:
    """A record that was read and not stored comes back.

    Purpose: a receiver dies with records that it has read; its successor must get them.
    Method: store five records; put five more whose blocks are refused; stop the receiver and run a new one.
    Condition: the new receiver stores the five that were refused.
    Requires: Capabilities.acknowledged.
    """
    feeder = kit.feeder()
    records = feeder.sample(kit.rng, 10)
    harness = kit.run(kit.make(feeder), conf=NO_RETRIES)
    feeder.put(records[:5])
    kit.until_stored(harness, records[:5])
    harness.refuse()
    offers = harness.offers
    feeder.put(records[5:])
    kit.until(lambda: harness.offers > offers, "no further record was given to store")
    harness.stop()
    successor = kit.run(kit.make(feeder))
    kit.until_stored(successor, records[5:])


@check("RC-33", "must", requires="acknowledged", change="acknowledge up to the first record that is not stored")
def out_of_order_acks_do_not_skip(kit: ReceiverKit) -> None:
    """The acknowledgement of a record acknowledges none before it that is not stored.

    Purpose: where one acknowledgement covers all records before it, a gap is lost.
    Method: put three records whose blocks are refused, then three whose blocks are accepted; run a new receiver after
        each one that ends.
    Condition: when the receiver is stopped, each acknowledged record is stored; in the end all are stored.
    Requires: Capabilities.acknowledged, Feeder.acknowledged.
    """
    feeder = kit.feeder()
    records = feeder.sample(kit.rng, 6)
    harness = run_refused(kit, feeder, records[:3])
    harness.accept()
    feeder.put(records[3:])
    # A receiver that stops at the refusal ends here.
    kit.becomes(lambda: harness.is_terminated or not Counter(records[3:]) - Counter(harness.records))
    harness.stop()
    if lost := list((Counter(feeder.acknowledged()) - Counter(harness.records)).elements()):
        fail(f"acknowledged and not stored: {lost}", "three records refused, three accepted")
    successor = kit.run(kit.make(feeder))
    missing = list((Counter(records) - Counter(harness.records)).elements())
    kit.until_stored(successor, missing)


@check(
    "RC-34",
    "must",
    requires="acknowledged",
    limit_s=60,
    change="bound the records in flight, and free their places when stored",
)
def saturated_then_resumes(kit: ReceiverKit) -> None:
    """A receiver whose blocks are accepted late continues once they are, and acknowledges everything.

    Purpose: a limit of unacknowledged records that is reached once must not stop the stream for ever.
    Method: put 300 records while no block is answered and the buffer takes ten; then accept. Twice.
    Condition: all records are stored within 10 s, and acknowledged within 15 s more.
    Requires: Capabilities.acknowledged, Feeder.acknowledged.
    """
    feeder = kit.feeder()
    records = feeder.sample(kit.rng, 600)
    harness = kit.run(kit.make(feeder), conf={"spark.penstock.receiver.maxBufferedRecords": "10"})
    for until in (300, 600):
        harness.hold()
        offers = harness.offers
        feeder.put(records[until - 300 : until])
        kit.until(lambda before=offers: harness.offers > before, "no record was given to store")  # type: ignore[misc]
        harness.accept()
        kit.until_stored(harness, records[:until], 10)
        kit.until(
            lambda some=records[:until]: not Counter(some) - Counter(feeder.acknowledged()),  # type: ignore[misc]
            lambda: f"{len(feeder.acknowledged())} records acknowledged, {harness.count} stored",
            ACKNOWLEDGED_S,
        )
