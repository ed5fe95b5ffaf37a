"""Changes of the process's global state, and their restoration."""

from __future__ import annotations

import locale
import logging
import os
import signal
import sys
import warnings
from pathlib import Path

import pytest

from penstock_testing.global_state import GlobalState


def test_everything_is_restored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    state, path = GlobalState(), list(sys.path)
    os.environ["ADDED_BY_A_TEST"] = "secret"
    os.chdir(tmp_path)
    sys.path.insert(0, "added")
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    handler = logging.NullHandler()
    logging.root.addHandler(handler)
    os.umask(0o077)
    locale.setlocale(locale.LC_TIME, "C.UTF-8" if locale.setlocale(locale.LC_TIME) == "C" else "C")
    warnings.simplefilter("ignore")
    changes = state.changes()
    assert [change.partition(" changed")[0] for change in changes] == [
        "the working directory",
        "os.environ",
        "the handler of SIGUSR1",
        "sys.path",
        "the handlers of the root logger",
        "the umask",
        "the locale",
        "the filters of all warnings",
    ]
    assert "os.environ changed: ADDED_BY_A_TEST" in changes
    state.restore()
    assert state.changes() == []
    assert sys.path == path


def test_filter_for_the_warnings_of_one_library_is_no_change() -> None:
    state = GlobalState()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="numpy.dtype size changed")
        assert state.changes() == []


def test_deleted_working_directory_is_tolerated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    state = GlobalState()
    folder.rmdir()
    assert state.changes() == [f"the working directory changed from {str(folder)!r} to '(deleted)'"]
    state.restore()
