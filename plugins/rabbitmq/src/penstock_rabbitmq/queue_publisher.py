"""``QueuePublisher``: declares queues and publishes to them, for tests and the demonstration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import pika


class QueuePublisher:
    """A connection to a broker on this machine, inside a ``with`` block. Not thread-safe.

    Args:
        port: port of the broker.
    """

    def __init__(self, port: int) -> None:
        self._port = port

    def __enter__(self) -> Self:
        # Without heartbeats: nothing answers them between two calls.
        self._connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self._port, heartbeat=0))
        self._channel = self._connection.channel()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._connection.is_open:
            self._connection.close()

    def declare(self, queue: str, arguments: Mapping[str, Any] | None = None) -> None:
        """Declare a durable queue, such as one with ``{"x-queue-type": "quorum"}``."""
        self._channel.queue_declare(queue, durable=True, arguments=None if arguments is None else dict(arguments))

    def publish(
        self,
        queue: str,
        bodies: Iterable[bytes],
        properties: pika.BasicProperties | None = None,
        *,
        confirmed: bool = False,
    ) -> None:
        """Publish persistent messages; they are in the queue when this returns.

        Args:
            queue: the name of a queue.
            bodies: the messages.
            properties: properties of each message.
            confirmed: also wait until RabbitMQ has confirmed each: it survives a crash.

        Raises:
            AMQPError: the queue does not exist, or the connection failed.
        """
        given = properties or pika.BasicProperties()
        given.delivery_mode = 2
        if confirmed:
            channel = self._connection.channel()
            channel.confirm_delivery()
            for body in bodies:
                channel.basic_publish("", queue, body, given, mandatory=True)
            channel.close()
            return
        for body in bodies:
            self._channel.basic_publish("", queue, body, given)
        # RabbitMQ answers after it has handled what came before.
        self._channel.queue_declare(queue, passive=True)

    def get(self, queue: str) -> tuple[pika.BasicProperties, bytes] | None:
        """Take a message from a queue; ``None`` when it is empty."""
        method, properties, body = self._channel.basic_get(queue, auto_ack=True)
        return None if method is None else (properties, body)

    def depth(self, queue: str) -> int:
        """The number of messages in a queue that no consumer has."""
        return int(self._channel.queue_declare(queue, passive=True).method.message_count)

    def delete(self, queue: str) -> None:
        """Delete a queue."""
        self._channel.queue_delete(queue)
