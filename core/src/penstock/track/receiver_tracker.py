"""``ReceiverTracker``: where receivers run, what they are told, what they stored.

Owns the endpoint that receivers call, and the parts that do the work. Messages that change a receiver's state are
handled one at a time on the tracker's own loop; additions of blocks go straight to the ReceivedBlockTracker on the
endpoint's threads; what the driver says to a receiver goes through that receiver's outbox.
Of the program's code it runs only the pickling and ``preferredLocation`` of receivers.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from pyspark import SparkContext

from penstock import conf
from penstock.blocks.block import BlockReference, StoredBlock
from penstock.blocks.messages import BlocksLost, FindBlock
from penstock.conf import Settings
from penstock.errors import StreamingStateError, WriteAheadLogError
from penstock.journal.write_ahead_log import WriteAheadLog
from penstock.listen.events import Event, ReceiverInfo
from penstock.receive.messages import (
    AddBlocks,
    DeregisterReceiver,
    Registered,
    RegisterReceiver,
    ReleaseReceiver,
    ReportError,
    StopReceiver,
)
from penstock.receive.receiver import Receiver
from penstock.runtime.clock import Clock
from penstock.runtime.event_loop import EventLoop
from penstock.runtime.log import get_logger
from penstock.runtime.log_throttle import Seldom
from penstock.runtime.retry import Backoff
from penstock.spark import cluster
from penstock.track.block_logs import BlockLogs
from penstock.track.block_places import BlockPlaces
from penstock.track.housekeeping import Housekeeping
from penstock.track.intake_pauses import BATCHES, UNREAD, IntakePauses
from penstock.track.keepers import Keepers
from penstock.track.launch_checks import check_cores, check_picklable, check_speculation, tell_storage_levels
from penstock.track.launches import Launches
from penstock.track.line import Line
from penstock.track.lost_blocks import LostBlocks
from penstock.track.orders import Orders
from penstock.track.placement import Placement
from penstock.track.received_block_tracker import ReceivedBlockTracker
from penstock.track.receiver_failures import ReceiverFailures
from penstock.track.receiver_rates import ReceiverRates
from penstock.track.receiver_states import ReceiverStates
from penstock.track.restart_budget import RestartBudget
from penstock.track.tracked_receiver import TrackedReceiver
from penstock.track.unread_blocks import UnreadBlocks
from penstock.wire.endpoint import Endpoint
from penstock.wire.messages import Reply
from penstock.wire.token import Tls, Token
from penstock.worker.block_reader import ReadBlocks

log = get_logger("receiver_tracker")

# The longest a stop waits for files of the log to be deleted.
_LAST_DELETIONS_S = 10.0
# What part of the time for a stop receivers may take when batches are to run afterwards: one that does not stop must
# not cost what it and the others have stored.
_FLUSH_SHARE = 2 / 3
# How soon one that was not reached is told to stop again.
_TELL_AGAIN_S = 1.0
# What the jobs of receivers that were released may take to end.
_RELEASE_S = 5.0


class ReceiverTracker:
    """Run the receivers of a context.

    Args:
        sc: runs their jobs.
        receivers: by stream id.
        settings: in force.
        clock: of the engine.
        post: gives an event to the listeners.
        fail_application: is given the error of a receiver that all is to end with.
        checkpoint_directory: the program's, for the block log; ``None`` when it has none.
        journal: of blocks and batches, not started yet: ``start`` does that, ``close`` closes it.

    Raises:
        ConfigurationError: the block log is on, and cannot be where it is to be.
        WriteAheadLogError: the journal cannot be read, or is damaged.
    """

    def __init__(
        self,
        sc: SparkContext,
        receivers: Mapping[int, Receiver[Any]],
        settings: Settings,
        clock: Clock,
        post: Callable[[Event], None],
        fail_application: Callable[[BaseException], None],
        checkpoint_directory: str | None = None,
        journal: WriteAheadLog | None = None,
    ) -> None:
        self._sc, self._settings, self._clock = sc, settings, clock
        self._on_this_machine = cluster.is_on_this_machine(sc)
        self._token = Token.generate(Tls.of(settings))
        # Several contexts of one application, one after the other, must not meet in a directory or a job group.
        run_id = f"{sc.applicationId}-{secrets.token_hex(4)}"
        self.blocks = ReceivedBlockTracker(receivers, journal)
        self._tracked = {
            stream_id: TrackedReceiver(
                stream_id,
                receiver,
                Backoff(settings.relaunch_delay_ms, settings.max_relaunch_delay_ms),
                RestartBudget(settings.max_restarts, settings.restart_window_ms),
                # Blocks are named by launches: a recovered run goes on counting.
                epoch=self.blocks.last_epoch(stream_id),
            )
            for stream_id, receiver in receivers.items()
        }
        self._loop: EventLoop[Callable[[], None]] = EventLoop(
            "ReceiverTracker", lambda action: action(), self._on_loop_error
        )
        self._endpoint: Endpoint | None = None
        self._stopping = threading.Event()
        self._logs = logs = BlockLogs.of(sc, settings, checkpoint_directory, self._tracked)
        self._placement = Placement(sc, settings, self._tracked)
        self._keepers = Keepers()
        self._places = BlockPlaces(
            self._lines,
            self._placement.has_executor,
            run_id,
            self._loop.post,
            logs,
            on_this_machine=self._on_this_machine,
        )
        self._orders = Orders(clock, self._stopping, self._loop.post)
        self._rates = ReceiverRates(self._tracked, settings, self._orders)
        self._pauses = IntakePauses(self._tracked.values(), self._orders)
        self._unread = UnreadBlocks(
            settings.max_unprocessed, lambda *change: self._loop.post(lambda: self._on_unread(*change))
        )
        # By host.
        self._unread_told: defaultdict[str, Seldom] = defaultdict(lambda: Seldom(clock))
        self._pause_was_told = False
        self._launches = Launches(
            sc,
            settings,
            clock,
            run_id,
            self._token,
            self._placement,
            self._stopping,
            lambda stream_id: "" if logs is None else logs.directory(stream_id),
            self._places.awaits,
            self._loop.post,
            before=self.blocks.note_launches,
            on_end=lambda tracked, epoch, error: self._states.on_job_end(tracked, epoch, error),
        )
        self._failures = ReceiverFailures(settings, clock, post, fail_application)
        self._states = ReceiverStates(
            self._tracked,
            settings,
            self._token,
            self._stopping,
            post,
            self._launches,
            self._placement,
            self._failures,
            self._places,
            self._keepers,
            self._unread,
            self._pauses,
            self._rates,
            self._orders,
        )
        self._lost = LostBlocks(self._tracked, self._failures, skips=settings.on_lost_blocks == "skip")
        self._housekeeping = Housekeeping(
            self._tracked.values(),
            self._launches,
            self._placement,
            self._places,
            self._keepers,
            self._failures,
            clock,
            self._stopping,
            self._loop.post,
        )

    def prepare(self) -> None:
        """Check that every receiver can be launched, and open the endpoint; nothing is written yet.

        Raises:
            ConfigurationError: a receiver cannot be pickled, there are not enough cores for all and a batch, or Spark
                would start second copies of them.
        """
        if not self._tracked:
            return
        check_cores(self._sc, len(self._tracked))
        check_speculation(self._sc)
        for stream_id, tracked in self._tracked.items():
            check_picklable(stream_id, tracked.receiver)
        tell_storage_levels(self._sc, {stream_id: tracked.receiver for stream_id, tracked in self._tracked.items()})
        self._endpoint = Endpoint(
            "127.0.0.1" if self._on_this_machine else cluster.driver_bind_address(self._sc),
            self._token,
            {
                AddBlocks: self._on_add_blocks,
                BlocksLost: self._on_blocks_lost,
                FindBlock: lambda message: self._on_loop(lambda: self._places.find(message)),
                RegisterReceiver: self._on_register,
                ReportError: lambda message: self._on_loop(lambda: self._states.on_report_error(message)),
                DeregisterReceiver: lambda message: self._on_loop(lambda: self._states.on_deregister(message)),
            },
        )
        self._launches.use(self._endpoint.port)
        self._loop.start()

    def start(self) -> None:
        """Launch every receiver, prepared here if that was not done before.

        Raises:
            ConfigurationError: as ``prepare``.
            WriteAheadLogError: the journal cannot be written.
        """
        if self._endpoint is None:
            self.prepare()
        self.blocks.start()
        if not self._tracked:
            return
        if self._logs is not None:
            self._logs.start()
            if self.blocks.recovered.is_whole:
                self._logs.sweep(self.blocks.known())
            else:
                self._logs.set_aside(self.blocks.known(), f"aside-{self._clock.now_ms()}")
        self._housekeeping.start()

    def stop(self, deadline: float, *, drains: bool = False) -> None:
        """Tell every receiver to stop, wait until the deadline (monotonic seconds) for them to flush, then end them.

        Blocks that arrive meanwhile are taken; none is taken afterwards. What was taken can be read until ``release``;
        the journal stays open for batches that are made of it.

        Args:
            deadline: for all that is to be done.
            drains: batches are run afterwards: part of the time is theirs, and receivers on other hosts go on to serve
                their blocks.
        """
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._clock.wake()
        if self._endpoint is None:
            return
        left_s = max(deadline - time.monotonic(), 0)
        flushed_by = time.monotonic() + (left_s * _FLUSH_SHARE if drains else left_s)
        # On the loop, and waited for: behind it no launch can begin.
        try:
            # On this machine tasks read the files themselves, and can use the receivers' slots.
            serve_ms = round((left_s + _RELEASE_S) * 1000) if drains and not self._on_this_machine else 0
            self._on_loop(lambda: self._tell_all_to_stop(serve_ms, flushed_by), max(left_s, 1.0))
        except TimeoutError:
            log.warning("the loop is held up: receivers are not told to stop")
        for stream_id, tracked in self._tracked.items():
            launch = tracked.launch
            if launch is not None and not tracked.ended.wait(max(flushed_by - time.monotonic(), 0.01)):
                log.warning("receiver did not stop in time, its job is cancelled", stream_id=stream_id)
                self._launches.cancel(launch)
                tracked.ended.wait(5.0)
        # Whoever stores now must not be told that a batch will have it.
        self.blocks.seal()

    def release(self) -> None:
        """Have receivers serve their blocks no more, see their jobs end, close the endpoint. Harmless when repeated."""
        self.stop(time.monotonic())
        if self._endpoint is None:
            return
        launches = [tracked.launch for tracked in self._tracked.values() if tracked.launch] + self._keepers.launches
        running = [launch for launch in launches if not launch.finish(0)]
        for line in self._lines():
            line.tell(ReleaseReceiver(), at_once=True)
        deadline = time.monotonic() + _RELEASE_S
        for launch in running:
            if not launch.finish(max(deadline - time.monotonic(), 0.01)):
                log.warning("receiver's job does not end, it is cancelled", stream_id=launch.task.stream_id)
                self._launches.cancel(launch)
                launch.finish(_RELEASE_S)
        self._housekeeping.stop()
        # First the endpoint: what was asked of it is answered by the loop.
        self._endpoint.stop()
        self._loop.stop(5.0)
        for tracked in self._tracked.values():
            if tracked.info.active:
                self._states.gone(tracked)
            tracked.stop()
        self._keepers.stop()

    def close(self) -> None:
        """Close the journal, when no batch is made or forgotten any more. Harmless when repeated."""
        self.blocks.close()

    def delete_files(self) -> None:
        """Delete what is left of the blocks, when no batch reads them any more.

        On this machine; on other hosts Spark removes them with the executor's local files. In the log, those alone that
        were to be deleted.
        """
        if self._logs is not None:
            self._logs.stop(_LAST_DELETIONS_S)
        elif self._on_this_machine:
            self._places.delete_directories()

    def send_rate_update(self, stream_id: int, rate: float) -> None:
        """Set a receiver's rate, records/s. Kept: a receiver that is relaunched starts at it."""
        if stream_id in self._tracked and rate > 0 and not self._stopping.is_set():
            self._loop.post(lambda: self._rates.set(stream_id, rate))

    def rates(self) -> dict[int, float]:
        """The rates that were set, records/s, by stream id."""
        return self._rates.wanted()

    def restore_rates(self, rates: Mapping[int, float], batch_interval_ms: int) -> None:
        """Have receivers begin at the rates of an earlier run; before the start."""
        self._rates.restore(rates)
        limits = {stream_id: self.rate_limit(stream_id) for stream_id in self._tracked}
        # What was received before goes to batches as it would have come.
        self.blocks.spread_leftovers(
            {stream_id: rate * batch_interval_ms / 1000 for stream_id, rate in limits.items() if rate is not None}
        )

    def pause(self, paused: bool) -> None:
        """Have all receivers take nothing more, or go on; returns at once. One that is launched meanwhile obeys too."""
        if not self._stopping.is_set():
            self._loop.post(lambda: self._pauses.set(BATCHES, paused))

    def rate_limit(self, stream_id: int) -> float | None:
        """The rate a stream's receiver keeps to, records/s; ``None`` for no limit."""
        return self._rates.limit(stream_id)

    def receiver_infos(self) -> dict[int, ReceiverInfo]:
        """What is known of every receiver, by stream id."""
        return {stream_id: tracked.info for stream_id, tracked in self._tracked.items()}

    def references(self, blocks: Iterable[StoredBlock]) -> list[tuple[str, int, BlockReference]]:
        """For each block: its host, its size in bytes, and where a task finds it now."""
        return self._places.references(blocks)

    def processed(self, until_ms: int) -> None:
        """Note that the batches up to a time are complete."""
        self._unread.processed(self.blocks.processed(until_ms))
        self._housekeeping.note_batch()

    def unread_bytes(self) -> int:
        """How much stored data no batch has processed yet."""
        return self._unread.num_bytes

    @property
    def token(self) -> Token:
        """What receivers and tasks show."""
        return self._token

    def reader(self) -> ReadBlocks:
        """What tasks read the references with."""
        return ReadBlocks(self._token, self._launches.driver_location, self._settings.on_lost_blocks == "skip")

    def clean_up(self, before_ms: int, *, delete: bool) -> None:
        """Forget batches older than a time and, if asked to, delete their blocks; returns at once."""
        blocks = self.blocks.clean_up_batches(before_ms)
        self._unread.processed(blocks)
        if delete and blocks and self._logs is None and not self._stopping.is_set():
            self._loop.post(lambda: self._places.delete(blocks))
            return
        self._places.forget(blocks)
        if delete and blocks and self._logs is not None:
            self._logs.delete(blocks)

    # -- on the tracker's loop --

    def _on_unread(self, host: str, num_bytes: int, limit: int, too_much: bool) -> None:
        self._pauses.set(UNREAD, self._unread.is_full)
        if too_much:
            # Where batches are slow for long this comes and goes with each of them.
            self._pause_was_told = self._unread_told[host].is_due()
        tell = log.warning if self._pause_was_told else log.info
        if not too_much:
            tell("receivers go on: unread data is below its limit again", host=host, unread=num_bytes)
            return
        tell("receivers pause: too much data is unread", host=host, unread=num_bytes, limit=limit)
        if not self._pause_was_told:
            return
        for tracked in self._tracked.values():
            if tracked.is_active and self._places.disk(tracked.place.address) == host:
                limit_key = conf.key("max_unprocessed")
                message = f"intake pauses: {num_bytes} bytes on {host} are unread, more than {limit_key} allows"
                self._failures.tell(tracked, message)

    def _lines(self) -> list[Line]:
        """To all endpoints that there are."""
        lines = [tracked.line for tracked in self._tracked.values()]
        return [line for line in lines if line is not None] + self._keepers.lines

    def _tell_all_to_stop(self, serve_ms: int, until_s: float) -> None:
        for tracked in self._tracked.values():
            if tracked.given_up:
                continue
            if tracked.registered:
                self._tell_to_stop(tracked, serve_ms, until_s)
            elif tracked.launch is not None:
                # It has stored nothing, and may be waiting for a slot that never comes.
                self._launches.cancel(tracked.launch)
        self._keepers.extend(StopReceiver("Stopped by driver", serve_ms))

    def _tell_to_stop(self, tracked: TrackedReceiver, serve_ms: int, until_s: float) -> None:
        """Tell a receiver to stop until it has heard it, or its time is up: it has records to flush."""

        def again() -> None:
            # On the sending thread, which does nothing else.
            if not tracked.ended.wait(_TELL_AGAIN_S) and time.monotonic() < until_s:
                self._loop.post(lambda: self._tell_to_stop(tracked, serve_ms, until_s))

        tracked.tell(StopReceiver("Stopped by driver", serve_ms), again, at_once=True)

    # -- on the endpoint's threads --

    def _on_register(self, message: RegisterReceiver) -> Registered:
        tracked = self._tracked.get(message.stream_id)
        launch = None if tracked is None else tracked.launch
        is_at_hand = launch is not None and launch.task.epoch == message.epoch
        # Spark's books lag behind: the loop has other messages to handle meanwhile.
        task = self._launches.place_of(launch) if launch is not None and is_at_hand else None
        registered: Registered = self._on_loop(lambda: self._states.on_register(message, task))
        return registered

    def _on_add_blocks(self, message: AddBlocks) -> Reply:
        tracked = self._tracked.get(message.stream_id)
        # What was taken before stays so, whoever reports it again: who is refused deletes the block.
        if tracked is not None and not self.blocks.unknown(message.blocks):
            return Reply()
        if tracked is None or message.epoch != tracked.epoch:
            return Reply(accepted=False, reason=f"launch {message.epoch} of stream {message.stream_id} was replaced")
        if any(block.stream_id != message.stream_id for block in message.blocks):
            return Reply(accepted=False, reason="the blocks are of another stream")
        self._places.add(tracked.place, message.blocks)
        self._unread.add(self._places.disk(tracked.place.address), message.blocks)
        # What cannot be journalled raises, and the receiver reports it again. It must not hear that it was refused: it
        # would delete a block then that may be in the journal all the same.
        try:
            gone = self.blocks.add_blocks(message.blocks)
        except StreamingStateError as error:
            self._forget(self.blocks.unknown(message.blocks))
            return Reply(accepted=False, reason=str(error))
        except WriteAheadLogError:
            # Reported again they count again; under other names, after a relaunch, these would count for ever.
            self._forget(self.blocks.unknown(message.blocks))
            raise
        self._forget(gone)
        return Reply()

    def _forget(self, blocks: Sequence[StoredBlock]) -> None:
        self._places.forget(blocks)
        self._unread.processed(blocks)

    def _on_blocks_lost(self, message: BlocksLost) -> Reply:
        self._loop.post(lambda: self._lost.note(message.blocks))
        return Reply()

    def _on_loop(self, handler: Callable[[], Any], timeout_s: float | None = None) -> Any:
        """Handle a message on the tracker's loop and return its reply."""
        future: Future[Any] = Future()

        def handle() -> None:
            try:
                future.set_result(handler())
            except Exception as error:
                future.set_exception(error)

        self._loop.post(handle)
        return future.result(timeout_s or self._settings.wire_timeout_ms / 1000)

    def _on_loop_error(self, error: BaseException) -> None:
        log.error("receiver tracker failed to handle a message", exc_info=error)
