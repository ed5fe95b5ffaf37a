"""``penstock run --watch``: the batches of any program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from penstock.spi import Plugins

PROGRAM = """
from types import SimpleNamespace
from penstock import BatchCompleted, BatchInfo
from penstock.spi import Plugins

(listener,) = [
    listener for listener in Plugins().listeners(SimpleNamespace(batch_interval_ms=1000)) if "watch" in listener.origin
]
print("before")
listener.callbacks[BatchCompleted](BatchCompleted(BatchInfo(5000, {}, 5000, 5010, 5030, {})))
print("after")
"""


@pytest.fixture(autouse=True)
def without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock_cli.run.ensure_java", lambda: None)
    # Plugins that need a whole context are not of interest.
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_group: [])


def test_batches_of_a_program_are_lines_without_a_terminal(cli: Callable[..., Result], tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(PROGRAM)
    result = cli("run", "--watch", str(app))
    assert result.exit_code == 0, result.output
    before, batch, after, *ends = result.stdout.splitlines()
    assert (before, after) == ("before", "after")
    assert batch.endswith("0 records  0 records/s  scheduling 10 ms  processing 20 ms  total 30 ms  rate limit none")
    assert ends[0] == "1 batch, 0 records, 0 records/s, 0 failed"
    assert Plugins.additional_entry_points == []


def test_summary_follows_a_program_that_fails(cli: Callable[..., Result], tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text("raise SystemExit(3)")
    result = cli("run", "--watch", str(app))
    assert (result.exit_code, result.stdout) == (3, "no batches\n")
    assert not any("watch" in listener.origin for listener in Plugins().listeners(object()))
