"""Dead letters: messages that a receiver gives up and publishes elsewhere, with the reason."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen
from attrs.validators import ge

from penstock.spi import shortened

_LONGEST_ERROR = 500

#: ``undecodable``: the body does not fit ``value_as``. ``deliveries``: delivered more than ``max_deliveries`` times.
Reason = Literal["undecodable", "deliveries"]


@frozen(slots=False, kw_only=True)  # a receiver's options derive from several such classes
class DeadLetterOptions:
    """Options of dead letters. Without a destination nothing is given up: such messages stay in the broker."""

    dead_letter: str = field(
        default="",
        metadata={
            "help": "destination for messages that cannot be decoded or come too often; empty: they stay in the "
            "broker, unacknowledged"
        },
    )
    max_deliveries: int = field(
        default=10,
        validator=ge(1),
        metadata={"help": "with `dead_letter`, a message that is delivered more often goes there"},
    )

    def is_exhausted(self, deliveries: int) -> bool:
        """Whether a message that was delivered this many times is to be given up."""
        return bool(self.dead_letter) and deliveries > self.max_deliveries


@frozen
class DeadLetter:
    """Why a message was given up. It is published unchanged, with these values as further headers.

    Attributes:
        reason: the kind of error.
        error: reason of the failure.
        deliveries: how often the broker has delivered it; ``None`` when it does not tell.
        origin: place of the message: topic, partition and offset, or the like.
    """

    reason: Reason
    error: str
    deliveries: int | None
    origin: str

    def headers(self) -> dict[str, str]:
        """The headers, without line ends: ``penstock-reason`` and so on."""
        texts = {
            "reason": self.reason,
            "error": shortened(" ".join(self.error.split()), _LONGEST_ERROR),
            "deliveries": "" if self.deliveries is None else str(self.deliveries),
            "origin": self.origin,
        }
        return {f"penstock-{name}": text for name, text in texts.items() if text}
