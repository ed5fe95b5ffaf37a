"""The task of a measured program, and its result."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

import cattrs
from attrs import asdict, field, frozen

#: The programs' standard output may hold other lines.
_MARK = "RESULT "

#: Works that read lines from sockets, and those that read batches from queues.
LINE_WORKS = ("receive", "count", "grep", "wordcount", "topk")
QUEUE_WORKS = ("window", "updateStateByKey", "mapWithState", "streams")


class NotAvailableError(Exception):
    """The task needs something that does not exist here; the message names it."""


@frozen
class Task:
    """One measurement, as its program gets it.

    Attributes:
        work: one of the works above.
        cores: how many tasks may run at once, without receivers.
        ports: where lines are served, one port per receiver.
        records: lines on all ports together, after which the program ends; 0: it ends after ``batches``.
        warm_up: how many of them are sent first and not counted.
        batches: how many batches to run where ``records`` is 0.
        interval_s: batch interval.
        is_paced: whether lines arrive at a pace, so that an engine without batches gives counts every interval.
        library: package that has the StreamingContext.
        api: ``rows``, ``dataframe`` or ``arrow``.
        source: Structured Streaming's source, ``socket``, ``python``, ``arrow``, ``memory`` or ``penstock``.
        seed: of the batches in queues.
        batch_records: records of each batch in a queue.
        keys: number of different keys in queues.
        slides: window length in batches.
        streams: number of queues.
        conf: configuration of Spark.
        deadline_s: after which it gives up.
    """

    work: str
    cores: int = 2
    ports: tuple[int, ...] = ()
    records: int = 0
    warm_up: int = 0
    batches: int = 0
    interval_s: float = 1.0
    is_paced: bool = False
    library: str = ""
    api: str = "rows"
    source: str = ""
    seed: int = 7
    batch_records: int = 1000
    keys: int = 1000
    slides: int = 1
    streams: int = 1
    conf: Mapping[str, str] = field(factory=dict)
    deadline_s: float = 300.0

    def as_json(self) -> str:
        """The task as an argument of a program."""
        return json.dumps(asdict(self))


@frozen
class Batch:
    """One batch that ran.

    Attributes:
        records: how many it had.
        scheduling_ms: how long it waited; ``None`` where batches do not wait.
        processing_ms: how long its jobs took.
        end_s: when it ended, in seconds of the epoch.
    """

    records: int
    scheduling_ms: float | None
    processing_ms: float
    end_s: float


@frozen
class Result:
    """The measurements and the answer of a program.

    Attributes:
        batches: in their order.
        answer: what the program computed; equal for all programs of a task.
        delays_ms: end-to-end delay of each stamped line.
        reason: why there are no figures; empty if there are.
        started_s: when the query or the context was started, in seconds of the epoch; 0 where there is neither.
    """

    batches: tuple[Batch, ...] = ()
    answer: Any = None
    delays_ms: tuple[float, ...] = ()
    reason: str = ""
    started_s: float = 0.0

    @property
    def records(self) -> int:
        """Records of all batches."""
        return sum(batch.records for batch in self.batches)


def run_program(run: Callable[[Task], Result]) -> None:
    """Run the task that the command line has and print its result; called by each program."""
    task = cattrs.structure(json.loads(sys.argv[1]), Task)
    try:
        result = run(task)
    except NotAvailableError as error:
        result = Result(reason=str(error))
    print(f"\n{_MARK}{json.dumps(asdict(result))}", flush=True)


def parse_result(output: str) -> Result | None:
    """The result in a program's standard output; ``None`` if it printed none."""
    for line in reversed(output.splitlines()):
        if line.startswith(_MARK):
            return cattrs.structure(json.loads(line.removeprefix(_MARK)), Result)
    return None
