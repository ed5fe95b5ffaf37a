from __future__ import annotations

import math
from typing import Any

from bokeh.document import Document
from bokeh.document.events import ColumnDataChangedEvent, ColumnsPatchedEvent, ColumnsStreamedEvent
from bokeh.models import ColumnDataSource, Model
from plugins.ui.tests.snapshots import snapshot

from penstock_ui.dashboard.charts import OverviewCharts, RateCharts
from penstock_ui.dashboard.pages import PAGES, OpenPage
from penstock_ui.dashboard.query import Query

OVERVIEW = next(page for page in PAGES if page.path == "/")


def named(charts: OverviewCharts | RateCharts, name: str) -> Any:
    return next(root for root in charts.roots if root.name == name)


def source(charts: OverviewCharts | RateCharts) -> ColumnDataSource:
    column_data = charts.roots[0].select_one({"type": ColumnDataSource})
    assert isinstance(column_data, ColumnDataSource)
    return column_data


def test_points_are_the_numbers_of_the_batches() -> None:
    state = snapshot(2, 70)
    data = source(OverviewCharts(state)).data
    assert data["rate_mean"] == [batch.records for batch in state.completed]
    assert data["scheduling_mean"] == [batch.scheduling_delay_ms for batch in state.completed]
    assert data["processing_mean"] == [batch.processing_delay_ms for batch in state.completed]
    assert data["total_mean"] == [batch.total_delay_ms for batch in state.completed]
    assert [number for number, value in enumerate(data["processing_failed"]) if not math.isnan(value)] == [60]
    assert data["link"][3] == f"batch?id={state.batches[3].time_ms}"


def test_every_histogram_counts_every_batch() -> None:
    charts = OverviewCharts(snapshot(2, 70))
    for name in ("rate", "scheduling", "processing", "total"):
        bars = named(charts, f"{name}_histogram").select_one({"type": ColumnDataSource})
        assert sum(bars.data["batches"]) == 70


def test_the_batch_interval_is_drawn_and_inside_the_axis() -> None:
    charts = OverviewCharts(snapshot(1, 70, interval_ms=5000))
    for name in ("processing", "total"):
        plot = named(charts, f"{name}_timeline")
        assert [renderer.glyph.y for renderer in plot.renderers if type(renderer.glyph).__name__ == "HSpan"] == [5000]
        assert plot.y_range.end >= 5000


def test_long_waits_do_not_hide_the_processing_time() -> None:
    charts = OverviewCharts(snapshot(1, 400, slow=True))
    assert named(charts, "total_timeline").y_range.end > 60_000
    assert named(charts, "processing_timeline").y_range.end < 4000


def test_ten_thousand_batches_are_few_points_that_miss_none() -> None:
    state = snapshot(1, 10_000, details=10)
    data = source(OverviewCharts(state)).data
    assert 300 < len(data["x"]) <= 400
    assert max(data["processing_high"]) == max(batch.processing_delay_ms or 0 for batch in state.completed)
    assert data["label"][0].startswith("32 batches until ")


def test_a_stream_shows_measured_rate_limit_and_capacity() -> None:
    state = snapshot(3, 70)
    data = source(RateCharts(state, 2)).data
    batch = state.completed[-1]
    assert batch.inputs is not None
    assert data["rate_mean"][-1] == batch.inputs[2].numRecords
    assert data["limit_mean"][-1] == batch.inputs[2].rate_limit
    assert round(data["capacity_mean"][-1]) == round(
        batch.inputs[2].numRecords * 1000 / (batch.processing_delay_ms or 1)
    )
    everything = source(RateCharts(state)).data
    assert everything["limit_mean"][-1] == sum(info.rate_limit or 0 for info in batch.inputs.values())


def test_an_open_page_is_sent_one_point_and_the_parts_that_changed() -> None:
    opened, document = OpenPage(OVERVIEW, Query(), snapshot(1, 90)), Document()
    opened.attach(document)
    sent: list[Any] = []
    document.on_change(sent.append)
    opened.update(snapshot(1, 91))
    assert sent == []
    update = document.get_model_by_name("update")
    assert isinstance(update, Model)
    update.update(is_ready=True)
    sent.clear()
    opened.update(snapshot(1, 91))
    assert [len(event.data["x"]) for event in sent if isinstance(event, ColumnsStreamedEvent)] == [1]
    assert not [event for event in sent if isinstance(event, ColumnsPatchedEvent)]
    # The bars of the histograms, and nothing else, are sent as a whole.
    whole: list[Any] = [getattr(event.model, event.attr) for event in sent if isinstance(event, ColumnDataChangedEvent)]
    assert [(len(data["batches"]), sum(data["batches"])) for data in whole] == [(16, 91)] * 4
    changed = next(event.new for event in sent if getattr(event, "attr", "") == "parts")
    assert {"verdict", "latest-batches", "measure-rate"} <= set(changed)
    assert "state" not in changed


def test_what_changed_before_the_page_was_ready_is_sent_when_it_is() -> None:
    opened, document = OpenPage(OVERVIEW, Query(), snapshot(1, 90)), Document()
    opened.attach(document)
    opened.update(snapshot(1, 95))
    update: Any = document.get_model_by_name("update")
    update.is_ready = True
    opened.update(snapshot(1, 95))
    assert "95 out of 95" in update.parts["latest-batches"]


def test_a_finished_application_is_rendered_once() -> None:
    state = snapshot(1, 90, live=False)
    opened, document = OpenPage(OVERVIEW, Query(), state), Document()
    opened.attach(document)
    update: Any = document.get_model_by_name("update")
    update.is_ready = True
    sent: list[Any] = []
    document.on_change(sent.append)
    opened.update(state)
    assert sent == []
    assert not opened.is_live


def test_no_page_names_another_host() -> None:
    for page in PAGES:
        opened, document = OpenPage(page, Query(id=0), snapshot(1, 10)), Document()
        opened.attach(document)
        text = str(document.to_json())
        assert "http" not in text.replace("http://127.0.0.1:4040", "")
