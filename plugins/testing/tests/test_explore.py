"""The explorer runs every order of threads within its bound, and each order once."""

from __future__ import annotations

import math
from functools import partial

import pytest

from penstock_testing.simulation.explore import Choices, explore


def orders(lengths: tuple[int, ...], switches: int) -> list[str]:
    """The orders of the steps of some threads, each thread a letter."""
    found: list[str] = []

    def run(choices: Choices) -> None:
        scheduler, steps = choices.scheduler(), list[str]()

        def take(letter: str, length: int) -> None:
            for _ in range(length):
                steps.append(letter)
                scheduler.yield_now()

        def main() -> None:
            threads = zip("abc", lengths, strict=False)
            # A process each, because a process ends with its first thread.
            tasks = [
                scheduler.process(letter).spawn("steps", partial(take, letter, length)) for letter, length in threads
            ]
            for task in tasks:
                scheduler.join(task)

        scheduler.run(main)
        found.append("".join(steps))

    for _choices in explore(run, switches):
        pass
    return found


def test_without_switches_there_is_one_order() -> None:
    assert len(orders((3, 3), 0)) == 1


@pytest.mark.parametrize("lengths", [(1, 1), (2, 2), (3, 2)])
def test_all_orders_are_run(lengths: tuple[int, int]) -> None:
    expected = math.comb(sum(lengths), lengths[0])
    assert len(set(orders(lengths, 99))) == expected


def test_more_switches_contain_fewer() -> None:
    assert set(orders((3, 3), 1)) < set(orders((3, 3), 2)) < set(orders((3, 3), 99))
