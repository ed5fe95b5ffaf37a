"""``ConsumerGroup``: a receiver's membership of a consumer group: fetching, committing, rebalances and lost records.

One thread uses it, and the client calls back on that thread, inside ``fetch``. Threads of the client send heartbeats.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from penstock.spi import EngineThread, get_logger, text_of
from penstock_kafka import client_configuration
from penstock_kafka.assignment import Assignment
from penstock_kafka.client_errors import ClientErrors, KafkaClientError, message_of
from penstock_kafka.options import KafkaOptions
from penstock_kafka.records import Partition
from penstock_kafka.start import start_offsets

log = get_logger("kafka")

_REQUEST_S = 10.0
# Without a broker, closing a client may take 45 s; it ends by itself.
_CLOSE_S = 5.0


class DataLossError(KafkaClientError):
    """The broker has deleted records that were not received, and ``on_data_loss`` is ``fail``."""


class ConsumerGroup:
    """A member of the group.

    Args:
        options: the receiver's options.
        stored: the next offsets of partitions from which records are stored.
        settle: called before partitions leave or come: waits until what was fetched is stored and committed, if it can.
        report: passes an error to the driver.
    """

    def __init__(
        self,
        options: KafkaOptions,
        stored: Mapping[Partition, int],
        settle: Callable[[], object],
        report: Callable[[str], object],
    ) -> None:
        self._options = options
        self._settle = settle
        self._report = report
        self.assignment = Assignment(stored)
        self.errors = ClientErrors(report, time.monotonic)
        settings = client_configuration.consumer(options)
        self._is_incremental = client_configuration.is_incremental(settings)
        self._consumer = Consumer(
            {**settings, "error_cb": self.errors.take, "on_commit": self._on_commit}, logger=log_of_client()
        )
        self._paused: list[TopicPartition] = []
        topics = [f"^{options.topic_pattern.removeprefix('^')}"] if options.topic_pattern else list(options.topics)
        self._consumer.subscribe(topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost)

    def close(self) -> None:
        """Leave the group. Returns within seconds, whatever the broker does."""
        closing = EngineThread("kafka client closing", self._consumer.close)
        closing.start()
        if not closing.finish(_CLOSE_S):
            log.warning("client not closed in time", timeout_s=_CLOSE_S)

    def fetch(self, most: int, timeout_s: float) -> list[Message]:
        """Wait for records: until there are ``most``, or the timeout has passed.

        Raises:
            KafkaClientError: the client cannot continue.
            KafkaException: the broker did not answer a question of a rebalance.
        """
        records = self._consumer.consume(most, timeout_s)
        if any(map(Message.error, records)):
            for record in records:
                if (error := record.error()) is not None:
                    self._on_error(error, record)
            records = [record for record in records if record.error() is None]
        return records

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit next offsets in the present generation of the group; does not wait. ``on_commit`` gets the result."""
        if offsets:
            partitions = [TopicPartition(*partition, offset) for partition, offset in offsets.items()]
            self._consumer.commit(offsets=partitions, asynchronous=True)

    def pause(self) -> None:
        """Fetch nothing, so that ``fetch`` keeps the membership and returns no records, until ``resume``."""
        if not self._paused:
            self._paused = self._consumer.assignment()
            self._consumer.pause(self._paused)

    def resume(self) -> None:
        """End a pause."""
        if self._paused:
            owned = set(self.assignment.owned)
            self._consumer.resume([each for each in self._paused if (each.topic, each.partition) in owned])
            self._paused = []

    @property
    def lags(self) -> dict[Partition, int]:
        """The number of records of each owned partition that were not fetched, as far as the client knows."""
        ends = {
            partition: self._consumer.get_watermark_offsets(TopicPartition(*partition), cached=True)[1]
            for partition in self.assignment.fetched
        }
        return {
            partition: max(end - self.assignment.fetched[partition], 0) for partition, end in ends.items() if end >= 0
        }

    # -- rebalances --

    def _on_assign(self, consumer: Consumer, assigned: list[TopicPartition]) -> None:
        self._settle()
        partitions = [(each.topic, each.partition) for each in assigned]
        committed = {
            (each.topic, each.partition): each.offset if each.offset >= 0 else None
            for each in (consumer.committed(assigned, timeout=_REQUEST_S) if assigned else ())
        }
        begins = self.assignment.begins(committed)
        unread = [partition for partition, offset in begins.items() if offset is None]
        # A partition that comes later is new: it was created after the first assignment, and members commit where they
        # begin. So it has no record from before the start.
        start = self._options.start if self.assignment.is_first else "earliest"
        started = start_offsets(consumer, start, unread, _REQUEST_S) if unread else {}
        self.assignment.assign(partitions)
        offsets = {partition: started[partition] if at is None else at for partition, at in begins.items()}
        self.assignment.fetched |= offsets
        self._assign(consumer, offsets)
        # From now on, a restart of the group resumes here.
        self.commit(started)
        log.info("partitions assigned", group_id=self._options.group_id, partitions=len(partitions))

    def _assign(self, consumer: Consumer, offsets: Mapping[Partition, int]) -> None:
        if self._is_incremental:
            consumer.incremental_assign([TopicPartition(*partition, at) for partition, at in offsets.items()])
        else:
            # Names all partitions: the group has revoked the others before.
            owned = {partition: self.assignment.fetched[partition] for partition in self.assignment.owned}
            consumer.assign([TopicPartition(*partition, at) for partition, at in owned.items()])
        if self._paused:
            self._paused = consumer.assignment()
            consumer.pause(self._paused)

    def _on_revoke(self, _consumer: Consumer, revoked: list[TopicPartition]) -> None:
        # The commits reach the broker before the partitions go to other members.
        self._settle()
        self._leave(revoked)
        log.info("partitions revoked", group_id=self._options.group_id, partitions=len(revoked))

    def _on_lost(self, _consumer: Consumer, lost: list[TopicPartition]) -> None:
        # Others may own them already: nothing may be committed.
        self._leave(lost)
        log.info("partitions lost", group_id=self._options.group_id, partitions=len(lost))

    def _leave(self, partitions: Sequence[TopicPartition]) -> None:
        self.assignment.revoke((each.topic, each.partition) for each in partitions)

    # -- errors --

    def _on_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        failed = error or next((each.error for each in partitions if each.error is not None), None)
        if failed is not None:
            # The records are stored, and the positions with them: another member may receive them again.
            log.warning("commit failed", group_id=self._options.group_id, reason=message_of(failed), throttle_s=60)

    def _on_error(self, error: KafkaError, record: Message) -> None:
        topic, number = record.topic(), record.partition()
        if error.code() == KafkaError._AUTO_OFFSET_RESET and topic is not None and number is not None:
            self._resume_after_loss((topic, number))
        else:
            self.errors.take(error, topic or "")

    def _resume_after_loss(self, partition: Partition) -> None:
        """Continue with the oldest record of a partition, and report what is lost."""
        at = self.assignment.fetched.get(partition)
        if at is None:
            return
        topic, number = partition
        what = f"partition {number} of topic {topic}"
        try:
            low, high = self._consumer.get_watermark_offsets(TopicPartition(*partition), timeout=_REQUEST_S)
        except KafkaException as error:
            raise KafkaClientError(f"{what} has no offset {at}, nor any answer why: {text_of(error)}") from None
        if at < low:
            message = (
                f"{low - at} records of {what} are lost, offsets {at} to {low - 1}: the broker deleted them before "
                "they were received"
            )
            advice = "give the topic a longer retention, or the receiver more time"
        else:
            message = (
                f"{what} ends before offset {high}, and offset {at} was next: the topic was deleted and created again, "
                "or records that its leader had were lost"
            )
            advice = "all of its records are received"
        if self._options.on_data_loss == "fail":
            raise DataLossError(f"{message}. on_data_loss=report continues with offset {low}")
        self._report(f"{message}; continuing with offset {low}: {advice}")
        self.assignment.fetched[partition] = low
        if self._is_incremental:
            self._consumer.incremental_unassign([TopicPartition(*partition)])
        self._assign(self._consumer, {partition: low})


def log_of_client() -> Any:
    """The logger of librdkafka's own messages, which it writes inside ``fetch``."""
    import logging

    return logging.getLogger("penstock.kafka.client")
