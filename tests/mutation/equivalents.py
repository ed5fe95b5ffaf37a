"""Mutants that behave as the original does, each with the reason: the report counts them, and no test is run."""

from __future__ import annotations

from attrs import frozen
from tests.mutation.mutations import Mutant


@frozen
class Equivalent:
    """Mutants of one line that need no test.

    Attributes:
        function: with its module below ``penstock``.
        source: part of the text of the line.
        change: what the mutant changes, as the report shows it.
        reason: why no test can tell the mutant from the original, or why none should.
    """

    function: str
    source: str
    change: str
    reason: str

    def covers(self, mutant: Mutant) -> bool:
        return (
            f"penstock.{self.function}" == f"{mutant.module}.{mutant.function}"
            and self.source in mutant.source
            and self.change == f"{mutant.before}  ->  {mutant.after}"
        )


_SCHEDULER = "schedule.job_scheduler.JobScheduler"
_BUSY = "it looks again and again instead of waiting, with the same results"
_SAME_MOMENT = "the clock is read at exactly the deadline: the next look at it ends the wait"

EQUIVALENTS = (
    Equivalent(
        "schedule.due_batches.DueBatches.__init__", " = -1", "1  ->  2", "any negative number is before all batches"
    ),
    Equivalent(
        "schedule.job_generator.JobGenerator.__init__",
        "_backing_off = False",
        "False  ->  True",
        "the first event of the loop resets it",
    ),
    Equivalent(
        "schedule.job_generator.JobGenerator._advance_state",
        "late_until_ms",
        "time_ms > self._graph.late_until_ms  ->  time_ms >= self._graph.late_until_ms",
        "no batch is missing between the last late batch and the first tick",
    ),
    Equivalent(
        f"{_SCHEDULER}.await_pending",
        "self._changed.wait_for(",
        "self._changed.wait_for(lambda: len(self._pending) < reported or not self._pending or self._abando..."
        "  ->  pass",
        _BUSY,
    ),
    Equivalent(
        f"{_SCHEDULER}.await_pending",
        "lambda:",
        "len(self._pending) < reported  ->  len(self._pending) <= reported",
        _BUSY,
    ),
    Equivalent(
        f"{_SCHEDULER}.await_pending",
        "over = ",
        "time.monotonic() >= deadline  ->  time.monotonic() > deadline",
        _SAME_MOMENT,
    ),
    Equivalent(
        f"{_SCHEDULER}._complete",
        "self._dropped = ",
        "time_ms > job_set.time_ms  ->  time_ms >= job_set.time_ms",
        "a dropped batch does not complete",
    ),
    Equivalent(
        "storage.claim.Claim.take",
        "deadline:",
        "time.monotonic() > deadline  ->  time.monotonic() >= deadline",
        _SAME_MOMENT,
    ),
)


def is_equivalent(mutant: Mutant) -> bool:
    """Whether the mutant is on the list."""
    return any(equivalent.covers(mutant) for equivalent in EQUIVALENTS)
