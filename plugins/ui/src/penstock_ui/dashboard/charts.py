"""The charts: Bokeh figures that show the points of a timeline and receive only the changes.

Tags such as ``line_color=--data`` name the CSS variable that a property takes its colour from; ``dashboard.js`` sets it
for the theme in use.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from bokeh.models import (
    ColumnDataSource,
    DatetimeTicker,
    DatetimeTickFormatter,
    FixedTicker,
    HoverTool,
    Model,
    NoOverlap,
    OpenURL,
    Range1d,
    TapTool,
)
from bokeh.plotting import figure

from penstock_ui.dashboard.measures import Measure, capacity, limit, measured, measures
from penstock_ui.dashboard.timeline import Point, Sample, Timeline, histogram
from penstock_ui.dashboard.units import (
    Scale,
    as_local,
    batch_time,
    count,
    duration,
    duration_scale,
    plural,
    rate,
    rate_scale,
)
from penstock_ui.snapshot import Batch, Snapshot

_BINS = 16
# Margins around the plots in pixels: for labels, and for the time axis of the lowest plot.
_LEFT, _RIGHT, _BOTTOM_PX, _TIMES_PX = 62, 12, 6, 24
# Used until the page has set the colours of its theme.
_GREY = "#8a939c"


class Charts(Protocol):
    """The charts of a page."""

    @property
    def roots(self) -> Sequence[Model]:
        """The models to embed, by their names."""
        ...

    @property
    def merged(self) -> int:
        """Batches in one point."""
        ...

    def update(self, snapshot: Snapshot) -> None:
        """Show a newer snapshot."""
        ...


class OverviewCharts:
    """A timeline and a histogram for each measure; delays share one scale."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._interval_ms = snapshot.application.batch_interval_ms
        self._measures = measures(self._interval_ms)
        self._feed = _Feed(self._measures, self._interval_ms)
        self._x_range = Range1d(start=0, end=1)
        # Spark's delays share one scale. A processing time far below a long scheduling delay gets its own, or the
        # batch interval beside it could not be seen.
        delays = _Axis()
        self._axes = {measure.name: _Axis() if measure.has_own_scale else delays for measure in self._measures}
        self._bars: list[_Bars] = []
        self.roots: list[Model] = []
        for measure in self._measures:
            axis = self._axes[measure.name]
            color = "--data" if measure.is_rate else "--delay"
            is_last = measure is self._measures[-1]
            self._bars.append(_Bars(measure, axis, color, is_beside_times=is_last))
            self.roots += [self._timeline(measure, axis, color, with_times=is_last), self._bars[-1].plot]
        self.update(snapshot)

    @property
    def merged(self) -> int:
        """Batches in one point."""
        return self._feed.timeline.merged

    def update(self, snapshot: Snapshot) -> None:
        """Show a newer snapshot."""
        if not self._feed.update(snapshot.completed):
            return
        points = self._feed.timeline.points
        _show_times(self._x_range, points)
        self._axes["rate"].show(rate_scale(_highest(points, range(1))))
        highest = max(_highest(points, range(1, len(self._measures))), self._interval_ms)
        processing = max(_highest(points, range(2, 3)), self._interval_ms)
        self._axes["total"].show(duration_scale(highest))
        self._axes["processing"].show(duration_scale(highest if processing * 8 > highest else processing))
        for bars in self._bars:
            bars.show(snapshot.completed)

    def _timeline(self, measure: Measure, axis: _Axis, color: str, *, with_times: bool) -> Any:
        plot = _plot(f"{measure.name}_timeline", self._x_range, axis, with_times=with_times)
        source, name = self._feed.source, measure.name
        plot.varea("x", f"{name}_low", f"{name}_high", source=source, fill_alpha=0.22, fill_color=_GREY)
        plot.renderers[-1].glyph.tags = [f"fill_color={color}"]
        plot.line("x", f"{name}_mean", source=source, line_width=1.6, line_color=_GREY)
        line = plot.renderers[-1]
        line.glyph.tags = [f"line_color={color}"]
        if measure.has_interval:
            plot.hspan(y=self._interval_ms, line_dash="dashed", line_width=1.4, line_color=_GREY)
            plot.renderers[-1].glyph.tags = ["line_color=--mark"]
        if measure.name == "processing":
            plot.scatter("x", f"{name}_failed", source=source, size=5, line_color=None, fill_color=_GREY)
            plot.renderers[-1].glyph.tags = ["fill_color=--bad"]
        _add_hover(plot, line, [("", "@label"), ("", f"@{name}_text")])
        _add_links(plot, f"{name}_mean", source)
        return plot


class RateCharts:
    """Measured rate, limit and capacity of one stream, or of all together.

    Args:
        snapshot: the first one to show.
        stream_id: the stream; ``None`` for all.
    """

    def __init__(self, snapshot: Snapshot, stream_id: int | None = None) -> None:
        interval_ms = snapshot.application.batch_interval_ms
        self._interval_ms = interval_ms
        self._stream_id = stream_id
        parts = (
            Measure("rate", "measured", "", lambda batch: measured(batch, stream_id, interval_ms), True),
            Measure("limit", "limit", "", lambda batch: limit(batch, stream_id), True),
            Measure("capacity", "capacity", "", lambda batch: capacity(batch, stream_id), True),
        )
        self._feed = _Feed(parts, interval_ms)
        self._x_range = Range1d(start=0, end=1)
        self._axis = _Axis()
        self._bars = _Bars(parts[0], self._axis, "--data", is_beside_times=True)
        self.roots: list[Model] = [self._plot(), self._bars.plot]
        self.update(snapshot)

    @property
    def merged(self) -> int:
        """Batches in one point."""
        return self._feed.timeline.merged

    def update(self, snapshot: Snapshot) -> None:
        """Show a newer snapshot."""
        if not self._feed.update(snapshot.completed):
            return
        points = self._feed.timeline.points
        # Only the newer batches have the details of a stream.
        first = next((place for place, point in enumerate(points) if point.mean[0] is not None), 0)
        _show_times(self._x_range, points[first:])
        # The input must stay visible, so a limit or a capacity far above it may leave the chart.
        highest = _highest(points, range(1))
        others = _highest(points, range(1, 3))
        self._axis.show(rate_scale(min(max(highest, others), 3 * highest) if highest else others))
        self._bars.show(snapshot.completed)

    def _plot(self) -> Any:
        plot, source = _plot("rate", self._x_range, self._axis, with_times=True), self._feed.source
        plot.varea("x", "rate_low", "rate_high", source=source, fill_alpha=0.22, fill_color=_GREY)
        plot.renderers[-1].glyph.tags = ["fill_color=--data"]
        plot.line("x", "capacity_mean", source=source, line_width=1.4, line_color=_GREY, line_dash="dotted")
        plot.renderers[-1].glyph.tags = ["line_color=--muted"]
        plot.step("x", "limit_mean", source=source, line_width=1.6, line_color=_GREY, line_dash="dashed", mode="before")
        plot.renderers[-1].glyph.tags = ["line_color=--mark"]
        plot.line("x", "rate_mean", source=source, line_width=1.8, line_color=_GREY)
        line = plot.renderers[-1]
        line.glyph.tags = ["line_color=--data"]
        tips = [("", "@label"), ("measured", "@rate_text"), ("limit", "@limit_text"), ("capacity", "@capacity_text")]
        _add_hover(plot, line, tips)
        _add_links(plot, "rate_mean", source)
        return plot


class _Bars:
    """A histogram beside a timeline: how many batches had which value."""

    def __init__(self, measure: Measure, axis: _Axis, color: str, *, is_beside_times: bool) -> None:
        self._measure = measure
        self._axis = axis
        self._source = ColumnDataSource({"y": [], "height": [], "batches": [], "label": []})
        self._range = Range1d(start=0, end=1)
        self.plot = _plot(f"{measure.name}_histogram", self._range, axis, with_times=False)
        self.plot.yaxis.visible = False
        self.plot.min_border_left = 8
        # The same height as the timeline, which may have a time axis below.
        self.plot.min_border_bottom = _TIMES_PX if is_beside_times else _BOTTOM_PX
        bars = self.plot.hbar(
            y="y",
            right="batches",
            height="height",
            source=self._source,
            fill_color=_GREY,
            fill_alpha=0.75,
            line_color=None,
        )
        bars.glyph.tags = [f"fill_color={color}"]
        self.plot.add_tools(HoverTool(renderers=[bars], tooltips=[("", "@label")], mode="hline"))

    def show(self, completed: Sequence[Batch]) -> None:
        counts = histogram(map(self._measure.read, completed), self._axis.end, _BINS)
        step = self._axis.end / _BINS
        text = (lambda value: f"{rate(value)}/s") if self._measure.is_rate else duration
        self._source.data = {
            "y": [(number + 0.5) * step for number in range(_BINS)],
            "height": [step * 0.86] * _BINS,
            "batches": counts,
            "label": [
                f"{plural(batches, 'batch')}: {text(number * step)} to {text((number + 1) * step)}"
                for number, batches in enumerate(counts)
            ],
        }
        self._range.end = max(max(counts) * 1.05, 1)


class _Feed:
    """A column data source with a timeline's points."""

    def __init__(self, parts: Sequence[Measure], interval_ms: int) -> None:
        self._parts = parts
        self._interval_ms = interval_ms
        self.timeline = Timeline(self._sample)
        self.source = ColumnDataSource(self._columns([]))

    def update(self, completed: Sequence[Batch]) -> bool:
        """Send the changes; return whether there were any."""
        change = self.timeline.update(completed)
        points = self.timeline.points
        if change.replaced:
            self.source.data = self._columns(points)
        else:
            if change.last_changed:
                place = len(points) + change.dropped - change.added - 1
                columns = self._columns([points[-1 - change.added]])
                self.source.patch({name: [(place, values[0])] for name, values in columns.items()})
            if change.added:
                newest: dict[str, Any] = self._columns(points[-change.added :])
                self.source.stream(newest, rollover=len(points))
        return bool(change)

    def _sample(self, batch: Batch) -> Sample:
        return Sample(batch.time_ms, tuple(part.read(batch) for part in self._parts), batch.num_failed > 0)

    def _columns(self, points: Sequence[Point]) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = {
            "x": [as_local(point.last) for point in points],
            "label": [self._label(point) for point in points],
            "link": [_link(point) for point in points],
        }
        for index, part in enumerate(self._parts):
            for name, values in (("low", "low"), ("mean", "mean"), ("high", "high")):
                numbers = (getattr(point, values)[index] for point in points)
                columns[f"{part.name}_{name}"] = [math.nan if number is None else float(number) for number in numbers]
            columns[f"{part.name}_failed"] = [
                float(point.mean[index] or 0) if point.failed else math.nan for point in points
            ]
            columns[f"{part.name}_text"] = [_text(part, point, index) for point in points]
        return columns

    def _label(self, point: Point) -> str:
        text = batch_time(point.last, self._interval_ms)
        if point.batches > 1:
            text = f"{plural(point.batches, 'batch')} until {text}"
        return f"{text}, {count(point.failed)} failed" if point.failed else text


def _text(part: Measure, point: Point, index: int) -> str:
    text = (lambda value: f"{rate(value)}/s") if part.is_rate else duration
    if point.mean[index] is None:
        return "-"
    mean = text(point.mean[index])
    return mean if point.batches == 1 else f"{mean} ({text(point.low[index])} to {text(point.high[index])})"


def _link(point: Point) -> str:
    if point.batches == 1:
        return f"batch?id={point.last}"
    return f"batches?from={point.first}&to={point.last}"


class _Axis:
    """A range from zero with its ticks; several charts can share it."""

    def __init__(self) -> None:
        self.range = Range1d(start=0, end=1)
        self.ticker = FixedTicker(ticks=[])
        self.end = 1.0
        self._scale: Scale | None = None
        self._axes: list[Any] = []

    def add(self, axis: Any) -> None:
        axis.ticker = self.ticker
        self._axes.append(axis)

    def show(self, scale: Scale) -> None:
        if scale == self._scale:
            return
        self._scale = scale
        self.end = scale.end
        # Room for a line at the upper end.
        self.range.end = scale.end * 1.04
        self.ticker.ticks = list(scale.ticks)
        labels = dict(zip(scale.ticks, scale.labels, strict=True))
        for axis in self._axes:
            axis.major_label_overrides = labels


def _plot(name: str, x_range: Range1d, axis: _Axis, *, with_times: bool) -> Any:
    """An empty figure without decoration."""
    plot = figure(
        name=name,
        x_range=x_range,
        y_range=axis.range,
        x_axis_type="datetime" if with_times else None,
        sizing_mode="stretch_both",
        toolbar_location=None,
        tools="",
        min_border_left=_LEFT,
        min_border_right=_RIGHT,
        min_border_top=6,
        min_border_bottom=_TIMES_PX if with_times else _BOTTOM_PX,
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        lod_threshold=None,
    )
    axis.add(plot.yaxis[0])
    plot.ygrid[0].ticker = axis.ticker
    plot.ygrid[0].update(grid_line_color=_GREY, tags=["grid_line_color=--line"])
    _style(plot.yaxis[0])
    if with_times:
        plot.xgrid.visible = False
        plot.xaxis[0].ticker = DatetimeTicker(desired_num_ticks=5)
        plot.xaxis[0].major_label_policy = NoOverlap(min_distance=8)
        plot.xaxis[0].formatter = DatetimeTickFormatter(
            milliseconds="%H:%M:%S.%3N",
            seconds="%H:%M:%S",
            minsec="%H:%M:%S",
            minutes="%H:%M",
            hourmin="%H:%M",
            hours="%H:%M",
            days="%d %b",
        )
        _style(plot.xaxis[0])
    return plot


def _style(axis: Any) -> None:
    axis.update(
        axis_line_color=None,
        major_tick_line_color=None,
        minor_tick_line_color=None,
        major_label_text_color=_GREY,
        major_label_text_font_size="11.5px",
        major_label_text_font="system-ui, 'Noto Sans', 'Liberation Sans', sans-serif",
        tags=["major_label_text_color=--muted"],
    )


def _add_hover(plot: Any, renderer: Any, tooltips: list[tuple[str, str]]) -> None:
    plot.add_tools(HoverTool(renderers=[renderer], tooltips=tooltips, mode="vline", line_policy="nearest"))


def _add_links(plot: Any, column: str, source: ColumnDataSource) -> None:
    """A click on a point opens its batch."""
    hits = plot.scatter("x", column, source=source, size=12, alpha=0)
    hits.nonselection_glyph = hits.selection_glyph = hits.glyph
    plot.add_tools(TapTool(renderers=[hits], callback=OpenURL(url="@link", same_tab=True)))


def _show_times(x_range: Range1d, points: Sequence[Point]) -> None:
    if points:
        start, end = as_local(points[0].first), as_local(points[-1].last)
        x_range.update(start=start, end=end if end > start else start + 1000)


def _highest(points: Sequence[Point], indexes: range) -> float:
    return max((value for point in points for index in indexes if (value := point.high[index]) is not None), default=0)
