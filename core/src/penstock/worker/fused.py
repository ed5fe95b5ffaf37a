"""``FusedChain``: the operators of a task as generated Python code.

A run of operators becomes one function of plain loops, which a worker compiles once. A StopIteration of the program's
functions is an error, because the generated functions are generators or generators call them.
"""

from __future__ import annotations

import functools
import linecache
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

from attrs import frozen

from penstock.worker.functions import PartitionFunction, check_pair

Kind = Literal["map", "flatMap", "filter", "mapValues", "flatMapValues", "checkPairs"]

_PAIR = """\
try:
    {key}, {value} = {record}[0], {record}[1]
except (TypeError, LookupError):
    check_pair({record})
    raise
"""
# The lines of an operator; the lines of the next operator are nested in a `for` or an `if`. Pairs are read by position,
# as in PySpark: further elements of a record are dropped.
_OPERATORS = {
    "map": "{result} = {function}({record})",
    "flatMap": "for {result} in {function}({record}):",
    "filter": "if {function}({record}):",
    "mapValues": _PAIR + "{result} = {key}, {function}({value})",
    "flatMapValues": _PAIR + "for {item} in {function}({value}):\n    {result} = {key}, {item}",
    "checkPairs": """\
try:
    {key}, {value} = {record}
    hash({key})
except (TypeError, ValueError):
    check_pair({record})
    raise""",
}
# The length of an iterator is unknown, so memory is checked while it is read.
_CHECK_MEMORY = """\
if type({items}) is not list:
    {items} = with_memory_checks({items})
"""
# The operators before a reduction.
_BEFORE_REDUCTION = _OPERATORS | {
    "flatMap": "{items} = {function}({record})\n" + _CHECK_MEMORY + "for {result} in {items}:",
    "flatMapValues": _PAIR
    + "{items} = {function}({value})\n"
    + _CHECK_MEMORY
    + "for {item} in {items}:\n    {result} = {key}, {item}",
}
#: Operators that turn one record into several.
EXPANDING = frozenset({"flatMap", "flatMapValues"})
_KEEPS_RECORD = frozenset({"filter", "checkPairs"})
_NESTING = EXPANDING | {"filter"}
# CPython compiles at most 20 nested loops, and 100 levels of indentation.
_MAX_NESTED = 12

_FIND = """\
try:
    key, value = {record}
    combiner = find(key, missing)
except (TypeError, ValueError):
    check_pair({record})
    raise
"""
# The code that receives the records of the last operator of a run.
_ENDINGS = {
    "yield": "yield {record}",
    "combineByKey": _FIND + "combined[key] = create(value) if combiner is missing else merge(combiner, value)",
    "reduceByKey": _FIND + "combined[key] = value if combiner is missing else merge(combiner, value)",
    "sumByKey": _FIND + "combined[key] = value if combiner is missing else combiner + value",
}


@frozen
class Step:
    """An operator on single records, with the program's function if it takes one."""

    kind: Kind
    function: Callable[[Any], Any] | None = None


#: Rejects records that are not pairs, and keys that cannot be hashed, before a shuffle by key.
CHECK_PAIRS = Step("checkPairs")


class TerminalStep(ABC):
    """An operator that reads all records of a partition: a run of operators ends with it."""

    @abstractmethod
    def results(self, run: tuple[Step, ...], records: Iterable[Any]) -> Iterator[Any]:
        """The results for the records that a run of operators computes from ``records``. Must be a generator."""


#: A link of a chain: an operator, or another partition function.
AnyStep = Step | TerminalStep | PartitionFunction


@frozen
class FusedChain:
    """Partition function of several consecutive operators. Nothing runs until its results are read."""

    steps: tuple[AnyStep, ...]

    def __call__(self, index: int, records: Iterable[Any]) -> Iterable[Any]:
        run: tuple[Step, ...] = ()
        for step in self.steps:
            if isinstance(step, Step):
                if step.kind in _NESTING and sum(outer.kind in _NESTING for outer in run) == _MAX_NESTED:
                    records, run = generated(run, records), ()
                run = (*run, step)
                continue
            records = (
                step.results(run, records) if isinstance(step, TerminalStep) else step(index, generated(run, records))
            )
            run = ()
        return generated(run, records)


def generated(run: tuple[Step, ...], records: Iterable[Any]) -> Iterable[Any]:
    """The records that a run of operators computes."""
    if not run:
        return records
    results: Iterable[Any] = compiled(kinds(run), "yield")(records, *functions_of(run))
    return results


def kinds(run: Sequence[Step]) -> tuple[Kind, ...]:
    """The operators of a run."""
    return tuple(step.kind for step in run)


def functions_of(run: Sequence[Step]) -> list[Callable[[Any], Any]]:
    """The functions that the code of a run calls, in order."""
    return [step.function for step in run if step.function is not None]


@functools.lru_cache(maxsize=1000)
def compiled(operators: tuple[Kind, ...], ending: str) -> Callable[..., Any]:
    """The function for a sequence of operators and the kind of the step after them; ``source_of`` has its parameters.

    For the ending ``yield`` it is a generator function.
    """
    source = source_of(operators, ending)
    name = f"<penstock {' · '.join([*operators, *([] if ending == 'yield' else [ending])])}>"
    # `linecache` never drops an entry without a modification time.
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    names: dict[str, Any] = {"check_pair": check_pair}
    exec(compile(source, name, "exec"), names)
    function: Callable[..., Any] = names["chain"]
    return function


def source_of(operators: Sequence[str], ending: str) -> str:
    """The source of the function for a sequence of operators."""
    yields, depth = ending == "yield", 1
    templates = _OPERATORS if yields else _BEFORE_REDUCTION
    functions = [f"{kind}_{number}" for number, kind in enumerate(operators, 1) if kind != "checkPairs"]
    if yields:
        lines = [f"def chain({', '.join(['records', *functions])}):"]
    else:
        parameters = ["groups", *functions, "combined", "create", "merge", "with_memory_checks", "missing"]
        lines = [f"def chain({', '.join(parameters)}):"]
        lines += ["    find = combined.get", "    for records in groups:"]
        depth = 2
    lines.append("    " * depth + "for record in records:")
    depth, record = depth + 1, "record"
    for number, kind in enumerate(operators, 1):
        result = record if kind in _KEEPS_RECORD else f"record_{number}"
        text = templates[kind].format(
            record=record,
            result=result,
            function=f"{kind}_{number}",
            key=f"key_{number}",
            value=f"value_{number}",
            item=f"item_{number}",
            items=f"items_{number}",
        )
        lines += ["    " * depth + line for line in text.splitlines()]
        depth += 1 if kind in _NESTING else 0
        record = result
    lines += ["    " * depth + line for line in _ENDINGS[ending].format(record=record).splitlines()]
    return "\n".join([*lines, ""])
