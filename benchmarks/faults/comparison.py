"""Compares the numbers that were sent with those that the program has written. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence

from attrs import field, frozen


@frozen
class Wipe:
    """A restart of the broker without its data.

    Attributes:
        below: numbers below this one were sent before.
        remaining: the number of messages that nobody had acknowledged, which the broker has lost.
    """

    below: int
    remaining: int


@frozen
class Fault:
    """One fault.

    Attributes:
        at_ms: when it began, in milliseconds of the epoch.
        kind: its name.
        recovered_s: how long it took, from the beginning, until a number that was sent later was written.
    """

    at_ms: int
    kind: str
    recovered_s: float = 0.0


@frozen
class Comparison:
    """The result of a run.

    Attributes:
        sent: numbers that the broker has confirmed.
        acknowledged: those of them that the receiver has acknowledged.
        stored: numbers in batches, with repetitions.
        written: different numbers in batches.
        lost: acknowledged numbers that no batch has.
        gone: numbers that the broker lost with its data before they were acknowledged.
        foreign: written numbers that nobody has published.
        repeated: repetitions of numbers in batches.
        repeated_after: kind of the last fault before a repetition → the number of repetitions.
    """

    sent: int
    acknowledged: int
    stored: int
    written: int
    lost: int
    gone: int
    foreign: int
    repeated: int
    repeated_after: Counter[str] = field(factory=Counter)

    @property
    def is_sound(self) -> bool:
        """Whether nothing was lost, and nothing invented."""
        return not (self.lost or self.foreign) and self.sent > 0


def compare(
    sent: set[int],
    begun: int,
    batches: Iterable[tuple[int, Sequence[int]]],
    remaining: int,
    wipes: Sequence[Wipe],
    faults: Sequence[Fault],
) -> Comparison:
    """Compare.

    Args:
        sent: the numbers that the broker has confirmed.
        begun: all published numbers are below this one, confirmed or not.
        batches: batch time in milliseconds and its numbers.
        remaining: the number of messages that are not acknowledged at the end.
        wipes: the restarts of the broker without data, in their order.
        faults: the faults in their order.
    """
    seen: Counter[int] = Counter()
    repeated_after: Counter[str] = Counter()
    times = [fault.at_ms for fault in faults]
    stored = 0
    for batch_ms, numbers in sorted(batches):
        for number in numbers:
            stored += 1
            seen[number] += 1
            if seen[number] > 1:
                before = bisect_right(times, batch_ms)
                repeated_after[faults[before - 1].kind if before else "no fault"] += 1
    missing = sorted(sent - seen.keys())
    lost, gone, start = 0, 0, 0
    for wipe in wipes:
        end = bisect_right(missing, wipe.below - 1)
        lost += max(end - start - wipe.remaining, 0)
        gone += min(end - start, wipe.remaining)
        start = end
    lost += max(len(missing) - start - remaining, 0)
    return Comparison(
        sent=len(sent),
        acknowledged=len(sent) - remaining - gone,
        stored=stored,
        written=len(seen),
        lost=lost,
        gone=gone,
        foreign=sum(not 0 <= number < begun for number in seen),
        repeated=stored - len(seen),
        repeated_after=repeated_after,
    )
