"""``LineProducer``: sends lines of words to a broker, for the demonstration of its receiver."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Self

from penstock.spi import EngineThread

_INTERVAL_S = 0.05
_WORDS_PER_LINE = 10
_WORDS = (
    *("amber", "barley", "canal", "delta", "estuary", "flume", "gate", "harbour", "island", "jetty", "kelp", "lagoon"),
    *("mill", "north", "oxbow", "pond", "quay", "river", "sluice", "tide", "upstream", "valley", "weir", "yarrow"),
)


class LineProducer:
    """Sends lines at a rate, on a thread of its own, inside a ``with`` block.

    Args:
        send: sends lines, and may take as long as it likes. Its error ends the producer, and leaving the block raises
            it.
        rate: lines per second.
        seed: the same seed gives the same lines.
    """

    def __init__(self, send: Callable[[Sequence[str]], object], rate: float, seed: int | None = None) -> None:
        self._send = send
        self._rate = rate
        self._rng = random.Random(seed)
        self._ended = threading.Event()
        self._error: Exception | None = None
        self._thread = EngineThread("line producer", self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        self._ended.set()
        self._thread.finish()
        if self._error is not None and kind is None:
            raise self._error

    def _run(self) -> None:
        began_s, sent = monotonic(), 0
        try:
            while not self._ended.wait(_INTERVAL_S):
                due = int((monotonic() - began_s) * self._rate)
                if due > sent:
                    self._send([" ".join(self._rng.choices(_WORDS, k=_WORDS_PER_LINE)) for _ in range(due - sent)])
                    sent = due
        except Exception as error:
            self._error = error
