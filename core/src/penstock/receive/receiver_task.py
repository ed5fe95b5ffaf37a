"""``ReceiverTask``: the Spark task that runs a receiver, on the worker's main thread."""

from __future__ import annotations

import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from attrs import field, frozen

from penstock.blocks import block_directories
from penstock.blocks.block import Block, StoredBlock
from penstock.blocks.block_transfer import open_block
from penstock.blocks.received_block_handler import LocalBlockHandler, ReceivedBlockHandler, WriteAheadLogBlockHandler
from penstock.conf import Settings
from penstock.errors import summary_of
from penstock.plugins.discovery import Plugins, origin_of
from penstock.receive.messages import CleanUpBlocks, RegisterReceiver, ReleaseReceiver, StopReceiver, UpdateRateLimit
from penstock.receive.receiver import Receiver
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock.receive.recent_lines import recording, redaction_of
from penstock.runtime.log import configure, get_logger
from penstock.runtime.private_files import executor_directory
from penstock.runtime.redaction import Redaction
from penstock.runtime.threads import EngineThread
from penstock.storage.uri import is_remote
from penstock.wire.client import Client, address_towards
from penstock.wire.endpoint import Endpoint, Handler, Ports
from penstock.wire.token import Token

log = get_logger("receiver_task")

# Names of an application's directory on a host, by the worker of a standalone cluster and by YARN.
_APPLICATION_DIRECTORIES = ("executor-", "application_")

_PORT_ADVICE = (
    "Each receiver on a host needs a port of its own: set spark.penstock.receiver.port and spark.port.maxRetries to "
    "more ports, or the former to 0"
)
_DRIVER_ADVICE = (
    "The receiver's host {} must reach the driver at that address: set spark.driver.host to one that all executors "
    "reach, and let the port, which spark.penstock.driver.port fixes, through firewalls"
)
_TLS_ADVICE = (
    ". With TLS, the driver's and this host's certificate must be of one authority, and the driver's valid for that "
    "address"
)


@frozen
class Driver:
    """The addresses, tokens and names by which receivers reach the driver of a run."""

    # ``grpc://host:port`` of the tracker's endpoint.
    location: str
    # The token of the launch.
    token: Token
    # Names the directory of the run's blocks; differs between contexts.
    run_id: str
    # The driver's process if it is on this machine.
    process: block_directories.Process | None = None
    # The token of tasks that read blocks from the launch.
    readers: Token | None = None


@frozen
class ReceiverTask:
    """One launch of a receiver, pickled for the executor."""

    receiver: Receiver[Any]
    stream_id: int
    epoch: int
    driver: Driver
    settings: Settings = field(repr=False)
    # Path or URI of the stream's write-ahead log; empty to store blocks on this executor.
    log_directory: str = ""

    def __call__(self, _index: int, _elements: Iterable[Any]) -> Iterator[Any]:
        """Run the receiver until it has stopped, then serve its blocks until the driver releases it.

        A retry by Spark ends at once: the tracker decides where a receiver runs.
        """
        from pyspark import TaskContext

        context, settings = TaskContext.get(), self.settings
        if context is None or context.attemptNumber() == 0:
            configure(
                settings.log_level,
                settings.log_format,
                settings.log_levels,
                app_id=settings.with_prefix("spark.app.").get("id", ""),
                stream_id=self.stream_id,
                receiver_id=f"{type(self.receiver).__name__}-{self.stream_id}",
                epoch=self.epoch,
            )
            block_directories.sweep()
            with recording(self._redaction):
                _Launch(self).run()
        return iter(())

    def _redaction(self) -> Redaction:
        tokens = [token.secret for token in (self.driver.token, self.driver.readers) if token is not None]
        return redaction_of(self.receiver, self.settings.with_prefix(""), *tokens)


class _Launch:
    """Owns the supervisor of a launch, and the parts of its Spark task: plugins, blocks, endpoint."""

    def __init__(self, task: ReceiverTask) -> None:
        token = task.driver.token
        if token.tls is not None:
            token.tls.check()
        self._blocks, directory = _block_handler(task)
        plugins = Plugins(task.settings.plugins_disable)
        plugins.manager.register(self._blocks, name="penstock-blocks")
        configuration = task.settings.with_prefix("")
        handler = _HookedBlockHandler(plugins.manager.hook.store, self._blocks.delete, configuration)
        # Monotonic time in seconds until which blocks are served after the receiver's end; a release ends it earlier.
        self._serves_until = 0.0
        self._released = threading.Event()
        advice = _DRIVER_ADVICE.format(socket.gethostname())
        host = address_towards(task.driver.location, advice)
        # Serves all blocks of the run on this host, whichever receiver stored them. Logged blocks need no server.
        open_stream = partial(open_block, self._blocks.open) if isinstance(self._blocks, LocalBlockHandler) else None
        ports = Ports(task.settings.receiver_port, task.settings.port_max_retries, _PORT_ADVICE)
        handlers: dict[type, Handler] = {
            StopReceiver: self._on_stop,
            ReleaseReceiver: lambda _message: self._released.set(),
            UpdateRateLimit: lambda message: self._supervisor.take(message),
            CleanUpBlocks: self._on_clean_up,
        }
        self._endpoint = Endpoint(host, token, handlers, open_stream, ports, readers=task.driver.readers)
        advice += _TLS_ADVICE * (token.tls is not None)
        self._client = Client(task.driver.location, token, task.settings.wire_timeout_ms, advice=advice)
        registration = RegisterReceiver(
            task.stream_id,
            task.epoch,
            type(task.receiver).__name__,
            port=self._endpoint.port,
            host=host,
            directory="" if task.log_directory else str(directory),
            disk_bytes=0 if directory is None else _disk_bytes(directory),
            plugin=origin_of(type(task.receiver), plugins.loaded),
        )
        # No command arrives earlier, because the registration tells the driver the endpoint.
        self._supervisor = ReceiverSupervisor(task.receiver, registration, task.settings, self._client, handler)

    def run(self) -> None:
        """Run the receiver, then serve its blocks.

        Raises the error that stopped the receiver, so that the worker process ends with the task. Not an error of
        ``onStart`` that the driver knows, unless the receiver has left a thread running.
        """
        threads, supervisor = set(threading.enumerate()), self._supervisor
        # Ctrl-C reaches the whole process group of a local program; the driver decides how to react.
        on_interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            supervisor.start_soon()
            try:
                supervisor.await_termination()
            except Exception as error:
                # Spark would log two tracebacks for each launch of a receiver that cannot start.
                is_reported = supervisor.is_deregistered and error is supervisor.state.start_error
                if not is_reported or _has_left_threads(threads):
                    raise
                log.info("receiver not started", stream_id=supervisor.stream_id, reason=summary_of(error))
            finally:
                # A driver that was not notified of the end waits for the end of the task. A second StopReceiver may
                # extend the time meanwhile.
                if supervisor.is_deregistered:
                    while (left_s := self._serves_until - time.monotonic()) > 0 and not self._released.wait(left_s):
                        pass
        finally:
            signal.signal(signal.SIGINT, on_interrupt)
            self._endpoint.stop()
            self._client.close()

    def _on_stop(self, message: StopReceiver) -> None:
        self._serves_until = max(self._serves_until, time.monotonic() + message.serve_ms / 1000)
        self._supervisor.stop_soon(message.message)

    def _on_clean_up(self, message: CleanUpBlocks) -> None:
        self._blocks.delete(message.block_ids)


def _has_left_threads(before: Collection[threading.Thread]) -> bool:
    """Whether a thread that is not the engine's was started since and still runs."""
    return any(thread not in before and not isinstance(thread, EngineThread) for thread in threading.enumerate())


@frozen
class _HookedBlockHandler:
    """Stores blocks through the ``store`` hook."""

    hook: Callable[..., StoredBlock | None]
    delete: Callable[[Iterable[str]], object]
    configuration: Mapping[str, str]

    def store(self, block: Block) -> StoredBlock | None:
        return self.hook(block=block, configuration=self.configuration)


def _block_handler(task: ReceiverTask) -> tuple[ReceivedBlockHandler, Path | None]:
    """Return the block handler, and the directory of the blocks if it is on this host."""
    if task.log_directory:
        handler = WriteAheadLogBlockHandler(task.log_directory, task.settings.durability)
        return handler, None if is_remote(task.log_directory) else Path(task.log_directory)
    directory = local_directory(task.driver.run_id)
    block_directories.claim(directory, task.driver.process)
    return LocalBlockHandler(directory), directory


def local_directory(run_id: str) -> Path:
    """Return where executors of this host store a run's blocks; Spark removes it with the application's local files."""
    root = executor_directory()
    # An executor that ends in order deletes its own directory, in which there may be unprocessed blocks. The directory
    # above it, where a cluster makes one, is the application's: all its executors on this host share it until the end.
    if root.name.startswith("blockmgr-") and root.parent.name.startswith(_APPLICATION_DIRECTORIES):
        root = root.parent
    return root / block_directories.PARENT / run_id


def _disk_bytes(directory: Path) -> int:
    """The size of the disk, 0 if unknown."""
    while not directory.exists() and directory != directory.parent:
        directory = directory.parent
    try:
        return shutil.disk_usage(directory).total
    except OSError:
        return 0
