"""``EngineListenerContext``: the ``ListenerContext`` of a running engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from penstock.checkpoint.program import Program
from penstock.checkpoint.restore.recovery import Recovery
from penstock.engine import Engine
from penstock.errors import ConfigurationError
from penstock.graph.input_dstreams import InputDStream
from penstock.listen.events import ReceiverInfo
from penstock.listen.registered_listener import ListenerCounts
from penstock.plugins.discovery import Plugins
from penstock.plugins.listener_context import DStreamInfo, ListenerContext, ReceiverStreamInfo, StorageInfo
from penstock.plugins.specs import RateEstimator, structure_options
from penstock.rate.guarded_estimator import GuardedEstimator
from penstock.runtime.log import get_logger
from penstock.runtime.threads import contain_errors
from penstock.spark import cluster
from penstock.spark.spark_conf import entries_of

log = get_logger("listener_context")

T = TypeVar("T")


class EngineListenerContext(ListenerContext):
    """The handle that listener plugins get. Any thread may use it.

    Attributes:
        saved_values: functions that return the values to save in each checkpoint, by name.
        ui_url: the address that a listener has published; ``None`` for none.
    """

    def __init__(self, program: Program, plugins: Plugins, engine: Engine, recovery: Recovery | None) -> None:
        self._sc = program.sc
        self._settings = program.settings
        self._graph = program.graph
        self._clock = program.clock
        self._plugins = plugins
        self._engine = engine
        self._recovery = recovery
        self._application_id = str(program.sc.applicationId)
        self._configuration = MappingProxyType(entries_of(program.sc))
        self._estimators: dict[int, GuardedEstimator] = {}
        self._lock = threading.Lock()
        self._spark_ui_url = str(program.sc.uiWebUrl or "")
        self._stop_callbacks: list[Callable[[], object]] = []
        self.saved_values: dict[str, Callable[[], Any]] = {}
        self.ui_url: str | None = None

    @property
    def application_name(self) -> str:
        return str(self._sc.appName)

    @property
    def application_id(self) -> str:
        return self._application_id

    @property
    def spark_ui_url(self) -> str:
        return self._spark_ui_url

    @property
    def batch_interval_ms(self) -> int:
        return self._graph.batch_interval_ms

    @property
    def configuration(self) -> Mapping[str, str]:
        return self._configuration

    def options(self, prefix: str, options: type[T]) -> T:
        values = {
            key.removeprefix(prefix): value for key, value in self._configuration.items() if key.startswith(prefix)
        }
        keys = {name: f"{prefix}{name}" for name in values}
        return structure_options("configuration", options, values, keys, f"set {prefix}{{option}}")

    @property
    def receiver_streams(self) -> Sequence[ReceiverStreamInfo]:
        streams = []
        for stream in self._graph.inputs:
            if stream.receiver is not None:
                kind = type(stream.receiver).__name__
                streams.append(ReceiverStreamInfo(stream.id, stream.name or f"{kind}-{stream.id}", kind))
        return streams

    def graph(self) -> Sequence[DStreamInfo]:
        return [
            DStreamInfo(
                stream.number,
                type(stream).__name__,
                stream.name or "",
                stream.call_site.short,
                tuple(parent.number for parent in stream.parents),
                stream.id if isinstance(stream, InputDStream) else None,
                stream.role,
            )
            for stream in self._graph.streams()
        ]

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def receiver_infos(self) -> dict[int, ReceiverInfo]:
        return self._engine.tracker.receiver_infos()

    def backlog_bytes(self) -> int:
        return self._engine.tracker.backlog.num_bytes

    def storage(self) -> StorageInfo:
        blocks, checkpointer = self._engine.tracker.blocks.state, self._engine.checkpointer
        failed = self._engine.scheduler.failed_batches
        return StorageInfo(
            blocks.num_known,
            blocks.known_bytes,
            self._engine.tracker.buffered_bytes(),
            self._engine.tracker.blocks.log_bytes,
            None if checkpointer is None else checkpointer.written_ms,
            0 if checkpointer is None else checkpointer.failures,
            len(failed),
            min(failed, default=None),
        )

    def listener_counts(self) -> Sequence[ListenerCounts]:
        return self._engine.bus.counts()

    def executor_backlogs(self) -> Mapping[str, int]:
        return self._engine.tracker.backlog.by_executor

    def rate_limit(self, stream_id: int) -> float | None:
        return self._engine.tracker.rate_limit(stream_id)

    def set_rate(self, stream_id: int, rate: float) -> None:
        self._engine.tracker.send_rate_update(stream_id, rate)

    def rate_estimator(self, stream_id: int) -> RateEstimator | None:
        if not self._settings.backpressure_enabled:
            return None
        with self._lock:
            if stream_id not in self._estimators:
                self._estimators[stream_id] = self._make_estimator(stream_id)
            return self._estimators[stream_id]

    def save(self, name: str, value: Callable[[], Any]) -> Any:
        self.saved_values[name] = value
        return None if self._recovery is None else self._recovery.saved_value(name)

    def executors(self) -> Sequence[str]:
        return [location.executor_id for location in cluster.executors(self._sc)]

    def request_executors(self, count: int) -> bool:
        return cluster.request_executors(self._sc, count)

    def kill_executor(self, executor_id: str) -> bool:
        return cluster.kill_executor(self._sc, executor_id)

    def publish_ui(self, url: str, batch_page: str = "") -> None:
        self.ui_url = url
        self._engine.name_batch_page(batch_page)

    def on_stopped(self, callback: Callable[[], object]) -> None:
        self._stop_callbacks.append(callback)

    def stopped(self) -> None:
        """Call the callbacks, once."""
        self.ui_url = None
        callbacks, self._stop_callbacks = self._stop_callbacks, []
        for callback in callbacks:
            contain_errors(callback, lambda error: log.error("stop callback of listener failed", exc_info=error))

    def _make_estimator(self, stream_id: int) -> GuardedEstimator:
        if all(stream.stream_id != stream_id for stream in self.receiver_streams):
            raise ConfigurationError(f"stream {stream_id} has no receiver, so no rate estimator steers it")
        name = self._settings.rate_estimator
        estimator = GuardedEstimator.installed(
            name,
            self.batch_interval_ms,
            self._settings,
            plugins=self._plugins,
            on_fault=partial(_log_fault, name, stream_id),
        )
        saved = self.save(f"rate {name} {stream_id}", estimator.saved_state)
        if not estimator.restore(saved) and saved is not None:
            log.warning(
                "saved state of rate estimator rejected",
                estimator=name,
                stream_id=stream_id,
                effect="it starts without the experience of the earlier run",
            )
        return estimator


def _log_fault(name: str, stream_id: int, fault: str) -> None:
    log.warning(
        "rate estimator failed, last rate kept", estimator=name, stream_id=stream_id, fault=fault, throttle_s=60
    )
