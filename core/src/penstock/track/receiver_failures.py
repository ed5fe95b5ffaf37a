"""``ReceiverFailures``: what is told of a receiver's errors, and what becomes of one that fails too often.

Owns the failure policy: a budget of restarts, then ``restart``, ``stop-stream`` or ``fail-application``. Never launches
or stops a receiver itself. Called on the tracker's loop.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve

from penstock.conf import Settings
from penstock.errors import ReceiverFailedError
from penstock.listen.events import Event, ReceiverError
from penstock.runtime.clock import Clock
from penstock.runtime.log import get_logger
from penstock.track.tracked_receiver import TrackedReceiver

log = get_logger("receiver_tracker")


class ReceiverFailures:
    """Tell of errors, count failures, apply the policy.

    Args:
        settings: in force.
        clock: of the engine.
        post: gives an event to the listeners.
        fail_application: is given the error that the whole application is to end with.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        post: Callable[[Event], None],
        fail_application: Callable[[BaseException], None],
    ) -> None:
        self._clock, self._post, self._fail_application = clock, post, fail_application
        self._max_restarts = settings.max_restarts
        self._window_ms = settings.restart_window_ms
        self._launch_timeout_ms = settings.launch_timeout_ms
        self._on_failure = settings.on_receiver_failure

    def tell(self, tracked: TrackedReceiver, message: str, error: str = "") -> None:
        """Keep an error and give it to the listeners."""
        tracked.note_error(message, error, self._clock.now_ms())
        self._post(ReceiverError(tracked.info))

    def count(self, tracked: TrackedReceiver, reason: str) -> None:
        """Count a failure, once for each time that the receiver was started; when there were too many, act on it."""
        if tracked.failure_counted or tracked.given_up:
            return
        tracked.failure_counted = True
        if tracked.budget.note_failure(self._clock.monotonic_ms()):
            return
        often = f"more than {self._max_restarts} failures within {self._window_ms / 1000:g} s; the last one: {reason}"
        if self._on_failure == "restart":
            if not tracked.info.unhealthy:
                tracked.info = evolve(tracked.info, unhealthy=True)
                log.error("receiver is unhealthy", stream_id=tracked.stream_id, reason=often)
                self.tell(tracked, f"receiver {tracked.info.name} is unhealthy, it is restarted further: {often}")
            return
        tracked.info = evolve(tracked.info, unhealthy=True, given_up=True)
        log.error("receiver is given up", stream_id=tracked.stream_id, reason=often)
        message = f"receiver {tracked.info.name} is given up: {often}"
        self.tell(tracked, message)
        if self._on_failure == "fail-application":
            self._fail_application(ReceiverFailedError(message))

    def overdue(self, tracked: TrackedReceiver) -> None:
        """Count a launch for which there was no place in time."""
        message = (
            f"receiver {tracked.info.name} has not registered within {self._launch_timeout_ms / 1000:g} s of its "
            "launch: is there a free slot for it?"
        )
        log.error("receiver not registered in time, its job is cancelled", stream_id=tracked.stream_id, reason=message)
        self.tell(tracked, message)
        self.count(tracked, message)

    def look_after(self, tracked: TrackedReceiver) -> None:
        """Notice that a receiver is healthy again."""
        if tracked.info.unhealthy and not tracked.given_up and not tracked.budget.is_spent(self._clock.monotonic_ms()):
            tracked.info = evolve(tracked.info, unhealthy=False)
            log.warning("receiver is healthy again", stream_id=tracked.stream_id)
