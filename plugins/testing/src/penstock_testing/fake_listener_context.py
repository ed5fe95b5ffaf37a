"""``FakeListenerContext``: a ``ListenerContext`` without an engine, which records the commands of listeners."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from penstock import (
    ConfigurationError,
    DStreamInfo,
    ListenerContext,
    ListenerCounts,
    RateEstimator,
    ReceiverError,
    ReceiverInfo,
    ReceiverStarted,
    ReceiverStopped,
    ReceiverStreamInfo,
    StorageInfo,
)
from penstock.spi import (
    Event,
    GuardedEstimator,
    structure_options,
)

T = TypeVar("T")
_BACKPRESSURE = "spark.streaming.backpressure."


class ProcessingRateEstimator(RateEstimator):
    """Answers with the rate at which a batch was processed."""

    def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
        if numElements <= 0 or processingDelay <= 0:
            return None
        self.reason = f"{numElements} records took {processingDelay} ms"
        return numElements * 1000 / processingDelay


class FakeListenerContext(ListenerContext):
    """A program with receiver streams, simulated by a test. Thread-safe.

    ``rate_estimator`` returns the installed estimator that the configuration names, or else one that answers with the
    processing rate; ``None`` when ``spark.streaming.backpressure.enabled`` is ``false``.

    Args:
        configuration: configuration by full key.
        batch_interval_ms: the batch interval in milliseconds.
        streams: the ids of the receiver streams.
        restored: the values that an earlier run saved, by name.

    Attributes:
        commands: every ``set_rate``, ``request_executors`` and ``kill_executor``, with its arguments, in order.
        saved: the functions given to ``save``, by name.
        infos: the result of ``receiver_infos``; ``observe`` updates it.
        backlog: the result of ``backlog_bytes``.
        backlogs: the result of ``executor_backlogs``.
        limits: the rate limits by stream id.
        stored: the result of ``storage``.
        counts: the result of ``listener_counts``.
        ui_url: the address that a listener has published; empty for none.
        batch_page: the address of the page of a batch that a listener has published; empty for none.
        executor_ids: the result of ``executors``; requests are granted at once.
        has_stopped: set it to let commands fail, as after the program's stop.
    """

    def __init__(
        self,
        configuration: Mapping[str, str] | None = None,
        *,
        batch_interval_ms: int = 1000,
        streams: Sequence[int] = (0, 1),
        restored: Mapping[str, Any] | None = None,
    ) -> None:
        self._configuration = MappingProxyType(dict(configuration or {}))
        self._interval_ms = batch_interval_ms
        self._streams = tuple(streams)
        self._restored = dict(restored or {})
        self._estimators: dict[int, GuardedEstimator] = {}
        self._lock = threading.Lock()
        self.commands: list[tuple[Any, ...]] = []
        self.saved: dict[str, Callable[[], Any]] = {}
        self.infos: dict[int, ReceiverInfo] = {}
        self.backlog = 0
        self.backlogs: dict[str, int] = {}
        self.limits: dict[int, float] = {}
        self.stored = StorageInfo()
        self.counts: list[ListenerCounts] = []
        self.ui_url = self.batch_page = ""
        self._stop_callbacks: list[Callable[[], object]] = []
        self.executor_ids = ["1", "2"]
        self.has_stopped = False

    # -- for the test --

    def observe(self, event: Event) -> None:
        """Update ``infos`` from a receiver event. Call it before listeners get the event."""
        if isinstance(event, ReceiverStarted | ReceiverError | ReceiverStopped):
            self.infos[event.receiverInfo.streamId] = event.receiverInfo

    def stop(self) -> None:
        """Stop the program: commands fail from now on, and the functions given to ``on_stopped`` are called."""
        self.has_stopped = True
        callbacks, self._stop_callbacks = self._stop_callbacks, []
        for callback in callbacks:
            callback()

    def checkpoint(self) -> dict[str, Any]:
        """The content of a checkpoint at this moment: the values of ``saved``, converted to JSON and back.

        Raises:
            TypeError: JSON cannot hold a value.
        """
        return {name: json.loads(json.dumps(value())) for name, value in self.saved.items()}

    def recovered(self) -> FakeListenerContext:
        """The context of a run that recovers from a checkpoint of this one. Rate limits survive."""
        context = FakeListenerContext(
            self._configuration,
            batch_interval_ms=self._interval_ms,
            streams=self._streams,
            restored=self.checkpoint(),
        )
        context.limits = dict(self.limits)
        return context

    # -- for listeners --

    @property
    def application_name(self) -> str:
        return "tested"

    @property
    def application_id(self) -> str:
        return "app-0"

    @property
    def spark_ui_url(self) -> str:
        return ""

    @property
    def batch_interval_ms(self) -> int:
        return self._interval_ms

    @property
    def configuration(self) -> Mapping[str, str]:
        return self._configuration

    def options(self, prefix: str, options: type[T]) -> T:
        return structure_options(f"configuration {prefix}*", options, self._below(prefix))

    @property
    def receiver_streams(self) -> Sequence[ReceiverStreamInfo]:
        return [ReceiverStreamInfo(stream, f"Receiver-{stream}", "Receiver") for stream in self._streams]

    def graph(self) -> Sequence[DStreamInfo]:
        count = len(self._streams)
        inputs = [
            DStreamInfo(n, "ReceiverInputDStream", "", f"app.py:{n + 1}", (), id_, "input")
            for n, id_ in enumerate(self._streams)
        ]
        outputs = [
            DStreamInfo(count + n, "ForEachDStream", "", f"app.py:{n + 10}", (n,), role="output") for n in range(count)
        ]
        return inputs + outputs

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def receiver_infos(self) -> dict[int, ReceiverInfo]:
        return dict(self.infos)

    def backlog_bytes(self) -> int:
        return self.backlog

    def storage(self) -> StorageInfo:
        return self.stored

    def listener_counts(self) -> Sequence[ListenerCounts]:
        return list(self.counts)

    def executor_backlogs(self) -> Mapping[str, int]:
        return dict(self.backlogs)

    def rate_limit(self, stream_id: int) -> float | None:
        return self.limits.get(stream_id)

    def set_rate(self, stream_id: int, rate: float) -> None:
        if self._record("set_rate", stream_id, rate) and stream_id in self._streams:
            self.limits[stream_id] = rate

    def rate_estimator(self, stream_id: int) -> RateEstimator | None:
        if self._configuration.get(f"{_BACKPRESSURE}enabled") == "false":
            return None
        if stream_id not in self._streams:
            raise ConfigurationError(f"stream {stream_id} has no receiver, so no rate estimator steers it")
        with self._lock:
            if stream_id not in self._estimators:
                self._estimators[stream_id] = self._make_estimator()
            return self._estimators[stream_id]

    def save(self, name: str, value: Callable[[], Any]) -> Any:
        self.saved[name] = value
        return self._restored.get(name)

    def executors(self) -> Sequence[str]:
        return list(self.executor_ids)

    def request_executors(self, count: int) -> bool:
        if not self._record("request_executors", count):
            return False
        highest = max((int(executor_id) for executor_id in self.executor_ids), default=0)
        self.executor_ids += [str(highest + number) for number in range(1, count + 1)]
        return True

    def kill_executor(self, executor_id: str) -> bool:
        if not self._record("kill_executor", executor_id) or executor_id not in self.executor_ids:
            return False
        self.executor_ids.remove(executor_id)
        return True

    def publish_ui(self, url: str, batch_page: str = "") -> None:
        self.ui_url = url
        self.batch_page = batch_page

    def on_stopped(self, callback: Callable[[], object]) -> None:
        self._stop_callbacks.append(callback)

    def _record(self, *command: Any) -> bool:
        with self._lock:
            if not self.has_stopped:
                self.commands.append(command)
            return not self.has_stopped

    def _below(self, prefix: str) -> dict[str, str]:
        return {key.removeprefix(prefix): text for key, text in self._configuration.items() if key.startswith(prefix)}

    def _make_estimator(self) -> GuardedEstimator:
        name = self._configuration.get(f"{_BACKPRESSURE}rateEstimator")
        if name is None:
            return GuardedEstimator(ProcessingRateEstimator())
        return GuardedEstimator.installed(name, self._interval_ms, self._configuration)
