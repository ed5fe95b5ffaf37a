"""The reference listeners pass every check, also in PySpark's style."""

from __future__ import annotations

from collections import deque

from pyspark.streaming import StreamingListener
from tests.mutants import listener

from penstock import ListenerContext
from penstock_testing import run_checks


def test_reference_listener_passes_every_check() -> None:
    report = run_checks("listener", listener.exports(), capabilities=listener.EXPORTS)
    assert report.ok, report.text()
    assert report.grade == "hardened"


class PySparkListener(StreamingListener):
    """Reads events as PySpark's listeners do."""

    def __init__(self, _context: ListenerContext) -> None:
        super().__init__()
        self.delays: deque[int] = deque(maxlen=100)

    def onBatchCompleted(self, batchCompleted: object) -> None:
        info = batchCompleted.batchInfo()  # type: ignore[attr-defined]  # a view
        self.delays.append(info.processingDelay() + info.batchTime().milliseconds())


def test_pyspark_listener_passes_every_check_that_is_applicable() -> None:
    report = run_checks("listener", PySparkListener)
    assert report.ok, report.text()
