"""The source of the programs that are killed: it sends numbers until they are acknowledged, and counts its repeats."""

from __future__ import annotations

import json
import os
import random
import socketserver
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

RECORDS_A_SEND = 20


class Source(socketserver.ThreadingTCPServer):
    """Sends each number to one receiver at a time, and again to the next one unless it was acknowledged.

    A receiver acknowledges a line of numbers with a line that begins with the last number plus 1.

    Args:
        seed: of the pauses between two sends.
    """

    allow_reuse_address = daemon_threads = True

    def __init__(self, seed: int | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.rng = random.Random(seed)
        self.lock = threading.Lock()
        self.acknowledged: set[int] = set()
        #: How often each number was sent.
        self.sends: Counter[int] = Counter()
        #: The sends whose acknowledgement never came: the numbers, and when the connection ended, monotonic.
        self.cut_off: list[tuple[list[int], float]] = []
        #: Once set, the connections send no more.
        self.paused = threading.Event()
        self._next = 0
        self._unacknowledged: list[list[int]] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return int(self.server_address[1])

    @property
    def resent(self) -> set[int]:
        """The numbers that were sent more than once."""
        return {number for number, sends in self.sends.items() if sends > 1}

    def take(self) -> list[int]:
        """The next numbers to send."""
        with self.lock:
            if self._unacknowledged:
                numbers = self._unacknowledged.pop()
            else:
                numbers = list(range(self._next, self._next + RECORDS_A_SEND))
                self._next += RECORDS_A_SEND
            self.sends.update(numbers)
            return numbers

    def return_unacknowledged(self, numbers: list[int]) -> None:
        """Have the next connection send numbers again."""
        with self.lock:
            self.cut_off.append((numbers, time.monotonic()))
            self._unacknowledged.append(numbers)

    def note(self, numbers: list[int], answer: list[str], sent: float) -> None:
        """Numbers that were sent at a time (monotonic) are acknowledged, by the words of a line."""
        with self.lock:
            self.acknowledged.update(numbers)

    def await_acknowledgement(self, timeout_s: float = 120) -> None:
        """Wait until another record is acknowledged."""
        before, deadline = len(self.acknowledged), time.monotonic() + timeout_s
        while len(self.acknowledged) == before:
            if time.monotonic() > deadline:
                raise SystemExit("FAILED: no record is acknowledged")
            time.sleep(0.01)


class _Connection(socketserver.StreamRequestHandler):
    server: Source

    def handle(self) -> None:
        while not self.server.paused.is_set():
            numbers, sent = self.server.take(), time.monotonic()
            try:
                self.wfile.write(json.dumps(numbers).encode() + b"\n")
                answer = self.rfile.readline()
            except OSError:
                answer = b""
            if not answer.endswith(b"\n"):
                self.server.return_unacknowledged(numbers)
                return
            self.server.note(numbers, answer.decode().split(), sent)
            time.sleep(self.server.rng.uniform(0.0, 0.06))
        with suppress(OSError):
            self.wfile.write(b"[]\n")
            self.rfile.readline()


def write_files(folder: Path, until: threading.Event, offset_s: Callable[[], int] = lambda: 0) -> None:
    """Put a file of two numbers into a folder twice a second; ``offset_s`` shifts their modification times."""
    first = 0
    while not until.wait(0.5):
        hidden = folder / ".next"
        hidden.write_text(f"{first}\n{first + 1}\n")
        modified_s = time.time() + offset_s()
        os.utime(hidden, (modified_s, modified_s))
        hidden.rename(folder / f"{first}.txt")
        first += 2
