"""``CompletedOutputs``: which output operations are done, so that a later run does not repeat them.

Owns a journal of its own, in which each is noted before its batch can be complete. An output that was done and not yet
noted when the driver died is repeated: what it writes must bear that. Called on the job pool and the generator's loop.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.checkpoint.restore_streams import function_name
from penstock.checkpoint.stream_names import named
from penstock.journal.write_ahead_log import WriteAheadLog

if TYPE_CHECKING:
    from penstock.graph.outputs import ForEachDStream


class CompletedOutputs:
    """Note and ask.

    Args:
        journal: not started yet; what it says of this run is recovered at once.
        names: of the output operations, by their number.

    Raises:
        WriteAheadLogError: the journal cannot be read, or is damaged.
    """

    def __init__(self, journal: WriteAheadLog, names: Mapping[int, str]) -> None:
        self._journal, self._names = journal, names
        self._done = _Done()
        journal.recover(self._done)

    def start(self) -> None:
        """Start the journal.

        Raises:
            WriteAheadLogError: it cannot be written.
        """
        self._journal.start()

    def note(self, time_ms: int, output_op_id: int) -> None:
        """An output operation of a batch is done.

        Raises:
            WriteAheadLogError: that cannot be written.
        """
        self._journal.append({"time": time_ms, "output": self._names[output_op_id]})

    def has(self, time_ms: int, output_op_id: int) -> bool:
        """Whether an output operation of a batch was done, in this run or one before."""
        return self._done.has(time_ms, self._names[output_op_id])

    def clean_up(self, before_ms: int) -> None:
        """Forget batches strictly older than a time, which no run will make again.

        Raises:
            WriteAheadLogError: that cannot be written.
        """
        if self._done.has_older(before_ms):
            self._journal.append({"before": before_ms})

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()


def output_names(outputs: Sequence[ForEachDStream]) -> dict[int, str]:
    """By which a later run knows outputs, by their number.

    The only one of its kind of a stream that the program names is known by that name. Another one may be taken for
    something new when the code changes, and repeated, but not for another: its place is in its name, its function, and
    how many outputs there are.
    """
    counted = Counter(map(_said, outputs))
    names = {}
    for name, output in named(outputs, outputs).items():
        said = _said(output)
        if not said or counted[said] > 1:
            said = f"{name} of {len(outputs)}, {function_name(output.function)}, {output.call_site.short}"
        names[output.output_op_id] = said
    return names


def _said(output: ForEachDStream) -> str:
    """The name that the program gives; empty for none."""
    (stream,) = output.parents
    return "" if stream.name is None else f"{output.call_site.operation} of {stream.name}"


class _Done:
    """What the journal's events come to."""

    def __init__(self) -> None:
        self._outputs: dict[int, set[str]] = {}
        self._lock = threading.Lock()

    def apply(self, event: Mapping[str, Any]) -> None:
        with self._lock:
            if "before" in event:
                self._outputs = {time: names for time, names in self._outputs.items() if time >= event["before"]}
            else:
                self._outputs.setdefault(event["time"], set()).add(event["output"])

    def events(self) -> list[dict[str, Any]]:
        with self._lock:
            return list(_events(self._outputs))

    def has(self, time_ms: int, name: str) -> bool:
        with self._lock:
            return name in self._outputs.get(time_ms, ())

    def has_older(self, before_ms: int) -> bool:
        with self._lock:
            return any(time < before_ms for time in self._outputs)


def _events(outputs: Mapping[int, Iterable[str]]) -> Iterable[dict[str, Any]]:
    return ({"time": time, "output": name} for time, names in outputs.items() for name in sorted(names))
