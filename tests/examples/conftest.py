"""Runs examples as programs in this process: on the shared SparkContext, with short batch intervals."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers import do_nothing, wait_for
from tests.helpers.line_server import LineServer, line_server
from tests.helpers.own_conf import own_conf

from penstock.spark.spark_conf import entries_of

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

    from penstock import StreamingContext

EXAMPLES = Path(__file__).parents[2] / "examples"


class Running:
    """An example that runs."""

    def __init__(self, ssc: StreamingContext, capsys: pytest.CaptureFixture[str]) -> None:
        self.ssc = ssc
        self._capsys = capsys
        self._printed = ""

    @property
    def lines(self) -> list[str]:
        """What it printed so far."""
        self._printed += self._capsys.readouterr().out
        return self._printed.splitlines()

    def until_lines(self, *expected: str) -> None:
        """Wait until it has printed these lines, in any order and among others."""
        try:
            wait_for(lambda: set(expected) <= set(self.lines), f"printed: {expected}", poll_s=0.02)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._printed}") from None


Act = Callable[[Running], object]


class RunExample:
    """Runs an example until ``act`` returns, then ends it as the user would: by Ctrl-C, unless it ends by itself."""

    def __init__(self, sc: SparkContext, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        from penstock import StreamingContext

        self._sc = sc
        self._capsys = capsys
        self._monkeypatch = monkeypatch
        self._shared = entries_of(sc)
        self._create = StreamingContext.__init__

    def __call__(
        self,
        name: str,
        *arguments: object,
        act: Act,
        conf: Mapping[str, str] | None = None,
        replace: Mapping[str, str] | None = None,
        interval_s: float = 0.2,
    ) -> dict[str, Any]:
        """Run it.

        Args:
            name: its file, without ``.py``.
            arguments: its arguments.
            act: called when it waits for its end.
            conf: more configuration.
            replace: shorter durations: text that is there once → text.
            interval_s: batch interval in seconds, instead of the example's.

        Returns:
            The program's names.
        """
        from penstock import StreamingContext

        path = EXAMPLES / f"{name}.py"
        created = re.compile(r'SparkContext\((?:conf=(conf)|appName="[^"]+")\)')
        source, contexts = created.subn(lambda match: f"shared({match[1]})", path.read_text(encoding="utf-8"))
        assert contexts == (0 if "SparkSession" in source else 1)
        for before, after in (replace or {}).items():
            assert source.count(before) == 1
            source = source.replace(before, after)
        original = StreamingContext.awaitTermination

        def await_termination(ssc: StreamingContext, timeout: float | None = None) -> bool:
            act(Running(ssc, self._capsys))
            if timeout is None:
                # Python runs the handler before this function returns.
                signal.raise_signal(signal.SIGINT)
                assert original(ssc, 120), "it has not stopped gracefully"
            return timeout is None

        create = self._create

        def with_interval(self: Any, sparkContext: SparkContext, batchDuration: float, **others: Any) -> None:
            assert batchDuration == 1
            create(self, sparkContext, interval_s, **others)

        patch = self._monkeypatch
        patch.setattr(StreamingContext, "__init__", with_interval)
        patch.setattr("sys.argv", [str(path), *map(str, arguments)])
        patch.setattr(StreamingContext, "awaitTermination", await_termination)
        # A function's module decides how it travels to the workers: that of a program does not exist there.
        names = {"__name__": "__main__", "shared": lambda its: self._configured(its, conf or {})}
        self._configured(None, conf or {})
        exec(compile(source, str(path), "exec"), names)
        return names

    def _configured(self, its: SparkConf | None, more: Mapping[str, str]) -> SparkContext:
        """The shared SparkContext, with the configuration of the program."""
        every = {"spark.streaming.stopGracefullyOnShutdown": "true", "spark.streaming.gracefulStopTimeout": "100s"}
        given = [] if its is None else its.getAll()
        streaming = [pair for pair in given if pair[0].startswith(("spark.streaming.", "spark.penstock."))]
        merged = own_conf([*self._shared.items(), *every.items(), *streaming, *more.items()])
        self._monkeypatch.setattr(self._sc, "_conf", merged)
        return self._sc


@pytest.fixture
def run_example(
    sc: SparkContext, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[RunExample]:
    """Runs examples, one after the other."""
    from penstock import StreamingContext

    # An example stops Spark, too.
    monkeypatch.setattr(sc, "stop", do_nothing)
    yield RunExample(sc, capsys, monkeypatch)
    active = StreamingContext.getActive()
    if active is not None:
        active.stop(stopSparkContext=False)


@pytest.fixture
def server() -> Iterator[LineServer]:
    """A TCP server on a port of its own."""
    with line_server() as serving:
        yield serving
