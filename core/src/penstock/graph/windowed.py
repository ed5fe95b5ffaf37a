"""``WindowedDStream``: the records of the last batches, slide by slide.

Owns which batches a window covers. Computed on the generator's loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import RDD

from penstock.graph.dstream import DStream
from penstock.runtime.clock import require_duration_ms

if TYPE_CHECKING:
    from pyspark import StorageLevel


def window_of(parent: DStream[Any], windowDuration: float, slideDuration: float | None) -> tuple[int, int]:
    """Read the two durations of a window operator, in seconds.

    Returns:
        Both, in milliseconds.

    Raises:
        ValueError: one of them is no positive multiple of the parent's slide.
    """
    slide_ms = parent.slide_ms
    made = []
    for name, seconds in (("windowDuration", windowDuration), ("slideDuration", slideDuration)):
        whole_ms = slide_ms if seconds is None else require_duration_ms(name, seconds)
        if whole_ms % slide_ms:
            raise ValueError(
                f"{name} must be multiple of the parent dstream's slide (batch) duration ({slide_ms} ms); "
                f"it is {whole_ms} ms"
            )
        made.append(whole_ms)
    return made[0], made[1]


class WindowedDStream(DStream[Any]):
    """What came within ``window_ms`` up to each slide.

    Args:
        parent: its RDDs are kept, for each is asked for as often as windows overlap.
        window_ms: length of the window.
        slide_ms: from one window to the next.
    """

    spans_batches = True

    def __init__(self, parent: DStream[Any], window_ms: int, slide_ms: int) -> None:
        super().__init__(parent.context(), (parent,))
        self._parent, self._window_ms, self._slide_ms = parent, window_ms, slide_ms
        parent.keep()

    @property
    def slide_ms(self) -> int:
        """Milliseconds between two windows."""
        return self._slide_ms

    @property
    def parent_remember_ms(self) -> int:
        """As long as this stream remembers, and a window more."""
        return self.remember_ms + self._window_ms

    def keep(self) -> None:
        """Have the parent's RDDs kept, as they are already: the window's are nothing but those."""

    def persist(self, storageLevel: StorageLevel) -> DStream[Any]:
        """Keep the parent's RDDs at that level: the window's are nothing but those."""
        self._parent.persist(storageLevel)
        return self

    def compute(self, time_ms: int) -> RDD[Any] | None:
        """The union of the batches in the window."""
        rdds = self._parent.rdds_between(time_ms - self._window_ms + self._parent.slide_ms, time_ms)
        return self._sc.union(rdds) if rdds else self._sc.emptyRDD()
