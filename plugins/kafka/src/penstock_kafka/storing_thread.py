"""``StoringThread``: stores batches in order while the receiver's thread keeps its membership of the group."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue

from penstock.spi import EngineThread


class StoringThread:
    """Runs calls in order. After one has failed, the others fail with its error: nothing is stored after a gap."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Callable[[], object], Future[None]] | None] = SimpleQueue()
        self._failure: BaseException | None = None
        self._thread = EngineThread("kafka storing", self._run)
        self._thread.start()

    def submit(self, call: Callable[[], object]) -> Future[None]:
        """Run a call after the earlier ones."""
        outcome: Future[None] = Future()
        self._calls.put((call, outcome))
        return outcome

    def finish(self, timeout_s: float) -> bool:
        """Wait until every call has ended, and end the thread; return whether it has."""
        self._calls.put(None)
        return self._thread.finish(timeout_s)

    def _run(self) -> None:
        while (item := self._calls.get()) is not None:
            call, outcome = item
            try:
                if self._failure is not None:
                    raise self._failure
                call()
            except BaseException as error:
                self._failure = error
                outcome.set_exception(error)
            else:
                outcome.set_result(None)
