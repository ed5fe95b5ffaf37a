"""``BrokerServer``: a broker as a child process, for tests, the fault lab and the demonstration of a receiver."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self

from penstock import PenstockError

_PORT_ATTEMPTS = 3
_STOP_S = 10.0
_POLL_S = 0.01
_LOG_LINES = 20


class BrokerServerError(PenstockError):
    """A broker did not start; the message has the last lines of its log."""


def free_port() -> int:
    """A TCP port of the loopback interface that nobody uses now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class BrokerServer(ABC):
    """A broker on this machine, with a port of its own on the loopback interface and a temporary folder of its own.

    A ``with`` block starts it, and removes everything in the end. Write ``command`` and ``answers``. Not thread-safe.

    Attributes:
        name: name of the broker, for messages.
        start_timeout_s: how long ``start`` waits until the broker answers.
        port: the same for all starts.
        folder: directory of data, log and configuration.
    """

    name: ClassVar[str]
    start_timeout_s: ClassVar[float] = 30.0

    def __init__(self) -> None:
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix=f"penstock-{self.name.lower()}-"))
        self._process: subprocess.Popen[bytes] | None = None
        # Both also run at the end of this process, if nobody has closed the server.
        self._remove = weakref.finalize(self, _remove, self.folder, os.getpid())
        self._kill: Callable[[], object] = lambda: None

    @abstractmethod
    def command(self) -> Sequence[str | Path]:
        """The program and its arguments: listen on ``port`` of 127.0.0.1 only, and store data in ``data``."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether a client gets an answer. May raise ``OSError``, which means that it does not."""

    def environment(self) -> Mapping[str, str]:
        """Further environment variables of the broker."""
        return {}

    @property
    def data(self) -> Path:
        """The folder of the broker's data, which ``restart(keep_data=False)`` empties."""
        return self.folder / "data"

    @property
    def pid(self) -> int:
        """The id of the broker's process.

        Raises:
            BrokerServerError: it does not run.
        """
        if self._process is None:
            raise BrokerServerError(f"{self.name} does not run")
        return self._process.pid

    @property
    def log(self) -> str:
        """The output of the broker."""
        path = self.folder / "log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def start(self) -> None:
        """Start the broker and wait until it answers. A broker that runs is left as it is.

        Raises:
            BrokerServerError: it ended, or did not answer in time.
        """
        is_first = not self.data.exists()
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            try:
                self._start()
                return
            except BrokerServerError:
                self.kill()
                # Another process may have taken the port since. Later starts have clients that know it.
                if not is_first or attempt == _PORT_ATTEMPTS:
                    raise
                self.port = free_port()

    def stop(self) -> None:
        """Ask the broker to end, and wait until it has; after 10 s it is killed."""
        self._finish(signal.SIGTERM)

    def kill(self) -> None:
        """End the broker at once, as a crash does (SIGKILL)."""
        self._finish(signal.SIGKILL)

    def suspend(self) -> None:
        """Stop the broker in the middle of its work; connections stay open, and nothing answers (SIGSTOP)."""
        os.killpg(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Continue a suspended broker."""
        os.killpg(self.pid, signal.SIGCONT)

    def restart(self, *, keep_data: bool = True) -> None:
        """Stop the broker, unless it has ended, and start it again on the same port."""
        self.stop()
        if not keep_data:
            shutil.rmtree(self.data, ignore_errors=True)
            self.data.mkdir()
        self.start()

    def close(self) -> None:
        """Kill the broker and remove its folder. Idempotent."""
        self.kill()
        self._remove()

    def _start(self) -> None:
        if self._process is not None:
            return
        self.data.mkdir(exist_ok=True)
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [os.fspath(part) for part in self.command()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env={**os.environ, **self.environment()},
                # Its own process group: signals reach its children, and Ctrl-C does not reach it.
                start_new_session=True,
            )
        self._kill = weakref.finalize(self, _kill, self._process, os.getpid())
        deadline = time.monotonic() + self.start_timeout_s
        while not self._answers():
            if _has_ended(self._process):
                raise self._failed("ended")
            if time.monotonic() > deadline:
                raise self._failed(f"did not answer within {self.start_timeout_s:g} s")
            time.sleep(_POLL_S)

    def _answers(self) -> bool:
        with contextlib.suppress(OSError):
            return self.answers()
        return False

    def _failed(self, what: str) -> BrokerServerError:
        lines = self.log.splitlines()[-_LOG_LINES:] or ["it has printed nothing"]
        return BrokerServerError(f"{self.name} {what}: " + "\n".join(lines))

    def _finish(self, by: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, by)
            os.killpg(process.pid, signal.SIGCONT)
        deadline = time.monotonic() + _STOP_S
        while not _has_ended(process) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        # Children may outlive the process that was asked to end.
        self._kill()


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the process has ended. Its id stays its own until it is waited for."""
    if process.returncode is not None:
        return True
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _kill(process: subprocess.Popen[bytes], owner: int) -> None:
    # A forked child of the owner runs the same finalizers.
    if os.getpid() == owner:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
