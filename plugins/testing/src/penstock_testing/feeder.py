"""``Feeder``: writes into the external system that a receiver under test reads from."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn, Self


class Feeder(ABC):
    """The source of a receiver under test: an author writes one for each external system.

    A check creates a feeder, makes the receiver from it, and calls these methods. Each method returns once the source
    has carried it out, not once the receiver has noticed. ``put`` is required. A check that needs a method which is
    not overridden is not applicable.

    Attributes:
        terminator: the bytes with which ``encode`` ends a record; the last record of a stream may lack them. Empty for
            records without a terminator, such as length-prefixed frames.
        in_process: whether the source is in this process, where no worker of Spark reaches it.
    """

    terminator: bytes = b""
    in_process: ClassVar[bool] = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def options(self) -> Mapping[str, Any]:
        """The receiver plugin's options for this source, such as host and port."""
        return {}

    @abstractmethod
    def put(self, records: Sequence[Any]) -> None:
        """Make records available to the receiver, in this order.

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
        self._unable("put_bytes")

    def encode(self, record: Any) -> bytes:
        """The bytes of a record with its terminator, as ``put`` sends it; see ``terminator``."""
        self._unable("encode")

    def put_bad(self) -> None:
        """Make one record available that the receiver cannot decode."""
        self._unable("put_bad")

    def oversize(self) -> tuple[Any, str]:
        """A record above the receiver's size limit, and its policy: ``stored``, ``dropped`` or ``error``.

        The receiver reports ``dropped`` and ``error`` as errors. With ``error`` it may close the connection.
        """
        self._unable("oversize")

    def pause(self) -> None:
        """Stop serving without closing anything, so that the receiver's reads block. ``heal`` ends the pause."""
        self._unable("pause")

    def cut(self) -> None:
        """Break every connection and refuse new ones, as a crashed server does. ``heal`` ends the outage."""
        self._unable("cut")

    def heal(self) -> None:
        """Serve again after ``pause`` or ``cut``. Records that the receiver has not read are served again."""
        self._unable("heal")

    def end(self) -> None:
        """Mark the end of the source: no record follows."""
        self._unable("end")

    def acknowledged(self) -> list[Any]:
        """The records that the receiver has acknowledged, in the order of acknowledgement."""
        self._unable("acknowledged")

    def taken(self) -> int:
        """The number of records that the receiver has taken so far. Records in transport buffers may count."""
        self._unable("taken")

    def position_options(self, position: Mapping[str, Any]) -> Mapping[str, Any]:
        """A replayable receiver plugin's options for continuing after a position, the metadata of its blocks."""
        self._unable("position_options")

    def share_options(self, index: int, count: int) -> Mapping[str, Any]:
        """Options for one of several instances that share the source's partitions; empty if the source assigns them.

        Args:
            index: the number of this instance, from 0.
            count: the number of instances.
        """
        return {}

    def polls(self) -> int:
        """The number of requests for data and attempts to connect by the receiver so far."""
        self._unable("polls")

    def _unable(self, method: str) -> NoReturn:
        # Here, so that a plugin which uses a source of the kit does not import pytest.
        from penstock_testing.check import NotApplicable

        raise NotApplicable(f"{type(self).__name__} does not implement {method}")
