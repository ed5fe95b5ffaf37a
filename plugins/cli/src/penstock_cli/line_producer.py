"""``LineProducer``: sends lines of words to the source of a demonstration."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Self

from penstock import PenstockError
from penstock.spi import EngineThread, summary_of

_INTERVAL_S = 0.05
# One call sends at most this many lines, so that it ends soon and fits into a broker's limits.
_MOST_LINES = 10_000
_WORDS_PER_LINE = 10
_WORDS = (
    *("amber", "barley", "canal", "delta", "estuary", "flume", "gate", "harbour", "island", "jetty", "kelp", "lagoon"),
    *("mill", "north", "oxbow", "pond", "quay", "river", "sluice", "tide", "upstream", "valley", "weir", "yarrow"),
)

#: Sends lines, and returns when the source has them.
SendLines = Callable[[Sequence[str]], object]


class LineProducer:
    """Sends lines at a rate, on a thread of its own, inside a ``with`` block and from ``begin`` on.

    It rests at least as long as it sends: a slow source gets fewer lines, and the processor is free for the stream.

    Args:
        send: its error ends the producer.
        rate: lines per second.
        seed: the same seed gives the same lines.
    """

    def __init__(self, send: SendLines, rate: float, seed: int | None = None) -> None:
        self._send = send
        self._rate = rate
        self._rng = random.Random(seed)
        self._begun = threading.Event()
        self._ended = threading.Event()
        self._error: Exception | None = None
        self._thread = EngineThread("line producer", self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self._begun.set()
        self._thread.finish()

    def begin(self) -> None:
        """Send from now on. Idempotent, thread-safe."""
        self._begun.set()

    def check(self) -> None:
        """Raise the error of ``send``.

        Raises:
            PenstockError: the producer has ended, because lines could not be sent.
        """
        if self._error is not None:
            raise PenstockError(f"the demonstration could not send lines: {summary_of(self._error)}") from self._error

    def _run(self) -> None:
        self._begun.wait()
        looked_s, due, rest_s = monotonic(), 0.0, _INTERVAL_S
        try:
            while not self._ended.wait(rest_s):
                elapsed_s, looked_s = monotonic() - looked_s, monotonic()
                due = min(due + elapsed_s * self._rate, _MOST_LINES)
                if count := int(due):
                    due -= count
                    self._send([" ".join(self._rng.choices(_WORDS, k=_WORDS_PER_LINE)) for _ in range(count)])
                rest_s = max(_INTERVAL_S, monotonic() - looked_s)
        except Exception as error:
            self._error = error
