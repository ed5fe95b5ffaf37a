"""``ReceiverTracker``: the driver side of all receivers of a context.

Owns the endpoint that receivers and tasks call, starts and stops the parts, and accepts blocks on the endpoint's
threads. Everything that changes a receiver's state is posted to the loop of ``TrackedReceivers``. The only user code
that runs here is the pickling and ``preferredLocation`` of receivers.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import islice
from typing import Any

from attrs import evolve

from penstock import conf
from penstock.blocks.block import StoredBlock
from penstock.blocks.block_transfer import BlocksLost, FindBlock
from penstock.errors import WriteAheadLogError
from penstock.listen.events import Event, ReceiverInfo, StreamInputInfo
from penstock.receive import messages
from penstock.runtime.clock import Clock
from penstock.runtime.log import get_logger
from penstock.runtime.threads import contain_errors
from penstock.spark import cluster
from penstock.spark.rdds import LocatedPartition
from penstock.track import receiver_tracking_info as lifecycle
from penstock.track.backlog import Backlog
from penstock.track.batch_partitions import PartitionBounds, partitions_of
from penstock.track.received_block_tracker import ReceivedBlockTracker
from penstock.track.receiver_launcher import READERS, ReceiverLauncher
from penstock.track.relaunch_lifecycle import no_launch
from penstock.track.tracked_receivers import TrackedReceivers
from penstock.wire.endpoint import Endpoint, Ports
from penstock.wire.json_codec import Reply
from penstock.worker.block_reader import ReadBlocks

log = get_logger("receiver_tracker")

_PORT_ADVICE = (
    "Set spark.penstock.driver.port to a free port or to 0, and spark.driver.bindAddress to an address of this host"
)
# Maximum wait of a stop for the deletion of files of the receivers' write-ahead log.
_LAST_DELETIONS_S = 10.0
# Share of a graceful stop's time for the receivers; the rest is for the remaining batches.
_FLUSH_SHARE = 2 / 3
# Interval at which a stop that did not reach its receiver is sent again.
_RESEND_STOP_S = 1.0
# Maximum wait for the jobs of released or cancelled receivers to end, and for calls in progress.
_RELEASE_S = 5.0
# Minimum time between two warnings of the backlog of one host, and between two errors of one receiver because of it.
_REPORT_BACKLOG_S = 60
# Maximum number of trace contexts in the input of a batch from one stream.
_MOST_TRACES = 128


class ReceiverTracker:
    """Run a launcher's receivers; ``fail_application`` gets the error of one that stops the application."""

    def __init__(
        self,
        launcher: ReceiverLauncher,
        blocks: ReceivedBlockTracker,
        clock: Clock,
        post: Callable[[Event], None],
        fail_application: Callable[[BaseException], None],
    ) -> None:
        self._launcher = launcher
        self._receivers = launcher.receivers
        self._settings = settings = launcher.settings
        self._logs = launcher.logs
        self.blocks = blocks
        self._clock = clock
        self._tracked = TrackedReceivers(launcher, blocks, clock, post, fail_application)
        self._locations = self._tracked.locations
        #: The stored blocks that no batch has processed.
        self.backlog = Backlog(
            settings.max_unprocessed, lambda *change: self._tracked.loop.post(lambda: self._on_backlog(*change))
        )
        self._bounds = PartitionBounds(
            settings.partition_min_bytes, settings.partition_max_bytes, settings.partition_number
        )
        self._endpoint: Endpoint | None = None
        # Size of the records in the receiver's buffer at its last report, by stream.
        self._buffered: dict[int, int] = {}
        # Monotonic time at which listeners were last notified of a pause because of the backlog, by stream.
        self._backlog_reported_ms: dict[int, float] = {}
        # Set once a stop is requested, before the loop handles it.
        self._stopping = threading.Event()

    # -- life cycle of the tracker; on the context's thread --

    def prepare(self) -> None:
        """Open the endpoint; nothing is written."""
        if not self._receivers:
            return
        self._endpoint = Endpoint(
            "127.0.0.1" if self._launcher.on_this_machine else cluster.driver_bind_address(self._launcher.sc),
            self._launcher.token,
            {
                messages.AddBlocks: self._on_add_blocks,
                BlocksLost: lambda message: self._tracked.loop.post(lambda: self._report_lost_blocks(message)),
                FindBlock: lambda message: self._on_loop(lambda: self._locations.find(message)),
                messages.RegisterReceiver: self._on_register,
                messages.ReportError: self._on_message,
                messages.DeregisterReceiver: self._on_message,
            },
            ports=Ports(self._settings.driver_port, self._settings.port_max_retries, _PORT_ADVICE),
            permits=_permits,
        )
        self._launcher.set_driver_port(self._endpoint.port)
        self._tracked.loop.start()

    def start(self) -> None:
        """Prepare, start the write-ahead log, and launch every receiver once enough executors have joined."""
        if self._endpoint is None:
            self.prepare()
        self.blocks.start()
        if not self._receivers:
            return
        if self._logs is not None:
            self._logs.start()
            aside = "" if self.blocks.recovered.is_whole else f"aside-{self._clock.now_ms()}"
            self._logs.remove_unknown(self.blocks.state.retained(), aside)
            # Blocks of complete batches count until the first batch completes.
            self.backlog.add(self._logs.home, self.blocks.state.retained())
        self._tracked.start()

    def stop(self, deadline: float, *, drains: bool = False) -> None:
        """Stop every receiver, wait until the deadline (monotonic seconds) for them to flush, then cancel their jobs.

        Accepted blocks are readable until ``release``. With ``drains``, batches run afterwards: part of the time is
        left to them, and receivers on other hosts serve their blocks meanwhile.
        """
        if self._stopping.is_set():
            return
        self._stopping.set()
        if self._endpoint is None:
            return
        left_s = max(deadline - time.monotonic(), 0)
        flushed_by = time.monotonic() + (left_s * _FLUSH_SHARE if drains else left_s)
        # On this machine tasks read the files themselves, and can use the receivers' slots.
        serve_ms = round((left_s + _RELEASE_S) * 1000) if drains and not self._launcher.on_this_machine else 0
        try:
            # Wait until the loop has handled it: no launch begins afterwards.
            self._on_loop(lambda: self._tracked.step_all(lifecycle.Stop(serve_ms)), max(left_s, 1.0))
        except TimeoutError:
            log.warning("stop not delivered: tracker loop blocked")
        for stream_id in self._receivers:
            while not self._tracked.await_end(stream_id, min(flushed_by - time.monotonic(), _RESEND_STOP_S)):
                if time.monotonic() < flushed_by:
                    self._tracked.loop.post(self._tracked.tick_all)
                    continue
                log.warning("receiver not stopped in time, job cancelled", stream_id=stream_id)
                job = self._tracked.jobs.get((stream_id, self._tracked.records[stream_id].epoch))
                if job is not None:
                    job.cancel()
                    self._tracked.await_end(stream_id, _RELEASE_S)
                break
        # Blocks that are added from now on would belong to no batch.
        self.blocks.seal(max(deadline - time.monotonic(), 1.0))

    def release(self) -> None:
        """Release every task, wait for the jobs to end, close the endpoint. Can be repeated."""
        self.stop(time.monotonic())
        if self._endpoint is None:
            return
        jobs = list(self._tracked.jobs.values())
        for connection in self._locations.connections.serving():
            connection.send(messages.ReleaseReceiver(), urgent=True)
        deadline = time.monotonic() + _RELEASE_S
        for job in jobs:
            if not job.finish(max(deadline - time.monotonic(), 0.01)):
                log.warning("receiver job not ended after release, cancelled", stream_id=job.task.stream_id)
                job.cancel()
                job.finish(_RELEASE_S)
        # The endpoint first: its calls are answered on the loop.
        self._endpoint.stop(_RELEASE_S)
        self._tracked.stop()

    def close(self) -> None:
        """Close the write-ahead log, after the last batch was allocated; blocks still being added fail. Idempotent."""
        self.blocks.close()

    def delete_files(self) -> None:
        """Delete the remaining block files, when no batch reads them any more."""
        # A recovery may need the rest of the receivers' write-ahead log.
        if self._logs is not None:
            self._logs.stop(_LAST_DELETIONS_S)
        # On other hosts Spark removes them with the executor's local files.
        elif self._launcher.on_this_machine:
            self._locations.delete_directories()

    # -- rates, pauses, infos; on any thread --

    def send_rate_update(self, stream_id: int, rate: float) -> None:
        """Set a receiver's rate, records/s, for this launch and later ones."""
        if stream_id in self._receivers and rate > 0 and not self._stopping.is_set():
            self._tracked.loop.post(lambda: self._tracked.estimate_rate(stream_id, rate))

    def rates(self) -> dict[int, float]:
        """Return the rates that were set, records/s, by stream id."""
        return dict(self._tracked.rate_limits.estimates)

    def restore_rates(self, rates: Mapping[int, float], batch_interval_ms: int) -> None:
        """Set the rates of the recovered run; call it before ``prepare`` starts the loop."""
        for stream_id, rate in rates.items():
            if stream_id in self._receivers:
                self._tracked.estimate_rate(stream_id, rate)
        limits = {stream_id: self.rate_limit(stream_id) for stream_id in self._receivers}
        # Recovered blocks are allocated at the rate limit, as if they were received now.
        self.blocks.spread_recovered_blocks(
            {stream_id: rate * batch_interval_ms / 1000 for stream_id, rate in limits.items() if rate is not None}
        )

    def pause(self, paused: bool) -> None:
        """Pause or resume all receivers, including those that register later; returns at once."""
        if not self._stopping.is_set():
            self._tracked.loop.post(lambda: self._tracked.step_all(lifecycle.Pause("pending batches", paused)))

    def rate_limit(self, stream_id: int) -> float | None:
        """The rate limit of a stream's receiver, records/s; ``None`` for no limit."""
        record = self._tracked.records.get(stream_id)
        return None if record is None else record.desired.rate

    def receiver_infos(self) -> dict[int, ReceiverInfo]:
        """The state of every receiver as listeners see it, by stream id."""
        return {stream_id: record.info for stream_id, record in self._tracked.records.items()}

    # -- blocks and batches; on the generator's loop --

    @property
    def reader(self) -> ReadBlocks:
        """The function that tasks use to read blocks."""
        return ReadBlocks(
            self._launcher.reader_token, self._launcher.driver_location, self._settings.on_lost_blocks == "skip"
        )

    @property
    def has_unallocated_blocks(self) -> bool:
        """Whether some block belongs to no batch."""
        return self.blocks.has_unallocated_blocks

    @property
    def last_allocated_ms(self) -> int:
        """The last batch time that was allocated; -1 for none."""
        return self.blocks.state.last_allocated_ms

    def allocate_blocks_to_batch(self, batch_time_ms: int) -> None:
        """Allocate unallocated blocks to a batch: see ``ReceivedBlockTracker``."""
        self.blocks.allocate_blocks_to_batch(batch_time_ms)

    def input_info(self, batch_time_ms: int, stream_id: int) -> StreamInputInfo:
        """The input that a batch has from a stream."""
        blocks = self.blocks.blocks_of_batch(batch_time_ms, stream_id)
        return StreamInputInfo(
            stream_id,
            sum(block.num_records for block in blocks),
            rate_limit=self.rate_limit(stream_id),
            earliest_arrival=min((block.arrival_ms for block in blocks if block.arrival_ms is not None), default=None),
            traceparents=tuple(islice((parent for block in blocks for parent in block.traceparents), _MOST_TRACES)),
        )

    def partitions(self, batch_time_ms: int, stream_ids: Sequence[int], slots: int) -> list[LocatedPartition]:
        """The blocks that a batch has from some streams, as partitions of references."""
        blocks = [block for stream_id in stream_ids for block in self.blocks.blocks_of_batch(batch_time_ms, stream_id)]
        return partitions_of(self._locations.references(blocks), slots, self._bounds)

    def processed(self, until_ms: int, failed: Collection[int] = ()) -> None:
        """Note that the batches up to a time are complete, except failed ones."""
        self.backlog.processed(self.blocks.processed(until_ms, failed))
        self._tracked.note_batch()

    def buffered_bytes(self) -> int:
        """Size of the records in the buffers of active receivers, as of their last reports."""
        records = self._tracked.records.items()
        return sum(self._buffered.get(stream_id, 0) for stream_id, record in records if record.info.active)

    def clean_up(self, before_ms: int, retained: Sequence[range] = (), *, delete: bool) -> None:
        """Forget batches older than a time and not retained; with ``delete``, delete their blocks. Returns at once."""
        blocks = self.blocks.clean_up_batches(before_ms, retained)
        self.backlog.processed(blocks)
        # They stay on the disk until the failed batches succeed.
        for block in self.blocks.retained(before_ms):
            self.backlog.add(self._locations.disk_of(block), [block])
        if delete and blocks and self._logs is None and not self._stopping.is_set():
            self._tracked.loop.post(lambda: self._locations.delete(blocks))
            return
        self._locations.forget(blocks)
        if delete and blocks and self._logs is not None:
            self._logs.delete(blocks)

    # -- messages; on the endpoint's threads --

    def _on_message(self, message: messages.DeregisterReceiver | messages.ReportError) -> Reply:
        if message.stream_id not in self._tracked.records:
            return Reply(accepted=False, reason=no_launch(message))
        reply: Reply = self._on_loop(lambda: self._tracked.step(message.stream_id, message))
        return reply

    def _on_register(self, message: messages.RegisterReceiver) -> messages.Registered:
        stream_id, epoch = message.stream_id, message.epoch
        if stream_id not in self._tracked.records:
            return messages.Registered(accepted=False, reason=no_launch(message))
        if refusal := self._launcher.refusal(message):
            log.error("receiver refused", stream_id=stream_id, reason=refusal)
            return messages.Registered(accepted=False, reason=refusal)
        job = self._tracked.jobs.get((stream_id, epoch))
        # Not on the loop, which has other messages to handle meanwhile.
        location = None if job is None else self._launcher.location_of(job, self._stopping)
        event = lifecycle.Registration(message, location)
        self.backlog.set_disk(self._locations.disk(message.host), message.disk_bytes)
        registered: messages.Registered = self._on_loop(lambda: self._tracked.step(stream_id, event))
        # Read after the step: from then on, no block of an earlier launch is accepted.
        return evolve(registered, position=self.blocks.state.positions.get(stream_id))

    def _on_add_blocks(self, message: messages.AddBlocks) -> Reply:
        if (message.source or message.times) and message.stream_id in self._tracked.records:
            reported = lifecycle.StatusReported(message.epoch, message.source, message.times)
            self._tracked.loop.post(lambda: self._tracked.step(message.stream_id, reported))
        with self.blocks.adding(message.blocks) as new:
            # Blocks that were accepted before are accepted from any launch, because a receiver deletes refused blocks.
            return self._add(message, new) if new else Reply()

    def _add(self, message: messages.AddBlocks, new: Sequence[StoredBlock]) -> Reply:
        # This is an error, not a refusal: a refused receiver would delete blocks that the new owner may know.
        if self._logs is not None:
            self._logs.require_claim()
        record = self._tracked.records.get(message.stream_id)
        if record is None or message.epoch != record.epoch:
            return Reply(accepted=False, reason=no_launch(message))
        if any(block.stream_id != message.stream_id for block in new):
            return Reply(accepted=False, reason="the blocks belong to another stream")
        if self.blocks.is_sealed:
            return Reply(accepted=False, reason="the application is stopping: no batch would process the blocks")
        self._buffered[message.stream_id] = message.buffered_bytes
        self._locations.add(record.block_location, new)
        executor_id = record.location.executor_id if record.location and record.block_location.directory else ""
        self.backlog.add(self._locations.disk(record.block_location.address), new, executor_id)
        try:
            self.blocks.add_blocks(new)
        except WriteAheadLogError:
            # The receiver reports the blocks again, and they are counted then. If they were refused, it would delete
            # blocks that may be in the write-ahead log nevertheless. A relaunched receiver uses other ids.
            self._locations.forget(new)
            self.backlog.processed(new)
            raise
        return Reply()

    def _on_loop(self, handler: Callable[[], Any], timeout_s: float | None = None) -> Any:
        """Run a handler on the tracker's loop and return its result."""
        future: Future[Any] = Future()
        action = partial(contain_errors, lambda: future.set_result(handler()), future.set_exception)
        self._tracked.loop.post(action)
        return future.result(timeout_s or self._settings.wire_timeout_ms / 1000)

    # -- reports; on the tracker's loop --

    def _on_backlog(self, host: str, num_bytes: int, limit: int, is_full: bool) -> None:
        self._tracked.step_all(lifecycle.Pause("backlog", self.backlog.is_full))
        # With slow batches the backlog may exceed its limit, and fall below it again, in every batch.
        warn = partial(log.warning, host=host, num_bytes=num_bytes, throttle_s=_REPORT_BACKLOG_S)
        if not is_full:
            warn("receivers resumed: backlog below limit")
            return
        key = conf.key("max_unprocessed")
        warn("receivers paused: backlog above limit", limit=limit, key=key)
        text = f"{num_bytes} bytes on {host} are not processed yet, more than {key} allows"
        now_ms = self._clock.monotonic_ms()
        for stream_id, record in self._tracked.records.items():
            is_there = record.is_active and self._locations.disk(record.block_location.address) == host
            if is_there and now_ms - self._backlog_reported_ms.get(stream_id, -math.inf) >= _REPORT_BACKLOG_S * 1000:
                self._backlog_reported_ms[stream_id] = now_ms
                self._tracked.step(stream_id, lifecycle.ProblemFound(f"receivers pause: {text}"))

    def _report_lost_blocks(self, message: BlocksLost) -> None:
        skips = self._settings.on_lost_blocks == "skip"
        for stream_id, lost in self._locations.note_lost(message.blocks).items():
            if stream_id in self._tracked.records:
                count, records, reason = len(lost), sum(block.num_records for block in lost), lost[0].reason
                log.error("blocks lost", stream_id=stream_id, blocks=count, records=records, reason=reason)
                follows = "they are left out" if skips else "their batch fails"
                text = f"{count} blocks ({records} records) are lost, {follows}: {reason}"
                self._tracked.step(stream_id, lifecycle.ProblemFound(text, count, records))


def _permits(caller: str, message: BlocksLost | FindBlock | messages.AddBlocks | messages.RegisterReceiver) -> bool:
    """Whether the caller may send a message: a launch for itself, a task for blocks."""
    if isinstance(message, BlocksLost | FindBlock):
        return caller == READERS
    return caller == messages.launch_name(message.stream_id, message.epoch)
