"""``InputInfoTracker``: what each input stream gave to each batch.

Owns the reports until their batch is cleaned up. Written on the generator's loop, which also reads.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import StreamingStateError
from penstock.listen.events import StreamInputInfo


class InputInfoTracker:
    """Keep reports by batch and stream."""

    def __init__(self) -> None:
        self._reported: dict[int, dict[int, StreamInputInfo]] = {}
        self._counts: dict[int, dict[int, Callable[[], int]]] = {}

    def report(self, batch_time_ms: int, info: StreamInputInfo, count: Callable[[], int] | None = None) -> None:
        """Note what a stream gave to a batch.

        Args:
            batch_time_ms: the batch.
            info: as far as it is known before the records are read.
            count: to be asked for the number of records when the batch's jobs have ended.

        Raises:
            StreamingStateError: it has reported for that batch already.
        """
        of_batch = self._reported.setdefault(batch_time_ms, {})
        if info.inputStreamId in of_batch:
            raise StreamingStateError(
                f"input stream {info.inputStreamId} for batch {batch_time_ms} ms has been reported already; "
                "two reports would count its records twice"
            )
        of_batch[info.inputStreamId] = info
        if count is not None:
            self._counts.setdefault(batch_time_ms, {})[info.inputStreamId] = count

    def info(self, batch_time_ms: int) -> dict[int, StreamInputInfo]:
        """The reports of a batch, by stream id."""
        return dict(self._reported.get(batch_time_ms, {}))

    def counts(self, batch_time_ms: int) -> dict[int, Callable[[], int]]:
        """What to ask for the numbers of records of streams that learn them late, by stream id."""
        return dict(self._counts.get(batch_time_ms, {}))

    def clean_up(self, before_ms: int) -> None:
        """Forget batches strictly older than a time."""
        for time_ms in [time_ms for time_ms in self._reported if time_ms < before_ms]:
            del self._reported[time_ms]
            self._counts.pop(time_ms, None)
