"""``RabbitSession``: a connection to RabbitMQ with one consumer, and the messages that were delivered to it.

One thread owns the connection and its channels: it reads, sends heartbeats while the receiver stores, and puts messages
into a buffer. The receiver's thread takes messages and acknowledges them, on the channel that delivered them. Once that
channel is gone, the session sends no acknowledgement: RabbitMQ delivers the messages again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import pika
from pika.adapters.select_connection import IOLoop
from pika.exceptions import AMQPError

from penstock.spi import EngineThread
from penstock_brokers import DeliveryBuffer
from penstock_rabbitmq.broker_errors import explained
from penstock_rabbitmq.message_columns import RabbitMessage

if TYPE_CHECKING:
    from pika.channel import Channel
    from pika.spec import Basic, BasicProperties

    from penstock_rabbitmq.rabbit_options import RabbitOptions

# The messages in the buffer may have this many bytes. The prefetch count follows from it and their size.
MAX_BUFFERED_BYTES = 64 << 20
# The interval at which the session asks for the number of messages in the queue.
_DEPTH_INTERVAL_S = 2.0
# Each message of a stream has it.
_STREAM_HEADER = "x-stream-offset"
# The longest wait for acknowledgements to reach a broker that does not read.
_CLOSE_S = 2.0


class RabbitSession:
    """A consumer of one queue. A failure closes the buffer, with an error that ``buffer.take`` raises.

    Args:
        options: the broker and the queue.
        prefetch: the most messages that RabbitMQ delivers before the first is acknowledged.

    Attributes:
        buffer: the messages that were delivered and not yet taken.
        prefetch: the prefetch count in force.
        redelivered: the number of messages that had been delivered before.
    """

    def __init__(self, options: RabbitOptions, prefetch: int) -> None:
        self._options = options
        self.buffer: DeliveryBuffer[RabbitMessage] = DeliveryBuffer(2 * options.prefetch, MAX_BUFFERED_BYTES)
        self.prefetch = prefetch
        self.redelivered = 0
        # The number of messages that were delivered, and the backlog of the queue when it was last asked for.
        self._delivered = 0
        self._depth: tuple[int, int] | None = None
        # The consumer has started, or will not.
        self._opened = threading.Event()
        self._is_closing = False
        self._failure: OSError | None = None
        # Only the session's thread uses these.
        self._ioloop = IOLoop()
        self._connection: pika.SelectConnection | None = None
        self._monitor: Channel | None = None
        self._channel: Channel | None = None
        self._consumer_tag = ""
        self._thread = EngineThread(f"rabbitmq {options.queue}", self._run)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def open(self) -> None:
        """Connect, look for the queue, and start to consume. Another thread can end the wait by ``interrupt``.

        Raises:
            OSError: the broker cannot be reached or refuses the user, or the queue does not exist.
        """
        self._thread.start()
        is_open = self._opened.wait(self._options.connect_timeout)
        if self._failure is not None:
            raise self._failure
        if self._is_closing:
            raise ConnectionAbortedError(f"connection to {self._options.broker} interrupted")
        if not is_open:
            raise TimeoutError(f"{self._options.broker} has not answered within {self._options.connect_timeout:g} s")

    @property
    def backlog(self) -> int | None:
        """About how many messages of the queue no consumer has; ``None`` until it is known."""
        if self._depth is None:
            return None
        delivered, ready = self._depth
        return max(0, ready - (self._delivered - delivered))

    def acknowledge(self, delivery_tag: int) -> None:
        """Acknowledge all messages up to this one. After a failure, nothing is sent."""
        self._on_channel(lambda channel: channel.basic_ack(delivery_tag, multiple=True))

    def acknowledge_each(self, delivery_tags: Sequence[int]) -> None:
        """Acknowledge these messages only. After a failure, nothing is sent."""

        def acknowledge(channel: Channel) -> None:
            for delivery_tag in delivery_tags:
                channel.basic_ack(delivery_tag)

        self._on_channel(acknowledge)

    def reject(self, delivery_tag: int) -> None:
        """Reject one message: RabbitMQ moves it to the queue's dead-letter exchange, or drops it if there is none."""
        self._on_channel(lambda channel: channel.basic_reject(delivery_tag, requeue=False))

    def change_prefetch(self, prefetch: int) -> None:
        """Consume again with another prefetch count, on the same channel: what was delivered can be acknowledged."""
        self.prefetch = prefetch
        # RabbitMQ applies a count to consumers that start after it. A quorum queue has no count for a whole channel.
        self._on_channel(lambda channel: channel.basic_cancel(self._consumer_tag, lambda _answer: self._consume()))

    def interrupt(self) -> None:
        """End every wait of the receiver's thread: ``open`` raises, the buffer is closed. Any thread may call it."""
        self._is_closing = True
        self.buffer.close()
        self._opened.set()

    def close(self) -> None:
        """Send the acknowledgements and close the connection."""
        self.interrupt()
        if self._thread.ident is None:
            # The session was never opened, so no thread closes the loop.
            self._ioloop.close()
        elif self._thread.is_alive():
            self._schedule(self._close)
            if not self._thread.finish(_CLOSE_S):
                # A thread that still connects ends by itself, at the latest after the timeout.
                self._schedule(self._abort)

    # -- on the session's thread --

    def _run(self) -> None:
        try:
            self._connection = pika.SelectConnection(
                self._options.parameters(),
                self._on_connected,
                self._on_connection_closed,
                self._on_connection_closed,
                self._ioloop,
            )
            self._ioloop.start()
        except Exception as error:
            self._fail(explained(error, self._options))
        finally:
            self._ioloop.close()

    def _schedule(self, callback: Callable[[], None]) -> None:
        # The loop may have ended.
        with suppress(AMQPError, OSError, AttributeError, ValueError):
            self._ioloop.add_callback_threadsafe(callback)

    def _on_channel(self, call: Callable[[Channel], object]) -> None:
        def run() -> None:
            if self._failure is None and self._channel is not None and self._channel.is_open:
                call(self._channel)

        self._schedule(run)

    def _fail(self, error: OSError) -> None:
        """End the session: an acknowledgement could only come too late."""
        if self._failure is None:
            self._failure = error
            self._opened.set()
            self.buffer.close(self._failure)
            self._close()

    def _close(self) -> None:
        self._is_closing = True
        # pika loses sockets when it is interrupted while it connects: _on_connected closes such a connection.
        if self._connection is not None and self._connection.is_open:
            self._connection.close()

    def _abort(self) -> None:
        # pika has no public way to end a connection whose broker does not answer.
        if self._connection is not None and self._connection.is_closing:
            self._connection._adapter_disconnect_stream()

    def _on_connected(self, connection: pika.SelectConnection) -> None:
        if self._is_closing:
            connection.close()
        else:
            connection.channel(on_open_callback=self._on_monitor_open)

    def _on_connection_closed(self, _connection: object, reason: BaseException) -> None:
        if not self._is_closing:
            self._fail(explained(reason, self._options))
        self._ioloop.stop()

    def _on_channel_closed(self, _channel: object, reason: BaseException) -> None:
        if not self._is_closing:
            self._fail(explained(reason, self._options))

    def _on_monitor_open(self, channel: Channel) -> None:
        # A channel of its own, because an error of the question closes it.
        self._monitor = channel
        channel.add_on_close_callback(self._on_channel_closed)
        self._ask_depth()

    def _ask_depth(self) -> None:
        if self._monitor is not None and self._monitor.is_open:
            self._monitor.queue_declare(self._options.queue, passive=True, callback=self._on_depth)

    def _on_depth(self, answer: Any) -> None:
        self._depth = self._delivered, answer.method.message_count
        self._ioloop.call_later(_DEPTH_INTERVAL_S, self._ask_depth)
        if self._channel is None and self._connection is not None and not self._is_closing:
            self._connection.channel(on_open_callback=self._on_channel_open)

    def _on_channel_open(self, channel: Channel) -> None:
        self._channel = channel
        channel.add_on_close_callback(self._on_channel_closed)
        channel.add_on_cancel_callback(self._on_cancelled)
        self._consume()

    def _consume(self) -> None:
        channel = self._channel
        if channel is not None and channel.is_open:
            channel.basic_qos(prefetch_count=self.prefetch)
            self._consumer_tag = channel.basic_consume(
                self._options.queue, self._on_message, callback=lambda _answer: self._opened.set()
            )

    def _on_cancelled(self, _frame: object) -> None:
        self._fail(
            ConnectionAbortedError(
                f"{self._options.broker} cancelled the consumer of queue {self._options.queue!r}: the queue was "
                "deleted, or has moved"
            )
        )

    def _on_message(self, _channel: object, method: Basic.Deliver, properties: BasicProperties, body: bytes) -> None:
        if not self._delivered and _STREAM_HEADER in (properties.headers or {}):
            self._fail(
                ConnectionAbortedError(
                    f"queue {self._options.queue!r} of {self._options.broker} is a stream, which keeps no position "
                    "for a consumer: read a classic or a quorum queue"
                )
            )
        self._delivered += 1
        self.redelivered += method.redelivered
        self.buffer.put(RabbitMessage(method, properties, body), len(body))
