"""Runs Python blocks that need Spark in the SparkContext of the tests: programs as they are, fragments for one batch.

What a block says of its surroundings is replaced by what there is here: its SparkContext is that of the tests, the
server at port 9999 and the folders are the test's. A program waits for a batch with records wherever it waits for the
end.
"""

from __future__ import annotations

import contextlib
import re
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark import SparkConf, SparkContext
from tests.docs.pages import Block
from tests.helpers import graph_of, wait_for
from tests.helpers.own_conf import own_conf

from penstock import DStream, StreamingContext
from penstock.graph.dataframe_stream import DataFrameStream
from penstock.spark.spark_conf import entries_of

LINES = ["to be or not to be", "that is the question"]
#: A block that names one of these runs with Spark.
NEEDS_SPARK = re.compile(r"\b(sc|ssc|spark|SparkContext|StreamingContext)\b(?! import)")
_INTERVAL_S = 0.2


class _Shared(type):
    """Makes `SparkContext(...)` of a program return the one of the tests."""

    def __call__(cls, *args: Any, **more: Any) -> Any:
        return cls.make(*args, **more)  # type: ignore[attr-defined]

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, SparkContext)


class _Completed:
    """A listener that remembers how many records the completed batches had."""

    def __init__(self) -> None:
        self.num_records: list[int] = []

    def onBatchCompleted(self, batchCompleted: Any) -> None:  # as Spark spells it
        self.num_records.append(batchCompleted.batchInfo.numRecords)


class _Lines(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        with contextlib.suppress(OSError):
            while not self.server.ended.wait(0.05):  # type: ignore[attr-defined]
                self.wfile.write("".join(f"{line}\n" for line in LINES).encode())


@contextlib.contextmanager
def line_server() -> Iterator[int]:
    """The port of a server that sends lines, again and again."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Lines) as server:
        server.daemon_threads, server.ended = True, threading.Event()  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.ended.set()  # type: ignore[attr-defined]
            server.shutdown()
            thread.join()


class SparkBlocks:
    """Runs the blocks of one page, in order, with one set of names.

    Args:
        sc: of the tests; no block stops it.
        folder: an empty folder: what blocks read and write is below it.
        prelude: code for names that the page takes for granted.
        patch: undone after the page.
    """

    def __init__(self, sc: SparkContext, folder: Path, prelude: str, patch: pytest.MonkeyPatch) -> None:
        # `blocks` is this object, under the name that the functions below use for it.
        self._sc = sc
        self._folder = folder
        self._prelude = prelude
        self._patch = patch
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self._completed: dict[StreamingContext, _Completed] = {}
        self._ran = False
        self._shared = entries_of(sc)
        self._stop_unpatched = StreamingContext.stop
        self._start_unpatched = StreamingContext.start
        self._wait_unpatched = StreamingContext.awaitTerminationOrTimeout
        self._init_unpatched = StreamingContext.__init__
        blocks = self

        def make(made: StreamingContext, sparkContext: SparkContext, batchDuration: float, **more: Any) -> None:
            blocks._init_unpatched(made, sparkContext, min(batchDuration, _INTERVAL_S), **more)

        def start(ssc: StreamingContext) -> None:
            blocks._completed[ssc] = _Completed()
            ssc.addStreamingListener(blocks._completed[ssc])
            blocks._start_unpatched(ssc)

        def stop(ssc: StreamingContext, stopSparkContext: bool = True, *more: bool, **others: bool) -> None:
            blocks._stop_unpatched(ssc, False, *more, **others)

        patch.setattr(pyspark, "SparkContext", _Shared("SparkContext", (SparkContext,), {"make": self._configured}))
        patch.setattr(SparkContext, "stop", lambda _sc: None)
        patch.setattr(StreamingContext, "__init__", make)
        patch.setattr(StreamingContext, "start", start)
        patch.setattr(StreamingContext, "stop", stop)
        for name in ("awaitTermination", "awaitTerminationOrTimeout"):
            patch.setattr(StreamingContext, name, lambda ssc, _timeout=None: blocks._wait(ssc))
        patch.setattr("sys.argv", ["app.py", str(folder / "data")])
        patch.chdir(folder)

    def run(self, block: Block, port: int) -> None:
        """Run a block; a fragment's streams are printed for one batch.

        Args:
            block: a program or a fragment of one.
            port: of the server that it reads from.
        """
        text = self._here(block.text, port)
        (self._folder / "data" / "incoming").mkdir(parents=True, exist_ok=True)
        if not re.search(r"^ssc = |\bas ssc\b", text, re.MULTILINE):
            self.names |= {"sc": self._sc, "ssc": StreamingContext(self._sc, _INTERVAL_S)}
            exec(compile(self._here(self._prelude, port), "prelude", "exec"), self.names)
        before = {name: id(value) for name, value in self.names.items()}
        self._ran = False
        try:
            exec(compile("\n" * block.line + text, block.page, "exec"), self.names)
            if not self._ran:
                self._run_fragment({name for name, value in self.names.items() if before.get(name) != id(value)})
        finally:
            for ssc in [*self._completed, self.names.get("ssc")]:
                if isinstance(ssc, StreamingContext):
                    self._stop_unpatched(ssc, False)

    def _here(self, text: str, port: int) -> str:
        """Code with the addresses that there are here."""
        for name in set(re.findall(r'"([\w-]+\.txt)"', text)):
            (self._folder / name).write_text("".join(f"{line}\n" for line in LINES))
            text = text.replace(f'"{name}"', f'"{self._folder / name}"')
        # A relative path is one in the folder of the JVM.
        text = re.sub(r'(?<=\.checkpoint\(")(?=\w+"\))', f"{self._folder}/", text)
        return re.sub(
            r"""(?<=["'])(hdfs://|s3a:/)?/(?=[\w/-]+["'])""", f"{self._folder}/", text.replace("9999", str(port))
        )

    def _run_fragment(self, new: set[str]) -> None:
        ssc = self.names["ssc"]
        streams = [self.names[name] for name in sorted(new)]
        for stream in [] if graph_of(ssc).outputs else streams:
            if isinstance(stream, DStream | DataFrameStream):
                stream.pprint()
        if graph_of(ssc).outputs:
            ssc.start()
            ssc.awaitTermination()

    def _configured(self, *_args: Any, conf: SparkConf | None = None, **_more: Any) -> SparkContext:
        """The SparkContext of the tests, which says that it has this configuration, too."""
        own = conf.getAll() if conf else []
        self._patch.setattr(self._sc, "_conf", own_conf([*own, *self._shared.items()]))
        return self._sc

    def _wait(self, ssc: StreamingContext) -> bool:
        self._ran = True
        incoming = [self._folder / "data", self._folder / "data" / "incoming"]
        for each in incoming:
            (each / ".lines.txt").write_text("".join(f"{line}\n" for line in LINES))
            (each / ".lines.txt").rename(each / "lines.txt")
        found = self._completed[ssc].num_records
        # A queue does not count its records, and has one batch of them.
        few = 5 if all(type(each).__name__ == "QueueInputDStream" for each in graph_of(ssc).inputs) else 10**6
        wait_for(
            lambda: any(found) or len(found) >= few or self._wait_unpatched(ssc, 0),
            "a batch with records has completed",
        )
        return self._wait_unpatched(ssc, 0)  # raises if it failed
