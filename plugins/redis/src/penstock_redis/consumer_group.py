"""``ConsumerGroup``: the commands of a consumer group, for one consumer and several streams.

Replies are used in their raw RESP2 form: the client's own parser makes a dictionary of an entry, which loses the first
of two fields with one name, and costs more than everything else that a receiver does with an entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import redis
from attrs import evolve, field, frozen

from penstock_redis.stream_entries import Delivery

_RAW = ("XREADGROUP", "XAUTOCLAIM", "XCLAIM", "XPENDING", "XINFO GROUPS", "XINFO STREAM", "XGROUP CREATE")
# 2001. The server makes ids of its clock: a smaller number is an id that a producer chose.
_OLDEST_TIME_MS = 1_000_000_000_000
_PAGE = 1000


@frozen
class StreamLag:
    """The distance of a group from the end of a stream.

    Attributes:
        messages: entries not yet delivered to any consumer of the group; ``None`` when the server does not know.
        seconds: age of the last delivered entry while there are later ones, else 0; ``None`` if the ids are not times.
        trimmed: undelivered entries that the stream no longer has.
    """

    messages: int | None
    seconds: float | None
    trimmed: int


@frozen
class ConsumerGroup:
    """One consumer of a group.

    Attributes:
        client: one thread at a time uses it.
        name: name of the group.
        consumer: name of the consumer in the group.
        streams: names of the streams.
    """

    client: redis.Redis = field(repr=False)
    name: str
    consumer: str
    streams: tuple[bytes, ...]

    def __attrs_post_init__(self) -> None:
        for command in _RAW:
            self.client.set_response_callback(command, _unparsed)

    def create(self, stream: bytes, start: str | bytes) -> None:
        """Create the group, and an empty stream, where they do not exist.

        Args:
            stream: name of the stream.
            start: id of the last entry before those that the group reads; ``$`` is the newest.
        """
        try:
            self._call("XGROUP CREATE", stream, self.name, start, "MKSTREAM")
        except redis.ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise

    def newest_id(self, stream: bytes) -> bytes:
        """The largest id that the stream has had; ``0-0`` if it does not exist."""
        if not self._call("EXISTS", stream):
            return b"0-0"
        return bytes(_pairs(self._call("XINFO STREAM", stream))[b"last-generated-id"])

    def last_delivered_id(self, stream: bytes) -> bytes:
        """The id of the last entry that a consumer of the group was given."""
        return bytes(self._own(stream, self._call("XINFO GROUPS", stream))[b"last-delivered-id"])

    def read_new(self, count: int, block_ms: int) -> list[Delivery]:
        """Read entries that were not delivered before; wait for one at most ``block_ms``.

        Args:
            count: maximum number of entries per stream.
            block_ms: in milliseconds, at least 1.
        """
        ids = [b">"] * len(self.streams)
        reply = self._call(
            "XREADGROUP", "GROUP", self.name, self.consumer,
            "COUNT", count, "BLOCK", block_ms, "STREAMS", *self.streams, *ids,
        )  # fmt: skip
        return [Delivery.of(stream, entries) for stream, entries in reply or []]

    def read_pending(self, stream: bytes, after: bytes, count: int) -> Delivery | None:
        """Read the next entries that this consumer got earlier and has not acknowledged; ``None`` at the end."""
        reply = self._call(
            "XREADGROUP", "GROUP", self.name, self.consumer, "COUNT", count, "STREAMS", stream, after
        )  # fmt: skip
        entries = reply[0][1] if reply else []
        return self._counted(Delivery.of(stream, entries)) if entries else None

    def claim(self, stream: bytes, cursor: bytes, count: int, min_idle_ms: int) -> tuple[bytes, Delivery]:
        """Take over entries that no consumer has acknowledged or extended for ``min_idle_ms``.

        Returns:
            The cursor of the next call, ``0-0`` after the last entry, and the entries.
        """
        reply = self._call("XAUTOCLAIM", stream, self.name, self.consumer, min_idle_ms, cursor, "COUNT", count)
        next_cursor, entries, trimmed = reply
        return next_cursor, self._counted(evolve(Delivery.of(stream, entries), trimmed=trimmed))

    def acknowledge(self, stream: bytes, ids: Sequence[bytes]) -> None:
        """Acknowledge entries."""
        if ids:
            self._call("XACK", stream, self.name, *ids)

    def give_up(self, stream: bytes, dead_letter: str, entries: Mapping[bytes, Sequence[bytes | str]]) -> None:
        """Append entries to a dead-letter stream, then acknowledge them.

        A transaction of the server would acknowledge an entry also if it could not be appended.

        Args:
            stream: the stream that has the entries.
            dead_letter: name of the other stream.
            entries: id → field names and values in the other stream, alternating.
        """
        for fields in entries.values():
            self._call("XADD", dead_letter, "*", *fields)
        self.acknowledge(stream, list(entries))

    def extend(self, stream: bytes, ids: Sequence[bytes]) -> None:
        """Set the idle time of pending entries of this consumer to zero."""
        self._call("XCLAIM", stream, self.name, self.consumer, 0, *ids, "JUSTID")

    def lag(self, stream: bytes) -> StreamLag:
        """The distance of the group from the end of a stream."""
        # One transaction: entries that are read and trimmed between two answers would seem lost.
        with self.client.pipeline(transaction=True) as pipeline:
            pipeline.execute_command("XINFO GROUPS", stream)
            pipeline.execute_command("XINFO STREAM", stream)
            pipeline.execute_command("TIME")
            groups, info, (seconds, microseconds) = pipeline.execute()
        return lag_of(self._own(stream, groups), _pairs(info), seconds * 1000 + microseconds // 1000)

    def leave(self) -> None:
        """Delete this consumer from the groups in which it has no pending entries."""
        for stream in self.streams:
            if not self._call("XPENDING", stream, self.name, "-", "+", 1, self.consumer):
                self._call("XGROUP DELCONSUMER", stream, self.name, self.consumer)

    def _own(self, stream: bytes, groups: Sequence[Any]) -> dict[bytes, Any]:
        """The description of this group among those of a stream."""
        for group in map(_pairs, groups):
            if group[b"name"] == self.name.encode():
                if b"lag" not in group:
                    raise redis.RedisError("this server is too old: Redis 7, Valkey 7 or newer is required")
                return group
        raise redis.ResponseError(f"NOGROUP stream {stream.decode()!r} has no group {self.name!r}")

    def _counted(self, delivery: Delivery) -> Delivery:
        """The redelivered entries with their numbers of deliveries."""
        if not delivery.entries:
            return delivery
        ids = delivery.ids
        counts = dict(self._delivery_counts(delivery.stream, ids[0], ids[-1]))
        # An entry that is not pending any more was acknowledged by its former consumer.
        return evolve(delivery, counts={entry_id: counts.get(entry_id, 1) for entry_id in ids})

    def _delivery_counts(self, stream: bytes, first: bytes, last: bytes) -> Iterator[tuple[bytes, int]]:
        while True:
            page = self._call("XPENDING", stream, self.name, first, last, _PAGE, self.consumer)
            yield from ((row[0], row[3]) for row in page)
            if len(page) < _PAGE:
                return
            first = b"(" + page[-1][0]

    def _call(self, *command: Any) -> Any:
        return self.client.execute_command(*command)


def lag_of(group: Mapping[bytes, Any], info: Mapping[bytes, Any], now_ms: int) -> StreamLag:
    """Compute the lag from the server's descriptions of a group and of its stream, and the server's time."""
    undelivered = group[b"lag"]
    last_ms = _time_ms(group[b"last-delivered-id"])
    if last_ms < _OLDEST_TIME_MS and info[b"first-entry"]:
        # Nothing was delivered yet, or the ids are not times.
        last_ms = _time_ms(info[b"first-entry"][0])
    age_s = None if last_ms < _OLDEST_TIME_MS else (now_ms - last_ms) / 1000
    if undelivered is None:
        return StreamLag(None, age_s if _is_behind(group, info) else 0.0, 0)
    trimmed = max(0, undelivered - info[b"length"])
    return StreamLag(undelivered - trimmed, age_s if undelivered > trimmed else 0.0, trimmed)


def _is_behind(group: Mapping[bytes, Any], info: Mapping[bytes, Any]) -> bool:
    return bool(group[b"last-delivered-id"] != info[b"last-generated-id"])


def _time_ms(entry_id: bytes) -> int:
    return int(entry_id.partition(b"-")[0])


def _pairs(flat: Sequence[Any]) -> dict[bytes, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _unparsed(reply: Any, **_options: Any) -> Any:
    return reply
