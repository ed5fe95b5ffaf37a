"""The columns of RabbitMQ's messages, and how often a message was delivered."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import pyarrow as pa

from penstock_brokers import ColumnReader, Delivery, ValueAs, decode

if TYPE_CHECKING:
    from pika.spec import Basic, BasicProperties

Column = Literal[
    "value",
    "routing_key",
    "exchange",
    "headers",
    "timestamp",
    "message_id",
    "correlation_id",
    "content_type",
    "redelivered",
    "deliveries",
]

#: Column → what it contains.
MEANINGS: Mapping[str, str] = {
    "value": "body of the message, as `value_as` says",
    "routing_key": "its routing key",
    "exchange": "the exchange to which it was published; empty for the default exchange",
    "headers": "its headers, a map of texts; a value of another type is JSON",
    "timestamp": "the publisher's time in seconds, if it gave one",
    "message_id": "the publisher's id of it, if any",
    "correlation_id": "its correlation id, if any",
    "content_type": "its MIME type, if any",
    "redelivered": "whether it was delivered before",
    "deliveries": "how often it was delivered; quorum queues count it",
}
_HEADERS = pa.map_(pa.string(), pa.string())
_TIMESTAMP = pa.timestamp("s", "UTC")
_COUNT_HEADER = "x-delivery-count"


class RabbitMessage(NamedTuple):
    """A message as RabbitMQ delivered it."""

    method: Basic.Deliver
    properties: BasicProperties
    body: bytes

    @property
    def deliveries(self) -> int | None:
        """Number of deliveries, this one included; ``None`` for a classic queue, which does not count them."""
        # Absent at the first delivery. A quorum queue counts those before.
        count = (self.properties.headers or {}).get(_COUNT_HEADER)
        if count is not None:
            return int(count) + 1
        return None if self.method.redelivered else 1


RabbitDelivery: TypeAlias = Delivery[RabbitMessage]


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _headers(message: RabbitMessage) -> list[tuple[str, str]]:
    headers = message.properties.headers
    return [(name, _text(value)) for name, value in headers.items()] if headers else []


def column_reader(columns: Sequence[Column], value_as: ValueAs) -> ColumnReader[RabbitDelivery]:
    """The function that makes tables with these columns."""

    def texts(read: Callable[[RabbitMessage], str | None]) -> Callable[[Sequence[RabbitDelivery]], pa.Array]:
        return lambda those: pa.array([read(each.message) for each in those], pa.string())

    arrays: Mapping[str, Callable[[Sequence[RabbitDelivery]], pa.Array]] = {
        "value": lambda those: decode([each.message.body for each in those], value_as),
        "routing_key": texts(lambda message: message.method.routing_key),
        "exchange": texts(lambda message: message.method.exchange),
        "headers": lambda those: pa.array([_headers(each.message) for each in those], _HEADERS),
        "timestamp": lambda those: pa.array([each.message.properties.timestamp for each in those], _TIMESTAMP),
        "message_id": texts(lambda message: message.properties.message_id),
        "correlation_id": texts(lambda message: message.properties.correlation_id),
        "content_type": texts(lambda message: message.properties.content_type),
        "redelivered": lambda those: pa.array([each.message.method.redelivered for each in those], pa.bool_()),
        "deliveries": lambda those: pa.array([each.message.deliveries for each in those], pa.int64()),
    }
    return ColumnReader(columns, arrays)
