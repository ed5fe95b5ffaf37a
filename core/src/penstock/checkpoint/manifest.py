"""``Checkpoint``: what a run must know to go on where an earlier one was.

Owns the values and their JSON: batches, where states are, positions of sources, rates. Declarative: nothing in it is
code, and it is read without running any; the program's functions are in a file beside it (``SavedProgram``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import cattrs
from attrs import asdict, field, frozen

from penstock.errors import CheckpointError

#: Of the form below; another one is refused by name.
FORMAT = 1


@frozen
class SavedTable:
    """A stream that carries something on from batch to batch.

    Attributes:
        name: the program's, or ours.
        operation: what the program called to make it.
        call_site: where.
        num_partitions: of its tables.
        partitioned_by: name of the function from a key to a partition.
        files: where its tables are checkpointed, by batch time; in the checkpoint directory.
        home: where it keeps more than that, in the checkpoint directory; empty for nowhere.
    """

    name: str
    operation: str
    call_site: str
    num_partitions: int
    partitioned_by: str
    files: dict[int, str]
    home: str = ""


@frozen
class SavedInput:
    """An input stream.

    Attributes:
        name: the program's, or ours.
        operation: what the program called to make it.
        stream_id: by which its blocks are known.
        rate: that its receiver kept to, records/s; ``None`` when none was set.
        position: where its source is, ``None`` when it says nothing.
    """

    name: str
    operation: str
    stream_id: int
    rate: float | None = None
    position: dict[str, Any] | None = None


@frozen
class SavedFile:
    """A file beside the checkpoint, and what it must be.

    Attributes:
        name: in the checkpoint directory.
        num_bytes: its size.
        checksum: of its bytes.
    """

    name: str
    num_bytes: int
    checksum: int


@frozen(kw_only=True)
class Checkpoint:
    """A run at one moment.

    Attributes:
        number: each one written has a higher number than all before it.
        written_ms: when.
        application: name of the application.
        run: of which it is; kept from a run to the one that goes on from it.
        versions: of Penstock, PySpark and Python.
        hash_seed: by which Python's workers hash strings, and so partition.
        batch_interval_ms: between two batches.
        zero_time_ms: of the graph.
        last_time_ms: the youngest batch generated; zero time before the first.
        pending: batches generated and not complete, and how many runs have begun each.
        needed_ms: blocks of batches strictly older than that are not needed to go on from here.
        tables: what is carried on.
        inputs: where data comes from.
        listeners: what listeners keep, by name.
        conf: in force; without secrets.
        program: the pickled functions, ``None`` when the program is made anew by its own code.
        folders: in the checkpoint directory, which hold what this run or one before has written.
        next_stream_id: no input has had that number, or a higher one.
        begun: how many runs may have begun a batch that is younger than the youngest.
        journaled: how many events of blocks and batches were committed; 0 where they are not written down.
        launched_as: the application's name as the launch of its process gave it; empty when it gave none.
    """

    number: int
    written_ms: int
    application: str
    run: str
    versions: dict[str, str]
    hash_seed: str
    batch_interval_ms: int
    zero_time_ms: int
    last_time_ms: int
    pending: dict[int, int] = field(factory=dict)
    needed_ms: int = -1
    tables: list[SavedTable] = field(factory=list)
    inputs: list[SavedInput] = field(factory=list)
    listeners: dict[str, Any] = field(factory=dict, repr=False)
    conf: dict[str, str] = field(factory=dict, repr=False)
    program: SavedFile | None = None
    folders: list[str] = field(factory=list)
    next_stream_id: int = 0
    begun: int = 1
    journaled: int = 0
    launched_as: str = ""

    def to_json(self) -> bytes:
        """As UTF-8 JSON.

        Raises:
            CheckpointError: something in it has none; says what.
        """
        try:
            return json.dumps({"format": FORMAT, **asdict(self)}, separators=(",", ":")).encode()
        except (TypeError, ValueError, RecursionError) as error:
            wrong = [f"the position of input stream {each.name}" for each in self.inputs if not _is_json(each.position)]
            raise CheckpointError(f"{', '.join(wrong) or 'the checkpoint'} is no JSON: {error}") from error

    @staticmethod
    def from_json(data: bytes) -> Checkpoint:
        """Read what ``to_json`` made.

        Raises:
            CheckpointError: it is of another format, or is none.
        """
        try:
            values = json.loads(data)
            if not isinstance(values, Mapping) or "format" not in values:
                raise ValueError("it has no format")
            if values["format"] != FORMAT:
                raise CheckpointError(
                    f"it has format {values['format']!r} and this version of Penstock reads format {FORMAT}: go on "
                    "with the version that wrote it, or start afresh in another checkpoint directory"
                )
            read = _CONVERTER.structure({name: value for name, value in values.items() if name != "format"}, Checkpoint)
            if read.last_time_ms < read.zero_time_ms:
                raise ValueError(f"its last batch, {read.last_time_ms} ms, is before zero time, {read.zero_time_ms} ms")
            return read
        except CheckpointError:
            raise
        except Exception as error:
            raise CheckpointError(f"it is no checkpoint of Penstock's: {type(error).__name__}: {error}") from error


def _is_json(value: Any) -> bool:
    """Whether a value can be written."""
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


_CONVERTER = cattrs.Converter(forbid_extra_keys=True)
