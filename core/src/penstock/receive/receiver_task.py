"""The Spark task that a receiver is.

Owns the set-up and the taking down of one launch inside a Python worker: plugins, block directory, connection to the
driver, endpoint, supervisor. Never starts on a retry by Spark: where a receiver runs is the tracker's decision. Runs on
the worker's main thread until the receiver has stopped and, if the driver wants so, its blocks are read.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from attrs import field, frozen

from penstock.blocks import leftovers
from penstock.blocks.block import Block, StoredBlock
from penstock.blocks.block_transfer import open_block
from penstock.blocks.received_block_handler import LocalBlockHandler, ReceivedBlockHandler, WriteAheadLogBlockHandler
from penstock.conf import Settings
from penstock.hookspecs import hookimpl
from penstock.plugins.discovery import Plugins
from penstock.receive.messages import CleanUpBlocks, PauseReceiver, ReleaseReceiver, StopReceiver, UpdateRateLimit
from penstock.receive.receiver import Receiver
from penstock.receive.supervisor import ReceiverSupervisor
from penstock.runtime.log import set_level
from penstock.storage.uri import is_remote
from penstock.wire.client import Client, address_towards
from penstock.wire.endpoint import Endpoint, Handler
from penstock.wire.messages import Reply
from penstock.wire.token import Token

# As the worker of a standalone cluster, and YARN, name an application's directory on a host.
_OF_THE_APPLICATION = ("executor-", "application_")


@frozen
class ReceiverTask:
    """One launch of a receiver: what travels to the executor.

    Attributes:
        receiver: to run.
        stream_id: of its input stream.
        epoch: the number of the launch.
        run_id: names the directory of its blocks; another one for every context.
        driver_location: ``grpc://host:port`` of the tracker.
        token: shown by both sides.
        settings: in force.
        driver_process: the driver's, when it is on this machine.
        log_directory: of the stream's blocks, a path or a URI; empty when they are to be on this executor.
    """

    receiver: Receiver[Any]
    stream_id: int
    epoch: int
    run_id: str
    driver_location: str
    token: Token
    settings: Settings = field(repr=False)
    driver_process: leftovers.Process | None = None
    log_directory: str = ""

    def __call__(self, _index: int, _elements: Iterable[Any]) -> Iterator[Any]:
        """Run the receiver until it has stopped; serve its blocks for as long as the driver asked for then.

        Raises:
            BaseException: what stopped it, if that was an error.
        """
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None and context.attemptNumber() > 0:
            return iter(())
        set_level(self.settings.log_level)
        leftovers.sweep()
        home, blocks = self._blocks()
        plugins = Plugins(self.settings.plugins_disable)
        plugins.manager.register(_OwnAnswer(blocks), name="penstock-blocks")
        driver = Client(self.driver_location, self.token, self.settings.wire_timeout_ms)
        supervisor: ReceiverSupervisor
        # Until when, in monotonic seconds, blocks are served behind the receiver's end; or until it is released.
        serves_until, released = 0.0, threading.Event()

        def on_stop(message: StopReceiver) -> Reply:
            nonlocal serves_until
            serves_until = max(serves_until, time.monotonic() + message.serve_ms / 1000)
            supervisor.stop_soon(message.message)
            return Reply()

        def on_release(_message: ReleaseReceiver) -> Reply:
            released.set()
            return Reply()

        def on_rate(message: UpdateRateLimit) -> Reply:
            supervisor.update_rate(math.inf if message.rate is None else message.rate, message.number)
            if message.paused is not None:
                supervisor.pause(message.paused, message.number)
            return Reply()

        def on_pause(message: PauseReceiver) -> Reply:
            supervisor.pause(message.paused, message.number)
            return Reply()

        def on_clean_up(message: CleanUpBlocks) -> Reply:
            blocks.delete(message.block_ids)
            return Reply()

        handlers: dict[type, Handler] = {
            StopReceiver: on_stop,
            ReleaseReceiver: on_release,
            UpdateRateLimit: on_rate,
            PauseReceiver: on_pause,
            CleanUpBlocks: on_clean_up,
        }
        host = address_towards(self.driver_location)
        # Serves all blocks of the run on this host, whichever receiver stored them. Logged blocks need no server.
        endpoint = Endpoint(
            host,
            self.token,
            handlers,
            partial(open_block, blocks.open) if isinstance(blocks, LocalBlockHandler) else None,
        )
        supervisor = ReceiverSupervisor(
            self.receiver,
            self.stream_id,
            self.epoch,
            self.settings,
            driver,
            store=lambda block: plugins.manager.hook.store(block=block),
            discard=blocks.delete,
            host=host,
            port=endpoint.port,
            directory="" if self.log_directory else str(home),
            disk_bytes=0 if home is None else _disk_bytes(home),
        )
        # Ctrl-C reaches the whole process group of a local program: the driver decides what it means.
        on_interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            supervisor.start_soon()
            try:
                supervisor.await_termination()
            finally:
                # A driver that does not know of the end waits for the task's.
                if supervisor.end_is_told:
                    # It may be asked to serve for longer while it waits.
                    while (left_s := serves_until - time.monotonic()) > 0 and not released.wait(left_s):
                        pass
        finally:
            signal.signal(signal.SIGINT, on_interrupt)
            endpoint.stop()
            driver.close()
        return iter(())

    def _blocks(self) -> tuple[Path | None, ReceivedBlockHandler]:
        """Where blocks go, and the directory on this host that takes them, if it is on this host."""
        if self.log_directory:
            handler = WriteAheadLogBlockHandler(self.log_directory, self.settings.durability)
            return None if is_remote(self.log_directory) else Path(self.log_directory), handler
        home = local_directory(self.run_id)
        leftovers.claim(home, self.driver_process)
        return home, LocalBlockHandler(home)


def local_directory(run_id: str) -> Path:
    """Where executors of this host keep a run's blocks; Spark removes it with the application's other local files."""
    root = Path(os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir())
    # An executor deletes its own directory when it ends in order, though what is stored there may be unread. The one
    # above, where a cluster makes it, is the application's: all its executors on this host share it, until all ends.
    if root.name.startswith("blockmgr-") and root.parent.name.startswith(_OF_THE_APPLICATION):
        root = root.parent
    return root / leftovers.PARENT / run_id


def _disk_bytes(directory: Path) -> int:
    while not directory.exists() and directory != directory.parent:
        directory = directory.parent
    try:
        return shutil.disk_usage(directory).total
    except OSError:
        return 0


class _OwnAnswer:
    """The core's own answer to the ``store`` hook."""

    def __init__(self, blocks: ReceivedBlockHandler) -> None:
        self._blocks = blocks

    @hookimpl(trylast=True)
    def store(self, block: Block) -> StoredBlock:
        return self._blocks.store(block)
