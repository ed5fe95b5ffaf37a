"""``EventSender``: sends events to a server or a file, on its own thread, and never delays the program."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from http.client import HTTPMessage
from pathlib import Path
from typing import IO, Self
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from penstock.spi import EngineThread, get_logger, text_of
from penstock_openlineage.options import OpenLineageOptions

log = get_logger("openlineage")

#: Events that wait; the oldest is dropped when there are more.
MOST_WAITING = 100
# Delay before the second attempt; doubles for each further one, up to the longest.
_FIRST_DELAY_S, _LONGEST_DELAY_S = 1.0, 60.0
_ENDPOINT = "/api/v1/lineage"
# The server may accept the event later: request timeout, too many requests, and its own errors.
_TEMPORARY = {408, 429, *range(500, 600)}


class EventRefusedError(Exception):
    """The server does not accept an event, and will not later."""


class EventSender:
    """Sends events in order. Retries while the destination fails, and counts events that it drops.

    Args:
        deliver: sends one event; raises ``EventRefusedError`` for one that will never be accepted, or another error.
        destination: names the destination in the log, without secrets.
        timeout_s: the longest time that one delivery takes, and that ``close`` waits for another one.
        first_delay_s: delay before the second attempt.

    Attributes:
        dropped: number of events that were dropped.
    """

    def __init__(
        self,
        deliver: Callable[[bytes], None],
        destination: str,
        timeout_s: float,
        first_delay_s: float = _FIRST_DELAY_S,
    ) -> None:
        self._deliver = deliver
        self._destination = destination
        self._timeout_s = timeout_s
        self._first_delay_s = first_delay_s
        self._waiting: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._reason = ""
        self._thread = EngineThread("penstock-openlineage", self._run)
        self.dropped = 0

    @classmethod
    def of(cls, options: OpenLineageOptions) -> Self:
        """The sender to the destination that the options name."""
        if options.file:
            return cls(partial(_append, Path(options.file)), options.file, options.timeout)
        url = options.url if urlsplit(options.url).path.strip("/") else options.url.rstrip("/") + _ENDPOINT
        return cls(partial(_post, url, options.token, options.timeout), url, options.timeout)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def take(self, event: bytes) -> None:
        """Queue an event; returns at once."""
        with self._changed:
            self._waiting.append(event)
            if len(self._waiting) > MOST_WAITING:
                self._waiting.popleft()
                self.dropped += 1
            self._changed.notify_all()

    def close(self) -> None:
        """Try once more to send what waits, and log how many events were dropped. May be called again."""
        if self._closing.is_set():
            return
        self._closing.set()
        with self._changed:
            self._changed.notify_all()
        # One attempt may be in progress.
        self._thread.finish(2 * self._timeout_s)
        with self._changed:
            self.dropped += len(self._waiting)
            self._waiting.clear()
        if self.dropped:
            log.warning(
                "lineage events dropped", dropped=self.dropped, destination=self._destination, reason=self._reason
            )

    def _run(self) -> None:
        delay_s = self._first_delay_s
        while (event := self._next()) is not None:
            is_last = self._closing.is_set()
            try:
                self._deliver(event)
                delay_s = self._first_delay_s
            except EventRefusedError as error:
                self._reason = str(error)
                with self._changed:
                    self.dropped += 1
            except Exception as error:
                self._reason = text_of(error)
                self._put_back(event)
                if is_last:
                    return
                log.warning(
                    "lineage event not sent, retrying",
                    destination=self._destination,
                    reason=self._reason,
                    waiting=len(self._waiting),
                    dropped=self.dropped,
                    throttle_s=3600,
                )
                self._closing.wait(delay_s)
                delay_s = min(2 * delay_s, _LONGEST_DELAY_S)

    def _next(self) -> bytes | None:
        """The oldest event that waits; ``None`` when there is none and the sender closes."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing.is_set())
            return self._waiting.popleft() if self._waiting else None

    def _put_back(self, event: bytes) -> None:
        with self._changed:
            if len(self._waiting) < MOST_WAITING:
                self._waiting.appendleft(event)
            else:
                self.dropped += 1


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects, which would send the token to another host."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


def _post(url: str, token: str, timeout_s: float, event: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    try:
        with build_opener(_NoRedirects).open(Request(url, event, headers, method="POST"), timeout=timeout_s):
            pass
    except HTTPError as error:
        with error:
            if error.code in _TEMPORARY:
                raise OSError(f"the server answered {error.code} {error.reason}") from None
            raise EventRefusedError(f"the server answered {error.code} {error.reason}") from None


def _append(path: Path, event: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Error texts may contain records.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "ab") as file:
        file.write(event + b"\n")
