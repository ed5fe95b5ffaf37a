"""Points of the charts: merges batches until there are few enough to send and to draw. Independent of Bokeh."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from attrs import frozen

from penstock_ui.snapshot import Batch


@frozen
class Sample:
    """The values of one batch in the charts.

    Attributes:
        time: batch time, milliseconds.
        values: one number per measure; ``None`` where it is unknown.
        failed: whether an output operation failed.
    """

    time: int
    values: tuple[float | None, ...]
    failed: bool = False


@frozen
class Point:
    """One or more consecutive batches.

    Attributes:
        first: the first batch's time, milliseconds.
        last: the last batch's time.
        batches: number of merged batches.
        low: smallest value of each measure.
        mean: mean of the known values of each measure.
        high: largest value of each measure.
        failed: batches that failed.
    """

    first: int
    last: int
    batches: int
    low: tuple[float | None, ...]
    mean: tuple[float | None, ...]
    high: tuple[float | None, ...]
    failed: int = 0


@frozen
class Change:
    """The changes of the points that a chart must receive.

    Attributes:
        replaced: all points are new.
        added: number of new points at the end.
        last_changed: whether the point before the new ones has changed as well.
        dropped: number of points dropped at the start.
    """

    replaced: bool = False
    added: int = 0
    last_changed: bool = False
    dropped: int = 0

    def __bool__(self) -> bool:
        return self != Change()


class Timeline:
    """Merges batches into a bounded number of points, and samples each batch once.

    Args:
        sample: reads the values of a batch.
        max_points: maximum number of points; with more batches, two, four, … of them share a point.
    """

    def __init__(self, sample: Callable[[Batch], Sample], max_points: int = 400) -> None:
        self._sample = sample
        self._max_points = max_points
        # Samples of the last point, which may not be full yet.
        self._last_samples: list[Sample] = []
        #: Batches that a full point merges.
        self.merged = 1
        self.points: list[Point] = []

    def update(self, batches: Sequence[Batch]) -> Change:
        """Bring the points up to date.

        Args:
            batches: the retained completed batches by batch time.
        """
        if not batches:
            change = Change(replaced=bool(self.points))
            self.points = []
            self._last_samples = []
            self.merged = 1
            return change
        last = self.points[-1].last if self.points else -1
        new = _after(batches, last)
        held = sum(point.batches for point in self.points if point.last >= batches[0].time_ms)
        # Rebuild all points if a batch completed out of order, or if more batches must share a point.
        if held == 0 or len(batches) - len(new) > held or self.merged < self._needed(len(batches)):
            return self._replace(batches)
        return self._append(new, batches[0].time_ms)

    def _needed(self, batches: int) -> int:
        return 1 << max(math.ceil(math.log2(batches / self._max_points)), 0)

    def _replace(self, batches: Sequence[Batch]) -> Change:
        self.merged = self._needed(len(batches))
        samples = [self._sample(batch) for batch in batches]
        groups = [samples[start : start + self.merged] for start in range(0, len(samples), self.merged)]
        self.points = [merge(group) for group in groups]
        self._last_samples = groups[-1]
        return Change(replaced=True)

    def _append(self, new: Sequence[Batch], first_time: int) -> Change:
        added, last_changed = 0, False
        for sample in map(self._sample, new):
            if len(self._last_samples) < self.merged:
                self._last_samples.append(sample)
                self.points[-1] = merge(self._last_samples)
                last_changed = last_changed or added == 0
            else:
                self._last_samples = [sample]
                self.points.append(merge(self._last_samples))
                added += 1
        # A Bokeh source drops points only when it receives new ones.
        gone = (number for number, point in enumerate(self.points) if point.last >= first_time)
        dropped = next(gone, 0) if added else 0
        del self.points[:dropped]
        return Change(False, added, last_changed, dropped)


def _after(batches: Sequence[Batch], time_ms: int) -> Sequence[Batch]:
    start = len(batches)
    while start and batches[start - 1].time_ms > time_ms:
        start -= 1
    return batches[start:]


def merge(samples: Sequence[Sample]) -> Point:
    """Merge batches into one point.

    Args:
        samples: at least one.
    """
    columns = [[v for v in column if v is not None] for column in zip(*(s.values for s in samples), strict=True)]
    return Point(
        first=samples[0].time,
        last=samples[-1].time,
        batches=len(samples),
        low=tuple(min(column, default=None) for column in columns),
        mean=tuple(sum(column) / len(column) if column else None for column in columns),
        high=tuple(max(column, default=None) for column in columns),
        failed=sum(sample.failed for sample in samples),
    )


def histogram(values: Iterable[float | None], end: float, bins: int) -> list[int]:
    """Count the known values in equal bins from zero to ``end``; larger ones count in the last bin."""
    counts = [0] * bins
    for value in values:
        if value is not None:
            counts[max(min(int(value / end * bins), bins - 1), 0)] += 1
    return counts


def sparkline(values: Sequence[float | None], width: int, height: int, top: float | None = None) -> str:
    """Draw values as the ``points`` of an SVG polyline; unknown values are left out.

    Args:
        values: from left to right.
        width: width of the drawing.
        height: height of the drawing.
        top: the value at the upper edge; the largest value by default.
    """
    top = max((value for value in values if value is not None), default=0) if top is None else top
    step = width / max(len(values) - 1, 1)
    return " ".join(
        f"{number * step:.1f},{height - 1 - (height - 2) * min(value / top, 1) if top else height - 1:.1f}"
        for number, value in enumerate(values)
        if value is not None
    )
