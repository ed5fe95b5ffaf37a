"""A SparkContext that says nothing.

Owns its start: where the JVM's words go (to a file nobody sees, unless Spark does not start; some come from the JVM
itself, where no configuration of log4j can silence them), and what Ctrl-C does meanwhile. Called on the main thread.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import IO

from pyspark import SparkConf, SparkContext

from penstock.errors import PenstockError
from penstock.spark import failure

_LAST_LINES = 20


class SparkNotStartedError(PenstockError):
    """Spark did not start."""


def quiet_spark(pairs: Mapping[str, str], *, heard: bool = False) -> SparkContext:
    """Start Spark. Ctrl-C raises KeyboardInterrupt afterwards, and cancels no job as PySpark would have it.

    Args:
        pairs: its configuration.
        heard: leave the JVM its standard error.

    Raises:
        SparkNotStartedError: it did not start; the JVM's last words are on standard error.
        KeyboardInterrupt: Ctrl-C was pressed meanwhile.
    """
    settings = SparkConf().setAll(list(pairs.items()))
    with tempfile.TemporaryFile() as said, _HeldInterrupt() as interrupt:
        try:
            with contextlib.nullcontext() if heard else _standard_error_into(said):
                sc = SparkContext(conf=settings)
        except Exception as error:
            said.seek(0)
            for line in said.read().decode(errors="replace").splitlines()[-_LAST_LINES:]:
                print(line, file=sys.stderr)
            raise SparkNotStartedError(f"Spark did not start: {failure.reason(error)}") from error
        if interrupt.came:
            sc.stop()
            raise KeyboardInterrupt
        return sc


class _HeldInterrupt:
    """Holds Ctrl-C back, once: PySpark, interrupted while it waits for the JVM, leaves that behind for good."""

    came = False

    def __enter__(self) -> _HeldInterrupt:
        signal.signal(signal.SIGINT, self._hold)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def _hold(self, _signal: int, _frame: FrameType | None) -> None:
        if self.came:
            raise KeyboardInterrupt
        self.came = True


@contextlib.contextmanager
def _standard_error_into(file: IO[bytes]) -> Iterator[None]:
    """Standard error of this process, and for good that of the processes it starts meanwhile."""
    sys.stderr.flush()
    own = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(own, 2)
        os.close(own)
