"""``Delivered``: a message of a stream with what the server said of its delivery; and the columns of such messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from penstock_brokers import ColumnReader, decode

if TYPE_CHECKING:
    from nats.aio.msg import Msg

    from penstock_nats.nats_options import NatsOptions

# The parts of a reply subject, from its end or its start: servers since 2.8 add a domain, an account and a random word.
_OLD_LENGTH = 9
_HEADERS = pa.map_(pa.string(), pa.string())


class Delivered(NamedTuple):
    """One delivery of a message.

    Attributes:
        message: the client's; it has the methods that acknowledge.
        stream: name of the stream.
        sequence: number of the message in the stream.
        deliveries: how often the message was delivered, this time included.
        timestamp_ns: when the stream stored it, nanoseconds since the epoch.
        pending: messages of the stream that the consumer has not delivered yet.
    """

    message: Msg
    stream: str
    sequence: int
    deliveries: int
    timestamp_ns: int
    pending: int

    @classmethod
    def of(cls, message: Msg) -> Delivered:
        """Parse the subject that the server expects acknowledgements at. The client would make a date of each time."""
        words = message.reply.split(".")
        if len(words) > _OLD_LENGTH:
            words = words[2:]
        return cls(message, words[2], int(words[5]), int(words[4]), int(words[7]), int(words[8]))

    @property
    def origin(self) -> str:
        """Stream and sequence number of the message, for the headers of a dead letter."""
        return f"{self.stream}/{self.sequence} {self.message.subject}"


def column_reader(options: NatsOptions) -> ColumnReader[Delivered]:
    """The function that makes Arrow tables of messages."""
    arrays: Mapping[str, Callable[[Sequence[Delivered]], pa.Array]] = {
        "value": lambda them: decode([each.message.data for each in them], options.value_as),
        "subject": lambda them: pa.array([each.message.subject for each in them], pa.string()),
        "headers": lambda them: pa.array([list((each.message.headers or {}).items()) for each in them], _HEADERS),
        "stream": lambda them: pa.array([each.stream for each in them], pa.string()),
        "sequence": lambda them: pa.array([each.sequence for each in them], pa.int64()),
        "timestamp": lambda them: pa.array([each.timestamp_ns // 1000 for each in them], pa.timestamp("us", "UTC")),
        "deliveries": lambda them: pa.array([each.deliveries for each in them], pa.int32()),
    }
    return ColumnReader(options.columns, arrays)
