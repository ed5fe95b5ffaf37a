"""``MqttOptions``: the options of the receiver ``mqtt``."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen
from attrs.validators import and_, ge, gt, in_, le, max_len, min_len

from penstock_brokers import SecretText, TlsOptions, ValueAs, columns_option, secret_option
from penstock_mqtt.message_columns import MEANINGS, Column
from penstock_mqtt.topics import check_topic, check_topic_filter

_MOST_SECONDS = 0xFFFF_FFFE


def _are_topic_filters(_options: object, _attribute: object, value: tuple[str, ...]) -> None:
    if not value:
        raise ValueError("topics must name at least one topic filter, such as sensors/+/temperature")
    for topic_filter in value:
        check_topic_filter(topic_filter)


def _is_at_least_once(_options: object, _attribute: object, value: int) -> None:
    if value == 2:
        raise ValueError(
            "qos must be 1 or 0: with QoS 2 a client takes over a message before it is stored, so that a crash loses "
            "it. With qos=1 the broker sends what was published with QoS 2, and redelivers it until it is stored"
        )
    if value not in (0, 1):
        raise ValueError("qos must be 1 or 0")


def _is_topic(options: Any, _attribute: object, value: str) -> None:
    if value:
        check_topic(value)
        if options.protocol != "5":
            raise ValueError("dead_letter needs protocol 5: earlier messages have no properties for the reason")


@frozen(kw_only=True)
class MqttOptions(TlsOptions):
    """Options of the receiver ``mqtt``; the ``help`` of each field describes it."""

    topics: tuple[str, ...] = field(
        validator=_are_topic_filters,
        metadata={"help": "topic filters, separated by commas; `+` is one level, `#` all deeper levels"},
    )
    client_id: str = field(
        validator=and_(min_len(1), max_len(1000)),
        metadata={"help": "names the session that the broker keeps: each receiver needs its own, the same each time"},
    )
    host: str = field(
        default="localhost", validator=min_len(1), metadata={"help": "host name or address of the broker"}
    )
    port: int = field(
        default=1883,
        validator=and_(ge(1), le(65535)),
        metadata={"help": "TCP port of the broker; with TLS usually 8883"},
    )
    user: str = field(default="", metadata={"help": "user name"})
    password: SecretText | None = secret_option("password of `user`")
    qos: int = field(
        default=1,
        validator=_is_at_least_once,
        metadata={"help": "1: the broker redelivers what was not stored; 0: it sends each message at most once"},
    )
    retained: Literal["new", "always", "never"] = field(
        default="new",
        validator=in_(("new", "always", "never")),
        metadata={
            "help": "when the broker sends retained messages: for a new subscription, for each connection, never"
        },
    )
    protocol: Literal["5", "3.1.1"] = field(
        default="5", validator=in_(("5", "3.1.1")), metadata={"help": "version of MQTT"}
    )
    session_expiry: float = field(
        default=604_800.0,
        validator=and_(ge(0), le(_MOST_SECONDS)),
        metadata={"help": "seconds for which the broker keeps the messages of a receiver that is away; MQTT 5 only"},
    )
    receive_maximum: int = field(
        default=2000,
        validator=and_(ge(2), le(65_535)),
        metadata={"help": "most messages in flight; with MQTT 3.1.1 the limit that the broker has, often 20"},
    )
    keepalive: int = field(
        default=60,
        validator=and_(ge(2), le(65_535)),
        metadata={
            "help": "seconds; the broker may expel a client that is silent 1.5 times as long, and the receiver sends a "
            "keepalive after half of it"
        },
    )
    connect_timeout: float = field(
        default=10.0,
        validator=and_(gt(0), le(3600)),
        metadata={"help": "timeout in seconds for connecting, and for the answers of the broker"},
    )
    value_as: ValueAs = field(
        default="bytes",
        validator=in_(("bytes", "text", "json")),
        metadata={"help": "payload as bytes, text, or JSON (checked text)"},
    )
    columns: tuple[Column, ...] = columns_option(("topic", "value", "timestamp"), MEANINGS)
    dead_letter: str = field(
        default="",
        validator=_is_topic,
        metadata={"help": "topic for messages that cannot be decoded; empty: they stay in the broker, unacknowledged"},
    )

    @property
    def is_session_kept(self) -> bool:
        """Whether the broker keeps messages while the receiver is away."""
        return self.protocol != "5" or self.session_expiry > 0

    @property
    def broker(self) -> str:
        """The broker, for messages."""
        return f"MQTT broker {self.host}:{self.port}"
