"""``Feeder``: writes into the external system that a receiver under test reads from."""

from __future__ import annotations

import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn, Self

from attrs import Factory, frozen


@frozen
class Message:
    """A message as the source has it.

    Attributes:
        value: its bytes.
        headers: name → text.
    """

    value: bytes
    headers: Mapping[str, str] = Factory(dict)


@frozen
class DeadLetter:
    """A message that the receiver has published as a dead letter.

    Attributes:
        message: the message, with the headers that it has as a dead letter.
        reason: why it could not be stored.
        deliveries: how often it was delivered before; ``None`` if the dead letter does not say.
    """

    message: Message
    reason: str
    deliveries: int | None = None


class Feeder(ABC):
    """The source of a receiver under test: an author writes one for each external system.

    A check creates a feeder, makes the receiver from it, and calls these methods. Each method returns once the source
    has carried it out, not once the receiver has noticed. ``put`` is required. A check that needs a method which is
    not overridden is not applicable.

    Attributes:
        terminator: the bytes with which ``encode`` ends a record; the last record of a stream may lack them. Empty for
            records without a terminator, such as length-prefixed frames.
        in_process: whether the source is in this process, where no worker of Spark reaches it.
        lease_s: how long the source waits for an acknowledgement, or for a sign of life, before it delivers a message
            again or expels the receiver; in seconds. ``None`` if the source has no such limit.
        rebalances: whether receivers that are connected to the source share its messages, and share them anew when one
            joins or leaves.
        lacks: method or attribute that the source cannot have, such as ``lease_s`` → why. The report repeats the reason
            for each check that is not applicable without it.
        assigned_columns: the columns of stored rows that the source assigns, such as an offset or a time: checks
            compare rows without them. A row with one other column compares as the value of this column.
    """

    terminator: bytes = b""
    in_process: ClassVar[bool] = False
    lease_s: ClassVar[float | None] = None
    rebalances: ClassVar[bool] = False
    lacks: ClassVar[Mapping[str, str]] = {}
    assigned_columns: ClassVar[tuple[str, ...]] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @classmethod  # noqa: B027  # optional
    def prepare(cls) -> None:
        """Start what all feeders share, such as a server that takes seconds to start.

        Called before each check, in the process that also runs the forks of isolated checks. It must return at once
        when it has done so before.
        """

    def options(self) -> Mapping[str, Any]:
        """The receiver plugin's options for this source, such as host and port."""
        return {}

    @abstractmethod
    def put(self, records: Sequence[Any]) -> None:
        """Make records available to the receiver, in this order. Must return during a ``pause``, too.

        Checks put records while the source is paused, so that the receiver finds them together. A source that is
        paused by suspending its server cannot take them: queue them, and send them in ``heal``.

        Args:
            records: each equals the record that the receiver is to store for it.
        """

    def sample(self, rng: random.Random, count: int) -> list[Any]:
        """Draw distinct records that the source can carry; short texts unless overridden."""
        return [f"{index}-{rng.getrandbits(32):08x}" for index in range(count)]

    def odd_records(self) -> list[Any]:
        """Legal records that are easily damaged on the way: empty, long, with special characters."""
        return ["", " ", "\t", "\x00", "é", "😀", "a\u0301", "'\"\\", "x" * 100_000]

    def large(self, rng: random.Random, count: int) -> list[Any]:
        """Draw distinct records of about 20 kB, or as large as the source can carry.

        Unless overridden, the records of ``sample``, padded if they are texts.
        """
        padding = "x" * 20_000
        return [record + padding if isinstance(record, str) else record for record in self.sample(rng, count)]

    def close(self) -> None:  # noqa: B027  # optional
        """Release everything. Called once, after the receiver has stopped."""

    # -- optional abilities --

    def put_bytes(self, data: bytes) -> None:
        """Send raw bytes, if the transport is a byte stream: a record may be split at any byte."""
        self.unable("put_bytes")

    def encode(self, record: Any) -> bytes:
        """The bytes of a record with its terminator, as ``put`` sends it; see ``terminator``."""
        self.unable("encode")

    def put_bad(self) -> Message | None:
        """Make one record available that the receiver cannot decode; return it if it can become a dead letter."""
        self.unable("put_bad")

    def oversize(self) -> tuple[Any, str]:
        """A record above the receiver's size limit, and its policy: ``stored``, ``dropped`` or ``error``.

        The receiver reports ``dropped`` and ``error`` as errors. With ``error`` it may close the connection.
        """
        self.unable("oversize")

    def pause(self) -> None:
        """Stop serving without closing anything, so that the receiver's reads block. ``heal`` ends the pause.

        ``put`` must work meanwhile.
        """
        self.unable("pause")

    def cut(self) -> None:
        """Break every connection and refuse new ones, as a crashed server does. ``heal`` ends the outage."""
        self.unable("cut")

    def heal(self) -> None:
        """Serve again after ``pause`` or ``cut``. Records that the receiver has not read are served again."""
        self.unable("heal")

    def end(self) -> None:
        """Mark the end of the source: no record follows."""
        self.unable("end")

    def acknowledged(self) -> list[Any]:
        """The records that the receiver has acknowledged, in the order of acknowledgement."""
        self.unable("acknowledged")

    def pass_time(self, seconds: float) -> None:
        """Let time pass at the source, on which its leases depend; real time unless overridden."""
        threading.Event().wait(seconds)

    def refused_acknowledgements(self) -> int:
        """The number of acknowledgements that the source refused, such as for deliveries of an earlier session."""
        self.unable("refused_acknowledgements")

    def in_flight(self) -> int:
        """The number of messages that the source has delivered and that are not acknowledged."""
        self.unable("in_flight")

    def dead_letters(self) -> list[DeadLetter]:
        """The dead letters that the receiver has published."""
        self.unable("dead_letters")

    def taken(self) -> int:
        """The number of records that the receiver has taken so far. Records in transport buffers may count."""
        self.unable("taken")

    def position_options(self, position: Mapping[str, Any]) -> Mapping[str, Any]:
        """A replayable receiver plugin's options for continuing after a position, the metadata of its blocks."""
        self.unable("position_options")

    def share_options(self, index: int, count: int) -> Mapping[str, Any]:
        """Options for one of several instances that share the source: its partitions, or its name among them.

        Empty if the source assigns partitions and tells instances apart itself.

        Args:
            index: the number of this instance, from 0.
            count: the number of instances.
        """
        return {}

    def polls(self) -> int:
        """The number of requests for data and attempts to connect by the receiver so far."""
        self.unable("polls")

    def unable(self, ability: str) -> NoReturn:
        """End the check as not applicable: it needs an ability of this source, a method or an attribute.

        Raises:
            NotApplicable: always; with the reason from ``lacks``, if there is one.
        """
        # Here, so that a plugin which uses a source of the kit does not import pytest.
        from penstock_testing.check import NotApplicable

        reason = f": {self.lacks[ability]}" if ability in self.lacks else ""
        raise NotApplicable(f"{type(self).__name__} has no {ability}{reason}")
