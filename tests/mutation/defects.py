"""Mutants of the engine for the simulator: defects of its protocols, each a text of the engine and another one.

The reported ones are defects that the engine once had, in today's code. The others are steps of a protocol that are
left out, or come in the wrong order.
"""

from __future__ import annotations

from pathlib import Path

from attrs import frozen
from tests.mutation.mutations import Mutant, mutant_of

_CORE = Path(__file__).parents[2] / "core" / "src"


@frozen
class Defect:
    """One mutant.

    Attributes:
        name: names it on the command line.
        file: below ``penstock``.
        before: a text inside a function of the file, which has it once.
        after: the text in its place.
        what: what goes wrong, a sentence.
        was_reported: whether the engine once had the defect.
    """

    name: str
    file: str
    before: str
    after: str
    what: str
    was_reported: bool = False

    @property
    def package(self) -> str:
        """The package of the file; the folder of this name in ``tests`` has its unit tests."""
        return self.file.partition("/")[0]

    def mutant(self) -> Mutant:
        """The compiled mutant."""
        module = f"penstock.{self.file.removesuffix('.py').replace('/', '.')}"
        return mutant_of(module, _CORE / "penstock" / self.file, self.before, self.after)


DEFECTS = (
    Defect(
        "claim-never-lost",
        "storage/claim.py",
        "if newer is None:",
        "if True:",
        "A driver that was replaced continues to write and to delete in the checkpoint directory.",
        was_reported=True,
    ),
    Defect(
        "claim-checked-before",
        "storage/claim.py",
        """\
            if locked or deletes:
                self.check()
            yield
            if not (locked or deletes):
                self.check()
""",
        """\
            self.check()
            yield
""",
        "Where there are no locks, the claim is checked before a write instead of after it.",
    ),
    Defect(
        "blocks-deleted-without-claim",
        "track/block_logs.py",
        "held = nullcontext if claim is None else partial(claim.held, deletes=True)",
        "held = nullcontext",
        "A driver that was replaced deletes blocks that the new one needs.",
        was_reported=True,
    ),
    Defect(
        "directory-read-before-claim",
        "checkpoint/restore/recovery.py",
        "        earlier = self._newest_of_owner(rebuilds)\n",
        "",
        "A driver recovers from the checkpoint that it found before it took the directory over.",
    ),
    Defect(
        "failed-batch-complete",
        "schedule/job_scheduler.py",
        "awaits_rerun = not info.succeeded and (self._is_recoverable or (reruns and is_complete))",
        "awaits_rerun = reruns = False",
        "A failed batch counts as complete: its blocks are deleted, and it never runs again.",
        was_reported=True,
    ),
    Defect(
        "repeats-forgotten",
        "track/allocations.py",
        "return int(match[2]) not in self._accepted.get(block.stream_id, {}).get(int(match[1]), ())",
        "return block.block_id not in self._unallocated.get(block.stream_id, {})",
        "A report that is repeated after its block is in a batch counts as new.",
        was_reported=True,
    ),
    Defect(
        "repeat-not-awaited",
        "track/received_block_tracker.py",
        "            self._additions.wait_for(lambda: self._being_added.isdisjoint(ids))\n",
        "",
        "A report is judged while its first copy is being written, so a relaunched receiver's blocks are refused.",
        was_reported=True,
    ),
    Defect(
        "being-added-unreported",
        "track/received_block_tracker.py",
        "return being_added.union(",
        "return set[str]().union(",
        "A relaunch deletes the files of blocks whose report is being written.",
    ),
    Defect(
        "base-not-synced",
        "journal/write_ahead_log.py",
        "self._note_base(self._write_records(appender, records, Durability.FSYNC))",
        "self._note_base(self._write_records(appender, records, self._durability))",
        "Older segments are deleted before the disk has the state that replaces them.",
        was_reported=True,
    ),
    Defect(
        "checkpoints-not-synced",
        "checkpoint/checkpoint_store.py",
        "return self._unsynced >= self._max_unsynced",
        "return False",
        "No checkpoint is ever synced, whatever the durability.",
        was_reported=True,
    ),
    Defect(
        "clock-follows-steps-back",
        "runtime/batch_clock.py",
        "now_ms = self._last_ms = max(self._last_ms, wall_ms + self._ahead_ms)",
        "now_ms = self._last_ms = wall_ms",
        "Batch times follow a wall clock that is set back.",
        was_reported=True,
    ),
    Defect(
        "read-error-is-damage",
        "checkpoint/checkpoint_store.py",
        """\
            except CheckpointError as error:
                damaged[name] = str(error)
""",
        """\
            except (CheckpointError, OSError) as error:
                damaged[name] = str(error)
""",
        "A checkpoint that cannot be read at the moment counts as damaged, and an older one is used.",
        was_reported=True,
    ),
    Defect(
        "sealed-not-checked",
        "track/receiver_tracker.py",
        "if self.blocks.is_sealed:",
        "if False:",
        "Blocks are accepted after the last batch of a run was allocated.",
        was_reported=True,
    ),
    Defect(
        "hung-writes-not-failed",
        "journal/write_ahead_log.py",
        "            for unknown in list(self._in_write):\n",
        "            for unknown in list[_Pending]():\n",
        "A write that hangs at a stop is never failed, so its report is never answered.",
        was_reported=True,
    ),
    Defect(
        "restart-without-deadline",
        "track/relaunch_lifecycle.py",
        "isinstance(state, lifecycle.Restarting | lifecycle.Refused) and",
        "isinstance(state, lifecycle.Refused) and",
        "A receiver that announced a restart and never came back is not relaunched.",
        was_reported=True,
    ),
    Defect(
        "pending-ignored-by-cleanup",
        "schedule/unfinished_batches.py",
        "return [*due, *self.pending, *self.dropped]",
        "return [*due, *self.dropped]",
        "A batch that completes deletes the blocks of an older one that is still running.",
        was_reported=True,
    ),
    Defect(
        "skipped-times-forgotten",
        "checkpoint/checkpointer.py",
        "skipped=[BatchRange(times[0], times[-1]) for times in skipped]",
        "skipped=[]",
        "Checkpoints do not contain the batch times that were never due.",
        was_reported=True,
    ),
    Defect(
        "state-not-advanced",
        "schedule/job_generator.py",
        "            self._state.advance(min(time_ms, since_ms))\n",
        "",
        "A recovered state lacks the complete batches between two batches that run again.",
        was_reported=True,
    ),
    Defect(
        "launch-numbers-reused",
        "track/tracked_receivers.py",
        "epoch=blocks.state.epochs.get(stream_id, 0)",
        "epoch=0",
        "A recovered run gives its receivers numbers of launches that an earlier run has used.",
    ),
    Defect(
        "acknowledged-before-written",
        "journal/write_ahead_log.py",
        "pending.outcome.result()",
        "pass",
        "A block is acknowledged before the write-ahead log has it.",
    ),
    Defect(
        "log-truncated-first",
        "journal/write_ahead_log.py",
        "        records = (event_record(STATE, encoded(event)) for event in events)\n",
        """\
        for old in segment_numbers(self._directory):
            self._directory.delete(segment_name(old))
        records = (event_record(STATE, encoded(event)) for event in events)
""",
        "Older segments are deleted before the state that replaces them is written.",
    ),
    Defect(
        "torn-segment-continued",
        "journal/write_ahead_log.py",
        "on_retry=lambda _error, _delay_ms: self._close_segment(),",
        "on_retry=lambda _error, _delay_ms: None,",
        "After a failed write, records follow the part that was written.",
    ),
    Defect(
        "pending-not-saved",
        "checkpoint/checkpointer.py",
        "pending={time_ms: attempts(time_ms) for time_ms in batches.to_run}",
        "pending={}",
        "Checkpoints do not contain the batches that are not complete.",
    ),
    Defect(
        "state-input-deleted",
        "checkpoint/checkpointer.py",
        "needed_ms = min(oldest.needed_ms, points[-1].since_ms - remember_ms)",
        "needed_ms = oldest.needed_ms",
        "Blocks that a recovery needs to compute its state again are deleted.",
    ),
    Defect(
        "batch-allocated-again",
        "track/received_block_tracker.py",
        "if batch_time_ms <= self.state.last_allocated_ms:",
        "if False:",
        "A batch that runs again gets the blocks that arrived since.",
    ),
    Defect(
        "repeat-refused",
        "track/receiver_tracker.py",
        "return self._add(message, new) if new else Reply()",
        "return self._add(message, message.blocks)",
        "The repeated report of a block is judged as a new one: it may be refused, and the receiver deletes the block.",
    ),
    Defect(
        "replaced-launch-accepted",
        "track/receiver_tracker.py",
        "if record is None or message.epoch != record.epoch:",
        "if record is None:",
        "Blocks of a launch that was replaced are accepted, although its files are being deleted.",
    ),
    Defect(
        "unknown-outcome-is-refusal",
        "track/receiver_tracker.py",
        "            self.backlog.processed(new)\n            raise\n",
        '            self.backlog.processed(new)\n            return Reply(accepted=False, reason="not written")\n',
        "A block is refused, and deleted, when the outcome of its write to the log is unknown.",
    ),
    Defect(
        "last-allocation-ignored",
        "schedule/job_generator.py",
        "last_ms = max(recovered.last_time_ms, self._tracker.last_allocated_ms)",
        "last_ms = recovered.last_time_ms",
        "A recovered run does not look which batch the log has allocated last.",
    ),
    Defect(
        "lost-block-acknowledged",
        "receive/block_pusher.py",
        """\
                if pushed.stored is not None and pushed.failure is None:
                    pushed.failure = error
""",
        """\
                pass
""",
        "A receiver acknowledges the records of a block that the driver has not accepted.",
    ),
)
