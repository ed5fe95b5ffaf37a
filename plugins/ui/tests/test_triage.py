"""The page that answers why: rankings, and the Gantt chart of the last batches."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve
from plugins.ui.tests.snapshots import snapshot

from penstock_ui.dashboard.gantt import gantt, spans
from penstock_ui.dashboard.query import Query
from penstock_ui.dashboard.triage import rank_batches, rank_outputs, rank_receivers, triage
from penstock_ui.dashboard.verdict import Level
from penstock_ui.snapshot import Snapshot
from penstock_ui.time_budget import TimeBudget


def chart(state: Snapshot, query: Query | None = None) -> dict[str, Any]:
    return gantt(state, query or Query(), state.time_ms)


def shown(state: Snapshot, query: Query | None = None) -> list[int]:
    return [row.batch.time_ms for row in chart(state, query)["gantt_rows"]]


def address(link: str) -> Query:
    arguments = dict(pair.split("=") for pair in link.removeprefix("?").split("&") if pair)
    return Query.of({name: [value.encode()] for name, value in arguments.items()})


def test_receivers_are_ranked_by_severity_then_by_what_they_lose() -> None:
    state = snapshot(6, 120, problems={4: "given up", 5: "unhealthy"})
    held = evolve(state.streams[2], budget=TimeBudget(0.0, limiter=1.0))
    ranked = rank_receivers(evolve(state, streams=(*state.streams[:2], held, *state.streams[3:])), state.time_ms)
    assert [row.stream.id for row in ranked][:1] == [4]
    assert [row.level for row in ranked] == sorted(
        (row.level for row in ranked), key=[Level.BAD, Level.WARNING, Level.UNKNOWN, Level.GOOD].index
    )
    assert "given up" in ranked[0].cause
    assert {row.stream.id for row in ranked[1:4]} == {1, 2, 5}
    assert all(sum(part.share for part in row.parts) == pytest.approx(1) for row in ranked)


def test_outputs_are_ranked_by_their_time_and_name_the_longest_batch() -> None:
    state = snapshot(completed=62)
    ranked = rank_outputs(state.completed[-20:])
    assert [output.id for output in ranked] == [0, 1, 2]
    assert sum(output.share for output in ranked) == pytest.approx(1)
    assert [output.failed for output in ranked] == [1, 0, 0]
    longest = max(state.completed[-20:], key=lambda batch: next(iter(batch.operations or ())).duration_ms or 0)
    assert ranked[0].longest_batch == longest.time_ms
    assert rank_outputs([]) == []


def test_slowest_batches_come_first_with_the_largest_part_of_their_time() -> None:
    state = snapshot(completed=150, slow=True)
    ranked = rank_batches(state.completed)
    took = [(row.batch.ended_ms or 0) - row.batch.time_ms for row in ranked]
    assert took == sorted(took, reverse=True)
    assert took[0] == max((batch.ended_ms or 0) - batch.time_ms for batch in state.completed)
    assert ranked[0].largest.startswith("waiting for earlier batches, ")


def test_failed_batches_that_wait_to_run_again_are_listed() -> None:
    state = snapshot(completed=62)
    waits = tuple(evolve(batch, awaits_rerun=batch.num_failed > 0) for batch in state.batches)
    found = triage(evolve(state, batches=waits), Query(), state.time_ms)
    assert [batch.num_failed for batch in found["failed"]] == [1]
    assert found["num_failed"] == 1


def test_page_without_batches_or_receivers_is_empty() -> None:
    found = triage(Snapshot(), Query(), 0)
    assert (found["receivers"], found["outputs"], found["slowest"], found["gantt_rows"]) == ([], [], [], [])
    assert found["diagnosis"] is None


def test_chart_follows_the_newest_batches() -> None:
    before, after = snapshot(completed=100), snapshot(completed=103)
    assert shown(before) == [batch.time_ms for batch in before.batches[-20:]][::-1]
    assert shown(after)[0] == after.batches[-1].time_ms
    held = address(chart(before)["tools"]["hold"])
    assert shown(after, held) == shown(before)
    assert shown(after, address(chart(after, held)["tools"]["follow"])) == shown(after)


def test_chart_zooms_and_moves() -> None:
    state = snapshot(completed=100)
    wide = address(chart(state)["tools"]["out"])
    assert len(shown(state, wide)) == 40
    assert len(shown(state, address(chart(state)["tools"]["in"]))) == 10
    older = address(chart(state)["tools"]["older"])
    assert shown(state, older)[0] == shown(state)[-1] - 1000
    assert shown(state, address(chart(state, older)["tools"]["newer"])) == shown(state)
    assert chart(state, Query(rows=1))["tools"]["in"] is None
    assert chart(state, Query(rows=10**9))["tools"]["out"] is None


def test_pinned_batch_stays_while_the_chart_follows() -> None:
    state = snapshot(completed=100)
    pin = address(chart(state)["gantt_rows"][-1].pin)
    assert pin.id == shown(state)[-1]
    later = snapshot(completed=140)
    rows = chart(later, pin)["gantt_rows"]
    assert len(rows) == 21
    assert [row.batch.time_ms for row in rows if row.is_pinned] == [pin.id]
    assert address(next(row for row in rows if row.is_pinned).pin).id is None


@pytest.mark.parametrize("show", ["", "clock"])
@pytest.mark.parametrize("slow", [True, False])
def test_bars_lie_on_the_axis(show: str, slow: bool) -> None:
    state = snapshot(completed=60, slow=slow)
    found = chart(state, Query(show=show))
    for row in found["gantt_rows"]:
        assert all(0 <= left <= 100 and 0 < width <= 100 - left + 1e-9 for _key, left, width, _text in row.bars)
    assert found["gantt_ticks"]


def test_phases_follow_each_other_and_end_with_the_batch() -> None:
    batch = next(batch for batch in snapshot(completed=60).completed if batch.scheduling_delay_ms)
    found = spans(batch, 0)
    assert [span.key for span in found[:3]] == ["generation", "waiting", "output"]
    assert found[0].start_ms == batch.time_ms
    assert found[0].end_ms == found[1].start_ms
    assert found[1].end_ms == found[2].start_ms
    assert found[2].end_ms == batch.ended_ms
    assert {span.key for span in found[3:]} == {"scheduling", "tasks"}


def test_running_batch_lasts_until_now() -> None:
    state = snapshot(completed=60)
    running = state.running[0]
    now_ms = (running.started_ms or 0) + 5000
    assert {span.end_ms for span in spans(running, now_ms) if span.key == "output"} == {now_ms}


def test_data_of_the_chart_is_json() -> None:
    state = snapshot(completed=60)
    data = json.loads(chart(state)["gantt_data"])
    assert [batch["batchTime"] for batch in data] == shown(state)[::-1]
    assert {phase["phase"] for phase in data[0]["phases"]} >= {"generation", "output"}
