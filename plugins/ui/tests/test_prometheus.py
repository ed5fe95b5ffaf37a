"""The exposition for Prometheus."""

from __future__ import annotations

import random
import shutil
import subprocess
from typing import Any

import pytest
from attrs import evolve
from plugins.ui.tests.conftest import T, batch_events, state_of
from plugins.ui.tests.exposition import parse
from plugins.ui.tests.snapshots import snapshot

from penstock import ReceiverError, ReceiverInfo, ReceiverStarted, SourceStatus
from penstock_testing import FakeListenerContext, listener_events
from penstock_ui.monitor import describe
from penstock_ui.own_events import ApplicationDescribed, RateChanged, Sampled, StreamDescribed
from penstock_ui.prometheus import exposition
from penstock_ui.snapshot import Application, Listener, Storage

PROMTOOL = shutil.which("promtool")


def value(text: str, name: str, **labels: str) -> float | None:
    return parse(text).get((f"penstock_{name}", tuple(sorted(labels.items()))))


def test_empty_state_is_valid_and_has_every_count() -> None:
    text = exposition(state_of([]))
    assert value(text, "batches_completed_total") == 0
    assert value(text, "up") == 0
    assert value(text, "last_completed_batch_processing_delay_seconds") is None


def test_values_are_those_of_the_events(run: list[Any]) -> None:
    storage = Storage(1000, 5, 2000, 50, 300, T, 0, "", 2, T - 9000)
    stored = Sampled(T + 3000, storage, (Listener("rate (penstock-rate 1)", 3, 2, True),))
    events = [run[0], *batch_events(1, {0: 10, 1: 30}, arrival=T + 15), RateChanged(T, 1, 12.5), stored]
    text = exposition(state_of(events))
    assert value(text, "batches_completed_total") == 1
    assert value(text, "received_records_total") == 40
    assert value(text, "last_completed_batch_processing_delay_seconds") == 0.2
    assert value(text, "last_completed_batch_submission_timestamp_seconds") == (T + 1005) / 1000
    assert value(text, "last_completed_batch_latency_seconds") == 1.2
    assert value(text, "batch_latency_seconds", percentile="99") == 1.2
    assert value(text, "stream_records_total", stream_id="1", stream="Receiver-1") == 30
    assert value(text, "stream_input_records_per_second", stream_id="1", stream="Receiver-1") == 30
    assert value(text, "receiver_rate_limit_records_per_second", stream_id="1", stream="Receiver-1") == 12.5
    assert value(text, "receiver_rate_limit_records_per_second", stream_id="0", stream="Receiver-0") is None
    assert value(text, "listener_dropped_events_total", listener="rate (penstock-rate 1)") == 3
    assert value(text, "checkpoint_age_seconds") == 3
    assert value(text, "blocks_disk_bytes") == 2000


def test_numbers_of_an_output_are_exported_until_the_next_batch() -> None:
    metadata = {"table": "orders", "rows": 3, "commit_seconds": 0.25, "is_new": True}
    events = batch_events(1, metadata=metadata)
    text = exposition(state_of(events))
    labels = {"output_operation_id": "0", "output_operation": "op0"}
    assert value(text, "last_completed_batch_output", quantity="rows", **labels) == 3
    assert value(text, "last_completed_batch_output", quantity="commit_seconds", **labels) == 0.25
    assert not {"table", "is_new"} & {dict(labels).get("quantity") for _, labels in parse(text)}
    assert "last_completed_batch_output{" not in exposition(state_of([*events, *batch_events(2)]))


def test_lag_of_a_source_is_exported_as_far_as_it_is_known() -> None:
    labels = {"stream_id": "0", "stream": "Receiver-0"}
    info = ReceiverInfo(0, "Receiver-0", True, "", "", source=SourceStatus(lag_s=1.5, redelivered=4, dead_letters=2))
    text = exposition(state_of([ReceiverStarted(info), *batch_events(1)]))
    assert value(text, "receiver_lag_seconds", **labels) == 1.5
    assert value(text, "receiver_lag_messages", **labels) is None
    assert value(text, "receiver_redelivered_total", **labels) == 4
    assert value(text, "receiver_dead_letters_total", **labels) == 2


def test_hostile_names_and_errors_stay_inside_their_label() -> None:
    name = 'a"} 1\npenstock_up 77\\\\n<script>'
    streams = (StreamDescribed(0, name, "R", True),)
    described = ApplicationDescribed(Application("id\n", 'say "x"'), streams)
    error = ReceiverError(ReceiverInfo(0, name, False, "", "", "boom\n# TYPE x gauge", "tb", T))
    text = exposition(state_of([described, error, *batch_events(1)]))
    assert value(text, "receiver_errors_total", stream_id="0", stream=name) == 1
    assert value(text, "up") == 1


@pytest.mark.skipif(PROMTOOL is None, reason="no promtool installed: apt-get install prometheus")
def test_promtool_finds_nothing_wrong() -> None:
    assert PROMTOOL is not None
    state = snapshot(50, 70, problems={0: "hostile", 3: "stopped", 20: "lost"}, slow=True)
    ran = subprocess.run([PROMTOOL, "check", "metrics"], input=exposition(state), capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_two_streams_of_one_name_are_two_series() -> None:
    streams = tuple(StreamDescribed(id_, "same", "R", True) for id_ in (0, 1))
    text = exposition(state_of([ApplicationDescribed(Application(), streams)]))
    assert value(text, "receiver_active", stream_id="1", stream="same") == 0


def test_number_of_series_does_not_grow_with_time() -> None:
    described = describe(FakeListenerContext())
    counts = []
    for batches in (10, 100):
        events = [described, *listener_events(random.Random(1), batches=batches)]
        errors = [
            ReceiverError(ReceiverInfo(0, "Receiver-0", True, f"host-{n}", str(n), f"error {n}", "", T + n))
            for n in range(batches)
        ]
        counts.append(len(parse(exposition(state_of([*events, *errors])))))
    assert counts[0] == counts[1]


def test_extreme_values_are_valid(run: list[Any]) -> None:
    state = state_of([*run, RateChanged(T, 0, float("inf")), RateChanged(T, 1, 1e-7)])
    text = exposition(evolve(state, storage=Storage(backlog_bytes=10**18, failed_batches=2, oldest_failed_ms=9000)))
    assert value(text, "batches_awaiting_rerun") == 2
    assert value(text, "oldest_failed_batch_timestamp_seconds") == 9
    assert value(text, "receiver_rate_limit_records_per_second", stream_id="0", stream="Receiver-0") == float("inf")
    assert value(text, "receiver_rate_limit_records_per_second", stream_id="1", stream="Receiver-1") == 1e-7
    assert value(text, "backlog_bytes") == 10**18
