"""``Keepers``: launches that receive nothing more and serve what they have stored, until nobody needs that of them.

Owns them from their receiver's end to their job's. There are some only when receivers move between hosts. Never decides
what is needed: that is the BlockPlaces'. Called on the tracker's loop; ``lines`` on any thread.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from attrs import define

from penstock.receive.messages import ReleaseReceiver, StopReceiver
from penstock.runtime.log import get_logger
from penstock.track.line import Line
from penstock.track.receiver_launcher import ReceiverLaunch

log = get_logger("receiver_tracker")


@define(eq=False)
class _Keeper:
    launch: ReceiverLaunch
    line: Line
    released: bool = False


class Keepers:
    """Keep ended receivers' endpoints."""

    def __init__(self) -> None:
        self._keepers: list[_Keeper] = []

    @property
    def lines(self) -> list[Line]:
        """To those that serve."""
        return [each.line for each in list(self._keepers) if not each.released]

    @property
    def launches(self) -> list[ReceiverLaunch]:
        """All whose jobs have not ended."""
        return [each.launch for each in list(self._keepers)]

    def keep(self, launch: ReceiverLaunch, line: Line) -> None:
        """Have a launch that has ended go on to serve."""
        log.info("blocks are served where their receiver was", stream_id=line.stream_id, host=line.place.host)
        self._keepers.append(_Keeper(launch, line))

    def release(self, needed: Callable[[Line], bool] = lambda _line: False) -> None:
        """Let those go that nobody needs; one that was not reached is let go the next time."""
        for each in self._keepers:
            if not each.released and not needed(each.line):
                each.released = True
                # Behind what it is to delete.
                each.line.tell(ReleaseReceiver(), undelivered=partial(setattr, each, "released", False))

    def extend(self, message: StopReceiver) -> None:
        """Have all serve for as long as a message says, or as they were asked to before, if that is longer."""
        for line in self.lines:
            line.tell(message, at_once=True)

    def ended(self, stream_id: int, epoch: int) -> bool:
        """A launch's job has ended, as it was to or not; say whether it was one of these."""
        for each in self._keepers:
            if (each.launch.task.stream_id, each.launch.task.epoch) == (stream_id, epoch):
                self._keepers.remove(each)
                each.line.hang_up()
                return True
        return False

    def stop(self) -> None:
        """Give all connections up."""
        for each in self._keepers:
            each.line.stop()
