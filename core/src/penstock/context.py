"""``StreamingContext``: the life cycle of a program, and the door to everything else.

Owns the state (initialized, active, stopped), the listeners' bus, and the requests to stop; the engine does the rest.
Methods may be called from any thread; ``stop`` does its work on a thread of its own.
"""

from __future__ import annotations

import atexit
import secrets
import signal
import threading
import time
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, ClassVar

from pyspark import SparkContext

from penstock.checkpoint.checkpointer import CheckpointReport
from penstock.checkpoint.directory import CheckpointDirectory
from penstock.checkpoint.program import Program
from penstock.checkpoint.restore.recovery import NotRecoverableError, Recovery, find_newest
from penstock.conf import Settings
from penstock.conf_warnings import keys_without_effect
from penstock.engine import Engine
from penstock.engine_access import EngineAccess
from penstock.errors import BatchFailedError, CheckpointError, ConfigurationError, StreamingStateError
from penstock.graph.dstream_graph import DStreamGraph
from penstock.inputs import StreamBuilder
from penstock.launch.launch_conf import UDS
from penstock.listen.events import ReceiverInfo, StreamingStarted
from penstock.listen.listener_bus import ListenerBus
from penstock.plugins.discovery import Plugins
from penstock.runtime.clock import Clock, SystemClock, require_duration_ms
from penstock.runtime.log import get_logger, set_level
from penstock.runtime.stop_signals import StopSignals
from penstock.runtime.threads import EngineThread, on_engine_thread
from penstock.schedule.generator_report import GeneratorReport
from penstock.spark import cluster, saved_conf
from penstock.spark.checkpoint import checkpoint_folder, set_checkpoint_directory
from penstock.storage.uri import location_of_hadoop

if TYPE_CHECKING:
    from penstock.checkpoint.manifest import Checkpoint
    from penstock.listen.streaming_listener import StreamingListener

log = get_logger("context")


class StreamingContextState(Enum):
    """Where a context is; there is no way back."""

    INITIALIZED = "initialized"
    ACTIVE = "active"
    STOPPED = "stopped"


class StreamingContext(StreamBuilder):
    """The entry point of a streaming program; a drop-in for ``pyspark.streaming.StreamingContext``.

    Args:
        sparkContext: runs every job.
        batchDuration: seconds between two batches; fractions down to a millisecond.
        jssc: accepted for PySpark's signature, must be ``None``: there is no JVM streaming context behind this one.
        clock: the batches' time; the machine's by default, a ``penstock.testing.ManualClock`` in tests.

    Raises:
        AssertionError: no batch duration is given.
        ConfigurationError: it is not a positive number of milliseconds, or a configuration value cannot be read.
    """

    _active: ClassVar[StreamingContext | None] = None
    _active_lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(
        self,
        sparkContext: SparkContext,
        batchDuration: float | None = None,
        jssc: None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        if jssc is not None:
            raise ConfigurationError("jssc cannot be used: Penstock's context has no JVM counterpart")
        assert batchDuration is not None, "batchDuration must be given: the seconds between two batches"
        if not isinstance(sparkContext, SparkContext):
            raise ConfigurationError(f"sparkContext must be a SparkContext, not {type(sparkContext).__name__}")
        interval_ms = require_duration_ms("batchDuration", batchDuration)
        self._sc = sparkContext
        cluster.use_this_python(sparkContext)
        pairs = dict(sparkContext.getConf().getAll())
        self.settings = Settings.parse(pairs)
        set_level(self.settings.log_level)
        if pairs.get(UDS) != "true":
            log.warning(
                "Unix domain sockets off: each Python stage takes about 40 ms longer",
                key=UDS,
                advice=f"set {UDS}=true before the SparkContext is created, or start with `penstock run`",
            )
        self.plugins = Plugins(self.settings.plugins_disable, strict=self.settings.plugins_strict)
        for unused in keys_without_effect(self.settings, self.plugins.option_prefixes()):
            log.warning("configuration key has no effect", key=unused.key, reason=unused.reason, advice=unused.advice)
        self.graph = DStreamGraph(sparkContext, interval_ms, self.settings.time_zone, self._check_can_build)
        self._bus = ListenerBus(self.settings.listener_queue_size, self.settings.listener_max_failures)
        self._clock: Clock = clock or SystemClock()
        self._program = Program(self, sparkContext, self.settings, self._clock, self.graph)
        self._state = StreamingContextState.INITIALIZED
        self._lock = threading.RLock()
        self._signals = StopSignals(self._on_signal)
        self._stop_thread: threading.Thread | None = None
        self._stops_gracefully = self._stops_spark = False
        self._ended = threading.Condition()
        # What awaitTermination raises; and what it will, when the context has stopped.
        self._error: BaseException | None = None
        self._last_error: BaseException | None = None
        self._engine: Engine | None = None
        self._recovery: Recovery | None = None
        self._is_spark_gone = False
        # Its streams came from a checkpoint.
        self._is_loaded = False
        if self.settings.checkpoint_directory:
            self.checkpoint(self.settings.checkpoint_directory)

    # -- building --

    @property
    def sparkContext(self) -> SparkContext:
        """The SparkContext that runs the jobs."""
        return self._sc

    def remember(self, duration: float) -> None:
        """Keep each batch's RDDs and blocks for at least ``duration`` seconds.

        Raises:
            ConfigurationError: it was set before, or is no positive number of seconds.
        """
        self._check_can_build("remember")
        self.graph.remember(require_duration_ms("duration", duration))

    def checkpoint(self, directory: str | None) -> None:
        """Keep state and what windows carry on in a directory (a path or URI that Spark can write to).

        Args:
            directory: is made if it does not exist; ``None`` for none.

        Raises:
            ConfigurationError: it cannot be made or written to.
        """
        self._check_can_build("checkpoint")
        self.graph.set_checkpoint_directory(None)
        self._recovery = None
        if directory is not None:
            folder = set_checkpoint_directory(self._sc, directory)
            self.graph.set_checkpoint_directory(directory, f"{location_of_hadoop(folder.uri)}/{folder.name}/state")
            self._recovery = Recovery(self._program, CheckpointDirectory(self._sc, self.settings, directory, folder))

    def addStreamingListener(self, streamingListener: StreamingListener | object) -> None:
        """Tell a listener of everything from now on: a ``StreamingListener``, or any object with ``on…`` methods."""
        self._bus.add(streamingListener)

    def removeStreamingListener(self, streamingListener: StreamingListener | object) -> None:
        """Tell a listener nothing more."""
        self._bus.remove(streamingListener)

    def _check_can_build(self, what: str) -> None:
        """Refuse to add to the graph once it runs.

        Raises:
            StreamingStateError: the context was started or stopped, or has its streams from a checkpoint.
        """
        if self._is_loaded:
            raise StreamingStateError(
                f"{what}: this context goes on from a checkpoint and has the streams that were saved; make further "
                "ones in the function that is given to getOrCreate, with spark.penstock.checkpoint.rebuild=true"
            )
        if self._state is not StreamingContextState.INITIALIZED:
            since = "starting" if self._state is StreamingContextState.ACTIVE else "stopping"
            raise StreamingStateError(
                f"{what}: Adding new inputs, transformations, and output operations after {since} a context "
                "is not supported"
            )

    # -- running --

    @classmethod
    def getActive(cls) -> StreamingContext | None:
        """The context of this process that was started and not stopped."""
        return cls._active

    @classmethod
    def getOrCreate(cls, checkpointPath: str, setupFunc: Callable[[], StreamingContext]) -> StreamingContext:
        """Go on from the newest sound checkpoint in ``checkpointPath``; without any, make a context with ``setupFunc``.

        A context that goes on has the streams that were saved, and ``setupFunc`` is not called; unless they cannot be
        loaded, or ``spark.penstock.checkpoint.rebuild`` is set: then ``setupFunc`` makes the streams, and the state is
        given to them by their names (``setName``).

        Raises:
            TypeError: ``setupFunc`` cannot be called, or returns no StreamingContext.
            CheckpointError: there are checkpoints, and none can be read.
        """
        if not callable(setupFunc):
            raise TypeError("setupFunc should be callable.")
        found = find_newest(checkpointPath)
        if found is not None and not Settings.parse(saved_conf.current_conf()).checkpoint_rebuild:
            try:
                return cls._of_checkpoint(checkpointPath, found)
            except NotRecoverableError:
                raise
            except CheckpointError as error:
                log.warning(
                    "checkpointed program not loadable, rebuilding with setupFunc",
                    checkpoint=found.number,
                    reason=str(error),
                )
        made = cls._made_by(setupFunc)
        if made.graph.checkpoint_directory != checkpointPath:
            made.checkpoint(checkpointPath)
        assert made._recovery is not None
        # Again: Spark may have the directory elsewhere than it could be looked for without a SparkContext.
        made._recovery.find()
        return made

    @classmethod
    def _of_checkpoint(cls, path: str, found: Checkpoint) -> StreamingContext:
        is_new = SparkContext._active_spark_context is None
        if is_new:
            saved_conf.check_name(found.application, found.launched_as)
        sc = saved_conf.spark_context(found.conf)
        try:
            made = cls(sc, found.batch_interval_ms / 1000)
            made.checkpoint(path)
            assert made._recovery is not None
            made._recovery.load_program(found)
        except BaseException:
            if is_new:
                sc.stop()
            raise
        made._is_loaded = True
        return made

    @classmethod
    def getActiveOrCreate(
        cls, checkpointPath: str | None, setupFunc: Callable[[], StreamingContext]
    ) -> StreamingContext:
        """The active context; else as ``getOrCreate``, or what ``setupFunc`` makes when there is no path.

        Raises:
            TypeError: ``setupFunc`` cannot be called, or returns no StreamingContext.
        """
        if not callable(setupFunc):
            raise TypeError("setupFunc should be callable.")
        active = cls.getActive()
        if active is not None:
            return active
        return cls._made_by(setupFunc) if checkpointPath is None else cls.getOrCreate(checkpointPath, setupFunc)

    @staticmethod
    def _made_by(setup: Callable[[], StreamingContext]) -> StreamingContext:
        if not callable(setup):
            raise TypeError("setupFunc should be callable.")
        made = setup()
        if not isinstance(made, StreamingContext):
            raise TypeError(f"setupFunc must return the StreamingContext that it made, not {type(made).__name__}")
        return made

    def getState(self) -> StreamingContextState:
        """Where the context is."""
        return self._state

    def start(self) -> None:
        """Start to receive and to process. Harmless when active.

        Raises:
            StreamingStateError: the context was stopped, or another one of this process is active.
            ConfigurationError: something about the program cannot work: no outputs, too few cores, an unknown
                estimator, a receiver that cannot be pickled. The context is stopped then.
        """
        with self._lock:
            if self._state is StreamingContextState.ACTIVE:
                log.warning("start: the context is active already")
                return
            if self._state is StreamingContextState.STOPPED:
                raise StreamingStateError("the context was stopped; make a new one")
            with StreamingContext._active_lock:
                if StreamingContext._active is not None:
                    raise StreamingStateError(
                        "only one StreamingContext can be active in a process; stop the other first"
                    )
                StreamingContext._active = self
            try:
                self._start_engine()
            except BaseException:
                if self._engine is not None:
                    self._engine.stop(None)
                self._ended_now()
                raise
            self._state = StreamingContextState.ACTIVE
            if self.settings.stop_gracefully_on_shutdown:
                self._signals.install()
            else:
                self._signals.override_pysparks_interrupt()
            self._bus.post(StreamingStarted(self._clock.now_ms()))
            atexit.register(self._on_exit)

    def awaitTermination(self, timeout: float | None = None) -> bool:
        """Wait until the context stops, ``timeout`` seconds at most. As ``awaitTerminationOrTimeout``."""
        return self.awaitTerminationOrTimeout(timeout)

    def awaitTerminationOrTimeout(self, timeout: float | None) -> bool:
        """Wait until the context stops; say whether it did within ``timeout`` seconds.

        Raises:
            BatchFailedError: a batch failed; the first failure's cause and traceback. The context goes on. With
                ``spark.penstock.maxFailedBatches`` only when it has stopped, for that many failures in a row.
            ReceiverFailedError: a receiver failed too often, and ``spark.penstock.receiver.onFailure`` is
                ``fail-application``.
        """
        with self._ended:
            self._ended.wait_for(
                lambda: self._state is StreamingContextState.STOPPED or self._error is not None, timeout
            )
            if self._state is StreamingContextState.STOPPED:
                self._signals.restore()
            if self._error is not None:
                raise self._error
            return self._state is StreamingContextState.STOPPED

    def stop(
        self, stopSparkContext: bool = True, stopGraceFully: bool = False, stopGracefully: bool | None = None
    ) -> None:
        """Stop. Harmless when repeated.

        From a listener, an output operation or another thread of the engine it returns at once, and the stop happens;
        from elsewhere it returns when all is stopped.

        Args:
            stopSparkContext: stop the SparkContext too.
            stopGraceFully: first process all that was received (``spark.streaming.gracefulStopTimeout`` bounds it).
            stopGracefully: the same in correct spelling.
        """
        graceful = stopGraceFully if stopGracefully is None else stopGracefully
        stopping = self._request_stop(graceful=graceful, stop_spark=stopSparkContext)
        if not on_engine_thread():
            # A program's own function at exit may come behind ours, on the same thread.
            if stopping is not threading.current_thread():
                stopping.join()
            self._signals.restore()
        self._stop_spark()

    def _request_stop(self, *, graceful: bool, stop_spark: bool) -> threading.Thread:
        """Have the engine stopped, on the thread that is returned; at once when it is being stopped gracefully."""
        with self._lock:
            self._stops_spark = self._stops_spark or stop_spark
            if self._stop_thread is None:
                self._stops_gracefully = graceful
                stopping = EngineThread("streaming-stop", lambda: self._stop(graceful))
                stopping.start()
                self._stop_thread = stopping
            escalates = self._stops_gracefully and not graceful
            self._stops_gracefully = self._stops_gracefully and graceful
        if escalates:
            log.warning("stopping at once: what is not processed is left")
            if self._engine is not None:
                self._engine.stop_at_once()
        return self._stop_thread

    # -- for plugins --

    def set_rate(self, stream_id: int, rate: float) -> None:
        """Set the rate of a stream's receiver, records/s; it is kept when the receiver is relaunched."""
        if self._engine is not None:
            self._engine.tracker.send_rate_update(stream_id, rate)

    def rate_limit(self, stream_id: int) -> float | None:
        """The rate that a stream's receiver keeps to, records/s; ``None`` for no limit."""
        return None if self._engine is None else self._engine.tracker.rate_limit(stream_id)

    def receiver_infos(self) -> dict[int, ReceiverInfo]:
        """What is known of every receiver, by stream id."""
        return {} if self._engine is None else self._engine.tracker.receiver_infos()

    def unread_bytes(self) -> int:
        """How much data receivers have stored that no batch has processed yet."""
        return 0 if self._engine is None else self._engine.tracker.unread_bytes()

    def listener_report(self) -> dict[str, dict[str, int | bool]]:
        """By listener: events dropped, events that it failed on, whether it is disabled."""
        return self._bus.report()

    @property
    def clock(self) -> Clock:
        """The batches' time."""
        return self._clock

    def checkpoint_report(self) -> CheckpointReport:
        """How the writing of checkpoints goes."""
        return CheckpointReport() if self._engine is None else self._engine.checkpoint_report()

    def generator_report(self) -> GeneratorReport:
        """How the making of batches went so far: what each phase took, ticks missed, batches dropped and failed."""
        generator = None if self._engine is None else self._engine.generator
        return GeneratorReport() if generator is None else generator.report()

    # -- inside --

    def _start_engine(self) -> None:
        if self.graph.checkpoint_directory is None:
            # As in Spark: sc.setCheckpointDir is enough for RDD checkpoints; then there is nothing to recover from.
            folder = checkpoint_folder(self._sc)
            if folder is not None:
                # Another context may have used the same folder before.
                state_home = f"{location_of_hadoop(folder.uri)}/{folder.name}/state-{secrets.token_hex(4)}"
                self.graph.set_checkpoint_directory(folder.uri, state_home)
        self.graph.validate()
        if self.settings.backpressure_enabled:
            self.plugins.spec("rate_estimators", self.settings.rate_estimator)
        self._engine = Engine(
            self._program,
            self._bus,
            self._recovery,
            self._on_error,
            self._on_give_up,
        )
        access = EngineAccess(self._sc, self.settings, self.plugins, self.graph, self._engine, self._recovery)
        for listener, origin in self.plugins.listeners(access):
            self._bus.add(listener, origin)
        self._engine.start(access.saved_values)

    def _on_signal(self, number: int) -> None:
        """The first asks for a graceful stop, the second for one at once; awaitTermination returns then."""
        first = self._stop_thread is None
        log.info("signal received", signal=signal.Signals(number).name, graceful=first)
        self._request_stop(graceful=first, stop_spark=False)

    def _on_error(self, error: BaseException) -> None:
        if cluster.is_stopped(self._sc):
            self._on_spark_gone()
            return
        # Below the limit of failures in a row it is in the events and in the log.
        tolerated = isinstance(error, BatchFailedError) and self.settings.max_failed_batches > 0
        with self._ended:
            if not tolerated:
                self._error = self._error or error
            self._ended.notify_all()

    def _on_spark_gone(self) -> None:
        assert self._engine is not None
        # What fails from now on, of a graceful stop too, fails for that: a run that goes on makes it again.
        self._engine.abandon()
        if self._is_spark_gone:
            return
        self._is_spark_gone = True
        error = StreamingStateError("the SparkContext was stopped under the StreamingContext; stop that one first")
        log.error(str(error))
        with self._ended:
            # The reason for whatever failed before, too.
            self._error = error
            self._ended.notify_all()
        if self._stop_thread is None:
            self.stop(stopSparkContext=False)

    def _on_give_up(self, error: BaseException) -> None:
        log.error(str(error))
        # Raised by awaitTermination once all has stopped.
        self._last_error = error
        self.stop(stopSparkContext=False)

    def _stop(self, graceful: bool) -> None:
        with self._lock:
            was_active = self._state is StreamingContextState.ACTIVE
        deadline = time.monotonic() + self._graceful_stop_s() if graceful and was_active else None
        if was_active:
            assert self._engine is not None
            self._engine.stop(deadline)
            atexit.unregister(self._on_exit)
        self._ended_now()
        self._stop_spark()

    def _stop_spark(self) -> None:
        """When all has stopped, and if somebody wants it: who comes last of those that stop and those that ask."""
        with self._lock:
            if not (self._stops_spark and self._state is StreamingContextState.STOPPED):
                return
            self._stops_spark = False
        self._sc.stop()

    def _ended_now(self) -> None:
        with self._ended:
            self._state = StreamingContextState.STOPPED
            self._error = self._error or self._last_error
            if StreamingContext._active is self:
                StreamingContext._active = None
            self._ended.notify_all()
        self._signals.close()

    def _graceful_stop_s(self) -> float:
        return (self.settings.graceful_stop_timeout_ms or max(10 * self.graph.batch_interval_ms, 10_000)) / 1000

    def _on_exit(self) -> None:
        graceful = self.settings.stop_gracefully_on_shutdown
        with self._lock:
            stopping = self._stop_thread
            if stopping is None:
                self._stop_thread, self._stops_gracefully = threading.current_thread(), graceful
        if stopping is not None:
            stopping.join()
            return
        # On this very thread: an interpreter that ends may start no other.
        self._stop(graceful)
