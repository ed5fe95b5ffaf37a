"""``InputInfoTracker``: what each input stream gave to each batch.

Owns the reports until their batch is cleaned up. Written on the generator's loop, which also reads.
"""

from __future__ import annotations

from penstock.errors import StreamingStateError
from penstock.listen.events import StreamInputInfo


class InputInfoTracker:
    """Keep reports by batch and stream."""

    def __init__(self) -> None:
        self._reported: dict[int, dict[int, StreamInputInfo]] = {}

    def report(self, batch_time_ms: int, info: StreamInputInfo) -> None:
        """Note what a stream gave to a batch.

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

    def info(self, batch_time_ms: int) -> dict[int, StreamInputInfo]:
        """The reports of a batch, by stream id."""
        return dict(self._reported.get(batch_time_ms, {}))

    def clean_up(self, before_ms: int) -> None:
        """Forget batches strictly older than a time."""
        for time_ms in [time_ms for time_ms in self._reported if time_ms < before_ms]:
            del self._reported[time_ms]
