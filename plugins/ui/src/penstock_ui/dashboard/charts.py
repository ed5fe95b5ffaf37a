"""The charts: Bokeh figures that show the points of a timeline, and are sent only what changed.

Tags such as ``line_color=--data`` name the CSS variable that a property takes its colour from; ``dashboard.js`` sets it
for the theme in use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from attrs import frozen
from bokeh.models import (
    ColumnDataSource,
    DatetimeTickFormatter,
    FixedTicker,
    HoverTool,
    Model,
    OpenURL,
    Range1d,
    Span,
    TapTool,
)
from bokeh.plotting import figure

from penstock_ui.dashboard.timeline import Point, Sample, Timeline, histogram
from penstock_ui.dashboard.units import Scale, as_local, batch_time, count, duration, duration_scale, plural, rate, rate_scale
from penstock_ui.snapshot import Batch, Snapshot

_BINS = 16
_LEFT, _RIGHT = 62, 12
# Before the page has set the colours of its theme.
_GREY = "#8a939c"


@frozen
class Measure:
    """A row of the overview.

    Attributes:
        name: prefix of its columns and models.
        title: for people.
        description: what exactly is measured.
        read: takes it from a batch.
        is_rate: records/s; a duration in ms otherwise.
        has_interval: whether its chart shows the batch interval.
    """

    name: str
    title: str
    description: str
    read: Callable[[Batch], float | None]
    is_rate: bool = False
    has_interval: bool = False


def measures(interval_ms: int) -> tuple[Measure, ...]:
    """The four rows of the overview, as Spark has them."""
    return (
        Measure(
            "rate", "Input Rate", "Records that arrived a second", lambda batch: batch.records * 1000 / interval_ms, True
        ),
        Measure(
            "scheduling",
            "Scheduling Delay",
            "Time from the submission of a batch to the start of its first job",
            lambda batch: batch.scheduling_delay_ms,
        ),
        Measure(
            "processing",
            "Processing Time",
            "Time taken to process all jobs of a batch",
            lambda batch: batch.processing_delay_ms,
            has_interval=True,
        ),
        Measure(
            "total",
            "Total Delay",
            "Total time taken to handle a batch",
            lambda batch: batch.total_delay_ms,
            has_interval=True,
        ),
    )


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
        self._x_range = Range1d(0, 1)
        self._rates, self._delays = _Axis(), _Axis()
        self._bins = {
            measure.name: ColumnDataSource({"y": [], "height": [], "batches": [], "label": []})
            for measure in self._measures
        }
        self._bin_ranges = {measure.name: Range1d(0, 1) for measure in self._measures}
        self.roots: list[Model] = []
        for measure in self._measures:
            axis = self._rates if measure.is_rate else self._delays
            color = "--data" if measure.is_rate else "--delay"
            self.roots.append(self._timeline(measure, axis, color, with_times=measure is self._measures[-1]))
            self.roots.append(self._histogram(measure, axis, color))
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
        self._rates.show(rate_scale(_highest(points, range(1))))
        self._delays.show(duration_scale(max(_highest(points, range(1, len(self._measures))), self._interval_ms)))
        for measure in self._measures:
            self._show_bins(measure, snapshot.completed)

    def _timeline(self, measure: Measure, axis: _Axis, color: str, *, with_times: bool) -> Model:
        plot = _plot(f"{measure.name}_timeline", self._x_range, axis, with_times=with_times)
        source, name = self._feed.source, measure.name
        plot.varea("x", f"{name}_low", f"{name}_high", source=source, fill_alpha=0.22, fill_color=_GREY)
        plot.renderers[-1].glyph.tags = [f"fill_color={color}"]
        plot.line("x", f"{name}_mean", source=source, line_width=1.6, line_color=_GREY)
        line = plot.renderers[-1]
        line.glyph.tags = [f"line_color={color}"]
        if measure.has_interval:
            plot.add_layout(
                Span(
                    location=self._interval_ms,
                    dimension="width",
                    line_dash="dashed",
                    line_width=1.4,
                    line_color=_GREY,
                    tags=["line_color=--mark"],
                )
            )
        if measure.name == "processing":
            plot.scatter("x", f"{name}_failed", source=source, size=7, line_color=None, fill_color=_GREY)
            plot.renderers[-1].glyph.tags = ["fill_color=--bad"]
        _add_hover(plot, line, [("", "@label"), ("", f"@{name}_text")])
        _add_links(plot, source)
        return plot

    def _histogram(self, measure: Measure, axis: _Axis, color: str) -> Model:
        plot = _plot(f"{measure.name}_histogram", self._bin_ranges[measure.name], axis, with_times=False)
        plot.yaxis.visible = False
        plot.min_border_left = 8
        plot.ygrid.visible = True
        source = self._bins[measure.name]
        plot.hbar(
            y="y", right="batches", height="height", source=source, fill_color=_GREY, fill_alpha=0.75, line_color=None
        )
        bars = plot.renderers[-1]
        bars.glyph.tags = [f"fill_color={color}"]
        plot.add_tools(HoverTool(renderers=[bars], tooltips=[("", "@label")], mode="hline"))
        if measure is self._measures[-1]:
            # As high as the timeline beside it, which has times below.
            plot.min_border_bottom = _TIMES_PX
        return plot

    def _show_bins(self, measure: Measure, completed: Sequence[Batch]) -> None:
        end = (self._rates if measure.is_rate else self._delays).end
        counts = histogram(map(measure.read, completed), end, _BINS)
        step = end / _BINS
        text = (lambda value: f"{rate(value)}/s") if measure.is_rate else duration
        self._bins[measure.name].data = {
            "y": [(number + 0.5) * step for number in range(_BINS)],
            "height": [step * 0.86] * _BINS,
            "batches": counts,
            "label": [
                f"{plural(batches, 'batch')}: {text(number * step)} to {text((number + 1) * step)}"
                for number, batches in enumerate(counts)
            ],
        }
        self._bin_ranges[measure.name].end = max(max(counts) * 1.05, 1)


class RateCharts:
    """Measured rate, limit and capacity of one stream, or of all together.

    Args:
        snapshot: the first one to show.
        stream_id: the stream; ``None`` for all.
    """

    def __init__(self, snapshot: Snapshot, stream_id: int | None = None) -> None:
        interval_ms = snapshot.application.batch_interval_ms
        self._interval_ms, self._stream_id = interval_ms, stream_id
        parts = (
            Measure("rate", "measured", "", lambda batch: measured(batch, stream_id, interval_ms), True),
            Measure("limit", "limit", "", lambda batch: limit(batch, stream_id), True),
            Measure("capacity", "capacity", "", lambda batch: capacity(batch, stream_id), True),
        )
        self._feed = _Feed(parts, interval_ms)
        self._x_range, self._axis = Range1d(0, 1), _Axis()
        self.roots: list[Model] = [self._plot()]
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
        # The details of a stream are known of the newer batches only.
        known = next((place for place, point in enumerate(points) if point.mean[0] is not None), 0)
        _show_times(self._x_range, points[known:])
        # A capacity far above the input may leave the chart: the other two are to be seen.
        highest = _highest(points, range(2))
        self._axis.show(rate_scale(max(highest, min(_highest(points, range(2, 3)), 1.6 * highest))))

    def _plot(self) -> Model:
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
        _add_links(plot, source)
        return plot


def measured(batch: Batch, stream_id: int | None, interval_ms: int) -> float | None:
    """The rate at which a batch's records arrived; ``None`` when the details of the stream are not known any more."""
    if stream_id is None:
        return batch.records * 1000 / interval_ms
    if batch.inputs is None:
        return None
    info = batch.inputs.get(stream_id)
    return 0.0 if info is None else info.numRecords * 1000 / interval_ms


def limit(batch: Batch, stream_id: int | None) -> float | None:
    """The limit when a batch was generated; of all streams ``None`` when one of them has none."""
    if batch.inputs is None:
        return None
    if stream_id is not None:
        info = batch.inputs.get(stream_id)
        return None if info is None else info.rate_limit
    limits = [info.rate_limit for info in batch.inputs.values()]
    known = [each for each in limits if each is not None]
    return sum(known) if known and len(known) == len(limits) else None


def capacity(batch: Batch, stream_id: int | None) -> float | None:
    """The rate at which a batch's records, or those of one stream, were processed."""
    if stream_id is None:
        return batch.capacity_per_s
    info, took = (batch.inputs or {}).get(stream_id), batch.processing_delay_ms
    return info.numRecords * 1000 / took if info is not None and took and info.numRecords else None


class _Feed:
    """A column data source with a timeline's points."""

    def __init__(self, parts: Sequence[Measure], interval_ms: int) -> None:
        self._parts, self._interval_ms = parts, interval_ms
        self.timeline = Timeline(self._sample)
        self.source = ColumnDataSource(self._columns([]))

    def update(self, completed: Sequence[Batch]) -> bool:
        """Send what changed; return whether anything did."""
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
                self.source.stream(self._columns(points[-change.added :]), rollover=len(points))
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
                columns[f"{part.name}_{name}"] = [math.nan if each is None else float(each) for each in numbers]
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
    """A range from zero with its ticks, which several charts share."""

    def __init__(self) -> None:
        self.range, self.ticker = Range1d(0, 1), FixedTicker(ticks=[])
        self.end = 1.0
        self._scale: Scale | None = None
        self._axes: list[Any] = []

    def add(self, axis: Any) -> None:
        axis.ticker = self.ticker
        self._axes.append(axis)

    def show(self, scale: Scale) -> None:
        if scale == self._scale:
            return
        self._scale, self.end = scale, scale.end
        # Room for a line at the upper end.
        self.range.end = scale.end * 1.04
        self.ticker.ticks = list(scale.ticks)
        labels = dict(zip(scale.ticks, scale.labels, strict=True))
        for axis in self._axes:
            axis.major_label_overrides = labels


_TIMES_PX = 24


def _plot(name: str, x_range: Range1d, axis: _Axis, *, with_times: bool) -> Any:
    """An empty figure without decoration."""
    plot = figure(
        name=name,
        x_range=x_range,
        y_range=axis.range,
        x_axis_type="datetime",
        sizing_mode="stretch_both",
        toolbar_location=None,
        tools="",
        min_border_left=_LEFT,
        min_border_right=_RIGHT,
        min_border_top=6,
        min_border_bottom=_TIMES_PX if with_times else 6,
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        lod_threshold=None,
    )
    axis.add(plot.yaxis[0])
    plot.ygrid[0].ticker = axis.ticker
    plot.ygrid[0].update(grid_line_color=_GREY, tags=["grid_line_color=--line"])
    plot.xgrid.visible = False
    plot.xaxis.visible = with_times
    plot.xaxis[0].formatter = DatetimeTickFormatter(
        milliseconds="%H:%M:%S.%3N",
        seconds="%H:%M:%S",
        minsec="%H:%M:%S",
        minutes="%H:%M",
        hourmin="%H:%M",
        hours="%H:%M",
        days="%d %b",
    )
    plot.xaxis[0].ticker.desired_num_ticks = 5
    for each in (plot.xaxis[0], plot.yaxis[0]):
        each.update(
            axis_line_color=None,
            major_tick_line_color=None,
            minor_tick_line_color=None,
            major_label_text_color=_GREY,
            major_label_text_font_size="11.5px",
            major_label_text_font="system-ui, 'Noto Sans', 'Liberation Sans', sans-serif",
            tags=["major_label_text_color=--muted"],
        )
    return plot


def _add_hover(plot: Any, renderer: Any, tooltips: list[tuple[str, str]]) -> None:
    plot.add_tools(HoverTool(renderers=[renderer], tooltips=tooltips, mode="vline", line_policy="nearest"))


def _add_links(plot: Any, source: ColumnDataSource) -> None:
    """A click on a point opens its batch."""
    hits = plot.scatter("x", plot.renderers[1].glyph.y, source=source, size=12, alpha=0)
    hits.nonselection_glyph = hits.selection_glyph = hits.glyph
    plot.add_tools(TapTool(renderers=[hits], callback=OpenURL(url="@link{safe}", same_tab=True)))


def _show_times(x_range: Range1d, points: Sequence[Point]) -> None:
    if points:
        start, end = as_local(points[0].first), as_local(points[-1].last)
        x_range.update(start=start, end=end if end > start else start + 1000)


def _highest(points: Sequence[Point], indexes: range) -> float:
    return max((value for point in points for index in indexes if (value := point.high[index]) is not None), default=0)
