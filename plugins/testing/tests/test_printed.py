"""``Printed`` sees what a plugin prints, however it does, and passes everything on."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading

import pytest

from penstock_testing.printed import Printed


@pytest.fixture(autouse=True)
def no_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a program that does not configure logging."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])


def test_streams_and_descriptor_are_seen_and_passed_on(capfd: pytest.CaptureFixture[str]) -> None:
    with Printed() as printed:
        print("to stdout")
        print("to stderr", file=sys.stderr)
        os.write(1, b"directly\n")
        subprocess.run(["echo", "by a process"], check=True)
        assert printed.lines() == [
            "'to stdout\\n' was printed to sys.stdout",
            "'to stderr\\n' was printed to sys.stderr",
            "'directly\\nby a process\\n' was printed to file descriptor 1",
        ]
    out, err = capfd.readouterr()
    assert sorted(out.splitlines()) == ["by a process", "directly", "to stdout"]
    assert err == "to stderr\n"


def test_logs_on_standard_error_are_no_print(capsys: pytest.CaptureFixture[str]) -> None:
    assert logging.lastResort is not None
    with Printed() as printed:
        # As without any configuration of logging; pytest configures it.
        logging.lastResort.handle(logging.makeLogRecord({"msg": "lost", "levelno": logging.ERROR}))
        assert printed.lines() == []
    assert capsys.readouterr().err == "lost\n"


def test_errors_that_python_reports_itself_are_no_print(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda error: print("Exception ignored", file=sys.stderr))

    class Broken:
        def __del__(self) -> None:
            raise ValueError

    with Printed() as printed:
        Broken()
        assert printed.lines() == []
    assert capsys.readouterr().err == "Exception ignored\n"


def test_beginning_is_bounded(capfd: pytest.CaptureFixture[str]) -> None:
    with Printed() as printed:
        for _ in range(10_000):
            sys.stdout.write("x" * 100)
        os.write(1, b"y" * 100_000)
        lines = printed.lines()
    assert [len(line) < 200 for line in lines] == [True, True]
    assert len(capfd.readouterr().out) == 1_100_000


def test_nothing_is_seen_after_the_end_and_the_streams_are_restored(capfd: pytest.CaptureFixture[str]) -> None:
    was = sys.stdout, sys.stderr, sys.unraisablehook
    with Printed() as printed:
        inside = sys.stdout
    assert (sys.stdout, sys.stderr, sys.unraisablehook) == was
    # A thread of a check that hangs still has the stream.
    print("late", file=inside)
    os.write(1, b"directly\n")
    assert sorted(capfd.readouterr().out.splitlines()) == ["directly", "late"]
    assert printed.lines() == ["'late\\n' was printed to sys.stdout"]


def test_descriptor_is_left_alone_where_the_program_logs_to_it(capfd: pytest.CaptureFixture[str]) -> None:
    with open(1, "w", closefd=False) as stdout:
        handler = logging.StreamHandler(stdout)
        logging.getLogger("test.printed").addHandler(handler)
        try:
            with Printed() as printed:
                logging.getLogger("test.printed").warning("logged")
                assert printed.lines() == []
        finally:
            logging.getLogger("test.printed").removeHandler(handler)
    assert "logged" in capfd.readouterr().out


def test_threads_may_print_at_the_same_time(capfd: pytest.CaptureFixture[str]) -> None:
    with Printed():
        threads = [threading.Thread(target=print, args=("line",)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert capfd.readouterr().out.count("line") == 20
