"""A launch that fails before its job starts is reported and retried."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock import Receiver
from penstock.listen.events import ReceiverError

if TYPE_CHECKING:
    from tests.track.conftest import Tracked


class Fickle(Receiver[Any]):
    """Cannot say at first where it would like to run."""

    asked = 0

    def onStart(self) -> None:
        """Nothing to start."""

    def preferredLocation(self) -> str | None:
        self.asked += 1
        if self.asked == 1:
            raise ConnectionError("the catalogue does not answer")
        return "host-b"


def test_failing_preferred_location_is_reported_and_retried(
    make_tracker: Callable[..., Tracked],
) -> None:
    tracked = make_tracker([Fickle()])
    tracked.tracker.start()
    error = tracked.events.await_one(ReceiverError)
    assert "preferredLocation raised ConnectionError: the catalogue does" in error.receiverInfo.lastErrorMessage
    _, first, *_ = error.receiverInfo.lastError.splitlines()
    assert f'File "{__file__}"' in first
    tracked.relaunch()
    assert tracked.launch(timeout_s=30).hosts == ("host-b",)
