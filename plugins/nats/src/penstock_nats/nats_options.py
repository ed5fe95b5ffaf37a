"""``NatsOptions``: the options of the receiver ``nats``."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import attrs
from attrs import field, frozen
from attrs.validators import and_, ge, gt, le, min_len

from penstock_brokers import DeadLetterOptions, SecretText, TlsOptions, ValueAs, columns_option, secret_option
from penstock_nats.subjects import is_subject, is_subject_filter, matches

#: Column → what it contains.
COLUMNS = {
    "value": "the body",
    "subject": "the subject",
    "headers": "a map of text to text",
    "stream": "the stream",
    "sequence": "the sequence number in the stream",
    "timestamp": "when the stream stored the message",
    "deliveries": "how often it was delivered, 1 for the first time",
}
Column = Literal["value", "subject", "headers", "stream", "sequence", "timestamp", "deliveries"]


def _is_name(_options: object, attribute: attrs.Attribute[str], value: str) -> None:
    if not value or any(character in value for character in " \t\r\n.*>/\\"):
        raise ValueError(f"{attribute.name} must be a name without blanks, dots, *, > and slashes")


def _are_filters(_options: object, attribute: attrs.Attribute[Any], value: tuple[str, ...]) -> None:
    if wrong := next((subject for subject in value if not is_subject_filter(subject)), None):
        raise ValueError(f"{attribute.name} contains {wrong!r}, which is no subject or pattern: orders.*.new, orders.>")


def _is_start(_options: object, attribute: attrs.Attribute[str], value: str) -> None:
    if value in {"earliest", "latest"}:
        return
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise ValueError(
            f"{attribute.name} must be earliest, latest, or a time with a zone such as 2026-11-24T12:00:00+00:00"
        )


def _needs(name: str) -> Any:
    def check(options: Any, attribute: attrs.Attribute[Any], value: object) -> None:
        if value and not getattr(options, name):
            raise ValueError(f"{attribute.name} has no effect without {name}")

    return check


def _is_elsewhere(options: NatsOptions, attribute: attrs.Attribute[str], value: str) -> None:
    if not value:
        return
    if not is_subject(value):
        raise ValueError(f"{attribute.name} must be a subject without wildcards")
    if taking := next((each for each in options.subjects if matches(each, value)), None):
        raise ValueError(
            f"{attribute.name} is one of the subjects {taking!r}: the receiver would read its dead letters"
        )


@frozen(kw_only=True)
class NatsOptions(TlsOptions, DeadLetterOptions):
    """Options of the receiver ``nats``; the ``help`` of each field describes it."""

    stream: str = field(validator=_is_name, metadata={"help": "name of the stream, which must exist"})
    consumer: str = field(
        validator=_is_name,
        metadata={
            "help": "name of the durable consumer, whose position the server keeps; created unless it exists. "
            "Receivers with the same name share the messages"
        },
    )
    servers: tuple[str, ...] = field(
        default=("nats://localhost:4222",),
        validator=min_len(1),
        metadata={"help": "addresses of servers of one cluster, without passwords"},
    )
    subjects: tuple[str, ...] = field(
        default=(),
        validator=_are_filters,
        metadata={"help": "subjects to read, also with * and >; by default all of the stream"},
    )
    start: str = field(
        default="earliest",
        validator=_is_start,
        metadata={"help": "where a new consumer starts: earliest, latest (only new messages), or a time with a zone"},
    )
    columns: tuple[Column, ...] = columns_option(("value",), COLUMNS)
    value_as: ValueAs = field(
        default="text", metadata={"help": "the body as bytes, text (UTF-8), or json (text that is checked)"}
    )
    batch: int = field(
        default=1000,
        validator=and_(ge(1), le(100_000)),
        metadata={"help": "largest number of messages to fetch and acknowledge at once"},
    )
    ack_wait: float = field(
        default=30.0,
        validator=and_(ge(1.0), le(86_400.0)),
        metadata={
            "help": "of a new consumer, seconds: when an unacknowledged message is delivered again. The receiver "
            "extends it while a batch waits"
        },
    )
    max_ack_pending: int = field(
        default=20_000,
        validator=ge(1),
        metadata={"help": "of a new consumer: how many messages of all its receivers may be unacknowledged"},
    )
    retry_delay: float = field(
        default=30.0,
        validator=and_(ge(0.0), le(86_400.0)),
        metadata={"help": "without `dead_letter`: seconds until a message that cannot be decoded is delivered again"},
    )
    connect_timeout: float = field(
        default=5.0, validator=and_(gt(0.0), le(3600.0)), metadata={"help": "seconds, for each server"}
    )
    user: str = field(default="", metadata={"help": "user name"})
    password: SecretText | None = secret_option("password of `user`", _needs("user"))
    token: SecretText | None = secret_option("token, instead of a user")
    creds: str = field(default="", metadata={"help": "file with the user's JWT and key (.creds), read on the executor"})
    dead_letter: str = field(
        default="",
        validator=_is_elsewhere,
        metadata={
            "help": "subject of a stream for messages that cannot be decoded or come too often; empty: they stay, and "
            "come again after `retry_delay`"
        },
    )

    @property
    def address(self) -> str:
        """The servers, for messages."""
        return ", ".join(self.servers)
