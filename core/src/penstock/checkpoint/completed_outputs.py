"""``CompletedOutputs``: the log of completed output operations, so that a recovered run does not repeat them.

If the driver dies between the output and the log entry, the output runs again, which programs must tolerate. The job
pool, the generator's loop and the writer's thread use the log.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.checkpoint.stream_names import assign, function_name
from penstock.journal.segment import Event
from penstock.journal.write_ahead_log import LogState, WriteAheadLog

if TYPE_CHECKING:
    from penstock.graph.outputs import ForEachDStream


class CompletedOutputs(LogState):
    """The completed output operations of this run and the one it recovers from, by their ``names``."""

    def __init__(self, wal: WriteAheadLog, names: Mapping[int, str]) -> None:
        self._wal = wal
        self._names = names
        self._completed: dict[int, set[str]] = {}
        self._lock = threading.Lock()
        wal.recover(self)

    def start(self) -> None:
        """Open the log for writing."""
        self._wal.start()

    def note(self, time_ms: int, output_op_id: int) -> None:
        """Log that an output operation of a batch has completed."""
        self._wal.append({"time": time_ms, "output": self._names[output_op_id]})

    def has(self, time_ms: int, output_op_id: int) -> bool:
        """Whether an output operation of a batch has completed, in this run or an earlier one."""
        with self._lock:
            return self._names[output_op_id] in self._completed.get(time_ms, ())

    def clean_up(self, before_ms: int, pending: Collection[int] = ()) -> None:
        """Forget batches strictly older than a time, except pending ones."""
        with self._lock:
            has_older = any(time_ms < before_ms and time_ms not in pending for time_ms in self._completed)
        if has_older:
            self._wal.append({"before": before_ms, "pending": sorted(pending)})

    def close(self) -> None:
        """Close the log."""
        self._wal.close()

    def apply(self, event: Event) -> None:
        with self._lock:
            if "before" in event:
                before_ms, pending = event["before"], event.get("pending", ())
                completed = self._completed.items()
                self._completed = {time: names for time, names in completed if time >= before_ms or time in pending}
            else:
                self._completed.setdefault(event["time"], set()).add(event["output"])

    def events(self) -> list[Event]:
        with self._lock:
            return [{"time": time, "output": name} for time, names in self._completed.items() for name in sorted(names)]


def output_names(outputs: Sequence[ForEachDStream]) -> dict[int, str]:
    """Names, by output operation id, that a later run recognizes: it may repeat an output, but confuses none."""
    counted = Counter(map(_program_name, outputs))
    names = {}
    for position, output in assign(outputs, outputs).items():
        name = _program_name(output)
        if not name or counted[name] > 1:
            name = f"{position} of {len(outputs)}, {function_name(output.function)}, {output.call_site.short}"
        names[output.output_op_id] = name
    return names


def _program_name(output: ForEachDStream) -> str:
    """The name from the program's ``setName``; empty without one."""
    (stream,) = output.parents
    return "" if stream.name is None else f"{output.call_site.operation} of {stream.name}"
