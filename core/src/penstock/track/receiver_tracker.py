"""``ReceiverTracker``: the driver side of all receivers of a context.

The shell around ``receiver_lifecycle.step``: it owns the loop on which events are handled one at a time, the endpoint
that receivers call, their jobs and the connections to them, and carries out what ``step`` decides. Blocks are accepted
on the endpoint's threads. Of the program's code it runs only the pickling and ``preferredLocation`` of receivers.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from pyspark import SparkContext

from penstock.blocks.block import BlockReference, StoredBlock
from penstock.blocks.messages import BlocksLost, FindBlock
from penstock.conf import Settings
from penstock.errors import ReceiverFailedError, StreamingStateError, WriteAheadLogError, text_of
from penstock.journal.write_ahead_log import WriteAheadLog
from penstock.listen.events import Event, ReceiverInfo
from penstock.receive.messages import (
    AddBlocks,
    CleanUpBlocks,
    DeregisterReceiver,
    Registered,
    RegisterReceiver,
    ReleaseReceiver,
    ReportError,
    UpdateRateLimit,
)
from penstock.receive.receiver import Receiver
from penstock.runtime.clock import Clock
from penstock.runtime.event_loop import EventLoop
from penstock.runtime.log import get_logger
from penstock.runtime.recurring_timer import RecurringTimer
from penstock.spark import cluster, failure
from penstock.spark.cluster import TaskLocation
from penstock.track import receiver_tracking_info as lifecycle
from penstock.track.backlog import Backlog, BacklogChange
from penstock.track.block_locations import BlockLocations
from penstock.track.block_logs import BlockLogs
from penstock.track.launch_checks import check_cores, check_picklable, check_speculation, report_storage_levels
from penstock.track.placement import Placement
from penstock.track.received_block_tracker import ReceivedBlockTracker
from penstock.track.receiver_connection import ReceiverConnection
from penstock.track.receiver_launcher import ReceiverJob, ReceiverLauncher
from penstock.track.receiver_lifecycle import new_record, step
from penstock.track.receiver_rates import RateLimits
from penstock.wire.client import Client
from penstock.wire.endpoint import Endpoint
from penstock.wire.messages import Reply
from penstock.wire.token import Tls, Token
from penstock.worker.block_reader import ReadBlocks

log = get_logger("receiver_tracker")

# Maximum wait of a stop for the deletion of files of the receivers' write-ahead log.
_LAST_DELETIONS_S = 10.0
# Share of a graceful stop's time that receivers may take: the batches after them need the rest.
_FLUSH_SHARE = 2 / 3
# How often a stop that did not reach its receiver is sent again.
_RESEND_STOP_S = 1.0
# What the jobs of released receivers may take to end.
_RELEASE_S = 5.0
_TICK_MS = 1000
# How often executors that have joined are looked for.
_REBALANCE_MS = 5000
# How long a launch serves its blocks after its receiver has moved. It occupies a slot that batches may need in order to
# complete: only while they do complete is it asked to serve longer. Afterwards tasks on that host read the files.
_SERVE_MS = 60_000
_SERVE_AGAIN_MS = 30_000
# How often a full backlog of one host is reported to listeners and warned about.
_REPORT_BACKLOG_MS = 60_000


class ReceiverTracker:
    """Run the receivers of a context.

    Args:
        sc: runs their jobs.
        receivers: by stream id.
        settings: in force.
        clock: of the engine.
        post: gives an event to the listeners.
        fail_application: called with the error of a receiver that stops the application.
        checkpoint_directory: of the program, for the receivers' write-ahead log; ``None`` when it has none.
        write_ahead_log: of blocks and batches, not started: ``start`` starts it, ``close`` closes it.

    Raises:
        ConfigurationError: the receivers' write-ahead log is on and there is no directory for it.
        WriteAheadLogError: the write-ahead log cannot be read, or is corrupt.
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
        write_ahead_log: WriteAheadLog | None = None,
    ) -> None:
        self._sc, self._receivers, self._settings, self._clock = sc, receivers, settings, clock
        self._post, self._fail_application = post, fail_application
        self._on_this_machine = cluster.is_on_this_machine(sc)
        self._token = Token.generate(Tls.of(settings))
        # Consecutive contexts of one application must not share a directory or a job group.
        run_id = f"{sc.applicationId}-{secrets.token_hex(4)}"
        self.blocks = ReceivedBlockTracker(receivers, write_ahead_log)
        policy = _policy(settings, run_id)
        self._records = {
            # Blocks are named by launch: a recovered run continues to count.
            stream_id: new_record(
                stream_id, type(receiver).__name__, policy=policy, epoch=self.blocks.last_epoch(stream_id)
            )
            for stream_id, receiver in receivers.items()
        }
        self._loop: EventLoop[Callable[[], None]] = EventLoop(
            "ReceiverTracker", lambda action: action(), self._on_loop_error, clock
        )
        self._timer = RecurringTimer(
            clock,
            _TICK_MS,
            lambda _tick: self._loop.post(self._tick),
            "ReceiverTracker",
            self._on_loop_error,
            skip_missed=True,
        )
        self._endpoint: Endpoint | None = None
        self._stopping = threading.Event()
        self._logs = logs = BlockLogs.of(sc, settings, checkpoint_directory, receivers)
        self._placement = Placement(sc, settings)
        self._launcher = ReceiverLauncher(
            sc, settings, run_id, self._token, lambda stream_id: "" if logs is None else logs.directory(stream_id)
        )
        self._locations = BlockLocations(
            self._serving, self._placement.has_executor, run_id, logs, on_this_machine=self._on_this_machine
        )
        self._backlog = Backlog(
            settings.max_unprocessed, lambda change: self._loop.post(lambda: self._on_backlog(change))
        )
        # Of launches, by stream id and epoch: jobs that have not ended, connections to those that have registered.
        self._jobs: dict[tuple[int, int], ReceiverJob] = {}
        self._connections: dict[tuple[int, int], ReceiverConnection] = {}
        # By stream id: set while no launch may hold records.
        self._ended = {stream_id: threading.Event() for stream_id in receivers}
        self._limits, self._estimates = RateLimits.of(settings), dict[int, float]()
        self._pause_reasons: set[str] = set()
        # Monotonic times: of the start, the last look for executors, the last request to serve longer, the last
        # completed batch (written by the thread that completes it), and by host of the last report of its backlog.
        self._started_ms = self._rebalanced_ms = self._serve_asked_ms = self._batch_ms = 0.0
        self._backlog_reported_ms = defaultdict[str, float](lambda: -math.inf)
        self._backlog_warned, self._launched = False, False
        self._desire()

    # -- life cycle of the tracker; on the context's thread --

    def prepare(self) -> None:
        """Check that every receiver can be launched and open the endpoint; nothing is written.

        Raises:
            ConfigurationError: a receiver cannot be pickled, there are not enough cores for all and a batch, or Spark
                would start second copies of them.
        """
        if not self._receivers:
            return
        check_cores(self._sc, len(self._receivers))
        check_speculation(self._sc)
        for stream_id, receiver in self._receivers.items():
            check_picklable(stream_id, receiver)
        report_storage_levels(self._sc, self._receivers)
        self._endpoint = Endpoint(
            "127.0.0.1" if self._on_this_machine else cluster.driver_bind_address(self._sc),
            self._token,
            {
                AddBlocks: self._on_add_blocks,
                BlocksLost: self._on_blocks_lost,
                FindBlock: lambda message: self._on_loop(lambda: self._locations.find(message)),
                RegisterReceiver: self._on_register,
                ReportError: self._on_message,
                DeregisterReceiver: self._on_message,
            },
        )
        self._launcher.set_driver_port(self._endpoint.port)
        self._loop.start()

    def start(self) -> None:
        """Launch every receiver once enough executors have joined.

        Raises:
            ConfigurationError: as ``prepare``, which is called if it was not before.
            WriteAheadLogError: the write-ahead log cannot be written.
        """
        if self._endpoint is None:
            self.prepare()
        self.blocks.start()
        if not self._receivers:
            return
        if self._logs is not None:
            self._logs.start()
            if self.blocks.recovered.is_whole:
                self._logs.sweep(self.blocks.known())
            else:
                self._logs.set_aside(self.blocks.known(), f"aside-{self._clock.now_ms()}")
        self._started_ms = self._clock.monotonic_ms()
        self._loop.post(self._launch_all)
        self._timer.start(self._timer.start_time_ms())

    def stop(self, deadline: float, *, drains: bool = False) -> None:
        """Stop every receiver, wait until the deadline for them to flush, then cancel their jobs.

        Blocks that arrive meanwhile are accepted, none afterwards. Accepted blocks are readable until ``release``; the
        write-ahead log stays open for batches.

        Args:
            deadline: of the whole stop, monotonic seconds.
            drains: batches run afterwards: they get a part of the time, and receivers on other hosts serve their
                blocks until then.
        """
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._clock.wake()
        if self._endpoint is None:
            return
        left_s = max(deadline - time.monotonic(), 0)
        flushed_by = time.monotonic() + (left_s * _FLUSH_SHARE if drains else left_s)
        # On this machine tasks read the files themselves, and can use the receivers' slots.
        serve_ms = round((left_s + _RELEASE_S) * 1000) if drains and not self._on_this_machine else 0
        try:
            # Waited for: no launch begins after it.
            self._on_loop(lambda: self._step_all(lifecycle.Stop(serve_ms)), max(left_s, 1.0))
        except TimeoutError:
            log.warning("stop not delivered: tracker loop blocked")
        for stream_id, ended in self._ended.items():
            while not ended.wait(max(min(flushed_by - time.monotonic(), _RESEND_STOP_S), 0.01)):
                if time.monotonic() >= flushed_by:
                    self._end_by_force(stream_id)
                    break
                self._loop.post(self._tick_all)
        # From here on no batch would get what is stored.
        self.blocks.seal()

    def _end_by_force(self, stream_id: int) -> None:
        log.warning("receiver not stopped in time, job cancelled", stream_id=stream_id)
        job = self._jobs.get((stream_id, self._records[stream_id].epoch))
        if job is not None:
            self._launcher.cancel(job)
            self._ended[stream_id].wait(5.0)

    def release(self) -> None:
        """Release every task, see the jobs end, close the endpoint. Harmless when repeated."""
        self.stop(time.monotonic())
        if self._endpoint is None:
            return
        running = [job for job in list(self._jobs.values()) if not job.finish(0)]
        for connection in self._serving():
            connection.send(ReleaseReceiver(), urgent=True)
        deadline = time.monotonic() + _RELEASE_S
        for job in running:
            if not job.finish(max(deadline - time.monotonic(), 0.01)):
                log.warning("receiver job not ended after release, cancelled", stream_id=job.task.stream_id)
                self._launcher.cancel(job)
                job.finish(_RELEASE_S)
        self._timer.stop(interrupt=True)
        # The endpoint first: its calls are answered on the loop.
        self._endpoint.stop()
        self._loop.stop(5.0)
        for stream_id, record in self._records.items():
            if record.info.active:
                # Its job ends without a word, or the loop has not heard it.
                self._step(stream_id, lifecycle.Stop())
                self._step(stream_id, lifecycle.JobEnded(record.epoch))
        for connection in self._connections.values():
            connection.close()

    def close(self) -> None:
        """Close the write-ahead log, when no batch is allocated or forgotten any more. Harmless when repeated."""
        self.blocks.close()

    def delete_files(self) -> None:
        """Delete the remaining block files, when no batch reads them any more.

        On this machine; on other hosts Spark removes them with the executor's local files. Of the receivers'
        write-ahead log only the files whose deletion was asked for.
        """
        if self._logs is not None:
            self._logs.stop(_LAST_DELETIONS_S)
        elif self._on_this_machine:
            self._locations.delete_directories()

    # -- rates, pauses, infos; on any thread --

    def send_rate_update(self, stream_id: int, rate: float) -> None:
        """Set a receiver's rate, records/s, for this launch and later ones."""

        def update() -> None:
            self._estimates[stream_id] = rate
            self._desire()

        if stream_id in self._receivers and rate > 0 and not self._stopping.is_set():
            self._loop.post(update)

    def rates(self) -> dict[int, float]:
        """The rates that were set, records/s, by stream id."""
        return dict(self._estimates)

    def restore_rates(self, rates: Mapping[int, float], batch_interval_ms: int) -> None:
        """Have receivers begin at the rates of the run that is recovered; before the start."""
        self._estimates.update((stream_id, rate) for stream_id, rate in rates.items() if stream_id in self._receivers)
        self._desire()
        limits = {stream_id: self.rate_limit(stream_id) for stream_id in self._receivers}
        # Recovered blocks go to batches at the rate at which they would have come.
        self.blocks.spread_leftovers(
            {stream_id: rate * batch_interval_ms / 1000 for stream_id, rate in limits.items() if rate is not None}
        )

    def pause(self, paused: bool) -> None:
        """Pause all receivers, those launched later too, or resume them; returns at once."""
        if not self._stopping.is_set():
            self._loop.post(lambda: self._set_paused("pending batches", paused))

    def rate_limit(self, stream_id: int) -> float | None:
        """The rate limit of a stream's receiver, records/s; ``None`` for no limit."""
        record = self._records.get(stream_id)
        return None if record is None else record.desired.rate

    def receiver_infos(self) -> dict[int, ReceiverInfo]:
        """What is known of every receiver, by stream id."""
        return {stream_id: record.info for stream_id, record in self._records.items()}

    # -- blocks and batches; on the generator's loop --

    def references(self, blocks: Iterable[StoredBlock]) -> list[tuple[str, int, BlockReference]]:
        """For each block: its host, its size in bytes, and where a task reads it now."""
        return self._locations.references(blocks)

    def reader(self) -> ReadBlocks:
        """What tasks read the references with."""
        return ReadBlocks(self._token, self._launcher.driver_location, self._settings.on_lost_blocks == "skip")

    def processed(self, until_ms: int) -> None:
        """Note that the batches up to a time are complete."""
        self._backlog.processed(self.blocks.processed(until_ms))
        self._batch_ms = self._clock.monotonic_ms()

    def unread_bytes(self) -> int:
        """Size of the stored blocks that no batch has processed."""
        return self._backlog.num_bytes

    def clean_up(self, before_ms: int, *, delete: bool) -> None:
        """Forget batches older than a time and, if ``delete``, delete their blocks; returns at once."""
        blocks = self.blocks.clean_up_batches(before_ms)
        self._backlog.processed(blocks)
        if delete and blocks and self._logs is None and not self._stopping.is_set():
            self._loop.post(lambda: self._locations.delete(blocks))
            return
        self._locations.forget(blocks)
        if delete and blocks and self._logs is not None:
            self._logs.delete(blocks)

    # -- messages; on the endpoint's threads --

    def _on_message(self, message: DeregisterReceiver | ReportError) -> Reply:
        if message.stream_id not in self._records:
            return Reply(accepted=False, reason=f"stream {message.stream_id} has no launch {message.epoch}")
        reply: Reply = self._on_loop(lambda: self._step(message.stream_id, message))
        return reply

    def _on_register(self, message: RegisterReceiver) -> Registered:
        stream_id, epoch = message.stream_id, message.epoch
        if stream_id not in self._records:
            return Registered(accepted=False, reason=f"stream {stream_id} has no launch {epoch}")
        job = self._jobs.get((stream_id, epoch))
        # Not on the loop, which has other messages to handle meanwhile.
        location = None if job is None else self._launcher.location_of(job, self._stopping)
        event = lifecycle.Registration(message, location)
        registered: Registered = self._on_loop(lambda: self._step(stream_id, event))
        return registered

    def _on_add_blocks(self, message: AddBlocks) -> Reply:
        record = self._records.get(message.stream_id)
        # A block that was accepted stays so, whoever reports it again: a receiver deletes what is refused.
        if record is not None and not self.blocks.unknown(message.blocks):
            return Reply()
        if record is None or message.epoch != record.epoch:
            return Reply(accepted=False, reason=f"launch {message.epoch} of stream {message.stream_id} was replaced")
        if any(block.stream_id != message.stream_id for block in message.blocks):
            return Reply(accepted=False, reason="the blocks are of another stream")
        self._locations.add(record.block_location, message.blocks)
        self._backlog.add(self._locations.disk(record.block_location.address), message.blocks)
        # A failed write raises, and the receiver reports the blocks again. A refusal would make it delete blocks that
        # may be in the write-ahead log all the same.
        try:
            gone = self.blocks.add_blocks(message.blocks)
        except StreamingStateError as error:
            self._forget(self.blocks.unknown(message.blocks))
            return Reply(accepted=False, reason=str(error))
        except WriteAheadLogError:
            # Reported again they count again; a relaunch would name them differently, and these would count for ever.
            self._forget(self.blocks.unknown(message.blocks))
            raise
        self._forget(gone)
        return Reply()

    def _forget(self, blocks: Sequence[StoredBlock]) -> None:
        self._locations.forget(blocks)
        self._backlog.processed(blocks)

    def _on_blocks_lost(self, message: BlocksLost) -> Reply:
        self._loop.post(lambda: self._report_lost_blocks(message))
        return Reply()

    def _on_loop(self, handler: Callable[[], Any], timeout_s: float | None = None) -> Any:
        """Run a handler on the tracker's loop and return its result."""
        future: Future[Any] = Future()

        def handle() -> None:
            try:
                future.set_result(handler())
            except Exception as error:
                future.set_exception(error)

        self._loop.post(handle)
        return future.result(timeout_s or self._settings.wire_timeout_ms / 1000)

    def _on_loop_error(self, error: BaseException) -> None:
        log.error("tracker event failed", exc_info=error)

    # -- the life cycle and its effects; on the tracker's loop --

    def _step(self, stream_id: int, event: lifecycle.LifecycleEvent) -> Any:
        """Give an event to a receiver's record and carry out what follows; return the answer, if there is one."""
        before, answer = self._records[stream_id], None
        record, effects = step(before, event, self._clock.monotonic_ms(), self._clock.now_ms())
        self._records[stream_id] = record
        for effect in effects:
            match effect:
                case lifecycle.StartJob():
                    on_end = partial(self._on_job_end, stream_id, effect.epoch)
                    self._jobs[stream_id, effect.epoch] = self._launcher.start(
                        stream_id, self._receivers[stream_id], effect.epoch, effect.candidates, on_end
                    )
                case lifecycle.CancelJob():
                    self._launcher.cancel(self._jobs[stream_id, effect.epoch])
                case lifecycle.Connect():
                    self._connect(effect.message, effect.location)
                case lifecycle.Send():
                    self._send(stream_id, effect)
                case lifecycle.Answer():
                    answer = effect.message
                case lifecycle.Post():
                    self._post(effect.event)
                case lifecycle.WakeUp():
                    self._loop.post_later(effect.delay_ms, partial(self._relaunch, stream_id, record.epoch))
                case lifecycle.FailApplication():
                    self._fail_application(ReceiverFailedError(effect.message))
                case lifecycle.Log():
                    getattr(log, effect.level)(effect.event, stream_id=stream_id, **effect.context)
        if record.launch is None:
            self._ended[stream_id].set()
        else:
            self._ended[stream_id].clear()
        if record.info.given_up and not before.info.given_up:
            # The others may have its share of the application's rate.
            self._desire()
        return answer

    def _step_all(self, event: lifecycle.LifecycleEvent) -> None:
        for stream_id in self._records:
            self._step(stream_id, event)

    def _on_job_end(self, stream_id: int, epoch: int, error: BaseException | None) -> None:
        """On the job's thread."""
        failed = ("", "") if error is None else (failure.reason(error), text_of(error))

        def ended() -> None:
            connection = self._connections.pop((stream_id, epoch), None)
            if connection is not None:
                connection.close_after_flush()
            self._jobs.pop((stream_id, epoch), None)
            self._step(stream_id, lifecycle.JobEnded(epoch, *failed))

        self._loop.post(ended)

    def _connect(self, message: RegisterReceiver, location: lifecycle.BlockLocation) -> None:
        key = message.stream_id, message.epoch
        if key in self._connections:
            self._connections[key].close_after_flush()
        # A receiver that cannot be reached has most likely died: no retry.
        endpoint = self._token.location(message.host, message.port)
        client = Client(endpoint, self._token, self._settings.wire_timeout_ms, retry=False)
        connection = ReceiverConnection(key[0], location, client, partial(self._on_undelivered, message.epoch))
        self._connections[key] = connection
        self._backlog.set_disk(self._locations.disk(message.host), message.disk_bytes)
        self._locations.delete_leftovers(connection)

    def _send(self, stream_id: int, effect: lifecycle.Send) -> None:
        connection = self._connections.get((stream_id, effect.epoch))
        if connection is None:
            return
        if isinstance(effect.message, UpdateRateLimit):
            connection.send_latest(effect.message)
        else:
            connection.send(effect.message, urgent=effect.urgent)

    def _on_undelivered(self, epoch: int, connection: ReceiverConnection, message: object) -> None:
        """On a sending thread."""
        if isinstance(message, CleanUpBlocks):
            self._loop.post(lambda: self._locations.not_deleted(connection, message.block_ids))
        else:
            self._loop.post(lambda: self._step(connection.stream_id, lifecycle.Undelivered(epoch, message)))

    def _serving(self) -> list[ReceiverConnection]:
        """To all launches that serve blocks, in the order of their registration. On any thread."""
        released = {
            (stream_id, each.launch.epoch)
            for stream_id, record in self._records.items()
            for each in record.draining
            if each.released
        }
        return [connection for key, connection in list(self._connections.items()) if key not in released]

    # -- launches; on the tracker's loop --

    def _launch_all(self) -> None:
        waited_ms = self._clock.monotonic_ms() - self._started_ms
        if not self._launched and self._placement.has_enough_executors(len(self._receivers), waited_ms):
            self._launched = True
            preferred = self._preferred(self._receivers)
            self._launch(self._placement.schedule(preferred), preferred)

    def _relaunch(self, stream_id: int, epoch: int) -> None:
        record = self._records[stream_id]
        if self._stopping.is_set() or not isinstance(record.state, lifecycle.BackingOff) or record.epoch != epoch:
            return
        preferred = self._preferred([stream_id])
        if preferred:
            others = [other for other in self._records.values() if other is not record]
            goes_back = self._locations.awaits(record.block_location)
            candidates = self._placement.reschedule(record, others, preferred[stream_id], goes_back=goes_back)
            self._launch({stream_id: candidates}, preferred)

    def _preferred(self, stream_ids: Iterable[int]) -> dict[int, str | None]:
        """The hosts that receivers prefer, without those that raise."""
        preferred: dict[int, str | None] = {}
        for stream_id in stream_ids:
            try:
                preferred[stream_id] = self._receivers[stream_id].preferredLocation()
            # The receiver's own code.
            except Exception as error:
                self._step(stream_id, lifecycle.LaunchFailed(failure.reason(error), text_of(error)))
        return preferred

    def _launch(self, candidates: Mapping[int, Sequence[TaskLocation]], preferred: Mapping[int, str | None]) -> None:
        if self._stopping.is_set():
            return
        self.blocks.note_launches({stream_id: self._records[stream_id].epoch + 1 for stream_id in candidates})
        for stream_id, chosen in candidates.items():
            self._step(stream_id, lifecycle.LaunchDue(tuple(chosen), preferred[stream_id]))

    # -- what nobody sends a message about; on the tracker's loop --

    def _tick(self) -> None:
        if self._stopping.is_set():
            return
        self._launch_all()
        self._tick_all()
        now_ms, infos = self._clock.monotonic_ms(), self.receiver_infos().values()
        is_due = now_ms - self._serve_asked_ms >= _SERVE_AGAIN_MS and self._batch_ms > self._serve_asked_ms
        # A receiver that is not active may wait for the very slot.
        if is_due and all(info.active or info.given_up for info in infos):
            self._serve_asked_ms = now_ms
            self._step_all(lifecycle.ServeLonger(_SERVE_MS))
        if now_ms - self._rebalanced_ms >= _REBALANCE_MS:
            self._rebalanced_ms = now_ms
            self._rebalance()

    def _tick_all(self) -> None:
        for stream_id, record in list(self._records.items()):
            connections = {each: self._connections.get((stream_id, each.launch.epoch)) for each in record.draining}
            needed = [
                each.launch.epoch for each, to in connections.items() if to is not None and self._locations.needs(to)
            ]
            self._step(stream_id, lifecycle.Tick(frozenset(needed)))

    def _rebalance(self) -> None:
        stream_id = self._placement.to_move(self._records)
        if stream_id is not None:
            connection = self._connections.get((stream_id, self._records[stream_id].epoch))
            serves = connection is not None and self._locations.needs(connection)
            self._step(stream_id, lifecycle.Move(_SERVE_MS if serves else 0))

    def _desire(self) -> None:
        """Work out what each receiver should keep to now."""
        estimates = {
            stream_id: self._estimates.get(stream_id)
            for stream_id, record in self._records.items()
            if not record.info.given_up
        }
        for stream_id, rate in self._limits.divide(estimates).items():
            self._step(stream_id, lifecycle.DesiredChange(rate, bool(self._pause_reasons)))

    def _set_paused(self, reason: str, paused: bool) -> None:
        if paused:
            self._pause_reasons.add(reason)
        else:
            self._pause_reasons.discard(reason)
        self._desire()

    def _on_backlog(self, change: BacklogChange) -> None:
        self._set_paused("backlog", self._backlog.is_full)
        host, num_bytes = change.host, change.num_bytes
        if change.is_full:
            # Where batches are slow for long this comes and goes with each of them.
            now_ms = self._clock.monotonic_ms()
            self._backlog_warned = now_ms - self._backlog_reported_ms[host] >= _REPORT_BACKLOG_MS
        write = log.warning if self._backlog_warned else log.info
        if not change.is_full:
            write("receivers resumed: backlog below limit", host=host, num_bytes=num_bytes)
            return
        write("receivers paused: backlog above limit", host=host, num_bytes=num_bytes, limit=change.limit)
        if not self._backlog_warned:
            return
        self._backlog_reported_ms[host] = now_ms
        problem = lifecycle.ProblemNoted(
            f"receivers pause: {num_bytes} bytes on {host} are not processed yet, more than "
            "spark.penstock.blocks.maxUnprocessed allows"
        )
        for stream_id, record in list(self._records.items()):
            if record.info.active and self._locations.disk(record.block_location.address) == host:
                self._step(stream_id, problem)

    def _report_lost_blocks(self, message: BlocksLost) -> None:
        skips = self._settings.on_lost_blocks == "skip"
        for stream_id, lost in self._locations.note_lost(message.blocks).items():
            if stream_id in self._records:
                count, records, reason = len(lost), sum(block.num_records for block in lost), lost[0].reason
                log.error("blocks lost", stream_id=stream_id, blocks=count, records=records, reason=reason)
                follows = "they are left out" if skips else "their batch fails"
                text = f"{count} blocks ({records} records) are lost, {follows}: {reason}"
                self._step(stream_id, lifecycle.BlocksMissed(count, records, text))


def _policy(settings: Settings, run_id: str) -> lifecycle.RelaunchPolicy:
    return lifecycle.RelaunchPolicy(
        settings.max_restarts,
        settings.restart_window_ms,
        settings.on_receiver_failure,
        settings.relaunch_delay_ms,
        settings.max_relaunch_delay_ms,
        settings.launch_timeout_ms,
        run_id,
    )
