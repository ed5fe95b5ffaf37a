"""``Chunk``: how tables travel from batch to batch: the pairs of a partition in runs, with the time they are of.

Owns the form and the ways in and out of it. What a state function failed on travels beside it, so that the state of all
other keys goes on, and is raised where the program looks at the batch. Runs in tasks.
"""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Iterable, Iterator
from typing import Any

from attrs import define, field, frozen

from penstock.errors import StateUpdateError, text_of

# Pairs of a run: one pickle, which must stay far below the 2 GB that Spark can hold.
_PAIRS_PER_CHUNK = 1_000
# What is told of a partition whose keys all fail.
_FAILURES_TOLD = 10


@frozen
class Chunk:
    """Some pairs of a table.

    Attributes:
        time_ms: of the batch that made them.
        pairs: key and value; no key twice in one table.
    """

    time_ms: int
    pairs: list[tuple[Any, Any]]


@define
class Failures:
    """The keys on which a function of the program failed in one partition.

    Attributes:
        count: how many.
        told: what happened, for the first of them.
    """

    count: int = 0
    told: list[str] = field(factory=list)

    def add(self, key: Any, error: Exception) -> None:
        """Note what the function raised for a key."""
        self.count += 1
        if self.count <= _FAILURES_TOLD:
            # Without our own frame, the outermost.
            frames = "".join(traceback.format_list(traceback.extract_tb(error.__traceback__)[1:]))
            self.told.append(f"key {key!r}: {type(error).__name__}: {text_of(error)}\n{frames}")

    @staticmethod
    def all_of(several: list[Failures]) -> Failures:
        """Those of several partitions."""
        told = [each for failures in several for each in failures.told]
        return Failures(sum(failures.count for failures in several), told[:_FAILURES_TOLD])

    def as_error(self) -> StateUpdateError:
        """The error that the batch ends with."""
        first = self.told[0].splitlines()[0]
        more = f"... and {self.count - len(self.told)} more" if self.count > len(self.told) else ""
        told = "".join(self.told)
        return StateUpdateError(
            f"the state of {self.count} key(s) was not updated, first that of {first}; these states are as they were "
            f"before, those of the others went on\n{told}{more}".rstrip()
        )


def chunks_of(time_ms: int, pairs: Iterable[tuple[Any, Any]], kind: type[Chunk] = Chunk) -> Iterator[Chunk]:
    """Put pairs into chunks of one kind."""
    source = iter(pairs)
    while run := list(itertools.islice(source, _PAIRS_PER_CHUNK)):
        yield kind(time_ms, run)


@frozen
class ToChunks:
    """From pairs to a table."""

    time_ms: int

    def __call__(self, _index: int, records: Iterable[tuple[Any, Any]]) -> Iterator[Chunk]:
        """In runs."""
        return chunks_of(self.time_ms, records)


@frozen
class ToPairs:
    """From a table to its pairs."""

    def __call__(self, _index: int, elements: Iterable[Chunk | Failures]) -> Iterator[tuple[Any, Any]]:
        """All of them; raises what the program's function failed on."""
        for element in elements:
            if isinstance(element, Failures):
                raise element.as_error()
            yield from element.pairs
