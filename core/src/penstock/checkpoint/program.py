"""``Program``: a streaming program; and its pickled form, which refers to the contexts and the graph by name.

Loading executes code from the checkpoint directory, so only users who may run programs may write there.
"""

from __future__ import annotations

import io
import pickle
from importlib.util import find_spec
from typing import Any

from attrs import frozen
from pyspark import SparkContext, cloudpickle

from penstock.conf import Settings
from penstock.errors import CheckpointError, ConfigurationError, plugin_distribution, summary_of, text_of
from penstock.graph.dstream_graph import DStreamGraph
from penstock.graph.node import Node, OnDriver
from penstock.runtime.clock import Clock
from penstock.spark.columns import dump_column, is_column, load_column


@frozen
class Program:
    """A streaming program. ``context`` is the StreamingContext, to which streams and the saved program refer."""

    context: object
    sc: SparkContext
    settings: Settings
    clock: Clock
    graph: DStreamGraph


def save_program(program: Program) -> bytes:
    """Pickle the streams of a program; the error names the operator that cannot be pickled."""
    graph = program.graph
    try:
        return _pickled((graph.inputs, graph.outputs, graph.num_streams, graph.remember_ms), program)
    except Exception as error:
        for stream in graph.streams():
            _check(stream, program)
        raise _not_picklable("the program", error) from error


def load_program(data: bytes, program: Program) -> None:
    """Restore pickled streams into a program without streams; raises ``CheckpointError`` if it cannot."""
    try:
        program.graph.restore(*_Unpickler(io.BytesIO(data), program).load())
    except Exception as error:
        reason = text_of(error) if isinstance(error, CheckpointError) else summary_of(error)
        raise CheckpointError(f"the saved program cannot be loaded: {reason}") from error


def _check(stream: Node, program: Program) -> None:
    """Pickle a single stream, without its parents, to find out whether it is the one that fails."""
    state = {name: value for name, value in stream.program_state().items() if name != "parents"}
    try:
        _pickled(state, program, stream)
    except Exception as error:
        raise _not_picklable(stream.call_site.short, error) from error


def _not_picklable(what: str, error: BaseException) -> ConfigurationError:
    return ConfigurationError(
        f"{what}: DStreams with their functions are not serializable, and checkpoints contain them: {text_of(error)}. "
        "Create the object inside the function, or set spark.penstock.checkpoint.rebuild=true: then the setupFunc of "
        "getOrCreate rebuilds the program after a failure"
    )


def _pickled(value: Any, program: Program, only: Node | None = None) -> bytes:
    buffer = io.BytesIO()
    pickler: Any = _Pickler(buffer, program, only)
    pickler.dump(value)
    return buffer.getvalue()


class _Pickler(cloudpickle.CloudPickler):
    """Names what surrounds the streams; with ``only``, also every other stream."""

    def __init__(self, file: io.BytesIO, program: Program, only: Node | None) -> None:
        super().__init__(file)  # type: ignore[no-untyped-call]
        self._program = program
        self._only = only

    def persistent_id(self, obj: Any) -> str | None:
        if obj is self._program.context:
            return "context"
        if isinstance(obj, SparkContext):
            return "spark"
        if obj is self._program.graph:
            return "graph"
        return "stream" if self._only is not None and isinstance(obj, Node) else None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Node):
            return _new, (type(obj),), obj.program_state()
        if isinstance(obj, OnDriver):  # a stream that a function of the program refers to
            return _new, (type(obj),), vars(obj)
        if is_column(obj):
            return load_column, (dump_column(obj),)
        return super().reducer_override(obj)  # type: ignore[no-untyped-call]


def _new(kind: Any) -> Any:
    return kind.__new__(kind)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, program: Program) -> None:
        super().__init__(file)
        self._named = {"context": program.context, "spark": program.sc, "graph": program.graph}

    def persistent_load(self, pid: Any) -> Any:
        return self._named[pid]

    def find_class(self, module: str, name: str) -> Any:
        try:
            return super().find_class(module, name)
        except (AttributeError, ImportError) as error:
            package = module.partition(".")[0]
            advice = ""
            if package == "penstock":
                advice = ": another version of Penstock wrote it, which can load it"
            elif package.startswith("penstock_") and find_spec(package) is None:
                advice = f": pip install {plugin_distribution(package.removeprefix('penstock_'))}"
            raise CheckpointError(f"it needs {module}.{name}, which is not installed{advice}") from error
