"""``DeadLetterTopic``: publishes records that the receiver gives up."""

from __future__ import annotations

from confluent_kafka import KafkaError, Message, Producer

from penstock import PenstockError
from penstock_brokers import DeadLetter
from penstock_kafka import client_configuration
from penstock_kafka.client_errors import message_of
from penstock_kafka.options import KafkaOptions

_PUBLISH_S = 30.0


class DeadLetterError(PenstockError):
    """A record could be neither decoded nor published as a dead letter; it stays in its topic."""


class DeadLetterTopic:
    """Publishes to the topic of the option ``dead_letter``. The first record connects. One thread uses it.

    Args:
        options: the receiver's options.
    """

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options
        self._producer: Producer | None = None
        #: The number of records published.
        self.count = 0

    def publish(self, record: Message, letter: DeadLetter) -> None:
        """Publish a record unchanged, with further headers, and return when the broker has it.

        Raises:
            DeadLetterError: there is no such topic among the options, or the broker did not accept the record.
        """
        topic = self._options.dead_letter
        if not topic:
            raise DeadLetterError(
                f"{letter.origin} cannot be decoded as {self._options.value_as}: {letter.error}. It blocks its "
                "partition: set dead_letter to a topic for such records, or value_as=bytes"
            )
        if self._producer is None:
            settings = {name: value for name, value in self._options.settings.items() if name.startswith("client.")}
            # Its errors are in the result of the delivery.
            self._producer = Producer(
                {**settings, **client_configuration.connection(self._options), "enable.idempotence": True}
            )
        failures = list[str]()

        def on_delivery(error: KafkaError | None, _record: Message) -> None:
            failures.append("" if error is None else message_of(error))

        headers = [*(record.headers() or ()), *letter.headers().items()]
        self._producer.produce(topic, record.value(), record.key(), headers=headers, on_delivery=on_delivery)
        self._producer.flush(_PUBLISH_S)
        if failures != [""]:
            reason = failures[0] if failures else f"no answer within {_PUBLISH_S:g} s"
            raise DeadLetterError(f"{letter.origin} cannot be published to dead_letter={topic}: {reason}")
        self.count += 1


def origin_of(record: Message) -> str:
    """Topic, partition and offset of a record."""
    return f"{record.topic()}/{record.partition()}/{record.offset()}"
