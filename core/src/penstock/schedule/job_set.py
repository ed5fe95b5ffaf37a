"""``JobSet``: the jobs of one batch, their times, and the outcomes of its output operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import define, evolve, field

from penstock.graph.outputs import Job
from penstock.listen.events import BatchInfo, OutputOperationInfo, StreamInputInfo


@define
class JobSet:
    """The jobs of one batch. After the submission, only the scheduler's loop changes it.

    ``final_info`` returns the input info when all jobs have ended. The scheduler's lock guards ``has_begun``.
    """

    time_ms: int
    jobs: Sequence[Job]
    input_info: Mapping[int, StreamInputInfo]
    submission_ms: int
    final_info: Callable[[], Mapping[int, StreamInputInfo]] = field(default=dict)
    has_begun: bool = field(default=False, init=False)
    _start_ms: int | None = field(default=None, init=False)
    _end_ms: int | None = field(default=None, init=False)
    _operations: dict[int, OutputOperationInfo] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._operations = {
            job.output_op_id: OutputOperationInfo(
                self.time_ms, job.output_op_id, job.call_site.short, job.call_site.long
            )
            for job in self.jobs
        }

    def start_job(self, output_op_id: int, now_ms: int) -> tuple[OutputOperationInfo, bool]:
        """Record the start of a job; the second result says whether it is the batch's first."""
        first = self._start_ms is None
        if first:
            self._start_ms = now_ms
        self._operations[output_op_id] = evolve(self._operations[output_op_id], startTime=now_ms)
        return self._operations[output_op_id], first

    def end_job(self, output_op_id: int, now_ms: int, failure: str | None) -> tuple[OutputOperationInfo, bool]:
        """Record the end of a job; the second result says whether it was the batch's last."""
        self._operations[output_op_id] = evolve(self._operations[output_op_id], endTime=now_ms, failureReason=failure)
        last = all(operation.endTime is not None for operation in self._operations.values())
        if last:
            self._end_ms = now_ms
            # The final info of a late batch may have been cleaned up: the earlier info stays.
            self.input_info = {**self.input_info, **self.final_info()}
        return self._operations[output_op_id], last

    def info(self) -> BatchInfo:
        """The batch's current state for listeners."""
        return BatchInfo(
            self.time_ms, self.input_info, self.submission_ms, self._start_ms, self._end_ms, dict(self._operations)
        )
