"""``StreamBuilder``: how a program gets its streams: from receivers, files, queues, and from several streams at once.

Owns the context's methods that make streams. Never starts anything. Called on the program's thread, before the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from pyspark import RDD, SparkContext, StorageLevel

from penstock.conf import Settings
from penstock.errors import ConfigurationError, UnknownNameError
from penstock.graph.dstream import DStream
from penstock.graph.dstream_graph import DStreamGraph
from penstock.graph.input_stream import PulledInputDStream, QueueInputDStream, ReceiverInputDStream
from penstock.graph.transformed import TransformedDStream
from penstock.graph.united import UnionDStream
from penstock.plugins import KINDS, Plugins
from penstock.receive.receiver import Receiver
from penstock.specs import read_options

if TYPE_CHECKING:
    from penstock.context import StreamingContext

if TYPE_CHECKING:
    pass

#: Hook that offers a source → the word for it in configuration keys.
_SECTION = {"receivers": "receiver", "input_streams": "input"}


class StreamBuilder:
    """The part of a StreamingContext that makes streams."""

    _sc: SparkContext
    settings: Settings
    plugins: Plugins
    graph: DStreamGraph

    @property
    def _context(self) -> StreamingContext:
        return cast("StreamingContext", self)

    def socketTextStream(
        self, hostname: str, port: int, storageLevel: StorageLevel = StorageLevel.MEMORY_AND_DISK_2
    ) -> DStream[str]:
        """Receive lines of UTF-8 text from a TCP server.

        Raises:
            UnknownNameError: the plugin ``penstock-socket`` is not installed.
        """
        try:
            receiver = self._make("receivers", "socket", {"host": hostname, "port": port})
        except UnknownNameError as error:
            if error.kind != "receiver":
                raise
            raise ConfigurationError(
                "socketTextStream needs the receiver 'socket', which no plugin offers: pip install penstock-socket"
            ) from error
        receiver.storageLevel = storageLevel
        return ReceiverInputDStream(self._context, receiver)

    def receiverStream(self, receiver: Receiver[Any] | str, **options: Any) -> ReceiverInputDStream:
        """Receive what a receiver stores.

        Args:
            receiver: one ready made, or the name of one that a plugin offers.
            options: of a named one; they win over ``spark.penstock.receiver.<name>.<option>``.

        Raises:
            UnknownNameError: nothing has that name, or an option does not exist; names the nearest.
            ConfigurationError: an option is missing or its value cannot be used.
        """
        if isinstance(receiver, str):
            receiver = self._make("receivers", receiver, options)
        elif options:
            raise ConfigurationError("options are for a receiver given by its name; this one is ready made")
        if not isinstance(receiver, Receiver):
            raise ConfigurationError(
                f"a receiver must derive from penstock.Receiver; {type(receiver).__name__} does not"
            )
        return ReceiverInputDStream(self._context, receiver)

    def queueStream(
        self, rdds: Sequence[Any], oneAtATime: bool = True, default: RDD[Any] | Iterable[Any] | None = None
    ) -> DStream[Any]:
        """Take RDDs (or collections) from a list, one a batch or all at once. For tests and demonstrations."""
        if default is not None and not isinstance(default, RDD):
            default = self._sc.parallelize(default)
        queue = [item if isinstance(item, RDD) else self._sc.parallelize(item) for item in rdds]
        return QueueInputDStream(self._context, queue, one_at_a_time=oneAtATime, default=default)

    def union(self, *dstreams: DStream[Any]) -> DStream[Any]:
        """Put the records of several streams together.

        Raises:
            ValueError: there is none, or their slide durations differ.
        """
        if not dstreams:
            raise ValueError("should have at least one DStream to union")
        if len(dstreams) == 1:
            return dstreams[0]
        for stream in dstreams:
            if not isinstance(stream, DStream):
                raise TypeError(f"union takes DStreams, not {type(stream).__name__}")
        if len({stream.slide_ms for stream in dstreams}) > 1:
            raise ValueError("All DStreams should have same slide duration")
        if any(stream.context() is not self for stream in dstreams):
            raise ValueError("All DStreams should belong to this StreamingContext")
        return UnionDStream(dstreams)

    def transform(self, dstreams: Sequence[DStream[Any]], transformFunc: Callable[..., Any]) -> DStream[Any]:
        """Make one RDD of several streams': ``transformFunc`` gets the RDDs, in the order of the streams, once a batch.

        Raises:
            ValueError: there is no stream, or their slide durations differ.
        """
        if not dstreams:
            raise ValueError("should have at least one DStream to transform")
        return TransformedDStream(tuple(dstreams), lambda _time, *rdds: transformFunc(rdds))

    def input_stream(self, name: str, **options: Any) -> DStream[Any]:
        """Pull from a source that a plugin offers.

        Args:
            name: of the source (``penstock plugins list``).
            options: of it; they win over ``spark.penstock.input.<name>.<option>``.

        Raises:
            UnknownNameError: nothing has that name, or an option does not exist; names the nearest.
            ConfigurationError: an option is missing or its value cannot be used.
        """
        self.check_can_build("input_stream")
        return PulledInputDStream(self._context, self._make("input_streams", name, options))

    def check_can_build(self, what: str) -> None:
        """Refuse to add to the graph once it runs."""
        raise NotImplementedError

    def _make(self, hook: str, name: str, options: dict[str, Any]) -> Any:
        spec = self.plugins.spec(hook, name)
        given = {**self.settings.under(f"spark.penstock.{_SECTION[hook]}.{name}."), **options}
        read = read_options(KINDS[hook][0], spec, given)
        return spec.factory() if spec.options is None else spec.factory(read)
