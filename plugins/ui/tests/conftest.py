"""Runs of events, and the states that they lead to."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest

from penstock import (
    BatchCompleted,
    BatchInfo,
    BatchStarted,
    BatchSubmitted,
    OutputOperationCompleted,
    OutputOperationInfo,
    OutputOperationStarted,
    StreamInputInfo,
)
from penstock_testing import FakeListenerContext, listener_events
from penstock_ui.access import Token
from penstock_ui.monitor import describe
from penstock_ui.server import UIServer
from penstock_ui.snapshot import Snapshot
from penstock_ui.store import Limits, MetricsStore

T = 1_700_000_000_000


def batch_events(
    number: int,
    records: dict[int, int] | None = None,
    *,
    failure: str | None = None,
    arrival: int | None = None,
    operations: int = 1,
    awaits_rerun: bool = False,
    metadata: Mapping[str, Any] | None = None,
) -> list[Any]:
    """The events of a batch that waits 10 ms and takes 200, of a second."""
    time = T + number * 1000
    inputs = {
        id_: StreamInputInfo(id_, count, {"Description": f"{count} records"}, 100.0, arrival)
        for id_, count in (records if records is not None else {0: 10}).items()
    }
    waiting = BatchInfo(time, inputs, time + 5, None, None, {})
    running = BatchInfo(time, inputs, time + 5, time + 15, None, {})
    began = [OutputOperationInfo(time, id_, f"op{id_}", f"op{id_} at app.py", time + 15) for id_ in range(operations)]
    ended = [
        OutputOperationInfo(time, each.id, each.name, each.description, time + 15, time + 215, failure, metadata or {})
        for each in began
    ]
    completed = BatchInfo(
        time, inputs, time + 5, time + 15, time + 215, {each.id: each for each in ended}, awaits_rerun
    )
    return [
        BatchSubmitted(waiting),
        BatchStarted(running),
        *map(OutputOperationStarted, began),
        *map(OutputOperationCompleted, ended),
        BatchCompleted(completed),
    ]


def state_of(events: Iterable[Any], limits: Limits | None = None) -> Snapshot:
    store = MetricsStore(limits)
    for event in events:
        store.apply(event)
    return store.snapshot()


@pytest.fixture
def run() -> list[Any]:
    """What the store takes in a run of two receivers and twenty batches."""
    return [describe(FakeListenerContext()), *listener_events(random.Random(7), stops=False)]


class FixedSource:
    """A source that a test can change."""

    def __init__(self, state: Snapshot) -> None:
        self.state = state

    def snapshot(self) -> Snapshot:
        return self.state


@pytest.fixture
def source(run: list[Any]) -> FixedSource:
    return FixedSource(state_of(run))


@pytest.fixture
def serve(source: FixedSource) -> Iterator[Callable[..., UIServer]]:
    """Start servers on free ports, with a given token or without one."""
    servers = []

    def serve(token: str = "", **options: Any) -> UIServer:
        server = UIServer(source, **{"port": 0, "token": Token(token), **options})
        server.start()
        servers.append(server)
        return server

    yield serve
    for server in servers:
        server.stop()
