"""``StreamBuilder``: how a program gets its streams: from receivers, files, queues, and from several streams at once.

Owns the context's methods that make streams. Never starts anything. Called on the program's thread, before the start.
"""

from __future__ import annotations

import queue
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

from attrs import frozen
from pyspark import RDD, SparkContext, StorageLevel

from penstock.conf import Settings
from penstock.errors import ConfigurationError
from penstock.graph import arguments
from penstock.graph.dstream import DStream
from penstock.graph.dstream_graph import DStreamGraph
from penstock.graph.input_stream import PulledInputDStream, QueueInputDStream, ReceiverInputDStream
from penstock.graph.transformed import TransformedDStream
from penstock.graph.united import UnionDStream
from penstock.plugins.discovery import KINDS, Plugins
from penstock.plugins.specs import read_options
from penstock.receive.receiver import Receiver

if TYPE_CHECKING:
    from penstock.context import StreamingContext
    from penstock.plugins.specs import InputSource

T = TypeVar("T")

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
            ConfigurationError: the plugin ``penstock-socket`` is not installed.
        """
        return self._socket("socketTextStream", "socket", storageLevel, host=hostname, port=port)

    def socketStream(
        self,
        hostname: str,
        port: int,
        converter: Callable[[BinaryIO], Iterable[T]],
        storageLevel: StorageLevel = StorageLevel.MEMORY_AND_DISK_2,
    ) -> DStream[T]:
        """Receive from a TCP server what ``converter`` makes of its bytes.

        Args:
            hostname: of the server.
            port: of the server.
            converter: given the connection as a file to read, yields records; runs on the receiver's executor.
            storageLevel: of the blocks.

        Raises:
            ConfigurationError: the plugin ``penstock-socket`` is not installed.
        """
        return self._socket(
            "socketStream", "socket-stream", storageLevel, host=hostname, port=port, converter=converter
        )

    def rawSocketStream(
        self, hostname: str, port: int, storageLevel: StorageLevel = StorageLevel.MEMORY_AND_DISK_2
    ) -> DStream[bytes]:
        """Receive frames from a TCP server: 4 bytes of length, big-endian, then so many bytes, which are one record.

        Raises:
            ConfigurationError: the plugin ``penstock-socket`` is not installed.
        """
        return self._socket("rawSocketStream", "raw-socket", storageLevel, host=hostname, port=port)

    def textFileStream(self, directory: str) -> DStream[str]:
        """Read the files that appear in a directory, as lines of UTF-8 text. See ``fileStream``.

        Raises:
            ConfigurationError: the plugin ``penstock-file`` is not installed.
        """
        return self._files("textFileStream", "text-file", directory=directory)

    def binaryRecordsStream(self, directory: str, recordLength: int) -> DStream[bytes]:
        """Read the files that appear in a directory, as records of ``recordLength`` bytes. See ``fileStream``.

        Raises:
            ConfigurationError: the plugin ``penstock-file`` is not installed, or the length is not positive.
        """
        return self._files("binaryRecordsStream", "binary-records", directory=directory, record_length=recordLength)

    def fileStream(
        self,
        directory: str,
        filter: Callable[[str], bool] | None = None,
        newFilesOnly: bool = True,
        read: Callable[[BinaryIO], Iterable[T]] | None = None,
    ) -> DStream[T]:
        """Read the files that appear in a directory.

        Args:
            directory: a path, a URI, or a pattern of directories (``/logs/*/``). Files must be moved in whole, or grow
                under a name that begins with a dot.
            filter: given a file's path, says whether to read it; by default all but those that begin with a dot.
            newFilesOnly: leave out the files that are there when the stream is made.
            read: given a file to read, yields its records; runs on an executor. By default lines of UTF-8 text.

        Raises:
            ConfigurationError: the plugin ``penstock-file`` is not installed.
        """
        return self._files(
            "fileStream", "file", directory=directory, filter=filter, new_files_only=newFilesOnly, read=read
        )

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
            receiver = self.make("receivers", receiver, options)
        elif options:
            raise ConfigurationError("options are for a receiver given by its name; this one is ready made")
        if not isinstance(receiver, Receiver):
            raise ConfigurationError(
                f"a receiver must derive from penstock.Receiver; {type(receiver).__name__} does not"
            )
        return ReceiverInputDStream(self._context, receiver)

    def queueStream(
        self,
        rdds: Sequence[Any] | deque[Any] | queue.Queue[Any],
        oneAtATime: bool = True,
        default: RDD[Any] | Iterable[Any] | None = None,
    ) -> DStream[Any]:
        """Take RDDs (or collections) from a queue, one a batch or all at once. For tests and demonstrations.

        Args:
            rdds: a list, whose later changes are ignored; or a ``deque`` or ``queue.Queue``, which may be filled while
                the context runs.
            oneAtATime: take one a batch.
            default: for batches that find the queue empty; an empty RDD otherwise.

        Raises:
            IndexError: the list is empty and there is no default: every batch would be empty.
            TypeError: it is no queue and no sequence.
        """
        if not isinstance(rdds, Sequence | queue.Queue) or isinstance(rdds, str | bytes):
            raise TypeError(f"queueStream takes a list of RDDs, a deque or a queue.Queue, not {type(rdds).__name__}")
        if isinstance(rdds, Sequence) and not isinstance(rdds, deque):
            if not rdds and default is None:
                raise IndexError(
                    "queueStream got an empty list and no default; give a deque or queue.Queue to fill it later"
                )
            rdds = deque(self._rdd(item) for item in rdds)
        made = None if default is None else self._rdd(default)
        return QueueInputDStream(self._context, rdds, one_at_a_time=oneAtATime, default=made)

    def union(self, *dstreams: DStream[Any]) -> DStream[Any]:
        """Put the records of several streams together.

        Raises:
            TypeError: one is no stream.
            ValueError: there is none, or their slide durations differ.
        """
        if not dstreams:
            raise ValueError("should have at least one DStream to union")
        if len(dstreams) == 1:
            return arguments.stream("union", dstreams[0])
        if len({arguments.stream("union", stream).slide_ms for stream in dstreams}) > 1:
            raise ValueError("All DStreams should have same slide duration")
        if any(stream.context() is not self for stream in dstreams):
            raise ValueError("All DStreams should belong to this StreamingContext")
        return UnionDStream(dstreams)

    def transform(self, dstreams: Sequence[DStream[Any]], transformFunc: Callable[..., Any]) -> DStream[Any]:
        """Make one RDD of several streams': ``transformFunc`` gets the RDDs, in the order of the streams, once a batch.

        Raises:
            TypeError: something given is no stream, or the function is none.
            ValueError: there is no stream, or their slide durations differ.
        """
        streams = tuple(arguments.stream("transform", each) for each in dstreams)
        if not streams:
            raise ValueError("should have at least one DStream to transform")
        function = arguments.called("transformFunc", transformFunc)
        return TransformedDStream(streams, lambda _time, *rdds: function(rdds))

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
        return PulledInputDStream(self._context, _MakeSource(self._context, name, options))

    @abstractmethod
    def check_can_build(self, what: str) -> None:
        """Refuse to add to the graph once it runs."""

    def _rdd(self, records: RDD[Any] | Iterable[Any]) -> RDD[Any]:
        return records if isinstance(records, RDD) else self._sc.parallelize(records)

    def _socket(self, method: str, name: str, level: StorageLevel, **options: Any) -> ReceiverInputDStream:
        self._check_offered(method, "receivers", name, "penstock-socket")
        receiver = self.make("receivers", name, options)
        receiver.storageLevel = level
        return ReceiverInputDStream(self._context, receiver)

    def _files(self, method: str, name: str, **options: Any) -> DStream[Any]:
        self.check_can_build(method)
        self._check_offered(method, "input_streams", name, "penstock-file")
        return self.input_stream(name, **options)

    def _check_offered(self, method: str, hook: str, name: str, distribution: str) -> None:
        """Refuse a method of Spark's that needs a plugin that is not there."""
        if name not in self.plugins.specs(hook):
            raise ConfigurationError(
                f"{method} needs the {KINDS[hook][0]} {name!r}, which no plugin offers: pip install {distribution}"
            )

    def make(self, hook: str, name: str, options: dict[str, Any]) -> Any:
        """Make what a plugin offers, with options that win over those of the configuration."""
        spec = self.plugins.spec(hook, name)
        given = {**self.settings.with_prefix(f"spark.penstock.{_SECTION[hook]}.{name}."), **options}
        read = read_options(KINDS[hook][0], spec, given)
        return spec.factory() if spec.options is None else spec.factory(read)


@frozen
class _MakeSource:
    """Makes a source that a plugin offers; in a program that goes on from a checkpoint it is made anew."""

    context: StreamingContext
    name: str
    options: dict[str, Any]

    def __call__(self) -> InputSource:
        """The source."""
        source: InputSource = self.context.make("input_streams", self.name, self.options)
        return source
