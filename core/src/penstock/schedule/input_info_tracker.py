"""``InputInfoTracker``: the input streams' reports about the data of every batch."""

from __future__ import annotations

import threading
from collections.abc import Callable

from attrs import evolve

from penstock.errors import StreamingStateError
from penstock.listen.events import StreamInputInfo
from penstock.runtime.clock import iso_time
from penstock.runtime.log import get_logger
from penstock.spark import failure

log = get_logger("input_info_tracker")


class InputInfoTracker:
    """The reports by batch and stream, until the clean-up of the batch."""

    def __init__(self) -> None:
        # By batch and stream: the report, and the function that counts the records when the batch's jobs have ended.
        self._reported: dict[int, dict[int, tuple[StreamInputInfo, Callable[[], int] | None]]] = {}
        self._lock = threading.Lock()

    def report(self, batch_time_ms: int, info: StreamInputInfo, count: Callable[[], int] | None = None) -> None:
        """Report the data of a stream in a batch; ``count`` gives the exact number of records after its jobs."""
        with self._lock:
            of_batch = self._reported.setdefault(batch_time_ms, {})
            if info.inputStreamId in of_batch:
                raise StreamingStateError(
                    f"input stream {info.inputStreamId} for batch {iso_time(batch_time_ms)} has been reported already; "
                    "two reports would count its records twice"
                )
            of_batch[info.inputStreamId] = info, count

    def info(self, batch_time_ms: int) -> dict[int, StreamInputInfo]:
        """The reports of a batch, by stream id."""
        return {stream_id: info for stream_id, (info, _count) in self._of_batch(batch_time_ms).items()}

    def final_info(self, batch_time_ms: int) -> dict[int, StreamInputInfo]:
        """The reports of a batch whose jobs have ended, with exact numbers of records, by stream id."""
        infos = {}
        for stream_id, (info, count) in self._of_batch(batch_time_ms).items():
            infos[stream_id] = info
            try:
                infos[stream_id] = info if count is None else evolve(info, numRecords=count())
            # The function is usually a plugin's.
            except Exception as error:
                log.warning(
                    "records not counted", batch_time=batch_time_ms, stream_id=stream_id, reason=failure.reason(error)
                )
        return infos

    def clean_up(self, before_ms: int) -> None:
        """Forget batches strictly older than a time."""
        with self._lock:
            for time_ms in [time_ms for time_ms in self._reported if time_ms < before_ms]:
                del self._reported[time_ms]

    def _of_batch(self, batch_time_ms: int) -> dict[int, tuple[StreamInputInfo, Callable[[], int] | None]]:
        with self._lock:
            return dict(self._reported.get(batch_time_ms, {}))
