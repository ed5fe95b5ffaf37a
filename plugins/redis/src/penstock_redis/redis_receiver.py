"""``RedisReceiver``: reads streams as one consumer of a group, and acknowledges entries once they are stored.

The receiver's thread reads, stores and acknowledges, one delivery after the other. ``GroupMonitor`` has a second thread
and connection.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import redis
from attrs import evolve
from redis.backoff import NoBackoff
from redis.retry import Retry

from penstock import SourceStatus, ThreadReceiver
from penstock_redis.consumer_group import ConsumerGroup, StreamLag
from penstock_redis.fetch_size import FetchSize
from penstock_redis.group_monitor import GroupMonitor
from penstock_redis.options import RedisOptions
from penstock_redis.server_errors import explained
from penstock_redis.sorted_delivery import SortedDelivery, sort
from penstock_redis.stored_ranges import StoredRanges, number_of, position_after
from penstock_redis.stream_entries import Delivery

# Maximum wait of a read for an entry. A stop, and entries to claim, wait for its end.
_BLOCK_MS = 250
# Maximum wait of a stop for the server's answer to the last acknowledgement.
_PATIENCE_S = 2.0


class RedisReceiver(ThreadReceiver[Any]):
    """Receives the entries of Redis streams through a consumer group.

    Args:
        options: server, group, streams and columns.
    """

    def __init__(self, options: RedisOptions) -> None:
        self._options = options
        self._client: redis.Redis | None = None
        # Totals of this launch, across restarts.
        self._redelivered = 0
        self._dead_letters = 0
        # The last entry that this launch has read from each stream.
        self._last_ids: dict[bytes, bytes] = {}
        self._size = FetchSize()
        # The number of undelivered entries that are known to be trimmed.
        self._trimmed: dict[bytes, int] = {}

    def receive(self) -> None:
        client, own_client = self._connect(), self._connect()
        self._client = client
        self._stored = StoredRanges(self.position)
        try:
            monitored = GroupMonitor(self._group(own_client), self._options.min_idle, self._on_lag)
            group = self._group(client)
            self._create(group)
            with monitored as monitor:
                self._keep_reading(group, monitor)
            group.leave()
        except redis.RedisError as error:
            raise explained(error, self._options) from error
        finally:
            client.close()
            own_client.close()

    def onStop(self) -> None:
        timer = threading.Timer(_PATIENCE_S, self._disconnect)
        timer.start()
        super().onStop()
        timer.cancel()

    def _disconnect(self) -> None:
        """Break the connection, for a server that does not answer."""
        if (client := self._client) is not None:
            client.connection_pool.disconnect()

    def _connect(self) -> redis.Redis:
        """A client, which connects at its first command. It retries none: a reply may be lost with its entries."""
        options = self._options
        return redis.Redis(
            options.host,
            options.port,
            options.database,
            username=options.username or None,
            password=options.password.read() if options.password else None,
            socket_timeout=options.timeout,
            socket_connect_timeout=options.timeout,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
            **self._tls(),
        )

    def _tls(self) -> dict[str, Any]:
        """The client's arguments for TLS; it makes a context of its own, with less telling errors."""
        options = self._options
        if options.ssl_context() is None:
            return {}
        return {
            "ssl": True,
            "ssl_ca_certs": options.tls_ca or None,
            "ssl_certfile": options.tls_certificate or None,
            "ssl_keyfile": options.tls_key or options.tls_certificate or None,
            "ssl_password": options.tls_key_password.read() if options.tls_key_password else None,
        }

    def _group(self, client: redis.Redis) -> ConsumerGroup:
        options = self._options
        consumer = options.consumer or f"{self.application_id}-{self.streamId}"
        return ConsumerGroup(client, options.group, consumer, options.stream_names)

    def _create(self, group: ConsumerGroup) -> None:
        """Create the groups that do not exist: at ``start``, or, if one was deleted, after the last entry read."""
        for stream in group.streams:
            start: str | bytes = self._options.start_id
            if stream in self._last_ids:
                last_id = self._last_ids[stream]
                start = last_id if number_of(last_id) <= number_of(group.newest_id(stream)) else "0-0"
            group.create(stream, start)
            self._last_ids[stream] = group.last_delivered_id(stream)

    def _keep_reading(self, group: ConsumerGroup, monitor: GroupMonitor) -> None:
        claim_at_s = time.monotonic()
        for delivery in self._own_pending(group):
            self._take_again(delivery, group, monitor)
        while not self.isStopped():
            if time.monotonic() >= claim_at_s:
                for delivery in self._claimed(group):
                    self._take_again(delivery, group, monitor)
                claim_at_s = time.monotonic() + self._options.min_idle / 2
            deliveries = group.read_new(max(1, self._count // len(group.streams)), _BLOCK_MS)
            self._last_ids |= {delivery.stream: delivery.ids[-1] for delivery in deliveries}
            self._take(deliveries, group, monitor)

    def _own_pending(self, group: ConsumerGroup) -> Iterator[Delivery]:
        """The entries that this consumer did not acknowledge before it was restarted or relaunched."""
        for stream in group.streams:
            after = b"0-0"
            while not self.isStopped() and (delivery := group.read_pending(stream, after, self._count)):
                after = max([*delivery.ids[-1:], *delivery.trimmed[-1:]], key=number_of)
                yield delivery

    def _claimed(self, group: ConsumerGroup) -> Iterator[Delivery]:
        """The entries that other consumers have not acknowledged for long."""
        for stream in group.streams:
            cursor, is_over = b"0-0", False
            while not self.isStopped() and not is_over:
                cursor, delivery = group.claim(stream, cursor, self._count, round(self._options.min_idle * 1000))
                is_over = cursor == b"0-0"
                yield delivery

    @property
    def _count(self) -> int:
        return self._size.count(self.fetch_hint(self._options.fetch_size))

    def _take_again(self, delivery: Delivery, group: ConsumerGroup, monitor: GroupMonitor) -> None:
        """Take entries that were delivered before. Those that a former run has stored are only acknowledged."""
        stored = delivery.where(lambda entry_id: self._stored.contains(delivery.stream, entry_id))
        self._redelivered += len(delivery.entries)
        if stored.entries:
            self._settle([sort(stored, self._options)], group)
            delivery = evolve(delivery.where(lambda entry_id: entry_id not in stored.counts), trimmed=delivery.trimmed)
        self._take([delivery], group, monitor)

    def _take(self, deliveries: Sequence[Delivery], group: ConsumerGroup, monitor: GroupMonitor) -> None:
        """Store entries, and acknowledge them."""
        for delivery in deliveries:
            self._size = self._size.after(delivery)
            if delivery.trimmed:
                self._report_trimmed(delivery)
        with monitor.holding(deliveries):
            by_fate = [sort(delivery, self._options) for delivery in deliveries]
            if tables := [table for each in by_fate for table in each.tables]:
                rows = [(each.stream, each.stored_ids) for each in by_fate]
                is_new = not any(delivery.counts for delivery in deliveries)
                position = partial(position_after, stored=rows) if is_new else None
                self.store_arrow(pa.concat_tables(tables), position)
            self._settle(by_fate, group)

    def _settle(self, by_fate: Sequence[SortedDelivery], group: ConsumerGroup) -> None:
        """Acknowledge stored entries, and move others to the dead-letter stream."""
        for each in by_fate:
            group.acknowledge(each.stream, [*each.trimmed, *each.stored_ids])
            if each.given_up:
                fields = {entry.entry_id: entry.fields for entry in each.given_up}
                group.give_up(each.stream, self._options.dead_letter, fields)
                self._dead_letters += len(fields)
            if each.message:
                self.reportError(each.message)

    def _report_trimmed(self, delivery: Delivery) -> None:
        self.reportError(
            f"{len(delivery.trimmed)} entries of stream {delivery.stream.decode()!r} are lost: after their delivery "
            f"they were trimmed or deleted, and nobody acknowledged them. The first is {delivery.trimmed[0].decode()}"
        )

    def _on_lag(self, lags: Mapping[bytes, StreamLag], held_s: float | None) -> None:
        """Report the status of the source. On the monitor's thread."""
        for stream, lag in lags.items():
            before = self._trimmed.get(stream, 0)
            self._trimmed[stream] = lag.trimmed
            if lag.trimmed > before:
                self.reportError(
                    f"{lag.trimmed - before} entries of stream {stream.decode()!r} are lost: they were trimmed before "
                    f"group {self._options.group!r} read them. Give the stream a larger MAXLEN"
                )
        messages = [lag.messages for lag in lags.values()]
        seconds = [lag.seconds for lag in lags.values()]
        self.report_source(
            SourceStatus(
                None if None in messages else sum(filter(None, messages)),
                None if None in seconds else max(filter(None, seconds), default=0.0),
                held_s,
                self._redelivered,
                self._dead_letters,
            )
        )
