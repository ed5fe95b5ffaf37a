"""Restoring the process's global state."""

from __future__ import annotations

import locale
import logging
import os
import signal
import sys
import warnings
from pathlib import Path

import pytest

from penstock_testing.process_state import changes, process_state


def test_everything_is_restored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    state, path = process_state(), list(sys.path)
    os.environ["ADDED_BY_A_TEST"] = "secret"
    os.chdir(tmp_path)
    sys.path.insert(0, "added")
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    handler = logging.NullHandler()
    logging.root.addHandler(handler)
    os.umask(0o077)
    locale.setlocale(locale.LC_TIME, "C.UTF-8" if locale.setlocale(locale.LC_TIME) == "C" else "C")
    warnings.simplefilter("ignore")
    assert list(state.changed()) == [
        "the working directory",
        "os.environ",
        "the handler of SIGUSR1",
        "sys.path",
        "the handlers of the root logger",
        "the umask",
        "the locale",
        "the filters of all warnings",
    ]
    assert "os.environ changed: ADDED_BY_A_TEST" in changes(state)
    state.restore()
    assert changes(state) == []
    assert sys.path == path


def test_filter_for_the_warnings_of_one_library_is_no_change() -> None:
    state = process_state()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="numpy.dtype size changed")
        assert changes(state) == []


def test_additions_are_kept_behind_what_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["first", "last"])
    monkeypatch.setenv("CHANGED_BY_A_TEST", "was")
    monkeypatch.delenv("ADDED_BY_A_TEST", raising=False)
    state = process_state()
    sys.path[:] = ["added", "last"]
    os.environ.update(CHANGED_BY_A_TEST="changed", ADDED_BY_A_TEST="added")
    state.restore(keep_additions=True)
    assert sys.path == ["first", "last", "added"]
    assert os.environ["CHANGED_BY_A_TEST"] == "was"
    assert os.environ.pop("ADDED_BY_A_TEST") == "added"


def test_deleted_working_directory_is_tolerated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    state = process_state()
    folder.rmdir()
    assert list(state.changed()) == ["the working directory"]
    state.restore()
