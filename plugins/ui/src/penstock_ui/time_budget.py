"""``TimeBudget``: the shares of a receiver's time, which add up to 1. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import asdict, frozen

from penstock import StoreTimes


@frozen
class TimeBudget:
    """Where the time of a receiver's storing threads has gone, as shares of 1.

    Attributes:
        source: it waited for its source, for a restart, or for a processor.
        limiter: the rate limit held it, or the driver paused it.
        disk: blocks were written, or waited for space on a full disk.
        driver: it waited for the driver to acknowledge blocks.
        code: it computed: the receiver's code, its client's, and the encoding of records.
    """

    source: float = 1.0
    limiter: float = 0.0
    disk: float = 0.0
    driver: float = 0.0
    code: float = 0.0

    @property
    def largest(self) -> str:
        """The name of the largest share."""
        shares = self.shares
        return max(shares, key=shares.__getitem__)

    @property
    def shares(self) -> Mapping[str, float]:
        """The shares by name."""
        return {
            "source": self.source,
            "limiter": self.limiter,
            "disk": self.disk,
            "driver": self.driver,
            "code": self.code,
        }


def since(before: StoreTimes | None, after: StoreTimes) -> StoreTimes:
    """The times between two reports; those of a new launch if ``before`` is of an earlier one."""
    if before is None or before.elapsed > after.elapsed:
        return after
    earlier = asdict(before)
    return StoreTimes(**{name: max(ms - earlier[name], 0) for name, ms in asdict(after).items()})


def time_budget(times: StoreTimes) -> TimeBudget | None:
    """The shares of a period; ``None`` for an empty one.

    A full buffer of single records is emptied by the engine's threads: its waits count for what these did meanwhile.
    """
    if times.elapsed <= 0:
        return None
    emptied_by = {"code": times.encoding, "disk": times.storing, "driver": times.reporting}
    total = sum(emptied_by.values())
    emptying = {name: times.buffer * (ms / total if total else name == "driver") for name, ms in emptied_by.items()}
    waits = {
        "limiter": times.limiter,
        "disk": times.disk + emptying["disk"],
        "driver": times.driver + emptying["driver"],
        "code": emptying["code"],
    }
    # Rounded values, and threads that began to store within the period, may exceed it.
    elapsed = max(times.elapsed, sum(waits.values()))
    waits["code"] += min(times.code, elapsed - sum(waits.values()))
    shares = {name: ms / elapsed for name, ms in waits.items()}
    return TimeBudget(source=max(1 - sum(shares.values()), 0.0), **shares)
