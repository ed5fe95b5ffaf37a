"""``SourceRun``: one run of a query's source: its directory of blocks and the receiver that fills it.

Lives in the process that Spark keeps for the source, a child of the driver's JVM. Spark's calls come on that process's
main thread; the receiver stores on threads of its own; one more thread watches for a rate set by ``steer`` and deletes
consumed blocks: that takes 0.3 ms a megabyte, which a trigger would wait for. Standard error of the process, and with
it the log, goes to the driver's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa

from penstock import Block, ConfigurationError, PenstockError, RelaunchingReceiverHost, StoredBlock
from penstock.helpers import Endpoint, Token, get_logger, open_block
from penstock_structured.block_directory import BlockDirectory
from penstock_structured.options import Source
from penstock_structured.source_process import end_reason

log = get_logger("structured")

_PAUSE = "unprocessed blocks"
# The receiver resumes when its blocks are below this share of the bound.
_RESUME_SHARE = 0.8
_WATCH_S = 0.1
_QUIET_POLL_S = 0.05
# Beyond the time for onStop: to store what is buffered.
_STOP_S = 10.0
# onStop has this long, as nothing of the query may remain two seconds after its stop.
_CONF = {"spark.penstock.receiver.stopTimeout": "1s"}


class SourceRun:
    """Owns the directory of blocks, the receiver that fills it, and the endpoint that serves it to other hosts.

    Args:
        source: the options.

    Raises:
        ConfigurationError: the directory cannot be used, or the address is not this host's.
    """

    def __init__(self, source: Source) -> None:
        options = source.options
        #: The query's blocks.
        self.blocks = BlockDirectory(Path(options.blocks), options.receiver, durable=options.durable)
        self.blocks.forget_rate()
        self.delete = self.blocks.delete
        #: The token of the endpoint.
        self.token = Token.generate()
        self._endpoint: Endpoint | None = None
        #: ``grpc://host:port`` of the endpoint; empty for none.
        self.location = ""
        if options.address:
            try:
                self._endpoint = Endpoint(options.address, self.token, {}, partial(open_block, self.blocks.open))
            except (pa.ArrowException, PenstockError):
                self.blocks.close()
                raise ConfigurationError(
                    f"the source cannot serve blocks at address={options.address!r}: the option must be a name or "
                    "address of the driver's host"
                ) from None
            self.location = self.token.location(options.address, self._endpoint.port)
        self._receiver = RelaunchingReceiverHost(options.receiver, source.make_receiver, self, {**_CONF, **source.conf})
        # Whether the receiver may wait for room that only a deletion makes.
        self._lacks_room = False
        # The blocks below this number are consumed; the watching thread deletes them.
        self._consumed = 0
        self._bound_bytes, self._rate = options.maxBlocksBytes, options.initialRate
        if self._rate is not None:
            self._receiver.update_rate(self._rate)
        self._is_started, self._stopped, self._stopping = False, threading.Event(), threading.Lock()
        self._watch = threading.Thread(target=self._run_watch, name="penstock source", daemon=True)

    def start(self, offset: int) -> None:
        """Start the receiver unless it runs.

        Args:
            offset: the query's; blocks are numbered from there on at least.
        """
        if self._is_started:
            return
        self._is_started = True
        self.blocks.continue_at(offset)
        self._receiver.start()
        self._watch.start()

    def stop(self) -> None:
        """Stop the receiver, store what it has buffered, and release the directory. Idempotent, thread-safe."""
        self._stopped.set()
        with self._stopping:
            if self._is_started:
                self._receiver.stop(_STOP_S)
                self._watch.join(_STOP_S)
            if self._endpoint is not None:
                self._endpoint.stop()
            self.blocks.close()

    def check(self) -> None:
        """Raise the reason why the receiver was given up.

        Raises:
            PenstockError: it was given up.
        """
        if self._receiver.failure:
            raise PenstockError(self._receiver.failure)

    def await_quiet(self, quiet_s: float, timeout_s: float) -> None:
        """Wait until the receiver has stored nothing for a time or has ended, or the timeout has passed; then pause it.

        Args:
            quiet_s: that time.
            timeout_s: the longest wait.
        """
        quiet_since = time.monotonic()
        deadline = quiet_since + timeout_s
        while (now := time.monotonic()) < deadline and not self._receiver.is_terminated and not end_reason():
            # A receiver that has not started is not quiet.
            quiet_since = max(quiet_since, self.blocks.accepted_s) if self._receiver.info.active else now
            left_s = quiet_since + quiet_s - now
            if left_s <= 0:
                break
            time.sleep(min(left_s, deadline - now, _QUIET_POLL_S))
        self._receiver.pause("all that was available is stored")

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
            self._lacks_room = True
            raise

    def accept(self, blocks: Sequence[StoredBlock]) -> None:
        """Accept blocks; pause the receiver when there are too many."""
        self.blocks.accept(blocks)
        if self.blocks.num_bytes > self._bound_bytes:
            self._receiver.pause(_PAUSE)
            self._lacks_room = True

    def relieve(self, number: int) -> None:
        """Delete the blocks of batches that have ended, if the receiver waits for room.

        Spark lets a source delete a batch's blocks when it plans the next one. While the receiver waits for room there
        is no data for a next one.
        """
        if self._lacks_room:
            self._delete_before(number)

    def delete_before(self, number: int) -> None:
        """Delete blocks soon, or at once if the receiver waits for room."""
        self._consumed = number
        self.relieve(number)

    def _delete_before(self, number: int) -> None:
        """Delete blocks; let the receiver resume when there is room."""
        lacked_room, self._lacks_room = self._lacks_room, False
        self.blocks.delete_before(number)
        if self.blocks.num_bytes <= self._bound_bytes * _RESUME_SHARE:
            self._receiver.resume(_PAUSE)
        elif lacked_room or self.blocks.num_bytes > self._bound_bytes:
            # Still paused: the next deletion must not wait for a batch that without data never comes.
            self._lacks_room = True

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
                    log.warning("consumed blocks not deleted", directory=directory, error=str(error), throttle_s=60)
            rate = self.blocks.read_rate()
            if rate is not None and rate != self._rate:
                self._rate = rate
                self._receiver.update_rate(rate)
