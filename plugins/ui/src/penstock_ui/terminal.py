"""A running application in the terminal, from its REST interface."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from datetime import datetime
from http.client import HTTPException
from io import StringIO
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qs, urlsplit
from urllib.request import Request, urlopen

from attrs import frozen
from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from penstock import PenstockError
from penstock.spi import shortened
from penstock_ui.snapshot import error_line

_TIMEOUT_S = 10.0
_MOST_BYTES = 64 << 20
_LONGEST_NAME = 100
# Joins the parts of an emoji; it changes nothing else.
_ZERO_WIDTH_JOINER = "\u200d"
_IS_IT = ": is this the address of a dashboard of penstock-ui?"

Json = dict[str, Any]


@frozen
class State:
    """The REST resources of an application.

    Attributes:
        application: the resource ``applications/<id>``.
        statistics: counts and averages.
        receivers: the input streams.
        batches: newest first.
        monitoring: the resource ``monitoring``: state that Spark's REST has no field for.
    """

    application: Json
    statistics: Json
    receivers: list[Json]
    batches: list[Json]
    monitoring: Json


def fetch(url: str, token: str = "") -> State:
    """Fetch the state of an application from its server.

    Args:
        url: the dashboard's address; a token in it counts more than ``token``.
        token: the dashboard's token; empty for none.

    Raises:
        PenstockError: the server does not answer, or is not a penstock-ui server; the message says what to check.
    """
    server, token_in_url = _server(url)
    token = token_in_url or token
    base = f"{server}/api/v1/applications"
    applications = _get(base, token)
    if not isinstance(applications, list) or not applications or "id" not in applications[0]:
        raise PenstockError(f"{base} has no application{_IS_IT}")
    streaming = f"{base}/{applications[0]['id']}/streaming"
    return State(
        applications[0],
        _get(f"{streaming}/statistics", token),
        _get(f"{streaming}/receivers?limit=1", token),
        _get(f"{streaming}/batches?limit=50", token),
        _get(f"{streaming}/monitoring", token),
    )


def _server(url: str) -> tuple[str, str]:
    """The address without path and query, and the token in it."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        is_valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        shown = url.partition("?")[0]
        raise PenstockError(f"{shown} is no address of a dashboard: it looks like http://127.0.0.1:4050/?token=…")
    return f"{parts.scheme}://{parts.netloc}", parse_qs(parts.query).get("token", [""])[0]


def _get(url: str, token: str) -> Any:
    headers = {"Authorization": f"Bearer {token}".encode().decode("latin-1")} if token else {}
    try:
        with urlopen(Request(url, headers=headers), timeout=_TIMEOUT_S) as response:
            return json.loads(response.read(_MOST_BYTES))
    except HTTPError as error:
        error.close()
        if error.code == 401:
            wrong = "refuses this token" if token else "asks for a token"
            raise PenstockError(
                f"{url} {wrong}: give the whole address that ssc.uiWebUrl names, with ?token=…, or pass --token, or "
                "set PENSTOCK_UI_TOKEN"
            ) from None
        raise PenstockError(f"{url} answered {error.code} {error.reason}{_IS_IT}") from None
    except OSError as error:
        reason = error.reason if isinstance(error, URLError) else error
        raise PenstockError(f"{url} does not answer: {reason}. Is the application running?") from None
    except (ValueError, HTTPException) as error:
        raise PenstockError(f"{url} gave no JSON: {error}{_IS_IT}") from None


def summary(state: State) -> Json:
    """The state as JSON values, in the words of REST."""
    return {
        "application": state.application,
        "statistics": state.statistics,
        "monitoring": state.monitoring,
        "receivers": state.receivers,
        "lastBatch": _last(state),
        "healthy": is_healthy(state),
    }


def is_healthy(state: State) -> bool:
    """Whether the last batch succeeded and every receiver is active."""
    last = _last(state)
    failed = last is not None and last["numFailedOutputOps"] > 0
    return not failed and not any(receiver.get("isActive") is False for receiver in state.receivers)


def _last(state: State) -> Json | None:
    return next((batch for batch in state.batches if batch["status"] == "COMPLETED"), None)


def rendered(state: State, width: int = 100) -> str:
    """The state as text."""
    text = StringIO()
    Console(width=width, no_color=True, highlight=False, markup=False, emoji=False, file=text).print(view(state))
    return text.getvalue()


def view(state: State, rows: int = 12) -> RenderableType:
    """Summary, receivers and batches as tables."""
    return Group(*_head(state), Text(), _receivers(state), Text(), _batches(state.batches[:rows]))


def _head(state: State) -> Iterable[Text]:
    statistics, monitoring = state.statistics, state.monitoring
    attempt = state.application.get("attempts", [{}])[0]
    yield Text.assemble(
        (shortened(_line(state.application["name"]), _LONGEST_NAME), "bold"),
        f"  {state.application['id']}  batches of {statistics['batchDuration']:,} ms",
        ("  stopped" if attempt.get("completed") else "", "red"),
    )
    yield Text(
        f"{statistics['numTotalCompletedBatches']:,} batches, {statistics['numProcessedRecords']:,} records, "
        f"{statistics['numActiveBatches']:,} batches wait or run, "
        f"{statistics['numActiveReceivers']} of {statistics['numReceivers']} receivers active"
    )
    latency, age = monitoring.get("latency") or {}, monitoring.get("checkpointAge")
    yield Text(
        f"latency p50 {_ms(latency.get('p50'))}, p99 {_ms(latency.get('p99'))}; "
        f"backlog {_bytes(monitoring.get('backlogBytes'))}, blocks {_bytes(monitoring.get('blockDiskBytes'))}, "
        f"{'no checkpoint' if age is None else f'checkpoint {_ms(age)} old'}"
    )
    if failed := monitoring.get("numBatchesAwaitingRerun"):
        yield Text(f"{failed:,} failed batches wait, the oldest of {monitoring['oldestFailedBatch']}", "yellow")


def _receivers(state: State) -> Table:
    table = _table("stream", "state", "host", "records/s", "limit", "lag", "restarts", "last error")
    streams = {stream["streamId"]: stream for stream in state.monitoring["streams"]}
    for receiver in state.receivers:
        stream = streams.get(receiver["streamId"], {})
        active, limit = receiver.get("isActive"), stream.get("rateLimit")
        table.add_row(
            Text(_line(receiver["streamName"])),
            Text("-" if active is None else "active" if active else "inactive", "red" if active is False else ""),
            Text(_line(receiver.get("executorHost") or "-")),
            Text(f"{receiver['eventRates'][-1][1]:,.0f}" if receiver["eventRates"] else "-"),
            Text("none" if limit is None else f"{limit:,.0f}"),
            Text(_lag(stream.get("source") or {})),
            Text(f"{stream.get('numRestarts', 0)}"),
            Text(_line(str(receiver.get("lastErrorMessage") or "").partition("\n")[0]), "red"),
        )
    return table


def _lag(source: Json) -> str:
    """Messages and seconds behind the source, and dead letters, as far as they are known: ``1,200, 3.5 s, 2 dead``."""
    messages, seconds, dead = source.get("lagMessages"), source.get("lagSeconds"), source.get("numDeadLetters")
    parts = [
        "" if messages is None else f"{messages:,}",
        "" if seconds is None else _ms(1000 * seconds),
        f"{dead:,} dead" if dead else "",
    ]
    return ", ".join(part for part in parts if part) or "-"


def _batches(batches: list[Json]) -> Table:
    table = _table("batch", "status", "records", "scheduling", "processing", "total", "error")
    for batch in batches:
        failure = error_line(str(batch.get("firstFailureReason") or ""))
        late = (batch.get("totalDelay") or 0) > batch["batchDuration"]
        table.add_row(
            Text(f"{datetime.fromtimestamp(batch['batchId'] / 1000):%H:%M:%S.%f}"[:-3]),
            Text("awaits rerun", "yellow") if batch.get("awaitsRerun") else Text(batch["status"].lower()),
            Text(f"{batch['inputSize']:,}"),
            Text(_ms(batch.get("schedulingDelay"))),
            Text(_ms(batch.get("processingTime"))),
            Text(_ms(batch.get("totalDelay")), "yellow" if late else ""),
            Text(_line(failure), "red"),
        )
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    table.add_column(first, no_wrap=True)
    for name in others:
        is_text = name in ("state", "status", "host", "last error", "error")
        table.add_column(name, justify="left" if is_text else "right", no_wrap=True, overflow="ellipsis")
    return table


def _line(text: object) -> str:
    """A text of the application in one line, without characters that a terminal obeys or that reverse what follows."""
    return "".join(
        character if character.isprintable() or character == _ZERO_WIDTH_JOINER else "\ufffd" for character in str(text)
    )


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f} ms"


def _bytes(value: float | None) -> str:
    if value is None:
        return "-"
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1000:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"


def watch(url: str, token: str, every_s: float, count: int, console: Console | None = None) -> None:
    """Show the state until Ctrl-C, or ``count`` times.

    Raises:
        PenstockError: the first request failed. Later failures are shown, and the next update retries.
    """
    console = console or Console(highlight=False, markup=False, emoji=False)
    state = fetch(url, token)
    with Live(view(state, _rows(console)), console=console, auto_refresh=False, screen=console.is_terminal) as live:
        updates = 1
        while not count or updates < count:
            time.sleep(every_s)
            updates += 1
            note = Text()
            try:
                state = fetch(url, token)
            except PenstockError as error:
                note = Text(str(error), "red")
            live.update(Group(view(state, _rows(console)), note), refresh=True)


def _rows(console: Console) -> int:
    return max(console.height - 14, 3)
