"""Formats numbers, durations and times for the pages. ``-`` stands for an unknown value."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from attrs import frozen

UNKNOWN = "-"

_DURATIONS = ((86_400_000, "days"), (3_600_000, "hrs"), (60_000, "min"), (1000, "sec"))
#: Steps of an axis of durations, in milliseconds.
_STEPS_MS = tuple(
    step * unit
    for unit, steps in (
        (1, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (1000, (1, 2, 5, 10, 15, 30)),
        (60_000, (1, 2, 5, 10, 15, 30)),
        (3_600_000, (1, 2, 4, 6, 12)),
        (86_400_000, (1, 2, 5, 10, 20, 50, 100)),
    )
    for step in steps
)


def duration(ms: float | None) -> str:
    """Write a duration in Spark's units: ``900 ms``, ``1.0 sec``, ``2.5 min``, ``1.0 hrs``, ``3.0 days``."""
    if ms is None or not math.isfinite(ms):
        return UNKNOWN
    for size, unit in _DURATIONS:
        if abs(ms) >= size:
            return f"{ms / size:,.1f} {unit}"
    return f"{ms:.0f} ms"


def count(number: float | None) -> str:
    """Write a whole number with thousands separators."""
    return UNKNOWN if number is None or not math.isfinite(number) else f"{number:,.0f}"


def rate(per_s: float | None) -> str:
    """Write a rate in records per second, with one decimal below ten."""
    if per_s is None or not math.isfinite(per_s):
        return UNKNOWN
    return f"{per_s:,.1f}" if 0 < abs(per_s) < 9.95 else f"{per_s:,.0f}"


def short(number: float | None) -> str:
    """Write a number in at most five characters: ``950``, ``1.2k``, ``34M``."""
    if number is None or not math.isfinite(number):
        return UNKNOWN
    for size, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size * 0.9995:
            scaled = number / size
            return f"{scaled:.0f}{suffix}" if scaled >= 99.5 else f"{scaled:.3g}{suffix}"
    return f"{number:.3g}" if abs(number) < 10 else f"{number:.0f}"


def size(number: float | None) -> str:
    """Write bytes in binary units."""
    if number is None or not math.isfinite(number):
        return UNKNOWN
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(number) < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:,.1f} {unit}"
        number /= 1024
    return f"{number:,.1f} TiB"


def batch_time(ms: int | None, interval_ms: int, *, with_date: bool = True) -> str:
    """Write a batch time as Spark does, in local time.

    Args:
        ms: since the epoch.
        interval_ms: the batch interval; milliseconds are written unless it is a whole number of seconds.
        with_date: whether to begin with ``yyyy/MM/dd``.
    """
    if ms is None or ms < 0:
        return UNKNOWN
    text = time.strftime("%Y/%m/%d %H:%M:%S" if with_date else "%H:%M:%S", time.localtime(ms // 1000))
    return text if interval_ms >= 1000 and interval_ms % 1000 == 0 else f"{text}.{ms % 1000:03d}"


def clock_time(ms: int | None) -> str:
    """Write a moment to the second, with the date."""
    return batch_time(ms, 1000)


def zone() -> str:
    """Name the time zone in which the pages write times."""
    return time.strftime("UTC%z").replace("+0000", "")


def as_local(ms: int) -> int:
    """Shift a moment so that a chart, which writes UTC, shows local time."""
    return ms + time.localtime(ms // 1000).tm_gmtoff * 1000


def ago(then_ms: int | None, now_ms: int) -> str:
    """Write how long ago a moment was."""
    if then_ms is None or then_ms < 0:
        return "never"
    gone = max(now_ms - then_ms, 0)
    return "just now" if gone < 1000 else f"{duration(gone)} ago"


def plural(number: int, noun: str) -> str:
    """Write a number with its noun: ``1 batch``, ``2 batches``."""
    ending = "es" if noun.endswith(("ch", "s", "x")) else "s"
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}{ending}"


@frozen
class Scale:
    """An axis from zero.

    Attributes:
        end: its upper end.
        ticks: values with a label.
        labels: one label per tick.
    """

    end: float
    ticks: tuple[float, ...]
    labels: tuple[str, ...]


def duration_scale(largest_ms: float) -> Scale:
    """Choose an axis of durations with three or four labels in one unit."""
    top = max(largest_ms, 1.0)
    step = next((step for step in _STEPS_MS if top / step <= 3), None)
    step = step if step is not None else math.ceil(top / 3 / 86_400_000) * 86_400_000
    ticks = _ticks(top, step)
    unit_ms, unit = next(((unit_ms, unit) for unit_ms, unit in _DURATIONS if ticks[-1] >= unit_ms), (1, "ms"))
    return Scale(ticks[-1], ticks, tuple(f"{tick / unit_ms:.4g} {unit}" if tick else "0" for tick in ticks))


def rate_scale(largest: float) -> Scale:
    """Choose an axis of records per second."""
    top = max(largest, 1.0)
    power = 10.0 ** math.floor(math.log10(top / 3))
    step = next(power * factor for factor in (1, 2, 5, 10) if top / (power * factor) <= 3)
    ticks = _ticks(top, step)
    return Scale(ticks[-1], ticks, tuple(short(tick) for tick in ticks))


def _ticks(top: float, step: float) -> tuple[float, ...]:
    return tuple(step * number for number in range(math.ceil(top / step - 1e-9) + 1))


def percentile(values: Sequence[float], percent: float) -> float | None:
    """The value below which this percentage of the values lies (nearest rank); ``None`` for no values."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(max(math.ceil(percent / 100 * len(ordered)) - 1, 0), len(ordered) - 1)]
