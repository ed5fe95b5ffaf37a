"""``MqttSession``: one connection to a broker, its subscriptions, and the messages that it delivered.

A ``NetworkThread`` reads and writes: it sends keepalives while the receiver stores, and puts messages into a bounded
buffer. The receiver's thread opens the session, takes messages and acknowledges them. An acknowledgement goes to the
connection that delivered the message, or nowhere: on the next one its packet identifier names another message.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from penstock.spi import text_of
from penstock_brokers import DeliveryBuffer
from penstock_mqtt.keepalive import Keepalive
from penstock_mqtt.message_columns import MqttMessage, message_of
from penstock_mqtt.network_thread import NetworkThread

if TYPE_CHECKING:
    from paho.mqtt.reasoncodes import ReasonCode

    from penstock_mqtt.mqtt_options import MqttOptions

# The messages in the buffer may have this many bytes, whatever the window permits.
_MAX_BUFFERED_BYTES = 64 << 20
# A broker that keeps to the window never fills the buffer; mosquitto 2.0 exceeds the window after a reconnect.
_SPARE = 2
# The longest wait for acknowledgements to reach a broker that does not read.
_CLOSE_S = 2.0
_NO_SUBSCRIPTION = "penstock/no/subscription"
_RETAIN_HANDLING = {"always": 0, "new": 1, "never": 2}


class _TlsSocket(ssl.SSLSocket):
    """Closes itself after a failed handshake, which paho-mqtt leaves to the garbage collector."""

    def do_handshake(self, block: bool = False) -> None:
        try:
            super().do_handshake(block)
        except BaseException:
            self.close()
            raise


class MqttSession:
    """A connection of a client id, whose session the broker keeps while the client is away.

    Args:
        options: the broker and the subscriptions.
        window: Receive Maximum, the most messages that the broker sends before the first is acknowledged.

    Attributes:
        buffer: the messages that were delivered and not yet taken.
        redelivered: the number of messages that had been delivered before.
        is_resumed: whether the broker had a session of the client id.
    """

    def __init__(self, options: MqttOptions, window: int) -> None:
        self._options = options
        self.window = window
        self.buffer: DeliveryBuffer[MqttMessage] = DeliveryBuffer(_SPARE * window, _MAX_BUFFERED_BYTES)
        self.redelivered = 0
        self.is_resumed = False
        # Set when the broker has answered the connection, and again when it has answered the subscription.
        self._answered = threading.Event()
        self._has_read = threading.Event()
        self._is_closing = False
        self._failure: OSError | None = None
        self._client = self._make_client()
        keepalive = Keepalive(options.broker, options.keepalive, time.monotonic())
        self._network = NetworkThread(self._client, self._connect, self._may_read, keepalive, self._on_network_error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def open(self) -> None:
        """Connect and subscribe. Another thread can end the wait by ``interrupt``.

        Raises:
            OSError: the broker cannot be reached, or refuses the client or a subscription.
        """
        self._network.start()
        self._await_answer("the connection")
        self._network.call(partial(self._client.subscribe, self._subscriptions()))
        self._await_answer("the subscription")

    def acknowledge(self, messages: Iterable[MqttMessage]) -> None:
        """Acknowledge messages of this session, in the order of their delivery. After a failure, none is sent."""
        packets = [(message.packet_id, message.qos) for message in messages if message.qos]
        self._network.call(lambda: [self._client.ack(*packet) for packet in packets])

    def publish(self, topic: str, payload: bytes, properties: Properties) -> None:
        """Publish a message with QoS 1, and wait until the broker has taken it.

        Raises:
            OSError: the broker refuses it, did not answer in time, or the connection has ended.
        """
        self._answered.clear()
        self._network.call(partial(self._client.publish, topic, payload, qos=1, properties=properties))
        self._await_answer(f"a message to topic {topic!r}")

    def interrupt(self) -> None:
        """End every wait of the receiver's thread: ``open`` raises, the buffer is closed. Any thread may call it."""
        self._is_closing = True
        self.buffer.close()
        self._answered.set()

    def close(self) -> None:
        """Send the acknowledgements and disconnect. The broker keeps the session."""
        self.buffer.close()
        self._is_closing = True
        if self._client.is_connected() and self._failure is None:
            # Closing a connection with unread messages resets it, and the broker may then not read what was sent last.
            # Its answer to a later request shows that it has read the acknowledgements.
            self._network.call(partial(self._client.unsubscribe, _NO_SUBSCRIPTION))
            self._has_read.wait(_CLOSE_S)
        self._network.call(self._client.disconnect)
        if not self._network.finish(_CLOSE_S):
            # It still connects, and ends by itself, at the latest after the timeout; or the broker does not read.
            self._network.abandon()

    # -- on the network thread --

    def _connect(self) -> None:
        options = self._options
        properties = None
        if options.protocol == "5":
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            properties.SessionExpiryInterval = int(options.session_expiry)
            properties.ReceiveMaximum = self.window
        clean = {"clean_start": False, "properties": properties} if properties else {}
        try:
            self._client.connect(options.host, options.port, options.keepalive, **clean)  # type: ignore[arg-type]
        except OSError as error:
            raise ConnectionError(f"{options.broker} cannot be reached: {text_of(error)}") from None

    def _may_read(self) -> bool:
        """While the buffer is full, the broker has to wait."""
        return not self.buffer.is_full or self.buffer.await_room(0)

    def _on_network_error(self, error: Exception) -> None:
        self._fail(error if isinstance(error, OSError) else ConnectionError(text_of(error)))

    def _make_client(self) -> mqtt.Client:
        options = self._options
        is_v5 = options.protocol == "5"
        client = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            options.client_id,
            clean_session=None if is_v5 else False,
            protocol=mqtt.MQTTv5 if is_v5 else mqtt.MQTTv311,
            manual_ack=True,
            reconnect_on_failure=False,
        )
        client.connect_timeout = options.connect_timeout
        if options.user:
            client.username_pw_set(options.user, options.password.read() if options.password else None)
        if (context := options.ssl_context()) is not None:
            context.sslsocket_class = _TlsSocket
            client.tls_set_context(context)
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_unsubscribe = lambda *_answer: self._has_read.set()
        client.on_publish = self._on_publish
        client.on_disconnect = self._on_disconnect
        client.on_message = self._on_message
        return client

    def _subscriptions(self) -> list[tuple[str, Any]]:
        options = self._options
        if options.protocol != "5":
            return [(topic, options.qos) for topic in options.topics]
        handling = _RETAIN_HANDLING[options.retained]
        return [(topic, SubscribeOptions(options.qos, retainHandling=handling)) for topic in options.topics]

    def _await_answer(self, what: str) -> None:
        options = self._options
        # The answer comes after messages that have found no room.
        with self.buffer.unbounded():
            answered = self._failure is None and self._answered.wait(options.connect_timeout)
        self._answered.clear()
        if self._failure is not None:
            raise self._failure
        if self._is_closing:
            raise ConnectionAbortedError(f"connection to {options.broker} interrupted")
        if not answered:
            raise TimeoutError(f"{options.broker} has not answered {what} within {options.connect_timeout:g} s")

    def _fail(self, failure: OSError) -> None:
        self._has_read.set()
        if self._failure is None:
            self._failure = failure
        self.buffer.close(self._failure)
        self._answered.set()

    def _on_connect(
        self, client: mqtt.Client, _data: Any, flags: mqtt.ConnectFlags, reason: ReasonCode, _properties: Any
    ) -> None:
        if self._is_closing:
            client.disconnect()
        elif reason.is_failure:
            self._fail(ConnectionRefusedError(f"{self._options.broker} refuses the client: {reason}"))
        else:
            self.is_resumed = flags.session_present
            self._answered.set()

    def _on_subscribe(self, _client: mqtt.Client, _data: Any, _id: int, reasons: list[ReasonCode], _p: Any) -> None:
        refused = [
            f"{topic!r} ({reason})"
            for topic, reason in zip(self._options.topics, reasons, strict=False)
            if reason.is_failure
        ]
        if refused:
            self._fail(
                ConnectionRefusedError(
                    f"{self._options.broker} refuses to subscribe client {self._options.client_id!r} to "
                    f"{', '.join(refused)}: does it permit the user to read these topics?"
                )
            )
        else:
            self._answered.set()

    def _on_publish(self, _client: mqtt.Client, _data: Any, _id: int, reason: ReasonCode, _properties: Any) -> None:
        if reason.is_failure:
            self._fail(
                PermissionError(
                    f"{self._options.broker} refuses the dead letter of client {self._options.client_id!r} to topic "
                    f"{self._options.dead_letter!r}: {reason}"
                )
            )
        else:
            self._answered.set()

    def _on_disconnect(
        self, _client: mqtt.Client, _data: Any, flags: mqtt.DisconnectFlags, reason: ReasonCode, _properties: Any
    ) -> None:
        if not self._is_closing:
            # Some brokers close the connection without a reason, also when another client takes the session over.
            why = f"ended the connection: {reason}" if flags.is_disconnect_packet_from_server else "is gone"
            self._fail(
                ConnectionError(
                    f"{self._options.broker} {why}. If it runs: does another client use the client id "
                    f"{self._options.client_id!r}, which each receiver needs for itself?"
                )
            )

    def _on_message(self, _client: mqtt.Client, _data: Any, message: mqtt.MQTTMessage) -> None:
        self._network.count_read()
        self.redelivered += message.dup
        self.buffer.put(message_of(message), len(message.payload))
