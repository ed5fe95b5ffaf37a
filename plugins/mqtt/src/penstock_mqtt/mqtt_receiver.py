"""``MqttReceiver``: stores the messages of topics, and acknowledges each once it is stored."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock import SourceStatus, ThreadReceiver
from penstock_brokers import DeadLetter, is_far_from, readable
from penstock_mqtt.message_columns import MqttDelivery, column_reader
from penstock_mqtt.mqtt_options import MqttOptions
from penstock_mqtt.mqtt_session import MqttSession
from penstock_mqtt.publisher import publish_properties

# An idle receiver reports its status this often.
_IDLE_S = 1.0


class MqttReceiver(ThreadReceiver[Any]):
    """Receives messages.

    Args:
        options: the broker, the topics and the form of records.
    """

    def __init__(self, options: MqttOptions) -> None:
        self._options = options
        self._session: MqttSession | None = None
        # Counts of this launch, without the current session.
        self._redelivered = 0
        self._dead_letters = 0
        self._has_session = False

    def receive(self) -> None:
        while not self.isStopped():
            with MqttSession(self._options, self._window()) as session:
                self._session = session
                # A stop that came before has found no session.
                if self.isStopped():
                    return
                try:
                    session.open()
                    self._report_lost_session(session)
                    self._store_messages(session)
                finally:
                    self._redelivered += session.redelivered

    def onStop(self) -> None:
        if self._session is not None:
            self._session.interrupt()
        super().onStop()

    def _window(self) -> int:
        """The number of messages that may be in flight: half of them are stored while the others are on their way."""
        if self._options.protocol != "5":
            return self._options.receive_maximum
        return max(2, min(self._options.receive_maximum, 2 * self.fetch_hint(self._options.receive_maximum)))

    def _store_messages(self, session: MqttSession) -> None:
        """Store messages until the receiver is stopped, or until the window no longer fits the rate limit."""
        linger_s = self.block_interval_ms / 1000
        table_of = column_reader(self._options.columns, self._options.value_as)
        while not self.isStopped():
            most = max(1, min(self.fetch_hint(session.window), session.window // 2))
            deliveries = session.buffer.take(most, linger_s, _IDLE_S)
            self._report_status(session, deliveries)
            if deliveries:
                tables, undecodable = readable(deliveries, table_of)
                if undecodable:
                    self._report_undecodable(deliveries, undecodable)
                if tables:
                    self.store_arrow(pa.concat_tables(tables))
                left = self._give_up(session, deliveries, undecodable)
                session.acknowledge(each.message for index, each in enumerate(deliveries) if index not in left)
                self._report_status(session, [])
                # What is stored shows that no pause is in force, for which a new connection would not be worth it. The
                # acknowledgements go out before the connection ends: nothing that is stored is delivered again.
                if is_far_from(session.window, self._window()):
                    return

    def _report_lost_session(self, session: MqttSession) -> None:
        """Report that the broker has no session from which it had sent messages to this launch."""
        options = self._options
        if self._has_session and not session.is_resumed:
            self.reportError(
                f"{options.broker} has no session of client {options.client_id!r} any more: what was published since "
                "it ended, or in flight, is lost. Did the broker lose its data, or has "
                f"session_expiry={options.session_expiry:g} passed?"
            )
        self._has_session = options.is_session_kept

    def _report_undecodable(self, deliveries: Sequence[MqttDelivery], undecodable: dict[int, ValueError]) -> None:
        index, error = next(iter(undecodable.items()))
        if self._options.dead_letter:
            what = f"they go to the dead-letter topic {self._options.dead_letter!r}"
        else:
            what = (
                "they stay in the broker, unacknowledged, and take part of receive_maximum. Set dead_letter to a topic "
                "for them, or value_as=bytes"
            )
        topic = deliveries[index].message.topic
        self.reportError(
            f"{len(undecodable)} messages cannot be decoded, the first of topic {topic!r}: {what}",
            error,
        )

    def _give_up(
        self, session: MqttSession, deliveries: Sequence[MqttDelivery], undecodable: dict[int, ValueError]
    ) -> set[int]:
        """Publish dead letters; return the positions of the messages that stay with the broker."""
        options = self._options
        if not options.dead_letter:
            return set(undecodable)
        for position, reason in undecodable.items():
            message = deliveries[position].message
            letter = DeadLetter("undecodable", str(reason), None, message.topic)
            properties = publish_properties([*message.user_properties, *letter.headers().items()])
            session.publish(options.dead_letter, message.payload, properties)
        self._dead_letters += len(undecodable)
        return set()

    def _report_status(self, session: MqttSession, taken: Sequence[MqttDelivery]) -> None:
        oldest_s = taken[0].arrived_s if taken else session.buffer.oldest_s
        self.report_source(
            SourceStatus(
                oldest_unacknowledged_s=None if oldest_s is None else time.time() - oldest_s,
                redelivered=self._redelivered + session.redelivered,
                dead_letters=self._dead_letters,
            )
        )
