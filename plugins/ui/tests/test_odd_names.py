"""Long and non-ASCII names of applications and streams, on every page, in metrics, REST, event logs and terminals."""

from __future__ import annotations

import html
import json
import unicodedata
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from plugins.ui.tests.conftest import FixedSource, T, batch_events, state_of
from plugins.ui.tests.exposition import parse
from plugins.ui.tests.web_client import request
from rich.console import Console
from tests.helpers.odd_names import ODD_NAMES

from penstock import DStreamInfo, ReceiverError, ReceiverInfo
from penstock.spi import printable
from penstock_ui.access import Token
from penstock_ui.dashboard.pages import PAGES, render_parts
from penstock_ui.dashboard.query import Query
from penstock_ui.event_log import encode, replay
from penstock_ui.own_events import ApplicationDescribed, StreamDescribed
from penstock_ui.server import UIServer
from penstock_ui.snapshot import Application, Snapshot
from penstock_ui.terminal import fetch, view

pytestmark = pytest.mark.parametrize("name", ODD_NAMES.values(), ids=ODD_NAMES)


def events(name: str) -> list[Any]:
    """The events of a run in which this is the name of the application, its streams, operations and errors."""
    graph = (DStreamInfo(0, name, name, name, (), 0, "input"),)
    described = ApplicationDescribed(Application("app-0", name), (StreamDescribed(0, name, name, True),), graph)
    error = ReceiverError(ReceiverInfo(0, name, True, "host", "1", name, name, T))
    return [described, error, *batch_events(1, failure=f"ValueError: {name}")]


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[UIServer, FixedSource]]:
    """One server for all names: to start one takes longer than to render its pages."""
    source = FixedSource(Snapshot())
    server = UIServer(source, port=0, token=Token(""))
    server.start()
    yield server, source
    server.stop()


@pytest.fixture
def server(name: str, served: tuple[UIServer, FixedSource]) -> UIServer:
    served[1].state = state_of(events(name))
    return served[0]


def test_every_page_shows_the_name(name: str) -> None:
    state = state_of(events(name))
    for page in PAGES:
        query = Query(id=0 if page.path == "/stream" else state.batches[0].time_ms)
        text = "".join(render_parts(page, state, query, T).values())
        assert not {character for character in text if unicodedata.category(character) == "Cc"} - set("\t\r\n")
        text.encode()
        if not page.path.startswith("/batch"):
            assert " ".join(printable(name).split()) in " ".join(html.unescape(text).split())


def test_metrics_are_valid(server: UIServer, name: str) -> None:
    labels = [dict(labels) for _metric, labels in parse(request(server, "/metrics")[1].decode())]
    assert {label["stream"] for label in labels if "stream" in label} == {printable(name)}
    assert {label["application"] for label in labels if "application" in label} == {printable(name)}


def test_rest_is_valid_json(server: UIServer, name: str) -> None:
    (application,) = json.loads(request(server, "/api/v1/applications")[1])
    (receiver,) = json.loads(request(server, "/api/v1/applications/app-0/streaming/receivers")[1])
    # JSON escapes most control characters, which therefore stay.
    assert printable(application["name"]) == printable(receiver["streamName"]) == printable(name)


def test_event_log_has_the_same_state(name: str) -> None:
    state = replay([b"".join(map(encode, events(name)))]).state
    (stream,) = state.streams
    assert printable(state.application.name) == printable(stream.name) == printable(name)


def test_terminal_gets_one_line_per_name_and_nothing_that_it_obeys(server: UIServer) -> None:
    console = Console(width=100, height=30, file=StringIO(), record=True, markup=False, emoji=False)
    console.print(view(fetch(server.url, "")))
    lines = console.export_text().splitlines()
    assert len(lines) < 20
    assert all(character.isprintable() or character == "\u200d" for line in lines for character in line)
    "".join(lines).encode()
