"""`penstock demo`: errors before Spark starts, what is shown, and two real runs."""

from __future__ import annotations

import importlib.metadata
import math
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from click.testing import Result
from tests.helpers import wait_for
from tests.helpers.forked import Fork
from tests.helpers.shared_jvm import PYSPARKS_DAEMON, SharedJvm

from penstock import PenstockError
from penstock_cli import demo as demo_module
from penstock_cli.demo_program import Arrival
from penstock_cli.demo_view import ViewedBatch
from penstock_cli.line_producer import LineProducer, SendLines
from penstock_testing import batch_info

Cli = Callable[..., Result]
Install = Callable[[str, str], None]

SYNTHETIC = """
from attrs import define, field, validators
from penstock import ReceiverSpec, hookimpl

@define
class Options:
    rate: float = field(validator=validators.lt(1000))
    shape: str = "lines"
    seed: int = 0

@hookimpl
def receivers():
    return [ReceiverSpec("synthetic", lambda options: None, Options)]
"""


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_called(*_: object, **__: object) -> Iterator[ViewedBatch]:
        raise AssertionError("Spark would have been started")

    monkeypatch.setattr(demo_module, "_batches", not_called)
    monkeypatch.setattr(demo_module, "ensure_java", lambda: None)


@pytest.mark.usefixtures("no_spark")
def test_missing_plugin_is_named_with_what_to_install(cli: Cli, install: Install) -> None:
    result = cli("demo")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "pip install penstock-spark, which has the common plugins, or penstock-synthetic" in result.stderr


@pytest.mark.usefixtures("no_spark")
def test_invalid_option_is_refused_before_spark_starts(cli: Cli, install: Install) -> None:
    install("synthetic", SYNTHETIC)
    result = cli("demo", "--rate", "5000")
    assert result.exit_code == 1
    assert result.stderr.startswith("penstock: receiver 'synthetic'")


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--receiver", "sockett"), 1, "unknown receiver 'sockett'. Did you mean 'socket'?"),
        (("--receiver", "socket"), 1, "receiver 'socket' needs the option 'host': pass --option host=…"),
        (
            ("--receiver", "socket", "--rate", "5"),
            2,
            "--rate is an option of synthetic: use --option for socket",
        ),
        (("--option", "rate"), 2, "must be NAME=VALUE"),
    ],
)
def test_mistake_with_the_receiver_is_refused_before_spark_starts(
    cli: Cli, arguments: tuple[str, ...], code: int, message: str
) -> None:
    result = cli("demo", *arguments)
    assert result.exit_code == code
    assert message in result.stderr


def test_chosen_receiver_runs_with_its_options(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    show(monkeypatch)

    def ask(
        _screen: object, _count: int, _interval_s: float, source: object, *_: object, **__: object
    ) -> list[ViewedBatch]:
        asked.append(source)
        return []

    monkeypatch.setattr(demo_module, "_batches", ask)
    cli("demo", "--receiver", "socket", "--option", "host=here", "--option", "port=1")
    cli("demo", "--seed", "5", "--option", "shape=words")
    assert asked == [
        ("socket", {"host": "here", "port": "1"}),
        ("synthetic", {"rate": 10_000, "shape": "words", "seed": 5}),
    ]


@pytest.fixture
def offer_demo(monkeypatch: pytest.MonkeyPatch, log: list[object]) -> None:
    """Offers the demonstrations ``socket``, which notes its start and end, ``written``, an output, and ``broken``."""

    @contextmanager
    def source() -> Iterator[tuple[dict[str, str], SendLines]]:
        log.append("started")
        yield {"host": "here", "port": "1"}, lambda lines: log.append(len(lines[0].split()))
        log.append("ended")

    class Report:
        def attach(self, lines: object) -> None:
            log.append(lines)

        def report(self) -> str:
            return "5 rows"

    @contextmanager
    def written() -> Iterator[Report]:
        yield Report()

    class Offered(importlib.metadata.EntryPoint):
        def load(self) -> object:
            return {"socket": source, "written": written}[self.name]

    offered = importlib.metadata.EntryPoints(
        Offered(name, "x:y", "penstock.demos") for name in ("socket", "written", "broken")
    )
    really = importlib.metadata.entry_points

    def entry_points(**choice: Any) -> Any:
        return offered.select(**choice) if choice.get("group") == "penstock.demos" else really(**choice)

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)


@pytest.fixture
def log() -> list[object]:
    return []


@pytest.mark.usefixtures("offer_demo")
def test_demonstration_of_a_plugin_runs_its_source_and_its_receiver(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, log: list[object]
) -> None:
    def ask(
        _screen: object, _count: int, _interval_s: float, source: object, producer: LineProducer, **_: object
    ) -> list[ViewedBatch]:
        log.append(source)
        producer.begin()
        wait_for(lambda: len(log) > 2, "a line was sent")
        del log[3:]
        return []

    show(monkeypatch)
    monkeypatch.setattr(demo_module, "_batches", ask)
    result = cli("demo", "socket", "--rate", "50", "--seed", "3", "--option", "port=2")
    assert (result.exit_code, result.stderr) == (0, "")
    assert log[:3] == ["started", ("socket", {"host": "here", "port": "2"}), 10]
    assert log[-1] == "ended"


@pytest.mark.usefixtures("offer_demo")
def test_demonstration_of_an_output_gets_the_generated_lines_and_its_report_follows_the_summary(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, log: list[object]
) -> None:
    def ask(
        _screen: object, _count: int, _interval_s: float, source: object, producer: object, *, output: Any, **_: object
    ) -> list[ViewedBatch]:
        output.attach(source)
        assert producer is None
        return [viewed(1, 5)]

    show(monkeypatch)
    monkeypatch.setattr(demo_module, "_batches", ask)
    result = cli("demo", "written", "--rate", "50", "--seed", "3")
    assert (result.exit_code, result.stderr) == (0, "")
    assert log == [("synthetic", {"rate": 50, "shape": "lines", "seed": 3})]
    assert result.stdout.splitlines()[-1] == "5 rows"


@pytest.mark.usefixtures("no_spark", "offer_demo")
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("sockets",), 1, "unknown demonstration 'sockets'. Did you mean 'socket'? Known: broken, socket, written."),
        (("broken",), 1, "the demonstration broken of x:y does not load: KeyError: 'broken'"),
        (("socket", "--receiver", "file"), 2, "--receiver cannot be combined with socket"),
    ],
)
def test_demonstration_that_cannot_run_is_refused(
    cli: Cli, arguments: tuple[str, ...], code: int, message: str
) -> None:
    result = cli("demo", *arguments)
    assert result.exit_code == code
    assert message in result.stderr


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("option", ["--rate", "--batches", "--interval"])
def test_zero_is_a_usage_error(cli: Cli, option: str) -> None:
    assert cli("demo", option, "0").exit_code == 2


def viewed(number: int, records: int, failure: str | None = None) -> ViewedBatch:
    return ViewedBatch(batch_info(number, records=records, failureReason=failure), 1000)


def show(monkeypatch: pytest.MonkeyPatch, *batches: ViewedBatch, error: BaseException | None = None) -> None:
    """Make the demo see these batches, then an error."""

    def come(*_: object, **__: object) -> Iterator[ViewedBatch]:
        yield from batches
        if error is not None:
            raise error

    monkeypatch.setattr(demo_module, "_batches", come)
    monkeypatch.setattr(demo_module, "_check", lambda receiver, options: None)
    monkeypatch.setattr(demo_module, "ensure_java", lambda: None)


def test_each_batch_is_a_line_without_a_terminal(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    show(monkeypatch, viewed(1, 5), viewed(2, 7))
    result = cli("demo")
    assert result.exit_code == 0
    assert ["5 records" in result.stdout.splitlines()[0], "7 records" in result.stdout.splitlines()[1]] == [True, True]
    assert result.stdout.splitlines()[2].startswith("2 batches, 12 records")
    assert len(result.stdout.splitlines()) == 4


def test_error_of_a_failed_batch_follows_the_summary(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    show(monkeypatch, viewed(1, 5, "Traceback\nValueError: x"), error=PenstockError("a batch failed: x"))
    result = cli("demo")
    assert (result.exit_code, result.stderr) == (1, "penstock: a batch failed: x\n")
    assert "1 batch, 5 records, 5 records/s, 1 failed" in result.stdout


def test_no_summary_without_batches(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    show(monkeypatch, error=PenstockError("nothing arrived: no such well"))
    result = cli("demo")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "penstock: nothing arrived: no such well\n"


def test_ctrl_c_prints_the_summary(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    show(monkeypatch, viewed(1, 5), error=KeyboardInterrupt())
    result = cli("demo")
    assert (result.exit_code, result.stderr) == (130, "")
    assert "1 batch, 5 records" in result.stdout


class FakeProgram:
    """Yields these batches, `None` for a pause."""

    def __init__(self, *batches: ViewedBatch | None) -> None:
        self._batches = iter(batches)
        self.arrival = Arrival()

    def next_batch(self, timeout_s: float) -> ViewedBatch | None:
        return next(self._batches, None)

    def check(self) -> None:
        """Nothing has failed."""


def completed(program: FakeProgram, count: int) -> Iterator[ViewedBatch]:
    # The command draws the batches on the terminal, and cannot return them.
    return demo_module._completed(program, count, 1.0)  # type: ignore[arg-type]  # a fake


def test_batches_count_from_the_first_with_records() -> None:
    program = FakeProgram(viewed(1, 0), None, viewed(2, 0), viewed(3, 4), viewed(4, 0), viewed(5, 6), viewed(6, 7))
    assert [batch.info.batchTime for batch in completed(program, 3)] == [3, 4, 5]


def test_demo_without_records_ends_with_the_receivers_error() -> None:
    program = FakeProgram(viewed(1, 0))
    program.arrival = Arrival(receiver_s=-math.inf, receiver_error="no such well")
    with pytest.raises(PenstockError, match="no record arrived: no such well"):
        next(completed(program, 3))


@pytest.mark.parametrize(
    ("arrival", "now_s", "reason"),
    [
        # Spark starts the process of the receiver late where the machine is busy: that is no lack of records.
        (Arrival(), 119, ""),
        (Arrival(), 121, "the receiver did not start in 120 s"),
        (Arrival(receiver_s=100), 159, ""),
        (Arrival(receiver_s=100), 161, "the receiver stored none in 60 s"),
        (Arrival(receiver_s=100, receiver_error="no such well"), 161, "no such well"),
        # However long the first batch takes.
        (Arrival(receiver_s=100, has_records=True), 10_000, ""),
    ],
)
def test_patience_begins_with_the_receiver_and_ends_with_its_first_records(
    arrival: Arrival, now_s: float, reason: str
) -> None:
    assert demo_module._why_no_record(arrival, 0.0, now_s).startswith(reason)
    assert bool(demo_module._why_no_record(arrival, 0.0, now_s)) == bool(reason)


def test_failed_batch_is_shown_then_raised() -> None:
    batches = completed(FakeProgram(viewed(1, 0, "Traceback (most recent call last):\nValueError: x")), 3)
    assert next(batches).failure == "ValueError: x"
    with pytest.raises(PenstockError, match=r"^batch failed: ValueError: x"):
        next(batches)


LINE = re.compile(
    r"\d\d:\d\d:\d\d  [\d,]+ records  [\d,]+ records/s  scheduling [\d,]+ ms  processing [\d,]+ ms  total [\d,]+ ms  "
    r"rate limit none  top words \S+ [\d,]+(, \S+ [\d,]+)*"
)


def without_delays(errors: str) -> list[str]:
    """The lines of standard error, except the warning that this machine was too busy for a batch."""
    return [line for line in errors.splitlines() if "batch generation slower than the batch interval" not in line]


@pytest.mark.spark
@pytest.mark.programs
def test_demo_runs_on_spark(tmp_path: Path, shared_jvm: SharedJvm) -> None:
    shared_jvm.prepare(PYSPARKS_DAEMON)
    arguments = ["demo", "tables", "--batches", "3", "--rate", "1000", "--seed", "7"]
    output, error = tmp_path / "output", tmp_path / "error"
    demo = Fork("penstock_cli", arguments, cwd=tmp_path, env=shared_jvm.environment, stdout=output, stderr=error)
    assert demo.wait(240) == 0, error.read_text()
    assert without_delays(error.read_text()) == []
    dashboard, *batches, totals, delays, table, query = output.read_text().splitlines()
    written = re.fullmatch(
        r"table: ([\d,]+) rows of (\d+) batches in (\S+); .* [\d.]+ s after the command began", table
    )
    assert written is not None
    folder = Path(written[3])
    try:
        rows = sum(parquet.read_table(file).num_rows for file in folder.glob("batch=*/*.parquet"))
    finally:
        shutil.rmtree(folder)
    assert (written[1], int(written[2]) >= 1) == (f"{rows:,}", rows > 0)
    assert f"FROM '{folder}/batch=*/*.parquet'" in query
    assert re.fullmatch(r"dashboard http://127\.0\.0\.1:\d+/\?token=\S{32,}", dashboard)
    assert len(batches) == 3
    assert all(LINE.fullmatch(batch) for batch in batches)
    assert re.fullmatch(r"3 batches, [\d,]+ records, [\d,]+ records/s, 0 failed", totals)
    assert re.fullmatch(r"delay p50/max: scheduling \S+ ms, processing \S+ ms, total \S+ ms", delays)


@pytest.mark.spark
@pytest.mark.programs
@pytest.mark.usefixtures("pysparks_daemon")
def test_ctrl_c_leaves_no_process_running(tmp_path: Path) -> None:
    # A session of its own: its processes are those to look for afterwards.
    command = [sys.executable, "-m", "penstock_cli", "demo", "--batches", "100"]
    with (
        (tmp_path / "error").open("w") as error,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=error, text=True, start_new_session=True) as demo,
    ):
        assert demo.stdout is not None
        assert demo.stdout.readline().startswith("dashboard http://")
        assert " records " in demo.stdout.readline()
        os.killpg(demo.pid, signal.SIGINT)
        rest = demo.stdout.read()
        assert demo.wait(30) == 130
    assert " batch" in rest
    assert without_delays((tmp_path / "error").read_text()) == []
    wait_for(lambda: not _session(demo.pid), "all processes of the session have ended", poll_s=0.1)


def _session(leader: int) -> list[str]:
    """The processes of a session."""
    lines = subprocess.check_output(["ps", "-e", "-o", "sid=,pid=,args="], text=True).splitlines()
    return [line for line in lines if line.split()[0] == str(leader)]
