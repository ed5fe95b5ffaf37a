"""``RabbitReceiver``: stores the messages of a queue, and acknowledges them once they are stored."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock import SourceStatus, ThreadReceiver
from penstock_brokers import DeadLetter, is_far_from, readable
from penstock_rabbitmq.dead_letter_queue import publish_dead_letters
from penstock_rabbitmq.message_columns import RabbitDelivery, column_reader
from penstock_rabbitmq.rabbit_options import RabbitOptions
from penstock_rabbitmq.rabbit_session import MAX_BUFFERED_BYTES, RabbitSession

# An idle receiver reports its status this often.
_IDLE_S = 1.0


class RabbitReceiver(ThreadReceiver[Any]):
    """Receives messages.

    Args:
        options: the broker, the queue and the form of records.
    """

    def __init__(self, options: RabbitOptions) -> None:
        self._options = options
        self._session: RabbitSession | None = None
        # Counts of this launch, without the current session.
        self._redelivered = 0
        self._dead_letters = 0
        # The mean size of the last messages.
        self._message_bytes = 1.0

    def receive(self) -> None:
        with RabbitSession(self._options, self._prefetch()) as session:
            self._session = session
            # A stop that came before has found no session.
            if self.isStopped():
                return
            try:
                session.open()
                self._store_messages(session)
            finally:
                self._redelivered += session.redelivered

    def onStop(self) -> None:
        if self._session is not None:
            self._session.interrupt()
        super().onStop()

    def _prefetch(self) -> int:
        """Maximum number of unacknowledged messages: half of them are stored while the others are on their way."""
        most = min(self._options.prefetch, int(MAX_BUFFERED_BYTES / self._message_bytes))
        return max(2, min(most, 2 * self.fetch_hint(self._options.prefetch)))

    def _store_messages(self, session: RabbitSession) -> None:
        linger_s = self.block_interval_ms / 1000
        table_of = column_reader(self._options.columns, self._options.value_as)
        # Whether a message of this channel stays unacknowledged, so that no later tag may cover it.
        has_gap = False
        while not self.isStopped():
            most = max(1, min(self.fetch_hint(session.prefetch), session.prefetch // 2))
            deliveries = session.buffer.take(most, linger_s, _IDLE_S)
            self._report_status(session, deliveries)
            if deliveries:
                self._message_bytes = max(1.0, sum(each.size_bytes for each in deliveries) / len(deliveries))
                left = self._store(deliveries, table_of)
                tags = [each.message.method.delivery_tag for each in deliveries]
                has_gap = has_gap or bool(left)
                if has_gap:
                    session.acknowledge_each([tag for index, tag in enumerate(tags) if index not in left])
                else:
                    session.acknowledge(tags[-1])
                self._report_status(session, [])
            if is_far_from(session.prefetch, self._prefetch()):
                session.change_prefetch(self._prefetch())

    def _store(self, deliveries: Sequence[RabbitDelivery], table_of: Any) -> set[int]:
        """Store messages and dispose of dead letters; return the positions of those not to acknowledge."""
        options = self._options
        letters: dict[int, DeadLetter] = {}
        for index, each in enumerate(deliveries):
            if (count := each.message.deliveries) is not None and options.is_exhausted(count):
                error = f"delivered {count} times, and max_deliveries={options.max_deliveries}"
                letters[index] = DeadLetter("deliveries", error, count, options.queue)
        kept = [index for index in range(len(deliveries)) if index not in letters]
        tables, undecodable = readable([deliveries[index] for index in kept], table_of)
        for position, reason in undecodable.items():
            message = deliveries[kept[position]].message
            letters[kept[position]] = DeadLetter("undecodable", str(reason), message.deliveries, options.queue)
        if letters:
            self._report_dead_letters(letters)
        if tables:
            self.store_arrow(pa.concat_tables(tables))
        return self._give_up(deliveries, letters)

    def _report_dead_letters(self, letters: dict[int, DeadLetter]) -> None:
        options = self._options
        if options.dead_letter:
            what = f"they go to the queue {options.dead_letter!r}"
        elif options.reject:
            what = "they are rejected, for the dead-letter exchange of the queue"
        else:
            what = (
                "they stay in the queue, unacknowledged, and take part of prefetch. Set dead_letter to a queue for "
                "them, or reject=true, or value_as=bytes"
            )
        first = next(iter(letters.values()))
        why = f"{first.reason}: {first.error}"
        self.reportError(f"{len(letters)} messages of queue {options.queue!r} are dead letters ({why}): {what}")

    def _give_up(self, deliveries: Sequence[RabbitDelivery], letters: dict[int, DeadLetter]) -> set[int]:
        """Dispose of dead letters; return the positions of the messages not to acknowledge."""
        options = self._options
        if not letters or not options.gives_up:
            return set(letters)
        if options.dead_letter:
            publish_dead_letters(options, [(deliveries[index].message, letter) for index, letter in letters.items()])
        else:
            assert self._session is not None
            for index in letters:
                self._session.reject(deliveries[index].message.method.delivery_tag)
        self._dead_letters += len(letters)
        return set() if options.dead_letter else set(letters)

    def _report_status(self, session: RabbitSession, taken: Sequence[RabbitDelivery]) -> None:
        oldest_s = taken[0].arrived_s if taken else session.buffer.oldest_s
        self.report_source(
            SourceStatus(
                lag_messages=None if session.backlog is None else session.backlog + len(session.buffer) + len(taken),
                oldest_unacknowledged_s=None if oldest_s is None else time.time() - oldest_s,
                redelivered=self._redelivered + session.redelivered,
                dead_letters=self._dead_letters,
            )
        )
