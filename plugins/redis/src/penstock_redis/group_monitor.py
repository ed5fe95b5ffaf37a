"""``GroupMonitor``: extends the leases of held entries, and reports the lag, while the receiver waits in a store."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import redis
from attrs import evolve, frozen

from penstock.spi import get_logger, text_of
from penstock_redis.consumer_group import ConsumerGroup, StreamLag
from penstock_redis.stream_entries import Delivery

log = get_logger("redis")

_INTERVAL_S = 1.0


@frozen
class _Held:
    """Entries that the receiver has read and not acknowledged."""

    deliveries: Sequence[Delivery]
    since_s: float
    extended_s: float


class GroupMonitor:
    """Runs on a thread and a connection of its own.

    An entry whose idle time reaches ``min_idle_s`` is claimed by another consumer. While the rate limit holds the
    entries in a store, this thread resets their idle time. After a suspension of this process that was longer, the
    entries may belong to another consumer: they are not extended any more, which would take them back.

    Args:
        group: the consumer, with a client of its own.
        min_idle_s: the idle time after which consumers of the group claim an entry.
        on_lag: called once per second with the lag of each stream, and the seconds for which the oldest entry is held.
    """

    def __init__(
        self,
        group: ConsumerGroup,
        min_idle_s: float,
        on_lag: Callable[[dict[bytes, StreamLag], float | None], None],
    ) -> None:
        self._group = group
        self._min_idle_s = min_idle_s
        self._on_lag = on_lag
        self._held: _Held | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock redis monitor", daemon=True)

    def __enter__(self) -> GroupMonitor:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        # Wakes a read of a server that does not answer.
        self._group.client.connection_pool.disconnect()
        self._thread.join()

    @contextmanager
    def holding(self, deliveries: Sequence[Delivery]) -> Iterator[None]:
        """Extend the entries of these deliveries, which came a moment ago, until the block ends."""
        now_s = time.monotonic()
        with self._lock:
            self._held = _Held(deliveries, now_s, now_s)
        try:
            yield
        finally:
            with self._lock:
                self._held = None

    def _run(self) -> None:
        while not self._ended.wait(min(_INTERVAL_S, self._min_idle_s / 4)):
            try:
                self._extend()
                self._report()
            except redis.RedisError as error:
                # The receiver's own connection fails as well, and it reports that.
                log.debug("group not monitored", reason=text_of(error))
        self._group.client.close()

    def _extend(self) -> None:
        with self._lock:
            held = self._held
        now_s = time.monotonic()
        if held is None or not is_due(now_s - held.extended_s, self._min_idle_s):
            return
        for delivery in held.deliveries:
            if delivery.entries:
                self._group.extend(delivery.stream, delivery.ids)
        with self._lock:
            # The answer comes after the extension.
            if self._held is held:
                self._held = evolve(held, extended_s=now_s)

    def _report(self) -> None:
        lags = {stream: self._group.lag(stream) for stream in self._group.streams}
        held = self._held
        self._on_lag(lags, None if held is None else time.monotonic() - held.since_s)


def is_due(idle_s: float, min_idle_s: float) -> bool:
    """Whether to extend entries after this idle time: not too often, and not once another consumer may have them."""
    return min_idle_s / 3 <= idle_s < min_idle_s
