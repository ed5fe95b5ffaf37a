"""``SourceRun``: one run of a query's source: its directory of blocks and the receiver that fills it.

Lives in the process that Spark keeps for the source, a child of the driver's JVM. Spark's calls come on that process's
main thread; the receiver stores on threads of its own; one more thread watches for a rate set by ``steer`` and deletes
consumed blocks: that takes 0.3 ms a megabyte, which a trigger would wait for. Standard error of the process, and with
it the log, goes to the driver's.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from penstock import Block, ConfigurationError, PenstockError, ReceiverHost, StoredBlock
from penstock.spi import BlockServer, Token, get_logger, text_of
from penstock_structured.block_directory import BlockDirectory
from penstock_structured.options import BACKPRESSURE, Source
from penstock_structured.source_process import end_reason

log = get_logger("structured")

_PAUSE = "unprocessed blocks"
# The receiver resumes when its blocks are below this share of the bound.
_RESUME_SHARE = 0.8
_WATCH_S = 0.1
_QUIET_POLL_S = 0.05
# The slow start: the first rate limit, records/s, and that above which there is none.
_FIRST_RATE, _LAST_RATE = 1_000.0, 1_000_000.0
# Beyond the timeout of onStop: to store what is buffered.
_STOP_S = 10.0
# onStop has this long, as nothing of the query may remain two seconds after its stop.
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
        #: What tasks on other hosts show the server, and its ``grpc://host:port``; empty without one.
        self.token, self.location = (
            (Token.generate(), "") if self._server is None else (self._server.token, self._server.location)
        )
        self._receiver = ReceiverHost(source.make_receiver, self, {**_CONF, **source.conf})
        # Whether the receiver may wait for space that only a deletion frees.
        self._waits_for_space = False
        # The batches below this number have ended; the blocks below the other one the watching thread deletes.
        self._ended = self._consumed = 0
        self._bound_bytes, self._rate = options.maxBlocksBytes, source.initial_rate
        # Whether the rate limit doubles with each batch, because ``steer`` is to set one and has not yet.
        self._starts_slowly = self._rate is None and source.is_steered
        if self._starts_slowly:
            self._rate = _FIRST_RATE
        if self._rate is not None:
            self._receiver.update_rate(self._rate)
        self._is_started, self._stopped, self._stopping = False, threading.Event(), threading.Lock()
        self._watch = threading.Thread(target=self._run_watch, name="penstock source", daemon=True)

    def start(self, offset: int) -> None:
        """Start the receiver unless it runs.

        Args:
            offset: the query's; blocks are numbered from there on at least.

        Raises:
            PenstockError: the directory does not have the query's blocks.
        """
        if self._is_started:
            return
        self.blocks.continue_at(offset)
        self._is_started, self._ended = True, offset
        self._receiver.start()
        self._watch.start()

    def stop(self) -> None:
        """Stop the receiver, store what it has buffered, and release the directory. Idempotent, thread-safe."""
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
        """Why the receiver was given up; empty while it is not."""
        return self._receiver.failure

    def await_quiet(self, quiet_s: float, timeout_s: float) -> str:
        """Wait until the receiver has stored all that is available, or has ended, or the timeout has passed; pause it.

        It has stored all when it has run for a time without storing and without an error.

        Args:
            quiet_s: that time.
            timeout_s: the longest wait.

        Returns:
            Why data that was available may not be received, if the receiver failed to the end or was given up; else
            empty.
        """
        began_s, failed_s, error_ms = time.monotonic(), -math.inf, self._receiver.info.lastErrorTime
        deadline, name, incomplete = began_s + timeout_s, self._options.receiver, ""
        while not end_reason():
            if self._receiver.is_terminated:
                return self.failure
            now, info = time.monotonic(), self._receiver.info
            if not info.active or info.lastErrorTime != error_ms:
                failed_s, error_ms = now, info.lastErrorTime
            left_s = max(began_s, failed_s, self.blocks.accepted_s) + quiet_s - now
            if left_s <= 0 or now >= deadline:
                if failed_s + quiet_s > now:
                    incomplete = (
                        f"the receiver {name!r} did not run for {quiet_s:g} s without an error within "
                        f"availableNowTimeout={timeout_s:g} s, so not all available data may be received: "
                        f"{info.lastErrorMessage or 'it has not started'}. What it has stored is processed"
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
        """Accept blocks; pause the receiver when there are too many."""
        self.blocks.accept(blocks)
        if self.blocks.num_bytes > self._bound_bytes:
            self._receiver.pause(_PAUSE)
            self._waits_for_space = True

    def end_batches(self, number: int) -> None:
        """Note that the batches of the blocks below a number have ended.

        Their blocks are deleted if the receiver waits for space: Spark lets a source delete a batch's blocks when it
        plans the next one, and there is no data for a next one meanwhile.
        """
        if self._waits_for_space:
            self._delete_before(number)
        if number > self._ended:
            self._ended = number
            if self._starts_slowly:
                self._raise_rate()

    def delete_before(self, number: int) -> None:
        """Delete blocks soon, or at once if the receiver waits for space."""
        self._consumed = number
        if self._waits_for_space:
            self._delete_before(number)

    def _delete_before(self, number: int) -> None:
        """Delete blocks; let the receiver resume when there is space."""
        self.blocks.delete_before(number)
        # A receiver that stays paused still waits: there may be no data for a batch whose planning deletes more.
        if self.blocks.num_bytes <= self._bound_bytes * _RESUME_SHARE:
            self._waits_for_space = False
            self._receiver.resume(_PAUSE)

    def _raise_rate(self) -> None:
        """Double the rate limit of the slow start; lift it at the end."""
        self._rate = (self._rate or _FIRST_RATE) * 2
        if self._rate > _LAST_RATE:
            self._rate, self._starts_slowly = None, False
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
                    # The next run of the query deletes them: their consumption is noted.
                    directory = str(self.blocks.path)
                    log.warning("consumed blocks not deleted", directory=directory, reason=str(error), throttle_s=60)
            rate = self.blocks.read_rate()
            if rate is not None and rate != self._rate:
                self._rate, self._starts_slowly = rate, False
                self._receiver.update_rate(rate)
