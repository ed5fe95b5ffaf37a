"""``Orders``: what receivers are to keep to, told until they have heard it.

Owns the numbers of orders, by which a receiver knows an old one that comes late, and the repeating of those that were
not delivered. What is repeated is what is wanted then. Called on the tracker's loop.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.runtime.clock import Clock
from penstock.runtime.threads import EngineThread
from penstock.track.tracked_receiver import TrackedReceiver

_TELL_AGAIN_MS = 1000

#: Makes a message of what is wanted and the number of the order.
Kind = Callable[[Any, int], object]


class Orders:
    """Give receivers orders.

    Args:
        clock: of the engine.
        stopping: nobody is told anything behind it.
        post: has something done on the tracker's loop.
    """

    def __init__(self, clock: Clock, stopping: threading.Event, post: Callable[[Callable[[], None]], None]) -> None:
        self._clock, self._stopping, self._post = clock, stopping, post
        self._numbers = itertools.count(1)
        # Those that wait to be repeated: one of a kind for each receiver, whatever was wanted in between.
        self._waiting: set[tuple[int, Kind]] = set()

    def number(self) -> int:
        """The number of a new order."""
        return next(self._numbers)

    def give(self, tracked: TrackedReceiver, kind: Kind, wanted: Callable[[], Any]) -> None:
        """Tell a receiver what is wanted; one that is launched or starts again learns it when it registers."""
        if tracked.is_active and not self._stopping.is_set():
            undelivered = partial(self._post, partial(self._give_again, tracked, kind, wanted))
            tracked.order(kind(wanted(), self.number()), undelivered)

    def _give_again(self, tracked: TrackedReceiver, kind: Kind, wanted: Callable[[], Any]) -> None:
        waits = tracked.stream_id, kind
        if waits in self._waiting:
            return
        self._waiting.add(waits)

        def give() -> None:
            self._waiting.discard(waits)
            self.give(tracked, kind, wanted)

        # Waits on a thread of its own: the loop has other receivers to serve.
        def later() -> None:
            self._clock.wait_for(_TELL_AGAIN_MS, self._stopping)
            self._post(give)

        EngineThread(f"receiver {tracked.stream_id} orders", later).start()
