"""``SyntheticReceiver``: records that nobody sends, so many a second.

Owns the pace. Never reads anything: what the records are is Pool's. Makes and stores on one thread; while a ``store…``
holds that thread, it makes nothing, and makes up for it as fast as it may afterwards.
"""

from __future__ import annotations

import math
from time import monotonic
from typing import Any

from attrs import field, frozen
from attrs.validators import and_, ge, in_, le

from penstock import ThreadReceiver
from penstock_synthetic.pool import SHAPES, Pool, Shape

# Records stored in one go: what is behind, and with rate 0 all, is stored in blocks of this size at most.
_CHUNK = 65_536


@frozen
class SyntheticOptions:
    """Options of the receiver ``synthetic``; each one's meaning is its ``help``."""

    rate: float = field(
        default=1000.0,
        validator=and_(ge(0.0), le(1e9)),
        metadata={"help": "records/s; 0: as many as the rate limit and the machine let pass"},
    )
    shape: Shape = field(
        default="lines",
        validator=in_(SHAPES),
        metadata={
            "help": "what a record is: lines (text of about 100 bytes), numbers (int), pairs (of a word and an int)"
        },
    )
    seed: int = field(
        default=7, validator=ge(0), metadata={"help": "the same seed and shape make the same records in the same order"}
    )
    total: int = field(
        default=0, validator=ge(0), metadata={"help": "stop after so many records and idle; 0: never stop"}
    )


class SyntheticReceiver(ThreadReceiver[Any]):
    """Makes records.

    Begins with the first record whenever it starts: also after a restart, and when it is launched anew elsewhere.

    Args:
        options: which, and how many.
    """

    def __init__(self, options: SyntheticOptions) -> None:
        self._options = options

    def receive(self) -> None:
        """Make what is due, once a block interval."""
        options = self._options
        pool = Pool(options.shape, options.seed)
        total = options.total or math.inf
        made, began_s = 0, monotonic()
        while made < total and not self.isStopped():
            # From the time passed since the beginning, not from pause to pause: what a pause takes too long adds up
            # to nothing.
            due = int((monotonic() - began_s) * options.rate) if options.rate else made + _CHUNK
            stop = int(min(due, made + _CHUNK, total))
            if stop > made:
                self._store(pool, made, stop)
                made = stop
            if options.rate and made == due:
                next_s = began_s + (made + 1) / options.rate - monotonic()
                self.wait(max(self.block_interval_ms / 1000, next_s))

    def _store(self, pool: Pool, start: int, stop: int) -> None:
        table = pool.table(start, stop)
        if table is None:
            self.store_all(pool.slice(start, stop))
        else:
            self.store_arrow(table)
