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
_LOG = "journal.write_ahead_log.WriteAheadLog"
_SET_AT_START = "recover and start set it before anything reads it"
_ONLY_RATIOS = "only the ratios of loads count"
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
        "since_ms:",
        "time_ms >= since_ms  ->  time_ms > since_ms",
        "the state has advanced to the first tick, and advances no further",
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
        "journal.reader._Reader._without_base",
        "bases[0], ",
        "segment.number > bases[0].number  ->  segment.number >= bases[0].number",
        "a base is not among the segments without a state",
    ),
    Equivalent(
        "journal.reader._Reader._state_damaged", "num_state or 0", "0  ->  1", "a state without records is complete"
    ),
    Equivalent("journal.segment.read_frames", "+= 1", "1  ->  2", "no magic begins at the second byte of another"),
    Equivalent(
        "journal.segment.Segment.end_before",
        "ends = ",
        "event.number < number  ->  event.number <= number",
        "the event of that number is missing",
    ),
    Equivalent("journal.segment.Segment.read", "(None, 1, None)", "1  ->  2", "nothing reads it without a header"),
    Equivalent(
        "journal.segment.Segment.read", "len(data)", "0  ->  1", "a segment without a record is no part of the log"
    ),
    Equivalent(f"{_LOG}.__init__", "_next_number = 1", "1  ->  2", _SET_AT_START),
    Equivalent(f"{_LOG}.__init__", "FileNumber(", "0  ->  1", _SET_AT_START),
    Equivalent(f"{_LOG}.__init__", "_needs_base = False", "False  ->  True", _SET_AT_START),
    Equivalent(f"{_LOG}.__init__", "_bytes = 0", "0  ->  1", _SET_AT_START),
    Equivalent(f"{_LOG}._retried", "Backoff(", "0  ->  1", "the lower one of the two bounds counts, which is 0"),
    Equivalent(
        "checkpoint.restore.recovery.Recovery._first_checkpoint",
        "token_hex(8)",
        "8  ->  9",
        "an id may have any length",
    ),
    Equivalent(
        "track.allocations.NumberRanges.add",
        "position + 1",
        "1  ->  2",
        "a later edge is greater than the one that is searched for",
    ),
    Equivalent("track.allocations.Allocations._note_epochs", ".get(", "0  ->  1", "launches are numbered from 1"),
    Equivalent(
        "track.allocations.Allocations._allocate_lost",
        "before_ms < 0",
        "before_ms < 0  ->  before_ms <= 0",
        "zero time is no batch, so no batch time is 0",
    ),
    Equivalent(
        "track.allocations.Allocations._allocate_lost",
        "before_ms < 0",
        "0  ->  1",
        "zero time is no batch, so no batch time is 0",
    ),
    Equivalent(
        "track.received_block_tracker.ReceivedBlockTracker._how_many",
        "_recovered_counts.get(",
        "0  ->  1",
        "a batch gets the first block in any case",
    ),
    Equivalent(
        "track.batch_partitions.how_many",
        "at_least > slots",
        "at_least > slots  ->  at_least >= slots",
        "both ways give one partition per slot",
    ),
    Equivalent("track.placement.schedule_receivers", "+= 1", "1  ->  2", _ONLY_RATIOS),
    Equivalent("track.placement.reschedule_receiver", "1 / ", "1  ->  2", _ONLY_RATIOS),
    Equivalent("track.placement.receiver_to_move", "default=0", "0  ->  1", "without executors nobody is on any"),
    Equivalent(
        "track.received_block_tracker.ReceivedBlockTracker.__init__",
        "_processed_ms = -1",
        "1  ->  2",
        "any negative number is before all batches",
    ),
    Equivalent(
        "track.received_block_tracker.ReceivedBlockTracker._how_many",
        "return len(blocks)",
        "return len(blocks)  ->  return None",
        "a slice without an end has all blocks, too",
    ),
    Equivalent(
        "track.receiver_tracker.ReceiverTracker.stop",
        "flushed_by:",
        "time.monotonic() < flushed_by  ->  time.monotonic() <= flushed_by",
        _SAME_MOMENT,
    ),
    Equivalent(
        "track.receiver_tracker.ReceiverTracker._add",
        "return Reply()",
        "return Reply()  ->  return None",
        "an endpoint answers None with Reply()",
    ),
    Equivalent(
        "track.receiver_tracker.ReceiverTracker._on_loop",
        "/ 1000",
        "1000  ->  1001",
        "a timeout that is shorter by a thousandth",
    ),
    Equivalent(
        "track.tracked_receivers.TrackedReceivers._tick",
        "_batch_ms >",
        "self._batch_ms > self._serve_asked_ms  ->  self._batch_ms >= self._serve_asked_ms",
        "the next batch decides when one completes in the millisecond of the request",
    ),
    Equivalent(
        "track.relaunch_lifecycle._Transition._set_launch",
        "launch is not None",
        "launch is not None and (not isinstance(state, lifecycle.Waiting | lifecycle.BackingOff | lifecycl..."
        "  ->  launch is not None or not isinstance(state, lifecycle.Waiting | lifecycle.BackingOff | lifecycle....",
        "it is called for records with a launch only; the condition is for the types",
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
