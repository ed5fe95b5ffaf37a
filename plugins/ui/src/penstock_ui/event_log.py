"""The event log: writes the metrics store's events as JSON lines to any file system, and replays them.

Each file begins with a description of the application and the counts so far. It can therefore be read without older
files, which are deleted when there are too many, as are the logs of applications that have ended. A file that a crash
truncated is read up to the truncation.
"""

from __future__ import annotations

import json
import math
import queue
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from attrs import frozen

from penstock import ConfigurationError
from penstock.spi import Appender, Directory, get_logger, printable, structure, text_of, unstructure
from penstock_ui.own_events import KINDS, ApplicationDescribed, Taken
from penstock_ui.snapshot import Snapshot
from penstock_ui.store import Limits, MetricsStore

log = get_logger("event_log")

_NAME = re.compile(r"events-(?P<app>.+)\.(?P<number>\d{6,})\.jsonl")
_ILLEGAL = re.compile(r"[^A-Za-z0-9._-]+")
_WAITING = 10_000
_RETRY_S = 1.0
_CLOSE_S = 5.0
# An application whose log changed this recently may still run: an event is logged for every batch.
_MAY_RUN_S = 24 * 3600.0
# An error message lists at most this many applications.
_MOST_NAMED = 10
# When the log closes, failed writes are retried for this long.
_RETRY_UNTIL_S = 4.0
# A file system without append gets the whole file again after changes: at most this often, and at this many bytes/s.
_PUT_EVERY_S = 10.0
_PUT_BYTES_PER_S = 1_000_000


def encode(event: Taken) -> bytes:
    """Encode an event as one line."""
    value = {"event": type(event).__name__, **unstructure(event)}
    return printable(json.dumps(value, separators=(",", ":"), default=str, ensure_ascii=False)).encode() + b"\n"


def decode(line: bytes) -> Taken:
    """Decode an event from its line.

    Raises:
        ValueError: the line is not an event.
    """
    try:
        value = json.loads(line)
        kind = KINDS[value.pop("event")]
        event: Taken = structure(value, kind, is_open=True)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise ValueError(f"not an event: {text_of(error)}") from None
    return event


@frozen(kw_only=True)
class Retention:
    """The retention of a directory of event logs.

    Attributes:
        max_files: files of one application.
        max_applications: applications.
        max_age_s: seconds since an ended application's log last changed.
    """

    max_files: int = 10
    max_applications: int = 1000
    max_age_s: float = 90 * 86400.0

    def expired(self, changed_s: Mapping[str, float], now_s: float) -> list[str]:
        """The applications whose logs are to be deleted, oldest first.

        Args:
            changed_s: when each application's log last changed, in seconds since the epoch.
            now_s: the time.
        """
        oldest_first = sorted(changed_s, key=lambda application: (changed_s[application], application))
        surplus = max(len(oldest_first) - self.max_applications, 0)
        return [
            application
            for number, application in enumerate(oldest_first)
            if (age_s := now_s - changed_s[application]) > _MAY_RUN_S and (number < surplus or age_s > self.max_age_s)
        ]


class EventLog:
    """Writes the event log of one application, on its own thread.

    ``take`` never blocks. At most 10,000 events wait to be written; beyond that the oldest are dropped.

    Args:
        directory: location of all event logs.
        application_id: names the files.
        max_file_size: bytes after which the log continues in a new file.
        retention: retention of the directory; applied whenever a file begins.
        retry_s: seconds between two attempts to write.
    """

    def __init__(
        self,
        directory: str,
        application_id: str,
        max_file_size: int = 16 << 20,
        retention: Retention | None = None,
        retry_s: float = _RETRY_S,
    ) -> None:
        self._directory = Directory.of(directory)
        self._application = _ILLEGAL.sub("_", application_id) or "application"
        self._max_file_size = max_file_size
        self._retention = retention or Retention()
        self._retry_s = retry_s
        self._events: queue.Queue[Taken | None] = queue.Queue()
        self._stopping = threading.Event()
        # The state after the written events; the next file begins with its counts.
        self._replica = MetricsStore(Limits(batches=1, details=1, rate_changes=1))
        self._described: ApplicationDescribed | None = None
        self._appender: Appender | _WholeFile | None = None
        self._size = 0
        self._is_failing = False
        self._thread = threading.Thread(target=self._run, name="penstock-event-log", daemon=True)
        #: Events that were lost because the log could not be written.
        self.dropped = 0

    def start(self) -> None:
        """Start the writer thread."""
        self._thread.start()

    def take(self, event: Taken) -> None:
        """Queue an event for writing; returns at once."""
        if isinstance(event, ApplicationDescribed):
            # Written at the start of every file, so it is not queued and cannot be dropped.
            self._described = event
            return
        self._events.put(event)
        if self._events.qsize() > _WAITING:
            with suppress(queue.Empty):
                self._events.get_nowait()
                self.dropped += 1

    def close(self) -> None:
        """Write the queued events and close the file; waits at most 5 s."""
        self._events.put(None)
        if self._thread.is_alive():
            timer = threading.Timer(_RETRY_UNTIL_S, self._stopping.set)
            timer.daemon = True
            timer.start()
            self._thread.join(_CLOSE_S)
            timer.cancel()

    def _run(self) -> None:
        ended = False
        while not ended:
            taken = self._next()
            ended = None in taken
            self._write([event for event in taken if event is not None])
        self._close_file()

    def _next(self) -> list[Taken | None]:
        """The next queued events.

        Returns an empty list after a second where files are written whole, so that an outdated file is written again.
        """
        try:
            taken = [self._events.get(timeout=None if self._directory.can_append else 1.0)]
        except queue.Empty:
            return []
        while len(taken) < 1000 and not self._events.empty():
            taken.append(self._events.get())
        return taken

    def _write(self, events: list[Taken]) -> None:
        """Write events, retrying until it succeeds or the log closes."""
        while True:
            try:
                self._append(events)
            except (OSError, ValueError) as error:
                # Some of the events may be in the file already. The next attempt begins a new file.
                if self._directory.can_append:
                    self._close_file()
                if not self._is_failing:
                    self._is_failing = True
                    log.error("event log not written", directory=self._directory.location(), reason=text_of(error))
                if self._stopping.wait(self._retry_s):
                    self.dropped += len(events)
                    return
                continue
            if self._is_failing:
                self._is_failing = False
                log.warning("event log written again", directory=self._directory.location(), dropped=self.dropped)
            return

    def _append(self, events: list[Taken]) -> None:
        """Write events, and remove the written ones from the list."""
        if not events and self._appender is not None:
            self._appender.commit()
        while events:
            appender = self._file()
            size, lines = self._size, list[bytes]()
            for event in events:
                lines.append(encode(event))
                size += len(lines[-1])
                if size >= self._max_file_size:
                    break
            appender.write(b"".join(lines))
            appender.commit()
            self._size = size
            for event in events[: len(lines)]:
                self._replica.apply(event)
            del events[: len(lines)]
            if self._size >= self._max_file_size:
                self._close_file()

    def _file(self) -> Appender | _WholeFile:
        """The file to append to. A new file begins with the description and the counts so far."""
        if self._appender is None:
            numbers = _by_application(self._directory.names()).get(self._application, [])
            number = 1 + max((int(number) for number, _name in numbers), default=0)
            name = f"events-{self._application}.{number:06}.jsonl"
            head = b"" if self._described is None else encode(self._described)
            if self._replica.version:
                head += encode(self._replica.counts())
            self._size = len(head)
            if self._directory.can_append:
                self._appender = appender = self._directory.append(name)
                appender.write(head)
            else:
                self._appender = _WholeFile(self._directory, name, head)
            for _number, name in numbers[: len(numbers) + 1 - self._retention.max_files]:
                self._directory.delete(name)
            self._delete_expired()
        return self._appender

    def _delete_expired(self) -> None:
        """Delete the logs of other applications that have ended; an error must not stop this one."""
        try:
            times = self._directory.changed_s()
            logs = _by_application(times)
            logs.pop(self._application, None)
            changed_s = {app: max(times[name] for _number, name in names) for app, names in logs.items()}
            for application in self._retention.expired(changed_s, time.time()):
                for _number, name in logs[application]:
                    self._directory.delete(name)
                log.info("event log deleted", directory=self._directory.location(), application_id=application)
        except OSError as error:
            log.warning(
                "event logs not deleted",
                directory=self._directory.location(),
                reason=text_of(error),
                throttle_s=3600,
            )

    def _close_file(self) -> None:
        appender, self._appender = self._appender, None
        if appender is not None:
            try:
                appender.close()
            except OSError as error:
                log.warning("event log file not closed", reason=text_of(error), throttle_s=60)


class _WholeFile:
    """A file on storage without append: every ``commit`` that is due writes the whole file again."""

    def __init__(self, directory: Directory, name: str, head: bytes) -> None:
        self._directory = directory
        self._name = name
        self._data = bytearray(head)
        self._committed_bytes = len(head)
        self._put_bytes = 0
        self._put_at = -math.inf

    def write(self, data: bytes) -> None:
        self._data += data

    def commit(self) -> None:
        """Write the file if it is due.

        Raises:
            OSError: the file cannot be written; data added since the last commit is discarded.
        """
        period_s = max(_PUT_EVERY_S, len(self._data) / _PUT_BYTES_PER_S)
        if time.monotonic() - self._put_at >= period_s:
            try:
                self._put()
            except OSError:
                del self._data[self._committed_bytes :]
                raise
        self._committed_bytes = len(self._data)

    def close(self) -> None:
        """Write the file if it has changed."""
        self._put()

    def _put(self) -> None:
        if self._put_bytes != len(self._data):
            self._directory.write(self._name, bytes(self._data))
            self._put_bytes = len(self._data)
            self._put_at = time.monotonic()


def _by_application(names: Iterable[str]) -> dict[str, list[tuple[str, str]]]:
    """The files of each application: pairs of number and name, in order."""
    files: dict[str, list[tuple[str, str]]] = {}
    for name in names:
        if (parts := _NAME.fullmatch(name)) is not None:
            files.setdefault(parts["app"], []).append((parts["number"], name))
    return {app: sorted(numbered, key=lambda pair: int(pair[0])) for app, numbered in files.items()}


@frozen
class History:
    """An event log that was read: the source of one snapshot.

    Attributes:
        state: the application's state after the last event.
        events: number of events read.
        damaged: lines that are not events: the end of a truncated file, or damage.
    """

    state: Snapshot
    events: int = 0
    damaged: int = 0

    def snapshot(self) -> Snapshot:
        return self.state


def read_history(location: str, application_id: str = "", limits: Limits | None = None) -> History:
    """Read the event log of an application.

    Args:
        location: the directory of event logs, or one file in it; a file selects its application.
        application_id: which application; required when the directory contains several.
        limits: the limits of the store.

    Raises:
        ConfigurationError: there is no such log, or the directory contains several and none was chosen.
        OSError: the log cannot be read.
    """
    return replay(files_of(location, application_id), limits)


def files_of(location: str, application_id: str = "") -> Iterator[bytes]:
    """The contents of an application's event log files, oldest first; raises as ``read_history`` does."""
    folder, _, last = location.rstrip("/").rpartition("/")
    directory = Directory.of(location)
    if (parts := _NAME.fullmatch(last)) is not None:
        directory, application_id = Directory.of(folder or "."), parts["app"]
    logs = _by_application(directory.names())
    wanted = _ILLEGAL.sub("_", application_id)
    if not logs:
        raise ConfigurationError(
            f"no event log in {directory.location()}: its files are named events-*.jsonl. Name the directory "
            "of spark.penstock.eventLog.dir"
        )
    if wanted and wanted not in logs:
        raise ConfigurationError(
            f"no event log of {application_id!r} in {directory.location()}; there is {_named(logs)}"
        )
    if not wanted and len(logs) > 1:
        raise ConfigurationError(
            f"{directory.location()} has several event logs: choose one with --app: {_named(logs)}"
        )
    names = [name for _number, name in logs[wanted or next(iter(logs))]]
    return (directory.read(name) for name in names)


def _named(logs: Iterable[str]) -> str:
    """The newest applications, for messages; there may be thousands."""
    names = sorted(logs, reverse=True)
    return ", ".join(names[:_MOST_NAMED]) + f" and {len(names) - _MOST_NAMED} more" * (len(names) > _MOST_NAMED)


def replay(files: Iterable[bytes], limits: Limits | None = None) -> History:
    """Build the state from the contents of event log files."""
    store = MetricsStore(limits)
    events = damaged = 0
    for event in events_of(files):
        if event is None:
            damaged += 1
        else:
            store.apply(event)
            events += 1
    store.ended()
    return History(store.snapshot(), events, damaged)


def events_of(files: Iterable[bytes]) -> Iterator[Taken | None]:
    """The events in the contents of event log files; ``None`` for a line that is not an event."""
    for content in files:
        for line in content.split(b"\n"):
            if line.strip():
                try:
                    yield decode(line)
                except ValueError:
                    yield None
