"""The pickled program: the streams of a graph with their functions, as bytes and back.

Owns how the graph is cut off from what surrounds it: the context, the SparkContext and the graph itself are named, not
pickled, and a stream travels without what a run adds to it. Loading runs code from the checkpoint directory: only who
may run programs may write there. On the program's thread, before the start.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attrs import frozen
from pyspark import SparkContext, cloudpickle

from penstock.errors import CheckpointError, ConfigurationError, text_of
from penstock.graph.stream import Stream

if TYPE_CHECKING:
    from penstock.context import StreamingContext


@frozen
class _Program:
    inputs: list[Any]
    outputs: list[Any]
    num_streams: int
    remember_ms: int | None


def save(context: StreamingContext) -> bytes:
    """Pickle the streams of a context.

    Raises:
        ConfigurationError: one cannot be pickled; names the operator and what is in its way.
    """
    graph = context.graph
    try:
        return _pickled(_Program(graph.inputs, graph.outputs, graph.num_streams, graph.remember_ms), context)
    except Exception as error:
        for stream in graph.streams():
            _check(stream, context)
        raise _refusal("the program", error) from error


def load(data: bytes, context: StreamingContext) -> None:
    """Give a context without streams those that ``save`` pickled.

    Raises:
        CheckpointError: they cannot be unpickled.
    """
    try:
        program: _Program = _Unpickler(io.BytesIO(data), context).load()
        context.graph.restore(program.inputs, program.outputs, program.num_streams, program.remember_ms)
    except Exception as error:
        raise CheckpointError(f"the saved functions cannot be loaded: {type(error).__name__}: {error}") from error


def _check(stream: Stream[Any], context: StreamingContext) -> None:
    """Pickle a stream without its parents."""
    try:
        _pickled({name: value for name, value in stream.program_state().items() if name != "_parents"}, context, stream)
    except Exception as error:
        raise _refusal(stream.call_site.short, error) from error


def _refusal(what: str, error: BaseException) -> ConfigurationError:
    return ConfigurationError(
        f"{what}: DStreams with their functions are not serializable, as a checkpoint needs them: {text_of(error)}. "
        "Make what cannot be pickled inside the function, or set spark.penstock.checkpoint.rebuild=true: then the "
        "program's own code makes its streams again after a failure"
    )


def _pickled(value: Any, context: StreamingContext, but: Stream[Any] | None = None) -> bytes:
    buffer = io.BytesIO()
    pickler: Any = _Pickler(buffer, context, but)
    pickler.dump(value)
    return buffer.getvalue()


class _Pickler(cloudpickle.CloudPickler):
    """Names what surrounds the streams; with ``but``, also every other stream."""

    def __init__(self, file: io.BytesIO, context: StreamingContext, but: Stream[Any] | None) -> None:
        super().__init__(file)  # type: ignore[no-untyped-call]
        self._context, self._but = context, but

    def persistent_id(self, obj: Any) -> str | None:
        if obj is self._context:
            return "context"
        if isinstance(obj, SparkContext):
            return "spark"
        if obj is self._context.graph:
            return "graph"
        return "stream" if self._but is not None and isinstance(obj, Stream) else None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Stream):
            return _new, (type(obj),), obj.program_state()
        return super().reducer_override(obj)  # type: ignore[no-untyped-call]


def _new(kind: Any) -> Any:
    return kind.__new__(kind)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, context: StreamingContext) -> None:
        super().__init__(file)
        self._named: dict[str, Callable[[], Any]] = {
            "context": lambda: context,
            "spark": lambda: context.sparkContext,
            "graph": lambda: context.graph,
        }

    def persistent_load(self, pid: Any) -> Any:
        return self._named[pid]()
