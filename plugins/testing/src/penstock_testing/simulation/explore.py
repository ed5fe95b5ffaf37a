"""Explores every order in which the threads of a small simulation can run, instead of those that a seed chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from attrs import frozen

from penstock_testing.simulation.scheduler import Scheduler

# A scheduler draws two kinds of numbers: which of the ready threads runs next, and how many of 40,000 ns a step takes.
# Only the first is a choice, so a range of more numbers than there can be threads is a time. It is always 1 ns: where
# no time passed, a thread that waits for a deadline might look at the clock for ever.
_MOST_THREADS = 1000


@frozen
class Choice:
    """One choice: the number of the alternative, 0 for the first, and how many there were."""

    chosen: int
    alternatives: int
    is_fault: bool = False


class Choices(Random):
    """The choices of one run: those of a given prefix, then always the first alternative; all are recorded.

    The first alternative continues the thread that ran, and each other one counts as a switch. Of faults, the first
    alternative is none.
    """

    def __init__(self, prefix: tuple[int, ...] = ()) -> None:
        super().__init__(0)
        self._prefix = prefix
        #: The choices so far.
        self.made: list[Choice] = []

    def scheduler(self) -> Scheduler:
        """A scheduler that asks for a choice at each point where another thread could run."""
        scheduler = Scheduler(0)
        self.decide(scheduler)
        return scheduler

    def decide(self, scheduler: Scheduler) -> None:
        """Have a scheduler ask from now on; a seed has decided the order until then."""
        scheduler.random = self
        scheduler.preemption = 1.0

    def fault(self, kinds: int = 1) -> int:
        """Which fault happens at this point: 0 for none, or a number up to that of the kinds."""
        return self._choose(kinds + 1, is_fault=True)

    def random(self) -> float:
        return 0.0

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        if stop is not None or start > _MOST_THREADS:
            return 1 if stop is None else start
        # The thread that ran is the last one in the list of those that are ready.
        return start - 1 - self._choose(start, is_fault=False)

    def _choose(self, alternatives: int, *, is_fault: bool) -> int:
        number = len(self.made)
        chosen = self._prefix[number] if number < len(self._prefix) else 0
        self.made.append(Choice(chosen, alternatives, is_fault))
        return chosen


def explore(run: Callable[[Choices], object], switches: int, faults: int = 0) -> Iterator[Choices]:
    """Run a simulation once for every order of its threads with at most a number of switches.

    Args:
        run: runs the simulation to its end on ``Choices.scheduler``.
        switches: how often a thread that could continue is made to wait for another one. Most defects of protocols need
            no more than two (Musuvathi and Qadeer, PLDI 2007).
        faults: how many of the faults happen that the simulation offers with ``Choices.fault``.

    Yields:
        The choices of each run, after it.
    """
    waiting = [tuple[int, ...]()]
    while waiting:
        prefix = waiting.pop()
        choices = Choices(prefix)
        run(choices)
        yield choices
        used = [choice.is_fault for choice in choices.made[: len(prefix)] if choice.chosen]
        may_fail, may_switch = used.count(True) < faults, used.count(False) < switches
        made = [choice.chosen for choice in choices.made]
        for number in range(len(prefix), len(made)):
            choice = choices.made[number]
            if may_fail if choice.is_fault else may_switch:
                waiting += [(*made[:number], other) for other in range(1, choice.alternatives)]
