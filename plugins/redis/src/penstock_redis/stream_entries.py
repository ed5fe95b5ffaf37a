"""Stream entries as the server returns them, and as the columns of an Arrow table. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain

import pyarrow as pa
from attrs import evolve, field, frozen

from penstock.spi import shown
from penstock_brokers import ColumnReader, decode
from penstock_redis.options import RedisOptions

#: An entry as the client's parser returns it: a list of its id, and its field names and values, alternating.
Entry = tuple[bytes, list[bytes]]


@frozen
class Delivery:
    """Entries of one stream that the server has delivered to this consumer.

    Attributes:
        stream: name of the stream.
        entries: in the order of delivery.
        trimmed: ids of entries that were delivered before, and that the stream no longer has.
        counts: id → number of deliveries. Empty for entries that were never delivered before.
    """

    stream: bytes
    entries: Sequence[Entry] = field(repr=False)
    trimmed: Sequence[bytes] = ()
    counts: Mapping[bytes, int] = field(factory=dict, repr=False)

    @classmethod
    def of(cls, stream: bytes, reply: Sequence[tuple[bytes, list[bytes] | None]]) -> Delivery:
        """Separate the entries of a reply from those that are trimmed, which have no fields."""
        entries = [(entry_id, fields) for entry_id, fields in reply if fields is not None]
        return cls(stream, entries, [entry_id for entry_id, fields in reply if fields is None])

    def where(self, is_chosen: Callable[[bytes], bool]) -> Delivery:
        """The entries whose ids are chosen, without the trimmed ones."""
        entries = [entry for entry in self.entries if is_chosen(entry[0])]
        return evolve(
            self, entries=entries, trimmed=(), counts={entry_id: self.counts[entry_id] for entry_id, _ in entries}
        )

    @property
    def ids(self) -> list[bytes]:
        """The ids of the entries."""
        return [entry_id for entry_id, _ in self.entries]

    @property
    def num_bytes(self) -> int:
        """The size of all names and values."""
        return sum(map(len, chain.from_iterable(fields for _, fields in self.entries)))


def column_reader(delivery: Delivery, options: RedisOptions) -> ColumnReader[Entry]:
    """Makes the columns of a delivery's entries."""
    return ColumnReader(
        options.columns,
        {
            "stream": lambda entries: pa.repeat(pa.scalar(delivery.stream.decode()), len(entries)),
            "id": _ids,
            "timestamp": _timestamps,
            "deliveries": lambda entries: pa.array([delivery.counts.get(entry[0], 1) for entry in entries], pa.int32()),
            "fields": partial(_fields, options=options),
            "value": partial(_values, options=options),
        },
    )


def _ids(entries: Sequence[Entry]) -> pa.Array:
    return pa.array([entry_id for entry_id, _ in entries], pa.binary()).cast(pa.string())


def _timestamps(entries: Sequence[Entry]) -> pa.Array:
    times_ms = [int(entry_id.partition(b"-")[0]) for entry_id, _ in entries]
    return pa.array(times_ms, pa.int64()).cast(pa.timestamp("ms", "UTC"))


def _fields(entries: Sequence[Entry], options: RedisOptions) -> pa.Array:
    ends = accumulate((len(fields) // 2 for _, fields in entries), initial=0)
    flat = list(chain.from_iterable(fields for _, fields in entries))
    values = decode(flat[1::2], options.value_as)
    return pa.MapArray.from_arrays(pa.array(ends, pa.int32()), decode(flat[::2], "text"), values)


def _values(entries: Sequence[Entry], options: RedisOptions) -> pa.Array:
    name = options.value_field.encode()
    return decode([_value(fields, name) for _, fields in entries], options.value_as)


def _value(fields: Sequence[bytes], name: bytes) -> bytes:
    """The value of a field.

    Raises:
        ValueError: the entry has no such field.
    """
    if fields[0] == name:
        return fields[1]
    for number in range(2, len(fields), 2):
        if fields[number] == name:
            return fields[number + 1]
    raise ValueError(f"the entry has no field {name.decode()!r}, its first is {shown(fields[0])}")
