"""``PartitionReader``: reads the partitions of a consumer group on the receiver's thread, and stores on another.

Two batches are in flight at most: one is stored while the next one is fetched. While the rate limit or a slow disk
holds both, the partitions are paused and the client is polled, so that the group does not exclude this member.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait

import pyarrow as pa
from attrs import frozen
from confluent_kafka import Message

from penstock import Receiver, SourceStatus
from penstock.spi import ErrorCounts
from penstock_brokers import DeadLetter, readable
from penstock_kafka import client_configuration
from penstock_kafka.consumer_group import ConsumerGroup
from penstock_kafka.dead_letter_topic import DeadLetterTopic, origin_of
from penstock_kafka.deserializers import deserializer_of
from penstock_kafka.options import KafkaOptions
from penstock_kafka.records import Offsets, Partition, offsets_of, position_of, table_reader
from penstock_kafka.storing_thread import StoringThread

_IN_FLIGHT = 2
# A batch has this many records or bytes at most; the size of records is known after the first batch.
_MOST_RECORDS, _MOST_BYTES, _FIRST_RECORDS = 10_000, 4 << 20, 1000
# Held longer, the client is paused and polled: a pause discards what it has fetched already, so it must be rare.
_HELD_S = 3.0
# A rebalance waits this long for batches in flight. What is not stored by then, the next owner receives again.
_SETTLE_S = 5.0
# Either takes at most this part of max.poll.interval.ms, after which the group excludes a member that does not poll.
_POLL_INTERVAL_PART = 1 / 3
_STATUS_S = 1.0


@frozen
class _Batch:
    """Records that are being stored: the outcome, their offsets, and when and by which possession they were fetched."""

    outcome: Future[None]
    offsets: dict[Partition, int]
    possessions: dict[Partition, int]
    fetched_s: float


class PartitionReader:
    """Reads until the receiver is stopped. Use it in a ``with`` block.

    Args:
        receiver: stores.
        options: the receiver's options.
    """

    def __init__(self, receiver: Receiver[object], options: KafkaOptions) -> None:
        self._receiver = receiver
        self._options = options
        self._table_of = table_reader(options, deserializer_of(options))
        # With one topic, no record is asked for its own.
        self._topic = options.topics[0] if len(options.topics) == 1 else None
        self._interval_s = receiver.block_interval_ms / 1000
        most_s = _POLL_INTERVAL_PART * client_configuration.max_poll_interval_s(options)
        self._held_s, self._settle_s = min(_HELD_S, most_s), min(_SETTLE_S, most_s)
        self._batches: deque[_Batch] = deque()
        self._record_bytes = _MOST_BYTES // _FIRST_RECORDS
        self._newest_ms = 0
        self._status_s = -_STATUS_S
        self._dead_letters = DeadLetterTopic(options)
        self._undecodable = ErrorCounts()
        self._storing = StoringThread()
        self._group = ConsumerGroup(options, offsets_of(receiver.position), self._settle, receiver.reportError)

    def __enter__(self) -> PartitionReader:
        return self

    def __exit__(self, *_error: object) -> None:
        # The calls in flight end by themselves: a store raises once the receiver has stopped.
        self._storing.finish(_SETTLE_S)
        self._commit_stored()
        self._group.close()

    def run(self) -> None:
        """Fetch, store, commit.

        Raises:
            PenstockError: a batch could not be stored, or the client cannot continue.
        """
        while not self._receiver.isStopped():
            self._commit_stored()
            if self._batches and self._batches[0].outcome.done():
                # It has failed.
                self._batches[0].outcome.result()
            if len(self._batches) < _IN_FLIGHT:
                self._group.resume()
                self._take(self._group.fetch(self._receiver.fetch_hint(self._most()), self._interval_s))
            else:
                wait([self._batches[0].outcome], self._interval_s)
                if time.monotonic() - self._batches[-1].fetched_s > self._held_s:
                    self._group.pause()
                    self._take(self._group.fetch(1, 0))
            self._report_status()

    def _most(self) -> int:
        return max(1, min(_MOST_RECORDS, _MOST_BYTES // self._record_bytes))

    def _take(self, records: list[Message]) -> None:
        """Store the records that can be decoded, and publish dead letters of the rest, in order."""
        if not records:
            return
        self._group.errors.clear()
        _, self._newest_ms = records[-1].timestamp()
        try:
            self._store(records, self._table_of(records))
        except ValueError:
            _, undecodable = readable(records, self._table_of)
            begin = 0
            for at, error in undecodable.items():
                self._store_part(records[begin:at])
                self._give_up(records[at], error)
                begin = at + 1
            self._store_part(records[begin:])

    def _store_part(self, records: list[Message]) -> None:
        if records:
            self._store(records, self._table_of(records))

    def _store(self, records: Sequence[Message], table: pa.Table) -> None:
        offsets = Offsets.of(records, self._topic)
        after = offsets.after()
        self._record_bytes = max(table.nbytes // table.num_rows, 1)

        def store() -> None:
            self._receiver.store_arrow(
                table, lambda count: position_of(after if count == table.num_rows else offsets.after(count))
            )

        self._submit(store, after)

    def _give_up(self, record: Message, error: ValueError) -> None:
        self._undecodable.add(f"not decodable as {self._options.value_as}", 1)
        letter = DeadLetter("undecodable", str(error), None, origin_of(record))
        self._submit(lambda: self._dead_letters.publish(record, letter), Offsets.of([record], None).after())

    def _submit(self, call: Callable[[], object], offsets: dict[Partition, int]) -> None:
        possessions = self._group.assignment.fetch(offsets)
        self._batches.append(_Batch(self._storing.submit(call), offsets, possessions, time.monotonic()))

    def _commit_stored(self) -> None:
        """Commit the batches that are stored, up to the first that is not."""
        offsets: dict[Partition, int] = {}
        while self._batches and self._batches[0].outcome.done() and self._batches[0].outcome.exception() is None:
            batch = self._batches.popleft()
            offsets |= self._group.assignment.store(batch.offsets, batch.possessions)
        self._group.commit(offsets)

    def _settle(self) -> None:
        """Before partitions come or go: wait for the batches in flight, and commit."""
        wait([batch.outcome for batch in self._batches], self._settle_s)
        self._commit_stored()

    def _report_status(self) -> None:
        now_s = time.monotonic()
        if self._options.dead_letter and self._undecodable.due_s(now_s) == 0:
            self._receiver.reportError(f"{self._undecodable.report(now_s)}: published to {self._options.dead_letter}")
        if now_s - self._status_s < _STATUS_S:
            return
        self._status_s = now_s
        lags = self._group.lags
        lag = sum(lags.values()) if lags else None
        behind_s = max(time.time() - self._newest_ms / 1000, 0.0) if self._newest_ms > 0 else None
        self._receiver.report_source(
            SourceStatus(
                lag_messages=lag,
                lag_s=0.0 if lag == 0 else behind_s,
                oldest_unacknowledged_s=now_s - self._batches[0].fetched_s if self._batches else 0.0,
                dead_letters=self._dead_letters.count,
                lag_by_partition=position_of(lags),
            )
        )
