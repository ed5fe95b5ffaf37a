"""``penstock top``, ``status`` and ``ui``."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from plugins.ui.tests.conftest import FixedSource, T, batch_events, state_of
from rich.console import Console

from penstock import PenstockError, ReceiverInfo, ReceiverStarted, SourceStatus
from penstock_ui import commands
from penstock_ui.event_log import encode
from penstock_ui.own_events import RateChanged, Sampled
from penstock_ui.server import UIServer
from penstock_ui.snapshot import Storage
from penstock_ui.terminal import fetch, watch

Serve = Callable[..., UIServer]


GROUP = click.Group(commands=[commands.status, commands.top, commands.ui])


def cli(*arguments: str, **environment: str) -> Result:
    return CliRunner(env=environment).invoke(GROUP, arguments)


@pytest.fixture
def healthy(source: FixedSource, run: list[Any]) -> FixedSource:
    receivers = [ReceiverStarted(ReceiverInfo(id_, f"Receiver-{id_}", True, "host", "1")) for id_ in (0, 1)]
    source.state = state_of([*run, *receivers, *batch_events(99), RateChanged(1, 0, 1234.0, "why")])
    return source


def test_status_shows_batches_receivers_and_delays(serve: Serve, healthy: FixedSource) -> None:
    result = cli("status", serve().url)
    assert result.exit_code == 0, result.output
    assert "21 batches" in result.stdout
    assert "2 of 2 receivers active" in result.stdout
    assert "Receiver-1" in result.stdout
    assert "1,234" in result.stdout
    assert "200 ms" in result.stdout
    assert "no checkpoint" in result.stdout


def test_lag_and_dead_letters_are_in_the_row_of_a_receiver(serve: Serve, healthy: FixedSource, run: list[Any]) -> None:
    behind = ReceiverInfo(0, "Receiver-0", True, "host", "1", source=SourceStatus(1200, 3.5, dead_letters=2))
    healthy.state = state_of([*run, ReceiverStarted(behind)])
    assert "1,200, 3,500 ms, 2 dead" in cli("status", serve().url, COLUMNS="200").stdout


def test_status_as_json_has_the_resources_of_rest(serve: Serve, healthy: FixedSource) -> None:
    result = cli("status", serve().url, "--json")
    shown = json.loads(result.stdout)
    assert shown["statistics"]["numTotalCompletedBatches"] == 21
    assert shown["lastBatch"]["inputSize"] == 10
    assert shown["monitoring"]["streams"][0]["rateChanges"][0]["reason"] == "why"
    assert shown["healthy"] is True


def test_failed_last_batch_is_the_exit_code(serve: Serve, healthy: FixedSource, run: list[Any]) -> None:
    healthy.state = state_of([run[0], *batch_events(1, failure="Traceback:\nValueError: [red]bad[/red]")])
    result = cli("status", serve().url)
    assert result.exit_code == 1
    assert "ValueError: [red]bad[/red]" in result.stdout


def test_batches_that_wait_to_run_again_are_counted_and_marked(
    serve: Serve, healthy: FixedSource, run: list[Any]
) -> None:
    events = [run[0], *batch_events(1, failure="down", awaits_rerun=True), *batch_events(2, failure="down")]
    storage = Storage(failed_batches=7, oldest_failed_ms=T + 1000)
    healthy.state = state_of([*events, Sampled(T + 3000, storage, (), ())])
    shown = cli("status", serve().url).stdout
    assert "7 failed batches wait, the oldest of 2023-11-14T22:13:21.000GMT" in shown
    assert [line.split()[1:3] for line in shown.splitlines()[-2:]] == [["completed", "10"], ["awaits", "rerun"]]


def test_token_is_passed_by_option_or_environment(serve: Serve, healthy: FixedSource) -> None:
    url = serve(token="sésame").url
    result = cli("status", url)
    assert isinstance(result.exception, PenstockError)
    assert "asks for a token" in str(result.exception)
    assert cli("status", url, "--token", "sésame").exit_code == 0
    assert cli("status", url, PENSTOCK_UI_TOKEN="sésame").exit_code == 0
    wrong = cli("status", url, "--token", "topsecret")
    assert "refuses this token" in str(wrong.exception)
    assert "topsecret" not in str(wrong.exception)


def test_token_in_the_address_is_taken_as_it_is_printed(source: FixedSource) -> None:
    server = UIServer(source, port=0)
    server.start()
    try:
        assert cli("status", server.address, PENSTOCK_UI_TOKEN="of another").exit_code == 0
        assert cli("top", server.address, "--count", "1").exit_code == 0
    finally:
        server.stop()


def test_token_is_in_no_error(serve: Serve, healthy: FixedSource) -> None:
    for url in (
        f"{serve(token='x').url}/?token=topsecret",
        "ftp://x/?token=topsecret",
        "http://127.0.0.1:1/?token=topsecret",
    ):
        error = cli("status", url).exception
        assert isinstance(error, PenstockError)
        assert "topsecret" not in str(error)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1:1", "does not answer"),
        ("ftp://127.0.0.1:1", "is no address of a dashboard"),
        ("file:///etc/passwd", "is no address of a dashboard"),
        ("http://", "is no address of a dashboard"),
        ("[::1", "is no address of a dashboard"),
        ("127.0.0.1:99999", "is no address of a dashboard"),
    ],
)
def test_wrong_address_is_an_error_in_one_line(url: str, reason: str) -> None:
    error = cli("status", url).exception
    assert isinstance(error, PenstockError)
    assert reason in str(error)
    assert "\n" not in str(error)


def test_address_without_scheme_is_taken(serve: Serve, healthy: FixedSource) -> None:
    assert fetch(serve().url.removeprefix("http://")).application["id"] == "app-0"


def test_top_shows_the_state_again_and_again(serve: Serve, healthy: FixedSource) -> None:
    console = Console(file=StringIO(), width=100, height=40)
    server = serve()
    watch(server.url, "", 0.01, 3, console)
    assert "Receiver-0" in console.file.getvalue()  # type: ignore[attr-defined]


def test_top_waits_for_a_server_that_is_away(
    serve: Serve, healthy: FixedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    console, server, answers = Console(file=StringIO(), width=200, height=40), serve(), [True, False, True]

    def fetched(url: str, token: str) -> Any:
        if answers.pop(0):
            return fetch(url, token)
        raise PenstockError("away")

    monkeypatch.setattr("penstock_ui.terminal.fetch", fetched)
    watch(server.url, "", 0.01, 3, console)
    assert answers == []


def test_top_ends_with_0_at_ctrl_c(serve: Serve, healthy: FixedSource, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    server = serve()
    monkeypatch.setattr("penstock_ui.terminal.time.sleep", interrupt)
    assert cli("top", server.url).exit_code == 0


def test_ui_serves_a_log(tmp_path: Path, run: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "events-app-0.000001.jsonl").write_bytes(b"".join(map(encode, run)) + b'{"event":"Batch')
    seen: dict[str, Any] = {}

    def until_seen(_seconds: float) -> None:
        (url,) = {word for word in shown() if word.startswith("http")}
        with pytest.raises(PenstockError, match="asks for a token"):
            fetch(url.partition("?")[0])
        seen["state"] = fetch(url)
        raise KeyboardInterrupt

    output: list[str] = []
    monkeypatch.setattr("penstock_ui.commands.click.echo", lambda text, **_options: output.append(str(text)))
    monkeypatch.setattr("penstock_ui.commands.time.sleep", until_seen)

    def shown() -> list[str]:
        return " ".join(output).split()

    result = cli("ui", str(tmp_path), "--port", "0")
    assert result.exit_code == 0
    assert "1 damaged lines skipped" in " ".join(output)
    assert seen["state"].statistics["numTotalCompletedBatches"] == 20
    assert seen["state"].application["attempts"][0]["completed"] is True
    assert "penstock-ui" not in {thread.name for thread in threading.enumerate()}


def test_log_is_not_shown_to_every_host_without_token(tmp_path: Path, run: list[Any]) -> None:
    (tmp_path / "events-app-0.000001.jsonl").write_bytes(b"".join(map(encode, run)))
    error = cli("ui", str(tmp_path), "--port", "0", "--host", "0.0.0.0", "--token", "none").exception
    assert isinstance(error, PenstockError)
    assert "every host could read the dashboard" in str(error)


def test_missing_log_is_an_error(tmp_path: Path) -> None:
    error = cli("ui", str(tmp_path / "nothing")).exception
    assert isinstance(error, PenstockError)
    assert "no event log in" in str(error)
