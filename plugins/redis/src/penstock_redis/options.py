"""``RedisOptions``: the options of the receiver ``redis``."""

from __future__ import annotations

import re
from typing import Any, Literal

from attrs import field, frozen
from attrs.validators import and_, ge, gt, in_, le, matches_re, min_len

from penstock_brokers import DeadLetterOptions, SecretText, TlsOptions, ValueAs, columns_option, secret_option

_LAST_SEQUENCE = (1 << 64) - 1
_START = re.compile(r"earliest|latest|\d{1,20}(-\d{1,20})?")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _check_streams(_options: Any, _attribute: Any, value: str) -> None:
    if not _names(value):
        raise ValueError("streams names no stream")


Column = Literal["stream", "id", "timestamp", "deliveries", "fields", "value"]


@frozen(kw_only=True)
class RedisOptions(TlsOptions, DeadLetterOptions):
    """Options of the receiver ``redis``; the ``help`` of each field describes it."""

    streams: str = field(validator=_check_streams, metadata={"help": "names of the streams, separated by commas"})
    group: str = field(
        default="penstock",
        validator=min_len(1),
        metadata={"help": "consumer group; its members share the entries of the streams"},
    )
    host: str = field(
        default="localhost", validator=min_len(1), metadata={"help": "host name or address of the server"}
    )
    port: int = field(default=6379, validator=and_(ge(1), le(65535)), metadata={"help": "TCP port of the server"})
    database: int = field(default=0, validator=ge(0), metadata={"help": "number of the database"})
    password: SecretText | None = secret_option("password of the user")
    username: str = field(default="", metadata={"help": "ACL user; empty for the default user"})
    consumer: str = field(
        default="",
        metadata={
            "help": "name of this consumer in the group; by default the application's id and the stream's number"
        },
    )
    start: str = field(
        default="earliest",
        validator=matches_re(_START),
        metadata={"help": "where a new group starts: earliest, latest, a time in milliseconds, or after an entry id"},
    )
    columns: tuple[Column, ...] = columns_option(
        ("stream", "id", "timestamp", "fields"),
        {
            "stream": "name of the stream",
            "id": "id of the entry",
            "timestamp": "the time in the id",
            "deliveries": "number of deliveries, 1 for the first",
            "fields": "map of all fields",
            "value": "value of the field that `value_field` names",
        },
    )
    value_field: str = field(
        default="value", validator=min_len(1), metadata={"help": "the field of an entry that is the column value"}
    )
    value_as: ValueAs = field(
        default="text",
        validator=in_(("bytes", "text", "json")),
        metadata={"help": "form of values: bytes, text, or json, which is text that was checked"},
    )
    fetch_size: int = field(
        default=1000,
        validator=and_(ge(1), le(100_000)),
        metadata={"help": "largest number of entries to read, store and acknowledge at once"},
    )
    min_idle: float = field(
        default=60.0,
        validator=and_(ge(0.1), le(86_400.0)),
        metadata={"help": "seconds without a sign of life after which another consumer takes over pending entries"},
    )
    timeout: float = field(
        default=10.0,
        validator=and_(gt(0), le(3600)),
        metadata={"help": "seconds to wait for a connection, and for an answer of the server"},
    )

    @property
    def stream_names(self) -> tuple[bytes, ...]:
        """The names of the streams."""
        return tuple(name.encode() for name in _names(self.streams))

    @property
    def start_id(self) -> str:
        """The id after which a new group starts. A time is that of the first entry to read."""
        if self.start.isdigit():
            return f"{int(self.start) - 1}-{_LAST_SEQUENCE}" if int(self.start) else "0"
        return {"earliest": "0", "latest": "$"}.get(self.start, self.start)
