"""``SourceRun``: one run of a query's source: its directory of blocks and the receiver that fills it.

Runs in the process that Spark starts for the source, a child of the driver's JVM. Spark calls it on that process's main
thread, and the receiver stores on its own threads. One more thread watches for a rate set by ``steer`` and deletes
consumed blocks: deletion takes 0.3 ms per megabyte, which would delay a trigger. The standard error of the process, and
with it the log, goes to the driver's.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from penstock import Block, ConfigurationError, PastError, PenstockError, StoredBlock
from penstock.spi import BlockServer, Token, get_logger, text_of
from penstock_structured.block_directory import BlockDirectory
from penstock_structured.options import BACKPRESSURE, Source
from penstock_structured.relaunched_receiver import RelaunchedReceiver
from penstock_structured.source_process import end_reason

log = get_logger("structured")

_PAUSE = "unprocessed blocks"
# A paused receiver resumes when its blocks take less than this share of maxBlocksBytes.
_RESUME_SHARE = 0.8
_WATCH_S = 0.1
_QUIET_POLL_S = 0.05
# The slow start: the first rate limit, and the rate above which the limit is lifted, records/s.
_FIRST_RATE, _LAST_RATE = 1_000.0, 1_000_000.0
# Time to store buffered records, in addition to the timeout of onStop.
_STOP_S = 10.0
# A short timeout for onStop, because nothing of the query may remain two seconds after its stop.
_CONF = {"spark.penstock.receiver.stopTimeout": "1s"}


class SourceRun:
    """Owns the directory of blocks, the receiver that fills it, and the server that other hosts fetch from.

    Args:
        source: the options.

    Raises:
        ConfigurationError: the directory cannot be used, or the address is not this host's.
    """

    def __init__(self, source: Source) -> None:
        options = self._options = source.options
        #: The query's blocks.
        self.blocks = BlockDirectory(
            Path(options.blocks), options.receiver, durable=options.durable, fails_on_loss=options.failOnDataLoss
        )
        self.blocks.forget_rate()
        self.delete = self.blocks.delete
        self._server: BlockServer | None = None
        if options.address:
            try:
                self._server = BlockServer(options.address, self.blocks.open, source.conf)
            except (pa.ArrowException, PenstockError) as error:
                self.blocks.close()
                raise ConfigurationError(
                    f"the source cannot serve blocks at address={options.address!r}: {text_of(error)}"
                ) from None
        #: The token that tasks on other hosts send to the server, and its ``grpc://host:port``; empty without a server.
        self.token, self.location = (
            (Token.generate(), "") if self._server is None else (self._server.token, self._server.location)
        )
        self._receiver = RelaunchedReceiver(source.make_receiver, self, {**_CONF, **source.conf})
        # Whether the receiver may be waiting for space, which only a deletion frees.
        self._waits_for_space = False
        # The batches of the blocks below ``_ended`` have ended. The watching thread deletes the blocks below
        # ``_consumed``.
        self._ended = self._consumed = 0
        self._bound_bytes = options.maxBlocksBytes
        self._rate = source.initial_rate
        # Whether the rate limit doubles with each batch, until ``steer`` sets one.
        self._starts_slowly = self._rate is None and source.is_steered
        if self._starts_slowly:
            self._rate = _FIRST_RATE
        if self._rate is not None:
            self._receiver.update_rate(self._rate)
        self._is_started = False
        self._stopped = threading.Event()
        self._stopping = threading.Lock()
        self._watch = threading.Thread(target=self._run_watch, name="penstock source", daemon=True)

    def start(self, offset: int) -> None:
        """Start the receiver, unless it is started already.

        Args:
            offset: the query's offset; the next block gets at least this number.

        Raises:
            PenstockError: the directory does not contain the query's blocks.
        """
        if self._is_started:
            return
        self.blocks.continue_at(offset)
        self._is_started = True
        self._ended = offset
        self._receiver.start()
        self._watch.start()

    def stop(self) -> None:
        """Stop the receiver, store its buffered records, and release the directory. Idempotent, thread-safe."""
        self._stopped.set()
        with self._stopping:
            if self._is_started:
                self._receiver.stop(timeout_s=_STOP_S)
                self._watch.join(_STOP_S)
            if self._server is not None:
                self._server.stop()
            self.blocks.close()

    @property
    def failure(self) -> str:
        """Why the receiver was given up; empty if it was not."""
        return self._receiver.failure

    def await_quiet(self, quiet_s: float, timeout_s: float) -> str:
        """Wait until the receiver has stored all available data or has ended, or the timeout has passed; then pause it.

        All available data is stored when the receiver has run for ``quiet_s`` without storing and without an error.

        Args:
            quiet_s: the quiet period, seconds.
            timeout_s: the timeout, seconds.

        Returns:
            Why available data may be missing, if the receiver kept failing or was given up; otherwise empty.
        """
        began_s, failed_s, error_ms = time.monotonic(), -math.inf, self._receiver.last_error.time
        deadline, name, incomplete = began_s + timeout_s, self._options.receiver, ""
        while not end_reason():
            if self._receiver.is_terminated:
                return self.failure
            now, last_error = time.monotonic(), self._receiver.last_error
            if not self._receiver.is_active or last_error.time != error_ms:
                failed_s, error_ms = now, last_error.time
            left_s = max(began_s, failed_s, self.blocks.accepted_s) + quiet_s - now
            if left_s <= 0 or now >= deadline:
                if failed_s + quiet_s > now:
                    incomplete = (
                        f"the receiver {name!r} did not run for {quiet_s:g} s without an error within "
                        f"availableNowTimeout={timeout_s:g} s, so not all available data may be received: "
                        f"{last_error.message or 'it has not started'}. What it has stored is processed"
                    )
                elif left_s > 0 or self._waits_for_space:
                    reason = "maxBlocksBytes or full disk" if self._waits_for_space else "availableNowTimeout"
                    log.warning("available data not all received", receiver=name, reason=reason)
                break
            time.sleep(min(left_s, deadline - now, _QUIET_POLL_S))
        self._receiver.pause("all that was available is stored")
        return incomplete

    @property
    def rate_limit(self) -> float | None:
        """The receiver's rate limit, records/s; ``None`` for no limit."""
        return self._receiver.rate_limit

    @property
    def receiver_state(self) -> str:
        """The receiver's state; see ``RelaunchedReceiver``."""
        return self._receiver.state

    @property
    def last_error(self) -> PastError:
        """The receiver's last error; its time is -1 without one."""
        return self._receiver.last_error

    def store(self, block: Block) -> StoredBlock:
        """Store a block.

        Raises:
            OSError: it cannot be written.
        """
        try:
            return self.blocks.store(block)
        except OSError:
            self._waits_for_space = True
            raise

    def accept(self, blocks: Sequence[StoredBlock]) -> None:
        """Accept blocks; pause the receiver when they take too much space."""
        self.blocks.accept(blocks)
        if self.blocks.num_bytes > self._bound_bytes:
            self._receiver.pause(_PAUSE)
            self._waits_for_space = True

    def end_batches(self, number: int) -> None:
        """Note that the batches of the blocks below a number have ended.

        If the receiver waits for space, their blocks are deleted now. Spark lets a source delete a batch's blocks only
        when it plans the next batch, and a waiting receiver provides no data for a next batch.
        """
        if self._waits_for_space:
            self._delete_before(number)
        if number > self._ended:
            self._ended = number
            if self._starts_slowly:
                self._raise_rate()

    def delete_before(self, number: int) -> None:
        """Delete blocks in the background, or at once if the receiver waits for space."""
        self._consumed = number
        if self._waits_for_space:
            self._delete_before(number)

    def _delete_before(self, number: int) -> None:
        """Delete blocks; let the receiver resume when there is space."""
        self.blocks.delete_before(number)
        # A receiver that remains paused still waits for space: without data, no batch is planned that deletes more.
        if self.blocks.num_bytes <= self._bound_bytes * _RESUME_SHARE:
            self._waits_for_space = False
            self._receiver.resume(_PAUSE)

    def _raise_rate(self) -> None:
        """Double the rate limit of the slow start, or lift it at the end."""
        self._rate = (self._rate or _FIRST_RATE) * 2
        if self._rate > _LAST_RATE:
            self._rate = None
            self._starts_slowly = False
            log.warning(
                "slow start ended, no rate limit",
                directory=str(self.blocks.path),
                advice=f"call steer(spark, query), or unset {BACKPRESSURE}",
            )
        self._receiver.update_rate(self._rate)

    def _run_watch(self) -> None:
        deleted, is_last = 0, False
        while not is_last:
            is_last = self._stopped.wait(_WATCH_S)
            if (consumed := self._consumed) > deleted:
                deleted = consumed
                try:
                    self._delete_before(consumed)
                except OSError as error:
                    # The next run of the query deletes them, because their consumption is noted.
                    directory = str(self.blocks.path)
                    log.warning("consumed blocks not deleted", directory=directory, reason=str(error), throttle_s=60)
            rate = self.blocks.read_rate()
            if rate is not None and rate != self._rate:
                self._rate = rate
                self._starts_slowly = False
                self._receiver.update_rate(rate)
