"""Explores every order in which the threads of a small simulation can run, instead of those that a seed chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from penstock_testing.simulation.scheduler import Scheduler

# A scheduler draws two kinds of numbers: which of the ready threads runs next, and how many of 40,000 ns a step takes.
# Only the first is a choice, so a range of more numbers than there can be threads is a time, always the shortest one.
_MOST_THREADS = 1000


class Choices(Random):
    """The choices of one run: those of a given prefix, then always the first alternative; all are recorded.

    The first alternative continues the thread that ran, and each other one counts as a switch.
    """

    def __init__(self, prefix: tuple[int, ...] = ()) -> None:
        super().__init__(0)
        self._prefix = prefix
        #: What was chosen, and of how many alternatives.
        self.made: list[tuple[int, int]] = []

    def scheduler(self) -> Scheduler:
        """A scheduler that asks for a choice at each point where another thread could run."""
        scheduler = Scheduler(0)
        scheduler.random = self
        scheduler.preemption = 1.0
        return scheduler

    def random(self) -> float:
        return 0.0

    def randrange(self, start: int, *_others: int) -> int:  # type: ignore[override]
        if start > _MOST_THREADS:
            return 0
        number = len(self.made)
        # The thread that ran is the last one in the list of those that are ready.
        chosen = self._prefix[number] if number < len(self._prefix) else 0
        self.made.append((chosen, start))
        return start - 1 - chosen


def explore(run: Callable[[Choices], object], switches: int) -> Iterator[Choices]:
    """Run a simulation once for every order of its threads with at most a number of switches.

    Args:
        run: runs the simulation to its end on ``Choices.scheduler``.
        switches: how often a thread that could continue is made to wait for another one. Most defects of protocols need
            no more than two (Musuvathi and Qadeer, PLDI 2007).

    Yields:
        The choices of each run, after it.
    """
    waiting = [tuple[int, ...]()]
    while waiting:
        prefix = waiting.pop()
        choices = Choices(prefix)
        run(choices)
        yield choices
        made = [chosen for chosen, _alternatives in choices.made]
        used = sum(map(bool, prefix))
        if used < switches:
            for number in range(len(prefix), len(made)):
                alternatives = choices.made[number][1]
                waiting += [(*made[:number], other) for other in range(1, alternatives)]
