"""``SyntheticReceiver``: generates records at a constant rate.

One thread generates and stores. After a store that blocked, it catches up as fast as the rate limit permits.
"""

from __future__ import annotations

import math
from time import monotonic
from typing import Any

from attrs import field, frozen
from attrs.validators import and_, ge, in_, le

from penstock import ThreadReceiver
from penstock_synthetic.pool import SHAPES, Pool, Shape

# Maximum records stored at once, when catching up and with rate 0.
_CHUNK = 65_536


@frozen
class SyntheticOptions:
    """Options of the receiver ``synthetic``; the ``help`` of each field describes it."""

    rate: float = field(
        default=1000.0,
        validator=and_(ge(0.0), le(1e9)),
        metadata={"help": "records/s; 0: as fast as the rate limit and the machine permit"},
    )
    shape: Shape = field(
        default="lines",
        validator=in_(SHAPES),
        metadata={"help": "lines (text of about 100 bytes), numbers (int) or pairs (a word and an int)"},
    )
    seed: int = field(
        default=7, validator=ge(0), metadata={"help": "equal seeds and shapes make equal records in the same order"}
    )
    total: int = field(
        default=0, validator=ge(0), metadata={"help": "number of records, after which the receiver idles; 0: no end"}
    )


class SyntheticReceiver(ThreadReceiver[Any]):
    """Generates records, from the first one again after each restart and relaunch.

    Args:
        options: rate, shape, seed and total.
    """

    def __init__(self, options: SyntheticOptions) -> None:
        self._options = options

    def receive(self) -> None:
        options = self._options
        pool = Pool(options.shape, options.seed)
        total = options.total or math.inf
        num_stored, began_s = 0, monotonic()
        while num_stored < total and not self.isStopped():
            # Counted from the beginning, so that late wake-ups do not add up.
            due = int((monotonic() - began_s) * options.rate) if options.rate else num_stored + _CHUNK
            stop = int(min(due, num_stored + _CHUNK, total))
            if stop > num_stored:
                self._store(pool, num_stored, stop)
                num_stored = stop
            if options.rate and num_stored == due:
                next_s = began_s + (num_stored + 1) / options.rate - monotonic()
                self.wait(max(self.block_interval_ms / 1000, next_s))

    def _store(self, pool: Pool, start: int, stop: int) -> None:
        table = pool.table(start, stop)
        if table is None:
            self.store_all(pool.slice(start, stop))
        else:
            self.store_arrow(table)
