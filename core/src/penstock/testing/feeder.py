"""``Feeder``: writes into the external system that a receiver under test reads from."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn, Self

from penstock.testing.check import NotApplicable


class Feeder(ABC):
    """The source of a receiver under test: an author writes one for each external system.

    A check creates a feeder, makes the receiver from it, and calls these methods. Each returns once the source has
    done it, not once the receiver has seen it. ``put`` is required. A method that is not overridden makes the checks
    that need it not applicable.

    Attributes:
        terminator: with which ``encode`` ends a record and which the last record of a stream may lack; empty when
            there is no such thing, as for records that follow their length.
        in_process: whether the source is in this process, so that no worker of Spark reaches it.
    """

    terminator: bytes = b""
    in_process: ClassVar[bool] = False

    def __enter__(self) -> Self:
        """Return the feeder."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Close the feeder."""
        self.close()

    def options(self) -> Mapping[str, Any]:
        """Options with which the receiver plugin reads from this source, such as host and port."""
        return {}

    @abstractmethod
    def put(self, records: Sequence[Any]) -> None:
        """Make records available to the receiver, in this order.

        Args:
            records: each equal to what the receiver is to store for it.
        """

    def sample(self, rng: random.Random, count: int) -> list[Any]:
        """Draw distinct records that the source can carry; short texts unless overridden."""
        return [f"{index}-{rng.getrandbits(32):08x}" for index in range(count)]

    def odd_records(self) -> list[Any]:
        """Records that are hard to carry faithfully: empty, long, with special characters. Only legal ones."""
        return ["", " ", "\t", "\x00", "é", "😀", "a\u0301", "'\"\\", "x" * 100_000]

    def large(self, rng: random.Random, count: int) -> list[Any]:
        """Draw distinct records of about 20 kB, or as large as the source can carry.

        Unless overridden, those of ``sample``, made longer if they are texts.
        """
        padding = "x" * 20_000
        return [each + padding if isinstance(each, str) else each for each in self.sample(rng, count)]

    def close(self) -> None:  # noqa: B027  # optional
        """Release everything. Called once, after the receiver has stopped."""

    # -- optional abilities --

    def put_bytes(self, data: bytes) -> None:
        """Send raw bytes, of a source whose transport is a byte stream: a record may be split anywhere."""
        self._unable("put_bytes")

    def encode(self, record: Any) -> bytes:
        """The bytes of a record with its terminator, as ``put`` sends it; see ``terminator``."""
        self._unable("encode")

    def put_bad(self) -> None:
        """Make one record available that the receiver cannot decode."""
        self._unable("put_bad")

    def oversize(self) -> tuple[Any, str]:
        """A record above the receiver's size limit, and its policy: ``stored``, ``dropped`` or ``error``.

        ``dropped`` and ``error`` are reported as errors; after ``error`` a connection may have to be made again.
        """
        self._unable("oversize")

    def pause(self) -> None:
        """Stop serving without closing anything: the receiver's reads block. ``heal`` ends it."""
        self._unable("pause")

    def cut(self) -> None:
        """Break the connection and refuse new ones, as a server that died. ``heal`` ends it."""
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
        """How many records the receiver has taken so far; what waits in the transport may count as taken."""
        self._unable("taken")

    def position_options(self, position: Mapping[str, Any]) -> Mapping[str, Any]:
        """Options with which a replayable receiver plugin continues after a position: the metadata of its blocks."""
        self._unable("position_options")

    def share_options(self, index: int, count: int) -> Mapping[str, Any]:
        """Options of one of several instances that share the source's partitions; none if the source shares them out.

        Args:
            index: of this instance, from 0.
            count: number of instances.
        """
        return {}

    def polls(self) -> int:
        """How often the receiver has asked for data or connected so far."""
        self._unable("polls")

    def _unable(self, method: str) -> NoReturn:
        raise NotApplicable(f"{type(self).__name__} does not implement {method}")
