"""The receiver ``ticker``: the numbers 0, 1, 2, … at a constant rate."""

import attrs

from penstock import ReceiverSpec, ThreadReceiver, hookimpl


@attrs.frozen
class TickerOptions:
    """Options of ``ticker``."""

    per_second: float = attrs.field(
        default=10.0, validator=attrs.validators.gt(0), metadata={"help": "numbers per second"}
    )
    total: int = attrs.field(
        default=0, validator=attrs.validators.ge(0), metadata={"help": "number of records; 0: no end"}
    )


class Ticker(ThreadReceiver[int]):
    """Stores one number after the other."""

    def __init__(self, options: TickerOptions) -> None:
        self.options = options

    def receive(self) -> None:
        """Store until stopped, or until all are stored."""
        number = 0
        while not self.wait(1 / self.options.per_second):
            self.store(number)
            number += 1
            if number == self.options.total:
                self.source_ended("all numbers are stored")
                return


@hookimpl
def receivers() -> list[ReceiverSpec]:
    """Offer the receiver."""
    return [ReceiverSpec("ticker", Ticker, TickerOptions, "numbers at a constant rate")]
