"""Puts the twins in the places of what the engine uses, for the duration of a simulation.

The engine has no switch for this. Its modules name what they use (``threading``, ``time``, ``Endpoint`` …), and these
names get other values. A name that is no longer there is an error, so that nothing real is used unnoticed.
"""

from __future__ import annotations

import atexit
import importlib
import importlib.metadata
import logging
import os
import pkgutil
import queue
import random
import secrets
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import structlog
from pyspark import SparkContext
from pyspark.core.rdd import PipelinedRDD

from penstock import StreamingContext
from penstock.spi import throttle
from penstock_testing.simulation import simulated_cluster as clusters, simulated_rdds as rdds
from penstock_testing.simulation.primitives import Twins
from penstock_testing.simulation.scheduler import Scheduler
from penstock_testing.simulation.simulated_cluster import SimulatedCluster
from penstock_testing.simulation.simulated_disk import SimulatedDirectory
from penstock_testing.simulation.simulated_network import SimulatedNetwork, endpoint_class, flight_module

# The plugins that simulated programs load.
_PLUGINS = ("rate", "state")
_PACKAGES = ("penstock", *(f"penstock_{name}" for name in _PLUGINS))
# Modules that only say where something has moved, and the program for ``python -m``.
_LEFT_OUT = {"penstock.cli", "penstock.helpers", "penstock.launch", "penstock.testing", "penstock.__main__"}


@cache
def _modules() -> list[ModuleType]:
    """Every module of the engine and of the plugins, imported."""
    found = []
    for name in _PACKAGES:
        package = importlib.import_module(name)
        found.append(package)
        for info in pkgutil.walk_packages(package.__path__, f"{name}."):
            if info.name not in _LEFT_OUT:
                found.append(importlib.import_module(info.name))
    return found


def _named(path: str) -> Any:
    module, _colon, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


@contextmanager
def substituted(twins: Twins, network: SimulatedNetwork, cluster: SimulatedCluster) -> Iterator[None]:
    """Run the engine on a simulation inside the ``with`` block."""
    modules = _modules()
    scheduler, disk = twins.scheduler, cluster.disk
    endpoint = _named("penstock.wire.endpoint:Endpoint")
    token_check = _named("penstock.wire.endpoint:_TokenCheck")
    folder = _named("penstock.spark.rdd_files:RunFolder")

    def checkpoint_folder(sc: Any) -> Any:
        base, _slash, name = sc.checkpoint_directory.rpartition("/")
        return folder(name, base) if name else None

    def delete_file(_sc: Any, path: str) -> None:
        for file in [path, *disk.below(path)]:
            disk.operate("delete", file)
            disk.delete(file)

    # A real one, for the executors' copies of state files, which no fault concerns.
    local_directory = TemporaryDirectory(prefix="penstock-simulation-")

    everywhere: list[tuple[Any, Any]] = [
        (threading, twins.threading),
        (queue, twins.queue),
        (time, twins.time),
        (random, twins.random),
        (secrets, twins.secrets),
        (signal, _signals()),
        (atexit, SimpleNamespace(register=_nothing, unregister=_nothing)),
        (queue.SimpleQueue, twins.queue.SimpleQueue),
        (Future, twins.future),
        (endpoint, endpoint_class(network, endpoint, token_check)),
        (PipelinedRDD, rdds.SimulatedPipelinedRDD),
    ]
    functions = {
        "penstock.wire.client:address_towards": lambda _location, _advice="": "127.0.0.1",
        "penstock.storage.uri:connect": lambda uri: (disk, uri),
        "penstock.spark.rdds:BlocksRDD": rdds.SimulatedBlocksRDD,
        "penstock.spark.rdds:located_rdd": rdds.located_rdd,
        "penstock.spark.rdds:shuffled": rdds.shuffled,
        "penstock_state.co_partitioned:co_partitioned_union": rdds.co_partitioned_union,
        "penstock.spark.rdds:checkpointed_state": rdds.checkpointed_state,
        "penstock.spark.rdds:remember_classes": _nothing,
        "penstock.spark.cluster:running_task": lambda _sc, _group: None,
        "penstock.spark.local_properties:LocalProperties": clusters.SimulatedLocalProperties,
        "penstock.spark.rdd_files:checkpoint_folder": checkpoint_folder,
        "penstock.spark.rdd_files:qualified": lambda _sc, directory, _setting="": directory,
        "penstock.spark.rdd_files:delete_empty_folders": _nothing,
        "penstock.spark.rdd_files:delete_file": delete_file,
        "penstock.spark.saved_conf:spark_context": lambda _conf: SparkContext._active_spark_context,
        "penstock.blocks.block_directories:sweep": list,
        "penstock.receive.recent_lines:recording": _recording,
    }
    everywhere += [(_named(path), twin) for path, twin in functions.items()]
    by_identity = {id(real): twin for real, twin in everywhere}
    single = {
        "penstock.plugins.discovery:importlib": _plugins(),
        "pyspark.shuffle:get_used_memory": lambda: 100,
        "penstock_state.state_store:executor_directory": partial(_local_directory, scheduler, local_directory),
        "penstock.wire.client:flight": flight_module(network),
        "penstock.checkpoint.checkpoint_directory:os": SimpleNamespace(getpid=lambda: 1),
        "penstock.checkpoint.checkpoint_directory:socket": SimpleNamespace(gethostname=lambda: "simulated"),
    }
    with local_directory, ExitStack() as stack:
        for module in modules:
            for name, value in list(vars(module).items()):
                if not name.startswith("__") and id(value) in by_identity:
                    stack.enter_context(mock.patch.object(module, name, by_identity[id(value)]))
        for path, twin in single.items():
            module_name, _colon, name = path.partition(":")
            stack.enter_context(mock.patch.object(importlib.import_module(module_name), name, twin))
        engine_thread = _named("penstock.runtime.threads:EngineThread")
        for name, method in twins.thread_methods.items():
            stack.enter_context(mock.patch.object(engine_thread, name, method))
        open_directory = staticmethod(lambda location: SimulatedDirectory(disk, location))
        stack.enter_context(mock.patch.object(_named("penstock.storage.directory:Directory"), "of", open_directory))
        # PySpark's hash of keys asks for it.
        stack.enter_context(mock.patch.dict(os.environ, {"PYTHONHASHSEED": "0"}))
        for holder, name, initial in (
            (StreamingContext, "_active", None),
            (SparkContext, "_active_spark_context", None),
            (importlib.import_module("penstock.receive.receiver_threads"), "_watched", ()),
        ):
            stack.enter_context(mock.patch.object(holder, name, initial))
            scheduler.own(holder, name, initial)
        yield


def _local_directory(scheduler: Scheduler, parent: TemporaryDirectory[str]) -> Path:
    """The directory of the executor that a task runs on. The executors of a new driver find no copies of older ones."""
    task = scheduler.check()
    assert task is not None
    return Path(parent.name) / task.process.executor


def _nothing(*_arguments: Any, **_options: Any) -> None:
    pass


@contextmanager
def _recording(_redaction: Any) -> Iterator[None]:
    yield


def _signals() -> Any:
    return SimpleNamespace(
        SIGINT=signal.SIGINT,
        SIGTERM=signal.SIGTERM,
        SIG_IGN=signal.SIG_IGN,
        Signals=signal.Signals,
        signal=_nothing,
        getsignal=_nothing,
        default_int_handler=signal.default_int_handler,
    )


class _ParsedDistribution(importlib.metadata.Distribution):
    """As the distribution, with metadata that is parsed once instead of at each access."""

    def __init__(self, real: importlib.metadata.Distribution) -> None:
        self._real = real
        self._metadata = real.metadata

    @property
    def metadata(self) -> importlib.metadata.PackageMetadata:
        return self._metadata

    def read_text(self, filename: str) -> str | None:
        return self._real.read_text(filename)

    def locate_file(self, path: Any) -> Any:
        return self._real.locate_file(path)


def _with_parsed_metadata(entry_point: importlib.metadata.EntryPoint) -> importlib.metadata.EntryPoint:
    parsed = importlib.metadata.EntryPoint(entry_point.name, entry_point.value, entry_point.group)
    if entry_point.dist is not None:
        vars(parsed)["dist"] = _ParsedDistribution(entry_point.dist)
    return parsed


@cache
def _plugins() -> Any:
    """A twin of ``importlib`` that finds the plugins of simulated programs."""
    found = [
        _with_parsed_metadata(each)
        for each in importlib.metadata.entry_points(group="penstock")
        if each.name in _PLUGINS
    ]
    return SimpleNamespace(metadata=SimpleNamespace(entry_points=lambda **_group: found))


@contextmanager
def logged(scheduler: Scheduler) -> Iterator[None]:
    """Write the engine's log to the history, and nowhere else, inside the ``with`` block."""
    processors: list[Any] = _named("penstock.runtime.log:_PROCESSORS")
    logger = logging.getLogger("penstock")
    before, level, handlers = list(processors), logger.level, list(logger.handlers)

    def write(_logger: Any, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        task = scheduler.current
        if task is None or not task.process.is_dead:
            error = event.pop("exc_info", None)
            fields = " ".join(f"{name}={value}" for name, value in sorted(event.items()) if name != "event")
            scheduler.note(f"{method} {event['event']} {fields}" + (f" {error!r}" if error else ""))
        raise structlog.DropEvent

    processors[:] = [structlog.stdlib.filter_by_level, structlog.contextvars.merge_contextvars, throttle, write]
    try:
        yield
    finally:
        processors[:] = before
        logger.setLevel(level)
        logger.handlers[:] = handlers
