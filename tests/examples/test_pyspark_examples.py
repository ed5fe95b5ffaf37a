"""PySpark's own example programs run with only the import changed, and continue where an earlier run has stopped."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from tests.examples.conftest import Act, Running
from tests.helpers import do_nothing, wait_for
from tests.helpers.frame_programs import FRUGAL
from tests.helpers.line_server import LineServer
from tests.helpers.own_conf import own_conf

from penstock import StreamingContext, conf

if TYPE_CHECKING:
    from pyspark import SparkContext

pytestmark = pytest.mark.spark

HOME = Path(pyspark.__file__).parent
EXAMPLES = HOME / "examples" / "src" / "main" / "python" / "streaming"


class RunExample:
    """Runs an example on the shared SparkContext until ``act`` returns, then stops it at once."""

    def __init__(self, sc: SparkContext, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._sc = sc
        self._capsys = capsys
        self._monkeypatch = monkeypatch
        self._shared = sc.getConf().getAll()
        self._create = StreamingContext.__init__

    def __call__(
        self,
        name: str,
        *arguments: object,
        act: Act,
        configuration: Mapping[str, str] | None = None,
        replace: Mapping[str, str] | None = None,
        interval_s: float = 0.5,
    ) -> None:
        """Run it.

        Args:
            name: its file, without ``.py``.
            arguments: its arguments.
            act: called when it waits for its end.
            configuration: of its SparkContext.
            replace: more changes, of paths and durations: text that is there once → text.
            interval_s: batch interval in seconds, instead of the example's.
        """
        path = EXAMPLES / f"{name}.py"
        source = path.read_text(encoding="utf-8")
        changes = {"from pyspark.streaming import": "from penstock import", "SparkContext(appName": "shared(appName"}
        for before, after in {**changes, **(replace or {})}.items():
            assert source.count(before) == 1
            source = source.replace(before, after)

        def with_interval(ssc: Any, sparkContext: SparkContext, batchDuration: float, **others: Any) -> None:
            self._create(ssc, sparkContext, interval_s, **others)

        def await_termination(ssc: StreamingContext) -> None:
            act(Running(ssc, self._capsys))

        patch = self._monkeypatch
        patch.setattr(self._sc, "_conf", own_conf([*self._shared, *(configuration or {}).items()]))
        patch.setattr(StreamingContext, "__init__", with_interval)
        patch.setattr(StreamingContext, "awaitTermination", await_termination)
        patch.setattr("sys.argv", [str(path), *map(str, arguments)])
        # A function's module decides how it travels to the workers: that of a program does not exist there.
        exec(compile(source, str(path), "exec"), {"__name__": "__main__", "shared": lambda appName: self._sc})
        self.stop()

    def stop(self) -> None:
        """Stop what runs, if something does."""
        if active := StreamingContext.getActive():
            active.stop(stopSparkContext=False)


@pytest.fixture
def run_example(
    sc: SparkContext, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[RunExample]:
    """Runs examples, one after the other."""
    # An example stops Spark, too.
    monkeypatch.setattr(sc, "stop", do_nothing)
    run = RunExample(sc, capsys, monkeypatch)
    yield run
    run.stop()


def test_queue_stream_counts_each_rdd_in_a_batch_of_its_own(run_example: RunExample) -> None:
    def act(example: Running) -> None:
        wait_for(lambda: sum(line.startswith("Time: ") for line in example.lines) >= 6, "six batches")
        # Five RDDs of the numbers 1 to 1000: each last digit a hundred times.
        assert example.lines.count("(0, 100)") == 5

    run_example("queue_stream", act=act, interval_s=1, replace={"time.sleep(6)": "ssc.awaitTermination()"})


def test_network_wordcount_counts_the_words_of_each_batch(run_example: RunExample, server: LineServer) -> None:
    def act(example: Running) -> None:
        with server.accept() as connection:
            connection.sendall(b"to be or not to be\n")
            example.until_lines("('to', 2)", "('be', 2)", "('or', 1)", "('not', 1)")
            connection.sendall("naïve question, naïve\n".encode())
            example.until_lines("('naïve', 2)")

    run_example("network_wordcount", *server.address, act=act)


def test_hdfs_wordcount_counts_the_words_of_each_new_file_once(run_example: RunExample, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()

    def act(example: Running) -> None:
        wait_for(lambda: any(line.startswith("Time: ") for line in example.lines), "a batch")
        (tmp_path / "one").write_text("to be or\nnot to be\n")
        (tmp_path / "one").rename(folder / "one.txt")
        example.until_lines("('be', 2)")
        (tmp_path / "two").write_text("naïve, naïve")
        (tmp_path / "two").rename(folder / "two.txt")
        example.until_lines("('naïve,', 1)")
        assert example.lines.count("('be', 2)") == 1

    run_example("hdfs_wordcount", folder, act=act)


def test_sql_network_wordcount_counts_by_sql(run_example: RunExample, server: LineServer) -> None:
    from pyspark.sql import SparkSession

    def act(example: Running) -> None:
        with server.accept() as connection:
            connection.sendall(b"to be or not to be\n")
            example.until_lines("|  be|    2|")

    try:
        # The program configures its SparkSession with these: its plans need not be compiled.
        run_example("sql_network_wordcount", *server.address, act=act, configuration=FRUGAL, interval_s=1)
    finally:
        for key in FRUGAL:
            SparkSession.builder.getOrCreate().conf.unset(key)


def test_network_wordjoinsentiments_prints_the_happiest_words_first(
    run_example: RunExample, server: LineServer, tmp_path: Path
) -> None:
    # The program splits at spaces; the list that comes with PySpark has tabs.
    listed = (HOME / "data" / "streaming" / "AFINN-111.txt").read_text()
    (tmp_path / "AFINN-111.txt").write_text(listed.replace("\t", " "))

    def act(example: Running) -> None:
        with server.accept() as connection:
            connection.sendall(b"good news and bad news and good\n")
            example.until_lines("bad (-3 happiness)")
        happiest = example.lines.index("good (6 happiness)")
        assert example.lines[happiest - 1 : happiest + 2] == [
            "Happiest topics in the last 5 seconds (2 total):",
            "good (6 happiness)",
            "bad (-3 happiness)",
        ]

    replace = {"data/streaming/AFINN-111.txt": str(tmp_path / "AFINN-111.txt")}
    run_example("network_wordjoinsentiments", *server.address, act=act, replace=replace, interval_s=1)


@pytest.fixture
def open_connection() -> Iterator[list[socket.socket]]:
    """The connection of the first run. If it were closed before that run stops, its receiver would connect again."""
    connections: list[socket.socket] = []
    yield connections
    for each in connections:
        each.close()


def test_recoverable_network_wordcount_is_recovered(
    run_example: RunExample, server: LineServer, open_connection: list[socket.socket], tmp_path: Path
) -> None:
    counts = tmp_path / "counts.txt"

    def first(example: Running) -> None:
        open_connection.append(server.accept())
        open_connection[0].sendall(b"a rose is a rose\n")
        example.until_lines("Creating new context", "Dropped 2 word(s) totally")
        wait_for(lambda: counts.exists() and "('rose', 2)" in counts.read_text(), "the line's words")
        assert "('a'" not in counts.read_text()

    def second(example: Running) -> None:
        with server.accept() as connection:
            connection.sendall(b"a tulip is no rose\n")
            example.until_lines("Dropped 1 word(s) totally")
            wait_for(lambda: "('tulip', 1)" in counts.read_text(), "words after the recovery")
        # The file would have been deleted, too.
        assert "Creating new context" not in example.lines
        assert "('rose', 2)" in counts.read_text()

    for act in (first, second):
        run_example("recoverable_network_wordcount", *server.address, tmp_path / "checkpoint", counts, act=act)


def test_stateful_network_wordcount_recovers_its_state(
    run_example: RunExample, server: LineServer, open_connection: list[socket.socket], tmp_path: Path
) -> None:
    """It says nothing of recovery: that its own code makes the streams again, and the log, are configuration."""

    def first(example: Running) -> None:
        open_connection.append(server.accept())
        open_connection[0].sendall(b"hello streams\n")
        example.until_lines("('hello', 2)", "('world', 1)", "('streams', 1)")

    def second(example: Running) -> None:
        with server.accept() as connection:
            connection.sendall(b"hello again\n")
            example.until_lines("('hello', 3)", "('world', 1)", "('streams', 1)")

    configuration = {conf.key("checkpoint_rebuild"): "true", conf.key("wal_enabled"): "true"}
    replace = {'checkpoint("checkpoint")': f"checkpoint({str(tmp_path / 'checkpoint')!r})"}
    for act in (first, second):
        run_example(
            "stateful_network_wordcount",
            *server.address,
            act=act,
            configuration=configuration,
            replace=replace,
            interval_s=1,
        )
