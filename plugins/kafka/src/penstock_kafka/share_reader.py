"""``ShareReader``: reads a share group: the broker hands out records for a time, and counts their deliveries."""

from __future__ import annotations

import time

from confluent_kafka import AcknowledgeType, Message, ShareConsumer

from penstock import Receiver, SourceStatus
from penstock.spi import EngineThread, get_logger
from penstock_brokers import DeadLetter, readable
from penstock_kafka import client_configuration
from penstock_kafka.client_errors import ClientErrors
from penstock_kafka.consumer_group import log_of_client
from penstock_kafka.dead_letter_topic import DeadLetterTopic, origin_of
from penstock_kafka.deserializers import deserializer_of
from penstock_kafka.options import KafkaOptions
from penstock_kafka.records import table_reader

log = get_logger("kafka")

_COMMIT_S = 10.0
_CLOSE_S = 5.0


class ShareReader:
    """Reads until the receiver is stopped. Use it in a ``with`` block.

    Args:
        receiver: stores.
        options: the receiver's options.
    """

    def __init__(self, receiver: Receiver[object], options: KafkaOptions) -> None:
        self._receiver = receiver
        self._options = options
        self._table_of = table_reader(options, deserializer_of(options))
        self._interval_s = receiver.block_interval_ms / 1000
        self._dead_letters = DeadLetterTopic(options)
        self._redelivered = 0
        self._errors = ClientErrors(receiver.reportError, time.monotonic)
        settings = {**client_configuration.share_consumer(options), "error_cb": self._errors.take}
        self._consumer = ShareConsumer(settings, logger=log_of_client())
        self._consumer.subscribe(list(options.topics))

    def __enter__(self) -> ShareReader:
        return self

    def __exit__(self, *_error: object) -> None:
        closing = EngineThread("kafka client closing", self._consumer.close)
        closing.start()
        if not closing.finish(_CLOSE_S):
            log.warning("client not closed in time", timeout_s=_CLOSE_S)

    def run(self) -> None:
        """Poll, store, acknowledge.

        Raises:
            PenstockError: records could not be stored, or the client cannot continue. They are released before.
        """
        while not self._receiver.isStopped():
            records = list[Message]()
            for record in self._consumer.poll(self._interval_s):
                if (error := record.error()) is not None:
                    self._errors.take(error, record.topic() or "")
                else:
                    records.append(record)
            if records:
                self._errors.clear()
                self._take(records)
            self._receiver.report_source(
                SourceStatus(redelivered=self._redelivered, dead_letters=self._dead_letters.count)
            )

    def _take(self, records: list[Message]) -> None:
        answers = dict.fromkeys(range(len(records)), AcknowledgeType.RELEASE)
        try:
            self._store(records, answers)
        finally:
            for position, record in enumerate(records):
                self._consumer.acknowledge(record, answers[position])
            self._commit()

    def _store(self, records: list[Message], answers: dict[int, AcknowledgeType]) -> None:
        """Store records and dead letters; note each that the broker can forget."""
        deliveries = [record.delivery_count() or 1 for record in records]
        self._redelivered += sum(count > 1 for count in deliveries)
        exhausted = [at for at, count in enumerate(deliveries) if self._options.is_exhausted(count)]
        for at in exhausted:
            reason = f"delivered {deliveries[at]} times"
            self._give_up(records[at], DeadLetter("deliveries", reason, deliveries[at], origin_of(records[at])))
            answers[at] = AcknowledgeType.ACCEPT
        rest = [at for at in range(len(records)) if at not in exhausted]
        tables, undecodable = readable([records[at] for at in rest], self._table_of)
        for table in tables:
            self._receiver.store_arrow(table)
        for position, at in enumerate(rest):
            if position not in undecodable:
                answers[at] = AcknowledgeType.ACCEPT
        for position, error in undecodable.items():
            at = rest[position]
            self._give_up(records[at], DeadLetter("undecodable", str(error), deliveries[at], origin_of(records[at])))
            answers[at] = AcknowledgeType.ACCEPT

    def _give_up(self, record: Message, letter: DeadLetter) -> None:
        self._dead_letters.publish(record, letter)
        self._receiver.reportError(f"{letter.origin} published to {self._options.dead_letter}: {letter.error}")

    def _commit(self) -> None:
        for partition, error in self._consumer.commit_sync(_COMMIT_S).items():
            if error is not None:
                # Their time was over: the broker delivers them again.
                log.warning(
                    "acknowledgement failed",
                    topic=partition.topic,
                    partition=partition.partition,
                    reason=str(error),
                    throttle_s=60,
                )
