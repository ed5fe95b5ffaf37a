"""Conformance suite of the receiver ``redis``, for ``penstock plugins check redis``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from penstock_redis.server import RedisServer
from penstock_testing import Capabilities, DeadLetter, Feeder, Message, ReceiverSuite

_STREAM, _DEAD = b"records", b"dead"
_LEASE_S = 2.0
_GROUP = "penstock"
_MANY = 1_000_000


class StreamFeeder(Feeder):
    """Appends to a stream of a server of its own. While the server is down, records wait here."""

    lease_s = _LEASE_S
    rebalances = True
    lacks: ClassVar = {"refused_acknowledgements": "XACK names an entry, which every connection may acknowledge"}

    def __init__(self) -> None:
        self._server = RedisServer()
        self._server.start()
        self._client = self._server.client()
        self._entries: dict[bytes, Any] = {}
        self._waiting: list[Any] = []
        self._is_up = True
        # The last known ones: a server that is down changes nothing.
        self._delivered: list[Any] = []
        self._acknowledged: list[Any] = []

    def options(self) -> Mapping[str, Any]:
        return {"host": "127.0.0.1", "port": self._server.port, "streams": _STREAM.decode(), "group": _GROUP}

    def put(self, records: Sequence[Any]) -> None:
        if not self._is_up:
            self._waiting.extend(records)
            return
        with self._client.pipeline(transaction=False) as pipeline:
            for record in records:
                pipeline.xadd(_STREAM, {"value": record.encode()})
            self._entries.update(zip(pipeline.execute(), records, strict=True))

    def put_bad(self) -> Message:
        bad = Message(b"\xff\xfe", {"kind": "bad"})
        self._client.xadd(_STREAM, {"value": bad.value, "kind": bad.headers["kind"]})
        return bad

    def share_options(self, index: int, count: int) -> Mapping[str, Any]:
        return {"consumer": f"member-{index}"}

    def oversize(self) -> tuple[Any, str]:
        return "x" * 5_000_000, "stored"

    def pause(self) -> None:
        self._look()
        self._is_up = False
        self._server.suspend()

    def cut(self) -> None:
        self._look()
        self._is_up = False
        self._server.kill()

    def heal(self) -> None:
        self._server.start()
        self._server.resume()
        self._is_up = True
        waiting, self._waiting = self._waiting, []
        self.put(waiting)

    def acknowledged(self) -> list[Any]:
        self._look()
        return self._acknowledged

    def taken(self) -> int:
        self._look()
        return len(self._delivered)

    def in_flight(self) -> int:
        if not self._client.exists(_STREAM):
            return 0
        return sum(int(group["pending"]) for group in self._client.xinfo_groups(_STREAM))

    def dead_letters(self) -> list[DeadLetter]:
        entries: Any = self._client.xrange(_DEAD)
        return [_dead_letter(fields) for _, fields in entries]

    def close(self) -> None:
        self._client.close()
        self._server.close()

    def _look(self) -> None:
        """Ask the server what it has delivered, and what of that is pending."""
        if not self._is_up or not self._client.exists(_STREAM):
            return
        for group in self._client.xinfo_groups(_STREAM):
            last = _number(group["last-delivered-id"])
            pending = self._client.xpending_range(_STREAM, _GROUP, "-", "+", _MANY)
            left = {entry["message_id"] for entry in pending}
            delivered = {entry_id: record for entry_id, record in self._entries.items() if _number(entry_id) <= last}
            self._delivered = list(delivered.values())
            self._acknowledged = [record for entry_id, record in delivered.items() if entry_id not in left]


def _number(entry_id: bytes) -> tuple[int, ...]:
    return tuple(map(int, entry_id.split(b"-")))


def _dead_letter(fields: Mapping[bytes, bytes]) -> DeadLetter:
    headers = {name.decode(): value.decode() for name, value in fields.items() if name != b"value"}
    message = Message(fields[b"value"], headers)
    return DeadLetter(message, headers["penstock-error"], int(headers["penstock-deliveries"]))


class RedisSuite(ReceiverSuite):
    """The receiver ``redis``."""

    name = "redis"
    feeder = StreamFeeder
    options: ClassVar = {"columns": ("value",), "value_as": "text", "min_idle": _LEASE_S, "dead_letter": _DEAD.decode()}
    capabilities = Capabilities(acknowledged=True, arrow=True)
