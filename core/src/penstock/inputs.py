"""``StreamBuilder``: how a program gets its streams: from receivers, files, queues, and other streams.

Owns the methods of ``StreamingContext`` that create streams. Called on the program's thread, before the start.
"""

from __future__ import annotations

import queue
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast, overload

import pyarrow as pa
from pyspark import RDD, SparkContext, StorageLevel

from penstock.conf import Settings
from penstock.errors import ConfigurationError, shown
from penstock.graph.arguments import require_callable
from penstock.graph.dstream import DStream
from penstock.graph.dstream_graph import DStreamGraph
from penstock.graph.input_dstreams import PulledInputDStream, QueueInputDStream, ReceiverInputDStream
from penstock.graph.node import Node
from penstock.graph.pair_dstream_functions import require_stream
from penstock.graph.per_batch import TransformedDStream, UnionDStream
from penstock.plugins.discovery import Plugins
from penstock.receive.receiver import Receiver
from penstock.spark.rdds import as_rdd

if TYPE_CHECKING:
    from penstock.context import StreamingContext

T = TypeVar("T")
U = TypeVar("U")


class StreamBuilder:
    """The part of a StreamingContext that creates streams.

    A method that needs a plugin raises a ConfigurationError with the distribution to install when no plugin offers it.
    """

    _sc: SparkContext
    _settings: Settings
    _plugins: Plugins
    _graph: DStreamGraph

    def socketTextStream(
        self, hostname: str, port: int, storageLevel: StorageLevel = StorageLevel.MEMORY_AND_DISK_2
    ) -> DStream[str]:
        """Receive lines of UTF-8 text from a TCP server."""
        return self._socket("socketTextStream", "socket", storageLevel, pa.string(), host=hostname, port=port)

    def socketStream(
        self,
        hostname: str,
        port: int,
        converter: Callable[[BinaryIO], Iterable[T]],
        storageLevel: StorageLevel = StorageLevel.MEMORY_AND_DISK_2,
    ) -> DStream[T]:
        """Receive the records that ``converter`` reads from a TCP connection.

        ``converter`` yields records from the connection, a readable file; it runs on the receiver's executor.
        """
        return self._socket(
            "socketStream", "socket-stream", storageLevel, None, host=hostname, port=port, converter=converter
        )

    def rawSocketStream(
        self, hostname: str, port: int, storageLevel: StorageLevel = StorageLevel.MEMORY_AND_DISK_2
    ) -> DStream[bytes]:
        """Receive frames from a TCP server: 4 bytes of length, big-endian, then a record of that many bytes."""
        return self._socket("rawSocketStream", "raw-socket", storageLevel, pa.binary(), host=hostname, port=port)

    def textFileStream(self, directory: str) -> DStream[str]:
        """Read the files that appear in a directory, as lines of UTF-8 text. See ``fileStream``."""
        return self._files("textFileStream", "text-file", directory=directory)

    def binaryRecordsStream(self, directory: str, recordLength: int) -> DStream[bytes]:
        """Read the files that appear in a directory, as records of ``recordLength`` bytes. See ``fileStream``.

        Raises:
            ConfigurationError: the length is not positive.
        """
        return self._files("binaryRecordsStream", "binary-records", directory=directory, record_length=recordLength)

    @overload
    def fileStream(
        self, directory: str, filter: Callable[[str], bool] | None = None, newFilesOnly: bool = True, read: None = None
    ) -> DStream[str]: ...

    @overload
    def fileStream(
        self,
        directory: str,
        filter: Callable[[str], bool] | None = None,
        newFilesOnly: bool = True,
        *,
        read: Callable[[BinaryIO], Iterable[T]],
    ) -> DStream[T]: ...

    def fileStream(
        self,
        directory: str,
        filter: Callable[[str], bool] | None = None,
        newFilesOnly: bool = True,
        read: Callable[[BinaryIO], Iterable[Any]] | None = None,
    ) -> DStream[Any]:
        """Read the files that appear in a directory.

        Args:
            directory: a path, a URI, or a pattern of directories (``/logs/*/``). Files must be moved there whole, or be
                written under a name that begins with a dot and renamed.
            filter: whether to read the file of a path; by default, unless its name begins with a dot.
            newFilesOnly: ignore the files that exist when the stream is created.
            read: yields the records of a readable file; runs on an executor. By default lines of UTF-8 text.
        """
        return self._files(
            "fileStream", "file", directory=directory, filter=filter, new_files_only=newFilesOnly, read=read
        )

    @overload
    def receiverStream(self, receiver: Receiver[T]) -> DStream[T]: ...

    @overload
    def receiverStream(self, receiver: str, **options: Any) -> DStream[Any]: ...

    def receiverStream(self, receiver: Receiver[Any] | str, **options: Any) -> DStream[Any]:
        """Receive the records that a receiver stores: a Receiver, or the one that a plugin offers under a name.

        The options of the latter override ``spark.penstock.receiver.<name>.<option>``.

        Raises:
            UnknownNameError: no plugin offers that name, or an option does not exist; names the nearest.
            ConfigurationError: an option is missing or its value is invalid, or ``receiver`` is not a Receiver.
        """
        if isinstance(receiver, str):
            receiver = self._make("receivers", receiver, options)
        elif options:
            raise ConfigurationError(
                "receiverStream takes options with the name of a receiver only; pass them to the class of this instance"
            )
        if not isinstance(receiver, Receiver):
            advice = f": pass {receiver.__name__}(...)" if isinstance(receiver, type) else ""
            raise ConfigurationError(
                f"receiverStream takes an instance of a penstock.Receiver class, not {shown(receiver)}{advice}"
            )
        return self._stream(ReceiverInputDStream(self._graph, receiver))

    @overload
    def queueStream(
        self,
        rdds: Sequence[RDD[T] | Iterable[T]] | queue.Queue[RDD[T]] | queue.Queue[Iterable[T]],
        oneAtATime: bool = True,
        default: RDD[T] | Iterable[T] | None = None,
    ) -> DStream[T]: ...

    @overload
    def queueStream(
        self,
        rdds: Sequence[Any] | queue.Queue[Any],
        oneAtATime: bool = True,
        default: RDD[Any] | Iterable[Any] | None = None,
    ) -> DStream[Any]: ...

    def queueStream(
        self,
        rdds: Sequence[Any] | deque[Any] | queue.Queue[Any],
        oneAtATime: bool = True,
        default: RDD[Any] | Iterable[Any] | None = None,
    ) -> DStream[Any]:
        """Take RDDs (or collections) from a queue, one per batch or all at once. For tests and demonstrations.

        Args:
            rdds: a list, whose later changes are ignored; or a ``deque`` or ``queue.Queue``, to which the program may
                add while the context runs.
            oneAtATime: take one per batch.
            default: the RDD when the queue is empty; by default an empty one.

        Raises:
            IndexError: the list is empty, without a default: every batch would be empty.
            TypeError: ``rdds`` is neither a queue nor a sequence.
        """
        if not isinstance(rdds, Sequence | queue.Queue) or isinstance(rdds, str | bytes):
            raise TypeError(f"queueStream takes a list of RDDs, a deque or a queue.Queue, not {type(rdds).__name__}")
        if isinstance(rdds, Sequence) and not isinstance(rdds, deque):
            if not rdds and default is None:
                raise IndexError(
                    "queueStream got an empty list and no default; give a deque or queue.Queue to fill it later"
                )
            rdds = deque(as_rdd(self._sc, item) for item in rdds)
        default_rdd = None if default is None else as_rdd(self._sc, default)
        return self._stream(QueueInputDStream(self._graph, rdds, one_at_a_time=oneAtATime, default=default_rdd))

    def union(self, *dstreams: DStream[T]) -> DStream[T]:
        """Unite the records of several streams.

        Raises:
            TypeError: an argument is not a DStream.
            ValueError: there is no stream, or their slide durations or contexts differ.
        """
        if not dstreams:
            raise ValueError("union should have at least one DStream to union: pass one or more streams")
        nodes = [require_stream("union", stream)._node for stream in dstreams]
        if len(dstreams) == 1:
            return dstreams[0]
        return self._stream(UnionDStream(self._graph, nodes))

    def transform(
        self, dstreams: Sequence[DStream[T]], transformFunc: Callable[[Sequence[RDD[T]]], RDD[U] | None]
    ) -> DStream[U]:
        """Turn the RDDs of several streams into one: ``transformFunc`` gets them in the order of the streams.

        Raises:
            TypeError: an element is not a DStream, or the function is not callable.
            ValueError: there is no stream, or their slide durations or contexts differ.
        """
        nodes = [require_stream("transform", stream)._node for stream in dstreams]
        if not nodes:
            raise ValueError("transform should have at least one DStream to transform: pass a list of streams")
        function = require_callable("transformFunc", transformFunc)
        node = TransformedDStream(self._graph, nodes, lambda _time, *rdds: function(rdds), is_foreign=True)
        return self._stream(node)

    def input_stream(self, name: str, **options: Any) -> DStream[Any]:
        """Read from a source that a plugin offers and the driver pulls.

        The options override ``spark.penstock.input.<name>.<option>``.

        Raises:
            UnknownNameError: no plugin offers that name, or an option does not exist; names the nearest.
            ConfigurationError: an option is missing or its value is invalid.
        """
        self._check_can_build("input_stream")
        # A checkpoint holds this call instead of the source, which every run creates itself.
        make = partial(self._make, "input_streams", name, options)
        return self._stream(PulledInputDStream(self._graph, make))

    @abstractmethod
    def _check_can_build(self, what: str) -> None:
        """Refuse to add to the graph once the context was started."""

    def _socket(
        self, method: str, name: str, level: StorageLevel, records: pa.DataType | None, **options: Any
    ) -> DStream[Any]:
        self._check_offered(method, "receivers", name)
        receiver = self._make("receivers", name, options)
        receiver.storageLevel = level
        schema = None if records is None else pa.schema([("value", records)])
        return self._stream(ReceiverInputDStream(self._graph, receiver, schema))

    def _files(self, method: str, name: str, **options: Any) -> DStream[Any]:
        self._check_offered(method, "input_streams", name)
        return self.input_stream(name, **options)

    def _check_offered(self, method: str, hook: str, name: str) -> None:
        if name not in self._plugins.offers(hook):
            raise ConfigurationError(
                f"{method} needs the {Plugins.KINDS[hook].kind} {name!r}, which no plugin offers: "
                f"{self._plugins.remedy(name)}"
            )

    def _stream(self, node: Node) -> DStream[Any]:
        return DStream(node, cast("StreamingContext", self))

    def _make(self, hook: str, name: str, options: dict[str, Any]) -> Any:
        return self._plugins.make(hook, name, self._settings, options)
