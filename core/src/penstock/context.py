"""``StreamingContext``: the entry point and the life cycle of a streaming program.

The context owns its state, the listener bus and the stop requests; the engine runs the program. Any thread may call the
methods; ``stop`` works on a thread of its own.
"""

from __future__ import annotations

import atexit
import signal
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Self

from pyspark import SparkContext

from penstock.checkpoint.checkpoint_directory import CheckpointDirectory, use_directory_of_spark
from penstock.checkpoint.program import Program
from penstock.checkpoint.restore.recovery import NotRecoverableError, Recovery, find_newest
from penstock.conf import Settings, key
from penstock.conf_warnings import keys_without_effect
from penstock.context_state import OnBatchError, StreamingContextState, Termination
from penstock.engine import Engine
from penstock.engine_listener_context import EngineListenerContext
from penstock.errors import BatchFailedError, CheckpointError, ConfigurationError, StreamingStateError
from penstock.graph.arguments import require_callable
from penstock.graph.dstream_graph import DStreamGraph
from penstock.inputs import StreamBuilder
from penstock.listen.events import StreamingStarted
from penstock.listen.listener_bus import ListenerBus
from penstock.plugins.discovery import Plugins
from penstock.runtime.batch_clock import BatchClock, log_step
from penstock.runtime.clock import Clock, SystemClock, require_duration_ms
from penstock.runtime.log import components, configure, get_logger
from penstock.runtime.threads import EngineThread, on_engine_thread
from penstock.spark import cluster, saved_conf, spark_conf
from penstock.spark.stop_requests import StopRequests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.checkpoint.checkpoint_format import Checkpoint
    from penstock.hookspecs import StreamingListener

log = get_logger("context")


class StreamingContext(StreamBuilder):
    """The entry point of a streaming program; a drop-in for ``pyspark.streaming.StreamingContext``.

    As a context manager it stops at the end of the ``with`` block: gracefully, or at once if the block raises. The
    SparkContext keeps running then.

    Args:
        sparkContext: runs every job; a SparkSession stands for its SparkContext.
        batchDuration: batch interval in seconds; fractions down to a millisecond.
        jssc: must be ``None``; exists because PySpark's signature has it.
        clock: gives the batch times; the system clock by default, a manual clock in tests.

    Raises:
        AssertionError: the batch duration is missing.
        ConfigurationError: the batch duration or a configuration value is invalid.
    """

    _active: ClassVar[StreamingContext | None] = None
    _active_lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(
        self,
        sparkContext: SparkContext | SparkSession,
        batchDuration: float | None = None,
        jssc: None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        if jssc is not None:
            raise ConfigurationError("jssc must be None: Penstock has no JVM streaming context. Leave the argument out")
        assert batchDuration is not None, "batchDuration must be given: the batch interval in seconds"
        self._sc = sparkContext = cluster.spark_context_of(sparkContext)
        interval_ms = require_duration_ms("batchDuration", batchDuration)
        cluster.use_this_python(sparkContext)
        settings = Settings.parse(spark_conf.entries_of(sparkContext))
        app_id = settings.with_prefix("spark.app.").get("id", "")
        configure(settings.log_level, settings.log_format, settings.log_levels, app_id=app_id)
        cluster.check_unix_sockets(sparkContext)
        self._plugins = Plugins(
            settings.plugins_disable, strict=settings.plugins_strict, prefer=settings.plugins_prefer
        )
        known = self._plugins.known_options() | {f"{key('log_level')}.": components()}
        for unused in keys_without_effect(settings, known):
            advice = {"advice": unused.advice} if unused.advice else {}
            log.warning("configuration key without effect", key=unused.key, reason=unused.reason, **advice)
        self._settings = settings = settings.with_plugins_defaults(self._plugins.in_production)
        self._graph = DStreamGraph(sparkContext, interval_ms, self._settings.time_zone, self._check_can_build)
        self._bus = ListenerBus(self._settings.listener_queue_size)
        self._clock = BatchClock(clock or SystemClock(), log_step)
        self._program = Program(self, sparkContext, self._settings, self._clock, self._graph)
        self._state = StreamingContextState.INITIALIZED
        self._lock = threading.RLock()
        self._signals = StopRequests(self._on_signal)
        self._termination = Termination()
        self._stop_thread: threading.Thread | None = None
        self._stops_gracefully = False
        self._stops_spark = False
        self._has_stopped_spark = False
        self._is_spark_gone = False
        self._stops_on_signals = settings.stop_gracefully_on_shutdown  # gracefully
        self._raises_batch_errors = not self._settings.tolerates_failed_batches
        self._engine: Engine | None = None
        self._listener_context: EngineListenerContext | None = None
        self._is_loaded = False  # streams come from a checkpoint
        self._set_checkpoints(self._settings.checkpoint_directory or None, "spark.streaming.checkpoint.directory")

    def __repr__(self) -> str:
        address = (self.uiWebUrl or "no dashboard").partition("?")[0]  # without the token
        return f"<StreamingContext {self._state.name}, {self._graph.batch_interval_ms / 1000:g} s, {address}>"

    @property
    def sparkContext(self) -> SparkContext:
        """The SparkContext that runs the jobs."""
        return self._sc

    @property
    def uiWebUrl(self) -> str | None:
        """The address of a plugin's dashboard, with the token that opens it, if the plugin has made one for this run.

        ``None`` without a dashboard, before the start and after the stop.
        """
        return None if self._listener_context is None else self._listener_context.ui_url

    def remember(self, duration: float) -> None:
        """Remember each batch's RDDs and blocks for at least ``duration`` seconds; may be set once."""
        self._check_can_build("remember")
        self._graph.remember(require_duration_ms("duration", duration))

    def checkpoint(self, directory: str | None) -> None:
        """Write checkpoints to a directory, from which ``getOrCreate`` recovers the program.

        It is a path or URI that Spark can write to, created if it does not exist; ``None`` for no checkpoints.

        Raises:
            ConfigurationError: the directory is empty text, a file, or cannot be created or written.
        """
        self._check_can_build("checkpoint")
        self._set_checkpoints(directory, "directory of ssc.checkpoint")

    def _set_checkpoints(self, directory: str | None, setting: str) -> None:
        created = None
        if directory is not None:
            created = CheckpointDirectory.create(self._sc, self._settings, directory, setting)
        self._graph.checkpoint_directory = directory
        self._graph.state_home = created.state_home if created else ""
        self._recovery = Recovery(self._program, created) if created else None

    def addStreamingListener(self, streamingListener: StreamingListener | object) -> None:
        """Add a listener: a ``StreamingListener``, or any object with some of its ``on…`` methods."""
        self._bus.add(streamingListener)

    def removeStreamingListener(self, streamingListener: StreamingListener | object) -> None:
        """Remove a listener."""
        self._bus.remove(streamingListener)

    def _check_can_build(self, what: str) -> None:
        self._state.check_can_build(what, is_loaded=self._is_loaded)

    @classmethod
    def getActive(cls) -> StreamingContext | None:
        """The active context of this process; ``None`` if there is none."""
        return cls._active

    @classmethod
    def getOrCreate(cls, checkpointPath: str, setupFunc: Callable[[], StreamingContext]) -> StreamingContext:
        """Recover from the newest sound checkpoint in ``checkpointPath``, or create a context with ``setupFunc``.

        A recovered context has the saved streams, and ``setupFunc`` is not called. If the saved streams cannot be
        loaded, or ``spark.penstock.checkpoint.rebuild`` is set, ``setupFunc`` rebuilds the streams, and their state is
        restored by name (``setName``).

        Raises:
            TypeError: ``setupFunc`` is not callable, or returns no StreamingContext.
            CheckpointError: there are checkpoints and none can be read, or the saved program has a ``queueStream``.
            ConfigurationError: ``checkpointPath`` is empty text, a file, or cannot be created or written.
        """
        require_callable("setupFunc", setupFunc)
        checkpoint = find_newest(checkpointPath)
        if checkpoint is not None and not Settings.parse(saved_conf.current_conf()).checkpoint_rebuild:
            try:
                return cls._of_checkpoint(checkpointPath, checkpoint)
            except NotRecoverableError:
                raise
            except CheckpointError as error:
                log.warning(
                    "checkpointed program not loadable, rebuilding with setupFunc",
                    checkpoint=checkpoint.number,
                    reason=str(error),
                )
        context = _created_by(setupFunc)
        if context._graph.checkpoint_directory != checkpointPath:
            context.checkpoint(checkpointPath)
        assert context._recovery is not None
        context._recovery.find()  # again, because a path may belong to another file system without a SparkContext
        return context

    @classmethod
    def _of_checkpoint(cls, path: str, checkpoint: Checkpoint) -> StreamingContext:
        with saved_conf.recovered_spark(checkpoint.conf, checkpoint.application, checkpoint.launched_as) as sc:
            context = cls(sc, checkpoint.batch_interval_ms / 1000)
            context.checkpoint(path)
            assert context._recovery is not None
            context._recovery.load_program(checkpoint)
        context._is_loaded = True
        return context

    @classmethod
    def getActiveOrCreate(
        cls, checkpointPath: str | None, setupFunc: Callable[[], StreamingContext]
    ) -> StreamingContext:
        """The active context; else that of ``getOrCreate``, or without a path the one that ``setupFunc`` creates."""
        require_callable("setupFunc", setupFunc)
        active = cls.getActive()
        if active is not None:
            return active
        return _created_by(setupFunc) if checkpointPath is None else cls.getOrCreate(checkpointPath, setupFunc)

    def getState(self) -> StreamingContextState:
        """The context's state."""
        return self._state

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        self.stop(stopSparkContext=False, stopGracefully=kind is None)

    def start(self) -> None:
        """Start receivers and batches. Without effect if the context is active.

        Raises:
            StreamingStateError: the context was stopped, or another one of this process is active.
            ConfigurationError: the program cannot run: it has no outputs, too few cores, an unknown rate estimator, a
                receiver that cannot be pickled. The context is stopped then.
        """
        with self._lock, StreamingContext._active_lock:
            if StreamingContext._active is self:
                log.warning("start ignored: context already active")
                return
            if self._state is StreamingContextState.STOPPED or self._stop_thread is not None:
                raise StreamingStateError("the context was stopped; create a new one")
            if StreamingContext._active is not None:
                raise StreamingStateError("a StreamingContext is active: stop StreamingContext.getActive() first")
            StreamingContext._active = self
        try:
            self._start_engine()
            if self._stops_on_signals:
                self._signals.install()
                self._signals.install_hooks(self._sc, self._settings.graceful_stop_s(self._graph.batch_interval_ms))
            else:
                self._signals.override_pysparks_interrupt()
            atexit.register(self._on_exit)
            with self._lock:
                self._state = StreamingContextState.ACTIVE
                self._bus.post(StreamingStarted(self._clock.now_ms()))
        except BaseException:
            if self._engine is not None:
                self._engine.stop(None)
            self._ended_now()
            raise
        finally:
            with self._lock:
                if self._stop_thread is not None and not self._stop_thread.ident:
                    self._stop_thread.start()

    def run(self, timeout: float | None = None, *, on_batch_error: OnBatchError | None = None) -> None:
        """Start, wait, and stop: gracefully, or at once after an error. The SparkContext goes on.

        SIGTERM and Ctrl-C stop gracefully, as with ``spark.streaming.stopGracefullyOnShutdown``.

        Args:
            timeout: seconds to wait.
            on_batch_error: called with the error of a failed batch instead of raising it. The batches go on.

        Raises: what ``start`` and ``awaitTermination`` raise.
        """
        self._stops_on_signals = True
        self._raises_batch_errors |= on_batch_error is not None
        with self:
            self.start()
            end_s = None if timeout is None else time.monotonic() + timeout
            while True:
                try:
                    self.awaitTermination(None if end_s is None else end_s - time.monotonic())
                    return
                except BatchFailedError as error:
                    if on_batch_error is None or error is self._termination.final_error:
                        raise
                    on_batch_error(error)

    def awaitTermination(self, timeout: float | None = None) -> bool:
        """Wait until the context stops, at most ``timeout`` seconds; as ``awaitTerminationOrTimeout``."""
        return self.awaitTerminationOrTimeout(timeout)

    def awaitTerminationOrTimeout(self, timeout: float | None) -> bool:
        """Wait until the context stops; return whether it did within ``timeout`` seconds.

        Raises:
            BatchFailedError: a batch failed; raised once in each thread, while the context keeps running. With
                ``spark.penstock.maxFailedBatches`` every call raises it, after that many consecutive failures.
            ReceiverFailedError: a receiver used up its failure budget, and ``spark.penstock.receiver.onFailure`` is
                ``fail-application``.
        """
        try:
            return self._termination.wait(timeout)
        finally:
            if self._termination.has_ended:
                self._signals.restore()

    def stop(
        self, stopSparkContext: bool = True, stopGraceFully: bool = False, stopGracefully: bool | None = None
    ) -> None:
        """Stop. It returns before the stop on a thread of the engine, and while another thread is in ``start``.

        Args:
            stopSparkContext: stop the SparkContext too.
            stopGraceFully: first process everything received (``spark.streaming.gracefulStopTimeout`` limits that).
            stopGracefully: the same, correctly spelled.
        """
        graceful = stopGraceFully if stopGracefully is None else stopGracefully
        stopping = self._request_stop(graceful=graceful, stop_spark=stopSparkContext)
        if not on_engine_thread():
            # It has no ident before the end of `start`, and is this thread in an atexit function after `_on_exit`.
            if stopping.ident and stopping is not threading.current_thread():
                stopping.join()
            self._signals.restore()
        self._stop_spark()

    def _request_stop(self, *, graceful: bool, stop_spark: bool) -> threading.Thread:
        """Stop the engine on the returned thread. A request to stop at once ends a graceful stop."""
        with self._lock:
            self._stops_spark = self._stops_spark or stop_spark
            if self._stop_thread is None:
                self._stops_gracefully = graceful
                self._stop_thread = EngineThread("streaming-stop", lambda: self._stop(self._stops_gracefully))
                # Otherwise `start` is in progress, and starts it at its end.
                if self._state is not StreamingContextState.INITIALIZED or StreamingContext._active is not self:
                    self._stop_thread.start()
            escalates = self._stops_gracefully and not graceful and self._state is StreamingContextState.ACTIVE
            self._stops_gracefully = self._stops_gracefully and graceful
        if escalates:
            log.warning("graceful stop ended: stopping at once")
            if self._engine is not None:
                self._engine.stop_at_once()
        return self._stop_thread

    def _start_engine(self) -> None:
        use_directory_of_spark(self._program)
        self._graph.validate()
        if self._settings.backpressure_enabled:
            self._plugins.spec("rate_estimators", self._settings.rate_estimator, key("rate_estimator"))
        self._engine = Engine(self._program, self._bus, self._recovery, self._on_error, self._on_give_up)
        self._listener_context = EngineListenerContext(self._program, self._plugins, self._engine, self._recovery)
        for listener in self._plugins.listeners(self._listener_context, self._settings.extra_listeners):
            self._bus.add(listener)
        self._engine.start(self._listener_context.saved_values)

    def _on_signal(self, number: int) -> None:
        """The first signal stops gracefully, the second at once; ``awaitTermination`` returns then."""
        first = self._stop_thread is None
        log.info("signal received", signal=signal.Signals(number).name, graceful=first)
        self._request_stop(graceful=first, stop_spark=False)

    def _on_error(self, error: BaseException) -> None:
        if cluster.is_stopped(self._sc):
            # After the engine has stopped, the context's own stop of Spark ends jobs.
            if self._state is not StreamingContextState.STOPPED:
                self._on_spark_gone()
        elif self._raises_batch_errors or not isinstance(error, BatchFailedError):
            self._termination.fail(error)

    def _on_spark_gone(self) -> None:
        assert self._engine is not None
        # Batches that fail from now on are not complete: a recovered run generates them again.
        self._engine.abandon()
        if self._is_spark_gone:
            return
        self._is_spark_gone = True
        error = StreamingStateError(
            "the SparkContext was stopped while the StreamingContext was active; stop the StreamingContext first"
        )
        log.error("SparkContext stopped before the StreamingContext")
        # This error explains those reported earlier.
        self._termination.fail(error, overrides=True)
        if self._stop_thread is None:
            self.stop(stopSparkContext=False)

    def _on_give_up(self, error: BaseException) -> None:
        log.error("program given up", reason=str(error))
        self._termination.fail_at_end(error)
        self.stop(stopSparkContext=False)

    def _stop(self, graceful: bool) -> None:
        with self._lock:
            was_active = self._state is StreamingContextState.ACTIVE
        if was_active and self._engine is not None:
            timeout_s = self._settings.graceful_stop_s(self._graph.batch_interval_ms)
            self._engine.stop(time.monotonic() + timeout_s if graceful else None)
            atexit.unregister(self._on_exit)
        self._ended_now()

    def _stop_spark(self) -> None:
        """Stop the SparkContext once, if that was requested and everything else has stopped."""
        with self._lock:
            if self._has_stopped_spark or not self._stops_spark or self._state is not StreamingContextState.STOPPED:
                return
            self._has_stopped_spark = True
        self._sc.stop()

    def _ended_now(self) -> None:
        if self._listener_context is not None:
            self._listener_context.stopped()
        self._state = StreamingContextState.STOPPED
        if StreamingContext._active is self:
            StreamingContext._active = None
        self._signals.close()
        try:
            self._stop_spark()
        finally:
            # Not earlier, because the end of the program would end this thread while Spark stops.
            self._termination.end()

    def _on_exit(self) -> None:
        with self._lock:
            stopping = self._stop_thread
            if stopping is None:
                self._stop_thread = threading.current_thread()
                self._stops_gracefully = self._stops_on_signals
        if stopping is not None:
            stopping.join()
            return
        # On this thread, because an interpreter at exit may start no thread.
        self._stop(self._stops_on_signals)


def _created_by(setup: Callable[[], StreamingContext]) -> StreamingContext:
    created = setup()
    if not isinstance(created, StreamingContext):
        raise TypeError(f"setupFunc must return the StreamingContext that it created, not {type(created).__name__}")
    return created
