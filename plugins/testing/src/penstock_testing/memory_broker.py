"""``MemoryBroker`` and ``MemoryBrokerFeeder``: a message broker with leases, in this process, for receivers under test.

Its leases follow a clock of its own, which only ``pass_time`` moves: tests of leases need no waiting and are
deterministic. A receiver that was pickled finds its broker again by ``MemoryBroker.find(address)``.
"""

from __future__ import annotations

import bisect
import itertools
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from attrs import define, frozen

from penstock_testing.feeder import DeadLetter, Feeder, Message

# Time passes in steps of this part of a lease, so that a session can extend its leases in between.
_STEP = 0.25
# A session is asked to extend its leases after this part of one.
_EXTEND_AFTER = 0.5
# Maximum real time in which a session that was asked to extend its leases does so.
_EXTENDED_S = 10.0
_BAD = b"\xff\xfe\xfd"


@frozen
class Delivery:
    """One delivery of a message.

    Attributes:
        tag: the number of the delivery in its session, from 1; no other session knows it.
        value: the message's bytes.
        headers: the message's headers.
        count: how often the message was delivered, this delivery included.
    """

    tag: int
    value: bytes
    headers: Mapping[str, str]
    count: int


@define(eq=False)
class _Entry:
    """A message of the broker, and the delivery of it that is in flight."""

    number: int
    message: Message
    count: int = 0
    session: BrokerSession | None = None
    tag: int = 0
    delivered_at_s: float = 0.0
    expires_at_s: float = 0.0


class MemoryBroker:
    """A queue of messages with sessions, leases, redelivery, acknowledgements and dead letters. Thread-safe.

    Every message is delivered to one session, for one lease. It is delivered again, to any session, when its lease
    has expired, its session has ended, or its session has given it back. Sessions compete for messages.

    Args:
        lease_s: the duration of a lease in seconds of the broker's clock.

    Attributes:
        address: a receiver finds the broker by it.
        dead_letters: messages that sessions have published as dead letters.
        refused: the number of acknowledgements of deliveries that were not in flight in their session.
    """

    _numbers: ClassVar[itertools.count[int]] = itertools.count()
    _brokers: ClassVar[dict[str, MemoryBroker]] = {}

    def __init__(self, lease_s: float = 1.0) -> None:
        self.address = f"memory-broker-{next(self._numbers)}"
        self.lease_s = lease_s
        self.dead_letters: list[DeadLetter] = []
        self.refused = 0
        self._changed = threading.Condition()
        self._now_s = 0.0
        self._state = "up"
        self._count = 0
        # Sorted by their numbers: a message that is delivered again keeps its place.
        self._waiting: list[_Entry] = []
        self._acknowledged: list[Message] = []
        self._sessions: list[BrokerSession] = []
        self._polls = self._taken = 0
        self._brokers[self.address] = self

    @classmethod
    def find(cls, address: str) -> MemoryBroker:
        """The broker with this address.

        Raises:
            ConnectionRefusedError: no broker has this address.
        """
        try:
            return cls._brokers[address]
        except KeyError:
            raise ConnectionRefusedError(f"no memory broker {address!r}") from None

    def session(self) -> BrokerSession:
        """A new session, not open yet."""
        return BrokerSession(self)

    def put(self, messages: Iterable[Message]) -> None:
        """Append messages."""
        with self._changed:
            for message in messages:
                self._waiting.append(_Entry(self._count, message))
                self._count += 1
            self._changed.notify_all()

    def pass_time(self, seconds: float) -> None:
        """Let time pass on the broker's clock, and let sessions that wait for it extend their leases in between."""
        with self._changed:
            end_s = self._now_s + seconds
            while self._now_s < end_s:
                self._now_s = min(self._now_s + _STEP * self.lease_s, end_s)
                self._return([entry for entry in self._in_flight() if entry.expires_at_s <= self._now_s])
                for session in self._sessions:
                    session._is_extending |= session._extends_at_s <= self._now_s
                self._changed.notify_all()
                self._changed.wait_for(
                    lambda: not any(session._is_extending for session in self._sessions), _EXTENDED_S
                )

    @property
    def in_flight(self) -> int:
        """The number of deliveries in flight."""
        with self._changed:
            return len(self._in_flight())

    @property
    def lag(self) -> int:
        """The number of messages that wait for a delivery."""
        return len(self._waiting)

    @property
    def oldest_unacknowledged_s(self) -> float | None:
        """The age of the oldest delivery in flight, in seconds of the broker's clock; ``None`` without one."""
        with self._changed:
            return max((self._now_s - entry.delivered_at_s for entry in self._in_flight()), default=None)

    def _in_flight(self) -> list[_Entry]:
        return [entry for session in self._sessions for entry in session._entries.values()]

    def _return(self, entries: Iterable[_Entry]) -> None:
        """Make messages in flight available again."""
        for entry in entries:
            assert entry.session is not None
            del entry.session._entries[entry.tag]
            entry.session = None
            bisect.insort(self._waiting, entry, key=lambda other: other.number)
        self._changed.notify_all()

    def _set(self, state: str) -> None:
        with self._changed:
            self._state = state
            if state in {"cut", "closed"}:
                for session in list(self._sessions):
                    session._end()
            self._changed.notify_all()


class BrokerSession:
    """One connection of a receiver to a ``MemoryBroker``. ``close`` wakes every blocked call of it."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self._is_closed = self._is_open = False
        # Deliveries in flight by tag.
        self._entries: dict[int, _Entry] = {}
        self._tags = itertools.count(1)
        # When a thread extends the leases of this session next; never without such a thread.
        self._extends_at_s = float("inf")
        # Whether that time has come, and the thread does not wait again yet; whether it has been told.
        self._is_extending = self._is_told = False

    @property
    def is_open(self) -> bool:
        """Whether the session is connected and has not ended."""
        return self._is_open

    def open(self, *, extends_leases: bool = False) -> None:
        """Connect. Blocks while the broker does not answer.

        Args:
            extends_leases: whether a thread calls ``await_extension`` from now on; ``pass_time`` then waits for it.

        Raises:
            ConnectionRefusedError: the broker is cut off or closed.
            ConnectionAbortedError: the session was closed meanwhile.
        """
        broker = self._broker
        with broker._changed:
            broker._polls += 1
            broker._changed.wait_for(lambda: self._is_closed or broker._state != "paused")
            if self._is_closed:
                raise ConnectionAbortedError(f"the session at {broker.address!r} was closed while it connected")
            if broker._state != "up":
                raise ConnectionRefusedError(f"memory broker {broker.address!r} refuses connections")
            self._is_open = True
            if extends_leases:
                self._extends_at_s = broker._now_s + _EXTEND_AFTER * broker.lease_s
            broker._sessions.append(self)

    def fetch(self, at_most: int = 100, timeout_s: float | None = None) -> list[Delivery]:
        """Wait for messages and return their deliveries; none if none came before the timeout.

        Raises:
            ConnectionResetError: the session has ended.
        """
        broker = self._broker
        with broker._changed:
            broker._polls += 1
            broker._changed.wait_for(
                lambda: not self._is_open or (broker._state == "up" and broker._waiting), timeout_s
            )
            self._must_be_open()
            if broker._state != "up":
                return []
            entries, broker._waiting = broker._waiting[:at_most], broker._waiting[at_most:]
            return self._deliver(entries)

    def claim(self, idle_s: float, at_most: int = 100) -> list[Delivery]:
        """Take over deliveries of other sessions that were made at least this many seconds ago, or extended then.

        Raises:
            ConnectionResetError: the session has ended.
        """
        broker = self._broker
        with broker._changed:
            self._must_be_open()
            idle_since_s = broker._now_s + broker.lease_s - idle_s
            idle = [
                entry
                for entry in broker._in_flight()
                if entry.session is not self and entry.expires_at_s <= idle_since_s
            ][:at_most]
            for entry in idle:
                assert entry.session is not None
                del entry.session._entries[entry.tag]
            return self._deliver(idle)

    def acknowledge(self, deliveries: Iterable[Delivery]) -> None:
        """Acknowledge deliveries of this session.

        Raises:
            ConnectionResetError: the session has ended; nothing was acknowledged.
            LookupError: a delivery is not in flight in this session; the others are acknowledged.
        """
        refused = []
        with self._broker._changed:
            self._must_be_open()
            for delivery in deliveries:
                entry = self._entries.pop(delivery.tag, None)
                if entry is None:
                    refused.append(delivery.tag)
                else:
                    self._broker._acknowledged.append(entry.message)
            self._broker.refused += len(refused)
            self._broker._changed.notify_all()
        if refused:
            raise LookupError(f"deliveries {refused[:5]} are not in flight in this session of {self._broker.address!r}")

    def give_back(self, deliveries: Iterable[Delivery]) -> None:
        """Return deliveries of this session, to be delivered again. Those that are not in flight are ignored."""
        with self._broker._changed:
            tags = [delivery.tag for delivery in deliveries]
            self._broker._return([self._entries[tag] for tag in tags if tag in self._entries])

    def publish_dead_letter(self, delivery: Delivery, reason: str) -> None:
        """Publish a message as a dead letter, with the reason; acknowledge it afterwards.

        Raises:
            ConnectionResetError: the session has ended.
        """
        with self._broker._changed:
            self._must_be_open()
            letter = DeadLetter(Message(delivery.value, delivery.headers), reason, delivery.count)
            self._broker.dead_letters.append(letter)

    def extend_leases(self) -> None:
        """Let the leases of all deliveries in flight in this session begin anew."""
        with self._broker._changed:
            for entry in self._entries.values():
                entry.expires_at_s = self._broker._now_s + self._broker.lease_s

    def await_extension(self) -> bool:
        """Wait until half a lease has passed since the last call; return false once the session has ended."""
        broker = self._broker
        with broker._changed:
            if self._is_told:
                self._extends_at_s = broker._now_s + _EXTEND_AFTER * broker.lease_s
                self._is_extending = self._is_told = False
                broker._changed.notify_all()
            broker._changed.wait_for(lambda: not self._is_open or self._is_extending)
            self._is_told = True
            return self._is_open

    def close(self) -> None:
        """End the session. What is in flight in it is delivered again."""
        with self._broker._changed:
            self._is_closed = True
            self._end()

    def _deliver(self, entries: list[_Entry]) -> list[Delivery]:
        broker, deliveries = self._broker, []
        broker._taken += len(entries)
        for entry in entries:
            entry.session = self
            entry.tag = next(self._tags)
            entry.count += 1
            entry.delivered_at_s = broker._now_s
            entry.expires_at_s = broker._now_s + broker.lease_s
            self._entries[entry.tag] = entry
            deliveries.append(Delivery(entry.tag, entry.message.value, entry.message.headers, entry.count))
        return deliveries

    def _must_be_open(self) -> None:
        if not self._is_open:
            raise ConnectionResetError(f"the session at memory broker {self._broker.address!r} has ended")

    def _end(self) -> None:
        if self._is_open:
            self._is_open = self._is_extending = False
            self._broker._return(list(self._entries.values()))
            self._broker._sessions.remove(self)
        self._broker._changed.notify_all()


class MemoryBrokerFeeder(Feeder):
    """Feeds receivers that read texts from a ``MemoryBroker``, as UTF-8; its one option is ``address``.

    Attributes:
        broker: the broker.
    """

    in_process = True
    lease_s = 1.0
    rebalances = True

    def __init__(self) -> None:
        self.broker = MemoryBroker(self.lease_s)

    def options(self) -> Mapping[str, Any]:
        return {"address": self.broker.address}

    def put(self, records: Sequence[Any]) -> None:
        self.broker.put(Message(record.encode()) for record in records)

    def put_bad(self) -> Message:
        message = Message(_BAD, {"origin": "test source"})
        self.broker.put([message])
        return message

    def pause(self) -> None:
        self.broker._set("paused")

    def cut(self) -> None:
        self.broker._set("cut")

    def heal(self) -> None:
        self.broker._set("up")

    def pass_time(self, seconds: float) -> None:
        self.broker.pass_time(seconds)

    def acknowledged(self) -> list[Any]:
        with self.broker._changed:
            return [message.value.decode() for message in self.broker._acknowledged if message.value != _BAD]

    def refused_acknowledgements(self) -> int:
        return self.broker.refused

    def in_flight(self) -> int:
        return self.broker.in_flight

    def dead_letters(self) -> list[DeadLetter]:
        with self.broker._changed:
            return list(self.broker.dead_letters)

    def taken(self) -> int:
        return self.broker._taken

    def polls(self) -> int:
        return self.broker._polls

    def close(self) -> None:
        self.broker._set("closed")
        MemoryBroker._brokers.pop(self.broker.address, None)
