"""Gathers what the batches of a program compute into the answer that all programs of a task must agree on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

from benchmarks.data import STAMP, digest


class Answers:
    """The answers of the batches so far. Batches run one at a time; nothing is locked.

    Args:
        work: one of the works on lines.

    Attributes:
        delays_ms: end-to-end delay of each stamped line.
    """

    def __init__(self, work: str) -> None:
        self._work = work
        self._number = 0
        self._words: Counter[str] = Counter()
        self._tops: list[list[list[Any]]] = []
        self.delays_ms: list[float] = []

    def add_number(self, number: int) -> None:
        """Add the counts of a batch."""
        self._number += number

    def add_words(self, counts: Iterable[tuple[str, int]]) -> None:
        """Add how often each word is in a batch; a stamp gives a delay instead."""
        now_us = time.time_ns() / 1000
        for word, count in counts:
            if word.startswith(STAMP):
                self.delays_ms.append((now_us - int(word[1:])) / 1000)
            else:
                self._words[word] += count

    def add_top(self, counts: Iterable[tuple[str, int]]) -> None:
        """Add the most frequent words of a batch, unless it is empty."""
        if top := [[word, count] for word, count in counts]:
            self._tops.append(top)

    def answer(self, records: int) -> Any:
        """The answer of the whole task, which had this many records."""
        if self._work == "wordcount":
            return digest(self._words)
        if self._work == "topk":
            return self._tops
        return records if self._work == "receive" else self._number
