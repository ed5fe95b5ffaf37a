"""``Launches``: every launch of every receiver, the first and the later ones.

Owns the task that travels to the executor and the delay before it is launched again. Never decides whether a receiver
is launched again, nor what its end means: that is the tracker's. Called on the tracker's loop, but for ``place_of``;
delays pass on threads of their own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

from pyspark import SparkContext

from penstock.blocks.leftovers import Process
from penstock.conf import Settings
from penstock.receive.receiver_task import ReceiverTask
from penstock.runtime.clock import Clock
from penstock.runtime.log import get_logger
from penstock.runtime.threads import EngineThread
from penstock.spark import cluster, failure
from penstock.spark.cluster import TaskLocation
from penstock.track.line import Place
from penstock.track.placement import Placement
from penstock.track.receiver_launcher import ReceiverLaunch
from penstock.track.tracked_receiver import ReceiverState, TrackedReceiver
from penstock.wire.token import Token

log = get_logger("receiver_tracker")

# A launch that lived this long was healthy: the next relaunch waits the shortest delay again.
_HEALTHY_MS = 10_000
# How often, and for how long, a registering receiver's place is asked of Spark, whose books lag behind.
_PLACE_TRIES, _PLACE_PAUSE_S = 20, 0.1


class Launches:
    """Launch receivers.

    Args:
        sc: runs their jobs.
        settings: in force.
        clock: of the engine.
        run_id: names the directory of the blocks.
        token: shown by both sides.
        placement: says where.
        stopping: ends every wait.
        log_directory: where a stream's blocks are logged; empty when they are not.
        is_awaited: whether a receiver is needed in a place, for the blocks there.
        post: has something done on the tracker's loop.
        before: is told the numbers of launches, by stream, before they begin.
        on_end: is told there how a launch ended: receiver, number of the launch, error or ``None``.
    """

    def __init__(
        self,
        sc: SparkContext,
        settings: Settings,
        clock: Clock,
        run_id: str,
        token: Token,
        placement: Placement,
        stopping: threading.Event,
        log_directory: Callable[[int], str],
        is_awaited: Callable[[Place], bool],
        post: Callable[[Callable[[], None]], None],
        before: Callable[[Mapping[int, int]], None],
        on_end: Callable[[TrackedReceiver, int, BaseException | None], None],
    ) -> None:
        self._sc, self._settings, self._clock = sc, settings, clock
        self._run_id, self._token, self._placement = run_id, token, placement
        self._stopping, self._log_directory, self._is_awaited, self._post = stopping, log_directory, is_awaited, post
        self._before, self._on_end = before, on_end
        #: Where receivers, and tasks, find the driver.
        self.driver_location = ""

    def use(self, port: int) -> None:
        """Have receivers register at this port of the driver."""
        local = cluster.is_on_this_machine(self._sc)
        self.driver_location = self._token.location("127.0.0.1" if local else cluster.driver_host(self._sc), port)

    def launch_all(self, receivers: Iterable[TrackedReceiver]) -> None:
        """Launch all receivers for the first time, spread over the executors."""
        began = [tracked for tracked in receivers if self._begin(tracked)]
        scheduled = self._placement.schedule({tracked.stream_id: tracked.preferred for tracked in began})
        self._before({tracked.stream_id: tracked.epoch for tracked in began})
        for tracked in began:
            self._launch(tracked, scheduled[tracked.stream_id])

    def launch(self, tracked: TrackedReceiver) -> None:
        """Launch a receiver, unless all stops."""
        if self._begin(tracked):
            self._before({tracked.stream_id: tracked.epoch})
            goes_back = self._is_awaited(tracked.place)
            self._launch(tracked, self._placement.reschedule(tracked, tracked.preferred, goes_back=goes_back))

    def _begin(self, tracked: TrackedReceiver) -> bool:
        if self._stopping.is_set():
            return False
        epoch = tracked.begin_launch(self._clock.monotonic_ms())
        try:
            tracked.preferred = tracked.receiver.preferredLocation()
        # The receiver's own code.
        except Exception as error:
            self._on_end(tracked, epoch, error)
            return False
        return True

    def launch_again(self, tracked: TrackedReceiver) -> float:
        """Launch a receiver after a delay; returns at once, and says how long that is, ms."""
        if self._clock.monotonic_ms() - tracked.launched_ms > _HEALTHY_MS:
            tracked.backoff.reset()
        delay_ms = tracked.backoff.next_ms()

        # Waits on a thread of its own: the loop has other receivers to serve.
        def launch_later() -> None:
            self._clock.wait_for(delay_ms, self._stopping)
            self._post(lambda: self.launch(tracked))

        EngineThread(f"receiver {tracked.stream_id} relaunch", launch_later).start()
        return delay_ms

    def is_overdue(self, tracked: TrackedReceiver) -> bool:
        """Say whether the launch at hand has waited too long for a place to run, and this was not told yet."""
        timeout_ms = self._settings.launch_timeout_ms
        waits = tracked.state is ReceiverState.SCHEDULED and not tracked.overdue and not self._stopping.is_set()
        return waits and 0 < timeout_ms <= self._clock.monotonic_ms() - tracked.launched_ms

    def cancel(self, launch: ReceiverLaunch) -> None:
        """End a launch by force."""
        try:
            launch.cancel()
        except Exception as error:
            log.warning("receiver's job not cancelled", stream_id=launch.task.stream_id, reason=failure.reason(error))

    def place_of(self, launch: ReceiverLaunch) -> TaskLocation | None:
        """Where a launch runs; ``None`` when Spark does not say. It is waited for: not to be asked on the loop."""
        for _ in range(_PLACE_TRIES):
            task = cluster.running_task(self._sc, launch.group)
            if task is not None or self._stopping.wait(_PLACE_PAUSE_S):
                return task
        return None

    def _launch(self, tracked: TrackedReceiver, candidates: Sequence[TaskLocation]) -> None:
        epoch, tracked.candidates = tracked.epoch, tuple(candidates)
        task = ReceiverTask(
            tracked.receiver,
            tracked.stream_id,
            epoch,
            self._run_id,
            self.driver_location,
            self._token,
            self._settings,
            Process.of(os.getpid()) if cluster.is_on_this_machine(self._sc) else None,
            self._log_directory(tracked.stream_id),
        )
        tracked.launch = ReceiverLaunch(
            self._sc,
            task,
            tuple(candidate.preference for candidate in candidates),
            on_end=lambda error: self._post(lambda: self._on_end(tracked, epoch, error)),
        )
        log.info("receiver launched", stream_id=tracked.stream_id, epoch=epoch)
        tracked.launch.start()
