"""``Checkpoint``: everything that a run needs to recover from an earlier one, as values and JSON.

Reading a checkpoint executes no code: the program's pickled functions are in a file of their own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

import cattrs
from attrs import asdict, field, frozen

from penstock.errors import CheckpointError, other_version, summary_of

#: Version of the JSON below; every other version is refused.
FORMAT = 3
#: Folder of the receivers' blocks.
RECEIVED_DATA = "receivedData"
#: Folder of the driver write-ahead log: received blocks, and the batch that each is allocated to.
BLOCK_LOG = "receivedBlockMetadata"
#: Folder of the log of completed output operations.
COMPLETED_OUTPUTS = "completedOutputs"


@frozen
class SavedState:
    """The checkpointed state of one stateful stream.

    Attributes:
        name: the stream's name, see ``stream_names.assign``.
        operation: the DStream method that made the stream.
        call_site: function, file and line of the call in the program.
        num_partitions: number of partitions in each of its RDDs.
        partitioned_by: full name of the partition function.
        files: checkpointed RDDs by batch time in ms, relative to the checkpoint directory.
        store: folder of the stream's state store, relative to the checkpoint directory; empty if it has none.
    """

    name: str
    operation: str
    call_site: str
    num_partitions: int
    partitioned_by: str
    files: dict[int, str]
    store: str = ""


@frozen
class SavedInput:
    """One input stream.

    Attributes:
        name: the stream's name, see ``stream_names.assign``.
        operation: the method that made the stream.
        stream_id: the id under which its blocks are stored.
        rate: the receiver's rate limit, records/s; ``None`` if it had none.
        position: position of its source, JSON values; ``None`` if the source has none.
    """

    name: str
    operation: str
    stream_id: int
    rate: float | None = None
    position: dict[str, Any] | None = None


@frozen(kw_only=True)
class Checkpoint:
    """A run at one moment.

    Attributes:
        number: higher than that of every checkpoint written before in this directory.
        written_ms: when it was gathered.
        application: name of the Spark application.
        run: id of the run; a recovered run keeps it.
        hash_seed: ``PYTHONHASHSEED`` of the Python workers; it decides in which partition a key is.
        batch_interval_ms: the batch interval.
        versions: Penstock's, PySpark's and Python's.
        zero_time_ms: the graph's zero time; -1 before it is known.
        last_time_ms: the youngest generated batch; zero time before the first, -1 before zero time is known.
        pending: generated batches that are not complete, each with the number of runs that have begun it.
        needed_ms: recovery from here needs no blocks of batches strictly older than this.
        states: one entry for each stateful stream.
        inputs: the input streams.
        listeners: values that listeners have saved, by listener name.
        conf: the configuration in force, without secrets.
        program: file of the pickled program; ``None`` if its own code rebuilds it.
        folders: folders in the checkpoint directory that this run or an earlier one has written.
        next_stream_id: lower bound for the ids of new input streams; no input has had this id or a higher one.
        later_attempts: number of runs that may have begun batches younger than ``last_time_ms``.
        logged_events: number of events committed to the driver write-ahead log; 0 if it is off.
        launched_as: the application name given when the process was launched; empty if none was given.
    """

    #: The version of this format.
    format: ClassVar[int] = FORMAT

    number: int
    written_ms: int
    application: str
    run: str
    hash_seed: str
    batch_interval_ms: int
    versions: dict[str, str] = field(factory=dict)
    zero_time_ms: int = -1
    last_time_ms: int = -1
    pending: dict[int, int] = field(factory=dict)
    needed_ms: int = -1
    states: list[SavedState] = field(factory=list)
    inputs: list[SavedInput] = field(factory=list)
    listeners: dict[str, Any] = field(factory=dict, repr=False)
    conf: dict[str, str] = field(factory=dict, repr=False)
    program: str | None = None
    folders: list[str] = field(factory=list)
    next_stream_id: int = 0
    later_attempts: int = 1
    logged_events: int = 0
    launched_as: str = ""

    def to_json(self) -> bytes:
        """Encode as UTF-8 JSON.

        Raises:
            CheckpointError: a value is not JSON-serializable; names it.
        """
        try:
            return json.dumps({"format": FORMAT, **asdict(self)}, separators=(",", ":")).encode()
        except (TypeError, ValueError, RecursionError) as error:
            wrong = [f"the position of input stream {each.name}" for each in self.inputs if not _is_json(each.position)]
            raise CheckpointError(f"{', '.join(wrong) or 'the checkpoint'} is not valid JSON: {error}") from error

    @staticmethod
    def from_json(data: bytes) -> Checkpoint:
        """Decode what ``to_json`` encoded.

        Raises:
            CheckpointError: it has another format version, or is not a checkpoint.
        """
        try:
            values = json.loads(data)
            if not isinstance(values, Mapping) or "format" not in values:
                raise ValueError("it has no format version")
            if values["format"] != FORMAT:
                raise CheckpointError(other_version("it", values["format"], FORMAT))
            read = _CONVERTER.structure({name: value for name, value in values.items() if name != "format"}, Checkpoint)
            if read.last_time_ms < read.zero_time_ms:
                raise ValueError(f"its last batch, {read.last_time_ms} ms, is before zero time, {read.zero_time_ms} ms")
            return read
        except CheckpointError:
            raise
        except Exception as error:
            raise CheckpointError(f"it is not a Penstock checkpoint: {summary_of(error)}") from error


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


_CONVERTER = cattrs.Converter(forbid_extra_keys=True)
