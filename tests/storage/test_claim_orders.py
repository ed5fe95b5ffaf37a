"""Drivers that take one checkpoint directory from each other, in every order of their steps within a bound."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from types import SimpleNamespace

import pytest
from attrs import define, field

from penstock.errors import ClaimLostError
from penstock.storage import claim as claims
from penstock.storage.claim import Claim, ClaimedDirectory, Owner
from penstock_testing.simulation.explore import Choices, explore
from penstock_testing.simulation.simulated_disk import SimulatedDirectory, SimulatedDisk

Run = Callable[[Choices], Sequence["Driver"]]


@define
class Driver:
    """What a driver has read when it owned the directory, and what it has acknowledged afterwards."""

    name: str
    claim: int = 0
    has_read: set[str] = field(factory=set)
    acknowledged: set[str] = field(factory=set)

    def run(self, disk: SimulatedDisk) -> None:
        directory = SimulatedDirectory(disk, "simulated:/home")
        claim = Claim.take(directory, Owner("host", 1, self.name, "app", 0))
        self.claim = claim.number
        claimed = ClaimedDirectory(directory, claim)
        with suppress(ClaimLostError):
            self.has_read = set(claimed.names())
            for number in (1, 2):
                claimed.write(f"{self.name}-{number}", b"")
                self.acknowledged.add(f"{self.name}-{number}")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    def run(choices: Choices) -> Sequence[Driver]:
        scheduler = choices.scheduler()
        disk, drivers = SimulatedDisk(scheduler), [Driver("one"), Driver("two")]
        # Drivers that start at the same moment pause for different times, as they do by chance.
        pauses = itertools.count(1)
        monkeypatch.setattr(claims, "random", SimpleNamespace(uniform=lambda _least, _most: 0.01 * next(pauses)))
        time = SimpleNamespace(sleep=scheduler.elapse, monotonic=lambda: scheduler.now_s)
        monkeypatch.setattr(claims, "time", time)

        def main() -> None:
            processes = [(scheduler.process(driver.name), driver) for driver in drivers]
            tasks = [process.spawn("main", partial(driver.run, disk)) for process, driver in processes]
            for task in tasks:
                scheduler.join(task)

        scheduler.run(main)
        return drivers

    return run


def lost_writes(drivers: Sequence[Driver]) -> set[str]:
    """What one driver has acknowledged, and a later owner has not read."""
    one, other = sorted(drivers, key=lambda driver: driver.claim)
    return one.acknowledged - other.has_read


def test_later_owner_reads_what_the_earlier_one_has_acknowledged(run: Run) -> None:
    """Drivers that write once were run by hand in all of their 93,231 orders; these write twice."""
    orders, outcomes = 0, set[tuple[int, int]]()

    def check(choices: Choices) -> None:
        drivers = run(choices)
        assert drivers[0].claim != drivers[1].claim, choices.made
        assert lost_writes(drivers) == set(), choices.made
        outcomes.add((len(drivers[0].acknowledged), len(drivers[1].acknowledged)))

    for _choices in explore(check, switches=3):
        orders += 1
    assert orders > 500
    # The first driver was interrupted before, between and after its writes, and so was the second.
    assert outcomes >= {(0, 2), (1, 2), (2, 2), (2, 0), (2, 1)}


def finds_a_loss(run: Run) -> bool:
    losses = list[set[str]]()
    for _choices in explore(lambda choices: losses.append(lost_writes(run(choices))), switches=2):
        pass
    return any(losses)


def test_claim_that_is_not_checked_is_found(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Claim, "check", lambda _claim: None)
    assert finds_a_loss(run)


def test_check_before_the_write_only_is_found(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Claim.held
    monkeypatch.setattr(Claim, "held", lambda claim, *, deletes=False: held(claim, deletes=True))
    assert finds_a_loss(run)
